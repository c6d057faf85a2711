/* Settings beside a tokenizer's files: the ids of Hugging Face's library where they are obeyed
 * (tests/golden/make_tokenizer_settings.py), one line where they are refused. */
#include "ids.h"

#include "base/pins.h"

#include <sys/stat.h>

static char *read_golden(const char *name, size_t *ret_len) {
    char *path, *data;
    assert_true(asprintf(&path, "%s/data/tokenizer/%s", getenv("CULM_GOLDEN"), name) > 0);
    assert_int_equal(culm_file_read(NULL, path, 1 << 22, &data, ret_len, NULL), CULM_OK);
    free(path);
    return data;
}

static void copy(const struct place *place, const char *from, const char *to) {
    size_t len;
    char *data = read_golden(from, &len);
    free(put(place, to, data, len));
    free(data);
}

/* The files of a tokenizer: "bpe" (vocab.json, merges.txt), "bpe.json", "vocab.txt". */
static void put_base(const struct place *place, const char *base) {
    if (!strcmp(base, "bpe")) {
        copy(place, "bpe/vocab.json", "vocab.json");
        copy(place, "bpe/merges.txt", "merges.txt");
    } else {
        copy(place, base, !strcmp(base, "bpe.json") ? "tokenizer.json" : base);
    }
}

static void clear(const struct place *place) {
    struct culm_names names;
    assert_int_equal(culm_dir_list(place->dir, &names, NULL), CULM_OK);
    for (size_t i = 0; i < names.count; i++) {
        char *path;
        assert_true(asprintf(&path, "%s/%s", place->dir, names.name[i]) > 0);
        assert_int_equal(remove(path), 0);
        free(path);
    }
    culm_names_release(&names);
}

