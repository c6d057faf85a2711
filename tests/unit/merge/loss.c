/*
 * Losses of one sample: gradients against central differences, and what a detector's loss asks for.
 */
#include "merge/loss.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define SEED 11
#define H 3
#define W 4
#define CLASSES 3
#define ANCHORS 2
#define COUNT (H * W * ANCHORS * (5 + CLASSES))

static struct culm_device *device;

static int start(void **state) {
    (void)state;
    return culm_device_new(2, &device, NULL) != CULM_OK;
}
static int stop(void **state) {
    (void)state;
    culm_device_free(device);
    return 0;
}

/* Two heads: small shapes in the first, large ones in the second. */
static struct culm_vision_model detector(float scale_xy) {
    return (struct culm_vision_model){.input = {.width = 64, .height = 48, .channels = 3},
                                      .kind = CULM_ANSWER_BOXES,
                                      .classes = CLASSES,
                                      .head_count = 2,
                                      .head = {{.anchors = ANCHORS,
                                                .classes = CLASSES,
                                                .anchor = {{8, 6}, {12, 20}},
                                                .scale_xy = scale_xy},
                                               {.output = 1,
                                                .anchors = ANCHORS,
                                                .classes = CLASSES,
                                                .anchor = {{30, 30}, {60, 40}},
                                                .scale_xy = scale_xy}}};
}

static void fill(float *t, int64_t count, float size) {
    uint64_t random = SEED;
    for (int64_t i = 0; i < count; i++) {
        t[i] = size * (2 * culm_rng_unit((uint32_t)culm_rng_next(&random)) - 1);
    }
}

static float *work_new(int64_t count) {
    float *work = device->ops->alloc(device, (size_t)culm_loss_work(count) * sizeof *work);
    assert_non_null(work);
    return work;
}

static const struct culm_wanted_box boxes[] = {
    {0.30f, 0.40f, 0.12f, 0.14f, 1}, /* the first anchor of head 0 */
    {0.80f, 0.20f, 0.18f, 0.45f, 2}, /* the second */
    {0.55f, 0.55f, 0.90f, 0.80f, 0}, /* of head 1 */
    {0.31f, 0.41f, 0.13f, 0.13f, 0}, /* in the cell of the first, which is taken */
    {0.99f, 1.00f, 0.12f, 0.14f, 2}, /* on the edge */
};
#define BOXES ((int32_t)(sizeof boxes / sizeof *boxes))

static void test_boxes_gradient(void **state) {
    (void)state;
    for (int stretched = 0; stretched < 4; stretched++) { /* then new coordinates, and regions */
        for (int32_t head = 0; head < 2; head++) {
            struct culm_vision_model model = detector(stretched == 1 ? 1.05f : 1);
            model.head[head].squared = stretched == 2;
            model.head[head].one = stretched == 3;
            float t[COUNT], gradient[COUNT], other[COUNT], *work = work_new(COUNT);
            fill(t, COUNT, 1.5f);
            culm_loss_boxes(device, &model, head, H, W, boxes, BOXES, t, 2, work, gradient);
            for (int i = 0; i < COUNT; i++) {
                const float at = t[i], step = 1e-2f;
                t[i] = at + step;
                double up =
                    culm_loss_boxes(device, &model, head, H, W, boxes, BOXES, t, 2, work, other);
                t[i] = at - step;
                double down =
                    culm_loss_boxes(device, &model, head, H, W, boxes, BOXES, t, 2, work, other);
                t[i] = at;
                double want = 2 * (up - down) / (2 * (double)step);
                if (fabs(want - gradient[i]) > 2e-3 + 2e-3 * fabs(want)) {
                    fail_msg("stretched %d, head %d, number %d: %g, and differences say %g",
                             stretched, head, i, (double)gradient[i], want);
                }
            }
            device->ops->release(device, work);
        }
    }
}

static int64_t number_of(int64_t i, int64_t j, int64_t anchor) {
    return ((i * W + j) * ANCHORS + anchor) * (5 + CLASSES);
}

/* Steps along the gradient lead to numbers that decode into the boxes. */
static void test_boxes_are_learned(void **state) {
    (void)state;
    struct culm_vision_model model = detector(1.05f);
    float t[COUNT], gradient[COUNT], *work = work_new(COUNT);
    fill(t, COUNT, 1);
    for (int step = 0; step < 3000; step++) {
        culm_loss_boxes(device, &model, 0, H, W, boxes, BOXES, t, 0.5, work, gradient);
        for (int i = 0; i < COUNT; i++) {
            t[i] -= gradient[i];
        }
    }
    const float *found = &t[number_of(1, 1, 0)]; /* of 0.30, 0.40 in 4 x 3 cells */
    const double s = 1.05f;
    double x = ((1 / (1 + exp(-found[0]))) * s - (s - 1) / 2 + 1) / W;
    double width = exp(found[2]) * 8 / 64;
    assert_true(fabs(x - 0.30) < 0.002);
    assert_true(fabs(width - 0.12) < 0.001);
    assert_true(found[4] > 4 && found[6] > 4 && found[5] < -4 && found[7] < -4);
    assert_true(t[number_of(0, 3, 1) + 4] > 4); /* the second box */
    assert_true(t[number_of(2, 3, 0) + 4] > 4); /* the one on the edge */
    assert_true(t[number_of(2, 0, 0) + 4] < -4 && t[number_of(1, 2, 1) + 4] < -4);
    device->ops->release(device, work);
}

