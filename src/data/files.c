/* Files with data. See files.h. */
#include "data/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void culm_files_free(struct culm_files *files) {
    if (!files) {
        return;
    }
    for (size_t i = 0; i < files->count; i++) {
        close(files->entry[i].fd);
        free(files->entry[i].path);
    }
    free(files);
}

static enum culm_status add(struct culm_files *files, const char *path, struct culm_error *error) {
    struct stat info;
    const char *what = files->what;
    /* O_NONBLOCK: a FIFO must give an error, not wait for a writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &info) != 0) {
        int reason = errno;
        if (fd >= 0) {
            close(fd);
        }
        bool wrong = reason == ENOENT || reason == ENOTDIR || reason == ELOOP ||
                     reason == ENAMETOOLONG || reason == ENXIO;
        return culm_error_set(error, wrong ? CULM_ERR_CONFIG : CULM_ERR_IO,
                              "%s '%s': %s; give a file that can be read", what, path,
                              strerror(reason));
    }
    if (!S_ISREG(info.st_mode)) {
        close(fd);
        return culm_error_set(error, CULM_ERR_CONFIG, "%s '%s': is %s; give a plain file", what,
                              path, S_ISDIR(info.st_mode) ? "a directory" : "a device or pipe");
    }
    if (info.st_size == 0) {
        close(fd);
        return culm_error_set(error, CULM_ERR_CONFIG, "%s '%s' is empty", what, path);
    }
    char *copy = strdup(path);
    if (!copy) {
        close(fd);
        return culm_error_set(error, CULM_ERR_MEMORY, "%s '%s': out of memory", what, path);
    }
    struct culm_files_entry *entry = &files->entry[files->count++];
    *entry = (struct culm_files_entry){.path = copy, .fd = fd, .bytes = (uint64_t)info.st_size};
    culm_stamp_of(&info, &entry->stamp);
    return culm_pins_file(files->pins, path, fd, error);
}

enum culm_status culm_files_open(const char *what, const char *const *paths, size_t count,
                                 struct culm_pins *pins, struct culm_files **ret_files,
                                 struct culm_error *error) {
    if (!count) {
        return culm_error_set(error, CULM_ERR_CONFIG, "%s: no file; set data.path", what);
    }
    struct culm_files *files = calloc(1, sizeof *files + count * sizeof files->entry[0]);
    if (!files) {
        return culm_error_set(error, CULM_ERR_MEMORY, "%s '%s': out of memory", what, paths[0]);
    }
    files->what = what;
    files->pins = pins;
    for (size_t i = 0; i < count; i++) {
        enum culm_status status = add(files, paths[i], error);
        if (status != CULM_OK) {
            culm_files_free(files);
            return status;
        }
    }
    *ret_files = files;
    return CULM_OK;
}

enum culm_status culm_files_read(const struct culm_files *files, size_t file, uint64_t at,
                                 void *ret_data, size_t len, struct culm_error *error) {
    const struct culm_files_entry *entry = &files->entry[file];
    const struct culm_pins_reader reader = {.pins = files->pins,
                                            .what = files->what,
                                            .path = entry->path,
                                            .fd = entry->fd,
                                            .stamp = entry->stamp};
    return culm_pins_read(&reader, at, ret_data, len, error);
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
