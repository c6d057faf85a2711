/*
 * Pictures: the pixels of one frame, the input of a network made from them, and boxes drawn into them.
 *
 * Stretching is bilinear without antialiasing, with the centres of pixels at half, to 8 bits, and only
 * then to numbers: what networks like these were given when they learned. All of it is in whole
 * numbers, with weights of 11 bits, so the bytes are the same everywhere. Thread: any.
 */
#ifndef CULM_VISION_PICTURE_H
#define CULM_VISION_PICTURE_H

#include "vision/boxes.h"

/* Borrowed pixels: rows of `width` times `channels` bytes, `stride` bytes apart. */
struct culm_frame {
    const uint8_t *data;
    size_t stride;
    int32_t width, height, channels; /* channels: 1 (grey) or 3 (RGB) */
};
#define CULM_FRAME_SIDE_MAX 65500

/* The whole frame at the input's size: ret_data[height,width,channels] as a network reads it. Grey
 * becomes colour by repetition, colour grey as (19595 R + 38470 G + 7471 B + 32768) >> 16. */
void culm_vision_fill(const struct culm_vision_input *input, const struct culm_frame *frame,
                      float *ret_data);
/* The same in bytes: ret_data[height,width,channels]. To fill from these is to fill from the frame. */
void culm_vision_stretch(const struct culm_frame *frame, int32_t width, int32_t height,
                         int32_t channels, uint8_t *ret_data);

/* The outlines of boxes in an RGB picture that is the caller's, a colour for each class, with the class
 * and the score above them if `model` is not NULL. What lies outside is left out. */
void culm_vision_draw(uint8_t *data, int32_t width, int32_t height,
                      const struct culm_vision_model *model, const struct culm_box *box,
                      int32_t count);
/* A cross at each point. */
void culm_vision_draw_points(uint8_t *data, int32_t width, int32_t height,
                             const struct culm_point *point, int32_t count);

#endif
