/* Growing arrays, with capacities of both sizes, and medians. */
#include "base/grow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void arrays_keep_what_is_in_them(void **state) {
    (void)state;
    double *items = NULL;
    size_t capacity = 0;
    int32_t *small = NULL, small_capacity = 0;
    for (int32_t i = 0; i < 1000; i++) {
        assert_true(CULM_GROW(items, capacity, (size_t)i + 1));
        assert_true(CULM_GROW(small, small_capacity, i + 1));
        assert_true(capacity > (size_t)i && small_capacity > i);
        items[i] = small[i] = i;
    }
    for (int32_t i = 0; i < 1000; i++) {
        assert_true(items[i] == i && small[i] == i);
    }
    const double *before = items;
    assert_true(CULM_GROW(items, capacity, 1000)); /* nothing to do */
    assert_ptr_equal(items, before);
    free(items);
    free(small);
}

static void too_much_changes_nothing(void **state) {
    (void)state;
    double *items = NULL;
    size_t capacity = 0;
    int32_t small_capacity = 0;
    assert_true(CULM_GROW(items, capacity, 1));
    const double *before = items;
    size_t had = capacity;
    assert_false(CULM_GROW(items, capacity, SIZE_MAX / 4));
    assert_ptr_equal(items, before);
    assert_int_equal(capacity, had);
    char *bytes = NULL;
    assert_false(CULM_GROW(bytes, small_capacity, (size_t)INT32_MAX + 1));
    assert_null(bytes);
    assert_int_equal(small_capacity, 0);
    free(items);
}

static void medians(void **state) {
    (void)state;
    double values[] = {5, 1, 4, 2};
    assert_true(culm_median(values, 0) == 0);
    assert_true(culm_median(values, 1) == 5);
    assert_true(culm_median(values, 4) == 3);
    assert_true(values[0] == 1 && values[3] == 5); /* sorted */
    assert_true(culm_median(values, 3) == 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_keep_what_is_in_them),
        cmocka_unit_test(too_much_changes_nothing),
        cmocka_unit_test(medians),
    };
    return cmocka_run_group_tests_name("base/grow", tests, NULL, NULL);
}
