/* Drift is told from noise. CULM_TEST_SEED=N: other frames are wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "edge/drift.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define FRAMES 16

static uint64_t seed(void) {
    const char *given = getenv("CULM_TEST_SEED");
    return given ? strtoull(given, NULL, 10) : 5;
}

static void chances(void **state) {
    (void)state;
    assert_true(fabs(culm_edge_drift_chance(16, 0, 0.05) - 1) < 1e-12);
    assert_true(fabs(culm_edge_drift_chance(16, 1, 0.05) - (1 - pow(0.95, 16))) < 1e-9);
    assert_true(fabs(culm_edge_drift_chance(2, 2, 0.5) - 0.25) < 1e-12);
    assert_true(fabs(culm_edge_drift_chance(2, 1.5, 0.5) - 0.5) < 1e-12); /* 0.75 and 0.25 */
    assert_true(culm_edge_drift_chance(16, 1, 0) < 1e-12);
    assert_true(fabs(culm_edge_drift_chance(16, 3, 1) - 1) < 1e-12);
}

/* Checks of a model that misses each frame with this probability; how many are taken, and until when it has
 * gone back, 0: never. */
static int64_t until_reverted(double misses, double promised, int64_t checks, uint64_t *random) {
    struct culm_edge_drift drift = {0};
    for (int64_t i = 1; i <= checks; i++) {
        int right = 0;
        for (int f = 0; f < FRAMES; f++) {
            right += culm_rng_unit((uint32_t)culm_rng_next(random)) >= (float)misses;
        }
        if (culm_edge_drift_check(&drift, FRAMES, (double)right / FRAMES, promised, NULL) ==
            CULM_EDGE_DRIFT_REVERT) {
            return i;
        }
        assert_in_range(drift.checks, 0, 1000); /* it is forgotten now and then */
    }
    return 0;
}

/* A model that just keeps its promise, and one that does a little better. */
static void no_false_alarm(void **state) {
    uint64_t random = seed();
    const int64_t checks = 400000;
    (void)state;
    for (double promised = 0.8; promised < 0.995; promised += 0.05 - 0.01 * (promised > 0.94)) {
        int64_t alarms = 0, left = checks;
        while (left > 0) {
            int64_t at = until_reverted(1 - promised, promised, left, &random);
            alarms += at > 0;
            left -= at > 0 ? at : left;
        }
        double each = (double)alarms / (double)checks;
        printf("seed %llu (CULM_TEST_SEED): promise %.2f just kept: %.6f false alarms a check\n",
               (unsigned long long)seed(), promised, each);
        assert_true(each < 1.0 / 800);
        alarms = 0;
        left = checks;
        while (left > 0) { /* half the misses that are allowed */
            int64_t at = until_reverted((1 - promised) / 2, promised, left, &random);
            alarms += at > 0;
            left -= at > 0 ? at : left;
        }
        assert_true((double)alarms / (double)checks < 1e-4);
    }
}

/* What has really drifted. */
static void noticed(void **state) {
    static const struct {
        double promised, right, within_two, within_six;
    } cases[] = {{0.95, 0.5, 0.98, 1},
                 {0.95, 0.6, 0.93, 1},
                 {0.95, 0.7, 0.75, 0.99},
                 {0.95, 0.8, 0.3, 0.85},
                 {0.85, 0.4, 0.95, 1}};
    uint64_t random = seed() + 1;
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int64_t two = 0, six = 0, times = 20000;
        for (int64_t i = 0; i < times; i++) {
            int64_t at = until_reverted(1 - cases[c].right, cases[c].promised, 6, &random);
            two += at > 0 && at <= 2;
            six += at > 0;
        }
        printf(
            "seed %llu (CULM_TEST_SEED): promised %.2f, right %.2f: within two checks %.3f, within "
            "six %.3f\n",
            (unsigned long long)seed(), cases[c].promised, cases[c].right,
            (double)two / (double)times, (double)six / (double)times);
        assert_true((double)two / (double)times >= cases[c].within_two);
        assert_true((double)six / (double)times >= cases[c].within_six * 0.999);
    }
}

/* A bare mean below the target is nothing yet, be it twice in a row. */
static void hysteresis(void **state) {
    struct culm_edge_drift drift = {0};
    double chance;
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(culm_edge_drift_check(&drift, FRAMES, 15.0 / 16, 0.95, &chance),
                         CULM_EDGE_DRIFT_NONE);
        assert_true(chance > 0.5);
    }
    assert_int_equal(culm_edge_drift_check(&drift, FRAMES, 12.0 / 16, 0.95, NULL),
                     CULM_EDGE_DRIFT_WATCH);
    assert_int_equal(culm_edge_drift_check(&drift, FRAMES, 1, 0.95, NULL), CULM_EDGE_DRIFT_NONE);
    assert_int_equal(drift.checks, 0);
    assert_int_equal(culm_edge_drift_check(&drift, FRAMES, 0, 0.95, NULL), CULM_EDGE_DRIFT_WATCH);
    assert_int_equal(culm_edge_drift_check(&drift, FRAMES, 0.5, 0.95, NULL),
                     CULM_EDGE_DRIFT_REVERT);
}

static void promises(void **state) {
    (void)state;
    /* By the original's answers: nothing but the target. */
    assert_true(fabs(culm_edge_drift_promise(0.95, 1, 0.97, 0.97) - 0.95) < 1e-12);
    /* By labels: 0.86 of 0.9 are right, 0.855 must be, and 0.88 of the answers are the original's. */
    assert_true(fabs(culm_edge_drift_promise(0.95, 0.9, 0.86, 0.88) - 0.875) < 1e-12);
    assert_true(culm_edge_drift_promise(0.95, -1, -1, -1) == 0.95);
    assert_true(culm_edge_drift_promise(0.95, 0.9, 0.86, -1) == 0.95);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(chances), cmocka_unit_test(no_false_alarm),
                                       cmocka_unit_test(noticed), cmocka_unit_test(hysteresis),
                                       cmocka_unit_test(promises)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
