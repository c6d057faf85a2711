/*
 * Pooling of images [N,H,W,C]: largest element, mean, and means of windows that follow from the
 * sizes alone.
 *
 * Forward goes over outputs; a tile is some rows of them, and a strip of channels where rows are
 * long. Backward goes over inputs, which gather from their windows in order, so that no two threads
 * write one element and no sum is cut. A maximum is found again by its place in the window. Where nobody
 * asks for places: maxpool_separable.c.
 */
#include "device/cpu/pool2d.h"
#include "device/cpu/functions.h"

#include <assert.h>

#define STRIP 256         /* channels; a multiple of LANES */
#define TILE_LOADS 65536  /* about how many elements a tile reads */
#define OUTSIDE INT64_MAX /* no tap of this window is there */

struct pooling {
    struct culm_window window;
    struct culm_in in, index; /* x or dy */
    struct culm_out out, index_out;
    int64_t rows, tile_rows, strips;
};

/* The windows [*ret_from, return value) that may hold element i. */
static int64_t windows_of(const struct culm_window *p, int d, int64_t i, int64_t *ret_from) {
    if (p->adaptive) {
        *ret_from = i * p->out[d] / p->in[d];
        return ceil_div((i + 1) * p->out[d], p->in[d]);
    }
    int64_t low = i + p->pad[d] - (p->kernel[d] - 1) * p->dilation[d];
    *ret_from = low > 0 ? ceil_div(low, p->stride[d]) : 0;
    return at_most(p->out[d], (i + p->pad[d]) / p->stride[d] + 1);
}

/* Which tap of window o element i is. */
static int64_t tap_of(const struct culm_window *p, int d, int64_t i, int64_t o) {
    int64_t off = i + p->pad[d] - o * p->stride[d];
    return off % p->dilation[d] ? OUTSIDE : off / p->dilation[d];
}

/* Rows of `row` elements, of which each takes `loads` loads. */
static void run(struct culm_cpu *cpu, struct pooling *s, int64_t rows, int64_t row, int64_t loads,
                culm_cpu_tile *tile) {
    int64_t cost = row * s->window.c * at_most(loads, TILE_LOADS);
    s->rows = rows;
    s->tile_rows = at_least(1, TILE_LOADS / cost);
    s->tile_rows = at_least(s->tile_rows, ceil_div(rows, 1 << 20));
    s->strips = cost > TILE_LOADS ? ceil_div(s->window.c, STRIP) : 1;
    culm_cpu_run(cpu, ceil_div(rows, s->tile_rows) * s->strips, tile, s);
}

struct span {
    int64_t row, row_end, c, c_end;
};

static struct span span_of(const struct pooling *s, int64_t tile) {
    int64_t strip = tile % s->strips, group = tile / s->strips;
    struct span span = {.row = group * s->tile_rows, .c = 0, .c_end = s->window.c};
    span.row_end = at_most(s->rows, span.row + s->tile_rows);
    if (s->strips > 1) {
        span.c = strip * STRIP;
        span.c_end = at_most(s->window.c, span.c + STRIP);
    }
    return span;
}

/* ---- forward ---- */

#define TOGETHER 4 /* vectors: one alone waits for each comparison */

/* `vectors` vectors of channels from c on of one window; x and y begin at the image and at the output. */
SIMD void max_vectors(const struct pooling *s, int64_t c, int64_t c_end, struct taps h,
                      struct taps w, struct culm_in in, struct culm_out out, struct culm_out index,
                      int64_t x, int64_t y, const int vectors) {
    const struct culm_window *p = &s->window;
    vec best[TOGETHER], place[TOGETHER];
#pragma GCC unroll 4
    for (int k = 0; k < vectors; k++) {
        best[k] = vset(-INFINITY);
        place[k] = vset(-1.0f);
    }
    for (int64_t i = 0; i < h.count; i++) {
        for (int64_t j = 0; j < w.count; j++) {
            int64_t at = (h.start + i * h.step) * p->in[1] + w.start + j * w.step;
            vec here = vset((float)((h.first + i) * p->kernel[1] + w.first + j));
#pragma GCC unroll 4
            for (int k = 0; k < vectors; k++) {
                int64_t n = vectors > 1 ? LANES : c_end - c;
                vec v = tload_part(in, x + at * p->c + c + k * LANES, n);
                mask better = vless(best[k], v);
                bool first = i + j == 0;
                best[k] = first ? v : vselect(better, v, best[k]);
                place[k] = first ? here : vselect(better, here, place[k]);
            }
        }
    }
#pragma GCC unroll 4
    for (int k = 0; k < vectors; k++) {
        int64_t n = vectors > 1 ? LANES : c_end - c;
        tstore_part(out, y + c + k * LANES, best[k], n);
        if (index.data) {
            tstore_part(index, y + c + k * LANES, place[k], n);
        }
    }
}

