/* Reference kernels without attention. See reference.h. */
#include "tensor/reference.h"

#include "base/rng.h"

#include <math.h>
#include <string.h>

bool culm_dropout_drops(const struct culm_dropout *dropout, int64_t sample, int64_t element) {
    if (!dropout || dropout->p == 0) {
        return false;
    }
    uint64_t counter = (uint64_t)(element / 128 * 16 + element % 16);
    int64_t slot = element / 16 % 8;
    struct culm_rng_block block =
        culm_rng(dropout->key, culm_dropout_sample(dropout, sample), counter);
    uint32_t bits = block.word[slot / 2] >> (slot % 2 * 16) & 0xFFFF;
    return bits < (uint32_t)(dropout->p * 65536.0 + 0.5);
}

void culm_ref_gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const float *a,
                   int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = beta != 0 ? (double)beta * (double)c[i * ldc + j] : 0;
            for (int64_t l = 0; l < k; l++) {
                sum += (double)(trans_a ? a[l * lda + i] : a[i * lda + l]) *
                       (double)(trans_b ? b[j * ldb + l] : b[l * ldb + j]);
            }
            c[i * ldc + j] = (float)sum;
        }
    }
}

/* ---- linear ---- */

void culm_ref_linear_forward(float *y, const float *x, const float *w, const float *b, int64_t n,
                             int64_t in, int64_t out, bool transposed) {
    for (int64_t i = 0; i < n && b; i++) {
        memcpy(y + i * out, b, (size_t)out * sizeof *y);
    }
    culm_ref_gemm(false, transposed, n, out, in, x, in, w, transposed ? in : out, b ? 1 : 0, y,
                  out);
}

void culm_ref_linear_backward_input(float *dx, const float *dy, const float *w, int64_t n,
                                    int64_t in, int64_t out, bool transposed) {
    culm_ref_gemm(false, !transposed, n, in, out, dy, out, w, transposed ? in : out, 0, dx, in);
}

void culm_ref_linear_backward_weight(float *dw, float *db, const float *x, const float *dy,
                                     int64_t n, int64_t in, int64_t out, bool transposed,
                                     bool first) {
    if (transposed) {
        culm_ref_gemm(true, false, out, in, n, dy, out, x, in, first ? 0 : 1, dw, in);
    } else {
        culm_ref_gemm(true, false, in, out, n, x, in, dy, out, first ? 0 : 1, dw, out);
    }
    for (int64_t j = 0; j < out && db; j++) {
        double sum = first ? 0 : (double)db[j];
        for (int64_t i = 0; i < n; i++) {
            sum += (double)dy[i * out + j];
        }
        db[j] = (float)sum;
    }
}

/* ---- embedding ---- */

void culm_ref_embedding_forward(float *y, const int32_t *tokens, const float *wte, const float *wpe,
                                int64_t b, int64_t t, int64_t c) {
    for (int64_t row = 0; row < b * t; row++) {
        for (int64_t i = 0; i < c; i++) {
            y[row * c + i] = wte[tokens[row] * c + i] + wpe[row % t * c + i];
        }
    }
}

void culm_ref_embedding_backward(float *dwte, float *dwpe, const float *dy, const int32_t *tokens,
                                 int64_t b, int64_t t, int64_t c, int64_t v, bool first) {
    if (first) {
        memset(dwte, 0, (size_t)(v * c) * sizeof *dwte);
        memset(dwpe, 0, (size_t)(t * c) * sizeof *dwpe);
    }
    for (int64_t row = 0; row < b * t; row++) {
        for (int64_t i = 0; i < c; i++) {
            dwte[tokens[row] * c + i] += dy[row * c + i];
            dwpe[row % t * c + i] += dy[row * c + i];
        }
    }
}

/* ---- layer norm ---- */

void culm_ref_layernorm_forward(float *y, float *mean, float *rstd, const float *x,
                                const float *gamma, const float *beta, int64_t n, int64_t c,
                                double eps) {
    for (int64_t row = 0; row < n; row++, x += c, y += c) {
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < c; i++) {
            sum += (double)x[i];
        }
        double m = sum / (double)c;
        for (int64_t i = 0; i < c; i++) {
            squares += ((double)x[i] - m) * ((double)x[i] - m);
        }
        double r = 1 / sqrt(squares / (double)c + eps);
        for (int64_t i = 0; i < c; i++) {
            y[i] = (float)(((double)x[i] - m) * r * (double)gamma[i] + (double)beta[i]);
        }
        mean[row] = (float)m;
        rstd[row] = (float)r;
    }
}

