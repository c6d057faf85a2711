/*
 * Element-wise functions of one array, forward and backward, and the SGD step.
 *
 * A tile is a run of CHUNK elements. One loop is written; the compiler makes one of it for every
 * function, of f32; bf16 goes through it in pieces that stay in the first-level cache. Tails go
 * through the same vector code.
 */
#include "device/cpu/digest.h"
#include "device/cpu/functions.h"
#include "device/cpu/variant.h"

#include <assert.h>

#define CHUNK 8192 /* elements */

struct map {
    struct culm_out y;
    struct culm_in x, kept; /* backward: x is dy */
    int64_t count;
    enum culm_function function;
    float scale, shift;
};

static void run(struct culm_cpu *cpu, struct map *map, culm_cpu_tile *tile) {
    culm_cpu_run(cpu, ceil_div(map->count, CHUNK), tile, map);
}

/* ---- functions ---- */

#define PIECE 512 /* elements of bf16 widened at a time */

/* n elements of f32; kept NULL: forward. */
SIMD void loop(float *y, const float *x, const float *kept, int64_t n, float slope,
               enum culm_function function) {
    vec alpha = vset(slope);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vec v = vload(x + i);
        vstore(y + i, kept ? vfunction_backward(function, v, vload(kept + i), alpha)
                           : vfunction(function, v, alpha));
    }
    if (i < n) {
        vec v = vload_n(x + i, n - i);
        vstore_n(y + i,
                 kept ? vfunction_backward(function, v, vload_n(kept + i, n - i), alpha)
                      : vfunction(function, v, alpha),
                 n - i);
    }
}

#define EVERY_FUNCTION(X)                                                                          \
    X(RELU)                                                                                        \
    X(LEAKY_RELU)                                                                                  \
    X(RELU6)                                                                                       \
    X(GELU_TANH) X(GELU_ERF) X(TANH) X(SIGMOID) X(SILU) X(ELU) X(EXP) X(LOG) X(SQRT) X(RECIPROCAL)

