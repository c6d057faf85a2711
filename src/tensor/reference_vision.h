/*
 * Reference kernels of images and of the general operators: see reference.h for what they are.
 * Everything is float32; shapes and meaning are those of device/kernels.h. Thread: any.
 */
#ifndef CULM_TENSOR_REFERENCE_VISION_H
#define CULM_TENSOR_REFERENCE_VISION_H

#include "tensor/hyper_vision.h"
#include "tensor/tensor.h"

void culm_ref_activation_forward(float *y, const float *x, int64_t count,
                                 enum culm_function function, double alpha);
void culm_ref_activation_backward(float *dx, const float *dy, const float *kept, int64_t count,
                                  enum culm_function function, double alpha);
void culm_ref_affine(float *y, const float *x, int64_t count, double scale, double shift);
void culm_ref_sgd(float *p, float *buffer, const float *g, int64_t count,
                  const struct culm_sgd *hyper);

void culm_ref_batchnorm_forward(float *y, float *mean, float *variance, const float *x,
                                const float *gamma, const float *beta, const float *residual,
                                const struct culm_batchnorm *how);
/* y NULL: there was no residual. */
void culm_ref_batchnorm_backward(float *dx, float *dresidual, float *dgamma, float *dbeta,
                                 float *sum_mean, float *sum_variance, const float *dy,
                                 const float *x, const float *y, const float *gamma,
                                 const float *beta, const float *mean, const float *variance,
                                 const struct culm_batchnorm *how, bool first);

void culm_ref_maxpool_forward(float *y, float *index, const float *x,
                              const struct culm_window *window);
void culm_ref_maxpool_backward(float *dx, const float *dy, const float *index,
                               const struct culm_window *window);
void culm_ref_avgpool_forward(float *y, const float *x, const struct culm_window *window);
void culm_ref_avgpool_backward(float *dx, const float *dy, const struct culm_window *window);

void culm_ref_permute(float *y, const float *x, const struct culm_shape *x_shape,
                      const int64_t *order);
void culm_ref_pad(float *y, const float *x, int64_t n, int64_t h, int64_t w, int64_t c,
                  const int64_t *pad, double value);
void culm_ref_crop(float *y, const float *x, int64_t n, int64_t h, int64_t w, int64_t c,
                   const int64_t *pad);
void culm_ref_place(float *y, const float *x, int64_t rows, int64_t row, int64_t pitch,
                    int64_t offset, bool add);
void culm_ref_resize_forward(float *y, const float *x, const struct culm_resize *how);
void culm_ref_resize_backward(float *dx, const float *dy, const struct culm_resize *how);

void culm_ref_binary(float *y, const float *a, const float *b, const struct culm_shape *a_shape,
                     const struct culm_shape *b_shape, enum culm_function function);
/* da and db of y = a function b. */
void culm_ref_binary_backward(float *da, float *db, const float *dy, const float *a, const float *b,
                              const struct culm_shape *a_shape, const struct culm_shape *b_shape,
                              enum culm_function function);
/* function MEAN, SUM or MAX; where several elements are largest they share the gradient. */
void culm_ref_reduce(float *y, const float *x, const struct culm_shape *x_shape, int64_t axes,
                     enum culm_function function);
void culm_ref_reduce_backward(float *dx, const float *dy, const float *x, const float *y,
                              const struct culm_shape *x_shape, int64_t axes,
                              enum culm_function function);
void culm_ref_softmax_forward(float *y, const float *x, int64_t n, int64_t c);
void culm_ref_softmax_backward(float *dx, const float *dy, const float *y, int64_t n, int64_t c);
void culm_ref_matmul(float *c, const float *a, const float *b, const struct culm_matmul *how);

#endif
