/* Shared by the files of archives; nobody else includes it. See archive.h. */
#ifndef CULM_STORE_ARCHIVE_INTERNAL_H
#define CULM_STORE_ARCHIVE_INTERNAL_H

#include "store/archive.h"

#include <jansson.h>

#define ARCHIVE_PART_BYTES ((size_t)16 << 20)
#define ARCHIVE_MANIFEST_MAX ((size_t)256 << 20)
#define ARCHIVE_ATTEMPT_SIZE 17          /* 16 hexadecimal digits */
#define ARCHIVE_CHECKPOINT "checkpoint/" /* in front of the names of a checkpoint's own files */

struct archive_part {
    char object[CULM_STORAGE_NAME_MAX]; /* "": not yet known */
    uint64_t bytes;
};

struct archive_file {
    char name[160]; /* "checkpoint/NAME", or the NAME of what lies beside */
    uint64_t bytes;
    size_t first; /* of its parts */
    size_t count;
};

struct archive_manifest {
    int64_t step;
    char run[CULM_ARCHIVE_RUN_SIZE], attempt[ARCHIVE_ATTEMPT_SIZE];
    struct archive_file *file;
    size_t file_count, file_capacity;
    struct archive_part *part;
    size_t part_count, part_capacity;
};

void archive_manifest_release(struct archive_manifest *manifest); /* fine on a zeroed one */
/* A file with its parts, without the names of objects. False: out of memory, or the name is too long. */
bool archive_manifest_add(struct archive_manifest *manifest, const char *name, uint64_t bytes);
/* The caller frees. NULL: out of memory. */
char *archive_manifest_text(const struct archive_manifest *manifest);
/* CULM_ERR_NOT_FOUND; CULM_ERR_FORMAT: it is damaged, or of another step. */
enum culm_status archive_manifest_get(struct culm_storage *storage, int64_t step,
                                      struct archive_manifest *ret_manifest,
                                      struct culm_error *error);
/* Whether the objects of all parts are there. CULM_ERR_FORMAT: they are not. */
enum culm_status archive_manifest_check(struct culm_storage *storage,
                                        const struct archive_manifest *manifest,
                                        struct culm_error *error);
/* Whether two have the same pieces: which node wrote them, and what lies beside, may differ. */
bool archive_manifest_equal(const struct archive_manifest *a, const struct archive_manifest *b);

/* CULM_OK, and no error, in place of that one status. */
static inline enum culm_status archive_forgive(enum culm_status status, enum culm_status forgiven,
                                               struct culm_error *error) {
    if (status != forgiven) {
        return status;
    }
    culm_error_clear(error);
    return CULM_OK;
}

/* "manifests/step-00000020.json" */
void archive_manifest_name(int64_t step, char ret_name[CULM_STORAGE_NAME_MAX]);
/* Steps of all manifests that are there, ascending; the caller frees. */
enum culm_status archive_steps(struct culm_storage *storage, int64_t **ret_step, size_t *ret_count,
                               struct culm_error *error);
/* "objects/00000020-ATTEMPT/" */
void archive_attempt_name(int64_t step, const char *attempt, char ret_name[CULM_STORAGE_NAME_MAX]);
/* False: no object of an archive is called so. */
bool archive_object_is(const char *name, int64_t *ret_step, const char **ret_sha256);
bool archive_has(const struct culm_names *names, const char *name); /* sorted */

/* Calls `work` for 0 to count-1 on a few threads, until one fails; its error. Each thread has a room of its own of so many
 * bytes, which may be 0. */
typedef enum culm_status (*archive_work)(void *ctx, size_t index, char *room,
                                         struct culm_error *error);
enum culm_status archive_each(size_t count, size_t room_bytes, archive_work work, void *ctx,
                              struct culm_error *error);

#endif
