/*
 * Checkpoints apart (store/apart.h) in a storage, to which uploads (uploads.h) bring them.
 *
 * What lies beside a checkpoint there is the whole run's: its events begin with those that whoever led before has stored, which are
 * fetched before the first checkpoint is sent. All that is gathered in DIR/stored.
 *
 * Thread: any.
 */
#ifndef CULM_LAUNCH_STORED_H
#define CULM_LAUNCH_STORED_H

#include "launch/uploads.h"
#include "store/apart.h"

#define CULM_STORED_MS 120000 /* for which one that is published waits for a storage that is away */

/* All are borrowed; `dir` is where whoever leads keeps the run; what events.jsonl has by then is of an earlier reign. NULL: out of
 * memory. */
struct culm_apart *culm_stored_new(struct culm_storage *storage, struct culm_uploads *uploads,
                                   const char *dir);
void culm_stored_free(struct culm_apart *apart); /* NULL is fine */

#endif
