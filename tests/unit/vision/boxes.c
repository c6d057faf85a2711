/*
 * Heads, boxes, suppression, classes, points, accuracy and pictures, each against what the definition
 * gives by hand.
 */
#include "vision/picture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* Two heads, of 1 and of 2 anchors, two classes. */
static struct culm_vision_model detector(void) {
    return (struct culm_vision_model){
        .name = "test",
        .input = {.width = 64, .height = 32, .channels = 3, .deviation = {1, 1, 1}},
        .kind = CULM_ANSWER_BOXES,
        .classes = 2,
        .head_count = 2,
        .head = {{0, 1, 2, {{16, 8}}, 1}, {1, 2, 2, {{8, 8}, {20, 10}}, 1.5F}}};
}

/* Classes by number and by name; what is none is refused, and so is a model without boxes. */
static void test_classes_that_count(void **state) {
    (void)state;
    struct culm_vision_model model = detector();
    struct culm_error error;
    const char *const names[] = {"cat", "dog"}, *const by_name[] = {"dog"},
                      *const by_number[] = {"0", "1"};
    const char *const wrong[] = {"bird", "2", "-1", "1x", ""};
    assert_int_equal(culm_vision_names_set(&model, names, 2, &error), CULM_OK);
    assert_int_equal(culm_vision_count_classes(&model, NULL, 0, &error), CULM_OK);
    assert_null(model.counts);
    assert_int_equal(culm_vision_count_classes(&model, by_name, 1, &error), CULM_OK);
    assert_true(!model.counts[0] && model.counts[1]);
    assert_int_equal(culm_vision_count_classes(&model, by_number, 2, &error), CULM_OK);
    assert_true(model.counts[0] && model.counts[1]);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(culm_vision_count_classes(&model, &wrong[i], 1, &error), CULM_ERR_CONFIG);
        assert_non_null(strstr(error.text, "'cat'"));
    }
    model.kind = CULM_ANSWER_CLASSES;
    assert_int_equal(culm_vision_count_classes(&model, by_name, 1, &error), CULM_ERR_CONFIG);
    culm_vision_names_drop(&model);
    free(model.counts);
}

static void test_heads(void **state) {
    (void)state;
    const struct culm_vision_model model = detector();
    const struct culm_shape shape[] = {{3, {1, 2, 7}}, {3, {2, 4, 14}}};
    float first[2 * 7], second[8 * 14];
    const float *output[] = {first, second};
    struct culm_answer answer = {0};
    struct culm_error error = {0};
    for (size_t i = 0; i < 2 * 7; i++) {
        first[i] = -10;
    }
    for (size_t i = 0; i < 8 * 14; i++) {
        second[i] = -10;
    }
    const float t[] = {0.5F, -1, 0.25F, -0.5F, 3, -2, 2};
    memcpy(&second[(1 * 4 + 2) * 14 + 7], t, sizeof t); /* cell (1, 2), anchor 1 */
    const float u[] = {0, 0, 0, 0, 1, 4, -9};
    memcpy(&first[1 * 7], u, sizeof u);
    assert_int_equal(culm_answer_read(&model, output, shape, 640, 480, 0.25F, &answer, &error),
                     CULM_OK);
    assert_int_equal(answer.box_count, 2);
    const struct culm_box *a = &answer.box[0], *b = &answer.box[1];
    double width = exp(0.25) * 20 / 64 * 640, height = exp(-0.5) * 10 / 32 * 480;
    double x = (sigmoid(0.5) * 1.5 - 0.25 + 2) / 4 * 640 - width / 2;
    double y = (sigmoid(-1) * 1.5 - 0.25 + 1) / 2 * 480 - height / 2;
    assert_int_equal(a->class_index, 1);
    assert_float_equal(a->score, sigmoid(3) * sigmoid(2), 1e-6);
    assert_float_equal(a->x, x, 1e-3);
    assert_float_equal(a->y, y, 1e-3);
    assert_float_equal(a->width, width, 1e-3);
    assert_float_equal(a->height, height, 1e-3);
    assert_int_equal(b->class_index, 0);
    assert_float_equal(b->score, sigmoid(1) * sigmoid(4), 1e-6);
    assert_float_equal(b->x, 1.5 / 2 * 640 - 80, 1e-3);
    assert_float_equal(b->height, 8.0 / 32 * 480, 1e-3);
    /* a higher score leaves one, and numbers that are not finite give none */
    culm_answer_read(&model, output, shape, 640, 480, 0.8F, &answer, &error);
    assert_int_equal(answer.box_count, 1);
    second[(1 * 4 + 2) * 14 + 9] = 1e30F; /* the width's */
    first[7 + 4] = NAN;
    culm_answer_read(&model, output, shape, 640, 480, 0.25F, &answer, &error);
    assert_int_equal(answer.box_count, 0);
    /* a map of another shape is refused */
    const struct culm_shape wrong[] = {{3, {1, 2, 7}}, {3, {2, 4, 15}}};
    assert_int_equal(culm_answer_read(&model, output, wrong, 640, 480, 0.25F, &answer, &error),
                     CULM_ERR_CONFIG);
    culm_answer_release(&answer);
}

