/* Names of classes in the metadata of ONNX files: as Culm writes them, as others do, and what is
 * none. */
#include "onnx/onnx.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void reads(const char *text, const char *first, const char *second) {
    struct culm_names names = {0};
    assert_true(culm_onnx_class_names_read(text, &names));
    assert_int_equal(names.count, second ? 2 : 1);
    assert_string_equal(names.name[0], first);
    if (second) {
        assert_string_equal(names.name[1], second);
    }
    culm_names_release(&names);
}

static void test_forms(void **state) {
    (void)state;
    reads("{0: 'cat', 1: 'dog'}", "cat", "dog");
    reads(" { 0 : \"cat\" ,\n1: 'dog' } ", "cat", "dog");
    reads("{\"0\": \"it's\", \"1\": \"b\"}", "it's", "b");
    reads("['cat', 'dog']", "cat", "dog");
    reads("{0: ''}", "", NULL);
    reads("{0: 'it\\'s \\\\ \\x07'}", "it's \\ \a", NULL);
}

static void test_what_is_none(void **state) {
    (void)state;
    static const char *const bad[] = {"",           "{",          "{}",        "[]",
                                      "{1: 'a'}",   "{0: 'a'",    "{0: 'a}",   "{0: 'a',}",
                                      "{0 'a'}",    "{0: a}",     "cat, dog",  "{0: 'a', 0: 'b'}",
                                      "{-1: 'a'}",  "{0: '\\q'}", "{'0: 'a'}", "{0: 'a'; 1: 'b'}",
                                      "{0",         "{12",        "{0 ",       "{0:",
                                      "{0: 'a', 1", "[",          "['a",       "['a\\"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct culm_names names = {0};
        /* of its own size, at the end of which sanitizers see whoever reads on */
        char *text = strdup(bad[i]);
        if (culm_onnx_class_names_read(text, &names)) {
            fail_msg("'%s' is accepted", bad[i]);
        }
        assert_null(names.name);
        free(text);
    }
}

/* Whatever is in a name comes back. */
static void test_round_trip(void **state) {
    (void)state;
    char *name[] = {"cat", "it's \"a\" \\ dog", "line\nbreak\tand \x01", "caf\xc3\xa9", ""};
    const struct culm_names names = {.name = name, .count = 5};
    struct culm_names again = {0};
    struct culm_buf text;
    culm_buf_init(&text, 1 << 16);
    culm_onnx_class_names_text(&names, &text);
    culm_buf_u8(&text, 0);
    assert_true(culm_onnx_class_names_read((const char *)text.data, &again));
    assert_int_equal(again.count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(again.name[i], name[i]);
    }
    culm_names_release(&again);
    culm_buf_release(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_what_is_none),
        cmocka_unit_test(test_round_trip),
    };
    return cmocka_run_group_tests_name("onnx/class_names", tests, NULL, NULL);
}
