/*
 * Convolutions of short sums for inference, where a tile is one vector of outputs wide: the weights of
 * these outputs, a panel, are copied to where they lie together, and all pixels of the task pass under
 * them.
 *
 * Bits: as in conv_infer.c; who computes an element, and in which tile, enters nowhere.
 *
 * Why: rows of weights lie O floats apart. Where these are no whole vectors each row lies in two cache
 * lines, and where terms are few a tile is so short that finding its operands takes as long as its sums.
 * A panel fits in the first-level cache, is padded with zeros, and costs nothing beside the tiles if the
 * pixels are many. On processors with wide vectors, tiles are several vectors wide: see conv_infer.c.
 *
 * How it is done: a strip is pixels of which each reads the same distance after the one before it: all of
 * a 1x1, else those of a line that have all their taps inside of the image. The others go the general way.
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
#define ROWS 5                    /* of a kernel, at most */
#define MOST_TERMS 512            /* of a panel: 32 KiB */
#define FEW_TERMS 96              /* up to which it pays for outputs of whole vectors too */
#define MANY 192                  /* pixels, from which on it pays */
#define LONG 24                   /* pixels of a strip, the same */
#define AHEAD 16                  /* rows of weights */

struct panels {
    const struct infer *s;
    int64_t count, parts, each; /* panels; parts of the pixels, and how many pixels each has */
    int64_t terms;              /* of an element */
    int64_t low, high;          /* pixels [low, high) of a line have all their taps inside of it */
};

/* What passes under a panel. */
struct strip {
    const float *row[ROWS];    /* what the first pixel reads */
    int64_t rows, terms, step; /* terms of each row; floats from pixel to pixel */
    int64_t first, end;        /* of the pixels of all images */
};

/* Adds to MR pixels what they read from `x` on, each a step after the one before it. */
SIMD void add_terms(vec *sum, const int mr, const float *x, int64_t step, const float *w,
                    int64_t terms, const enum simd_lanes lanes) {
    for (int64_t i = 0; i < terms; i++, w += LANES) {
        vec weights = lanes == SIMD_ALL || lanes == SIMD_SOME ? vload(w) : vload_low(w);
#pragma GCC unroll 16
        for (int p = 0; p < mr; p++) {
            sum[p] = vfma(vset(x[p * step + i]), weights, sum[p]);
        }
    }
}

/* MR pixels from `pixel` on (flat: of a 1x1), outputs from `column` on, of which `left` count. */
SIMD void tile(const struct infer *s, const float *w, const struct strip *strip, const int mr,
               int64_t pixel, int64_t column, int64_t left, const bool flat,
               const enum simd_lanes lanes) {
    const int64_t terms = strip->terms, o = s->v->o, distance = pixel - strip->first;
    vec sum[2 * PIXELS];
#pragma GCC unroll 16
    for (int p = 0; p < mr; p++) {
        sum[p] = vzero();
    }
    if (flat) {
        add_terms(sum, mr, strip->row[0] + distance * terms, terms, w, terms, lanes);
    } else {
        for (int64_t row = 0; row < strip->rows; row++, w += terms * LANES) {
            add_terms(sum, mr, strip->row[row] + distance * strip->step, strip->step, w, terms,
                      lanes);
        }
    }
#pragma GCC unroll 2
    for (int p = 0; p < mr; p += PIXELS) {
        emit_chosen(s, sum + p, mr - p < PIXELS ? mr - p : PIXELS, (pixel + p) * o, o, column, left,
                    lanes);
    }
}

/* The last tile begins earlier rather than be small: what it makes again is the same, unless a residual
 * that lies at y is no longer there. */
SIMD void pixels(const struct infer *s, const float *w, const struct strip *strip, int64_t column,
                 int64_t left, struct ahead *ahead, const bool flat, const enum simd_lanes lanes) {
    const int most = lanes == SIMD_ALL || lanes == SIMD_SOME ? PIXELS : 2 * PIXELS;
    int64_t pixel = strip->first, end = strip->end;
    for (; pixel + most <= end; pixel += most) {
        fetch(ahead);
        tile(s, w, strip, most, pixel, column, left, flat, lanes);
    }
    if (pixel < end && end - strip->first >= most && !s->a->residual) {
        tile(s, w, strip, most, end - most, column, left, flat, lanes);
        return;
    }
    for (; pixel + 2 <= end; pixel += 2) {
        tile(s, w, strip, 2, pixel, column, left, flat, lanes);
    }
    if (pixel < end) {
        tile(s, w, strip, 1, pixel, column, left, flat, lanes);
    }
}

