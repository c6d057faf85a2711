/*
 * Convolution for inference: with the batch norm behind it, a residual and a function, from weights that
 * are turned to [kh,kw,C/groups,O].
 *
 * Bits: an element is one chain of fused multiply-adds over ky, kx, channel from zero (taps outside of
 * the image are left out or are zeros); then (chain + b - mean) scale + shift, where b - mean, scale =
 * gamma / sqrt(variance + eps) and shift = beta are formed in float64 and rounded once; the residual is
 * added, the function applied. No instruction set, no tile and no thread enters.
 *
 * How it is done, one group: MR output pixels by NV vectors of output channels stay in registers. Each
 * pixel has a pointer to what a run of terms reads: all taps of a row of the kernel where these lie
 * beside each other inside the image, else one tap, which is zeros outside. Nothing is packed: the
 * weights are read as they lie, a row of O for each term.
 *
 * Depthwise: conv_infer_depth.c. Of short sums: conv_infer_panel.c. Most of 3x3: conv_infer_winograd.c, whose
 * chains are others. Several convolutions line by line: conv_infer_chain.c. Of a few pixels: conv_infer_gate.c.
 * Of an image in two resolutions: conv_infer_coarse.c.
 */
#include "device/cpu/conv_infer.h"

#include <assert.h>

/* Pixels by vectors of a tile: sums fill the registers, but for a row of weights and one number. */
#if SIMD_WIDE
#define PIXELS 8
#define VECTORS 3
#else
#define PIXELS (SIMD_LOW ? 6 : 4)
#define VECTORS 1
#endif
#define RUNS (CULM_CPU_CONV_TAPS)
#define AHEAD 8 /* rows of weights: they come from far when the layer begins, and lie far apart */

/* --- one group --- */

/* What some pixels read, run by run: `terms` of the weights each. */
struct reads {
    const float *from[RUNS][PIXELS];
    int64_t runs, terms;
    const float *coarse[PIXELS]; /* where the chains of each begin, if s->coarse */
};

/* MR x NV elements from column `column` on; the last vector has `left` columns. */
SIMD void tile(const struct infer *s, const struct reads *r, const int mr, const int nv,
               int64_t pixel, int64_t column, int64_t left, const enum simd_lanes lanes) {
    const int64_t o = s->v->o, terms = r->terms;
    const float *w = s->a->w + column;
    vec sum[VECTORS][PIXELS];
#pragma GCC unroll 4
    for (int n = 0; n < nv; n++)
#pragma GCC unroll 8
        for (int p = 0; p < mr; p++) {
            sum[n][p] = s->coarse ? vload_lanes(r->coarse[p] + column + n * LANES, left,
                                                n + 1 < nv ? SIMD_ALL : lanes)
                                  : vzero();
        }
    for (int64_t run = 0; run < r->runs; run++) {
        const float *from[PIXELS];
#pragma GCC unroll 8
        for (int p = 0; p < mr; p++) {
            from[p] = r->from[run][p];
        }
        for (int64_t i = 0; i < terms; i++) {
            vec weights[VECTORS];
#pragma GCC unroll 4
            for (int n = 0; n < nv; n++) {
                weights[n] = vload_lanes(w + n * LANES, left, n + 1 < nv ? SIMD_ALL : lanes);
                __builtin_prefetch(w + AHEAD * o + n * LANES);
            }
#pragma GCC unroll 8
            for (int p = 0; p < mr; p++) {
                vec x = vset(from[p][i]);
#pragma GCC unroll 4
                for (int n = 0; n < nv; n++) {
                    sum[n][p] = vfma(x, weights[n], sum[n][p]);
                }
            }
            w += o;
        }
    }
#pragma GCC unroll 4
    for (int n = 0; n < nv; n++) {
        emit_chosen(s, sum[n], mr, pixel * o, o, column + n * LANES, left,
                    n + 1 < nv ? SIMD_ALL : lanes);
    }
}

