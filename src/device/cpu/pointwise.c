/*
 * Element-wise functions of one array, forward and backward, and the SGD step.
 *
 * A tile is a run of CHUNK elements. One loop is written; the compiler makes one of it for every
 * function and for arrays that are all f32 and all bf16. Tails go through the same vector code.
 */
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

SIMD void forward_loop(const struct map *s, int64_t from, int64_t to, enum culm_function function,
                       enum culm_dtype x_type, enum culm_dtype y_type) {
    struct culm_in x = {s->x.data, x_type};
    struct culm_out y = {s->y.data, y_type};
    vec alpha = vset(s->scale);
    int64_t i = from;
    for (; i + LANES <= to; i += LANES)
        tstore(y, i, vfunction(function, tload(x, i), alpha));
    if (i < to)
        tstore_part(y, i, vfunction(function, tload_part(x, i, to - i), alpha), to - i);
}

SIMD void backward_loop(const struct map *s, int64_t from, int64_t to, enum culm_function function,
                        enum culm_dtype x_type, enum culm_dtype y_type) {
    struct culm_in dy = {s->x.data, x_type}, kept = {s->kept.data, x_type};
    struct culm_out dx = {s->y.data, y_type};
    vec alpha = vset(s->scale);
    int64_t i = from;
    for (; i + LANES <= to; i += LANES)
        tstore(dx, i, vfunction_backward(function, tload(dy, i), tload(kept, i), alpha));
    if (i < to) {
        vec d = vfunction_backward(function, tload_part(dy, i, to - i), tload_part(kept, i, to - i),
                                   alpha);
        tstore_part(dx, i, d, to - i);
    }
}

/* Backward of arrays of several types. */
SIMD void mixed_loop(const struct map *s, int64_t from, int64_t to, enum culm_function function) {
    vec alpha = vset(s->scale);
    for (int64_t i = from; i < to; i += LANES) {
        vec d = vfunction_backward(function, tload_part(s->x, i, to - i),
                                   tload_part(s->kept, i, to - i), alpha);
        tstore_part(s->y, i, d, to - i);
    }
}

SIMD void forward_types(const struct map *s, int64_t from, int64_t to,
                        enum culm_function function) {
    if (s->x.dtype == CULM_F32 && s->y.dtype == CULM_F32)
        forward_loop(s, from, to, function, CULM_F32, CULM_F32);
    else if (s->x.dtype == CULM_BF16 && s->y.dtype == CULM_BF16)
        forward_loop(s, from, to, function, CULM_BF16, CULM_BF16);
    else
        forward_loop(s, from, to, function, s->x.dtype, s->y.dtype);
}

SIMD void backward_types(const struct map *s, int64_t from, int64_t to,
                         enum culm_function function) {
    enum culm_dtype type = s->x.dtype;
    if (s->kept.dtype != type || s->y.dtype != type)
        mixed_loop(s, from, to, function);
    else if (type == CULM_F32)
        backward_loop(s, from, to, function, CULM_F32, CULM_F32);
    else
        backward_loop(s, from, to, function, CULM_BF16, CULM_BF16);
}

#define EVERY_FUNCTION(X)                                                                          \
    X(RELU)                                                                                        \
    X(LEAKY_RELU)                                                                                  \
    X(RELU6) X(GELU_TANH) X(GELU_ERF) X(TANH) X(SIGMOID) X(SILU) X(EXP) X(LOG) X(SQRT) X(RECIPROCAL)

static void forward_tile(void *context, int64_t tile, int thread) {
    struct map *s = context;
    (void)thread;
    int64_t from = tile * CHUNK, to = at_most(s->count, from + CHUNK);
    switch (s->function) {
#define CASE(name)                                                                                 \
    case CULM_FUNCTION_##name: forward_types(s, from, to, CULM_FUNCTION_##name); break;
        EVERY_FUNCTION(CASE)
#undef CASE
    default: forward_types(s, from, to, CULM_FUNCTION_NONE);
    }
}

static void backward_tile(void *context, int64_t tile, int thread) {
    struct map *s = context;
    (void)thread;
    int64_t from = tile * CHUNK, to = at_most(s->count, from + CHUNK);
    switch (s->function) {
#define CASE(name)                                                                                 \
    case CULM_FUNCTION_##name: backward_types(s, from, to, CULM_FUNCTION_##name); break;
        EVERY_FUNCTION(CASE)
#undef CASE
    default: backward_types(s, from, to, CULM_FUNCTION_NONE);
    }
}

