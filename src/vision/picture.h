/*
 * Pictures: the pixels of a frame, turning them into a network's input, and drawing answers.
 *
 * Resizing is bilinear without antialiasing, with pixel centres at half, rounded to 8 bits before
 * conversion to numbers, since that is what networks like these were trained on. It uses integers
 * with 11-bit weights only, so the bytes are the same everywhere.
 *
 * Thread: any.
 */
#ifndef CULM_VISION_PICTURE_H
#define CULM_VISION_PICTURE_H

#include "vision/boxes.h"

/* Borrowed pixels: rows of width * channels bytes, `stride` bytes apart. */
struct culm_frame {
    const uint8_t *data;
    size_t stride;
    int32_t width, height, channels; /* channels: 1 (grey) or 3 (RGB) */
};
#define CULM_FRAME_SIDE_MAX 65500

/* The whole frame at its place in the input: ret_data[height,width,channels], as the network reads
 * it. Grey becomes colour by repetition; colour becomes grey as (19595 R + 38470 G + 7471 B +
 * 32768) >> 16. */
void culm_vision_fill(const struct culm_vision_input *input, const struct culm_frame *frame,
                      float *ret_data);
/* The same as bytes, ret_data[height,width,channels], in the order of the frame: culm_vision_fill
 * gives the same from these, as a frame of the input's size, as from the frame. */
void culm_vision_stretch(const struct culm_vision_input *input, const struct culm_frame *frame,
                         uint8_t *ret_data);

/* Draws the outlines of boxes into the caller's RGB picture, in a colour for each class; if `model`
 * is not NULL, with class and score above. Parts outside of the picture are clipped. */
void culm_vision_draw(uint8_t *data, int32_t width, int32_t height,
                      const struct culm_vision_model *model, const struct culm_box *box,
                      int32_t count);
/* Draws a cross at each point. */
void culm_vision_draw_points(uint8_t *data, int32_t width, int32_t height,
                             const struct culm_point *point, int32_t count);

#endif
