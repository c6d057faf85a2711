/*
 * How many frames a visit of each query takes: the largest least share.
 *
 * In a round of C ns every query is visited once. A visit that takes k frames costs its run time,
 * or what loading the next query's tensors takes beside it if that is longer. Of the C / period
 * frames that come in a round it can answer k, and only those that are not yet too old to be
 * answered in time:
 *
 *     share = min(1, k period / C, (deadline - run) / C)
 *
 * Wanted is the choice of k whose sorted shares are lexicographically the largest (max-min). For a
 * given C the queries are independent but for their sum, and adding the same share to two lists does
 * not change which of them is larger, so dynamic programming over the queries and over time is
 * exact; all C are tried. Time is counted in ticks, rounded up.
 *
 * Thread: any.
 */
#ifndef CULM_EDGE_BATCHES_H
#define CULM_EDGE_BATCHES_H

#include "edge/layout.h"

#define CULM_EDGE_CHOICES_MAX 8

struct culm_edge_choice {
    int32_t frames;     /* of a visit */
    uint64_t cost_ns;   /* what it adds to a round */
    uint64_t window_ns; /* how old a frame may be when the visit begins; 0: never in time */
};

struct culm_edge_choices {
    uint64_t period_ns;
    int32_t count; /* at least 1 */
    struct culm_edge_choice choice[CULM_EDGE_CHOICES_MAX];
};

/* Chooses one of each. `ticks`: in how many of them time is counted; 0: in as many as is quick
 * [culm_edge_ticks]. ret_chosen[count]. ret_least: the least share; may be NULL. CULM_ERR_MEMORY.
 */
enum culm_status culm_edge_batches(const struct culm_edge_choices *choices, int32_t count,
                                   int32_t ticks, int32_t *ret_chosen, double *ret_least);

/* In how many ticks time can be counted with no more than so much work, at least one for each of
 * `count`; and the work that so many ticks take. In the units of culm_edge_cycle_work. */
int32_t culm_edge_ticks(int32_t count, int64_t most_work);
int64_t culm_edge_batches_work(int32_t count, int32_t ticks);

/* The share of one choice in a round of `round_ns`. */
double culm_edge_share(const struct culm_edge_choices *choices, int32_t chosen, double round_ns);
/* The length of a tick when there are so many of them. */
uint64_t culm_edge_tick_ns(const struct culm_edge_choices *choices, int32_t count, int32_t ticks);
/* Sorts both and compares: -1, 0, 1. */
int culm_edge_shares_compare(const double *one, const double *other, int32_t count);

#endif
