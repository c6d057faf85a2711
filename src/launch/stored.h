/*
 * Checkpoints apart (store/apart.h) in a storage, to which uploads (uploads.h) bring them.
 *
 * Thread: any.
 */
#ifndef CULM_LAUNCH_STORED_H
#define CULM_LAUNCH_STORED_H

#include "launch/uploads.h"
#include "store/apart.h"

#define CULM_STORED_MS 120000 /* for which one that is published waits for a storage that is away */

/* Both are borrowed. NULL: out of memory. */
struct culm_apart *culm_stored_new(struct culm_storage *storage, struct culm_uploads *uploads);
void culm_stored_free(struct culm_apart *apart); /* NULL is fine */

/* The files of the run that lie beside its newest checkpoint into `dir`. *ret_step: of which it is; 0: there is none.
 * ret_warning[CULM_ERROR_MAX]: why the newest one was passed over, or "". */
enum culm_status culm_stored_begin(struct culm_storage *storage, const char *dir, int64_t *ret_step,
                                   char *ret_warning, struct culm_error *error);

#endif
