/* What the convolution files share. */
#ifndef CULM_DEVICE_CPU_CONV_H
#define CULM_DEVICE_CPU_CONV_H

#include "device/cpu/internal.h"
#include "device/cpu/simd.h"

/* One channel a group, as many outputs: no matrix product. */
static inline bool conv_is_depthwise(const struct culm_conv *v) {
    return v->groups > 1 && v->groups == v->c && v->groups == v->o;
}
void ISA_NAME(conv_depthwise_forward)(struct culm_cpu *cpu, const struct culm_conv *conv,
                                      struct culm_out y, struct culm_in x, const float *w,
                                      const float *b);
void ISA_NAME(conv_depthwise_backward_data)(struct culm_cpu *cpu, const struct culm_conv *conv,
                                            struct culm_out dx, struct culm_in dy, const float *w);
void ISA_NAME(conv_depthwise_backward_weight)(struct culm_cpu *cpu, const struct culm_conv *conv,
                                              float *dw, struct culm_in x, struct culm_in dy,
                                              bool first);

/* F(4x4, 3x3). */
void ISA_NAME(winograd_forward)(struct culm_cpu *cpu, const struct culm_conv *conv,
                                struct culm_out y, struct culm_in x, const float *w,
                                const float *b);
void ISA_NAME(winograd_backward_data)(struct culm_cpu *cpu, const struct culm_conv *conv,
                                      struct culm_out dx, struct culm_in dy, const float *w);
void ISA_NAME(winograd_backward_weight)(struct culm_cpu *cpu, const struct culm_conv *conv,
                                        float *dw, struct culm_in x, struct culm_in dy, bool first);

/* The array from element `at` on. */
static inline struct culm_in in_from(struct culm_in x, int64_t at) {
    size_t bytes = x.dtype == CULM_BF16 ? 2 : 4;
    return (struct culm_in){(const char *)x.data + (size_t)at * bytes, x.dtype};
}
static inline struct culm_out out_from(struct culm_out y, int64_t at) {
    size_t bytes = y.dtype == CULM_BF16 ? 2 : 4;
    return (struct culm_out){(char *)y.data + (size_t)at * bytes, y.dtype};
}

#endif
