/*
 * Files with data: opened once, then read at any offset by any thread.
 *
 * Reads with pread, so no memory is needed, all workers of a machine share the page cache, and a
 * file that shrinks during a run leads to an error, not to SIGBUS.
 *
 * Thread: constant after opening.
 */
#ifndef CULM_DATA_FILES_H
#define CULM_DATA_FILES_H

#include "base/pins.h"

struct culm_files_entry {
    char *path;
    int fd;
    struct culm_stamp stamp;
    uint64_t bytes; /* at least 1 */
};

struct culm_files {
    const char *what;       /* for messages, such as "text" */
    struct culm_pins *pins; /* NULL: changes are not noticed */
    size_t count;
    struct culm_files_entry entry[];
};

/* CULM_ERR_CONFIG: a file is missing, empty, or not a regular file; CULM_ERR_IO: it may not be
 * read; CULM_ERR_CHANGED: it is not the pinned one. `what` and `pins` (may be NULL) are borrowed as
 * long as the files are open. */
enum culm_status culm_files_open(const char *what, const char *const *paths, size_t count,
                                 struct culm_pins *pins, struct culm_files **ret_files,
                                 struct culm_error *error);
void culm_files_free(struct culm_files *files); /* NULL is fine */
/* Reads [at, at + len) of one file. CULM_ERR_IO: it cannot be read, or has become shorter;
 * CULM_ERR_CHANGED: the content is not the pinned one. */
enum culm_status culm_files_read(const struct culm_files *files, size_t file, uint64_t at,
                                 void *ret_data, size_t len, struct culm_error *error);
/* Reads a whole file, and appends a NUL that *ret_len does not count; the caller frees it.
 * CULM_ERR_CONFIG: it has more than max_bytes. */
enum culm_status culm_files_slurp(const struct culm_files *files, size_t file, uint64_t max_bytes,
                                  char **ret_data, size_t *ret_len, struct culm_error *error);

#endif
