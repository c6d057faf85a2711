/* Models of pictures that a program has open: culm_vision_* of culm/vision.h, but for files (predict.c). */
#include "run/vision.h"

#include "model/model.h"
#include "query/open.h"
#include "query/picture.h"
#include "run/public.h"

#include <math.h>
#include <stdlib.h>

#define SCORE 0.25
#define TOP 5
#define TOP_MAX 65536

/* --- opening --- */

static enum culm_status open_vision(struct culm_vision *vision, const char *what,
                                    const struct culm_vision_options *o, struct culm_error *error) {
    struct culm_query_normalize normalize;
    struct culm_query_reading reading;
    const struct culm_query_open_options how = {
        .weights = o->weights,
        .names = o->names,
        .normalize = o->normalize ? &normalize : NULL,
        .reading = o->decode || o->input_size || o->fit || o->colors ? &reading : NULL};
    enum culm_status status =
        culm_query_reading_from(o->decode, o->fit, o->colors, o->input_size, &reading, error);
    vision->score = o->score < 0 ? 0 : o->score > 0 ? (float)o->score : (float)SCORE;
    vision->top = o->top ? (int32_t)o->top : TOP;
    if (status == CULM_OK && o->normalize) {
        status = culm_query_normalize_parse(o->normalize, &normalize, error);
    }
    if (status != CULM_OK) {
        goto out;
    }
    status = culm_query_open(what, &how, &vision->model, error);
    if (status != CULM_OK) {
        goto out;
    }
    status = culm_device_new(o->threads ? (int)o->threads : 1, &vision->device, error);
    if (status != CULM_OK) {
        goto out;
    }
    status = culm_vision_runner_init(&vision->runner, vision->model, 1, vision->score,
                                     vision->device, error);
    if (status != CULM_OK) {
        goto out;
    }
    vision->parameters = culm_model_parameters(vision->runner.graph);
out:
    return status; /* what there is is freed with the object */
}

static enum culm_status check(const struct culm_vision_options *o, struct culm_error *error) {
    enum culm_status status = culm_public_check(o->top, TOP_MAX, "culm_vision_options: top", error);
    if (status == CULM_OK) {
        status = culm_public_check(o->threads, CULM_PUBLIC_THREADS_MAX,
                                   "culm_vision_options: threads", error);
    }
    if (status == CULM_OK && (isnan(o->score) || o->score > 1)) {
        status = culm_error_set(error, CULM_ERR_ARGUMENT,
                                "culm_vision_options: score: %g is above 1", o->score);
    }
    return status;
}

enum culm_status culm_vision_open(const char *what, const struct culm_vision_options *options,
                                  struct culm_vision **ret_vision, struct culm_error *error) {
    struct culm_vision_options own = {.size = sizeof own};
    if (!what || !ret_vision) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_vision_open: an argument is NULL");
    }
    enum culm_status status =
        options ? culm_public_take(&own, sizeof own, options, "culm_vision_options", error)
                : CULM_OK;
    if (status == CULM_OK) {
        status = check(&own, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    struct culm_vision *vision = calloc(1, sizeof *vision);
    if (!vision) {
        return culm_error_set(error, CULM_ERR_MEMORY, "'%s': out of memory", what);
    }
    status = open_vision(vision, what, &own, error);
    if (status != CULM_OK) {
        culm_vision_free(vision);
        return culm_public_return(status, error);
    }
    *ret_vision = vision;
    return CULM_OK;
}

void culm_vision_free(struct culm_vision *vision) {
    if (vision) {
        culm_vision_runner_release(&vision->runner);
        culm_device_free(vision->device);
        culm_vision_model_free(vision->model);
        culm_answer_release(&vision->answer);
        culm_prediction_room_release(&vision->room);
        free(vision);
    }
}

enum culm_status culm_vision_describe(const struct culm_vision *vision,
                                      struct culm_vision_info *ret_info, struct culm_error *error) {
    if (!vision) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_vision_describe: NULL");
    }
    const struct culm_vision_model *model = vision->model;
    const struct culm_vision_info info = {
        .name = model->name,
        .answers = culm_answer_names[model->kind],
        .classes = model->classes,
        .width = model->input.width,
        .height = model->input.height,
        .channels = model->input.channels,
        .parameters = vision->parameters,
        .memory_bytes = vision->runner.memory_bytes,
        .note = model->note,
    };
    return culm_public_fill(ret_info, &info, sizeof info, "culm_vision_info", error);
}

const char *culm_vision_class_of(const struct culm_vision *vision, int64_t index) {
    const struct culm_vision_model *model = vision ? vision->model : NULL;
    return model && model->class_name && index >= 0 && index < model->classes
               ? model->class_name[index]
               : NULL;
}

/* --- looking --- */

enum culm_status vision_look(struct culm_vision *vision, const struct culm_frame *frame,
                             const char *name, int64_t number, struct culm_error *error) {
    culm_vision_fill(&vision->model->input, frame, vision->runner.image);
    culm_vision_runner_run(&vision->runner);
    enum culm_status status =
        culm_vision_runner_answer(&vision->runner, vision->model, 0, frame->width, frame->height,
                                  vision->score, &vision->answer, error);
    return status == CULM_OK && vision->answer.other
               ? culm_error_set(error, CULM_ERR_CONFIG,
                                "'%.200s' frame %lld: the model's answer is not finite (%s); its "
                                "weights or --normalize make numbers that are too large",
                                name, (long long)number, vision->answer.other)
               : status;
}

enum culm_status culm_vision_predict(struct culm_vision *vision, const struct culm_picture *picture,
                                     const struct culm_prediction **ret_prediction,
                                     struct culm_error *error) {
    struct culm_picture own;
    struct culm_frame frame;
    if (!vision || !ret_prediction) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_vision_predict: an argument is NULL");
    }
    enum culm_status status = culm_public_take(&own, sizeof own, picture, "culm_picture", error);
    if (status == CULM_OK) {
        status = culm_picture_frame_of(&own, &frame, error);
    }
    if (status == CULM_OK) {
        status = vision_look(vision, &frame, "picture", vision->pictures, error);
    }
    if (status == CULM_OK) {
        status = culm_prediction_of(vision->model, &vision->answer, vision->top, NULL,
                                    vision->pictures, &vision->room, &vision->prediction, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    vision->pictures++;
    *ret_prediction = &vision->prediction;
    return CULM_OK;
}
