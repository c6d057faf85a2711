/*
 * Fuzz target: a configuration with lists of sections and named sections, sections in them, texts and
 * short lists. Any bytes are accepted or refused with a message, and what is accepted survives dump and
 * parse.
 *
 * First lines "--set TEXT" are taken off the input and applied as sets.
 */
#include "fuzz.h"

#include "base/config.h"

#include <string.h>

#define SETS_MAX 4

struct inner {
    char *path;
    int64_t rate;
};
struct outer {
    char *name, *label;
    int64_t sizes[3];
    double share;
    struct inner one, *more;
    size_t more_count;
};
struct settings {
    struct outer *list;
    size_t list_count;
    struct outer *named;
    size_t named_count;
    char **texts;
    size_t text_count;
};

static const struct culm_config_row inner_rows[] = {
    CULM_CONFIG_TEXT("path", struct inner, path, "here", NULL, 0, "where"),
    CULM_CONFIG_INT("rate", struct inner, rate, "25", -5, 1000, 0, "how often"),
};
static const struct culm_config_table inner = {CULM_CONFIG_ROWS(inner_rows, struct inner)};

static enum culm_status finish(void *object, const struct culm_config_place *place,
                               struct culm_error *error) {
    const struct outer *o = object;
    if (o->one.rate == 7 || (o->more_count > 2 && !culm_config_given(place, "one.path"))) {
        return culm_config_refuse(place, CULM_CONFIG_KEYS("one.rate", "more"), error, "is not so");
    }
    return CULM_OK;
}

static const struct culm_config_row outer_rows[] = {
    CULM_CONFIG_TEXT("label", struct outer, label, "", "a label", CULM_CONFIG_EMPTY, "what"),
    CULM_CONFIG_INTS("sizes", struct outer, sizes, 1, 99, "up to three", 0, "sizes"),
    CULM_CONFIG_REAL("share", struct outer, share, "0.5", 0, 1, CULM_CONFIG_BELOW, "part"),
    CULM_CONFIG_SECTION("one", struct outer, one, &inner),
    CULM_CONFIG_SECTIONS("more", struct outer, more, more_count, &inner, CULM_CONFIG_EMPTY, "more"),
};
static const struct culm_config_table outer = {CULM_CONFIG_ROWS(outer_rows, struct outer),
                                               .finish = finish};

static const struct culm_config_row rows[] = {
    CULM_CONFIG_SECTIONS("list", struct settings, list, list_count, &outer, CULM_CONFIG_EMPTY, "l"),
    CULM_CONFIG_NAMED("named", struct settings, named, named_count, struct outer, name, &outer,
                      CULM_CONFIG_EMPTY, "n"),
    CULM_CONFIG_TEXTS("texts", struct settings, texts, text_count, "", "texts", CULM_CONFIG_EMPTY,
                      "t"),
};
static const struct culm_config_table table = {CULM_CONFIG_ROWS(rows, struct settings)};

static void check_round_trip(const struct settings *settings) {
    struct settings again;
    struct culm_error error = {0};
    struct culm_config_difference d;
    struct culm_buf out;
    culm_buf_init(&out, 16 * CULM_YAML_MAX_BYTES);
    culm_config_dump(&table, settings, &out);
    char *text = culm_buf_take_text(&out);
    if (!text || strlen(text) > CULM_YAML_MAX_BYTES) {
        free(text); /* a dump writes every key of every section */
        return;
    }
    enum culm_status status =
        culm_config_parse(&table, text, strlen(text), "dump", NULL, 0, &again, &error);
    if (status == CULM_ERR_CONFIG && strstr(error.text, "too many values")) {
        free(text);
        return;
    }
    FUZZ_REQUIRE(status == CULM_OK, "%s\n%s", error.text, text);
    FUZZ_REQUIRE(!culm_config_differ(&table, settings, &again, 0, &d), "%s: %s, %s", d.key, d.a,
                 d.b);
    free(text);
    culm_config_release(&table, &again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1), *yaml = text;
    const char *sets[SETS_MAX];
    size_t count = 0;
    memcpy(text, data, size);
    text[size] = '\0';
    while (count < SETS_MAX && strncmp(yaml, "--set ", 6) == 0 && strchr(yaml, '\n')) {
        char *newline = strchr(yaml, '\n');
        *newline = '\0';
        sets[count++] = yaml + 6;
        yaml = newline + 1;
    }
    struct settings settings;
    struct culm_error error = {0};
    enum culm_status status = culm_config_parse(&table, yaml, size - (size_t)(yaml - text), "fuzz",
                                                sets, count, &settings, &error);
    if (status == CULM_OK) {
        check_round_trip(&settings);
        culm_config_release(&table, &settings);
    } else {
        FUZZ_REQUIRE(error.text[0] && !strchr(error.text, '\n'), "message: '%s'", error.text);
    }
    free(text);
    return 0;
}
