/* Room for checkpoints: what gives way and what never does, what is told, what is held and rescued. */
#include "expect_mark.h"

#include "base/room.h"
#include "sample.h"
#include "store/checkpoint_room.h"
#include "store/weights.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cmocka.h>

#define NEVER_FITS (UINT64_MAX / 2)

static struct sample sample;

static void publish(const char *dir, int64_t step) {
    struct culm_error error = {0};
    sample_init(&sample, step);
    if (sample_publish(NULL, dir, &sample, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
}

/* One piece, of the two parameters of a stage without their states. */
static void publish_weights(const char *dir, int64_t step) {
    struct culm_error error = {0};
    struct culm_piece piece;
    sample_init(&sample, step);
    const struct culm_tensor_ref weights[] = {sample.tensors[0][0], sample.tensors[0][3]};
    assert_int_equal(culm_checkpoint_write_piece(NULL, dir, step, "stage-0", 0, weights, 2, NULL,
                                                 &piece, &error),
                     CULM_OK);
    if (culm_checkpoint_publish_weights(NULL, dir, &sample.info, &piece, 1, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
}

static bool there(const char *dir, int64_t step) {
    char path[CULM_PATH_MAX];
    assert_int_equal(culm_checkpoint_path(dir, step, path, NULL), CULM_OK);
    return culm_file_is_directory(path);
}

static void break_one(const char *dir, int64_t step) {
    char path[CULM_PATH_MAX];
    snprintf(path, sizeof path, "%s/checkpoints/step-%08lld/stage-0.safetensors", dir,
             (long long)step);
    assert_int_equal(truncate(path, 10), 0);
}

static void test_texts_round_to_the_safe_side(void **state) {
    (void)state;
    char text[CULM_ROOM_TEXT];
    culm_room_text(21600001, text);
    assert_string_equal(text, "21.7 MB");
    culm_room_text_of_free(21699999, text);
    assert_string_equal(text, "21.6 MB");
    culm_room_text(1, text);
    assert_string_equal(text, "1 kB");
    culm_room_text_of_free(999, text);
    assert_string_equal(text, "0 kB");
    assert_int_equal(culm_room_of_file(0), 4096);
    assert_int_equal(culm_room_of_file(4097), 3 * 4096);
}

static void test_room_is_that_of_the_folder_above(void **state) {
    (void)state;
    char dir[64], below[128];
    uint64_t here, deeper;
    struct culm_error error = {0};
    temp_dir_make(dir);
    snprintf(below, sizeof below, "%s/not/yet/there", dir);
    assert_int_equal(culm_room_free(dir, &here, &error), CULM_OK);
    assert_int_equal(culm_room_free(below, &deeper, &error), CULM_OK);
    assert_true(here > 0 && deeper > 0);
    assert_int_equal(culm_room_check(below, 1, "a file", &error), CULM_OK);
    assert_int_equal(culm_room_check(below, NEVER_FITS, "a file", &error), CULM_ERR_IO);
    assert_non_null(strstr(error.text, "a file takes "));
    assert_non_null(strstr(error.text, "; free "));
    temp_dir_drop(dir);
}

static void test_all_but_the_newest_whole_one_give_way(void **state) {
    (void)state;
    EXPECT_MARK(store_older_one_gives_way);
    char dir[64];
    struct culm_checkpoint_room room;
    struct culm_error error = {0};
    temp_dir_make(dir);
    for (int64_t step = 10; step <= 40; step += 10) {
        publish(dir, step);
    }
    break_one(dir, 40); /* which is not whole: the newest whole one is before it */
    assert_int_equal(culm_checkpoint_make_room(NULL, dir, 1, false, &room, &error), CULM_OK);
    assert_true(room.fits && room.given_way == 0 && there(dir, 10));
    assert_int_equal(culm_checkpoint_make_room(NULL, dir, 1, true, &room, &error), CULM_OK);
    assert_true(room.fits && room.given_way == 1);
    assert_false(there(dir, 10));
    assert_true(there(dir, 20));
    assert_int_equal(culm_checkpoint_make_room(NULL, dir, NEVER_FITS, false, &room, &error),
                     CULM_OK);
    assert_true(!room.fits && room.given_way == 1);
    assert_false(there(dir, 20));
    assert_true(there(dir, 30));
    assert_int_equal(culm_checkpoint_make_room(NULL, dir, NEVER_FITS, true, &room, &error),
                     CULM_OK);
    assert_int_equal(room.given_way, 0);
    assert_true(there(dir, 30)); /* never the last whole one */
    temp_dir_drop(dir);
}

static void test_a_run_without_checkpoints_has_nothing_to_give(void **state) {
    (void)state;
    char dir[64];
    struct culm_checkpoint_room room;
    temp_dir_make(dir);
    assert_int_equal(culm_checkpoint_make_room(NULL, dir, NEVER_FITS, true, &room, NULL), CULM_OK);
    assert_true(!room.fits && room.given_way == 0);
    temp_dir_drop(dir);
}

static void test_what_is_told_is_told_once(void **state) {
    (void)state;
    char dir[64], note[CULM_ERROR_MAX];
    int told = 0;
    temp_dir_make(dir);
    publish(dir, 10);
    assert_true(culm_checkpoint_look_ahead(dir, 1, false, &told, note));
    assert_string_equal(note, "");
    assert_false(culm_checkpoint_look_ahead(dir, NEVER_FITS, false, &told, note));
    assert_non_null(strstr(note, "the next checkpoint takes"));
    assert_non_null(strstr(note, "; free "));
    assert_false(culm_checkpoint_look_ahead(dir, NEVER_FITS, false, &told, note));
    assert_string_equal(note, "");
    assert_true(culm_checkpoint_look_ahead(dir, 1, false, &told, note));
    assert_string_equal(note, "");
    assert_false(culm_checkpoint_look_ahead(dir, NEVER_FITS, false, &told, note));
    assert_non_null(strstr(note, "the next checkpoint takes")); /* it has got worse again */
    temp_dir_drop(dir);
}

static void test_a_run_is_told_before_it_starts(void **state) {
    (void)state;
    char dir[64], note[CULM_ERROR_MAX];
    uint64_t here;
    temp_dir_make(dir);
    culm_checkpoint_room_note(dir, 1000, 1000, 2, note);
    assert_string_equal(note, "");
    assert_int_equal(culm_room_free(dir, &here, NULL), CULM_OK);
    culm_checkpoint_room_note(dir, here / 2, 1000, 2, note); /* one fits, and two do not */
    assert_non_null(strstr(note, "older checkpoints give way before"));
    culm_checkpoint_room_note(dir, here, here, 0, note);
    assert_non_null(strstr(note, "there is no room for both"));
    temp_dir_drop(dir);
}

static void test_weights_alone_are_no_checkpoint(void **state) {
    (void)state;
    EXPECT_MARK(store_newest_are_weights_alone);
    char dir[64], path[CULM_PATH_MAX] = "", want[CULM_PATH_MAX];
    struct culm_error error = {0};
    struct culm_weights_place place = {0};
    temp_dir_make(dir);
    publish_weights(dir, 30);
    assert_int_equal(culm_checkpoint_weights_path(dir, 30, want, NULL), CULM_OK);
    int64_t step;
    assert_int_equal(culm_checkpoint_latest(dir, true, &step, path, NULL, &error),
                     CULM_ERR_NOT_FOUND);
    assert_false(culm_checkpoint_latest_weights(dir, 30, path));
    assert_true(culm_checkpoint_latest_weights(dir, 29, path));
    assert_string_equal(path, want);
    assert_int_equal(culm_weights_locate(dir, NULL, &place, &error), CULM_OK);
    assert_string_equal(place.path, want); /* but they are the run's weights */
    publish(dir, 20);
    assert_int_equal(culm_checkpoint_latest(dir, true, &step, path, NULL, &error), CULM_OK);
    assert_int_equal(step, 20);
    assert_int_equal(culm_checkpoint_clean(NULL, dir, &error), CULM_OK);
    assert_int_equal(culm_checkpoint_prune(NULL, dir, 20, 1, &error), CULM_OK);
    assert_true(culm_file_is_directory(want)); /* of a later step: they stay */
    publish(dir, 30);
    assert_int_equal(culm_checkpoint_prune(NULL, dir, 30, 1, &error), CULM_OK);
    assert_false(culm_file_is_directory(want));
    temp_dir_drop(dir);
}

/* The lock of a run at work, as launch/rundir.c has it. */
static int take(const char *dir) {
    char path[128];
    snprintf(path, sizeof path, "%s/lock", dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    assert_true(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0);
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(pwrite(fd, "4711\n", 5, 0), 5);
    return fd;
}

static void test_what_is_held_and_asked_for(void **state) {
    (void)state;
    char dir[64], to[CULM_PATH_MAX] = "", text[64] = "";
    struct culm_error error = {0};
    int64_t step = -1;
    temp_dir_make(dir);
    assert_int_equal(culm_rescue_holds(dir, &step, &error), CULM_ERR_NOT_FOUND);
    int fd = take(dir);
    assert_int_equal(culm_rescue_holds(dir, &step, &error), CULM_ERR_NOT_FOUND);
    assert_non_null(strstr(error.text, "holds no step"));
    assert_int_equal(culm_rescue_hold(dir, 40, 21600000, &error), CULM_OK);
    assert_int_equal(culm_rescue_hold(dir, 40, 21600000, &error), CULM_OK); /* again is fine */
    assert_int_equal(culm_rescue_holds(dir, &step, &error), CULM_OK);
    assert_int_equal(step, 40);
    assert_false(culm_rescue_asked(dir, to));
    assert_int_equal(culm_rescue_ask(dir, "/some/where", &error), CULM_OK);
    assert_int_equal(culm_rescue_ask(dir, "/some/where", &error), CULM_OK);
    assert_int_equal(culm_rescue_ask(dir, "/else/where", &error), CULM_ERR_EXISTS);
    assert_int_equal(culm_rescue_ask(dir, "/some", &error), CULM_ERR_EXISTS);
    assert_int_equal(culm_rescue_hold(dir, 40, 21600000, &error), CULM_OK); /* keeps it */
    assert_true(culm_rescue_asked(dir, to));
    assert_string_equal(to, "/some/where");
    culm_rescue_over(dir);
    assert_false(culm_rescue_asked(dir, to));
    assert_int_equal(culm_rescue_holds(dir, &step, &error), CULM_ERR_NOT_FOUND);
    assert_int_equal(pread(fd, text, sizeof text - 1, 0), 5);
    assert_string_equal(text, "4711\n"); /* whose lock it is stays */
    assert_int_equal(culm_rescue_hold(dir, 41, 1, &error), CULM_OK);
    close(fd); /* the process has ended */
    assert_int_equal(culm_rescue_holds(dir, &step, &error), CULM_ERR_NOT_FOUND);
    assert_non_null(strstr(error.text, "no run is at work"));
    temp_dir_drop(dir);
}

static void test_room_of_a_step_that_is_held(void **state) {
    (void)state;
    EXPECT_MARK(store_weights_alone_are_saved);
    EXPECT_MARK(store_folder_asked_for_is_too_small);
    EXPECT_MARK(store_rescued_to_the_folder_asked_for);
    char dir[64], other[64], to[CULM_PATH_MAX], note[CULM_ERROR_MAX];
    temp_dir_make(dir);
    temp_dir_make(other);
    int fd = take(dir);
    assert_int_equal(culm_rescue_look(dir, "step", 40, NEVER_FITS, NEVER_FITS, false, to, note),
                     CULM_ROOM_NOTHING);
    assert_string_equal(to, "");
    assert_non_null(strstr(note, "the checkpoint of step 40 takes"));
    assert_non_null(strstr(note, "culm ckpt rescue"));
    assert_int_equal(culm_rescue_look(dir, "step", 40, NEVER_FITS, 1, false, to, note),
                     CULM_ROOM_WEIGHTS);
    assert_non_null(strstr(note, "beside the weights alone"));
    publish_weights(dir, 40);
    assert_int_equal(culm_rescue_look(dir, "step", 40, NEVER_FITS, 1, false, to, note),
                     CULM_ROOM_NOTHING); /* these are saved */
    assert_int_equal(culm_rescue_ask(dir, other, NULL), CULM_OK);
    assert_int_equal(culm_rescue_look(dir, "step", 40, NEVER_FITS, 1, false, to, note),
                     CULM_ROOM_NOTHING);
    assert_non_null(strstr(note, other)); /* too little there, too */
    assert_int_equal(culm_rescue_look(dir, "step", 40, 1, 1, true, to, note), CULM_ROOM_ALL);
    assert_string_equal(to, other);
    close(fd);
    temp_dir_drop(other);
    temp_dir_drop(dir);
}

/* A node may still have been writing its part of an earlier checkpoint when that was given up. */
static void test_what_late_writers_left_takes_no_room(void **state) {
    (void)state;
    char dir[64], path[CULM_PATH_MAX], to[CULM_PATH_MAX], note[CULM_ERROR_MAX];
    temp_dir_make(dir);
    int fd = take(dir);
    struct culm_piece piece;
    sample_init(&sample, 38);
    for (int64_t step = 38; step <= 40; step += 2) {
        assert_int_equal(culm_checkpoint_write_piece(NULL, dir, step, "stage-0", 0,
                                                     sample.tensors[0], 1, NULL, &piece, NULL),
                         CULM_OK);
    }
    assert_int_equal(culm_rescue_look(dir, "step", 40, NEVER_FITS, NEVER_FITS, false, to, note),
                     CULM_ROOM_NOTHING);
    snprintf(path, sizeof path, "%s/checkpoints/.tmp-step-00000038", dir);
    assert_false(culm_file_is_directory(path));
    snprintf(path, sizeof path, "%s/checkpoints/.tmp-step-00000040", dir);
    assert_true(culm_file_is_directory(path)); /* that one is being written */
    close(fd);
    temp_dir_drop(dir);
}

/* What is resumed finds what was saved elsewhere, and pruning leaves that where it is. */
static void test_a_link_leads_elsewhere(void **state) {
    (void)state;
    char dir[64], other[64], path[CULM_PATH_MAX], warning[CULM_ERROR_MAX];
    struct culm_error error = {0};
    int64_t step = -1;
    temp_dir_make(dir);
    temp_dir_make(other);
    publish(other, 40);
    assert_int_equal(culm_rescue_link(NULL, dir, other, 40, &error), CULM_OK);
    assert_int_equal(culm_rescue_link(NULL, dir, other, 40, &error), CULM_OK);
    assert_int_equal(culm_checkpoint_clean(NULL, dir, &error), CULM_OK);
    assert_int_equal(culm_checkpoint_latest(dir, true, &step, path, warning, &error), CULM_OK);
    assert_int_equal(step, 40);
    assert_string_equal(warning, "");
    publish(dir, 50);
    assert_int_equal(culm_checkpoint_prune(NULL, dir, 50, 1, &error), CULM_OK);
    assert_false(there(dir, 40));
    assert_true(there(other, 40));
    temp_dir_drop(other);
    temp_dir_drop(dir);
}

/* What stands in the place of a link, or of a checkpoint, gives way: a link to a folder that is gone, a
 * damaged checkpoint, the model of before. */
static void test_what_is_in_the_way(void **state) {
    (void)state;
    EXPECT_MARK(store_link_takes_the_place_of_a_folder);
    char dir[64], other[64], gone[64], path[CULM_PATH_MAX], to[CULM_PATH_MAX];
    struct culm_error error = {0};
    temp_dir_make(dir);
    temp_dir_make(other);
    temp_dir_make(gone);
    publish(gone, 40);
    assert_int_equal(culm_rescue_link(NULL, dir, gone, 40, &error), CULM_OK);
    temp_dir_drop(gone); /* its volume is not mounted */
    assert_false(there(dir, 40));
    publish(dir, 40);
    assert_true(there(dir, 40));
    assert_int_equal(culm_checkpoint_path(dir, 40, path, NULL), CULM_OK);
    assert_true(readlink(path, to, sizeof to) < 0); /* no link any more */
    publish(other, 40);
    assert_int_equal(culm_rescue_link(NULL, dir, other, 40, &error), CULM_OK);
    assert_true(readlink(path, to, sizeof to) > 0);
    assert_true(there(dir, 40));
    temp_dir_drop(other);
    temp_dir_make(other);
    publish(other, 40);
    assert_int_equal(culm_rescue_link(NULL, dir, other, 40, &error), CULM_OK);
    assert_true(there(dir, 40)); /* not the stale one */
    temp_dir_drop(other);
    temp_dir_drop(dir);
}

/* A folder that cannot be written is as if it had not been named; one with too long a name is refused. */
static void test_folders_that_are_of_no_use(void **state) {
    (void)state;
    char dir[64], to[CULM_PATH_MAX], note[CULM_ERROR_MAX], long_one[CULM_RESCUE_PATH_MAX + 1];
    struct culm_error error;
    temp_dir_make(dir);
    int fd = take(dir);
    memset(long_one, 'x', sizeof long_one - 1);
    long_one[0] = '/';
    long_one[sizeof long_one - 1] = '\0';
    assert_int_equal(culm_rescue_ask(dir, long_one, &error), CULM_ERR_ARGUMENT);
    assert_int_equal(culm_rescue_ask(dir, "/nowhere/at/all", NULL), CULM_OK);
    assert_int_equal(culm_rescue_look(dir, "step", 40, 1, 1, true, to, note), CULM_ROOM_ALL);
    assert_string_equal(to, ""); /* there is room in its own */
    assert_int_equal(culm_rescue_look(dir, "step", 40, NEVER_FITS, NEVER_FITS, true, to, note),
                     CULM_ROOM_NOTHING);
    assert_null(strstr(note, "18446744073709"));
    close(fd);
    temp_dir_drop(dir);
}

/* The model finds no room where the run is: it goes to the folder that is named, and a link leads there. */
static void test_a_model_without_room(void **state) {
    (void)state;
    char dir[64], other[64], path[CULM_PATH_MAX], model[128], to[128], want[128];
    char weights[CULM_SHA256_HEX], hash[CULM_SHA256_HEX];
    struct culm_error error = {0};
    int64_t step = -1;
    temp_dir_make(dir);
    small_disk(dir, "size=8k");
    EXPECT_MARK(store_model_has_no_room);
    EXPECT_MARK(store_model_is_in_the_folder_asked_for);
    temp_dir_make(other);
    publish(other, 40);
    int fd = take(dir);
    assert_int_equal(culm_checkpoint_path(other, 40, path, NULL), CULM_OK);
    assert_int_equal(culm_rescue_conclude(path, dir, 40, weights, hash, &error), CULM_ERR_IO);
    assert_non_null(strstr(error.text, "the model takes"));
    assert_int_equal(culm_rescue_holds(dir, &step, &error), CULM_OK);
    assert_int_equal(step, 40);
    assert_int_equal(culm_rescue_ask(dir, other, &error), CULM_OK);
    assert_int_equal(culm_rescue_conclude(path, dir, 40, weights, hash, &error), CULM_OK);
    snprintf(model, sizeof model, "%s/model.safetensors", dir);
    snprintf(want, sizeof want, "%s/model.safetensors", other);
    ssize_t len = readlink(model, to, sizeof to - 1);
    assert_true(len > 0);
    to[len] = '\0';
    assert_string_equal(to, want);
    assert_true(culm_file_exists(model));
    assert_int_equal(culm_rescue_holds(dir, &step, &error), CULM_ERR_NOT_FOUND);
    close(fd);
    temp_dir_drop(other);
    assert_int_equal(umount(dir), 0);
    temp_dir_drop(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_round_to_the_safe_side),
        cmocka_unit_test(test_room_is_that_of_the_folder_above),
        cmocka_unit_test(test_all_but_the_newest_whole_one_give_way),
        cmocka_unit_test(test_a_run_without_checkpoints_has_nothing_to_give),
        cmocka_unit_test(test_what_is_told_is_told_once),
        cmocka_unit_test(test_a_run_is_told_before_it_starts),
        cmocka_unit_test(test_weights_alone_are_no_checkpoint),
        cmocka_unit_test(test_what_is_held_and_asked_for),
        cmocka_unit_test(test_room_of_a_step_that_is_held),
        cmocka_unit_test(test_what_late_writers_left_takes_no_room),
        cmocka_unit_test(test_a_link_leads_elsewhere),
        cmocka_unit_test(test_what_is_in_the_way),
        cmocka_unit_test(test_folders_that_are_of_no_use),
        cmocka_unit_test(test_a_model_without_room),
    };
    return cmocka_run_group_tests_name("store/room", tests, NULL, NULL);
}
