/* When an invocation is sent once more. */
#include "cloud/lambda_call.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static uint64_t pause_of(int64_t retry_after_s, uint64_t seed, uint32_t pauses) {
    const struct culm_lambda_reply reply = {.retry_after_s = retry_after_s};
    return culm_lambda_pause_ms(&reply, seed, pauses);
}

/* It grows to 20 s and no further, and two that were refused together do not ask together again. */
static void test_growth(void **state) {
    (void)state;
    uint64_t differ = 0;
    for (uint64_t seed = 0; seed < 50; seed++) {
        for (uint32_t pauses = 0; pauses < 40; pauses++) {
            uint64_t whole = pauses < 7 ? 200u << pauses : CULM_LAMBDA_PAUSE_MAX_MS;
            uint64_t ms = pause_of(0, seed, pauses);
            assert_in_range(ms, whole / 2 + 1, whole);
            differ += ms != pause_of(0, seed + 1, pauses);
        }
    }
    assert_true(differ > 1900);
}

/* What the service asks for counts if it is longer, up to the same end: nobody is silenced for a day. */
static void test_retry_after(void **state) {
    (void)state;
    static const int64_t rows[][2] = {{5, 5000},         {19, 19000},    {20, 20000},
                                      {21, 20000},       {86400, 20000}, {99999, 20000},
                                      {INT64_MAX, 20000}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(pause_of(rows[i][0], 3, 0), rows[i][1]);
    }
    assert_in_range(pause_of(-1, 3, 0), 101, 200);
    assert_in_range(pause_of(INT64_MIN, 3, 0), 101, 200);
    assert_in_range(pause_of(1, 3, 39), 10001, 20000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_retry_after),
    };
    return cmocka_run_group_tests_name("cloud/lambda_call", tests, NULL, NULL);
}