static struct culm_tokenizer *open_folder(const struct place *place) {
    struct culm_tokenizer *tokenizer = NULL;
    struct culm_error error = {0};
    const char *path = place->dir;
    if (culm_tokenizer_open(&path, 1, &tokenizer, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    return tokenizer;
}

static void same_ids(const struct culm_tokenizer *tokenizer, const json_t *texts, size_t number) {
    struct culm_encoder encoder = {0};
    json_t *entry;
    size_t i;
    char what[40];
    snprintf(what, sizeof what, "settings %zu", number);
    json_array_foreach(texts, i, entry) {
        expect_ids(tokenizer, &encoder, json_object_get(entry, "text"),
                   json_object_get(entry, "ids"), what, i);
    }
    culm_encoder_release(&encoder);
}

static void test_ids_equal_theirs(void **state) {
    struct place *place = *state;
    size_t len, i;
    char *data = read_golden("settings.json", &len);
    json_t *cases = json_loadb(data, len, JSON_ALLOW_NUL, NULL), *entry;
    assert_int_equal(json_array_size(cases), 7);
    json_array_foreach(cases, i, entry) {
        const char *name;
        json_t *text;
        clear(place);
        put_base(place, json_string_value(json_object_get(entry, "base")));
        json_object_foreach(json_object_get(entry, "files"), name, text) {
            free(put_text(place, name, json_string_value(text)));
        }
        struct culm_tokenizer *tokenizer = open_folder(place);
        same_ids(tokenizer, json_object_get(entry, "texts"), i);
        culm_tokenizer_free(tokenizer);
    }
    json_decref(cases);
    free(data);
}

/* Roles are those that are named, not those that are usual. */
static void test_roles_are_named(void **state) {
    struct place *place = *state;
    put_base(place, "bpe");
    struct culm_tokenizer *tokenizer = open_folder(place);
    int32_t vocab = culm_tokenizer_vocab(tokenizer);
    int32_t usual = culm_tokenizer_find(tokenizer, "<|endoftext|>");
    assert_int_equal(culm_tokenizer_role_id(tokenizer, CULM_TOKEN_END), usual);
    assert_int_equal(culm_tokenizer_role_id(tokenizer, CULM_TOKEN_PAD), -1);
    culm_tokenizer_free(tokenizer);
    char added[64];
    snprintf(added, sizeof added, "{\"<|im_end|>\": %d}", vocab);
    free(put_text(place, "added_tokens.json", added));
    free(put_text(place, "special_tokens_map.json",
                  "{\"eos_token\": \"<|im_end|>\", \"pad_token\": {\"content\": "
                  "\"<|endoftext|>\"}, \"bos_token\": null}"));
    tokenizer = open_folder(place);
    assert_int_equal(culm_tokenizer_role_id(tokenizer, CULM_TOKEN_END), vocab);
    assert_int_equal(culm_tokenizer_role_id(tokenizer, CULM_TOKEN_PAD), usual);
    assert_int_equal(culm_tokenizer_vocab(tokenizer), vocab + 1);
    culm_tokenizer_free(tokenizer);
}

static void test_what_is_refused(void **state) {
    struct place *place = *state;
    static const struct {
        const char *base, *file, *text, *part;
    } wrong[] = {
        {"bpe", "tokenizer_config.json", "{\"legacy\": true}",
         "tokenizer_config.json': 'legacy' is not known; if it changes no ids, remove it there"},
        {"bpe", "tokenizer_config.json", "{\"tokenizer_class\": \"CLIPTokenizer\"}",
         "tokenizer_class is 'CLIPTokenizer', whose files of this kind are not known to be read as "
         "GPT-2's; give its tokenizer.json"},
        {"vocab.txt", "tokenizer_config.json", "{\"tokenizer_class\": \"BertJapaneseTokenizer\"}",
         "read as BERT's; give its tokenizer.json"},
        {"bpe", "tokenizer_config.json", "{\"split_special_tokens\": true}",
         "split_special_tokens is true, which is not known here"},
        {"bpe", "tokenizer_config.json", "{\"do_lower_case\": true}", "do_lower_case is true"},
        {"bpe", "tokenizer_config.json", "{\"add_prefix_space\": 1}",
         "add_prefix_space is neither true nor false"},
        {"bpe.json", "tokenizer_config.json", "{\"add_prefix_space\": true}",
         "add_prefix_space is true, and tokenizer.json says otherwise; make them agree"},
        {"vocab.txt", "tokenizer_config.json", "{\"do_basic_tokenize\": false}",
         "do_basic_tokenize is false"},
        {"vocab.txt", "tokenizer_config.json", "{\"never_split\": [\"x\"]}",
         "never_split has words"},
        {"bpe", "special_tokens_map.json", "{\"eos_token\": \"</s>\"}",
         "special_tokens_map.json': eos_token is '</s>', which has no id; add it to "
         "added_tokens.json"},
        {"bpe", "special_tokens_map.json", "{\"eos_token\": 7}", "'eos_token' is not a token"},
        {"bpe", "added_tokens.json", "{\"<ent>\": \"x\"}",
         "added_tokens.json': the id of '<ent>' is not a whole number"},
        {"bpe", "added_tokens.json", "{\"<ent>\": 5}", "the id 5 is that of '"},
        {"bpe", "added_tokens.json", "{\"<|endoftext|>\": 9999}",
         "'<|endoftext|>' has the id 9999, and "},
        {"bpe", "added_tokens.json", "{\"<ent>\": ", "mend it, or remove it if it belongs to"},
        {"bpe", "added_tokens.json", "[]", "it is not a map of settings"},
        {"bpe", "tokenizer_config.json",
         "{\"added_tokens_decoder\": {\"900\": {\"content\": \"x\", \"single_word\": true}}}",
         "is a 'single_word', which is not known"},
        {"bpe", "tokenizer_config.json", "{\"added_tokens_decoder\": {\"x\": \"y\"}}",
         "added_tokens_decoder: 'x' is not an id"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct culm_tokenizer *tokenizer = NULL;
        struct culm_error error = {0};
        const char *path = place->dir;
        clear(place);
        put_base(place, wrong[i].base);
        free(put_text(place, wrong[i].file, wrong[i].text));
        enum culm_status status = culm_tokenizer_open(&path, 1, &tokenizer, &error);
        if (status != CULM_ERR_FORMAT) {
            fail_msg("%zu: status %d, '%s'", i, status, error.text);
        }
        expect_message(&error, wrong[i].part);
        char *file; /* as most lines advise */
        assert_true(asprintf(&file, "%s/%s", place->dir, wrong[i].file) > 0);
        remove(file);
        free(file);
        culm_tokenizer_free(open_folder(place));
    }
}

/* They are inputs as the tokenizer's own files are. */
/* A folder that was copied in part, as a cache of links is: what lies there and cannot be read is not passed over. */
static void test_links_that_lead_nowhere(void **state) {
    static const char *const names[] = {"tokenizer_config.json", "added_tokens.json",
                                        "special_tokens_map.json", "tokenizer.json"};
    struct place *place = *state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        for (int folder = 0; folder < 2; folder++) {
            struct culm_tokenizer *tokenizer = NULL;
            struct culm_error error = {0};
            char *path;
            const char *dir = place->dir;
            put_base(place, "bpe");
            assert_true(asprintf(&path, "%s/%s", place->dir, names[i]) > 0);
            assert_int_equal(folder ? mkdir(path, 0700) : symlink("../blobs/gone", path), 0);
            enum culm_status status = culm_tokenizer_open(&dir, 1, &tokenizer, &error);
            if (status == CULM_OK || !strstr(error.text, names[i])) {
                fail_msg("%s: '%s'", names[i], error.text);
            }
            clear(place);
            free(path);
        }
    }
}

static void test_settings_are_pinned(void **state) {
    struct place *place = *state;
    struct culm_tokenizer *tokenizer = NULL;
    struct culm_error error = {0};
    const char *path = place->dir;
    struct culm_pins *pins = culm_pins_new();
    put_base(place, "bpe");
    free(put_text(place, "tokenizer_config.json", "{\"add_prefix_space\": false}"));
    assert_int_equal(culm_tokenizer_open_pinned(&path, 1, pins, &tokenizer, &error), CULM_OK);
    culm_tokenizer_free(tokenizer);
    assert_int_equal(culm_pins_count(pins), 3);
    culm_pins_seal(pins);
    free(put_text(place, "tokenizer_config.json", "{\"add_prefix_space\": true}"));
    assert_int_equal(culm_tokenizer_open_pinned(&path, 1, pins, &tokenizer, &error),
                     CULM_ERR_CHANGED);
    expect_message(&error, "tokenizer_config.json' is not what it was");
    free(put_text(place, "tokenizer_config.json", "{\"add_prefix_space\": false}"));
    free(put_text(place, "added_tokens.json", "{}"));
    assert_int_equal(culm_tokenizer_open_pinned(&path, 1, pins, &tokenizer, &error),
                     CULM_ERR_CHANGED);
    expect_message(&error, "added_tokens.json' is not what it was");
    culm_pins_free(pins);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ids_equal_theirs, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_roles_are_named, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_what_is_refused, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_links_that_lead_nowhere, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_settings_are_pinned, make_place, drop_place),
    };
    return cmocka_run_group_tests_name("data/tokenizer_settings", tests, NULL, NULL);
}
