/*
 * Depthwise convolution: every channel has a filter of its own, so there is nothing to multiply
 * matrices of. Channels are the lanes.
 *
 * Bits: an element of y or dx is a chain of fused multiply-adds over the taps in the order ky, kx
 * (from the bias, or from zero). A weight's gradient is a chain over the pixels of each line of an
 * image, added in order of images and lines.
 *
 * How it is done: some pixels of a line at a time, whose chains are independent and stay in
 * registers, each tap's filter read once for all of them; where a tap falls off the image, pixel by
 * pixel. The last pixels of a line are done with some that were done already. Channels that do not fill
 * their vectors are taken as those of several pixels side by side, with filters that are repeated. Backward data with stride s is that for each remainder of the pixels by s, which sees taps
 * and pixels of dy that are evenly spaced. The weights' gradient keeps the sums of several taps
 * of one line in registers.
 */
#include "device/cpu/conv.h"
#include "device/cpu/functions.h"
#include "device/cpu/variant.h"

#define PIXELS (SIMD_WIDE ? 8 : 4) /* at a time */
#define GROUP 16                   /* blocks of channels: one tile of the weights' gradient */
#define SIDE_FLOATS 512            /* at most, of pixels side by side */

struct depthwise {
    const struct culm_conv *v;
    struct culm_cpu *cpu;
    struct culm_out to;
    struct culm_in from, dy;
    const float *w, *b, *turned; /* NULL: each line turns the filters itself */
    int64_t side; /* pixels side by side that fill their vectors; 1: no more than that */
    float *dw;
    bool first;
    int64_t group;
};

/* The weights [C][taps], read as [taps][16] for one block of channels; zeros for those beyond C, or the
 * first ones again. */
static void turn_filter(float *to, const float *w, int64_t taps, int64_t first, int64_t channels,
                        bool again) {
    for (int64_t c = first; c < first + LANES; c++, to++) {
        for (int64_t tap = 0; tap < taps; tap++) {
            to[tap * LANES] = c < channels || again ? w[c % channels * taps + tap] : 0.0f;
        }
    }
}

static void turn_block(void *context, int64_t block, int thread) {
    const struct depthwise *d = context;
    int64_t taps = d->v->kh * d->v->kw, c = block * LANES;
    (void)thread;
    turn_filter(cpu_shared(d->cpu) + c * taps, d->w, taps, c, d->v->c, d->side > 1);
}

static void turn_all(struct depthwise *d) {
    int64_t c = d->v->c, taps = d->v->kh * d->v->kw;
    d->side = 1;
    while (c * d->side % LANES && c * d->side < SIDE_FLOATS) {
        d->side++;
    }
    if (c * d->side % LANES || c * d->side > SIDE_FLOATS || d->b || d->v->stride[1] > 1 ||
        d->from.dtype == CULM_BF16 || d->dy.dtype == CULM_BF16 || d->to.dtype == CULM_BF16) {
        d->side = 1;
    }
    int64_t blocks = ceil_div(c * d->side, LANES);
    if (blocks * LANES * taps <= SHARED_FLOATS) {
        culm_cpu_run(d->cpu, blocks, turn_block, d);
        d->turned = cpu_shared(d->cpu);
    }
}

/* Evenly spaced pixels of one line that is written, and what they read. */
struct line {
    struct culm_in from;
    struct culm_out to;
    int64_t c, to_at, to_step;   /* the first element of pixel 0; from one pixel to the next */
    int64_t pixels, width;       /* of the line; of the lines that are read */
    int64_t rows, taps;          /* lines, and taps on each: */
    int64_t origin, step;        /* what tap 0 of pixel 0 reads, tap 0 of the next; */
    int64_t tap_step;            /* the next tap */
    int64_t filter, filter_step; /* tap 0 of a row; from one tap to the next */
    int64_t low, high;           /* pixels of which every tap is on the image */
    int64_t row_at[CULM_CPU_CONV_TAPS], row_filter[CULM_CPU_CONV_TAPS];
};

