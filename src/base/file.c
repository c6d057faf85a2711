/*
 * Files and directories over a table of operations.
 *
 * What it does not do: buffering (callers append large pieces), locking, anything about formats.
 */
#include "base/file.h"

#include "base/grow.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TREE_DEPTH_MAX 64
#define TEMPORARY_MAX 10000 /* names that are tried */
/* One write call takes at most this much: Linux cuts at 2 GiB anyway, and a failure is seen soon.
 */
#define WRITE_BYTES_MAX ((size_t)64 << 20)

static int posix_open(struct culm_fs *fs, const char *path, int flags, int mode) {
    (void)fs;
    return open(path, flags | O_CLOEXEC, mode);
}

static ssize_t posix_read(struct culm_fs *fs, int fd, void *data, size_t len) {
    (void)fs;
    return read(fd, data, len);
}

static ssize_t posix_write(struct culm_fs *fs, int fd, const void *data, size_t len) {
    (void)fs;
    return write(fd, data, len);
}

static int posix_sync(struct culm_fs *fs, int fd) {
    (void)fs;
    return fsync(fd);
}

static int posix_close(struct culm_fs *fs, int fd) {
    (void)fs;
    return close(fd);
}

static int posix_rename(struct culm_fs *fs, const char *from, const char *to) {
    (void)fs;
    return rename(from, to);
}

static int posix_unlink(struct culm_fs *fs, const char *path) {
    (void)fs;
    return unlink(path);
}

static int posix_rmdir(struct culm_fs *fs, const char *path) {
    (void)fs;
    return rmdir(path);
}

static int posix_mkdir(struct culm_fs *fs, const char *path, int mode) {
    (void)fs;
    return mkdir(path, (mode_t)mode);
}

static const struct culm_fs_ops posix_ops = {
    .size = sizeof(struct culm_fs_ops),
    .open = posix_open,
    .read = posix_read,
    .write = posix_write,
    .sync = posix_sync,
    .close = posix_close,
    .rename = posix_rename,
    .unlink = posix_unlink,
    .rmdir = posix_rmdir,
    .mkdir = posix_mkdir,
};

static const struct culm_fs_ops *ops_of(const struct culm_fs *fs) {
    return fs ? fs->ops : &posix_ops;
}

static enum culm_status fail(struct culm_error *error, int errno_value, const char *verb,
                             const char *path) {
    enum culm_status status = CULM_ERR_IO;
    const char *advice = "";
    if (errno_value == EMFILE || errno_value == ENFILE) { /* says how to raise them */
        return culm_error_errno(error, errno_value, "%s '%s'", verb, path);
    }
    if (errno_value == ENOENT || errno_value == ENOTDIR) {
        status = CULM_ERR_NOT_FOUND;
    } else if (errno_value == ENOSPC || errno_value == EDQUOT) {
        advice = "; free some space there";
    }
    return culm_error_set(error, status, "%s '%s': %s%s", verb, path, strerror(errno_value),
                          advice);
}

/* A file that the user named and that is none is wrong input; a missing right is the machine's. */
static enum culm_status fail_read(struct culm_error *error, int errno_value, const char *path) {
    enum culm_status status = fail(error, errno_value, "read", path);
    if (errno_value == EISDIR || errno_value == ELOOP || errno_value == ENAMETOOLONG) {
        status = CULM_ERR_CONFIG;
        if (error) {
            error->status = status;
        }
    }
    return status;
}

enum culm_status culm_path_format(char *ret_path, struct culm_error *error, const char *format,
                                  ...) {
    va_list args;
    va_start(args, format);
    int wanted = vsnprintf(ret_path, CULM_PATH_MAX, format, args);
    va_end(args);
    if (wanted < 0 || wanted >= CULM_PATH_MAX) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "path '%.64s...' is longer than %d bytes",
                              ret_path, CULM_PATH_MAX - 1);
    }
    return CULM_OK;
}

enum culm_status culm_path_parent(const char *path, char *ret_parent, struct culm_error *error) {
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/') {
        len--;
    }
    while (len > 0 && path[len - 1] != '/') {
        len--;
    }
    while (len > 1 && path[len - 1] == '/') {
        len--;
    }
    if (len == 0) {
        return culm_path_format(ret_parent, error, ".");
    }
    return culm_path_format(ret_parent, error, "%.*s", (int)len, path);
}

static ssize_t read_some(struct culm_fs *fs, int fd, void *data, size_t len) {
    ssize_t got;
    do {
        got = ops_of(fs)->read(fs, fd, data, len);
    } while (got < 0 && errno == EINTR);
    return got;
}

