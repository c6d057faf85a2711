/* What cannot be used of each kind of data is found, in the unit that a list names it by; and with the list
 * the rest comes as before. */
#include "data/check.h"

#include "data/image_write.h"
#include "data/tokenizer.h"
#include "place.h"

#include <inttypes.h>

struct told {
    char text[20][400]; /* "file unit number why" */
    int count;
    char *list; /* for data.skip */
};

static void tell(void *ctx, const struct culm_data_bad *bad) {
    static const char *const unit[] = {"file", "line", "index"};
    struct told *told = ctx;
    struct culm_buf buf;
    struct culm_error error;
    assert_in_range(told->count, 0, 19);
    snprintf(told->text[told->count++], 400, "%s %s %" PRId64 " %s%s", bad->place.file,
             unit[bad->place.unit], bad->place.number, bad->usable ? "usable: " : "", bad->why);
    culm_buf_init(&buf, 1 << 20);
    culm_buf_printf(&buf, "%s", told->list ? told->list : "# a list\n\n");
    assert_int_equal(culm_data_place_write(&bad->place, bad->why, &buf, &error), CULM_OK);
    free(told->list);
    told->list = culm_buf_take_text(&buf);
    assert_non_null(told->list);
}

static struct culm_check_result check(const struct culm_source_options *options, int threads,
                                      struct told *told) {
    const struct culm_check_options how = {.threads = threads, .bad = tell, .ctx = told};
    struct culm_check_result result;
    struct culm_error error = {0};
    *told = (struct told){.count = 0};
    if (culm_check_data(options, &how, &result, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    assert_true(result.all);
    return result;
}

static void expect(const struct told *told, int index, const char *part) {
    if (index >= told->count || !strstr(told->text[index], part)) {
        fail_msg("%d of %d: '%s' lacks '%s'", index, told->count,
                 index < told->count ? told->text[index] : "", part);
    }
}

/* With what was told as the list nothing is told, and `left` samples are left out. */
static void expect_left_out(const struct place *place, struct culm_source_options options,
                            struct told *told, size_t left) {
    char *list = put_text(place, "skip.txt", told->list);
    struct told again;
    options.skip = list;
    struct culm_check_result result = check(&options, 2, &again);
    if (again.count) {
        fail_msg("'%s' is told though it is left out", again.text[0]);
    }
    assert_int_equal(result.left_out, left);
    struct culm_source *source = open_source(&options);
    assert_int_equal(culm_order_left_out_count(culm_source_left_out(source)), left);
    culm_source_free(source);
    free(told->list);
    told->list = NULL;
    free(list);
}

/* --- pictures --- */

static char *put_picture(const struct place *place, const char *name, int shade) {
    char *path;
    uint8_t pixels[8 * 8 * 3];
    struct culm_error error;
    memset(pixels, shade, sizeof pixels);
    assert_true(asprintf(&path, "%s/%s", place->dir, name) > 0);
    if (culm_image_write_png(path, pixels, 8, 8, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    return path;
}

static void test_pictures(void **state) {
    struct place *place = *state;
    char *folder, name[100], *paths[12];
    struct culm_error error;
    struct told told;
    assert_true(asprintf(&folder, "%s/d", place->dir) > 0);
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s/d%s", place->dir, i == 1 ? "/a" : i == 2 ? "/b" : "");
        assert_int_equal(culm_dir_make(NULL, name, &error), CULM_OK);
    }
    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof name, "d/%s/%02d.png", i % 2 ? "a" : "b", i);
        paths[i] = put_picture(place, name, i);
    }
    free(put_text(place, "d/a/03.png", "no picture"));
    free(put_text(place, "d/b/08.png", ""));
    struct culm_source_options options = {.kind = CULM_SOURCE_IMAGES,
                                          .paths = (const char *const *)&folder,
                                          .path_count = 1,
                                          .height = 8,
                                          .width = 8,
                                          .channels = 1,
                                          .held_out = 0.25};
    for (int threads = 1; threads <= 4; threads += 3) {
        struct culm_check_result result = check(&options, threads, &told);
        assert_int_equal(result.samples, 12); /* held out or not */
        assert_int_equal(result.bad, 2);
        assert_int_equal(result.left_out, 0);
        expect(&told, 0, "d/a/03.png file 0 image");
        expect(&told, 1, "d/b/08.png file 0 image");
        if (threads == 1) {
            free(told.list);
        }
    }
    options.held_out = 0;
    struct culm_source *all = open_source(&options);
    assert_true(culm_source_is_unseen(all));
    expect_left_out(place, options, &told, 2);

    /* named from the folder on, and what is left comes as it did */
    char lines[300];
    snprintf(lines, sizeof lines,
             "a/03.png\r\n# b/00.png\nb/08.png\t\tempty\n%s/d/../d//b/08.png\n", place->dir);
    char *list = put_text(place, "own.txt", lines);
    options.skip = list;
    struct culm_source *rest = open_source(&options);
    assert_int_equal(culm_source_samples(rest), 12);
    for (int64_t i = 0; i < 12; i++) {
        float image[2][64];
        int32_t label[2];
        if (!culm_order_left_out_has(culm_source_left_out(rest), i)) {
            fill(all, i, 5, (void *[]){image[0], &label[0]});
            fill(rest, i, 5, (void *[]){image[1], &label[1]});
            assert_memory_equal(image[0], image[1], sizeof image[0]);
            assert_int_equal(label[0], label[1]);
        }
    }
    culm_source_free(all);
    culm_source_free(rest);
    free(list);
    for (int i = 0; i < 12; i++) {
        free(paths[i]);
    }
    free(folder);
}

/* --- IDX --- */

static void test_labels(void **state) {
    struct place *place = *state;
    uint8_t pixels[16 + 5 * 4] = {0, 0, 8, 3, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 2};
    uint8_t labels[8 + 5] = {0, 0, 8, 1, 0, 0, 0, 5, 0, 9, 1, 2, 8};
    char *paths[] = {put(place, "pixels", pixels, sizeof pixels),
                     put(place, "labels", labels, sizeof labels)};
    struct culm_source_options options = {.kind = CULM_SOURCE_IMAGES,
                                          .paths = (const char *const *)paths,
                                          .path_count = 2,
                                          .height = 2,
                                          .width = 2,
                                          .channels = 1,
                                          .classes = 3};
    struct told told;
    expect_refused(&options, "label 1 is 9");
    struct culm_check_result result = check(&options, 2, &told);
    assert_int_equal(result.samples, 5);
    assert_int_equal(told.count, 2);
    expect(&told, 0, "labels index 1 IDX file");
    expect(&told, 1, "labels index 4 IDX file");
    expect_left_out(place, options, &told, 2);
    free(paths[0]);
    free(paths[1]);
}

/* --- tokens and texts --- */

/* Ids 3 and 8 are outside; windows of 4 overlap in one, so that 8 is in two of them. */
static void test_tokens(void **state) {
    struct place *place = *state;
    const uint16_t id[] = {0, 1, 2, 99, 4, 5, 6, 7, 50, 1, 2, 3, 4, 5, 6, 7, 8};
    char *path = put(place, "ids.u16", id, sizeof id);
    struct culm_source_options options = {.kind = CULM_SOURCE_TOKENS,
                                          .paths = (const char *const *)&path,
                                          .path_count = 1,
                                          .context = 4,
                                          .vocab = 10};
    struct told told;
    expect_refused(&options, "token 3 is 99");
    struct culm_check_result result = check(&options, 2, &told);
    assert_int_equal(result.samples, 4);
    assert_int_equal(told.count, 2);
    expect(&told, 0, "ids.u16 index 3 token file");
    expect(&told, 1, "ids.u16 index 8 token file");
    expect_left_out(place, options, &told, 3);

    options.kind = CULM_SOURCE_MASKED;
    options.masked_of = CULM_SOURCE_TOKENS;
    options.context = 7; /* windows of 4 that do not overlap */
    options.vocab = 14;
    result = check(&options, 1, &told);
    assert_int_equal(result.samples, 4);
    expect(&told, 0, "ids.u16 index 3 token file");
    char *list = put_text(place, "list", told.list);
    free(told.list);
    options.skip = list;
    struct culm_source *source = open_source(&options);
    assert_int_equal(culm_order_left_out_count(culm_source_left_out(source)), 2); /* 0 and 2 */
    for (uint64_t position = 0; position < 200; position++) { /* no random second half is of them */
        int32_t tokens[7], next;
        fill(source, 1 + 2 * (int64_t)(position % 2), position,
             (void *[]){tokens, NULL, NULL, NULL, NULL, &next});
    }
    culm_source_free(source);
    free(list);
    free(path);
}

static void test_pairs(void **state) {
    struct place *place = *state;
    char *path = put_text(place, "pairs.tsv", "a b\tc d\n\nno tab\na\tb\n\tb\nx\ty\xe9\n");
    struct culm_source_options options = {.kind = CULM_SOURCE_PAIRS,
                                          .paths = (const char *const *)&path,
                                          .path_count = 1,
                                          .context = 5,
                                          .vocab = 100};
    struct told told;
    expect_refused(&options, "line 3 has no TAB");
    struct culm_check_result result = check(&options, 2, &told);
    assert_int_equal(result.samples, 5);
    assert_int_equal(result.bad, 2);
    assert_int_equal(result.doubtful, 1);
    expect(&told, 0, "pairs.tsv line 3 pairs");
    expect(&told, 1, "pairs.tsv': line 5 has no source");
    expect(&told, 2, "pairs.tsv': line 6: byte 0xe9 is not UTF-8");
    expect_left_out(place, options, &told, 3);
    free(path);
}

/* Bytes and tokens of one text: the windows of line 2 are left out, and no other. */
static void test_texts(void **state) {
    struct place *place = *state;
    char *path = put_text(place, "t.txt", "aa bb\ncc \xe9\ndd ee\nff gg\n");
    char *words = put_text(place, "vocab.txt", "[UNK]\n[CLS]\n[SEP]\naa\nbb\ncc\ndd\nee\nff\ngg\n");
    struct culm_source_options options = {.kind = CULM_SOURCE_TEXT,
                                          .paths = (const char *const *)&path,
                                          .path_count = 1,
                                          .context = 3,
                                          .vocab = 256};
    struct told told;
    struct culm_check_result result = check(&options, 2, &told);
    assert_int_equal(result.samples, 7); /* 23 bytes */
    assert_int_equal(told.count, 1);
    expect(&told, 0, "t.txt line 2 usable");
    struct culm_source *source = open_source(&options);
    assert_false(culm_source_is_unseen(source));
    culm_source_free(source);
    expect_left_out(place, options, &told, 3); /* bytes 6 to 10: windows 1, 2, 3 */

    options.context = 1; /* aa bb cc dd ee ff gg, of which cc */
    options.tokenizer = (const char *const *)&words;
    options.tokenizer_count = 1;
    result = check(&options, 2, &told);
    assert_int_equal(result.samples, 6);
    expect_left_out(place, options, &told, 2);
    free(path);
    free(words);
}

/* Of lines that are indented, a token may have the end of one and the beginning of the next. Which windows
 * have a token of lines on the list is told by where the bytes of each token are. */
static void test_many_lines_of_tokens(void **state) {
    enum { LINES = 200, CONTEXT = 5 };
    struct place *place = *state;
    char *vocab, text[LINES * 40], list[LINES * 60], *path, *skip;
    size_t len = 0, list_len = 0, region[LINES + 1];
    assert_true(asprintf(&vocab, "%s/data/tokenizer/bpe.json", getenv("CULM_GOLDEN")) > 0);
    for (int i = 0; i < LINES; i++) { /* the white space in front of its words is a line's, too */
        region[i] = i ? len - 1 : 0;
        len += (size_t)sprintf(text + len, "%*sthe %d and%s\n", i % 7, "", i * i,
                               i % 5 ? " a thing" : "");
        if (i < 100 || i == 170) {
            list_len += (size_t)sprintf(list + list_len, "%s/t.txt\tline %d\n", place->dir, i + 1);
        }
    }
    region[LINES] = len - 1;
    path = put_text(place, "t.txt", text);
    list[list_len] = '\0';
    skip = put_text(place, "list", list);
    struct culm_source_options options = {.kind = CULM_SOURCE_TEXT,
                                          .paths = (const char *const *)&path,
                                          .path_count = 1,
                                          .tokenizer = (const char *const *)&vocab,
                                          .tokenizer_count = 1,
                                          .context = CONTEXT,
                                          .vocab = 5000,
                                          .skip = skip};
    struct culm_tokenizer *tokenizer;
    struct culm_encoder encoder = {0};
    struct culm_buf out;
    struct culm_error error;
    culm_buf_init(&out, 1 << 20);
    assert_int_equal(culm_tokenizer_open(options.tokenizer, 1, &tokenizer, &error), CULM_OK);
    assert_int_equal(culm_tokenizer_encode(tokenizer, &encoder, text, len, &error), CULM_OK);
    bool *listed = calloc(encoder.count, sizeof *listed);
    for (size_t t = 0, line = 0; t < encoder.count; t++) {
        size_t at = out.len;
        while (line < LINES - 1 && at >= region[line + 1]) {
            line++;
        }
        culm_tokenizer_decode(tokenizer, &encoder.id[t], 1, &out);
        listed[t] = line < 100 || line == 170;
    }
    assert_int_equal(out.len, len);
    struct culm_source *source = open_source(&options);
    int64_t samples = culm_source_samples(source), left = 0;
    for (int64_t s = 0; s < samples; s++) {
        bool expected = false;
        for (int64_t t = s * CONTEXT; t <= s * CONTEXT + CONTEXT; t++) {
            expected |= listed[t];
        }
        left += expected;
        if (culm_order_left_out_has(culm_source_left_out(source), s) != expected) {
            fail_msg("window %lld of %lld: %s left out", (long long)s, (long long)samples,
                     expected ? "not" : "is");
        }
    }
    assert_in_range(left, 10, samples - 10);
    culm_source_free(source);
    culm_encoder_release(&encoder);
    culm_tokenizer_free(tokenizer);
    culm_buf_release(&out);
    free(listed);
    free(vocab);
    free(path);
    free(skip);
}

/* A line that is too long is one line. */
static void test_long_lines_of_pairs(void **state) {
    struct place *place = *state;
    size_t len = 0, room = (5u << 20) + 1000;
    char *text = malloc(room);
    for (int line = 1; line <= 10; line++) {
        if (line == 4) {
            memset(text + len, 'x', 5 << 20);
            text[len + 2000000] = '\t';
            len += 5 << 20;
            text[len++] = '\n';
        } else {
            len += (size_t)sprintf(text + len, line == 8 ? "none\n" : "a\tb\n");
        }
    }
    char *path = put(place, "long.tsv", text, len);
    struct culm_source_options options = {.kind = CULM_SOURCE_PAIRS,
                                          .paths = (const char *const *)&path,
                                          .path_count = 1,
                                          .context = 5,
                                          .vocab = 100};
    struct told told;
    struct culm_check_result result = check(&options, 2, &told);
    assert_int_equal(result.samples, 10);
    assert_int_equal(told.count, 2);
    expect(&told, 0, "line 4 has more than 1 MiB");
    expect(&told, 1, "line 8 has no TAB");
    expect_left_out(place, options, &told, 2);
    free(path);
    free(text);
}

/* --- lists --- */

/* Bytes of a folder's only text: named from the folder on. */
static void test_lists_that_are_wrong(void **state) {
    static const char *const wrong[][2] = {
        {"other.txt\n", "line 1: 'other.txt' is not among the samples"},
        {"# yes\nt.txt\tline 9\n", "line 2: 't.txt' line 9 is not among"},
        {"t.txt\tindex 99\n", "line 1: 't.txt' index 99 is not among"},
        {"t.txt\tline 0\n", "line 1: 'line 0' is not what is left out"},
        {"t.txt\tline\n", "'line' is not what is left out"},
        {"t.txt\tline 1x\n", "'line 1x' is not"},
        {"t.txt\tindex -1\n", "'index -1' is not"},
        {"t.txt\tindex 99999999999999999999\n", "is not what"},
        {"t.txt\n", "none of the 2 samples is left by data.skip"},
        {"", "is empty"},
    };
    struct place *place = *state;
    char *folder;
    struct culm_error error;
    assert_true(asprintf(&folder, "%s/texts", place->dir) > 0);
    assert_int_equal(culm_dir_make(NULL, folder, &error), CULM_OK);
    free(put_text(place, "texts/t.txt", "aaaaaaaaa"));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char *list = put_text(place, "list", wrong[i][0]);
        struct culm_source_options options = {.kind = CULM_SOURCE_TEXT,
                                              .paths = (const char *const *)&folder,
                                              .path_count = 1,
                                              .context = 4,
                                              .vocab = 256,
                                              .skip = list};
        expect_refused(&options, wrong[i][1]);
        free(list);
    }
    struct culm_skip *skip;
    struct culm_buf buf;
    culm_buf_init(&buf, 100);
    char *marked =
        put_text(place, "list", "\xEF\xBB\xBF# made by an editor\ntexts/t.txt\tindex 1\r\n");
    assert_int_equal(culm_skip_read(marked, NULL, 0, NULL, &skip, &error), CULM_OK);
    culm_skip_copy(skip, &buf);
    assert_int_equal(buf.len, strlen("texts/t.txt\tindex 1\r\n"));
    assert_memory_equal(buf.data, "texts/t.txt\tindex 1\r\n", buf.len);
    culm_skip_free(skip);
    free(marked);
    const struct culm_data_place tab = {.file = "a\tb"};
    assert_int_equal(culm_data_place_write(&tab, NULL, &buf, &error), CULM_ERR_CONFIG);
    culm_buf_release(&buf);
    free(folder);
}

/* What takes longer than is allowed is left, and said to be. */
static void test_long_ones_are_left(void **state) {
    struct place *place = *state;
    char *text = malloc(100001);
    memset(text, 'a', 100000);
    text[100000] = '\0';
    char *path = put_text(place, "t.txt", text);
    const struct culm_source_options options = {.kind = CULM_SOURCE_TEXT,
                                                .paths = (const char *const *)&path,
                                                .path_count = 1,
                                                .context = 10,
                                                .vocab = 256};
    struct culm_source *source = open_source(&options);
    const struct culm_check_options how = {.threads = 2, .most_s = 1e-9};
    struct culm_check_result result;
    assert_int_equal(culm_check_source(source, &how, &result, NULL), CULM_OK);
    assert_false(result.all);
    assert_true(result.all_s > 1e-9);
    assert_int_equal(result.samples, 9999);
    culm_source_free(source);
    free(path);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pictures, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_labels, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_tokens, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_pairs, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_texts, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_many_lines_of_tokens, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_long_lines_of_pairs, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_lists_that_are_wrong, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_long_ones_are_left, make_place, drop_place),
    };
    return cmocka_run_group_tests_name("data/check", tests, NULL, NULL);
}
