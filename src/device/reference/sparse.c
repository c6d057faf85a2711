/* The reference device: graphs and sparse matrices. */
#include "device/reference/internal.h"
#include "tensor/reference_sparse.h"
#include "tensor/reference_vision.h"

#include "base/rng.h"

#include <math.h>

#define KERNEL(name)                                                                               \
    void culm_reference_##name(struct reference *r, const struct culm_##name##_args *a)

/* The elements of a table of rows `ld` apart, as far as the entries name them. */
static int64_t table_size(const struct culm_ref_rows *rows, int64_t f, int64_t ld) {
    int64_t last = 0;
    for (uint64_t e = rows->start[0]; e < rows->start[rows->n]; e++) {
        last = rows->column[e] > last ? rows->column[e] : last;
    }
    return last * ld + f;
}

static struct culm_ref_rows rows_of(int64_t n, const uint64_t *start, const uint32_t *column) {
    return (struct culm_ref_rows){.n = n, .start = start, .column = column};
}

KERNEL(spmm) {
    struct culm_ref_rows rows = rows_of(a->n, a->start, a->column);
    float *y = culm_reference_floats(r, a->n * a->f);
    for (int64_t i = 0; i < a->n * a->f; i++) {
        y[i] = culm_reference_load(culm_in_of(a->y), i / a->f * a->ldy + i % a->f);
    }
    const struct culm_ref_kept kept = {.bits = a->kept,
                                       .at = a->kept_at,
                                       .scale = a->kept_scale,
                                       .words = a->kept_words,
                                       .weight = a->kept_weight,
                                       .weight_of_x = a->weight_of_x};
    culm_ref_spmm(y, a->f, culm_reference_get(r, a->x, table_size(&rows, a->f, a->ldx)), a->ldx,
                  &rows, a->value, a->entry, a->scale, a->f, a->heads ? a->heads : 1, a->add,
                  a->kept || a->kept_words ? &kept : NULL);
    for (int64_t i = 0; i < a->n * a->f; i++) {
        culm_reference_store(a->y, i / a->f * a->ldy + i % a->f, y[i]);
    }
}

KERNEL(sddmm) {
    struct culm_ref_rows rows = rows_of(a->n, a->start, a->column);
    culm_ref_sddmm(a->value, culm_reference_get(r, a->a, (a->n - 1) * a->lda + a->f), a->lda,
                   culm_reference_get(r, a->b, table_size(&rows, a->f, a->ldb)), a->ldb, &rows,
                   a->f, a->heads);
}

KERNEL(edge_softmax_forward) {
    struct culm_ref_rows rows = rows_of(a->n, a->start, a->column);
    (void)r;
    culm_ref_edge_softmax_forward(a->alpha, a->largest, a->sum, a->s, a->t, &rows, a->heads,
                                  a->slope);
}

KERNEL(edge_softmax_backward) {
    struct culm_ref_rows rows = rows_of(a->n, a->start, a->column);
    (void)r;
    culm_ref_edge_softmax_backward(a->dscore, a->ds, a->alpha, a->dalpha, a->s, a->t, &rows,
                                   a->heads, a->slope);
}

KERNEL(edge_sum) {
    (void)r;
    culm_ref_edge_sum(a->y, a->x, a->start, a->entry, a->n, a->heads, a->add);
}

KERNEL(sparse_dropout) {
    struct culm_ref_rows rows = rows_of(a->n, a->start, a->column);
    (void)r;
    if (a->there) {
        culm_ref_sparse_dropout_words(a->kept_words, a->turned_words, a->there, a->n, a->columns,
                                      a->dropout);
    } else {
        culm_ref_sparse_dropout(a->kept, &rows, a->dropout);
    }
}

KERNEL(edge_dropout) {
    struct culm_ref_rows rows = rows_of(a->n, a->start, a->column);
    (void)r;
    culm_ref_edge_dropout(a->y, a->x, &rows, a->column_id, a->heads, a->dropout);
}

/* What dropout makes of a one at (reader's id, own id), head h. */
static double kept(const struct culm_dropout *dropout, uint64_t reader, uint64_t own, int64_t h) {
    if (!dropout) {
        return 1;
    }
    struct culm_rng_block block = culm_rng(dropout->key, reader << 32 | own, (uint64_t)(h / 8));
    uint32_t bits = block.word[h / 2 % 4] >> (h % 2 * 16) & 0xFFFF;
    return bits < (uint32_t)(dropout->p * 65536.0 + 0.5) ? 0 : 1 / (1 - dropout->p);
}

