/* Files with data. See files.h. */
#include "data/files.h"

#include "base/machine.h"
#include "data/content.h"
#include "data/corpus.h"
#include "data/gzip.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

void culm_files_free(struct culm_files *files) {
    if (!files) {
        return;
    }
    for (size_t i = 0; i < files->count; i++) {
        if (files->entry[i].fd >= 0) {
            close(files->entry[i].fd);
        }
        free(files->entry[i].path);
        free(files->entry[i].unpacked);
    }
    for (size_t i = 0; files->group && files->group[i]; i++) {
        free(files->group[i]);
    }
    free(files->group);
    free(files);
}

size_t culm_files_resident_bytes(const struct culm_files *files) {
    size_t sum = 0;
    for (size_t i = 0; i < files->count; i++) {
        sum += files->entry[i].unpacked ? (size_t)files->entry[i].bytes : 0;
    }
    return sum;
}

/* --- opening: one file --- */

static bool ends_in(const char *path, const char *end) {
    size_t len = strlen(path), end_len = strlen(end);
    return len >= end_len && !strcasecmp(path + len - end_len, end);
}

/* Whether first bytes that token ids could also have are meant as what they look like. */
static bool named_so(const char *path) {
    static const char *const ends[] = {".gz",  ".zst", ".bz2", ".xz",  ".lz4", ".z",  ".zip",
                                       ".npz", ".7z",  ".rar", ".tar", ".pt",  ".h5", ".parquet"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (ends_in(path, ends[i])) {
            return true;
        }
    }
    return false;
}

static enum culm_status refuse(const struct culm_files *files, enum culm_files_content expected,
                               const struct culm_files_entry *entry,
                               const struct culm_content *content, struct culm_error *error) {
    const char *in = entry->unpacked ? "unpacked, " : "";
    return expected == CULM_FILES_TEXT
               ? culm_error_set(error, CULM_ERR_FORMAT, "%s '%s': %sis %s, not text; %s",
                                files->what, entry->path, in, content->name, content->advice)
               : culm_error_set(error, CULM_ERR_FORMAT,
                                "%s '%s': %sis %s; give token ids (.npy, .u16, .u32)", files->what,
                                entry->path, in, content->name);
}

static enum culm_status unpack(struct culm_files *files, struct culm_files_entry *entry,
                               struct culm_error *error) {
    char *packed = NULL, *data = NULL;
    size_t packed_len = 0, len = 0;
    /* of all of them together */
    const uint64_t all = culm_machine_memory() / 2, held = culm_files_resident_bytes(files);
    const uint64_t most = all > held ? all - held : 0;
    enum culm_status status = culm_files_slurp(files, (size_t)(entry - files->entry), SIZE_MAX / 8,
                                               &packed, &packed_len, error);
    if (status == CULM_OK) {
        status =
            culm_gunzip_all(packed, packed_len, files->what, entry->path, most, &data, &len, error);
        free(packed);
    }
    if (status == CULM_OK && !len) {
        free(data);
        status = culm_error_set(error, CULM_ERR_CONFIG, "%s '%s': there is nothing in it",
                                files->what, entry->path);
    }
    if (status == CULM_OK) {
        entry->unpacked = data;
        entry->bytes = len;
    }
    return status;
}

/* What the first bytes say. */
static enum culm_status look(struct culm_files *files, enum culm_files_content expected,
                             struct culm_files_entry *entry, struct culm_error *error) {
    char head[CULM_CONTENT_HEAD];
    size_t len = entry->bytes < sizeof head ? (size_t)entry->bytes : sizeof head;
    size_t file = (size_t)(entry - files->entry);
    enum culm_status status = culm_files_read(files, file, 0, head, len, error);
    if (status != CULM_OK) {
        return status;
    }
    const struct culm_content *content = culm_content_of(head, len);
    bool meant =
        expected == CULM_FILES_TEXT || (content && content->certain) || named_so(entry->path);
    if (content && meant && culm_gzip_is(head, len)) {
        if ((status = unpack(files, entry, error)) != CULM_OK) {
            return status;
        }
        len = entry->bytes < sizeof head ? (size_t)entry->bytes : sizeof head;
        content = culm_content_of(entry->unpacked, len);
        meant = expected == CULM_FILES_TEXT || (content && content->certain);
    }
    bool npy = content && expected == CULM_FILES_TOKENS && content->npy;
    return content && meant && !npy ? refuse(files, expected, entry, content, error) : CULM_OK;
}

