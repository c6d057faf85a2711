/* Text: what a sample is, across file borders, and every way in which input can be wrong. */
#include "data/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct place {
    char dir[64];
    char path[8][128];
    const char *paths[8];
};

static int make_place(void **state) {
    struct place *place = calloc(1, sizeof *place);
    strcpy(place->dir, "/tmp/culm-text-XXXXXX");
    if (!mkdtemp(place->dir)) {
        return -1;
    }
    for (int i = 0; i < 8; i++) {
        snprintf(place->path[i], sizeof place->path[i], "%s/%d.txt", place->dir, i);
        place->paths[i] = place->path[i];
    }
    *state = place;
    return 0;
}

static int drop_place(void **state) {
    struct place *place = *state;
    for (int i = 0; i < 8; i++) {
        remove(place->path[i]);
    }
    rmdir(place->dir);
    free(place);
    return 0;
}

static void put(const char *path, const void *data, size_t len) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static void expect_refused(const struct place *place, size_t count, int64_t context, int64_t vocab,
                           const char *part) {
    struct culm_text *text = NULL;
    struct culm_error error = {0};
    enum culm_status status = culm_text_open(place->paths, count, context, vocab, &text, &error);
    assert_int_equal(culm_status_exit_code(status), 3);
    assert_int_equal(error.status, status);
    assert_null(text);
    if (!strstr(error.text, part) || strchr(error.text, '\n')) {
        fail_msg("'%s' lacks '%s'", error.text, part);
    }
}

static void test_samples_are_shifted_by_one(void **state) {
    struct place *place = *state;
    struct culm_text *text = NULL;
    struct culm_error error = {0};
    put(place->path[0], "culm is bamboo", 14);
    assert_int_equal(culm_text_open(place->paths, 1, 4, 256, &text, &error), CULM_OK);
    assert_int_equal(culm_text_samples(text), 3);
    assert_int_equal(culm_text_size_bytes(text), 14);
    int32_t tokens[4], targets[4];
    for (int64_t sample = 0; sample < 3; sample++) {
        assert_int_equal(culm_text_fill(text, sample, tokens, targets, &error), CULM_OK);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(tokens[i], "culm is bamboo"[sample * 4 + i]);
            assert_int_equal(targets[i], "culm is bamboo"[sample * 4 + i + 1]);
        }
    }
    assert_int_equal(culm_text_fill(text, 3, tokens, targets, &error), CULM_ERR_ARGUMENT);
    assert_int_equal(culm_text_fill(text, -1, tokens, targets, &error), CULM_ERR_ARGUMENT);
    culm_text_free(text);
}

static void test_last_target_needs_its_byte(void **state) {
    struct place *place = *state;
    struct culm_text *text = NULL;
    put(place->path[0], "123456789", 9); /* 2 * 4 + 1 */
    assert_int_equal(culm_text_open(place->paths, 1, 4, 256, &text, NULL), CULM_OK);
    assert_int_equal(culm_text_samples(text), 2);
    culm_text_free(text);
    put(place->path[0], "12345678", 8);
    assert_int_equal(culm_text_open(place->paths, 1, 4, 256, &text, NULL), CULM_OK);
    assert_int_equal(culm_text_samples(text), 1);
    culm_text_free(text);
}

static void test_files_are_joined(void **state) {
    struct place *place = *state;
    struct culm_text *text = NULL;
    struct culm_error error = {0};
    size_t total = 30011, at = 0;
    uint8_t *all = malloc(total);
    for (size_t i = 0; i < total; i++) {
        all[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    const size_t sizes[8] = {1, 2, 5000, 1, 9000, 3, 7, 30011 - 14014};
    for (int i = 0; i < 8; i++) {
        put(place->path[i], all + at, sizes[i]);
        at += sizes[i];
    }
    assert_int_equal(at, total);
    const int64_t contexts[] = {1, 3, 64, 4095, 4096, 5001, 30010};
    for (size_t c = 0; c < sizeof contexts / sizeof contexts[0]; c++) {
        int64_t context = contexts[c];
        int32_t *tokens = malloc((size_t)context * 4), *targets = malloc((size_t)context * 4);
        assert_int_equal(culm_text_open(place->paths, 8, context, 256, &text, &error), CULM_OK);
        assert_int_equal(culm_text_samples(text), ((int64_t)total - 1) / context);
        for (int64_t sample = 0; sample < culm_text_samples(text); sample++) {
            assert_int_equal(culm_text_fill(text, sample, tokens, targets, &error), CULM_OK);
            for (int64_t i = 0; i < context; i++) {
                if (tokens[i] != all[sample * context + i] ||
                    targets[i] != all[sample * context + i + 1]) {
                    fail_msg("context %d sample %d at %d", (int)context, (int)sample, (int)i);
                }
            }
        }
        culm_text_free(text);
        free(tokens);
        free(targets);
    }
    free(all);
}

static void test_wrong_input_is_one_line(void **state) {
    struct place *place = *state;
    expect_refused(place, 1, 4, 256, "No such file");
    put(place->path[0], "", 0);
    expect_refused(place, 1, 4, 256, "is empty");
    put(place->path[0], "1234", 4);
    expect_refused(place, 1, 4, 256, "has 4 bytes, one sample needs 5");
    remove(place->path[0]);
    assert_int_equal(mkdir(place->path[0], 0700), 0);
    expect_refused(place, 1, 4, 256, "is a directory");
    rmdir(place->path[0]);
    assert_int_equal(mkfifo(place->path[0], 0600), 0);
    expect_refused(place, 1, 4, 256, "device or pipe");
    remove(place->path[0]);
    put(place->path[0], "abcdefgh", 8);
    expect_refused(place, 2, 4, 256, "1.txt");
    put(place->path[0], "\x01\x02\x03\x04\x05\x06\x10", 7);
    expect_refused(place, 1, 4, 16, "byte 6 is 16");
}

static void test_small_vocab_accepts_what_fits(void **state) {
    struct place *place = *state;
    struct culm_text *text = NULL;
    put(place->path[0], "\x01\x02\x03\x04\x0f", 5);
    assert_int_equal(culm_text_open(place->paths, 1, 4, 16, &text, NULL), CULM_OK);
    culm_text_free(text);
}

static void test_shrinking_file_is_an_error(void **state) {
    struct place *place = *state;
    struct culm_text *text = NULL;
    struct culm_error error = {0};
    int32_t tokens[4], targets[4];
    put(place->path[0], "abcdefghi", 9);
    assert_int_equal(culm_text_open(place->paths, 1, 4, 256, &text, &error), CULM_OK);
    assert_int_equal(truncate(place->path[0], 6), 0);
    assert_int_equal(culm_text_fill(text, 0, tokens, targets, &error), CULM_OK);
    assert_int_equal(culm_text_fill(text, 1, tokens, targets, &error), CULM_ERR_IO);
    assert_non_null(strstr(error.text, "ends at byte 6"));
    culm_text_free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_samples_are_shifted_by_one, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_last_target_needs_its_byte, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_files_are_joined, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_wrong_input_is_one_line, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_small_vocab_accepts_what_fits, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_shrinking_file_is_an_error, make_place, drop_place),
    };
    return cmocka_run_group_tests_name("data/text", tests, NULL, NULL);
}
