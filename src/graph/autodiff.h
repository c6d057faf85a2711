/*
 * Reverse-mode differentiation of a stretch of a graph.
 *
 * The nodes are walked backwards; each operator's gradient rule asks for the gradient of its
 * outputs and gives those of its inputs. Where a value has several consumers their gradients are
 * added, in the order in which the walk meets them, so the order is a property of the graph. A rule
 * may take over what has been gathered so far and fold the addition into its kernel.
 *
 * Thread: one.
 */
#ifndef CULM_GRAPH_AUTODIFF_H
#define CULM_GRAPH_AUTODIFF_H

#include "graph/ops.h"

struct culm_gradients {
    struct culm_graph *graph; /* gradient nodes are appended to it */
    int32_t *of; /* by value that was there at the start: its gradient's value; -1: none yet */
    const bool *learned; /* by such a value: whether its gradient is of use; NULL: all are */
    const struct culm_node_desc *source; /* whose rule runs: gives operator id and block */
};

/* Appends the gradient nodes of nodes [first, last) of `graph`. The gradients of `seeds` values are
 * given in seed_gradient[]; a cross-entropy in the stretch needs none. learned[value]: whether its
 * gradient is of use; NULL: all are. Gradients of others may be made all the same.
 * ret_input_gradient[i]: the value with the gradient of input[i]; -1 when nothing flows. */
enum culm_status culm_graph_differentiate(struct culm_graph *graph, int32_t first, int32_t last,
                                          const int32_t *seed_value, const int32_t *seed_gradient,
                                          int32_t seeds, const int32_t *input, int32_t inputs,
                                          const bool *learned, int32_t *ret_input_gradient,
                                          struct culm_error *error);

/* For rules. */
int32_t culm_gradient_of(struct culm_gradients *gradients, int32_t value); /* -1: none flows back */
int32_t culm_gradient_take(struct culm_gradients *gradients, int32_t value); /* and forgets it */
void culm_gradient_add(struct culm_gradients *gradients, int32_t value, int32_t gradient);
bool culm_gradient_wanted(const struct culm_gradients *gradients, int32_t value);
/* Appends a gradient node and returns its first output. Outputs have the shapes of the values in
 * `like`; `uses` may be NULL when use_count is 0. */
int32_t culm_gradient_node(struct culm_gradients *gradients, const struct culm_op *op,
                           const int32_t *inputs, int32_t count, const int32_t *like,
                           int32_t like_count, const int32_t *uses, int32_t use_count);

#endif
