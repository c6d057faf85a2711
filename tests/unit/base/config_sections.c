/* Configuration tables that nest: lists of sections, named sections, sections in sections, texts and
 * short lists of numbers. */
#include "base/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum kind { SMALL, LARGE };
static const char *const kinds[] = {"small", "large", NULL};

struct source {
    char *path;
    int64_t rate;
};
struct model {
    char *name;
    enum kind kind;
    int64_t layers, sizes[3];
    struct source source;
    struct source *extra;
    size_t extra_count;
};
struct camera {
    char *name;
    int64_t width;
};
struct settings {
    struct model *models;
    size_t model_count;
    struct camera *cameras;
    size_t camera_count;
    bool quiet;
};

static const struct culm_config_row source_rows[] = {
    CULM_CONFIG_TEXT("path", struct source, path, NULL, NULL, 0, "where"),
    CULM_CONFIG_INT("rate", struct source, rate, "25", 1, 1000, 0, "how often"),
};
static const struct culm_config_table source_table = {CULM_CONFIG_ROWS(source_rows, struct source)};

/* A large model has more layers, where nobody says how many. */
static enum culm_status finish_model(void *object, const struct culm_config_place *place,
                                     struct culm_error *error) {
    struct model *model = object;
    if (model->kind == LARGE && !culm_config_given(place, "layers")) {
        model->layers = 24;
    }
    if (model->layers % 2) {
        return culm_config_refuse(place, CULM_CONFIG_KEYS("layers"), error, "%lld is odd",
                                  (long long)model->layers);
    }
    if (model->source.rate == 13) {
        return culm_config_refuse(place, CULM_CONFIG_KEYS("source.rate"), error, "is unlucky");
    }
    return CULM_OK;
}

static const struct culm_config_row model_rows[] = {
    CULM_CONFIG_TEXT("name", struct model, name, "", "a name", CULM_CONFIG_EMPTY, "who"),
    CULM_CONFIG_ENUM("kind", struct model, kind, "small", kinds, 0, "which"),
    CULM_CONFIG_INT("layers", struct model, layers, "6", 0, 1024, CULM_CONFIG_RESUMABLE, "depth"),
    CULM_CONFIG_INTS("sizes", struct model, sizes, 1, 9, "up to three numbers", 0, "sizes"),
    CULM_CONFIG_SECTION("source", struct model, source, &source_table),
    CULM_CONFIG_SECTIONS("extra", struct model, extra, extra_count, &source_table,
                         CULM_CONFIG_EMPTY, "more of them"),
};
static const struct culm_config_table model_table = {CULM_CONFIG_ROWS(model_rows, struct model),
                                                     .finish = finish_model};

static const struct culm_config_row camera_rows[] = {
    CULM_CONFIG_INT("width", struct camera, width, NULL, 1, 9999, 0, "pixels"),
};
static const struct culm_config_table camera_table = {CULM_CONFIG_ROWS(camera_rows, struct camera)};

static const struct culm_config_row rows[] = {
    CULM_CONFIG_SECTIONS("models", struct settings, models, model_count, &model_table, 0,
                         "what runs"),
    CULM_CONFIG_NAMED("cameras", struct settings, cameras, camera_count, struct camera, name,
                      &camera_table, CULM_CONFIG_EMPTY, "what is seen"),
    CULM_CONFIG_BOOL("quiet", struct settings, quiet, "false", CULM_CONFIG_RESUMABLE, "says less"),
};
static const struct culm_config_table table = {CULM_CONFIG_ROWS(rows, struct settings)};

#define ONE "models:\n  - source: {path: a}\n"
#define WHOLE                                                                                      \
    "models:\n"                                                                                    \
    "  - name: first\n"                                                                            \
    "    layers: 4\n"                                                                              \
    "    sizes: [3, 4]\n"                                                                          \
    "    source: {path: a, rate: 30}\n"                                                            \
    "  - kind: large\n"                                                                            \
    "    source:\n"                                                                                \
    "      path: b\n"                                                                              \
    "    extra:\n"                                                                                 \
    "      - {path: c}\n"                                                                          \
    "      - path: d\n"                                                                            \
    "        rate: 7\n"                                                                            \
    "cameras:\n"                                                                                   \
    "  door: {width: 640}\n"                                                                       \
    "  3: {width: 320}\n"

static struct settings parse_sets(const char *text, const char *const *sets, size_t count) {
    struct settings s;
    struct culm_error error = {0};
    if (culm_config_parse(&table, text, strlen(text), "f", sets, count, &s, &error)) {
        fail_msg("%s", error.text);
    }
    return s;
}

static struct settings parse(const char *text, const char *set) {
    return parse_sets(text, &set, set ? 1 : 0);
}

