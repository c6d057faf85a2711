/* How much of the time nothing ran because tensors had to come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "edge/planner.h"
#include "edge/virtual.h"

#define MS 1000000ull
#define FRAMES 200

static const int32_t first[] = {0}, second[] = {1};
static const size_t bytes[2] = {1000, 1000};
static const struct culm_edge_feed feed = {.period_ns = 40 * MS};

/* Two models of one tensor each, of which the limit holds one; a batch of one takes 10 ms. */
static double share_of(uint64_t load_ms, uint64_t deadline_ms) {
    struct culm_edge_query query[2];
    for (int i = 0; i < 2; i++) {
        query[i] = (struct culm_edge_query){.deadline_ns = deadline_ms * MS,
                                            .batches = 1,
                                            .batch = {1},
                                            .run_ns = {10 * MS},
                                            .tensor = i ? second : first,
                                            .tensor_count = 1};
    }
    const struct culm_edge_layout layout = {.query_count = 2,
                                            .feed_count = 1,
                                            .tensor_count = 2,
                                            .query = query,
                                            .feed = &feed,
                                            .tensor_bytes = bytes,
                                            .load_ns_per_byte = load_ms * MS / 1000,
                                            .limit_bytes = 1000};
    struct culm_edge_plan plan;
    struct culm_edge_memory memory;
    assert_int_equal(culm_edge_plan_make(&layout, NULL, &plan, NULL), CULM_OK);
    const struct culm_edge_virtual_options options = {
        .layout = &layout, .plan = &plan, .frames = FRAMES};
    assert_int_equal(culm_edge_virtual_run(&options, NULL, &memory), CULM_OK);
    return (double)memory.waited_ns / (double)memory.elapsed_ns;
}

/* Frames are too old before the tensors are there, again and again: others wait by then. */
static void loads_outlast_deadlines(void **state) {
    (void)state;
    double share = share_of(500, 100);
    assert_true(share > 0.8 && share < 1);
}

static void loads_between_frames(void **state) {
    (void)state;
    double share = share_of(10, 100);
    assert_true(share > 0.2 &&
                share < 0.6); /* of 40 ms two loads, of which one may fall beside a batch */
}

static void loads_that_take_no_time(void **state) {
    (void)state;
    assert_true(share_of(0, 100) < 0.01);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_outlast_deadlines),
        cmocka_unit_test(loads_between_frames),
        cmocka_unit_test(loads_that_take_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
