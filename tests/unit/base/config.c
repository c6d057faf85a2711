/* Configuration tables: every message, nothing half applied, and dump as the inverse of parse. */
#include "base/config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum color { RED, GREEN };
enum animal { CAT, DOG };
static const char *const colors[] = {"red", "green", NULL}, *const animals[] = {"cat", "dog", NULL};

struct settings {
    int64_t size;
    double rate, share;
    enum animal name;
    enum color color;
    struct part {
        uint64_t seed;
        char **paths;
        size_t path_count;
    } part;
};

static const struct culm_config_row part_rows[] = {
    CULM_CONFIG_U64("seed", struct part, seed, "1", 0, "seed"),
    CULM_CONFIG_TEXTS("paths", struct part, paths, path_count, "a.txt", NULL, 0, "files"),
};
static const struct culm_config_table part_table = {CULM_CONFIG_ROWS(part_rows, struct part)};

static const struct culm_config_row rows[] = {
    CULM_CONFIG_INT("size", struct settings, size, NULL, -1, 10, 0, "how large"),
    CULM_CONFIG_REAL("rate", struct settings, rate, "0.5", 0, INFINITY, CULM_CONFIG_ABOVE, "speed"),
    CULM_CONFIG_REAL("share", struct settings, share, "0", 0, 1, CULM_CONFIG_BELOW, "part"),
    CULM_CONFIG_ENUM("name", struct settings, name, "cat", animals, 0, "who"),
    CULM_CONFIG_ENUM("color", struct settings, color, "red", colors, CULM_CONFIG_RESUMABLE, "hue"),
    CULM_CONFIG_SECTION("part", struct settings, part, &part_table),
};
static const struct culm_config_table table = {CULM_CONFIG_ROWS(rows, struct settings)};

static struct settings parse(const char *text, const char *const *sets, size_t set_count) {
    struct settings s;
    struct culm_error error = {0};
    if (culm_config_parse(&table, text, strlen(text), "f", sets, set_count, &s, &error)) {
        fail_msg("%s", error.text);
    }
    return s;
}

static void refused_as(enum culm_status status, const char *text, const char *set,
                       const char *message) {
    struct settings s, before;
    struct culm_error error = {0};
    memset(&s, 0x5A, sizeof s);
    before = s;
    assert_int_equal(
        culm_config_parse(&table, text, strlen(text), "f", &set, set ? 1 : 0, &s, &error), status);
    assert_string_equal(error.text, message);
    assert_memory_equal(&s, &before, sizeof s);
}

static void refused(const char *text, const char *message) {
    refused_as(CULM_ERR_CONFIG, text, NULL, message);
}

static void refused_set(const char *set, const char *message) {
    refused_as(CULM_ERR_CONFIG, "size: 1\n", set, message);
}

static void values_and_defaults(void **state) {
    (void)state;
    struct settings s = parse("size: -1\nshare: .25\npart: {seed: 18446744073709551615, paths: [x, "
                              "'y z']}\ncolor: green\n",
                              NULL, 0);
    assert_int_equal(s.size, -1);
    assert_true(s.rate == 0.5);
    assert_true(s.share == 0.25);
    assert_int_equal(s.name, CAT);
    assert_int_equal(s.color, GREEN);
    assert_true(s.part.seed == UINT64_MAX);
    assert_int_equal(s.part.path_count, 2);
    assert_string_equal(s.part.paths[1], "y z");
    culm_config_release(&table, &s);
    assert_null(s.part.paths);

    s = parse("size: 10\npart:\n", NULL, 0); /* an empty section is no section */
    assert_int_equal(s.part.path_count, 1);
    culm_config_release(&table, &s);
}

static void sets_apply_in_order(void **state) {
    (void)state;
    const char *const sets[] = {"size=3", "part.paths=[p, q]", "part={seed: 7}",
                                "size=4", "rate=1e-3",         "part.paths=z=1.txt"};
    struct settings s = parse("size: 1\nrate: 2\n", sets, 6);
    assert_int_equal(s.size, 4);
    assert_true(s.rate == 0.001);
    assert_int_equal(s.part.seed, 7);
    assert_int_equal(s.part.path_count, 1);
    assert_string_equal(s.part.paths[0], "z=1.txt");
    culm_config_release(&table, &s);
}

