/* Running a stage. See stage.h. */
#include "graph/stage.h"

#include "base/rng.h"
#include "graph/ops/conv.h"
#include "graph/stage_internal.h"

#include <stdlib.h>
#include <string.h>

void culm_stage_free(struct culm_stage *stage) {
    if (stage) {
        culm_graph_free(stage->graph);
        free(stage->place);
        free(stage->use_offset);
        free(stage->loss);
        free(stage->chain);
        free(stage->ahead);
        free(stage->params);
        free(stage->grads);
        free(stage->fields);
        free(stage->input.item);
        free(stage->output.item);
        free(stage);
    }
}

const struct culm_stage_info *culm_stage_info_of(const struct culm_stage *stage) {
    return &stage->info;
}

const struct culm_graph *culm_stage_program(const struct culm_stage *stage) { return stage->graph; }

size_t culm_stage_output_offset(const struct culm_stage *stage, int32_t index) {
    for (int32_t i = 0; i < stage->output.count; i++) {
        if (stage->output.item[i].value == stage->graph->output[index].value) {
            return stage->output.item[i].offset_bytes;
        }
    }
    return 0; /* not the last stage */
}

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
    case FIELD: return (void *)run->fields[place->index];
    case PARAMS:
        if (run->param) {
            return (void *)run->param[place->index];
        }
        base = (char *)run->params;
        break;
    case INPUT: base = (char *)run->input; break;
    case OUTPUT: base = run->output; break;
    case D_OUTPUT: base = (char *)run->d_output; break;
    case D_INPUT: base = run->d_input; break;
    case ACTIVATIONS: base = run->activations; break;
    case SCRATCH: base = run->scratch; break;
    }
    return base + place->offset_bytes;
}

const void *culm_stage_value(const struct culm_stage *stage, const struct culm_stage_run *run,
                             int32_t value) {
    return address(stage, run, value);
}

static const struct culm_value *values(const struct culm_stage *stage,
                                       const struct culm_stage_run *run) {
    return run->rows ? run->rows->value : stage->graph->value;
}

static void add_loss(const struct culm_stage *stage, struct culm_stage_run *run, int32_t index,
                     const struct culm_loss_total *own) {
    run->loss.loss += own->loss;
    run->loss.rows += own->rows;
    run->loss.counted += own->counted;
    run->loss.correct += own->correct;
    if (run->losses) {
        run->losses[stage->loss[index]] = *own;
    }
}

static struct culm_operands operands_of(const struct culm_stage *stage, struct culm_device *device,
                                        const struct culm_stage_run *run, int32_t index,
                                        struct culm_loss_total *loss) {
    const struct culm_node_desc *node = &stage->graph->node[index];
    struct culm_operands operands = {
        .device = device,
        .node = node,
        .value = values(stage, run),
        .first = run->first,
        .loss_scale = run->loss_scale,
        .loss = loss,
        .least = run->least,
        .dropout = {.p = node->attributes.dropout,
                    .key = culm_rng_mix(culm_rng_mix(run->seed, run->iteration),
                                        (uint64_t)node->operator_id),
                    .first_sample = run->first_sample,
                    .sample_id = run->sample_id},
    };
    for (int32_t i = 0; i < CULM_NODE_INPUTS_MAX; i++) {
        operands.input[i] = address(stage, run, node->input[i]);
    }
    for (int32_t i = 0; i < CULM_NODE_OUTPUTS_MAX; i++) {
        operands.output[i] = address(stage, run, node->output[i]);
    }
    if (node->output[0] >= 0) {
        operands.dropout.samples = operands.value[node->output[0]].shape.dim[0];
    }
    for (int32_t i = 0; i < CULM_NODE_USES_MAX; i++) {
        operands.use[i] = node->use[i] >= 0 ? run->grads + stage->use_offset[node->use[i]] : NULL;
    }
    if (index < stage->info.forward_ops && stage->ahead[index] >= 0) {
        operands.ahead = address(stage, run, stage->ahead[index]);
        operands.ahead_floats = culm_elements(&operands.value[stage->ahead[index]].shape);
    }
    return operands;
}

void culm_stage_execute(const struct culm_stage *stage, struct culm_device *device,
                        struct culm_stage_run *run, int32_t index) {
    struct culm_loss_total own = {0};
    struct culm_operands operands = operands_of(stage, device, run, index, &own);
    operands.node->op->execute(&operands);
    if (index < stage->info.forward_ops && stage->loss[index] >= 0) { /* else it counted before */
        add_loss(stage, run, index, &own);
    }
}

/* The operator at the cursor, with those that are done together with it. */
static void execute_next(const struct culm_stage *stage, struct culm_device *device,
                         struct culm_stage_run *run) {
    struct culm_operands operands[CULM_CONV_CHAIN_MAX];
    int32_t index = run->cursor, count = stage->chain[index];
    count = count < CULM_CONV_CHAIN_MAX ? count : CULM_CONV_CHAIN_MAX;
    run->cursor += count;
    if (count == 1) {
        culm_stage_execute(stage, device, run, index);
        return;
    }
    for (int32_t i = 0; i < count; i++) {
        operands[i] = operands_of(stage, device, run, index + i, NULL);
    }
    culm_conv_infer_chain(operands, count);
}

/* The bytes of a value that crosses, in a run. */
static size_t crossing_bytes(const struct culm_stage *stage, const struct culm_stage_run *run,
                             const struct crossing *crossing) {
    const struct culm_value *value = &values(stage, run)[crossing->value];
    return run->rows ? (size_t)culm_elements(&value->shape) * culm_dtype_bytes(value->dtype)
                     : crossing->size_bytes;
}

enum culm_status culm_stage_forward(const struct culm_stage *stage, struct culm_device *device,
                                    struct culm_stage_run *run) {
    if (run->cursor == 0) {
        run->loss = (struct culm_loss_total){0};
    }
    while (run->cursor < stage->info.forward_ops) {
        execute_next(stage, device, run);
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
            memcpy(to, from, crossing_bytes(stage, run, out));
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
            memset(to, 0, crossing_bytes(stage, run, in));
        } else if (from != to) {
            memcpy(to, from, crossing_bytes(stage, run, in));
        }
    }
    return CULM_OK;
}
