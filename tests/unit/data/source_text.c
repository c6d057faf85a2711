/* Text and token files as samples: what a sample is, across file borders, the split, and every way
 * in which input can be wrong. */
#include "place.h"

#include "data/stream.h"

#include <sys/stat.h>

static struct culm_source_options options_of(enum culm_source_kind kind, char *const *paths,
                                             size_t count, int64_t context, int64_t vocab) {
    return (struct culm_source_options){.kind = kind,
                                        .paths = (const char *const *)paths,
                                        .path_count = count,
                                        .context = context,
                                        .vocab = vocab};
}

static void test_samples_are_shifted_by_one(void **state) {
    char *path = put_text(*state, "a.txt", "culm is bamboo");
    struct culm_source_options options = options_of(CULM_SOURCE_TEXT, &path, 1, 4, 256);
    struct culm_source *source = open_source(&options);
    assert_int_equal(culm_source_samples(source), 3);
    assert_int_equal(culm_source_field_count(source), 2);
    assert_int_equal(culm_source_find(source, "targets"), 1);
    assert_int_equal(culm_source_find(source, "image"), -1);
    assert_string_equal(culm_source_fields(source)[0].name, "tokens");
    assert_int_equal(culm_source_fields(source)[0].size_bytes, 16);
    int32_t tokens[4], targets[4];
    for (int64_t sample = 0; sample < 3; sample++) {
        fill(source, sample, 77, (void *[]){tokens, targets});
        for (int i = 0; i < 4; i++) {
            assert_int_equal(tokens[i], "culm is bamboo"[sample * 4 + i]);
            assert_int_equal(targets[i], "culm is bamboo"[sample * 4 + i + 1]);
        }
    }
    fill(source, 0, 0, (void *[]){NULL, targets});
    assert_int_equal(targets[0], 'u');
    fill(source, 0, 0, (void *[]){NULL, NULL});
    struct culm_error error = {0};
    void *const none[] = {NULL, NULL};
    for (int64_t sample = -1; sample < 4; sample += 4) {
        const struct culm_source_item item = {sample, 0};
        assert_int_equal(culm_source_fill(source, item, none, &error), CULM_ERR_ARGUMENT);
    }
    culm_source_free(source);
    free(path);
}

static void test_last_target_needs_its_byte(void **state) {
    char *path = put_text(*state, "a.txt", "123456789"); /* 2 * 4 + 1 */
    struct culm_source_options options = options_of(CULM_SOURCE_TEXT, &path, 1, 4, 256);
    struct culm_source *source = open_source(&options);
    assert_int_equal(culm_source_samples(source), 2);
    culm_source_free(source);
    free(put_text(*state, "a.txt", "12345678"));
    source = open_source(&options);
    assert_int_equal(culm_source_samples(source), 1);
    culm_source_free(source);
    free(path);
}

static uint8_t byte_of(size_t i) { return (uint8_t)(i * 2654435761u >> 13); }

/* Eight files of a pattern, joined; `width` bytes an id, of which the lowest carries it. */
static void check_joined(struct place *place, enum culm_source_kind kind, size_t width,
                         const char *end) {
    const size_t sizes[8] = {1, 2, 5000, 1, 9000, 3, 7, 30011 - 14014};
    const size_t total = 30011;
    char *path[8];
    size_t at = 0;
    for (int i = 0; i < 8; i++) {
        uint8_t *data = calloc(sizes[i], width);
        char name[32];
        for (size_t k = 0; k < sizes[i]; k++) {
            data[k * width] = byte_of(at++);
        }
        snprintf(name, sizeof name, "%d%s", i, end);
        path[i] = put(place, name, data, sizes[i] * width);
        free(data);
    }
    assert_int_equal(at, total);
    const int64_t contexts[] = {1, 3, 64, 4095, 4096, 5001, 30010};
    for (size_t c = 0; c < sizeof contexts / sizeof contexts[0]; c++) {
        int64_t context = contexts[c];
        int32_t *tokens = malloc((size_t)context * 4), *targets = malloc((size_t)context * 4);
        struct culm_source_options options = options_of(kind, path, 8, context, 256);
        struct culm_source *source = open_source(&options);
        assert_int_equal(culm_source_samples(source), ((int64_t)total - 1) / context);
        for (int64_t sample = 0; sample < culm_source_samples(source); sample++) {
            fill(source, sample, 0, (void *[]){tokens, targets});
            for (int64_t i = 0; i < context; i++) {
                if (tokens[i] != byte_of((size_t)(sample * context + i)) ||
                    targets[i] != byte_of((size_t)(sample * context + i + 1))) {
                    fail_msg("context %d sample %d at %d", (int)context, (int)sample, (int)i);
                }
            }
        }
        culm_source_free(source);
        free(tokens);
        free(targets);
    }
    for (int i = 0; i < 8; i++) {
        free(path[i]);
    }
}

