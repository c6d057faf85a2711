/*
 * What a stage consists of: its stretch of the graph, the values that cross its borders, its
 * parameters and gradients. See stage.h.
 */
#include "graph/stage_internal.h"

#include <stdlib.h>
#include <string.h>

static enum culm_status out_of_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "stage: out of memory");
}

/* --- extracting the stretch --- */

static bool inside(const struct culm_stage *stage, const struct culm_graph *graph, int32_t node) {
    int32_t block = graph->node[node].block;
    return block >= stage->info.first_block && block <= stage->info.last_block;
}

/* Copies values, parameters and the stretch's nodes; values keep the ids of the uncut graph. */
static enum culm_status extract(struct culm_stage *stage, const struct culm_graph *graph,
                                struct culm_error *error) {
    struct culm_graph *own = culm_graph_new(graph->device);
    stage->graph = own;
    if (!own) {
        return out_of_memory(error);
    }
    own->value_capacity = graph->value_count;
    own->node_capacity = graph->node_count;
    own->param_capacity = graph->param_count;
    own->value = malloc(((size_t)graph->value_count + 1) * sizeof *own->value);
    own->node = malloc(((size_t)graph->node_count + 1) * sizeof *own->node);
    own->param = malloc(((size_t)graph->param_count + 1) * sizeof *own->param);
    if (!own->value || !own->node || !own->param) {
        return out_of_memory(error);
    }
    memcpy(own->value, graph->value, (size_t)graph->value_count * sizeof *own->value);
    if (graph->param_count) {
        memcpy(own->param, graph->param, (size_t)graph->param_count * sizeof *own->param);
    }
    for (int32_t i = 0; i < graph->output_count; i++) {
        culm_graph_output(own, graph->output[i].name, graph->output[i].value);
        culm_graph_output_end(own, graph->output[i].end);
    }
    own->value_count = graph->value_count;
    own->param_count = graph->param_count;
    for (int32_t i = 0; i < graph->node_count; i++) {
        if (inside(stage, graph, i)) {
            own->node[own->node_count++] = graph->node[i];
        }
    }
    stage->info.forward_ops = own->node_count;
    return CULM_OK;
}

/* --- borders --- */

void stage_value_spans(const struct culm_graph *graph, int32_t *ret_made, int32_t *ret_used) {
    memset(ret_made, -1, (size_t)graph->value_count * sizeof *ret_made);
    memset(ret_used, -1, (size_t)graph->value_count * sizeof *ret_used);
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct culm_node_desc *node = &graph->node[i];
        for (int32_t k = 0; k < CULM_NODE_INPUTS_MAX; k++) {
            if (node->input[k] >= 0 && ret_used[node->input[k]] < node->block) {
                ret_used[node->input[k]] = node->block;
            }
        }
        for (int32_t k = 0; k < CULM_NODE_OUTPUTS_MAX; k++) {
            if (node->output[k] >= 0) {
                ret_made[node->output[k]] = node->block;
            }
        }
    }
}

/* The values made before block `border` and used in or after it; outputs count as used at the end. */
static enum culm_status find_crossings(const struct culm_graph *graph, int32_t border,
                                       struct boundary *boundary, struct culm_error *error) {
    size_t values = (size_t)graph->value_count;
    int32_t *made = malloc((values + 1) * sizeof *made),
            *used = malloc((values + 1) * sizeof *used);
    boundary->item = calloc(values + 1, sizeof *boundary->item);
    if (!made || !used || !boundary->item) {
        free(made);
        free(used);
        return out_of_memory(error);
    }
    stage_value_spans(graph, made, used);
    for (int32_t i = 0; i < graph->output_count; i++) {
        used[graph->output[i].value] = graph->blocks;
    }
    for (int32_t v = 0; v < graph->value_count; v++) {
        if (made[v] < 0 || made[v] >= border || used[v] < border) {
            continue;
        }
        size_t bytes = stage_value_bytes(graph, v);
        boundary->item[boundary->count++] = (struct crossing){
            .value = v, .gradient = -1, .offset_bytes = boundary->size_bytes, .size_bytes = bytes};
        boundary->size_bytes += (bytes + 63) & ~(size_t)63;
    }
    free(made);
    free(used);
    return CULM_OK;
}

static enum culm_status find_borders(struct culm_stage *stage, const struct culm_graph *graph,
                                     struct culm_error *error) {
    struct culm_stage_info *info = &stage->info;
    enum culm_status status = find_crossings(graph, info->first_block, &stage->input, error);
    if (status == CULM_OK) {
        status = find_crossings(graph, info->last_block + 1, &stage->output, error);
    }
    for (int32_t i = 0; i < stage->input.count; i++) {
        struct culm_value *value = &stage->graph->value[stage->input.item[i].value];
        value->kind = CULM_VALUE_BOUNDARY;
        value->same_as = -1;
    }
    info->input_bytes = stage->input.size_bytes;
    info->output_bytes = stage->output.size_bytes;
    info->input_count = stage->input.count;
    info->output_count = stage->output.count;
    return status;
}

static enum culm_status find_fields(struct culm_stage *stage, const struct culm_graph *graph,
                                    struct culm_error *error) {
    stage->fields = calloc((size_t)graph->field_count + 1, sizeof *stage->fields);
    if (!stage->fields) {
        return out_of_memory(error);
    }
    for (int32_t f = 0; f < graph->field_count; f++) {
        bool used = false;
        for (int32_t i = 0; i < stage->graph->node_count && !used; i++) {
            for (int32_t k = 0; k < CULM_NODE_INPUTS_MAX; k++) {
                used |= stage->graph->node[i].input[k] == graph->field[f].value;
            }
        }
        if (used) {
            stage->fields[stage->info.field_count++] = f;
        }
    }
    stage->info.fields = stage->fields;
    return CULM_OK;
}