static void refused(const char *text, const char *set, const char *message) {
    struct settings s, before;
    struct culm_error error = {0};
    memset(&s, 0x5A, sizeof s);
    before = s;
    enum culm_status status =
        culm_config_parse(&table, text, strlen(text), "f", &set, set ? 1 : 0, &s, &error);
    assert_int_equal(status, CULM_ERR_CONFIG);
    assert_string_equal(error.text, message);
    assert_memory_equal(&s, &before, sizeof s);
}

static void each_section_has_its_own_keys_and_defaults(void **state) {
    (void)state;
    struct settings s = parse(WHOLE, NULL);
    assert_int_equal(s.model_count, 2);
    const struct model *first = &s.models[0], *second = &s.models[1];
    assert_string_equal(first->name, "first");
    assert_int_equal(first->kind, SMALL);
    assert_int_equal(first->layers, 4);
    assert_int_equal(first->sizes[0], 3);
    assert_int_equal(first->sizes[1], 4);
    assert_int_equal(first->sizes[2], 0);
    assert_string_equal(first->source.path, "a");
    assert_int_equal(first->source.rate, 30);
    assert_int_equal(first->extra_count, 0);
    assert_null(second->name);
    assert_int_equal(second->layers, 24); /* as its own finish says */
    assert_int_equal(second->source.rate, 25);
    assert_int_equal(second->extra_count, 2);
    assert_string_equal(second->extra[0].path, "c");
    assert_int_equal(second->extra[1].rate, 7);
    assert_int_equal(s.camera_count, 2);
    assert_string_equal(s.cameras[0].name, "door");
    assert_int_equal(s.cameras[0].width, 640);
    assert_string_equal(s.cameras[1].name, "3");
    culm_config_release(&table, &s);
    assert_null(s.models);
    assert_null(s.cameras);
}

static void sets_reach_into_lists(void **state) {
    (void)state;
    const char *const sets[] = {"models[0].layers=2",      "models[1].extra[1].rate=8",
                                "models[2].source.path=e", "models[2]={kind: large, layers: 12}",
                                "cameras.door.width=1",    "cameras.new={width: 5}",
                                "models[1].sizes=7"};
    struct settings s = parse_sets(WHOLE, sets, sizeof sets / sizeof *sets);
    assert_int_equal(s.model_count, 3);
    assert_int_equal(s.models[0].layers, 2);
    assert_int_equal(s.models[1].extra[1].rate, 8);
    assert_int_equal(s.models[1].sizes[0], 7);
    assert_int_equal(s.models[2].kind, LARGE);
    assert_int_equal(s.models[2].layers, 12);
    assert_string_equal(s.models[2].source.path, "e");
    assert_int_equal(s.camera_count, 3);
    assert_int_equal(s.cameras[0].width, 1);
    assert_string_equal(s.cameras[2].name, "new");
    culm_config_release(&table, &s);

    s = parse(WHOLE, "models=[{source: {path: z}}]"); /* in place of what was there */
    assert_int_equal(s.model_count, 1);
    assert_string_equal(s.models[0].source.path, "z");
    assert_null(s.models[0].name);
    culm_config_release(&table, &s);

    s = parse("", "models[0].source.path=z"); /* from nothing */
    assert_int_equal(s.model_count, 1);
    culm_config_release(&table, &s);
}

