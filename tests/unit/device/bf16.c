/*
 * bf16 matrix products: against float64 on rounded operands, every flavour on every instruction set
 * and 1 to 3 threads, which must agree bit by bit within a flavour, and must not where the terms have another
 * order; and rounding itself.
 *
 *     CULM_TEST_SEED=N     another seed than 1
 */
/* Two ways of the same bits. */
#define CPUS_OPENED(isa_, thread_) (setenv("CULM_BF16_DOT", (thread_) == 1 ? "1" : "0", 1) == 0)
#include "cpus.h"

#include "../astray.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const flavours[] = {"portable", "amx"};

struct matrix {
    enum culm_dtype dtype;
    int64_t count;
    void *data;
};

static struct matrix matrix_new(uint64_t *rng, int64_t count, enum culm_dtype dtype) {
    struct matrix m = {dtype, count, NULL};
    size_t bytes = ((size_t)count * culm_dtype_bytes(dtype) + 63) / 64 * 64;
    m.data = aligned_alloc(64, bytes);
    assert_non_null(m.data);
    for (int64_t i = 0; i < count; i++) {
        float x = culm_rng_unit((uint32_t)(culm_rng_next(rng) >> 32)) * 2 - 1;
        if (dtype == CULM_F32) {
            ((float *)m.data)[i] = x;
        } else {
            ((uint16_t *)m.data)[i] = rounded(x);
        }
    }
    return m;
}

static float element(const struct matrix *m, int64_t i) {
    return m->dtype == CULM_F32 ? ((float *)m->data)[i] : widen(((uint16_t *)m->data)[i]);
}

/* Its elements as the kernels multiply them. */
static double *factors(const struct matrix *m) {
    double *all = malloc((size_t)m->count * sizeof *all);
    assert_non_null(all);
    for (int64_t i = 0; i < m->count; i++) {
        all[i] = (double)widen(rounded(element(m, i)));
    }
    return all;
}

static struct culm_in in(const struct matrix *m) { return (struct culm_in){m->data, m->dtype}; }
static struct culm_out out(const struct matrix *m) { return (struct culm_out){m->data, m->dtype}; }

struct shape {
    int64_t m, n, k;
    bool trans_a, trans_b, bias, add;
    enum culm_dtype a, b, c;
};

#define F CULM_F32
#define H CULM_BF16
static const struct shape shapes[] = {
    {1, 1, 1, 0, 0, 0, 0, H, H, F},       {32, 32, 32, 0, 0, 0, 0, H, H, F},
    {33, 65, 31, 0, 0, 1, 0, F, H, H},    {7, 40, 100, 1, 0, 0, 1, H, H, F},
    {64, 96, 256, 0, 1, 0, 0, H, F, H},   {50, 130, 300, 1, 1, 1, 0, F, F, F},
    {100, 70, 1700, 0, 0, 1, 0, H, F, H}, {61, 50, 3100, 1, 0, 0, 1, H, H, F},
    {20, 64, 1537, 0, 1, 0, 0, H, F, F},  {128, 800, 64, 0, 0, 1, 0, H, F, H},
    {300, 256, 96, 1, 0, 0, 0, H, F, F},  {17, 33, 2049, 1, 1, 0, 1, F, H, F},
};

/* Moves the terms of the products. */
static void product_astray(const struct shape *p, struct matrix *a, int64_t lda, struct matrix *b,
                           int64_t ldb, bool back) {
    astray_of(a->data, culm_dtype_bytes(p->a), p->trans_a ? 1 : p->m, lda, p->k,
              p->trans_a ? lda : 1, back);
    astray_of(b->data, culm_dtype_bytes(p->b), p->trans_b ? p->n : 1, ldb, p->k,
              p->trans_b ? 1 : ldb, back);
}

