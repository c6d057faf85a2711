/* Idle layers: a backward pass over what the outputs need. See idle.h. */
#include "merge/idle.h"

#include "graph/ops.h"

#include <stdlib.h>

/* Whether a batch norm's scale is all zeros, so that its output does not depend on its input. */
static bool is_silent(const struct culm_merge_model *model, int32_t node) {
    const int32_t scale = culm_merge_norm_param(model->graph, node, 0);
    const int64_t count = culm_merge_param_elements(model, scale);
    int64_t zeros = 0;
    while (zeros < count && model->value[scale][zeros] == 0) {
        zeros++;
    }
    return zeros == count;
}

static void need(bool *needed, int32_t value) {
    if (value >= 0) {
        needed[value] = true;
    }
}

/* If any output of the node is needed, marks the inputs that it needs. */
static void pass_on(const struct culm_merge_model *model, int32_t i, bool *needed) {
    const struct culm_node_desc *node = &model->graph->node[i];
    bool wanted = false;
    for (int32_t k = 0; k < node->op->outputs; k++) {
        wanted |= node->output[k] >= 0 && needed[node->output[k]];
    }
    if (!wanted) {
        return;
    }
    const bool silent = node->op == &culm_op_batchnorm && is_silent(model, i);
    for (int32_t k = silent ? 1 : 0; k < node->op->inputs; k++) {
        need(needed, node->input[k]);
    }
}

enum culm_status culm_merge_idle(const struct culm_merge_model *model, bool *ret_idle,
                                 struct culm_error *error) {
    const struct culm_graph *graph = model->graph;
    bool *needed = calloc((size_t)graph->value_count + 1, sizeof *needed);
    if (!needed) {
        return culm_error_set(error, CULM_ERR_MEMORY, "merging: out of memory");
    }
    for (int32_t o = 0; o < graph->output_count; o++) {
        need(needed, graph->output[o].value);
    }
    for (int32_t i = graph->node_count - 1; i >= 0; i--) {
        pass_on(model, i, needed);
    }
    for (int32_t l = 0; l < model->layers.count; l++) {
        ret_idle[l] = !needed[graph->node[model->layers.layer[l].node].input[1]];
    }
    free(needed);
    return CULM_OK;
}
