/* The released scheduler on workloads that can be worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "edge/gemel.h"
#include "edge/planner.h"
#include "edge/virtual.h"

#include <stdio.h>
#include <string.h>

#define MS 1000000ull
#define FRAMES 30

/* Batches of one take 10 ms, a load 1 ms for each tensor. */
static struct culm_edge_query query_on(const int32_t *tensors, int32_t count) {
    return (struct culm_edge_query){.deadline_ns = 100 * MS,
                                    .batches = 1,
                                    .batch = {1},
                                    .run_ns = {10 * MS},
                                    .tensor = tensors,
                                    .tensor_count = count};
}

static const struct culm_edge_feed feed = {.period_ns = 33 * MS};
static const size_t bytes[3] = {1000, 1000, 1000};

static struct culm_edge_layout layout_of(const struct culm_edge_query *query, int32_t count,
                                         size_t limit) {
    return (struct culm_edge_layout){.query_count = count,
                                     .feed_count = 1,
                                     .tensor_count = 3,
                                     .query = query,
                                     .feed = &feed,
                                     .tensor_bytes = bytes,
                                     .load_ns_per_byte = 1000,
                                     .limit_bytes = limit};
}

static void one_model(void **state) {
    static const int32_t first[] = {0};
    const struct culm_edge_query query[] = {query_on(first, 1)};
    const struct culm_edge_layout layout = layout_of(query, 1, 1000);
    struct culm_edge_gemel result;
    (void)state;
    assert_int_equal(culm_edge_gemel_play(&layout, FRAMES, &result, NULL), CULM_OK);
    assert_int_equal(result.processed[0], FRAMES);
    assert_int_equal(result.swaps, 1);
}

/* Each visit loads a model, which has no room beside the one before. */
static void one_at_a_time(void **state) {
    static const int32_t first[] = {0}, second[] = {1};
    const struct culm_edge_query query[] = {query_on(first, 1), query_on(second, 1)};
    const struct culm_edge_layout layout = layout_of(query, 2, 1000);
    struct culm_edge_gemel result;
    (void)state;
    uint8_t answered[2][FRAMES] = {0};
    assert_int_equal(culm_edge_gemel_play(&layout, FRAMES, &result, answered[0]), CULM_OK);
    assert_int_equal(result.processed[0], FRAMES);
    assert_int_equal(result.processed[1], FRAMES);
    for (int f = 0; f < FRAMES; f++) {
        assert_true(answered[0][f] && answered[1][f]);
    }
    assert_true(result.swaps >= 2 * FRAMES);
    assert_true(result.load_share > 0.04 && result.load_share < 0.1);
}

/* The third model lacks nothing, since the first two have its tensors between them; in pairs it lacks one. */
static void in_pairs(void **state) {
    static const int32_t first[] = {0}, second[] = {1}, both[] = {0, 1};
    const struct culm_edge_query query[] = {query_on(first, 1), query_on(second, 1),
                                            query_on(both, 2)};
    const struct culm_edge_layout layout = layout_of(query, 3, 5000);
    struct culm_edge_gemel result;
    struct culm_edge_plan plan;
    struct culm_edge_totals totals[CULM_EDGE_QUERIES_MAX];
    struct culm_edge_memory memory;
    (void)state;
    assert_int_equal(culm_edge_gemel_play(&layout, FRAMES, &result, NULL), CULM_OK);
    assert_int_equal(result.swaps, 3);
    assert_int_equal(culm_edge_plan_make(&layout, NULL, &plan, NULL), CULM_OK);
    const struct culm_edge_virtual_options options = {
        .layout = &layout, .plan = &plan, .frames = FRAMES};
    assert_int_equal(culm_edge_virtual_run(&options, totals, &memory), CULM_OK);
    assert_int_equal(memory.loads, 2);
    assert_int_equal(memory.most_bytes, 2000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_model),
        cmocka_unit_test(one_at_a_time),
        cmocka_unit_test(in_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