static void apply(const struct map *s, float *y, const float *x, const float *kept, int64_t n) {
    switch (s->function) {
#define CASE(name)                                                                                 \
    case CULM_FUNCTION_##name:                                                                     \
        if (kept)                                                                                  \
            loop(y, x, kept, n, s->scale, CULM_FUNCTION_##name);                                   \
        else                                                                                       \
            loop(y, x, NULL, n, s->scale, CULM_FUNCTION_##name);                                   \
        break;
        EVERY_FUNCTION(CASE)
#undef CASE
    default: loop(y, x, NULL, n, s->scale, CULM_FUNCTION_NONE);
    }
}

/* The elements themselves when they are f32, else widened into `piece`. */
static const float *widened(struct culm_in x, int64_t from, int64_t n, float *piece) {
    if (x.dtype != CULM_BF16 || !x.data) {
        return x.data ? (const float *)x.data + from : NULL;
    }
    for (int64_t i = 0; i < n; i += LANES) {
        vstore(piece + i, tload_part(x, from + i, n - i));
    }
    return piece;
}

static void function_tile(void *context, int64_t tile, int thread) {
    struct map *s = context;
    (void)thread;
    _Alignas(64) float x[PIECE], kept[PIECE], y[PIECE];
    int64_t to = at_most(s->count, (tile + 1) * CHUNK);
    bool wide = s->x.dtype != CULM_BF16 && s->kept.dtype != CULM_BF16 && s->y.dtype != CULM_BF16;
    int64_t step = wide ? CHUNK : PIECE;
    for (int64_t from = tile * CHUNK; from < to; from += step) {
        int64_t n = at_most(step, to - from);
        const float *a = widened(s->x, from, n, x), *b = widened(s->kept, from, n, kept);
        if (s->y.dtype != CULM_BF16) {
            apply(s, (float *)s->y.data + from, a, b, n);
            continue;
        }
        apply(s, y, a, b, n);
        for (int64_t i = 0; i < n; i += LANES) {
            tstore_part(s->y, from + i, vload(y + i), n - i);
        }
    }
}

void ISA_NAME(activation_forward)(struct culm_cpu *cpu,
                                  const struct culm_activation_forward_args *args) {
    assert(args->function <= CULM_FUNCTION_RECIPROCAL);
    struct map s = {.y = args->y,
                    .x = args->x,
                    .count = args->count,
                    .function = args->function,
                    .scale = (float)args->alpha};
    run(cpu, &s, function_tile);
}

void ISA_NAME(activation_backward)(struct culm_cpu *cpu,
                                   const struct culm_activation_backward_args *args) {
    assert(args->function <= CULM_FUNCTION_RECIPROCAL);
    struct map s = {.y = args->dx,
                    .x = args->dy,
                    .kept = args->kept,
                    .count = args->count,
                    .function = args->function,
                    .scale = (float)args->alpha};
    run(cpu, &s, function_tile);
}

static void affine_tile(void *context, int64_t tile, int thread) {
    struct map *s = context;
    (void)thread;
    int64_t to = at_most(s->count, (tile + 1) * CHUNK);
    vec scale = vset(s->scale), shift = vset(s->shift);
    for (int64_t i = tile * CHUNK; i < to; i += LANES) {
        tstore_part(s->y, i, vfma(tload_part(s->x, i, to - i), scale, shift), to - i);
    }
}

void ISA_NAME(affine)(struct culm_cpu *cpu, const struct culm_affine_args *args) {
    struct map s = {.y = args->y,
                    .x = args->x,
                    .count = args->count,
                    .scale = (float)args->scale,
                    .shift = (float)args->shift};
    run(cpu, &s, affine_tile);
}

static void accumulate_tile(void *context, int64_t tile, int thread) {
    struct map *s = context;
    (void)thread;
    float *sum = s->y.data;
    int64_t to = at_most(s->count, (tile + 1) * CHUNK);
    for (int64_t i = tile * CHUNK; i < to; i += LANES) {
        store_part(sum + i, vadd(load_part(sum + i, to - i), tload_part(s->x, i, to - i)), to - i);
    }
}

void ISA_NAME(accumulate)(struct culm_cpu *cpu, const struct culm_accumulate_args *args) {
    struct map s = {.y = culm_out_f32(args->sum), .x = args->x, .count = args->count};
    run(cpu, &s, accumulate_tile);
}

/* ---- SGD ---- */

struct sgd {
    float *p, *buffer; /* buffer NULL: no momentum */
    const float *g;
    int64_t count;
    float grad_scale, weight_decay, momentum, share, lr;
    bool nesterov, first;
    struct culm_step_digest *digest;
};

SIMD void sgd_run(struct sgd *s, int64_t from, int64_t to) {
    vec momentum = vset(s->momentum);
    for (int64_t i = from; i < to; i += LANES) {
        vec p = load_part(s->p + i, to - i);
        vec g = vmul(load_part(s->g + i, to - i), vset(s->grad_scale));
        g = vfma(vset(s->weight_decay), p, g);
        if (s->buffer) {
            vec buffer = g;
            if (!s->first) {
                buffer = vfma(momentum, load_part(s->buffer + i, to - i), vmul(vset(s->share), g));
            }
            store_part(s->buffer + i, buffer, to - i);
            g = s->nesterov ? vfma(momentum, buffer, g) : buffer;
        }
        store_part(s->p + i, vfnma(vset(s->lr), g, p), to - i);
    }
}

static void sgd_tile(void *context, int64_t tile, int thread) {
    struct sgd *s = context;
    (void)thread;
    int64_t to = at_most(s->count, (tile + 1) * CHUNK);
    struct culm_step_digest *d = s->digest;
    for (int64_t from = tile * CHUNK; from < to; from += DIGEST_RUN) { /* it stays in the cache */
        int64_t end = at_most(to, from + DIGEST_RUN);
        if (d) {
            digest_add(&d->grad, digest_run(s->g, from, end));
            digest_add(&d->before[0], digest_run(s->p, from, end));
            if (s->buffer) {
                digest_add(&d->before[1], digest_run(s->buffer, from, end));
            }
        }
        sgd_run(s, from, end);
        if (d) {
            digest_add(&d->after[0], digest_run(s->p, from, end));
            if (s->buffer) {
                digest_add(&d->after[1], digest_run(s->buffer, from, end));
            }
        }
    }
}

void ISA_NAME(sgd)(struct culm_cpu *cpu, const struct culm_sgd_args *args) {
    struct sgd s = {.p = args->p,
                    .buffer = args->hyper->momentum != 0 ? args->buffer : NULL,
                    .g = args->g,
                    .count = args->count,
                    .grad_scale = (float)args->hyper->grad_scale,
                    .weight_decay = (float)args->hyper->weight_decay,
                    .momentum = (float)args->hyper->momentum,
                    .share = (float)(1.0 - args->hyper->dampening),
                    .lr = (float)args->hyper->lr,
                    .nesterov = args->hyper->nesterov,
                    .first = args->hyper->first,
                    .digest = args->hyper->digest};
    if (s.digest) {
        *s.digest = (struct culm_step_digest){0};
    }
    culm_cpu_run(cpu, ceil_div(args->count, CHUNK), sgd_tile, &s);
}
