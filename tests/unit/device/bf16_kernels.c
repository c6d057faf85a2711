/*
 * Kernels on arrays in bf16. Those that only map or sum must give exactly what they give in f32 on
 * the widened values, rounded at the end; attention, whose products are in bf16, must be near the
 * reference, and the same bits within a flavour on every instruction set and 1 to 3 threads. Sums must have
 * other bits where their terms have another order.
 *
 *     CULM_TEST_SEED=N     another seed than 1
 */
#include "cpus.h"

#include "../astray.h"

#include "base/rng.h"
#include "tensor/reference.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const flavours[] = {"portable", "amx"};
#define CPUS (ISAS * THREADS)
#define CPU(number_) cpus[(number_) / THREADS][(number_) % THREADS]

/* The same values in both types. */
struct array {
    int64_t count;
    float *f32;
    uint16_t *bf16;
};

static struct array array_new(uint64_t *rng, int64_t count) {
    size_t rows = ((size_t)count + 63) / 64 * 64;
    struct array a = {count, aligned_alloc(64, rows * 4), aligned_alloc(64, rows * 2)};
    assert_true(a.f32 && a.bf16);
    for (int64_t i = 0; i < count; i++) {
        float x = (culm_rng_unit((uint32_t)(culm_rng_next(rng) >> 32)) * 2 - 1) * 1.7f;
        a.bf16[i] = rounded(x);
        a.f32[i] = widen(a.bf16[i]);
    }
    return a;
}

/* Of many sizes: sums of a few bf16 that are alike in size are exact in f32, in whatever order. */
static void spread(struct array a) {
    static const float by[4] = {1, 0x1p-7f, 0x1p-14f, 0x1p-21f};
    for (int64_t i = 0; i < a.count; i++) {
        a.f32[i] *= by[(uint32_t)i * 2654435761u >> 30];
        a.bf16[i] = rounded(a.f32[i]);
    }
}

/* Dimension n of [outer,n,inner], in both. */
static void move(struct array a, int64_t outer, int64_t n, int64_t inner) {
    astray(a.f32, outer, n, inner, false);
    astray_of(a.bf16, 2, outer, n * inner, n, inner, false);
}

static void array_free(struct array a) {
    free(a.f32);
    free(a.bf16);
}

static struct culm_in in(struct array a, enum culm_dtype dtype) {
    return (struct culm_in){dtype == CULM_BF16 ? (void *)a.bf16 : a.f32, dtype};
}
static struct culm_out out(struct array a, enum culm_dtype dtype) {
    return (struct culm_out){dtype == CULM_BF16 ? (void *)a.bf16 : a.f32, dtype};
}

/* `got` in its type must be `want` rounded to it. */
static void expect_rounded(struct array want, struct array got, enum culm_dtype dtype,
                           const char *what, int cpu) {
    for (int64_t i = 0; i < want.count; i++) {
        bool same = dtype == CULM_BF16 ? got.bf16[i] == rounded(want.f32[i])
                                       : memcmp(&got.f32[i], &want.f32[i], 4) == 0;
        if (!same) {
            fail_msg("seed %llu, %s, %s, %d threads: element %lld is %.9g, want %.9g rounded",
                     (unsigned long long)seed(), what, isas[cpu / THREADS], cpu % THREADS + 1,
                     (long long)i, (double)(dtype == CULM_BF16 ? widen(got.bf16[i]) : got.f32[i]),
                     (double)want.f32[i]);
        }
    }
}

/* ---- kernels without products ---- */

#define F CULM_F32
#define H CULM_BF16

