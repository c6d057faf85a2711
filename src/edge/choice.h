/*
 * Which of several layouts of the same queries to run, and by which plan. The layouts differ in
 * what queries share, and so in what has to be loaded; those that share more may be less accurate.
 *
 * Layouts are given in order of preference, the most accurate one first. A layout is chosen if it
 * fits into memory as a whole, or if no other answers more frames in time [rehearsal.h]; of equally
 * good ones the first. The best plan found so far is tried for the later layouts as well.
 *
 * With `tries`, plans near the best one are looked for in the first layout exactly as if there were
 * no other, so that the choice is never worse than that; in the layout that is best without such a
 * search; and in the last one. For the first and the last layout plans are also looked for as if
 * they shared less [less.h]: nothing (of the first only), and a third and two thirds of what they
 * share. Plans found where less is shared are then tried where more is.
 *
 * Thread: any. The same layouts always lead to the same choice, unless it is asked to stop early.
 */
#ifndef CULM_EDGE_CHOICE_H
#define CULM_EDGE_CHOICE_H

#include "edge/planner.h"

/* A layout that does not fit into its limit is skipped; if none fits, the error is that of the last
 * one. Errors as of culm_edge_plan. With options->quick, layouts are compared by the shares that
 * were worked out. Asked to stop, it returns the best of the layouts looked at so far. */
enum culm_status culm_edge_choose(const struct culm_edge_layout *const *layout, int32_t count,
                                  const struct culm_edge_plan_options *options, int32_t *ret_chosen,
                                  struct culm_edge_plan *ret_plan, struct culm_error *error);

#endif
