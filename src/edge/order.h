/*
 * The order in which queries are visited, over and over: the one that loads the fewest bytes per
 * round.
 *
 * Queries that share tensors should be neighbours, but how much a visit has to load depends on all
 * the visits before it and on how much memory there is. So every candidate order is evaluated by
 * playing rounds of it through [residency.h]. With few queries, every order is a candidate. With
 * more, a nearest-neighbour order is improved by reversing parts of it (2-opt) and by moving single
 * queries, until nothing helps any more or the allowed work is spent. Among orders that load
 * equally much, one wins in which queries save more run time by continuing from what the query
 * before them has computed (struct culm_edge_prefix).
 *
 * Thread: any.
 */
#ifndef CULM_EDGE_ORDER_H
#define CULM_EDGE_ORDER_H

#include "edge/residency.h"

#define CULM_EDGE_ORDER_EXACT 7         /* up to this many queries, every order is tried */
#define CULM_EDGE_ORDER_WORK 60000000ll /* most_work where nothing is waiting for the order */

/* Writes the queries that have not gone to ret_order[CULM_EDGE_QUERIES_MAX]; returns how many they
 * are, or -1: out of memory. The order begins with the query of the lowest index, and ties go to
 * the order found first, so a layout always gets the same order. activation_bytes and frames_bytes
 * are as in culm_edge_cycle_bytes. The search stops when it has done `most_work`, in the units of
 * culm_edge_cycle_work; ret_work, which may be NULL, is what it did, which may exceed that by the
 * work of two candidates. */
int32_t culm_edge_order_find(const struct culm_edge_layout *layout, const size_t *activation_bytes,
                             size_t frames_bytes, int64_t most_work, int32_t *ret_order,
                             int64_t *ret_work);
/* The same in the order of the layout. */
int32_t culm_edge_order_given(const struct culm_edge_layout *layout, int32_t *ret_order);

#endif
