/* Sample positions, and how many pipelines share the sums of a stage. */
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

static void test_reducers(void **state) {
    (void)state;
    struct culm_stage_desc stage = {.grad_bytes = 1};
    const struct culm_layout layout = {.stages = 1, .stage = &stage};
    assert_int_equal(culm_layout_reducers(&layout, 0, 0), 0);
    for (int32_t pipelines = 1; pipelines <= 4096; pipelines *= 2) {
        assert_int_equal(culm_layout_reducers(&layout, 0, pipelines),
                         pipelines < CULM_REDUCERS_MIN ? pipelines : CULM_REDUCERS_MIN);
    }
    /* 48 pipelines with an eighth of what is worth a share: six shares; a byte more: seven */
    stage.grad_bytes = CULM_REDUCER_BYTES / 8;
    assert_int_equal(culm_layout_reducers(&layout, 0, 48), 6);
    stage.grad_bytes++;
    assert_int_equal(culm_layout_reducers(&layout, 0, 48), 7);
    stage.grad_bytes = CULM_REDUCER_BYTES;
    assert_int_equal(culm_layout_reducers(&layout, 0, 4096), 4096);
    stage.grad_bytes = (size_t)1 << 40; /* no more than there are */
    assert_int_equal(culm_layout_reducers(&layout, 0, 4096), 4096);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples_follow_each_other),
        cmocka_unit_test(test_reducers),
    };
    return cmocka_run_group_tests_name("pipeline/layout", tests, NULL, NULL);
}
