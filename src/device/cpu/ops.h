/*
 * One row per kernel: its name, its parameters after `cpu`, and their names. From it come the table
 * of function pointers, the declarations of each instruction set's variant and the public
 * functions.
 */
#ifndef CULM_DEVICE_CPU_OPS_H
#define CULM_DEVICE_CPU_OPS_H

#include "device/cpu/kernels.h"
#include "device/cpu/ops_conv.h"
#include "device/cpu/ops_sequence.h"
#include "device/cpu/ops_vision.h"

/* clang-format off */
#define CULM_CPU_OPS(X)                                                                            \
    CULM_CPU_CONV_OPS(X)                                                                           \
    CULM_CPU_VISION_OPS(X)                                                                         \
    CULM_CPU_SEQUENCE_OPS(X)                                                                       \
    X(gemm, (struct culm_cpu *cpu, bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k,    \
             const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,       \
             int64_t ldc),                                                                         \
      (cpu, trans_a, trans_b, m, n, k, a, lda, b, ldb, beta, c, ldc))                              \
    X(gemm_bf16, (struct culm_cpu *cpu, bool trans_a, bool trans_b, int64_t m, int64_t n,          \
                  int64_t k, struct culm_in a, int64_t lda, struct culm_in b, int64_t ldb,         \
                  const float *bias, bool add, struct culm_out c, int64_t ldc),                    \
      (cpu, trans_a, trans_b, m, n, k, a, lda, b, ldb, bias, add, c, ldc))                         \
    X(linear_forward, (struct culm_cpu *cpu, struct culm_out y, struct culm_in x, const float *w,  \
                       const float *b, int64_t n, int64_t in, int64_t out, bool transposed),       \
      (cpu, y, x, w, b, n, in, out, transposed))                                                   \
    X(linear_backward_input, (struct culm_cpu *cpu, struct culm_out dx, struct culm_in dy,         \
                              const float *w, int64_t n, int64_t in, int64_t out,                  \
                              bool transposed),                                                    \
      (cpu, dx, dy, w, n, in, out, transposed))                                                    \
    X(linear_backward_weight, (struct culm_cpu *cpu, float *dw, float *db, struct culm_in x,       \
                               struct culm_in dy, int64_t n, int64_t in, int64_t out,              \
                               bool transposed, bool first),                                       \
      (cpu, dw, db, x, dy, n, in, out, transposed, first))                                         \
    X(embedding_forward, (struct culm_cpu *cpu, struct culm_out y, const int32_t *tokens, const float *wte, \
                          const float *wpe, int64_t b, int64_t t, int64_t c, int64_t v),           \
      (cpu, y, tokens, wte, wpe, b, t, c, v))                                                      \
    X(embedding_backward, (struct culm_cpu *cpu, float *dwte, float *dwpe, struct culm_in dy,        \
                           const int32_t *tokens, int64_t b, int64_t t, int64_t c, int64_t v,      \
                           bool first),                                                            \
      (cpu, dwte, dwpe, dy, tokens, b, t, c, v, first))                                            \
    X(layernorm_forward, (struct culm_cpu *cpu, struct culm_out y, float *mean, float *rstd,       \
                          struct culm_in x, const float *gamma, const float *beta, int64_t n,      \
                          int64_t c, double eps),                                                  \
      (cpu, y, mean, rstd, x, gamma, beta, n, c, eps))                                             \
    X(layernorm_backward, (struct culm_cpu *cpu, struct culm_out dx, float *dgamma, float *dbeta,  \
                           struct culm_in dy, struct culm_in x, const float *gamma,                \
                           const float *mean, const float *rstd, struct culm_in add, int64_t n,    \
                           int64_t c, bool first),                                                 \
      (cpu, dx, dgamma, dbeta, dy, x, gamma, mean, rstd, add, n, c, first))                        \
    X(attention_forward, (struct culm_cpu *cpu, struct culm_out out, float *lse,                   \
                          const struct culm_attention_rows *in, const struct culm_attention *how), \
      (cpu, out, lse, in, how))                                                                    \
    X(attention_backward, (struct culm_cpu *cpu, const struct culm_attention_grads *grads,         \
                           struct culm_in dout, const struct culm_attention_rows *in,              \
                           struct culm_in out, const float *lse, const struct culm_attention *how),\
      (cpu, grads, dout, in, out, lse, how))                                                       \
    X(residual_dropout_forward, (struct culm_cpu *cpu, struct culm_out y, struct culm_in x,        \
                                 struct culm_in h, int64_t count,                                  \
                                 const struct culm_dropout *dropout),                              \
      (cpu, y, x, h, count, dropout))                                                              \
    X(dropout, (struct culm_cpu *cpu, struct culm_out y, struct culm_in x, int64_t count,          \
                const struct culm_dropout *dropout),                                               \
      (cpu, y, x, count, dropout))                                                                 \
    X(add, (struct culm_cpu *cpu, struct culm_out y, struct culm_in a, struct culm_in b,           \
            int64_t count),                                                                        \
      (cpu, y, a, b, count))                                                                       \
    X(cross_entropy, (struct culm_cpu *cpu, struct culm_out logits, const int32_t *targets,        \
                      int64_t n, int64_t v, double scale, double smoothing, bool want_gradient,    \
                      struct culm_loss *ret_loss),                                                 \
      (cpu, logits, targets, n, v, scale, smoothing, want_gradient, ret_loss))                     \
    X(adamw, (struct culm_cpu *cpu, float *p, float *m, float *v, const float *g, int64_t count,   \
              const struct culm_adamw *hyper),                                                     \
      (cpu, p, m, v, g, count, hyper))                                                             \
    X(sum_squares_into, (struct culm_cpu *cpu, const float *x, int64_t count, double *ret_sum,     \
                         uint64_t *ret_digest),                                                    \
      (cpu, x, count, ret_sum, ret_digest))                                                        \
    X(digest_into, (struct culm_cpu *cpu, const float *x, int64_t count, uint64_t *ret_digest),    \
      (cpu, x, count, ret_digest))                                                                 \
    X(digest_here_into, (struct culm_cpu *cpu, const float *x, int64_t count,                      \
                         uint64_t *ret_digest),                                                    \
      (cpu, x, count, ret_digest))
/* clang-format on */

#define CULM_CPU_MEMBER(name, parameters, arguments) void(*name) parameters;
struct culm_cpu_ops {
    const char *isa;
    CULM_CPU_OPS(CULM_CPU_MEMBER)
};
#undef CULM_CPU_MEMBER

extern const struct culm_cpu_ops culm_cpu_ops_avx512_bf16, culm_cpu_ops_avx512, culm_cpu_ops_avx2,
    culm_cpu_ops_neon, culm_cpu_ops_base;

#endif
