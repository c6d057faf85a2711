/* One model of a joint. See joint_part.h. */
#include "merge/joint_part.h"

#include <stdlib.h>
#include <string.h>

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "training models together: out of memory");
}

/* --- compiling --- */

/* Prepares runs with fewer samples than the stage is compiled for. Not needed for a model with a
 * fixed number of samples. */
static enum culm_status shapes_of_fewer(struct joint_part *part, struct culm_error *error) {
    part->rows = calloc((size_t)part->batch, sizeof(struct culm_stage_rows *));
    if (!part->rows) {
        return no_memory(error);
    }
    enum culm_status status = CULM_OK;
    for (int64_t n = 1; n < part->batch && status == CULM_OK; n++) {
        status = culm_stage_rows_new(part->stage, part->graph, n, &part->rows[n], error);
    }
    return status;
}

static bool find_addresses(struct joint_part *part, const struct culm_joint_part *from) {
    const struct culm_stage_info *info = culm_stage_info_of(part->stage);
    part->param = calloc((size_t)info->param_count + 1, sizeof *part->param);
    part->original = calloc((size_t)info->param_count + 1, sizeof *part->original);
    if (!part->param || !part->original) {
        return false;
    }
    for (int32_t p = 0; p < info->param_count; p++) {
        int32_t param = info->params[p].global_index;
        part->param[p] = from->value[param];
        part->original[p] = from->original ? from->original[param] : NULL;
    }
    return true;
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static void *take(struct culm_device *device, size_t bytes) {
    return device->ops->alloc(device, bytes ? bytes : 64);
}

static enum culm_status take_memory(struct joint_part *part, const struct culm_joint_part *from,
                                    bool asks, struct culm_device *device, struct joint_room *room,
                                    struct culm_error *error) {
    const struct culm_stage_info *info = culm_stage_info_of(part->stage);
    const size_t out = info->output_bytes;
    const size_t work = (size_t)culm_loss_work((int64_t)(out / sizeof(float))) * sizeof(float);
    room->activation_bytes = larger(room->activation_bytes, info->activation_bytes);
    room->scratch_bytes = larger(room->scratch_bytes, info->scratch_bytes);
    room->grad_bytes = larger(room->grad_bytes, (size_t)info->grad_floats * sizeof(float));
    room->work_bytes = larger(room->work_bytes, larger(work, out));
    part->room = room;
    const bool made =
        find_addresses(part, from) && (part->output = take(device, out)) &&
        (part->d_output = take(device, out)) && (!asks || (part->said = take(device, out))) &&
        (part->image = take(device, (size_t)culm_elements(&part->graph->field[0].shape) * 4)) &&
        (part->wanted = calloc((size_t)part->batch, sizeof *part->wanted));
    return made ? CULM_OK : no_memory(error);
}

/* Sets up the memory for the original's answers to all samples, if it fits into `room`. */
static enum culm_status keep_answers(struct joint_part *part, const struct culm_joint_part *from,
                                     struct culm_error *error) {
    struct culm_joint_answers *answers = from->answers;
    for (int32_t o = 0; o < part->graph->output_count; o++) {
        part->answer +=
            culm_elements(&part->graph->value[part->graph->output[o].value].shape) / part->batch;
    }
    const size_t count = (size_t)part->samples.count,
                 bytes = count * (size_t)part->answer * sizeof(float);
    if (!answers || bytes > (size_t)from->room) {
        return CULM_OK;
    }
    if (!answers->value) {
        answers->value = malloc(bytes + 1);
        answers->known = calloc(count + 1, sizeof *answers->known);
        if (!answers->value || !answers->known) {
            return no_memory(error);
        }
    }
    part->answers = answers;
    return CULM_OK;
}

enum culm_status joint_part_init(struct joint_part *part, const struct culm_joint_part *from,
                                 const struct culm_joint_config *config, struct culm_device *device,
                                 struct joint_room *room, struct culm_error *error) {
    const bool asks = config->aim == CULM_JOINT_OUTPUTS;
    const struct culm_stage_options how = {.frozen = from->frozen};
    *part = (struct joint_part){.model = from->model,
                                .samples = from->samples,
                                .batch = from->each > 0 ? from->each : config->batch,
                                .weight = 1};
    enum culm_status status =
        culm_vision_model_graph(from->model, part->batch,
                                asks ? CULM_VISION_INFER : CULM_VISION_LEARN, &part->graph, error);
    if (status == CULM_OK && (part->graph->field_count != 1 || culm_graph_has_loss(part->graph))) {
        status = culm_error_set(error, CULM_ERR_UNSUPPORTED, "'%s': not a model of pictures",
                                from->model->name);
    }
    if (status != CULM_OK ||
        (status = culm_stages_compile(part->graph, 1, &how, &part->stage, error)) ||
        (status = from->each > 0 ? CULM_OK : shapes_of_fewer(part, error)) ||
        (status = take_memory(part, from, asks, device, room, error))) {
        return status;
    }
    return asks ? keep_answers(part, from, error) : CULM_OK;
}

void joint_part_release(struct joint_part *part, struct culm_device *device) {
    for (int64_t n = 1; part->rows && n < part->batch; n++) {
        culm_stage_rows_free(part->rows[n]);
    }
    free(part->rows);
    free(part->param);
    free(part->original);
    free(part->wanted);
    device->ops->release(device, part->image);
    device->ops->release(device, part->output);
    device->ops->release(device, part->said);
    device->ops->release(device, part->d_output);
    culm_stage_free(part->stage);
    culm_graph_free(part->graph);
    *part = (struct joint_part){0};
}

/* --- running --- */

struct running {
    struct joint_part *part;
    struct culm_device *device;
    const void *fields[1];
    const int64_t *sample; /* [count] */
    int64_t count;
    joint_gradient_fn *gradient;
    void *ctx;
    double loss; /* summed over samples, before the part's weight */
};

static struct culm_stage_run run_of(const struct running *r, bool original) {
    const struct joint_part *part = r->part;
    return (struct culm_stage_run){
        .param = original ? part->original : part->param,
        .rows = r->count < part->batch ? part->rows[r->count] : NULL,
        .fields = r->fields,
        .output = original ? part->said : part->output,
        .loss_scale = 1,
        .activations = part->room->activations,
        .scratch = part->room->scratch,
        .grads = part->room->grads,
        .first = true,
        .d_output = part->d_output,
    };
}

static void forward(const struct running *r, bool original) {
    struct culm_stage_run run = run_of(r, original);
    (void)culm_stage_forward(r->part->stage, r->device, &run); /* no stop flag: cannot fail */
}

static void backward(const struct running *r) {
    const struct culm_stage_info *info = culm_stage_info_of(r->part->stage);
    struct culm_stage_run run = run_of(r, false);
    (void)culm_stage_backward(r->part->stage, r->device, &run);
    for (int32_t g = 0; g < info->grad_count; g++) {
        r->gradient(r->ctx, info->params[info->grads[g].param].global_index,
                    r->part->room->grads + info->grads[g].offset);
    }
}

/* --- losses --- */

/* Adds the loss of one output over all samples, and stores its gradient. */
static void output_loss(struct running *r, int32_t output) {
    struct joint_part *part = r->part;
    const struct culm_vision_model *model = part->model;
    const struct culm_shape *shape = &part->graph->value[part->graph->output[output].value].shape;
    const int64_t each = culm_elements(shape) / part->batch;
    const size_t begin = culm_stage_output_offset(part->stage, output);
    const float *y = (const float *)((const char *)part->output + begin);
    float *dy = (float *)((char *)part->d_output + begin);
    const double scale = part->weight / (double)r->count;
    for (int64_t i = 0; i < r->count; i++, y += each, dy += each) {
        const struct culm_wanted *wanted = &part->wanted[i];
        bool classes = model->kind == CULM_ANSWER_CLASSES && output == 0;
        if (classes && model->end == CULM_FUNCTION_SIGMOID) {
            r->loss += culm_loss_each(each, wanted->label, y, scale, dy);
        } else if (classes) {
            r->loss += culm_loss_label(r->device, model->classes, wanted->label, y, scale,
                                       part->room->work, dy);
        } else if (model->kind == CULM_ANSWER_POINTS && output == 0) {
            r->loss += culm_loss_points(each, wanted->points, y, scale, dy);
        }
        for (int32_t h = 0; h < model->head_count; h++) {
            if (model->head[h].output == output) {
                r->loss +=
                    culm_loss_boxes(r->device, model, h, shape->dim[1], shape->dim[2], wanted->box,
                                    wanted->box_count, y, scale, part->room->work, dy);
            }
        }
    }
}

static void toward_answers(struct running *r) {
    forward(r, false);
    memset(r->part->d_output, 0, culm_stage_info_of(r->part->stage)->output_bytes);
    for (int32_t o = 0; o < r->part->graph->output_count; o++) {
        output_loss(r, o);
    }
    backward(r);
}

/* Output `o` of sample `i` in the stage's output buffer. */
static float *output_at(const struct joint_part *part, void *outputs, int32_t o, int64_t i,
                        int64_t each) {
    return (float *)((char *)outputs + culm_stage_output_offset(part->stage, o)) + i * each;
}

static int64_t output_size(const struct joint_part *part, int32_t o) {
    return culm_elements(&part->graph->value[part->graph->output[o].value].shape) / part->batch;
}

/* The original's outputs for this batch, into `said`: copied if all of them are known, else
 * computed and remembered. */
static void ask_original(const struct running *r) {
    struct joint_part *part = r->part;
    struct culm_joint_answers *answers = part->answers;
    bool known = answers != NULL;
    for (int64_t i = 0; i < r->count && known; i++) {
        known = answers->known[r->sample[i]];
    }
    if (!known) {
        forward(r, true);
    }
    for (int64_t i = 0; i < r->count && answers; i++) {
        float *kept = answers->value + r->sample[i] * part->answer;
        for (int32_t o = 0; o < part->graph->output_count; o++) {
            const int64_t each = output_size(part, o);
            float *said = output_at(part, part->said, o, i, each);
            memcpy(known ? said : kept, known ? kept : said, (size_t)each * sizeof *said);
            kept += each;
        }
        answers->known[r->sample[i]] = true;
    }
}

static void toward_outputs(struct running *r) {
    struct joint_part *part = r->part;
    const double scale = part->weight / (double)r->count;
    ask_original(r);
    forward(r, false);
    memset(part->d_output, 0, culm_stage_info_of(part->stage)->output_bytes);
    for (int32_t o = 0; o < part->graph->output_count; o++) {
        const int64_t each = output_size(part, o);
        for (int64_t i = 0; i < r->count; i++) {
            r->loss +=
                culm_loss_original(part->model, o, each, output_at(part, part->said, o, i, each),
                                   output_at(part, part->output, o, i, each), scale,
                                   part->room->work, output_at(part, part->d_output, o, i, each));
        }
    }
    backward(r);
}

enum culm_status joint_part_run(struct joint_part *part, const struct culm_joint_config *config,
                                struct culm_device *device, const int64_t *sample, int64_t count,
                                joint_gradient_fn *gradient, void *ctx, double *ret_loss,
                                struct culm_error *error) {
    struct running r = {.part = part,
                        .device = device,
                        .fields = {part->image},
                        .sample = sample,
                        .count = count,
                        .gradient = gradient,
                        .ctx = ctx};
    const int64_t each = culm_elements(&part->graph->field[0].shape) / part->batch;
    for (int64_t i = 0; i < count; i++) {
        enum culm_status status = part->samples.get(
            part->samples.ctx, sample[i], part->image + i * each, &part->wanted[i], error);
        if (status != CULM_OK) {
            return status;
        }
    }
    if (config->aim == CULM_JOINT_OUTPUTS) {
        toward_outputs(&r);
    } else {
        toward_answers(&r);
    }
    *ret_loss = part->weight * r.loss / (double)count;
    return CULM_OK;
}
