/* Verdicts: when training ends, and what comes back from a checkpoint. */
#include "interval/verdict.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void test_judge(void **state) {
    (void)state;
    const struct culm_gnn_stop stop = {.accuracy = 0.9, .patience = 2};
    struct culm_gnn_verdict verdict = {0};
    culm_gnn_verdict_judge(&verdict, &stop, 0,
                           0.25); /* the first one is the best so far, whatever it is */
    assert_true(verdict.known && verdict.best == 0 && verdict.test_at_best == 0.25);
    culm_gnn_verdict_judge(&verdict, &stop, 0.5, 0.5);
    culm_gnn_verdict_judge(&verdict, &stop, 0.5, 0.75); /* not better */
    assert_true(verdict.test_at_best == 0.5 && verdict.since_best == 1 && !verdict.enough);
    culm_gnn_verdict_judge(&verdict, &stop, 0.4, 0.75);
    assert_true(verdict.since_best == 2 && verdict.enough);
    culm_gnn_verdict_judge(&verdict, &stop, 0.6, 0.6);
    assert_true(verdict.enough && verdict.since_best == 0); /* enough stays enough */
    verdict = (struct culm_gnn_verdict){0};
    culm_gnn_verdict_judge(&verdict, &stop, 0.9, 0.1);
    assert_true(verdict.enough);
    const struct culm_gnn_stop never = {0};
    verdict = (struct culm_gnn_verdict){0};
    for (int i = 0; i < 100; i++) {
        culm_gnn_verdict_judge(&verdict, &never, 1, 1);
    }
    assert_true(!verdict.enough && verdict.since_best == 99);
}

static void check_back(const struct culm_gnn_verdict *verdict) {
    json_t *json = culm_gnn_verdict_json(verdict);
    char *text = json_dumps(json, 0);
    json_t *again = json_loads(text, 0, NULL);
    struct culm_gnn_verdict back;
    assert_true(culm_gnn_verdict_read(again, &back));
    assert_true(back.known == verdict->known && back.best == verdict->best &&
                back.test_at_best == verdict->test_at_best &&
                back.since_best == verdict->since_best && back.enough == verdict->enough);
    json_decref(again);
    free(text);
    json_decref(json);
}

static void test_comes_back(void **state) {
    (void)state;
    check_back(&(struct culm_gnn_verdict){0});
    check_back(&(struct culm_gnn_verdict){true, 2 / 3.0, 1 / 7.0, 123456789012, true});
}

static void test_nonsense(void **state) {
    (void)state;
    static const char *const bad[] = {
        "{}",
        "[]",
        "{\"evaluated\":true,\"best_valid\":1.5,\"test_at_best_valid\":0,\"since_best\":0,"
        "\"enough\":false}",
        "{\"evaluated\":true,\"best_valid\":0.5,\"test_at_best_valid\":-1,\"since_best\":0,"
        "\"enough\":false}",
        "{\"evaluated\":true,\"best_valid\":0.5,\"test_at_best_valid\":0,\"since_best\":-1,"
        "\"enough\":false}",
        "{\"evaluated\":true,\"best_valid\":\"x\",\"test_at_best_valid\":0,\"since_best\":0,"
        "\"enough\":false}",
        "{\"evaluated\":true,\"best_valid\":0.5,\"test_at_best_valid\":0,\"since_best\":0}",
    };
    struct culm_gnn_verdict verdict;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_t *json = json_loads(bad[i], 0, NULL);
        assert_non_null(json);
        assert_false(culm_gnn_verdict_read(json, &verdict));
        assert_true(!verdict.known && !verdict.enough && verdict.since_best == 0);
        json_decref(json);
    }
    assert_false(culm_gnn_verdict_read(NULL, &verdict));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_judge),
        cmocka_unit_test(test_comes_back),
        cmocka_unit_test(test_nonsense),
    };
    return cmocka_run_group_tests_name("interval/verdict", tests, NULL, NULL);
}
