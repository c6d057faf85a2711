/*
 * The promise about memory: what parts take, and views in which nobody takes more.
 *
 * Every stage is of the same size; boundaries are small, states large. Sizes are multiples of 64
 * bytes, as blobs are.
 */
#include "pipeline/memory.h"
#include "expect_mark.h"

#include "view_table.h"

static struct culm_stage_desc stages[3];
static const struct culm_layout layout = {.stages = 3, .stage = stages};
static const struct culm_run_shape two_by_three = {.pipelines = 2,
                                                   .stages = 3,
                                                   .lanes = 4,
                                                   .micros = 8,
                                                   .micros_per_lane = 2,
                                                   .redundancy = CULM_REDUNDANCY_LAZY};

static int make_stages(void **state) {
    (void)state;
    for (int32_t s = 0; s < 3; s++) {
        stages[s] = (struct culm_stage_desc){.input_bytes = s > 0 ? 6400 : 0,
                                             .output_bytes = s < 2 ? 6400 : 0,
                                             .activation_bytes = 64000,
                                             .grad_bytes = 640000,
                                             .state_bytes = 1920000,
                                             .scratch_bytes = 6400,
                                             .sample_bytes = 100};
    }
    return 0;
}

static struct culm_memory memory_of(size_t node_bytes, size_t total_bytes) {
    return (struct culm_memory){.layout = &layout,
                                .base_bytes = 1000,
                                .node_bytes = node_bytes,
                                .total_bytes = total_bytes};
}

static size_t undisturbed(const struct culm_run_shape *shape, int32_t stage) {
    const struct culm_memory memory = memory_of(0, 0);
    const struct culm_memory_load load = culm_memory_undisturbed(shape, stage);
    return culm_memory_of(&memory, shape, &load);
}

static void test_parts(void **state) {
    (void)state;
    /* two lanes of two micro-batches; stage 1 of 3, two in flight, shadow of stage 2 */
    size_t held = 2 * (1920000 + 640000);
    size_t boundaries = (4 + 3) * 2 * 6400, activations = 2 * 64000;
    size_t sums = 3 * 640000 + 640000 / 2, snapshot = 1920000;
    assert_int_equal(undisturbed(&two_by_three, 1),
                     1000 + held + boundaries + activations + sums + snapshot + 6400 + 100);

    struct culm_run_shape eager = two_by_three;
    eager.redundancy = CULM_REDUNDANCY_EAGER;
    assert_int_equal(undisturbed(&eager, 1) - undisturbed(&two_by_three, 1),
                     4 * 64000 + 6400); /* what runs ahead; the last stage sends nothing */

    struct culm_run_shape none = two_by_three;
    none.redundancy = CULM_REDUNDANCY_NONE;
    assert_int_equal(undisturbed(&two_by_three, 1) - undisturbed(&none, 1), 1920000 + 640000);
}

/* Views of two pipelines of three; node 1, with stage 1 of pipeline 0, is lost. */
static struct culm_view lose_one(const struct culm_memory *memory, struct culm_view *ret_before) {
    *ret_before = view_of(&two_by_three, "0.0:3 0.1:6 0.2:5 1.0:3 1.1:6 1.2:5");
    culm_view_assign(ret_before, &two_by_three, NULL);
    culm_memory_fit(memory, &two_by_three, ret_before, NULL);
    check(ret_before, "0/2 1/0 2/1 | 3/5 4/3 5/4", "0 0 1 1");
    struct culm_view view = view_of(&two_by_three, "0.0:3 - 0.2:5 1.0:3 1.1:6 1.2:5");
    culm_view_assign(&view, &two_by_three, ret_before);
    culm_memory_fit(memory, &two_by_three, &view, ret_before);
    return view;
}

static void test_no_limit(void **state) {
    (void)state;
    const struct culm_memory memory = memory_of(0, 0);
    struct culm_view before, view = lose_one(&memory, &before);
    check(&view, "0/2 0/-1 2/-1 | 3/5 4/3 5/4", "0 0 1 1");
    assert_int_equal(mask_of(culm_memory_desired(&memory, &two_by_three, &view, 0)), 7);
}

static void test_room_for_two_stages(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_memory_gives_a_stage_to_nobody);
    const struct culm_memory_load two = {.held = {{3}}, .owned = {{3}}, .micros = 4};
    const struct culm_memory any = memory_of(0, 0);
    const struct culm_memory memory = memory_of(culm_memory_of(&any, &two_by_three, &two), 0);
    struct culm_view before, view = lose_one(&memory, &before);
    check(&view, "0/2 0/-1 2/-1 | 3/5 4/3 5/4", "0 0 1 1");
    const struct culm_memory less = memory_of(memory.node_bytes - 1, 0);
    view = lose_one(&less, &before);
    assert_false(culm_view_whole(&view, 0));
}

