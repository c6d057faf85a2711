/* Sentence pairs: padding and lengths, the vocabulary of words, lines of all kinds, and what can be
 * wrong. */
#include "place.h"

static struct culm_source_options pair_options(char *const *paths, size_t count) {
    return (struct culm_source_options){.kind = CULM_SOURCE_PAIRS,
                                        .paths = (const char *const *)paths,
                                        .path_count = count,
                                        .context = 5,
                                        .source_context = 4,
                                        .vocab = 100};
}

struct sample {
    int32_t source[4], length, tokens[5], targets[5];
};

static void expect_sample(const struct culm_source *source, int64_t index,
                          const struct sample *expected) {
    struct sample s, alone;
    memset(&s, 0x55, sizeof s);
    memset(&alone, 0x55, sizeof alone);
    fill(source, index, 3, (void *[]){s.source, &s.length, s.tokens, s.targets});
    void *const to[] = {alone.source, &alone.length, alone.tokens, alone.targets};
    for (int i = 0; i < 4; i++) {
        void *one[4] = {NULL};
        one[i] = to[i];
        fill(source, index, 3, one);
    }
    assert_memory_equal(&s, &alone, sizeof s);
    if (memcmp(&s, expected, sizeof s) != 0) {
        for (int i = 0; i < 5; i++) {
            print_message("%d/%d %d/%d %d/%d\n", i < 4 ? s.source[i] : 0,
                          i < 4 ? expected->source[i] : 0, s.tokens[i], expected->tokens[i],
                          s.targets[i], expected->targets[i]);
        }
        fail_msg("pair %lld is another", (long long)index);
    }
}

/* Words by how often they occur: b 4, a 3, then those of 1: x y z. */
static void test_words(void **state) {
    char *paths[2] = {put_text(*state, "0.tsv", "a b\tb b a\n\n  \r\nx\tb\tsome source\r\n"),
                      put_text(*state, "1.tsv", "a a b x z\ty a b z a")};
    struct culm_source_options options = pair_options(paths, 2);
    struct culm_source *source = open_source(&options);
    assert_int_equal(culm_source_samples(source), 3);
    assert_string_equal(culm_source_fields(source)[0].name, "source");
    assert_string_equal(culm_source_fields(source)[1].name, "length");
    assert_string_equal(culm_source_fields(source)[2].name, "tokens");
    assert_string_equal(culm_source_fields(source)[3].name, "targets");
    assert_int_equal(culm_source_fields(source)[0].shape.dim[0], 4);
    enum { PAD, UNK, BOS, EOS, A, B, X, Z, Y }; /* a 6, b 6, x 2, z 2, y 1 */
    expect_sample(source, 0,
                  &(struct sample){{A, B, PAD, PAD}, 2, {BOS, B, B, A, PAD}, {B, B, A, EOS, -1}});
    expect_sample(
        source, 1,
        &(struct sample){{X, PAD, PAD, PAD}, 1, {BOS, B, PAD, PAD, PAD}, {B, EOS, -1, -1, -1}});
    expect_sample(source, 2, &(struct sample){{A, A, B, X}, 4, {BOS, Y, A, B, Z}, {Y, A, B, Z, A}});
    culm_source_free(source);
    options.vocab = 6; /* the rest is unknown */
    source = open_source(&options);
    expect_sample(source, 2,
                  &(struct sample){{A, A, B, UNK}, 4, {BOS, UNK, A, B, UNK}, {UNK, A, B, UNK, A}});
    culm_source_free(source);
    options.vocab = 100;
    options.held_out = 0.4; /* one pair: its words count no more */
    options.split = CULM_SPLIT_HELD_OUT;
    source = open_source(&options);
    assert_int_equal(culm_source_samples(source), 1);
    expect_sample(source, 0, /* b 4, a 2, x 1 */
                  &(struct sample){{5, 5, 4, 6}, 4, {BOS, UNK, 5, 4, UNK}, {UNK, 5, 4, UNK, 5}});
    culm_source_free(source);
    free(paths[0]);
    free(paths[1]);
}

