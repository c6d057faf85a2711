/* Accuracy in bounded memory: the same as of all frames at once, or nearly. */
#include "live/scored.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define FRAMES (5 * CULM_LIVE_SCORED + 137)

static void test_boxes(void **state) {
    struct culm_live_scored scored = {0};
    struct culm_accuracy *whole = culm_accuracy_new(CULM_ANSWER_BOXES);
    (void)state;
    assert_true(culm_live_scored_value(&scored) < 0);
    for (int i = 0; i < FRAMES; i++) {
        struct culm_box box = {0, 0.5F + 0.4F * (float)(i % 7) / 7, 10, 10, 20, 40}, other = box;
        other.x += i % 5 == 0 ? 100 : 1; /* one of five is somewhere else */
        const struct culm_answer said = {.kind = CULM_ANSWER_BOXES, .box = &other, .box_count = 1};
        const struct culm_answer wanted = {.kind = CULM_ANSWER_BOXES, .box = &box, .box_count = 1};
        culm_live_scored_add(&scored, &said, &wanted, 640);
        assert_true(culm_accuracy_add(whole, &said, &wanted, 640));
        assert_in_range(culm_accuracy_frames(scored.now), 1, CULM_LIVE_SCORED);
    }
    assert_true(fabs(culm_live_scored_value(&scored) - culm_accuracy_value(whole, false)) < 0.01);
    culm_accuracy_free(whole);
    culm_live_scored_release(&scored);
}

static void test_labels(void **state) {
    struct culm_live_scored scored = {0};
    struct culm_class_score best = {3, 0.9F};
    const struct culm_answer said = {
        .kind = CULM_ANSWER_CLASSES, .classes = &best, .class_count = 1};
    int right = 0;
    (void)state;
    for (int i = 0; i < FRAMES; i++) {
        right += i % 3 == 0 || i > 4 * CULM_LIVE_SCORED;
        culm_live_scored_add_label(&scored, &said, i % 3 == 0 || i > 4 * CULM_LIVE_SCORED ? 3 : 1);
        assert_in_range(culm_accuracy_frames(scored.now), 1, CULM_LIVE_SCORED);
    }
    assert_true(fabs(culm_live_scored_value(&scored) - (double)right / FRAMES) < 1e-12);
    culm_live_scored_release(&scored);
}

static void test_nothing_wanted(void **state) {
    struct culm_live_scored scored = {0};
    struct culm_box box = {0, 0.9F, 10, 10, 20, 40};
    const struct culm_answer none = {.kind = CULM_ANSWER_BOXES};
    const struct culm_answer one = {.kind = CULM_ANSWER_BOXES, .box = &box, .box_count = 1};
    (void)state;
    culm_live_scored_add(&scored, &none, &none, 640);
    assert_true(culm_live_scored_value(&scored) == 1);
    culm_live_scored_add(&scored, &one, &none, 640);
    assert_true(culm_live_scored_value(&scored) == 0);
    culm_live_scored_release(&scored);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_boxes), cmocka_unit_test(test_labels),
                                       cmocka_unit_test(test_nothing_wanted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
