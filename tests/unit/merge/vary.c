/* Frames as they might have been. */
#include "merge/vary.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define W 28
#define H 14
#define VARIANTS 24

static const struct culm_vision_input input = {.width = W,
                                               .height = H,
                                               .channels = 3,
                                               .mean = {0.5F, 0.4F, 0.3F},
                                               .deviation = {0.2F, 0.3F, 0.4F}};

static float pixel(const float *frame, int64_t y, int64_t x, int64_t k) {
    return frame[(y * W + x) * 3 + k] * input.deviation[k] + input.mean[k];
}

/* Brighter to the right, in rows that differ. */
static void draw(float frame[H * W * 3]) {
    for (int64_t i = 0; i < (int64_t)H * W; i++) {
        for (int64_t k = 0; k < 3; k++) {
            const float value = ((float)(i % W) + (float)(i / W % 3)) / (W + 3);
            frame[i * 3 + k] = (value - input.mean[k]) / input.deviation[k];
        }
    }
}

static float light(const float *frame) {
    float sum = 0;
    for (int64_t i = 0; i < (int64_t)H * W; i++) {
        sum += pixel(frame, i / W, i % W, 0);
    }
    return sum / (H * W);
}

static void test_variants(void **state) {
    (void)state;
    static float frame[H * W * 3], variant[VARIANTS][H * W * 3], again[H * W * 3];
    int darker = 0;
    draw(frame);
    for (uint64_t v = 0; v < VARIANTS; v++) {
        culm_merge_vary(&input, frame, v, 7, variant[v]);
        culm_merge_vary(&input, frame, v, 7, again);
        assert_memory_equal(variant[v], again, sizeof again);
        assert_true(v == 0 || memcmp(variant[v], variant[v - 1], sizeof again));
        darker += light(variant[v]) < 0.95F * light(frame);
        assert_true(light(variant[v]) < 1.2F * light(frame));
        /* to the right, unless it is mirrored */
        const float slope = pixel(variant[v], H / 2, W - 4, 1) - pixel(variant[v], H / 2, 3, 1);
        assert_true(v % 2 ? slope < -0.2F : slope > 0.2F);
        for (int64_t i = 0; i < (int64_t)H * W * 3; i++) {
            const float value = pixel(variant[v], i / 3 / W, i / 3 % W, i % 3);
            assert_true(value > -1e-6F && value < 1 + 1e-6F);
        }
    }
    assert_in_range(darker, VARIANTS / 2, VARIANTS - 1); /* a move may make it lighter */
    culm_merge_vary(&input, frame, 2, 8, again);
    assert_memory_not_equal(variant[2], again, sizeof again);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_variants)};
    return cmocka_run_group_tests_name("merge/vary", tests, NULL, NULL);
}
