/* The area under the ROC curve, against a count of all pairs. */
#include "interval/roc.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define MOST 200

static double naive(const struct culm_gnn_scored *s, int64_t count, uint32_t part) {
    int64_t pairs = 0, twice = 0;
    for (int64_t i = 0; i < count; i++) {
        for (int64_t j = 0; j < count; j++) {
            if (s[i].what == 1 + 2 * part && s[j].what == 2 + 2 * part) {
                pairs++;
                twice += s[i].score < s[j].score ? 2 : s[i].score == s[j].score;
            }
        }
    }
    return pairs ? (double)twice / 2 / (double)pairs : -1;
}

static void test_against_all_pairs(void **state) {
    (void)state;
    uint64_t dice = 5;
    for (int round = 0; round < 2000; round++) {
        struct culm_gnn_scored scored[MOST], copy[MOST];
        int64_t count = (int64_t)culm_rng_below(&dice, MOST);
        uint64_t values = 1 + culm_rng_below(&dice, round % 2 ? 5 : 100000); /* many ties, or few */
        for (int64_t i = 0; i < count; i++) {
            scored[i].score = ((float)culm_rng_below(&dice, values) - 3) / 7;
            scored[i].what = (uint32_t)culm_rng_below(&dice, 7);
        }
        for (uint32_t part = 0; part < 3; part++) {
            memcpy(copy, scored, sizeof copy);
            double want = naive(scored, count, part);
            double got = culm_gnn_roc_area(copy, count, part);
            if (fabs(got - want) > 1e-12) {
                fail_msg("%.17g instead of %.17g", got, want);
            }
            assert_true(culm_gnn_roc_area(copy, count, part) ==
                        got); /* the order does not matter */
        }
    }
}

static void test_what_has_none(void **state) {
    (void)state;
    struct culm_gnn_scored one[] = {{1, 1}, {0, 1},        {NAN, 4},      {1, 4},
                                    {2, 3}, {INFINITY, 6}, {-INFINITY, 5}};
    assert_true(culm_gnn_roc_area(one, 0, 0) == -1);
    assert_true(culm_gnn_roc_area(one, 7, 0) == -1); /* one class alone */
    assert_true(culm_gnn_roc_area(one, 7, 1) == -1); /* no number */
    assert_true(culm_gnn_roc_area(one, 7, 2) == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_all_pairs),
        cmocka_unit_test(test_what_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
