/*
 * Merging that goes on by itself: a package, and a run of `culm edge run` that uses it.
 *
 * The run's folder says what has become of the package there: `workload.yaml` has the queries of now, and
 * events.jsonl tells which of them drift has taken back, with frames of it in `drift`. When queries have
 * come, gone or been trained anew, and when one has been taken back and enough frames are there, merging
 * goes on from the package's current round (merge_from.c), for a query that was taken back with old and new
 * frames (merge_mix.h). Then it rests for as long as that took. Rounds that nobody uses any more are
 * removed.
 *
 *     PACKAGE/watch/lock             held while a watcher is there: one for each package
 *     PACKAGE/watch/QUERY-N.idx      frames that the package's config.yaml names
 *
 * Thread: one; culm_merge_watch_stop may be called by any thread and by a signal handler.
 */
#ifndef CULM_RUN_MERGE_WATCH_H
#define CULM_RUN_MERGE_WATCH_H

#include "report/sink.h"

struct culm_merge_watch;

/* CULM_ERR_NOT_FOUND: there is no such package, or no such run; CULM_ERR_CONFIG: the package is a copy;
 * CULM_ERR_EXISTS: another watcher is at work on it. `warning` gets lines for people. */
enum culm_status culm_merge_watch_new(const char *package, const char *run,
                                      void (*warning)(void *context, const char *text),
                                      void *context, struct culm_merge_watch **ret_watch,
                                      struct culm_error *error);
/* Until it is stopped. What fails is warned of and tried again, ever later. Events of merging, and its own, go
 * to the sink, which is borrowed. */
enum culm_status culm_merge_watch_run(struct culm_merge_watch *watch, struct culm_sink *sink,
                                      struct culm_error *error);
void culm_merge_watch_stop(struct culm_merge_watch *watch);
void culm_merge_watch_free(struct culm_merge_watch *watch); /* NULL is fine */

#endif