/* --- parameters and gradients --- */

static enum culm_status number_params(struct culm_stage *stage, const struct culm_graph *graph,
                                      const bool *frozen, struct culm_error *error) {
    stage->params = calloc((size_t)graph->param_count + 1, sizeof *stage->params);
    stage->grads = calloc((size_t)graph->use_count + 1, sizeof *stage->grads);
    stage->use_offset = malloc(((size_t)graph->use_count + 1) * sizeof *stage->use_offset);
    int32_t *local = malloc(((size_t)graph->param_count + 1) * sizeof *local);
    if (!stage->params || !stage->grads || !stage->use_offset || !local) {
        free(local);
        return out_of_memory(error);
    }
    struct culm_stage_info *info = &stage->info;
    memset(local, -1, ((size_t)graph->param_count + 1) * sizeof *local);
    for (int32_t u = 0; u < graph->use_count; u++) {
        if (inside(stage, graph, graph->use[u].node)) {
            local[graph->use[u].param] = 0;
        }
    }
    for (int32_t p = 0; p < graph->param_count; p++) {
        if (local[p] < 0) {
            continue;
        }
        const struct culm_param *from = &stage->graph->param[p];
        struct culm_param_info *param = &stage->params[info->param_count];
        *param = (struct culm_param_info){.name = from->name,
                                          .rank = from->written.rank,
                                          .count = culm_elements(&from->shape),
                                          .offset = info->param_floats,
                                          .global_index = p,
                                          .decay = from->decay,
                                          .statistic = from->statistic,
                                          .init = from->init,
                                          .std = from->std};
        memcpy(param->shape, from->written.dim, sizeof param->shape);
        info->param_floats += stage_rounded_floats(param->count);
        local[p] = info->param_count++;
    }
    for (int32_t u = 0; u < graph->use_count; u++) {
        int32_t p = graph->use[u].param;
        stage->use_offset[u] = -1;
        if (!inside(stage, graph, graph->use[u].node)) {
            continue;
        }
        struct culm_param_info *param = &stage->params[local[p]];
        param->momentum = graph->node[graph->use[u].node].attributes.momentum;
        if (frozen && frozen[p]) {
            continue;
        }
        stage->use_offset[u] = info->grad_floats;
        stage->grads[info->grad_count++] =
            (struct culm_grad_info){local[p], u, param->count, info->grad_floats};
        info->grad_floats += stage_rounded_floats(param->count);
    }
    info->params = stage->params;
    info->grads = stage->grads;
    free(local);
    return CULM_OK;
}

/* A loss that is trained on turns its logits into their gradient. */
static enum culm_status check_outputs(const struct culm_graph *graph, struct culm_error *error) {
    for (int32_t n = 0; n < graph->node_count; n++) {
        const struct culm_node_desc *node = &graph->node[n];
        for (int32_t i = 0; i < graph->output_count; i++) {
            if (node->op->is_loss && !node->attributes.loss_only &&
                stage_root(graph, node->input[0]) == stage_root(graph, graph->output[i].value)) {
                return culm_error_set(error, CULM_ERR_UNSUPPORTED,
                                      "output '%s' is what a loss is taken of; ask for the loss "
                                      "alone, or for the output",
                                      graph->output[i].name);
            }
        }
    }
    return CULM_OK;
}

static enum culm_status number_losses(struct culm_stage *stage, struct culm_error *error) {
    stage->loss = malloc(((size_t)stage->info.forward_ops + 1) * sizeof *stage->loss);
    if (!stage->loss) {
        return out_of_memory(error);
    }
    for (int32_t i = 0; i < stage->info.forward_ops; i++) {
        bool is_loss = stage->graph->node[i].op->is_loss;
        stage->loss[i] = is_loss ? stage->info.loss_count++ : -1;
    }
    return CULM_OK;
}

static void count_flops(struct culm_stage *stage) {
    for (int32_t i = 0; i < stage->graph->node_count; i++) {
        const struct culm_node_desc *node = &stage->graph->node[i];
        double flops = node->op->flops ? node->op->flops(stage->graph, node) : 0;
        if (i < stage->info.forward_ops) {
            stage->info.forward_flops += flops;
        } else {
            stage->info.backward_flops += flops;
        }
    }
    stage->info.backward_ops = stage->graph->node_count - stage->info.forward_ops;
}

enum culm_status stage_build(struct culm_stage *stage, const struct culm_graph *graph,
                             const struct culm_stage *next,
                             const struct culm_stage_options *options, struct culm_error *error) {
    enum culm_status status = check_outputs(graph, error);
    if (status == CULM_OK) {
        status = extract(stage, graph, error);
    }
    if (status == CULM_OK) {
        status = find_borders(stage, graph, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    status = find_fields(stage, graph, error);
    if (status == CULM_OK) {
        status = number_params(stage, graph, options->frozen, error);
    }
    if (status == CULM_OK) {
        status = number_losses(stage, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    if (!options->forward_only) {
        status = stage_build_backward(stage, graph, next, options, error);
    }
    count_flops(stage);
    return status;
}
