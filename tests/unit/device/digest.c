/* Digests: the same on every instruction set and number of threads, changed by each flipped bit,
 * and what a step says on the way is what the arrays say. */
#include "base/rng.h"
#include "device/cpu/cpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST 20011

static const char *const isas[] = {"avx512_bf16", "avx512", "avx2", "neon", "base"};
static const int64_t counts[] = {1, 15, 16, 17, 4095, 4096, 4097, 8192, 12289, MOST};

static void fill(float *x, int64_t count, uint64_t seed) {
    for (int64_t i = 0; i < count; i++) {
        x[i] = (float)(culm_rng_next(&seed) % 20001) / 1e4f - 1;
    }
}

static void test_same_everywhere(void **state) {
    (void)state;
    static float x[MOST];
    uint64_t want[sizeof counts / sizeof *counts] = {0};
    int cpus = 0;
    fill(x, MOST, 1);
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        for (int threads = 1; threads <= 3; threads += 2) {
            struct culm_device *cpu = NULL;
            if (culm_cpu_new(threads, isas[i], &cpu, NULL) != CULM_OK) {
                continue;
            }
            printf("# compared: %s, %d threads\n", isas[i], threads);
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
                uint64_t got = culm_device_digest(cpu, x, counts[c]), squares;
                assert_true(!cpus || got == want[c]);
                assert_true(culm_device_digest_here(cpu, x, counts[c]) == got);
                (void)culm_device_sum_squares_digest(cpu, x, counts[c], &squares);
                assert_true(squares == got);
                want[c] = got;
            }
            cpus++;
            culm_device_free(cpu);
        }
    }
    assert_true(cpus >= 2);
}

static void test_each_bit_counts(void **state) {
    (void)state;
    static float x[MOST];
    struct culm_device *cpu = NULL;
    assert_int_equal(culm_device_new(1, &cpu, NULL), CULM_OK);
    fill(x, MOST, 2);
    uint64_t right = culm_device_digest(cpu, x, MOST), random = 3;
    for (int i = 0; i < 2000; i++) {
        size_t at = culm_rng_below(&random, MOST * sizeof *x);
        ((unsigned char *)x)[at] ^= (unsigned char)(1u << i % 8);
        assert_true(culm_device_digest(cpu, x, MOST) != right);
        ((unsigned char *)x)[at] ^= (unsigned char)(1u << i % 8);
    }
    for (int i = 0; i < 200; i++) { /* two of another order */
        size_t a = culm_rng_below(&random, MOST), b = culm_rng_below(&random, MOST);
        float swap = x[a];
        x[a] = x[b];
        x[b] = swap;
        assert_true(swap == x[a] || culm_device_digest(cpu, x, MOST) != right);
        x[b] = x[a];
        x[a] = swap;
    }
    assert_true(culm_device_digest(cpu, x, MOST) == right);
    culm_device_free(cpu);
}

/* With the digests asked for a step has the same bits, and says what is in the arrays. */
static void test_of_a_step(void **state) {
    (void)state;
    static float start[4][MOST], plain[3][MOST], told[3][MOST];
    for (int i = 0; i < 4; i++) {
        fill(start[i], MOST, 10 + (uint64_t)i);
    }
    for (int64_t i = 0; i < MOST; i++) {
        start[2][i] *= start[2][i]; /* exp_avg_sq */
    }
    for (size_t i = 0; i < 2 * sizeof isas / sizeof *isas; i++) {
        struct culm_device *cpu = NULL;
        if (culm_cpu_new(2, isas[i / 2], &cpu, NULL) != CULM_OK) {
            continue;
        }
        bool sgd = i % 2;
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            struct culm_step_digest digest;
            memcpy(plain, start, sizeof plain);
            memcpy(told, start, sizeof told);
            for (int with = 0; with < 2; with++) {
                float(*at)[MOST] = with ? told : plain;
                struct culm_adamw adamw = {.lr = 1e-3,
                                           .beta1 = 0.9,
                                           .beta2 = 0.95,
                                           .eps = c % 2 ? 0 : 1e-8,
                                           .weight_decay = 0.1,
                                           .grad_scale = 0.5,
                                           .bias_correction1 = 0.1,
                                           .bias_correction2 = 0.05,
                                           .digest = with ? &digest : NULL};
                struct culm_sgd descent = {.lr = 1e-3,
                                           .momentum = c % 3 ? 0.9 : 0,
                                           .grad_scale = 0.5,
                                           .digest = with ? &digest : NULL};
                if (sgd) {
                    CULM_RUN(cpu, sgd, .p = at[0], .buffer = at[1], .g = start[3],
                             .count = counts[c], .hyper = &descent);
                } else {
                    CULM_RUN(cpu, adamw, .p = at[0], .m = at[1], .v = at[2], .g = start[3],
                             .count = counts[c], .hyper = &adamw);
                }
            }
            assert_memory_equal(plain, told, sizeof plain);
            int vectors = !sgd ? 3 : c % 3 ? 2 : 1;
            assert_true(digest.grad == culm_device_digest(cpu, start[3], counts[c]));
            for (int v = 0; v < 3; v++) {
                bool there = v < vectors;
                assert_true(digest.before[v] ==
                            (there ? culm_device_digest(cpu, start[v], counts[c]) : 0));
                assert_true(digest.after[v] ==
                            (there ? culm_device_digest(cpu, told[v], counts[c]) : 0));
            }
        }
        culm_device_free(cpu);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_everywhere),
        cmocka_unit_test(test_each_bit_counts),
        cmocka_unit_test(test_of_a_step),
    };
    return cmocka_run_group_tests_name("device/digest", tests, NULL, NULL);
}
