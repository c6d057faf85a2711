/*
 * One model among those that are trained together. See joint_part.h.
 *
 * Towards answers, the model is one stretch, and the gradients of its outputs come from the losses.
 * Towards features, the original runs first, then each stretch; every border has a gradient of its own
 * and, unless training is local, the one that comes back from the stretch behind.
 */
#include "merge/joint_part.h"

#include <stdlib.h>
#include <string.h>

#define FLAT 1e-30 /* of a mean square: what is not worth learning */

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "training models together: out of memory");
}

static void *take(struct joint_part *part, struct culm_device *device, size_t bytes) {
    part->bytes += (int64_t)bytes;
    return device->ops->alloc(device, bytes ? bytes : 64);
}

/* --- compiling --- */

/* As many stretches of equal work as there are, at most `most`; fewer where the graph has fewer blocks. */
static enum culm_status compile(struct joint_part *part, int32_t most, const bool *frozen,
                                struct culm_error *error) {
    const struct culm_stage_options how = {.frozen = frozen};
    int32_t count = most < 1 ? 1 : most;
    count = count < part->graph->blocks ? count : part->graph->blocks;
    count = count < 1 ? 1 : count;
    struct culm_stage **stage = calloc((size_t)count, sizeof *stage);
    part->stretch = calloc((size_t)count, sizeof *part->stretch);
    if (!stage || !part->stretch) {
        free(stage);
        return no_memory(error);
    }
    enum culm_status status = culm_stages_compile(part->graph, count, &how, stage, error);
    part->stretches = status == CULM_OK ? count : 0;
    for (int32_t s = 0; s < part->stretches; s++) {
        part->stretch[s].stage = stage[s];
    }
    free(stage);
    return status;
}

/* Not for a model that takes as many samples in every step. */
static enum culm_status shapes_of_fewer(struct joint_part *part, struct culm_error *error) {
    for (int32_t s = 0; s < part->stretches; s++) {
        struct joint_stretch *stretch = &part->stretch[s];
        stretch->rows = calloc((size_t)part->batch, sizeof(struct culm_stage_rows *));
        if (!stretch->rows) {
            return no_memory(error);
        }
        for (int64_t n = 1; n < part->batch; n++) {
            enum culm_status status =
                culm_stage_rows_new(stretch->stage, part->graph, n, &stretch->rows[n], error);
            if (status != CULM_OK) {
                return status;
            }
        }
    }
    return CULM_OK;
}

static bool find_addresses(struct joint_stretch *stretch, const struct culm_joint_part *from) {
    const struct culm_stage_info *info = culm_stage_info(stretch->stage);
    stretch->param = calloc((size_t)info->param_count + 1, sizeof *stretch->param);
    stretch->original = calloc((size_t)info->param_count + 1, sizeof *stretch->original);
    if (!stretch->param || !stretch->original) {
        return false;
    }
    for (int32_t p = 0; p < info->param_count; p++) {
        int32_t param = info->params[p].global_index;
        stretch->param[p] = from->value[param];
        stretch->original[p] = from->original ? from->original[param] : NULL;
    }
    return true;
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static enum culm_status take_memory(struct joint_part *part, const struct culm_joint_part *from,
                                    const struct culm_joint_config *config,
                                    struct culm_device *device, struct joint_room *room,
                                    struct culm_error *error) {
    const bool features = config->aim != CULM_JOINT_ANSWERS;
    const bool own = config->aim == CULM_JOINT_FEATURES && !config->local;
    size_t work = 0;
    bool made = true;
    for (int32_t s = 0; s < part->stretches && made; s++) {
        struct joint_stretch *stretch = &part->stretch[s];
        const struct culm_stage_info *info = culm_stage_info(stretch->stage);
        room->activation_bytes = larger(room->activation_bytes, info->activation_bytes);
        room->scratch_bytes = larger(room->scratch_bytes, info->scratch_bytes);
        room->grad_bytes = larger(room->grad_bytes, (size_t)info->grad_floats * sizeof(float));
        work = larger(work, info->output_bytes);
        made = find_addresses(stretch, from) &&
               (stretch->border = take(part, device, info->output_bytes)) &&
               (stretch->d_border = take(part, device, info->output_bytes)) &&
               (!features || (stretch->original_border = take(part, device, info->output_bytes))) &&
               (!own || (stretch->activations = take(part, device, info->activation_bytes)));
    }
    work = larger(work, (size_t)culm_loss_work((int64_t)(work / sizeof(float))) * sizeof(float));
    room->work_bytes = larger(room->work_bytes, work);
    part->room = room;
    made = made &&
           (part->image =
                take(part, device, (size_t)culm_elements(&part->graph->field[0].shape) * 4)) &&
           (part->wanted = calloc((size_t)part->batch, sizeof *part->wanted));
    return made ? CULM_OK : no_memory(error);
}

/* Room for what the original says of every sample, if that is not too much. */
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
    const bool features = config->aim != CULM_JOINT_ANSWERS;
    *part = (struct joint_part){.model = from->model,
                                .samples = from->samples,
                                .batch = from->each > 0 ? from->each : config->batch,
                                .weight = 1};
    enum culm_status status = culm_vision_model_graph(
        from->model, part->batch, features ? CULM_VISION_INFER : CULM_VISION_LEARN, &part->graph,
        error);
    if (status == CULM_OK && (part->graph->field_count != 1 || culm_graph_has_loss(part->graph))) {
        status = culm_error_set(error, CULM_ERR_UNSUPPORTED, "'%s': it is no model of pictures",
                                from->model->name);
    }
    if (status != CULM_OK ||
        (status = compile(part, config->aim == CULM_JOINT_FEATURES ? config->stretches : 1,
                          from->frozen, error)) ||
        (status = from->each > 0 ? CULM_OK : shapes_of_fewer(part, error))) {
        return status;
    }
    status = take_memory(part, from, config, device, room, error);
    return status == CULM_OK && config->aim == CULM_JOINT_OUTPUTS ? keep_answers(part, from, error)
                                                                  : status;
}

