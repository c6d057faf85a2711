/*
 * What looking for drift costs, in virtual time: six queries that share most of their weights, and fit beside one another, and
 * then their originals too, which look at samples and do not fit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "edge/planner.h"
#include "edge/virtual.h"

#include <stdio.h>

#define MS 1000000ull
#define KB ((size_t)1000)
#define MODELS 6
#define TENSORS (1 + 2 * MODELS)

struct case_of {
    struct culm_edge_query query[2 * MODELS];
    struct culm_edge_feed feed[MODELS];
    int32_t list[2 * MODELS][2];
    size_t bytes[TENSORS]; /* what is shared; what each has alone; what each had instead */
    struct culm_edge_layout layout;
};

static void make(struct case_of *made, bool merged, uint64_t every_ms, int32_t burst) {
    int32_t queries = merged && every_ms ? 2 * MODELS : MODELS;
    *made = (struct case_of){.bytes = {1600 * KB}};
    for (int32_t q = 0; q < queries; q++) {
        int32_t model = q % MODELS;
        bool original = !merged || q >= MODELS;
        made->bytes[1 + model] = 400 * KB;
        made->bytes[1 + MODELS + model] = 1600 * KB;
        made->feed[model] = (struct culm_edge_feed){.period_ns = 100 * MS, .frame_bytes = 10 * KB};
        made->list[q][0] = original ? 1 + model : 0;
        made->list[q][1] = original ? 1 + MODELS + model : 1 + model;
        made->query[q] = (struct culm_edge_query){
            .feed = model,
            .deadline_ns = q >= MODELS ? 800 * MS : 200 * MS,
            .batches = 2,
            .batch = {1, 2},
            .run_ns = {8 * MS, 14 * MS},
            .activation_bytes = {100 * KB, 200 * KB},
            .tensor = made->list[q],
            .tensor_count = 2,
        };
        if (q >= MODELS) {
            made->query[q].every_ns = every_ms * MS;
            made->query[q].after_ns = every_ms * MS / MODELS * (uint64_t)model;
            made->query[q].burst = burst;
        }
    }
    made->layout = (struct culm_edge_layout){
        .query_count = queries,
        .feed_count = MODELS,
        .tensor_count = TENSORS,
        .query = made->query,
        .feed = made->feed,
        .tensor_bytes = made->bytes,
        .load_ns_per_byte = 25, /* 40 MB/s: a model takes 50 ms */
        .limit_bytes = 4400 * KB,
    };
}

/* Share of the frames that are answered in time, of the queries that answer; ret_checked, may be NULL: frames that originals saw. */
static double share_of(const struct case_of *made, int64_t *ret_checked) {
    struct culm_edge_plan plan;
    struct culm_edge_totals totals[2 * MODELS];
    struct culm_error error;
    int64_t frames = 0, processed = 0, checked = 0;
    assert_int_equal(culm_edge_plan_make(&made->layout, NULL, &plan, &error), CULM_OK);
    const struct culm_edge_virtual_options options = {
        .layout = &made->layout, .plan = &plan, .for_ns = 60000 * MS};
    assert_int_equal(culm_edge_virtual_run(&options, totals, NULL), CULM_OK);
    for (int32_t q = 0; q < made->layout.query_count; q++) {
        frames += q < MODELS ? totals[q].frames : 0;
        processed += q < MODELS ? totals[q].processed : 0;
        checked += q >= MODELS ? totals[q].processed : 0;
    }
    if (ret_checked) {
        *ret_checked = checked;
    }
    return (double)processed / (double)frames;
}

static void samplers_cost_little(void **state) {
    struct case_of made;
    int64_t checked;
    (void)state;
    make(&made, false, 0, 0);
    double unmerged = share_of(&made, NULL);
    make(&made, true, 0, 0);
    double merged = share_of(&made, NULL);
    make(&made, true, 10000 / 16, 1);
    double watched = share_of(&made, &checked);
    make(&made, true, 100, 1); /* all the time */
    double always = share_of(&made, NULL);
    print_message("unmerged %.3f, merged %.3f, watched %.3f, %lld samples; always %.3f\n", unmerged,
                  merged, watched, (long long)checked, always);
    assert_true(unmerged < 0.8 && merged > 0.99);
    assert_true(watched > unmerged && always < watched);
    assert_true(watched > merged - 0.15);
    assert_true(checked > MODELS * 16 * 5 / 2); /* of five bursts in a minute or more, half */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(samplers_cost_little)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
