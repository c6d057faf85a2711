/*
 * Convolutions for inference, with norm, function and residual, on every instruction set and 1, 2
 * and 3 threads (the slow base on one): against the reference, with equal bits on all of them, and
 * other bits where sums have another order; of images in two resolutions, where a gate is closed, and chains of several.
 *
 *     CULM_TEST_SEED=N      another seed than 1
 */
#include "conv.h"

#include "device/infer.h"

/* For inference, beside these: depthwise squares of 3 and 5 with sides of all kinds, and 3x3 that
 * Winograd's algorithm does. */
static const struct culm_conv infer_geometries[] = {
    GEOMETRY(2, 7, 26, 24, 24, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 24),
    GEOMETRY(1, 9, 17, 8, 8, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 8),
    GEOMETRY(1, 12, 21, 40, 40, 3, 3, 2, 2, 0, 0, 1, 1, 1, 1, 40),
    GEOMETRY(1, 8, 19, 33, 33, 5, 5, 1, 1, 2, 2, 2, 2, 1, 1, 33),
    GEOMETRY(2, 11, 35, 16, 16, 5, 5, 2, 2, 2, 2, 2, 2, 1, 1, 16),
    GEOMETRY(1, 1, 2, 17, 17, 5, 5, 1, 1, 2, 2, 2, 2, 1, 1, 17),
    GEOMETRY(1, 6, 5, 12, 12, 3, 3, 1, 1, 4, 5, 3, 4, 1, 1, 12), /* pixels that no tap sees */
    GEOMETRY(1, 4, 20, 20, 20, 3, 3, 1, 1, 0, 0, 0, 0, 1, 1, 20),
    GEOMETRY(3, 9, 6, 20, 33, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1),
    GEOMETRY(1, 8, 8, 64, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1),
    GEOMETRY(1, 15, 18, 17, 16, 3, 3, 1, 1, 0, 2, 1, 0, 1, 1, 1),
    GEOMETRY(1, 33, 31, 16, 48, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1),
    GEOMETRY(1, 9, 13, 300, 260, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1), /* twice what scratch holds */
    GEOMETRY(1, 23, 45, 3, 16, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1),
    GEOMETRY(1, 9, 40, 4, 7, 5, 3, 1, 2, 2, 0, 2, 1, 1, 1, 1),
    /* pixels enough for copies of the weights: of all widths, and strips with sides */
    GEOMETRY(1, 14, 15, 7, 8, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1),
    GEOMETRY(2, 11, 13, 24, 12, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1),
    GEOMETRY(1, 16, 25, 17, 21, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1),
    GEOMETRY(1, 20, 20, 97, 255, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1),
    GEOMETRY(1, 19, 61, 3, 8, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1),
    GEOMETRY(2, 21, 56, 3, 16, 3, 3, 2, 2, 0, 0, 1, 1, 1, 1, 1),
    GEOMETRY(1, 12, 40, 3, 20, 5, 5, 1, 1, 2, 2, 2, 2, 2, 1, 1),
    GEOMETRY(1, 9, 50, 30, 13, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1),
    GEOMETRY(1, 9, 50, 30, 13, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1), /* without a residual */
    GEOMETRY(1, 9, 45, 3, 5, 3, 3, 1, 1, 4, 4, 4, 4, 1, 1, 1),
    GEOMETRY(1, 9, 45, 3, 5, 3, 3, 1, 1, 4, 4, 4, 4, 1, 1, 1),
    GEOMETRY(1, 16, 16, 512, 17, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1),
    /* and some that do not go this way: a tall kernel, one with holes, too many terms */
    GEOMETRY(1, 30, 40, 1, 8, 7, 7, 1, 1, 3, 3, 3, 3, 1, 1, 1),
    GEOMETRY(1, 20, 40, 3, 8, 3, 3, 1, 1, 2, 2, 2, 2, 1, 2, 1),
    GEOMETRY(1, 16, 16, 513, 17, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1),
    /* depthwise: long and short lines, large and unequal steps */
    GEOMETRY(1, 35, 90, 24, 24, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 24),
    GEOMETRY(1, 37, 91, 40, 40, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 40),
    GEOMETRY(1, 12, 20, 8, 8, 3, 3, 3, 3, 1, 1, 1, 1, 1, 1, 8),
    GEOMETRY(1, 9, 12, 16, 16, 3, 3, 1, 2, 1, 1, 1, 0, 1, 1, 16),
    GEOMETRY(2, 3, 3, 16, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 16),
    GEOMETRY(1, 5, 3, 8, 8, 3, 3, 1, 3, 1, 1, 1, 1, 1, 1, 8),
};
#define INFER_GEOMETRIES (int)(sizeof infer_geometries / sizeof *infer_geometries)