static void test_suppression(void **state) {
    (void)state;
    struct culm_box box[] = {{0, 0.5F, 0, 0, 10, 10},
                             {0, 0.9F, 1, 0, 10, 10},
                             {1, 0.8F, 1, 0, 10, 10},
                             {0, 0.6F, 5, 0, 10, 10},
                             {0, 0.3F, 0, 0, 0, 10}};
    assert_float_equal(culm_box_overlap(&box[0], &box[1]), 90.0 / 110, 1e-9);
    assert_float_equal(culm_box_overlap(&box[0], &box[4]), 0, 1e-9);
    assert_int_equal(culm_box_suppress(box, 5, 0.45F), 4);
    assert_float_equal(box[0].score, 0.9, 1e-6);
    assert_float_equal(box[1].score, 0.8, 1e-6);
    assert_float_equal(box[2].score, 0.6, 1e-6);
    assert_float_equal(box[3].score, 0.3, 1e-6);
}

static void test_classes_and_points(void **state) {
    (void)state;
    struct culm_vision_model model = {.kind = CULM_ANSWER_CLASSES, .classes = 3};
    const struct culm_shape shape = {1, {3}}, four = {1, {4}};
    const float logits[] = {1, 3, 3}, points[] = {0.5F, 0.25F, 1, 0};
    const float *output[] = {logits};
    struct culm_answer answer = {0};
    culm_answer_read(&model, output, &shape, 10, 20, 0, &answer, NULL);
    assert_int_equal(answer.class_count, 3);
    assert_int_equal(answer.classes[0].class_index, 1); /* of equals the lower */
    assert_int_equal(answer.classes[1].class_index, 2);
    assert_float_equal(answer.classes[0].score, exp(2) / (1 + 2 * exp(2)), 1e-6);
    model.kind = CULM_ANSWER_POINTS;
    output[0] = points;
    culm_answer_read(&model, output, &four, 10, 20, 0, &answer, NULL);
    assert_int_equal(answer.point_count, 2);
    assert_float_equal(answer.point[0].x, 5, 0);
    assert_float_equal(answer.point[0].y, 5, 0);
    assert_float_equal(answer.point[1].x, 10, 0);
    culm_answer_release(&answer);
}

static struct culm_answer boxes(struct culm_box *box, int32_t count) {
    return (struct culm_answer){.kind = CULM_ANSWER_BOXES, .box = box, .box_count = count};
}

static void test_precision(void **state) {
    (void)state;
    struct culm_accuracy *a = culm_accuracy_new(CULM_ANSWER_BOXES);
    assert_float_equal(culm_accuracy_value(a, false), 1, 0);
    struct culm_box wanted[] = {
        {0, 1, 0, 0, 10, 10}, {0, 1, 100, 0, 10, 10}, {1, 1, 50, 50, 10, 10}};
    /* right, wrong class, right but taken, right */
    struct culm_box answered[] = {{0, 0.9F, 1, 0, 10, 10},
                                  {1, 0.8F, 100, 0, 10, 10},
                                  {0, 0.7F, 0, 1, 10, 10},
                                  {0, 0.6F, 100, 1, 10, 10}};
    struct culm_answer w = boxes(wanted, 3), s = boxes(answered, 4), none = boxes(NULL, 0);
    assert_true(culm_accuracy_add(a, &s, &w, 200));
    assert_int_equal(culm_accuracy_wanted(a), 3);
    /* precision 1 at recall 1/3, 2/4 at 2/3 */
    assert_float_equal(culm_accuracy_value(a, false), (1 + 0.5) / 3, 1e-9);
    /* class 0: 1 at 1/2, 2/3 at 1; class 1: nothing */
    assert_float_equal(culm_accuracy_value(a, true), ((1 + 2.0 / 3) / 2 + 0) / 2, 1e-9);
    culm_accuracy_clear(a);
    culm_accuracy_add(a, &w, &w, 200);
    culm_accuracy_add(a, &none, &none, 200);
    assert_float_equal(culm_accuracy_value(a, false), 1, 0);
    assert_float_equal(culm_accuracy_value(a, true), 1, 0);
    assert_int_equal(culm_accuracy_frames(a), 2);
    culm_accuracy_clear(a);
    culm_accuracy_add(a, &none, &w, 200);
    assert_float_equal(culm_accuracy_value(a, false), 0, 0);
    culm_accuracy_clear(a);
    culm_accuracy_add(a, &s, &none, 200);
    assert_float_equal(culm_accuracy_value(a, false), 0, 0);
    culm_accuracy_free(a);
    /* exactly half covered is enough: 10 x 10 against 10 x 5 */
    a = culm_accuracy_new(CULM_ANSWER_BOXES);
    struct culm_box half = {0, 0.5F, 0, 0, 10, 5};
    struct culm_answer h = boxes(&half, 1), one = boxes(wanted, 1);
    culm_accuracy_add(a, &h, &one, 200);
    assert_float_equal(culm_accuracy_value(a, false), 1, 0);
    culm_accuracy_free(a);
}

