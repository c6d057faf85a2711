/* Reference kernels of graphs and sparse matrices. See reference_sparse.h. */
#include "tensor/reference_sparse.h"

#include "base/rng.h"

#include <math.h>

/* What dropout makes of a one. */
static double left(const struct culm_ref_kept *kept, const struct culm_ref_rows *rows, int64_t row,
                   uint64_t e) {
    uint64_t bit = kept->at ? kept->at[e] : e;
    if (kept->words) {
        uint32_t column = rows->column[e];
        double weight =
            kept->weight ? (double)kept->weight[kept->weight_of_x ? (int64_t)column : row] : 1;
        return kept->words[column / 64 * rows->n + row] >> column % 64 & 1
                   ? weight * (double)kept->scale
                   : 0;
    }
    return kept->bits[bit / 32] >> (bit % 32) & 1 ? (double)kept->scale : 0;
}

void culm_ref_spmm(float *y, int64_t ldy, const float *x, int64_t ldx,
                   const struct culm_ref_rows *rows, const float *value, const uint64_t *entry,
                   const float *scale, int64_t f, int64_t heads, bool add,
                   const struct culm_ref_kept *kept) {
    for (int64_t r = 0; r < rows->n; r++) {
        for (int64_t i = 0; i < f; i++) {
            int64_t head = i / (f / heads);
            double sum = 0;
            for (uint64_t e = rows->start[r]; e < rows->start[r + 1]; e++) {
                uint64_t at = (entry ? entry[e] : e) * (uint64_t)heads + (uint64_t)head;
                double by = value ? (double)value[at] : 1;
                by = kept ? by * left(kept, rows, r, e) : by;
                sum += kept && by == 0 ? 0 : by * (double)x[rows->column[e] * ldx + i];
            }
            sum = scale ? (double)scale[r] * sum : sum;
            y[r * ldy + i] = (float)(add ? (double)y[r * ldy + i] + sum : sum);
        }
    }
}

void culm_ref_sddmm(float *value, const float *a, int64_t lda, const float *b, int64_t ldb,
                    const struct culm_ref_rows *rows, int64_t f, int64_t heads) {
    int64_t width = f / heads;
    for (int64_t r = 0; r < rows->n; r++) {
        for (uint64_t e = rows->start[r]; e < rows->start[r + 1]; e++) {
            for (int64_t h = 0; h < heads; h++) {
                double sum = 0;
                for (int64_t i = h * width; i < (h + 1) * width; i++) {
                    sum += (double)a[r * lda + i] * (double)b[rows->column[e] * ldb + i];
                }
                value[e * (uint64_t)heads + (uint64_t)h] = (float)sum;
            }
        }
    }
}

static double score_of(const float *s, const float *t, const struct culm_ref_rows *rows, int64_t r,
                       uint64_t e, int64_t h, int64_t heads, double slope) {
    double z = (double)s[r * heads + h] + (double)t[rows->column[e] * heads + h];
    return z < 0 ? slope * z : z;
}

void culm_ref_edge_softmax_forward(float *alpha, float *largest, float *sum, const float *s,
                                   const float *t, const struct culm_ref_rows *rows, int64_t heads,
                                   double slope) {
    for (int64_t r = 0; r < rows->n; r++) {
        for (int64_t h = 0; h < heads; h++) {
            double top = -INFINITY, total = 0;
            for (uint64_t e = rows->start[r]; e < rows->start[r + 1]; e++) {
                top = fmax(top, score_of(s, t, rows, r, e, h, heads, slope));
            }
            for (uint64_t e = rows->start[r]; e < rows->start[r + 1]; e++) {
                total += exp(score_of(s, t, rows, r, e, h, heads, slope) - top);
            }
            for (uint64_t e = rows->start[r]; e < rows->start[r + 1]; e++) {
                alpha[e * (uint64_t)heads + (uint64_t)h] =
                    (float)(exp(score_of(s, t, rows, r, e, h, heads, slope) - top) / total);
            }
            if (largest) {
                largest[r * heads + h] = (float)top;
            }
            if (sum) {
                sum[r * heads + h] = (float)total;
            }
        }
    }
}

