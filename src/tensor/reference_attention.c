/*
 * Attention, written out: p = softmax(q k^T / sqrt(d)) over the keys that a query sees,
 * out = dropout(p) v. See reference.h.
 */
#include "tensor/reference.h"

#include <math.h>

struct head {
    const struct culm_attention *how;
    const float *q, *k, *v; /* of one head of one sample */
    int64_t ldq, ldk, ldv, d, sample, mask_row;
};

static struct head head_of(const struct culm_ref_attention *in, const struct culm_attention *how,
                           int64_t sample, int64_t head) {
    int64_t d = how->c / how->heads;
    return (struct head){.how = how,
                         .q = in->q + sample * how->tq * in->ldq + head * d,
                         .k = in->k + sample * how->tk * in->ldk + head * d,
                         .v = in->v + sample * how->tk * in->ldv + head * d,
                         .ldq = in->ldq,
                         .ldk = in->ldk,
                         .ldv = in->ldv,
                         .d = d,
                         .sample = sample,
                         .mask_row = head * how->tq};
}

static double dot(const float *a, const float *b, int64_t d) {
    double sum = 0;
    for (int64_t i = 0; i < d; i++) {
        sum += (double)a[i] * (double)b[i];
    }
    return sum;
}

static bool sees(const struct head *h, int64_t query, int64_t key) {
    return (!h->how->causal || key <= query) &&
           (!h->how->mask || h->how->mask[h->sample * h->how->tk + key]);
}

/* p[0..tk-1]; returns the log of the sum of exponentials. */
static double probabilities(const struct head *h, int64_t query, double *p) {
    double max = -INFINITY, sum = 0;
    for (int64_t key = 0; key < h->how->tk; key++) {
        p[key] = sees(h, query, key)
                     ? dot(h->q + query * h->ldq, h->k + key * h->ldk, h->d) / sqrt((double)h->d)
                     : -INFINITY;
        max = fmax(max, p[key]);
    }
    for (int64_t key = 0; key < h->how->tk; key++) {
        sum += p[key] = max == -INFINITY ? 0 : exp(p[key] - max);
    }
    for (int64_t key = 0; key < h->how->tk && sum > 0; key++) {
        p[key] /= sum;
    }
    return sum > 0 ? max + log(sum) : INFINITY;
}

/* 0 where dropped, else 1 / (1 - p). */
static double factor(const struct head *h, int64_t query, int64_t key) {
    int64_t padded = (h->how->tk + 127) / 128 * 128;
    const struct culm_dropout *dropout = h->how->dropout;
    if (culm_dropout_drops(dropout, h->sample, (h->mask_row + query) * padded + key)) {
        return 0;
    }
    return dropout ? 1 / (1 - dropout->p) : 1;
}

void culm_ref_attention_forward(float *out, float *lse, const struct culm_ref_attention *in,
                                const struct culm_attention *how, double *p) {
    for (int64_t i = 0; i < how->b * how->heads * how->tq; i++) {
        int64_t query = i % how->tq, head = i / how->tq % how->heads;
        int64_t sample = i / how->tq / how->heads;
        struct head h = head_of(in, how, sample, head);
        lse[i] = (float)probabilities(&h, query, p);
        for (int64_t j = 0; j < h.d; j++) {
            double sum = 0;
            for (int64_t key = 0; key < how->tk; key++) {
                sum += p[key] * factor(&h, query, key) * (double)h.v[key * h.ldv + j];
            }
            out[(sample * how->tq + query) * how->c + head * h.d + j] = (float)sum;
        }
    }
}

static void zero(float *x, int64_t ld, int64_t rows, int64_t c) {
    for (int64_t i = 0; i < rows * c; i++) {
        x[i / c * ld + i % c] = 0;
    }
}

void culm_ref_attention_backward(float *dq, float *dk, float *dv, const float *dout,
                                 const struct culm_ref_attention *in,
                                 const struct culm_attention *how, double *row) {
    double *p = row, *dp = row + how->tk;
    zero(dq, in->ldq, how->b * how->tq, how->c);
    zero(dk, in->ldk, how->b * how->tk, how->c);
    zero(dv, in->ldv, how->b * how->tk, how->c);
    for (int64_t i = 0; i < how->b * how->heads * how->tq; i++) {
        int64_t query = i % how->tq, head = i / how->tq % how->heads;
        int64_t sample = i / how->tq / how->heads;
        struct head h = head_of(in, how, sample, head);
        float *q_to = dq + (h.q - in->q), *k_to = dk + (h.k - in->k), *v_to = dv + (h.v - in->v);
        const float *dy = dout + (sample * how->tq + query) * how->c + head * h.d;
        double mean = 0, scale = 1 / sqrt((double)h.d);
        probabilities(&h, query, p);
        for (int64_t key = 0; key < how->tk; key++) {
            double kept = factor(&h, query, key);
            for (int64_t j = 0; j < h.d; j++) {
                v_to[key * h.ldv + j] += (float)(p[key] * kept * (double)dy[j]);
            }
            dp[key] = dot(dy, h.v + key * h.ldv, h.d) * kept;
            mean += p[key] * dp[key];
        }
        for (int64_t key = 0; key < how->tk; key++) {
            double ds = p[key] * (dp[key] - mean) * scale;
            for (int64_t j = 0; j < h.d; j++) {
                q_to[query * h.ldq + j] += (float)(ds * (double)h.k[key * h.ldk + j]);
                k_to[key * h.ldk + j] += (float)(ds * (double)h.q[query * h.ldq + j]);
            }
        }
    }
}