static void messages_say_which_section(void **state) {
    (void)state;
    refused(ONE "  - source: {path: b}\n    layers: two\n", NULL,
            "f:4: models[1].layers: 'two' is not a whole number; allowed: 0 to 1024");
    refused(ONE "    layer: 3\n", NULL,
            "f:3: models[0].layer: unknown key; did you mean 'models[0].layers'");
    refused(ONE "    zebra: 3\n", NULL,
            "f:3: models[0].zebra: unknown key; allowed in models[0]: name, kind, layers, sizes, "
            "source, extra");
    refused(ONE "    quiet: true\n", NULL,
            "f:3: models[0].quiet: unknown key; did you mean 'quiet'");
    refused(ONE "width: 3\n", NULL, "f:3: width: unknown key; did you mean 'cameras.NAME.width'");
    refused(ONE "  - layers: 2\n", NULL,
            "f:3: models[1].source.path: is missing; required: a path");
    refused(ONE "    extra:\n      - rate: 3\n", NULL,
            "f:4: models[0].extra[0].path: is missing; required: a path");
    refused(ONE "  - 7\n", NULL,
            "f:3: models[1]: '7' is not a map of keys; allowed keys: name, kind, layers, sizes, "
            "source, extra");
    refused("models: {a: b}\n", NULL,
            "f:1: models: a map is not a list of sections; allowed: a list of sections");
    refused("quiet: true\n", NULL, "f:1: models: is missing; required: a list of sections");
    refused("models: []\n", NULL, "f:1: models: is missing; required: a list of sections");
    refused(ONE "cameras: [1]\n", NULL,
            "f:3: cameras: a list is not a map of sections; allowed: sections with names");
    refused(ONE "cameras:\n  a.b: {width: 3}\n", NULL,
            "f:4: cameras: 'a.b' is not a name; allowed: up to 64 letters, digits, '_' and '-'");
    refused(ONE "cameras:\n  a: {}\n", NULL,
            "f:4: cameras.a.width: is missing; required: 1 to 9999");
    refused(ONE "    name: [a, b]\n", NULL, "f:3: models[0].name: is a list of 2; allowed: a name");
    refused(ONE "    name: {a: b}\n", NULL,
            "f:3: models[0].name: a map is not a text; allowed: a name");
    refused(ONE "  - source: {path: ''}\n", NULL,
            "f:3: models[1].source.path: is empty; allowed: a path");
    refused(ONE "    sizes: [1, 2, 3, 4]\n", NULL,
            "f:3: models[0].sizes: is a list of 4; allowed: up to three numbers");
    refused(ONE "    sizes: [1, 10]\n", NULL,
            "f:3: models[0].sizes: 10 is out of range; allowed: up to three numbers, 1 to 9");
    refused(ONE, "models[2].layers=2",
            "--set: models: '[2].layers' is not an index; allowed: [0] to [1]");
    refused(ONE, "models[x]=2", "--set: models: '[x]' is not an index; allowed: [0] to [1]");
    refused(ONE, "models[0]layers=2",
            "--set: models: '[0]layers' is not an index; allowed: [0] to [1]");
    refused(ONE, "models[99999999999999999999].layers=2",
            "--set: models: '[99999999999999999999].layers' is not an index; allowed: [0] to [1]");
    refused(ONE, "models.layers=2",
            "--set: models.layers: unknown key; allowed: models, cameras, quiet");
    refused(ONE, "models[0].layers=x",
            "--set: models[0].layers: 'x' is not a whole number; allowed: 0 to 1024");
    refused(ONE, "cameras.a/b={width: 2}",
            "--set: cameras: 'a/b' is not a name; allowed: up to 64 letters, digits, '_' and '-'");
    refused(ONE, "cameras.=2",
            "--set: cameras: '' is not a name; allowed: up to 64 letters, digits, '_' and '-'");
}

static void checks_between_keys_know_their_section(void **state) {
    (void)state;
    refused(ONE "  - source: {path: b}\n    layers: 3\n", NULL, "f:4: models[1].layers: 3 is odd");
    refused(ONE, "models[0].layers=5", "--set: models[0].layers: 5 is odd");
    refused(ONE "  - source:\n      rate: 13\n      path: b\n", NULL,
            "f:4: models[1].source.rate: is unlucky");
}

static char *dump(const struct settings *s) {
    struct culm_buf out;
    culm_buf_init(&out, 1u << 16);
    culm_config_dump(&table, s, &out);
    culm_buf_u8(&out, 0);
    assert_false(out.failed);
    return (char *)out.data;
}

static void dumps_read_back(void **state) {
    (void)state;
    const char *const sets[] = {NULL, "models[0].name='[null]'", "models[1].extra=[]",
                                "models[0].extra=[{path: 'a b'}, {path: \"\\u2028\"}]",
                                "cameras.null={width: 2}"};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        struct settings a = parse(WHOLE, sets[i]);
        char *text = dump(&a);
        struct settings b = parse(text, NULL);
        struct culm_config_difference difference;
        assert_false(culm_config_differ(&table, &a, &b, 0, &difference));
        char *again = dump(&b);
        assert_string_equal(text, again);
        free(again);
        free(text);
        culm_config_release(&table, &b);
        culm_config_release(&table, &a);
    }
    struct settings s = parse(ONE "cameras: {a: {width: 2}}\n", "models[0].extra=[{path: b}]");
    char *text = dump(&s);
    assert_string_equal(text, "models:\n"
                              "  - name: []\n"
                              "    kind: small\n"
                              "    layers: 6\n"
                              "    sizes: []\n"
                              "    source:\n"
                              "      path: a\n"
                              "      rate: 25\n"
                              "    extra:\n"
                              "      - path: b\n"
                              "        rate: 25\n"
                              "cameras:\n"
                              "  a:\n"
                              "    width: 2\n"
                              "quiet: false\n");
    free(text);
    culm_config_release(&table, &s);
}

