/*
 * What the files of convolution for inference share: what a call is about, and what follows the chain of
 * an element. conv_infer.c says how the bits come about.
 */
#ifndef CULM_DEVICE_CPU_CONV_INFER_H
#define CULM_DEVICE_CPU_CONV_INFER_H

#include "device/cpu/functions.h"
#include "device/cpu/infer.h"
#include "device/cpu/variant.h"

struct infer {
    const struct culm_conv_infer_args *a;
    const struct culm_conv *v;
    struct culm_cpu *cpu;
    const float *zeros;            /* as many as a run has terms */
    const float *coarse;           /* where chains begin: of each coarse pixel; NULL: with zero */
    float *offset, *scale, *shift; /* [round_up(O)] */
    float slope, cap;              /* the function is min(cap, y < 0 ? y slope : y) */
    int64_t pixels, each;          /* in all; of a tile of work */
    int64_t panels, panel;         /* of outputs; vectors of each, */
    int64_t panels_over;           /* and of how many one more */
    bool pointwise;
};

/* --- what follows the chain --- */

#define FREE -1 /* any of them, by one way without a choice in it */

/* Of one vector of outputs. */
struct norm {
    vec offset, scale, shift;
};

SIMD struct norm norm_of(const struct infer *s, int64_t column) {
    return (struct norm){vload(s->offset + column), vload(s->scale + column),
                         vload(s->shift + column)};
}

SIMD vec normed(struct norm n, vec sum) { return vfma(vadd(sum, n.offset), n.scale, n.shift); }

/* The function's numbers, of any vector: asked for once, since no compiler knows what a store changes. */
struct activation {
    vec slope, cap, alpha;
};

SIMD struct activation activation_of(const struct infer *s) {
    return (struct activation){vset(s->slope), vset(s->cap), vset((float)s->a->alpha)};
}

SIMD vec activated(struct activation a, vec y, const int function) {
    if (function == FREE) {
        y = vselect(vless(y, vzero()), vfma(y, a.slope, vzero()), y);
        return vmin(a.cap, y);
    }
    return function == CULM_FUNCTION_NONE ? y : vrelu((enum culm_function)function, y, a.alpha);
}

SIMD void emit(const struct infer *s, const vec *sum, const int count, int64_t at, int64_t step,
               int64_t column, int64_t left, const int function, const enum simd_lanes lanes) {
    const struct norm norm = norm_of(s, column);
    const struct activation activation = activation_of(s);
    const float *residual = s->a->residual ? s->a->residual + at + column : NULL;
    float *const to = s->a->y + at + column;
#pragma GCC unroll 8
    for (int p = 0; p < count; p++) {
        vec y = normed(norm, sum[p]);
        if (residual) {
            const float *one = residual + p * step;
            y = vadd(y, vload_lanes(one, left, lanes));
        }
        vstore_lanes(to + p * step, activated(activation, y, function), left, lanes);
    }
}

/* The same for small code, where sums are short. */
SIMD void emit_free(const struct infer *s, const vec *sum, const int count, int64_t at,
                    int64_t step, int64_t column, int64_t left, const enum simd_lanes lanes) {
    emit(s, sum, count, at, step, column, left, FREE, lanes);
}

SIMD void emit_chosen(const struct infer *s, const vec *sum, const int count, int64_t at,
                      int64_t step, int64_t column, int64_t left, const enum simd_lanes lanes) {
    switch (s->a->function) {
    case CULM_FUNCTION_RELU:
        emit(s, sum, count, at, step, column, left, CULM_FUNCTION_RELU, lanes);
        return;
    case CULM_FUNCTION_LEAKY_RELU:
        emit(s, sum, count, at, step, column, left, CULM_FUNCTION_LEAKY_RELU, lanes);
        return;
    case CULM_FUNCTION_RELU6:
        emit(s, sum, count, at, step, column, left, CULM_FUNCTION_RELU6, lanes);
        return;
    default: emit(s, sum, count, at, step, column, left, CULM_FUNCTION_NONE, lanes);
    }
}

/* --- the sides of a line --- */

/* Pixels [low, high) of a line have all columns of the kernel inside of the image. */
static inline void whole_pixels(const struct culm_conv *v, int64_t *low, int64_t *high) {
    int64_t reach = (v->kw - 1) * v->dilation[1];
    int64_t last = v->w - 1 - reach + v->pad[1]; /* what the first column of a pixel may read */
    *low = at_least(0, ceil_div(v->pad[1], v->stride[1]));
    *high = last < 0 ? 0 : at_most(v->ow, last / v->stride[1] + 1);
}

/* --- what is fetched for those who come later --- */

