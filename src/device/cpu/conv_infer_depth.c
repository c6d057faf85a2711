/*
 * Convolution for inference, one channel in and out a group: channels are the lanes.
 *
 * An element is a chain over the taps inside of the image, in order of ky, kx; those outside are left
 * out. See conv_infer.c for what follows.
 *
 * How it is done: LINES lines of y by some pixels stay in registers. Each line of x is read once for all
 * of them, each of its pixels once for all taps that it is of; taps are taken line by line and from left
 * to right, so every chain keeps its order. Squares of 3 and 5 have loops of their own, with pixels outside
 * and channels inside: what is read lies together. Other filters go line by line, vector by vector. Where
 * vectors are pairs, most squares of 3 go another way: conv_infer_depth3.c.
 */
#include "device/cpu/conv_infer.h"

#include <assert.h>

/* Of the squares: pixels by lines by a step of channels, so that sums and a line of weights stay in
 * registers. */
#if SIMD_WIDE || SIMD_LOW
#define PIXELS 8
#else
#define PIXELS 4
#endif
#define LINES (SIMD_WIDE ? 2 : 1)
#define ANY_PIXELS (SIMD_WIDE ? 8 : 4) /* of other filters */
#define STEP (SIMD_LOW ? SIMD_LOW : LANES)
#define STEP_ALL (SIMD_LOW ? SIMD_HALF : SIMD_ALL)
#define STEP_SOME (SIMD_LOW ? SIMD_HALF_SOME : SIMD_SOME)
#define SIZES 5                  /* filters with loops of their own are at most so high and wide */
#define TALL (LINES - 1 + SIZES) /* lines of x that they read */

struct depth {
    const struct infer *s;
    int64_t low, high;    /* pixels [low, high) of a line have all their taps inside of it */
    int64_t lines;        /* of a task, at most */
    int64_t groups;       /* of lines, of an image */
    int64_t parts, width; /* of the channels */
};

/* --- any filter --- */

/* `count` pixels of a line, one block of channels, taps [first, end) of each row of the kernel. */
SIMD void depth_pixels(const struct infer *s, const float *const *row, const int64_t *filter,
                       int64_t rows, const int count, int64_t x, int64_t first, int64_t end,
                       int64_t at, int64_t c, int64_t left, const enum simd_lanes lanes) {
    const struct culm_conv *v = s->v;
    const int64_t channels = v->c, step = v->stride[1] * channels;
    vec sum[ANY_PIXELS];
#pragma GCC unroll 16
    for (int p = 0; p < count; p++) {
        sum[p] = vzero();
    }
    for (int64_t i = 0; i < rows; i++) {
        const float *from = row[i] + (x + first * v->dilation[1]) * channels + c;
        const float *w = s->a->w + (filter[i] + first) * channels + c;
        for (int64_t tap = first; tap < end; tap++) {
            vec weights = vload_lanes(w, left, lanes);
#pragma GCC unroll 16
            for (int p = 0; p < count; p++) {
                const float *one = from + p * step;
                sum[p] = vfma(vload_lanes(one, left, lanes), weights, sum[p]);
            }
            from += v->dilation[1] * channels;
            w += channels;
        }
    }
    emit_chosen(s, sum, count, at, channels, c, left, lanes);
}

SIMD void depth_block(const struct infer *s, const float *const *row, const int64_t *filter,
                      int64_t rows, int64_t line, int64_t c, int64_t low, int64_t high,
                      const enum simd_lanes lanes) {
    const struct culm_conv *v = s->v;
    int64_t left = v->c - c;
    for (int64_t pixel = 0; pixel < v->ow;) {
        int64_t x = pixel * v->stride[1] - v->pad[1], at = (line * v->ow + pixel) * v->c;
        if (pixel >= low && pixel + ANY_PIXELS <= high) {
            depth_pixels(s, row, filter, rows, ANY_PIXELS, x, 0, v->kw, at, c, left, lanes);
            pixel += ANY_PIXELS;
            continue;
        }
        if (pixel >= low && pixel + ANY_PIXELS / 2 <= high) {
            depth_pixels(s, row, filter, rows, ANY_PIXELS / 2, x, 0, v->kw, at, c, left, lanes);
            pixel += ANY_PIXELS / 2;
            continue;
        }
        int64_t first = 0, end = v->kw;
        while (first < end && x + first * v->dilation[1] < 0) {
            first++;
        }
        while (end > first && x + (end - 1) * v->dilation[1] >= v->w) {
            end--;
        }
        depth_pixels(s, row, filter, rows, 1, x, first, end, at, c, left, lanes);
        pixel++;
    }
}