void joint_part_release(struct joint_part *part, struct culm_device *device) {
    for (int32_t s = 0; s < part->stretches; s++) {
        struct joint_stretch *stretch = &part->stretch[s];
        for (int64_t n = 1; stretch->rows && n < part->batch; n++) {
            culm_stage_rows_free(stretch->rows[n]);
        }
        free(stretch->rows);
        free(stretch->param);
        free(stretch->original);
        device->ops->release(device, stretch->activations);
        device->ops->release(device, stretch->border);
        device->ops->release(device, stretch->original_border);
        device->ops->release(device, stretch->d_border);
        culm_stage_free(stretch->stage);
    }
    free(part->stretch);
    free(part->wanted);
    device->ops->release(device, part->image);
    culm_graph_free(part->graph);
    *part = (struct joint_part){0};
}

/* --- running --- */

struct running {
    struct joint_part *part;
    const struct culm_joint_config *config;
    struct culm_device *device;
    const void *fields[1];
    const int64_t *sample; /* [count] */
    int64_t count;
    joint_gradient_fn *gradient;
    void *ctx;
    double loss; /* of all samples, without the part's weight */
};

static struct culm_stage_run run_of(const struct running *r, int32_t s, bool original) {
    const struct joint_part *part = r->part;
    const struct joint_stretch *stretch = &part->stretch[s],
                               *before = s > 0 ? &part->stretch[s - 1] : NULL;
    return (struct culm_stage_run){
        .param = original ? stretch->original : stretch->param,
        .rows = r->count < part->batch ? stretch->rows[r->count] : NULL,
        .fields = r->fields,
        .input = !before    ? NULL
                 : original ? before->original_border
                            : before->border,
        .output = original ? stretch->original_border : stretch->border,
        .loss_scale = 1,
        .activations =
            stretch->activations && !original ? stretch->activations : part->room->activations,
        .scratch = part->room->scratch,
        .grads = part->room->grads,
        .first = true,
        .d_output = stretch->d_border,
        .d_input = before ? before->d_border : NULL,
    };
}

static void forward(const struct running *r, int32_t s, bool original) {
    struct culm_stage_run run = run_of(r, s, original);
    (void)culm_stage_forward(r->part->stretch[s].stage, r->device,
                             &run); /* no stop flag: it ends */
}

static void backward(const struct running *r, int32_t s) {
    struct culm_stage *stage = r->part->stretch[s].stage;
    const struct culm_stage_info *info = culm_stage_info(stage);
    struct culm_stage_run run = run_of(r, s, false);
    (void)culm_stage_backward(stage, r->device, &run);
    for (int32_t g = 0; g < info->grad_count; g++) {
        r->gradient(r->ctx, info->params[info->grads[g].param].global_index,
                    r->part->room->grads + info->grads[g].offset);
    }
}

/* --- losses --- */