static void unknown_keys(void **state) {
    (void)state;
    refused("size: 1\nsice: 2\n", "f:2: sice: unknown key; did you mean 'size'");
    refused("zebra: 2\n", "f:1: zebra: unknown key; allowed: size, rate, share, name, color, part");
    refused("seed: 2\n", "f:1: seed: unknown key; did you mean 'part.seed'");
    refused("part:\n  sed: 2\n", "f:2: part.sed: unknown key; did you mean 'part.seed'");
    refused("part:\n  rate: 2\n", "f:2: part.rate: unknown key; did you mean 'rate'");
    refused("part:\n  zebra: 2\n", "f:2: part.zebra: unknown key; allowed in part: seed, paths");
    refused("part.seed: 2\n", "f:1: part.seed: a dotted key; write 'part: {seed: ...}'");
    refused("\"a\\nb\": 2\n",
            "f:1: a?b: unknown key; allowed: size, rate, share, name, color, part");
    refused_set("sice=2", "--set: sice: unknown key; did you mean 'size'");
    refused_set("part.sed=2", "--set: part.sed: unknown key; did you mean 'part.seed'");
    refused_set("prt.seed=2",
                "--set: prt.seed: unknown key; allowed: size, rate, share, name, color, part");
}

static void wrong_types(void **state) {
    (void)state;
    refused("size: abc\n", "f:1: size: 'abc' is not a whole number; allowed: -1 to 10");
    refused("size: '1'\n", "f:1: size: text '1' is not a whole number; allowed: -1 to 10");
    refused("size: 1.0\n", "f:1: size: '1.0' is not a whole number; allowed: -1 to 10");
    refused("size: 010\n", "f:1: size: '010' is not a whole number; allowed: -1 to 10");
    refused("size: 0x1\n", "f:1: size: '0x1' is not a whole number; allowed: -1 to 10");
    refused("size: [1]\n", "f:1: size: a list is not a whole number; allowed: -1 to 10");
    refused("size: {a: 1}\n", "f:1: size: a map is not a whole number; allowed: -1 to 10");
    refused("size:\n", "f:1: size: has no value; allowed: -1 to 10");
    refused("size: 1\nrate: fast\n", "f:2: rate: 'fast' is not a number; allowed: above 0");
    refused("size: 1\nrate: nan\n", "f:2: rate: 'nan' is not a number; allowed: above 0");
    refused("size: 1\nrate: 0x1p3\n", "f:2: rate: '0x1p3' is not a number; allowed: above 0");
    refused("name: cow\n", "f:1: name: 'cow' is not known; allowed: cat, dog");
    refused("name: ca\n", "f:1: name: 'ca' is not known; allowed: cat, dog");
    refused("name: [cat]\n", "f:1: name: a list is not a word; allowed: cat, dog");
    refused("color: blue\n", "f:1: color: 'blue' is not known; allowed: red, green");
    refused("part: 3\n", "f:1: part: '3' is not a map of keys; allowed keys: seed, paths");
    refused("part:\n  paths: []\n",
            "f:2: part.paths: is an empty list; allowed: a path or a list of paths");
    refused("part:\n  paths: [a, {b: c}]\n",
            "f:2: part.paths: a map is not a path; allowed: a path or a list of paths");
    refused("part:\n  paths: ''\n",
            "f:2: part.paths: is empty; allowed: a path or a list of paths");
    refused("[1, 2]\n", "f:1: a list is not a configuration; write 'key: value' lines");
    refused("hello\n", "f:1: 'hello' is not a configuration; write 'key: value' lines");
    refused_set("size=abc", "--set: size: 'abc' is not a whole number; allowed: -1 to 10");
    refused_set("size=", "--set: size: has no value; write --set size=value");
    refused_set("size=[", "--set: size: not valid YAML: did not find expected node content");
    refused_as(CULM_ERR_ARGUMENT, "size: 1\n", "size",
               "--set: 'size': no key and value; write --set key.sub=value");
    refused_as(CULM_ERR_ARGUMENT, "size: 1\n", "=3",
               "--set: '=3': no key and value; write --set key.sub=value");
}

