/* Missed and added answers of a frame, counted by hand. */
#include "vision/agree.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void expect(struct culm_agreement of, int32_t wanted, int32_t missed, int32_t added) {
    assert_int_equal(of.wanted, wanted);
    assert_int_equal(of.missed, missed);
    assert_int_equal(of.added, added);
}

static struct culm_answer boxes(struct culm_box *box, int32_t count) {
    return (struct culm_answer){.kind = CULM_ANSWER_BOXES, .box = box, .box_count = count};
}

static void test_boxes(void **state) {
    struct culm_box person = {0, 0.9F, 10, 10, 20, 40}, shifted = {0, 0.8F, 12, 12, 20, 40};
    struct culm_box dog = {1, 0.7F, 10, 10, 20, 40}, far = {0, 0.6F, 100, 10, 20, 40};
    struct culm_box both[] = {person, dog}, two[] = {shifted, far}, twice[] = {person, shifted};
    const struct culm_answer none = boxes(NULL, 0), one = boxes(&person, 1), pair = boxes(both, 2);
    const struct culm_answer other = boxes(two, 2), again = boxes(twice, 2), only = boxes(&dog, 1);
    (void)state;
    expect(culm_agreement_of(&none, &none, 0.25F, 640), 0, 0, 0);
    expect(culm_agreement_of(&one, &none, 0.25F, 640), 0, 0, 1); /* invented */
    expect(culm_agreement_of(&none, &pair, 0.25F, 640), 2, 2, 0);
    expect(culm_agreement_of(&pair, &pair, 0.25F, 640), 2, 0, 0);
    expect(culm_agreement_of(&other, &pair, 0.25F, 640), 2, 1, 1);
    assert_true(culm_agreement_of(&pair, &pair, 0.25F, 640).overlap == 2);
    assert_true(fabs(culm_agreement_of(&other, &pair, 0.25F, 640).overlap - 684.0 / 916) < 1e-6);
    assert_true(culm_agreement_of(&only, &one, 0.25F, 640).overlap == 0);
    expect(culm_agreement_of(&again, &one, 0.25F, 640), 1, 0, 1); /* a box is taken once */
    expect(culm_agreement_of(&only, &one, 0.25F, 640), 1, 1, 1);  /* of another class */
}

/* What counts is what is told at the query's score. */
static void test_score(void **state) {
    struct culm_box sure = {0, 0.9F, 10, 10, 20, 40}, faint = {0, 0.2F, 100, 10, 20, 40};
    struct culm_box both[] = {sure, faint};
    const struct culm_answer one = boxes(&sure, 1), two = boxes(both, 2);
    (void)state;
    expect(culm_agreement_of(&one, &two, 0.25F, 640), 1, 0, 0);
    expect(culm_agreement_of(&two, &one, 0.25F, 640), 1, 0, 0);
    expect(culm_agreement_of(&one, &two, 0.2F, 640), 2, 1, 0);
    expect(culm_agreement_of(&two, &one, 0.1F, 640), 1, 0, 1);
}

static void test_classes(void **state) {
    struct culm_class_score a[] = {{3, 0.6F}, {1, 0.4F}}, b[] = {{1, 0.9F}, {3, 0.1F}};
    const struct culm_answer three = {.kind = CULM_ANSWER_CLASSES, .classes = a, .class_count = 2};
    const struct culm_answer one = {.kind = CULM_ANSWER_CLASSES, .classes = b, .class_count = 2};
    const struct culm_answer none = {.kind = CULM_ANSWER_CLASSES};
    (void)state;
    expect(culm_agreement_of(&three, &three, 0.25F, 32), 1, 0, 0);
    expect(culm_agreement_of(&three, &one, 0.25F, 32), 1, 1, 0);
    expect(culm_agreement_of(&none, &one, 0.25F, 32), 1, 1, 0);
    expect(culm_agreement_of(&one, &none, 0.25F, 32), 0, 0, 0);
    expect(culm_agreement_with_label(&three, 3), 1, 0, 0);
    expect(culm_agreement_with_label(&three, 1), 1, 1, 0);
}

static void test_points(void **state) {
    struct culm_point a[] = {{10, 10}, {110, 110}}, b[] = {{14, 10}, {110, 116}}, c[] = {{NAN, 10}};
    const struct culm_answer wanted = {.kind = CULM_ANSWER_POINTS, .point = a, .point_count = 2};
    const struct culm_answer near = {.kind = CULM_ANSWER_POINTS, .point = b, .point_count = 2};
    const struct culm_answer odd = {.kind = CULM_ANSWER_POINTS, .point = c, .point_count = 1};
    (void)state;
    expect(culm_agreement_of(&wanted, &wanted, 0, 4000), 2, 0, 0);
    expect(culm_agreement_of(&near, &wanted, 0, 4000), 2, 1, 0);
    expect(culm_agreement_of(&odd, &wanted, 0, 4000), 2, 2, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_boxes), cmocka_unit_test(test_score),
                                       cmocka_unit_test(test_classes),
                                       cmocka_unit_test(test_points)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
