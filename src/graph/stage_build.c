/*
 * What a stage consists of: its stretch of the graph, the values that cross its borders, its
 * parameters and gradients, its backward program. See stage.h.
 */
#include "graph/stage_internal.h"

#include "graph/autodiff.h"

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

static int64_t rounded(int64_t floats) { return (floats + 15) & ~(int64_t)15; }

static enum culm_status number_params(struct culm_stage *stage, const struct culm_graph *graph,
                                      struct culm_error *error) {
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
        info->param_floats += rounded(param->count);
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
        stage->use_offset[u] = info->grad_floats;
        stage->grads[info->grad_count++] =
            (struct culm_grad_info){local[p], u, param->count, info->grad_floats};
        info->grad_floats += rounded(param->count);
    }
    info->params = stage->params;
    info->grads = stage->grads;
    free(local);
    return CULM_OK;
}

/* A parameter whose gradient nobody writes would be trained on what happens to lie in memory. */
static enum culm_status check_uses(const struct culm_stage *stage, struct culm_error *error) {
    const struct culm_graph *own = stage->graph;
    for (int32_t g = 0; g < stage->info.grad_count; g++) {
        bool written = false;
        for (int32_t i = stage->info.forward_ops; i < own->node_count && !written; i++) {
            for (int32_t k = 0; k < CULM_NODE_USES_MAX; k++) {
                written |= own->node[i].use[k] == stage->grads[g].global_use;
            }
        }
        if (!written) {
            return culm_error_set(error, CULM_ERR_UNSUPPORTED,
                                  "parameter '%s' gets no gradient where it is used",
                                  stage->params[stage->grads[g].param].name);
        }
    }
    return CULM_OK;
}

/* --- backward --- */

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

/* Whether a gradient of `value`, which leaves the stage, comes back: from the stage behind; of a
 * graph's output, where no loss says what it is for, from the caller. */
static bool flows_back(const struct culm_graph *graph, const struct culm_stage *next,
                       int32_t value) {
    for (int32_t i = 0; next && i < next->input.count; i++) {
        if (next->input.item[i].value == value) {
            return next->input.item[i].gradient >= 0;
        }
    }
    return !culm_graph_has_loss(graph);
}

static enum culm_status differentiate(struct culm_stage *stage, const struct culm_graph *graph,
                                      const struct culm_stage *next, struct culm_error *error) {
    struct boundary *in = &stage->input, *out = &stage->output;
    int32_t *seed = malloc(((size_t)out->count + 1) * sizeof *seed);
    int32_t *given = malloc(((size_t)out->count + 1) * sizeof *given);
    int32_t *wanted = malloc(((size_t)in->count + 1) * sizeof *wanted);
    int32_t *made = malloc(((size_t)in->count + 1) * sizeof *made);
    enum culm_status status = CULM_OK;
    if (!seed || !given || !wanted || !made) {
        status = out_of_memory(error);
        goto out;
    }
    int32_t seeds = 0;
    for (int32_t i = 0; i < out->count; i++) {
        struct culm_value like = graph->value[out->item[i].value];
        if (like.dtype == CULM_I32 || !flows_back(graph, next, out->item[i].value)) {
            continue;
        }
        out->item[i].gradient =
            culm_graph_value(stage->graph, CULM_VALUE_BOUNDARY, like.dtype, &like.shape);
        if (out->item[i].gradient >= 0) {
            stage->graph->value[out->item[i].gradient].like = out->item[i].value;
        }
        seed[seeds] = out->item[i].value;
        given[seeds++] = out->item[i].gradient;
    }
    for (int32_t i = 0; i < in->count; i++) {
        wanted[i] = in->item[i].value;
    }
    status = culm_graph_differentiate(stage->graph, 0, stage->info.forward_ops, seed, given, seeds,
                                      wanted, in->count, made, error);
    for (int32_t i = 0; i < in->count && status == CULM_OK; i++) {
        in->item[i].gradient = made[i];
    }
out:
    free(seed);
    free(given);
    free(wanted);
    free(made);
    return status;
}

/* The block that makes each value; -1: none in this stage's forward. */
static int32_t *making_blocks(const struct culm_stage *stage) {
    const struct culm_graph *own = stage->graph;
    int32_t *block = malloc(((size_t)own->value_count + 1) * sizeof *block);
    if (!block) {
        return NULL;
    }
    memset(block, -1, (size_t)own->value_count * sizeof *block);
    for (int32_t i = 0; i < stage->info.forward_ops; i++) {
        for (int32_t k = 0; k < CULM_NODE_OUTPUTS_MAX; k++) {
            if (own->node[i].output[k] >= 0) {
                block[own->node[i].output[k]] = own->node[i].block;
            }
        }
    }
    return block;
}

