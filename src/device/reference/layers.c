/* The reference device: products, tables, attention, recurrence, norms, losses. */
#include "device/reference/internal.h"
#include "tensor/reference.h"
#include "tensor/reference_sequence.h"
#include "tensor/reference_vision.h"

#define KERNEL(name)                                                                               \
    void culm_reference_##name(struct reference *r, const struct culm_##name##_args *a)
#define GET(array, count) culm_reference_get(r, a->array, count)
#define PUT(array, count) culm_reference_put(r, a->array, count)

/* --- products --- */

KERNEL(gemm) {
    (void)r;
    culm_ref_gemm(a->trans_a, a->trans_b, a->m, a->n, a->k, a->a, a->lda, a->b, a->ldb, a->beta,
                  a->c, a->ldc);
}

/* Rounded to bf16, and still f32. */
static const float *rounded(struct reference *r, struct culm_in in, int64_t rows, int64_t columns,
                            int64_t ld) {
    float *x = culm_reference_floats(r, rows * ld);
    for (int64_t i = 0; i < rows * columns; i++) {
        int64_t at = i / columns * ld + i % columns;
        uint16_t half;
        culm_reference_store((struct culm_out){&half, CULM_BF16}, 0, culm_reference_load(in, at));
        x[at] = culm_reference_load((struct culm_in){&half, CULM_BF16}, 0);
    }
    return x;
}

KERNEL(gemm_bf16) {
    int64_t rows_a = a->trans_a ? a->k : a->m, rows_b = a->trans_b ? a->n : a->k;
    const float *left = rounded(r, a->a, rows_a, a->trans_a ? a->m : a->k, a->lda);
    const float *right = rounded(r, a->b, rows_b, a->trans_b ? a->k : a->n, a->ldb);
    float *c = culm_reference_floats(r, a->m * a->n);
    culm_ref_gemm(a->trans_a, a->trans_b, a->m, a->n, a->k, left, a->lda, right, a->ldb, 0, c,
                  a->n);
    for (int64_t i = 0; i < a->m * a->n; i++) {
        int64_t at = i / a->n * a->ldc + i % a->n;
        float more = a->add    ? culm_reference_load(culm_in_of(a->c), at)
                     : a->bias ? a->bias[i % a->n]
                               : 0;
        culm_reference_store(a->c, at, c[i] + more);
    }
}

KERNEL(matmul) {
    const struct culm_matmul *how = a->how;
    culm_ref_matmul(PUT(c, how->batch * how->m * how->n), GET(a, how->batch * how->m * how->k),
                    GET(b, how->batch * how->k * how->n), how);
}

KERNEL(linear_forward) {
    culm_ref_linear_forward(PUT(y, a->n * a->out), GET(x, a->n * a->in), a->w, a->b, a->n, a->in,
                            a->out, a->transposed);
}
KERNEL(linear_backward_input) {
    culm_ref_linear_backward_input(PUT(dx, a->n * a->in), GET(dy, a->n * a->out), a->w, a->n, a->in,
                                   a->out, a->transposed);
}
KERNEL(linear_backward_weight) {
    culm_ref_linear_backward_weight(a->dw, a->db, GET(x, a->n * a->in), GET(dy, a->n * a->out),
                                    a->n, a->in, a->out, a->transposed, a->first);
}

/* --- rows of tables --- */

KERNEL(embedding_forward) {
    culm_ref_embedding_forward(PUT(y, a->b * a->t * a->c), a->tokens, a->wte, a->wpe, a->b, a->t,
                               a->c);
}
KERNEL(embedding_backward) {
    culm_ref_embedding_backward(a->dwte, a->dwpe, GET(dy, a->b * a->t * a->c), a->tokens, a->b,
                                a->t, a->c, a->v, a->first);
}
KERNEL(lookup_forward) {
    culm_ref_lookup_forward(PUT(y, a->n * a->c), a->ids, GET(table, a->v * a->c), a->n, a->c);
}
KERNEL(lookup_backward) {
    culm_ref_lookup_backward(a->dtable, GET(dy, a->n * a->c), a->ids, a->n, a->c, a->v, a->first);
}
KERNEL(positions_forward) {
    culm_ref_positions_forward(PUT(y, a->b * a->t * a->c), GET(x, a->b * a->t * a->c),
                               GET(wpe, a->t * a->c), a->b, a->t, a->c);
}
KERNEL(positions_backward) {
    culm_ref_positions_backward(a->dwpe, GET(dy, a->b * a->t * a->c), a->b, a->t, a->c, a->p,
                                a->first);
}
KERNEL(gather_rows_forward) {
    culm_ref_gather_rows_forward(PUT(y, a->b * a->k * a->c), GET(x, a->b * a->t * a->c), a->index,
                                 a->b, a->t, a->k, a->c);
}
KERNEL(gather_rows_backward) {
    culm_ref_gather_rows_backward(PUT(dx, a->b * a->t * a->c), GET(dy, a->b * a->k * a->c),
                                  a->index, a->b, a->t, a->k, a->c);
}

