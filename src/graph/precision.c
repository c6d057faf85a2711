/*
 * See precision.h. Two walks over the nodes: backwards, to find which values must stay f32 because
 * of who reads them; then forwards, to give each node's first output its type. Further outputs are
 * statistics and indices, and stay as they are.
 */
#include "graph/precision.h"

#include "graph/ops.h"

#include <stdlib.h>

const char *const culm_precision_names[] = {
    [CULM_PRECISION_F32] = "f32", [CULM_PRECISION_BF16] = "bf16", NULL};

/* Input i as a value whose type this pass decides or must respect; -1: none such. */
static int32_t activation(const struct culm_graph *graph, const struct culm_node_desc *node,
                          int32_t i) {
    int32_t value = node->input[i];
    if (value < 0 || graph->value[value].dtype == CULM_I32 ||
        graph->value[value].kind == CULM_VALUE_PARAM) {
        return -1;
    }
    return value;
}

struct reading {
    bool must_be_f32, by_others; /* than products */
};

static void find_readings(const struct culm_graph *graph, struct reading *reading) {
    for (int32_t i = 0; i < graph->output_count; i++) {
        reading[graph->output[i].value].must_be_f32 = true;
    }
    for (int32_t n = graph->node_count - 1; n >= 0; n--) {
        const struct culm_node_desc *node = &graph->node[n];
        enum culm_op_precision rule = node->op->precision;
        bool f32 = rule == CULM_OP_ONLY_F32 || (rule == CULM_OP_FOLLOWS && node->output[0] >= 0 &&
                                                reading[node->output[0]].must_be_f32);
        for (int32_t i = 0; i < node->op->inputs; i++) {
            int32_t value = activation(graph, node, i);
            if (value >= 0) {
                reading[value].must_be_f32 |= f32;
                reading[value].by_others |= rule != CULM_OP_PRODUCT;
            }
        }
    }
}

static bool reads_bf16_alone(const struct culm_graph *graph, const struct culm_node_desc *node) {
    bool any = false;
    for (int32_t i = 0; i < node->op->inputs; i++) {
        int32_t value = activation(graph, node, i);
        if (value >= 0 && graph->value[value].dtype != CULM_BF16) {
            return false;
        }
        any |= value >= 0;
    }
    return any;
}

enum culm_status culm_graph_lower_bf16(struct culm_graph *graph, struct culm_error *error) {
    struct reading *reading = calloc((size_t)graph->value_count + 1, sizeof *reading);
    if (!reading) {
        return culm_error_set(error, CULM_ERR_MEMORY, "graph: out of memory");
    }
    find_readings(graph, reading);
    for (int32_t n = 0; n < graph->node_count; n++) {
        const struct culm_node_desc *node = &graph->node[n];
        int32_t out = node->output[0];
        if (out < 0 || graph->value[out].dtype != CULM_F32) {
            continue;
        }
        bool bf16 = false;
        switch (node->op->precision) {
        case CULM_OP_ONLY_F32:
        case CULM_OP_TO_F32: break;
        case CULM_OP_FOLLOWS: bf16 = reads_bf16_alone(graph, node); break;
        case CULM_OP_NORM: bf16 = !reading[out].by_others; break;
        case CULM_OP_PRODUCT: bf16 = true; break;
        }
        if (bf16 && !reading[out].must_be_f32) {
            graph->value[out].dtype = CULM_BF16;
        }
    }
    free(reading);
    return CULM_OK;
}
