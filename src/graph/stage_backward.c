/*
 * The backward program of a stage: the gradients of its stretch, without those that reach nothing
 * that is trained, and, with recompute, what runs again before them. See stage.h.
 */
#include "graph/stage_internal.h"

#include "graph/autodiff.h"

#include <stdlib.h>
#include <string.h>

static enum culm_status out_of_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "stage: out of memory");
}

/* --- what is trained --- */

/* Marks the values that a parameter has part in which is not frozen: their gradients reach it. */
static void find_learned(const struct culm_graph *graph, const bool *frozen, bool *learned) {
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct culm_node_desc *node = &graph->node[i];
        bool any = false;
        for (int32_t k = 0; k < CULM_NODE_INPUTS_MAX; k++) {
            const int32_t v = node->input[k];
            any |= v >= 0 && (graph->value[v].kind == CULM_VALUE_PARAM
                                  ? !frozen || !frozen[graph->value[v].param]
                                  : learned[v]);
        }
        for (int32_t k = 0; k < CULM_NODE_OUTPUTS_MAX; k++) {
            if (node->output[k] >= 0) {
                learned[node->output[k]] = any;
            }
        }
    }
}

/* Rules make what they can: drops the gradient nodes that nothing follows from, neither a gradient
 * of a parameter that is trained nor one that leaves the stage. */
static enum culm_status drop_idle(struct culm_stage *stage, struct culm_error *error) {
    struct culm_graph *own = stage->graph;
    bool *read = calloc((size_t)own->value_count + 1, sizeof *read);
    bool *kept = calloc((size_t)own->node_count + 1, sizeof *kept);
    if (!read || !kept) {
        free(read);
        free(kept);
        return out_of_memory(error);
    }
    for (int32_t i = 0; i < stage->input.count; i++) {
        if (stage->input.item[i].gradient >= 0) {
            read[stage->input.item[i].gradient] = true;
        }
    }
    for (int32_t i = own->node_count - 1; i >= stage->info.forward_ops; i--) {
        const struct culm_node_desc *node = &own->node[i];
        for (int32_t k = 0; k < CULM_NODE_USES_MAX; k++) {
            kept[i] |= node->use[k] >= 0 && stage->use_offset[node->use[k]] >= 0;
        }
        for (int32_t k = 0; k < CULM_NODE_OUTPUTS_MAX; k++) {
            kept[i] |= node->output[k] >= 0 && read[node->output[k]];
        }
        for (int32_t k = 0; k < CULM_NODE_INPUTS_MAX && kept[i]; k++) {
            if (node->input[k] >= 0) {
                read[node->input[k]] = true;
            }
        }
    }
    int32_t count = stage->info.forward_ops;
    for (int32_t i = count; i < own->node_count; i++) {
        if (kept[i]) {
            own->node[count++] = own->node[i];
        }
    }
    own->node_count = count;
    free(read);
    free(kept);
    return CULM_OK;
}

/* An operator that makes several parameters' gradients makes also those of the frozen ones among
 * them: into a place behind the gradients, which is the same for all operators. */
static void place_unwanted(struct culm_stage *stage, const struct culm_graph *graph) {
    int64_t most = 0;
    for (int32_t i = stage->info.forward_ops; i < stage->graph->node_count; i++) {
        const struct culm_node_desc *node = &stage->graph->node[i];
        int64_t floats = 0;
        for (int32_t k = 0; k < CULM_NODE_USES_MAX; k++) {
            if (node->use[k] >= 0 && stage->use_offset[node->use[k]] < 0) {
                const struct culm_param *param = &graph->param[graph->use[node->use[k]].param];
                stage->use_offset[node->use[k]] = stage->info.grad_floats + floats;
                floats += stage_rounded_floats(culm_elements(&param->shape));
            }
        }
        most = floats > most ? floats : most;
    }
    stage->info.grad_floats += most;
}

/* --- differentiating --- */

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
                                      const struct culm_stage *next, const bool *learned,
                                      struct culm_error *error) {
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
                                      wanted, in->count, learned, made, error);
    for (int32_t i = 0; i < in->count && status == CULM_OK; i++) {
        in->item[i].gradient = learned[wanted[i]] ? made[i] : -1;
    }
out:
    free(seed);
    free(given);
    free(wanted);
    free(made);
    return status;
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

/* --- computing again --- */

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

enum culm_status stage_build_backward(struct culm_stage *stage, const struct culm_graph *graph,
                                      const struct culm_stage *next,
                                      const struct culm_stage_options *options,
                                      struct culm_error *error) {
    bool *learned = calloc((size_t)graph->value_count + 1, sizeof *learned);
    if (!learned) {
        return out_of_memory(error);
    }
    find_learned(graph, options->frozen, learned);
    enum culm_status status = differentiate(stage, graph, next, learned, error);
    free(learned);
    if (status == CULM_OK) {
        status = drop_idle(stage, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    place_unwanted(stage, graph);
    if (!(stage->info.index == stage->info.stages - 1 && graph->output_count > 0 &&
          !culm_graph_has_loss(graph))) {
        status = check_uses(stage, error);
    }
    return status == CULM_OK && options->recompute ? recompute(stage, error) : status;
}
