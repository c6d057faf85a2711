/*
 * A storage: named objects, each of which is there whole or not at all, in a folder (storage_folder.c) or in a bucket
 * (cloud/s3.h). Checkpoints that are kept apart from their run lie in one (archive.h).
 *
 * Names are paths of parts "a-z", "A-Z", "0-9", '.', '_', '-', which do not begin with a '.', with '/' between them.
 * What one call has stored, or removed, the next one sees, whoever makes it.
 *
 * Errors: CULM_ERR_AGAIN: it could not be reached, or is overloaded, and was tried for as long as `patience_ms`;
 * CULM_ERR_CONFIG: it refuses, and would again; CULM_ERR_IO: as of files; CULM_ERR_STOPPED: somebody called stop.
 * Each says what, where and why. Thread: any; several at once.
 */
#ifndef CULM_STORE_STORAGE_H
#define CULM_STORE_STORAGE_H

#include "base/file.h"

#include <stdatomic.h>

#define CULM_STORAGE_NAME_MAX 192 /* of an object, with its NUL */
#define CULM_STORAGE_PLACE_MAX 600

struct culm_storage;

struct culm_storage_ops {
    size_t size; /* sizeof(struct culm_storage_ops), for versioning */
    /* In place of what is there; with `fresh`, CULM_ERR_EXISTS if there is something, which stays, and which this call may have
     * put itself, if an answer was lost. (Where a service
     * cannot be asked for that, it is looked for before.) When it fails otherwise, either may be there. */
    enum culm_status (*put)(struct culm_storage *storage, const char *name, const void *data,
                            size_t len, bool fresh, struct culm_error *error);
    /* The caller frees; a NUL that is not counted follows. CULM_ERR_NOT_FOUND; CULM_ERR_FORMAT: longer than max_bytes. */
    enum culm_status (*get)(struct culm_storage *storage, const char *name, size_t max_bytes,
                            char **ret_data, size_t *ret_len, struct culm_error *error);
    /* Names that begin with `prefix`, which ends with a '/'; whole, sorted bytewise. None is CULM_OK. */
    enum culm_status (*list)(struct culm_storage *storage, const char *prefix,
                             struct culm_names *ret_names, struct culm_error *error);
    /* Nothing there is CULM_OK. */
    enum culm_status (*remove)(struct culm_storage *storage, const char *name,
                               struct culm_error *error);
    void (*free)(struct culm_storage *storage);
};

struct culm_storage { /* first member of an implementation */
    const struct culm_storage_ops *ops;
    char place
        [CULM_STORAGE_PLACE_MAX]; /* as messages call it: "s3://BUCKET/PREFIX", or the folder */
    int64_t patience_ms;          /* 60,000; may be set before anybody uses it */
    atomic_bool stopped;
};

/* A folder, which is made when something is put into it. */
enum culm_status culm_storage_open_folder(const char *path, struct culm_storage **ret_storage,
                                          struct culm_error *error);
/* Calls that wait end soon, and so do later ones. Any thread. */
void culm_storage_stop(struct culm_storage *storage);
void culm_storage_free(struct culm_storage *storage); /* NULL is fine */

/* Whether it can be the name of an object. */
bool culm_storage_name_is(const char *name);
/* For an implementation: appends a name, which is copied. False: out of memory. Sorted, when all are there. */
bool culm_storage_names_add(struct culm_names *names, const char *name, size_t len);
void culm_storage_names_sort(struct culm_names *names);

#endif
