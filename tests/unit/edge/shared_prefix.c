/* Who goes on from what another query has made does so when nobody loses a frame by it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "edge/virtual.h"

#include <string.h>

#define MS 1000000ull
#define FRAMES 4

/* Two models that begin alike, each of 10 ms, or 12 for two frames, half of which they have in common. Of
 * FRAMES frames that come together the first has one to itself the first time. */
static void play(uint64_t deadline_ns, struct culm_edge_totals *ret_totals) {
    struct culm_edge_feed feed = {.period_ns = 1000 * MS};
    struct culm_edge_query query[2] = {0};
    for (int q = 0; q < 2; q++) {
        query[q] = (struct culm_edge_query){
            .deadline_ns = q ? 200 * MS : deadline_ns,
            .batches = 2,
            .batch = {1, 2},
            .run_ns = {10 * MS, 12 * MS},
            .prefixes = 1,
            .prefix = {{.id = 1, .run_ns = {5 * MS, 6 * MS}}},
        };
    }
    const struct culm_edge_layout layout = {
        .query_count = 2, .feed_count = 1, .query = query, .feed = &feed, .limit_bytes = 1};
    const struct culm_edge_plan plan = {
        .count = 2, .order = {0, 1}, .visit = {FRAMES, FRAMES}, .slots = FRAMES, .passes = 2};
    const struct culm_edge_virtual_options how = {
        .layout = &layout, .plan = &plan, .frames = FRAMES};
    struct culm_edge_virtual *virtual = culm_edge_virtual_new(&how);
    assert_non_null(virtual);
    culm_edge_virtual_feed_burst(virtual, 0, FRAMES);
    while (culm_edge_virtual_step(virtual)) {
    }
    for (int q = 0; q < 2; q++) {
        ret_totals[q] = *culm_edge_scheduler_totals(culm_edge_virtual_scheduler(virtual), q);
        assert_int_equal(ret_totals[q].frames, FRAMES);
    }
    culm_edge_virtual_free(virtual);
}

static void goes_first_where_there_is_time(void **state) {
    struct culm_edge_totals totals[2];
    (void)state;
    play(60 * MS, totals);
    assert_int_equal(totals[0].processed, FRAMES);
    assert_int_equal(totals[1].processed, FRAMES);
    assert_int_equal(totals[1].shared, FRAMES);
}

/* The visit ends 32 ms after the frames came if nobody comes between: its third batch, not the next one,
 * would be too late. */
static void waits_for_a_visit_in_progress(void **state) {
    struct culm_edge_totals totals[2];
    (void)state;
    for (uint64_t ms = 32; ms < 50; ms++) {
        play(ms * MS, totals);
        assert_int_equal(totals[0].processed, FRAMES);
        assert_int_equal(totals[1].processed, FRAMES);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(goes_first_where_there_is_time),
                                       cmocka_unit_test(waits_for_a_visit_in_progress)};
    return cmocka_run_group_tests_name("edge/shared_prefix", tests, NULL, NULL);
}
