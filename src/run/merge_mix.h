/*
 * Frames to merge with after drift: old and new ones in one file, so that what was learnt by day is not
 * forgotten at night.
 *
 * The new ones are those that `culm edge run` has kept of a query (DIR/drift/QUERY-ROUND.idx), as its
 * model reads them. The old ones are of the feed that the query was merged with, evenly spaced; that may
 * be a mix itself. They come in turns, each kind in its order, so that the part that merging holds out
 * has both. Thread: any.
 */
#ifndef CULM_RUN_MERGE_MIX_H
#define CULM_RUN_MERGE_MIX_H

#include "base/stop.h"
#include "query/workload.h"
#include "vision/model.h"

#define CULM_MERGE_MIX_FRAMES 512 /* of both kinds, at most */

struct culm_merge_mixed {
    int64_t old_frames, new_frames;
};

/* How many frames an IDX file of frames has; 0: none, or it is no such file. */
int64_t culm_merge_mix_count(const char *path);
/* Writes `to`, an IDX file of at most CULM_MERGE_MIX_FRAMES frames, all as the query reads them (`input`).
 * Errors as of feeds; CULM_ERR_FORMAT: the new ones are of another size; CULM_ERR_STOPPED. Then there is no
 * such file. */
enum culm_status culm_merge_mix(const struct culm_feed_config *old, const char *fresh,
                                const struct culm_vision_input *input, const char *to,
                                const struct culm_stop *stop, struct culm_merge_mixed *ret_mixed,
                                struct culm_error *error);

#endif
