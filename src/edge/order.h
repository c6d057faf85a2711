/*
 * The order in which queries are visited, over and over: the one that loads the fewest bytes in a
 * round.
 *
 * Queries that share tensors want to be neighbours, but how much a visit must load depends on all
 * visits before it and on the memory that there is, so a round is played through for every order
 * that is considered [residency.h]. With few queries every order is; with more, one that begins
 * with the nearest neighbour is improved by reversing parts of it (2-opt) and by moving single
 * queries until nothing gets better, or as much has been looked at as is allowed. Of orders that
 * load equally much, one is taken in which more is run once: a query goes on from what the one
 * before it has made (struct culm_edge_prefix).
 *
 * Thread: any.
 */
#ifndef CULM_EDGE_ORDER_H
#define CULM_EDGE_ORDER_H

#include "edge/residency.h"

#define CULM_EDGE_ORDER_EXACT 7         /* as many queries, or fewer, are tried in every order */
#define CULM_EDGE_ORDER_WORK 60000000ll /* where there is time */

/* The queries that have not gone, in ret_order[CULM_EDGE_QUERIES_MAX]; returns how many. It begins
 * with the one of the lowest number, and of orders that are equally good it is the first one found,
 * so the same layout has the same order each time. activation_bytes and frames_bytes as in
 * culm_edge_cycle_bytes. It is improved until `most_work` tensors have been looked at; ret_work,
 * may be NULL: how many were, two rounds more at most. -1: out of memory. */
int32_t culm_edge_order(const struct culm_edge_layout *layout, const size_t *activation_bytes,
                        size_t frames_bytes, int64_t most_work, int32_t *ret_order,
                        int64_t *ret_work);
/* As they stand in the layout. */
int32_t culm_edge_order_given(const struct culm_edge_layout *layout, int32_t *ret_order);

#endif
