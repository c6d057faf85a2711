/*
 * Convolution kernels: a part of kernels.h, whose rules hold. Geometry and layouts: tensor/conv.h.
 * x[N,H,W,C] and y[N,OH,OW,O] and their gradients are f32 or bf16, weights, biases and their
 * gradients f32. `algorithm` must be possible for the geometry (culm_conv_algorithm_possible) and
 * is part of what makes the bits.
 *
 * Taps, kh kw, are at most CULM_CPU_CONV_TAPS, culm_conv_scattered_terms at most
 * CULM_CPU_CONV_TERMS.
 */
#ifndef CULM_DEVICE_CPU_KERNELS_CONV_H
#define CULM_DEVICE_CPU_KERNELS_CONV_H

#include "device/cpu/kernels.h"
#include "tensor/conv.h"

#define CULM_CPU_CONV_TERMS 65536
#define CULM_CPU_CONV_TAPS 1024

void culm_cpu_conv_forward(struct culm_cpu *cpu, const struct culm_conv *conv,
                           enum culm_conv_algorithm algorithm, struct culm_out y, struct culm_in x,
                           const float *w, const float *b_or_null);
/* dx (=) */
void culm_cpu_conv_backward_data(struct culm_cpu *cpu, const struct culm_conv *conv,
                                 enum culm_conv_algorithm algorithm, struct culm_out dx,
                                 struct culm_in dy, const float *w);
/* dw, db (= or +=) */
void culm_cpu_conv_backward_weight(struct culm_cpu *cpu, const struct culm_conv *conv,
                                   enum culm_conv_algorithm algorithm, float *dw, float *db_or_null,
                                   struct culm_in x, struct culm_in dy, bool first);

#endif
