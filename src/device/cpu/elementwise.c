/*
 * Kernels whose elements do not depend on each other: dropout, sums, the AdamW step; and the sum of
 * squares. Functions of one array: pointwise.c.
 *
 * A tile is a run of CHUNK elements. Tails go through the same vector code with fewer lanes. One
 * loop is written; the compiler makes one of it for each common combination of f32 and bf16.
 */
#include "device/cpu/digest.h"
#include "device/cpu/drop.h"
#include "device/cpu/variant.h"

#include <assert.h>

#define CHUNK 8192 /* elements; a multiple of DROP_GROUP */

/* Calls loop(..., type of y, of a, of b) with constant types where the combination is common. */
#define TYPED(loop, s, from, to)                                                                   \
    do {                                                                                           \
        enum culm_dtype ty = (s)->y.dtype, ta = (s)->a.dtype, tb = (s)->b.dtype;                   \
        if (ty == CULM_F32 && ta == CULM_F32 && tb == CULM_F32)                                    \
            loop(s, from, to, CULM_F32, CULM_F32, CULM_F32);                                       \
        else if (ty == CULM_F32 && ta == CULM_F32 && tb == CULM_BF16)                              \
            loop(s, from, to, CULM_F32, CULM_F32, CULM_BF16);                                      \
        else if (ty == CULM_BF16 && ta == CULM_F32 && tb == CULM_F32)                              \
            loop(s, from, to, CULM_BF16, CULM_F32, CULM_F32);                                      \
        else if (ty == CULM_BF16 && ta == CULM_BF16 && tb == CULM_BF16)                            \
            loop(s, from, to, CULM_BF16, CULM_BF16, CULM_BF16);                                    \
        else                                                                                       \
            loop(s, from, to, ty, ta, tb);                                                         \
    } while (0)

struct arrays {
    struct culm_out y;
    struct culm_in a,
        b;         /* dropout: a is what is added (none: NULL, of the type of b), b is dropped */
    int64_t count; /* dropout: of one sample */
    int64_t tiles_per_sample, samples_per_tile; /* dropout; one of the two is 1 */
    int64_t first, end;                         /* samples of a tile */
    const struct culm_dropout *dropout;
    uint32_t threshold;
    float scale;
};

SIMD void add_loop(const struct arrays *s, int64_t from, int64_t to, enum culm_dtype type_y,
                   enum culm_dtype type_a, enum culm_dtype type_b) {
    struct culm_out y = {s->y.data, type_y};
    struct culm_in a = {s->a.data, type_a}, b = {s->b.data, type_b};
    int64_t i = from;
    for (; i + LANES <= to; i += LANES) {
        tstore(y, i, vadd(tload(a, i), tload(b, i)));
    }
    if (i < to) {
        tstore_part(y, i, vadd(tload_part(a, i, to - i), tload_part(b, i, to - i)), to - i);
    }
}

static void add_tile(void *context, int64_t tile, int thread) {
    struct arrays *s = context;
    (void)thread;
    int64_t from = tile * CHUNK, to = at_most(s->count, from + CHUNK);
    TYPED(add_loop, s, from, to);
}

void ISA_NAME(add)(struct culm_cpu *cpu, const struct culm_add_args *args) {
    struct arrays s = {.y = args->y, .a = args->a, .b = args->b, .count = args->count};
    culm_cpu_run(cpu, ceil_div(args->count, CHUNK), add_tile, &s);
}

/* ---- dropout ---- */

SIMD void dropout_loop(const struct arrays *s, int64_t from, int64_t to, enum culm_dtype type_y,
                       enum culm_dtype type_a, enum culm_dtype type_b) {
    struct culm_out y = {s->y.data, type_y};
    struct culm_in x = {s->a.data, type_a}, h = {s->b.data, type_b};
    uvec threshold = uset(s->threshold);
    vec scale = vset(s->scale);
    for (int64_t sample = s->first; sample < s->end; sample++) {
        uint64_t id = culm_dropout_sample(s->dropout, sample);
        for (int64_t group = from; group < to; group += DROP_GROUP) {
            struct drop_bits bits = drop_draw(s->dropout->key, id, (uint64_t)(group / DROP_GROUP));
            int64_t count = at_most(DROP_GROUP, to - group), at = sample * s->count + group;
#pragma GCC unroll 8
            for (int slot = 0; slot < DROP_GROUP / LANES; slot++, at += LANES) {
                int64_t n = count - slot * LANES;
                if (n <= 0) {
                    break;
                }
                vec kept = drop_apply(&bits, slot, threshold, scale, tload_part(h, at, n));
                tstore_part(y, at, x.data ? vadd(tload_part(x, at, n), kept) : kept, n);
            }
        }
    }
}

static void dropout_tile(void *context, int64_t tile, int thread) {
    struct arrays s = *(const struct arrays *)context;
    (void)thread;
    int64_t from = tile % s.tiles_per_sample * CHUNK, to = at_most(from + CHUNK, s.count);
    s.first = tile / s.tiles_per_sample * s.samples_per_tile;
    s.end = at_most(s.dropout->samples, s.first + s.samples_per_tile);
    TYPED(dropout_loop, &s, from, to);
}

