/* Marks, and the tests that expect them: one that is not hit ends the program. */
#define CULM_MARKS
#include "base/mark.h"

#include "expect_mark.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void branch(bool taken) {
    if (taken) {
        CULM_MARK(base_test_taken);
    } else {
        CULM_MARK(base_test_not_taken);
    }
}

/* Its exit code. */
static int in_a_child(void (*act)(void)) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        act();
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void takes_it(void) {
    EXPECT_MARK(base_test_taken);
    branch(true);
}

static void takes_the_other(void) {
    EXPECT_MARK(base_test_not_taken);
    branch(true);
}

static void took_it_before(void) {
    branch(true);
    EXPECT_MARK(base_test_taken);
    branch(false);
}

static void expects_what_is_no_mark(void) {
    const struct mark_expected none = mark_expect("base_test_is_no_mark", __FILE__, __LINE__);
    (void)none;
}

static void test_a_branch_that_is_taken(void **state) {
    (void)state;
    assert_int_equal(in_a_child(takes_it), 0);
    EXPECT_MARK(base_test_taken);
    EXPECT_MARK(base_test_not_taken);
    branch(true);
    branch(false);
}

static void test_a_branch_that_is_not(void **state) {
    (void)state;
    assert_int_equal(in_a_child(takes_the_other), 1);
    assert_int_equal(in_a_child(took_it_before), 1);
    assert_int_equal(in_a_child(expects_what_is_no_mark), 1);
}

static void test_what_was_missed(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++) {
        branch(true);
    }
    assert_int_equal(mark_print_missed("base_test_", 4), 1);
    assert_int_equal(mark_print_missed("other_", 1), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_branch_that_is_taken),
        cmocka_unit_test(test_a_branch_that_is_not),
        cmocka_unit_test(test_what_was_missed),
    };
    return cmocka_run_group_tests_name("base/mark", tests, NULL, NULL);
}
