/*
 * 1x1 convolutions for inference, where a tile is one vector of outputs wide: the weights of these outputs,
 * a panel, are copied to where they lie together, and all pixels of the task pass under them.
 *
 * Bits: as in conv_infer.c; who computes an element, and in which tile, enters nowhere.
 *
 * Why: rows of weights lie O floats apart. Where these are no whole vectors each row lies in two cache
 * lines, and where inputs are few a tile is so short that finding its operands takes as long as its sums.
 * A panel fits in the first-level cache, is padded with zeros, and costs nothing beside the tiles if the
 * pixels are many. On processors with wide vectors, tiles are several vectors wide: see conv_infer.c.
 */
#include "device/cpu/conv_infer.h"

#if SIMD_WIDE

bool ISA_NAME(conv_infer_by_panels)(const struct infer *s) {
    (void)s;
    return false;
}

void ISA_NAME(conv_infer_panels)(struct culm_cpu *cpu, const struct infer *s) {
    (void)cpu;
    (void)s;
}

#else

#define PIXELS (SIMD_LOW ? 6 : 4) /* of a tile; twice as many where it is half a vector wide */
#define MOST_TERMS 512            /* of a panel: 32 KiB */
#define FEW_TERMS 96              /* up to which it pays for outputs of whole vectors too */
#define MANY 192                  /* pixels, from which on it pays */
#define AHEAD 16                  /* rows of weights */

struct panels {
    const struct infer *s;
    int64_t count, parts, each; /* panels; parts of the pixels, and how many pixels each has */
};

/* MR pixels from `pixel` on, outputs from `column` on, of which `left` count. */
SIMD void tile(const struct infer *s, const float *w, const int mr, int64_t pixel, int64_t column,
               int64_t left, const enum simd_lanes lanes) {
    const int64_t terms = s->v->c, o = s->v->o;
    const float *x = s->a->x + pixel * terms;
    vec sum[2 * PIXELS];
#pragma GCC unroll 16
    for (int p = 0; p < mr; p++) {
        sum[p] = vzero();
    }
    for (int64_t i = 0; i < terms; i++, w += LANES) {
        vec weights = lanes == SIMD_ALL || lanes == SIMD_SOME ? vload(w) : vload_low(w);
#pragma GCC unroll 16
        for (int p = 0; p < mr; p++) {
            sum[p] = vfma(vset(x[p * terms + i]), weights, sum[p]);
        }
    }
#pragma GCC unroll 2
    for (int p = 0; p < mr; p += PIXELS) {
        emit_chosen(s, sum + p, mr - p < PIXELS ? mr - p : PIXELS, (pixel + p) * o, o, column, left,
                    lanes);
    }
}

/* Pixels [first, end). The last tile begins earlier rather than be small: what it makes again is the same,
 * unless a residual that lies at y is no longer there. */
SIMD void pixels(const struct infer *s, const float *w, int64_t first, int64_t end, int64_t column,
                 int64_t left, struct ahead *ahead, const enum simd_lanes lanes) {
    const int most = lanes == SIMD_ALL || lanes == SIMD_SOME ? PIXELS : 2 * PIXELS;
    int64_t pixel = first;
    for (; pixel + most <= end; pixel += most) {
        fetch(ahead);
        tile(s, w, most, pixel, column, left, lanes);
    }
    if (pixel < end && end - first >= most && !s->a->residual) {
        tile(s, w, most, end - most, column, left, lanes);
        return;
    }
    for (; pixel < end; pixel++) {
        tile(s, w, 1, pixel, column, left, lanes);
    }
}

/* `left` columns of all rows of weights, together and padded with zeros. */
SIMD void gather(const struct infer *s, int64_t column, int64_t left, float *to,
                 const enum simd_lanes lanes) {
    const int64_t o = s->v->o;
    const float *from = s->a->w + column;
    for (int64_t i = 0; i < s->v->c; i++, from += o, to += LANES) {
        vstore(to, vload_lanes(from, left, lanes));
        __builtin_prefetch(from + AHEAD * o);
    }
}

/* One panel, some pixels. */
static void some_pixels(void *context, int64_t index, int thread) {
    const struct panels *t = context;
    const struct infer *s = t->s;
    _Alignas(64) float w[MOST_TERMS * LANES];
    int64_t column = index / t->parts * LANES, left = at_most(LANES, s->v->o - column);
    int64_t first = index % t->parts * t->each, end = at_most(s->pixels, first + t->each);
    struct ahead ahead =
        ahead_of(s, index, index + 1, t->count * t->parts, ceil_div(end - first, PIXELS));
    (void)thread;
    if (left == LANES) {
        gather(s, column, left, w, SIMD_ALL);
    } else {
        gather(s, column, left, w, SIMD_SOME);
    }
    switch (simd_lanes(left)) {
    case SIMD_ALL: pixels(s, w, first, end, column, left, &ahead, SIMD_ALL); return;
    case SIMD_SOME: pixels(s, w, first, end, column, left, &ahead, SIMD_SOME); return;
    case SIMD_HALF: pixels(s, w, first, end, column, left, &ahead, SIMD_HALF); return;
    case SIMD_HALF_SOME: pixels(s, w, first, end, column, left, &ahead, SIMD_HALF_SOME);
    }
}

bool ISA_NAME(conv_infer_by_panels)(const struct infer *s) {
    const struct culm_conv *v = s->v;
    return s->pointwise && s->pixels >= MANY && v->c <= MOST_TERMS &&
           (v->c <= FEW_TERMS || v->o % LANES);
}

void ISA_NAME(conv_infer_panels)(struct culm_cpu *cpu, const struct infer *s) {
    struct panels t = {.s = s, .count = ceil_div(s->v->o, LANES), .parts = 1};
    if (cpu && cpu->threads > 1) {
        t.parts = at_most(ceil_div(8 * cpu->threads, t.count), s->pixels / (MANY / 2));
    }
    t.each = round_up(ceil_div(s->pixels, t.parts), PIXELS);
    t.parts = ceil_div(s->pixels, t.each);
    run_tasks(cpu, t.count * t.parts, some_pixels, &t);
}

#endif
