/*
 * The scheduler that was released with GEMEL (NSDI 2023), in virtual time, as a baseline: it does
 * what that program does, weaknesses included.
 *
 * Models are visited in the order given. What a model lacks is worked out pairwise, as if the one
 * resident model that has most in common with it were the only one there. Models are loaded and
 * evicted whole, the most recently used first. Loading overlaps the batch before it if there is
 * room for both. A visit takes the newest frames, as many as the model's batch size; if none of
 * them can be answered in time, it waits until one can. Batch sizes of 1, 2 and 4 are chosen for
 * the largest smallest share: from all combinations with up to six models, else for one model after
 * the other. All feeds begin at the same time.
 *
 * Thread: any.
 */
#ifndef CULM_EDGE_GEMEL_H
#define CULM_EDGE_GEMEL_H

#include "edge/layout.h"

struct culm_edge_gemel {
    int32_t batch[CULM_EDGE_QUERIES_MAX];     /* as an index of the query's batch sizes */
    int64_t processed[CULM_EDGE_QUERIES_MAX]; /* frames answered in time */
    int64_t swaps;                            /* loads of a model */
    double load_share;                        /* of the time: loading that no batch hides */
};

/* Plays `frames` frames of each query; no query and no feed may have gone. answered[query_count *
 * frames], zeroed by the caller, is set to 1 for each frame of each query that is answered in time;
 * it may be NULL. CULM_ERR_MEMORY. */
enum culm_status culm_edge_gemel_play(const struct culm_edge_layout *layout, int64_t frames,
                                      struct culm_edge_gemel *ret_result, uint8_t *answered);

#endif