static void test_lanes_go_where_there_is_room(void **state) {
    (void)state;
    const struct culm_memory any = memory_of(0, 0);
    size_t most = 0;
    for (int32_t s = 0; s < 3; s++) {
        struct culm_memory_load all = culm_memory_undisturbed(&two_by_three, s);
        all.micros = 8;
        size_t bytes = culm_memory_of(&any, &two_by_three, &all);
        most = bytes > most ? bytes : most;
    }
    const struct culm_memory memory = memory_of(most, 0);
    struct culm_view before, view = lose_one(&memory, &before);
    check(&view, "0/2 -1/-1 2/-1 | 3/5 4/3 5/4", "1 1 1 1");
}

static void test_lanes_wait(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_memory_has_no_room_for_a_copy);
    EXPECT_MARK(pipeline_memory_lets_a_lane_wait);
    const struct culm_memory memory = memory_of(undisturbed(&two_by_three, 1), 0);
    struct culm_view before, view = lose_one(&memory, &before);
    assert_false(culm_view_whole(&view, 0));
    assert_true(culm_view_whole(&view, 1));
    assert_int_equal(view.lane_pipeline[0], -1);
    assert_int_equal(view.lane_pipeline[1], -1);
    assert_int_equal(view.lane_pipeline[2], 1);
    /* nor does anybody take a third copy that does not fit */
    assert_int_equal(mask_of(culm_memory_desired(&memory, &two_by_three, &view, 0)), 3);

    /* a replacement with its copies: the pipeline goes on inside the iteration */
    struct culm_view later = view_of(&two_by_three, "0.0:3 - 0.2:5 1.0:3 1.1:6 1.2:5 0.1:6");
    culm_view_assign(&later, &two_by_three, &view);
    culm_memory_fit(&memory, &two_by_three, &later, &view);
    check(&later, "0/2 6/0 2/6 | 3/5 4/3 5/4", "0 0 1 1");
}

/* The first holder that could take over has a third copy, and so no room; the next one has. */
static void test_a_stage_goes_to_whom_it_fits(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_memory_gives_a_stage_to_another);
    const struct culm_memory_load two = {.held = {{6}}, .owned = {{6}}, .micros = 4};
    const struct culm_memory any = memory_of(0, 0);
    const struct culm_memory memory = memory_of(culm_memory_of(&any, &two_by_three, &two), 0);
    struct culm_view before = view_of(&two_by_three, "0.0:7 0.1:6 0.2:6 1.0:3 1.1:6 1.2:5");
    culm_view_assign(&before, &two_by_three, NULL);
    struct culm_view view = view_of(&two_by_three, "0.0:7 - 0.2:6 1.0:3 1.1:6 1.2:5");
    culm_view_assign(&view, &two_by_three, &before);
    check(&view, "0/-1 0/2 2/0 | 3/5 4/3 5/4", "0 0 1 1");
    culm_memory_fit(&memory, &two_by_three, &view, &before);
    check(&view, "0/-1 2/-1 2/0 | 3/5 4/3 5/4", "0 0 1 1");
}

/* What runs ahead goes first, and what is owned only if that does not help. */
static void test_redundant_forwards_go_first(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_memory_ends_redundant_forwards);
    struct culm_run_shape eager = two_by_three;
    eager.redundancy = CULM_REDUNDANCY_EAGER;
    const struct culm_memory_load two = {
        .held = {{7}}, .owned = {{3}}, .ahead = {{2}}, .micros = 4};
    const struct culm_memory any = memory_of(0, 0);
    const struct culm_memory memory = memory_of(culm_memory_of(&any, &eager, &two), 0);
    struct culm_view before = view_of(&eager, "0.0:7 0.1:6 0.2:5 1.0:3 1.1:6 1.2:5");
    culm_view_assign(&before, &eager, NULL);
    struct culm_view view = view_of(&eager, "0.0:7 - 0.2:5 1.0:3 1.1:6 1.2:5");
    culm_view_assign(&view, &eager, &before);
    assert_true(view.frc);
    culm_memory_fit(&memory, &eager, &view, &before);
    assert_false(view.frc);
    check(&view, "0/2 0/-1 2/0 | 3/5 4/3 5/4", "0 0 1 1");
}