KERNEL(attend_forward) {
    struct culm_ref_rows rows = rows_of(a->n, a->start, a->column);
    const float *x = culm_reference_get(r, a->x, table_size(&rows, a->f, a->ldx));
    int64_t width = a->f / a->heads;
    for (int64_t i = 0; i < a->n * a->heads; i++) {
        int64_t row = i / a->heads, h = i % a->heads;
        double top = -INFINITY, sum = 0, slopes = 0;
        float *y = a->y + row * a->ldy + h * width;
        float *beside = a->beside ? a->beside + row * a->ldb + h * width : NULL;
        for (int64_t f = 0; f < width; f++) {
            y[f] = 0;
            if (beside) {
                beside[f] = 0;
            }
        }
        for (int pass = 0; pass < 3; pass++) {
            for (uint64_t e = a->start[row]; e < a->start[row + 1]; e++) {
                uint32_t to = a->column[e];
                double z = (double)a->s[i] + (double)a->t[to * a->heads + h];
                double slope = z > 0 ? 1 : a->slope, alpha = exp(z * slope - top) / sum;
                top = pass == 0 ? fmax(top, z * slope) : top;
                sum += pass == 1 ? exp(z * slope - top) : 0;
                slopes += pass == 2 ? alpha * slope : 0;
                for (int64_t f = 0; f < width && pass == 2; f++) {
                    double by =
                        alpha * (a->dropout ? kept(a->dropout, culm_dropout_sample(a->dropout, row),
                                                   a->column_id ? a->column_id[to] : to, h)
                                            : 1);
                    double one = (double)x[to * a->ldx + h * width + f];
                    y[f] = (float)((double)y[f] + by * one);
                    if (beside) {
                        beside[f] = (float)((double)beside[f] + by * slope * one);
                    }
                }
            }
        }
        if (beside) {
            float *rest = a->beside + row * a->ldb + a->f + h;
            rest[0] = (float)slopes;
            rest[a->heads] = (float)(top + log(sum));
        }
    }
}

KERNEL(attend_backward) {
    struct culm_ref_rows rows = rows_of(a->n, a->start, a->column);
    const float *x = culm_reference_get(r, a->x, (a->n - 1) * a->ldx + a->f);
    const float *dy = culm_reference_get(r, a->dy, table_size(&rows, a->f, a->ldd));
    int64_t width = a->f / a->heads;
    for (int64_t i = 0; i < a->n * a->heads; i++) {
        int64_t row = i / a->heads, h = i % a->heads;
        float *y = a->y + row * a->ldy + h * width;
        double dt = 0;
        for (int64_t f = 0; f < width; f++) {
            y[f] = 0;
        }
        for (uint64_t e = a->start[row]; e < a->start[row + 1]; e++) {
            uint32_t to = a->column[e];
            const float *reader = a->reader + to * 3 * a->heads + h;
            double z = (double)reader[0] + (double)a->t[i], slope = z > 0 ? 1 : a->slope, dot = 0;
            double alpha = exp(z * slope - (double)reader[a->heads]);
            double by = a->dropout ? kept(a->dropout, a->column_id ? a->column_id[to] : to,
                                          culm_dropout_sample(a->dropout, row), h)
                                   : 1;
            for (int64_t f = 0; f < width; f++) {
                double one = (double)dy[to * a->ldd + h * width + f];
                dot += (double)x[row * a->ldx + h * width + f] * one;
                y[f] = (float)((double)y[f] + alpha * by * one);
            }
            dt += alpha * slope * (by * dot - (double)reader[2 * a->heads]);
        }
        a->dt[row * a->ldt + h] = (float)dt;
    }
}

KERNEL(argmax) { culm_ref_argmax(a->index, culm_reference_get(r, a->x, a->n * a->c), a->n, a->c); }

/* --- rows of a layer --- */

static int64_t kept_words(int64_t c) { return (c + 31) / 32; }

static bool keeps(const uint32_t *kept, int64_t c, int64_t row, int64_t column) {
    return !kept || (kept[row * kept_words(c) + column / 32] >> column % 32 & 1);
}

static void keep(uint32_t *kept, const struct culm_dropout *dropout, int64_t n, int64_t c) {
    for (int64_t i = 0; i < n * kept_words(c) && dropout; i++) {
        kept[i] = 0;
    }
    for (int64_t i = 0; i < n * c && dropout; i++) {
        bool drops = culm_dropout_drops(dropout, i / c, i % c);
        kept[i / c * kept_words(c) + i % c / 32] |= (uint32_t)!drops << i % c % 32;
    }
}

