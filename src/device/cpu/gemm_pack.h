/*
 * Packing of f32 products: a block of op(A) as groups of MR rows, a panel of op(B) as [k][NR], from
 * f32 operands of any kind. What lies beyond the operand is zero in panels, and unused in groups.
 */
#ifndef CULM_DEVICE_CPU_GEMM_PACK_H
#define CULM_DEVICE_CPU_GEMM_PACK_H

#include "device/cpu/product.h"
#include "device/cpu/tile.h"
#include "device/cpu/transpose.h"

#define K_STRIDE 16 /* packed columns of A^T, per group of MR */
#define GROUP_FLOATS (16 * ROW_STRIDE)
#define LINES 8     /* of A^T, read at once */
#define FAR_ROWS 16 /* of B: asked for this much before they are read */

/* --- op(A): `rows` rows from `row`, k <= 256 terms from k0 --- */

/* Rows stay rows, ROW_STRIDE apart; columns become [k][K_STRIDE]. */
static void pack_a(const struct operand *a, bool trans, float *to, int64_t row, int64_t rows,
                   int64_t k0, int64_t k, float *lines, int64_t most_rows) {
    if (!trans) {
        for (int64_t r = 0; r < rows; r += MR, to += GROUP_FLOATS) {
            operand_read_f32(a, row + r, at_most(MR, rows - r), k0, k, to, ROW_STRIDE);
        }
        return;
    }
    bool direct = a->kind == OPERAND_ROWS;
    for (int64_t i = 0; i < k; i += LINES) {
        int64_t count = at_most(LINES, k - i);
        if (!direct) {
            operand_read_f32(a, k0 + i, count, row, rows, lines, most_rows);
        }
        for (int64_t j = i; j < i + count; j++) {
            const float *from = direct ? (const float *)a->data + (k0 + j) * a->ld + row
                                       : lines + (j - i) * most_rows;
            float *out = to + j * K_STRIDE;
            int64_t r = 0;
            for (; r + MR <= rows; r += MR, out += GROUP_FLOATS) {
                vstore(out, vload_n(from + r, MR));
            }
            if (r < rows) {
                vstore(out, vload_n(from + r, rows - r));
            }
        }
    }
}

/* Lines of memory that the next packing of op(A) will read. */
struct near {
    const char *row; /* NULL: none */
    int64_t bytes, ld_bytes, rows;
    int64_t at; /* in the row */
};

static struct near near_a(const struct operand *a, bool trans, int64_t row, int64_t rows,
                          int64_t k0, int64_t k) {
    if (a->kind != OPERAND_ROWS) {
        return (struct near){.row = NULL};
    }
    int64_t first = trans ? k0 : row, column = trans ? row : k0;
    return (struct near){.row = (const char *)((const float *)a->data + first * a->ld + column),
                         .bytes = (trans ? rows : k) * (int64_t)sizeof(float),
                         .ld_bytes = a->ld * (int64_t)sizeof(float),
                         .rows = trans ? k : rows};
}

static int64_t near_lines(const struct near *near) {
    return near->row ? near->rows * ceil_div(near->bytes, 64) : 0;
}

static void near_fetch(struct near *near, int64_t lines) {
    for (; lines > 0 && near->row && near->rows > 0; lines--) {
        __builtin_prefetch(near->row + near->at, 0, 2);
        near->at += 64;
        if (near->at >= near->bytes) {
            near->at = 0;
            near->row += near->ld_bytes;
            near->rows--;
        }
    }
}

/* --- op(B): a panel of `columns` <= NR columns from `column`, k terms from k0 --- */

static void pack_rows(const struct operand *b, float *to, int64_t k0, int64_t k, int64_t column,
                      int64_t columns) {
    for (int64_t i = 0; i < k; i++, to += NR) {
        for (int v = 0; v < NV; v++) {
            int64_t left = columns - v * LANES;
            const float *from = (const float *)b->data + (k0 + i) * b->ld + column + v * LANES;
            if (left > 0) { /* no processor sees where the next rows are */
                __builtin_prefetch(from + FAR_ROWS * b->ld);
            }
            vstore(to + v * LANES, left > 0 ? load_part(from, left) : vzero());
        }
    }
}

static void pack_transposed(const struct operand *b, float *to, int64_t k0, int64_t k,
                            int64_t column, int64_t columns) {
    float part[16 * 16], turned[16 * 16];
    for (int64_t i = 0; i < k; i += 16) {
        for (int64_t j = 0; j < NR; j += 16) {
            int64_t terms = at_most(16, k - i), count = at_least(0, at_most(16, columns - j));
            if (terms == 16 && count == 16 && b->kind == OPERAND_ROWS) {
                transpose16((const float *)b->data + (column + j) * b->ld + k0 + i, b->ld,
                            to + i * NR + j, NR);
                continue;
            }
            memset(part, 0, sizeof part);
            operand_read_f32(b, column + j, count, k0 + i, terms, part, 16);
            transpose16(part, 16, turned, 16);
            for (int64_t ii = 0; ii < terms; ii++) {
                vstore(to + (i + ii) * NR + j, vload(turned + ii * 16));
            }
        }
    }
}

