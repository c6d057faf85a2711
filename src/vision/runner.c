/* Running a model of pictures. See runner.h. */
#include "vision/runner.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

static void *take(struct culm_vision_runner *runner, size_t bytes) {
    runner->memory_bytes += (int64_t)bytes;
    return runner->device->ops->alloc(runner->device, bytes ? bytes : 64);
}

static enum culm_status load(struct culm_vision_runner *runner, struct culm_vision_model *model,
                             struct culm_error *error) {
    const struct culm_stage_info *info = culm_stage_info_of(runner->stage);
    enum culm_status status = CULM_OK;
    for (int32_t p = 0; p < info->param_count && status == CULM_OK; p++) {
        const struct culm_param *param = &runner->graph->param[info->params[p].global_index];
        float *to = runner->params + info->params[p].offset, *read = to;
        if (param->turned &&
            !(read = malloc((size_t)culm_elements(&param->shape) * sizeof *read))) {
            return culm_error_set(error, CULM_ERR_MEMORY, "'%s': out of memory", model->name);
        }
        struct culm_param written = *param; /* as the model knows it */
        written.shape = param->written;
        status = culm_vision_model_weights(model, &written, read, error);
        if (read != to) {
            culm_graph_turn(param, read, to);
            free(read);
        }
    }
    return status;
}

enum culm_status culm_vision_runner_init(struct culm_vision_runner *runner,
                                         struct culm_vision_model *model, int64_t batch,
                                         float score, struct culm_device *device,
                                         struct culm_error *error) {
    *runner = (struct culm_vision_runner){
        .device = device, .batch = batch, .least = culm_box_least(score)};
    const struct culm_stage_options how = {.forward_only = true};
    struct culm_graph *plain = NULL;
    enum culm_status status =
        culm_vision_model_graph(model, batch, CULM_VISION_INFER, &plain, error);
    if (status == CULM_OK) {
        status = culm_graph_fuse(plain, &runner->graph, error);
        culm_graph_free(plain);
    }
    if (status == CULM_OK && score > 0) {
        culm_vision_gate(model, runner->graph);
    }
    if (status != CULM_OK ||
        (status = culm_stages_compile(runner->graph, 1, &how, &runner->stage, error))) {
        return status;
    }
    if (runner->graph->field_count != 1 || runner->graph->output_count == 0) {
        return culm_error_set(
            error, CULM_ERR_UNSUPPORTED,
            "'%s': not a model of pictures: it reads more than an image, or has no output",
            model->name);
    }
    const struct culm_stage_info *info = culm_stage_info_of(runner->stage);
    runner->image = take(runner, (size_t)culm_elements(&runner->graph->field[0].shape) * 4);
    runner->params = take(runner, (size_t)info->param_floats * 4);
    runner->output = take(runner, info->output_bytes);
    runner->activations = take(runner, info->activation_bytes);
    runner->scratch = take(runner, info->scratch_bytes);
    return runner->image && runner->params && runner->output && runner->activations &&
                   runner->scratch
               ? load(runner, model, error)
               : culm_error_set(error, CULM_ERR_MEMORY, "'%s': out of memory", model->name);
}

void culm_vision_runner_release(struct culm_vision_runner *runner) {
    if (runner->device) {
        runner->device->ops->release(runner->device, runner->image);
        runner->device->ops->release(runner->device, runner->params);
        runner->device->ops->release(runner->device, runner->output);
        runner->device->ops->release(runner->device, runner->activations);
        runner->device->ops->release(runner->device, runner->scratch);
    }
    culm_stage_free(runner->stage);
    culm_graph_free(runner->graph);
    *runner = (struct culm_vision_runner){0};
}

static struct culm_stage_run run_of(const struct culm_vision_runner *runner,
                                    const void *const *fields) {
    return (struct culm_stage_run){
        .params = runner->params,
        .fields = fields,
        .output = runner->output,
        .loss_scale = 1,
        .activations = runner->activations,
        .scratch = runner->scratch,
        .first = true,
        .least = &runner->least,
    };
}

void culm_vision_runner_run(struct culm_vision_runner *runner) {
    const void *fields[] = {runner->image};
    struct culm_stage_run run = run_of(runner, fields);
    (void)culm_stage_forward(runner->stage, runner->device, &run); /* no stop flag: cannot fail */
}

void culm_vision_runner_clock(struct culm_vision_runner *runner, uint64_t *ret_ns) {
    const void *fields[] = {runner->image};
    struct culm_stage_run run = run_of(runner, fields);
    int32_t count = culm_stage_info_of(runner->stage)->forward_ops;
    uint64_t begin = culm_clock_ns();
    while (run.cursor < count) {
        ret_ns[run.cursor] = culm_clock_ns() - begin;
        culm_stage_execute(runner->stage, runner->device, &run, run.cursor++);
    }
    (void)culm_stage_forward(runner->stage, runner->device, &run); /* copies the outputs */
    ret_ns[count] = culm_clock_ns() - begin;
}

const float *culm_vision_runner_output(const struct culm_vision_runner *runner, int32_t index,
                                       int64_t sample, struct culm_shape *ret_shape) {
    const struct culm_shape *all = &runner->graph->value[runner->graph->output[index].value].shape;
    struct culm_shape one = {.rank = all->rank - 1};
    memcpy(one.dim, all->dim + 1, sizeof one.dim - sizeof *one.dim);
    if (ret_shape) {
        *ret_shape = one;
    }
    const char *begin =
        (const char *)runner->output + culm_stage_output_offset(runner->stage, index);
    return (const float *)begin + sample * culm_elements(&one);
}

enum culm_status culm_vision_runner_answer(const struct culm_vision_runner *runner,
                                           const struct culm_vision_model *model, int64_t sample,
                                           int32_t frame_width, int32_t frame_height, float score,
                                           struct culm_answer *answer, struct culm_error *error) {
    const float *output[CULM_VISION_HEADS_MAX];
    struct culm_shape shape[CULM_VISION_HEADS_MAX];
    for (int32_t i = 0; i < culm_vision_outputs(model); i++) {
        output[i] = culm_vision_runner_output(runner, i, sample, &shape[i]);
    }
    return culm_answer_read(model, output, shape, frame_width, frame_height, score, answer, error);
}