KERNEL(heads_forward) {
    int64_t width = a->c / a->heads, row = a->c + 2 * a->heads;
    const float *all = culm_reference_get(r, a->t, a->n * a->c);
    float *made = culm_reference_put(r, a->y, a->n * row);
    keep(a->kept, a->dropout, a->n, a->c);
    for (int64_t i = 0; i < a->n; i++) {
        const float *t = all + i * a->c;
        float *y = made + i * row;
        for (int64_t k = 0; k < a->c; k++) {
            double scale = a->dropout ? 1 / (1 - a->dropout->p) : 1;
            bool kept = keeps(a->dropout ? a->kept : NULL, a->c, i, k);
            y[k] = kept ? (float)((double)t[k] * scale) : 0;
        }
        for (int64_t h = 0; h < 2 * a->heads; h++) {
            const float *by = h < a->heads ? a->a : a->b;
            double sum = 0;
            for (int64_t k = h % a->heads * width; k < (h % a->heads + 1) * width; k++) {
                sum += (double)t[k] * (double)by[k];
            }
            y[a->c + h] = (float)sum;
        }
    }
}

KERNEL(heads_backward) {
    int64_t width = a->c / a->heads, row = a->c + 2 * a->heads;
    const float *t = culm_reference_get(r, a->t, a->n * a->c);
    const float *all = culm_reference_get(r, a->dy, a->n * row);
    float *dt = culm_reference_put(r, a->dt, a->n * a->c);
    for (int64_t k = 0; k < a->c; k++) {
        double da = a->first ? 0 : (double)a->da[k], db = a->first ? 0 : (double)a->db[k];
        for (int64_t i = 0; i < a->n; i++) {
            const float *dy = all + i * row;
            double to_a = (double)dy[a->c + k / width];
            double to_b = (double)dy[a->c + a->heads + k / width];
            double d = keeps(a->kept, a->c, i, k) ? (double)dy[k] / (a->kept ? 1 - a->p : 1) : 0;
            da += to_a * (double)t[i * a->c + k];
            db += to_b * (double)t[i * a->c + k];
            dt[i * a->c + k] = (float)(d + to_a * (double)a->a[k] + to_b * (double)a->b[k]);
        }
        a->da[k] = (float)da;
        a->db[k] = (float)db;
    }
}

KERNEL(hidden_forward) {
    bool result = culm_function_keeps_output(a->function, a->alpha);
    const float *all = culm_reference_get(r, a->x, (a->n - 1) * a->ldx + a->c);
    float *made = culm_reference_put(r, a->y, a->n * a->c);
    float *saved = culm_reference_put(r, a->saved, a->n * a->c);
    keep(a->kept, a->dropout, a->n, a->c);
    for (int64_t i = 0; i < a->n * a->c; i++) {
        int64_t row = i / a->c, k = i % a->c;
        float x = all[row * a->ldx + k] + (a->bias ? a->bias[k] : 0), y;
        double scale = a->dropout ? 1 / (1 - a->dropout->p) : 1;
        culm_ref_activation_forward(&y, &x, 1, a->function, a->alpha);
        if (saved) {
            saved[i] = result ? y : x;
        }
        bool kept = keeps(a->dropout ? a->kept : NULL, a->c, row, k);
        made[i] = kept ? (float)((double)y * scale) : 0;
    }
}

KERNEL(hidden_backward) {
    const float *dy = culm_reference_get(r, a->dy, a->n * a->c);
    const float *saved = culm_reference_get(r, a->saved, a->n * a->c);
    float *made = culm_reference_put(r, a->dx, a->n * a->ldx);
    for (int64_t k = 0; k < a->ldx; k++) {
        double sum = a->first || !a->dbias || k >= a->c ? 0 : (double)a->dbias[k];
        for (int64_t i = 0; i < a->n; i++) {
            float d = 0, dx = 0;
            if (k < a->c && keeps(a->kept, a->c, i, k)) {
                d = (float)((double)dy[i * a->c + k] / (a->kept ? 1 - a->p : 1));
            }
            if (k < a->c) {
                culm_ref_activation_backward(&dx, &d, &saved[i * a->c + k], 1, a->function,
                                             a->alpha);
            }
            made[i * a->ldx + k] = dx;
            sum += (double)dx;
        }
        if (a->dbias && k < a->c) {
            a->dbias[k] = (float)sum;
        }
    }
}
