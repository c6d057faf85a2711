/* Tokenizers: the ids of Hugging Face's library on its own files, back to the same bytes, and every
 * way in which a file can be wrong. The golden data is made by tests/golden/make_data.py. */
#include "ids.h"

#include "base/rng.h"
#include "data/unicode.h"

static char *golden(const char *name) {
    char *path;
    assert_true(asprintf(&path, "%s/data/tokenizer/%s", getenv("CULM_GOLDEN"), name) > 0);
    return path;
}

static struct culm_tokenizer *open_golden(const char *name) {
    struct culm_tokenizer *tokenizer = NULL;
    struct culm_error error = {0};
    char *path = golden(name);
    if (culm_tokenizer_open((const char *const *)&path, 1, &tokenizer, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    free(path);
    return tokenizer;
}

static json_t *cases(void) {
    json_error_t error;
    char *path = golden("cases.json");
    json_t *list = json_load_file(path, 0, &error);
    assert_true(json_array_size(list) > 100);
    free(path);
    return list;
}

static void compare(const char *file, const char *key) {
    struct culm_tokenizer *tokenizer = open_golden(file);
    struct culm_encoder encoder = {0};
    json_t *list = cases(), *entry;
    size_t i;
    for (int round = 0; round < 2; round++) { /* the second from the cache */
        json_array_foreach(list, i, entry) {
            expect_ids(tokenizer, &encoder, json_object_get(entry, "text"),
                       json_object_get(entry, key), file, i);
        }
    }
    json_decref(list);
    culm_encoder_release(&encoder);
    culm_tokenizer_free(tokenizer);
}

static void test_byte_pairs_equal_theirs(void **state) {
    (void)state;
    compare("bpe.json", "bpe");
    compare("bpe", "bpe"); /* the folder with vocab.json and merges.txt */
}

static void test_prefix_and_added_tokens_equal_theirs(void **state) {
    (void)state;
    compare("bpe_prefix.json", "prefix");
}

static void test_wordpiece_equals_theirs(void **state) {
    (void)state;
    compare("wordpiece.json", "wordpiece");
    compare("vocab.txt", "wordpiece");
}

/* The table of the Unicode Standard on replacement, and Python's answers. */
static void test_what_is_no_utf8(void **state) {
    static const struct {
        const char *text, *repaired; /* ? stands for U+FFFD */
    } cases[] = {
        {"plain \xc3\xa9", "plain \xc3\xa9"},
        {"", ""},
        {"\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64", "a???b?c??d"},
        {"\xff\xfe\x80 caf\xe9 ", "??? caf? "},
        {"\xed\xa0\x80", "???"},      /* a surrogate */
        {"\xc0\x80", "??"},           /* overlong */
        {"\xf4\x90\x80\x80", "????"}, /* beyond the last */
        {"\xf0\x90\x80", "?"},        /* cut short */
        {"\xe2\x82x", "?x"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char expected[100], got[100];
        size_t expected_len = 0, len, same;
        bool whole = true;
        for (const char *c = cases[i].repaired; *c; c++) {
            whole &= *c != '?';
            if (*c == '?') {
                memcpy(expected + expected_len, "\xef\xbf\xbd", 3);
            } else {
                expected[expected_len] = *c;
            }
            expected_len += *c == '?' ? 3 : 1;
        }
        assert_int_equal(culm_unicode_repair(cases[i].text, strlen(cases[i].text), got, &len),
                         whole);
        assert_int_equal(culm_unicode_repair(cases[i].text, strlen(cases[i].text), NULL, &same),
                         whole);
        assert_int_equal(len, expected_len);
        assert_int_equal(same, expected_len);
        assert_memory_equal(got, expected, len);
    }
}

static void test_byte_pairs_go_back(void **state) {
    (void)state;
    struct culm_tokenizer *tokenizer = open_golden("bpe.json");
    struct culm_encoder encoder = {0};
    struct culm_buf out;
    uint64_t seed = 20250101;
    culm_buf_init(&out, 1 << 20);
    for (int trial = 0; trial < 3000; trial++) {
        char text[600];
        size_t len = (size_t)culm_rng_below(&seed, trial % 10 ? 40 : sizeof text);
        for (size_t i = 0; i < len; i++) { /* any bytes, hence mostly no UTF-8 */
            uint64_t word = culm_rng_next(&seed);
            text[i] = (char)(trial % 3 ? "et 'aoinsxy\n1"[word % 13] : (int)(word & 255));
        }
        char utf8[3 * sizeof text];
        size_t utf8_len;
        (void)culm_unicode_repair(text, len, utf8, &utf8_len);
        encoder.count = 0;
        culm_buf_clear(&out);
        assert_int_equal(culm_tokenizer_encode(tokenizer, &encoder, text, len, NULL), CULM_OK);
        culm_tokenizer_decode(tokenizer, encoder.id, encoder.count, &out);
        assert_int_equal(out.len, utf8_len);
        assert_true(!len || !memcmp(out.data, utf8, utf8_len));
    }
    culm_buf_release(&out);
    culm_encoder_release(&encoder);
    culm_tokenizer_free(tokenizer);
}

/* A piece of any length takes n log n. */
static void test_long_piece(void **state) {
    (void)state;
    struct culm_tokenizer *tokenizer = open_golden("bpe.json");
    struct culm_encoder encoder = {0};
    struct culm_buf out;
    size_t len = 1 << 20;
    char *text = malloc(len);
    for (size_t i = 0; i < len; i++) {
        text[i] = "theand"[i * i % 6];
    }
    culm_buf_init(&out, 2 * len);
    assert_int_equal(culm_tokenizer_encode(tokenizer, &encoder, text, len, NULL), CULM_OK);
    culm_tokenizer_decode(tokenizer, encoder.id, encoder.count, &out);
    assert_int_equal(out.len, len);
    assert_memory_equal(out.data, text, len);
    culm_buf_release(&out);
    culm_encoder_release(&encoder);
    culm_tokenizer_free(tokenizer);
    free(text);
}

static void test_wordpiece_goes_back_to_words(void **state) {
    (void)state;
    struct culm_tokenizer *tokenizer = open_golden("vocab.txt");
    struct culm_encoder encoder = {0};
    struct culm_buf out;
    const char text[] = "[CLS] In the Beginning God created heaven[SEP]";
    culm_buf_init(&out, 1 << 20);
    assert_int_equal(culm_tokenizer_encode(tokenizer, &encoder, text, strlen(text), NULL), CULM_OK);
    culm_tokenizer_decode(tokenizer, encoder.id, encoder.count, &out);
    culm_buf_u8(&out, 0);
    assert_string_equal(out.data, "in the beginning god created heaven");
    assert_int_equal(culm_tokenizer_role_id(tokenizer, CULM_TOKEN_CLS), 2);
    assert_int_equal(culm_tokenizer_role_id(tokenizer, CULM_TOKEN_MASK), 4);
    assert_int_equal(culm_tokenizer_role_id(tokenizer, CULM_TOKEN_END), -1);
    culm_buf_release(&out);
    culm_encoder_release(&encoder);
    culm_tokenizer_free(tokenizer);
}

static void test_words(void **state) {
    struct place *place = *state;
    struct culm_tokenizer *tokenizer = NULL;
    struct culm_encoder encoder = {0};
    char *path = put_text(place, "vocab.txt",
                          "<pad>\n<unk>\n<s>\n</s>\nhat\nder\nk\xc3\xbc"
                          "che\n");
    assert_int_equal(culm_tokenizer_open((const char *const *)&path, 1, &tokenizer, NULL), CULM_OK);
    assert_int_equal(culm_tokenizer_vocab(tokenizer), 7);
    const char text[] = " der\thut hat k\xc3\xbc"
                        "che \xe3\x80\x80"
                        "der";
    const int32_t ids[] = {5, 1, 4, 6, 5};
    assert_int_equal(culm_tokenizer_encode(tokenizer, &encoder, text, strlen(text), NULL), CULM_OK);
    assert_int_equal(encoder.count, 5);
    assert_memory_equal(encoder.id, ids, sizeof ids);
    culm_encoder_release(&encoder);
    culm_tokenizer_free(tokenizer);
    free(path);
}

static void expect_wrong(const char *data, const char *merges, const char *part) {
    struct culm_tokenizer *tokenizer = NULL;
    struct culm_error error = {0};
    enum culm_status status =
        culm_tokenizer_parse(data, strlen(data), "given", merges, merges ? strlen(merges) : 0,
                             "merges.txt", &tokenizer, &error);
    if (status == CULM_OK) {
        fail_msg("accepted, '%s' expected", part);
    }
    assert_int_equal(culm_status_exit_code(status), 3);
    expect_message(&error, part);
}

static void test_wrong_files_are_one_line(void **state) {
    (void)state;
    expect_wrong("", NULL, "neither [UNK]");
    expect_wrong("a\nb\na\n", NULL, "line 3, 'a', appeared before");
    expect_wrong("a\n<unk>\n", "a b", "does not begin with '{'");
    expect_wrong("{", NULL, "line 1");
    expect_wrong("{\"a\": 1}", NULL, "without merges");
    expect_wrong("{\"a\": 1, \"a\": 2}", "", "duplicate");
    expect_wrong("{}", "", "vocabulary is empty");
    expect_wrong("{\"a\": \"x\"}", "", "is not a whole number");
    expect_wrong("{\"a\": -1}", "", "empty");
    expect_wrong("{\"a\": 99999999}", "", "is the file damaged");
    expect_wrong("{\"a\": 1, \"b\": 1}", "", "stands for two tokens");
    expect_wrong("{\"a\": 1}", "", "no token for the byte 0x00");
    expect_wrong("{\"\u2581the\": 1}", "", "byte-level");
    expect_wrong("{\"model\": {}}", NULL, "its model is 'without a type'");
    expect_wrong("{\"model\": {\"type\": \"Unigram\"}}", NULL, "'Unigram'");
    expect_wrong("{\"model\": {\"type\": \"Uni\\ngram\"}}", NULL, "'Uni?gram'");
    expect_wrong("{\"model\": {\"type\": \"BPE\", \"byte_fallback\": true}}", NULL,
                 "byte_fallback");
    expect_wrong("{\"model\": {\"type\": \"BPE\"}, \"normalizer\": {\"type\": \"NFC\"}}", NULL,
                 "'NFC'");
    expect_wrong("{\"model\": {\"type\": \"BPE\"}, \"pre_tokenizer\": {\"type\": \"Metaspace\"}}",
                 NULL, "'Metaspace'");
    expect_wrong("{\"model\": {\"type\": \"BPE\"}, \"pre_tokenizer\": {\"type\": \"ByteLevel\"}}",
                 NULL, "no map 'vocab'");
    expect_wrong("{\"model\": {\"type\": \"BPE\"}, \"pre_tokenizer\": {\"type\": \"ByteLevel\"}, "
                 "\"added_tokens\": [{}]}",
                 NULL, "added token 1 lacks");
    expect_wrong("{\"model\": {\"type\": \"WordPiece\", \"vocab\": {\"a\": 0}}, \"pre_tokenizer\": "
                 "{\"type\": \"BertPreTokenizer\"}}",
                 NULL, "unknown token '[UNK]'");
    expect_wrong("{\"model\": {\"type\": \"WordPiece\", \"vocab\": {\"a\": 0}}}", NULL,
                 "pre_tokenizer is 'null'");
}

/* The golden vocabulary with other merges. */
static void test_wrong_merges_are_one_line(void **state) {
    (void)state;
    char *path = golden("bpe/vocab.json"), *vocab;
    size_t len;
    assert_int_equal(culm_file_read(NULL, path, 1 << 20, &vocab, &len, NULL), CULM_OK);
    expect_wrong(vocab, "#version: 0.2\nt h\nxq zz\n", "merge 2 joins 'xq' and 'zz'");
    expect_wrong(vocab, "the\n", "merge 1, 'the', is not two tokens");
    expect_wrong(vocab, "a b c\n", "is not two tokens");
    free(vocab);
    free(path);
}

static void test_wrong_paths_are_one_line(void **state) {
    struct place *place = *state;
    struct culm_tokenizer *tokenizer = NULL;
    struct culm_error error = {0};
    const char *paths[] = {place->dir, "/nowhere/vocab.json", "c"};
    assert_int_equal(culm_tokenizer_open(paths, 0, &tokenizer, &error), CULM_ERR_CONFIG);
    expect_message(&error, "0 files");
    assert_int_equal(culm_tokenizer_open(paths, 3, &tokenizer, &error), CULM_ERR_CONFIG);
    assert_int_equal(culm_tokenizer_open(paths, 1, &tokenizer, &error), CULM_ERR_CONFIG);
    expect_message(&error, "neither tokenizer.json nor");
    assert_int_equal(culm_tokenizer_open(paths + 1, 1, &tokenizer, &error), CULM_ERR_CONFIG);
    expect_message(&error, "No such file");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_byte_pairs_equal_theirs),
        cmocka_unit_test(test_prefix_and_added_tokens_equal_theirs),
        cmocka_unit_test(test_wordpiece_equals_theirs),
        cmocka_unit_test(test_what_is_no_utf8),
        cmocka_unit_test(test_byte_pairs_go_back),
        cmocka_unit_test(test_long_piece),
        cmocka_unit_test(test_wordpiece_goes_back_to_words),
        cmocka_unit_test_setup_teardown(test_words, make_place, drop_place),
        cmocka_unit_test(test_wrong_files_are_one_line),
        cmocka_unit_test(test_wrong_merges_are_one_line),
        cmocka_unit_test_setup_teardown(test_wrong_paths_are_one_line, make_place, drop_place),
    };
    return cmocka_run_group_tests_name("data/tokenizer", tests, NULL, NULL);
}
