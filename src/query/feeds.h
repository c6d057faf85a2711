/* The feeds of a workload, opened and read as all that take whole frames of them do. Thread: one a feed. */
#ifndef CULM_QUERY_FEEDS_H
#define CULM_QUERY_FEEDS_H

#include "base/stop.h"
#include "data/feed.h"
#include "query/workload.h"

/* What a workload says of a feed: without a loop, from the first frame to the last. `labels`: of the query
 * that asks, as the workload has them; "folders" and NULL need no file. Everything is borrowed. */
struct culm_feed_options culm_feed_options_of(const struct culm_feed_config *config,
                                              const char *labels);
/* The next frame, however long it takes; otherwise as culm_feed_next. */
enum culm_status culm_feed_next_whole(struct culm_feed *feed, struct culm_feed_frame *ret_frame,
                                      struct culm_error *error);
/* Whether a feed can be read once alone, and may have no end: a fifo, a device, a camera's stream. */
bool culm_feed_comes_once(const char *file);
#define CULM_FEED_COUNTED_MAX 100000 /* what is no file and has as many frames may have no end */
/* Frames in the file, where need be by reading them all, which takes a while; of what is no file,
 * CULM_FEED_COUNTED_MAX at most. Errors as of culm_feed_next; CULM_ERR_AGAIN: it was asked to stop. Who can stop it waits for a
 * feed that has stalled; without a `stop` (NULL) that is an error. */
enum culm_status culm_feed_count_whole(struct culm_feed *feed, const struct culm_stop *stop,
                                       int64_t *ret_count, struct culm_error *error);

#endif