static void drop(struct culm_cpu *cpu, struct arrays *s, int64_t count) {
    assert(s->dropout->samples > 0 && count % s->dropout->samples == 0);
    assert(s->dropout->p > 0 && s->dropout->p < 1);
    s->count = count / s->dropout->samples;
    s->threshold = drop_threshold(s->dropout->p);
    s->scale = (float)(1.0 / (1.0 - s->dropout->p));
    s->tiles_per_sample = ceil_div(s->count, CHUNK);
    s->samples_per_tile = at_least(1, CHUNK / s->count);
    culm_cpu_run(cpu, ceil_div(s->dropout->samples, s->samples_per_tile) * s->tiles_per_sample,
                 dropout_tile, s);
}

void ISA_NAME(residual_dropout_forward)(struct culm_cpu *cpu,
                                        const struct culm_residual_dropout_forward_args *args) {
    if (!args->dropout || args->dropout->p == 0) {
        ISA_NAME(add)
        (cpu,
         &(struct culm_add_args){.y = args->y, .a = args->x, .b = args->h, .count = args->count});
    } else {
        drop(cpu,
             &(struct arrays){.y = args->y, .a = args->x, .b = args->h, .dropout = args->dropout},
             args->count);
    }
}

static void copy_tile(void *context, int64_t tile, int thread) {
    const struct arrays *s = context;
    (void)thread;
    int64_t to = at_most(s->count, (tile + 1) * CHUNK);
    for (int64_t i = tile * CHUNK; i < to; i += LANES) {
        tstore_part(s->y, i, tload_part(s->b, i, to - i), to - i);
    }
}

void ISA_NAME(dropout)(struct culm_cpu *cpu, const struct culm_dropout_args *args) {
    struct arrays s = {.y = args->y,
                       .a = {NULL, args->x.dtype},
                       .b = args->x,
                       .count = args->count,
                       .dropout = args->dropout};
    if (args->dropout && args->dropout->p != 0) {
        drop(cpu, &s, args->count);
    } else if (args->y.data != args->x.data) {
        culm_cpu_run(cpu, ceil_div(args->count, CHUNK), copy_tile, &s);
    }
}

/* ---- AdamW ---- */

struct adamw {
    float *p, *m, *v;
    const float *g;
    int64_t count;
    float keep, rate1, beta2, rate2, grad_scale, step, root2, eps;
    struct culm_step_digest *digest;
};

/* With `digests` the bits of everything read and written are looked at on the way. */
SIMD void adamw_run(struct adamw *s, int64_t from, int64_t to, bool digests) {
    uvec h[7];
    for (int d = 0; d < 7 && digests; d++) {
        h[d] = digest_begin();
    }
    for (int64_t i = from; i < to; i += LANES) {
        vec raw = load_part(s->g + i, to - i), g = vmul(raw, vset(s->grad_scale));
        vec m = load_part(s->m + i, to - i), v = load_part(s->v + i, to - i),
            p = load_part(s->p + i, to - i);
        if (digests) {
            h[0] = digest_next(h[0], raw);
            h[1] = digest_next(h[1], p);
            h[2] = digest_next(h[2], m);
            h[3] = digest_next(h[3], v);
        }
        m = vfma(vset(s->rate1), vsub(g, m), m);
        v = vfma(vmul(vset(s->rate2), g), g, vmul(vset(s->beta2), v));
        vec denominator = vfma(vsqrt(v), vset(s->root2), vset(s->eps));
        p = vfnma(vset(s->step), vdiv(m, denominator), vmul(p, vset(s->keep)));
        store_part(s->p + i, p, to - i);
        store_part(s->m + i, m, to - i);
        store_part(s->v + i, v, to - i);
        if (digests && i + LANES > to) {
            p = load_part(s->p + i, to - i); /* zeros past the end */
            m = load_part(s->m + i, to - i);
            v = load_part(s->v + i, to - i);
        }
        if (digests) {
            h[4] = digest_next(h[4], p);
            h[5] = digest_next(h[5], m);
            h[6] = digest_next(h[6], v);
        }
    }
    if (!digests) {
        return;
    }
    int64_t run = from / DIGEST_RUN;
    digest_add(&s->digest->grad, digest_end(h[0], run));
    for (int d = 0; d < 3; d++) {
        digest_add(&s->digest->before[d], digest_end(h[1 + d], run));
        digest_add(&s->digest->after[d], digest_end(h[4 + d], run));
    }
}

static void adamw_tile(void *context, int64_t tile, int thread) {
    struct adamw *s = context;
    (void)thread;
    int64_t to = at_most(s->count, (tile + 1) * CHUNK);
    if (!s->digest) {
        adamw_run(s, tile * CHUNK, to, false);
        return;
    }
    for (int64_t from = tile * CHUNK; from < to; from += DIGEST_RUN) {
        adamw_run(s, from, at_most(to, from + DIGEST_RUN), true);
    }
}

