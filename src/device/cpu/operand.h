/*
 * Operands of matrix products: matrices that are read through a description, so that the product
 * knows nothing of images.
 *
 *     ROWS      element (i, j) is data[i ld + j]
 *     PATCHES   row i is a pixel (image, line, pixel) of a grid, column j is (tap y, tap x,
 *               channel): the element of an NHWC image that this tap of a convolution sees from
 *               that pixel, zero outside the image ("im2col", never stored)
 *     WEIGHTS   row i is (tap y, tap x, inner), column j is `outer`: the convolution's weights
 *               [O,I,kh,kw], read through strides, so that inner and outer may be input or output
 *               channels and the taps may run backwards or skip some
 *
 * Elements are f32 or bf16 in memory. operand_read_f32 and operand_read_bf16 copy any rectangle of
 * an operand into rows of f32 or bf16; that is all that a product needs for packing.
 */
#ifndef CULM_DEVICE_CPU_OPERAND_H
#define CULM_DEVICE_CPU_OPERAND_H

#include "device/cpu/internal.h"
#include "device/cpu/simd.h"

enum operand_kind { OPERAND_ROWS, OPERAND_PATCHES, OPERAND_WEIGHTS };

struct patches {
    int64_t lines, pixels; /* of the grid of one image: rows are images x lines x pixels */
    int64_t taps[2];       /* y, x */
    int64_t channels;      /* of one tap: columns are taps[0] x taps[1] x channels */
    int64_t height, width; /* of the image that is read; */
    int64_t ld;            /* elements between its pixels, at least channels */
    int64_t origin[2];     /* what tap 0 of pixel 0 reads: y, x */
    int64_t step[2];       /* from one line, one pixel of the grid to the next */
    int64_t tap_step[2];   /* from one tap to the next; may be negative */
};

struct weights {
    int64_t taps[2], inner;                            /* rows are taps[0] x taps[1] x inner */
    int64_t tap_stride[2], inner_stride, outer_stride; /* in elements, from data; may be negative */
};

struct operand {
    enum operand_kind kind;
    enum culm_dtype dtype; /* f32 or bf16 */
    const void *data;      /* PATCHES: the first image's first channel of this group */
    int64_t ld;            /* ROWS */
    union {
        struct patches patches;
        struct weights weights;
    };
};

SIMD struct operand operand_rows(struct culm_in data, int64_t ld) {
    return (struct operand){.kind = OPERAND_ROWS, .dtype = data.dtype, .data = data.data, .ld = ld};
}

/* A run of elements of either type. */
SIMD void operand_copy_f32(float *to, const void *from, enum culm_dtype dtype, int64_t at,
                           int64_t count) {
    struct culm_in in = {from, dtype};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        vstore(to + i, tload(in, at + i));
    }
    if (i < count) {
        vstore_n(to + i, tload_part(in, at + i, count - i), count - i);
    }
}

SIMD void operand_copy_bf16(uint16_t *to, const void *from, enum culm_dtype dtype, int64_t at,
                            int64_t count) {
    if (dtype == CULM_BF16) {
        memcpy(to, (const uint16_t *)from + at, (size_t)count * sizeof *to);
        return;
    }
    struct culm_out out = {to, CULM_BF16};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        tstore(out, i, vload((const float *)from + at + i));
    }
    if (i < count) {
        tstore_part(out, i, vload_n((const float *)from + at + i, count - i), count - i);
    }
}

/* Elements first .. first + count - 1 of a run of x, of which those in [low, high) exist; the
 * others are zero. */
SIMD void operand_run(const struct operand *x, int64_t first, int64_t count, int64_t low,
                      int64_t high, void *to, bool half) {
    int64_t before = at_most(count, at_least(0, low - first));
    int64_t end = at_least(before, at_most(count, high - first));
    size_t bytes = half ? sizeof(uint16_t) : sizeof(float);
    char *out = to;
    if (before) {
        memset(out, 0, (size_t)before * bytes);
    }
    if (end > before && half) {
        operand_copy_bf16((uint16_t *)to + before, x->data, x->dtype, first + before, end - before);
    } else if (end > before) {
        operand_copy_f32((float *)to + before, x->data, x->dtype, first + before, end - before);
    }
    if (count > end) {
        memset(out + (size_t)end * bytes, 0, (size_t)(count - end) * bytes);
    }
}

/* Rows of patches: columns column .. column + columns - 1 of each, as f32 or (half) bf16, `stride`
 * elements apart. Taps beside each other in memory are one run. */
