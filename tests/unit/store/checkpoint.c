/* Checkpoints: other stage counts, what is skipped, what goes and stays, hashes, a full disk. */
#include "expect_mark.h"

#include "sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cmocka.h>

static struct sample sample; /* set anew by every test */

static void publish(const char *dir, int64_t step) {
    struct culm_error error = {0};
    sample_init(&sample, step);
    if (sample_publish(NULL, dir, &sample, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
}

static int64_t latest(const char *dir, bool verify, char *ret_warning) {
    char path[CULM_PATH_MAX];
    int64_t step = -1;
    struct culm_error error = {0};
    enum culm_status status = culm_checkpoint_latest(dir, verify, &step, path, ret_warning, &error);
    return status == CULM_OK ? step : -1;
}

static bool exists(const char *dir, int64_t step) {
    char path[CULM_PATH_MAX];
    assert_int_equal(culm_checkpoint_path(dir, step, path, NULL), CULM_OK);
    return culm_file_is_directory(path);
}

static void flip(const char *path, long at) {
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    fputc(byte ^ 0x10, file);
    assert_int_equal(fclose(file), 0);
}

static void test_latest_of_nothing(void **state) {
    (void)state;
    char dir[64], path[CULM_PATH_MAX];
    int64_t step = 7;
    struct culm_error error = {0};
    temp_dir_make(dir);
    assert_int_equal(culm_checkpoint_latest(dir, true, &step, path, NULL, &error),
                     CULM_ERR_NOT_FOUND);
    assert_non_null(strstr(error.text, "no checkpoint in"));
    assert_int_equal(step, 7);
    assert_int_equal(culm_checkpoint_clean(NULL, dir, &error), CULM_OK);
    temp_dir_drop(dir);
}

static void test_broken_ones_are_skipped(void **state) {
    (void)state;
    EXPECT_MARK(store_newest_is_not_whole);
    EXPECT_MARK(store_none_is_whole);
    char dir[64], path[256], warning[CULM_ERROR_MAX];
    temp_dir_make(dir);
    for (int64_t step = 10; step <= 50; step += 10) {
        publish(dir, step);
    }
    assert_int_equal(latest(dir, true, warning), 50);
    assert_string_equal(warning, "");
    snprintf(path, sizeof path, "%s/checkpoints/step-00000050/stage-1.safetensors", dir);
    flip(path, -3); /* a bit of a value: only the hash tells */
    assert_int_equal(latest(dir, false, warning), 50);
    assert_int_equal(latest(dir, true, warning), 40);
    assert_non_null(strstr(warning, "is damaged"));
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(latest(dir, false, warning), 40);
    assert_non_null(strstr(warning, "step-00000050"));
    assert_non_null(strstr(warning, "has 100 bytes"));
    snprintf(path, sizeof path, "%s/checkpoints/step-00000040/stage-0.safetensors", dir);
    assert_int_equal(remove(path), 0);
    assert_int_equal(latest(dir, false, NULL), 30);
    snprintf(path, sizeof path, "%s/checkpoints/step-00000030/manifest.json", dir);
    assert_int_equal(truncate(path, 40), 0);
    assert_int_equal(latest(dir, false, NULL), 20);
    /* a directory that was renamed by hand lies about its step */
    char from[256];
    snprintf(from, sizeof from, "%s/checkpoints/step-00000020", dir);
    snprintf(path, sizeof path, "%s/checkpoints/step-00000060", dir);
    assert_int_equal(rename(from, path), 0);
    assert_int_equal(latest(dir, false, warning), 10);
    assert_non_null(strstr(warning, "is of step 20"));
    /* none is whole, which is not the same as none: the caller must not start anew */
    char found[CULM_PATH_MAX];
    int64_t step = 7;
    struct culm_error error = {0};
    snprintf(path, sizeof path, "%s/checkpoints/step-00000010/manifest.json", dir);
    assert_int_equal(remove(path), 0);
    assert_int_equal(culm_checkpoint_latest(dir, true, &step, found, NULL, &error),
                     CULM_ERR_FORMAT);
    assert_non_null(strstr(error.text, "no whole checkpoint"));
    assert_int_equal(step, 7);
    temp_dir_drop(dir);
}

static void count_bytes(void *ctx, size_t bytes) {
    size_t *read = ctx;
    *read += bytes;
}

static void test_only_the_piece_that_is_read_is_hashed(void **state) {
    (void)state;
    char dir[64], path[CULM_PATH_MAX], piece[CULM_PATH_MAX + 32];
    struct culm_error error = {0};
    struct culm_checkpoint *checkpoint = NULL;
    size_t read = 0;
    const struct culm_read_hook hook = {count_bytes, &read};
    temp_dir_make(dir);
    publish(dir, 10);
    assert_int_equal(culm_checkpoint_path(dir, 10, path, &error), CULM_OK);
    snprintf(piece, sizeof piece, "%s/stage-2.safetensors", path);
    flip(piece, -3);
    assert_int_equal(culm_checkpoint_open(path, false, &checkpoint, &error), CULM_OK);
    const char *first = sample.names[0][0], *last = sample.names[2][0];
    assert_int_equal(culm_checkpoint_verify(checkpoint, first, &hook, &error), CULM_OK);
    assert_int_equal(read, culm_checkpoint_piece(checkpoint, 0)->bytes);
    assert_int_equal(culm_checkpoint_verify(checkpoint, sample.names[0][1], &hook, &error),
                     CULM_OK);
    assert_int_equal(read, culm_checkpoint_piece(checkpoint, 0)->bytes); /* not again */
    assert_int_equal(culm_checkpoint_verify(checkpoint, last, &hook, &error), CULM_ERR_FORMAT);
    assert_non_null(strstr(error.text, "'stage-2.safetensors' is damaged"));
    assert_int_equal(culm_checkpoint_verify(checkpoint, last, NULL, &error), CULM_ERR_FORMAT);
    assert_int_equal(culm_checkpoint_verify(checkpoint, "none", NULL, &error), CULM_ERR_NOT_FOUND);
    culm_checkpoint_close(checkpoint);
    temp_dir_drop(dir);
}

static void test_flipped_manifests_are_survived(void **state) {
    (void)state;
    char dir[64], path[256], *data;
    size_t len, refused = 0;
    temp_dir_make(dir);
    publish(dir, 20);
    snprintf(path, sizeof path, "%s/checkpoints/step-00000020/manifest.json", dir);
    assert_int_equal(culm_file_read(NULL, path, 1 << 20, &data, &len, NULL), CULM_OK);
    for (size_t at = 0; at < len; at++) {
        struct culm_checkpoint *checkpoint = NULL;
        struct culm_error error = {0};
        char whole[CULM_PATH_MAX];
        culm_checkpoint_path(dir, 20, whole, NULL);
        flip(path, (long)at);
        if (culm_checkpoint_open(whole, true, &checkpoint, &error) != CULM_OK) {
            refused++;
            assert_true(error.text[0] && !strchr(error.text, '\n'));
        }
        culm_checkpoint_close(checkpoint);
        flip(path, (long)at);
    }
    assert_true(refused > len / 4);
    assert_int_equal(latest(dir, true, NULL), 20);
    free(data);
    temp_dir_drop(dir);
}

static void test_prune_keeps_what_counts(void **state) {
    (void)state;
    EXPECT_MARK(store_broken_one_stays);
    EXPECT_MARK(store_one_of_an_undone_history_goes);
    EXPECT_MARK(store_left_over_goes);
    char dir[64], path[256];
    struct culm_error error = {0};
    temp_dir_make(dir);
    for (int64_t step = 10; step <= 50; step += 10) {
        publish(dir, step);
    }
    snprintf(path, sizeof path, "%s/checkpoints/step-00000040/stage-0.safetensors", dir);
    assert_int_equal(truncate(path, 10), 0);
    struct culm_piece piece;
    assert_int_equal(culm_checkpoint_write_piece(NULL, dir, 30, "stage-0", 3, sample.tensors[0],
                                                 SAMPLE_TENSORS, NULL, &piece, &error),
                     CULM_OK);
    assert_int_equal(culm_checkpoint_write_piece(NULL, dir, 60, "stage-0", 3, sample.tensors[0],
                                                 SAMPLE_TENSORS, NULL, &piece, &error),
                     CULM_OK);
    assert_int_equal(culm_checkpoint_prune(NULL, dir, 50, 0, &error), CULM_ERR_ARGUMENT);
    assert_int_equal(culm_checkpoint_prune(NULL, dir, 60, 2, &error), CULM_ERR_NOT_FOUND);
    assert_int_equal(culm_checkpoint_prune(NULL, dir, 50, 2, &error), CULM_OK);
    assert_true(exists(dir, 50) && exists(dir, 30)); /* two whole ones: 40 does not count */
    assert_false(exists(dir, 20) || exists(dir, 10));
    snprintf(path, sizeof path, "%s/checkpoints/.tmp-step-00000030", dir);
    assert_false(culm_file_is_directory(path)); /* stale */
    snprintf(path, sizeof path, "%s/checkpoints/.tmp-step-00000060", dir);
    assert_true(culm_file_is_directory(path)); /* perhaps being written */
    /* rolled back to 30 and published 40 again: 50 is of a history that is no more */
    publish(dir, 40);
    assert_int_equal(culm_checkpoint_prune(NULL, dir, 40, 1, &error), CULM_OK);
    assert_true(exists(dir, 40));
    assert_false(exists(dir, 30) || exists(dir, 50));
    assert_int_equal(culm_checkpoint_clean(NULL, dir, &error), CULM_OK);
    assert_false(culm_file_is_directory(path));
    temp_dir_drop(dir);
}

/* A publication over an older one was cut off, and what it published is damaged since: the older one comes back. */
static void test_one_set_aside_comes_back(void **state) {
    (void)state;
    EXPECT_MARK(store_broken_one_makes_way_for_one_set_aside);
    char dir[64], from[256], path[256], warning[CULM_ERROR_MAX];
    temp_dir_make(dir);
    publish(dir, 40);
    snprintf(from, sizeof from, "%s/checkpoints/step-00000040", dir);
    snprintf(path, sizeof path, "%s/checkpoints/.old-step-00000040", dir);
    assert_int_equal(rename(from, path), 0);
    publish(dir, 40);
    snprintf(path, sizeof path, "%s/checkpoints/step-00000040/stage-0.safetensors", dir);
    assert_int_equal(truncate(path, 10), 0);
    assert_int_equal(culm_checkpoint_clean(NULL, dir, NULL), CULM_OK);
    assert_int_equal(latest(dir, true, warning), 40);
    assert_string_equal(warning, "");
    sample_expect(from, &sample);
    temp_dir_drop(dir);
}

static void test_steps_beyond_eight_digits(void **state) {
    (void)state;
    char dir[64];
    temp_dir_make(dir);
    publish(dir, 99999999);
    publish(dir, 100000000);
    assert_int_equal(latest(dir, true, NULL), 100000000);
    assert_int_equal(culm_checkpoint_prune(NULL, dir, 100000000, 1, NULL), CULM_OK);
    assert_false(exists(dir, 99999999));
    temp_dir_drop(dir);
}

static const char *owner(int stage) {
    static const char *const names[] = {"stage-0", "stage-1", "stage-2"};
    return names[stage];
}

static void test_owners_have_names(void **state) {
    (void)state;
    static const struct {
        const char *name, *kind;
        int32_t number;
    } rows[] = {{"stage-0", "stage", 0},
                {"interval-12", "interval", 12},
                {"abcdefghijklmno-999999999", "abcdefghijklmno", 999999999},
                {"x-7", "x", 7}};
    static const char *const wrong[] = {"",
                                        "stage",
                                        "stage-",
                                        "-1",
                                        "stage-01",
                                        "stage-00",
                                        "stage--1",
                                        "stage-x",
                                        "stage-1x",
                                        "Stage-1",
                                        "stage 1",
                                        "../a-1",
                                        "stage-1/..",
                                        "node-1",
                                        "bytes-1",
                                        "step-1",
                                        "format-1",
                                        "stage1-1",
                                        "a.b-1",
                                        "stage-1\n-1",
                                        "stage-1000000000",
                                        "abcdefghijklmnop-1"};
    char kind[CULM_OWNER_SIZE];
    int32_t number;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(culm_owner_split(rows[i].name, kind, &number));
        assert_string_equal(kind, rows[i].kind);
        assert_int_equal(number, rows[i].number);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(culm_owner_split(wrong[i], kind, &number));
        char dir[64];
        struct culm_piece piece;
        struct culm_error error = {0};
        temp_dir_make(dir);
        assert_int_equal(culm_checkpoint_write_piece(NULL, dir, 20, wrong[i], 0, sample.tensors[0],
                                                     1, NULL, &piece, &error),
                         CULM_ERR_ARGUMENT);
        assert_non_null(strstr(error.text, "is not an owner"));
        temp_dir_drop(dir);
    }
}

/* Servers that own whatever a job divides its state into: the store knows no stage. */
static void test_owners_of_other_kinds(void **state) {
    (void)state;
    static const char *const owners[] = {"parameter-3", "interval-12"};
    char dir[64], path[256], *text;
    size_t len;
    struct culm_piece pieces[2];
    struct culm_checkpoint *checkpoint = NULL;
    struct culm_error error = {0};
    temp_dir_make(dir);
    sample_init(&sample, 20);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(culm_checkpoint_write_piece(NULL, dir, 20, owners[i], 40 + i,
                                                     sample.tensors[i], SAMPLE_TENSORS, NULL,
                                                     &pieces[i], &error),
                         CULM_OK);
    }
    assert_string_equal(pieces[1].file, "interval-12.node-41.safetensors");
    assert_int_equal(culm_checkpoint_publish(NULL, dir, &sample.info, pieces, 2, &error), CULM_OK);
    snprintf(path, sizeof path, "%s/checkpoints/step-00000020", dir);
    assert_int_equal(culm_checkpoint_open(path, true, &checkpoint, &error), CULM_OK);
    assert_int_equal(culm_checkpoint_piece_count(checkpoint), 2);
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(culm_checkpoint_piece(checkpoint, i)->owner, owners[i]);
        assert_int_equal(culm_checkpoint_piece(checkpoint, i)->node, 40 + i);
    }
    culm_checkpoint_close(checkpoint);
    snprintf(path, sizeof path, "%s/checkpoints/step-00000020/manifest.json", dir);
    assert_int_equal(culm_file_read(NULL, path, 1 << 20, &text, &len, &error), CULM_OK);
    assert_non_null(strstr(text, "   \"file\": \"interval-12.safetensors\",\n"
                                 "   \"interval\": 12,\n   \"node\": 41,\n"));
    /* A file named after one owner is not another's. */
    char *at = strstr(text, "\"interval\": 12");
    memcpy(at, "\"interval\": 13", strlen("\"interval\": 13"));
    assert_int_equal(culm_file_replace(NULL, path, text, len, &error), CULM_OK);
    snprintf(path, sizeof path, "%s/checkpoints/step-00000020", dir);
    assert_int_equal(culm_checkpoint_open(path, true, &checkpoint, &error), CULM_ERR_FORMAT);
    assert_non_null(strstr(error.text, "a piece and its file name different owners"));
    free(text);
    temp_dir_drop(dir);
}

