/*
 * A trial of a plan: how it does when the scheduler plays it through in virtual time.
 *
 * What counts are shares of frames that are answered in time, rounded to steps of one in a hundred.
 * The smallest comes first: a plan is better than another where its smallest share is on a higher
 * step; on the same one the next smallest decides, and last of all the mean, in steps of one in a
 * thousand. (Steps, since "the same if they are near" is not transitive: each of three plans could
 * be better than the one before it.)
 *
 * Thread: any. The same layout and plan do the same.
 */
#ifndef CULM_EDGE_TRIAL_H
#define CULM_EDGE_TRIAL_H

#include "edge/plan.h"

struct culm_edge_trial {
    int32_t count;                       /* of queries that do not sample */
    double share[CULM_EDGE_QUERIES_MAX]; /* ascending */
    double mean;
};

/* A short trial is some rounds, beginning with nothing in memory; a long one is five times as long.
 * CULM_ERR_MEMORY */
enum culm_status culm_edge_trial_run(const struct culm_edge_layout *layout,
                                     const struct culm_edge_plan *plan, bool lasting,
                                     struct culm_edge_trial *ret_trial);
/* As many frames of each feed, which end then. CULM_ERR_MEMORY */
enum culm_status culm_edge_trial_of_frames(const struct culm_edge_layout *layout,
                                           const struct culm_edge_plan *plan, int64_t frames,
                                           struct culm_edge_trial *ret_trial);
/* What both trials of a plan take, in the units of culm_edge_cycle_work; and of that the short one.
 */
int64_t culm_edge_trial_work(const struct culm_edge_layout *layout,
                             const struct culm_edge_plan *plan);
int64_t culm_edge_trial_brief_work(int64_t work);
/* Both of the same queries and equally long. A strict order: what is better than a better one is
 * better. */
bool culm_edge_trial_better(const struct culm_edge_trial *one, const struct culm_edge_trial *other);
/* Nothing can be better: all frames were answered in time, or all but one in 2,000. */
bool culm_edge_trial_whole(const struct culm_edge_trial *trial);

#endif