/* One window, all channels of the span. */
SIMD void max_window(const struct pooling *s, const struct span *span, struct taps h, struct taps w,
                     int64_t x, int64_t y, enum culm_dtype type, enum culm_dtype index_type) {
    struct culm_in in = {s->in.data, type};
    struct culm_out out = {s->out.data, type}, index = {s->index_out.data, index_type};
    int64_t c = span->c;
    if (type == CULM_DTYPE_COUNT) {
        in.dtype = s->in.dtype;
        out.dtype = s->out.dtype;
    }
    for (; SPECIAL && c + TOGETHER * LANES <= span->c_end; c += TOGETHER * LANES) {
        max_vectors(s, c, span->c_end, h, w, in, out, index, x, y, TOGETHER);
    }
    for (; c < span->c_end; c += LANES) {
        max_vectors(s, c, span->c_end, h, w, in, out, index, x, y, 1);
    }
}

static void max_forward_tile(void *context, int64_t tile, int thread) {
    const struct pooling *s = context;
    const struct culm_window *p = &s->window;
    (void)thread;
    struct span span = span_of(s, tile);
    enum culm_dtype places = s->index_out.dtype;
    for (int64_t row = span.row; row < span.row_end; row++) {
        struct taps h = taps_of(p, 0, row % p->out[0]);
        int64_t x = row / p->out[0] * p->in[0] * p->in[1] * p->c;
        for (int64_t o = 0; o < p->out[1]; o++) {
            struct taps w = taps_of(p, 1, o);
            int64_t y = (row * p->out[1] + o) * p->c;
            if (!SPECIAL || s->in.dtype != s->out.dtype) {
                max_window(s, &span, h, w, x, y, CULM_DTYPE_COUNT, places);
            } else if (s->in.dtype == CULM_F32) {
                max_window(s, &span, h, w, x, y, CULM_F32, places);
            } else {
                max_window(s, &span, h, w, x, y, CULM_BF16, places);
            }
        }
    }
}

SIMD void mean_window(const struct pooling *s, const struct span *span, struct taps h,
                      struct taps w, int64_t x, int64_t y, enum culm_dtype type) {
    const struct culm_window *p = &s->window;
    struct culm_in in = {s->in.data, type};
    struct culm_out out = {s->out.data, type};
    if (type == CULM_DTYPE_COUNT) {
        in.dtype = s->in.dtype;
        out.dtype = s->out.dtype;
    }
    vec divisor = vset((float)(h.divisor * w.divisor));
    for (int64_t c = span->c; c < span->c_end; c += LANES) {
        int64_t n = span->c_end - c;
        vec sum = vzero();
        for (int64_t i = 0; i < h.count; i++) {
            for (int64_t j = 0; j < w.count; j++) {
                int64_t at = (h.start + i * h.step) * p->in[1] + w.start + j * w.step;
                sum = vadd(sum, tload_part(in, x + at * p->c + c, n));
            }
        }
        tstore_part(out, y + c, vdiv(sum, divisor), n);
    }
}

static void mean_forward_tile(void *context, int64_t tile, int thread) {
    const struct pooling *s = context;
    const struct culm_window *p = &s->window;
    (void)thread;
    struct span span = span_of(s, tile);
    for (int64_t row = span.row; row < span.row_end; row++) {
        struct taps h = taps_of(p, 0, row % p->out[0]);
        int64_t x = row / p->out[0] * p->in[0] * p->in[1] * p->c;
        for (int64_t o = 0; o < p->out[1]; o++) {
            struct taps w = taps_of(p, 1, o);
            int64_t y = (row * p->out[1] + o) * p->c;
            if (!SPECIAL || s->in.dtype != s->out.dtype) {
                mean_window(s, &span, h, w, x, y, CULM_DTYPE_COUNT);
            } else if (s->in.dtype == CULM_F32) {
                mean_window(s, &span, h, w, x, y, CULM_F32);
            } else {
                mean_window(s, &span, h, w, x, y, CULM_BF16);
            }
        }
    }
}

static int64_t window_loads(const struct culm_window *p) {
    if (p->adaptive) {
        return ceil_div(p->in[0], p->out[0]) * ceil_div(p->in[1], p->out[1]);
    }
    return p->kernel[0] * p->kernel[1];
}

