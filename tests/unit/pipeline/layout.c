/* Sample positions. */
#include "pipeline/layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_samples_follow_each_other(void **state) {
    (void)state;
    const struct culm_run_shape shape = {.micros = 8, .global_samples = 32, .micro_samples = 4};
    uint64_t want = 0;
    for (int64_t k = 1; k <= 3; k++) {
        for (int32_t m = 0; m < 8; m++, want += 4) {
            assert_int_equal(culm_run_shape_first_sample(&shape, k, m), want);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples_follow_each_other),
    };
    return cmocka_run_group_tests_name("pipeline/layout", tests, NULL, NULL);
}
