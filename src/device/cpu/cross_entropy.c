/*
 * Softmax with cross-entropy: the loss of rows of logits, and its gradient in their place.
 *
 * A row's maximum and sums run in 16 lanes, lane l taking elements l, l + 16, ..., folded by
 * halves; elements past the end do not count, in the same vector code. The rows' losses are added
 * in order, in float64. What is counted is integers, so its order does not matter. Between sum and
 * gradient the exponentials of a row of bf16 are kept in f32 in scratch; a row that does not fit
 * there is exponentiated again.
 */
#include "device/cpu/variant.h"

#include <assert.h>

#define ROW_TILE 16 /* rows */

struct cross_entropy {
    struct culm_cpu *cpu;
    struct culm_out logits;
    const int32_t *targets;
    int64_t n, v;
    float scale, target_share, spread; /* of the gradient */
    double smoothing;
    bool want_gradient;
    double *loss; /* [n] */
    int64_t counted, correct;
};

SIMD float element(struct culm_out x, int64_t i) {
    return x.dtype == CULM_BF16 ? bf16_widen(((const uint16_t *)x.data)[i])
                                : ((const float *)x.data)[i];
}

/* The largest of `count` elements from `at`; -infinity when there are none. */
SIMD float largest(struct culm_in x, int64_t at, int64_t count) {
    vec top = vset(-INFINITY);
    for (int64_t i = 0; i < count; i += LANES) {
        vec part = tload_part(x, at + i, count - i);
        if (count - i < LANES) {
            part = vselect(vfirst(count - i), part, vset(-INFINITY));
        }
        top = vmax(top, part);
    }
    return vmax_of(top);
}

/* Sum of x - max. */
static float sum_below(const struct cross_entropy *s, int64_t at, float max) {
    vec sum = vzero();
    for (int64_t i = 0; i < s->v; i += LANES) {
        vec d = vsub(tload_part(culm_in_of(s->logits), at + i, s->v - i), vset(max));
        if (s->v - i < LANES) {
            d = vselect(vfirst(s->v - i), d, vzero());
        }
        sum = vadd(sum, d);
    }
    return vsum(sum);
}

/* Sum of e^(x - max), each of which is kept, if there is a place for it. */
SIMD float sum_exponentials(const struct cross_entropy *s, struct culm_in x, int64_t at, float max,
                            float *kept) {
    vec sum = vzero();
    for (int64_t i = 0; i < s->v; i += LANES) {
        vec e = vexp(vsub(tload_part(x, at + i, s->v - i), vset(max)));
        if (s->v - i < LANES) {
            e = vselect(vfirst(s->v - i), e, vzero());
        }
        sum = vadd(sum, e);
        if (kept) {
            store_part(kept + i, e, s->v - i);
        }
    }
    return vsum(sum);
}

/* kept: the exponentials; NULL: they are formed again. */
SIMD void gradient_row(const struct cross_entropy *s, struct culm_out x, int64_t at, int32_t target,
                       float max, float total, const float *kept) {
    vec factor = vset(s->scale / total), spread = vset(s->spread);
    float e[LANES];
    vstore(e, vexp(vsub(vset(element(x, at + target)), vset(max)))); /* before it is overwritten */
    for (int64_t i = 0; i < s->v; i += LANES) {
        vec d = kept ? load_part(kept + i, s->v - i)
                     : vexp(vsub(tload_part(culm_in_of(x), at + i, s->v - i), vset(max)));
        d = vmul(d, factor);
        if (s->spread != 0) {
            d = vsub(d, spread);
        }
        tstore_part(x, at + i, d, s->v - i);
    }
    if (x.dtype == CULM_BF16) {
        ((uint16_t *)x.data)[at + target] =
            bf16_round(e[0] * (s->scale / total) - s->spread - s->target_share);
    } else {
        ((float *)x.data)[at + target] -= s->target_share;
    }
}

static void row_ignored(const struct cross_entropy *s, int64_t row) {
    s->loss[row] = 0;
    for (int64_t i = 0; i < s->v && s->want_gradient; i += LANES) {
        tstore_part(s->logits, row * s->v + i, vzero(), s->v - i);
    }
}

/* One row whose target is not ignored; `x` is the logits, its type a constant. */
SIMD void row_counted(const struct cross_entropy *s, struct culm_out x, int64_t row, float *kept,
                      int64_t *correct) {
    int64_t v = s->v, at = row * v;
    int32_t target = s->targets[row];
    struct culm_in in = culm_in_of(x);
    float max = largest(in, at, v), wanted = element(x, at + target);
    *correct += wanted == max && largest(in, at, target) < max;
    float below = s->smoothing != 0 ? sum_below(s, at, max) : 0;
    float total = sum_exponentials(s, in, at, max, kept);
    double loss = (double)max - (double)wanted;
    if (s->smoothing != 0) {
        loss = (1 - s->smoothing) * loss - s->smoothing * (double)below / (double)v;
    }
    s->loss[row] = culm_cpu_log((double)total) + loss;
    if (s->want_gradient) {
        gradient_row(s, x, at, target, max, total, kept);
    }
}

static void cross_entropy_tile(void *context, int64_t tile, int thread) {
    struct cross_entropy *s = context;
    int64_t counted = 0, correct = 0;
    for (int64_t row = tile * ROW_TILE; row < at_most(s->n, (tile + 1) * ROW_TILE); row++) {
        assert(s->targets[row] < s->v);
        if (s->targets[row] < 0) {
            row_ignored(s, row);
            continue;
        }
        counted++;
        if (s->logits.dtype == CULM_F32) {
            float *x = s->logits.data, *kept = s->want_gradient ? x + row * s->v : NULL;
            row_counted(s, culm_out_f32(x), row, kept, &correct);
        } else {
            bool keep = s->want_gradient && s->v <= PRIVATE_FLOATS;
            row_counted(s, (struct culm_out){s->logits.data, CULM_BF16}, row,
                        keep ? cpu_private(s->cpu, thread) : NULL, &correct);
        }
    }
    __atomic_fetch_add(&s->counted, counted, __ATOMIC_RELAXED);
    __atomic_fetch_add(&s->correct, correct, __ATOMIC_RELAXED);
}

void ISA_NAME(cross_entropy)(struct culm_cpu *cpu, const struct culm_cross_entropy_args *args) {
    assert(args->n <= CULM_CPU_MAX_ROWS && args->smoothing >= 0 && args->smoothing < 1);
    struct cross_entropy s = {.cpu = cpu,
                              .logits = args->logits,
                              .targets = args->targets,
                              .n = args->n,
                              .v = args->v,
                              .scale = (float)args->scale,
                              .target_share = (float)((1 - args->smoothing) * args->scale),
                              .spread = (float)(args->smoothing * args->scale / (double)args->v),
                              .smoothing = args->smoothing,
                              .want_gradient = args->want_gradient,
                              .loss = (double *)cpu_shared(cpu)};
    culm_cpu_run(cpu, ceil_div(args->n, ROW_TILE), cross_entropy_tile, &s);
    *args->ret_loss = (struct culm_loss){.counted = s.counted, .correct = s.correct};
    for (int64_t row = 0; row < args->n; row++) {
        args->ret_loss->loss += s.loss[row];
    }
}