enum culm_status culm_file_read(struct culm_fs *fs, const char *path, size_t max_bytes,
                                char **ret_data, size_t *ret_len, struct culm_error *error) {
    enum culm_status status;
    struct stat info;
    char *data = NULL;
    /* O_NONBLOCK: a FIFO must give an error, not wait for a writer. */
    int fd = ops_of(fs)->open(fs, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (fd < 0) {
        return fail_read(error, errno, path);
    }
    if (fstat(fd, &info) != 0) {
        status = fail_read(error, errno, path);
        goto out;
    }
    if (!S_ISREG(info.st_mode)) {
        status = culm_error_set(error, CULM_ERR_CONFIG, "read '%s': is %s, not a file", path,
                                S_ISDIR(info.st_mode) ? "a directory" : "a device or pipe");
        goto out;
    }
    if ((uint64_t)info.st_size > max_bytes) {
        status =
            culm_error_set(error, CULM_ERR_FORMAT, "read '%s': has %lld bytes; at most %zu allowed",
                           path, (long long)info.st_size, max_bytes);
        goto out;
    }
    size_t size = (size_t)info.st_size, len = 0;
    data = malloc(size + 1);
    if (!data) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "read '%s': no memory for %zu bytes", path,
                                size);
        goto out;
    }
    while (len < size) {
        ssize_t got = read_some(fs, fd, data + len, size - len);
        if (got < 0) {
            status = fail_read(error, errno, path);
            goto out;
        }
        if (got == 0) {
            break; /* it shrank since fstat: what is there is the file */
        }
        len += (size_t)got;
    }
    data[len] = '\0';
    *ret_data = data;
    *ret_len = len;
    data = NULL;
    status = CULM_OK;
out:
    free(data);
    ops_of(fs)->close(fs, fd);
    return status;
}

/* A file whose path has been set, just opened as `fd`, or not (errno says why), for `path`. */
static enum culm_status begin(struct culm_fs *fs, int fd, const char *path,
                              struct culm_file *ret_file, struct culm_error *error) {
    if (fd < 0) {
        return fail(error, errno, "create", path);
    }
    ret_file->fs = fs;
    ret_file->fd = fd;
    ret_file->bytes = 0;
    return CULM_OK;
}

enum culm_status culm_file_create(struct culm_fs *fs, const char *path, struct culm_file *ret_file,
                                  struct culm_error *error) {
    enum culm_status status = culm_path_format(ret_file->path, error, "%s", path);
    if (status != CULM_OK) {
        return status;
    }
    int fd = ops_of(fs)->open(fs, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return begin(fs, fd, path, ret_file, error);
}

enum culm_status culm_file_create_beside(struct culm_fs *fs, const char *path,
                                         struct culm_file *ret_file, struct culm_error *error) {
    char parent[CULM_PATH_MAX];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    enum culm_status status = culm_path_parent(path, parent, error);
    int fd = -1;
    for (int n = 0; n < TEMPORARY_MAX && fd < 0; n++) {
        if (status == CULM_OK) {
            status = culm_path_format(ret_file->path, error, "%s/.%.200s.%ld-%d.tmp", parent, name,
                                      (long)getpid(), n);
        }
        if (status != CULM_OK) {
            return status;
        }
        fd = ops_of(fs)->open(fs, ret_file->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST) {
            break;
        }
    }
    return begin(fs, fd, path, ret_file, error);
}

enum culm_status culm_file_append(struct culm_file *file, const void *data, size_t len,
                                  struct culm_error *error) {
    const char *at = data;
    while (len) {
        size_t part = len < WRITE_BYTES_MAX ? len : WRITE_BYTES_MAX;
        ssize_t put = ops_of(file->fs)->write(file->fs, file->fd, at, part);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return fail(error, put < 0 ? errno : EIO, "write", file->path);
        }
        at += put;
        len -= (size_t)put;
        file->bytes += (uint64_t)put;
    }
    return CULM_OK;
}

enum culm_status culm_file_finish(struct culm_file *file, struct culm_error *error) {
    if (ops_of(file->fs)->sync(file->fs, file->fd) != 0) {
        enum culm_status status = fail(error, errno, "sync", file->path);
        culm_file_abandon(file);
        return status;
    }
    int fd = file->fd;
    file->fd = -1;
    if (ops_of(file->fs)->close(file->fs, fd) != 0) {
        enum culm_status status = fail(error, errno, "close", file->path);
        ops_of(file->fs)->unlink(file->fs, file->path);
        return status;
    }
    return CULM_OK;
}

