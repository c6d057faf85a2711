/* What shape rules ask of inputs, some of which may be absent. */
#ifndef CULM_GRAPH_OPS_INPUTS_H
#define CULM_GRAPH_OPS_INPUTS_H

#include "graph/ops.h"

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

#endif
