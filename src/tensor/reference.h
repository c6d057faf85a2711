/*
 * Reference kernels: what every operator means, in the plainest loops that say it, each backward
 * beside its forward. Devices are tested against these, and these against finite differences.
 *
 * They accumulate in float64 and round once, run on the calling thread, and are slow. Arguments are
 * those of the kernel of the same name in device/kernels.h, which documents shapes and meaning:
 * row-major float32; `first` stores a parameter's gradient, else it is added. Thread: any.
 */
#ifndef CULM_TENSOR_REFERENCE_H
#define CULM_TENSOR_REFERENCE_H

#include "tensor/hyper.h"

void culm_ref_gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const float *a,
                   int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

/* `transposed`: w is [O,I] */
void culm_ref_linear_forward(float *y, const float *x, const float *w, const float *b_or_null,
                             int64_t n, int64_t in, int64_t out, bool transposed);
void culm_ref_linear_backward_input(float *dx, const float *dy, const float *w, int64_t n,
                                    int64_t in, int64_t out, bool transposed);
void culm_ref_linear_backward_weight(float *dw, float *db_or_null, const float *x, const float *dy,
                                     int64_t n, int64_t in, int64_t out, bool transposed,
                                     bool first);

void culm_ref_embedding_forward(float *y, const int32_t *tokens, const float *wte, const float *wpe,
                                int64_t b, int64_t t, int64_t c);
void culm_ref_embedding_backward(float *dwte, float *dwpe, const float *dy, const int32_t *tokens,
                                 int64_t b, int64_t t, int64_t c, int64_t v, bool first);

void culm_ref_layernorm_forward(float *y, float *mean, float *rstd, const float *x,
                                const float *gamma, const float *beta, int64_t n, int64_t c,
                                double eps);
void culm_ref_layernorm_backward(float *dx, float *dgamma, float *dbeta, const float *dy,
                                 const float *x, const float *gamma, const float *mean,
                                 const float *rstd, const float *add_or_null, int64_t n, int64_t c,
                                 bool first);

/* Gradients have the strides of what they belong to. row[Tk] is the caller's scratch, and [2 Tk] for
 * backward. */
struct culm_ref_attention {
    const float *q, *k, *v;
    int64_t ldq, ldk, ldv;
};
void culm_ref_attention_forward(float *out, float *lse, const struct culm_ref_attention *in,
                                const struct culm_attention *how, double *row);
void culm_ref_attention_backward(float *dq, float *dk, float *dv, const float *dout,
                                 const struct culm_ref_attention *in,
                                 const struct culm_attention *how, double *row);

void culm_ref_residual_dropout_forward(float *y, const float *x, const float *h, int64_t count,
                                       const struct culm_dropout *dropout);
/* Its own backward. */
void culm_ref_dropout(float *y, const float *x, int64_t count, const struct culm_dropout *dropout);

/* dlogits NULL: loss only. */
struct culm_loss culm_ref_cross_entropy(float *dlogits, const float *logits, const int32_t *targets,
                                        int64_t n, int64_t v, double scale, double smoothing);

void culm_ref_adamw(float *p, float *m, float *v, const float *g, int64_t count,
                    const struct culm_adamw *hyper);
double culm_ref_sum_squares(const float *x, int64_t count);

#endif
