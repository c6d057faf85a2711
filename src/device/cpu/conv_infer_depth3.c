/*
 * Depthwise 3x3 for inference where vectors are pairs: half a vector of channels at a time, whose nine rows
 * of weights stay in registers while the pixels of a line pass.
 *
 * Bits: as in conv_infer_depth.c; taps outside of the image are left out.
 *
 * Why: a pixel is nine multiply-adds with memory, what follows them, and nothing else. Where pixels stay
 * in registers and weights pass (conv_infer_depth.c), a processor has one and a half times as much to do.
 *
 * How it is done: a few channels of some pixels of all lines of a task, line by line, so that what a line
 * reads is in the first-level cache for the two after it.
 */
#include "device/cpu/conv_infer.h"

#if SIMD_LOW

#define COLUMNS 40  /* of x that are read at a time, about, */
#define CHANNELS 32 /* and channels of them: 15 KiB in three lines */
#define LINES 16    /* of a task, at most */

struct depth {
    const struct infer *s;
    int64_t low, high;     /* pixels [low, high) of a line have all columns of the kernel inside */
    int64_t strip;         /* pixels of a line that pass at a time, at most */
    int64_t lines, groups; /* of a task, at most; groups of lines, of an image */
    int64_t parts, width;  /* of the channels */
};

/* Some pixels of a line of y. */
struct line {
    const float *row[3]; /* what column 0 of the kernel reads for the first pixel; NULL: outside */
    float *y;
    int64_t count;       /* pixels that have all columns inside */
    bool before, behind; /* another one before and behind them, which lacks a column */
};

/* One pixel from rows [top, bottom) and columns [left, right) of the kernel. */
SIMD void one(const float *const row[3], int64_t channels, vec w[3][3], const struct norm norm,
              const struct activation activation, const int top, const int bottom, const int left,
              const int right, const int function, float *y) {
    vec sum = vzero();
#pragma GCC unroll 3
    for (int i = top; i < bottom; i++) {
#pragma GCC unroll 3
        for (int j = left; j < right; j++) {
            sum = vfma(vload_low(row[i] + j * channels), w[i][j], sum);
        }
    }
    vstore_lanes(y, activated(activation, normed(norm, sum), function), SIMD_LOW, SIMD_HALF);
}

/* A line, channels from `c` on, by rows [top, bottom) of the kernel. */
SIMD void pass(const struct infer *s, const struct line *l, int64_t c, const int top,
               const int bottom, const int function) {
    const int64_t channels = s->v->c, step = s->v->stride[1] * channels, count = l->count;
    const struct norm norm = norm_of(s, c);
    const struct activation activation = activation_of(s);
    const float *row[3];
    float *y = l->y + c;
    vec w[3][3];
#pragma GCC unroll 3
    for (int i = top; i < bottom; i++) {
        row[i] = l->row[i] + c;
#pragma GCC unroll 3
        for (int j = 0; j < 3; j++) {
            w[i][j] = vload_low(s->a->w + (i * 3 + j) * channels + c);
        }
    }
    if (l->before) {
        one(row, channels, w, norm, activation, top, bottom, 1, 3, function, y);
        y += channels;
#pragma GCC unroll 3
        for (int i = top; i < bottom; i++) {
            row[i] += step;
        }
    }
    for (int64_t p = 0; p < count; p++, y += channels) {
        one(row, channels, w, norm, activation, top, bottom, 0, 3, function, y);
#pragma GCC unroll 3
        for (int i = top; i < bottom; i++) {
            row[i] += step;
        }
    }
    if (l->behind) {
        one(row, channels, w, norm, activation, top, bottom, 0, 2, function, y);
    }
}

#define PASS(name, top, bottom)                                                                    \
    static __attribute__((noinline)) void name(const struct infer *s, const struct line *l,        \
                                               int64_t c) {                                        \
        switch (s->a->function) {                                                                  \
        case CULM_FUNCTION_RELU: pass(s, l, c, top, bottom, CULM_FUNCTION_RELU); return;           \
        case CULM_FUNCTION_LEAKY_RELU: pass(s, l, c, top, bottom, CULM_FUNCTION_LEAKY_RELU);       \
            return;                                                                                \
        case CULM_FUNCTION_RELU6: pass(s, l, c, top, bottom, CULM_FUNCTION_RELU6); return;         \
        default: pass(s, l, c, top, bottom, CULM_FUNCTION_NONE);                                   \
        }                                                                                          \
    }