static void test_right_shares(void **state) {
    (void)state;
    struct culm_class_score x[] = {{3, 0.9F}}, y[] = {{3, 0.4F}}, z[] = {{1, 0.4F}};
    struct culm_answer ax = {.classes = x, .class_count = 1}, ay = {.classes = y, .class_count = 1},
                       az = {.classes = z, .class_count = 1};
    struct culm_accuracy *a = culm_accuracy_new(CULM_ANSWER_CLASSES);
    culm_accuracy_add(a, &ax, &ay, 0);
    culm_accuracy_add(a, &ax, &az, 0);
    culm_accuracy_add_label(a, &az, 1);
    assert_float_equal(culm_accuracy_value(a, false), 2.0 / 3, 1e-12);
    culm_accuracy_free(a);
    struct culm_point p[] = {{0, 0}, {100, 100}}, q[] = {{2, 4}, {100, 105.3F}};
    struct culm_answer ap = {.point = p, .point_count = 2}, aq = {.point = q, .point_count = 2};
    a = culm_accuracy_new(CULM_ANSWER_POINTS);
    culm_accuracy_add(a, &ap, &aq,
                      4000); /* of a face of some 100 pixels, however large the frame */
    assert_float_equal(culm_accuracy_value(a, false), 0.5, 0);
    culm_accuracy_clear(a);
    ap.point_count = aq.point_count = 1; /* which mark nothing: 5 % of the frame's width */
    culm_accuracy_add(a, &ap, &aq, 89);
    culm_accuracy_add(a, &ap, &aq, 91);
    assert_float_equal(culm_accuracy_value(a, false), 0.5, 0);
    culm_accuracy_free(a);
}

/* A class that is lost shows in the mean over classes, and not in all boxes; few boxes judge none. */
static void test_judged_by(void **state) {
    (void)state;
    struct culm_accuracy *a = culm_accuracy_new(CULM_ANSWER_BOXES);
    for (int way = CULM_ACCURACY_LEAST; way <= CULM_ACCURACY_CLASSES; way++) {
        for (int lost = 9; lost <= 10; lost++) {
            culm_accuracy_clear(a);
            culm_accuracy_judge_by(a, (enum culm_accuracy_by)way, 0.5);
            for (int f = 0; f < 90 + lost; f++) {
                struct culm_box box = {f < lost ? 3 : 0, 0.9F, 0, 0, 10, 10};
                struct culm_answer w = {.box = &box, .box_count = 1}, none = {0};
                assert_true(culm_accuracy_add(a, f < lost ? &none : &w, &w, 100));
            }
            const double boxes = 90.0 / (90 + lost), classes = lost < 10 ? 1 : 0.5;
            const double least = boxes < classes ? boxes : classes;
            assert_float_equal(culm_accuracy_judged(a),
                               way == CULM_ACCURACY_BOXES     ? boxes
                               : way == CULM_ACCURACY_CLASSES ? classes
                                                              : least,
                               1e-12);
            assert_int_equal(culm_accuracy_classes(a), 4);
            assert_int_equal(culm_accuracy_count(a, 3).wanted, lost);
            assert_int_equal(culm_accuracy_count(a, 3).told, 0);
            assert_int_equal(culm_accuracy_count(a, 0).right, 90);
            assert_int_equal(culm_accuracy_count(a, -1).told, 90);
        }
    }
    culm_accuracy_free(a);
}

