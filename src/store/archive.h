/*
 * Checkpoints kept apart from their run, in a storage (storage.h), from which the run goes on in another folder, on any
 * machine.
 *
 *     manifests/step-00000020.json                    which files it has, in which parts; written last
 *     objects/00000020-0123456789abcdef/SHA256        a part of a file: step and attempt that stored it, and its hash
 *     keep.json                                       {"keep": 15}: older ones may be going
 *     texts/SHA256                                    a text of the run, too large for where the others are; nothing removes it
 *
 * A checkpoint is there when its manifest is. What a part has is its name, so that parts which an older checkpoint has
 * are used again, and an upload that was cut off goes on where it was. Files of a run which it goes on with, beside its
 * checkpoint, are saved with it.
 *
 * Several processes may save and prune at once, also those that believe wrongly to have the run: a manifest that is there is
 * never replaced while its objects are; a new one counts only after its objects were looked for; what may be
 * used again is what a manifest at or above `keep` names; and `keep` goes up before anything is removed.
 *
 * Thread: any; a source belongs to one at a time.
 */
#ifndef CULM_STORE_ARCHIVE_H
#define CULM_STORE_ARCHIVE_H

#include "store/checkpoint.h"
#include "store/storage.h"

#define CULM_ARCHIVE_FORMAT "culm-archive-1"
#define CULM_ARCHIVE_RUN_SIZE 40

/* ---- saving -------------------------------------------------------------------------------- */

/* A checkpoint that is to be saved; its files are open, so that it stays whole if it is removed meanwhile, and beside them those
 * of run_dir/NAME that are there, as long as they are now. */
struct culm_archive_source;

/* `path`: of the checkpoint; `run`: which run it is of, as the manifest says. `beside`: up to a NULL. CULM_ERR_NOT_FOUND,
 * CULM_ERR_FORMAT: it is not whole; CULM_ERR_IO; CULM_ERR_MEMORY. */
enum culm_status culm_archive_source_open(const char *run_dir, const char *path, const char *run,
                                          const char *const *beside,
                                          struct culm_archive_source **ret_source,
                                          struct culm_error *error);
int64_t culm_archive_source_step(const struct culm_archive_source *source);
void culm_archive_source_free(struct culm_archive_source *source); /* NULL is fine */

struct culm_archive_saved {
    uint64_t bytes, sent; /* of all its parts; of those that were not there already */
    bool found;           /* it was saved before */
};
/* After a failure it may be called again, and sends what is missing. CULM_ERR_EXISTS: a checkpoint of that step is
 * there, and of another run or with other contents. Others as in storage.h. */
enum culm_status culm_archive_save(struct culm_storage *storage, struct culm_archive_source *source,
                                   struct culm_archive_saved *ret_saved, struct culm_error *error);
/* Keeps the checkpoint of `step` and the newest before it, `keep` (>= 1) in all; later ones stay. ret_removed: how many went. */
enum culm_status culm_archive_prune(struct culm_storage *storage, int64_t step, int64_t keep,
                                    size_t *ret_removed, struct culm_error *error);

/* The checkpoint of that step is not there any more, so that another one of it can be saved: it is not the run's. Its parts go when older
 * ones do. CULM_OK: also if there was none. */
enum culm_status culm_archive_forget(struct culm_storage *storage, int64_t step,
                                     struct culm_error *error);

/* ---- reading ------------------------------------------------------------------------------- */

struct culm_archive_about {
    int64_t step;
    char run[CULM_ARCHIVE_RUN_SIZE];
    uint64_t bytes;
    size_t files, parts;
    bool whole;               /* its manifest can be read, and all its objects are there */
    char why[CULM_ERROR_MAX]; /* of one that is not */
};
/* All that are there, by step, looked at one by one. The caller frees. */
enum culm_status culm_archive_list(struct culm_storage *storage,
                                   struct culm_archive_about **ret_about, size_t *ret_count,
                                   struct culm_error *error);
/* The newest that is whole, up to `most`. ret_warning: why the newest that is not was passed over, or "".
 * CULM_ERR_NOT_FOUND: there is none; CULM_ERR_FORMAT: none is whole. */
enum culm_status culm_archive_latest(struct culm_storage *storage, int64_t most,
                                     struct culm_archive_about *ret_about,
                                     char ret_warning[CULM_ERROR_MAX], struct culm_error *error);
/* Fetches a checkpoint to where run_dir has its own, in place of one of that step; and of what was saved beside it, the files that
 * `beside` names (up to a NULL; NULL: none), in their order, in place of what is there. Each part is compared with its hash.
 * CULM_ERR_NOT_FOUND, CULM_ERR_FORMAT. */
enum culm_status culm_archive_fetch(struct culm_storage *storage, int64_t step, const char *run_dir,
                                    const char *const *beside, struct culm_error *error);
/* Of those saved beside it alone. */
enum culm_status culm_archive_fetch_beside(struct culm_storage *storage, int64_t step,
                                           const char *run_dir, const char *const *beside,
                                           struct culm_error *error);

/* ---- texts --------------------------------------------------------------------------------- */

#define CULM_ARCHIVE_TEXT_MAX ((size_t)64 << 20)

/* It is there afterwards, and whole, whatever was there under that name. CULM_ERR_CONFIG: it is longer than that. */
enum culm_status culm_archive_text_put(struct culm_storage *storage, const char *text, size_t len,
                                       char ret_sha256[CULM_SHA256_HEX], struct culm_error *error);
/* With a NUL that `len` does not count; the caller frees. CULM_ERR_FORMAT: it is not there, or it is not that one. */
enum culm_status culm_archive_text_get(struct culm_storage *storage, const char *sha256, size_t len,
                                       char **ret_text, struct culm_error *error);

#endif