#define TILE(mr, nv)                                                                               \
    static __attribute__((noinline)) void tile_##mr##_##nv(const struct infer *s,                  \
                                                           const struct reads *r, int64_t pixel,   \
                                                           int64_t column, int64_t left) {         \
        switch (simd_lanes(left)) {                                                                \
        case SIMD_ALL: tile(s, r, mr, nv, pixel, column, left, SIMD_ALL); return;                  \
        case SIMD_SOME: tile(s, r, mr, nv, pixel, column, left, SIMD_SOME); return;                \
        case SIMD_HALF: tile(s, r, mr, nv, pixel, column, left, SIMD_HALF); return;                \
        case SIMD_HALF_SOME: tile(s, r, mr, nv, pixel, column, left, SIMD_HALF_SOME);              \
        }                                                                                          \
    }
TILE(1, 1)
#if SIMD_WIDE
TILE(8, 1)
TILE(8, 2)
TILE(8, 3)
TILE(4, 1)
TILE(4, 2)
TILE(4, 3)
TILE(1, 2)
TILE(1, 3)
#else
#if SIMD_LOW
TILE(6, 1)
#endif
TILE(4, 1)
TILE(2, 1)
#endif

typedef void tile_fn(const struct infer *s, const struct reads *r, int64_t pixel, int64_t column,
                     int64_t left);
/* Of so many pixels, by vectors. */
static const struct tiles {
    int count;
    tile_fn *run[VECTORS];
} tiles[] = {
#if SIMD_WIDE
    {8, {tile_8_1, tile_8_2, tile_8_3}},
    {4, {tile_4_1, tile_4_2, tile_4_3}},
    {1, {tile_1_1, tile_1_2, tile_1_3}},
#else
#if SIMD_LOW
    {6, {tile_6_1}},
#endif
    {4, {tile_4_1}},
    {2, {tile_2_1}},
    {1, {tile_1_1}},
#endif
};

/* All channels of some pixels. */
static void all_columns(const struct infer *s, const struct tiles *t, const struct reads *r,
                        int64_t pixel, struct ahead *ahead) {
    int64_t first = 0, over = 0;
    for (int64_t panel = 0; panel < s->panels; panel++) {
        int64_t count = s->panel, left;
        if ((over += s->panels_over) >= s->panels) { /* these have one vector more */
            over -= s->panels;
            count++;
        }
        left = s->v->o - (first + count - 1) * LANES;
        fetch(ahead);
        t->run[count - 1](s, r, pixel, first * LANES, at_most(left, LANES));
        first += count;
    }
}

/* The place of an output pixel: image, line, column; and what its tap 0 reads. */
struct place {
    int64_t n, oy, ox, y, x;
};

static struct place place_of(const struct culm_conv *v, int64_t pixel) {
    int64_t line = pixel / v->ow, ox = pixel % v->ow, n = line / v->oh, oy = line % v->oh;
    return (struct place){n, oy, ox, oy * v->stride[0] - v->pad[0], ox * v->stride[1] - v->pad[1]};
}

/* The one after it; dividing would take longer than the tile. */
static void advance(const struct culm_conv *v, struct place *place) {
    place->x += v->stride[1];
    if (++place->ox < v->ow) {
        return;
    }
    place->ox = 0;
    place->x = -v->pad[1];
    place->y += v->stride[0];
    if (++place->oy == v->oh) {
        place->oy = 0;
        place->y = -v->pad[0];
        place->n++;
    }
}

/* The same for PIXELS of one line, of which each has a whole row of the kernel inside; `again`: those
 * before it in `r` were such pixels of the same line. */
static void find_reads_inside(const struct infer *s, struct place *next, struct reads *r,
                              bool again) {
    const struct culm_conv *v = s->v;
    int64_t step = v->stride[1] * v->c;
    r->terms = v->kw * v->c;
    r->runs = v->kh;
    for (int64_t ky = 0; ky < v->kh; ky++) {
        int64_t y = next->y + ky * v->dilation[0];
        bool inside = y >= 0 && y < v->h;
        if (again) {
            for (int p = 0; p < PIXELS; p++) {
                r->from[ky][p] += inside ? PIXELS * step : 0;
            }
            continue;
        }
        const float *from =
            inside ? s->a->x + ((next->n * v->h + y) * v->w + next->x) * v->c : s->zeros;
        for (int p = 0; p < PIXELS; p++) {
            r->from[ky][p] = from + (inside ? p * step : 0);
        }
    }
    next->ox += PIXELS - 1;
    next->x += (PIXELS - 1) * v->stride[1];
    advance(v, next);
}

