/* Old and new frames in one file: both kinds, evenly spaced, in their order, also in the last part of it; no more than there may be. */
#include "run/merge_mix.h"
#include "../folder.h"
#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define OLD_LEVEL 0
#define NEW_LEVEL 128

/* `count` grey pictures, which go from level to level + 127. */
static void put_images(const char *path, int count, int side, int level) {
    const size_t one = (size_t)(side * side), len = 16 + one * (size_t)count;
    uint8_t *file = calloc(1, len);
    struct culm_error error;
    assert_non_null(file);
    const int dims[] = {count, side, side};
    file[2] = 8;
    file[3] = 3;
    for (int d = 0; d < 3; d++) {
        file[6 + 4 * d] = (uint8_t)(dims[d] >> 8);
        file[7 + 4 * d] = (uint8_t)dims[d];
    }
    for (int i = 0; i < count; i++) {
        memset(file + 16 + (size_t)i * one, level + i * 127 / count, one);
    }
    assert_int_equal(culm_file_replace(NULL, path, file, len, &error), CULM_OK);
    free(file);
}

static bool asked(const void *ctx) { return *(const bool *)ctx; }

static void mixes(int old_count, int new_count, int want_old, int want_new) {
    char old[CULM_PATH_MAX], fresh[CULM_PATH_MAX], mixed[CULM_PATH_MAX];
    char *data;
    size_t len;
    struct culm_error error;
    struct culm_merge_mixed got;
    snprintf(old, sizeof old, "%s/old", folder);
    snprintf(fresh, sizeof fresh, "%s/fresh", folder);
    snprintf(mixed, sizeof mixed, "%s/mixed", folder);
    put_images(old, old_count, 12, OLD_LEVEL); /* of another size than the model reads */
    put_images(fresh, new_count, 8, NEW_LEVEL);
    const struct culm_feed_config feed = {.name = "f", .file = old, .stall_ms = 1000};
    const struct culm_vision_input input = {.width = 8, .height = 8, .channels = 1};
    bool stopped = false;
    const struct culm_stop stop = {asked, &stopped};
    if (culm_merge_mix(&feed, fresh, &input, mixed, &stop, &got, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(got.old_frames, want_old);
    assert_int_equal(got.new_frames, want_new);
    const int count = want_old + want_new;
    assert_int_equal(culm_merge_mix_count(mixed), count);
    assert_int_equal(culm_file_read(NULL, mixed, 1 << 24, &data, &len, &error), CULM_OK);
    assert_int_equal(len, 16 + 64 * count);
    int olds = 0, last_old = -1, last_new = -1, late_olds = 0;
    for (int i = 0; i < count; i++) {
        const int level = (uint8_t)data[16 + 64 * i + 9];
        int *last = level < NEW_LEVEL ? &last_old : &last_new;
        assert_true(level >= *last);
        *last = level;
        olds += level < NEW_LEVEL;
        late_olds += level < NEW_LEVEL && i >= count * 7 / 10;
    }
    assert_int_equal(olds, want_old);
    assert_in_range(late_olds, count * 3 / 10 * want_old / count - 1,
                    count * 3 / 10 * want_old / count + 2);
    assert_true(last_old >= 120 && last_new >= NEW_LEVEL + 115);
    free(data);
    stopped = true;
    assert_int_equal(unlink(mixed), 0);
    assert_int_equal(culm_merge_mix(&feed, fresh, &input, mixed, &stop, &got, &error),
                     CULM_ERR_STOPPED);
    assert_false(culm_file_exists(mixed));
    stopped = false;
    put_images(fresh, 0, 8, NEW_LEVEL);
    assert_int_equal(culm_merge_mix(&feed, fresh, &input, mixed, &stop, &got, &error),
                     CULM_ERR_FORMAT);
    assert_int_equal(unlink(old), 0);
    put_images(fresh, 20, 8, NEW_LEVEL);
    assert_int_equal(culm_merge_mix(&feed, fresh, &input, mixed, &stop, &got, &error),
                     CULM_ERR_CONFIG);
    assert_false(culm_file_exists(mixed));
}

static void test_mixes(void **state) {
    (void)state;
    mixes(30, 64, 30, 64);
    mixes(2000, 30, CULM_MERGE_MIX_FRAMES - 30, 30);
    mixes(2000, 700, CULM_MERGE_MIX_FRAMES / 2, CULM_MERGE_MIX_FRAMES / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mixes)};
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
