/* Numbers that are folded at import: the same bits everywhere. Run under both variants of libm. */
#include "../base/exact_cases.h"
#include "onnx/ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *operator_of(const char *name) {
    static const char *const names[][2] = {{"exp", "Exp"}, {"log", "Log"}, {"pow", "Pow"},
                                           {"sin", "Sin"}, {"cos", "Cos"}, {"tanh", "Tanh"},
                                           {"erf", "Erf"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i][0], name) == 0) {
            return names[i][1];
        }
    }
    return NULL;
}

/* The operator of two numbers, or of the first. */
static double fold(const char *name, double x, double y) {
    double out = 0;
    const struct culm_onnx_tensor of[3] = {
        {.type = CULM_ONNX_DOUBLE, .elements = 1, .data = &x, .bytes = sizeof x},
        {.type = CULM_ONNX_DOUBLE, .elements = 1, .data = &y, .bytes = sizeof y},
        {.type = CULM_ONNX_DOUBLE, .elements = 1, .data = &out, .bytes = sizeof out}};
    struct culm_onnx_operand operand[3];
    for (int i = 0; i < 3; i++) {
        operand[i] =
            (struct culm_onnx_operand){.there = true, .type = CULM_ONNX_DOUBLE, .data = &of[i]};
    }
    struct culm_onnx_node node = {.op = name};
    const struct culm_onnx_op *op = culm_onnx_op_find(name);
    struct culm_onnx_call call = {.node = &node,
                                  .in = operand,
                                  .out = &operand[2],
                                  .inputs = strcmp(name, "Pow") == 0 ? 2 : 1,
                                  .outputs = 1};
    assert_non_null(op);
    op->evaluate(&call);
    return out;
}

static void test_bits(void **state) {
    (void)state;
    size_t wrong = 0, count = sizeof exact_cases / sizeof *exact_cases;
    for (size_t i = 0; i < count; i++) {
        double x = exact_cases[i].x, y = exact_cases[i].y;
        const char *op = operator_of(exact_cases[i].name);
        double have = fold(op, x, y);
        if (have != exact_cases[i].value) {
            print_message("%s of %a, %a is %a, not %a\n", op, x, y, have, exact_cases[i].value);
            wrong++;
        }
    }
    if (wrong) {
        fail_msg("%zu of %zu differ", wrong, count);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bits)};
    return cmocka_run_group_tests_name("onnx/folded", tests, NULL, NULL);
}