void culm_file_abandon(struct culm_file *file) {
    ops_of(file->fs)->close(file->fs, file->fd);
    file->fd = -1;
    ops_of(file->fs)->unlink(file->fs, file->path);
}

enum culm_status culm_file_sync(struct culm_fs *fs, const char *path, struct culm_error *error) {
    int fd = ops_of(fs)->open(fs, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) {
        return fail(error, errno, "open", path);
    }
    enum culm_status status = CULM_OK;
    if (ops_of(fs)->sync(fs, fd) != 0) {
        status = fail(error, errno, "sync", path);
    }
    ops_of(fs)->close(fs, fd);
    return status;
}

static enum culm_status sync_parent(struct culm_fs *fs, const char *path,
                                    struct culm_error *error) {
    char parent[CULM_PATH_MAX];
    enum culm_status status = culm_path_parent(path, parent, error);
    return status == CULM_OK ? culm_file_sync(fs, parent, error) : status;
}

/* A link such as /dev/stdout, or what it leads to in /proc: a name for what a process has open. */
static bool is_name_of_open(const char *path) {
    char to[32];
    const ssize_t len = readlink(path, to, sizeof to);
    const bool device =
        strncmp(path, "/dev/", 5) == 0 && !strchr(path + 5, '/'); /* not in /dev/shm */
    return len > 0 && (device || (len > 6 && memcmp(to, "/proc/", 6) == 0));
}

enum culm_status culm_file_may_replace(const char *path, struct culm_error *error) {
    struct stat there;
    const bool file = stat(path, &there) != 0 || S_ISREG(there.st_mode) || S_ISDIR(there.st_mode);
    return file && !is_name_of_open(path)
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_CONFIG,
                                "'%s' is not a plain file, and is left as it is; name another",
                                path);
}

enum culm_status culm_file_may_write(const char *path, struct culm_error *error) {
    struct stat there;
    if (stat(path, &there) == 0 && S_ISDIR(there.st_mode)) {
        return culm_error_set(error, CULM_ERR_CONFIG, "'%s' is a folder; name a file", path);
    }
    return culm_file_may_replace(path, error);
}

enum culm_status culm_file_rename(struct culm_fs *fs, const char *from, const char *to,
                                  struct culm_error *error) {
    enum culm_status status = culm_file_may_replace(to, error);
    if (status != CULM_OK) {
        return status;
    }
    if (ops_of(fs)->rename(fs, from, to) != 0) {
        return culm_error_errno(error, errno, "rename '%s' to '%s'", from, to);
    }
    return sync_parent(fs, to, error);
}

enum culm_status culm_file_replace(struct culm_fs *fs, const char *path, const void *data,
                                   size_t len, struct culm_error *error) {
    char temporary[CULM_PATH_MAX];
    struct culm_file file;
    enum culm_status status = culm_file_may_replace(path, error);
    if (status != CULM_OK ||
        (status = culm_file_create_beside(fs, path, &file, error)) != CULM_OK) {
        return status;
    }
    memcpy(temporary, file.path, sizeof temporary);
    status = culm_file_append(&file, data, len, error);
    if (status != CULM_OK) {
        culm_file_abandon(&file);
        return status;
    }
    status = culm_file_finish(&file, error);
    if (status != CULM_OK) {
        return status;
    }
    status = culm_file_rename(fs, temporary, path, error);
    if (status != CULM_OK) {
        ops_of(fs)->unlink(fs, temporary);
    }
    return status;
}

enum culm_status culm_file_remove(struct culm_fs *fs, const char *path, struct culm_error *error) {
    if (ops_of(fs)->unlink(fs, path) != 0) {
        return fail(error, errno, "remove", path);
    }
    return CULM_OK;
}

/* Of a directory that was there: who made it may have died before it synced the parent (but not
 * the parent's parents: it made and synced those before). A parent that may not be read, as of
 * many users' directories, is not ours to sync. */
static enum culm_status sync_found(struct culm_fs *fs, const char *path, struct culm_error *error) {
    char parent[CULM_PATH_MAX];
    enum culm_status status = culm_path_parent(path, parent, error);
    return status == CULM_OK && access(parent, R_OK) == 0 ? culm_file_sync(fs, parent, error)
                                                          : status;
}

