/*
 * The plan for a layout: in which order queries are visited, how many frames a visit takes, how
 * many frames may wait, and what is evicted.
 *
 * First a plan is worked out: the order that loads the least [order.h], and the frames per visit
 * that give the largest smallest share [batches.h]. That assumes a round that repeats itself, but
 * feeds are not in step with rounds. So the scheduler itself then plays the plan, and variants of
 * it, through in virtual time [trial.h], and the one with the best shares is taken. The best order
 * need not be the one that loads the least: `tries` more plans are played, one after the other,
 * each of which differs from the best so far in one thing or two (the order, the length of a
 * visit, what is evicted).
 *
 * Where frames are waiting for the plan, the effort is bounded by counting work: with many queries
 * the order is then improved less, and few plans or none are played.
 *
 * Thread: any. No clock and no true randomness: a layout always gets the same plan, unless planning
 * is asked to stop early.
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

/* Asked before each trial, on the planning thread, whether to make do with what has been found. */
struct culm_edge_stop {
    bool (*asked)(const void *ctx);
    const void *ctx;
};

struct culm_edge_plan_options {
    bool given_order; /* visit queries in the order of the layout; else in the best order found */
    int32_t visit;    /* frames of every visit; 0: the best found */
    bool quick;       /* only work the plan out, and play nothing through */
    int32_t tries;    /* how many plans near the best one to play as well: some ms each */
    int64_t work;     /* the most work to do; at least one plan is made. 0: no bound */
    const struct culm_edge_stop *stop;  /* once it says so, no more plans are tried; NULL: never */
    const struct culm_edge_plan *other; /* [others] plans to try as well, if they can be run */
    int32_t others;
    /* For a choice of layouts [choice.h] only: the finalists are compared over this many frames of
     * each feed; 0: by long trials. */
    int64_t frames;
};
#define CULM_EDGE_PLAN_TRIES 200        /* `tries` where there is a second to spare */
#define CULM_EDGE_PLAN_HASTE 20000000ll /* `work` where frames are waiting: some 40 ms */

/* False where stop is NULL. */
bool culm_edge_asked_to_stop(const struct culm_edge_stop *stop);

/* options may be NULL. However early it is asked to stop, the plan can be run. Errors: those of
 * culm_edge_layout_check, and CULM_ERR_MEMORY. */
enum culm_status culm_edge_plan(const struct culm_edge_layout *layout,
                                const struct culm_edge_plan_options *options,
                                struct culm_edge_plan *ret_plan, struct culm_error *error);
/* Whether two plans say to do the same, whatever is expected of them. */
bool culm_edge_plan_same(const struct culm_edge_plan *one, const struct culm_edge_plan *other);

/* The index of the batch size for `frames` frames: the smallest that holds them, or else the
 * largest. */
int32_t culm_edge_batch_for(const struct culm_edge_query *query, int32_t frames);
/* How long `frames` frames take in as many batches as they need, of the first `largest` + 1 sizes.
 */
uint64_t culm_edge_visit_ns(const struct culm_edge_query *query, int32_t frames, int32_t largest);

#endif
