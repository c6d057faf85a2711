/*
 * The largest of each window without its place, which is found in another way than with it: the same bits, also
 * of zeros of both signs, infinities and NaN.
 */
#define CPUS_OPENED(isa_, thread_) CPUS_OF_ONE_AVX512(isa_)
#include "cpus.h"

#include "base/rng.h"
#include "device/device.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct culm_window windows[] = {
    {1, 80, {10, 10}, {10, 10}, {5, 5}, {1, 1}, {2, 2}, {2, 2}, {1, 1}, false, false},
    {1, 80, {10, 10}, {10, 10}, {13, 13}, {1, 1}, {6, 6}, {6, 6}, {1, 1}, false, false},
    {3, 17, {6, 9}, {6, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, false, false},
    {2, 5, {9, 7}, {7, 3}, {3, 5}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, false, false},
    {1, 33, {12, 11}, {8, 9}, {5, 4}, {1, 1}, {2, 2}, {2, 2}, {2, 2}, false, false}, /* dilated */
    {1, 4, {1, 2}, {7, 8}, {7, 7}, {1, 1}, {6, 6}, {6, 6}, {1, 1}, false, false},
    {1,
     3,
     {400, 400},
     {400, 400},
     {3, 3},
     {1, 1},
     {1, 1},
     {1, 1},
     {1, 1},
     false,
     false},                                                                         /* large */
    {1, 16, {50, 9}, {46, 9}, {5, 5}, {1, 1}, {2, 2}, {2, 2}, {2, 1}, false, false}, /* in bands */
    {1, 8, {64, 5}, {64, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, false, false},
    {1,
     4,
     {1, 1},
     {1, 1},
     {3, 3},
     {1, 1},
     {1, 1},
     {3, 3},
     {2, 2},
     false,
     false}, /* nothing but sides */
    {2, 16, {8, 8}, {4, 4}, {3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1}, false, false}, /* steps */
};

static float number(uint64_t *random, bool special) {
    static const float specials[] = {NAN, 0, -0.0F, INFINITY, -INFINITY, 1, 1};
    uint64_t r = culm_rng_next(random);
    return special && r % 4 ? specials[r / 4 % 7] : culm_rng_unit((uint32_t)(r >> 32)) * 2 - 1;
}

static void compare(struct culm_device *cpu, const struct culm_window *p, const float *x, float *y,
                    float *want, float *index) {
    const int64_t out = p->n * p->out[0] * p->out[1] * p->c;
    CULM_RUN(cpu, maxpool_forward, .y = {want, CULM_F32}, .index = {index, CULM_F32},
             .x = {(void *)(uintptr_t)x, CULM_F32}, .window = p);
    for (int64_t i = 0; i < out + 16; i++) {
        y[i] = 777;
    }
    CULM_RUN(cpu, maxpool_forward, .y = {y, CULM_F32}, .x = {(void *)(uintptr_t)x, CULM_F32},
             .window = p);
    assert_memory_equal(y, want, (size_t)out * sizeof *y);
    for (int64_t i = out; i < out + 16; i++) {
        assert_float_equal(y[i], 777, 0);
    }
}

static void test_without_places(void **state) {
    (void)state;
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
        const struct culm_window *p = &windows[w];
        const int64_t in = p->n * p->in[0] * p->in[1] * p->c;
        const int64_t out = p->n * p->out[0] * p->out[1] * p->c;
        float *x = malloc((size_t)in * sizeof *x), *y = malloc((size_t)(out + 16) * sizeof *y);
        float *want = malloc((size_t)out * sizeof *want);
        float *index = malloc((size_t)out * sizeof *index);
        assert_true(x && y && want && index);
        for (int special = 0; special < 2; special++) {
            uint64_t random = seed() + w;
            for (int64_t i = 0; i < in; i++) {
                x[i] = number(&random, special);
            }
            for (int k = 0; k < ISAS * THREADS; k++) {
                if (cpus[k / THREADS][k % THREADS]) {
                    compare(cpus[k / THREADS][k % THREADS], p, x, y, want, index);
                }
            }
        }
        free(x);
        free(y);
        free(want);
        free(index);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_without_places)};
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
