/* The plan: layout and memory from compiled stages. */
#include "train/plan.h"

#include "base/json.h"
#include "base/machine.h"
#include "model/step.h"
#include "store/checkpoint_room.h"
#include "store/lineage.h"
#include "train/numeric.h"

#include <stdlib.h>
#include <string.h>

#define MB 1048576.0

/* Behind the activations of the last stage: the loss on its way to B. */
#define SAVED_LOSS_BYTES 64

static enum culm_status out_of_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "plan: out of memory");
}

/* --- layout --- */

#define SLICES                                                                                     \
    16 /* of a stage, at least, so that one is copied in much less than an iteration's gradients are */
#define SLICE_ELEMENTS 4096 /* none is smaller but a tensor, or the last of one */

/* Slices of a tensor, whose elements all have state_parts floats: of 16 elements, which kernels like. */
static void cut(const struct culm_plan *plan, const struct culm_stage_desc *stage,
                struct culm_param_desc *param) {
    const size_t element = (size_t)plan->state_parts * sizeof(float);
    size_t most = plan->slice_bytes, share = stage->state_bytes / SLICES;
    most = share < most ? share : most;
    most = most < SLICE_ELEMENTS * element ? SLICE_ELEMENTS * element : most;
    param->slice_bytes = most / (16 * element) * (16 * element);
    param->slices = (int32_t)((param->state_bytes + param->slice_bytes - 1) / param->slice_bytes);
}

static enum culm_status add_stage(struct culm_plan *plan, int32_t s, int32_t *grad) {
    const struct culm_stage_info *info = culm_stage_info_of(plan->stage[s]);
    struct culm_stage_desc *stage = &plan->layout.stage[s];
    bool last = s == plan->shape.stages - 1;
    int32_t *params = calloc((size_t)info->param_count, sizeof *params);
    if (!params) {
        return CULM_ERR_MEMORY;
    }
    *stage = (struct culm_stage_desc){
        .input_bytes = s > 0 ? info->input_bytes : 0,
        .output_bytes = last ? 0 : info->output_bytes,
        .activation_bytes = info->activation_bytes + SAVED_LOSS_BYTES,
        .first_grad = *grad,
        .grad_count = info->grad_count + (last || info->field_count > 0),
        .reads = info->field_count > 0,
        .param_count = info->param_count,
        .params = params,
        .state_bytes = (size_t)info->param_floats * (size_t)plan->state_parts * sizeof(float),
    };
    for (int32_t i = 0; i < info->param_count; i++) {
        int32_t global = info->params[i].global_index;
        params[i] = global;
        culm_stage_set_add(&plan->layout.param[global].stages, s);
        plan->layout.param[global].state_bytes =
            (size_t)info->params[i].count * (size_t)plan->state_parts * sizeof(float);
        cut(plan, stage, &plan->layout.param[global]);
    }
    for (int32_t i = 0; i < info->grad_count; i++) {
        const struct culm_grad_info *g = &info->grads[i];
        plan->layout.grad[(*grad)++] =
            (struct culm_grad_desc){s, params[g->param], (size_t)g->offset * sizeof(float),
                                    (size_t)g->count * sizeof(float)};
    }
    stage->grad_bytes = (size_t)info->grad_floats * sizeof(float);
    if (last || stage->reads) {
        size_t bytes = CULM_STATISTICS_FLOATS * sizeof(float);
        plan->layout.grad[(*grad)++] = (struct culm_grad_desc){s, -1, stage->grad_bytes, bytes};
        stage->grad_bytes += bytes;
    }
    return CULM_OK;
}

