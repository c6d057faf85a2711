/* As many boxes are likely afterwards as before, if there is anything to judge by. */
#include "merge/objectness.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define BOXES 500
#define EACH 7
#define QUARTER -1.0986f

static float was[BOXES * EACH], now[BOXES * EACH], room[BOXES];

/* Few boxes are likely; `now` is drawn to the mean, as least squares do, and noisy. */
static void draw(uint64_t seed, float mean) {
    for (int i = 0; i < BOXES * EACH; i++) {
        uint64_t word = culm_rng_mix(seed, (uint64_t)i);
        float pair[2];
        culm_rng_normal((uint32_t)word, (uint32_t)(word >> 32), 1, pair);
        was[i] = mean + 3 * pair[0];
        now[i] = mean + 0.6F * (was[i] - mean) + 0.3F * pair[1];
    }
}

static int likely(const float *value, float by) {
    int count = 0;
    for (int i = 0; i < BOXES; i++) {
        count += value[i * EACH + 4] + by >= QUARTER - 1e-5F;
    }
    return count;
}

static void test_as_many_are_likely(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        draw(seed, -4);
        assert_true(likely(was, 0) >= 8 && likely(now, 0) < likely(was, 0));
        float by = culm_objectness_shift(now, was, BOXES, EACH, room);
        assert_true(by > 0);
        assert_int_equal(likely(now, by), likely(was, 0));
        for (int i = 0; i < BOXES; i++) { /* and too sure becomes less sure */
            now[i * EACH + 4] += by + 1;
        }
        assert_true(fabsf(culm_objectness_shift(now, was, BOXES, EACH, room) + 1) < 1e-4F);
    }
}

static void test_nothing_to_judge_by(void **state) {
    (void)state;
    draw(1, -40);
    assert_int_equal(likely(was, 0), 0);
    assert_true(culm_objectness_shift(now, was, BOXES, EACH, room) == 0);
}

static void test_never_far(void **state) {
    (void)state;
    draw(1, -4);
    for (int way = -1; way <= 1; way += 2) {
        for (int i = 0; i < BOXES; i++) {
            now[i * EACH + 4] = was[i * EACH + 4] + 10.0F * (float)way;
        }
        assert_true(culm_objectness_shift(now, was, BOXES, EACH, room) == -2.0F * (float)way);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_many_are_likely),
        cmocka_unit_test(test_nothing_to_judge_by),
        cmocka_unit_test(test_never_far),
    };
    return cmocka_run_group_tests_name("merge/objectness", tests, NULL, NULL);
}
