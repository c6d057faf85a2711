/* Convolutions, for the table in ops.h. */
#ifndef CULM_DEVICE_CPU_OPS_CONV_H
#define CULM_DEVICE_CPU_OPS_CONV_H

#include "device/cpu/kernels_conv.h"

/* clang-format off */
#define CULM_CPU_CONV_OPS(X)                                                                       \
    X(conv_forward, (struct culm_cpu *cpu, const struct culm_conv *conv,                           \
                     enum culm_conv_algorithm algorithm, struct culm_out y, struct culm_in x,      \
                     const float *w, const float *b),                                              \
      (cpu, conv, algorithm, y, x, w, b))                                                          \
    X(conv_backward_data, (struct culm_cpu *cpu, const struct culm_conv *conv,                     \
                           enum culm_conv_algorithm algorithm, struct culm_out dx,                 \
                           struct culm_in dy, const float *w),                                     \
      (cpu, conv, algorithm, dx, dy, w))                                                           \
    X(conv_backward_weight, (struct culm_cpu *cpu, const struct culm_conv *conv,                   \
                             enum culm_conv_algorithm algorithm, float *dw, float *db,             \
                             struct culm_in x, struct culm_in dy, bool first),                     \
      (cpu, conv, algorithm, dw, db, x, dy, first))
/* clang-format on */

#endif