static void maps(void **state) {
    (void)state;
    static const enum culm_dtype types[][3] = {
        {F, F, H}, {H, F, F}, {H, H, H}, {F, H, H}, {H, F, H}};
    uint64_t rng = seed();
    const int64_t sizes[] = {1, 17, 3 * 131, 2 * 9001};
    for (size_t z = 0; z < 4; z++) {
        int64_t n = sizes[z];
        struct array x = array_new(&rng, n), h = array_new(&rng, n), want = array_new(&rng, n),
                     y = array_new(&rng, n);
        struct culm_dropout drop = {.p = 0.3, .key = 77, .first_sample = 5, .samples = 1};
        struct culm_dropout none = {.p = 0, .samples = 1};
        for (int c = 0; c < CPUS; c++) {
            for (size_t t = 0; CPU(c) && t < sizeof types / sizeof types[0]; t++) {
                const enum culm_dtype *type = types[t];
                struct culm_in a = in(x, type[1]), b = in(h, type[2]);
                struct culm_out to = out(y, type[0]), exact = culm_out_f32(want.f32);
                CULM_RUN(CPU(c), add, .y = exact, .a = in(x, F), .b = in(h, F), .count = n);
                CULM_RUN(CPU(c), add, .y = to, .a = a, .b = b, .count = n);
                expect_rounded(want, y, type[0], "add", c);
                CULM_RUN(CPU(c), residual_dropout_forward, .y = exact, .x = in(x, F), .h = in(h, F),
                         .count = n, .dropout = &drop);
                CULM_RUN(CPU(c), residual_dropout_forward, .y = to, .x = a, .h = b, .count = n,
                         .dropout = &drop);
                expect_rounded(want, y, type[0], "residual", c);
                CULM_RUN(CPU(c), dropout, .y = exact, .x = in(h, F), .count = n, .dropout = &drop);
                CULM_RUN(CPU(c), dropout, .y = to, .x = b, .count = n, .dropout = &drop);
                expect_rounded(want, y, type[0], "dropout", c);
                CULM_RUN(CPU(c), dropout, .y = to, .x = b, .count = n, .dropout = &none);
                expect_rounded(h, y, type[0], "dropout of nothing", c);
            }
        }
        array_free(x);
        array_free(h);
        array_free(want);
        array_free(y);
    }
}

static void layernorm(void **state) {
    (void)state;
    static const enum culm_dtype types[][3] = {/* x and dx, y and dy, what is added */
                                               {F, H, F},
                                               {H, H, H},
                                               {H, F, F},
                                               {F, F, H}};
    const int64_t shapes[][2] = {{1, 7}, {33, 100}, {70, 64}};
    uint64_t rng = seed();
    for (size_t z = 0; z < 3; z++) {
        int64_t n = shapes[z][0], c = shapes[z][1];
        struct array x = array_new(&rng, n * c), dy = array_new(&rng, n * c),
                     add = array_new(&rng, n * c), want = array_new(&rng, n * c),
                     y = array_new(&rng, n * c), gamma = array_new(&rng, c),
                     beta = array_new(&rng, c), s = array_new(&rng, 4 * n + 4 * c),
                     s2 = array_new(&rng, 4 * n + 4 * c);
        spread(dy);
        float *mean = s.f32, *rstd = mean + n, *dgamma = rstd + n, *dbeta = dgamma + c;
        float *mean2 = s2.f32, *rstd2 = mean2 + n, *dgamma2 = rstd2 + n, *dbeta2 = dgamma2 + c;
        for (int cpu = 0; cpu < CPUS; cpu++) {
            for (size_t t = 0; CPU(cpu) && t < 4; t++) {
                const enum culm_dtype *type = types[t];
                struct culm_out exact = culm_out_f32(want.f32);
                CULM_RUN(CPU(cpu), layernorm_forward, .y = exact, .mean = mean, .rstd = rstd,
                         .x = in(x, F), .gamma = gamma.f32, .beta = beta.f32, .n = n, .c = c,
                         .eps = 1e-5);
                CULM_RUN(CPU(cpu), layernorm_forward, .y = out(y, type[1]), .mean = mean2,
                         .rstd = rstd2, .x = in(x, type[0]), .gamma = gamma.f32, .beta = beta.f32,
                         .n = n, .c = c, .eps = 1e-5);
                expect_rounded(want, y, type[1], "layernorm forward", cpu);
                CULM_RUN(CPU(cpu), layernorm_backward, .dx = exact, .dgamma = dgamma,
                         .dbeta = dbeta, .dy = in(dy, F), .x = in(x, F), .gamma = gamma.f32,
                         .mean = mean, .rstd = rstd, .add = in(add, F), .n = n, .c = c,
                         .first = true);
                CULM_RUN(CPU(cpu), layernorm_backward, .dx = out(y, type[0]), .dgamma = dgamma2,
                         .dbeta = dbeta2, .dy = in(dy, type[1]), .x = in(x, type[0]),
                         .gamma = gamma.f32, .mean = mean, .rstd = rstd, .add = in(add, type[2]),
                         .n = n, .c = c, .first = true);
                expect_rounded(want, y, type[0], "layernorm backward", cpu);
                assert_memory_equal(mean, mean2, (size_t)(2 * n + 2 * c) * sizeof(float));
            }
        }
        move(x, 1, n, c);
        move(dy, 1, n, c);
        astray(mean, 1, n, 1, false);
        astray(rstd, 1, n, 1, false);
        CULM_RUN(CPU(CPUS - THREADS), layernorm_backward, .dx = out(y, H), .dgamma = dgamma2,
                 .dbeta = dbeta2, .dy = in(dy, H), .x = in(x, H), .gamma = gamma.f32, .mean = mean,
                 .rstd = rstd, .add = in(add, H), .n = n, .c = c, .first = true);
        assert_true(n == 1 || (memcmp(dgamma, dgamma2, (size_t)c * sizeof *dgamma) &&
                               memcmp(dbeta, dbeta2, (size_t)c * sizeof *dbeta)));
        struct array all[] = {x, dy, add, want, y, gamma, beta, s, s2};
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
            array_free(all[i]);
        }
    }
}

