/* When failures speak against the work itself. */
#include "crew/failures.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { MEMORY = 2, IO };

static void test_three_alike(void **state) {
    (void)state;
    struct culm_failures failures;
    culm_failures_init(&failures, 90);
    assert_int_equal(culm_failures_add(&failures, 90, IO, 0, false), 0);
    assert_int_equal(culm_failures_add(&failures, 90, MEMORY, 0, false), 0);
    assert_int_equal(culm_failures_add(&failures, 90, IO, 0, false), 0);
    assert_int_equal(culm_failures_add(&failures, 90, IO, 0, false), 3);
}

static void test_progress_forgets(void **state) {
    (void)state;
    struct culm_failures failures;
    culm_failures_init(&failures, 0);
    for (int64_t version = 1; version < 100; version++) {
        assert_int_equal(culm_failures_add(&failures, version - 1, IO, 0, false), 0);
        assert_int_equal(culm_failures_add(&failures, version - 1, IO, 0, false), 0);
        culm_failures_committed(&failures, version);
    }
}

/* Steps 91 to 98 are done again and again, and 99 fails each time. */
static void test_a_roll_back_is_no_progress(void **state) {
    (void)state;
    struct culm_failures failures;
    culm_failures_init(&failures, 0);
    culm_failures_committed(&failures, 98);
    for (int32_t time = 1; time <= 3; time++) {
        assert_int_equal(culm_failures_add(&failures, 98, IO, 0, false), time < 3 ? 0 : 3);
        for (int64_t version = 91; version <= 98; version++) {
            culm_failures_committed(&failures, version);
        }
    }
}

/* A failure here and there while much is done again is not the work's own, but there is an end. */
static void test_elsewhere_is_not_alike(void **state) {
    (void)state;
    struct culm_failures failures;
    culm_failures_init(&failures, 1000);
    for (int32_t i = 0; i < CULM_FAILURES_KEPT - 1; i++) {
        assert_int_equal(culm_failures_add(&failures, 900 + i / 2, IO, 0, false), 0);
    }
    assert_int_equal(culm_failures_add(&failures, 990, MEMORY, 0, false), CULM_FAILURES_KEPT);
    culm_failures_committed(&failures, 1000);
    assert_int_equal(culm_failures_add(&failures, 1000, IO, 0, false), CULM_FAILURES_KEPT);
    culm_failures_committed(&failures, 1001);
    assert_int_equal(culm_failures_add(&failures, 1001, IO, 0, false), 0);
}

/* A machine's own disk speaks against the work only where there is no other machine. */
static void test_of_one_origin(void **state) {
    (void)state;
    struct culm_failures failures;
    culm_failures_init(&failures, 7);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(culm_failures_add(&failures, 7, IO, 11, true), 0);
    }
    assert_int_equal(culm_failures_add(&failures, 7, IO, 11, false), 6); /* the others are gone */
    assert_int_equal(culm_failures_add(&failures, 7, IO, 12, true),
                     7); /* and it fails there, too */
    assert_int_equal(culm_failures_add(&failures, 7, MEMORY, 13, true), 0);
    assert_int_equal(culm_failures_add(&failures, 7, MEMORY, 12, true), 0);
    assert_int_equal(culm_failures_add(&failures, 7, MEMORY, 11, true), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_three_alike),
        cmocka_unit_test(test_of_one_origin),
        cmocka_unit_test(test_progress_forgets),
        cmocka_unit_test(test_a_roll_back_is_no_progress),
        cmocka_unit_test(test_elsewhere_is_not_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