/* What is wanted of one output; its gradient is stored. */
static void output_loss(struct running *r, int32_t output) {
    struct joint_part *part = r->part;
    const struct joint_stretch *last = &part->stretch[part->stretches - 1];
    const struct culm_vision_model *model = part->model;
    const struct culm_shape *shape = &part->graph->value[part->graph->output[output].value].shape;
    const int64_t each = culm_elements(shape) / part->batch;
    const size_t begin = culm_stage_output_offset(last->stage, output);
    const float *y = (const float *)((const char *)last->border + begin);
    float *dy = (float *)((char *)last->d_border + begin);
    const double scale = part->weight / (double)r->count;
    for (int64_t i = 0; i < r->count; i++, y += each, dy += each) {
        const struct culm_wanted *wanted = &part->wanted[i];
        if (model->kind == CULM_ANSWER_CLASSES && output == 0) {
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

/* The distance of what crosses a border from what it was in the original; its gradient is added. */
static void border_loss(struct running *r, int32_t s, const struct culm_stage_crossing *at) {
    struct joint_part *part = r->part;
    struct joint_stretch *stretch = &part->stretch[s];
    const int64_t count = (int64_t)(at->size_bytes / sizeof(float)) / part->batch * r->count;
    const float *want = (const float *)((char *)stretch->original_border + at->offset_bytes);
    const float *got = (const float *)((char *)stretch->border + at->offset_bytes);
    float *gradient = (float *)((char *)stretch->d_border + at->offset_bytes);
    double size = culm_device_sum_squares(r->device, want, count);
    if (!(size / (double)count > FLAT)) {
        return;
    }
    const struct culm_shape shape = {1, {count}};
    CULM_RUN(r->device, binary, .y = culm_out_f32(part->room->work), .a = culm_in_f32(got),
             .b = culm_in_f32(want), .a_shape = &shape, .b_shape = &shape,
             .function = CULM_FUNCTION_SUB);
    r->loss +=
        (double)r->count * culm_device_sum_squares(r->device, part->room->work, count) / size;
    CULM_RUN(r->device, affine, .y = culm_out_f32(part->room->work),
             .x = culm_in_f32(part->room->work), .count = count, .scale = 2 * part->weight / size);
    CULM_RUN(r->device, accumulate, .sum = gradient, .x = culm_in_f32(part->room->work),
             .count = count);
}

static void border_losses(struct running *r, int32_t s) {
    const struct culm_stage *stage = r->part->stretch[s].stage;
    for (int32_t i = 0; i < culm_stage_info(stage)->output_count; i++) {
        const struct culm_stage_crossing at = culm_stage_crossing_at(stage, i);
        if (at.learned && !at.passes) {
            border_loss(r, s, &at);
        }
    }
}

static void toward_answers(struct running *r) {
    struct joint_stretch *all = &r->part->stretch[0];
    forward(r, 0, false);
    memset(all->d_border, 0, culm_stage_info(all->stage)->output_bytes);
    for (int32_t o = 0; o < r->part->graph->output_count; o++) {
        output_loss(r, o);
    }
    backward(r, 0);
}

/* Where output `o` of a sample is, among those of `border`. */
static float *output_at(const struct joint_part *part, void *border, int32_t o, int64_t i,
                        int64_t each) {
    return (float *)((char *)border + culm_stage_output_offset(part->stretch[0].stage, o)) +
           i * each;
}

static int64_t output_size(const struct joint_part *part, int32_t o) {
    return culm_elements(&part->graph->value[part->graph->output[o].value].shape) / part->batch;
}

/* What the original says of this batch, into its border: what is known already is only copied. */
static void ask_original(const struct running *r) {
    struct joint_part *part = r->part;
    struct culm_joint_answers *answers = part->answers;
    bool known = answers != NULL;
    for (int64_t i = 0; i < r->count && known; i++) {
        known = answers->known[r->sample[i]];
    }
    if (!known) {
        forward(r, 0, true);
    }
    for (int64_t i = 0; i < r->count && answers; i++) {
        float *kept = answers->value + r->sample[i] * part->answer;
        for (int32_t o = 0; o < part->graph->output_count; o++) {
            const int64_t each = output_size(part, o);
            float *said = output_at(part, part->stretch[0].original_border, o, i, each);
            memcpy(known ? said : kept, known ? kept : said, (size_t)each * sizeof *said);
            kept += each;
        }
        answers->known[r->sample[i]] = true;
    }
}

static void toward_outputs(struct running *r) {
    struct joint_part *part = r->part;
    struct joint_stretch *all = &part->stretch[0];
    const double scale = part->weight / (double)r->count;
    ask_original(r);
    forward(r, 0, false);
    memset(all->d_border, 0, culm_stage_info(all->stage)->output_bytes);
    for (int32_t o = 0; o < part->graph->output_count; o++) {
        const int64_t each = output_size(part, o);
        for (int64_t i = 0; i < r->count; i++) {
            r->loss += culm_loss_original(
                part->model, o, each, output_at(part, all->original_border, o, i, each),
                output_at(part, all->border, o, i, each), scale, part->room->work,
                output_at(part, all->d_border, o, i, each));
        }
    }
    backward(r, 0);
}

static void toward_features(struct running *r) {
    const struct joint_part *part = r->part;
    const bool local = r->config->local;
    for (int32_t s = 0; s < part->stretches; s++) {
        forward(r, s, true);
    }
    for (int32_t s = 0; s < part->stretches; s++) {
        forward(r, s, false);
        memset(part->stretch[s].d_border, 0, culm_stage_info(part->stretch[s].stage)->output_bytes);
        if (local) {
            border_losses(r, s);
            backward(r, s);
        }
    }
    for (int32_t s = part->stretches - 1; s >= 0 && !local; s--) {
        border_losses(r, s);
        backward(r, s);
    }
}

enum culm_status joint_part_run(struct joint_part *part, const struct culm_joint_config *config,
                                struct culm_device *device, const int64_t *sample, int64_t count,
                                joint_gradient_fn *gradient, void *ctx, double *ret_loss,
                                struct culm_error *error) {
    struct running r = {.part = part,
                        .config = config,
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
    if (config->aim == CULM_JOINT_FEATURES) {
        toward_features(&r);
    } else if (config->aim == CULM_JOINT_OUTPUTS) {
        toward_outputs(&r);
    } else {
        toward_answers(&r);
    }
    *ret_loss = part->weight * r.loss / (double)count;
    return CULM_OK;
}
