/* Views: tables of who holds what, and the roles, lanes and wishes that must follow. */
#include "expect_mark.h"
#include "view_table.h"

static const struct culm_run_shape two_by_three = {
    .pipelines = 2, .stages = 3, .lanes = 4, .redundancy = CULM_REDUNDANCY_EAGER};

/* Three stages of six small gradients, as many as a test asks for. */
static struct culm_stage_desc six_stages[3] = {
    {.first_grad = 0}, {.first_grad = 6}, {.first_grad = 12}};
static struct culm_grad_desc six_grads[18];
static const struct culm_layout six = {
    .stages = 3, .grad_count = 18, .stage = six_stages, .grad = six_grads};

static int make_grads(void **state) {
    (void)state;
    for (int32_t g = 0; g < 18; g++) {
        six_grads[g].stage = g / 6;
    }
    return 0;
}

static void test_start(void **state) {
    (void)state;
    /* holds: own stage and the next of the ring; the last also the first */
    struct culm_view view = view_of(&two_by_three, "0.0:3 0.1:6 0.2:5 1.0:3 1.1:6 1.2:5");
    culm_view_assign(&view, &two_by_three, NULL);
    check(&view, "0/2 1/0 2/1 | 3/5 4/3 5/4", "0 0 1 1");
    assert_true(view.frc);
    for (int32_t i = 0; i < view.node_count; i++) {
        assert_int_equal(mask_of(culm_view_desired(&view, &two_by_three, i)),
                         mask_of(view.node[i].holds));
    }
}

static void test_no_redundancy(void **state) {
    (void)state;
    struct culm_run_shape shape = two_by_three;
    shape.redundancy = CULM_REDUNDANCY_NONE;
    struct culm_view view = view_of(&shape, "0.0:1 0.1:2 0.2:4 1.0:1 1.1:2 1.2:4");
    culm_view_assign(&view, &shape, NULL);
    check(&view, "0/-1 1/-1 2/-1 | 3/-1 4/-1 5/-1", "0 0 1 1");
    assert_false(view.frc);
    assert_int_equal(mask_of(culm_view_desired(&view, &shape, 4)), 2);

    /* one is lost: its pipeline stops, its lanes go whole to the other */
    struct culm_view after = view_of(&shape, "0.0:1 - 0.2:4 1.0:1 1.1:2 1.2:4");
    culm_view_assign(&after, &shape, &view);
    check(&after, "0/-1 -1/-1 2/-1 | 3/-1 4/-1 5/-1", "1 1 1 1");
}

static void test_shadow_takes_over(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_view_has_another_owner);
    struct culm_view before = view_of(&two_by_three, "0.0:3 0.1:6 0.2:5 1.0:3 1.1:6 1.2:5");
    culm_view_assign(&before, &two_by_three, NULL);
    struct culm_view view = view_of(&two_by_three, "0.0:3 - 0.2:5 1.0:3 1.1:6 1.2:5");
    culm_view_assign(&view, &two_by_three, &before);
    check(&view, "0/2 0/-1 2/-1 | 3/5 4/3 5/4", "0 0 1 1");
    assert_true(view.frc);
    /* 0 has two stages now; 2 becomes the shadow of the second, and 0 of the third */
    assert_int_equal(mask_of(culm_view_desired(&view, &two_by_three, 0)), 7);
    assert_int_equal(mask_of(culm_view_desired(&view, &two_by_three, 2)), 7);

    /* the first stage: shadowed by the last */
    view = view_of(&two_by_three, "- 0.1:6 0.2:5 1.0:3 1.1:6 1.2:5");
    culm_view_assign(&view, &two_by_three, &before);
    check(&view, "2/-1 1/-1 2/1 | 3/5 4/3 5/4", "0 0 1 1");
}

