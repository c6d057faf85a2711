/* The YAML tree: shapes and line numbers, and a message for everything refused. */
#include "base/yaml.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct culm_yaml *parse(const char *text) {
    struct culm_yaml *root = NULL;
    struct culm_error error = {0};
    if (culm_yaml_parse(text, strlen(text), "f", &root, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    return root;
}

static void refused_bytes(const char *text, size_t len, const char *message) {
    struct culm_yaml *root = NULL;
    struct culm_error error = {0};
    assert_int_equal(culm_yaml_parse(text, len, "f", &root, &error), CULM_ERR_CONFIG);
    assert_null(root);
    assert_string_equal(error.text, message);
}

static void refused(const char *text, const char *message) {
    refused_bytes(text, strlen(text), message);
}

static void shapes_and_lines(void **state) {
    (void)state;
    struct culm_yaml *root = parse("# comment\na: 1\nb:\n  c: [x, 'y z']\n  d: \"\"\ne: ~\n");
    assert_int_equal(root->kind, CULM_YAML_MAP);
    assert_int_equal(root->count, 3);
    const struct culm_yaml *a = culm_yaml_get(root, "a"), *b = culm_yaml_get(root, "b");
    assert_string_equal(a->text, "1");
    assert_int_equal(a->line, 2);
    assert_false(a->quoted);
    assert_int_equal(b->key_line, 3);
    const struct culm_yaml *c = culm_yaml_get(b, "c"), *d = culm_yaml_get(b, "d");
    assert_int_equal(c->kind, CULM_YAML_LIST);
    assert_int_equal(c->count, 2);
    assert_string_equal(c->items[1]->text, "y z");
    assert_true(c->items[1]->quoted);
    assert_int_equal(c->line, 4);
    assert_false(culm_yaml_is_null(d));
    assert_true(culm_yaml_is_null(culm_yaml_get(root, "e")));
    assert_null(culm_yaml_get(root, "f"));
    culm_yaml_free(root);
}

static void empty_documents_are_empty_maps(void **state) {
    (void)state;
    const char *const texts[] = {"", "# only a comment\n", "---\n", "\n\n", "null\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct culm_yaml *root = parse(texts[i]);
        assert_int_equal(root->kind, CULM_YAML_MAP);
        assert_int_equal(root->count, 0);
        culm_yaml_free(root);
    }
    culm_yaml_free(NULL);
}

static void what_could_explode_is_refused(void **state) {
    (void)state;
    refused("a: &x [1]\nb: 2\n", "f:1: an anchor or a tag; write the list without it");
    refused("a: &x {b: 1}\n", "f:1: an anchor or a tag; write the map without it");
    refused("a: &x 1\n", "f:1: an anchor (&name); write the value out where it is needed");
    refused("a: 1\nb: *x\n", "f:2: an alias (*name); write the value out instead");
    refused("a: !!int 1\n", "f:1: a tag (!name); write the value without it");

    char deep[200] = "";
    for (size_t i = 0; i < 64; i++) {
        strcat(deep, "[");
    }
    refused(deep, "f:1: nested too deeply; at most 32 levels are allowed");

    size_t len = 3 * 20001;
    char *many = malloc(len + 3);
    many[0] = '[';
    for (size_t i = 0; i < 20001; i++) {
        memcpy(many + 1 + 3 * i, "1,\n", 3);
    }
    refused_bytes(many, len + 1, "f:20000: too many values; at most 20000 are allowed");
    free(many);

    char *big = calloc(1, CULM_YAML_MAX_BYTES + 1);
    refused_bytes(big, CULM_YAML_MAX_BYTES + 1, "f: 262145 bytes; at most 262144 are allowed");
    free(big);
}

static void what_is_not_a_configuration_is_refused(void **state) {
    (void)state;
    refused("a: 1\nb: 2\na: 3\n", "f:3: a: given twice; it is already there in line 1");
    refused("a: 1\n---\nb: 2\n", "f:2: a second document ('---'); one is allowed");
    refused("a: 1\n? [b]\n: 2\n", "f:2: a key is a list or a map; keys are plain words");
    refused("a: \"x\\0y\"\n", "f:1: a NUL character; only text is allowed");
    refused("a: [1\nb: 2\n", "f:2: not valid YAML: did not find expected ',' or ']'");
    refused("a: 1\n\tb: 2\n",
            "f:2: not valid YAML: found a tab character that violates indentation");
    refused("One text\nand another: no map.\n",
            "f:2: not valid YAML: mapping values are not allowed "
            "in this context; write 'key: value' lines");
    refused("a: 1\nb: \xff\n",
            "f:2: not text: invalid leading UTF-8 octet at byte 8; write it as UTF-8");
    refused_bytes("a: 1\n\0", 6,
                  "f:2: not text: control characters are not allowed at byte 5; write it as UTF-8");
}

/* Some editors put a mark at the beginning of each text in UTF-8. */
static void a_mark_at_the_beginning_is_passed_over(void **state) {
    (void)state;
    struct culm_yaml *root = parse("\xef\xbb\xbf"
                                   "a: 1\nb: 2\n");
    assert_string_equal(root->items[0]->key, "a");
    assert_string_equal(root->items[1]->text, "2");
    culm_yaml_free(root);
    refused("\xef\xbb\xbf"
            "a: 1\nb: \xff\n",
            "f:2: not text: invalid leading UTF-8 octet at byte 11; write it as UTF-8");
    refused("\xff\xfe"
            "a\n",
            "f:1: not text: invalid leading UTF-8 octet at byte 0; write it as UTF-8");
}

static void descriptions_stay_on_one_line(void **state) {
    (void)state;
    char buffer[96];
    struct culm_yaml *root = parse("[ab, 'c', ~, {}, [], \"d\\ne\", "
                                   "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\u00e9bbb]");
    const char *const expected[] = {
        "'ab'",
        "text 'c'",
        "nothing",
        "a map",
        "a list",
        "text 'd...'",
        "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...'",
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_string_equal(culm_yaml_describe(root->items[i], buffer, sizeof buffer), expected[i]);
    }
    culm_yaml_free(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_and_lines),
        cmocka_unit_test(empty_documents_are_empty_maps),
        cmocka_unit_test(what_could_explode_is_refused),
        cmocka_unit_test(what_is_not_a_configuration_is_refused),
        cmocka_unit_test(a_mark_at_the_beginning_is_passed_over),
        cmocka_unit_test(descriptions_stay_on_one_line),
    };
    return cmocka_run_group_tests_name("base/yaml", tests, NULL, NULL);
}
