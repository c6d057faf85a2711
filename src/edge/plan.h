/*
 * The plan of a layout: the order of the queries, how many frames a visit takes, how many frames
 * may wait.
 *
 * The order is the one that loads least [order.h], the frames of a visit those with the largest
 * least share [batches.h]. That is worked out for a round that repeats itself, and feeds are not in
 * step with rounds, so the scheduler itself then plays the plan, and some that are near it, through
 * in virtual time, and the one with the best shares is taken. The best order need not be the one
 * that loads least: `tries` plans that differ from the best in one thing (two places of the order,
 * a visit, what is evicted) are played too, one after the other.
 *
 * Where frames wait, what that may take is bounded by counting it: of many queries the order is
 * improved less, and few plans or none are played.
 *
 * Thread: any. No clock and no dice: the same layout has the same plan.
 */
#ifndef CULM_EDGE_PLAN_H
#define CULM_EDGE_PLAN_H

#include "edge/residency.h"

struct culm_edge_plan {
    int32_t count;
    int32_t order[CULM_EDGE_QUERIES_MAX];
    int32_t visit[CULM_EDGE_QUERIES_MAX]; /* by query: frames that a visit takes at most */
    int32_t slots;                        /* frames of each feed that may be there at once */
    enum culm_edge_eviction eviction;
    bool patient;        /* nothing goes that is needed before what runs now */
    int32_t passes;      /* how often a query may lose frames by being passed over */
    int64_t round_bytes; /* loaded in a round */
    double least_share;  /* as expected */
    int64_t work;        /* what it took to find it, in the units of culm_edge_cycle_work */
};

/* Whether to make do with what has been found so far; asked before each trial, on the planning
 * thread. */
struct culm_edge_stop {
    bool (*asked)(const void *ctx);
    const void *ctx;
};

struct culm_edge_plan_options {
    bool given_order; /* of the layout; else the best */
    int32_t visit;    /* of every query; 0: the best */
    bool quick;       /* nothing is played through */
    int32_t tries;    /* plans near the best one that are played besides: some ms each */
    int64_t work;     /* that may be spent, in such units; one plan at least is made. 0: no bound */
    const struct culm_edge_stop *stop;  /* once it asks for an end no more are tried; NULL: none */
    const struct culm_edge_plan *other; /* [others] those that can be run are tried as well */
    int32_t others;
    /* Of a choice of layouts [choice.h]: what is left in the end is compared by so many frames of
     * each feed; 0: by long trials. */
    int64_t frames;
};
#define CULM_EDGE_PLAN_TRIES 200        /* where there is a second to spare */
#define CULM_EDGE_PLAN_HASTE 20000000ll /* units, where frames wait: some 40 ms */

/* False where stop is NULL. */
bool culm_edge_asked_to_stop(const struct culm_edge_stop *stop);

/* options may be NULL. However early it is asked to stop, the plan is one that can be run.
 * CULM_ERR_CONFIG and CULM_ERR_ARGUMENT as of culm_edge_layout_check; CULM_ERR_MEMORY. */
enum culm_status culm_edge_plan(const struct culm_edge_layout *layout,
                                const struct culm_edge_plan_options *options,
                                struct culm_edge_plan *ret_plan, struct culm_error *error);
/* Whether they say the same; what is expected of them does not count. */
bool culm_edge_plan_same(const struct culm_edge_plan *one, const struct culm_edge_plan *other);

/* The batch for so many frames: the smallest that holds them, or else the largest. */
int32_t culm_edge_batch_for(const struct culm_edge_query *query, int32_t frames);
/* How long so many frames take, in as many batches as they need, of the first `largest` + 1 sizes.
 */
uint64_t culm_edge_visit_ns(const struct culm_edge_query *query, int32_t frames, int32_t largest);

#endif