static void product_check(void **state) {
    (void)state;
    uint64_t rng = seed();
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        const struct shape *p = &shapes[s];
        int64_t lda = 1 + (p->trans_a ? p->m : p->k), ldb = 2 + (p->trans_b ? p->k : p->n);
        int64_t ldc = p->n + 3;
        struct matrix a = matrix_new(&rng, (p->trans_a ? p->k : p->m) * lda, p->a);
        struct matrix b = matrix_new(&rng, (p->trans_b ? p->n : p->k) * ldb, p->b);
        struct matrix bias = matrix_new(&rng, p->n, F);
        struct matrix before = matrix_new(&rng, p->m * ldc, p->c);
        struct matrix c = matrix_new(&rng, p->m * ldc, p->c), leader = c;
        size_t bytes = (size_t)c.count * culm_dtype_bytes(p->c);
        leader.data = malloc(bytes);
        double *of_a = factors(&a), *of_b = factors(&b);
        for (int f = 0; f < 2; f++) {
            bool first = true; /* of this flavour: checked against the reference */
            for (int v = 0; v <= ISAS * THREADS; v++) {
                bool control = v == ISAS * THREADS; /* with its terms in another order */
                struct culm_device *cpu =
                    control ? cpus[ISAS - 1][0] : cpus[v / THREADS][v % THREADS];
                if (!cpu) {
                    continue;
                }
                if (control) {
                    product_astray(p, &a, lda, &b, ldb, false);
                }
                assert_int_equal(culm_cpu_bf16_choose(cpu, flavours[f], NULL), CULM_OK);
                memcpy(c.data, before.data, bytes);
                CULM_RUN(cpu, gemm_bf16, .trans_a = p->trans_a, .trans_b = p->trans_b, .m = p->m,
                         .n = p->n, .k = p->k, .a = in(&a), .lda = lda, .b = in(&b), .ldb = ldb,
                         .bias = p->bias ? bias.data : NULL, .add = p->add, .c = out(&c),
                         .ldc = ldc);
                if (control) { /* what is bf16 hides it */
                    product_astray(p, &a, lda, &b, ldb, true);
                    assert_true(memcmp(c.data, leader.data, bytes) || p->k < 31 || p->c == H);
                    continue;
                }
                if (!first) {
                    if (memcmp(c.data, leader.data, bytes)) {
                        fail_msg("seed %llu, shape %zu: other bits on %s, %d threads, %s",
                                 (unsigned long long)seed(), s, isas[v / THREADS], v % THREADS + 1,
                                 flavours[f]);
                    }
                    continue;
                }
                first = false;
                memcpy(leader.data, c.data, bytes);
                for (int64_t i = 0; i < p->m; i++) {
                    for (int64_t j = 0; j < ldc; j++) {
                        double want = (double)element(&before, i * ldc + j), scale = 1;
                        if (j < p->n) {
                            double sum = p->bias ? (double)((float *)bias.data)[j] : 0;
                            for (int64_t k = 0; k < p->k; k++) {
                                sum += of_a[p->trans_a ? k * lda + i : i * lda + k] *
                                       of_b[p->trans_b ? j * ldb + k : k * ldb + j];
                            }
                            want = p->add ? want + sum : sum;
                            scale =
                                2e-6 * sqrt((double)p->k + 1) + (p->c == H ? fabs(want) / 256 : 0);
                        } else {
                            scale = 0;
                        }
                        double got = (double)element(&c, i * ldc + j);
                        if (!(fabs(got - want) <= scale)) {
                            fail_msg("seed %llu, shape %zu, %s, %s: c[%lld,%lld] is %.9g, want "
                                     "%.9g",
                                     (unsigned long long)seed(), s, isas[v / THREADS], flavours[f],
                                     (long long)i, (long long)j, got, want);
                        }
                    }
                }
            }
        }
        free(of_a);
        free(of_b);
        free(a.data);
        free(b.data);
        free(bias.data);
        free(before.data);
        free(c.data);
        free(leader.data);
    }
}

static void flavours_are_named(void **state) {
    (void)state;
    struct culm_device *cpu = cpus[ISAS - 1][0];
    struct culm_error error;
    assert_int_equal(culm_cpu_bf16_choose(cpu, "amx", NULL), CULM_OK);
    assert_string_equal(cpu->ops->bf16_flavour(cpu), "amx");
    assert_int_equal(culm_cpu_bf16_choose(cpu, "fast", &error), CULM_ERR_ARGUMENT);
    assert_string_equal(cpu->ops->bf16_flavour(cpu), "amx");
    assert_non_null(strstr(error.text, "'fast'"));
}

int main(void) {
    printf("seed %llu (CULM_TEST_SEED)\n", (unsigned long long)seed());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(product_check),
        cmocka_unit_test(flavours_are_named),
    };
    return cmocka_run_group_tests_name("device/bf16", tests, open_devices, close_devices);
}
