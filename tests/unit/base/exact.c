/* Functions whose bits nothing changes, and normal numbers, against correctly rounded values. Run
 * under both variants of libm: on processors with FMA and as if there were none. */
#include "base/exact.h"
#include "base/rng.h"
#include "exact_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static double value_of(const char *name, double x, double y) {
    return strcmp(name, "exp") == 0    ? culm_exact_exp(x)
           : strcmp(name, "log") == 0  ? culm_exact_log(x)
           : strcmp(name, "pow") == 0  ? culm_exact_pow(x, y)
           : strcmp(name, "sin") == 0  ? culm_exact_sin(x)
           : strcmp(name, "cos") == 0  ? culm_exact_cos(x)
           : strcmp(name, "tanh") == 0 ? culm_exact_tanh(x)
           : strcmp(name, "erf") == 0  ? culm_exact_erf(x)
                                       : NAN;
}

static void test_values(void **state) {
    (void)state;
    size_t wrong = 0, count = sizeof exact_cases / sizeof *exact_cases;
    for (size_t i = 0; i < count; i++) {
        double x = exact_cases[i].x, y = exact_cases[i].y;
        double have = value_of(exact_cases[i].name, x, y);
        if (memcmp(&have, &exact_cases[i].value, sizeof have) != 0) {
            print_message("%s(%a, %a) is %a, not %a\n", exact_cases[i].name, x, y, have,
                          exact_cases[i].value);
            wrong++;
        }
    }
    if (wrong) {
        fail_msg("%zu of %zu differ", wrong, count);
    }
}

static void test_special(void **state) {
    (void)state;
    assert_true(isnan(culm_exact_exp(NAN)) && isnan(culm_exact_log(NAN)));
    assert_true(isnan(culm_exact_log(-1)) && isnan(culm_exact_log(-INFINITY)));
    assert_true(culm_exact_log(0) == -INFINITY && culm_exact_log(INFINITY) == INFINITY);
    assert_true(culm_exact_exp(INFINITY) == INFINITY && culm_exact_exp(-INFINITY) == 0);
    assert_true(isnan(culm_exact_sin(INFINITY)) && isnan(culm_exact_cos(NAN)));
    assert_true(culm_exact_tanh(-INFINITY) == -1 && isnan(culm_exact_tanh(NAN)));
    assert_true(culm_exact_erf(INFINITY) == 1 && isnan(culm_exact_erf(NAN)));
    assert_true(isnan(culm_exact_pow(-2, 0.5)) && culm_exact_pow(-2, 3) == -8);
    assert_true(culm_exact_pow(0, 2) == 0 && culm_exact_pow(NAN, 0) == 1);
    assert_true(culm_exact_pow(2, INFINITY) == INFINITY && culm_exact_pow(2, 5000) == INFINITY);
    assert_true(culm_exact_pow(-2, 5001) == -INFINITY && culm_exact_pow(2, -5000) == 0);
    assert_true(culm_exact_pow(1, NAN) == 1 && culm_exact_pow(-1, 1e300) == 1);
}

static void test_normal(void **state) {
    (void)state;
    size_t wrong = 0, count = sizeof normal_cases / sizeof *normal_cases;
    for (size_t i = 0; i < count; i++) {
        float have[2];
        culm_rng_normal(normal_cases[i].a, normal_cases[i].b, normal_cases[i].std, have);
        if (have[0] != normal_cases[i].x || have[1] != normal_cases[i].y) {
            print_message("%08x %08x: %a %a, not %a %a\n", normal_cases[i].a, normal_cases[i].b,
                          (double)have[0], (double)have[1], (double)normal_cases[i].x,
                          (double)normal_cases[i].y);
            wrong++;
        }
    }
    if (wrong) {
        fail_msg("%zu of %zu differ", wrong, count);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_special),
        cmocka_unit_test(test_normal),
    };
    return cmocka_run_group_tests_name("base/exact", tests, NULL, NULL);
}