/* One line of y. */
static void depth_line(void *context, int64_t line, int thread) {
    const struct depth *d = context;
    const struct infer *s = d->s;
    const struct culm_conv *v = s->v;
    const float *row[CULM_CPU_CONV_TAPS];
    int64_t filter[CULM_CPU_CONV_TAPS], rows = 0;
    int64_t n = line / v->oh, top = line % v->oh * v->stride[0] - v->pad[0];
    (void)thread;
    for (int64_t ky = 0; ky < v->kh; ky++) {
        int64_t y = top + ky * v->dilation[0];
        if (y >= 0 && y < v->h) {
            row[rows] = s->a->x + (n * v->h + y) * v->w * v->c;
            filter[rows++] = ky * v->kw;
        }
    }
    for (int64_t c = 0; c < v->c; c += LANES) {
        if (v->c - c >= LANES) {
            depth_block(s, row, filter, rows, line, c, d->low, d->high, SIMD_ALL);
        } else {
            depth_block(s, row, filter, rows, line, c, d->low, d->high, SIMD_SOME);
        }
    }
}

/* --- squares of 3 and 5 --- */

/* What a group of lines of y is made from. */
struct lines {
    const float *row[TALL]; /* lines of x; NULL: outside */
    int64_t count;          /* of y */
    int64_t begin, end;     /* channels */
    int64_t at;             /* the first line of y, in pixels of all images */
};

/* `count` lines by `pixels` pixels from `pixel` on, for all channels; of x, columns [low, high) from the
 * first pixel's first tap on are inside. */
SIMD void square(const struct infer *s, const struct lines *l, int64_t pixel, int64_t c,
                 const int size, const int stride, const int count, const int pixels, int low,
                 int high, const bool clipped, const enum simd_lanes lanes) {
    const struct culm_conv *v = s->v;
    const int64_t channels = v->c, left = channels - c;
    const int64_t x = (pixel * stride - v->pad[1]) * channels + c;
    vec sum[LINES][PIXELS];
#pragma GCC unroll 2
    for (int r = 0; r < count; r++)
#pragma GCC unroll 8
        for (int p = 0; p < pixels; p++) {
            sum[r][p] = vzero();
        }
#pragma GCC unroll 8
    for (int i = 0; i < (count - 1) * stride + size; i++) {
        if (!l->row[i]) {
            continue;
        }
        const float *from = l->row[i] + x;
        vec w[LINES][SIZES];
#pragma GCC unroll 2
        for (int r = 0; r < count; r++)
#pragma GCC unroll 8
            for (int kx = 0; kx < size; kx++) {
                int ky = i - r * stride;
                const float *weights = s->a->w + (ky * size + kx) * channels + c;
                if (ky >= 0 && ky < size) {
                    w[r][kx] = vload_lanes(weights, left, lanes);
                }
            }
#pragma GCC unroll 32
        for (int j = 0; j < (pixels - 1) * stride + size; j++, from += channels) {
            if (clipped && (j < low || j >= high)) {
                continue;
            }
            vec one = vload_lanes(from, left, lanes);
#pragma GCC unroll 8
            for (int p = 0; p < pixels; p++) {
                int kx = j - p * stride;
#pragma GCC unroll 2
                for (int r = 0; r < count; r++) {
                    int ky = i - r * stride;
                    if (kx >= 0 && kx < size && ky >= 0 && ky < size) {
                        sum[r][p] = vfma(one, w[r][kx], sum[r][p]);
                    }
                }
            }
        }
    }
#pragma GCC unroll 2
    for (int r = 0; r < count; r++) {
        int64_t at = (l->at + r * v->ow + pixel) * channels;
        if (!clipped || pixel + pixels <= v->ow) {
            emit_chosen(s, sum[r], pixels, at, channels, c, left, lanes);
            continue;
        }
#pragma GCC unroll 8
        for (int p = 0; p < pixels - 1; p++) {
            if (pixel + p < v->ow) {
                emit_chosen(s, sum[r] + p, 1, at + p * channels, channels, c, left, lanes);
            }
        }
    }
}

typedef void square_fn(const struct infer *s, const struct lines *l, int64_t pixel, int low,
                       int high);
#define SQUARE(size, stride, count, pixels, clipped)                                               \
    static void square_##size##_##stride##_##count##_##pixels##_##clipped(                         \
        const struct infer *s, const struct lines *l, int64_t pixel, int low, int high) {          \
        int64_t c = l->begin;                                                                      \
        for (; c + STEP <= l->end; c += STEP) {                                                    \
            square(s, l, pixel, c, size, stride, count, pixels, low, high, clipped, STEP_ALL);     \
        }                                                                                          \
        if (c < l->end) {                                                                          \
            square(s, l, pixel, c, size, stride, count, pixels, low, high, clipped, STEP_SOME);    \
        }                                                                                          \
    }