static void ranges(void **state) {
    (void)state;
    refused("size: 11\n", "f:1: size: 11 is out of range; allowed: -1 to 10");
    refused("size: -2\n", "f:1: size: -2 is out of range; allowed: -1 to 10");
    refused("size: 99999999999999999999\n",
            "f:1: size: 99999999999999999999 is out of range; allowed: -1 to 10");
    refused("rate: 0\n", "f:1: rate: 0 is out of range; allowed: above 0");
    refused("rate: 1e999\n", "f:1: rate: 1e999 is out of range; allowed: above 0");
    refused("share: 1\n", "f:1: share: 1 is out of range; allowed: at least 0 and below 1");
    refused("part: {seed: -1}\n",
            "f:1: part.seed: -1 is out of range; allowed: 0 to 18446744073709551615");
    refused("part: {seed: 18446744073709551616}\n", "f:1: part.seed: 18446744073709551616 is out "
                                                    "of range; allowed: 0 to 18446744073709551615");
    refused_set("size=11", "--set: size: 11 is out of range; allowed: -1 to 10");
}

static void missing_keys(void **state) {
    (void)state;
    refused("", "f:1: size: is missing; required: -1 to 10");
    refused("rate: 1\n", "f:1: size: is missing; required: -1 to 10");
}

static const char *const *refuse_keys;

static enum culm_status refuse(void *object, const struct culm_config_place *place,
                               struct culm_error *error) {
    (void)object;
    return culm_config_refuse(place, refuse_keys, error, "%d is bad", 5);
}

