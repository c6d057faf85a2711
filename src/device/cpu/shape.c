/*
 * Moving elements: other orders of dimensions, pieces, borders.
 *
 * Nothing is computed; between arrays of two types elements are widened or rounded. Dimensions that
 * stay neighbours are taken as one, so that most permutations are copies of runs or transposes of
 * matrices, the latter in blocks of 16 x 16.
 */
#include "device/cpu/transpose.h"
#include "device/cpu/variant.h"

#include <assert.h>

#define TILE 16384 /* elements, about */
#define SHORT 128  /* elements of a run that is copied faster here than by memcpy */

/* y[i..] = x[j..], n elements. */
SIMD void copy_run(struct culm_out y, int64_t i, struct culm_in x, int64_t j, int64_t n) {
    if (x.dtype == CULM_BF16 && y.dtype == CULM_BF16) {
        memcpy((uint16_t *)y.data + i, (const uint16_t *)x.data + j, (size_t)n * 2);
    } else if (x.dtype == CULM_F32 && y.dtype == CULM_F32 && n <= SHORT) {
        for (int64_t k = 0; k < n; k += LANES) {
            store_part((float *)y.data + i + k, load_part((const float *)x.data + j + k, n - k),
                       n - k);
        }
    } else if (x.dtype != CULM_BF16 && y.dtype != CULM_BF16) {
        memcpy((float *)y.data + i, (const float *)x.data + j, (size_t)n * 4);
    } else {
        for (int64_t k = 0; k < n; k += LANES) {
            tstore_part(y, i + k, tload_part(x, j + k, n - k), n - k);
        }
    }
}

static void fill_run(struct culm_out y, int64_t i, float value, int64_t n) {
    for (int64_t k = 0; k < n; k += LANES) {
        tstore_part(y, i + k, vset(value), n - k);
    }
}

/* ---- permute ---- */

struct permute {
    struct culm_out y;
    struct culm_in x;
    int64_t dim[CULM_MAX_RANK], stride[CULM_MAX_RANK]; /* of y; strides in x */
    int64_t y_stride[CULM_MAX_RANK];
    int rank, run;         /* run: the dimension of y that is contiguous in x */
    int64_t block, blocks; /* of dimension `run`, or of the rows of y */
};

/* Dimensions of y in order, neighbours in both arrays as one, none of size 1. */
static void collapse(struct permute *s, const struct culm_shape *x, const int64_t *order) {
    int64_t stride[CULM_MAX_RANK], step = 1;
    for (int i = x->rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= x->dim[i];
    }
    for (int i = 0; i < x->rank; i++) {
        int64_t dim = x->dim[order[i]], by = stride[order[i]];
        if (dim == 1) {
            continue;
        }
        if (s->rank && s->stride[s->rank - 1] == dim * by) {
            s->dim[s->rank - 1] *= dim;
            s->stride[s->rank - 1] = by;
        } else {
            s->dim[s->rank] = dim;
            s->stride[s->rank++] = by;
        }
    }
    if (!s->rank) {
        s->dim[0] = s->stride[0] = 1;
        s->rank = 1;
    }
    step = 1;
    for (int i = s->rank - 1; i >= 0; i--) {
        s->y_stride[i] = step;
        step *= s->dim[i];
        s->run = s->stride[i] == 1 ? i : s->run;
    }
}

/* Rows of y that lie in one piece in x. */
static void copy_rows_tile(void *context, int64_t tile, int thread) {
    const struct permute *s = context;
    (void)thread;
    int last = s->rank - 1;
    int64_t rows = 1, n = s->dim[last];
    for (int i = 0; i < last; i++) {
        rows *= s->dim[i];
    }
    for (int64_t row = tile * s->block; row < at_most(rows, (tile + 1) * s->block); row++) {
        int64_t rest = row, from = 0;
        for (int i = last - 1; i >= 0; i--) {
            from += rest % s->dim[i] * s->stride[i];
            rest /= s->dim[i];
        }
        copy_run(s->y, row * n, s->x, from, n);
    }
}

