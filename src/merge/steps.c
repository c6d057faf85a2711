/* A model run operator by operator. See steps.h. */
#include "merge/steps.h"

#include <stdlib.h>

static void *take(struct culm_steps *steps, size_t bytes) {
    return steps->device->ops->alloc(steps->device, bytes ? bytes : 64);
}

enum culm_status culm_steps_init(struct culm_steps *steps, const struct culm_merge_model *model,
                                 int64_t frames, const float *image, float *const *value,
                                 struct culm_device *device, struct culm_error *error) {
    const struct culm_stage_options how = {.forward_only = true};
    *steps = (struct culm_steps){.device = device, .field = {image}};
    enum culm_status status;
    if ((status = culm_vision_model_graph(model->vision, frames, CULM_VISION_INFER, &steps->graph,
                                          error)) ||
        (status = culm_stages_compile(steps->graph, 1, &how, &steps->stage, error))) {
        return status;
    }
    const struct culm_stage_info *info = culm_stage_info_of(steps->stage);
    steps->count = info->forward_ops;
    steps->param = calloc((size_t)info->param_count + 1, sizeof *steps->param);
    steps->output = take(steps, info->output_bytes);
    steps->activations = take(steps, info->activation_bytes);
    steps->scratch = take(steps, info->scratch_bytes);
    if (!steps->param || !steps->output || !steps->activations || !steps->scratch) {
        return culm_error_set(error, CULM_ERR_MEMORY, "'%s': out of memory for %lld frames",
                              model->vision->name, (long long)frames);
    }
    for (int32_t p = 0; p < info->param_count; p++) {
        steps->param[p] = value[info->params[p].global_index];
    }
    steps->run = (struct culm_stage_run){.param = steps->param,
                                         .fields = steps->field,
                                         .output = steps->output,
                                         .loss_scale = 1,
                                         .activations = steps->activations,
                                         .scratch = steps->scratch,
                                         .first = true};
    return CULM_OK;
}

void culm_steps_release(struct culm_steps *steps) {
    if (steps->device) {
        steps->device->ops->release(steps->device, steps->output);
        steps->device->ops->release(steps->device, steps->activations);
        steps->device->ops->release(steps->device, steps->scratch);
    }
    free(steps->param);
    culm_stage_free(steps->stage);
    culm_graph_free(steps->graph);
    *steps = (struct culm_steps){0};
}

void culm_steps_step(struct culm_steps *steps) {
    culm_stage_execute(steps->stage, steps->device, &steps->run, steps->cursor++);
}

const float *culm_steps_value(const struct culm_steps *steps, int32_t value) {
    return culm_stage_value(steps->stage, &steps->run, value);
}