static int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -ceil_div(-a, b); }

/* Pixels [low, high) of which taps 0 to taps - 1 are on the image. */
static void find_inside(struct line *l) {
    int64_t reach = (l->taps - 1) * l->tap_step;
    int64_t least = l->origin + (reach < 0 ? reach : 0), most = l->origin + (reach > 0 ? reach : 0);
    l->low = at_most(l->pixels, at_least(0, ceil_div(at_least(0, -least), l->step)));
    l->high = at_most(l->pixels, floor_div(l->width - 1 - most, l->step) + 1);
    l->high = at_least(l->low, l->high);
}

/* What is done at once: `count` times `side` pixels from `pixel` on, taps [first, end) of each. */
struct some {
    int64_t pixel, side, first, end;
};

/* One block of channels, of which there are `left`. */
SIMD void some_pixels(const struct line *l, const int count, const struct some *some, int64_t c,
                      int64_t left, const float *filter, vec start, const enum culm_dtype type,
                      const bool whole) {
    vec sum[PIXELS];
    int64_t step = some->side * l->step * l->c, to_step = some->side * l->to_step;
    struct culm_in from = {l->from.data, type == CULM_DTYPE_COUNT ? l->from.dtype : type};
    struct culm_out to = {l->to.data, type == CULM_DTYPE_COUNT ? l->to.dtype : type};
    left = whole ? LANES : left;
    for (int p = 0; p < count; p++) {
        sum[p] = start;
    }
    for (int64_t row = 0; row < l->rows; row++) {
        int64_t x = l->origin + some->pixel * l->step + some->first * l->tap_step;
        int64_t at = l->row_at[row] + x * l->c + c;
        const float *f =
            filter + (l->row_filter[row] + l->filter + some->first * l->filter_step) * LANES;
        for (int64_t tap = some->first; tap < some->end; tap++) {
            vec w = vload(f);
#pragma GCC unroll 8
            for (int p = 0; p < count; p++) {
                sum[p] = vfma(tload_part(from, at + p * step, left), w, sum[p]);
            }
            at += l->tap_step * l->c;
            f += l->filter_step * LANES;
        }
    }
#pragma GCC unroll 8
    for (int p = 0; p < count; p++) {
        tstore_part(to, l->to_at + some->pixel * l->to_step + p * to_step + c, sum[p], left);
    }
}

/* The same for all channels. */
SIMD void all_channels(const struct depthwise *d, const struct line *l, const int count,
                       struct some some, float *own, const enum culm_dtype type) {
    int64_t taps = d->v->kh * d->v->kw, channels = l->c * some.side;
    for (int64_t c = 0; c < channels; c += LANES) {
        int64_t left = channels - c;
        vec start = d->b ? load_part(d->b + c, left) : vzero();
        const float *filter = d->turned + c * taps;
        if (!d->turned) {
            turn_filter(own, d->w, taps, c, l->c, false);
            filter = own;
        }
        if (left >= LANES) {
            some_pixels(l, count, &some, c, left, filter, start, type, true);
        } else {
            some_pixels(l, count, &some, c, left, filter, start, type, false);
        }
    }
}

/* Pixels of which every tap is on the image, as many at once as there are: at least `count` times
 * `side`. */
SIMD void pixels_inside(const struct depthwise *d, const struct line *l, const int count,
                        int64_t side, float *own, const enum culm_dtype type) {
    for (int64_t pixel = l->low; pixel < l->high; pixel += count * side) {
        struct some some = {at_most(pixel, l->high - count * side), side, 0, l->taps};
        all_channels(d, l, count, some, own, type);
    }
}