#define UNDER(name, flat)                                                                          \
    static __attribute__((noinline)) void name(const struct infer *s, const float *w,              \
                                               const struct strip *strip, int64_t column,          \
                                               struct ahead *ahead) {                              \
        int64_t left = at_most(LANES, s->v->o - column);                                           \
        switch (simd_lanes(left)) {                                                                \
        case SIMD_ALL: pixels(s, w, strip, column, left, ahead, flat, SIMD_ALL); return;           \
        case SIMD_SOME: pixels(s, w, strip, column, left, ahead, flat, SIMD_SOME); return;         \
        case SIMD_HALF: pixels(s, w, strip, column, left, ahead, flat, SIMD_HALF); return;         \
        case SIMD_HALF_SOME: pixels(s, w, strip, column, left, ahead, flat, SIMD_HALF_SOME);       \
        }                                                                                          \
    }
/* That of a 1x1 is the other with one row, but knows it: short sums gain a twentieth. */
UNDER(under_flat, true)
UNDER(under_rows, false)

/* `left` columns of all rows of weights, together and padded with zeros. */
SIMD void gather(const struct panels *t, int64_t column, int64_t left, float *to,
                 const enum simd_lanes lanes) {
    const int64_t o = t->s->v->o;
    const float *from = t->s->a->w + column;
    for (int64_t i = 0; i < t->terms; i++, from += o, to += LANES) {
        vstore(to, vload_lanes(from, left, lanes));
        __builtin_prefetch(from + AHEAD * o);
    }
}

/* The strip of a line of y; nothing, if its taps are not all inside. */
static struct strip strip_of(const struct panels *t, int64_t line) {
    const struct infer *s = t->s;
    const struct culm_conv *v = s->v;
    int64_t n = line / v->oh, top = line % v->oh * v->stride[0] - v->pad[0];
    int64_t x = t->low * v->stride[1] - v->pad[1];
    struct strip strip = {.rows = v->kh, .terms = v->kw * v->c, .step = v->stride[1] * v->c};
    strip.first = strip.end = line * v->ow + t->low;
    if (top < 0 || top + (v->kh - 1) * v->dilation[0] >= v->h) {
        return strip;
    }
    strip.end = line * v->ow + t->high;
    for (int64_t ky = 0; ky < v->kh; ky++) {
        strip.row[ky] = s->a->x + ((n * v->h + top + ky * v->dilation[0]) * v->w + x) * v->c;
    }
    return strip;
}

/* One panel, some pixels: whole lines, if it is not 1x1. */
static void some_pixels(void *context, int64_t index, int thread) {
    const struct panels *t = context;
    const struct infer *s = t->s;
    const struct culm_conv *v = s->v;
    _Alignas(64) float w[MOST_TERMS * LANES];
    int64_t panel = index / t->parts, column = panel * LANES;
    int64_t first = index % t->parts * t->each, end = at_most(s->pixels, first + t->each);
    int64_t most = v->o - column > SIMD_LOW ? PIXELS : 2 * PIXELS;
    struct ahead ahead =
        ahead_of(s, index, index + 1, t->count * t->parts, ceil_div(end - first, most));
    (void)thread;
    if (v->o - column >= LANES) {
        gather(t, column, LANES, w, SIMD_ALL);
    } else {
        gather(t, column, v->o - column, w, SIMD_SOME);
    }
    if (s->pointwise) {
        struct strip all = {{s->a->x + first * v->c}, 1, v->c, v->c, first, end};
        under_flat(s, w, &all, column, &ahead);
        return;
    }
    for (int64_t line = first / v->ow; line * v->ow < end; line++) {
        struct strip strip = strip_of(t, line);
        under_rows(s, w, &strip, column, &ahead);
        if (panel == 0) {
            ISA_NAME(conv_infer_pixels)(s, line * v->ow, strip.first);
            ISA_NAME(conv_infer_pixels)(s, strip.end, (line + 1) * v->ow);
        }
    }
}

bool ISA_NAME(conv_infer_by_panels)(const struct infer *s) {
    const struct culm_conv *v = s->v;
    int64_t terms = v->kh * v->kw * v->c, low, high;
    whole_pixels(v, &low, &high);
    return !s->coarse && s->pixels >= MANY && terms <= MOST_TERMS &&
           (terms <= FEW_TERMS || v->o % LANES) &&
           (s->pointwise || (v->kh <= ROWS && v->dilation[1] == 1 && high - low >= LONG));
}

void ISA_NAME(conv_infer_panels)(struct culm_cpu *cpu, const struct infer *s) {
    const struct culm_conv *v = s->v;
    struct panels t = {
        .s = s, .count = ceil_div(v->o, LANES), .parts = 1, .terms = v->kh * v->kw * v->c};
    whole_pixels(v, &t.low, &t.high);
    if (cpu && cpu->threads > 1) {
        t.parts = at_most(ceil_div(8 * cpu->threads, t.count), s->pixels / (MANY / 2));
    }
    t.each = round_up(ceil_div(s->pixels, t.parts), s->pointwise ? PIXELS : v->ow);
    t.parts = ceil_div(s->pixels, t.each);
    run_tasks(cpu, t.count * t.parts, some_pixels, &t);
}

#endif
