/*
 * The scheduler that was released with GEMEL (NSDI 2023), in virtual time, as a yardstick: it does
 * what that program does, weak points included.
 *
 * Models are visited in the order in which they are given. What is missing of one is worked out in
 * pairs: as if only the one resident model that has most in common with it were there. It is loaded
 * whole, and for it whole models go, the most recently used first. Loading overlaps the batch
 * before where there is room for both. A visit takes the newest frames, as many as the model's
 * batch; if none of them can be in time it waits until one can. Batches of 1, 2 and 4 are chosen by
 * trying all combinations, or, with more than six models, one model after the other, for the
 * largest least share. All feeds begin together.
 *
 * Thread: any.
 */
#ifndef CULM_EDGE_GEMEL_H
#define CULM_EDGE_GEMEL_H

#include "edge/layout.h"

struct culm_edge_gemel {
    int32_t batch[CULM_EDGE_QUERIES_MAX]; /* index of the query's sizes */
    int64_t processed[CULM_EDGE_QUERIES_MAX];
    int64_t swaps;
    double load_share; /* of the time, not hidden behind batches */
};

/* `frames` of each query, whose feeds have not gone. answered[query_count * frames], zeroed: set
 * for each frame of each query that is answered in time; may be NULL. CULM_ERR_MEMORY */
enum culm_status culm_edge_gemel(const struct culm_edge_layout *layout, int64_t frames,
                                 struct culm_edge_gemel *ret_result, uint8_t *answered);

#endif
