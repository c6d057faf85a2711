/*
 * Boxes of one frame while they are read, before suppression. Private to src/vision.
 *
 * Thread: one.
 */
#ifndef CULM_VISION_FOUND_H
#define CULM_VISION_FOUND_H

#include "vision/boxes.h"

/* A box, and its position in the order in which they were read. */
struct culm_found_box {
    struct culm_box box;
    int32_t at;
};

struct culm_found {
    /* From fractions of the input to pixels of the frame: x to x * width - left. */
    double width, height, left, top;
    float score;
    float least;        /* logits below this cannot reach the score */
    const bool *counts; /* [classes] whose boxes are taken; NULL: all; set after it was begun */
    struct culm_found_box *item;
    int32_t count, capacity;
};

struct culm_found culm_found_begin(const struct culm_vision_input *input, int32_t frame_width,
                                   int32_t frame_height, float score);
/* x, y: the centre; all four are fractions of the input. One that is not finite or far outside is
 * left out. False: out of memory. */
bool culm_found_add(struct culm_found *found, int32_t class_index, double score, double x, double y,
                    double width, double height);
/* The boxes of a table (vision/model.h) that reach the score. False: out of memory. */
bool culm_found_table(struct culm_found *found, const struct culm_vision_model *model,
                      const float *const *output);

#endif
