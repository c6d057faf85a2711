/*
 * What a watcher merges: the run's queries, by the package's settings, on frames that can be read more
 * than once. Private to merge_watch.c. Thread: any.
 */
#ifndef CULM_RUN_MERGE_WATCH_WORKLOAD_H
#define CULM_RUN_MERGE_WATCH_WORKLOAD_H

#include "base/file.h"
#include "query/workload.h"

/* The queries of RUN/workload.yaml. One that the package knows keeps the feed and the labels that it was
 * merged with; a new one has the run's, or, if that is a stream, the package's of the same name. A query
 * without frames is left out, with a warning. The caller releases the workload. */
enum culm_status merge_watch_workload(const char *package, const char *run,
                                      void (*warning)(void *context, const char *text),
                                      void *context, struct culm_workload *ret_workload,
                                      struct culm_error *error);
/* Gives a query a feed of its own, without labels. */
enum culm_status merge_watch_set_feed(struct culm_workload *workload, size_t query,
                                      const char *file, struct culm_error *error);
/* A file for frames of a query, other than `now`, the one that it has. */
enum culm_status merge_watch_frames_path(const char *folder, const char *query, const char *now,
                                         char ret_path[CULM_PATH_MAX], struct culm_error *error);
/* Removes files of frames that the package's workload does not name. */
enum culm_status merge_watch_prune_frames(const char *package, const char *folder,
                                          struct culm_error *error);

#endif
