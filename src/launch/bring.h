/*
 * A run's newest checkpoint out of a storage (store/archive.h) into its directory, before the run goes on there: into one that
 * is new or empty, or one whose run has got further elsewhere.
 *
 * Thread: the caller's.
 */
#ifndef CULM_LAUNCH_BRING_H
#define CULM_LAUNCH_BRING_H

#include "store/archive.h"

struct culm_brought {
    int64_t stored;               /* the newest that the storage has; -1: none is whole */
    int64_t step;                 /* what was fetched; -1: nothing, what is there is as new */
    char warning[CULM_ERROR_MAX]; /* of a newer one that is not whole, or "" */
};

/* What is in `dir` of an older state of the same run stays, its events under another name. CULM_ERR_EXISTS: there is
 * something else in `dir`, or another run than in the storage; CULM_ERR_FORMAT: neither has a whole one; and as in
 * storage.h. A failure, or a crash, leaves nothing that the next call does not mend. */
enum culm_status culm_bring(struct culm_storage *storage, const char *dir,
                            struct culm_brought *ret_brought, struct culm_error *error);

/* For a run that begins: there must be none in the storage, and it must let us write. CULM_ERR_EXISTS; and as in storage.h. */
enum culm_status culm_bring_check_new(struct culm_storage *storage, struct culm_error *error);

#endif