void culm_ref_edge_softmax_backward(float *dscore, float *ds, const float *alpha,
                                    const float *dalpha, const float *s, const float *t,
                                    const struct culm_ref_rows *rows, int64_t heads, double slope) {
    for (int64_t r = 0; r < rows->n; r++) {
        for (int64_t h = 0; h < heads; h++) {
            double dot = 0, total = 0;
            for (uint64_t e = rows->start[r]; e < rows->start[r + 1]; e++) {
                uint64_t at = e * (uint64_t)heads + (uint64_t)h;
                dot += (double)alpha[at] * (double)dalpha[at];
            }
            for (uint64_t e = rows->start[r]; e < rows->start[r + 1]; e++) {
                uint64_t at = e * (uint64_t)heads + (uint64_t)h;
                double z = (double)s[r * heads + h] + (double)t[rows->column[e] * heads + h];
                double d = (double)alpha[at] * ((double)dalpha[at] - dot) * (z > 0 ? 1 : slope);
                dscore[at] = (float)d;
                total += d;
            }
            ds[r * heads + h] = (float)total;
        }
    }
}

void culm_ref_edge_sum(float *y, const float *x, const uint64_t *start, const uint64_t *entry,
                       int64_t n, int64_t heads, bool add) {
    for (int64_t r = 0; r < n; r++) {
        for (int64_t h = 0; h < heads; h++) {
            double sum = add ? (double)y[r * heads + h] : 0;
            for (uint64_t e = start[r]; e < start[r + 1]; e++) {
                sum += (double)x[entry[e] * (uint64_t)heads + (uint64_t)h];
            }
            y[r * heads + h] = (float)sum;
        }
    }
}

void culm_ref_sparse_dropout_words(uint64_t *kept, uint64_t *turned, const uint64_t *there,
                                   int64_t n, int64_t columns, const struct culm_dropout *dropout) {
    for (int64_t i = 0; turned && i < (n + 63) / 64 * columns; i++) {
        turned[i] = 0;
    }
    for (int64_t r = 0; r < n; r++) {
        for (int64_t c = 0; c < columns; c++) {
            uint64_t *word = &kept[c / 64 * n + r];
            *word = c % 64 ? *word : there[c / 64 * n + r];
            if (culm_dropout_drops(dropout, r, c)) {
                *word &= ~(UINT64_C(1) << c % 64);
            }
            if (turned && *word >> c % 64 & 1) {
                turned[r / 64 * columns + c] |= UINT64_C(1) << r % 64;
            }
        }
    }
}

void culm_ref_sparse_dropout(uint32_t *kept, const struct culm_ref_rows *rows,
                             const struct culm_dropout *dropout) {
    for (int64_t r = 0; r < rows->n; r++) {
        for (uint64_t e = rows->start[r]; e < rows->start[r + 1]; e++) {
            uint32_t bit = 1u << e % 32;
            bool drop = culm_dropout_drops(dropout, r, rows->column[e]);
            kept[e / 32] = drop ? kept[e / 32] & ~bit : kept[e / 32] | bit;
        }
    }
}

void culm_ref_edge_dropout(float *y, const float *x, const struct culm_ref_rows *rows,
                           const uint32_t *column_id, int64_t heads,
                           const struct culm_dropout *dropout) {
    for (int64_t r = 0; r < rows->n; r++) {
        for (uint64_t e = rows->start[r]; e < rows->start[r + 1]; e++) {
            uint64_t to = rows->column[e];
            uint64_t id = culm_dropout_sample(dropout, r) << 32 | (column_id ? column_id[to] : to);
            for (int64_t h = 0; h < heads; h++) {
                struct culm_rng_block block = culm_rng(dropout->key, id, (uint64_t)(h / 8));
                uint32_t bits = block.word[h / 2 % 4] >> (h % 2 * 16) & 0xFFFF;
                uint64_t at = e * (uint64_t)heads + (uint64_t)h;
                bool drop = bits < (uint32_t)(dropout->p * 65536.0 + 0.5);
                y[at] = drop ? 0 : (float)((double)x[at] / (1 - dropout->p));
            }
        }
    }
}

void culm_ref_argmax(int32_t *index, const float *x, int64_t n, int64_t c) {
    for (int64_t r = 0; r < n; r++) {
        index[r] = 0;
        for (int64_t i = 1; i < c; i++) {
            index[r] = x[r * c + i] > x[r * c + index[r]] ? (int32_t)i : index[r];
        }
    }
}