/* From which overlap on a box is right. */
static void test_judged_overlap(void **state) {
    (void)state;
    struct culm_box here = {0, 0.9F, 0, 0, 10, 10}, there = {0, 0.9F, 0, 0, 10, 7};
    struct culm_answer w = {.box = &here, .box_count = 1}, s = {.box = &there, .box_count = 1};
    struct culm_accuracy *a = culm_accuracy_new(CULM_ANSWER_BOXES);
    culm_accuracy_add(a, &s, &w, 100);
    assert_float_equal(culm_accuracy_judged(a), 1, 0);
    culm_accuracy_clear(a);
    culm_accuracy_judge_by(a, CULM_ACCURACY_BOXES, 0.75);
    culm_accuracy_add(a, &s, &w, 100);
    assert_float_equal(culm_accuracy_judged(a), 0, 0);
    culm_accuracy_free(a);
}

/* Classes that are questions of their own agree at the threshold, whichever is the largest. */
static void test_each_by_itself(void **state) {
    (void)state;
    struct culm_class_score yes[] = {{2, 0.9F}, {0, 0.6F}, {1, 0.2F}},
                            one[] = {{2, 0.9F}, {0, 0.4F}},
                            more[] = {{2, 0.99F}, {1, 0.7F}, {0, 0.5F}}, no[] = {{2, 0.4F}},
                            none[] = {{1, 0.3F}, {2, 0.1F}};
    struct culm_answer w = {.classes = yes, .class_count = 3, .each = true},
                       a1 = {.classes = one, .class_count = 2, .each = true},
                       a3 = {.classes = more, .class_count = 3, .each = true},
                       a0 = {.classes = no, .class_count = 1, .each = true},
                       n = {.classes = none, .class_count = 2, .each = true};
    struct culm_accuracy *a = culm_accuracy_new(CULM_ANSWER_CLASSES);
    const struct {
        const struct culm_answer *said, *wanted;
        double accuracy;
    } of[] = {{&w, &w, 1},        {&a1, &w, 0.5}, {&a3, &w, 2.0 / 3}, {&a0, &w, 0},
              {&w, &a3, 2.0 / 3}, {&n, &a0, 1},   {&a1, &n, 0}};
    double sum = 0;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        culm_accuracy_clear(a);
        assert_true(culm_accuracy_add(a, of[i].said, of[i].wanted, 0));
        assert_int_equal(culm_accuracy_wanted(a), 1);
        assert_float_equal(culm_accuracy_value(a, false), of[i].accuracy, 1e-12);
        sum += of[i].accuracy;
    }
    culm_accuracy_clear(a);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        assert_true(culm_accuracy_add(a, of[i].said, of[i].wanted, 0));
    }
    assert_float_equal(culm_accuracy_value(a, false), sum / (sizeof of / sizeof *of), 1e-12);
    culm_accuracy_free(a);
}

