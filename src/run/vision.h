/*
 * A model of pictures as an object, shared by what looks at pictures of programs (vision.c) and at files
 * (predict.c). Thread: the object's, one at a time.
 */
#ifndef CULM_RUN_VISION_H
#define CULM_RUN_VISION_H

#include "query/prediction.h"
#include "vision/picture.h"
#include "vision/runner.h"

#include <culm/vision.h>

struct culm_vision {
    struct culm_vision_model *model;
    struct culm_device *device;
    struct culm_vision_runner runner;
    struct culm_answer answer; /* to the last frame */
    struct culm_prediction_room room;
    struct culm_prediction prediction; /* of the last picture of the program */
    float score;
    int32_t top;
    int64_t pictures; /* of the program */
    int64_t parameters;
};

/* Looks at a frame; the answer is in the object. `name` and `number` are for the error. CULM_ERR_CONFIG:
 * numbers that say nothing are no answer. */
enum culm_status vision_look(struct culm_vision *vision, const struct culm_frame *frame,
                             const char *name, int64_t number, struct culm_error *error);

#endif
