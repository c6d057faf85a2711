/*
 * Every file operation of writing, publishing and pruning fails in turn, in three ways. Whatever
 * happens, the newest checkpoint can be read and is the old or the new one, and once publishing
 * said ok it is the new one; afterwards the run can clean up and go on.
 */
#include "expect_mark.h"

#include "fault_fs.h"
#include "sample.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct sample before, after; /* large for a stack frame; set anew by every test */

static void expect_latest(const char *dir, bool must_be_after, const char *when) {
    char path[CULM_PATH_MAX];
    struct culm_error error = {0};
    int64_t step;
    if (culm_checkpoint_latest(dir, true, &step, path, NULL, &error) != CULM_OK) {
        fail_msg("%s: %s", when, error.text);
    }
    bool is_after = step == after.info.step;
    if (is_after && before.info.step == after.info.step) {
        struct culm_checkpoint *checkpoint = NULL;
        assert_int_equal(culm_checkpoint_open(path, false, &checkpoint, NULL), CULM_OK);
        is_after = culm_checkpoint_info_of(checkpoint)->samples == after.info.samples;
        culm_checkpoint_close(checkpoint);
    }
    if (must_be_after && !is_after) {
        fail_msg("%s: published, yet the newest is step %d", when, (int)step);
    }
    sample_expect(path, is_after ? &after : &before);
}

/* Nobody may ever see half a checkpoint under a published name, an older one included. */
static void expect_published_are_whole(const char *dir, const char *when) {
    char path[256];
    struct culm_names names;
    snprintf(path, sizeof path, "%s/checkpoints", dir);
    assert_int_equal(culm_dir_list(path, &names, NULL), CULM_OK);
    for (size_t i = 0; i < names.count; i++) {
        struct culm_checkpoint *checkpoint = NULL;
        struct culm_error error = {0};
        snprintf(path, sizeof path, "%s/checkpoints/%s", dir, names.name[i]);
        if (names.name[i][0] != '.' &&
            culm_checkpoint_open(path, true, &checkpoint, &error) != CULM_OK) {
            fail_msg("%s: %s", when, error.text);
        }
        culm_checkpoint_close(checkpoint);
    }
    culm_names_release(&names);
}

static void expect_no_leftovers(const char *dir, const char *when) {
    char checkpoints[128];
    struct culm_names names;
    snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", dir);
    assert_int_equal(culm_dir_list(checkpoints, &names, NULL), CULM_OK);
    for (size_t i = 0; i < names.count; i++) {
        if (names.name[i][0] == '.') {
            fail_msg("%s: '%s' is left over", when, names.name[i]);
        }
    }
    culm_names_release(&names);
}

static void try_one(enum fault_mode mode, int fail_at, bool *ret_fired) {
    char dir[64], when[64];
    struct culm_error error = {0};
    struct fault_fs *fault = malloc(sizeof *fault);
    assert_non_null(fault);
    temp_dir_make(dir);
    assert_int_equal(sample_publish(NULL, dir, &before, &error), CULM_OK);
    fault_fs_init(fault, mode, fail_at, mode == FAULT_ONCE ? ENOSPC : EIO);
    snprintf(when, sizeof when, "mode %d, operation %d", mode, fail_at);

    bool published = sample_publish(&fault->fs, dir, &after, &error) == CULM_OK;
    bool failed = !published;
    if (published) {
        failed = culm_checkpoint_prune(&fault->fs, dir, after.info.step, 1, &error) != CULM_OK;
    } else if (mode == FAULT_ONCE) {
        if (!error.text[0] || strchr(error.text, '\n')) {
            fail_msg("%s: error is '%s'", when, error.text);
        }
        culm_checkpoint_discard(&fault->fs, dir, after.info.step, NULL);
    }
    *ret_fired = fault->fired;
    if ((fault->fired && mode == FAULT_POWER) || published) { /* what has been published stays */
        fault_fs_power_off(fault, dir);
    }
    if (!fault->fired && failed) {
        fail_msg("%s: no fault, yet: %s", when, error.text);
    }
    expect_latest(dir, published, when);
    expect_published_are_whole(dir, when);
    assert_int_equal(culm_checkpoint_clean(NULL, dir, &error), CULM_OK);
    expect_latest(dir, published, when);
    expect_no_leftovers(dir, when);
    /* and the run goes on */
    assert_int_equal(sample_publish(NULL, dir, &after, &error), CULM_OK);
    assert_int_equal(culm_checkpoint_prune(NULL, dir, after.info.step, 1, &error), CULM_OK);
    expect_latest(dir, true, when);
    expect_no_leftovers(dir, when);
    temp_dir_drop(dir);
    free(fault);
}