/* The negative control: whether the sums of these arguments, of which y is as it was before, have other bits
 * where they go through channels, or of a depthwise convolution through taps, in another order. They must be
 * near. */
static bool astray_shows(struct culm_device *cpu, const struct culm_conv_infer_args *args,
                         const struct array *before, const struct array *leader, double near) {
    const struct culm_conv *v = args->conv;
    int64_t cg = v->c / v->groups, taps = v->kh * v->kw, in = v->n * v->h * v->w;
    bool turns = cg == 1 && same_turned(v), shows;
    struct array x = array_new(in * v->c, false, 0), w = array_new(taps * cg * v->o, false, 0);
    struct array y = array_copy(before);
    memcpy(x.f32, args->x, (size_t)x.count * 4);
    memcpy(w.f32, args->w, (size_t)w.count * 4);
    astray(x.f32, in * v->groups, cg, 1, false);
    astray(w.f32, taps, cg, v->o, false);
    if (turns) {
        astray_turned(x.f32, v->n, v->h * v->w, v->c);
        astray_turned(w.f32, 1, taps, v->o);
        astray_turned(y.f32, v->n, v->oh * v->ow, v->o);
    }
    struct culm_conv_infer_args moved = *args;
    moved.x = x.f32;
    moved.w = w.f32;
    moved.y = y.f32;
    moved.residual = args->residual ? y.f32 : NULL;
    culm_device_conv_infer(cpu, &moved);
    if (turns) {
        astray_turned(y.f32, v->n, v->oh * v->ow, v->o);
    }
    for (int64_t i = 0; i < y.count; i++) {
        assert_true(fabs((double)y.f32[i] - (double)leader->f32[i]) <= 2 * near);
    }
    shows = memcmp(y.f32, leader->f32, (size_t)y.count * 4);
    array_free(&x);
    array_free(&w);
    array_free(&y);
    return shows;
}

/* For inference: with and without norm, bias and residual, every function; the same bits everywhere, and
 * into the residual's own memory. Returns whether another order shows. */