/* --- attention --- */

/* Rows side by side of rows that may lie apart. */
static const float *rows(struct reference *r, struct culm_in in, int64_t count, int64_t c,
                         int64_t ld) {
    float *x = culm_reference_floats(r, count * c);
    for (int64_t i = 0; i < count * c; i++) {
        x[i] = culm_reference_load(in, i / c * ld + i % c);
    }
    return x;
}

static void scatter(struct culm_out out, const float *x, int64_t count, int64_t c, int64_t ld) {
    for (int64_t i = 0; i < count * c; i++) {
        culm_reference_store(out, i / c * ld + i % c, x[i]);
    }
}

static struct culm_ref_attention attention_in(struct reference *r,
                                              const struct culm_attention_rows *in,
                                              const struct culm_attention *how) {
    int64_t queries = how->b * how->tq, keys = how->b * how->tk;
    return (struct culm_ref_attention){.q = rows(r, in->q, queries, how->c, in->ldq),
                                       .k = rows(r, in->k, keys, how->c, in->ldk),
                                       .v = rows(r, in->v, keys, how->c, in->ldv),
                                       .ldq = how->c,
                                       .ldk = how->c,
                                       .ldv = how->c};
}

KERNEL(attention_forward) {
    struct culm_ref_attention in = attention_in(r, a->in, a->how);
    culm_ref_attention_forward(PUT(out, a->how->b * a->how->tq * a->how->c), a->lse, &in, a->how,
                               culm_reference_doubles(r, a->how->tk));
}

KERNEL(attention_backward) {
    const struct culm_attention *how = a->how;
    struct culm_ref_attention in = attention_in(r, a->in, how);
    int64_t queries = how->b * how->tq, keys = how->b * how->tk;
    float *dq = culm_reference_floats(r, queries * how->c);
    float *dk = culm_reference_floats(r, keys * how->c);
    float *dv = culm_reference_floats(r, keys * how->c);
    culm_ref_attention_backward(dq, dk, dv, GET(dout, queries * how->c), &in, how,
                                culm_reference_doubles(r, 2 * how->tk));
    scatter(a->grads->dq, dq, queries, how->c, a->grads->lddq);
    scatter(a->grads->dk, dk, keys, how->c, a->grads->lddk);
    scatter(a->grads->dv, dv, keys, how->c, a->grads->lddv);
}

/* What was formed aside becomes a gradient, or is added to it. */
static void give(float *to, const float *sum, int64_t count, bool first) {
    for (int64_t i = 0; to && i < count; i++) {
        to[i] = first ? sum[i] : to[i] + sum[i];
    }
}

static struct culm_ref_bahdanau bahdanau_in(struct reference *r,
                                            const struct culm_bahdanau_inputs *in,
                                            const struct culm_bahdanau *how) {
    return (struct culm_ref_bahdanau){
        .query = culm_reference_get(r, in->query, how->b * how->t * how->a),
        .key = culm_reference_get(r, in->key, how->b * how->s * how->a),
        .value = culm_reference_get(r, in->value, how->b * how->s * how->c),
        .v = in->v,
        .scale = in->scale,
        .bias = in->bias};
}

KERNEL(bahdanau_forward) {
    struct culm_ref_bahdanau in = bahdanau_in(r, a->in, a->how);
    culm_ref_bahdanau_forward(PUT(context, a->how->b * a->how->t * a->how->c), a->probabilities,
                              &in, a->how, culm_reference_doubles(r, a->how->s));
}

KERNEL(bahdanau_backward) {
    const struct culm_bahdanau *how = a->how;
    struct culm_ref_bahdanau in = bahdanau_in(r, a->in, how);
    const struct culm_ref_bahdanau_grads grads = {
        .dquery = culm_reference_put(r, a->grads->dquery, how->b * how->t * how->a),
        .dkey = culm_reference_put(r, a->grads->dkey, how->b * how->s * how->a),
        .dvalue = culm_reference_put(r, a->grads->dvalue, how->b * how->s * how->c),
        .dv = culm_reference_floats(r, how->a),
        .dscale = culm_reference_floats(r, 1),
        .dbias = culm_reference_floats(r, how->a)};
    culm_ref_bahdanau_backward(&grads, GET(dcontext, how->b * how->t * how->c), &in, how,
                               culm_reference_doubles(r, 2 * how->s + how->a));
    give(a->grads->dv, grads.dv, how->a, a->first);
    give(a->grads->dscale, grads.dscale, 1, a->first);
    give(a->grads->dbias, grads.dbias, how->a, a->first);
}