/* The bytes that checkpoints of pipelines have had from the first one on. */
static void test_the_manifest_of_stages(void **state) {
    (void)state;
    char dir[64], path[256], *text;
    size_t len;
    temp_dir_make(dir);
    publish(dir, 20);
    snprintf(path, sizeof path, "%s/checkpoints/step-00000020/manifest.json", dir);
    assert_int_equal(culm_file_read(NULL, path, 1 << 20, &text, &len, NULL), CULM_OK);
    assert_non_null(strstr(text, "  {\n   \"file\": \"stage-1.safetensors\",\n   \"stage\": 1,\n"
                                 "   \"node\": 10,\n   \"bytes\": "));
    free(text);
    snprintf(path, sizeof path, "%s/checkpoints/step-00000020/stage-1.safetensors", dir);
    assert_int_equal(culm_file_read(NULL, path, 1 << 20, &text, &len, NULL), CULM_OK);
    assert_non_null(memmem(text, len, "{\"format\":\"pt\",\"step\":\"20\",\"stage\":\"1\"}",
                           strlen("{\"format\":\"pt\",\"step\":\"20\",\"stage\":\"1\"}")));
    free(text);
    temp_dir_drop(dir);
}

static void test_publish_refuses(void **state) {
    (void)state;
    char dir[64], path[256];
    struct culm_error error = {0};
    struct culm_piece pieces[3];
    temp_dir_make(dir);
    sample_init(&sample, 20);
    for (int s = 0; s < 3; s++) {
        assert_int_equal(culm_checkpoint_write_piece(NULL, dir, 20, owner(s), s, sample.tensors[s],
                                                     SAMPLE_TENSORS, NULL, &pieces[s], &error),
                         CULM_OK);
    }
    assert_int_equal(culm_checkpoint_publish(NULL, dir, &sample.info, pieces, 0, &error),
                     CULM_ERR_ARGUMENT);
    struct culm_piece twice[2] = {pieces[0], pieces[0]};
    assert_int_equal(culm_checkpoint_publish(NULL, dir, &sample.info, twice, 2, &error),
                     CULM_ERR_ARGUMENT);
    /* a writer that names somebody else's file */
    struct culm_piece astray[3] = {pieces[0], pieces[1], pieces[2]};
    snprintf(path, sizeof path, "%s/kept", dir);
    FILE *kept = fopen(path, "w");
    assert_non_null(kept);
    fclose(kept);
    snprintf(astray[0].file, sizeof astray[0].file, "../../kept");
    assert_int_equal(culm_checkpoint_publish(NULL, dir, &sample.info, astray, 3, &error),
                     CULM_ERR_ARGUMENT);
    assert_non_null(strstr(error.text, "'../../kept' is not the piece of 'stage-0' by node 0"));
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(culm_checkpoint_discard(NULL, dir, 20, &error), CULM_OK);
    assert_int_equal(culm_checkpoint_discard(NULL, dir, 20, &error), CULM_OK); /* gone is fine */
    assert_int_equal(culm_checkpoint_publish(NULL, dir, &sample.info, pieces, 3, &error),
                     CULM_ERR_NOT_FOUND);
    /* a tied tensor given by two stages */
    const struct culm_tensor_ref tied = {
        "transformer.wte.weight", 2, {4, 6}, sample.data[0][0], NULL};
    for (int s = 0; s < 2; s++) {
        assert_int_equal(culm_checkpoint_write_piece(NULL, dir, 20, owner(s), s, &tied, 1, NULL,
                                                     &pieces[s], &error),
                         CULM_OK);
    }
    assert_int_equal(culm_checkpoint_publish(NULL, dir, &sample.info, pieces, 2, &error),
                     CULM_ERR_FORMAT);
    assert_non_null(strstr(error.text, "'transformer.wte.weight' is stored twice"));
    assert_int_equal(culm_checkpoint_discard(NULL, dir, 20, &error), CULM_OK);
    /* a piece cut after its writer said it was done */
    for (int s = 0; s < 3; s++) {
        assert_int_equal(culm_checkpoint_write_piece(NULL, dir, 20, owner(s), s, sample.tensors[s],
                                                     SAMPLE_TENSORS, NULL, &pieces[s], &error),
                         CULM_OK);
    }
    snprintf(path, sizeof path, "%s/checkpoints/.tmp-step-00000020/%s", dir, pieces[1].file);
    assert_int_equal(truncate(path, 50), 0);
    assert_int_equal(culm_checkpoint_publish(NULL, dir, &sample.info, pieces, 3, &error),
                     CULM_ERR_FORMAT);
    assert_int_equal(latest(dir, false, NULL), -1);
    temp_dir_drop(dir);
}