enum culm_status culm_dir_make(struct culm_fs *fs, const char *path, struct culm_error *error) {
    char parent[CULM_PATH_MAX];
    if (culm_file_is_directory(path)) {
        return sync_found(fs, path, error);
    }
    enum culm_status status = culm_path_parent(path, parent, error);
    if (status == CULM_OK && strcmp(parent, path) != 0 && strcmp(parent, ".") != 0) {
        status = culm_dir_make(fs, parent, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    if (ops_of(fs)->mkdir(fs, path, 0777) != 0) {
        int reason = errno;
        if (reason == EEXIST && culm_file_is_directory(path)) {
            return sync_found(fs, path, error); /* another process was faster */
        }
        fail(error, reason, "make directory", path);
        if (error) {
            error->status = CULM_ERR_IO; /* not "no such input" */
        }
        return CULM_ERR_IO;
    }
    return sync_parent(fs, path, error);
}

enum culm_status culm_dir_make_temporary(const char *name, char ret_path[CULM_PATH_MAX],
                                         struct culm_error *error) {
    const char *base = getenv("TMPDIR");
    char path[CULM_PATH_MAX];
    enum culm_status status =
        culm_path_format(path, error, "%s/%s-XXXXXX", base && base[0] ? base : "/tmp", name);
    if (status == CULM_OK && !mkdtemp(path)) {
        status = culm_error_errno(error, errno, "make the folder '%.300s'", path);
    }
    if (status == CULM_OK) {
        memcpy(ret_path, path, CULM_PATH_MAX);
    }
    return status;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void culm_names_release(struct culm_names *names) {
    for (size_t i = 0; i < names->count; i++) {
        free(names->name[i]);
    }
    free(names->name);
    *names = (struct culm_names){0};
}

enum culm_status culm_dir_list(const char *path, struct culm_names *ret_names,
                               struct culm_error *error) {
    enum culm_status status = CULM_OK;
    struct culm_names names = {0};
    size_t capacity = 0;
    DIR *dir = opendir(path);
    if (!dir) {
        return fail(error, errno, "list", path);
    }
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(dir);
        if (!entry) {
            if (errno) {
                status = fail(error, errno, "list", path);
            }
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        char *copy =
            CULM_GROW(names.name, capacity, names.count + 1) ? strdup(entry->d_name) : NULL;
        if (!copy) {
            status = culm_error_set(error, CULM_ERR_MEMORY, "list '%s': out of memory", path);
            break;
        }
        names.name[names.count++] = copy;
    }
    closedir(dir);
    if (status != CULM_OK) {
        culm_names_release(&names);
        return status;
    }
    if (names.count) {
        qsort(names.name, names.count, sizeof *names.name, compare_names);
    }
    *ret_names = names;
    return CULM_OK;
}

static enum culm_status remove_tree(struct culm_fs *fs, const char *path, int depth,
                                    struct culm_error *error) {
    struct stat info;
    if (lstat(path, &info) != 0) {
        return errno == ENOENT ? CULM_OK : fail(error, errno, "remove", path);
    }
    if (!S_ISDIR(info.st_mode)) {
        return culm_file_remove(fs, path, error);
    }
    if (depth == 0) {
        return culm_error_set(error, CULM_ERR_IO, "remove '%s': more than %d directories deep",
                              path, TREE_DEPTH_MAX);
    }
    struct culm_names names = {0};
    enum culm_status status = culm_dir_list(path, &names, error);
    for (size_t i = 0; status == CULM_OK && i < names.count; i++) {
        char *child = NULL;
        if (asprintf(&child, "%s/%s", path, names.name[i]) < 0) {
            status = culm_error_set(error, CULM_ERR_MEMORY, "remove '%s': out of memory", path);
            break;
        }
        status = remove_tree(fs, child, depth - 1, error);
        free(child);
    }
    culm_names_release(&names);
    if (status == CULM_OK && ops_of(fs)->rmdir(fs, path) != 0) {
        status = fail(error, errno, "remove directory", path);
    }
    return status;
}

enum culm_status culm_tree_remove(struct culm_fs *fs, const char *path, struct culm_error *error) {
    return remove_tree(fs, path, TREE_DEPTH_MAX, error);
}

bool culm_file_exists(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0;
}

bool culm_file_is_regular(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

bool culm_file_is_directory(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

enum culm_status culm_file_size(const char *path, uint64_t *ret_bytes, struct culm_error *error) {
    struct stat info;
    if (stat(path, &info) != 0) {
        return fail(error, errno, "read", path);
    }
    if (!S_ISREG(info.st_mode)) {
        return culm_error_set(error, CULM_ERR_FORMAT, "read '%s': not a regular file", path);
    }
    *ret_bytes = (uint64_t)info.st_size;
    return CULM_OK;
}