/* --- recurrence --- */

static struct culm_ref_lstm lstm_in(struct reference *r, const struct culm_lstm_params *params,
                                    const struct culm_lstm *how) {
    return (struct culm_ref_lstm){.w_ih = params->w_ih,
                                  .w_hh = params->w_hh,
                                  .b_ih = params->b_ih,
                                  .b_hh = params->b_hh,
                                  .h0 = culm_reference_get(r, params->h0, how->b * how->h),
                                  .c0 = culm_reference_get(r, params->c0, how->b * how->h)};
}

KERNEL(lstm_forward) {
    const struct culm_lstm *how = a->how;
    struct culm_ref_lstm in = lstm_in(r, a->params, how);
    culm_ref_lstm_forward(PUT(y, how->b * how->t * how->h), a->gates, a->cells,
                          GET(x, how->b * how->t * how->i), &in, how,
                          culm_reference_doubles(r, 2 * how->h));
}

/* It runs forward again, into memory of its own. */
KERNEL(lstm_backward) {
    const struct culm_lstm *how = a->how;
    struct culm_ref_lstm in = lstm_in(r, a->params, how);
    int64_t cells = how->b * how->t * how->h, units = 4 * how->h;
    const struct culm_ref_lstm_grads grads = {
        .dx = culm_reference_put(r, a->grads->dx, how->b * how->t * how->i),
        .dw_ih = culm_reference_floats(r, units * how->i),
        .dw_hh = culm_reference_floats(r, units * how->h),
        .db = culm_reference_floats(r, units),
        .dh0 = culm_reference_put(r, a->grads->dh0, how->b * how->h),
        .dc0 = culm_reference_put(r, a->grads->dc0, how->b * how->h)};
    culm_ref_lstm_backward(&grads, culm_reference_floats(r, cells),
                           culm_reference_floats(r, 4 * cells), culm_reference_floats(r, cells),
                           GET(dy, cells), GET(x, how->b * how->t * how->i), &in, how,
                           culm_reference_doubles(r, 6 * how->h));
    give(a->grads->dw_ih, grads.dw_ih, units * how->i, a->first);
    give(a->grads->dw_hh, grads.dw_hh, units * how->h, a->first);
    give(a->grads->db_ih, grads.db, units, a->first);
    give(a->grads->db_hh, grads.db, units, a->first);
}

/* --- norms, softmax, losses --- */

KERNEL(layernorm_forward) {
    culm_ref_layernorm_forward(PUT(y, a->n * a->c), a->mean, a->rstd, GET(x, a->n * a->c), a->gamma,
                               a->beta, a->n, a->c, a->eps);
}
KERNEL(layernorm_backward) {
    culm_ref_layernorm_backward(PUT(dx, a->n * a->c), a->dgamma, a->dbeta, GET(dy, a->n * a->c),
                                GET(x, a->n * a->c), a->gamma, a->mean, a->rstd,
                                GET(add, a->n * a->c), a->n, a->c, a->first);
}

KERNEL(batchnorm_forward) {
    int64_t count = a->how->n * a->how->c;
    culm_ref_batchnorm_forward(PUT(y, count), a->mean, a->variance, GET(x, count), a->gamma,
                               a->beta, GET(residual, count), a->how);
}
/* Where a sum that nobody wants may go. */
static float *wanted(struct reference *r, float *sum, int64_t c) {
    return sum ? sum : culm_reference_floats(r, c);
}

KERNEL(batchnorm_backward) {
    int64_t c = a->how->c, count = a->how->n * c;
    culm_ref_batchnorm_backward(
        PUT(dx, count), PUT(dresidual, count), wanted(r, a->dgamma, c), wanted(r, a->dbeta, c),
        wanted(r, a->sum_mean, c), wanted(r, a->sum_variance, c), GET(dy, count), GET(x, count),
        GET(y, count), a->gamma, a->beta, a->mean, a->variance, a->how, a->first);
}

KERNEL(softmax_forward) {
    culm_ref_softmax_forward(PUT(y, a->n * a->c), GET(x, a->n * a->c), a->n, a->c);
}
KERNEL(softmax_backward) {
    culm_ref_softmax_backward(PUT(dx, a->n * a->c), GET(dy, a->n * a->c), GET(y, a->n * a->c), a->n,
                              a->c);
}

KERNEL(cross_entropy) {
    const float *logits = culm_reference_get(r, culm_in_of(a->logits), a->n * a->v);
    float *dlogits = a->want_gradient ? PUT(logits, a->n * a->v) : NULL;
    *a->ret_loss =
        culm_ref_cross_entropy(dlogits, logits, a->targets, a->n, a->v, a->scale, a->smoothing);
}