void ISA_NAME(activation_forward)(struct culm_cpu *cpu, struct culm_out y, struct culm_in x,
                                  int64_t count, enum culm_function function, double alpha) {
    assert(function <= CULM_FUNCTION_RECIPROCAL);
    struct map s = {.y = y, .x = x, .count = count, .function = function, .scale = (float)alpha};
    run(cpu, &s, forward_tile);
}

void ISA_NAME(activation_backward)(struct culm_cpu *cpu, struct culm_out dx, struct culm_in dy,
                                   struct culm_in kept, int64_t count, enum culm_function function,
                                   double alpha) {
    assert(function <= CULM_FUNCTION_RECIPROCAL);
    struct map s = {.y = dx,
                    .x = dy,
                    .kept = kept,
                    .count = count,
                    .function = function,
                    .scale = (float)alpha};
    run(cpu, &s, backward_tile);
}

static void affine_tile(void *context, int64_t tile, int thread) {
    struct map *s = context;
    (void)thread;
    int64_t to = at_most(s->count, (tile + 1) * CHUNK);
    vec scale = vset(s->scale), shift = vset(s->shift);
    for (int64_t i = tile * CHUNK; i < to; i += LANES)
        tstore_part(s->y, i, vfma(tload_part(s->x, i, to - i), scale, shift), to - i);
}

void ISA_NAME(affine)(struct culm_cpu *cpu, struct culm_out y, struct culm_in x, int64_t count,
                      double scale, double shift) {
    struct map s = {.y = y, .x = x, .count = count, .scale = (float)scale, .shift = (float)shift};
    run(cpu, &s, affine_tile);
}

static void accumulate_tile(void *context, int64_t tile, int thread) {
    struct map *s = context;
    (void)thread;
    float *sum = s->y.data;
    int64_t to = at_most(s->count, (tile + 1) * CHUNK);
    for (int64_t i = tile * CHUNK; i < to; i += LANES)
        store_part(sum + i, vadd(load_part(sum + i, to - i), tload_part(s->x, i, to - i)), to - i);
}

void ISA_NAME(accumulate)(struct culm_cpu *cpu, float *sum, struct culm_in x, int64_t count) {
    struct map s = {.y = culm_out_f32(sum), .x = x, .count = count};
    run(cpu, &s, accumulate_tile);
}

/* ---- SGD ---- */

struct sgd {
    float *p, *buffer; /* buffer NULL: no momentum */
    const float *g;
    int64_t count;
    float grad_scale, weight_decay, momentum, share, lr;
    bool nesterov, first;
};

static void sgd_tile(void *context, int64_t tile, int thread) {
    struct sgd *s = context;
    (void)thread;
    int64_t to = at_most(s->count, (tile + 1) * CHUNK);
    vec momentum = vset(s->momentum);
    for (int64_t i = tile * CHUNK; i < to; i += LANES) {
        vec p = load_part(s->p + i, to - i);
        vec g = vmul(load_part(s->g + i, to - i), vset(s->grad_scale));
        g = vfma(vset(s->weight_decay), p, g);
        if (s->buffer) {
            vec buffer = g;
            if (!s->first)
                buffer = vfma(momentum, load_part(s->buffer + i, to - i), vmul(vset(s->share), g));
            store_part(s->buffer + i, buffer, to - i);
            g = s->nesterov ? vfma(momentum, buffer, g) : buffer;
        }
        store_part(s->p + i, vfnma(vset(s->lr), g, p), to - i);
    }
}

void ISA_NAME(sgd)(struct culm_cpu *cpu, float *p, float *buffer, const float *g, int64_t count,
                   const struct culm_sgd *hyper) {
    struct sgd s = {.p = p,
                    .buffer = hyper->momentum != 0 ? buffer : NULL,
                    .g = g,
                    .count = count,
                    .grad_scale = (float)hyper->grad_scale,
                    .weight_decay = (float)hyper->weight_decay,
                    .momentum = (float)hyper->momentum,
                    .share = (float)(1.0 - hyper->dampening),
                    .lr = (float)hyper->lr,
                    .nesterov = hyper->nesterov,
                    .first = hyper->first};
    culm_cpu_run(cpu, ceil_div(count, CHUNK), sgd_tile, &s);
}