static void test_files_are_joined(void **state) {
    check_joined(*state, CULM_SOURCE_TEXT, 1, ".txt");
    check_joined(*state, CULM_SOURCE_TOKENS, 2, ".bin");
    check_joined(*state, CULM_SOURCE_TOKENS, 2, ".u16");
    check_joined(*state, CULM_SOURCE_TOKENS, 4, ".u32");
}

/* --- npy --- */

static size_t npy(char *data, int major, const char *header, const void *body, size_t body_len) {
    size_t fixed = major == 1 ? 10 : 12, len = strlen(header);
    memcpy(data, "\x93NUMPY", 6);
    data[6] = (char)major;
    data[7] = 0;
    for (size_t i = 8; i < fixed; i++) {
        data[i] = (char)(len >> 8 * (i - 8));
    }
    memcpy(data + fixed, header, len);
    memcpy(data + fixed + len, body, body_len);
    return fixed + len + body_len;
}

static void test_npy(void **state) {
    static const struct {
        int major;
        const char *header;
        const char *body;
        size_t len;
    } cases[] = {
        {1, "{'descr': '<u2', 'fortran_order': False, 'shape': (3,), }      \n", "\5\0\6\0\7\0", 6},
        {2, "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }", "\5\6\7", 3},
        {3, "{\"shape\": (3,), 'descr': '<i4', 'fortran_order': False}", "\5\0\0\0\6\0\0\0\7\0\0\0",
         12},
        {1, "{'descr': '<i8', 'fortran_order': False, 'shape': (3,)}",
         "\5\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0", 24},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char data[512];
        size_t len = npy(data, cases[i].major, cases[i].header, cases[i].body, cases[i].len);
        char *path = put(*state, "ids.npy", data, len);
        struct culm_source_options options = options_of(CULM_SOURCE_TOKENS, &path, 1, 2, 300);
        struct culm_source *source = open_source(&options);
        int32_t tokens[2], targets[2];
        fill(source, 0, 0, (void *[]){tokens, targets});
        assert_true(tokens[0] == 5 && tokens[1] == 6 && targets[0] == 6 && targets[1] == 7);
        culm_source_free(source);
        for (size_t cut = 0; cut < len; cut++) { /* whatever is missing is noticed */
            free(put(*state, "ids.npy", data, cut));
            expect_refused(&options, "ids.npy");
        }
        free(path);
    }
}

