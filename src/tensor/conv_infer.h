/*
 * Convolutions for inference (device/infer.h): which can be done, their weights in another order, and
 * the reference. Thread: any; plain data.
 */
#ifndef CULM_TENSOR_CONV_INFER_H
#define CULM_TENSOR_CONV_INFER_H

#include "tensor/conv.h"

/* One group, or one channel in and out a group. */
bool culm_conv_infer_possible(const struct culm_conv *conv);
/* [O,I,taps] -> [taps,I,O], and back: the same numbers in another order. */
void culm_conv_turn(const float *w, int64_t outer, int64_t inner, int64_t taps, float *ret_w);
/* The elements [first, first + count) of w alone, which lie at `part`. */
void culm_conv_turn_part(const float *part, int64_t first, int64_t count, int64_t outer,
                         int64_t inner, int64_t taps, float *ret_w);
void culm_conv_turn_back(const float *w, int64_t outer, int64_t inner, int64_t taps, float *ret_w);
/* As culm_conv_infer_args, but for the function; in float64, rounded once. */
void culm_ref_conv_infer(const struct culm_conv *conv, float *y, const float *x, const float *w,
                         const float *b, const float *gamma, const float *beta, const float *mean,
                         const float *variance, double eps, const float *residual);

#endif
