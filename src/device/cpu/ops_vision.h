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
    X(batchnorm_forward, (struct culm_cpu *cpu, struct culm_out y, float *mean, float *variance,   \
                          struct culm_in x, const float *gamma, const float *beta,                 \
                          struct culm_in residual, const struct culm_batchnorm *how),              \
      (cpu, y, mean, variance, x, gamma, beta, residual, how))                                     \
    X(batchnorm_backward, (struct culm_cpu *cpu, struct culm_out dx, struct culm_out dresidual,    \
                           float *dgamma, float *dbeta, float *sum_mean, float *sum_variance,      \
                           struct culm_in dy, struct culm_in x, struct culm_in y,                  \
                           const float *gamma, const float *beta, const float *mean,               \
                           const float *variance, const struct culm_batchnorm *how, bool first),   \
      (cpu, dx, dresidual, dgamma, dbeta, sum_mean, sum_variance, dy, x, y, gamma, beta, mean,     \
       variance, how, first))                                                                      \
    X(maxpool_forward, (struct culm_cpu *cpu, struct culm_out y, struct culm_out index,            \
                        struct culm_in x, const struct culm_window *window),                           \
      (cpu, y, index, x, window))                                                                    \
    X(maxpool_backward, (struct culm_cpu *cpu, struct culm_out dx, struct culm_in dy,              \
                         struct culm_in index, const struct culm_window *window),                      \
      (cpu, dx, dy, index, window))                                                                  \
    X(avgpool_forward, (struct culm_cpu *cpu, struct culm_out y, struct culm_in x,                 \
                        const struct culm_window *window),                                             \
      (cpu, y, x, window))                                                                           \
    X(avgpool_backward, (struct culm_cpu *cpu, struct culm_out dx, struct culm_in dy,              \
                         const struct culm_window *window),                                            \
      (cpu, dx, dy, window))                                                                         \
    X(permute, (struct culm_cpu *cpu, struct culm_out y, struct culm_in x,                         \
                const struct culm_shape *x_shape, const int64_t *order),                           \
      (cpu, y, x, x_shape, order))                                                                 \
    X(pad, (struct culm_cpu *cpu, struct culm_out y, struct culm_in x, int64_t n, int64_t h,       \
            int64_t w, int64_t c, const int64_t *pad, double value),                               \
      (cpu, y, x, n, h, w, c, pad, value))                                                         \
    X(crop, (struct culm_cpu *cpu, struct culm_out y, struct culm_in x, int64_t n, int64_t h,      \
             int64_t w, int64_t c, const int64_t *pad),                                            \
      (cpu, y, x, n, h, w, c, pad))                                                                \
    X(place, (struct culm_cpu *cpu, struct culm_out y, struct culm_in x, int64_t rows,             \
              int64_t row, int64_t pitch, int64_t offset, bool add),                               \
      (cpu, y, x, rows, row, pitch, offset, add))                                                  \
    X(resize_forward, (struct culm_cpu *cpu, struct culm_out y, struct culm_in x,                  \
                       const struct culm_resize *how),                                             \
      (cpu, y, x, how))                                                                            \
    X(resize_backward, (struct culm_cpu *cpu, struct culm_out dx, struct culm_in dy,               \
                        const struct culm_resize *how),                                            \
      (cpu, dx, dy, how))                                                                          \
    X(binary, (struct culm_cpu *cpu, struct culm_out y, struct culm_in a, struct culm_in b,        \
               const struct culm_shape *a_shape, const struct culm_shape *b_shape,                 \
               enum culm_function function),                                                       \
      (cpu, y, a, b, a_shape, b_shape, function))                                                  \
    X(spread, (struct culm_cpu *cpu, struct culm_out y, struct culm_in b,                          \
               const struct culm_shape *y_shape, const struct culm_shape *b_shape, double scale),  \
      (cpu, y, b, y_shape, b_shape, scale))                                                        \
    X(reduce, (struct culm_cpu *cpu, struct culm_out y, struct culm_in x, struct culm_in factor,   \
               const struct culm_shape *x_shape, int64_t axes, enum culm_function function,        \
               double scale),                                                                      \
      (cpu, y, x, factor, x_shape, axes, function, scale))                                         \
    X(reduce_max_backward, (struct culm_cpu *cpu, struct culm_out dx, struct culm_in dy,           \
                            struct culm_in x, struct culm_in y, const struct culm_shape *x_shape,  \
                            int64_t axes),                                                         \
      (cpu, dx, dy, x, y, x_shape, axes))                                                          \
    X(softmax_forward, (struct culm_cpu *cpu, struct culm_out y, struct culm_in x, int64_t n,      \
                        int64_t c),                                                                \
      (cpu, y, x, n, c))                                                                           \
    X(softmax_backward, (struct culm_cpu *cpu, struct culm_out dx, struct culm_in dy,              \
                         struct culm_in y, int64_t n, int64_t c),                                  \
      (cpu, dx, dy, y, n, c))                                                                      \
    X(matmul, (struct culm_cpu *cpu, struct culm_out c, struct culm_in a, struct culm_in b,        \
               const struct culm_matmul *how),                                                     \
      (cpu, c, a, b, how))                                                                         \
    X(sgd, (struct culm_cpu *cpu, float *p, float *buffer, const float *g, int64_t count,          \
            const struct culm_sgd *hyper),                                                         \
      (cpu, p, buffer, g, count, hyper))
/* clang-format on */

#endif