static void test_a_lost_writers_piece_goes(void **state) {
    (void)state;
    EXPECT_MARK(store_piece_of_nobody_goes);
    char dir[64], path[256];
    struct culm_piece stray;
    temp_dir_make(dir);
    sample_init(&sample, 20);
    assert_int_equal(culm_checkpoint_write_piece(NULL, dir, 20, "stage-1", 99, sample.tensors[1], 2,
                                                 NULL, &stray, NULL),
                     CULM_OK);
    assert_string_equal(stray.file, "stage-1.node-99.safetensors");
    publish(dir, 20);
    struct culm_names names;
    snprintf(path, sizeof path, "%s/checkpoints/step-00000020", dir);
    assert_int_equal(culm_dir_list(path, &names, NULL), CULM_OK);
    assert_int_equal(names.count, SAMPLE_STAGES + 1);
    culm_names_release(&names);
    sample_expect(path, &sample);
    temp_dir_drop(dir);
}

/* The hashes do not know of stages: three pieces, one piece, and by hand: SHA-256 over the tensors
 * sorted by name. */
static void test_hashes_and_other_stage_counts(void **state) {
    (void)state;
    char dir[64], one[128], path[CULM_PATH_MAX], expected[2][CULM_SHA256_HEX];
    char weights[2][CULM_SHA256_HEX], states[2][CULM_SHA256_HEX];
    struct culm_checkpoint *checkpoint = NULL;
    struct culm_piece piece;
    struct culm_error error = {0};
    temp_dir_make(dir);
    publish(dir, 20);
    snprintf(one, sizeof one, "%s/one", dir);
    /* all in one stage, in another order */
    struct culm_tensor_ref all[SAMPLE_STAGES * SAMPLE_TENSORS];
    for (int i = 0; i < SAMPLE_STAGES * SAMPLE_TENSORS; i++) {
        int at = SAMPLE_STAGES * SAMPLE_TENSORS - 1 - i;
        all[i] = sample.tensors[at / SAMPLE_TENSORS][at % SAMPLE_TENSORS];
    }
    assert_int_equal(culm_checkpoint_write_piece(NULL, one, 20, "stage-0", 0, all,
                                                 SAMPLE_STAGES * SAMPLE_TENSORS, NULL, &piece,
                                                 &error),
                     CULM_OK);
    assert_int_equal(culm_checkpoint_publish(NULL, one, &sample.info, &piece, 1, &error), CULM_OK);
    for (int i = 0; i < 2; i++) {
        culm_checkpoint_path(i ? one : dir, 20, path, NULL);
        sample_expect(path, &sample);
        assert_int_equal(culm_checkpoint_open(path, true, &checkpoint, &error), CULM_OK);
        assert_int_equal(culm_checkpoint_hashes(checkpoint, weights[i], states[i], &error),
                         CULM_OK);
        float data[24];
        const int64_t wrong[2] = {6, 4};
        assert_int_equal(culm_checkpoint_tensor(checkpoint, "transformer.h.0.attn.weight", 2, wrong,
                                                data, &error),
                         CULM_ERR_FORMAT);
        assert_int_equal(culm_checkpoint_tensor(checkpoint, "transformer.h.9.attn.weight", 2, wrong,
                                                data, &error),
                         CULM_ERR_NOT_FOUND);
        assert_null(culm_checkpoint_find(checkpoint, "transformer.h.9.attn.weight"));
        assert_non_null(culm_checkpoint_find(checkpoint, "transformer.h.2.attn.weight"));
        culm_checkpoint_close(checkpoint);
    }
    /* by hand: bias sorts before weight; within each, .exp_avg before .exp_avg_sq */
    for (int h = 0; h < 2; h++) {
        static const int order[2][4] = {{3, 0, -1, -1}, {4, 5, 1, 2}};
        struct culm_sha256 hash;
        assert_int_equal(culm_sha256_init(&hash), CULM_OK);
        for (int s = 0; s < SAMPLE_STAGES; s++) {
            for (int i = 0; i < 4 && order[h][i] >= 0; i++) {
                const struct culm_tensor_ref *ref = &sample.tensors[s][order[h][i]];
                culm_sha256_update(&hash, ref->name, strlen(ref->name) + 1);
                culm_sha256_update(&hash, ref->data, 24 * 4);
            }
        }
        if (h == 1) {
            culm_sha256_update(&hash, "\x14\0\0\0\0\0\0\0", 8);
        }
        assert_int_equal(culm_sha256_final(&hash, expected[h]), CULM_OK);
    }
    for (int i = 0; i < 2; i++) {
        assert_string_equal(weights[i], expected[0]);
        assert_string_equal(states[i], expected[1]);
    }
    temp_dir_drop(dir);
}