void culm_ref_layernorm_backward(float *dx, float *dgamma, float *dbeta, const float *dy,
                                 const float *x, const float *gamma, const float *mean,
                                 const float *rstd, const float *add, int64_t n, int64_t c,
                                 bool first) {
    for (int64_t i = 0; i < c; i++) {
        double g = first ? 0 : (double)dgamma[i], b = first ? 0 : (double)dbeta[i];
        for (int64_t row = 0; row < n; row++) {
            double xhat = ((double)x[row * c + i] - (double)mean[row]) * (double)rstd[row];
            g += (double)dy[row * c + i] * xhat;
            b += (double)dy[row * c + i];
        }
        dgamma[i] = (float)g;
        dbeta[i] = (float)b;
    }
    for (int64_t row = 0; row < n; row++) {
        double sum = 0, sum_xhat = 0, m = (double)mean[row], r = (double)rstd[row];
        for (int64_t i = 0; i < c; i++) {
            double g = (double)dy[row * c + i] * (double)gamma[i];
            sum += g;
            sum_xhat += g * ((double)x[row * c + i] - m) * r;
        }
        for (int64_t i = 0; i < c; i++) {
            double xhat = ((double)x[row * c + i] - m) * r;
            double g = (double)dy[row * c + i] * (double)gamma[i];
            double d = r * (g - sum / (double)c - xhat * sum_xhat / (double)c);
            dx[row * c + i] = (float)(add ? (double)add[row * c + i] + d : d);
        }
    }
}

/* ---- dropout ---- */

void culm_ref_dropout(float *y, const float *x, int64_t count, const struct culm_dropout *dropout) {
    int64_t per_sample = dropout ? count / dropout->samples : count;
    for (int64_t i = 0; i < count; i++) {
        if (!dropout || dropout->p == 0) {
            y[i] = x[i];
        } else if (culm_dropout_drops(dropout, i / per_sample, i % per_sample)) {
            y[i] = 0;
        } else {
            y[i] = (float)((double)x[i] / (1 - dropout->p));
        }
    }
}

void culm_ref_residual_dropout_forward(float *y, const float *x, const float *h, int64_t count,
                                       const struct culm_dropout *dropout) {
    int64_t per_sample = dropout ? count / dropout->samples : count;
    double keep = dropout ? 1 / (1 - dropout->p) : 1;
    for (int64_t i = 0; i < count; i++) {
        y[i] = culm_dropout_drops(dropout, i / per_sample, i % per_sample)
                   ? x[i]
                   : (float)((double)x[i] + (double)h[i] * keep);
    }
}

/* ---- loss ---- */

static struct culm_loss cross_entropy_row(float *dlogits, const float *logits, int32_t target,
                                          int64_t v, double scale, double smoothing) {
    struct culm_loss loss = {.counted = 1, .correct = 1};
    double max = (double)logits[0], sum = 0;
    for (int64_t i = 1; i < v; i++) {
        max = fmax(max, (double)logits[i]);
    }
    for (int64_t i = 0; i < v; i++) {
        sum += exp((double)logits[i] - max);
    }
    for (int64_t i = 0; i < v; i++) {
        double wanted = (i == target ? 1 - smoothing : 0) + smoothing / (double)v;
        loss.loss += wanted * (log(sum) + max - (double)logits[i]);
        loss.correct &= i < target ? logits[i] < logits[target] : logits[i] <= logits[target];
        if (dlogits) {
            dlogits[i] = (float)((exp((double)logits[i] - max) / sum - wanted) * scale);
        }
    }
    return loss;
}

struct culm_loss culm_ref_cross_entropy(float *dlogits, const float *logits, const int32_t *targets,
                                        int64_t n, int64_t v, double scale, double smoothing) {
    struct culm_loss all = {0};
    for (int64_t row = 0; row < n; row++) {
        float *d = dlogits ? dlogits + row * v : NULL;
        for (int64_t i = 0; d && i < v && targets[row] < 0; i++) {
            d[i] = 0;
        }
        if (targets[row] < 0) {
            continue;
        }
        struct culm_loss one =
            cross_entropy_row(d, logits + row * v, targets[row], v, scale, smoothing);
        all.loss += one.loss;
        all.counted++;
        all.correct += one.correct;
    }
    return all;
}

/* ---- optimizer ---- */

void culm_ref_adamw(float *p, float *m, float *v, const float *g, int64_t count,
                    const struct culm_adamw *h) {
    for (int64_t i = 0; i < count; i++) {
        double grad = (double)g[i] * h->grad_scale;
        double decayed = (double)p[i] * (1 - h->lr * h->weight_decay);
        double first = (double)m[i] + (1 - h->beta1) * (grad - (double)m[i]);
        double second = h->beta2 * (double)v[i] + (1 - h->beta2) * grad * grad;
        double root = sqrt(second) / sqrt(h->bias_correction2) + h->eps;
        p[i] = (float)(decayed - h->lr / h->bias_correction1 * first / root);
        m[i] = (float)first;
        v[i] = (float)second;
    }
}

double culm_ref_sum_squares(const float *x, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += (double)x[i] * (double)x[i];
    }
    return sum;
}
