/*
 * Kernels whose elements do not depend on each other: GELU, dropout, sums, the optimizer; and the
 * sum of squares.
 *
 * A tile is a run of CHUNK elements. Tails go through the same vector code with fewer lanes.
 */
#include "device/cpu/drop.h"
#include "device/cpu/variant.h"

#include <assert.h>

#define CHUNK 8192 /* elements; a multiple of DROP_GROUP */

struct arrays {
    float *y;
    const float *a, *b;
    int64_t count;
};

static void run(struct culm_cpu *cpu, struct arrays *arrays, culm_cpu_tile *tile) {
    culm_cpu_run(cpu, ceil_div(arrays->count, CHUNK), tile, arrays);
}

/* ---- GELU: x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3) ---- */

#define GELU_A 1.5957691216057308f   /* 2 sqrt(2 / pi) */
#define GELU_B 0.071354816272600247f /* GELU_A * 0.044715 */
#define GELU_3B 0.21406444881780074f

static void gelu_forward_tile(void *context, int64_t tile, int thread) {
    struct arrays *s = context;
    (void)thread;
    int64_t to = at_most(s->count, (tile + 1) * CHUNK);
    for (int64_t i = tile * CHUNK; i < to; i += LANES) {
        vec x = load_part(s->a + i, to - i);
        vec u = vmul(x, vfma(vmul(x, x), vset(GELU_B), vset(GELU_A)));
        store_part(s->y + i, vmul(x, vsigmoid(u)), to - i);
    }
}

void ISA_NAME(gelu_forward)(struct culm_cpu *cpu, float *y, const float *x, int64_t count) {
    run(cpu, &(struct arrays){.y = y, .a = x, .count = count}, gelu_forward_tile);
}

static void gelu_backward_tile(void *context, int64_t tile, int thread) {
    struct arrays *s = context;
    (void)thread;
    int64_t to = at_most(s->count, (tile + 1) * CHUNK);
    for (int64_t i = tile * CHUNK; i < to; i += LANES) {
        vec dy = load_part(s->a + i, to - i), x = load_part(s->b + i, to - i), xx = vmul(x, x);
        vec sigmoid = vsigmoid(vmul(x, vfma(xx, vset(GELU_B), vset(GELU_A))));
        vec slope = vmul(x, vfma(xx, vset(GELU_3B), vset(GELU_A))); /* x times the slope of 2 u */
        vec rest = vfnma(sigmoid, sigmoid, sigmoid);
        store_part(s->y + i, vmul(dy, vfma(rest, slope, sigmoid)), to - i);
    }
}

void ISA_NAME(gelu_backward)(struct culm_cpu *cpu, float *dx, const float *dy, const float *x,
                             int64_t count) {
    run(cpu, &(struct arrays){.y = dx, .a = dy, .b = x, .count = count}, gelu_backward_tile);
}

static void add_tile(void *context, int64_t tile, int thread) {
    struct arrays *s = context;
    (void)thread;
    int64_t to = at_most(s->count, (tile + 1) * CHUNK);
    for (int64_t i = tile * CHUNK; i < to; i += LANES) {
        store_part(s->y + i, vadd(load_part(s->a + i, to - i), load_part(s->b + i, to - i)),
                   to - i);
    }
}

void ISA_NAME(add)(struct culm_cpu *cpu, float *y, const float *a, const float *b, int64_t count) {
    run(cpu, &(struct arrays){.y = y, .a = a, .b = b, .count = count}, add_tile);
}

/* ---- dropout ---- */

struct dropping {
    float *y;
    const float *x, *h; /* x NULL: y = dropout(h), else x + dropout(h) */
    int64_t per_sample, tiles_per_sample;
    const struct culm_dropout *dropout;
};

static void dropout_tile(void *context, int64_t tile, int thread) {
    struct dropping *s = context;
    (void)thread;
    int64_t sample = tile / s->tiles_per_sample;
    int64_t from = tile % s->tiles_per_sample * CHUNK;
    int64_t to = at_most(from + CHUNK, s->per_sample);
    int64_t base = sample * s->per_sample;
    uvec threshold = uset(drop_threshold(s->dropout->p));
    vec scale = vset((float)(1.0 / (1.0 - s->dropout->p)));
    for (int64_t at = from; at < to; at += DROP_GROUP) {
        struct drop_bits bits =
            drop_draw(s->dropout->key, s->dropout->first_sample + (uint64_t)sample,
                      (uint64_t)(at / DROP_GROUP));
        int64_t count = at_most(DROP_GROUP, to - at);
        float *y = s->y + base + at;
        const float *h = s->h + base + at, *x = s->x ? s->x + base + at : NULL;
        if (count == DROP_GROUP) {
#pragma GCC unroll 8
            for (int slot = 0; slot < 8; slot++) {
                vec kept = drop_apply(&bits, slot, threshold, scale, vload(h + slot * LANES));
                vstore(y + slot * LANES, x ? vadd(vload(x + slot * LANES), kept) : kept);
            }
        } else {
#pragma GCC unroll 8
            for (int slot = 0; slot < 8; slot++) {
                int64_t n = at_least(0, at_most(LANES, count - slot * LANES));
                vec kept = drop_apply(&bits, slot, threshold, scale, vload_n(h + slot * LANES, n));
                vstore_n(y + slot * LANES, x ? vadd(vload_n(x + slot * LANES, n), kept) : kept, n);
            }
        }
    }
}

