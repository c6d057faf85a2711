/*
 * Files that hold data: opened once, read at any offset by any thread.
 *
 * Reading is pread: no memory, the page cache is shared by all workers of a machine, and a file
 * that shrinks while a run uses it gives an error, not a SIGBUS.
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
    const char *what;       /* in messages: "text" */
    struct culm_pins *pins; /* NULL: what changes is not noticed */
    size_t count;
    struct culm_files_entry entry[];
};

/* `what` is borrowed for good. CULM_ERR_CONFIG when a file is missing, empty or no plain file;
 * CULM_ERR_IO when it may not be read; CULM_ERR_CHANGED when it is not what was pinned. `pins` (may
 * be NULL) is borrowed as long as the files are open. */
enum culm_status culm_files_open(const char *what, const char *const *paths, size_t count,
                                 struct culm_pins *pins, struct culm_files **ret_files,
                                 struct culm_error *error);
void culm_files_free(struct culm_files *files); /* NULL is fine */
/* Reads [at, at + len) of one file. CULM_ERR_IO when it cannot be read or became shorter;
 * CULM_ERR_CHANGED when it holds other than what was pinned. */
enum culm_status culm_files_read(const struct culm_files *files, size_t file, uint64_t at,
                                 void *ret_data, size_t len, struct culm_error *error);
/* The whole of one file and a NUL that is not counted; the caller frees. CULM_ERR_CONFIG when it
 * has more than max_bytes. */
enum culm_status culm_files_slurp(const struct culm_files *files, size_t file, uint64_t max_bytes,
                                  char **ret_data, size_t *ret_len, struct culm_error *error);

#endif