/* Against the definition in float64. */
static void test_stretch(void **state) {
    (void)state;
    enum { W = 13, H = 7, TO_W = 600, TO_H = 5 };
    uint8_t from[H * W * 3], to[TO_H * TO_W * 3];
    uint32_t random = 1;
    for (size_t i = 0; i < sizeof from; i++) {
        random = random * 1664525 + 1013904223;
        from[i] = (uint8_t)(random >> 24);
    }
    const struct culm_frame frame = {from, W * 3, W, H, 3};
    const struct culm_vision_input wide = {.width = TO_W, .height = TO_H, .channels = 3};
    culm_vision_stretch(&wide, &frame, to);
    for (int y = 0; y < TO_H; y++) {
        for (int x = 0; x < TO_W; x++) {
            double v = fmin(fmax((y + 0.5) * H / TO_H - 0.5, 0), H - 1);
            double u = fmin(fmax((x + 0.5) * W / TO_W - 0.5, 0), W - 1);
            int i = (int)v, j = (int)u, ii = i < H - 1 ? i + 1 : i, jj = j < W - 1 ? j + 1 : j;
            for (int c = 0; c < 3; c++) {
                double top = from[(i * W + j) * 3 + c] * (1 - (u - j)) +
                             from[(i * W + jj) * 3 + c] * (u - j);
                double low = from[(ii * W + j) * 3 + c] * (1 - (u - j)) +
                             from[(ii * W + jj) * 3 + c] * (u - j);
                double want = top * (1 - (v - i)) + low * (v - i);
                assert_float_equal(to[(y * TO_W + x) * 3 + c], want, 1.1);
            }
        }
    }
    /* the same size is the same picture; numbers are normalised by channel */
    uint8_t same[sizeof from];
    float numbers[H * W * 3], one[H * W];
    const struct culm_vision_input input = {W,     H, 3,    {0.5F, 0, 0.25F}, {1, 0.5F, 2},
                                            false, 0, false};
    culm_vision_stretch(&input, &frame, same);
    assert_memory_equal(same, from, sizeof from);
    culm_vision_fill(&input, &frame, numbers);
    assert_float_equal(numbers[0], from[0] / 255.0 - 0.5, 1e-6);
    assert_float_equal(numbers[1], from[1] / 255.0 * 2, 1e-6);
    assert_float_equal(numbers[2], (from[2] / 255.0 - 0.25) / 2, 1e-6);
    const struct culm_vision_input plain = {W, H, 1, {0}, {1, 1, 1}, false, 0, false};
    culm_vision_fill(&plain, &frame, one);
    assert_float_equal(one[0] * 255, 0.299 * from[0] + 0.587 * from[1] + 0.114 * from[2], 0.6);
    const struct culm_frame grey = {from, W, W, H, 1};
    culm_vision_fill(&input, &grey, numbers);
    assert_float_equal(numbers[4], from[1] / 255.0 * 2, 1e-6);
}

/* Whatever channels a frame has, and an input wants: from the bytes of one size as from the frame. */
static void test_stretch_channels(void **state) {
    (void)state;
    enum { W = 9, H = 6, TO = 5 };
    uint8_t from[H * W * 3];
    for (size_t i = 0; i < sizeof from; i++) {
        from[i] = (uint8_t)(i * 37 + i * i);
    }
    for (int has = 1; has <= 3; has += 2) {
        for (int wants = 1; wants <= 3; wants += 2) {
            uint8_t bytes[TO * TO * 3 + 1];
            float direct[TO * TO * 3], through[TO * TO * 3];
            memset(bytes, 0xA5, sizeof bytes);
            const struct culm_vision_input input = {TO,           TO,    wants, {0.5F, 0, 0.25F},
                                                    {1, 0.5F, 2}, false, 0,     false};
            const struct culm_frame frame = {from, (size_t)(W * has), W, H, has};
            culm_vision_fill(&input, &frame, direct);
            culm_vision_stretch(&input, &frame, bytes);
            assert_int_equal(bytes[TO * TO * wants], 0xA5);
            const struct culm_frame small = {bytes, (size_t)(TO * wants), TO, TO, wants};
            culm_vision_fill(&input, &small, through);
            assert_memory_equal(direct, through, sizeof(float) * (size_t)(TO * TO * wants));
        }
    }
}

/* Boxes anywhere, whole, half or not at all in the picture. */
static void test_draw(void **state) {
    (void)state;
    enum { W = 40, H = 30 };
    uint8_t *data = calloc(1, (size_t)W * H * 3);
    const struct culm_vision_model model = detector();
    const struct culm_box box[] = {{0, 0.5F, 10, 12, 8, 8},
                                   {1, 0.4F, -5, -5, 12, 12},
                                   {1, 0.3F, 35, 25, 20, 20},
                                   {0, 0.3F, -1e6F, -1e6F, 2e6F, 9},
                                   {0, 0.3F, 1e6F, 1e6F, 10, 10}};
    culm_vision_draw(data, W, H, NULL, box, 1);
    assert_true(data[3 * (12 * W + 10)] > 0 && data[3 * (19 * W + 17)] > 0);
    assert_int_equal(data[3 * (15 * W + 13)], 0);
    culm_vision_draw(data, W, H, &model, box, 5);
    const struct culm_point point[] = {{5, 5}, {-3, 100}};
    culm_vision_draw_points(data, W, H, point, 2);
    free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes_that_count), cmocka_unit_test(test_heads),
        cmocka_unit_test(test_suppression),        cmocka_unit_test(test_precision),
        cmocka_unit_test(test_classes_and_points), cmocka_unit_test(test_stretch),
        cmocka_unit_test(test_stretch_channels),   cmocka_unit_test(test_right_shares),
        cmocka_unit_test(test_each_by_itself),     cmocka_unit_test(test_judged_by),
        cmocka_unit_test(test_judged_overlap),     cmocka_unit_test(test_draw),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
