/* For operators whose values may be f32 or bf16, and whose inputs may be parameters. */
#ifndef CULM_GRAPH_OPS_TYPED_H
#define CULM_GRAPH_OPS_TYPED_H

#include "graph/autodiff.h"

static inline struct culm_in typed_input(const struct culm_operands *o, int32_t i) {
    if (o->node->input[i] < 0) {
        return (struct culm_in){NULL, CULM_F32};
    }
    return (struct culm_in){o->input[i], o->value[o->node->input[i]].dtype};
}

static inline struct culm_out typed_output(const struct culm_operands *o, int32_t i) {
    if (o->node->output[i] < 0) {
        return (struct culm_out){NULL, CULM_F32};
    }
    return (struct culm_out){o->output[i], o->value[o->node->output[i]].dtype};
}

static inline const struct culm_shape *typed_shape(const struct culm_operands *o, int32_t value) {
    return &o->value[value].shape;
}

static inline enum culm_dtype typed_dtype(const struct culm_graph *graph,
                                          const struct culm_node_desc *node, int32_t i) {
    return graph->value[node->input[i]].dtype;
}

/* Whether the gradient of input i goes anywhere: on through the graph, or to a parameter. */
static inline bool typed_wanted(const struct culm_gradients *g, const struct culm_node_desc *node,
                                int32_t i) {
    return node->input[i] >= 0 &&
           (node->param_use[i] >= 0 || culm_gradient_wanted(g, node->input[i]));
}

/* Passes on the gradient of input i: a parameter's is accumulated where it is used. */
static inline void typed_give(struct culm_gradients *g, const struct culm_node_desc *node,
                              int32_t i, int32_t gradient) {
    if (node->param_use[i] >= 0) {
        culm_gradient_node(g, &culm_op_accumulate, &gradient, 1, NULL, 0, &node->param_use[i], 1);
    } else {
        culm_gradient_add(g, node->input[i], gradient);
    }
}

#endif
