/*
 * A plan for a layout: in which order queries are visited, how many frames a visit takes, how many
 * frames may wait, and what is evicted. planner.h makes them.
 *
 * Thread: any.
 */
#ifndef CULM_EDGE_PLAN_H
#define CULM_EDGE_PLAN_H

#include "edge/residency.h"

struct culm_edge_plan {
    int32_t count;
    int32_t order[CULM_EDGE_QUERIES_MAX];
    int32_t visit[CULM_EDGE_QUERIES_MAX]; /* by query: the most frames that a visit takes */
    int32_t slots;                        /* frames of each feed that may be held at once */
    enum culm_edge_eviction eviction;
    /* While a query runs, nothing is evicted that is needed before that query's next visit. */
    bool patient;
    int32_t passes;      /* how often a query may lose frames by being passed over */
    int64_t round_bytes; /* loaded in a round */
    double least_share;  /* the expected share of frames answered for the worst-off query */
    int64_t work;        /* what finding it took, in the units of culm_edge_cycle_work */
};

/* Whether two plans say to do the same, whatever is expected of them. */
bool culm_edge_plan_same(const struct culm_edge_plan *one, const struct culm_edge_plan *other);

/* The index of the batch size for `frames` frames: the smallest that holds them, or else the
 * largest. */
int32_t culm_edge_batch_for(const struct culm_edge_query *query, int32_t frames);
/* How long `frames` frames take in as many batches as they need, of the first `largest` + 1 sizes.
 */
uint64_t culm_edge_visit_ns(const struct culm_edge_query *query, int32_t frames, int32_t largest);

#endif
