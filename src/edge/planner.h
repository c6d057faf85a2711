/*
 * Making the plan for a layout.
 *
 * First a plan is worked out: the order that loads the least [order.h], and the frames per visit
 * that give the largest smallest share [batches.h]. That assumes a round that repeats itself, but
 * feeds are not in step with rounds. So the scheduler itself then plays the plan, and variants of
 * it, through in virtual time [rehearsal.h], and the one with the best shares is taken. The best
 * order need not be the one that loads the least: `tries` more plans are played, one after the
 * other, each of which differs from the best so far in one thing or two (the order, the length of a
 * visit, what is evicted).
 *
 * Where frames are waiting for the plan, the effort is bounded by counting work: with many queries
 * the order is then improved less, and few plans or none are played.
 *
 * Thread: any. No clock and no true randomness: a layout always gets the same plan, unless planning
 * is asked to stop early.
 */
#ifndef CULM_EDGE_PLANNER_H
#define CULM_EDGE_PLANNER_H

#include "base/stop.h"
#include "edge/plan.h"

struct culm_edge_plan_options {
    bool given_order; /* visit queries in the order of the layout; else in the best order found */
    int32_t visit;    /* frames of every visit; 0: the best found */
    bool quick;       /* only work the plan out, and play nothing through */
    int32_t tries;    /* how many plans near the best one to play as well: some ms each */
    int64_t work;     /* the most work to do; at least one plan is made. 0: no bound */
    const struct culm_stop *stop;       /* asked before each rehearsal; once it says so, no more
 plans are tried; NULL: never */
    const struct culm_edge_plan *other; /* [others] plans to try as well, if they can be run */
    int32_t others;
    /* For a choice of layouts [choice.h] only: the finalists are compared over this many frames of
     * each feed; 0: by long rehearsals. */
    int64_t frames;
};
#define CULM_EDGE_PLAN_TRIES 200        /* `tries` where there is a second to spare */
#define CULM_EDGE_PLAN_HASTE 20000000ll /* `work` where frames are waiting: some 40 ms */

/* options may be NULL. However early it is asked to stop, the plan can be run. Errors: those of
 * culm_edge_layout_check, and CULM_ERR_MEMORY. */
enum culm_status culm_edge_plan_make(const struct culm_edge_layout *layout,
                                     const struct culm_edge_plan_options *options,
                                     struct culm_edge_plan *ret_plan, struct culm_error *error);

#endif