static void try_all(void) {
    for (int mode = 0; mode < FAULT_MODES; mode++) {
        bool fired = true;
        int operations = 0;
        while (fired) {
            try_one((enum fault_mode)mode, ++operations, &fired);
        }
        printf("mode %d: %d operations failed in turn\n", mode, operations - 1);
        assert_true(operations > 50);
    }
}

static void test_next_step(void **state) {
    (void)state;
    sample_init(&before, 20);
    sample_init(&after, 40);
    try_all();
}

static void test_same_step_again(void **state) {
    (void)state;
    EXPECT_MARK(store_replaced_one_is_set_aside);
    EXPECT_MARK(store_newest_is_one_set_aside);
    EXPECT_MARK(store_set_aside_comes_back);
    EXPECT_MARK(store_set_aside_goes);
    sample_init(&before, 40);
    sample_init(&after, 40);
    after.info.samples++; /* tells the two apart */
    after.data[1][1][1] = -1.0f;
    try_all();
}

/* The first checkpoint ever: nothing to fall back to, but never a broken one. */
static void test_first_checkpoint(void **state) {
    (void)state;
    sample_init(&after, 20);
    for (int mode = 0; mode < FAULT_MODES; mode++) {
        bool fired = true;
        for (int n = 1; fired; n++) {
            char dir[64], run[128], path[CULM_PATH_MAX], warning[CULM_ERROR_MAX];
            struct fault_fs *fault = malloc(sizeof *fault);
            int64_t step;
            assert_non_null(fault);
            temp_dir_make(dir);
            snprintf(run, sizeof run, "%s/a/b", dir);
            fault_fs_init(fault, (enum fault_mode)mode, n, EIO);
            bool published = sample_publish(&fault->fs, run, &after, NULL) == CULM_OK;
            fired = fault->fired;
            if ((fired && mode == FAULT_POWER) || published) {
                fault_fs_power_off(fault, dir);
            }
            bool found = culm_checkpoint_latest(run, true, &step, path, warning, NULL) == CULM_OK;
            assert_true(found || !published);
            if (found) {
                assert_string_equal(warning, "");
                sample_expect(path, &after);
            }
            assert_int_equal(culm_checkpoint_clean(NULL, run, NULL), CULM_OK);
            temp_dir_drop(dir);
            free(fault);
        }
    }
}

static void test_model_is_replaced_whole(void **state) {
    (void)state;
    EXPECT_MARK(store_model_is_not_whole);
    sample_init(&before, 20);
    sample_init(&after, 40);
    for (int mode = 0; mode < FAULT_MODES; mode++) {
        bool fired = true;
        for (int n = 1; fired; n++) {
            char dir[64], path[128], step[CULM_PATH_MAX];
            struct culm_checkpoint *old, *new;
            struct culm_safetensors *model = NULL;
            struct fault_fs *fault = malloc(sizeof *fault);
            float data[24];
            assert_non_null(fault);
            temp_dir_make(dir);
            snprintf(path, sizeof path, "%s/model.safetensors", dir);
            assert_int_equal(sample_publish(NULL, dir, &before, NULL), CULM_OK);
            assert_int_equal(sample_publish(NULL, dir, &after, NULL), CULM_OK);
            culm_checkpoint_path(dir, 20, step, NULL);
            assert_int_equal(culm_checkpoint_open(step, true, &old, NULL), CULM_OK);
            culm_checkpoint_path(dir, 40, step, NULL);
            assert_int_equal(culm_checkpoint_open(step, true, &new, NULL), CULM_OK);
            assert_int_equal(culm_checkpoint_export_model(NULL, old, path, NULL), CULM_OK);

            fault_fs_init(fault, (enum fault_mode)mode, n, EIO);
            bool done = culm_checkpoint_export_model(&fault->fs, new, path, NULL) == CULM_OK;
            fired = fault->fired;
            if ((fired && mode == FAULT_POWER) || done) {
                fault_fs_power_off(fault, dir);
            }
            assert_int_equal(culm_safetensors_open(path, &model, NULL), CULM_OK);
            const struct culm_tensor_ref *ref = &after.tensors[2][3];
            assert_int_equal(
                culm_safetensors_read(model, ref->name, ref->rank, ref->shape, data, NULL),
                CULM_OK);
            bool is_new = memcmp(data, ref->data, sizeof data) == 0;
            assert_true(is_new || !done);
            assert_true(is_new || memcmp(data, before.data[2][3], sizeof data) == 0);
            culm_safetensors_close(model);
            culm_checkpoint_close(old);
            culm_checkpoint_close(new);
            temp_dir_drop(dir);
            free(fault);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_next_step),
        cmocka_unit_test(test_same_step_again),
        cmocka_unit_test(test_first_checkpoint),
        cmocka_unit_test(test_model_is_replaced_whole),
    };
    return cmocka_run_group_tests_name("store/crash", tests, NULL, NULL);
}
