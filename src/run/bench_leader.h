/*
 * What a leader does, alone in a world that only counts: for `culm bench leader`. All its nodes join and say what a
 * round (an iteration, an epoch) needs, several times; then a tenth of them is lost at the same moment. Nothing here
 * prints. Thread: the caller's.
 */
#ifndef CULM_RUN_BENCH_LEADER_H
#define CULM_RUN_BENCH_LEADER_H

#include "base/status.h"

#include <stdint.h>

enum { CULM_BENCH_TRAIN, CULM_BENCH_GNN };
extern const char *const culm_bench_jobs[]; /* ended by NULL */

struct culm_leader_bench {
    const char *job;
    int32_t workers, nodes; /* as asked for; of all roles */
    int64_t rounds;         /* that were timed */
    double join_s;          /* for all nodes to join, until the last view of that is queued */
    /* The leader's processor time for a round; from the last message that a commit waits for until all nodes'
     * COMMITs are queued. */
    double round_median_s, round_most_s, commit_median_s, commit_most_s;
    int32_t lost;           /* nodes at the same moment */
    double lost_s;          /* until all that follows is queued: the median of a few tries */
    double views;           /* that each of the others was sent then */
    int64_t queued_bytes;   /* in all */
    int64_t bytes_per_node; /* at most */
};

/* `job`: CULM_BENCH_...; `workers`: nodes that compute; `rounds`: at least 1. CULM_ERR_ARGUMENT: so many cannot be
 * led. */
enum culm_status culm_bench_leader(int job, int64_t workers, int64_t rounds,
                                   struct culm_leader_bench *ret_bench, struct culm_error *error);

#endif