static enum culm_status make_layout(struct culm_plan *plan, struct culm_error *error) {
    struct culm_layout *layout = &plan->layout;
    layout->stages = plan->shape.stages;
    layout->grad_count = 1;
    for (int32_t s = 0; s < layout->stages; s++) {
        const struct culm_stage_info *info = culm_stage_info_of(plan->stage[s]);
        layout->grad_count += info->grad_count + (s < layout->stages - 1 && info->field_count > 0);
        for (int32_t i = 0; i < info->param_count; i++) {
            if (info->params[i].global_index >= layout->param_count) {
                layout->param_count = info->params[i].global_index + 1;
            }
        }
    }
    layout->stage = calloc((size_t)layout->stages, sizeof *layout->stage);
    layout->grad = calloc((size_t)layout->grad_count, sizeof *layout->grad);
    layout->param = calloc((size_t)layout->param_count, sizeof *layout->param);
    if (!layout->stage || !layout->grad || !layout->param) {
        return out_of_memory(error);
    }
    int32_t grad = 0;
    for (int32_t s = 0; s < layout->stages; s++) {
        if (add_stage(plan, s, &grad) != CULM_OK) {
            return out_of_memory(error);
        }
    }
    plan->param_count = culm_model_parameters(plan->graph);
    return CULM_OK;
}

/* --- memory --- */

/* What a worker's program takes before it has a part: code, libraries, threads; and the compiled
 * stages, by node of the graph. Measured. */
#define PROGRAM_BYTES ((size_t)4 << 20)
#define GRAPH_NODE_BYTES ((size_t)8 << 10)

/* The micro-batches of samples that a stage reads, those decoded ahead included. */
static size_t sample_bytes(const struct culm_plan *plan, int32_t s) {
    const struct culm_stage_info *info = culm_stage_info_of(plan->stage[s]);
    size_t bytes = 0;
    for (int32_t i = 0; i < info->field_count; i++) {
        const struct culm_field *field = &plan->graph->field[info->fields[i]];
        bytes += (size_t)culm_elements(&field->shape) * culm_dtype_bytes(field->dtype);
    }
    return bytes * (size_t)culm_numeric_samples_kept(&plan->shape);
}

/* What each stage's worker takes undisturbed, and what is left for blobs. */
static void share_memory(struct culm_plan *plan) {
    const struct culm_memory *memory = &plan->memory;
    for (int32_t s = 0; s < plan->shape.stages; s++) {
        const struct culm_memory_load load = culm_memory_undisturbed(&plan->shape, s);
        plan->memory_bytes[s] = culm_memory_of(memory, &plan->shape, &load);
    }
    /* The program itself is outside of what is counted while running. */
    size_t promised = memory->node_bytes ? memory->node_bytes : memory->total_bytes;
    plan->limit_bytes = promised > memory->base_bytes ? promised - memory->base_bytes : 1;
}

static void plan_memory(struct culm_plan *plan, const struct culm_train_config *config) {
    struct culm_memory *memory = &plan->memory;
    *memory = (struct culm_memory){
        .layout = &plan->layout,
        .base_bytes = PROGRAM_BYTES + (size_t)plan->graph->node_count * GRAPH_NODE_BYTES +
                      plan->graph->device->scratch_bytes((int)config->threads),
        .node_bytes = (size_t)config->memory_mb << 20,
        .total_bytes = config->memory_mb ? 0 : culm_machine_memory(),
    };
    for (int32_t s = 0; s < plan->shape.stages; s++) {
        plan->layout.stage[s].scratch_bytes = culm_stage_info_of(plan->stage[s])->scratch_bytes;
        plan->layout.stage[s].sample_bytes = sample_bytes(plan, s);
    }
    share_memory(plan);
}

void culm_plan_hold(struct culm_plan *plan, size_t resident_bytes, size_t opening_bytes) {
    plan->memory.start_bytes = plan->memory.base_bytes + opening_bytes;
    plan->memory.base_bytes += resident_bytes;
    share_memory(plan);
}

/* --- making --- */

/* What `recompute: auto` may use on each worker. */
static size_t memory_allowed(const struct culm_train_config *config) {
    if (config->memory_mb > 0) {
        return (size_t)config->memory_mb << 20;
    }
    return (size_t)(0.8 * (double)culm_machine_memory() /
                    (double)(config->pipelines * config->stages));
}

