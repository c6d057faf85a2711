/*
 * A rehearsal of a plan: how well it does when the scheduler plays it through in virtual time.
 *
 * Plans are compared by the shares of frames that their queries answer in time, rounded to steps of
 * 1 %. The plan whose smallest share is larger is better; if that is the same, the next smallest
 * decides, and so on; last of all the mean does, in steps of 0.1 %. (Shares are rounded since
 * "equal if they are close" would not be transitive: three plans could each be better than the one
 * before, in a circle.)
 *
 * Thread: any. The same layout and plan always give the same result.
 */
#ifndef CULM_EDGE_REHEARSAL_H
#define CULM_EDGE_REHEARSAL_H

#include "edge/plan.h"

struct culm_edge_rehearsal {
    int32_t count;                       /* queries, but for those that only sample */
    double share[CULM_EDGE_QUERIES_MAX]; /* ascending */
    double mean;
};

/* Plays a plan through, beginning with nothing in memory. A short rehearsal lasts as long as 60
 * frames of the slowest query, but at least 2 s and at most 12 s, and less where there are very
 * many frames to play; a long one lasts five times as long. CULM_ERR_MEMORY. */
enum culm_status culm_edge_rehearsal_run(const struct culm_edge_layout *layout,
                                         const struct culm_edge_plan *plan, bool lasting,
                                         struct culm_edge_rehearsal *ret_rehearsal);
/* The same with `frames` frames of each feed, after which the feeds end. CULM_ERR_MEMORY. */
enum culm_status culm_edge_rehearsal_of_frames(const struct culm_edge_layout *layout,
                                               const struct culm_edge_plan *plan, int64_t frames,
                                               struct culm_edge_rehearsal *ret_rehearsal);
/* The work of a short and a long rehearsal together, in the units of culm_edge_cycle_work; and the
 * part of that which is the short one's. */
int64_t culm_edge_rehearsal_work(const struct culm_edge_layout *layout,
                                 const struct culm_edge_plan *plan);
int64_t culm_edge_rehearsal_brief_work(int64_t work);
/* Whether the first is better. Both must be of the same queries and equally long. This is a strict
 * weak order. */
bool culm_edge_rehearsal_better(const struct culm_edge_rehearsal *one,
                                const struct culm_edge_rehearsal *other);
/* Whether nothing could be better: every query had all frames answered in time, but for less than
 * one in 2,000. */
bool culm_edge_rehearsal_whole(const struct culm_edge_rehearsal *rehearsal);

#endif