/* Where `count` pixels from `next` on read, and in how long runs: rows of the kernel if `merged`. */
static void find_reads(const struct infer *s, struct place *next, int count, struct reads *r) {
    const struct culm_conv *v = s->v;
    struct place place[PIXELS];
    bool merged = v->dilation[1] == 1;
    for (int p = 0; p < count; p++) {
        place[p] = *next;
        advance(v, next);
        merged = merged && place[p].x >= 0 && place[p].x + v->kw <= v->w;
    }
    int64_t across = merged ? 1 : v->kw;
    r->terms = merged ? v->kw * v->c : v->c;
    r->runs = 0;
    for (int64_t ky = 0; ky < v->kh; ky++) {
        for (int64_t kx = 0; kx < across; kx++, r->runs++) {
            for (int p = 0; p < count; p++) {
                int64_t y = place[p].y + ky * v->dilation[0], x = place[p].x + kx * v->dilation[1];
                bool inside = y >= 0 && y < v->h && x >= 0 && x < v->w;
                r->from[r->runs][p] =
                    inside ? s->a->x + ((place[p].n * v->h + y) * v->w + x) * v->c : s->zeros;
            }
        }
    }
}

static void find_pointwise(const struct infer *s, int64_t pixel, int count, struct reads *r) {
    for (int p = 0; p < count; p++) {
        r->from[0][p] = s->a->x + (pixel + p) * s->v->c;
    }
    r->runs = 1;
    r->terms = s->v->c;
}

/* The coarse pixels that `count` pixels from `pixel` on lie in. */
static void find_coarse(const struct infer *s, int64_t pixel, int count, struct reads *r) {
    const struct culm_conv *v = s->v;
    const struct culm_coarse *coarse = &s->a->coarse;
    const int64_t down = v->h / coarse->h, across = v->w / coarse->w;
    struct place place = place_of(v, pixel);
    for (int p = 0; p < count; p++) {
        int64_t at = (place.n * coarse->h + place.oy / down) * coarse->w + place.ox / across;
        r->coarse[p] = s->coarse + at * v->o;
        advance(v, &place);
    }
}

/* Pixels [pixel, end). */
static void pixels(const struct infer *s, int64_t pixel, int64_t end, struct ahead *ahead) {
    const struct culm_conv *v = s->v;
    struct reads r;
    struct place next = place_of(v, pixel);
    bool again = false;
    for (const struct tiles *t = tiles; pixel < end;) {
        while (pixel + t->count > end) {
            t++;
        }
        int count = t->count;
        if (s->pointwise) {
            find_pointwise(s, pixel, count, &r);
            if (s->coarse) {
                find_coarse(s, pixel, count, &r);
            }
        } else if (count == PIXELS && next.ox + PIXELS <= v->ow && next.x >= 0 &&
                   v->dilation[1] == 1 && next.x + (PIXELS - 1) * v->stride[1] + v->kw <= v->w) {
            find_reads_inside(s, &next, &r, again && next.ox > 0);
            again = true;
        } else {
            find_reads(s, &next, count, &r);
            again = false;
        }
        all_columns(s, t, &r, pixel, ahead);
        pixel += count;
    }
}

void ISA_NAME(conv_infer_pixels)(const struct infer *s, int64_t pixel, int64_t end) {
    struct ahead nothing = {0};
    pixels(s, pixel, end, &nothing);
}

static void some_pixels(void *context, int64_t part, int thread) {
    const struct infer *s = context;
    int64_t pixel = part * s->each, end = at_most(s->pixels, pixel + s->each);
    struct ahead ahead =
        ahead_of(s, pixel, end, s->pixels, ceil_div(end - pixel, PIXELS) * s->panels);
    (void)thread;
    pixels(s, pixel, end, &ahead);
}

/* --- all --- */

/* Coefficients, one and nothing where there is no norm. Loops without a choice in them: compilers then take
 * several square roots at a time. */
static void prepare(const struct infer *s) {
    const struct culm_conv_infer_args *a = s->a;
    float *restrict offset = s->offset, *restrict scale = s->scale, *restrict shift = s->shift;
    const float *restrict gamma = a->gamma, *restrict variance = a->variance;
    const int64_t outputs = s->v->o;
    const double eps = a->eps;
    for (int64_t o = 0; gamma && o < outputs; o++) {
        scale[o] = (float)((double)gamma[o] * (1.0 / sqrt((double)variance[o] + eps)));
    }
    for (int64_t o = 0; o < outputs; o++) {
        double bias = a->b ? (double)a->b[o] : 0;
        offset[o] = gamma ? (float)(bias - (double)a->mean[o]) : 0;
        scale[o] = gamma ? scale[o] : 1;
        shift[o] = gamma ? a->beta[o] : (float)bias;
    }
    for (int64_t o = outputs; o < round_up(outputs, LANES); o++) {
        offset[o] = scale[o] = shift[o] = 0;
    }
}