/* A lane for which one pipeline has no room goes to another that has. */
static void test_a_lane_that_waits_is_placed(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_memory_places_a_lane);
    struct culm_run_shape three = two_by_three;
    three.pipelines = 3;
    three.lanes = 6;
    three.micros = 12;
    const struct culm_memory any = memory_of(0, 0);
    size_t most = 0; /* with four lanes, but without a third copy */
    for (int32_t s = 0; s < 3; s++) {
        struct culm_memory_load load = culm_memory_undisturbed(&three, s);
        load.micros = 8;
        size_t bytes = culm_memory_of(&any, &three, &load);
        most = bytes > most ? bytes : most;
    }
    const struct culm_memory memory = memory_of(most, 0);
    struct culm_view before =
        view_of(&three, "0.0:3 0.1:6 0.2:5 1.0:7 1.1:6 1.2:5 2.0:3 2.1:6 2.2:5");
    culm_view_assign(&before, &three, NULL);
    struct culm_view view = view_of(&three, "0.0:3 - - 1.0:7 1.1:6 1.2:5 2.0:3 2.1:6 2.2:5");
    culm_view_assign(&view, &three, &before);
    check(&view, "0/-1 0/-1 -1/-1 | 3/5 4/3 5/4 | 6/8 7/6 8/7", "1 2 1 1 2 2");
    culm_memory_fit(&memory, &three, &view, &before);
    check(&view, "0/-1 -1/-1 -1/-1 | 3/5 4/3 5/4 | 6/8 7/6 8/7", "2 2 1 1 2 2");
}

static void test_all_together(void **state) {
    (void)state;
    size_t total = 0;
    for (int32_t s = 0; s < 3; s++) {
        total += 2 * undisturbed(&two_by_three, s);
    }
    /* What the lost one had is free for the one that takes over. */
    const struct culm_memory memory = memory_of(0, total);
    struct culm_view before, view = lose_one(&memory, &before);
    check(&view, "0/2 0/-1 2/-1 | 3/5 4/3 5/4", "0 0 1 1");
}

/* Random losses and limits: nobody is over the promise, unless with no more than its own slot and
 * its undisturbed share. */
static void test_random(void **state) {
    (void)state;
    const struct culm_memory any = memory_of(0, 0);
    uint64_t seed = 1;
    for (int round = 0; round < 2000; round++) {
        struct culm_view before = view_of(&two_by_three, "0.0:3 0.1:6 0.2:5 1.0:3 1.1:6 1.2:5");
        const struct culm_memory memory =
            memory_of(undisturbed(&two_by_three, 1) + (size_t)(seed >> 33) % (6 * 1920000), 0);
        culm_view_assign(&before, &two_by_three, NULL);
        for (int loss = 0; loss < 4 && before.node_count > 1; loss++) {
            seed = seed * 6364136223846793005ull + 1442695040888963407ull;
            struct culm_view view = copy_of(&before);
            int32_t victim = (int32_t)(seed >> 33) % view.node_count;
            view.node[victim] = view.node[--view.node_count];
            culm_view_assign(&view, &two_by_three, loss % 2 ? NULL : &before);
            culm_memory_fit(&memory, &two_by_three, &view, loss % 2 ? NULL : &before);
            for (int32_t i = 0; i < view.node_count; i++) {
                const struct culm_view_node *node = &view.node[i];
                struct culm_memory_load load = {.held = node->holds};
                for (int32_t s = 0; s < 3; s++) {
                    if (view.role[node->pipeline][s].owner == node->id) {
                        culm_stage_set_add(&load.owned, s);
                    }
                }
                for (int32_t l = 0; l < 4; l++) {
                    load.micros += view.lane_pipeline[l] == node->pipeline ? 2 : 0;
                }
                size_t takes = culm_memory_of(&any, &two_by_three, &load);
                bool own = !(mask_of(load.owned) & ~(1ull << node->stage)) && load.micros <= 4;
                if (takes > memory.node_bytes && !own) {
                    fail_msg("round %d: node %d takes %zu of %zu", round, node->id, takes,
                             memory.node_bytes);
                }
            }
            before = view;
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_no_limit),
        cmocka_unit_test(test_room_for_two_stages),
        cmocka_unit_test(test_lanes_go_where_there_is_room),
        cmocka_unit_test(test_lanes_wait),
        cmocka_unit_test(test_a_stage_goes_to_whom_it_fits),
        cmocka_unit_test(test_redundant_forwards_go_first),
        cmocka_unit_test(test_a_lane_that_waits_is_placed),
        cmocka_unit_test(test_all_together),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests_name("pipeline/memory", tests, make_stages, NULL);
}