static bool infer_test(struct culm_conv v, int index, int how) {
    static const enum culm_function functions[] = {CULM_FUNCTION_NONE, CULM_FUNCTION_RELU,
                                                   CULM_FUNCTION_LEAKY_RELU, CULM_FUNCTION_RELU6};
    bool norm = how & 1, bias = how >> 1 & 1, residual = (how + index) >> 2 & 1;
    enum culm_function function = functions[(how + index) % 4];
    double alpha =
        index % 3 ? 0.1 : 0; /* what is below zero may be either zero then: the same everywhere */
    struct set s = set_new(&v, false, 500 + (uint64_t)index);
    struct array *a = s.a, of[4], kept = array_new(a[Y].count, false, 7000), leader = {0};
    float *turned = malloc((size_t)a[W].count * 4), *want = malloc((size_t)a[Y].count * 4);
    double most = 0;
    bool shows = false;
    for (int i = 0; i < 4; i++) { /* gamma, beta, mean, variance */
        of[i] = array_new(v.o, false, 600 + (uint64_t)i);
        for (int64_t k = 0; k < v.o && i == 3; k++) {
            of[i].f32[k] = k % 5 == 4 ? -1e-44F : fabsf(of[i].f32[k]) + 0.5F;
        }
        for (int64_t k = 4; k < v.o && i == 0; k += 5) {
            of[i].f32[k] *= 0.003F; /* as its root is so small */
        }
    }
    culm_conv_turn(a[W].f32, v.o, v.c / v.groups, v.kh * v.kw, turned);
    culm_ref_conv_infer(&v, want, a[X].f32, NULL, turned, bias ? a[B].f32 : NULL,
                        norm ? of[0].f32 : NULL, of[1].f32, of[2].f32, of[3].f32, 1e-5,
                        residual ? kept.f32 : NULL);
    for (int64_t i = 0; i < a[Y].count; i++) {
        most = fmax(most, fabs((double)want[i]));
    }
    for (int k = 0; k < ISAS * THREADS; k++) {
        struct culm_device *cpu = cpu_for(k, &v);
        if (!cpu) {
            continue;
        }
        struct array y = array_new(a[Y].count, false, 7000);
        const struct culm_conv_infer_args args = {.conv = &v,
                                                  .y = y.f32,
                                                  .x = a[X].f32,
                                                  .w = turned,
                                                  .b = bias ? a[B].f32 : NULL,
                                                  .gamma = norm ? of[0].f32 : NULL,
                                                  .beta = norm ? of[1].f32 : NULL,
                                                  .mean = norm ? of[2].f32 : NULL,
                                                  .variance = norm ? of[3].f32 : NULL,
                                                  .residual = residual ? y.f32 : NULL,
                                                  .eps = 1e-5,
                                                  .alpha = alpha,
                                                  .function = function};
        culm_device_conv_infer(cpu, &args);
        guard_check(&y, "infer");
        for (int64_t i = 0; i < y.count; i++) {
            double w = (double)want[i];
            w = function == CULM_FUNCTION_RELU         ? fmax(w, 0)
                : function == CULM_FUNCTION_LEAKY_RELU ? (w < 0 ? alpha * w : w)
                : function == CULM_FUNCTION_RELU6      ? fmin(fmax(w, 0), 6)
                                                       : w;
            if (!(fabs((double)y.f32[i] - w) <= 1e-5 * (most + 1))) {
                fail_msg("geometry %d, %d, %s: element %lld is %g, reference %g", index, how,
                         isas[k / THREADS], (long long)i, (double)y.f32[i], w);
            }
        }
        if (leader.f32 && memcmp(leader.f32, y.f32, (size_t)y.count * 4)) {
            fail_msg("geometry %d, %d, %s, %d threads: other bits than the first", index, how,
                     isas[k / THREADS], k % THREADS + 1);
        }
        if (leader.f32) {
            array_free(&y);
        } else {
            leader = y;
            shows = astray_shows(cpu, &args, &kept, &leader, 1e-5 * (most + 1));
        }
    }
    for (int i = 0; i < 4; i++) {
        array_free(&of[i]);
    }
    array_free(&leader);
    array_free(&kept);
    free(turned);
    free(want);
    set_free(&s);
    return shows;
}

static void infer_forward(void **state) {
    (void)state;
    int tried = 0;
    for (int i = 0; i < GEOMETRIES + INFER_GEOMETRIES; i++) {
        struct culm_conv v =
            i < GEOMETRIES ? geometry(i) : with_output(infer_geometries[i - GEOMETRIES]);
        bool possible = culm_conv_infer_possible(&v), shows = false;
        for (int how = 0; how < 4 && possible; how++, tried++) {
            shows |= infer_test(v, i, how);
        }
        int64_t terms = v.groups == v.c ? (same_turned(&v) ? v.kh * v.kw : 1) : v.c / v.groups;
        assert_true(shows || !possible || terms <= 4);
    }
    assert_true(tried > 100);
}