static size_t largest(const struct culm_plan *plan) {
    size_t most = 0;
    for (int32_t s = 0; s < plan->shape.stages; s++) {
        most = plan->memory_bytes[s] > most ? plan->memory_bytes[s] : most;
    }
    return most;
}

static void forget_stages(struct culm_plan *plan) {
    for (int32_t s = 0; plan->stage && s < plan->shape.stages; s++) {
        culm_stage_free(plan->stage[s]);
        plan->stage[s] = NULL;
    }
    culm_layout_release(&plan->layout);
}

static enum culm_status compile(struct culm_plan *plan, const struct culm_train_config *config,
                                struct culm_error *error) {
    const struct culm_stage_options options = {.recompute = plan->recompute,
                                               .first_block = plan->choices.first_block};
    enum culm_status status =
        culm_stages_compile(plan->graph, plan->shape.stages, &options, plan->stage, error);
    if (status == CULM_OK) {
        status = make_layout(plan, error);
    }
    if (status == CULM_OK) {
        plan_memory(plan, config);
    }
    return status;
}

/* Tokens of a sample, for rates: the second dimension of what the loss compares with. */
static int64_t rows_per_sample(const struct culm_graph *graph) {
    for (int32_t f = 0; f < graph->field_count; f++) {
        const struct culm_field *field = &graph->field[f];
        if (strcmp(field->name, "targets") == 0 || strcmp(field->name, "types") == 0) {
            return culm_elements(&field->shape) / field->shape.dim[0];
        }
    }
    return 1;
}

static enum culm_status take_choices(struct culm_plan *plan, const struct culm_choices *choices,
                                     struct culm_error *error) {
    if (!choices || choices->convolutions == 0) {
        return CULM_OK;
    }
    size_t count = (size_t)choices->convolutions;
    plan->choices.convolution = calloc(count, sizeof *plan->choices.convolution);
    if (!plan->choices.convolution) {
        return out_of_memory(error);
    }
    memcpy(plan->choices.convolution, choices->convolution,
           count * sizeof *plan->choices.convolution);
    plan->choices.convolutions = choices->convolutions;
    return culm_choices_apply(&plan->choices, plan->graph, error);
}

enum culm_status culm_plan_cut(const struct culm_train_config *config,
                               const struct culm_graph *graph, const double *block_cost,
                               int32_t *ret_first_block, struct culm_error *error) {
    struct culm_cut_options options = {
        .block_cost = block_cost,
        .memory_bytes = (size_t)config->memory_mb << 20,
        .vectors =
            culm_optimizer_parts(&config->optimizer) + 3, /* lane sums, G and a fold's result */
    };
    int32_t stages = (int32_t)config->stages;
    enum culm_status status = culm_graph_cut(graph, stages, &options, ret_first_block, error);
    if (status == CULM_ERR_MEMORY && options.memory_bytes) {
        /* It counts roughly, and nothing of what recomputation saves: whether the run fits is for
         * culm_plan_check_memory to say. */
        options.memory_bytes = 0;
        status = culm_graph_cut(graph, stages, &options, ret_first_block, error);
    }
    return status;
}

static enum culm_status choose_cuts(struct culm_plan *plan, const struct culm_train_config *config,
                                    const struct culm_choices *choices, struct culm_error *error) {
    plan->choices.stages = plan->shape.stages;
    if (choices && choices->stages == plan->shape.stages &&
        choices->first_block[choices->stages - 1] < plan->graph->blocks) {
        memcpy(plan->choices.first_block, choices->first_block, sizeof choices->first_block);
        return CULM_OK;
    }
    return culm_plan_cut(config, plan->graph, NULL, plan->choices.first_block, error);
}

