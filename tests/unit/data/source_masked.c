/* Masked text: the form of a sample, its statistics, that it is a function of the position, and
 * what can be wrong. */
#include "place.h"

#include "base/rng.h"

#define CONTEXT 64
#define MASKED 10
#define VOCAB 300

enum { PAD = 256, CLS, SEP, MASK };

struct sample {
    int32_t tokens[CONTEXT], types[CONTEXT], mask[CONTEXT], positions[MASKED], targets[MASKED], nsp;
};

static void fill_all(const struct culm_source *source, int64_t sample, uint64_t position,
                     struct sample *s) {
    memset(s, 0x55, sizeof *s);
    fill(source, sample, position,
         (void *[]){s->tokens, s->types, s->mask, s->positions, s->targets, &s->nsp});
}

static struct culm_source_options masked_options(char *const *path) {
    return (struct culm_source_options){.kind = CULM_SOURCE_MASKED,
                                        .masked_of = CULM_SOURCE_TEXT,
                                        .paths = (const char *const *)path,
                                        .path_count = 1,
                                        .context = CONTEXT,
                                        .vocab = VOCAB,
                                        .seed = 5};
}

/* 200 samples; a byte says in which sample it is, and whether in its first half. */
static char *put_numbered(const struct place *place) {
    enum { PIECE = CONTEXT - 3 };
    char text[200 * PIECE];
    for (int i = 0; i < 200 * PIECE; i++) {
        text[i] = (char)(i / PIECE);
    }
    return put(place, "text", text, sizeof text);
}

static void test_fields(void **state) {
    char *path = put_numbered(*state);
    struct culm_source_options options = masked_options(&path);
    struct culm_source *source = open_source(&options);
    const char *const names[] = {"tokens", "types", "mask", "positions", "mlm_targets", "nsp"};
    const int64_t sizes[] = {CONTEXT, CONTEXT, CONTEXT, MASKED, MASKED, 1};
    assert_int_equal(culm_source_field_count(source), 6);
    for (int i = 0; i < 6; i++) {
        const struct culm_source_field *field = &culm_source_fields(source)[i];
        assert_string_equal(field->name, names[i]);
        assert_int_equal(field->dtype, CULM_I32);
        assert_int_equal(field->shape.rank, 1);
        assert_int_equal(field->shape.dim[0], sizes[i]);
    }
    assert_int_equal(culm_source_samples(source), 200);
    culm_source_free(source);
    options.masked = 3;
    source = open_source(&options);
    assert_int_equal(culm_source_fields(source)[3].shape.dim[0], 3);
    culm_source_free(source);
    free(path);
}

static void test_samples(void **state) {
    enum { TRIALS = 20000, FIRST = 31, SECOND = 30 };
    char *path = put_numbered(*state);
    struct culm_source_options options = masked_options(&path);
    struct culm_source *source = open_source(&options);
    int random_pairs = 0, hidden = 0, replaced = 0, kept = 0, chosen[CONTEXT] = {0};
    int partners[200] = {0}, drawn[VOCAB] = {0};
    for (uint64_t position = 0; position < TRIALS; position++) {
        struct sample s, again;
        int64_t index = (int64_t)(position * 7 % 200);
        fill_all(source, index, position, &s);
        fill_all(source, index, position, &again);
        assert_memory_equal(&s, &again, sizeof s);
        assert_true(s.tokens[0] == CLS && s.tokens[FIRST + 1] == SEP &&
                    s.tokens[CONTEXT - 1] == SEP);
        int32_t tokens[CONTEXT];
        memcpy(tokens, s.tokens, sizeof tokens);
        for (int k = 0; k < MASKED; k++) {
            int32_t at = s.positions[k], now = s.tokens[at];
            assert_true(at > 0 && at < CONTEXT - 1 && at != FIRST + 1);
            assert_true(k == 0 || at > s.positions[k - 1]);
            chosen[at]++;
            hidden += now == MASK;
            kept += now == s.targets[k];
            if (now != MASK && now != s.targets[k]) {
                assert_true(now >= 0 && now < 256); /* never a special one */
                replaced++;
                drawn[now]++;
            }
            tokens[at] = s.targets[k];
        }
        int32_t other = tokens[CONTEXT - 2];
        for (int i = 0; i < CONTEXT; i++) {
            assert_int_equal(s.mask[i], 1);
            assert_int_equal(s.types[i], i > FIRST + 1);
            if (i > 0 && i < FIRST + 1) {
                assert_int_equal(tokens[i], index);
            } else if (i > FIRST + 1 && i < CONTEXT - 1) {
                assert_int_equal(tokens[i], other);
            }
        }
        assert_int_equal(s.nsp, other != index);
        random_pairs += s.nsp;
        partners[other] += s.nsp;
    }
    const int all = TRIALS * MASKED;
    assert_in_range(random_pairs, TRIALS / 2 - 350, TRIALS / 2 + 350);
    assert_in_range(hidden, all * 8 / 10 - 900, all * 8 / 10 + 900);
    assert_in_range(kept, all / 10 - 700, all / 10 + 900); /* a random one may be the same */
    assert_in_range(replaced, all / 10 - 900, all / 10 + 700);
    for (int i = 0; i < CONTEXT; i++) { /* 3279 expected of each of 61 */
        bool special = i == 0 || i == FIRST + 1 || i == CONTEXT - 1;
        assert_in_range(chosen[i], special ? 0 : 3000, special ? 0 : 3560);
    }
    for (int i = 0; i < 200; i++) { /* 50 expected */
        assert_in_range(partners[i], 15, 95);
    }
    for (int i = 0; i < 256; i++) { /* 78 expected */
        assert_in_range(drawn[i], 35, 130);
    }
    culm_source_free(source);
    free(path);
}

