/*
 * Convolutions for inference (device/infer.h): which can be done, their weights in another order, and
 * the reference. Thread: any; plain data.
 */
#ifndef CULM_TENSOR_CONV_INFER_H
#define CULM_TENSOR_CONV_INFER_H

#include "tensor/conv.h"

/* Channels of an image that come from a coarser map: each of its pixels stands for a rectangle of the image's,
 * all of one size. c 0: there are none. */
struct culm_coarse {
    const float *x; /* [N,h,w,c] */
    int64_t h, w, c;
};

/* One group, or one channel in and out a group. */
bool culm_conv_infer_possible(const struct culm_conv *conv);
/* [O,I,taps] -> [taps,I,O], and back: the same numbers in another order. */
void culm_conv_turn(const float *w, int64_t outer, int64_t inner, int64_t taps, float *ret_w);
/* The elements [first, first + count) of w alone, which lie at `part`. */
void culm_conv_turn_part(const float *part, int64_t first, int64_t count, int64_t outer,
                         int64_t inner, int64_t taps, float *ret_w);
void culm_conv_turn_back(const float *w, int64_t outer, int64_t inner, int64_t taps, float *ret_w);
/* Whether the convolution can read such channels before those of its image, which is `conv`'s: it is 1x1
 * without groups, steps and padding. */
bool culm_coarse_possible(const struct culm_conv *conv, const struct culm_coarse *coarse);
/* As culm_conv_infer_args, but for the function and the gate; in float64, rounded once. coarse may be NULL. */
void culm_ref_conv_infer(const struct culm_conv *conv, float *y, const float *x,
                         const struct culm_coarse *coarse, const float *w, const float *b,
                         const float *gamma, const float *beta, const float *mean,
                         const float *variance, double eps, const float *residual);

#endif