int64_t ISA_NAME(conv_infer_set_up)(struct culm_cpu *cpu, const struct culm_conv_infer_args *args,
                                    float *at, struct infer *s) {
    const struct culm_conv *v = args->conv;
    int64_t width = round_up(v->o, LANES), zeros = round_up(v->kw * v->c, LANES);
    *s = (struct infer){.a = args,
                        .v = v,
                        .cpu = cpu,
                        .zeros = at + 3 * width,
                        .offset = at,
                        .scale = at + width,
                        .shift = at + 2 * width,
                        .slope = args->function == CULM_FUNCTION_NONE         ? 1
                                 : args->function == CULM_FUNCTION_LEAKY_RELU ? (float)args->alpha
                                                                              : 0,
                        .cap = args->function == CULM_FUNCTION_RELU6 ? 6 : INFINITY,
                        .pointwise = v->kh == 1 && v->kw == 1 && v->oh == v->h && v->ow == v->w &&
                                     v->stride[0] == 1 && v->stride[1] == 1 && !v->pad[0] &&
                                     !v->pad[1]};
    assert(culm_conv_infer_possible(v) && v->kh * v->kw <= CULM_CPU_CONV_TAPS);
    memset(at + 3 * width, 0, (size_t)zeros * sizeof *at);
    prepare(s);
    return 3 * width + zeros;
}

void ISA_NAME(conv_infer_direct)(struct culm_cpu *cpu, struct infer *s) {
    const struct culm_conv *v = s->v;
    if (v->groups > 1) {
        ISA_NAME(conv_infer_depth)(cpu, s);
        return;
    }
    int64_t vectors = ceil_div(v->o, LANES);
    s->panels = ceil_div(vectors, VECTORS);
    s->panel = vectors / s->panels;
    s->panels_over = vectors % s->panels;
    s->pixels = v->n * v->oh * v->ow;
    if (ISA_NAME(conv_infer_by_panels)(s)) {
        ISA_NAME(conv_infer_panels)(cpu, s);
        return;
    }
    s->each = s->pixels;
    if (cpu) {
        s->each = round_up(at_least(1, ceil_div(s->pixels, 8 * cpu->threads)), PIXELS);
        s->each = at_most(s->each, 16 * PIXELS);
    }
    run_tasks(cpu, ceil_div(s->pixels, s->each), some_pixels, s);
}

static void alone(struct culm_cpu *cpu, const struct culm_conv_infer_args *args) {
    float *shared = cpu_shared(cpu);
    struct infer s;
    if (args->coarse.c) {
        ISA_NAME(conv_infer_coarse)(cpu, args, shared, SHARED_FLOATS);
        return;
    }
    if (args->gate.parts && ISA_NAME(conv_infer_gated)(cpu, args, shared, SHARED_FLOATS)) {
        return;
    }
    int64_t used = ISA_NAME(conv_infer_set_up)(cpu, args, shared, &s);
    assert(used <= SHARED_FLOATS);
    if (ISA_NAME(conv_infer_by_winograd)(args->conv)) {
        ISA_NAME(conv_infer_winograd)(cpu, &s, shared + used, SHARED_FLOATS - used);
    } else {
        ISA_NAME(conv_infer_direct)(cpu, &s);
    }
}

void ISA_NAME(conv_infer)(struct culm_cpu *cpu, const struct culm_conv_infer_args *args,
                          int32_t count);
void ISA_NAME(conv_infer)(struct culm_cpu *cpu, const struct culm_conv_infer_args *args,
                          int32_t count) {
    while (count > 0) {
        int32_t done = count > 1 ? ISA_NAME(conv_infer_chain)(cpu, args, count) : 0;
        if (!done) {
            alone(cpu, args);
            done = 1;
        }
        args += done;
        count -= done;
    }
}
ALIKE(conv_infer);
