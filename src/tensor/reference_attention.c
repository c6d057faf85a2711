/*
 * Causal attention, written out: p = softmax(q k^T / sqrt(d)) over the keys up to the query,
 * out = dropout(p) v. See reference.h.
 */
#include "tensor/reference.h"

#include <math.h>

struct head {
    const float *q, *k, *v; /* of one head of one sample */
    int64_t ld, d, t, sample, mask_row;
    const struct culm_dropout *dropout;
};

static struct head head_of(const float *qkv, int64_t t, int64_t c, int64_t heads, int64_t sample,
                           int64_t head, const struct culm_dropout *dropout) {
    int64_t d = c / heads;
    const float *q = qkv + sample * t * 3 * c + head * d;
    return (struct head){.q = q,
                         .k = q + c,
                         .v = q + 2 * c,
                         .ld = 3 * c,
                         .d = d,
                         .t = t,
                         .sample = sample,
                         .mask_row = head * t,
                         .dropout = dropout};
}

static double dot(const float *a, const float *b, int64_t d) {
    double sum = 0;
    for (int64_t i = 0; i < d; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* p[0..query]; returns the log of the sum of exponentials. */
static double probabilities(const struct head *h, int64_t query, double *p) {
    double max = -INFINITY, sum = 0;
    for (int64_t key = 0; key <= query; key++) {
        p[key] = dot(h->q + query * h->ld, h->k + key * h->ld, h->d) / sqrt((double)h->d);
        max = fmax(max, p[key]);
    }
    for (int64_t key = 0; key <= query; key++)
        sum += p[key] = exp(p[key] - max);
    for (int64_t key = 0; key <= query; key++)
        p[key] /= sum;
    return max + log(sum);
}

/* 0 where dropped, else 1 / (1 - p). */
static double factor(const struct head *h, int64_t query, int64_t key) {
    int64_t padded = (h->t + 127) / 128 * 128;
    if (culm_dropout_drops(h->dropout, h->sample, (h->mask_row + query) * padded + key))
        return 0;
    return h->dropout ? 1 / (1 - h->dropout->p) : 1;
}

void culm_ref_attention_forward(float *out, float *lse, const float *qkv, int64_t b, int64_t t,
                                int64_t c, int64_t heads, const struct culm_dropout *dropout,
                                double *p) {
    for (int64_t i = 0; i < b * heads * t; i++) {
        int64_t query = i % t, head = i / t % heads, sample = i / t / heads;
        struct head h = head_of(qkv, t, c, heads, sample, head, dropout);
        lse[i] = (float)probabilities(&h, query, p);
        for (int64_t j = 0; j < h.d; j++) {
            double sum = 0;
            for (int64_t key = 0; key <= query; key++)
                sum += p[key] * factor(&h, query, key) * (double)h.v[key * h.ld + j];
            out[(sample * t + query) * c + head * h.d + j] = (float)sum;
        }
    }
}

void culm_ref_attention_backward(float *dqkv, const float *dout, const float *qkv, int64_t b,
                                 int64_t t, int64_t c, int64_t heads,
                                 const struct culm_dropout *dropout, double *row) {
    double *p = row, *dp = row + t;
    for (int64_t i = 0; i < b * t * 3 * c; i++)
        dqkv[i] = 0;
    for (int64_t i = 0; i < b * heads * t; i++) {
        int64_t query = i % t, head = i / t % heads, sample = i / t / heads;
        struct head h = head_of(qkv, t, c, heads, sample, head, dropout);
        float *dq = dqkv + (h.q - qkv), *dk = dq + c, *dv = dq + 2 * c;
        const float *dy = dout + (sample * t + query) * c + head * h.d;
        double mean = 0, scale = 1 / sqrt((double)h.d);
        probabilities(&h, query, p);
        for (int64_t key = 0; key <= query; key++) {
            double kept = factor(&h, query, key);
            for (int64_t j = 0; j < h.d; j++)
                dv[key * h.ld + j] += (float)(p[key] * kept * (double)dy[j]);
            dp[key] = dot(dy, h.v + key * h.ld, h.d) * kept;
            mean += p[key] * dp[key];
        }
        for (int64_t key = 0; key <= query; key++) {
            double ds = p[key] * (dp[key] - mean) * scale;
            for (int64_t j = 0; j < h.d; j++) {
                dq[query * h.ld + j] += (float)(ds * (double)h.k[key * h.ld + j]);
                dk[key * h.ld + j] += (float)(ds * (double)h.q[query * h.ld + j]);
            }
        }
    }
}
