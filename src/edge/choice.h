/*
 * Which of several layouts of the same queries is run, and by which plan: they differ in what
 * queries share, and so in what has to be loaded, and whoever shares more may answer less well.
 *
 * Layouts come in the order in which they are wanted, the one that answers best first. It is run if
 * all of its tensors stay in memory, or if no other answers more frames in time [trial.h]. A plan
 * that was found for one layout is tried for the next ones, too. Plans near the best (`tries`) are
 * looked for in the first layout just as if there were no other, so that no choice is worse than
 * it; in the layout that is best without them; and in the last one. What is found where less is
 * shared is tried where more is: for each that shares tensors plans are looked for as well as if it
 * shared none, a third or two thirds of that [less.h].
 *
 * Thread: any. The same layouts have the same choice.
 */
#ifndef CULM_EDGE_CHOICE_H
#define CULM_EDGE_CHOICE_H

#include "edge/plan.h"

/* One that does not fit within its limit is passed over; where none does, errors are the last
 * one's. Errors as of culm_edge_plan. With options->quick, what counts is what is worked out. Asked
 * to stop, it is the best of those that were looked at. */
enum culm_status culm_edge_choose(const struct culm_edge_layout *const *layout, int32_t count,
                                  const struct culm_edge_plan_options *options, int32_t *ret_chosen,
                                  struct culm_edge_plan *ret_plan, struct culm_error *error);

#endif