/* A cell beside that finds the box too is left alone. */
static void test_good_neighbours_are_left_alone(void **state) {
    (void)state;
    struct culm_vision_model model = detector(1);
    const struct culm_wanted_box box = {0.51f, 0.5f, 8.0f / 64, 6.0f / 48, 0};
    float t[COUNT] = {0}, gradient[COUNT], *work = work_new(COUNT);
    int64_t beside = number_of(1, 1, 0);
    t[beside] = 9; /* the right edge of its cell: x is nearly 0.5 */
    culm_loss_boxes(device, &model, 0, H, W, &box, 1, t, 1, work, gradient);
    assert_true(gradient[beside + 4] == 0);
    t[beside] = 0;
    culm_loss_boxes(device, &model, 0, H, W, &box, 1, t, 1, work, gradient);
    assert_true(gradient[beside + 4] == 0.5f);
    device->ops->release(device, work);
}

static void test_hostile_boxes(void **state) {
    (void)state;
    const struct culm_wanted_box bad[] = {
        {0.5f, 0.5f, 0, 0.1f, 0},          {0.5f, 0.5f, 0.1f, NAN, 0},   {NAN, 0.5f, 0.1f, 0.1f, 0},
        {0.5f, 0.5f, 0.1f, 0.1f, CLASSES}, {0.5f, 0.5f, 0.1f, 0.1f, -1}, {7, -7, 0.1f, 0.1f, 0}};
    struct culm_vision_model model = detector(1);
    float t[COUNT], gradient[COUNT], *work = work_new(COUNT);
    fill(t, COUNT, 100); /* exp overflows, sigmoid is 0 or 1 */
    double loss = culm_loss_boxes(device, &model, 0, H, W, bad, 6, t, 1, work, gradient);
    assert_true(isfinite(loss));
    for (int i = 0; i < COUNT; i++) {
        assert_true(isfinite(gradient[i]));
    }
    device->ops->release(device, work);
}

static void test_label_and_points(void **state) {
    (void)state;
    float x[9], gradient[9], other[9], wanted[9], *work = work_new(9);
    fill(x, 9, 2);
    fill(wanted, 9, 1);
    for (int kind = 0; kind < 2; kind++) {
#define LOSS(to)                                                                                   \
    (kind ? culm_loss_points(9, wanted, x, 3, to) : culm_loss_label(device, 9, 4, x, 3, work, to))
        LOSS(gradient);
        for (int i = 0; i < 9; i++) {
            float at = x[i];
            x[i] = at + 1e-2f;
            double up = LOSS(other);
            x[i] = at - 1e-2f;
            double down = LOSS(other);
            x[i] = at;
            assert_true(fabs(3 * (up - down) / 2e-2 - gradient[i]) < 2e-3);
        }
#undef LOSS
    }
    assert_true(culm_loss_label(device, 9, -1, x, 3, work, gradient) == 0 && gradient[0] == 0);
    device->ops->release(device, work);
}

/* Each class by itself: as of a softmax of two where there is one output; and towards the original. */
static void test_each(void **state) {
    (void)state;
    float x[5], gradient[5], pair[2], want[5];
    float *work = work_new(5);
    fill(x, 5, 3);
    for (int label = -1; label < 5; label++) {
        culm_loss_each(5, label, x, 3, gradient);
        for (int i = 0; i < 5; i++) {
            float at = x[i], other[5];
            x[i] = at + 1e-2f;
            double up = culm_loss_each(5, label, x, 3, other);
            x[i] = at - 1e-2f;
            double down = culm_loss_each(5, label, x, 3, other);
            x[i] = at;
            assert_true(fabs(3 * (up - down) / 2e-2 - gradient[i]) < 2e-3);
        }
    }
    for (int label = 0; label < 2; label++) {
        const float two[] = {0, x[0]};
        double loss = culm_loss_each(1, label, x, 1, gradient);
        assert_true(fabs(culm_loss_label(device, 2, label, two, 1, work, pair) - loss) < 1e-6);
        assert_true(fabsf(pair[1] - gradient[0]) < 1e-6f);
    }
    const struct culm_vision_model model = {
        .kind = CULM_ANSWER_CLASSES, .classes = 5, .end = CULM_FUNCTION_SIGMOID};
    fill(want, 5, 3);
    assert_true(fabs(culm_loss_original(&model, 0, 5, want, want, 1, work, gradient)) < 1e-9);
    want[0] += 1;
    want[1] += 1; /* a softmax of two would not see it */
    assert_true(culm_loss_original(&model, 0, 2, want, x, 1, work, gradient) > 0);
    for (int i = 0; i < 2; i++) {
        double q = 1 / (1 + exp(-(double)x[i])), p = 1 / (1 + exp(-(double)want[i]));
        assert_true(fabs(gradient[i] - (q - p)) < 1e-6);
    }
    assert_true(culm_loss_each(5, 2, (const float[]){1e30f, -1e30f, 0, 9, 9}, 1, gradient) > 1e29);
    assert_true(isfinite(gradient[0]) && isfinite(gradient[1]));
    device->ops->release(device, work);
}

