/* The learning rate, step by step against its formula, and the scalars of AdamW. */
#include "model/optimizer.h"

#include "base/words.h"

#include "../base/exact_cases.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static void expect_close(double have, double want) {
    if (!(fabs(have - want) <= 1e-15 * fabs(want))) {
        fail_msg("%.17g is not %.17g", have, want);
    }
}

static const struct culm_schedule cosine = {CULM_SCHEDULE_COSINE, 1e-3, 1e-4, 10, 110, 0, 0};

static void test_warm_up(void **state) {
    (void)state;
    expect_close(culm_schedule_lr(&cosine, 1), 1e-4);
    expect_close(culm_schedule_lr(&cosine, 5), 5e-4);
    expect_close(culm_schedule_lr(&cosine, 10), 1e-3);
}

static void test_cosine(void **state) {
    (void)state;
    /* A quarter, a third, a half and all of the way: 1 + cos is known. */
    expect_close(culm_schedule_lr(&cosine, 35), 1e-4 + 9e-4 / 2 * (1 + sqrt(0.5)));
    expect_close(culm_schedule_lr(&cosine, 60), 5.5e-4);
    expect_close(culm_schedule_lr(&cosine, 110), 1e-4);
    const struct culm_schedule thirds = {CULM_SCHEDULE_COSINE, 1e-3, 0, 0, 90, 0, 0};
    expect_close(culm_schedule_lr(&thirds, 30), 7.5e-4);
    for (int64_t step = 11; step <= 110; step++) {
        assert_true(culm_schedule_lr(&cosine, step) < culm_schedule_lr(&cosine, step - 1));
        assert_true(culm_schedule_lr(&cosine, step) >= cosine.min_lr);
    }
}

static void test_without_warm_up(void **state) {
    (void)state;
    const struct culm_schedule schedule = {CULM_SCHEDULE_COSINE, 1e-3, 1e-4, 0, 1, 0, 0};
    expect_close(culm_schedule_lr(&schedule, 1), 1e-4);
}

/* A run that ends with its warm-up never divides by the steps that are left. */
static void test_only_warm_up(void **state) {
    (void)state;
    const struct culm_schedule schedule = {CULM_SCHEDULE_COSINE, 1e-3, 1e-4, 10, 10, 0, 0},
                               shorter = {CULM_SCHEDULE_COSINE, 1, 0, 10, 4, 0, 0};
    expect_close(culm_schedule_lr(&schedule, 10), 1e-3);
    expect_close(culm_schedule_lr(&shorter, 4), 0.4);
}

static void test_constant(void **state) {
    (void)state;
    const struct culm_schedule schedule = {CULM_SCHEDULE_CONSTANT, 3e-4, 1e-5, 10, 100, 0, 0};
    for (int64_t step = 1; step <= 100; step += 11) {
        expect_close(culm_schedule_lr(&schedule, step), 3e-4);
    }
}

static void test_linear(void **state) {
    (void)state;
    const struct culm_schedule schedule = {CULM_SCHEDULE_LINEAR, 1e-3, 1e-4, 10, 110, 0, 0};
    expect_close(culm_schedule_lr(&schedule, 5), 5e-4);
    expect_close(culm_schedule_lr(&schedule, 10), 1e-3);
    expect_close(culm_schedule_lr(&schedule, 60), 5.5e-4);
    expect_close(culm_schedule_lr(&schedule, 110), 1e-4);
}

/* PyTorch's StepLR, which counts from 0. */
static void test_step(void **state) {
    (void)state;
    const struct culm_schedule schedule = {CULM_SCHEDULE_STEP, 1, 5e-3, 2, 100, 30, 0.1};
    static const struct {
        int64_t step;
        double lr;
    } want[] = {{1, 0.5}, {2, 1}, {30, 1}, {31, 0.1}, {60, 0.1}, {61, 0.01}, {91, 5e-3}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        expect_close(culm_schedule_lr(&schedule, want[i].step), want[i].lr);
    }
    const struct culm_schedule never = {CULM_SCHEDULE_STEP, 1, 0, 0, 100, 0, 0.1};
    expect_close(culm_schedule_lr(&never, 100), 1);
}

