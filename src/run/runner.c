/* One model in one process. See runner.h. */
#include "run/runner.h"

#include "base/file.h"
#include "store/checkpoint.h"
#include "store/safetensors.h"

#include <stdio.h>
#include <stdlib.h>

enum culm_status culm_runner_init(struct culm_runner *runner,
                                  const struct culm_train_config *config, int64_t batch,
                                  enum culm_purpose purpose, int threads,
                                  struct culm_error *error) {
    *runner = (struct culm_runner){.batch = batch};
    const struct culm_stage_options options = {
        .forward_only = purpose != CULM_FOR_TRAINING,
        .recompute = config->recompute == CULM_RECOMPUTE_BLOCK,
    };
    enum culm_status status;
    if ((status = culm_network_build(config, batch, purpose, &runner->graph, error)) ||
        (status = culm_stages_compile(runner->graph, 1, &options, &runner->stage, error)) ||
        (status = culm_device_new(threads, &runner->device, error))) {
        return status;
    }
    const struct culm_stage_info *info = culm_stage_info(runner->stage);
    runner->params =
        runner->device->ops->alloc(runner->device, (size_t)info->param_floats * sizeof(float));
    runner->field = calloc((size_t)runner->graph->field_count + 1, sizeof *runner->field);
    runner->output = runner->device->ops->alloc(runner->device, info->output_bytes);
    runner->activations = runner->device->ops->alloc(runner->device, info->activation_bytes);
    runner->scratch = runner->device->ops->alloc(runner->device, info->scratch_bytes);
    bool made =
        runner->params && runner->field && runner->output && runner->activations && runner->scratch;
    if (purpose == CULM_FOR_TRAINING) {
        runner->grads =
            runner->device->ops->alloc(runner->device, (size_t)info->grad_floats * sizeof(float));
        made = made && runner->grads;
    }
    for (int32_t f = 0; f < runner->graph->field_count && made; f++) {
        const struct culm_field *field = &runner->graph->field[f];
        runner->field[f] = runner->device->ops->alloc(
            runner->device, (size_t)culm_elements(&field->shape) * culm_dtype_bytes(field->dtype));
        made = runner->field[f] != NULL;
    }
    return made ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for the model");
}

static void give_back(const struct culm_runner *runner, void *memory) {
    if (runner->device) {
        runner->device->ops->release(runner->device, memory);
    }
}

void culm_runner_release(struct culm_runner *runner) {
    for (int32_t f = 0; runner->field && f < runner->graph->field_count; f++) {
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
    culm_graph_free(runner->graph);
    *runner = (struct culm_runner){0};
}

static enum culm_status load_checkpoint(struct culm_runner *runner, const char *path,
                                        struct culm_error *error) {
    const struct culm_stage_info *info = culm_stage_info(runner->stage);
    struct culm_checkpoint *checkpoint = NULL;
    enum culm_status status = culm_checkpoint_open(path, false, &checkpoint, error);
    for (int32_t i = 0; i < info->param_count && status == CULM_OK; i++) {
        const struct culm_param_info *param = &info->params[i];
        status = culm_checkpoint_tensor(checkpoint, param->name, param->rank, param->shape,
                                        runner->params + param->offset, error);
    }
    culm_checkpoint_close(checkpoint);
    return status;
}

enum culm_status culm_runner_load(struct culm_runner *runner, const char *path,
                                  struct culm_error *error) {
    if (culm_file_is_directory(path)) {
        return load_checkpoint(runner, path, error);
    }
    const struct culm_stage_info *info = culm_stage_info(runner->stage);
    struct culm_safetensors *file = NULL;
    enum culm_status status = culm_safetensors_open(path, &file, error);
    for (int32_t i = 0; i < info->param_count && status == CULM_OK; i++) {
        const struct culm_param_info *param = &info->params[i];
        status = culm_safetensors_read(file, param->name, param->rank, param->shape,
                                       runner->params + param->offset, error);
    }
    culm_safetensors_close(file);
    return status;
}

enum culm_status culm_runner_begin(struct culm_runner *runner,
                                   const struct culm_train_config *config,
                                   char ret_note[CULM_INITIAL_NOTE_SIZE],
                                   struct culm_error *error) {
    const struct culm_stage_info *info = culm_stage_info(runner->stage);
    struct culm_initial *initial = NULL;
    ret_note[0] = '\0';
    enum culm_status status = culm_initial_open(config, &initial, error);
    if (status == CULM_OK) {
        status = culm_initial_check(initial, runner->graph, ret_note, error);
    }
    for (int32_t i = 0; i < info->param_count && status == CULM_OK; i++) {
        status = culm_initial_fill(initial, &info->params[i],
                                   runner->params + info->params[i].offset, error);
    }
    culm_initial_close(initial);
    return status;
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