static void drop(struct culm_cpu *cpu, float *y, const float *x, const float *h, int64_t count,
                 const struct culm_dropout *dropout) {
    assert(dropout->samples > 0 && count % dropout->samples == 0);
    assert(dropout->p > 0 && dropout->p < 1);
    struct dropping s = {.y = y, .x = x, .h = h, .dropout = dropout};
    s.per_sample = count / dropout->samples;
    s.tiles_per_sample = ceil_div(s.per_sample, CHUNK);
    culm_cpu_run(cpu, dropout->samples * s.tiles_per_sample, dropout_tile, &s);
}

void ISA_NAME(residual_dropout_forward)(struct culm_cpu *cpu, float *y, const float *x,
                                        const float *h, int64_t count,
                                        const struct culm_dropout *dropout) {
    if (!dropout || dropout->p == 0)
        ISA_NAME(add)(cpu, y, x, h, count);
    else
        drop(cpu, y, x, h, count, dropout);
}

void ISA_NAME(dropout_forward)(struct culm_cpu *cpu, float *y, const float *x, int64_t count,
                               const struct culm_dropout *dropout) {
    if (dropout && dropout->p != 0)
        drop(cpu, y, NULL, x, count, dropout);
    else if (y != x)
        memcpy(y, x, (size_t)count * sizeof *y);
}

void ISA_NAME(dropout_backward)(struct culm_cpu *cpu, float *dx, const float *dy, int64_t count,
                                const struct culm_dropout *dropout) {
    ISA_NAME(dropout_forward)(cpu, dx, dy, count, dropout);
}

/* ---- AdamW ---- */

struct adamw {
    float *p, *m, *v;
    const float *g;
    int64_t count;
    float keep, rate1, beta2, rate2, grad_scale, step, root2, eps;
};

static void adamw_tile(void *context, int64_t tile, int thread) {
    struct adamw *s = context;
    (void)thread;
    int64_t to = at_most(s->count, (tile + 1) * CHUNK);
    for (int64_t i = tile * CHUNK; i < to; i += LANES) {
        vec g = vmul(load_part(s->g + i, to - i), vset(s->grad_scale));
        vec m = load_part(s->m + i, to - i), v = load_part(s->v + i, to - i),
            p = load_part(s->p + i, to - i);
        m = vfma(vset(s->rate1), vsub(g, m), m);
        v = vfma(vmul(vset(s->rate2), g), g, vmul(vset(s->beta2), v));
        vec denominator = vfma(vsqrt(v), vset(s->root2), vset(s->eps));
        p = vfnma(vset(s->step), vdiv(m, denominator), vmul(p, vset(s->keep)));
        store_part(s->p + i, p, to - i);
        store_part(s->m + i, m, to - i);
        store_part(s->v + i, v, to - i);
    }
}

void ISA_NAME(adamw)(struct culm_cpu *cpu, float *p, float *m, float *v, const float *g,
                     int64_t count, const struct culm_adamw *hyper) {
    struct adamw s = {
        .p = p,
        .m = m,
        .v = v,
        .g = g,
        .count = count,
        .keep = (float)(1.0 - hyper->lr * hyper->weight_decay),
        .rate1 = (float)(1.0 - hyper->beta1),
        .beta2 = (float)hyper->beta2,
        .rate2 = (float)(1.0 - hyper->beta2),
        .grad_scale = (float)hyper->grad_scale,
        .step = (float)(hyper->lr / hyper->bias_correction1),
        .root2 = (float)(1.0 / sqrt(hyper->bias_correction2)),
        .eps = (float)hyper->eps,
    };
    culm_cpu_run(cpu, ceil_div(count, CHUNK), adamw_tile, &s);
}

/* ---- sum of squares: blocks of SQUARES elements, 16 double lanes each, then the blocks in order,
 * 4096 at a time ---- */

#define SQUARES 4096
#define ROUND 4096

struct squares {
    const float *x;
    int64_t count;
    double *block;
};

static void squares_tile(void *context, int64_t tile, int thread) {
    struct squares *s = context;
    (void)thread;
    int64_t from = tile * SQUARES, to = at_most(s->count, from + SQUARES), i = from;
    double lane[LANES] = {0};
    for (; i + LANES <= to; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += (double)s->x[i + l] * (double)s->x[i + l]; /* the product is exact */
    for (int l = 0; i + l < to; l++)
        lane[l] += (double)s->x[i + l] * (double)s->x[i + l];
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++)
            lane[l] += lane[l + width];
    s->block[tile] = lane[0];
}

void ISA_NAME(sum_squares_into)(struct culm_cpu *cpu, const float *x, int64_t count,
                                double *ret_sum) {
    double sum = 0;
    double *block = (double *)cpu_shared(cpu);
    for (int64_t from = 0; from < count; from += (int64_t)SQUARES * ROUND) {
        struct squares s = {x + from, at_most(count - from, (int64_t)SQUARES * ROUND), block};
        int64_t tiles = ceil_div(s.count, SQUARES);
        culm_cpu_run(cpu, tiles, squares_tile, &s);
        for (int64_t i = 0; i < tiles; i++)
            sum += block[i];
    }
    *ret_sum = sum;
}
