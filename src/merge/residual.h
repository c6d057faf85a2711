/*
 * Residual branches: what is added to the value that they branch off from.
 *
 * Graphs spell them in two ways: the batch norm at the end of the branch reads the other summand itself
 * (its input 5); or its result, perhaps behind a function, is read by an addition, the other summand of
 * which is among what the branch reads. Thread: any.
 */
#ifndef CULM_MERGE_RESIDUAL_H
#define CULM_MERGE_RESIDUAL_H

#include "graph/graph.h"

/* Whether a batch norm, a node, is the end of such a branch, which adds nothing once scale and shift of
 * that norm are 0. False also when memory runs out. */
bool culm_merge_residual(const struct culm_graph *graph, int32_t norm);

#endif
