/* The kernels of kernels_vision.h, for the table in ops.h. */
#ifndef CULM_DEVICE_CPU_OPS_VISION_H
#define CULM_DEVICE_CPU_OPS_VISION_H

/* clang-format off */
#define CULM_CPU_VISION_OPS(X)                                                                     \
    X(activation_forward, (struct culm_cpu *cpu, struct culm_out y, struct culm_in x,              \
                           int64_t count, enum culm_function function, double alpha),              \
      (cpu, y, x, count, function, alpha))                                                         \
    X(activation_backward, (struct culm_cpu *cpu, struct culm_out dx, struct culm_in dy,           \
                            struct culm_in kept, int64_t count, enum culm_function function,       \
                            double alpha),                                                         \
      (cpu, dx, dy, kept, count, function, alpha))                                                 \
    X(affine, (struct culm_cpu *cpu, struct culm_out y, struct culm_in x, int64_t count,           \
               double scale, double shift),                                                        \
      (cpu, y, x, count, scale, shift))                                                            \
    X(accumulate, (struct culm_cpu *cpu, float *sum, struct culm_in x, int64_t count),             \
      (cpu, sum, x, count))                                                                        \
    X(sgd, (struct culm_cpu *cpu, float *p, float *buffer, const float *g, int64_t count,          \
            const struct culm_sgd *hyper),                                                         \
      (cpu, p, buffer, g, count, hyper))
/* clang-format on */

#endif