/* Weights [outer][inner][taps] with all taps in order: a row of memory is all terms of a column, in
 * the order (inner, tap) instead of (tap, inner). */
static bool weights_by_outer(const struct operand *b) {
    const struct weights *w = &b->weights;
    return w->tap_stride[1] == 1 && w->tap_stride[0] == w->taps[1] &&
           w->inner_stride == w->taps[0] * w->taps[1] &&
           w->outer_stride == w->inner * w->inner_stride;
}

static void pack_by_outer(const struct operand *b, float *to, int64_t k0, int64_t k, int64_t column,
                          int64_t columns) {
    const struct weights *w = &b->weights;
    float part[16 * 16], turned[16 * 16];
    int64_t taps = w->taps[0] * w->taps[1], terms = taps * w->inner;
    for (int64_t j = 0; j < NR; j += 16) {
        int64_t count = at_least(0, at_most(16, columns - j)), inner = 0, tap = 0;
        const float *from = (const float *)b->data + (column + j) * w->outer_stride;
        for (int64_t i = 0; i < terms; i += 16, from += 16) {
            int64_t have = at_most(16, terms - i);
            if (count == 16 && have == 16) {
                transpose16(from, w->outer_stride, turned, 16);
            } else {
                for (int64_t c = 0; c < 16; c++) {
                    vstore(part + c * 16,
                           c < count ? load_part(from + c * w->outer_stride, have) : vzero());
                }
                transpose16(part, 16, turned, 16);
            }
            for (int64_t ii = 0; ii < have; ii++) {
                int64_t term = tap * w->inner + inner - k0;
                if (term >= 0 && term < k) {
                    vstore(to + term * NR + j, vload(turned + ii * 16));
                }
                if (++tap == taps) {
                    tap = 0;
                    inner++;
                }
            }
        }
    }
}

/* Weights [inner][outer][taps] of at most 16 taps, some of which may be left out: the taps of
 * sixteen columns lie together. `all`: how many lie in memory. */
static bool weights_by_inner(const struct operand *b) {
    const struct weights *w = &b->weights;
    int64_t last = (w->taps[0] - 1) * w->tap_stride[0] + (w->taps[1] - 1) * w->tap_stride[1];
    return w->outer_stride <= 16 && w->tap_stride[0] >= 0 && w->tap_stride[1] >= 0 &&
           last < w->outer_stride;
}

static void pack_by_inner(const struct operand *b, float *to, int64_t k0, int64_t k, int64_t column,
                          int64_t columns) {
    const struct weights *w = &b->weights;
    float part[16 * 16 + 16] = {0}, turned[16 * 16];
    int64_t taps = w->taps[0] * w->taps[1], all = w->outer_stride;
    int64_t last = (w->taps[0] - 1) * w->tap_stride[0] + (w->taps[1] - 1) * w->tap_stride[1];
    int64_t floats = (columns - 1) * all + last + 1; /* from the first column's first tap */
    if (columns < NR) {
        memset(to, 0, (size_t)(k * NR) * sizeof *to);
    }
    const float *from = (const float *)b->data + column * all;
    for (int64_t inner = 0; inner < w->inner; inner++, from += w->inner_stride) {
        for (int64_t i = 0; i < floats; i += 16) {
            __builtin_prefetch(from + 4 * w->inner_stride + i);
        }
        for (int64_t j = 0; j < columns; j += 16) {
            const float *columns_from = from + j * all;
            int64_t left = (w->inner - 1 - inner) * w->inner_stride + floats; /* of the weights */
            if ((j + 15) * all + 16 > left) {
                for (int64_t i = j * all; i < floats && i < (j + 16) * all; i += LANES) {
                    vstore(part + i - j * all, load_part(from + i, floats - i));
                }
                columns_from = part;
            }
            if (taps > 2) {
                transpose16(columns_from, all, turned, 16);
            }
            for (int64_t tap = 0; tap < taps; tap++) {
                int64_t term = tap * w->inner + inner - k0;
                int64_t at =
                    tap / w->taps[1] * w->tap_stride[0] + tap % w->taps[1] * w->tap_stride[1];
                if (term < 0 || term >= k) {
                    continue;
                }
                float *out = to + term * NR + j;
                if (taps > 2) {
                    vstore(out, vload(turned + at * 16));
                } else {
                    for (int64_t c = 0; c < 16; c++) {
                        out[c] = columns_from[c * all + at];
                    }
                }
            }
        }
    }
}

static void pack_b(const struct operand *b, bool trans, float *to, int64_t k0, int64_t k,
                   int64_t column, int64_t columns) {
    if (trans) {
        pack_transposed(b, to, k0, k, column, columns);
    } else if (b->kind == OPERAND_ROWS) {
        pack_rows(b, to, k0, k, column, columns);
    } else if (b->kind == OPERAND_WEIGHTS && weights_by_outer(b)) {
        pack_by_outer(b, to, k0, k, column, columns);
    } else if (b->kind == OPERAND_WEIGHTS && weights_by_inner(b)) {
        pack_by_inner(b, to, k0, k, column, columns);
    } else {
        if (columns < NR) {
            memset(to, 0, (size_t)(k * NR) * sizeof *to);
        }
        operand_read_f32(b, k0, k, column, columns, to, NR);
    }
}

#endif
