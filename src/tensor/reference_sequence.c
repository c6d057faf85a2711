/* Reference kernels on sequences. See reference_sequence.h. */
#include "tensor/reference_sequence.h"

#include <math.h>
#include <stddef.h>

/* ---- rows of tables ---- */

void culm_ref_lookup_forward(float *y, const int32_t *ids, const float *table, int64_t n,
                             int64_t c) {
    for (int64_t i = 0; i < n * c; i++) {
        y[i] = ids[i / c] < 0 ? 0 : table[ids[i / c] * c + i % c];
    }
}

void culm_ref_lookup_backward(float *dtable, const float *dy, const int32_t *ids, int64_t n,
                              int64_t c, int64_t v, bool first) {
    for (int64_t i = 0; i < v * c; i++) {
        double sum = first ? 0 : (double)dtable[i];
        for (int64_t row = 0; row < n; row++) {
            if (ids[row] == i / c) {
                sum += (double)dy[row * c + i % c];
            }
        }
        dtable[i] = (float)sum;
    }
}

void culm_ref_positions_forward(float *y, const float *x, const float *wpe, int64_t b, int64_t t,
                                int64_t c) {
    for (int64_t i = 0; i < b * t * c; i++) {
        y[i] = x[i] + wpe[i % (t * c)];
    }
}

void culm_ref_positions_backward(float *dwpe, const float *dy, int64_t b, int64_t t, int64_t c,
                                 int64_t p, bool first) {
    for (int64_t i = 0; i < p * c; i++) {
        double sum = first ? 0 : (double)dwpe[i];
        for (int64_t sample = 0; sample < b && i < t * c; sample++) {
            sum += (double)dy[sample * t * c + i];
        }
        dwpe[i] = (float)sum;
    }
}

void culm_ref_gather_rows_forward(float *y, const float *x, const int32_t *index, int64_t b,
                                  int64_t t, int64_t k, int64_t c) {
    for (int64_t i = 0; i < b * k * c; i++) {
        int64_t row = i / c;
        y[i] = index[row] < 0 ? 0 : x[(row / k * t + index[row]) * c + i % c];
    }
}

void culm_ref_gather_rows_backward(float *dx, const float *dy, const int32_t *index, int64_t b,
                                   int64_t t, int64_t k, int64_t c) {
    for (int64_t i = 0; i < b * t * c; i++) {
        int64_t sample = i / c / t, row = i / c % t;
        double sum = 0;
        for (int64_t j = sample * k; j < (sample + 1) * k; j++) {
            if (index[j] == row) {
                sum += (double)dy[j * c + i % c];
            }
        }
        dx[i] = (float)sum;
    }
}

/* ---- long short-term memory ---- */

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static void lstm_sample(float *y, float *gates, float *cells, const float *x,
                        const struct culm_ref_lstm *w, const struct culm_lstm *how, int64_t b,
                        double *state) {
    int64_t h = how->h, length = culm_lstm_length(how, b);
    double *last = state, *cell = state + h; /* h[t-1], c[t-1] */
    for (int64_t u = 0; u < h; u++) {
        last[u] = w->h0 ? (double)w->h0[b * h + u] : 0;
        cell[u] = w->c0 ? (double)w->c0[b * h + u] : 0;
    }
    for (int64_t step = 0; step < length; step++) {
        int64_t row = b * how->t + (how->reverse ? length - 1 - step : step);
        for (int64_t q = 0; q < 4 * h; q++) {
            double sum = (w->b_ih ? (double)w->b_ih[q] : 0) + (w->b_hh ? (double)w->b_hh[q] : 0);
            for (int64_t i = 0; i < how->i; i++) {
                sum += (double)x[row * how->i + i] * (double)w->w_ih[q * how->i + i];
            }
            for (int64_t i = 0; i < h; i++) {
                sum += last[i] * (double)w->w_hh[q * h + i];
            }
            gates[row * 4 * h + q] = (float)(q / h == 2 ? tanh(sum) : sigmoid(sum));
        }
        for (int64_t u = 0; u < h; u++) {
            const float *g = gates + row * 4 * h + u;
            cell[u] = (double)g[h] * cell[u] + (double)g[0] * (double)g[2 * h];
            last[u] = (double)g[3 * h] * tanh(cell[u]);
            cells[row * h + u] = (float)cell[u];
            y[row * h + u] = (float)last[u];
        }
    }
}

void culm_ref_lstm_forward(float *y, float *gates, float *cells, const float *x,
                           const struct culm_ref_lstm *w, const struct culm_lstm *how,
                           double *scratch) {
    int64_t h = how->h;
    for (int64_t i = 0; i < how->b * how->t * h; i++) {
        bool starts = how->reverse && w->c0;
        y[i] = 0;
        cells[i] = starts ? w->c0[i / (how->t * h) * h + i % h] : 0;
        for (int64_t q = 0; q < 4; q++) {
            gates[4 * i + q] = 0;
        }
    }
    for (int64_t b = 0; b < how->b; b++) {
        lstm_sample(y, gates, cells, x, w, how, b, scratch);
    }
}