static void refusals_name_the_key_that_was_given(void **state) {
    (void)state;
    static const struct culm_config_table strict = {CULM_CONFIG_ROWS(rows, struct settings),
                                                    .finish = refuse};
    const struct {
        const char *const *keys;
        const char *set, *message;
    } cases[] = {
        {CULM_CONFIG_KEYS("rate", "size"), NULL, "f:2: size: 5 is bad"},
        {CULM_CONFIG_KEYS("rate", "size"), "rate=2", "--set: rate: 5 is bad"},
        {CULM_CONFIG_KEYS("share"), NULL, "f:1: share: 5 is bad"},
        {CULM_CONFIG_KEYS("part.paths", "part.seed"), NULL, "f:4: part.seed: 5 is bad"},
        {CULM_CONFIG_KEYS("part.paths"), "part={paths: x}", "--set: part.paths: 5 is bad"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = "\nsize: 1\npart:\n  seed: 2\n";
        struct settings s;
        struct culm_error error = {0};
        refuse_keys = cases[i].keys;
        assert_int_equal(culm_config_parse(&strict, text, strlen(text), "f", &cases[i].set,
                                           cases[i].set ? 1 : 0, &s, &error),
                         CULM_ERR_CONFIG);
        assert_string_equal(error.text, cases[i].message);
    }
}

static void dump_is_the_inverse(void **state) {
    (void)state;
    const char *const sets[] = {"rate=0.1234567890123456789", "part.paths=[a b, 'null', \"q\\\"\\\\"
                                                              "\\t\\u0085\\u2028\\U0001F33F\", "
                                                              "\u00e9/x, '- 3', '#']"};
    struct settings s = parse("size: 3\ncolor: green\nname: dog\n", sets, 2);
    struct culm_buf out;
    culm_buf_init(&out, 4096);
    culm_config_dump(&table, &s, &out);
    culm_buf_u8(&out, 0);
    assert_false(out.failed);
    struct settings again = parse((const char *)out.data, NULL, 0);
    struct culm_config_difference difference;
    assert_false(culm_config_differ(&table, &s, &again, 0, &difference));
    assert_int_equal(again.part.path_count, 6);
    struct culm_buf value;
    culm_buf_init(&value, 4096);
    assert_true(culm_config_value(&table, &s, "part.paths", &value));
    culm_buf_u8(&value, 0);
    char set[256]; /* whole, and to be set again */
    snprintf(set, sizeof set, "part.paths=%s", (const char *)value.data);
    culm_config_release(&table, &again);
    again = parse((const char *)out.data, (const char *const[]){"part.paths=x", set}, 2);
    assert_false(culm_config_differ(&table, &s, &again, 0, &difference));
    assert_false(culm_config_value(&table, &s, "part", &value));
    assert_false(culm_config_value(&table, &s, "part.path", &value));
    culm_buf_release(&value);
    culm_config_release(&table, &again);

    again = parse((const char *)out.data, (const char *const[]){"part.paths=one"}, 1);
    assert_true(culm_config_differ(&table, &s, &again, 0, &difference));
    assert_string_equal(difference.key, "part.paths");
    assert_string_equal(difference.b, "one");
    culm_config_release(&table, &again);
    again = parse((const char *)out.data, (const char *const[]){"color=red"}, 1);
    assert_true(culm_config_differ(&table, &s, &again, 0, &difference));
    assert_string_equal(difference.key, "color");
    assert_string_equal(difference.a, "green");
    assert_string_equal(difference.b, "red");
    assert_false(culm_config_differ(&table, &s, &again, CULM_CONFIG_RESUMABLE, &difference));
    culm_config_release(&table, &again);
    culm_config_release(&table, &s);
    culm_buf_release(&out);

    s = parse("size: 3\n", NULL, 0);
    culm_buf_init(&out, 4096);
    culm_config_dump(&table, &s, &out);
    culm_buf_u8(&out, 0);
    assert_string_equal((const char *)out.data, "size: 3\nrate: 0.5\nshare: 0\nname: cat\n"
                                                "color: red\npart:\n  seed: 1\n  paths: a.txt\n");
    culm_buf_release(&out);
    culm_config_release(&table, &s);
}

static void reference_names_every_key(void **state) {
    (void)state;
    for (int markdown = 0; markdown < 2; markdown++) {
        struct culm_buf out;
        culm_buf_init(&out, 4096);
        culm_config_document(&table, markdown, &out);
        culm_buf_u8(&out, 0);
        for (size_t i = 0; i < table.count; i++) {
            assert_non_null(strstr((const char *)out.data, rows[i].key));
            assert_true(rows[i].table || strstr((const char *)out.data, rows[i].doc));
        }
        assert_non_null(strstr((const char *)out.data, "part.paths"));
        assert_null(strstr((const char *)out.data, "null"));
        culm_buf_release(&out);
    }
}

static void resumable_keys_as_a_sentence(void **state) {
    (void)state;
    struct culm_buf out;
    culm_buf_init(&out, 4096);
    culm_config_list_flagged(&table, CULM_CONFIG_ABOVE | CULM_CONFIG_BELOW | CULM_CONFIG_RESUMABLE,
                             &out);
    culm_buf_u8(&out, 0);
    assert_string_equal((const char *)out.data, "rate, share and color");
    culm_buf_clear(&out);
    culm_config_list_flagged(&table, CULM_CONFIG_RESUMABLE, &out);
    culm_buf_u8(&out, 0);
    assert_string_equal((const char *)out.data, "color");
    culm_buf_release(&out);
}

/* A text that was meant to be trained on, in place of the configuration that names it. */
static void a_large_text_is_no_configuration(void **state) {
    (void)state;
    struct culm_error error = {0};
    struct settings s;
    char path[] = "/tmp/culm-config-XXXXXX", wanted[256];
    int fd = mkstemp(path);
    assert_true(fd >= 0 && ftruncate(fd, CULM_YAML_MAX_BYTES + 1) == 0);
    close(fd);
    assert_int_equal(culm_config_load(&table, path, NULL, 0, &s, &error), CULM_ERR_FORMAT);
    snprintf(wanted, sizeof wanted,
             "'%s' is too large for a configuration, which is 'key: value' lines of at most 262144 "
             "bytes",
             path);
    assert_string_equal(error.text, wanted);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_defaults),
        cmocka_unit_test(sets_apply_in_order),
        cmocka_unit_test(unknown_keys),
        cmocka_unit_test(wrong_types),
        cmocka_unit_test(ranges),
        cmocka_unit_test(missing_keys),
        cmocka_unit_test(refusals_name_the_key_that_was_given),
        cmocka_unit_test(dump_is_the_inverse),
        cmocka_unit_test(reference_names_every_key),
        cmocka_unit_test(resumable_keys_as_a_sentence),
        cmocka_unit_test(a_large_text_is_no_configuration),
    };
    return cmocka_run_group_tests_name("base/config", tests, NULL, NULL);
}
