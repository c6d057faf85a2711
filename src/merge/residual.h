/*
 * Recognizes residual branches: those whose result is added to the value that they branched off
 * from.
 *
 * Graphs express the addition in one of two ways. The batch norm that ends the branch takes the
 * other summand as its input 5; or the result, perhaps after an activation, goes into an addition
 * whose other summand is something that the branch reads.
 *
 * Thread: any.
 */
#ifndef CULM_MERGE_RESIDUAL_H
#define CULM_MERGE_RESIDUAL_H

#include "graph/graph.h"

/* Whether the batch norm `norm`, a node, ends a residual branch, so that the branch adds nothing
 * once the norm's scale and shift are 0. Also false if memory runs out. */
bool culm_merge_residual(const struct culm_graph *graph, int32_t norm);

#endif
