/*
 * Plans that are made while frames wait: what they take is bounded, by counting it, however much there is to
 * plan, and they are no bad plans.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "edge/planner.h"
#include "edge/rehearsal.h"

#include <stdio.h>
#include <string.h>

#define MS 1000000ull
#define FEEDS 8
#define UNITS_MAX 100

struct world {
    struct culm_edge_query query[CULM_EDGE_QUERIES_MAX];
    struct culm_edge_feed feed[FEEDS];
    int32_t list[CULM_EDGE_QUERIES_MAX][UNITS_MAX];
    size_t bytes[CULM_EDGE_QUERIES_MAX * UNITS_MAX];
    struct culm_edge_layout layout;
};
static struct world world;

/* Of three queries, the second and the third have every third tensor from the first. */
static void make(int32_t queries, int32_t units) {
    const size_t frame_bytes = 100000, activation_bytes = 100000;
    uint64_t random = 1;
    size_t largest = 0, all = 0;
    memset(&world, 0, sizeof world);
    for (int32_t t = 0; t < queries * units; t++) {
        world.bytes[t] = 4096 + culm_rng_below(&random, 200000);
    }
    for (int32_t f = 0; f < FEEDS; f++) {
        world.feed[f] = (struct culm_edge_feed){.period_ns = 100 * MS, .frame_bytes = frame_bytes};
    }
    for (int32_t q = 0; q < queries; q++) {
        size_t own = 0;
        int32_t *list = world.list[q], first = q / 3 * 3, count = 0;
        for (int32_t u = 0; u < units && q > first; u += 3) {
            list[count++] = first * units + u;
        }
        for (int32_t u = 0; u < units; u++) {
            if (q == first || u % 3 != 0) {
                list[count++] = q * units + u;
                all += world.bytes[q * units + u];
            }
        }
        for (int32_t i = 0; i < count; i++) {
            own += world.bytes[list[i]];
        }
        largest = own > largest ? own : largest;
        world.query[q] = (struct culm_edge_query){
            .feed = q % FEEDS,
            .deadline_ns = 400 * MS,
            .batches = 3,
            .batch = {1, 2, 4},
            .run_ns = {4 * MS, 7 * MS, 13 * MS},
            .activation_bytes = {activation_bytes, 2 * activation_bytes, 4 * activation_bytes},
            .tensor = list,
            .tensor_count = count};
    }
    world.layout = (struct culm_edge_layout){
        .query_count = queries,
        .feed_count = FEEDS,
        .tensor_count = queries * units,
        .query = world.query,
        .feed = world.feed,
        .tensor_bytes = world.bytes,
        .load_ns_per_byte = 10,
        .limit_bytes = largest + all / 3 + FEEDS * 10 * frame_bytes + 4 * activation_bytes};
}

/* However many queries and tensors there are, up to the most that a run has, with tensors of small ones put
 * together. */
static void work_is_bounded(void **state) {
    static const int32_t size[][2] = {{1, 20},  {4, 20},  {7, 100}, {8, 20},
                                      {16, 20}, {30, 20}, {60, 20}, {64, 100}};
    const struct culm_edge_plan_options haste = {.work = CULM_EDGE_PLAN_HASTE};
    (void)state;
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        struct culm_edge_plan plan, again;
        uint64_t there = 0;
        make(size[i][0], size[i][1]);
        assert_int_equal(culm_edge_plan_make(&world.layout, &haste, &plan, NULL), CULM_OK);
        printf("%d queries of %d tensors: %lld of %lld\n", size[i][0], size[i][1],
               (long long)plan.work, CULM_EDGE_PLAN_HASTE);
        assert_true(plan.work > 0 && plan.work <= CULM_EDGE_PLAN_HASTE * 5 / 4);
        assert_int_equal(plan.count, size[i][0]);
        for (int32_t k = 0; k < plan.count; k++) {
            there |= 1ull << plan.order[k];
            assert_true(plan.visit[plan.order[k]] >= 1);
        }
        assert_int_equal(__builtin_popcountll(there), size[i][0]);
        assert_int_equal(culm_edge_plan_make(&world.layout, &haste, &again, NULL), CULM_OK);
        assert_true(culm_edge_plan_same(&plan, &again));
        assert_int_equal(plan.work, again.work);
    }
}

/* The smallest share of what comes of a plan. */
static double least(const struct culm_edge_plan_options *how, struct culm_edge_plan *ret_plan) {
    struct culm_edge_rehearsal rehearsal;
    assert_int_equal(culm_edge_plan_make(&world.layout, how, ret_plan, NULL), CULM_OK);
    assert_int_equal(culm_edge_rehearsal_run(&world.layout, ret_plan, true, &rehearsal), CULM_OK);
    return rehearsal.share[0];
}

/* Few queries are played through as far as there is time; of many the order loads less than any would. */
static void plans_are_good(void **state) {
    const struct culm_edge_plan_options haste = {.work = CULM_EDGE_PLAN_HASTE},
                                        ordered = {.work = CULM_EDGE_PLAN_HASTE, .visit = 1},
                                        given = {.given_order = true, .quick = true, .visit = 1};
    struct culm_edge_plan quick, slow;
    uint64_t random = 2;
    size_t most;
    (void)state;
    for (int32_t queries = 3; queries <= 7; queries++) {
        make(queries, 20);
        world.layout.load_ns_per_byte = 60;
        double was = least(NULL, &slow), is = least(&haste, &quick);
        printf("%d queries: the smallest share is %.3f, at leisure %.3f\n", queries, is, was);
        assert_true(was < 0.999 || queries < 5);
        assert_true(is > was - 0.05);
    }
    make(60, 20);
    for (int32_t q = 0; q < 60; q++) { /* who shares is not beside one another */
        int32_t to = (int32_t)culm_rng_below(&random, 60);
        struct culm_edge_query query = world.query[q];
        world.query[q] = world.query[to];
        world.query[to] = query;
    }
    culm_edge_memory_range(&world.layout, &world.layout.limit_bytes,
                           &most); /* hardly more than one fits */
    assert_int_equal(culm_edge_plan_make(&world.layout, &ordered, &quick, NULL), CULM_OK);
    assert_int_equal(culm_edge_plan_make(&world.layout, &given, &slow, NULL), CULM_OK);
    printf("60 queries: %lld bytes in a round, as they stand %lld\n", (long long)quick.round_bytes,
           (long long)slow.round_bytes);
    assert_true(quick.round_bytes < slow.round_bytes * 95 / 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(work_is_bounded),
                                       cmocka_unit_test(plans_are_good)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