static void test_wrong_npy_is_one_line(void **state) {
    static const struct {
        int major;
        const char *header, *part;
    } cases[] = {
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", "type '<f4', not integers"},
        {1, "{'descr': '>u2', 'fortran_order': False, 'shape': (6,)}", "not little-endian"},
        {1, "{'descr': '<u2', 'fortran_order': True, 'shape': (6,)}", "Fortran order"},
        {1, "{'descr': '<u2', 'fortran_order': False, 'shape': (2, 3)}", "2 dimensions"},
        {1, "{'descr': '<u2', 'fortran_order': False, 'shape': ()}", "0 dimensions"},
        {1, "{'descr': '<u2', 'fortran_order': False, 'shape': (0,)}", "no elements"},
        {1, "{'descr': '<u2', 'fortran_order': False, 'shape': (7,)}", "says 7 elements of 2"},
        {1, "{'descr': '<u8', 'fortran_order': False, 'shape': (2305843009213693952,)}", "says"},
        {1, "{'descr': '<u2', 'fortran_order': False, 'shape': (99999999999999999999,)}",
         "cannot be read"},
        {1, "{'descr': [('a', '<u2')], 'fortran_order': False, 'shape': (6,)}", "structured"},
        {1, "{'descr': '<u2', 'shape': (6,)}", "cannot be read"},
        {1, "{'descr': '<u2', 'fortran_order': False, 'shape': (6,)", "cannot be read"},
        {1, "{'descr': '<u2', 'descr': '<u2', 'fortran_order': False, 'shape': (6,)}",
         "cannot be read"},
        {1, "", "cannot be read"},
        {4, "{'descr': '<u2', 'fortran_order': False, 'shape': (6,)}", "version 4.0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char data[512];
        size_t len = npy(data, cases[i].major, cases[i].header, "\1\0\1\0\1\0\1\0\1\0\1\0", 12);
        char *path = put(*state, "ids.npy", data, len);
        struct culm_source_options options = options_of(CULM_SOURCE_TOKENS, &path, 1, 2, 300);
        expect_refused(&options, cases[i].part);
        free(path);
    }
}

static void test_wrong_tokens_are_one_line(void **state) {
    uint16_t ids[64];
    char *path = put(*state, "ids.bin", "\1\0\2\0\3", 5);
    struct culm_source_options options = options_of(CULM_SOURCE_TOKENS, &path, 1, 2, 50257);
    expect_refused(&options, "not a whole number of 2-byte tokens");
    free(put(*state, "ids.bin", "\1\0\2\0", 4));
    expect_refused(&options, "has 2 tokens, one sample needs 3");
    for (int i = 0; i < 64; i++) {
        ids[i] = i == 40 ? 50257 : (uint16_t)i;
    }
    free(put(*state, "ids.bin", ids, sizeof ids));
    expect_refused(&options, "token 40 is 50257, outside of the vocabulary of 50257");
    for (int i = 0; i < 64; i++) {
        ids[i] = i % 2 ? 0 : (uint16_t)i;
    }
    free(put(*state, "ids.bin", ids, sizeof ids));
    expect_refused(&options, "seems to hold 4-byte ones; name it .u32");
    free(path);
    path = put(*state, "ids.npy", "\1\0\2\0\3\0\4\0", 8);
    expect_refused(&options, "does not begin as a .npy file");
    char data[256];
    free(put(*state, "ids.npy", data,
             npy(data, 1, "{'descr': '<i2', 'fortran_order': False, 'shape': (3,)}",
                 "\1\0\xff\xff\1\0", 6)));
    expect_refused(&options, "token 1 is negative");
    free(path);
}

/* --- text --- */

static void test_wrong_text_is_one_line(void **state) {
    struct place *place = *state;
    char *path[2] = {put_text(place, "0.txt", ""), NULL};
    assert_true(asprintf(&path[1], "%s/1.txt", place->dir) > 0);
    struct culm_source_options options = options_of(CULM_SOURCE_TEXT, path, 1, 4, 256);
    expect_refused(&options, "is empty");
    free(put_text(place, "0.txt", "1234"));
    expect_refused(&options, "has 4 tokens, one sample needs 5");
    remove(path[0]);
    expect_refused(&options, "No such file");
    assert_int_equal(mkdir(path[0], 0700), 0);
    expect_refused(&options, "the folder has no file with anything in it");
    rmdir(path[0]);
    assert_int_equal(mkfifo(path[0], 0600), 0);
    expect_refused(&options, "device or pipe");
    remove(path[0]);
    free(put_text(place, "0.txt", "abcdefgh"));
    options.path_count = 2;
    expect_refused(&options, "1.txt");
    options.path_count = 1;
    options.vocab = 16;
    free(put_text(place, "0.txt", "\x01\x02\x03\x04\x05\x06\x10"));
    expect_refused(&options, "byte 6 is 16");
    free(put_text(place, "0.txt", "\x01\x02\x03\x04\x0f"));
    culm_source_free(open_source(&options));
    options.path_count = 0;
    expect_refused(&options, "no file");
    free(path[0]);
    free(path[1]);
}

static void test_shrinking_file_is_an_error(void **state) {
    struct culm_error error = {0};
    int32_t tokens[4], targets[4];
    void *const fields[] = {tokens, targets};
    char *path = put_text(*state, "a.txt", "abcdefghi");
    struct culm_source_options options = options_of(CULM_SOURCE_TEXT, &path, 1, 4, 256);
    struct culm_source *source = open_source(&options);
    assert_int_equal(truncate(path, 6), 0);
    fill(source, 0, 0, fields);
    assert_int_equal(culm_source_fill(source, (struct culm_source_item){1, 1}, fields, &error),
                     CULM_ERR_IO);
    expect_message(&error, "ends at byte 6");
    culm_source_free(source);
    free(path);
}

static void test_the_last_share_is_held_out(void **state) {
    char text[1001];
    for (int i = 0; i < 1001; i++) {
        text[i] = (char)('a' + i / 10 % 26);
    }
    char *path = put(*state, "a.txt", text, sizeof text);
    struct culm_source_options options = options_of(CULM_SOURCE_TEXT, &path, 1, 10, 256);
    static const struct {
        double share;
        int64_t held;
    } cases[] = {{0.1, 10}, {0.5, 50}, {0.001, 1}, {0.9999, 99}, {0.255, 26}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int32_t tokens[10];
        options.held_out = cases[i].share;
        options.split = CULM_SPLIT_TRAIN;
        struct culm_source *train = open_source(&options);
        options.split = CULM_SPLIT_HELD_OUT;
        struct culm_source *held = open_source(&options);
        assert_int_equal(culm_source_samples(held), cases[i].held);
        assert_int_equal(culm_source_samples(train), 100 - cases[i].held);
        fill(held, 0, 0, (void *[]){tokens, NULL});
        assert_int_equal(tokens[0], 'a' + (100 - cases[i].held) % 26);
        culm_source_free(train);
        culm_source_free(held);
    }
    options.held_out = 0; /* nothing is held out: evaluation sees all */
    struct culm_source *all = open_source(&options);
    assert_int_equal(culm_source_samples(all), 100);
    culm_source_free(all);
    options.held_out = 1;
    expect_refused(&options, "data.held_out: 1 is not a share");
    options.held_out = 0.5;
    options.context = 1000;
    expect_refused(&options, "data.held_out needs one more");
    free(path);
}

/* Through a tokenizer: the text comes back, and several files have its end-of-text between them. */
static void test_encoded_text(void **state) {
    char *tokenizer;
    assert_true(asprintf(&tokenizer, "%s/data/tokenizer/bpe", getenv("CULM_GOLDEN")) > 0);
    char *path[2] = {put_text(*state, "a.txt", "In the beginning God created the heaven."),
                     put_text(*state, "b.txt", "And the earth was without form, and void;")};
    struct culm_source_options options = options_of(CULM_SOURCE_TEXT, path, 2, 1, 700);
    options.tokenizer = (const char *const *)&tokenizer;
    options.tokenizer_count = 1;
    struct culm_source *source = open_source(&options);
    struct culm_tokenizer *t = NULL;
    assert_int_equal(culm_tokenizer_open(options.tokenizer, 1, &t, NULL), CULM_OK);
    int32_t id[256], count = (int32_t)culm_source_samples(source) + 1;
    assert_in_range(count, 20, 60);
    for (int32_t i = 0; i + 1 < count; i++) {
        fill(source, i, 0, (void *[]){&id[i], &id[i + 1]});
    }
    struct culm_buf out;
    culm_buf_init(&out, 4096);
    culm_tokenizer_decode(t, id, (size_t)count, &out);
    culm_buf_u8(&out, 0);
    assert_string_equal(out.data, "In the beginning God created the heaven.<|endoftext|>And the "
                                  "earth was without form, and void;");
    culm_buf_release(&out);
    culm_tokenizer_free(t);
    culm_source_free(source);
    options.vocab = 512;
    expect_refused(&options, "has 700 tokens, the vocabulary of the model 512");
    options.tokenizer = (const char *const *)&path[0];
    expect_refused(&options, "neither [UNK]");
    free(tokenizer);
    free(path[0]);
    free(path[1]);
}

/* What is saved is read as token files, the same ids, by NumPy as well: the header is of 128 bytes.
 */
static void test_saved_tokens(void **state) {
    struct place *place = *state;
    char *text = put_text(place, "a.txt", "In the beginning God created the heaven and the earth.");
    char *saved = put_text(place, "ids.npy", "");
    for (int64_t vocab = 256; vocab <= 70000; vocab += 69744) {
        struct culm_stream *stream, *again;
        struct culm_error error = {0};
        const struct culm_stream_options from = {
            .paths = (const char *const *)&text, .path_count = 1, .vocab = vocab};
        const struct culm_stream_options of_saved = {
            .paths = (const char *const *)&saved, .path_count = 1, .vocab = vocab};
        assert_int_equal(culm_stream_open_text(&from, &stream, &error), CULM_OK);
        assert_int_equal(culm_stream_save(stream, saved, &error), CULM_OK);
        uint64_t size, count = culm_stream_count(stream);
        assert_int_equal(culm_file_size(saved, &size, NULL), CULM_OK);
        assert_int_equal(size, 128 + count * (vocab > 65536 ? 4 : 2));
        if (culm_stream_open_tokens(&of_saved, &again, &error)) {
            fail_msg("%s", error.text);
        }
        assert_int_equal(culm_stream_count(again), count);
        int32_t id[2][64];
        assert_int_equal(culm_stream_read(stream, 0, id[0], count, &error), CULM_OK);
        assert_int_equal(culm_stream_read(again, 0, id[1], count, &error), CULM_OK);
        assert_memory_equal(id[0], id[1], count * sizeof(int32_t));
        assert_int_equal(culm_stream_save(stream, "/nowhere/ids.npy", &error), CULM_ERR_NOT_FOUND);
        culm_stream_free(stream);
        culm_stream_free(again);
    }
    free(text);
    free(saved);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_samples_are_shifted_by_one, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_last_target_needs_its_byte, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_files_are_joined, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_npy, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_wrong_npy_is_one_line, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_wrong_tokens_are_one_line, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_wrong_text_is_one_line, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_shrinking_file_is_an_error, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_the_last_share_is_held_out, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_encoded_text, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_saved_tokens, make_place, drop_place),
    };
    return cmocka_run_group_tests_name("data/source_text", tests, NULL, NULL);
}