/* Pixels [from, to), some of whose taps may be off the image. */
SIMD void pixels_outside(const struct depthwise *d, const struct line *l, int64_t from, int64_t to,
                         float *own, const enum culm_dtype type) {
    for (int64_t pixel = from; pixel < to; pixel++) {
        int64_t first = 0, x = l->origin + pixel * l->step, end = l->taps;
        while (first < end &&
               (x + first * l->tap_step < 0 || x + first * l->tap_step >= l->width)) {
            first++;
        }
        while (end > first &&
               (x + (end - 1) * l->tap_step < 0 || x + (end - 1) * l->tap_step >= l->width)) {
            end--;
        }
        all_channels(d, l, 1, (struct some){pixel, 1, first, end}, own, type);
    }
}

SIMD void line_of_type(const struct depthwise *d, const struct line *l, float *own,
                       const enum culm_dtype type) {
    const int64_t inside = l->high - l->low, side = inside >= d->side ? d->side : 1;
    pixels_outside(d, l, 0, l->low, own, type);
    if (inside >= PIXELS * side) {
        pixels_inside(d, l, PIXELS, side, own, type);
    } else if (inside >= PIXELS / 2 * side) {
        pixels_inside(d, l, PIXELS / 2, side, own, type);
    } else {
        pixels_inside(d, l, 1, side, own, type);
    }
    pixels_outside(d, l, l->high, l->pixels, own, type);
}

static void run_line(const struct depthwise *d, struct line *l, int thread) {
    float *own = cpu_private(d->cpu, thread);
    bool same = SPECIAL && l->from.dtype == l->to.dtype;
    find_inside(l);
    if (same && l->from.dtype == CULM_F32) {
        line_of_type(d, l, own, CULM_F32);
    } else if (same) {
        line_of_type(d, l, own, CULM_BF16);
    } else {
        line_of_type(d, l, own, CULM_DTYPE_COUNT);
    }
}

/* One line of y. */
static void forward_line(void *context, int64_t line, int thread) {
    const struct depthwise *d = context;
    const struct culm_conv *v = d->v;
    int64_t n = line / v->oh, oy = line % v->oh;
    struct line l = {.from = d->from,
                     .to = d->to,
                     .c = v->c,
                     .to_at = line * v->ow * v->c,
                     .to_step = v->c,
                     .pixels = v->ow,
                     .width = v->w,
                     .taps = v->kw,
                     .origin = -v->pad[1],
                     .step = v->stride[1],
                     .tap_step = v->dilation[1],
                     .filter_step = 1};
    for (int64_t ky = 0; ky < v->kh; ky++) {
        int64_t iy = oy * v->stride[0] + ky * v->dilation[0] - v->pad[0];
        if (iy < 0 || iy >= v->h) {
            continue;
        }
        l.row_at[l.rows] = (n * v->h + iy) * v->w * v->c;
        l.row_filter[l.rows++] = ky * v->kw;
    }
    run_line(d, &l, thread);
}

/* One line of dx. */
static void data_line(void *context, int64_t line, int thread) {
    const struct depthwise *d = context;
    const struct culm_conv *v = d->v;
    int64_t n = line / v->h, iy = line % v->h, s = v->stride[1];
    struct line l = {
        .from = d->dy, .to = d->to, .c = v->c, .to_step = s * v->c, .width = v->ow, .step = 1};
    for (int64_t ky = 0; ky < v->kh; ky++) {
        int64_t y = iy + v->pad[0] - ky * v->dilation[0], oy = y / v->stride[0];
        if (y < 0 || y % v->stride[0] || oy >= v->oh) {
            continue;
        }
        l.row_at[l.rows] = (n * v->oh + oy) * v->ow * v->c;
        l.row_filter[l.rows++] = ky * v->kw;
    }
    for (int64_t r = 0; r < at_most(s, v->w); r++) {
        int64_t last = -1;
        l.to_at = (line * v->w + r) * v->c;
        l.pixels = (v->w - r + s - 1) / s;
        l.taps = l.origin = l.tap_step = l.filter = l.filter_step = 0;
        for (int64_t kx = 0; kx < v->kw; kx++) {
            if ((r + v->pad[1] - kx * v->dilation[1]) % s) {
                continue;
            }
            if (l.taps == 0) {
                l.filter = kx;
                l.origin = (r + v->pad[1] - kx * v->dilation[1]) / s; /* exact, also below zero */
            } else if (l.taps == 1) {
                l.filter_step = kx - last;
                l.tap_step = -(kx - last) * v->dilation[1] / s;
            }
            last = kx;
            l.taps++;
        }
        run_line(d, &l, thread); /* without taps: zeros */
    }
}