static void test_exported_model(void **state) {
    (void)state;
    char dir[64], path[CULM_PATH_MAX], model[128];
    struct culm_checkpoint *checkpoint = NULL;
    struct culm_safetensors *file = NULL;
    temp_dir_make(dir);
    publish(dir, 20);
    culm_checkpoint_path(dir, 20, path, NULL);
    snprintf(model, sizeof model, "%s/model.safetensors", dir);
    assert_int_equal(culm_checkpoint_open(path, true, &checkpoint, NULL), CULM_OK);
    assert_int_equal(culm_checkpoint_export_model(NULL, checkpoint, model, NULL), CULM_OK);
    assert_int_equal(culm_safetensors_open(model, &file, NULL), CULM_OK);
    assert_int_equal(culm_safetensors_count(file), 2 * SAMPLE_STAGES);
    assert_string_equal(culm_safetensors_metadata(file, "format"), "pt");
    for (int s = 0; s < SAMPLE_STAGES; s++) {
        for (int t = 0; t < SAMPLE_TENSORS; t += 3) {
            const struct culm_tensor_ref *ref = &sample.tensors[s][t];
            float data[24];
            assert_int_equal(
                culm_safetensors_read(file, ref->name, ref->rank, ref->shape, data, NULL), CULM_OK);
            assert_memory_equal(data, ref->data, sizeof data);
        }
    }
    culm_safetensors_close(file);
    culm_checkpoint_close(checkpoint);
    temp_dir_drop(dir);
}