/* A few cache lines with each tile, so that they do not stand in the way of what it reads itself. */
struct ahead {
    const char *at, *end;
    int64_t each; /* lines with a tile */
};

#define CACHE_LINE (LANES * (int64_t)sizeof(float))

/* The share of a task that does [first, end) of `whole`, in so many tiles. */
static inline struct ahead ahead_of(const struct infer *s, int64_t first, int64_t end,
                                    int64_t whole, int64_t tiles) {
    if (!s->a->ahead) {
        return (struct ahead){0};
    }
    int64_t lines = s->a->ahead_floats / LANES, low = lines * first / whole,
            high = lines * end / whole;
    const char *from = (const char *)s->a->ahead;
    return (struct ahead){from + low * CACHE_LINE, from + high * CACHE_LINE,
                          ceil_div(high - low, tiles)};
}

SIMD void fetch(struct ahead *ahead) {
    for (int64_t i = 0; i < ahead->each && ahead->at < ahead->end; i++, ahead->at += CACHE_LINE) {
        __builtin_prefetch(ahead->at, 0, 2);
    }
}

/* --- tasks --- */

/* Into how many parts the channels go, in whole blocks, so that all threads have work beside `tasks` other
 * tasks; and how many channels each has, at most. */
static inline int64_t channel_parts(const struct culm_cpu *cpu, int64_t channels, int64_t block,
                                    int64_t tasks, int64_t *width) {
    int64_t blocks = ceil_div(channels, block);
    int64_t parts = cpu ? at_most(blocks, ceil_div(4 * (cpu->threads - 1), tasks)) : 1;
    *width = ceil_div(blocks, at_least(1, parts)) * block;
    return ceil_div(channels, *width);
}

/* Tasks for all threads, or, without `cpu`, one after the other on this one. */
static inline void run_tasks(struct culm_cpu *cpu, int64_t tasks, culm_cpu_tile *task,
                             void *context) {
    if (cpu) {
        culm_cpu_run(cpu, tasks, task, context);
        return;
    }
    for (int64_t i = 0; i < tasks; i++) {
        task(context, i, 0);
    }
}

/* --- from file to file --- */

/* Fills `s` for a call; its coefficients go to `at`. Returns how many floats they are. */
int64_t ISA_NAME(conv_infer_set_up)(struct culm_cpu *cpu, const struct culm_conv_infer_args *args,
                                    float *at, struct infer *s);
/* Any convolution, directly; without `cpu` on this thread alone. */
void ISA_NAME(conv_infer_direct)(struct culm_cpu *cpu, struct infer *s);
/* Of that and one group, pixels [pixel, end), all outputs, on this thread. */
void ISA_NAME(conv_infer_pixels)(const struct infer *s, int64_t pixel, int64_t end);
/* conv_infer_panel.c: whether a direct one gains from copies of its weights, and by these. */
bool ISA_NAME(conv_infer_by_panels)(const struct infer *s);
void ISA_NAME(conv_infer_panels)(struct culm_cpu *cpu, const struct infer *s);
/* conv_infer_direct of one channel in and out a group: conv_infer_depth.c. */
void ISA_NAME(conv_infer_depth)(struct culm_cpu *cpu, const struct infer *s);
/* conv_infer_depth3.c: that, if it can be done there; false: nothing is done. */
bool ISA_NAME(conv_infer_depth3)(struct culm_cpu *cpu, const struct infer *s);
/* conv_infer_winograd.c: whether it is done so, and that. `shared`: what is left of the shared scratch,
 * `floats` long. */
bool ISA_NAME(conv_infer_by_winograd)(const struct culm_conv *v);
void ISA_NAME(conv_infer_winograd)(struct culm_cpu *cpu, const struct infer *s, float *shared,
                                   int64_t floats);
/* conv_infer_coarse.c: with coarse channels. `shared`: the shared scratch, `floats` long; here and in the
 * next one. */
void ISA_NAME(conv_infer_coarse)(struct culm_cpu *cpu, const struct culm_conv_infer_args *args,
                                 float *shared, int64_t floats);
/* conv_infer_gate.c: with a gate. False: it gains nothing, and nothing of use is done. */
bool ISA_NAME(conv_infer_gated)(struct culm_cpu *cpu, const struct culm_conv_infer_args *args,
                                float *shared, int64_t floats);
/* conv_infer_chain.c: the first of the chain, as many as are done together. Returns how many; 0: they do
 * not gain from it, and nothing is done. */
int32_t ISA_NAME(conv_infer_chain)(struct culm_cpu *cpu, const struct culm_conv_infer_args *args,
                                   int32_t count);

#endif