static void differences_name_their_section(void **state) {
    (void)state;
    const struct {
        const char *set, *key, *a, *b;
        unsigned skip;
    } cases[] = {
        {"models[1].layers=2", "models[1].layers", "24", "2", 0},
        {"models[1].layers=2", NULL, NULL, NULL, CULM_CONFIG_RESUMABLE},
        {"models[0].name=second", "models[0].name", "first", "second", 0},
        {"models[1].name=second", "models[1].name", "[]", "second", 0},
        {"models[1].extra[1].rate=8", "models[1].extra[1].rate", "7", "8", 0},
        {"models[2].source.path=x", "models", "2 sections", "3 sections", 0},
        {"cameras.door.width=3", "cameras.door.width", "640", "3", 0},
        {"models[0].sizes=[3]", "models[0].sizes", "[3, 4]", "[3]", 0},
    };
    struct settings a = parse(WHOLE, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct settings b = parse(WHOLE, cases[i].set);
        struct culm_config_difference d;
        assert_int_equal(culm_config_differ(&table, &a, &b, cases[i].skip, &d),
                         cases[i].key != NULL);
        if (cases[i].key) {
            assert_string_equal(d.key, cases[i].key);
            assert_string_equal(d.a, cases[i].a);
            assert_string_equal(d.b, cases[i].b);
        }
        culm_config_release(&table, &b);
    }
    culm_config_release(&table, &a);
}

static void reference_shows_how_keys_are_written(void **state) {
    (void)state;
    struct culm_buf out;
    culm_buf_init(&out, 1u << 16);
    culm_config_document(&table, true, &out);
    culm_buf_u8(&out, 0);
    const char *text = (const char *)out.data;
    assert_non_null(strstr(text, "\n| `models` | *required* | a list of sections | what runs |\n"));
    assert_non_null(strstr(text, "\n| `models[].layers` | 6 | 0 to 1024 | depth"));
    assert_non_null(strstr(text, "\n| `models[].source.path` | *required* | a path | where |\n"));
    assert_non_null(strstr(text, "\n| `models[].extra[].rate` | 25 |"));
    assert_non_null(strstr(text, "\n| `cameras.NAME.width` | *required* |"));
    culm_buf_release(&out);
}

/* A table of more rows than any has today, in a list of more sections. */
static void there_is_no_limit_of_rows(void **state) {
    (void)state;
    enum { ROWS = 300, SECTIONS = 60 };
    struct wide {
        int64_t value[ROWS];
    };
    struct many {
        struct wide *items;
        size_t count;
    };
    static char names[ROWS][8];
    static struct culm_config_row wide_rows[ROWS];
    for (size_t i = 0; i < ROWS; i++) {
        snprintf(names[i], sizeof names[i], "k%zu", i);
        wide_rows[i] = (struct culm_config_row){.key = names[i],
                                                .type = CULM_CONFIG_TYPE_INT,
                                                .offset = i * sizeof(int64_t),
                                                .size = sizeof(int64_t),
                                                .value = "1",
                                                .max = 1000,
                                                .doc = "a number"};
    }
    const struct culm_config_table wide = {CULM_CONFIG_ROWS(wide_rows, struct wide)};
    const struct culm_config_row many_rows[] = {
        CULM_CONFIG_SECTIONS("all", struct many, items, count, &wide, 0, "all"),
    };
    const struct culm_config_table many = {CULM_CONFIG_ROWS(many_rows, struct many)};
    struct culm_buf text;
    culm_buf_init(&text, 1u << 20);
    culm_buf_printf(&text, "all:\n");
    for (int s = 0; s < SECTIONS; s++) {
        culm_buf_printf(&text, "  - {k%d: %d, k299: 7}\n", s, s + 2);
    }
    struct many m;
    struct culm_error error = {0};
    if (culm_config_parse(&many, (const char *)text.data, text.len, "f", NULL, 0, &m, &error)) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(m.count, SECTIONS);
    assert_int_equal(m.items[59].value[59], 61);
    assert_int_equal(m.items[59].value[299], 7);
    assert_int_equal(m.items[59].value[298], 1);
    culm_config_release(&many, &m);
    culm_buf_release(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_section_has_its_own_keys_and_defaults),
        cmocka_unit_test(sets_reach_into_lists),
        cmocka_unit_test(messages_say_which_section),
        cmocka_unit_test(checks_between_keys_know_their_section),
        cmocka_unit_test(dumps_read_back),
        cmocka_unit_test(differences_name_their_section),
        cmocka_unit_test(reference_shows_how_keys_are_written),
        cmocka_unit_test(there_is_no_limit_of_rows),
    };
    return cmocka_run_group_tests_name("base/config_sections", tests, NULL, NULL);
}