static void embedding(void **state) {
    (void)state;
    uint64_t rng = seed();
    const int64_t b = 3, t = 7, c = 70, v = 11;
    struct array wte = array_new(&rng, v * c), wpe = array_new(&rng, t * c),
                 want = array_new(&rng, b * t * c), y = array_new(&rng, b * t * c),
                 dwte = array_new(&rng, v * c), dwpe = array_new(&rng, t * c),
                 dwte2 = array_new(&rng, v * c), dwpe2 = array_new(&rng, t * c);
    int32_t tokens[21];
    for (int i = 0; i < 21; i++) {
        tokens[i] = (int32_t)culm_rng_below(&rng, (uint64_t)v);
    }
    for (int cpu = 0; cpu < CPUS; cpu++) {
        if (!CPU(cpu)) {
            continue;
        }
        CULM_RUN(CPU(cpu), embedding_forward, .y = culm_out_f32(want.f32), .tokens = tokens,
                 .wte = wte.f32, .wpe = wpe.f32, .b = b, .t = t, .c = c, .v = v);
        CULM_RUN(CPU(cpu), embedding_forward, .y = out(y, H), .tokens = tokens, .wte = wte.f32,
                 .wpe = wpe.f32, .b = b, .t = t, .c = c, .v = v);
        expect_rounded(want, y, H, "embedding forward", cpu);
        for (int64_t i = 0; i < y.count; i++) {
            y.f32[i] = widen(y.bf16[i]);
        }
        spread(y);
        CULM_RUN(CPU(cpu), embedding_backward, .dwte = dwte.f32, .dwpe = dwpe.f32, .dy = in(y, F),
                 .tokens = tokens, .b = b, .t = t, .c = c, .v = v, .first = true);
        CULM_RUN(CPU(cpu), embedding_backward, .dwte = dwte2.f32, .dwpe = dwpe2.f32, .dy = in(y, H),
                 .tokens = tokens, .b = b, .t = t, .c = c, .v = v, .first = true);
        assert_memory_equal(dwte.f32, dwte2.f32, (size_t)dwte.count * 4);
        assert_memory_equal(dwpe.f32, dwpe2.f32, (size_t)dwpe.count * 4);
        move(y, 1, b, t * c); /* the samples in another order */
        astray(tokens, 1, b, t, false);
        CULM_RUN(CPU(cpu), embedding_backward, .dwte = dwte2.f32, .dwpe = dwpe2.f32, .dy = in(y, H),
                 .tokens = tokens, .b = b, .t = t, .c = c, .v = v, .first = true);
        astray(tokens, 1, b, t, true);
        assert_true(memcmp(dwte.f32, dwte2.f32, (size_t)dwte.count * 4));
        assert_true(memcmp(dwpe.f32, dwpe2.f32, (size_t)dwpe.count * 4));
    }
    struct array all[] = {wte, wpe, want, y, dwte, dwpe, dwte2, dwpe2};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        array_free(all[i]);
    }
}

/* The gradient of the bias is a sum of exact values, in one order for both layouts. */
static void linear_bias(void **state) {
    (void)state;
    uint64_t rng = seed();
    const int64_t n = 600, wide = 40, outputs = 70;
    struct array x = array_new(&rng, n * wide), dy = array_new(&rng, n * outputs),
                 dw = array_new(&rng, wide * outputs), db = array_new(&rng, outputs),
                 leader = array_new(&rng, outputs);
    bool led = false;
    spread(dy);
    for (int cpu = 0; cpu < CPUS; cpu++) {
        for (int transposed = 0; CPU(cpu) && transposed < 2; transposed++) {
            CULM_RUN(CPU(cpu), linear_backward_weight, .dw = dw.f32, .db = db.f32, .x = in(x, H),
                     .dy = in(dy, H), .n = n, .in = wide, .out = outputs, .transposed = transposed,
                     .first = true);
            if (!led) {
                memcpy(leader.f32, db.f32, (size_t)outputs * 4);
            }
            led = true;
            assert_memory_equal(db.f32, leader.f32, (size_t)outputs * 4);
        }
    }
    for (int64_t j = 0; j < outputs; j++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++) {
            sum += (double)dy.f32[i * outputs + j];
        }
        assert_true(fabs(sum - (double)db.f32[j]) < 1e-4);
    }
    move(x, 1, n, wide);
    move(dy, 1, n, outputs);
    CULM_RUN(CPU(CPUS - THREADS), linear_backward_weight, .dw = dw.f32, .db = db.f32, .x = in(x, H),
             .dy = in(dy, H), .n = n, .in = wide, .out = outputs, .first = true);
    assert_true(memcmp(db.f32, leader.f32, (size_t)outputs * 4));
    struct array all[] = {x, dy, dw, db, leader};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        array_free(all[i]);
    }
}

