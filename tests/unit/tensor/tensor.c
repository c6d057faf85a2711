/* Shapes and element types. */
#include "tensor/tensor.h"

#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

static void test_count(void **state) {
    (void)state;
    int64_t count;
    struct culm_shape scalar = culm_shape_of(0, NULL);
    struct culm_shape three = culm_shape_of(3, (int64_t[]){8, 128, 256});
    assert_int_equal(culm_shape_count(&scalar, &count, NULL), CULM_OK);
    assert_int_equal(count, 1);
    assert_int_equal(culm_shape_count(&three, &count, NULL), CULM_OK);
    assert_int_equal(count, 8 * 128 * 256);
}

static void test_refused(void **state) {
    (void)state;
    int64_t count = 7;
    struct culm_error error;
    struct culm_shape empty = culm_shape_of(2, (int64_t[]){8, 0});
    struct culm_shape huge = culm_shape_of(3, (int64_t[]){1l << 31, 1l << 31, 2});
    struct culm_shape overflowing = culm_shape_of(2, (int64_t[]){1l << 62, 16});
    assert_int_equal(culm_shape_count(&empty, &count, &error), CULM_ERR_ARGUMENT);
    assert_non_null(strstr(error.text, "[8,0]"));
    assert_int_equal(culm_shape_count(&huge, &count, NULL), CULM_ERR_ARGUMENT);
    assert_int_equal(culm_shape_count(&overflowing, &count, NULL), CULM_ERR_ARGUMENT);
    assert_int_equal(count, 7);
}

static void test_equal_and_format(void **state) {
    (void)state;
    char text[32], cut[4];
    struct culm_shape a = culm_shape_of(2, (int64_t[]){3, 4}), b = a, c = a;
    struct culm_shape scalar = culm_shape_of(0, NULL);
    b.dim[1] = 5;
    c.rank = 1;
    assert_true(culm_shape_equal(&a, &a));
    assert_false(culm_shape_equal(&a, &b));
    assert_false(culm_shape_equal(&a, &c));
    assert_string_equal(culm_shape_format(&a, text, sizeof text), "[3,4]");
    assert_string_equal(culm_shape_format(&scalar, text, sizeof text), "[]");
    assert_string_equal(culm_shape_format(&a, cut, sizeof cut), "[3,");
}

static void test_dtypes(void **state) {
    (void)state;
    assert_int_equal(culm_dtype_bytes(CULM_F32), 4);
    assert_int_equal(culm_dtype_bytes(CULM_BF16), 2);
    assert_string_equal(culm_dtype_name(CULM_I32), "i32");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_count),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_equal_and_format),
        cmocka_unit_test(test_dtypes),
    };
    return cmocka_run_group_tests_name("tensor", tests, NULL, NULL);
}
