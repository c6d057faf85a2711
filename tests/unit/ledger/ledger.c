/* Ledger: exact counts of lost and repeated positions, against a plain count per position. */
#include "ledger/ledger.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct culm_ledger_findings audit(const struct culm_ledger *ledger, uint64_t end) {
    struct culm_ledger_findings result;
    assert_int_equal(culm_ledger_audit(ledger, end, &result), CULM_OK);
    return result;
}

static struct culm_ledger *steps(int64_t count) {
    struct culm_ledger *ledger = culm_ledger_new();
    for (int64_t step = 1; step <= count; step++) {
        uint64_t first = (uint64_t)(step - 1) * 32;
        assert_int_equal(culm_ledger_commit(ledger, step, first, first + 31), CULM_OK);
    }
    return ledger;
}

static void test_clean_history(void **state) {
    (void)state;
    struct culm_ledger *ledger = steps(1000);
    struct culm_ledger_findings result = audit(ledger, 32000);
    assert_int_equal(result.lost, 0);
    assert_int_equal(result.repeated, 0);
    assert_true(result.first_lost == UINT64_MAX && result.first_repeated == UINT64_MAX);
    assert_int_equal(audit(ledger, 32005).lost, 5);
    assert_int_equal(audit(ledger, 32005).first_lost, 32000);
    culm_ledger_free(ledger);
}

static void test_finds_lost_and_repeated(void **state) {
    (void)state;
    struct culm_ledger *ledger = culm_ledger_new();
    assert_int_equal(audit(ledger, 10).lost, 10);
    culm_ledger_commit(ledger, 1, 0, 9);
    culm_ledger_commit(ledger, 2, 12, 19); /* 10, 11 lost */
    culm_ledger_commit(ledger, 3, 15, 24); /* 15..19 repeated */
    culm_ledger_commit(ledger, 4, 15, 15); /* and 15 a third time */
    struct culm_ledger_findings result = audit(ledger, 25);
    assert_int_equal(result.lost, 2);
    assert_int_equal(result.first_lost, 10);
    assert_int_equal(result.repeated, 6);
    assert_int_equal(result.first_repeated, 15);
    assert_int_equal(culm_ledger_commit(ledger, 5, 3, 2), CULM_ERR_ARGUMENT);
    assert_int_equal(culm_ledger_commit(ledger, 5, 3, UINT64_MAX), CULM_ERR_ARGUMENT);
    culm_ledger_free(ledger);
}

static void test_roll_back_is_forgotten(void **state) {
    (void)state;
    struct culm_ledger *ledger = steps(50), *plain = steps(50);
    culm_ledger_truncate(ledger, 20);
    assert_int_equal(culm_ledger_records(ledger), 20);
    assert_int_equal(audit(ledger, 640).lost, 0);
    assert_true(culm_ledger_checksum(ledger) != culm_ledger_checksum(plain));
    for (int64_t step = 21; step <= 50; step++) {
        culm_ledger_commit(ledger, step, (uint64_t)(step - 1) * 32, (uint64_t)step * 32 - 1);
    }
    assert_int_equal(audit(ledger, 1600).lost, 0);
    assert_int_equal(audit(ledger, 1600).repeated, 0);
    assert_int_equal(culm_ledger_checksum(ledger), culm_ledger_checksum(plain));
    /* without the truncation the redone steps count twice */
    for (int64_t step = 21; step <= 50; step++) {
        culm_ledger_commit(plain, step, (uint64_t)(step - 1) * 32, (uint64_t)step * 32 - 1);
    }
    assert_int_equal(audit(plain, 1600).repeated, 960);
    culm_ledger_free(ledger);
    culm_ledger_free(plain);
}

static void test_against_counting(void **state) {
    (void)state;
    const char *given = getenv("CULM_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 20240607;
    printf("seed %llu (CULM_TEST_SEED)\n", (unsigned long long)seed);
    for (int trial = 0; trial < 500; trial++) {
        enum { N = 200 };
        int count[N + 50] = {0};
        struct culm_ledger *ledger = culm_ledger_new();
        int records = (int)culm_rng_below(&seed, 12);
        for (int i = 0; i < records; i++) {
            uint64_t first = culm_rng_below(&seed, N), len = 1 + culm_rng_below(&seed, 50);
            assert_int_equal(culm_ledger_commit(ledger, i, first, first + len - 1), CULM_OK);
            for (uint64_t p = first; p < first + len; p++) {
                count[p]++;
            }
        }
        uint64_t end = culm_rng_below(&seed, N), lost = 0, repeated = 0;
        for (uint64_t p = 0; p < N + 50; p++) {
            lost += p < end && count[p] == 0;
            repeated += count[p] > 1 ? (uint64_t)count[p] - 1 : 0;
        }
        struct culm_ledger_findings result = audit(ledger, end);
        assert_int_equal(result.lost, lost);
        assert_int_equal(result.repeated, repeated);
        culm_ledger_free(ledger);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clean_history),
        cmocka_unit_test(test_finds_lost_and_repeated),
        cmocka_unit_test(test_roll_back_is_forgotten),
        cmocka_unit_test(test_against_counting),
    };
    return cmocka_run_group_tests_name("ledger/ledger", tests, NULL, NULL);
}
