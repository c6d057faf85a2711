/* Frames that are asked for on a command line. */
#include "cli/frames.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static void frames(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t first, end;
    } good[] = {{"3:5", 3, 5}, {"3:", 3, 0}, {":2", 0, 2}, {"7", 7, 8}};
    static const char *const bad[] = {"",     ":",     "a",    "3:3",  "5:2",
                                      "-1:2", "1:2:3", "1:-2", "1 :2", "99999999999999999999"};
    struct culm_error error = {0};
    int64_t first, end;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (culm_cli_read_frames(good[i].text, &first, &end, &error) != CULM_OK) {
            fail_msg("%s", error.text);
        }
        assert_int_equal(first, good[i].first);
        assert_int_equal(end, good[i].end);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (culm_cli_read_frames(bad[i], &first, &end, &error) != CULM_ERR_ARGUMENT) {
            fail_msg("'%s' passes", bad[i]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(frames)};
    return cmocka_run_group_tests_name("cli/frames", tests, NULL, NULL);
}