/* An image of a batch has the bits that it has alone. */
static void infer_batch(void **state) {
    (void)state;
    static const struct culm_conv shapes[] = {
        GEOMETRY(1, 8, 8, 32, 24, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1),
        GEOMETRY(1, 7, 5, 20, 20, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 20),
        GEOMETRY(1, 5, 7, 20, 34, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1),
        GEOMETRY(1, 11, 9, 3, 16, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1),
    };
    enum { MANY = 5 };
    for (int i = 0; i < 4; i++) {
        struct culm_conv one = with_output(shapes[i]), all = one;
        int64_t in = one.h * one.w * one.c, out = one.oh * one.ow * one.o;
        all.n = MANY;
        struct array x = array_new(MANY * in, false, 1), y = array_new(MANY * out, false, 2);
        struct array w = array_new(one.kh * one.kw * one.c / one.groups * one.o, false, 3);
        struct array alone = array_new(out, false, 4);
        for (int k = 0; k < ISAS * THREADS; k++) {
            struct culm_device *cpu = cpu_for(k, &all);
            struct culm_conv_infer_args args = {.conv = &all, .y = y.f32, .x = x.f32, .w = w.f32};
            if (!cpu) {
                continue;
            }
            culm_device_conv_infer(cpu, &args);
            for (int64_t n = 0; n < MANY; n++) {
                args = (struct culm_conv_infer_args){
                    .conv = &one, .y = alone.f32, .x = x.f32 + n * in, .w = w.f32};
                culm_device_conv_infer(cpu, &args);
                assert_memory_equal(alone.f32, y.f32 + n * out, (size_t)out * 4);
            }
        }
        array_free(&x);
        array_free(&y);
        array_free(&w);
        array_free(&alone);
    }
}

/* --- in two resolutions --- */

/* The image with all of the channels. */
static void join(const struct culm_conv *v, const struct culm_coarse *coarse, const float *x,
                 float *ret_x) {
    for (int64_t pixel = 0; pixel < v->n * v->h * v->w; pixel++) {
        int64_t n = pixel / (v->h * v->w), y = pixel / v->w % v->h, at = pixel % v->w;
        int64_t from = (n * coarse->h + y * coarse->h / v->h) * coarse->w + at * coarse->w / v->w;
        float *to = ret_x + pixel * (coarse->c + v->c);
        memcpy(to, coarse->x + from * coarse->c, (size_t)coarse->c * sizeof *to);
        memcpy(to + coarse->c, x + pixel * v->c, (size_t)v->c * sizeof *to);
    }
}

/* The same bits as with one image, and near the reference; with a norm, a function and a residual. */
static void infer_coarse(void **state) {
    (void)state;
    static const struct {
        struct culm_conv v;
        int64_t h, w, c;
    } shape[] = {
        {GEOMETRY(1, 20, 20, 96, 80, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1), 10, 10, 64},
        {GEOMETRY(3, 6, 9, 7, 21, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1), 2, 9, 5},
        {GEOMETRY(2, 5, 5, 1, 9, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1), 1, 1, 300},
        {GEOMETRY(1, 24, 40, 30, 8, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1), 12, 8, 3},
        /* in pieces: three coarse images of four fit into 2^21 floats */
        {GEOMETRY(4, 16, 32, 4, 2048, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1), 16, 16, 6},
    };
    for (int i = 0; i < 5; i++) {
        struct culm_conv v = with_output(shape[i].v), all = v;
        struct culm_coarse coarse = {.h = shape[i].h, .w = shape[i].w, .c = shape[i].c};
        const int64_t pixels = v.n * v.h * v.w, out = pixels * v.o;
        all.c += coarse.c;
        assert_true(culm_coarse_possible(&v, &coarse));
        struct array x = array_new(pixels * v.c, false, 21), low, joined, w, of[4], y, want, ref;
        low = array_new(v.n * coarse.h * coarse.w * coarse.c, false, 22);
        joined = array_new(pixels * all.c, false, 23);
        w = array_new(all.c * v.o, false, 24);
        y = array_new(out, false, 25);
        want = array_new(out, false, 25);
        ref = array_new(out, false, 25);
        for (int k = 0; k < 4; k++) {
            of[k] = array_new(v.o, false, 26 + (uint64_t)k);
        }
        for (int64_t o = 0; o < v.o; o++) {
            of[3].f32[o] = fabsf(of[3].f32[o]) + 0.5F;
        }
        coarse.x = low.f32;
        join(&v, &coarse, x.f32, joined.f32);
        culm_ref_conv_infer(&v, ref.f32, x.f32, &coarse, w.f32, NULL, of[0].f32, of[1].f32,
                            of[2].f32, of[3].f32, 1e-5, y.f32);
        for (int k = 0; k < ISAS * THREADS; k++) {
            struct culm_device *cpu = cpu_for(k, &v);
            if (!cpu) {
                continue;
            }
            struct culm_conv_infer_args args = {.conv = &all,
                                                .y = want.f32,
                                                .x = joined.f32,
                                                .w = w.f32,
                                                .gamma = of[0].f32,
                                                .beta = of[1].f32,
                                                .mean = of[2].f32,
                                                .variance = of[3].f32,
                                                .residual = y.f32,
                                                .eps = 1e-5,
                                                .alpha = 0.1,
                                                .function = CULM_FUNCTION_LEAKY_RELU};
            struct array made = array_new(out, false, 30);
            culm_device_conv_infer(cpu, &args);
            args.conv = &v;
            args.y = made.f32;
            args.x = x.f32;
            args.coarse = coarse;
            culm_device_conv_infer(cpu, &args);
            guard_check(&made, "coarse");
            assert_memory_equal(made.f32, want.f32, (size_t)out * sizeof *made.f32);
            for (int64_t e = 0; e < out; e++) {
                double near = (double)ref.f32[e] * (ref.f32[e] < 0 ? 0.1 : 1);
                assert_true(fabs((double)made.f32[e] - near) < 1e-4 * (1 + fabs(near)));
            }
            array_free(&made);
        }
        struct array *all_of[] = {&x,   &low,   &joined, &w,     &y,    &want,
                                  &ref, &of[0], &of[1],  &of[2], &of[3]};
        for (size_t k = 0; k < sizeof all_of / sizeof *all_of; k++) {
            array_free(all_of[k]);
        }
    }
}