static struct culm_run_shape shape_of(const struct culm_train_config *config) {
    int32_t micros = (int32_t)(config->batch.global / config->batch.micro);
    return (struct culm_run_shape){
        .pipelines = (int32_t)config->pipelines,
        .stages = (int32_t)config->stages,
        .lanes = (int32_t)config->batch.lanes,
        .micros = micros,
        .micros_per_lane = micros / (int32_t)config->batch.lanes,
        .global_samples = config->batch.global,
        .micro_samples = config->batch.micro,
        .steps = config->steps,
        .redundancy = config->redundancy,
        .clip_norm = config->optimizer.clip_norm,
    };
}

uint64_t culm_plan_checkpoint_bytes(const struct culm_plan *plan, const char *config_text,
                                    bool weights_only) {
    uint64_t floats = 0;
    size_t tensors = 0;
    for (int32_t s = 0; s < plan->shape.stages; s++) {
        const struct culm_stage_info *info = culm_stage_info_of(plan->stage[s]);
        for (int32_t i = 0; i < info->param_count; i++) {
            const struct culm_param_info *param = &info->params[i];
            if (culm_stage_set_next(&plan->layout.param[param->global_index].stages, 0) < s) {
                continue; /* a tied tensor is stored once */
            }
            const int64_t parts = weights_only || param->statistic ? 1 : plan->state_parts;
            floats += (uint64_t)(param->count * parts);
            tensors += (size_t)parts;
        }
    }
    json_t *choices = culm_choices_json(&plan->choices);
    char *text = choices ? json_dumps(choices, JSON_COMPACT) : NULL;
    const size_t texts = strlen(config_text) + (text ? strlen(text) : 0);
    free(text);
    json_decref(choices);
    return culm_checkpoint_room_of(floats * sizeof(float), tensors, (size_t)plan->shape.stages,
                                   texts);
}

struct culm_pipeline_settings culm_plan_settings(const struct culm_train_config *config) {
    return (struct culm_pipeline_settings){
        .crew = culm_crew_config_settings(&config->cluster),
        .checkpoint_every = config->checkpoint.every,
    };
}

enum culm_status culm_plan_new(struct culm_network *network, const struct culm_choices *choices,
                               struct culm_plan **ret_plan, struct culm_error *error) {
    const struct culm_train_config *config = culm_network_config(network);
    struct culm_plan *plan = calloc(1, sizeof *plan);
    if (!plan) {
        return out_of_memory(error);
    }
    plan->shape = shape_of(config);
    plan->state_parts = culm_optimizer_parts(&config->optimizer);
    plan->slice_bytes = (size_t)config->cluster.slice_mb << 20;
    plan->recompute = config->recompute == CULM_RECOMPUTE_BLOCK;
    size_t stages = (size_t)plan->shape.stages;
    plan->stage = calloc(stages, sizeof(struct culm_stage *));
    plan->memory_bytes = calloc(stages, sizeof *plan->memory_bytes);
    enum culm_status status = plan->stage && plan->memory_bytes ? CULM_OK : out_of_memory(error);
    if (status == CULM_OK) {
        status = culm_network_graph(network, config->batch.micro, CULM_FOR_TRAINING, &plan->graph,
                                    error);
    }
    if (status == CULM_OK) {
        plan->rows_per_sample = rows_per_sample(plan->graph);
        status = take_choices(plan, choices, error);
    }
    if (status == CULM_OK) {
        status = choose_cuts(plan, config, choices, error);
    }
    if (status == CULM_OK) {
        status = compile(plan, config, error);
    }
    if (status == CULM_OK && config->recompute == CULM_RECOMPUTE_AUTO &&
        largest(plan) > memory_allowed(config)) {
        forget_stages(plan);
        plan->recompute = true;
        status = compile(plan, config, error);
    }
    if (status != CULM_OK) {
        culm_plan_free(plan);
        return status;
    }
    *ret_plan = plan;
    return CULM_OK;
}

