/* The frames that merging works on: divided among what is fitted, checked and held out, and those of several feeds of one model. */
#include "run/merge_inputs.h"
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

#define SIZE 8 /* of the model's input */
#define CONFIG                                                                                     \
    "model: {arch: resnet, blocks: [1, 1], width: 4, small_stem: true, image: 8, channels: 3, "    \
    "classes: 4}\ndata: {kind: images, path: none}\nsteps: 1\nseed: 1\n"

static char folder[64];

static const char *inside(const char *name) {
    static char path[4][128];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static void put(const char *name, const void *data, size_t len) {
    struct culm_error error;
    assert_int_equal(culm_file_replace(NULL, inside(name), data, len, &error), CULM_OK);
}

/* `count` pictures of one grey each: first, first + 1, ..., and from 0 again after 255. */
static void put_images(const char *name, int count, int height, int width, int first) {
    size_t one = (size_t)(height * width * 3), len = 20 + one * (size_t)count;
    uint8_t *file = calloc(1, len);
    assert_non_null(file);
    const int dims[] = {count, height, width, 3};
    file[2] = 8;
    file[3] = 4;
    for (int d = 0; d < 4; d++) {
        file[6 + 4 * d] = (uint8_t)(dims[d] >> 8);
        file[7 + 4 * d] = (uint8_t)dims[d];
    }
    for (int i = 0; i < count; i++) {
        memset(file + 20 + (size_t)i * one, first + i, one);
    }
    put(name, file, len);
    free(file);
}

static int setup(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/culm-merge-inputs-XXXXXX");
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < 3; i++) {
        put(i == 0 ? "model.yaml" : i == 1 ? "other.yaml" : "third.yaml", CONFIG, strlen(CONFIG));
    }
    put_images("wide", 20, 10, 14, 0);
    put_images("small", 10, 8, 8, 100);
    put_images("long", 200, 8, 8, 0);
    put_images("odd", 728, 8, 8, 0);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

static void read_all(const char *queries, struct culm_workload *workload,
                     struct culm_merge_inputs *inputs) {
    static const atomic_bool go_on = false;
    struct culm_error error = {0};
    char text[2048];
    int len = snprintf(text, sizeof text,
                       "feeds: {wide: {file: %s}, small: {file: %s}, long: {file: %s}, "
                       "odd: {file: %s}}\nqueries:\n%s"
                       "merge: {held_out: 0.3}\n",
                       inside("wide"), inside("small"), inside("long"), inside("odd"), queries);
    if (culm_workload_parse(text, (size_t)len, "w", NULL, 0, workload, &error) ||
        culm_merge_inputs_open(workload, false, inputs, &error) ||
        culm_merge_inputs_read(inputs, &go_on, &error)) {
        fail_msg("%s", error.text);
    }
}

/* One query on that feed. */
static void read_one(const char *feed, struct culm_workload *workload,
                     struct culm_merge_inputs *inputs) {
    char queries[256];
    snprintf(queries, sizeof queries, "  - {name: a, model: %s, feed: %s}\n", inside("model.yaml"),
             feed);
    read_all(queries, workload, inputs);
}

static float grey(const struct culm_merge_inputs *inputs, const struct culm_merge_frames *frames,
                  int64_t i) {
    const struct culm_vision_input *input = &inputs->vision[0]->input;
    return (frames->image[i * SIZE * SIZE * 3] * input->deviation[0] + input->mean[0]) * 255;
}

/* Of 20 frames the last 30 % are held out, a third of these for what is given up; of the others 70 % are fitted to. No
 * frame is in two parts. */
static void test_parts(void **state) {
    (void)state;
    struct culm_workload workload;
    struct culm_merge_inputs inputs;
    read_one("wide", &workload, &inputs);
    static const int64_t count[] = {9, 5, 2, 4}, first[] = {0, 9, 14, 16};
    for (int part = 0; part < CULM_MERGE_PARTS; part++) {
        const struct culm_merge_frames *frames = &inputs.set[0].part[part];
        assert_int_equal(frames->count, count[part]);
        for (int64_t i = 0; i < count[part]; i++) {
            assert_int_equal(frames->size[i].width, 14);
            assert_int_equal(frames->size[i].height, 10);
            assert_float_equal(grey(&inputs, frames, i), (float)(first[part] + i), 0.01);
        }
    }
    culm_merge_inputs_release(&inputs);
    culm_workload_release(&workload);
}

/* Of 200 frames 140 may be seen, in pieces of 50, of which the last 30 % are checked. */
static void test_pieces(void **state) {
    (void)state;
    struct culm_workload workload;
    struct culm_merge_inputs inputs;
    read_one("long", &workload, &inputs);
    static const int64_t end[] = {35, 50, 85, 100, 128, 140, 160, 200};
    static const int part[] = {CULM_MERGE_FIT, CULM_MERGE_CHECK, CULM_MERGE_FIT,   CULM_MERGE_CHECK,
                               CULM_MERGE_FIT, CULM_MERGE_CHECK, CULM_MERGE_ASIDE, CULM_MERGE_HELD};
    int64_t frame = 0, at[CULM_MERGE_PARTS] = {0};
    for (int s = 0; s < 8; s++) {
        for (; frame < end[s]; frame++) {
            const struct culm_merge_frames *frames = &inputs.set[0].part[part[s]];
            assert_true(at[part[s]] < frames->count);
            assert_float_equal(grey(&inputs, frames, at[part[s]]++), (float)frame, 0.01);
        }
    }
    for (int p = 0; p < CULM_MERGE_PARTS; p++) {
        assert_int_equal(at[p], inputs.set[0].part[p].count);
    }
    culm_merge_inputs_release(&inputs);
    culm_workload_release(&workload);
}

/* Of 728 frames 509 may be seen: ten pieces, the last of which is what is left and no crumb behind them. */
static void test_no_crumb(void **state) {
    (void)state;
    struct culm_workload workload;
    struct culm_merge_inputs inputs;
    read_one("odd", &workload, &inputs);
    const struct culm_merge_frames *fit = &inputs.set[0].part[CULM_MERGE_FIT];
    const struct culm_merge_frames *check = &inputs.set[0].part[CULM_MERGE_CHECK];
    assert_int_equal(inputs.set[0].part[CULM_MERGE_ASIDE].count, (728 - 509) / 3);
    assert_int_equal(inputs.set[0].part[CULM_MERGE_HELD].count, 728 - 509 - (728 - 509) / 3);
    assert_int_equal(fit->count, 9 * 35 + 35);
    assert_int_equal(check->count, 9 * 16 + 15);
    for (int64_t i = 0; i < check->count; i++) {
        const int64_t frame = i / 16 * 51 + 35 + i % 16;
        assert_float_equal(grey(&inputs, check, i), (float)(frame % 256), 0.01);
    }
    culm_merge_inputs_release(&inputs);
    culm_workload_release(&workload);
}

/* A model that answers on two feeds is fitted to the frames of both, each once however many queries ask;
 * answers are in pixels of the frame that they are of. */
static void test_two_feeds(void **state) {
    (void)state;
    struct culm_workload workload;
    struct culm_merge_inputs inputs;
    char queries[1024];
    snprintf(queries, sizeof queries,
             "  - {name: a, model: %s, feed: wide}\n  - {name: b, model: %s, feed: small}\n"
             "  - {name: c, model: %s, feed: wide}\n",
             inside("model.yaml"), inside("model.yaml"), inside("model.yaml"));
    read_all(queries, &workload, &inputs);
    assert_int_equal(inputs.models, 1);
    assert_int_equal(inputs.sets, 2);
    const struct culm_merge_frames *fit = &inputs.fit[0];
    assert_int_equal(fit->count, 96); /* these, and variants of them */
    for (int64_t i = 0; i < 9 + 4; i++) {
        assert_int_equal(fit->size[i].width, i < 9 ? 14 : 8);
        assert_float_equal(grey(&inputs, fit, i), (float)(i < 9 ? i : 100 + i - 9), 0.01);
    }
    culm_merge_inputs_release(&inputs);
    culm_workload_release(&workload);
}

/* Few frames become more: some of another feed, and none of its that are checked, set aside or held out; the others are
 * variants. With the frames of one feed, models share what they are fitted to. */
static void test_more_to_fit_to(void **state) {
    (void)state;
    struct culm_workload workload;
    struct culm_merge_inputs inputs;
    char queries[1024];
    snprintf(queries, sizeof queries,
             "  - {name: a, model: %s, feed: wide}\n  - {name: b, model: %s, feed: long}\n"
             "  - {name: c, model: %s, feed: wide}\n",
             inside("model.yaml"), inside("other.yaml"), inside("third.yaml"));
    read_all(queries, &workload, &inputs);
    assert_int_equal(inputs.models, 3);
    const struct culm_merge_frames *fit = &inputs.fit[0], *other = &inputs.fit[1];
    assert_ptr_equal(inputs.fit[2].image, fit->image);
    assert_int_equal(fit->count, 96);
    for (int64_t i = 0; i < 9 + 24; i++) {
        const float is = grey(&inputs, fit, i);
        const int64_t frame = (int64_t)(is + 0.5F);
        assert_float_equal(is, i < 9 ? (float)i : (float)frame, 0.01);
        assert_true(i < 9 || frame < 35 || (frame >= 50 && frame < 85) ||
                    (frame >= 100 && frame < 128));
    }
    for (int64_t i = 9 + 24; i < fit->count; i++) { /* of grey pictures, which are darker at most */
        assert_true(grey(&inputs, fit, i) < 9 + 255 * 0.08F);
        assert_int_equal(fit->size[i].width, 14);
    }
    assert_int_equal(other->count, 35 + 35 + 28); /* enough by themselves */
    assert_ptr_equal(other->image, inputs.set[1].part[CULM_MERGE_FIT].image);
    culm_merge_inputs_release(&inputs);
    culm_workload_release(&workload);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),          cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_no_crumb),       cmocka_unit_test(test_two_feeds),
        cmocka_unit_test(test_more_to_fit_to),
    };
    return cmocka_run_group_tests_name("run/merge_inputs", tests, setup, teardown);
}