/* The same towards the original, and 0 where nothing differs. */
static void test_heads_like_the_original(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        struct culm_vision_model model = detector(1);
        float want[COUNT], t[COUNT], gradient[COUNT], other[COUNT], *work = work_new(COUNT);
        model.head[0].squared = kind == 1;
        model.head[0].one = kind == 2;
        fill(want, COUNT, 1.5f);
        for (int i = 0; i < COUNT; i++) {
            t[i] = want[COUNT - 1 - i];
        }
        assert_true(fabs(culm_loss_original(&model, 0, COUNT, want, want, 1, work, other)) < 1e-6);
        culm_loss_original(&model, 0, COUNT, want, t, 2, work, gradient);
        for (int i = 0; i < COUNT; i++) {
            const float at = t[i], step = 1e-2f;
            t[i] = at + step;
            double up = culm_loss_original(&model, 0, COUNT, want, t, 2, work, other);
            t[i] = at - step;
            double down = culm_loss_original(&model, 0, COUNT, want, t, 2, work, other);
            t[i] = at;
            assert_true(fabs(2 * (up - down) / (2 * (double)step) - gradient[i]) < 5e-3);
        }
        device->ops->release(device, work);
    }
}

/* Gradients of a table against differences, in whatever way its scores are read; and 0 where nothing
 * differs. */
static void test_table(void **state) {
    (void)state;
    enum { ROWS = 6, EACH = 8, ALL = ROWS * EACH };
    float want[ALL], got[ALL], gradient[ALL], other[ALL], *work = work_new(ALL);
    for (int how = 0; how < 6; how++) {
        const bool across = how % 2;
        const enum culm_function end = how / 2 == 0   ? CULM_FUNCTION_NONE
                                       : how / 2 == 1 ? CULM_FUNCTION_SIGMOID
                                                      : CULM_FUNCTION_SOFTMAX;
        const int64_t row = across ? 1 : EACH, each = across ? ROWS : 1;
        struct culm_vision_model model = {
            .kind = CULM_ANSWER_BOXES,
            .classes = 3,
            .input = {.width = 40, .height = 30},
            .table = {.rows = ROWS,
                      .count = 1,
                      .box = {0, 0, row, each},
                      .object = {how < 4 ? 0 : -1, 4 * each, row, each},
                      .score = {0, 5 * each, row, each},
                      .label = {.output = -1},
                      .corners = (enum culm_vision_corners)(how % 3),
                      .end = end},
        };
        fill(want, ALL, 1);
        for (int i = 0; i < ALL; i++) {
            const int number = across ? i / ROWS : i % EACH;
            want[i] = number < 4 ? 20 + 10 * want[i] : how / 2 ? 2 * want[i] : 0.5f + want[i] / 3;
            got[i] = number < 4 ? want[i] + 1 : how / 2 ? want[i] + 0.5f : 0.5f;
        }
        assert_true(fabs(culm_loss_original(&model, 0, ALL, want, want, 1, work, gradient)) < 1e-9);
        double loss = culm_loss_original(&model, 0, ALL, want, got, 3, work, gradient);
        assert_true(loss > 0.01);
        for (int i = 0; i < ALL; i++) {
            const float at = got[i], by = 1e-2f;
            got[i] = at + by;
            double up = culm_loss_original(&model, 0, ALL, want, got, 3, work, other);
            got[i] = at - by;
            double down = culm_loss_original(&model, 0, ALL, want, got, 3, work, other);
            got[i] = at;
            assert_true(fabs(3 * (up - down) / (2 * (double)by) - gradient[i]) < 5e-3);
        }
    }
    device->ops->release(device, work);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_boxes_gradient),
        cmocka_unit_test(test_boxes_are_learned),
        cmocka_unit_test(test_good_neighbours_are_left_alone),
        cmocka_unit_test(test_hostile_boxes),
        cmocka_unit_test(test_label_and_points),
        cmocka_unit_test(test_each),
        cmocka_unit_test(test_heads_like_the_original),
        cmocka_unit_test(test_table),
    };
    return cmocka_run_group_tests_name("merge/loss", tests, start, stop);
}
