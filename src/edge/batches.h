/*
 * How many frames a visit to each query should take, for the fairest shares of answered frames.
 *
 * In a round of C ns every query is visited once. A visit that takes k frames costs its run time,
 * or the time to load the next query's tensors beside it, whichever is longer. Of the C / period
 * frames that arrive in a round it can answer k, and of those only the ones that can still be
 * answered in time:
 *
 *     share = min(1, k period / C, (deadline - run) / C)
 *
 * We look for the k of every query for which the ascending list of shares is lexicographically the
 * largest (max-min fairness). For a given C the queries constrain each other only by the sum of
 * their costs, and inserting the same share into two sorted lists does not change which of them is
 * larger, so dynamic programming over queries and time is exact. Every C is tried. Time is counted
 * in ticks, rounded up.
 *
 * Thread: any.
 */
#ifndef CULM_EDGE_BATCHES_H
#define CULM_EDGE_BATCHES_H

#include "edge/layout.h"

#define CULM_EDGE_CHOICES_MAX 8

struct culm_edge_choice {
    int32_t frames;     /* k: frames of a visit */
    uint64_t cost_ns;   /* what the visit adds to a round */
    uint64_t window_ns; /* how old a frame may be when the visit begins; 0: it is always too late */
};

struct culm_edge_choices {
    uint64_t period_ns;
    int32_t count; /* at least 1 */
    struct culm_edge_choice choice[CULM_EDGE_CHOICES_MAX];
};

/* Picks one choice for each of `count` queries: ret_chosen[count]. `ticks`: into how many the
 * longest possible round is divided; 0: as many as are quick. ret_least, which may be NULL: the
 * smallest share. CULM_ERR_MEMORY. */
enum culm_status culm_edge_batches(const struct culm_edge_choices *choices, int32_t count,
                                   int32_t ticks, int32_t *ret_chosen, double *ret_least);

/* How many ticks cost about `most_work`, but at least one for each of `count` queries; and the work
 * that so many ticks cost. In the units of culm_edge_cycle_work. */
int32_t culm_edge_ticks(int32_t count, int64_t most_work);
int64_t culm_edge_batches_work(int32_t count, int32_t ticks);

/* The share of frames answered with one choice in a round of `round_ns`. */
double culm_edge_share(const struct culm_edge_choices *choices, int32_t chosen, double round_ns);
/* How long a tick is when the longest possible round has `ticks` of them. */
uint64_t culm_edge_tick_ns(const struct culm_edge_choices *choices, int32_t count, int32_t ticks);
/* Compares copies of both lists, sorted, lexicographically: -1, 0 or 1. */
int culm_edge_shares_compare(const double *one, const double *other, int32_t count);

#endif
