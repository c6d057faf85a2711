/*
 * Kernels of images, and the general ones that models are spelled out in. Part of kernels.h, whose
 * rules hold. Typed arrays may be f32 or bf16, each by itself; one type for all is the fast case.
 */
#ifndef CULM_DEVICE_CPU_KERNELS_VISION_H
#define CULM_DEVICE_CPU_KERNELS_VISION_H

#include "device/cpu/kernels.h"

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

/* One step of SGD (tensor/hyper.h) on flat vectors; buffer may be NULL without momentum. */
void culm_cpu_sgd(struct culm_cpu *cpu, float *p, float *buffer, const float *g, int64_t count,
                  const struct culm_sgd *hyper);

#endif