static void test_full_disk(void **state) {
    (void)state;
    char dir[64], warning[CULM_ERROR_MAX];
    struct culm_error error = {0};
    temp_dir_make(dir);
    small_disk(dir, "size=1m");
    publish(dir, 20);
    int64_t count = 400000;
    float *large = calloc((size_t)count, 4);
    const struct culm_tensor_ref tensor = {"large", 1, {count}, large, NULL};
    struct culm_piece piece;
    assert_int_equal(
        culm_checkpoint_write_piece(NULL, dir, 40, "stage-0", 0, &tensor, 1, NULL, &piece, &error),
        CULM_ERR_IO);
    assert_non_null(strstr(error.text, "No space left on device; free some space there"));
    assert_int_equal(culm_status_exit_code(error.status), 4);
    assert_int_equal(latest(dir, true, warning), 20);
    assert_string_equal(warning, "");
    /* the space of what failed is free again, and the run goes on */
    publish(dir, 40);
    assert_int_equal(latest(dir, true, NULL), 40);
    free(large);
    assert_int_equal(umount(dir), 0);
    temp_dir_drop(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_latest_of_nothing),
        cmocka_unit_test(test_broken_ones_are_skipped),
        cmocka_unit_test(test_only_the_piece_that_is_read_is_hashed),
        cmocka_unit_test(test_flipped_manifests_are_survived),
        cmocka_unit_test(test_prune_keeps_what_counts),
        cmocka_unit_test(test_one_set_aside_comes_back),
        cmocka_unit_test(test_steps_beyond_eight_digits),
        cmocka_unit_test(test_owners_have_names),
        cmocka_unit_test(test_owners_of_other_kinds),
        cmocka_unit_test(test_the_manifest_of_stages),
        cmocka_unit_test(test_publish_refuses),
        cmocka_unit_test(test_a_lost_writers_piece_goes),
        cmocka_unit_test(test_hashes_and_other_stage_counts),
        cmocka_unit_test(test_exported_model),
        cmocka_unit_test(test_full_disk),
    };
    return cmocka_run_group_tests_name("store/checkpoint", tests, NULL, NULL);
}
