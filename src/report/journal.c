/* Lines that are written whole, or counted as lost; and files that give way to newer ones. See journal.h. */
#include "report/journal.h"

#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct culm_journal {
    int fd;
    struct culm_journal_limits limits;
    int64_t size, lost;
    bool torn;    /* the file ends with a part of a line that could not be taken back */
    bool failing; /* the last line was lost */
    bool astray;  /* there is no file at the path, and none can be made there */
    char *head;   /* of each file, with its end; NULL: none */
    char *line;   /* room for one, with what comes before it and its end */
    size_t capacity;
    char path[CULM_PATH_MAX];
};

/* --- one line --- */

/* All of it, or what errno says; ret_written tells how much of it is there. */
static bool write_all(int fd, const char *at, size_t len, size_t *ret_written) {
    *ret_written = 0;
    while (*ret_written < len) {
        const ssize_t n = write(fd, at + *ret_written, len - *ret_written);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            errno = n < 0 ? errno : ENOSPC;
            return false;
        }
        *ret_written += (size_t)n;
    }
    return true;
}

/* False, with errno: it is not there, and no part of it unless `torn` says so. */
static bool append(struct culm_journal *journal, const char *text, size_t len) {
    size_t written;
    const bool ok = write_all(journal->fd, text, len, &written);
    const int reason = errno;
    if (!ok && written > 0 && ftruncate(journal->fd, journal->size) != 0) {
        journal->torn = true;
        journal->size += (int64_t)written;
    } else if (ok) {
        journal->size += (int64_t)len;
    }
    errno = reason;
    return ok;
}

/* --- files that give way --- */

/* The number of a renamed file, "NAME.N", N from 1; 0: it is none. */
static int64_t number_of(const char *entry, const char *name) {
    const size_t len = strlen(name);
    char *end;
    if (strncmp(entry, name, len) != 0 || entry[len] != '.' || entry[len + 1] < '1' ||
        entry[len + 1] > '9') {
        return 0;
    }
    errno = 0;
    const int64_t number = strtoll(entry + len + 1, &end, 10);
    return errno == 0 && *end == '\0' ? number : 0;
}

struct renamed {
    int64_t oldest, newest; /* their numbers; 0: there is none */
    int64_t bytes;
};

static bool find_renamed(const struct culm_journal *journal, struct renamed *ret) {
    char dir[CULM_PATH_MAX];
    const char *slash = strrchr(journal->path, '/'), *name = slash ? slash + 1 : journal->path;
    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - journal->path) + 1 : 1,
             slash ? journal->path : ".");
    *ret = (struct renamed){0};
    DIR *folder = opendir(dir);
    if (!folder) {
        return false;
    }
    for (const struct dirent *entry; (entry = readdir(folder));) {
        const int64_t number = number_of(entry->d_name, name);
        struct stat info;
        if (number > 0 && fstatat(dirfd(folder), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(info.st_mode)) {
            ret->oldest = ret->oldest == 0 || number < ret->oldest ? number : ret->oldest;
            ret->newest = number > ret->newest ? number : ret->newest;
            ret->bytes += info.st_size;
        }
    }
    closedir(folder);
    return true;
}

static bool renamed_path(const struct culm_journal *journal, int64_t number,
                         char path[CULM_PATH_MAX]) {
    return culm_path_format(path, NULL, "%s.%lld", journal->path, (long long)number) == CULM_OK;
}

/* Removes the oldest while they and a whole new one take more than they may. */
static void prune(const struct culm_journal *journal) {
    struct renamed renamed;
    char path[CULM_PATH_MAX];
    while (journal->limits.keep_bytes > 0 && find_renamed(journal, &renamed) &&
           renamed.oldest > 0 &&
           renamed.bytes + journal->limits.rotate_bytes > journal->limits.keep_bytes &&
           renamed_path(journal, renamed.oldest, path) && unlink(path) == 0) {
    }
}

static bool is_there(const struct culm_journal *journal, struct stat *ret_own) {
    struct stat there;
    return fstat(journal->fd, ret_own) == 0 && lstat(journal->path, &there) == 0 &&
           there.st_dev == ret_own->st_dev && there.st_ino == ret_own->st_ino;
}

/* The file gets its number, and a new one is begun. Where that cannot be done, the file grows on. */
static void rotate(struct culm_journal *journal) {
    struct renamed renamed;
    struct stat own;
    char path[CULM_PATH_MAX];
    if (!is_there(journal, &own) || !find_renamed(journal, &renamed) ||
        !renamed_path(journal, renamed.newest + 1, path) || rename(journal->path, path) != 0) {
        return;
    }
    const int fd =
        open(journal->path, O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0) {
        (void)rename(path, journal->path);
        return;
    }
    close(journal->fd);
    journal->fd = fd;
    journal->size = 0;
    journal->torn = false;
    prune(journal);
}

/* Cuts off a last line that an earlier writer did not live to end. */
static bool cut_torn_line(int fd, int64_t *size) {
    char part[4096];
    const off_t end = lseek(fd, 0, SEEK_END);
    off_t at = end;
    while (at > 0) {
        const size_t len = at < (off_t)sizeof part ? (size_t)at : sizeof part;
        if (pread(fd, part, len, at - (off_t)len) != (ssize_t)len) {
            return false;
        }
        const char *last = memrchr(part, '\n', len);
        at -= (off_t)len;
        if (last) {
            at += last - part + 1;
            break;
        }
    }
    *size = at;
    return end >= 0 && (at == end || ftruncate(fd, at) == 0);
}

