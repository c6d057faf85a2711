/*
 * Every operator that a model may have has its row, so that whoever adds one says what ONNX makes of
 * it.
 */
#include "onnx/rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_every_operator_has_one_row(void **state) {
    (void)state;
    int32_t operators = 0;
    for (const struct culm_op *const *op = culm_ops(); *op; op++) {
        int32_t found = 0;
        for (const struct culm_onnx_row *row = culm_onnx_rows(); row->op; row++) {
            found += row->op == *op;
        }
        if (found != ((*op)->infer != NULL)) { /* gradients have no shape rule, and no row */
            fail_msg("operator '%s' has %d rows in src/onnx/rows.c", (*op)->name, found);
        }
        operators += found;
    }
    int32_t rows = 0;
    for (const struct culm_onnx_row *row = culm_onnx_rows(); row->op; row++) {
        rows++;
    }
    assert_int_equal(rows, operators);
    assert_true(operators >= 30);
}

static void test_rows_are_found(void **state) {
    (void)state;
    const struct culm_onnx_row *row = culm_onnx_row_of(&culm_op_linear);
    assert_non_null(row);
    assert_ptr_equal(row->write, culm_onnx_write_linear);
    assert_ptr_equal(row->build, culm_onnx_build_linear);
    assert_null(culm_onnx_row_of(&culm_op_linear_grad_input));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_operator_has_one_row),
        cmocka_unit_test(test_rows_are_found),
    };
    return cmocka_run_group_tests_name("onnx/rows", tests, NULL, NULL);
}