enum culm_status culm_plan_check_memory(const struct culm_plan *plan, struct culm_error *error) {
    static const char less[] = "these take less: `recompute: block`, `redundancy: lazy`, more "
                               "stages, fewer pipelines, a smaller `batch.micro`";
    const struct culm_memory *memory = &plan->memory;
    size_t total = 0;
    for (int32_t s = 0; s < plan->shape.stages; s++) {
        if (memory->node_bytes && plan->memory_bytes[s] > memory->node_bytes) {
            return culm_error_set(
                error, CULM_ERR_MEMORY,
                "a worker of stage %d takes %.1f MB, and memory_mb allows %zu MB; "
                "%s",
                s, (double)plan->memory_bytes[s] / MB, memory->node_bytes >> 20, less);
        }
        total += plan->memory_bytes[s] * (size_t)plan->shape.pipelines;
    }
    if (memory->total_bytes && total > memory->total_bytes) {
        return culm_error_set(
            error, CULM_ERR_MEMORY,
            "the workers of this plan take %.1f GB, and this machine has %.1f GB; "
            "%s",
            (double)total / 1e9, (double)memory->total_bytes / 1e9, less);
    }
    return CULM_OK;
}

void culm_plan_free(struct culm_plan *plan) {
    if (!plan) {
        return;
    }
    forget_stages(plan);
    free(plan->stage);
    free(plan->memory_bytes);
    culm_choices_release(&plan->choices);
    culm_graph_free(plan->graph);
    free(plan);
}

json_t *culm_plan_json(const struct culm_plan *plan) {
    json_t *stages = json_array();
    for (int32_t s = 0; s < plan->shape.stages; s++) {
        const struct culm_stage_info *info = culm_stage_info_of(plan->stage[s]);
        int64_t params = 0;
        for (int32_t i = 0; i < info->param_count; i++) {
            params += info->params[i].count;
        }
        json_array_append_new(
            stages, json_pack("{s:I, s:I, s:I, s:I, s:f}", "first", (json_int_t)info->first_block,
                              "last", (json_int_t)info->last_block, "params", (json_int_t)params,
                              "memory_bytes", (json_int_t)plan->memory_bytes[s], "flops",
                              info->forward_flops + info->backward_flops));
    }
    json_t *json =
        json_pack("{s:i, s:I, s:i, s:i, s:b, s:s, s:o, s:o}", "format", CULM_PLAN_FORMAT,
                  "parameters", (json_int_t)plan->param_count, "pipelines", plan->shape.pipelines,
                  "lanes", plan->shape.lanes, "recompute", plan->recompute, "rate_of",
                  plan->rows_per_sample > 1 ? "tokens" : "samples", "stages", stages, "choices",
                  culm_choices_json(&plan->choices));
    const char *end = culm_end_name(culm_network_end(plan->graph));
    if (json) {
        json_object_set_new(json, "ends_in", end ? json_string(end) : json_null());
    }
    return json;
}

enum culm_status culm_plan_check(const struct culm_plan *plan, const char *path,
                                 struct culm_error *error) {
    json_error_t parse;
    json_t *given = culm_json_load(path, &parse);
    if (!given) {
        return culm_error_set(error, CULM_ERR_CONFIG, "%s:%d: not a plan: %s", path, parse.line,
                              parse.text);
    }
    json_t *own = culm_plan_json(plan);
    enum culm_status status = CULM_OK;
    static const char *const keys[] = {"format", "parameters", "lanes"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys && status == CULM_OK; i++) {
        if (!json_equal(json_object_get(own, keys[i]), json_object_get(given, keys[i]))) {
            status = culm_error_set(error, CULM_ERR_CONFIG,
                                    "%s: '%s' is not what this configuration gives; use the plan "
                                    "of a run of the same model and batch",
                                    path, keys[i]);
        }
    }
    json_decref(own);
    json_decref(given);
    return status;
}
