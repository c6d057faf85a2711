/* Shapes and element types. */
#include "tensor/tensor.h"
#include "tensor/conv.h"

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

/* Winograd's algorithm is for plain 3x3 convolutions: one thing that differs, in one direction, and it is not possible. */
static void test_winograd_is_possible(void **state) {
    (void)state;
    const struct culm_conv plain = {.n = 1,
                                    .h = 9,
                                    .w = 9,
                                    .c = 4,
                                    .o = 4,
                                    .kh = 3,
                                    .kw = 3,
                                    .stride = {1, 1},
                                    .dilation = {1, 1},
                                    .groups = 1};
    struct culm_conv other[7];
    for (int i = 0; i < 7; i++) {
        other[i] = plain;
    }
    other[0].kh = 1;
    other[1].kw = 1;
    other[2].stride[0] = 2;
    other[3].stride[1] = 2;
    other[4].dilation[0] = 2;
    other[5].dilation[1] = 2;
    other[6].groups = 2;
    assert_true(culm_conv_algorithm_possible(&plain, CULM_CONV_FORWARD, CULM_CONV_WINOGRAD));
    for (int i = 0; i < 7; i++) {
        assert_false(
            culm_conv_algorithm_possible(&other[i], CULM_CONV_FORWARD, CULM_CONV_WINOGRAD));
        assert_true(culm_conv_algorithm_possible(&other[i], CULM_CONV_FORWARD, CULM_CONV_DIRECT));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_count),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_equal_and_format),
        cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_winograd_is_possible),
    };
    return cmocka_run_group_tests_name("tensor", tests, NULL, NULL);
}
