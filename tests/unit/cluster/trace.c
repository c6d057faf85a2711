/* Traces: what is read, in which order, and each refusal with its line. */
#include "cluster/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static enum culm_status parse(const char *text, struct culm_trace *trace,
                              struct culm_error *error) {
    return culm_trace_parse(text, strlen(text), "t.csv", trace, error);
}

static void entries_come_by_time(void **state) {
    (void)state;
    struct culm_trace trace;
    struct culm_error error = {0};
    assert_int_equal(parse("# who comes and goes\n\n500,remove,b\n0,add,a\r\n0,add,b\n500,add,b\n"
                           "7000000000,remove,a",
                           &trace, &error),
                     CULM_OK);
    static const char *const names[] = {"a", "b", "b", "b", "a"};
    static const bool adds[] = {true, true, false, true, false};
    static const int64_t times[] = {0, 0, 500, 500, 7000000000};
    assert_int_equal(trace.count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(trace.entry[i].name, names[i]);
        assert_int_equal(trace.entry[i].add, adds[i]);
        assert_int_equal(trace.entry[i].at_ms, times[i]);
    }
    culm_trace_release(&trace);
}

static void refusals_name_the_line(void **state) {
    (void)state;
    static const struct {
        const char *text, *needle;
    } cases[] = {
        {"", "t.csv:1: no entries"},
        {"# nothing\n", "t.csv:1: no entries"},
        {"0,add,a\nadd,a\n", "t.csv:2: not three fields"},
        {"0,add,a\n-1,add,b\n", "t.csv:2: the time is not"},
        {"0,add,a\n1.5,add,b\n", "t.csv:2: the time is not"},
        {",add,b\n", "t.csv:1: the time is not"},
        {"99999999999999999999,add,b\n", "t.csv:1: the time is not"},
        {"0,Add,a\n", "t.csv:1: the second field"},
        {"0,add,\n", "t.csv:1: not a name"},
        {"0,add,a b\n", "t.csv:1: not a name"},
        {"0,add,a,b\n", "t.csv:1: not a name"},
        {"0,add,aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", "not a name"},
        {"0,add,a\n9,add,a\n", "t.csv:2: adds a name that is there already"},
        {"0,add,a\n9,remove,b\n", "t.csv:2: removes a name that is not there"},
        {"9,add,a\n1,remove,a\n", "t.csv:2: removes a name that is not there"},
        {"0,add,a\n1,remove,a\n2,remove,a\n", "t.csv:3: removes a name that is not there"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct culm_trace trace;
        struct culm_error error = {0};
        assert_int_equal(parse(cases[i].text, &trace, &error), CULM_ERR_CONFIG);
        if (!strstr(error.text, cases[i].needle)) {
            fail_msg("case %zu: '%s' lacks '%s'", i, error.text, cases[i].needle);
        }
    }
}

static void a_missing_file_is_named(void **state) {
    (void)state;
    struct culm_trace trace;
    struct culm_error error = {0};
    assert_int_not_equal(culm_trace_read("/nonexistent/t.csv", &trace, &error), CULM_OK);
    assert_non_null(strstr(error.text, "/nonexistent/t.csv"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_come_by_time),
        cmocka_unit_test(refusals_name_the_line),
        cmocka_unit_test(a_missing_file_is_named),
    };
    return cmocka_run_group_tests_name("cluster/trace", tests, NULL, NULL);
}
