/*
 * When joint training looks, at whom, and when it ends: sequences that the rules fix.
 */
#include "merge/checks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct culm_checks of(int32_t models, double target, int64_t epoch) {
    struct culm_checks checks;
    struct culm_checks_config config = {.models = models, .epochs = 10, .epoch_batches = epoch};
    for (int32_t i = 0; i < models; i++) {
        config.target[i] = target;
    }
    culm_checks_begin(&checks, &config);
    return checks;
}

/* One look, in which model i has accuracy[i]; ret_order (may be NULL) takes who was looked at, ended by
 * -1. Returns whether the set is the best so far. */
static bool look(struct culm_checks *checks, const double *accuracy, int32_t *ret_order) {
    int32_t model, at = 0;
    while ((model = culm_checks_next(checks)) >= 0) {
        if (ret_order) {
            ret_order[at++] = model;
        }
        culm_checks_saw(checks, model, accuracy[model]);
    }
    if (ret_order) {
        ret_order[at] = -1;
    }
    return culm_checks_looked(checks);
}

static void train(struct culm_checks *checks, int64_t batches) {
    culm_checks_trained(checks, batches, true);
}

/* What is there before any training costs none. */
static void test_nothing_to_do(void **state) {
    (void)state;
    struct culm_checks checks = of(3, 0.9, 100);
    assert_true(look(&checks, (double[]){0.9, 0.95, 1}, NULL));
    assert_int_equal(culm_checks_state_of(&checks), CULM_CHECKS_DONE);
    assert_int_equal(culm_checks_kept(&checks), 7);
}

static void test_intervals(void **state) {
    (void)state;
    struct culm_checks checks = of(2, 0.8, 1000);
    look(&checks, (double[]){0.76, 0.4}, NULL); /* gaps 0.05 and 0.5; a first lift counts as 0.1 */
    assert_int_equal(culm_checks_batches(&checks), 500);
    train(&checks, 500);
    look(&checks, (double[]){0.784, 0.4}, NULL); /* gap 0.02, lift 0.03; and no lift at all */
    assert_int_equal(culm_checks_batches(&checks), 667);
    assert_true(fabs(checks.model[1].fraction - 1) < 1e-12);
    train(&checks, 667);
    look(&checks, (double[]){0.7, 0.3}, NULL); /* both fell: a whole epoch */
    assert_int_equal(culm_checks_batches(&checks), 1000);
    train(&checks, 8500); /* of the last epoch a third is left */
    look(&checks, (double[]){0.7, 0.3}, NULL);
    if (culm_checks_state_of(&checks) == CULM_CHECKS_GOING) {
        assert_int_equal(culm_checks_batches(&checks), 333);
    }
}

static void test_weights(void **state) {
    (void)state;
    struct culm_checks checks = of(3, 0.8, 10);
    assert_true(culm_checks_weight(&checks, 0) == 1);
    look(&checks, (double[]){0.4, 0, 0.001}, NULL);
    assert_true(fabs(culm_checks_weight(&checks, 0) - pow(2, 0.75)) < 1e-12);
    assert_true(culm_checks_weight(&checks, 1) == 10);
    assert_true(culm_checks_weight(&checks, 2) == 10);
}

/* The nearest first; and no more than can still beat what is kept. */
static void test_order(void **state) {
    (void)state;
    struct culm_checks checks = of(4, 0.8, 100);
    int32_t order[5];
    assert_true(look(&checks, (double[]){0.2, 0.8, 0.78, 0.9}, order)); /* 1 and 3 are there */
    assert_int_equal(order[0], 0);
    assert_int_equal(order[3], 3);
    assert_int_equal(culm_checks_kept(&checks), 0xa);
    train(&checks, 25);
    /* Models 1 and 3 are as near as can be; then 2, then 0. Once two are short, two is the most. */
    assert_false(look(&checks, (double[]){0.1, 0.7, 0.7, 0.9}, order));
    assert_int_equal(order[0], 1);
    assert_int_equal(order[1], 3);
    assert_int_equal(order[2], 2);
    assert_int_equal(order[3], -1);
    assert_int_equal(culm_checks_kept(&checks), 0xa);
    train(&checks, 25);
    assert_true(look(&checks, (double[]){0.1, 0.8, 0.8, 0.9}, order));
    assert_int_equal(culm_checks_kept(&checks), 0xe);
    assert_int_equal(culm_checks_state_of(&checks), CULM_CHECKS_GOING);
}

