/*
 * Who shares more is never worse. Random workloads, each as it is (`none`), with its largest layers
 * shared (as GEMEL shares) and with most layers shared: what is chosen for a package is never worse
 * than what is found for the models as they are, by what plans are compared by [rehearsal.h].
 * CULM_TEST_SEED=N: other workloads; CULM_TEST_COUNT=N: so many, and what would come of always
 * merging is counted, too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "edge/choice.h"
#include "edge/rehearsal.h"
#include "edge/unshared.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ull
#define QUERIES 6
#define LAYERS 10
#define TENSORS (QUERIES * LAYERS)
#ifdef __SANITIZE_ADDRESS__
#define WORKLOADS 6
#else
#define WORKLOADS 24
#endif

static uint64_t number(const char *name, uint64_t otherwise) {
    const char *given = getenv(name);
    return given ? strtoull(given, NULL, 10) : otherwise;
}

struct world {
    int32_t list[QUERIES][LAYERS];
    size_t bytes[TENSORS];
    struct culm_edge_feed feed[2];
    struct culm_edge_query query[QUERIES];
    struct culm_edge_layout layout;
};

static int ascending(const void *a, const void *b) {
    return *(const int32_t *)a - *(const int32_t *)b;
}

/* Models of up to ten layers, of which most are in several models; shared are those of at least so many bytes. */
static void share(const struct world *from, size_t at_least, struct world *to) {
    *to = *from;
    for (int32_t q = 0; q < from->layout.query_count; q++) {
        int32_t count = from->query[q].tensor_count;
        for (int32_t i = 0; i < count; i++) { /* the i-th layer of all that are of one family */
            bool shares = from->bytes[q % 2 * LAYERS + i] >= at_least;
            to->list[q][i] = (shares ? q % 2 : q) * LAYERS + i;
        }
        qsort(to->list[q], (size_t)count, sizeof to->list[q][0], ascending);
        to->query[q].tensor = to->list[q];
    }
    to->layout.query = to->query;
    to->layout.feed = to->feed;
    to->layout.tensor_bytes = to->bytes;
}

/* Too slow, too large, or in too little memory: something is lost nearly everywhere. */
static void draw(struct world *world, uint64_t *random) {
    static const double room[] = {0, 0.1, 0.3, 0.5, 0.75};
    static const uint64_t deadlines[] = {100, 200, 400}, periods[] = {200, 100, 33};
    uint64_t deadline = deadlines[culm_rng_below(random, 3)] * MS,
             period = periods[culm_rng_below(random, 3)] * MS;
    int32_t queries = 2 + (int32_t)culm_rng_below(random, QUERIES - 1);
    int32_t layers = 3 + (int32_t)culm_rng_below(random, LAYERS - 2);
    uint64_t run_us = period / 1000 * (3 + culm_rng_below(random, 9)) / 10 / (uint64_t)queries;
    double load = (double)(period * (2 + culm_rng_below(random, 20)) / 10);
    size_t own = 0, least, most;
    memset(world, 0, sizeof *world);
    for (int32_t i = 0; i < layers; i++) {
        size_t bytes = 1000ull << culm_rng_below(random, 6);
        own += bytes;
        for (int32_t q = 0; q < QUERIES; q++) {
            world->bytes[q * LAYERS + i] = bytes;
        }
    }
    for (int32_t q = 0; q < queries; q++) {
        struct culm_edge_query *query = &world->query[q];
        uint64_t us = run_us * (5 + culm_rng_below(random, 16)) / 10;
        *query = (struct culm_edge_query){.feed = q % 2,
                                          .deadline_ns = deadline,
                                          .batches = 3,
                                          .batch = {1, 2, 4},
                                          .run_ns = {us * 1000, us * 1800, us * 3400},
                                          .activation_bytes = {own / 10, own / 5, own * 2 / 5},
                                          .tensor = world->list[q],
                                          .tensor_count = layers};
        for (int32_t i = 0; i < layers; i++) {
            world->list[q][i] = q * LAYERS + i;
        }
    }
    world->feed[0].period_ns = world->feed[1].period_ns = period;
    world->layout =
        (struct culm_edge_layout){.query_count = queries,
                                  .feed_count = 2,
                                  .tensor_count = TENSORS,
                                  .query = world->query,
                                  .feed = world->feed,
                                  .tensor_bytes = world->bytes,
                                  .load_ns_per_byte = load / (double)own / (double)queries};
    culm_edge_memory_range(&world->layout, &least, &most);
    world->layout.limit_bytes =
        least + (size_t)((double)(most - least) * room[culm_rng_below(random, 5)]);
}

/* What comes of the best choice among these. */
static void come_of(const struct culm_edge_layout *first, const struct culm_edge_layout *second,
                    int64_t frames, struct culm_edge_rehearsal *ret_rehearsal) {
    const struct culm_edge_plan_options how = {.tries = 20, .frames = frames};
    const struct culm_edge_layout *layout[] = {first, second};
    struct culm_edge_plan plan;
    int32_t chosen;
    assert_int_equal(culm_edge_choose(layout, second ? 2 : 1, &how, &chosen, &plan, NULL), CULM_OK);
    assert_int_equal(
        frames ? culm_edge_rehearsal_of_frames(layout[chosen], &plan, frames, ret_rehearsal)
               : culm_edge_rehearsal_run(layout[chosen], &plan, true, ret_rehearsal),
        CULM_OK);
}

