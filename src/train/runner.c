/* One model in one process. See runner.h. */
#include "train/runner.h"

#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

static bool alloc_fields(struct culm_runner *runner) {
    runner->field = calloc((size_t)runner->graph->field_count + 1, sizeof *runner->field);
    bool made = runner->field != NULL;
    for (int32_t f = 0; f < runner->graph->field_count && made; f++) {
        const struct culm_field *field = &runner->graph->field[f];
        runner->field[f] = runner->device->ops->alloc(
            runner->device, (size_t)culm_elements(&field->shape) * culm_dtype_bytes(field->dtype));
        made = runner->field[f] != NULL;
    }
    return made;
}

enum culm_status culm_runner_take(struct culm_runner *runner, struct culm_graph *graph,
                                  const struct culm_runner_options *options,
                                  struct culm_error *error) {
    *runner = (struct culm_runner){.graph = graph, .batch = options->batch};
    const struct culm_stage_options how = {
        .forward_only = options->purpose != CULM_FOR_TRAINING,
        .recompute = options->recompute,
    };
    enum culm_status status;
    if ((status = culm_stages_compile(graph, 1, &how, &runner->stage, error)) ||
        (status = culm_device_new(options->threads, &runner->device, error))) {
        return status;
    }
    const struct culm_stage_info *info = culm_stage_info_of(runner->stage);
    struct culm_device *device = runner->device;
    runner->params = device->ops->alloc(device, (size_t)info->param_floats * sizeof(float));
    runner->output = device->ops->alloc(device, info->output_bytes);
    runner->activations = device->ops->alloc(device, info->activation_bytes);
    runner->scratch = device->ops->alloc(device, info->scratch_bytes);
    bool made = runner->params && runner->output && runner->activations && runner->scratch &&
                alloc_fields(runner);
    if (options->purpose == CULM_FOR_TRAINING && made) {
        runner->grads = device->ops->alloc(device, (size_t)info->grad_floats * sizeof(float));
        made = runner->grads != NULL;
    }
    return made ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for the model");
}

enum culm_status culm_runner_init(struct culm_runner *runner, struct culm_network *network,
                                  const struct culm_runner_options *options,
                                  struct culm_error *error) {
    struct culm_runner_options own = *options;
    struct culm_graph *graph = NULL;
    own.recompute = culm_network_config(network)->recompute == CULM_RECOMPUTE_BLOCK;
    *runner = (struct culm_runner){0};
    enum culm_status status =
        culm_network_graph(network, options->batch, options->purpose, &graph, error);
    return status == CULM_OK ? culm_runner_take(runner, graph, &own, error) : status;
}

static void give_back(const struct culm_runner *runner, void *memory) {
    if (runner->device) {
        runner->device->ops->release(runner->device, memory);
    }
}

struct culm_graph *culm_runner_detach(struct culm_runner *runner) {
    struct culm_graph *graph = runner->graph;
    for (int32_t f = 0; runner->field && f < graph->field_count; f++) {
        give_back(runner, runner->field[f]);
    }
    free(runner->field);
    give_back(runner, runner->params);
    give_back(runner, runner->output);
    give_back(runner, runner->activations);
    give_back(runner, runner->scratch);
    give_back(runner, runner->grads);
    culm_device_free(runner->device);
    culm_stage_free(runner->stage);
    *runner = (struct culm_runner){0};
    return graph;
}

void culm_runner_release(struct culm_runner *runner) {
    culm_graph_free(culm_runner_detach(runner));
}

enum culm_status culm_runner_load(struct culm_runner *runner, const struct culm_weights *weights,
                                  struct culm_error *error) {
    const struct culm_stage_info *info = culm_stage_info_of(runner->stage);
    enum culm_status status = CULM_OK;
    for (int32_t i = 0; i < info->param_count && status == CULM_OK; i++) {
        const struct culm_param_info *param = &info->params[i];
        status = culm_weights_read(weights, param->name, param->rank, param->shape,
                                   runner->params + param->offset, error);
    }
    return status;
}

enum culm_status culm_runner_begin(struct culm_runner *runner, struct culm_network *network,
                                   char ret_note[CULM_NETWORK_NOTE_SIZE],
                                   struct culm_error *error) {
    const struct culm_stage_info *info = culm_stage_info_of(runner->stage);
    enum culm_status status = culm_network_check_weights(network, runner->graph, ret_note, error);
    for (int32_t i = 0; i < info->param_count && status == CULM_OK; i++) {
        status = culm_network_weights(network, &info->params[i],
                                      runner->params + info->params[i].offset, error);
    }
    return status;
}

void culm_runner_fill_random(struct culm_runner *runner, const struct culm_train_config *config) {
    const struct culm_model_options *o = &config->model.options;
    uint64_t random = 1;
    for (int32_t f = 0; f < runner->graph->field_count; f++) {
        const struct culm_field *field = &runner->graph->field[f];
        int64_t count = culm_elements(&field->shape);
        int64_t range = culm_network_below(runner->graph, field->name);
        bool length = strcmp(field->name, "length") == 0;
        bool mask = strcmp(field->name, "mask") == 0;
        float *real = runner->field[f];
        int32_t *whole = runner->field[f];
        for (int64_t i = 0; i < count; i++) {
            if (field->dtype == CULM_F32) {
                real[i] = culm_rng_unit((uint32_t)culm_rng_next(&random)) - 0.5f;
            } else if (range <= 0 && (length || mask)) {
                whole[i] = mask ? 1 : (int32_t)(o->source ? o->source : o->context);
            } else {
                whole[i] = (int32_t)culm_rng_below(&random, (uint64_t)(range > 0 ? range : 1));
            }
        }
    }
}

struct culm_stage_run culm_runner_run(const struct culm_runner *runner) {
    return (struct culm_stage_run){
        .params = runner->params,
        .fields = (const void *const *)runner->field,
        .output = runner->output,
        .loss_scale = 1.0 / (double)runner->batch,
        .activations = runner->activations,
        .scratch = runner->scratch,
        .grads = runner->grads,
        .first = true,
    };
}
