/* The feeds of a workload, opened and read as all that take whole frames of them do. Thread: one a feed. */
#ifndef CULM_RUN_FEEDS_H
#define CULM_RUN_FEEDS_H

#include "data/feed.h"
#include "merge/workload.h"

/* What a workload says of a feed: without a loop, from the first frame to the last. `labels`: of the query
 * that asks, as the workload has them; "folders" and NULL need no file. Everything is borrowed. */
struct culm_feed_options culm_feed_options_of(const struct culm_feed_config *config,
                                              const char *labels);
/* The next frame, however long it takes; otherwise as culm_feed_next. */
enum culm_status culm_feed_next_whole(struct culm_feed *feed, struct culm_feed_frame *ret_frame,
                                      struct culm_error *error);
#define CULM_FEED_COUNTED_MAX 100000 /* frames of a clip that has as many may have no end */
/* Frames in the file, where need be by reading them all, which takes a while; `most` at most, as a feed may
 * have no end. Errors as of culm_feed_next. */
enum culm_status culm_feed_count_whole(struct culm_feed *feed, int64_t most, int64_t *ret_count,
                                       struct culm_error *error);

#endif