/* All pixels inside, some at a side, and fewer at a side. */
#define SQUARES(size, stride, count, all, half)                                                    \
    SQUARE(size, stride, count, all, 0)                                                            \
    SQUARE(size, stride, count, all, 1) SQUARE(size, stride, count, half, 1)
#define ROW(size, stride, count, all, half)                                                        \
    {                                                                                              \
        square_##size##_##stride##_##count##_##all##_0,                                            \
            square_##size##_##stride##_##count##_##all##_1,                                        \
            square_##size##_##stride##_##count##_##half##_1                                        \
    }
enum { INSIDE, SIDE, SIDE_HALF };
#if SIMD_WIDE
SQUARES(3, 1, 1, 8, 4)
SQUARES(3, 1, 2, 8, 4)
SQUARES(3, 2, 1, 8, 4)
SQUARES(5, 1, 1, 8, 4)
SQUARES(5, 1, 2, 8, 4)
SQUARES(5, 2, 1, 8, 4)
static square_fn *const squares[2][2][LINES][3] = {
    {{ROW(3, 1, 1, 8, 4), ROW(3, 1, 2, 8, 4)}, {ROW(3, 2, 1, 8, 4)}},
    {{ROW(5, 1, 1, 8, 4), ROW(5, 1, 2, 8, 4)}, {ROW(5, 2, 1, 8, 4)}}}; /* size, stride, lines */
#else
#define NARROW(all, half)                                                                          \
    SQUARES(3, 1, 1, all, half)                                                                    \
    SQUARES(3, 2, 1, all, half)                                                                    \
    SQUARES(5, 1, 1, all, half)                                                                    \
    SQUARES(5, 2, 1, all, half)                                                                    \
    static square_fn *const squares[2][2][LINES][3] = {                                            \
        {{ROW(3, 1, 1, all, half)}, {ROW(3, 2, 1, all, half)}},                                    \
        {{ROW(5, 1, 1, all, half)}, {ROW(5, 2, 1, all, half)}}};
#if SIMD_LOW
NARROW(8, 4)
#else
NARROW(4, 2)
#endif
#endif

/* Some channels of a group of lines of y. */
static void square_lines(void *context, int64_t index, int thread) {
    const struct depth *d = context;
    const struct infer *s = d->s;
    const struct culm_conv *v = s->v;
    int64_t part = index % d->parts, group = index / d->parts;
    int64_t n = group / d->groups, oy = group % d->groups * d->lines;
    int64_t top = oy * v->stride[0] - v->pad[0];
    struct lines l = {.count = at_most(d->lines, v->oh - oy),
                      .begin = part * d->width,
                      .at = (n * v->oh + oy) * v->ow};
    square_fn *const *run = squares[v->kh == 5][v->stride[0] - 1][l.count - 1];
    (void)thread;
    l.end = at_most(v->c, l.begin + d->width);
    for (int64_t i = 0; i < (l.count - 1) * v->stride[0] + v->kh; i++) {
        int64_t y = top + i;
        l.row[i] = y >= 0 && y < v->h ? s->a->x + (n * v->h + y) * v->w * v->c : NULL;
    }
    for (int64_t pixel = 0; pixel < v->ow;) {
        int64_t x = pixel * v->stride[1] - v->pad[1], left = v->ow - pixel;
        int low = (int)at_least(0, -x), high = (int)at_most(v->w - x, 1 << 20);
        bool inside = pixel >= d->low && pixel + PIXELS <= d->high;
        int how = inside ? INSIDE : left > PIXELS / 2 ? SIDE : SIDE_HALF;
        run[how](s, &l, pixel, low, high);
        pixel += how == SIDE_HALF ? PIXELS / 2 : PIXELS;
    }
}

/* --- both --- */

void ISA_NAME(conv_infer_depth)(struct culm_cpu *cpu, const struct infer *s) {
    const struct culm_conv *v = s->v;
    if (ISA_NAME(conv_infer_depth3)(cpu, s)) {
        return;
    }
    struct depth d = {.s = s};
    whole_pixels(v, &d.low, &d.high);
    bool square = (v->kh == 3 || v->kh == 5) && v->kw == v->kh && v->stride[0] <= 2 &&
                  v->stride[1] == v->stride[0] && v->dilation[0] == 1 && v->dilation[1] == 1;
    if (!square) {
        run_tasks(cpu, v->n * v->oh, depth_line, &d);
        return;
    }
    d.lines = v->stride[0] == 1 ? LINES : 1;
    d.groups = ceil_div(v->oh, d.lines);
    int64_t tasks = v->n * d.groups;
    d.parts = channel_parts(cpu, v->c, LANES, tasks, &d.width);
    run_tasks(cpu, tasks * d.parts, square_lines, &d);
}
