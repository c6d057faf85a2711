/*
 * What the tests of convolutions share: shapes of many kinds, and arrays of random numbers with a
 * guard behind each.
 */
#ifndef CULM_TEST_DEVICE_CONV_H
#define CULM_TEST_DEVICE_CONV_H

#include "../astray.h"

#include "base/rng.h"
/* The slow base is run with one thread only. */
#define CPUS_OPENED(isa_, thread_) ((isa_) < ISAS - 1 || !(thread_))
#include "cpus.h"

#include "tensor/reference_conv.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Device k of ISAS * THREADS, or NULL. Under AddressSanitizer a multiply-add of base is a function call a
 * lane, so it computes there only what is small. */
static inline struct culm_device *cpu_for(int k, const struct culm_conv *conv) {
#ifdef __SANITIZE_ADDRESS__
    if (k / THREADS == ISAS - 1 && culm_conv_flops(conv) > 200000) {
        return NULL;
    }
#endif
    (void)conv;
    return cpus[k / THREADS][k % THREADS];
}

#define GUARD 32 /* bytes past the end of each array, which nobody may touch */

/* n h w c, o kh kw, stride, pad, dilation, groups */
#define GEOMETRY(N, H, W, C, O, KH, KW, S0, S1, P0, P1, P2, P3, D0, D1, G)                         \
    {                                                                                              \
        .n = N, .h = H, .w = W, .c = C, .o = O, .kh = KH, .kw = KW, .stride = {S0, S1},            \
        .pad = {P0, P1, P2, P3}, .dilation = {D0, D1}, .groups = G                                 \
    }
static const struct culm_conv geometries[] = {
    GEOMETRY(2, 5, 6, 3, 4, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1),
    GEOMETRY(1, 7, 7, 40, 70, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1),
    GEOMETRY(2, 8, 7, 20, 33, 1, 1, 2, 2, 0, 0, 0, 0, 1, 1, 1),
    GEOMETRY(1, 6, 5, 9, 8, 1, 1, 1, 1, 1, 2, 0, 1, 1, 1, 1),
    GEOMETRY(2, 19, 17, 3, 24, 7, 7, 2, 2, 3, 3, 3, 3, 1, 1, 1),
    GEOMETRY(1, 23, 20, 3, 16, 11, 11, 4, 4, 2, 2, 2, 2, 1, 1, 1),
    GEOMETRY(2, 10, 9, 36, 34, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1),
    GEOMETRY(1, 9, 11, 70, 20, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1),
    GEOMETRY(2, 5, 13, 64, 66, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1),
    GEOMETRY(3, 4, 4, 130, 65, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1),
    GEOMETRY(2, 7, 6, 5, 7, 3, 3, 1, 1, 0, 0, 0, 0, 1, 1, 1),
    GEOMETRY(1, 9, 9, 6, 17, 3, 3, 1, 1, 2, 0, 1, 4, 1, 1, 1),
    GEOMETRY(1, 12, 12, 18, 16, 3, 3, 1, 1, 2, 2, 2, 2, 2, 2, 1),
    GEOMETRY(1, 14, 13, 8, 10, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 1),
    GEOMETRY(1, 13, 14, 8, 6, 3, 2, 3, 2, 0, 1, 2, 0, 2, 3, 1),
    GEOMETRY(1, 9, 10, 4, 6, 5, 4, 1, 3, 2, 1, 2, 2, 1, 1, 1),
    GEOMETRY(2, 7, 7, 12, 18, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 3),
    GEOMETRY(1, 8, 8, 8, 12, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 4),
    GEOMETRY(1, 5, 5, 8, 16, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 2),
    GEOMETRY(2, 9, 8, 37, 37, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 37),
    GEOMETRY(1, 9, 10, 19, 19, 5, 3, 2, 2, 2, 1, 2, 1, 1, 2, 19),
    GEOMETRY(1, 24, 23, 33, 33, 7, 7, 1, 1, 3, 3, 3, 3, 1, 1, 33),
    GEOMETRY(2, 21, 20, 48, 48, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 48),
    GEOMETRY(1, 9, 30, 20, 20, 5, 5, 1, 2, 2, 2, 2, 2, 1, 1, 20),
    GEOMETRY(1, 3, 31, 16, 16, 1, 11, 1, 3, 0, 9, 0, 4, 1, 2, 16),
    GEOMETRY(1, 5, 6, 18, 18, 2, 2, 3, 3, 0, 0, 0, 0, 1, 1, 18), /* pixels that no tap sees */
    GEOMETRY(1, 2, 1, 2064, 2064, 32, 32, 1, 1, 16, 16, 15, 15, 1, 1, 2064), /* many filters */
    GEOMETRY(2, 4, 37, 8, 8, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 8),    /* pixels side by side, */
    GEOMETRY(1, 3, 23, 24, 24, 3, 5, 2, 1, 1, 3, 1, 2, 1, 2, 24), /* many and few */
    GEOMETRY(1, 6, 6, 5, 10, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 5),
    GEOMETRY(1, 3, 3, 300, 5, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1), /* more terms than one A_RUN */
    GEOMETRY(1, 1, 1, 4, 4, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1),
    GEOMETRY(1, 1, 3, 4, 4, 1, 3, 2, 2, 0, 1, 0, 1, 1, 1, 1),
    GEOMETRY(1, 2, 134, 16, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1),     /* more tiles than a chain */
    GEOMETRY(8, 30, 31, 3, 18, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1),      /* tiles of two shares */
    GEOMETRY(1, 32, 33, 3, 260, 16, 16, 16, 16, 0, 0, 0, 0, 1, 1, 1), /* patches, large */
    GEOMETRY(1, 2, 2, 2, 4100, 4, 4, 1, 1, 2, 2, 1, 1, 1, 1, 1), /* more terms than one piece */
    GEOMETRY(1, 2, 2, 4100, 2, 4, 4, 1, 1, 2, 2, 1, 1, 1, 1, 1),
};
#define GEOMETRIES (int)(sizeof geometries / sizeof *geometries)

