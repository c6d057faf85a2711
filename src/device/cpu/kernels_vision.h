/*
 * Kernels of images, and the general ones that models are spelled out in. Part of kernels.h, whose
 * rules hold. Typed arrays may be f32 or bf16, each by itself; one type for all is the fast case.
 */
#ifndef CULM_DEVICE_CPU_KERNELS_VISION_H
#define CULM_DEVICE_CPU_KERNELS_VISION_H

#include "device/cpu/kernels.h"
#include "tensor/hyper_vision.h"

/* y = function(x), of one operand; y may be x. alpha: the slope of LEAKY_RELU below zero. */
void culm_cpu_activation_forward(struct culm_cpu *cpu, struct culm_out y, struct culm_in x,
                                 int64_t count, enum culm_function function, double alpha);
/* dx (may be dy) from dy and `kept`: y where culm_function_keeps_output, else x. */
void culm_cpu_activation_backward(struct culm_cpu *cpu, struct culm_out dx, struct culm_in dy,
                                  struct culm_in kept, int64_t count, enum culm_function function,
                                  double alpha);
/* y = scale x + shift; y may be x. Its gradient is dy scaled. */
void culm_cpu_affine(struct culm_cpu *cpu, struct culm_out y, struct culm_in x, int64_t count,
                     double scale, double shift);

/* sum += x */
void culm_cpu_accumulate(struct culm_cpu *cpu, float *sum, struct culm_in x, int64_t count);

/* Batch norm (tensor/hyper_vision.h) of x[N,C]; residual[N,C] may be absent (data NULL). Writes
 * mean[C] and variance[C] (divided by N), or reads them with `inference`. y may be the residual. */
void culm_cpu_batchnorm_forward(struct culm_cpu *cpu, struct culm_out y, float *mean,
                                float *variance, struct culm_in x, const float *gamma,
                                const float *beta, struct culm_in residual,
                                const struct culm_batchnorm *how);
/* dx[N,C] (=; data NULL: not wanted), dresidual[N,C] (=; likewise), and = or += dgamma[C],
 * dbeta[C], the mean into sum_mean[C] and the unbiased variance, of N - 1, into sum_variance[C]
 * (with `inference` the given ones), each of which may be NULL. y is given (data not NULL) if there
 * was a residual and a function. */
void culm_cpu_batchnorm_backward(struct culm_cpu *cpu, struct culm_out dx,
                                 struct culm_out dresidual, float *dgamma, float *dbeta,
                                 float *sum_mean, float *sum_variance, struct culm_in dy,
                                 struct culm_in x, struct culm_in y, const float *gamma,
                                 const float *beta, const float *mean, const float *variance,
                                 const struct culm_batchnorm *how, bool first);

/* y[N,h,w,C] = the largest of each window of x[N,H,W,C], and index (data NULL: not wanted) the
 * place of its first occurrence. Not NaN unless the first tap is. */
void culm_cpu_maxpool_forward(struct culm_cpu *cpu, struct culm_out y, struct culm_out index,
                              struct culm_in x, const struct culm_window *window);
/* dx[N,H,W,C] (=): each element's windows in order. */
void culm_cpu_maxpool_backward(struct culm_cpu *cpu, struct culm_out dx, struct culm_in dy,
                               struct culm_in index, const struct culm_window *window);
/* y = the mean of each window, and its gradient. */
void culm_cpu_avgpool_forward(struct culm_cpu *cpu, struct culm_out y, struct culm_in x,
                              const struct culm_window *window);
void culm_cpu_avgpool_backward(struct culm_cpu *cpu, struct culm_out dx, struct culm_in dy,
                               const struct culm_window *window);

/* y = x with its dimensions in another order: dimension i of y is order[i] of x. i32 arrays count
 * as f32 here and in what follows: elements are moved. */
void culm_cpu_permute(struct culm_cpu *cpu, struct culm_out y, struct culm_in x,
                      const struct culm_shape *x_shape, const int64_t *order);
/* y = x[n,h,w,c] with pad[4] (top, left, bottom, right) pixels of `value` around. */
void culm_cpu_pad(struct culm_cpu *cpu, struct culm_out y, struct culm_in x, int64_t n, int64_t h,
                  int64_t w, int64_t c, const int64_t *pad, double value);
/* The reverse: y[n,h,w,c] = x without its border. */
void culm_cpu_crop(struct culm_cpu *cpu, struct culm_out y, struct culm_in x, int64_t n, int64_t h,
                   int64_t w, int64_t c, const int64_t *pad);
/* Row i of x[rows,row] becomes, or is added to, elements [offset, offset + row) of row i of
 * y[rows,pitch]. */
void culm_cpu_place(struct culm_cpu *cpu, struct culm_out y, struct culm_in x, int64_t rows,
                    int64_t row, int64_t pitch, int64_t offset, bool add);
/* y[N,h,w,C] = x[N,H,W,C] at another size, as torch's interpolate; and its gradient dx (=). */
void culm_cpu_resize_forward(struct culm_cpu *cpu, struct culm_out y, struct culm_in x,
                             const struct culm_resize *how);
void culm_cpu_resize_backward(struct culm_cpu *cpu, struct culm_out dx, struct culm_in dy,
                              const struct culm_resize *how);

/* y = a + - * / b, elements of a_shape; b is spread over a: its dimensions, aligned to the right,
 * are those of a or 1. y may be a. */
void culm_cpu_binary(struct culm_cpu *cpu, struct culm_out y, struct culm_in a, struct culm_in b,
                     const struct culm_shape *a_shape, const struct culm_shape *b_shape,
                     enum culm_function function);
/* y = scale b, spread over y likewise. */
void culm_cpu_spread(struct culm_cpu *cpu, struct culm_out y, struct culm_in b,
                     const struct culm_shape *y_shape, const struct culm_shape *b_shape,
                     double scale);
/* y = scale times the sum over the dimensions in axes (bit i: dimension i) of x factor, or their
 * largest (function SUM or MAX; scale 1 with MAX). factor, of x's shape, may be absent (data NULL).
 */
void culm_cpu_reduce(struct culm_cpu *cpu, struct culm_out y, struct culm_in x,
                     struct culm_in factor, const struct culm_shape *x_shape, int64_t axes,
                     enum culm_function function, double scale);
/* dx = dy where x is the largest, in equal shares where several are. */
void culm_cpu_reduce_max_backward(struct culm_cpu *cpu, struct culm_out dx, struct culm_in dy,
                                  struct culm_in x, struct culm_in y,
                                  const struct culm_shape *x_shape, int64_t axes);
#define CULM_CPU_MAX_SOFTMAX (1l << 19) /* elements of a row */
/* y[N,C] = softmax of each row of x; and dx (may be dy). */
void culm_cpu_softmax_forward(struct culm_cpu *cpu, struct culm_out y, struct culm_in x, int64_t n,
                              int64_t c);
void culm_cpu_softmax_backward(struct culm_cpu *cpu, struct culm_out dx, struct culm_in dy,
                               struct culm_in y, int64_t n, int64_t c);
/* Batches of products (tensor/hyper_vision.h). Where an array is bf16, operands are rounded to
 * bf16. */
void culm_cpu_matmul(struct culm_cpu *cpu, struct culm_out c, struct culm_in a, struct culm_in b,
                     const struct culm_matmul *how);

/* One step of SGD (tensor/hyper.h) on flat vectors; buffer may be NULL without momentum. */
void culm_cpu_sgd(struct culm_cpu *cpu, float *p, float *buffer, const float *g, int64_t count,
                  const struct culm_sgd *hyper);

#endif
