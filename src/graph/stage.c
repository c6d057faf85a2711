/* Compiling the stages of a graph, and running one. See stage.h. */
#include "graph/stage.h"

#include "base/rng.h"
#include "graph/stage_internal.h"

#include <stdlib.h>
#include <string.h>

/* --- compiling --- */

static enum culm_status compile(const struct culm_graph *graph, int32_t index, int32_t stages,
                                const int32_t *first_block,
                                const struct culm_stage_options *options,
                                const struct culm_stage *next, struct culm_stage **ret_stage,
                                struct culm_error *error) {
    struct culm_stage *stage = calloc(1, sizeof *stage);
    if (!stage) {
        return culm_error_set(error, CULM_ERR_MEMORY, "stage: out of memory");
    }
    stage->info = (struct culm_stage_info){
        .index = index,
        .stages = stages,
        .first_block = first_block[index],
        .last_block = (index + 1 < stages ? first_block[index + 1] : graph->blocks) - 1,
    };
    enum culm_status status = culm_stage_build(stage, graph, next, options, error);
    if (status == CULM_OK) {
        status = culm_stage_place(stage, error);
    }
    if (status != CULM_OK) {
        culm_stage_free(stage);
        return status;
    }
    *ret_stage = stage;
    return CULM_OK;
}

enum culm_status culm_stages_compile(const struct culm_graph *graph, int32_t stages,
                                     const struct culm_stage_options *options,
                                     struct culm_stage **ret_stage, struct culm_error *error) {
    static const struct culm_stage_options plain = {0};
    int32_t *first_block = calloc((size_t)(stages > 0 ? stages : 1), sizeof *first_block);
    if (!first_block) {
        return culm_error_set(error, CULM_ERR_MEMORY, "stage: out of memory");
    }
    enum culm_status status = CULM_OK;
    if (options && options->first_block) {
        memcpy(first_block, options->first_block, (size_t)stages * sizeof *first_block);
    } else {
        status = culm_graph_cut(graph, stages, NULL, first_block, error);
    }
    for (int32_t s = stages - 1; s >= 0 && status == CULM_OK; s--) {
        const struct culm_stage *next = s + 1 < stages ? ret_stage[s + 1] : NULL;
        status = compile(graph, s, stages, first_block, options ? options : &plain, next,
                         &ret_stage[s], error);
        for (int32_t behind = s + 1; status != CULM_OK && behind < stages; behind++) {
            culm_stage_free(ret_stage[behind]);
            ret_stage[behind] = NULL;
        }
    }
    free(first_block);
    return status;
}

void culm_stage_free(struct culm_stage *stage) {
    if (stage) {
        culm_graph_free(stage->graph);
        free(stage->place);
        free(stage->use_offset);
        free(stage->params);
        free(stage->grads);
        free(stage->fields);
        free(stage->input.item);
        free(stage->output.item);
        free(stage);
    }
}

const struct culm_stage_info *culm_stage_info(const struct culm_stage *stage) {
    return &stage->info;
}

const struct culm_graph *culm_stage_program(const struct culm_stage *stage) { return stage->graph; }

/* --- running --- */

static void *address(const struct culm_stage *stage, const struct culm_stage_run *run,
                     int32_t value) {
    if (value < 0) {
        return NULL;
    }
    const struct place *place = &stage->place[value];
    char *base = NULL;
    switch (place->region) {
    case NOWHERE: return NULL;
    case FIELD: return (void *)run->fields[place->offset_bytes];
    case PARAMS: base = (char *)run->params; break;
    case INPUT: base = (char *)run->input; break;
    case OUTPUT: base = run->output; break;
    case D_OUTPUT: base = (char *)run->d_output; break;
    case D_INPUT: base = run->d_input; break;
    case ACTIVATIONS: base = run->activations; break;
    case SCRATCH: base = run->scratch; break;
    }
    return base + place->offset_bytes;
}

void culm_stage_execute(const struct culm_stage *stage, struct culm_device *device,
                        struct culm_stage_run *run, int32_t index) {
    const struct culm_node_desc *node = &stage->graph->node[index];
    struct culm_loss_total again = {0}; /* of a loss that is recomputed: it counted in forward */
    struct culm_operands operands = {
        .device = device,
        .node = node,
        .value = stage->graph->value,
        .first = run->first,
        .loss_scale = run->loss_scale,
        .loss = index < stage->info.forward_ops ? &run->loss : &again,
        .dropout = {.p = node->attributes.dropout,
                    .key = culm_rng_mix(culm_rng_mix(run->seed, run->iteration),
                                        (uint64_t)node->operator_id),
                    .first_sample = run->first_sample},
    };
    for (int32_t i = 0; i < CULM_NODE_INPUTS_MAX; i++) {
        operands.input[i] = address(stage, run, node->input[i]);
    }
    for (int32_t i = 0; i < CULM_NODE_OUTPUTS_MAX; i++) {
        operands.output[i] = address(stage, run, node->output[i]);
    }
    if (node->output[0] >= 0) {
        operands.dropout.samples = stage->graph->value[node->output[0]].shape.dim[0];
    }
    for (int32_t i = 0; i < CULM_NODE_USES_MAX; i++) {
        operands.use[i] = node->use[i] >= 0 ? run->grads + stage->use_offset[node->use[i]] : NULL;
    }
    node->op->execute(&operands);
}

enum culm_status culm_stage_forward(const struct culm_stage *stage, struct culm_device *device,
                                    struct culm_stage_run *run) {
    if (run->cursor == 0) {
        run->loss = (struct culm_loss_total){0};
    }
    while (run->cursor < stage->info.forward_ops) {
        culm_stage_execute(stage, device, run, run->cursor++);
        if (run->stop && __atomic_load_n(run->stop, __ATOMIC_RELAXED) &&
            run->cursor < stage->info.forward_ops) {
            return CULM_ERR_AGAIN;
        }
    }
    for (int32_t i = 0; i < stage->output.count; i++) {
        const struct crossing *out = &stage->output.item[i];
        char *to = (char *)run->output + out->offset_bytes;
        const void *from = address(stage, run, out->value);
        if (from != to) {
            memcpy(to, from, out->size_bytes);
        }
    }
    return CULM_OK;
}

enum culm_status culm_stage_backward(const struct culm_stage *stage, struct culm_device *device,
                                     struct culm_stage_run *run) {
    for (int32_t i = stage->info.forward_ops; i < stage->graph->node_count; i++) {
        culm_stage_execute(stage, device, run, i);
    }
    for (int32_t i = 0; i < stage->input.count; i++) {
        const struct crossing *in = &stage->input.item[i];
        char *to = (char *)run->d_input + in->offset_bytes;
        const void *from = address(stage, run, in->gradient);
        if (!from) {
            memset(to, 0, in->size_bytes);
        } else if (from != to) {
            memcpy(to, from, in->size_bytes);
        }
    }
    return CULM_OK;
}
