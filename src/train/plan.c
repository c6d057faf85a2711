/* The plan: layout and memory from compiled stages. */
#include "train/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(4 * CULM_TRAIN_MAX_WIDTH <= CULM_CPU_MAX_WIDTH, "the widest layer is 4 width");
_Static_assert(CULM_TRAIN_MAX_HEAD <= CULM_CPU_MAX_HEAD, "attention");
_Static_assert(CULM_TRAIN_MAX_CONTEXT <= CULM_CPU_MAX_CONTEXT, "attention");
_Static_assert(CULM_TRAIN_MAX_ROWS <= CULM_CPU_MAX_ROWS, "cross-entropy");

#define SAVED_LOSS_BYTES                                                                           \
    64 /* behind the activations of the last stage: the loss on its way to B                       \
        */

static enum culm_status out_of_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "plan: out of memory");
}

/* --- layout --- */

static enum culm_status add_stage(struct culm_plan *plan, int32_t s, int32_t *grad) {
    const struct culm_stage_info *info = culm_stage_info(plan->stage[s]);
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
        .grad_count = info->grad_count + last,
        .param_count = info->param_count,
        .params = params,
        .state_bytes = (size_t)info->param_floats * (size_t)plan->state_parts * sizeof(float),
    };
    for (int32_t i = 0; i < info->param_count; i++) {
        int32_t global = info->params[i].global_index;
        params[i] = global;
        plan->layout.param[global].stages |= 1ull << s;
        plan->layout.param[global].state_bytes =
            (size_t)info->params[i].count * (size_t)plan->state_parts * sizeof(float);
    }
    for (int32_t i = 0; i < info->grad_count; i++) {
        const struct culm_grad_info *g = &info->grads[i];
        plan->layout.grad[(*grad)++] =
            (struct culm_grad_desc){s, params[g->param], (size_t)g->offset * sizeof(float),
                                    (size_t)g->count * sizeof(float)};
    }
    stage->grad_bytes = (size_t)info->grad_floats * sizeof(float);
    if (last) {
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
        const struct culm_stage_info *info = culm_stage_info(plan->stage[s]);
        layout->grad_count += info->grad_count;
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

/* What owning stage s costs with `micros` micro-batches kept until COMMIT and `in_flight` between F
 * and B. */
static size_t owner_bytes(const struct culm_plan *plan, int32_t s, size_t micros, size_t in_flight,
                          size_t sums) {
    const struct culm_stage_desc *stage = &plan->layout.stage[s];
    size_t boundaries = 2 * (stage->input_bytes + stage->output_bytes);
    /* sums over lanes, G, and the G being stepped */
    return stage->state_bytes + micros * boundaries + in_flight * stage->activation_bytes +
           (sums + 2) * stage->grad_bytes;
}

static size_t shadow_bytes(const struct culm_plan *plan, int32_t s, size_t micros) {
    const struct culm_stage_desc *stage = &plan->layout.stage[s];
    bool frc = plan->shape.redundancy == CULM_REDUNDANCY_EAGER;
    size_t kept = frc ? micros * (stage->activation_bytes + stage->output_bytes) : 0;
    return stage->state_bytes + kept + 2 * stage->grad_bytes;
}

static void plan_memory(struct culm_plan *plan, int64_t threads) {
    const struct culm_run_shape *shape = &plan->shape;
    size_t all = (size_t)shape->micros, stages = (size_t)shape->stages;
    size_t lanes_each =
        ((size_t)shape->lanes + (size_t)shape->pipelines - 1) / (size_t)shape->pipelines;
    size_t micros = lanes_each * (size_t)shape->micros_per_lane;
    size_t sums = 1 + (size_t)ceil(log2((double)shape->lanes));
    size_t everything = 0, device_bytes = culm_cpu_scratch_bytes((int)threads);
    for (size_t s = 0; s < stages; s++) {
        const struct culm_stage_info *info = culm_stage_info(plan->stage[s]);
        size_t in_flight = stages - s < micros ? stages - s : micros;
        /* and the copy of the state that a checkpoint is written from */
        size_t bytes = owner_bytes(plan, (int32_t)s, micros, in_flight, sums + 1) +
                       info->scratch_bytes + plan->layout.stage[s].state_bytes + device_bytes;
        if (shape->redundancy != CULM_REDUNDANCY_NONE && stages > 1) {
            size_t shadowed = (s + 1) % stages;
            bytes += shadow_bytes(plan, (int32_t)shadowed, micros);
            if (shape->redundancy == CULM_REDUNDANCY_EAGER) {
                bytes += culm_stage_info(plan->stage[shadowed])->scratch_bytes;
            }
        }
        plan->memory_bytes[s] = bytes;
        /* In the worst case one node is left and does it all, copying and being copied. */
        everything += owner_bytes(plan, (int32_t)s, all, all, (size_t)shape->lanes + 1) +
                      shadow_bytes(plan, (int32_t)s, all) + 4 * plan->layout.stage[s].state_bytes +
                      (size_t)shape->lanes * plan->layout.stage[s].grad_bytes;
    }
    plan->limit_bytes = 2 * everything;
}

/* --- making --- */

static size_t machine_bytes(void) {
    return (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
}

/* What `recompute: auto` may use on each worker. */
static size_t memory_allowed(const struct culm_train_config *config) {
    if (config->memory_mb > 0) {
        return (size_t)config->memory_mb << 20;
    }
    return (size_t)(0.8 * (double)machine_bytes() / (double)(config->pipelines * config->stages));
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

static enum culm_status compile(struct culm_plan *plan, int64_t threads, struct culm_error *error) {
    const struct culm_stage_options options = {.recompute = plan->recompute,
                                               .first_block = plan->choices.first_block};
    enum culm_status status =
        culm_stages_compile(plan->graph, plan->shape.stages, &options, plan->stage, error);
    if (status == CULM_OK) {
        status = make_layout(plan, error);
    }
    if (status == CULM_OK) {
        plan_memory(plan, threads);
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

static enum culm_status choose_cuts(struct culm_plan *plan, const struct culm_train_config *config,
                                    const struct culm_choices *choices, struct culm_error *error) {
    plan->choices.stages = plan->shape.stages;
    if (choices && choices->stages == plan->shape.stages &&
        choices->first_block[choices->stages - 1] < plan->graph->blocks) {
        memcpy(plan->choices.first_block, choices->first_block, sizeof choices->first_block);
        return CULM_OK;
    }
    const struct culm_cut_options options = {
        .memory_bytes = (size_t)config->memory_mb << 20,
        .vectors = plan->state_parts + 3, /* lane sums, G and the G being stepped */
    };
    return culm_graph_cut(plan->graph, plan->shape.stages, &options, plan->choices.first_block,
                          error);
}

enum culm_status culm_plan_new(const struct culm_train_config *config,
                               const struct culm_choices *choices, struct culm_plan **ret_plan,
                               struct culm_error *error) {
    struct culm_plan *plan = calloc(1, sizeof *plan);
    if (!plan) {
        return out_of_memory(error);
    }
    plan->shape = culm_run_shape_of(config);
    plan->state_parts = strcmp(config->optimizer.name, "sgd") == 0 ? 2 : 3;
    plan->recompute = config->recompute == CULM_RECOMPUTE_BLOCK;
    size_t stages = (size_t)plan->shape.stages;
    plan->stage = calloc(stages, sizeof(struct culm_stage *));
    plan->memory_bytes = calloc(stages, sizeof *plan->memory_bytes);
    enum culm_status status = plan->stage && plan->memory_bytes ? CULM_OK : out_of_memory(error);
    if (status == CULM_OK) {
        status =
            culm_network_build(config, config->batch.micro, CULM_FOR_TRAINING, &plan->graph, error);
    }
    if (status == CULM_OK) {
        plan->rows_per_sample = rows_per_sample(plan->graph);
        status = take_choices(plan, choices, error);
    }
    if (status == CULM_OK) {
        status = choose_cuts(plan, config, choices, error);
    }
    if (status == CULM_OK) {
        status = compile(plan, config->threads, error);
    }
    if (status == CULM_OK && config->recompute == CULM_RECOMPUTE_AUTO &&
        largest(plan) > memory_allowed(config)) {
        forget_stages(plan);
        plan->recompute = true;
        status = compile(plan, config->threads, error);
    }
    if (status != CULM_OK) {
        culm_plan_free(plan);
        return status;
    }
    *ret_plan = plan;
    return CULM_OK;
}

bool culm_plan_fits(const struct culm_plan *plan, double *ret_needed, double *ret_machine) {
    double needed = 0;
    for (int32_t s = 0; s < plan->shape.stages; s++) {
        needed += (double)plan->memory_bytes[s] * plan->shape.pipelines;
    }
    *ret_needed = needed;
    *ret_machine = (double)machine_bytes();
    return needed <= *ret_machine;
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
        const struct culm_stage_info *info = culm_stage_info(plan->stage[s]);
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
    return json_pack("{s:i, s:I, s:i, s:i, s:b, s:s, s:o, s:o}", "format", 1, "parameters",
                     (json_int_t)plan->param_count, "pipelines", plan->shape.pipelines, "lanes",
                     plan->shape.lanes, "recompute", plan->recompute, "rate_of",
                     plan->rows_per_sample > 1 ? "tokens" : "samples", "stages", stages, "choices",
                     culm_choices_json(&plan->choices));
}

enum culm_status culm_plan_check(const struct culm_plan *plan, const char *path,
                                 struct culm_error *error) {
    json_error_t parse;
    json_t *given = json_load_file(path, 0, &parse);
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