/* A field alone is what it is beside the others. */
static void test_fields_alone(void **state) {
    char *path = put_numbered(*state);
    struct culm_source_options options = masked_options(&path);
    struct culm_source *source = open_source(&options);
    for (uint64_t position = 0; position < 50; position++) {
        struct sample all, alone;
        fill_all(source, 17, position, &all);
        memset(&alone, 0x55, sizeof alone);
        void *const to[] = {alone.tokens,    alone.types,   alone.mask,
                            alone.positions, alone.targets, &alone.nsp};
        for (int i = 0; i < 6; i++) {
            void *one[6] = {NULL};
            one[i] = to[i];
            fill(source, 17, position, one);
        }
        assert_memory_equal(&all, &alone, sizeof all);
    }
    culm_source_free(source);
    free(path);
}

/* The random second half is of the same split. */
static void test_held_out_stays_apart(void **state) {
    char *path = put_numbered(*state);
    struct culm_source_options options = masked_options(&path);
    options.held_out = 0.25;
    options.split = CULM_SPLIT_HELD_OUT;
    struct culm_source *held = open_source(&options);
    options.split = CULM_SPLIT_TRAIN;
    struct culm_source *train = open_source(&options);
    assert_int_equal(culm_source_samples(held), 50);
    for (uint64_t position = 0; position < 2000; position++) {
        struct sample s;
        for (int of_held = 0; of_held < 2; of_held++) {
            fill_all(of_held ? held : train, (int64_t)(position % 50), position, &s);
            for (int k = 0; k < MASKED; k++) {
                assert_int_equal(s.targets[k] >= 150, of_held);
            }
        }
    }
    culm_source_free(held);
    culm_source_free(train);
    free(path);
}

static void test_token_files_and_given_ids(void **state) {
    uint16_t ids[400];
    struct sample s;
    for (int i = 0; i < 400; i++) {
        ids[i] = (uint16_t)(i % 1000);
    }
    char *path = put(*state, "ids.bin", ids, sizeof ids);
    struct culm_source_options options = masked_options(&path);
    options.masked_of = CULM_SOURCE_TOKENS;
    options.vocab = 1004;
    struct culm_source *source = open_source(&options);
    fill_all(source, 0, 0, &s);
    assert_true(s.tokens[0] == 1001 && s.tokens[CONTEXT - 1] == 1002);
    culm_source_free(source);
    const int32_t bert[4] = {0, 101, 102, 103};
    memcpy(options.special, bert, sizeof bert);
    source = open_source(&options);
    int hidden = 0;
    for (uint64_t position = 0; position < 100; position++) {
        fill_all(source, 3, position, &s);
        assert_true(s.tokens[0] == 101 && s.tokens[CONTEXT - 1] == 102);
        for (int k = 0; k < MASKED; k++) {
            hidden += s.tokens[s.positions[k]] == 103;
        }
    }
    assert_in_range(hidden, 700, 900);
    culm_source_free(source);
    options.special[3] = 5000;
    expect_refused(&options, "outside of the vocabulary of 1004; set model.vocab to 5001 or more");
    options.special[3] = 102;
    expect_refused(&options, "102 stands for two special tokens");
    free(path);
}

static void test_wordpiece(void **state) {
    char *vocab;
    struct sample s;
    assert_true(asprintf(&vocab, "%s/data/tokenizer/vocab.txt", getenv("CULM_GOLDEN")) > 0);
    char text[2000];
    for (int i = 0; i < 2000; i++) {
        text[i] = "the heaven and god "[i % 19];
    }
    char *path = put(*state, "text", text, sizeof text);
    struct culm_source_options options = masked_options(&path);
    options.tokenizer = (const char *const *)&vocab;
    options.tokenizer_count = 1;
    options.vocab = 700;
    struct culm_source *source = open_source(&options);
    fill_all(source, 0, 0, &s);
    assert_true(s.tokens[0] == 2 && s.tokens[CONTEXT - 1] == 3);
    culm_source_free(source);
    free(path);
    free(vocab);
}

static void test_wrong_options_are_one_line(void **state) {
    char *path = put_text(*state, "text", "a short text");
    struct culm_source_options options = masked_options(&path);
    expect_refused(&options, "has 12 tokens, one sample needs 61");
    options.context = 4;
    expect_refused(&options, "model.context: 4 is too short");
    options.context = 8;
    options.vocab = 256;
    expect_refused(&options, "set model.vocab to 257 or more");
    options.vocab = 260;
    options.masked = 6;
    expect_refused(&options, "model.masked: 6 of 8 tokens");
    options.masked = 0;
    struct culm_source *source = open_source(&options);
    assert_int_equal(culm_source_samples(source), 2);
    culm_source_free(source);
    options.context = 15;
    source = open_source(&options); /* a single sample: B always follows A */
    assert_int_equal(culm_source_samples(source), 1);
    for (uint64_t position = 0; position < 20; position++) {
        int32_t nsp;
        fill(source, 0, position, (void *[]){NULL, NULL, NULL, NULL, NULL, &nsp});
        assert_int_equal(nsp, 0);
    }
    culm_source_free(source);
    free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_fields, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_samples, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_fields_alone, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_held_out_stays_apart, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_token_files_and_given_ids, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_wordpiece, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_wrong_options_are_one_line, make_place, drop_place),
    };
    return cmocka_run_group_tests_name("data/source_masked", tests, NULL, NULL);
}
