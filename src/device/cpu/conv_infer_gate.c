/*
 * Convolutions for inference whose outputs are wanted only where one of them is large: the heads of
 * detectors, of which most say that nothing is there.
 *
 * The gates are a convolution of few outputs. Then pixels with an open gate are gathered, all their
 * outputs computed, and scattered.
 *
 * Bits: as in conv_infer.c; which others are computed beside it changes no element.
 */
#include "device/cpu/conv_infer.h"

#include <assert.h>

struct gated {
    struct culm_cpu *cpu;
    const struct culm_conv_infer_args *a;
    int64_t pixels;
    float *scratch; /* for coefficients of a convolution */
    float *value;   /* [pixels,parts] of the gates */
    int32_t *open;  /* the pixels with one that is open */
    int64_t opened;
    float *rest; /* what is left of the scratch */
    int64_t floats;
};

/* The first `count` floats of what is left, in whole cache lines; NULL: they are too many. */
static float *take(struct gated *g, int64_t count) {
    float *at = g->rest;
    count = round_up(count, LANES);
    if (count > g->floats) {
        return NULL;
    }
    g->rest += count;
    g->floats -= count;
    return at;
}

static void compute(const struct gated *g, const struct culm_conv_infer_args *args) {
    struct infer s;
    ISA_NAME(conv_infer_set_up)(g->cpu, args, g->scratch, &s);
    ISA_NAME(conv_infer_direct)(g->cpu, &s);
}

/* The gates of all pixels. False: there is no room. */
static bool find_gates(struct gated *g) {
    const struct culm_conv_infer_args *a = g->a;
    const int64_t parts = a->gate.parts, size = a->conv->o / parts;
    struct culm_conv few = *a->conv;
    float *w = take(g, few.c * parts), *b = take(g, parts);
    g->value = take(g, g->pixels * parts);
    g->open = (int32_t *)(void *)take(g, g->pixels);
    if (!w || !b || !g->value || !g->open) {
        return false;
    }
    for (int64_t i = 0; i < few.c; i++) {
        for (int64_t p = 0; p < parts; p++) {
            w[i * parts + p] = a->w[i * few.o + p * size + a->gate.channel];
        }
    }
    for (int64_t p = 0; a->b && p < parts; p++) {
        b[p] = a->b[p * size + a->gate.channel];
    }
    few.o = parts;
    const struct culm_conv_infer_args gates = {
        .conv = &few, .y = g->value, .x = a->x, .w = w, .b = a->b ? b : NULL, .eps = a->eps};
    compute(g, &gates);
    return true;
}

/* Lists the pixels with an open gate, and writes the gates of the others. */
static void list_open(struct gated *g) {
    const struct culm_gate gate = g->a->gate;
    const int64_t parts = gate.parts, size = g->a->conv->o / parts;
    for (int64_t pixel = 0; pixel < g->pixels; pixel++) {
        const float *value = g->value + pixel * parts;
        bool open = false;
        for (int64_t p = 0; p < parts; p++) {
            open = open || value[p] >= gate.least;
        }
        if (open) {
            g->open[g->opened++] = (int32_t)pixel;
            continue;
        }
        float *to = g->a->y + pixel * g->a->conv->o + gate.channel;
        for (int64_t p = 0; p < parts; p++) {
            to[p * size] = value[p];
        }
    }
}

/* All outputs of some of the pixels with an open gate. */
static void compute_open(const struct gated *g, const int32_t *pixel, int64_t count, float *x,
                         float *y) {
    struct culm_conv some = *g->a->conv;
    some.n = some.h = some.oh = 1;
    some.w = some.ow = count;
    struct culm_conv_infer_args args = *g->a;
    args.conv = &some;
    args.x = x;
    args.y = y;
    args.ahead = NULL;
    for (int64_t i = 0; i < count; i++) {
        memcpy(x + i * some.c, g->a->x + pixel[i] * some.c, (size_t)some.c * sizeof *x);
    }
    compute(g, &args);
    for (int64_t i = 0; i < count; i++) {
        memcpy(g->a->y + pixel[i] * some.o, y + i * some.o, (size_t)some.o * sizeof *y);
    }
}

bool ISA_NAME(conv_infer_gated)(struct culm_cpu *cpu, const struct culm_conv_infer_args *args,
                                float *shared, int64_t floats) {
    const struct culm_conv *v = args->conv;
    struct gated g = {
        .cpu = cpu, .a = args, .pixels = v->n * v->oh * v->ow, .rest = shared, .floats = floats};
    assert(culm_gate_possible(v, args->function) && v->o % args->gate.parts == 0);
    assert(!args->gamma && !args->residual && !args->coarse.c);
    g.scratch = take(&g, 3 * round_up(v->o, LANES) + round_up(v->c, LANES));
    if (!g.scratch || g.pixels > INT32_MAX || !find_gates(&g)) {
        return false;
    }
    list_open(&g);
    int64_t together = at_most(g.floats / (v->c + v->o + 2 * LANES), g.opened);
    if (2 * g.opened > g.pixels || (g.opened > 0 && together < 1)) {
        return false;
    }
    float *x = take(&g, together * v->c), *y = take(&g, together * v->o);
    for (int64_t i = 0; i < g.opened; i += together) {
        compute_open(&g, g.open + i, at_most(together, g.opened - i), x, y);
    }
    return true;
}