static enum culm_status cannot_open(const struct culm_files *files, const char *path, int reason,
                                    struct culm_error *error) {
    bool wrong = reason == ENOENT || reason == ENOTDIR || reason == ELOOP ||
                 reason == ENAMETOOLONG || reason == ENXIO;
    if (wrong || reason == EACCES) {
        return culm_error_set(error, wrong ? CULM_ERR_CONFIG : CULM_ERR_IO,
                              "%s '%s': %s; give a file that can be read", files->what, path,
                              strerror(reason));
    }
    return culm_error_errno(error, reason, "%s '%s'", files->what, path);
}

/* O_NONBLOCK: a FIFO must give an error, not wait for a writer. */
static int open_path(const char *path) { return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); }

static enum culm_status check_kind(const struct culm_files *files, const char *path,
                                   const struct stat *info, struct culm_error *error) {
    if (!S_ISREG(info->st_mode)) {
        return culm_error_set(error, CULM_ERR_CONFIG, "%s '%s': is %s; give a plain file",
                              files->what, path,
                              S_ISDIR(info->st_mode) ? "a directory" : "a device or pipe");
    }
    return info->st_size
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_CONFIG, "%s '%s' is empty", files->what, path);
}

/* The descriptor stays with the entry. */
static enum culm_status add(struct culm_files *files, const char *path, const char *group,
                            size_t member, struct culm_error *error) {
    struct stat info;
    int fd = open_path(path);
    if (fd < 0 || fstat(fd, &info) != 0) {
        int reason = errno;
        if (fd >= 0) {
            close(fd);
        }
        return cannot_open(files, path, reason, error);
    }
    enum culm_status status = check_kind(files, path, &info, error);
    char *copy = status == CULM_OK ? strdup(path) : NULL;
    if (!copy) {
        close(fd);
        return status ? status
                      : culm_error_set(error, CULM_ERR_MEMORY, "%s '%s': out of memory",
                                       files->what, path);
    }
    struct culm_files_entry *entry = &files->entry[files->count++];
    *entry = (struct culm_files_entry){
        .path = copy, .fd = fd, .bytes = (uint64_t)info.st_size, .group = group, .member = member};
    culm_stamp_of(&info, &entry->stamp);
    return group ? culm_pins_member(files->pins, group, member, path, fd, &entry->stamp, error)
                 : culm_pins_file(files->pins, path, fd, error);
}

/* --- opening: all of them --- */

static const char *path_of(const void *ctx, size_t index) { return ((char *const *)ctx)[index]; }

static enum culm_status add_part(struct culm_files *files, const struct culm_files_options *o,
                                 const struct culm_corpus *corpus,
                                 const struct culm_corpus_part *part, bool held,
                                 struct culm_error *error) {
    enum culm_status status = CULM_OK;
    const char *group = NULL;
    if (part->listed && culm_pins_is_group(o->pins, part->path, part->count > CULM_FILES_APART)) {
        char **at = files->group;
        while (*at) {
            at++;
        }
        group = *at = strdup(part->path);
        status = group ? culm_pins_group(o->pins, group, part->count, path_of,
                                         corpus->file + part->first, error)
                       : culm_error_set(error, CULM_ERR_MEMORY, "%s: out of memory", o->what);
    }
    for (size_t i = 0; i < part->count && status == CULM_OK; i++) {
        status = add(files, corpus->file[part->first + i], group, i, error);
        struct culm_files_entry *entry =
            files->count ? &files->entry[files->count - 1] : NULL; /* the new one, if it is OK */
        if (status == CULM_OK && o->content != CULM_FILES_ANY) {
            status = look(files, o->content, entry, error);
        }
        if (status == CULM_OK && (!held || entry->unpacked)) {
            close(entry->fd);
            entry->fd = -1;
        }
    }
    return status;
}

static void note(struct culm_files *files, const struct culm_corpus *corpus, const char *path) {
    char others[64] = "";
    if (!corpus->empty && !corpus->others) {
        return;
    }
    if (corpus->others) {
        snprintf(others, sizeof others, "%s%lld that %s", corpus->empty ? ", " : "",
                 (long long)corpus->others,
                 corpus->others == 1 ? "is not a plain file" : "are not plain files");
    }
    int len =
        snprintf(files->note, sizeof files->note, "%s '%.100s': left out: ", files->what, path);
    if (corpus->empty) {
        len += snprintf(files->note + len, sizeof files->note - (size_t)len, "%lld empty file%s",
                        (long long)corpus->empty, corpus->empty == 1 ? "" : "s");
    }
    snprintf(files->note + len, sizeof files->note - (size_t)len, "%s", others);
}

