/* What operators ask of the inputs of a node, some of which may be absent or parameters, and of its
 * operands, which may be f32 or bf16. */
#ifndef CULM_GRAPH_OPS_OPERANDS_H
#define CULM_GRAPH_OPS_OPERANDS_H

#include "graph/autodiff.h"
#include "graph/ops.h"

/* --- shape rules --- */

/* Whether input i is there, has this element type (f32 stands for either type of an activation) and
 * this rank. */
static inline bool input_is(const struct culm_graph *graph, const struct culm_node_desc *node,
                            int32_t i, enum culm_dtype dtype, int rank) {
    int32_t id = node->input[i];
    if (id < 0 || graph->value[id].shape.rank != rank) {
        return false;
    }
    return (graph->value[id].dtype == CULM_I32) == (dtype == CULM_I32);
}
static inline bool input_is_param(const struct culm_graph *graph, const struct culm_node_desc *node,
                                  int32_t i) {
    return node->input[i] >= 0 && graph->value[node->input[i]].kind == CULM_VALUE_PARAM;
}
static inline bool input_has_shape(const struct culm_graph *graph,
                                   const struct culm_node_desc *node, int32_t i,
                                   struct culm_shape shape) {
    return node->input[i] >= 0 && culm_shape_equal(culm_input_shape(graph, node, i), &shape);
}
/* "operator 'OP': WHAT" */
static inline enum culm_status input_error(const struct culm_node_desc *node, const char *what,
                                           struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_CONFIG, "operator '%s': %s", node->op->name, what);
}
static inline const struct culm_shape *operand_shape(const struct culm_operands *o, int32_t i) {
    return &o->value[o->node->input[i]].shape;
}

/* --- gradients and execution --- */

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