static void test_names(void **state) {
    (void)state;
    assert_int_equal(culm_word_find(culm_schedule_names, "constant"), CULM_SCHEDULE_CONSTANT);
    assert_int_equal(culm_word_find(culm_schedule_names, "cosine"), CULM_SCHEDULE_COSINE);
    assert_int_equal(culm_word_find(culm_schedule_names, "linear"), CULM_SCHEDULE_LINEAR);
    assert_int_equal(culm_word_find(culm_schedule_names, "step"), CULM_SCHEDULE_STEP);
}

static void test_bias_corrections(void **state) {
    (void)state;
    long double power1 = 1, power2 = 1;
    for (int64_t step = 1; step <= 2000; step++) {
        struct culm_adamw hyper = culm_adamw_at(step, 0.9, 0.999);
        power1 *= (long double)0.9;
        power2 *= (long double)0.999;
        assert_true(fabs(hyper.bias_correction1 - (double)(1 - power1)) < 1e-14);
        assert_true(fabs(hyper.bias_correction2 - (double)(1 - power2)) < 1e-14);
        assert_true(hyper.beta1 == 0.9 && hyper.beta2 == 0.999);
    }
    /* beta 0 forgets at once; it must not make the correction 0 or NaN. */
    assert_true(culm_adamw_at(1, 0, 0).bias_correction1 == 1);
}

/* To the last bit, whatever libm there is. */
static void test_bits(void **state) {
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof correction_cases / sizeof *correction_cases; i++) {
        struct culm_adamw one =
                              culm_adamw_at(correction_cases[i].step, correction_cases[i].beta, 0),
                          two =
                              culm_adamw_at(correction_cases[i].step, 0, correction_cases[i].beta);
        wrong += one.bias_correction1 != correction_cases[i].value ||
                 two.bias_correction2 != correction_cases[i].value;
    }
    for (size_t i = 0; i < sizeof fall_cases / sizeof *fall_cases; i++) {
        const struct culm_schedule schedule = {CULM_SCHEDULE_STEP, 1, 0, 0, 1000, 1,
                                               fall_cases[i].gamma};
        wrong += culm_schedule_lr(&schedule, fall_cases[i].falls + 1) != fall_cases[i].value;
    }
    for (size_t i = 0; i < sizeof cosine_cases / sizeof *cosine_cases; i++) {
        const struct culm_schedule schedule = {CULM_SCHEDULE_COSINE,  1, 0, 0,
                                               cosine_cases[i].steps, 0, 0};
        wrong += culm_schedule_lr(&schedule, cosine_cases[i].step) != cosine_cases[i].value;
    }
    assert_int_equal(wrong, 0);
}

/* Against float64: momentum 0.1 of the mean of four micro-batches' means. */
static void test_statistic(void **state) {
    (void)state;
    float value[3] = {1.0f, -2.5f, 0.0f};
    const float sum[3] = {4.0f, 8.2f, -1e6f};
    const double want[3] = {0.9 * 1.0 + 0.1 * (4.0 / 4), 0.9 * -2.5 + 0.1 * ((double)8.2f / 4),
                            0.1 * (-1e6 / 4)};
    culm_statistic_step(value, sum, 3, 0.1, 4);
    for (int i = 0; i < 3; i++) {
        assert_true(fabs((double)value[i] - want[i]) <= 2e-7 * fabs(want[i]));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statistic),    cmocka_unit_test(test_warm_up),
        cmocka_unit_test(test_cosine),       cmocka_unit_test(test_without_warm_up),
        cmocka_unit_test(test_only_warm_up), cmocka_unit_test(test_constant),
        cmocka_unit_test(test_linear),       cmocka_unit_test(test_step),
        cmocka_unit_test(test_names),        cmocka_unit_test(test_bias_corrections),
        cmocka_unit_test(test_bits),
    };
    return cmocka_run_group_tests_name("model/optimizer", tests, NULL, NULL);
}
