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
                              struct culm_in x, const struct culm_pool *pool);
/* dx[N,H,W,C] (=): each element's windows in order. */
void culm_cpu_maxpool_backward(struct culm_cpu *cpu, struct culm_out dx, struct culm_in dy,
                               struct culm_in index, const struct culm_pool *pool);
/* y = the mean of each window, and its gradient. */
void culm_cpu_avgpool_forward(struct culm_cpu *cpu, struct culm_out y, struct culm_in x,
                              const struct culm_pool *pool);
void culm_cpu_avgpool_backward(struct culm_cpu *cpu, struct culm_out dx, struct culm_in dy,
                               const struct culm_pool *pool);

/* One step of SGD (tensor/hyper.h) on flat vectors; buffer may be NULL without momentum. */
void culm_cpu_sgd(struct culm_cpu *cpu, float *p, float *buffer, const float *g, int64_t count,
                  const struct culm_sgd *hyper);

#endif
