/*
 * Reference kernels of images and of the general operators: see reference.h for what they are.
 * Everything is float32; shapes and meaning are those of device/cpu/kernels_vision.h. Thread: any.
 */
#ifndef CULM_TENSOR_REFERENCE_VISION_H
#define CULM_TENSOR_REFERENCE_VISION_H

#include "tensor/hyper.h"

void culm_ref_activation_forward(float *y, const float *x, int64_t count,
                                 enum culm_function function, double alpha);
void culm_ref_activation_backward(float *dx, const float *dy, const float *kept, int64_t count,
                                  enum culm_function function, double alpha);
void culm_ref_affine(float *y, const float *x, int64_t count, double scale, double shift);
void culm_ref_sgd(float *p, float *buffer, const float *g, int64_t count,
                  const struct culm_sgd *hyper);

#endif
