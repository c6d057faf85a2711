/* Outputs most of which need not be computed. See graph.h. */
#include "graph/ops.h"
#include "graph/ops/conv.h"

#include <assert.h>

/* The only reader of a value is one output of the graph. */
static bool leaves_alone(const struct culm_graph *g, int32_t value) {
    int32_t readers = 0;
    for (int32_t i = 0; i < g->node_count; i++) {
        for (int32_t k = 0; k < CULM_NODE_INPUTS_MAX; k++) {
            readers += g->node[i].input[k] == value;
        }
    }
    for (int32_t v = 0; v < g->value_count; v++) {
        readers += g->value[v].same_as == value;
    }
    for (int32_t i = 0; i < g->output_count; i++) {
        readers += g->output[i].value == value;
    }
    return readers == 1 && g->value[value].same_as < 0;
}

bool culm_graph_gate(struct culm_graph *fused, int32_t output, int32_t parts, int32_t channel) {
    assert(output < fused->output_count && parts > 0);
    const int32_t value = fused->output[output].value;
    const int64_t channels = culm_last_dim(&fused->value[value].shape);
    for (int32_t i = 0; i < fused->node_count; i++) {
        struct culm_node_desc *node = &fused->node[i];
        if (node->op == &culm_op_conv_infer && node->output[0] == value) {
            if (channels % parts || channel >= channels / parts || !leaves_alone(fused, value) ||
                !culm_conv_infer_gate_possible(fused, node)) {
                return false;
            }
            node->attributes.heads = parts;
            node->attributes.start = channel;
            return true;
        }
    }
    return false;
}
