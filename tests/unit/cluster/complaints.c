/* Errors that come again and again: how often they are said. */
#include "cluster/complaints.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static bool hear(struct culm_complaints *complaints, const char *text, uint64_t at_s,
                 struct culm_error *ret_error) {
    culm_error_set(ret_error, CULM_ERR_IO, "%s", text);
    return culm_complaints_hear(complaints, ret_error, at_s * 1000000000u);
}

static void one_of_a_kind_is_said_at_once_and_others_once_a_minute(void **state) {
    (void)state;
    struct culm_complaints complaints = {0};
    struct culm_error error;
    assert_true(hear(&complaints, "exit code 3", 1, &error));
    assert_string_equal(error.text, "exit code 3");
    for (uint64_t s = 2; s < 61; s++) {
        assert_false(hear(&complaints, "exit code 14", s, &error));
        assert_int_equal(hear(&complaints, "no memory", s, &error), s == 2);
    }
    assert_true(hear(&complaints, "exit code 5", 61, &error));
    assert_string_equal(error.text, "exit code 5 (and 59 more like it)");
    assert_int_equal(error.status, CULM_ERR_IO);
    assert_false(hear(&complaints, "exit code 5", 62, &error));
    assert_true(hear(&complaints, "exit codes 5", 62, &error));
}

/* Of more kinds than are known at a time, the oldest is new again. */
static void many_kinds(void **state) {
    (void)state;
    struct culm_complaints complaints = {0};
    struct culm_error error;
    char text[] = "a";
    for (int i = 0; i < CULM_COMPLAINTS_KINDS; i++) {
        text[0] = (char)('a' + i);
        assert_true(hear(&complaints, text, 1, &error));
        assert_false(hear(&complaints, text, 1, &error));
    }
    assert_false(hear(&complaints, "a", 1, &error));
    assert_true(hear(&complaints, "z", 1, &error));
    assert_false(hear(&complaints, "b", 1, &error));
    assert_true(hear(&complaints, "a", 1, &error));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_of_a_kind_is_said_at_once_and_others_once_a_minute),
        cmocka_unit_test(many_kinds),
    };
    return cmocka_run_group_tests_name("cluster/complaints", tests, NULL, NULL);
}