/* y[j y_step + i] = x[i x_step + j] for i below rows, j below columns. */
SIMD void transpose(const struct permute *s, int64_t y, int64_t y_step, int64_t x, int64_t x_step,
                    int64_t rows, int64_t columns) {
    bool wide = s->x.dtype != CULM_BF16 && s->y.dtype != CULM_BF16;
    if (wide && rows == LANES && columns == LANES) {
        transpose16((const float *)s->x.data + x, x_step, (float *)s->y.data + y, y_step);
        return;
    }
    for (int64_t j = 0; j < columns; j++) {
        for (int64_t i = 0; i < rows; i++) {
            int64_t to = y + j * y_step + i, from = x + i * x_step + j;
            if (wide) {
                ((uint32_t *)s->y.data)[to] = ((const uint32_t *)s->x.data)[from];
            } else if (s->x.dtype == CULM_BF16 && s->y.dtype == CULM_BF16) {
                ((uint16_t *)s->y.data)[to] = ((const uint16_t *)s->x.data)[from];
            } else if (s->x.dtype == CULM_BF16) {
                ((float *)s->y.data)[to] = bf16_widen(((const uint16_t *)s->x.data)[from]);
            } else {
                ((uint16_t *)s->y.data)[to] = bf16_round(((const float *)s->x.data)[from]);
            }
        }
    }
}

/* A tile: one index of all dimensions but `run` and the last, and a block of `run`. */
static void transpose_tile(void *context, int64_t tile, int thread) {
    const struct permute *s = context;
    (void)thread;
    int last = s->rank - 1;
    int64_t rest = tile / s->blocks, x = 0, y = 0;
    for (int i = last - 1; i >= 0; i--) {
        if (i == s->run) {
            continue;
        }
        x += rest % s->dim[i] * s->stride[i];
        y += rest % s->dim[i] * s->y_stride[i];
        rest /= s->dim[i];
    }
    int64_t from = tile % s->blocks * s->block, to = at_most(s->dim[s->run], from + s->block);
    int64_t step = s->y_stride[s->run];
    for (int64_t j = from; j < to; j += LANES) {
        for (int64_t i = 0; i < s->dim[last]; i += LANES) {
            transpose(s, y + j * step + i, step, x + i * s->stride[last] + j, s->stride[last],
                      at_most(LANES, s->dim[last] - i), at_most(LANES, to - j));
        }
    }
}

void ISA_NAME(permute)(struct culm_cpu *cpu, const struct culm_permute_args *args) {
    struct permute s = {.y = args->y, .x = args->x};
    collapse(&s, args->x_shape, args->order);
    int last = s.rank - 1;
    int64_t count = s.y_stride[0] * s.dim[0];
    if (s.run == last) {
        int64_t rows = count / s.dim[last];
        s.block = at_least(at_least(1, TILE / s.dim[last]), ceil_div(rows, 1 << 20));
        culm_cpu_run(cpu, ceil_div(rows, s.block), copy_rows_tile, &s);
        return;
    }
    int64_t others = count / s.dim[last] / s.dim[s.run];
    s.block = round_up(at_least(LANES, TILE / s.dim[last]), LANES);
    s.blocks = ceil_div(s.dim[s.run], s.block);
    assert(others * s.blocks < 1 << 24);
    culm_cpu_run(cpu, others * s.blocks, transpose_tile, &s);
}

/* ---- borders and pieces: the smaller array is [n][h][w][c], the larger has `pad` around h and w
 * ---- */

struct box {
    struct culm_out y;
    struct culm_in x;
    int64_t n, h, w, c, pad[4]; /* top, left, bottom, right */
    float value;
    int64_t rows, tile_rows;
};

static void pad_tile(void *context, int64_t tile, int thread) {
    const struct box *s = context;
    (void)thread;
    int64_t high = s->pad[0] + s->h + s->pad[2], wide = s->pad[1] + s->w + s->pad[3];
    for (int64_t row = tile * s->tile_rows; row < at_most(s->rows, (tile + 1) * s->tile_rows);
         row++) {
        /* division is slow: of rows of a matrix there is nothing to divide */
        int64_t image = high == 1 ? row : row / high;
        int64_t to = row * wide * s->c, h = row - image * high - s->pad[0];
        if (h < 0 || h >= s->h) {
            fill_run(s->y, to, s->value, wide * s->c);
            continue;
        }
        int64_t n = s->w * s->c, from = (image * s->h + h) * n;
        fill_run(s->y, to, s->value, s->pad[1] * s->c);
        copy_run(s->y, to + s->pad[1] * s->c, s->x, from, n);
        fill_run(s->y, to + s->pad[1] * s->c + n, s->value, s->pad[3] * s->c);
    }
}