/* ---- the weights' gradient ---- */

/* What a line of dy adds to the sums of `rows` x `count` taps from tap (ky, kx) on, one block of
 * channels: x_at is the element of pixel 0 of the line that the first row reads. */
struct taps {
    int64_t x_at, x_row, dy_at, c, left;
    int64_t kx;
    float *total; /* of tap (ky, 0); kw x 16 floats a row */
};

SIMD void some_taps(const struct depthwise *d, const struct taps *t, const int rows,
                    const int count, const enum culm_dtype type, const bool whole) {
    const struct culm_conv *v = d->v;
    struct culm_in from = {d->from.data, type == CULM_DTYPE_COUNT ? d->from.dtype : type};
    struct culm_in dy = {d->dy.data, type == CULM_DTYPE_COUNT ? d->dy.dtype : type};
    int64_t left = whole ? LANES : t->left, c = v->c;
    int64_t x0 = t->kx * v->dilation[1] - v->pad[1]; /* what the first tap of pixel 0 reads */
    int64_t reach = (count - 1) * v->dilation[1];
    int64_t low = at_most(v->ow, ceil_div(at_least(0, -x0), v->stride[1]));
    int64_t high =
        at_least(low, at_most(v->ow, floor_div(v->w - 1 - reach - x0, v->stride[1]) + 1));
    vec sum[5][7];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int k = 0; k < count; k++) {
            sum[r][k] = vzero();
        }
    for (int64_t ox = 0; ox < v->ow; ox++) {
        int64_t x = x0 + ox * v->stride[1], at = t->x_at + x * c;
        vec g = tload_part(dy, t->dy_at + ox * c, left);
        if (type == CULM_F32) { /* no processor sees that the next line is read next */
            __builtin_prefetch((const float *)dy.data + t->dy_at + (ox + v->ow) * c);
            __builtin_prefetch((const float *)from.data + at + rows * t->x_row);
        }
        if (ox >= low && ox < high) {
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
                for (int k = 0; k < count; k++) {
                    sum[r][k] =
                        vfma(tload_part(from, at + r * t->x_row + k * v->dilation[1] * c, left), g,
                             sum[r][k]);
                }
            continue;
        }
#pragma GCC unroll 8
        for (int k = 0; k < count; k++) {
            int64_t ix = x + k * v->dilation[1];
            if (ix < 0 || ix >= v->w) {
                continue;
            }
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++) {
                sum[r][k] = vfma(tload_part(from, at + r * t->x_row + k * v->dilation[1] * c, left),
                                 g, sum[r][k]);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int k = 0; k < count; k++) {
            float *total = t->total + (r * v->kw + t->kx + k) * LANES;
            vstore(total, vadd(vload(total), sum[r][k]));
        }
}