PASS(pass_all, 0, 3)
PASS(pass_top, 1, 3)
PASS(pass_bottom, 0, 2)

/* Pixels [first, end) of line oy of image n. */
static struct line line_of(const struct depth *d, int64_t n, int64_t oy, int64_t first,
                           int64_t end) {
    const struct culm_conv *v = d->s->v;
    struct line l = {.y = d->s->a->y + ((n * v->oh + oy) * v->ow + first) * v->c,
                     .before = (first < d->low),
                     .behind = (end > d->high)};
    int64_t x = first * v->stride[1] - v->pad[1];
    l.count = end - first - l.before - l.behind;
    for (int64_t i = 0; i < 3; i++) {
        int64_t y = oy * v->stride[0] - v->pad[0] + i;
        l.row[i] = y >= 0 && y < v->h ? d->s->a->x + ((n * v->h + y) * v->w + x) * v->c : NULL;
    }
    return l;
}

static void some_lines(void *context, int64_t index, int thread) {
    const struct depth *d = context;
    const struct culm_conv *v = d->s->v;
    int64_t part = index % d->parts, group = index / d->parts, n = group / d->groups;
    int64_t low = group % d->groups * d->lines, high = at_most(v->oh, low + d->lines);
    int64_t c = part * d->width, most = at_most(v->c, c + d->width);
    (void)thread;
    for (; c < most; c += CHANNELS) {
        int64_t end = at_most(most, c + CHANNELS);
        for (int64_t pixel = 0; pixel < v->ow; pixel += d->strip) {
            for (int64_t oy = low; oy < high; oy++) {
                struct line l = line_of(d, n, oy, pixel, at_most(v->ow, pixel + d->strip));
                for (int64_t channel = c; channel < end; channel += SIMD_LOW) {
                    if (l.row[0] && l.row[2]) {
                        pass_all(d->s, &l, channel);
                    } else if (l.row[2]) {
                        pass_top(d->s, &l, channel);
                    } else {
                        pass_bottom(d->s, &l, channel);
                    }
                }
            }
        }
    }
}

/* No line lacks two rows of the kernel, no pixel two columns. */
static bool possible(const struct infer *s, const struct depth *d) {
    const struct culm_conv *v = s->v;
    int64_t right = (v->ow - 1) * v->stride[1] - v->pad[1] + 3 - v->w; /* columns outside there */
    int64_t below = (v->oh - 1) * v->stride[0] - v->pad[0] + 3 - v->h;
    return v->kh == 3 && v->kw == 3 && v->dilation[0] == 1 && v->dilation[1] == 1 && v->w >= 3 &&
           v->h >= 3 && v->pad[0] <= 1 && v->pad[1] <= 1 && right <= 1 && below <= 1 &&
           d->low <= 1 && v->ow - d->high <= 1 && v->c % SIMD_LOW == 0 && !s->a->residual;
}

bool ISA_NAME(conv_infer_depth3)(struct culm_cpu *cpu, const struct infer *s) {
    const struct culm_conv *v = s->v;
    struct depth d = {.s = s};
    whole_pixels(v, &d.low, &d.high);
    if (!possible(s, &d)) {
        return false;
    }
    d.strip = ceil_div(v->ow, ceil_div(v->ow * v->stride[1], COLUMNS));
    d.lines = cpu ? at_most(LINES, ceil_div(v->oh, 2 * cpu->threads)) : v->oh;
    d.groups = ceil_div(v->oh, d.lines);
    int64_t tasks = v->n * d.groups;
    d.parts = channel_parts(cpu, v->c, CHANNELS, tasks, &d.width);
    run_tasks(cpu, tasks * d.parts, some_lines, &d);
    return true;
}

#else

bool ISA_NAME(conv_infer_depth3)(struct culm_cpu *cpu, const struct infer *s) {
    (void)cpu;
    (void)s;
    return false;
}

#endif