void ISA_NAME(maxpool_forward)(struct culm_cpu *cpu, const struct culm_maxpool_forward_args *args) {
    assert(!args->window->adaptive);
    if (!args->index.data && ISA_NAME(maxpool_separable)(cpu, args)) {
        return;
    }
    struct pooling s = {
        .window = *args->window, .in = args->x, .out = args->y, .index_out = args->index};
    run(cpu, &s, args->window->n * args->window->out[0], args->window->out[1],
        window_loads(args->window), max_forward_tile);
}

void ISA_NAME(avgpool_forward)(struct culm_cpu *cpu, const struct culm_avgpool_forward_args *args) {
    struct pooling s = {.window = *args->window, .in = args->x, .out = args->y};
    run(cpu, &s, args->window->n * args->window->out[0], args->window->out[1],
        window_loads(args->window), mean_forward_tile);
}

/* ---- backward ---- */

/* One element of the image: column i of a row whose windows are [oh, oh_end). dy begins at the
 * image. */
SIMD void gather(const struct pooling *s, const struct span *span, int64_t row, int64_t i,
                 int64_t oh, int64_t oh_end, bool largest, enum culm_dtype type) {
    const struct culm_window *p = &s->window;
    struct culm_in dy = {s->in.data, type}, index = s->index;
    struct culm_out dx = {s->out.data, type};
    if (type == CULM_DTYPE_COUNT) {
        dy.dtype = s->in.dtype;
        dx.dtype = s->out.dtype;
    }
    int64_t image = row / p->in[0], ih = row % p->in[0];
    int64_t ow, ow_end = windows_of(p, 1, i, &ow);
    for (int64_t c = span->c; c < span->c_end; c += LANES) {
        int64_t n = span->c_end - c;
        vec sum = vzero();
        for (int64_t a = oh; a < oh_end; a++) {
            for (int64_t b = ow; b < ow_end; b++) {
                int64_t from = ((image * p->out[0] + a) * p->out[1] + b) * p->c + c;
                vec d = tload_part(dy, from, n);
                if (largest) {
                    int64_t th = tap_of(p, 0, ih, a), tw = tap_of(p, 1, i, b);
                    if (th == OUTSIDE || tw == OUTSIDE) {
                        continue;
                    }
                    vec off =
                        vsub(tload_part(index, from, n), vset((float)(th * p->kernel[1] + tw)));
                    sum = vadd(sum, vselect(vless(vmul(off, off), vset(0.25f)), d, vzero()));
                } else {
                    int64_t divisor = taps_of(p, 0, a).divisor * taps_of(p, 1, b).divisor;
                    sum = vfma(d, vset(1.0f / (float)divisor), sum);
                }
            }
        }
        tstore_part(dx, (row * p->in[1] + i) * p->c + c, sum, n);
    }
}

SIMD void backward(const struct pooling *s, int64_t tile, bool largest) {
    const struct culm_window *p = &s->window;
    struct span span = span_of(s, tile);
    for (int64_t row = span.row; row < span.row_end; row++) {
        int64_t oh, oh_end = windows_of(p, 0, row % p->in[0], &oh);
        for (int64_t i = 0; i < p->in[1]; i++) {
            if (!SPECIAL || s->in.dtype != s->out.dtype) {
                gather(s, &span, row, i, oh, oh_end, largest, CULM_DTYPE_COUNT);
            } else if (s->in.dtype == CULM_F32) {
                gather(s, &span, row, i, oh, oh_end, largest, CULM_F32);
            } else {
                gather(s, &span, row, i, oh, oh_end, largest, CULM_BF16);
            }
        }
    }
}

static void max_backward_tile(void *context, int64_t tile, int thread) {
    (void)thread;
    backward(context, tile, true);
}

static void mean_backward_tile(void *context, int64_t tile, int thread) {
    (void)thread;
    backward(context, tile, false);
}

void ISA_NAME(maxpool_backward)(struct culm_cpu *cpu,
                                const struct culm_maxpool_backward_args *args) {
    struct pooling s = {
        .window = *args->window, .in = args->dy, .out = args->dx, .index = args->index};
    run(cpu, &s, args->window->n * args->window->in[0], args->window->in[1], 2, max_backward_tile);
}

void ISA_NAME(avgpool_backward)(struct culm_cpu *cpu,
                                const struct culm_avgpool_backward_args *args) {
    struct pooling s = {.window = *args->window, .in = args->dy, .out = args->dx};
    run(cpu, &s, args->window->n * args->window->in[0], args->window->in[1], 2, mean_backward_tile);
}