/* One line of dy and one block of channels. */
SIMD void weight_line(const struct depthwise *d, int64_t line, int64_t c, float *total,
                      const enum culm_dtype type, const bool whole) {
    const struct culm_conv *v = d->v;
    int64_t n = line / v->oh, top = line % v->oh * v->stride[0] - v->pad[0];
    struct taps t = {.x_row = v->dilation[0] * v->w * v->c,
                     .dy_at = line * v->ow * v->c + c,
                     .c = c,
                     .left = v->c - c};
    for (int64_t ky = 0; ky < v->kh; ky++) {
        int64_t iy = top + ky * v->dilation[0];
        if (iy < 0 || iy >= v->h) {
            continue;
        }
        t.x_at = (n * v->h + iy) * v->w * v->c + c;
        t.total = total + ky * v->kw * LANES;
        if (SIMD_WIDE && v->kw == 3 && ky + 3 <= v->kh && iy + 2 * v->dilation[0] < v->h) {
            t.kx = 0;
            some_taps(d, &t, 3, 3, type, whole);
            ky += 2;
            continue;
        }
        for (t.kx = 0; t.kx < v->kw;) {
            int64_t more = v->kw - t.kx;
            if (more >= 7) {
                some_taps(d, &t, 1, 7, type, whole);
                t.kx += 7;
            } else if (more >= 5) {
                some_taps(d, &t, 1, 5, type, whole);
                t.kx += 5;
            } else if (more >= 3) {
                some_taps(d, &t, 1, 3, type, whole);
                t.kx += 3;
            } else {
                some_taps(d, &t, 1, 1, type, whole);
                t.kx += 1;
            }
        }
    }
}

/* All taps of some blocks of channels. */
static void weight_group(void *context, int64_t group, int thread) {
    const struct depthwise *d = context;
    const struct culm_conv *v = d->v;
    int64_t first = group * d->group * LANES, taps = v->kh * v->kw;
    int64_t end = at_most(v->c, first + d->group * LANES);
    float *total = cpu_private(d->cpu, thread);
    bool same = SPECIAL && d->from.dtype == d->dy.dtype;
    memset(total, 0, (size_t)(d->group * taps * LANES) * sizeof *total);
    for (int64_t line = 0; line < v->n * v->oh; line++) {
        for (int64_t c = first; c < end; c += LANES) {
            float *of_block = total + (c - first) * taps;
            const bool whole = v->c - c >= LANES, wide = d->from.dtype == CULM_F32;
            if (!same || (!whole && !wide)) {
                weight_line(d, line, c, of_block, CULM_DTYPE_COUNT, false);
            } else if (wide && whole) {
                weight_line(d, line, c, of_block, CULM_F32, true);
            } else if (wide) {
                weight_line(d, line, c, of_block, CULM_F32, false);
            } else {
                weight_line(d, line, c, of_block, CULM_BF16, true);
            }
        }
    }
    for (int64_t c = first; c < end; c++) {
        for (int64_t tap = 0; tap < taps; tap++) {
            float *to = d->dw + c * taps + tap;
            float sum = total[((c - first) / LANES * taps + tap) * LANES + (c - first) % LANES];
            *to = d->first ? sum : *to + sum;
        }
    }
}

void ISA_NAME(conv_depthwise_forward)(struct culm_cpu *cpu, const struct culm_conv *v,
                                      struct culm_out y, struct culm_in x, const float *w,
                                      const float *b) {
    struct depthwise d = {.v = v, .cpu = cpu, .to = y, .from = x, .w = w, .b = b};
    turn_all(&d);
    culm_cpu_run(cpu, v->n * v->oh, forward_line, &d);
}

void ISA_NAME(conv_depthwise_backward_data)(struct culm_cpu *cpu, const struct culm_conv *v,
                                            struct culm_out dx, struct culm_in dy, const float *w) {
    struct depthwise d = {.v = v, .cpu = cpu, .to = dx, .dy = dy, .w = w};
    turn_all(&d);
    culm_cpu_run(cpu, v->n * v->h, data_line, &d);
}

void ISA_NAME(conv_depthwise_backward_weight)(struct culm_cpu *cpu, const struct culm_conv *v,
                                              float *dw, struct culm_in x, struct culm_in dy,
                                              bool first) {
    struct depthwise d = {.v = v, .cpu = cpu, .from = x, .dy = dy, .dw = dw, .first = first};
    int64_t blocks = ceil_div(v->c, LANES);
    d.group = at_least(1, at_most(GROUP, cpu->threads > 1 ? blocks / (2 * cpu->threads) : blocks));
    culm_cpu_run(cpu, ceil_div(blocks, d.group), weight_group, &d);
}