static inline struct culm_conv with_output(struct culm_conv v) {
    v.oh = culm_conv_output_size(&v, 0);
    v.ow = culm_conv_output_size(&v, 1);
    assert_true(v.oh > 0 && v.ow > 0);
    return v;
}

static inline struct culm_conv geometry(int i) { return with_output(geometries[i]); }

/* Whether the image and its taps lie alike seen from both ends. */
static inline bool same_turned(const struct culm_conv *v) {
    bool same = true;
    const int64_t in[2] = {v->h, v->w}, out[2] = {v->oh, v->ow}, kernel[2] = {v->kh, v->kw};
    for (int d = 0; d < 2; d++) {
        int64_t reach = (out[d] - 1) * v->stride[d] + (kernel[d] - 1) * v->dilation[d];
        same = same && v->pad[d] == v->pad[d + 2] && reach == in[d] - 1 + 2 * v->pad[d];
    }
    return same;
}

struct array {
    float *f32;     /* what the reference sees, or the result as f32 */
    uint16_t *bf16; /* the same, when the array is bf16 */
    int64_t count;
};

static inline struct array array_new(int64_t count, bool half, uint64_t stream) {
    struct array a = {.count = count};
    size_t bytes = ((size_t)count * 4 + GUARD + 63) / 64 * 64;
    a.f32 = aligned_alloc(64, bytes);
    a.bf16 = half ? aligned_alloc(64, bytes) : NULL;
    assert_true(a.f32 && (a.bf16 || !half));
    uint64_t state = culm_rng_mix(seed(), stream);
    for (int64_t i = 0; i < count; i++) {
        a.f32[i] = culm_rng_unit((uint32_t)(culm_rng_next(&state) >> 32)) * 2 - 1;
        if (half) {
            a.bf16[i] = rounded(a.f32[i]);
            a.f32[i] = widen(a.bf16[i]);
        }
    }
    memset(a.f32 + count, 0x5a, GUARD);
    if (half) {
        memset(a.bf16 + count, 0x5a, GUARD);
    }
    return a;
}

static inline struct array array_copy(const struct array *from) {
    struct array a = {.count = from->count};
    size_t bytes = ((size_t)a.count * 4 + GUARD + 63) / 64 * 64;
    a.f32 = aligned_alloc(64, bytes);
    a.bf16 = from->bf16 ? aligned_alloc(64, bytes) : NULL;
    assert_true(a.f32 && (a.bf16 || !from->bf16));
    memcpy(a.f32, from->f32, (size_t)a.count * 4 + GUARD);
    if (a.bf16) {
        memcpy(a.bf16, from->bf16, (size_t)a.count * 2 + GUARD);
    }
    return a;
}

static inline void array_free(struct array *a) {
    free(a->f32);
    free(a->bf16);
}

static inline void guard_check(const struct array *a, const char *what) {
    const unsigned char *end =
        a->bf16 ? (unsigned char *)(a->bf16 + a->count) : (unsigned char *)(a->f32 + a->count);
    for (int i = 0; i < GUARD; i++) {
        if (end[i] != 0x5a) {
            fail_msg("%s: written past the end", what);
        }
    }
}

enum { X, W, B, Y, DY, DX, DW, DB, ARRAYS };

struct set {
    struct array a[ARRAYS];
};

static inline struct set set_new(const struct culm_conv *v, bool half, uint64_t stream) {
    int64_t x = v->n * v->h * v->w * v->c, y = v->n * v->oh * v->ow * v->o;
    int64_t w = v->o * (v->c / v->groups) * v->kh * v->kw;
    const int64_t counts[ARRAYS] = {x, w, v->o, y, y, x, w, v->o};
    struct set s;
    for (int i = 0; i < ARRAYS; i++) {
        s.a[i] = array_new(counts[i], half && (i == X || i == Y || i == DY || i == DX),
                           stream * 16 + (uint64_t)i);
    }
    /* Sums of a few bf16 that are alike in size are exact in f32, in whatever order. */
    static const float by[4] = {1, 0x1p-7f, 0x1p-14f, 0x1p-21f};
    for (int64_t i = 0; half && i < y; i++) {
        s.a[DY].f32[i] *= by[(uint32_t)i * 2654435761u >> 30];
        s.a[DY].bf16[i] = rounded(s.a[DY].f32[i]);
    }
    for (int64_t i = 0; half && i < w; i++) { /* which products in bf16 round */
        s.a[W].f32[i] = widen(rounded(s.a[W].f32[i]));
    }
    return s;
}

static inline void set_free(struct set *s) {
    for (int i = 0; i < ARRAYS; i++) {
        array_free(&s->a[i]);
    }
}

#endif
