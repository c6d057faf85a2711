/*
 * Checkpoints of a run on their way to a storage (store/archive.h), on a thread of their own: neither protocol nor workers
 * wait for it.
 *
 * One is sent at a time. Of those that are published meanwhile the newest waits, and is next; the others are left out. While
 * the storage is away, it is tried again for as long as the run goes on.
 *
 * Thread: one at a time for each object.
 */
#ifndef CULM_LAUNCH_UPLOADS_H
#define CULM_LAUNCH_UPLOADS_H

#include "store/archive.h"

#include <jansson.h>

#define CULM_UPLOADS_END_MS 600000 /* for which the end of a run waits for a storage that is away */

struct culm_uploads;

/* `dir`: of the run. The storage has a checkpoint of `stored` (-1: none) already; `keep` of them stay. All borrowed; NULL: out
 * of memory. */
struct culm_uploads *culm_uploads_new(struct culm_storage *storage, const char *dir,
                                      const char *unit, int64_t stored, int64_t keep);
/* Ends what is being sent. NULL is fine. */
void culm_uploads_free(struct culm_uploads *uploads);

/* `path`: of a whole checkpoint of the run, which may be removed once this returns. Passed over if the storage has it
 * already. */
void culm_uploads_send(struct culm_uploads *uploads, const char *path);
/* The same with the files beside it from another folder than `dir`. */
void culm_uploads_send_with(struct culm_uploads *uploads, const char *path, const char *beside);
/* What came of one: {"event": "stored", UNIT, "ok", "to", "bytes", "sent", "ms", "message"}; NULL: nothing since. The caller's. */
json_t *culm_uploads_result(struct culm_uploads *uploads);
/* Waits until the storage has the checkpoint of `step`, which was sent, or a later one. CULM_ERR_IO: it was refused, or the storage
 * has been away for so long. */
enum culm_status culm_uploads_await(struct culm_uploads *uploads, int64_t step, int64_t ms,
                                    struct culm_error *error);
bool culm_uploads_busy(struct culm_uploads *uploads);
/* Whether the newest that was sent is there. Else ret_step says which is not, and ret_why[CULM_ERROR_MAX] why. */
bool culm_uploads_done(struct culm_uploads *uploads, int64_t *ret_step, char *ret_why);

/* Files of a run that lie beside its checkpoints in a storage, up to a NULL. */
extern const char *const culm_uploads_beside[];
/* Which run the one in `dir` is, as its first event says; "": it has none. */
void culm_uploads_run_of(const char *dir, char ret_run[CULM_ARCHIVE_RUN_SIZE]);

#endif