/* Whether a value must be kept: some other block uses it, or storage of it. */
static void mark_kept(const struct culm_stage *stage, const int32_t *block, bool *kept) {
    const struct culm_graph *own = stage->graph;
    for (int32_t i = 0; i < own->node_count; i++) {
        for (int32_t k = 0; k < CULM_NODE_INPUTS_MAX; k++) {
            int32_t v = own->node[i].input[k];
            if (v >= 0 && block[v] >= 0 && block[v] != own->node[i].block) {
                kept[stage_root(own, v)] = true;
            }
        }
    }
}

/* The value that stands for v in the recomputation of its block: a new one, or v itself if it is
 * kept or not made here. */
static int32_t again(struct culm_graph *own, const int32_t *block, const bool *kept, int32_t *copy,
                     int32_t values, int32_t v) {
    if (v < 0 || v >= values || block[v] < 0 || kept[stage_root(own, v)]) {
        return v;
    }
    if (copy[v] < 0) {
        struct culm_value value = own->value[v];
        int32_t same_as =
            value.same_as >= 0 ? again(own, block, kept, copy, values, value.same_as) : -1;
        copy[v] = culm_graph_value(own, value.kind, value.dtype, &value.shape);
        if (copy[v] >= 0) {
            own->value[copy[v]].same_as = same_as;
            own->value[copy[v]].like = v;
        }
    }
    return copy[v];
}

/* Rewrites the backward program so that each block's forward runs again before its gradients. A
 * node is left out when all that it makes is kept. */
static enum culm_status recompute(struct culm_stage *stage, struct culm_error *error) {
    struct culm_graph *own = stage->graph;
    int32_t forward = stage->info.forward_ops, all = own->node_count, values = own->value_count;
    int32_t *block = making_blocks(stage);
    bool *kept = calloc((size_t)values + 1, sizeof *kept);
    int32_t *copy = malloc(((size_t)values + 1) * sizeof *copy);
    struct culm_node_desc *node = malloc(((size_t)all + 1) * sizeof *node);
    enum culm_status status = CULM_OK;
    if (!block || !kept || !copy || !node) {
        status = out_of_memory(error);
        goto out;
    }
    memset(copy, -1, (size_t)values * sizeof *copy);
    memcpy(node, own->node, (size_t)all * sizeof *node);
    mark_kept(stage, block, kept);
    own->node_count = forward;
    int32_t current = -1;
    for (int32_t i = forward; i < all; i++) {
        if (node[i].block != current) {
            current = node[i].block;
            for (int32_t f = 0; f < forward; f++) {
                struct culm_node_desc redo = node[f];
                bool needed = false;
                for (int32_t k = 0; k < CULM_NODE_OUTPUTS_MAX && redo.block == current; k++) {
                    needed |= redo.output[k] >= 0 && !kept[stage_root(own, redo.output[k])];
                }
                for (int32_t k = 0; k < CULM_NODE_INPUTS_MAX && needed; k++) {
                    redo.input[k] = again(own, block, kept, copy, values, redo.input[k]);
                }
                for (int32_t k = 0; k < CULM_NODE_OUTPUTS_MAX && needed; k++) {
                    redo.output[k] = again(own, block, kept, copy, values, redo.output[k]);
                }
                if (needed && !culm_graph_append(own, &redo)) {
                    goto failed;
                }
            }
        }
        struct culm_node_desc gradient = node[i];
        for (int32_t k = 0; k < CULM_NODE_INPUTS_MAX; k++) {
            gradient.input[k] = again(own, block, kept, copy, values, gradient.input[k]);
        }
        if (!culm_graph_append(own, &gradient)) {
            goto failed;
        }
    }
failed:
    status = culm_graph_check(own, error);
out:
    free(block);
    free(kept);
    free(copy);
    free(node);
    return status;
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

enum culm_status culm_stage_build(struct culm_stage *stage, const struct culm_graph *graph,
                                  const struct culm_stage *next,
                                  const struct culm_stage_options *options,
                                  struct culm_error *error) {
    enum culm_status status;
    if ((status = check_outputs(graph, error)) || (status = extract(stage, graph, error)) ||
        (status = find_borders(stage, graph, error)) ||
        (status = find_fields(stage, graph, error)) ||
        (status = number_params(stage, graph, error)) || (status = number_losses(stage, error))) {
        return status;
    }
    if (!options->forward_only) {
        status = differentiate(stage, graph, next, error);
        if (status == CULM_OK && !(stage->info.index == stage->info.stages - 1 &&
                                   graph->output_count > 0 && !culm_graph_has_loss(graph))) {
            status = check_uses(stage, error);
        }
        if (status == CULM_OK && options->recompute) {
            status = recompute(stage, error);
        }
    }
    count_flops(stage);
    return status;
}
