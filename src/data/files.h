/*
 * Files with data: found once, then read at any offset by any thread.
 *
 * Reads with pread, so no memory is needed, all workers of a machine share the page cache, and a
 * file that shrinks during a run leads to an error, not to SIGBUS. Up to CULM_FILES_OPEN of them
 * stay open; of more, each is opened when it is read, so that the number of files has nothing to do
 * with the limit of open files.
 *
 * Where text is expected, the first bytes of each file are looked at: gzip is unpacked into memory,
 * what is no text (content.h) is refused. Token ids may begin with any bytes; there the name must
 * agree, or the first bytes must be so many that no ids begin like that.
 *
 * Pins: each file is pinned by itself, but for the files of a folder or a pattern of more than
 * CULM_FILES_APART, which are one pin.
 *
 * Thread: constant after opening.
 */
#ifndef CULM_DATA_FILES_H
#define CULM_DATA_FILES_H

#include "base/pins.h"

#define CULM_FILES_OPEN 64
#define CULM_FILES_APART 256
#define CULM_FILES_NOTE 256

enum culm_files_content { CULM_FILES_ANY, CULM_FILES_TEXT, CULM_FILES_TOKENS };

struct culm_files_entry {
    char *path;
    int fd;            /* -1: opened when it is read, or not at all */
    uint64_t bytes;    /* at least 1; of what was in it, where it was unpacked */
    char *unpacked;    /* NULL: it is read as it is */
    const char *group; /* the pin that it is a part of; NULL: one by itself */
    size_t member;     /* of the group */
    struct culm_stamp stamp;
};

struct culm_files {
    const char *what;           /* for messages, such as "text" */
    struct culm_pins *pins;     /* NULL: changes are not noticed */
    char **group;               /* names; NULL-terminated */
    char note[CULM_FILES_NOTE]; /* one line that says what was left out; "": nothing */
    size_t count;
    struct culm_files_entry entry[];
};

struct culm_files_options {
    const char *what; /* borrowed as long as the files are open, as pins are */
    enum culm_files_content content;
    bool many; /* paths may be folders and patterns (corpus.h) */
    const char *const *paths;
    size_t path_count;
    struct culm_pins *pins; /* NULL: none */
};

/* CULM_ERR_CONFIG: a file is missing, empty, or not a regular file; CULM_ERR_FORMAT: it does not
 * hold what is expected; CULM_ERR_IO: it may not be read; CULM_ERR_CHANGED: it is not the pinned
 * one. */
enum culm_status culm_files_open_as(const struct culm_files_options *options,
                                    struct culm_files **ret_files, struct culm_error *error);
/* The same of plain files with anything in them. */
enum culm_status culm_files_open(const char *what, const char *const *paths, size_t count,
                                 struct culm_pins *pins, struct culm_files **ret_files,
                                 struct culm_error *error);
void culm_files_free(struct culm_files *files); /* NULL is fine */
/* What is kept in memory: unpacked files. */
size_t culm_files_resident_bytes(const struct culm_files *files);
/* Reads [at, at + len) of one file. CULM_ERR_IO: it cannot be read, or has become shorter;
 * CULM_ERR_CHANGED: the content is not the pinned one. */
enum culm_status culm_files_read(const struct culm_files *files, size_t file, uint64_t at,
                                 void *ret_data, size_t len, struct culm_error *error);
/* Reads a whole file, and appends a NUL that *ret_len does not count; the caller frees it.
 * CULM_ERR_CONFIG: it has more than max_bytes. */
enum culm_status culm_files_slurp(const struct culm_files *files, size_t file, uint64_t max_bytes,
                                  char **ret_data, size_t *ret_len, struct culm_error *error);

#endif