/* One that would not be there in ten epochs is given up at the second look that says so, two epochs
 * after the look before the first. */
static void test_given_up(void **state) {
    (void)state;
    struct culm_checks checks = of(3, 0.8, 100);
    double at = 0.4;
    look(&checks, (double[]){0.9, at, 0.79}, NULL);
    for (int epoch = 1; epoch <= 2; epoch++) {
        assert_false(checks.model[1].given_up);
        train(&checks, 100);
        at += 0.01;
        look(&checks, (double[]){0.9, at, 0.79}, NULL);
    }
    assert_true(checks.model[1].given_up);
    assert_true(checks.model[2].given_up); /* it stands still */
    assert_int_equal(culm_checks_state_of(&checks),
                     CULM_CHECKS_DONE); /* with all that are left, one */
    assert_int_equal(culm_checks_kept(&checks), 0);
}

static void test_a_fast_one_is_not_given_up(void **state) {
    (void)state;
    struct culm_checks checks = of(2, 0.8, 100);
    double at = 0.3;
    look(&checks, (double[]){0.9, at}, NULL);
    for (int epoch = 1; epoch <= 9; epoch++) {
        train(&checks, 100);
        at += 0.051;
        look(&checks, (double[]){0.9, at}, NULL);
        assert_int_equal(culm_checks_state_of(&checks), CULM_CHECKS_GOING);
    }
    train(&checks, 100);
    assert_true(look(&checks, (double[]){0.9, at + 0.05}, NULL));
    assert_int_equal(culm_checks_state_of(&checks), CULM_CHECKS_DONE);
}

static void test_ends(void **state) {
    (void)state;
    struct culm_checks checks = of(2, 0.8, 100);
    look(&checks, (double[]){0.9, 0.5}, NULL);
    for (int half = 1; half <= 20; half++) {
        assert_int_equal(culm_checks_state_of(&checks), CULM_CHECKS_GOING);
        train(&checks, 50);
        look(&checks, (double[]){0.9, half % 2 ? 0.75 : 0.5}, NULL); /* never slow twice in a row */
    }
    assert_int_equal(culm_checks_state_of(&checks), CULM_CHECKS_ENDED);
    checks = of(2, 0.8, 100);
    look(&checks, (double[]){0.9, 0.5}, NULL);
    culm_checks_trained(&checks, 3, false);
    assert_int_equal(culm_checks_state_of(&checks), CULM_CHECKS_BROKEN);
    checks = of(2, 0.8, 100);
    checks.config.epochs = 0;
    look(&checks, (double[]){0.9, 0.5}, NULL);
    assert_int_equal(culm_checks_state_of(&checks), CULM_CHECKS_ENDED);
}

/* A set of another worth takes the place of one as large. */
static int64_t bytes(void *ctx, uint64_t set) {
    (void)ctx;
    return set == 3 ? 10 : set == 6 ? 20 : set == 7 ? 30 : 0;
}
static void test_worth(void **state) {
    (void)state;
    struct culm_checks checks = of(3, 0.8, 100);
    checks.config.worth = bytes;
    assert_true(look(&checks, (double[]){0.9, 0.9, 0.1}, NULL));
    train(&checks, 100);
    assert_true(look(&checks, (double[]){0.1, 0.9, 0.9}, NULL));
    assert_int_equal(culm_checks_kept(&checks), 6);
    train(&checks, 100);
    assert_false(look(&checks, (double[]){0.9, 0.9, 0.1}, NULL));
    assert_int_equal(culm_checks_kept(&checks), 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_to_do), cmocka_unit_test(test_intervals),
        cmocka_unit_test(test_weights),       cmocka_unit_test(test_order),
        cmocka_unit_test(test_given_up),      cmocka_unit_test(test_a_fast_one_is_not_given_up),
        cmocka_unit_test(test_ends),          cmocka_unit_test(test_worth),
    };
    return cmocka_run_group_tests_name("merge/checks", tests, NULL, NULL);
}