static void crop_tile(void *context, int64_t tile, int thread) {
    const struct box *s = context;
    (void)thread;
    int64_t high = s->pad[0] + s->h + s->pad[2], wide = s->pad[1] + s->w + s->pad[3];
    for (int64_t row = tile * s->tile_rows; row < at_most(s->rows, (tile + 1) * s->tile_rows);
         row++) {
        int64_t image = s->h == 1 ? row : row / s->h, h = row - image * s->h;
        int64_t from = (image * high + s->pad[0] + h) * wide + s->pad[1];
        copy_run(s->y, row * s->w * s->c, s->x, from * s->c, s->w * s->c);
    }
}

/* With nothing around w, whole images are runs: one row each, whose elements are rows. */
static void flatten(struct box *s) {
    if (s->pad[1] == 0 && s->pad[3] == 0) {
        s->c *= s->w;
        s->w = s->h;
        s->h = 1;
        s->pad[1] = s->pad[0];
        s->pad[3] = s->pad[2];
        s->pad[0] = s->pad[2] = 0;
    }
}

static void run(struct culm_cpu *cpu, struct box *s, int64_t rows, int64_t row,
                culm_cpu_tile *tile) {
    s->rows = rows;
    s->tile_rows = at_least(at_least(1, TILE / row), ceil_div(rows, 1 << 20));
    culm_cpu_run(cpu, ceil_div(rows, s->tile_rows), tile, s);
}

void ISA_NAME(pad)(struct culm_cpu *cpu, const struct culm_pad_args *args) {
    struct box s = {args->y,
                    args->x,
                    args->n,
                    args->h,
                    args->w,
                    args->c,
                    {args->pad[0], args->pad[1], args->pad[2], args->pad[3]},
                    (float)args->value,
                    0,
                    0};
    flatten(&s);
    run(cpu, &s, s.n * (s.pad[0] + s.h + s.pad[2]), (s.pad[1] + s.w + s.pad[3]) * s.c, pad_tile);
}

void ISA_NAME(crop)(struct culm_cpu *cpu, const struct culm_crop_args *args) {
    struct box s = {args->y,
                    args->x,
                    args->n,
                    args->h,
                    args->w,
                    args->c,
                    {args->pad[0], args->pad[1], args->pad[2], args->pad[3]},
                    0,
                    0,
                    0};
    flatten(&s);
    run(cpu, &s, s.n * s.h, s.w * s.c, crop_tile);
}

/* ---- one part of a concatenation ---- */

struct place {
    struct culm_out y;
    struct culm_in x;
    int64_t rows, row, pitch, offset, tile_rows;
    int64_t parts; /* of a row; 1 unless a tile is one row */
    bool add;
};

/* Some rows, or a part of one. */
static void place_tile(void *context, int64_t tile, int thread) {
    const struct place *s = context;
    (void)thread;
    int64_t first = tile / s->parts * s->tile_rows, part = tile % s->parts * TILE;
    for (int64_t row = first; row < at_most(s->rows, first + s->tile_rows); row++) {
        int64_t to = row * s->pitch + s->offset + part, from = row * s->row + part;
        int64_t count = s->parts == 1 ? s->row : at_most(TILE, s->row - part);
        if (!s->add) {
            copy_run(s->y, to, s->x, from, count);
        }
        for (int64_t i = 0; s->add && i < count; i += LANES) {
            int64_t n = count - i;
            vec sum = vadd(tload_part(culm_in_of(s->y), to + i, n), tload_part(s->x, from + i, n));
            tstore_part(s->y, to + i, sum, n);
        }
    }
}

void ISA_NAME(place)(struct culm_cpu *cpu, const struct culm_place_args *args) {
    struct place s = {args->y,      args->x, args->rows, args->row, args->pitch,
                      args->offset, 0,       1,          args->add};
    s.tile_rows = at_least(at_least(1, TILE / args->row), ceil_div(args->rows, 1 << 20));
    if (s.tile_rows == 1 && args->rows * ceil_div(args->row, TILE) <= 1 << 20) {
        s.parts = ceil_div(args->row, TILE);
    }
    culm_cpu_run(cpu, ceil_div(args->rows, s.tile_rows) * s.parts, place_tile, &s);
}
