/* What is wanted of the samples of a batch: each has memory of its own, and all is in shares of the frame. */
#include "merge/answer_samples.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define FRAMES 4
#define SLOTS 3
#define POINTS 2

static struct culm_answer_samples *make(struct culm_answer_samples *samples,
                                        const struct culm_merge_frames *frames) {
    assert_int_equal(culm_answer_samples_init(samples, frames, 1, POINTS, SLOTS, NULL), CULM_OK);
    return samples;
}

static void test_a_slot_each(void **state) {
    (void)state;
    static float image[FRAMES] = {10, 11, 12, 13};
    struct culm_merge_size size[FRAMES] = {{100, 50}, {200, 60}, {300, 70}, {400, 80}};
    const struct culm_merge_frames frames = {image, FRAMES, size, NULL, NULL};
    struct culm_answer_samples samples;
    struct culm_wanted wanted[SLOTS];
    float got;
    make(&samples, &frames);
    for (int32_t f = 0; f < FRAMES; f++) { /* frame f has f boxes, so later ones need more room */
        struct culm_answer *answer = &samples.answer[f];
        answer->box = calloc(FRAMES, sizeof *answer->box);
        answer->point = calloc(POINTS, sizeof *answer->point);
        assert_true(answer->box && answer->point);
        answer->box_count = f;
        answer->point_count = POINTS;
        for (int32_t b = 0; b < f; b++) {
            answer->box[b] = (struct culm_box){f, 1, (float)b, 10, 20, 10};
        }
        for (int32_t p = 0; p < POINTS; p++) {
            answer->point[p].x = (float)(10 * f + p);
            answer->point[p].y = (float)f;
        }
    }
    for (int32_t first = 0; first < 2; first++) { /* also after slots went round */
        for (int32_t i = 0; i < SLOTS; i++) {
            assert_int_equal(culm_answer_samples_get(&samples, first + i, &got, &wanted[i], NULL),
                             CULM_OK);
            assert_true(got == image[first + i]);
        }
        for (int32_t i = 0; i < SLOTS; i++) { /* a batch asks for all of them before it uses one */
            int32_t f = first + i;
            const float w = (float)size[f].width, h = (float)size[f].height;
            assert_int_equal(wanted[i].label, -1);
            assert_int_equal(wanted[i].box_count, f);
            for (int32_t b = 0; b < f; b++) {
                const struct culm_wanted_box *box = &wanted[i].box[b];
                assert_int_equal(box->class_index, f);
                assert_true(box->x == ((float)b + 10) / w && box->y == 15.0F / h);
                assert_true(box->width == 20.0F / w && box->height == 10.0F / h);
            }
            for (int32_t p = 0; p < POINTS; p++) {
                assert_true(wanted[i].points[2 * p] == (float)(10 * f + p) / w);
                assert_true(wanted[i].points[2 * p + 1] == (float)f / h);
            }
        }
    }
    culm_answer_samples_release(&samples);
}

static void test_labels_come_first(void **state) {
    (void)state;
    static float image[FRAMES];
    static const int32_t label[FRAMES] = {3, 2, 1, 0};
    for (int with = 0; with < 2; with++) {
        struct culm_merge_size size[FRAMES] = {{1, 1}, {1, 1}, {1, 1}, {1, 1}};
        const struct culm_merge_frames frames = {image, FRAMES, size, with ? label : NULL, NULL};
        struct culm_answer_samples samples;
        struct culm_wanted wanted;
        float got;
        make(&samples, &frames);
        samples.answer[1].classes = calloc(1, sizeof *samples.answer[1].classes);
        assert_non_null(samples.answer[1].classes);
        samples.answer[1].class_count = 1;
        samples.answer[1].classes[0].class_index = 7;
        assert_int_equal(culm_answer_samples_get(&samples, 1, &got, &wanted, NULL), CULM_OK);
        assert_int_equal(wanted.label, with ? 2 : 7);
        culm_answer_samples_release(&samples);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_slot_each),
        cmocka_unit_test(test_labels_come_first),
    };
    return cmocka_run_group_tests_name("merge/answer_samples", tests, NULL, NULL);
}