static void clear(float *x, int64_t count) {
    for (int64_t i = 0; x && i < count; i++) {
        x[i] = 0;
    }
}

/* d[4h]: gradients of one step's gates before their functions; dh and dc become those of the step
 * before (dh only by the cell's own part: none). */
static void lstm_cell_backward(double *d, const double *dh, double *dc, const float *gates,
                               const float *cell, const float *cell_before, int64_t h) {
    for (int64_t u = 0; u < h; u++) {
        double i = (double)gates[u], f = (double)gates[h + u];
        double g = (double)gates[2 * h + u], o = (double)gates[3 * h + u];
        double t = tanh((double)cell[u]), before = cell_before ? (double)cell_before[u] : 0;
        double down = dc[u] + dh[u] * o * (1 - t * t);
        d[u] = down * g * i * (1 - i);
        d[h + u] = down * before * f * (1 - f);
        d[2 * h + u] = down * i * (1 - g * g);
        d[3 * h + u] = dh[u] * t * o * (1 - o);
        dc[u] = down * f;
    }
}

/* One step's share of the gradients of weights and of dx. */
static void lstm_step_backward(const struct culm_ref_lstm_grads *grads, const double *d,
                               const float *x, const float *before, const struct culm_ref_lstm *w,
                               const struct culm_lstm *how, float *dx) {
    int64_t h = how->h;
    for (int64_t q = 0; q < 4 * h; q++) {
        for (int64_t i = 0; i < how->i; i++) {
            grads->dw_ih[q * how->i + i] += (float)(d[q] * (double)x[i]);
            dx[i] += (float)(d[q] * (double)w->w_ih[q * how->i + i]);
        }
        for (int64_t i = 0; i < h && before; i++) {
            grads->dw_hh[q * h + i] += (float)(d[q] * (double)before[i]);
        }
        grads->db[q] += (float)d[q];
    }
}

static void lstm_sample_backward(const struct culm_ref_lstm_grads *grads, const float *y,
                                 const float *gates, const float *cells, const float *dy,
                                 const float *x, const struct culm_ref_lstm *w,
                                 const struct culm_lstm *how, int64_t b, double *scratch) {
    int64_t h = how->h, length = culm_lstm_length(how, b);
    double *dh = scratch, *dc = scratch + h, *d = scratch + 2 * h;
    for (int64_t u = 0; u < h; u++) {
        dh[u] = dc[u] = 0;
    }
    for (int64_t step = length - 1; step >= 0; step--) {
        int64_t row = b * how->t + (how->reverse ? length - 1 - step : step);
        int64_t earlier = how->reverse ? row + 1 : row - 1;
        const float *before = step > 0 ? y + earlier * h : w->h0 ? w->h0 + b * h : NULL;
        const float *cell_before = step > 0 ? cells + earlier * h : w->c0 ? w->c0 + b * h : NULL;
        for (int64_t u = 0; u < h; u++) {
            dh[u] += (double)dy[row * h + u];
        }
        lstm_cell_backward(d, dh, dc, gates + row * 4 * h, cells + row * h, cell_before, h);
        lstm_step_backward(grads, d, x + row * how->i, before, w, how, grads->dx + row * how->i);
        for (int64_t u = 0; u < h; u++) {
            dh[u] = 0;
            for (int64_t q = 0; q < 4 * h; q++) {
                dh[u] += d[q] * (double)w->w_hh[q * h + u];
            }
        }
    }
    for (int64_t u = 0; u < h; u++) {
        if (grads->dh0) {
            grads->dh0[b * h + u] = (float)dh[u];
        }
        if (grads->dc0) {
            grads->dc0[b * h + u] = (float)dc[u];
        }
    }
}

void culm_ref_lstm_backward(const struct culm_ref_lstm_grads *grads, float *y, float *gates,
                            float *cells, const float *dy, const float *x,
                            const struct culm_ref_lstm *w, const struct culm_lstm *how,
                            double *scratch) {
    culm_ref_lstm_forward(y, gates, cells, x, w, how, scratch);
    clear(grads->dx, how->b * how->t * how->i);
    clear(grads->dw_ih, 4 * how->h * how->i);
    clear(grads->dw_hh, 4 * how->h * how->h);
    clear(grads->db, 4 * how->h);
    for (int64_t b = 0; b < how->b; b++) {
        lstm_sample_backward(grads, y, gates, cells, dy, x, w, how, b, scratch);
    }
}

/* ---- additive attention ---- */

