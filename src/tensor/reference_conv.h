/*
 * Reference kernels of convolution; see reference.h. Arguments are those of the kernels of the same
 * name in device/kernels.h, all f32.
 */
#ifndef CULM_TENSOR_REFERENCE_CONV_H
#define CULM_TENSOR_REFERENCE_CONV_H

#include "tensor/conv.h"

void culm_ref_conv_forward(const struct culm_conv *conv, float *y, const float *x, const float *w,
                           const float *b_or_null);
void culm_ref_conv_backward_data(const struct culm_conv *conv, float *dx, const float *dy,
                                 const float *w);
void culm_ref_conv_backward_weight(const struct culm_conv *conv, float *dw, float *db_or_null,
                                   const float *x, const float *dy, bool first);

#endif