/* ---- attention ---- */

struct attention_case {
    int64_t b, tq, tk, c, heads;
    bool causal, masked, packed;
    double p;
};

/* Blocks are of 128 queries and keys: one, two, three; strips of a block whole and cut. 12 heads are enough for
 * three threads to take a head each (four to a thread), fewer are shared by blocks. */
static const struct attention_case cases[] = {
    {1, 1, 1, 32, 1, true, false, true, 0},        {2, 40, 40, 64, 2, true, false, true, 0.1},
    {1, 276, 276, 64, 1, true, false, true, 0},    {2, 130, 130, 40, 2, false, true, false, 0.2},
    {1, 33, 260, 96, 3, false, false, false, 0},   {3, 20, 17, 128, 1, false, true, false, 0},
    {1, 129, 129, 256, 1, true, false, true, 0.1}, {4, 140, 140, 36, 3, true, true, true, 0},
};

static int32_t *mask_new(uint64_t *rng, const struct attention_case *p) {
    int32_t *mask = calloc((size_t)(p->b * p->tk), sizeof *mask);
    for (int64_t i = 0; i < p->b * p->tk; i++) {
        mask[i] = i / p->tk == 1 ? 0 : i % p->tk < p->tk - 3 && culm_rng_below(rng, 5) > 0;
    }
    return mask; /* the second sample sees nothing */
}

/* Length of the difference over the length of `want`. */
static double off(const float *want, const uint16_t *got, int64_t count) {
    double difference = 0, size = 1e-12;
    for (int64_t i = 0; i < count; i++) {
        double d = (double)want[i] - (double)widen(got[i]);
        difference += d * d;
        size += (double)want[i] * (double)want[i];
    }
    return sqrt(difference / size);
}