static double bahdanau_norm(const struct culm_ref_bahdanau *in, int64_t a) {
    double squares = 0;
    for (int64_t i = 0; i < a; i++) {
        squares += (double)in->v[i] * (double)in->v[i];
    }
    return sqrt(squares);
}

static double bahdanau_tanh(const struct culm_ref_bahdanau *in, int64_t a, int64_t query,
                            int64_t key, int64_t i) {
    return tanh((double)in->query[query * a + i] + (double)in->key[key * a + i] +
                (double)in->bias[i]);
}

/* p[s] of one query, numbered over all samples. */
static void bahdanau_row(double *p, const struct culm_ref_bahdanau *in,
                         const struct culm_bahdanau *how, int64_t query) {
    int64_t b = query / how->t, length = how->length ? how->length[b] : how->s;
    double norm = bahdanau_norm(in, how->a), max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < how->s; j++) {
        p[j] = 0;
        for (int64_t i = 0; i < how->a && j < length; i++) {
            p[j] += (double)in->v[i] * (double)in->scale[0] / norm *
                    bahdanau_tanh(in, how->a, query, b * how->s + j, i);
        }
        if (j < length) {
            max = fmax(max, p[j]);
        }
    }
    for (int64_t j = 0; j < how->s; j++) {
        sum += p[j] = j < length ? exp(p[j] - max) : 0;
    }
    for (int64_t j = 0; j < how->s && sum > 0; j++) {
        p[j] /= sum;
    }
}

void culm_ref_bahdanau_forward(float *context, float *probabilities,
                               const struct culm_ref_bahdanau *in, const struct culm_bahdanau *how,
                               double *p) {
    for (int64_t query = 0; query < how->b * how->t; query++) {
        const float *value = in->value + query / how->t * how->s * how->c;
        bahdanau_row(p, in, how, query);
        for (int64_t j = 0; j < how->s; j++) {
            probabilities[query * how->s + j] = (float)p[j];
        }
        for (int64_t i = 0; i < how->c; i++) {
            double sum = 0;
            for (int64_t j = 0; j < how->s; j++) {
                sum += p[j] * (double)value[j * how->c + i];
            }
            context[query * how->c + i] = (float)sum;
        }
    }
}

/* One query against one key whose score has gradient d. */
static void bahdanau_pair(const struct culm_ref_bahdanau_grads *grads, double *dvhat,
                          const struct culm_ref_bahdanau *in, int64_t a, double norm, int64_t query,
                          int64_t key, double d) {
    for (int64_t i = 0; i < a; i++) {
        double t = bahdanau_tanh(in, a, query, key, i);
        double dz = d * (double)in->v[i] * (double)in->scale[0] / norm * (1 - t * t);
        grads->dquery[query * a + i] += (float)dz;
        grads->dkey[key * a + i] += (float)dz;
        grads->dbias[i] += (float)dz;
        dvhat[i] += d * t;
    }
}

void culm_ref_bahdanau_backward(const struct culm_ref_bahdanau_grads *grads, const float *dcontext,
                                const struct culm_ref_bahdanau *in, const struct culm_bahdanau *how,
                                double *scratch) {
    double *p = scratch, *dp = scratch + how->s, *dvhat = scratch + 2 * how->s;
    double norm = bahdanau_norm(in, how->a), along = 0;
    clear(grads->dquery, how->b * how->t * how->a);
    clear(grads->dkey, how->b * how->s * how->a);
    clear(grads->dvalue, how->b * how->s * how->c);
    clear(grads->dbias, how->a);
    for (int64_t i = 0; i < how->a; i++) {
        dvhat[i] = 0;
    }
    for (int64_t query = 0; query < how->b * how->t; query++) {
        int64_t key = query / how->t * how->s;
        double mean = 0;
        bahdanau_row(p, in, how, query);
        for (int64_t j = 0; j < how->s; j++) {
            dp[j] = 0;
            for (int64_t i = 0; i < how->c; i++) {
                double dy = (double)dcontext[query * how->c + i];
                dp[j] += dy * (double)in->value[(key + j) * how->c + i];
                grads->dvalue[(key + j) * how->c + i] += (float)(p[j] * dy);
            }
            mean += p[j] * dp[j];
        }
        for (int64_t j = 0; j < how->s; j++) {
            bahdanau_pair(grads, dvhat, in, how->a, norm, query, key + j, p[j] * (dp[j] - mean));
        }
    }
    for (int64_t i = 0; i < how->a; i++) {
        along += dvhat[i] * (double)in->v[i];
    }
    for (int64_t i = 0; i < how->a; i++) {
        grads->dv[i] = (float)((double)in->scale[0] / norm *
                               (dvhat[i] - (double)in->v[i] * along / norm / norm));
    }
    grads->dscale[0] = (float)(along / norm);
}