static void test_owner_and_shadow_lost(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_view_has_no_owner);
    EXPECT_MARK(pipeline_view_moves_a_lane);
    EXPECT_MARK(pipeline_view_leaves_a_stopped_pipeline);
    struct culm_view before = view_of(&two_by_three, "0.0:3 0.1:6 0.2:5 1.0:3 1.1:6 1.2:5");
    culm_view_assign(&before, &two_by_three, NULL);
    struct culm_view view = view_of(&two_by_three, "- - 0.2:5 1.0:3 1.1:6 1.2:5");
    culm_view_assign(&view, &two_by_three, &before);
    /* no copy of stage 1 in pipeline 0: its lanes go, the redundant forwards are off */
    check(&view, "2/-1 -1/-1 2/-1 | 3/5 4/3 5/4", "1 1 1 1");
    assert_false(view.frc);
    assert_false(culm_view_whole(&view, 0));
    assert_int_equal(culm_view_copies(&view, 1), 2);

    /* a later loss does not bring redundant forwards back inside the iteration, a boundary does */
    struct culm_view later = view_of(&two_by_three, "- - 0.2:5 1.0:3 1.1:6 -");
    culm_view_assign(&later, &two_by_three, &view);
    check(&later, "2/-1 -1/-1 2/-1 | 3/-1 4/3 4/-1", "1 1 1 1");
    assert_false(later.frc);
    culm_view_assign(&later, &two_by_three, NULL);
    assert_true(later.frc);
}

static void test_no_pipeline_whole(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_view_starts_over);
    EXPECT_MARK(pipeline_view_deals_anew_inside_an_iteration);
    struct culm_view before = view_of(&two_by_three, "0.0:3 0.1:6 0.2:5 1.0:3 1.1:6 1.2:5");
    culm_view_assign(&before, &two_by_three, NULL);
    struct culm_view view = view_of(&two_by_three, "- - 0.2:5 - 1.1:6 -");
    culm_view_assign(&view, &two_by_three, &before);
    check(&view, "2/-1 -1/-1 2/-1 | -1/-1 4/-1 4/-1", "-1 -1 -1 -1");
    assert_int_equal(culm_view_reducer(&view, &six, 0), -1);
    /* each survivor wants all that its pipeline has not */
    assert_int_equal(mask_of(culm_view_desired(&view, &two_by_three, 2)), 7);
    assert_int_equal(mask_of(culm_view_desired(&view, &two_by_three, 4)), 7);
    /* once one has it, the iteration goes on there, though nobody was whole before */
    view.node[0].holds = stages_of(7);
    struct culm_view again = copy_of(&view);
    culm_view_assign(&again, &two_by_three, &view);
    check(&again, "2/-1 2/-1 2/-1 | -1/-1 4/-1 4/-1", "0 0 0 0");
}

static void test_owner_stays_while_it_lives(void **state) {
    (void)state;
    struct culm_view before = view_of(&two_by_three, "0.0:3 - 0.2:5 1.0:3 1.1:6 1.2:5");
    culm_view_assign(&before, &two_by_three, NULL);
    /* node 6 has joined in the slot of 1 and has both its stages */
    struct culm_view view = view_of(&two_by_three, "0.0:3 - 0.2:5 1.0:3 1.1:6 1.2:5 0.1:6");
    culm_view_assign(&view, &two_by_three, &before);
    check(&view, "0/2 0/6 2/6 | 3/5 4/3 5/4", "0 0 1 1");
    culm_view_assign(&view, &two_by_three, NULL);
    check(&view, "0/2 6/0 2/6 | 3/5 4/3 5/4", "0 0 1 1");
}

static void test_joiner_without_state_owns_nothing(void **state) {
    (void)state;
    struct culm_view view = view_of(&two_by_three, "0.0:3 - 0.2:5 1.0:3 1.1:6 1.2:5 0.1:0 -1.-1:0");
    culm_view_assign(&view, &two_by_three, NULL);
    check(&view, "0/2 0/-1 2/-1 | 3/5 4/3 5/4", "0 0 1 1");
    assert_int_equal(mask_of(culm_view_desired(&view, &two_by_three, 6)), 6);
    assert_int_equal(mask_of(culm_view_desired(&view, &two_by_three, 7)), 0); /* it stands by */
}