/* --- gates --- */

static int rising(const void *a, const void *b) {
    const float *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* As assert_memory_equal, which takes long for each byte, and there are millions. */
static void alike(const float *have, const float *want, int64_t count) {
    if (memcmp(have, want, (size_t)count * sizeof *have)) {
        assert_memory_equal(have, want, (size_t)count * sizeof *have);
    }
}

/* Gates, and parts whose gate is open, have the bits that they have without a gate. Returns how many
 * elements were left out. */
static int64_t gate_check(const struct culm_conv *v, struct culm_gate gate, const float *whole,
                          const float *y) {
    const int64_t size = v->o / gate.parts;
    int64_t left_out = 0;
    for (int64_t part = 0; part < v->n * v->h * v->w * gate.parts; part++) {
        const float *want = whole + part * size, *have = y + part * size;
        alike(&have[gate.channel], &want[gate.channel], 1);
        if (want[gate.channel] >= gate.least) {
            alike(have, want, size);
        }
        for (int64_t i = 0; i < size; i++) {
            left_out += have[i] == 12345.0F;
        }
    }
    return left_out;
}

static void infer_gates(void **state) {
    (void)state;
    static const struct {
        struct culm_conv v;
        int32_t parts, channel;
    } shape[] = {
        {GEOMETRY(1, 20, 20, 96, 255, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1), 3, 4},
        {GEOMETRY(2, 13, 11, 17, 30, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1), 5, 4},
        {GEOMETRY(1, 1, 3, 40, 18, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1), 3, 0},
        {GEOMETRY(1, 9, 9, 8, 14, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1), 2, 6},
        /* in pieces: less than half of the pixels have open gates, and their outputs do not fit into 2^21 floats */
        {GEOMETRY(1, 38, 38, 8, 4096, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1), 1, 9},
        {GEOMETRY(9, 50, 50, 2, 100, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1), 100, 0}, /* no room */
    };
    static const double open[] = {0, 0.01, 0.1, 0.4, 0.7, 1}; /* shares of all gates */
    for (int i = 0; i < 6; i++) {
        struct culm_conv v = with_output(shape[i].v);
        int64_t parts = v.n * v.h * v.w * shape[i].parts, size = v.o / shape[i].parts;
        struct array x = array_new(v.n * v.h * v.w * v.c, false, 11), b = array_new(v.o, false, 12);
        struct array w = array_new(v.c * v.o, false, 13),
                     whole = array_new(parts * size, false, 14);
        struct array y = array_new(parts * size, false, 15), gates = array_new(parts, false, 16);
        struct array first = array_new(parts * size, false, 14);
        int64_t numbers = 0;
        bool led = false;
        x.f32[x.count / 2] = NAN; /* a gate that is no number is closed */
        for (int k = 0; k < ISAS * THREADS; k++) {
            struct culm_device *cpu = cpu_for(k, &v);
            struct culm_conv_infer_args args = {
                .conv = &v, .y = whole.f32, .x = x.f32, .w = w.f32, .b = i % 2 ? NULL : b.f32};
            if (!cpu) {
                continue;
            }
            culm_device_conv_infer(cpu, &args);
            for (int64_t part = 0; part < parts && !led; part++) {
                gates.f32[numbers] = whole.f32[part * size + shape[i].channel];
                numbers += gates.f32[numbers] == gates.f32[numbers];
            }
            assert_true(numbers < parts);
            if (!led) { /* the others have the same bits, and so the same gates */
                qsort(gates.f32, (size_t)numbers, sizeof *gates.f32, rising);
                memcpy(first.f32, whole.f32, (size_t)whole.count * sizeof *whole.f32);
                led = true;
            }
            alike(first.f32, whole.f32, whole.count);
            for (int s = 0; s < 6; s++) {
                int64_t at = (int64_t)((double)numbers * (1 - open[s]));
                args.gate = (struct culm_gate){shape[i].parts, shape[i].channel,
                                               at < numbers ? gates.f32[at] : INFINITY};
                args.y = y.f32;
                for (int64_t e = 0; e < y.count; e++) {
                    y.f32[e] = 12345;
                }
                culm_device_conv_infer(cpu, &args);
                guard_check(&y, "gate");
                int64_t left_out = gate_check(&v, args.gate, whole.f32, y.f32);
                /* Of two or three gates a pixel, a tenth opens less than half of the pixels; of one, four tenths. */
                bool gains = open[s] <= (shape[i].parts == 1   ? 0.4
                                         : shape[i].parts <= 3 ? 0.1
                                                               : 0.01) &&
                             i < 5;
                assert_true(!gains || left_out > y.count / 3);
                assert_true((open[s] < 1 && i < 5) || left_out == 0);
            }
        }
        array_free(&x);
        array_free(&b);
        array_free(&w);
        array_free(&whole);
        array_free(&first);
        array_free(&y);
        array_free(&gates);
    }
}

/* --- chains for inference --- */

#define LINKS 4
/* Of what the first reads: n, h, w, c; then of each o (0: depthwise), kh, kw, stride, padding, dilation. */
struct links {
    int64_t n, h, w, c;
    struct {
        int64_t o, kh, kw, stride, pad, dilation;
    } link[LINKS];
    bool together; /* large enough that what lies between them is not written */
};
static const struct links chains[] = {
    {1, 90, 83, 3, {{16, 3, 3, 2, 1, 1}, {0, 3, 3, 1, 1, 1}, {8, 1, 1, 1, 0, 1}}, false},
    {1, 95, 131, 3, {{40, 3, 3, 2, 1, 1}, {0, 3, 3, 1, 1, 1}, {13, 1, 1, 1, 0, 1}}, true},
    {2, 45, 50, 8, {{66, 1, 1, 1, 0, 1}, {0, 3, 3, 2, 1, 1}, {33, 1, 1, 1, 0, 1}}, true},
    {1, 39, 41, 12, {{72, 1, 1, 1, 0, 1}, {0, 3, 3, 1, 1, 1}, {12, 1, 1, 1, 0, 1}}, true},
    {1, 37, 60, 12, {{72, 1, 1, 1, 0, 1}, {0, 5, 5, 1, 2, 1}, {12, 1, 1, 1, 0, 1}}, true},
    {1, 37, 60, 12, {{72, 1, 1, 1, 0, 1}, {0, 3, 3, 1, 2, 2}, {24, 3, 3, 2, 0, 1}}, true},
    {1,
     30,
     64,
     9,
     {{80, 1, 1, 1, 0, 1}, {0, 5, 3, 3, 4, 1}, {7, 1, 1, 1, 0, 1}, {21, 1, 1, 1, 0, 1}},
     true},
    {1, 40, 50, 20, {{80, 1, 1, 1, 0, 1}, {32, 2, 2, 3, 0, 1}}, true},
    {1, 125, 30, 8, {{64, 1, 1, 1, 0, 1}, {0, 3, 3, 1, 1, 1}, {8, 1, 1, 1, 0, 1}}, true}, /* tall */
    {1, 33, 40, 16, {{120, 1, 1, 1, 1, 1}, {0, 3, 3, 2, 3, 1}, {20, 1, 1, 1, 2, 1}}, true},
    {1,
     40,
     40,
     96,
     {{16, 1, 1, 1, 0, 1}, {16, 3, 3, 1, 1, 1}, {96, 1, 1, 1, 0, 1}, {0, 3, 3, 1, 1, 1}},
     false},
};
#define CHAINS (int)(sizeof chains / sizeof *chains)

/* The convolutions of a chain, and the floats of what each reads; the last: of the result. */
static int links_of(const struct links *c, struct culm_conv v[LINKS], int64_t floats[LINKS + 1]) {
    struct culm_conv next = {.n = c->n, .oh = c->h, .ow = c->w, .o = c->c};
    int count = 0;
    for (; count < LINKS && c->link[count].kh; count++) {
        int64_t stride = c->link[count].stride, pad = c->link[count].pad;
        int64_t dilation = c->link[count].dilation, in = next.o, o = c->link[count].o;
        next = (struct culm_conv){.n = c->n,
                                  .h = next.oh,
                                  .w = next.ow,
                                  .c = in,
                                  .o = o ? o : in,
                                  .kh = c->link[count].kh,
                                  .kw = c->link[count].kw,
                                  .stride = {stride, stride},
                                  .pad = {pad, pad, pad, pad},
                                  .dilation = {dilation, dilation},
                                  .groups = o ? 1 : in};
        v[count] = next = with_output(next);
        floats[count] = next.n * next.h * next.w * next.c;
    }
    floats[count] = next.n * next.oh * next.ow * next.o;
    return count;
}

/* Together they make the bits that they make one after the other: with any number of threads, into a
 * residual's own memory, and where the input lay. Whether they really were together is seen by what lies
 * between them, which is then not written. */
static void chain_test(const struct links *c, int index) {
    static const enum culm_function functions[] = {CULM_FUNCTION_RELU6, CULM_FUNCTION_LEAKY_RELU,
                                                   CULM_FUNCTION_NONE, CULM_FUNCTION_RELU};
    struct culm_conv v[LINKS];
    struct culm_conv_infer_args args[LINKS];
    struct array map[LINKS + 1], w[LINKS], norm[4], kept, want = {0};
    int64_t floats[LINKS + 1];
    int count = links_of(c, v, floats);
    for (int i = 0; i < 4; i++) {
        norm[i] = array_new(256, false, 900 + (uint64_t)i);
        for (int k = 0; k < 256; k++) {
            norm[i].f32[k] += i == 3 ? 1.5F : 0;
        }
    }
    for (int i = 0; i <= count; i++) {
        map[i] = array_new(floats[i], false, 910 + (uint64_t)i);
    }
    kept = array_new(floats[count], false, 940);
    for (int i = 0; i < count; i++) {
        w[i] =
            array_new(v[i].kh * v[i].kw * v[i].c / v[i].groups * v[i].o, false, 920 + (uint64_t)i);
        args[i] = (struct culm_conv_infer_args){.conv = &v[i],
                                                .y = map[i + 1].f32,
                                                .x = map[i].f32,
                                                .w = w[i].f32,
                                                .b = index & 1 ? norm[1].f32 : NULL,
                                                .gamma = norm[0].f32,
                                                .beta = norm[1].f32,
                                                .mean = norm[2].f32,
                                                .variance = norm[3].f32,
                                                .eps = 1e-5,
                                                .alpha = 0.1,
                                                .function = functions[(index + i) % 4]};
    }
    args[count - 1].residual = index & 2 ? map[count].f32 : NULL;
    for (int k = 0; k < ISAS * THREADS; k++) {
        struct culm_device *cpu = cpu_for(k, &v[0]);
        if (!cpu) {
            continue;
        }
        memcpy(map[count].f32, kept.f32, (size_t)floats[count] * 4);
        if (!want.f32) {
            want = array_new(floats[count], false, 0);
            for (int i = 0; i < count; i++) {
                culm_device_conv_infer(cpu, &args[i]);
            }
            memcpy(want.f32, map[count].f32, (size_t)floats[count] * 4);
            memcpy(map[count].f32, kept.f32, (size_t)floats[count] * 4);
        }
        memset(map[1].f32, 0x77, (size_t)floats[1] * 4);
        culm_device_conv_infer_chain(cpu, args, count);
        for (int i = 0; i <= count; i++) {
            guard_check(&map[i], "chain");
        }
        if (memcmp(want.f32, map[count].f32, (size_t)floats[count] * 4)) {
            fail_msg("chain %d, %s, %d threads: other bits than one by one", index,
                     isas[k / THREADS], k % THREADS + 1);
        }
        uint32_t between;
        memcpy(&between, map[1].f32 + floats[1] / 2, sizeof between);
        assert_true((between == 0x77777777u) == c->together);
        if (args[count - 1].residual || floats[count] > floats[0]) {
            continue;
        }
        struct array own = array_new(floats[0], false, 910); /* as map[0] is */
        struct culm_conv_infer_args over[LINKS];
        memcpy(over, args, sizeof over);
        over[0].x = over[count - 1].y = own.f32;
        culm_device_conv_infer_chain(cpu, over, count);
        assert_memory_equal(want.f32, own.f32, (size_t)floats[count] * 4);
        array_free(&own);
    }
    for (int i = 0; i <= count; i++) {
        array_free(&map[i]);
    }
    for (int i = 0; i < count; i++) {
        array_free(&w[i]);
    }
    for (int i = 0; i < 4; i++) {
        array_free(&norm[i]);
    }
    array_free(&kept);
    array_free(&want);
}

static void infer_chains(void **state) {
    (void)state;
    for (int i = 0; i < CHAINS; i++) {
        chain_test(&chains[i], i);
    }
}

static void turned_weights(void **state) {
    (void)state;
    enum { O = 3, I = 2, T = 4 };
    float w[O * I * T], turned[O * I * T], back[O * I * T];
    for (int i = 0; i < O * I * T; i++) {
        w[i] = (float)i;
    }
    culm_conv_turn(w, O, I, T, turned);
    assert_float_equal(turned[(3 * I + 1) * O + 2], (2 * I + 1) * T + 3, 0);
    culm_conv_turn_back(turned, O, I, T, back);
    assert_memory_equal(back, w, sizeof w);
}

static void turned_in_parts(void **state) {
    (void)state;
    enum { O = 37, I = 3, T = 5, ALL = O * I * T };
    float w[ALL], turned[ALL], parts[ALL];
    for (int i = 0; i < ALL; i++) {
        w[i] = (float)i;
    }
    culm_conv_turn(w, O, I, T, turned);
    for (int o = 0; o < O; o++) {
        for (int i = 0; i < I * T; i++) {
            assert_float_equal(turned[(i % T * I + i / T) * O + o], w[o * I * T + i], 0);
        }
    }
    for (int size = 1; size <= ALL; size++) {
        memset(parts, 0, sizeof parts);
        for (int at = 0; at < ALL; at += size) {
            culm_conv_turn_part(w + at, at, at + size < ALL ? size : ALL - at, O, I, T, parts);
        }
        assert_memory_equal(parts, turned, sizeof turned);
    }
}

int main(int argc, char **argv) {
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(infer_forward),   cmocka_unit_test(infer_batch),
        cmocka_unit_test(infer_coarse),    cmocka_unit_test(infer_gates),
        cmocka_unit_test(infer_chains),    cmocka_unit_test(turned_weights),
        cmocka_unit_test(turned_in_parts),
    };
    printf("seed %llu (CULM_TEST_SEED)\n", (unsigned long long)seed());
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
