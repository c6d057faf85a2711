/* Text in JSON, and JSON in files: as jansson reads them and says what is wrong. */
#include "base/json.h"

#include "../folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_text_of_any_bytes(void **state) {
    (void)state;
    static const char *const pairs[][2] = {{"plain", "plain"},
                                           {"gr\xc3\xbcn", "gr\xc3\xbcn"},
                                           {"a\xff"
                                            "b",
                                            "a\xef\xbf\xbd"
                                            "b"},
                                           {"\xc3", "\xef\xbf\xbd"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        json_t *json = culm_json_text(pairs[i][0]);
        assert_string_equal(json_string_value(json), pairs[i][1]);
        assert_int_equal(culm_json_is_utf8(pairs[i][0]), !strcmp(pairs[i][0], pairs[i][1]));
        json_decref(json);
    }
}

static void expect_same(const char *path) {
    json_error_t ours = {0}, theirs = {0};
    json_t *got = culm_json_load(path, &ours), *want = json_load_file(path, 0, &theirs);
    assert_int_equal(!got, !want);
    assert_true(!got || json_equal(got, want));
    if (!want) {
        assert_string_equal(ours.text, theirs.text);
        assert_int_equal(ours.line, theirs.line);
    }
    json_decref(got);
    got = culm_json_load(path, NULL);
    assert_int_equal(!got, !want);
    json_decref(got);
    json_decref(want);
}

static void test_files(void **state) {
    (void)state;
    static const char *const texts[] = {"{\"a\": [1, 2.5]}", "{\"a\":\n 1,}", "", "[]\n x"};
    char path[256];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        snprintf(path, sizeof path, "%s/%zu.json", folder, i);
        assert_int_equal(culm_file_replace(NULL, path, texts[i], strlen(texts[i]), NULL), CULM_OK);
        expect_same(path);
    }
    expect_same(folder);
    snprintf(path, sizeof path, "%s/%0200d", folder, 7); /* is not there, and has a long name */
    expect_same(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_of_any_bytes),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests_name("base/json", tests, make_folder, drop_folder);
}
