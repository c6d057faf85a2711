/* Dropout: identity at p = 0, the same masks however the batch is cut, and statistics. */
#include "device/cpu/cpu.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

#define COUNT (8 * 32768)

static float x[COUNT] __attribute__((aligned(64))), y[COUNT] __attribute__((aligned(64))),
    z[COUNT] __attribute__((aligned(64)));

static int fill(void **state) {
    return culm_device_new(2, (struct culm_device **)state, NULL) ? -1 : 0;
}

static int release(void **state) {
    culm_device_free(*state);
    return 0;
}

static void ones(void) {
    for (int i = 0; i < COUNT; i++) {
        x[i] = 1;
    }
}

static void test_identity(void **state) {
    struct culm_dropout none = {.p = 0, .key = 5, .samples = 8};
    uint64_t stream = 3;
    for (int i = 0; i < COUNT; i++) {
        x[i] = culm_rng_unit((uint32_t)culm_rng_next(&stream)) - 0.5f;
    }
    x[0] = -0.0f;
    CULM_RUN(*state, dropout, .y = culm_out_f32(y), .x = culm_in_f32(x), .count = COUNT,
             .dropout = &none);
    assert_memory_equal(x, y, sizeof x);
    CULM_RUN(*state, dropout, .y = culm_out_f32(y), .x = culm_in_f32(x), .count = COUNT);
    assert_memory_equal(x, y, sizeof x);
    CULM_RUN(*state, dropout, .y = culm_out_f32(y), .x = culm_in_f32(y), .count = COUNT,
             .dropout = &none);
    assert_memory_equal(x, y, sizeof x);
}

/* 8 samples at once, or 2 and 6, or one by one: the same elements are dropped. */
static void test_cut_does_not_matter(void **state) {
    const int64_t per_sample = COUNT / 8;
    struct culm_dropout drop = {.p = 0.1, .key = 99, .first_sample = 1000, .samples = 8};
    ones();
    CULM_RUN(*state, dropout, .y = culm_out_f32(y), .x = culm_in_f32(x), .count = COUNT,
             .dropout = &drop);
    for (int64_t cut = 1; cut <= 8; cut++) {
        for (int64_t from = 0; from < 8; from += cut) {
            int64_t samples = from + cut > 8 ? 8 - from : cut;
            struct culm_dropout part = drop;
            part.first_sample += (uint64_t)from;
            part.samples = samples;
            memset(z, 0, sizeof z);
            CULM_RUN(*state, dropout, .y = culm_out_f32(z), .x = culm_in_f32(x + from * per_sample),
                     .count = samples * per_sample, .dropout = &part);
            assert_memory_equal(z, y + from * per_sample,
                                (size_t)(samples * per_sample) * sizeof *z);
        }
    }
}

static void test_statistics(void **state) {
    const double rates[] = {0.001, 0.1, 0.25, 0.5, 0.9};
    ones();
    for (int r = 0; r < 5; r++) {
        double p = rates[r], pairs = 0, mean = 0;
        int64_t dropped = 0;
        struct culm_dropout drop = {.p = p, .key = 1234567 + (uint64_t)r, .samples = 8};
        CULM_RUN(*state, dropout, .y = culm_out_f32(y), .x = culm_in_f32(x), .count = COUNT,
                 .dropout = &drop);
        for (int i = 0; i < COUNT; i++) {
            assert_true(y[i] == 0 || y[i] == (float)(1 / (1 - p)));
            dropped += y[i] == 0;
            mean += (double)y[i] / COUNT;
            pairs += i && y[i] == 0 && y[i - 1] == 0;
        }
        double sigma = sqrt(p * (1 - p) / COUNT);
        assert_true(fabs((double)dropped / COUNT - p) < 5 * sigma + 1e-5);
        assert_true(fabs(mean - 1) < 5 * sigma / (1 - p) + 1e-4);
        /* neighbours are independent */
        assert_true(fabs(pairs / COUNT - p * p) < 6 * sqrt(p * p / COUNT));
    }
}

static void test_keys_and_samples_differ(void **state) {
    struct culm_dropout a = {.p = 0.5, .key = 1, .samples = 8}, b = a, c = a;
    b.key = (uint64_t)1 << 40;
    c.first_sample = (uint64_t)1 << 40;
    struct culm_dropout *others[] = {&b, &c};
    ones();
    CULM_RUN(*state, dropout, .y = culm_out_f32(y), .x = culm_in_f32(x), .count = COUNT,
             .dropout = &a);
    for (int o = 0; o < 2; o++) {
        int64_t same = 0;
        CULM_RUN(*state, dropout, .y = culm_out_f32(z), .x = culm_in_f32(x), .count = COUNT,
                 .dropout = others[o]);
        for (int i = 0; i < COUNT; i++) {
            same += y[i] == z[i];
        }
        assert_true(fabs((double)same / COUNT - 0.5) < 0.01);
    }
    int64_t same = 0;
    for (int i = 0; i < COUNT / 8; i++) {
        same += y[i] == y[i + COUNT / 8];
    }
    assert_true(fabs((double)same * 8 / COUNT - 0.5) < 0.02);
}

/* Ids in place of positions: the same mask where they are the positions, and a sample keeps its own
 * wherever it stands. Samples are short, so that several share a tile. */
static void test_sample_ids(void **state) {
    enum { SAMPLES = 3000, EACH = 7 };
    static uint32_t id[SAMPLES];
    struct culm_dropout plain = {.p = 0.3, .key = 77, .first_sample = 500, .samples = SAMPLES};
    struct culm_dropout by_id = plain;
    ones();
    for (uint32_t i = 0; i < SAMPLES; i++) {
        id[i] = 500 + i;
    }
    by_id.first_sample = 9999;
    by_id.sample_id = id;
    CULM_RUN(*state, dropout, .y = culm_out_f32(y), .x = culm_in_f32(x), .count = SAMPLES * EACH,
             .dropout = &plain);
    CULM_RUN(*state, dropout, .y = culm_out_f32(z), .x = culm_in_f32(x), .count = SAMPLES * EACH,
             .dropout = &by_id);
    assert_memory_equal(y, z, SAMPLES * EACH * sizeof *z);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        id[i] = 500 + (i * 7 + 3) % SAMPLES;
    }
    CULM_RUN(*state, dropout, .y = culm_out_f32(z), .x = culm_in_f32(x), .count = SAMPLES * EACH,
             .dropout = &by_id);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        assert_memory_equal(z + i * EACH, y + (i * 7 + 3) % SAMPLES * EACH, EACH * sizeof *z);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_identity),   cmocka_unit_test(test_cut_does_not_matter),
        cmocka_unit_test(test_statistics), cmocka_unit_test(test_keys_and_samples_differ),
        cmocka_unit_test(test_sample_ids),
    };
    return cmocka_run_group_tests_name("dropout", tests, fill, release);
}