static void test_one_stage_has_no_shadow(void **state) {
    (void)state;
    const struct culm_run_shape shape = {
        .pipelines = 3, .stages = 1, .lanes = 7, .redundancy = CULM_REDUNDANCY_LAZY};
    struct culm_view view = view_of(&shape, "0.0:1 1.0:1 2.0:1");
    culm_view_assign(&view, &shape, NULL);
    check(&view, "0/-1 | 1/-1 | 2/-1", "0 0 0 1 1 2 2");
    struct culm_view after = view_of(&shape, "0.0:1 - 2.0:1");
    culm_view_assign(&after, &shape, &view);
    check(&after, "0/-1 | -1/-1 | 2/-1", "0 0 0 2 0 2 2"); /* only what was 1's, to the idlest */
}

static void test_reducers_take_turns(void **state) {
    (void)state;
    struct culm_view view = view_of(&two_by_three, "0.0:3 0.1:6 0.2:5 1.0:3 1.1:6 1.2:5");
    culm_view_assign(&view, &two_by_three, NULL);
    for (int32_t i = 0; i < 6; i++) {
        assert_int_equal(culm_view_reducer(&view, &six, 6 + i), i % 2 ? 4 : 1);
    }
    struct culm_view after = view_of(&two_by_three, "- - 0.2:5 1.0:3 1.1:6 1.2:5");
    culm_view_assign(&after, &two_by_three, &view);
    for (int32_t i = 0; i < 6; i++) {
        assert_int_equal(culm_view_reducer(&after, &six, 6 + i),
                         4); /* a stopped pipeline reduces nothing */
    }
}

/* Six pipelines of one stage: small sums go to the first four, large ones to all. */
static void test_as_many_reducers_as_are_worth_it(void **state) {
    (void)state;
    const struct culm_run_shape shape = {
        .pipelines = 6, .stages = 1, .lanes = 6, .redundancy = CULM_REDUNDANCY_NONE};
    struct culm_view view = view_of(&shape, "0.0:1 1.0:1 2.0:1 3.0:1 4.0:1 5.0:1");
    culm_view_assign(&view, &shape, NULL);
    for (int32_t g = 0; g < 6; g++) {
        assert_int_equal(culm_view_reducer(&view, &six, g), g % 4);
    }
    struct culm_stage_desc large[3] = {{.grad_bytes = CULM_REDUCER_BYTES}};
    struct culm_layout wide = six;
    wide.stage = large;
    for (int32_t g = 0; g < 6; g++) {
        assert_int_equal(culm_view_reducer(&view, &wide, g), g);
    }
    struct culm_view after = view_of(&shape, "0.0:1 - 2.0:1 3.0:1 4.0:1 5.0:1");
    culm_view_assign(&after, &shape, &view);
    for (int32_t g = 0; g < 6; g++) {
        static const int32_t whole[] = {0, 2, 3, 4};
        assert_int_equal(culm_view_reducer(&after, &six, g), whole[g % 4]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start),
        cmocka_unit_test(test_no_redundancy),
        cmocka_unit_test(test_shadow_takes_over),
        cmocka_unit_test(test_owner_and_shadow_lost),
        cmocka_unit_test(test_no_pipeline_whole),
        cmocka_unit_test(test_owner_stays_while_it_lives),
        cmocka_unit_test(test_joiner_without_state_owns_nothing),
        cmocka_unit_test(test_one_stage_has_no_shadow),
        cmocka_unit_test(test_reducers_take_turns),
        cmocka_unit_test(test_as_many_reducers_as_are_worth_it),
    };
    return cmocka_run_group_tests_name("pipeline/view", tests, make_grads, NULL);
}