enum culm_status culm_files_open_as(const struct culm_files_options *options,
                                    struct culm_files **ret_files, struct culm_error *error) {
    const char *what = options->what;
    size_t count = options->path_count;
    struct culm_corpus corpus = {0};
    if (!count) {
        return culm_error_set(error, CULM_ERR_CONFIG, "%s: no file; set data.path", what);
    }
    struct culm_corpus plain = {.file = (char **)(uintptr_t)options->paths, .count = count};
    struct culm_corpus_part all = {.count = count};
    enum culm_status status =
        options->many ? culm_corpus_find(what, options->paths, count, &corpus, error) : CULM_OK;
    if (status != CULM_OK) {
        return status;
    }
    const struct culm_corpus *use = options->many ? &corpus : &plain;
    struct culm_files *files = calloc(1, sizeof *files + use->count * sizeof files->entry[0]);
    char **groups = calloc(count + 1, sizeof *groups);
    if (!files || !groups) {
        free(files);
        free(groups);
        culm_corpus_release(&corpus);
        return culm_error_set(error, CULM_ERR_MEMORY, "%s '%s': out of memory", what,
                              options->paths[0]);
    }
    files->what = what;
    files->pins = options->pins;
    files->group = groups;
    note(files, &corpus, options->paths[0]);
    bool held = use->count <= CULM_FILES_OPEN;
    size_t parts = options->many ? corpus.parts : 1;
    for (size_t i = 0; i < parts && status == CULM_OK; i++) {
        status = add_part(files, options, use, options->many ? &corpus.part[i] : &all, held, error);
    }
    culm_corpus_release(&corpus);
    if (status != CULM_OK) {
        culm_files_free(files);
        return status;
    }
    *ret_files = files;
    return CULM_OK;
}

enum culm_status culm_files_open(const char *what, const char *const *paths, size_t count,
                                 struct culm_pins *pins, struct culm_files **ret_files,
                                 struct culm_error *error) {
    const struct culm_files_options options = {
        .what = what, .paths = paths, .path_count = count, .pins = pins};
    return culm_files_open_as(&options, ret_files, error);
}

/* --- reading --- */

static enum culm_status gone(const struct culm_files *files, const char *path, int reason,
                             struct culm_error *error) {
    bool missing = reason == ENOENT || reason == ENOTDIR || reason == ELOOP;
    return files->pins && missing
               ? culm_error_set(error, CULM_ERR_CHANGED,
                                "%s '%s': cannot be read: %s; put it back, then continue with "
                                "--resume",
                                files->what, path, strerror(reason))
               : culm_error_errno(error, reason, "%s '%s': cannot be read", files->what, path);
}

enum culm_status culm_files_read(const struct culm_files *files, size_t file, uint64_t at,
                                 void *ret_data, size_t len, struct culm_error *error) {
    const struct culm_files_entry *entry = &files->entry[file];
    if (entry->unpacked) {
        memcpy(ret_data, entry->unpacked + at, len);
        return CULM_OK;
    }
    int fd = entry->fd >= 0 ? entry->fd : open_path(entry->path);
    if (fd < 0) {
        return gone(files, entry->path, errno, error);
    }
    const struct culm_pins_reader reader = {.pins = files->pins,
                                            .what = files->what,
                                            .path = entry->path,
                                            .group = entry->group,
                                            .member = entry->member,
                                            .fd = fd,
                                            .stamp = entry->stamp};
    enum culm_status status = culm_pins_read(&reader, at, ret_data, len, error);
    if (fd != entry->fd) {
        close(fd);
    }
    return status;
}

enum culm_status culm_files_slurp(const struct culm_files *files, size_t file, uint64_t max_bytes,
                                  char **ret_data, size_t *ret_len, struct culm_error *error) {
    const struct culm_files_entry *entry = &files->entry[file];
    if (entry->bytes > max_bytes) {
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "%s '%s': has %llu bytes, at most %llu are read; is it the right file?", files->what,
            entry->path, (unsigned long long)entry->bytes, (unsigned long long)max_bytes);
    }
    char *data = malloc((size_t)entry->bytes + 1);
    if (!data) {
        return culm_error_set(error, CULM_ERR_MEMORY, "%s '%s': out of memory for %llu bytes",
                              files->what, entry->path, (unsigned long long)entry->bytes);
    }
    enum culm_status status = culm_files_read(files, file, 0, data, (size_t)entry->bytes, error);
    if (status != CULM_OK) {
        free(data);
        return status;
    }
    data[entry->bytes] = '\0';
    *ret_data = data;
    *ret_len = (size_t)entry->bytes;
    return CULM_OK;
}