void ISA_NAME(adamw)(struct culm_cpu *cpu, const struct culm_adamw_args *args) {
    struct adamw s = {
        .p = args->p,
        .m = args->m,
        .v = args->v,
        .g = args->g,
        .count = args->count,
        .keep = (float)(1.0 - args->hyper->lr * args->hyper->weight_decay),
        .rate1 = (float)(1.0 - args->hyper->beta1),
        .beta2 = (float)args->hyper->beta2,
        .rate2 = (float)(1.0 - args->hyper->beta2),
        .grad_scale = (float)args->hyper->grad_scale,
        .step = (float)(args->hyper->lr / args->hyper->bias_correction1),
        .root2 = (float)(1.0 / sqrt(args->hyper->bias_correction2)),
        .eps = (float)args->hyper->eps,
        .digest = args->hyper->digest,
    };
    if (s.digest) {
        *s.digest = (struct culm_step_digest){0};
    }
    culm_cpu_run(cpu, ceil_div(args->count, CHUNK), adamw_tile, &s);
}

/* ---- sum of squares: blocks of SQUARES elements, 16 double lanes each, then the blocks in order,
 * 4096 at a time ---- */

#define SQUARES 4096
#define ROUND 4096

struct squares {
    const float *x;
    int64_t count;
    double *block;
    uint64_t *digest; /* or NULL */
    int64_t before;   /* elements: a multiple of SQUARES */
};

/* Eight lanes, in whatever registers there are. */
typedef float eight __attribute__((vector_size(32), aligned(4)));
typedef double eight_double __attribute__((vector_size(64)));

static void squares_tile(void *context, int64_t tile, int thread) {
    struct squares *s = context;
    (void)thread;
    int64_t from = tile * SQUARES, to = at_most(s->count, from + SQUARES), i = from;
    eight_double low = {0}, high = {0};
    for (; i + LANES <= to; i += LANES) {
        eight_double a = __builtin_convertvector(*(const eight *)(s->x + i), eight_double);
        eight_double b = __builtin_convertvector(*(const eight *)(s->x + i + 8), eight_double);
        low += a * a; /* the product is exact */
        high += b * b;
    }
    double lane[LANES];
    memcpy(lane, &low, sizeof low);
    memcpy(lane + 8, &high, sizeof high);
    for (int l = 0; i + l < to; l++) {
        lane[l] += (double)s->x[i + l] * (double)s->x[i + l];
    }
    for (int width = LANES / 2; width > 0; width /= 2) {
        for (int l = 0; l < width; l++) {
            lane[l] += lane[l + width];
        }
    }
    s->block[tile] = lane[0];
    if (s->digest) {
        digest_add(s->digest, digest_run(s->x - s->before, s->before + from, s->before + to));
    }
}

void ISA_NAME(sum_squares)(struct culm_cpu *cpu, const struct culm_sum_squares_args *args) {
    _Static_assert(SQUARES == DIGEST_RUN, "a block is a run");
    double sum = 0;
    if (args->ret_digest) {
        *args->ret_digest = 0;
    }
    double *block = (double *)cpu_shared(cpu);
    for (int64_t from = 0; from < args->count; from += (int64_t)SQUARES * ROUND) {
        struct squares s = {args->x + from, at_most(args->count - from, (int64_t)SQUARES * ROUND),
                            block, args->ret_digest, from};
        int64_t tiles = ceil_div(s.count, SQUARES);
        culm_cpu_run(cpu, tiles, squares_tile, &s);
        for (int64_t i = 0; i < tiles; i++) {
            sum += block[i];
        }
    }
    *args->ret_sum = sum;
}

/* ---- digests ---- */

struct digest {
    const float *x;
    int64_t count;
    uint64_t sum;
};

static void digest_tile(void *context, int64_t tile, int thread) {
    struct digest *s = context;
    (void)thread;
    int64_t to = at_most(s->count, (tile + 1) * CHUNK);
    for (int64_t from = tile * CHUNK; from < to; from += DIGEST_RUN) {
        digest_add(&s->sum, digest_run(s->x, from, at_most(to, from + DIGEST_RUN)));
    }
}

void ISA_NAME(digest)(struct culm_cpu *cpu, const struct culm_digest_args *args) {
    struct digest s = {args->x, args->count, 0};
    culm_cpu_run(cpu, ceil_div(args->count, CHUNK), digest_tile, &s);
    *args->ret_digest = s.sum;
}

void ISA_NAME(digest_here)(struct culm_cpu *cpu, const struct culm_digest_here_args *args) {
    struct digest s = {args->x, args->count, 0};
    (void)cpu;
    for (int64_t tile = 0; tile < ceil_div(args->count, CHUNK); tile++) {
        digest_tile(&s, tile, 0);
    }
    *args->ret_digest = s.sum;
}