static void test_tokenizers(void **state) {
    char *path = put_text(*state, "0.tsv", "In the\tIn the\n");
    char *bytes, *words;
    assert_true(asprintf(&bytes, "%s/data/tokenizer/bpe.json", getenv("CULM_GOLDEN")) > 0);
    assert_true(asprintf(&words, "%s/data/tokenizer/wordpiece.json", getenv("CULM_GOLDEN")) > 0);
    struct culm_source_options options = pair_options(&path, 1);
    struct sample s;
    void *const fields[] = {s.source, &s.length, s.tokens, s.targets};
    options.tokenizer = (const char *const *)&bytes;
    options.tokenizer_count = 1;
    options.vocab = 701;
    expect_refused(&options, "has 702 tokens with padding, begin and end");
    options.vocab = 702;
    struct culm_source *source = open_source(&options);
    fill(source, 0, 0, fields);
    assert_int_equal(s.length, 3); /* I n ' the' */
    assert_int_equal(s.source[3], 700);
    assert_int_equal(s.tokens[0], 701);
    assert_memory_equal(s.source, s.tokens + 1, 3 * sizeof(int32_t));
    assert_memory_equal(s.targets, s.tokens + 1, 3 * sizeof(int32_t));
    culm_source_free(source);
    options.tokenizer = (const char *const *)&words;
    options.vocab = 700;
    source = open_source(&options);
    fill(source, 0, 0, fields);
    assert_int_equal(s.tokens[0], 2); /* [CLS] */
    assert_int_equal(s.length, 2);
    assert_int_equal(s.targets[2], 3); /* [SEP] */
    assert_int_equal(s.targets[3], -1);
    assert_int_equal(s.source[2], 0); /* [PAD] */
    culm_source_free(source);
    free(path);
    free(bytes);
    free(words);
}

/* Lines of all lengths, longer than what is read at once in all. */
static void test_many_lines(void **state) {
    enum { LINES = 20000 };
    char *text = malloc((size_t)LINES * 200), *at = text;
    for (int i = 0; i < LINES; i++) {
        at += sprintf(at, "s%d\tt%d", i % 50, i % 50);
        for (int k = 0; k < i * 7919 % 90; k++) {
            at += sprintf(at, "%s", k % 2 ? "x" : " ");
        }
        *at++ = '\n';
        if (i % 100 == 0) {
            *at++ = '\n';
        }
    }
    char *path = put(*state, "many.tsv", text, (size_t)(at - text));
    struct culm_source_options options = pair_options(&path, 1);
    options.vocab = 10000;
    struct culm_source *source = open_source(&options);
    assert_int_equal(culm_source_samples(source), LINES);
    int32_t first[50] = {0}, word, length;
    for (int i = 0; i < LINES; i++) {
        struct sample s;
        fill(source, i, 0, (void *[]){s.source, &length, NULL, s.targets});
        word = s.source[0];
        assert_int_equal(length, 1);
        if (i < 50) {
            first[i] = word;
        }
        assert_int_equal(word, first[i % 50]);
    }
    culm_source_free(source);
    free(text);
    free(path);
}

static void test_wrong_lines_are_one_line(void **state) {
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"a\tb\na b\n", "line 2 has no TAB"},
        {"a\tb\n\n \tb\n", "line 3 has no source sentence"},
        {"a\tb\na\t\n", "line 2 has no target sentence"},
        {"a\t \r\n", "line 1 has no target sentence"},
        {"a\t\tb\n", "line 1 has no target sentence"},
        {"\n\n", "has no pair"},
        {"", "is empty"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *path = put_text(*state, "pairs.tsv", cases[i].text);
        struct culm_source_options options = pair_options(&path, 1);
        expect_refused(&options, cases[i].part);
        free(path);
    }
    size_t len = 3 << 20;
    char *text = malloc(len);
    memset(text, 'x', len);
    memcpy(text, "a\tb\n", 4);
    char *path = put(*state, "pairs.tsv", text, len);
    struct culm_source_options options = pair_options(&path, 1);
    expect_refused(&options, "line 2 has more than 1 MiB");
    free(put_text(*state, "pairs.tsv", "a\tb\n"));
    options.vocab = 4;
    expect_refused(&options, "model.vocab: 4 has no room for words");
    options.vocab = 100;
    struct culm_source *source = open_source(&options);
    free(put_text(*state, "pairs.tsv", "abcd"));
    struct culm_error error = {0};
    int32_t length;
    void *const fields[] = {NULL, &length, NULL, NULL};
    assert_int_equal(culm_source_fill(source, (struct culm_source_item){0, 0}, fields, &error),
                     CULM_ERR_IO);
    expect_message(&error, "changed while in use");
    culm_source_free(source);
    free(text);
    free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_words, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_tokenizers, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_many_lines, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_wrong_lines_are_one_line, make_place, drop_place),
    };
    return cmocka_run_group_tests_name("data/source_pairs", tests, NULL, NULL);
}