/* --- files that are moved away --- */

/* A plain file at the path, made if none is there. Links are not followed: what they lead to may be
 * anyone's. */
static int open_anew(const char *path, struct culm_error *error) {
    const int fd =
        open(path, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    struct stat info;
    if (fd < 0) {
        (void)culm_error_errno(error, errno, "open '%s' again", path);
        return -1;
    }
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        (void)culm_error_set(error, CULM_ERR_CONFIG, "open '%s' again: it is no plain file", path);
        close(fd);
        return -1;
    }
    return fd;
}

bool culm_journal_follow(struct culm_journal *journal, struct culm_error *error) {
    struct stat own;
    int64_t size;
    if (is_there(journal, &own)) {
        journal->size = own.st_size; /* it may have been emptied */
        journal->astray = false;
        return true;
    }
    const int fd = open_anew(journal->path, error);
    if (fd < 0 || !cut_torn_line(fd, &size)) {
        const bool told = journal->astray;
        if (fd >= 0) {
            (void)culm_error_errno(error, errno ? errno : EIO, "read the end of '%s'",
                                   journal->path);
            close(fd);
        }
        journal->astray = true;
        return told;
    }
    close(journal->fd);
    journal->fd = fd;
    journal->size = size;
    journal->torn = journal->astray = false;
    return true;
}

/* --- from outside --- */

enum culm_status culm_journal_open(int take_fd, const char *path,
                                   const struct culm_journal_limits *limits,
                                   struct culm_journal **ret_journal, struct culm_error *error) {
    struct culm_journal *journal = calloc(1, sizeof *journal);
    enum culm_status status = CULM_OK;
    errno = 0;
    if (!journal) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "out of memory for '%s'", path);
    } else if (!cut_torn_line(take_fd, &journal->size)) {
        status = culm_error_errno(error, errno ? errno : EIO, "read the end of '%s'", path);
    }
    if (status != CULM_OK) {
        free(journal);
        close(take_fd);
        return status;
    }
    journal->fd = take_fd;
    journal->limits = *limits;
    snprintf(journal->path, sizeof journal->path, "%s", path);
    *ret_journal = journal;
    return CULM_OK;
}

void culm_journal_free(struct culm_journal *journal) {
    if (journal) {
        close(journal->fd);
        free(journal->head);
        free(journal->line);
        free(journal);
    }
}

static enum culm_journal_news lose(struct culm_journal *journal, int reason,
                                   struct culm_error *error) {
    const bool first = !journal->failing;
    journal->failing = true;
    journal->lost++;
    if (first) {
        (void)culm_error_errno(error, reason, "write '%s'", journal->path);
    }
    return first ? CULM_JOURNAL_LOST : CULM_JOURNAL_NONE;
}

/* False: out of memory. */
static bool make_room(struct culm_journal *journal, size_t bytes) {
    char *line = bytes > journal->capacity ? realloc(journal->line, bytes) : journal->line;
    if (line) {
        journal->line = line;
        journal->capacity = bytes > journal->capacity ? bytes : journal->capacity;
    }
    return line != NULL;
}

enum culm_journal_news culm_journal_add(struct culm_journal *journal, const char *text,
                                        struct culm_error *error) {
    const size_t len = text ? strlen(text) : 0,
                 head_len = journal->head ? strlen(journal->head) : 0;
    if (!text || !make_room(journal, head_len + len + 2)) {
        return lose(journal, ENOMEM, error);
    }
    struct stat now; /* others may have emptied it */
    if (fstat(journal->fd, &now) == 0) {
        journal->size = now.st_size;
        journal->torn = journal->torn && now.st_size > 0;
    }
    if (journal->limits.rotate_bytes > 0 && journal->size > 0 &&
        journal->size + (int64_t)len + 1 > journal->limits.rotate_bytes) {
        rotate(journal);
    }
    size_t used = 0;
    if (journal->torn) {
        journal->line[used++] = '\n'; /* ends what is torn */
    } else if (journal->size == 0 && head_len > 0) {
        memcpy(journal->line, journal->head, head_len);
        used = head_len;
    }
    memcpy(journal->line + used, text, len);
    journal->line[used + len] = '\n';
    if (!append(journal, journal->line, used + len + 1)) {
        return lose(journal, errno, error);
    }
    const bool again = journal->failing;
    journal->failing = journal->torn = false;
    return again ? CULM_JOURNAL_WRITTEN : CULM_JOURNAL_NONE;
}

bool culm_journal_begin_with(struct culm_journal *journal, const char *text) {
    char *head = NULL;
    if (asprintf(&head, "%s\n", text) < 0) {
        return false;
    }
    free(journal->head);
    journal->head = head;
    return true;
}

void culm_journal_limit(struct culm_journal *journal, const struct culm_journal_limits *limits) {
    journal->limits = *limits;
}

int64_t culm_journal_lost(const struct culm_journal *journal) { return journal->lost; }