SIMD void operand_patches(const struct operand *x, int64_t row, int64_t rows, int64_t column,
                          int64_t columns, void *to, int64_t stride, bool half) {
    const struct patches *p = &x->patches;
    int64_t pixel = row % p->pixels, line = row / p->pixels % p->lines;
    int64_t image = row / p->pixels / p->lines;
    bool merged = p->tap_step[1] == 1 && p->ld == p->channels;
    int64_t run = merged ? p->taps[1] * p->channels : p->channels;
    int64_t runs = merged ? 1 : p->taps[1], step = merged ? 0 : p->tap_step[1];
    int64_t first_tap = column / run, first_offset = column - first_tap * run;
    int64_t first_y = first_tap / runs, first_x = first_tap - first_y * runs;
    char *out = to;
    for (int64_t i = 0; i < rows; i++) {
        int64_t x0 = p->origin[1] + pixel * p->step[1];
        int64_t y = p->origin[0] + line * p->step[0] + first_y * p->tap_step[0];
        int64_t tap_x = first_x, offset = first_offset;
        for (int64_t done = 0; done < columns;) {
            int64_t count = at_most(run - offset, columns - done), sx = x0 + tap_x * step;
            int64_t start = (image * p->height + y) * p->width * p->ld; /* of the line */
            int64_t first = start + sx * p->ld + offset, low = start;
            int64_t high = start + p->width * p->ld;
            if (y < 0 || y >= p->height || (!merged && (sx < 0 || sx >= p->width))) {
                high = low = first;
            }
            if (!half && x->dtype == CULM_F32 && first >= low && first + count <= high) {
                const float *from = (const float *)x->data + first;
                float *f32 = (float *)(void *)out + done;
                int64_t j = 0;
                for (; j + LANES <= count; j += LANES) {
                    vstore(f32 + j, vload(from + j));
                }
                if (j < count) {
                    vstore_n(f32 + j, vload_n(from + j, count - j), count - j);
                }
            } else {
                operand_run(x, first, count, low, high, out + (size_t)done * (half ? 2 : 4), half);
            }
            done += count;
            offset = 0;
            if (++tap_x == runs) {
                tap_x = 0;
                y += p->tap_step[0];
            }
        }
        out += stride * (half ? 2 : 4);
        if (++pixel == p->pixels) {
            pixel = 0;
            if (++line == p->lines) {
                line = 0;
                image++;
            }
        }
    }
}

SIMD float operand_element(const struct operand *x, int64_t at) {
    return x->dtype == CULM_BF16 ? bf16_widen(((const uint16_t *)x->data)[at])
                                 : ((const float *)x->data)[at];
}

/* Where a row of the weights starts. */
SIMD int64_t operand_weight_row(const struct weights *w, int64_t row) {
    int64_t tap = row / w->inner, inner = row - tap * w->inner;
    return tap / w->taps[1] * w->tap_stride[0] + tap % w->taps[1] * w->tap_stride[1] +
           inner * w->inner_stride;
}

/* to[i][j] (rows `stride` elements apart) = element (row + i, column + j), for i < rows and
 * j < columns, all inside the operand. */
static __attribute__((unused)) void operand_read_f32(const struct operand *x, int64_t row,
                                                     int64_t rows, int64_t column, int64_t columns,
                                                     float *to, int64_t stride) {
    if (x->kind == OPERAND_PATCHES) {
        operand_patches(x, row, rows, column, columns, to, stride, false);
        return;
    }
    for (int64_t i = 0; i < rows; i++, to += stride) {
        if (x->kind == OPERAND_ROWS) {
            operand_copy_f32(to, x->data, x->dtype, (row + i) * x->ld + column, columns);
        } else {
            int64_t at = operand_weight_row(&x->weights, row + i);
            for (int64_t j = 0; j < columns; j++) {
                to[j] = operand_element(x, at + (column + j) * x->weights.outer_stride);
            }
        }
    }
}

/* The same, rounded to nearest even where memory holds f32. */
static __attribute__((unused)) void operand_read_bf16(const struct operand *x, int64_t row,
                                                      int64_t rows, int64_t column, int64_t columns,
                                                      uint16_t *to, int64_t stride) {
    if (x->kind == OPERAND_PATCHES) {
        operand_patches(x, row, rows, column, columns, to, stride, true);
        return;
    }
    for (int64_t i = 0; i < rows; i++, to += stride) {
        if (x->kind == OPERAND_ROWS) {
            operand_copy_bf16(to, x->data, x->dtype, (row + i) * x->ld + column, columns);
        } else {
            int64_t at = operand_weight_row(&x->weights, row + i);
            for (int64_t j = 0; j < columns; j++) {
                int64_t e = at + (column + j) * x->weights.outer_stride;
                to[j] = x->dtype == CULM_BF16 ? ((const uint16_t *)x->data)[e]
                                              : bf16_round(((const float *)x->data)[e]);
            }
        }
    }
}

/*
 * Where a product goes: rows of `ld` elements, or (GRID) the pixels of an image, of which row i is
 * (image, line, pixel) of a grid that may leave some out.
 */
enum result_kind { RESULT_ROWS, RESULT_GRID };

struct result {
    enum result_kind kind;
    struct culm_out out;
    int64_t ld;            /* elements between rows, or between pixels */
    int64_t lines, pixels; /* GRID: of one image; */
    int64_t height, width; /* of the image that is written */
    int64_t origin[2], step[2];
};

/* The first element of a row. */
SIMD int64_t result_row(const struct result *r, int64_t row) {
    if (r->kind == RESULT_ROWS) {
        return row * r->ld;
    }
    int64_t pixel = row % r->pixels, line = row / r->pixels % r->lines;
    int64_t image = row / r->pixels / r->lines;
    int64_t y = r->origin[0] + line * r->step[0], x = r->origin[1] + pixel * r->step[1];
    return ((image * r->height + y) * r->width + x) * r->ld;
}

#endif