/* Returns whether it shows that scores are added up in another order. */
static bool attention_one(const struct attention_case *p, uint64_t *rng) {
    int64_t nq = p->b * p->tq * p->c, nk = p->b * p->tk * p->c, nl = p->b * p->heads * p->tq;
    int64_t ld = p->packed ? 3 * p->c : p->c, most = p->tq > p->tk ? p->tq : p->tk;
    struct array qkv = array_new(rng, 3 * p->b * most * p->c), dout = array_new(rng, nq),
                 o = array_new(rng, nq), lse = array_new(rng, nl),
                 grads = array_new(rng, qkv.count);
    struct array plain[8]; /* q k v out lse dq dk dv, for the reference */
    for (int i = 0; i < 8; i++) {
        plain[i] = array_new(rng, i == 4 ? nl : i == 0 || i == 3 || i == 5 ? nq : nk);
    }
    int64_t at[3] = {0, p->packed ? p->c : nq, p->packed ? 2 * p->c : nq + nk};
    for (int i = 0; i < 3; i++) {
        for (int64_t j = 0; j < (i ? nk : nq); j++) {
            plain[i].f32[j] = qkv.f32[at[i] + j / p->c * ld + j % p->c];
        }
    }
    int32_t *mask = p->masked ? mask_new(rng, p) : NULL;
    struct culm_dropout drop = {.p = p->p, .key = 9, .first_sample = 3, .samples = p->b};
    struct culm_attention how = {p->b,     p->tq,     p->tk, p->c,
                                 p->heads, p->causal, mask,  p->p ? &drop : NULL};
    double *row = calloc((size_t)(4 * p->tk + 4 * p->c), sizeof *row);
    struct culm_ref_attention ref = {.q = plain[0].f32,
                                     .k = plain[1].f32,
                                     .v = plain[2].f32,
                                     .ldq = p->c,
                                     .ldk = p->c,
                                     .ldv = p->c};
    culm_ref_attention_forward(plain[3].f32, plain[4].f32, &ref, &how, row);
    culm_ref_attention_backward(plain[5].f32, plain[6].f32, plain[7].f32, dout.f32, &ref, &how,
                                row);
    struct culm_attention_rows rows = {
        {qkv.bf16 + at[0], H}, {qkv.bf16 + at[1], H}, {qkv.bf16 + at[2], H}, ld, ld, ld};
    struct culm_attention_grads to = {
        {grads.bf16 + at[0], H}, {grads.bf16 + at[1], H}, {grads.bf16 + at[2], H}, ld, ld, ld};
    size_t bytes = (size_t)(nq + nl * 2 + grads.count) * 2;
    uint16_t *leader = malloc(bytes), *now = malloc(bytes);
    for (int f = 0; f < 2; f++) {
        bool led = false;
        for (int c = 0; c < CPUS; c++) {
            if (!CPU(c)) {
                continue;
            }
            assert_int_equal(culm_cpu_bf16_choose(CPU(c), flavours[f], NULL), CULM_OK);
            memset(grads.bf16, 0, (size_t)grads.count * 2);
            CULM_RUN(CPU(c), attention_forward, .out = out(o, H), .lse = lse.f32, .in = &rows,
                     .how = &how);
            CULM_RUN(CPU(c), attention_backward, .grads = &to, .dout = in(dout, H), .in = &rows,
                     .out = in(o, H), .lse = lse.f32, .how = &how);
            memcpy(now, o.bf16, (size_t)nq * 2);
            memcpy(now + nq, lse.f32, (size_t)nl * 4);
            memcpy(now + nq + 2 * nl, grads.bf16, (size_t)grads.count * 2);
            if (led) {
                if (memcmp(now, leader, bytes)) {
                    fail_msg("seed %llu, case %td: other bits on %s, %d threads, %s",
                             (unsigned long long)seed(), p - cases, isas[c / THREADS],
                             c % THREADS + 1, flavours[f]);
                }
                continue;
            }
            led = true;
            memcpy(leader, now, bytes);
            for (int64_t i = 0; i < nl; i++) {
                if (!(plain[4].f32[i] == lse.f32[i] ||
                      fabs((double)plain[4].f32[i] - (double)lse.f32[i]) < 1e-3)) {
                    fail_msg("seed %llu, case %td: lse[%lld] is %g, reference %g",
                             (unsigned long long)seed(), p - cases, (long long)i,
                             (double)lse.f32[i], (double)plain[4].f32[i]);
                }
            }
            double worst = off(plain[3].f32, o.bf16, nq);
            for (int i = 0; i < 3; i++) {
                int64_t count = i ? nk : nq;
                uint16_t *gathered = malloc((size_t)count * 2);
                for (int64_t j = 0; j < count; j++) {
                    gathered[j] = grads.bf16[at[i] + j / p->c * ld + j % p->c];
                }
                worst = fmax(worst, off(plain[5 + i].f32, gathered, count));
                free(gathered);
            }
            if (!(worst < 0.02)) {
                fail_msg("seed %llu, case %td, %s: off by %g of the length",
                         (unsigned long long)seed(), p - cases, flavours[f], worst);
            }
        }
    }
    /* Scores, in another order of the columns of each head; what is bf16 hides it. */
    for (int64_t h = 0; h < 2 * p->heads; h++) {
        int64_t width = p->c / p->heads, of = h / p->heads, rows_of = of ? p->tk : p->tq;
        astray_of(qkv.bf16 + at[of] + h % p->heads * width, 2, p->b * rows_of, ld, width, 1, false);
    }
    memcpy(leader, lse.f32, (size_t)nl * 4);
    CULM_RUN(CPU(CPUS - THREADS), attention_forward, .out = out(o, H), .lse = lse.f32, .in = &rows,
             .how = &how);
    bool shows = memcmp(leader, lse.f32, (size_t)nl * 4);
    for (int i = 0; i < 8; i++) {
        array_free(plain[i]);
    }
    struct array all[] = {qkv, dout, o, lse, grads};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        array_free(all[i]);
    }
    free(mask);
    free(row);
    free(leader);
    free(now);
    return shows;
}

static void attention(void **state) {
    (void)state;
    uint64_t rng = seed();
    int shows = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        shows += attention_one(&cases[i], &rng);
    }
    assert_true(shows >= 3); /* where there are many scores */
}

int main(void) {
    printf("seed %llu (CULM_TEST_SEED)\n", (unsigned long long)seed());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps),        cmocka_unit_test(layernorm), cmocka_unit_test(embedding),
        cmocka_unit_test(linear_bias), cmocka_unit_test(attention),
    };
    return cmocka_run_group_tests_name("device/bf16_kernels", tests, open_devices, close_devices);
}