static void more_is_no_worse(void **state) {
    uint64_t random = number("CULM_TEST_SEED", 11), first = random;
    uint64_t count = number("CULM_TEST_COUNT", WORKLOADS), lost = 0, better = 0, below[3] = {0};
    const bool counts = getenv("CULM_TEST_COUNT");
    (void)state;
    for (uint64_t i = 0; i < count; i++) {
        static struct world none, some, most;
        struct culm_edge_rehearsal of_none, of_some, of_most, of_some_only, of_most_only;
        int64_t frames = i % 2 ? 500 : 0;
        draw(&none, &random);
        share(&none, 16000, &some);
        share(&none, 2000, &most);
        come_of(&none.layout, NULL, frames, &of_none);
        if (culm_edge_rehearsal_whole(&of_none)) {
            continue;
        }
        come_of(&none.layout, &some.layout, frames, &of_some);
        come_of(&none.layout, &most.layout, frames, &of_most);
        lost++;
        better += culm_edge_rehearsal_better(&of_most, &of_none);
        if (culm_edge_rehearsal_better(&of_none, &of_some) ||
            culm_edge_rehearsal_better(&of_none, &of_most)) {
            fail_msg("workload %llu of seed %llu: %.4f of %.4f with less", (unsigned long long)i,
                     (unsigned long long)first, of_most.share[0], of_none.share[0]);
        }
        below[0] += culm_edge_rehearsal_better(&of_some, &of_most);
        if (!counts) {
            continue;
        }
        come_of(&some.layout, NULL, frames, &of_some_only);
        come_of(&most.layout, NULL, frames, &of_most_only);
        below[1] += culm_edge_rehearsal_better(&of_none, &of_most_only) +
                    culm_edge_rehearsal_better(&of_none, &of_some_only);
        below[2] += culm_edge_rehearsal_better(&of_some_only, &of_most_only);
    }
    printf("seed %llu (CULM_TEST_SEED): frames are lost in %llu of %llu workloads; in %llu fewer "
           "with most shared; "
           "with most worse than with some in %llu\n",
           (unsigned long long)first, (unsigned long long)lost, (unsigned long long)count,
           (unsigned long long)better, (unsigned long long)below[0]);
    if (counts) {
        printf("always merged: worse than none in %llu, most worse than some in %llu\n",
               (unsigned long long)below[1], (unsigned long long)below[2]);
    }
    assert_true(lost >= count / 3 && better >= lost / 3);
}

/* Of what is saved so much is left; each query has as many bytes as before. */
static void less_is_less(void **state) {
    uint64_t random = number("CULM_TEST_SEED", 11) + 1;
    (void)state;
    for (int i = 0; i < 50; i++) {
        static struct world none, most;
        draw(&none, &random);
        share(&none, 2000, &most);
        size_t all = culm_edge_distinct_bytes(&none.layout),
               saved = all - culm_edge_distinct_bytes(&most.layout), before = 0;
        for (int k = 0; k <= 4; k++) {
            struct culm_edge_unshared unshared;
            bool any;
            assert_int_equal(culm_edge_unshared_init(&unshared, &most.layout, k / 4.0), CULM_OK);
            assert_int_equal(culm_edge_layout_check(&unshared.layout, NULL), CULM_OK);
            size_t left = all - culm_edge_distinct_bytes(&unshared.layout);
            assert_true((double)left <= (double)saved * k / 4 + 0.5 && left >= before);
            for (int32_t q = 0; q < unshared.layout.query_count; q++) {
                assert_int_equal(culm_edge_query_bytes(&unshared.layout, q),
                                 culm_edge_query_bytes(&most.layout, q));
            }
            assert_int_equal(culm_edge_shares_any(&unshared.layout, &any), CULM_OK);
            assert_int_equal(any, left > 0);
            assert_true(k < 4 || left == saved);
            before = left;
            culm_edge_unshared_release(&unshared);
        }
    }
}

/* Models that fit only where layers of each have one tensor: the others are left out of what is looked at, also where they share a
 * file, and frames are lost. */
static void what_does_not_fit_is_left_out(void **state) {
    uint64_t random = number("CULM_TEST_SEED", 11);
    (void)state;
    for (int i = 0; i < 10; i++) {
        static struct world own, tied;
        struct culm_edge_rehearsal of_both, of_tied;
        size_t least, most;
        draw(&own, &random);
        memcpy(own.list[1], own.list[0], sizeof own.list[1]);
        share(&own, SIZE_MAX, &tied);
        for (int32_t q = 0; q < own.layout.query_count; q++) {
            tied.query[q].tensor_count = 1;
        }
        /* three frames and more come in the time that one may take */
        own.feed[0].period_ns = own.feed[1].period_ns = 10 * MS;
        tied.feed[0].period_ns = tied.feed[1].period_ns = 10 * MS;
        culm_edge_memory_range(&tied.layout, &least, &most);
        own.layout.limit_bytes = tied.layout.limit_bytes = least;
        culm_edge_memory_range(&own.layout, &least, &most);
        assert_true(least > own.layout.limit_bytes);
        come_of(&own.layout, &tied.layout, 0, &of_both);
        come_of(&tied.layout, NULL, 0, &of_tied);
        assert_false(culm_edge_rehearsal_whole(&of_both));
        assert_false(culm_edge_rehearsal_better(&of_tied, &of_both));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(less_is_less),
                                       cmocka_unit_test(more_is_no_worse),
                                       cmocka_unit_test(what_does_not_fit_is_left_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
