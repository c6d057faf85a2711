/*
 * A node alone that learns a stage while others go on, or has one that learns from it. The leader, the source and the
 * reducers are played by the test.
 */
#include "expect_mark.h"
#include "node_driven.h"

#define MS 1000000ull
#define COPY 2 /* the id of the transfer */

/* Stage 1 has two tensors, the first of which is copied in two slices. */
static int32_t learnt_params[2] = {1, 2};
static struct culm_stage_desc learnt_stages[STAGES];
static struct culm_grad_desc learnt_grads[4] = {
    {0, 0, 0, 4}, {1, 1, 0, 4}, {1, 2, 4, 4}, {1, -1, 8, 4}};
static struct culm_param_desc learnt_tensors[3] = {
    {.stages = {{1}}, .state_bytes = 8},
    {.stages = {{2}}, .state_bytes = 8, .slices = 2, .slice_bytes = 4},
    {.stages = {{2}}, .state_bytes = 8}};
static const struct culm_layout learnt = {STAGES,        4, 3, learnt_stages, learnt_grads,
                                          learnt_tensors};

/* Node 0 stands by and is to have stage 1, which node 1 runs, as it does stage 0. Iteration 4 is in progress. */
static void begin_learning(struct fixture *f, uint64_t copy_bytes_per_ms) {
    learnt_stages[0] = stage_descs[0];
    learnt_stages[1] = stage_descs[1];
    learnt_stages[1].grad_bytes = 12;
    learnt_stages[1].grad_count = 3;
    learnt_stages[1].param_count = 2;
    learnt_stages[1].params = learnt_params;
    begin_copying(f, &learnt, 1, copy_bytes_per_ms);
    f->view.node[0] = (struct culm_view_node){0, -1, -1, {{0}}};
    f->view.node[1] = (struct culm_view_node){1, 0, 0, {{3}}};
    f->view.node[2] = (struct culm_view_node){2, 0, 1, {{3}}};
    f->view.node_count = 3;
    f->view.role[0][0] = f->view.role[0][1] = (struct culm_role){1, -1};
    f->view.transfer_count = 1;
    f->view.transfer[0] = (struct culm_transfer){COPY, 1, 0, 1};
    view(f, CULM_VIEW_RUN, "");
}

static struct culm_want last_want(const struct fixture *f, int32_t from) {
    struct culm_want want = {0};
    const struct fake_sent *sent = fake_world_last(&f->fake, from, CULM_MSG_WANT);
    assert_non_null(sent);
    assert_int_equal(culm_want_decode(sent->meta, sent->meta_bytes, &want), CULM_OK);
    return want;
}

static void wants(const struct fixture *f, int32_t from, int32_t index, int32_t slice) {
    const struct culm_want want = last_want(f, from);
    assert_int_equal(want.index, index);
    assert_int_equal(want.slice, slice);
}

/* The slice comes, as it is at that version. */
static void slice(struct fixture *f, int32_t index, int32_t at, int64_t version) {
    const struct culm_state state = {
        .version = version, .transfer = COPY, .index = index, .slice = at};
    culm_state_encode(&state, &f->buf);
    data(f, 1, CULM_MSG_STATE, index == 0 ? 4 : 8);
}

static void imported(struct fixture *f, int32_t index, int32_t at, int64_t version) {
    slice(f, index, at, version);
    finish(f, CULM_TASK_IMPORT);
}

static void lesson(struct fixture *f, int64_t iteration, int32_t grad) {
    const struct culm_reduced reduced = {.at = {iteration, 0}, .grad = grad};
    culm_reduced_encode(&reduced, &f->buf);
    data(f, 1, CULM_MSG_LESSON, 4);
}

static void committed(struct fixture *f, int64_t iteration) {
    commit(f, f->view.number, iteration);
}

/* A step of these slices of the first tensor by that iteration. */
static void steps(struct fixture *f, int32_t from, int32_t to, int64_t iteration) {
    struct culm_task *task = fake_world_run(&f->fake);
    assert_non_null(task);
    assert_int_equal(task->kind, CULM_TASK_ADVANCE);
    assert_int_equal(task->from_slice, from);
    assert_int_equal(task->to_slice, to);
    assert_int_equal(task->iteration, iteration);
    assert_non_null(task->grad[1]);
    culm_node_actor.job_done(f->node, &task->job);
}

static int32_t told_joined(const struct fixture *f) {
    return fake_world_sent(&f->fake, CULM_LEADER, CULM_MSG_JOINED);
}

static bool learns_grad(const struct fixture *f, int32_t grad) {
    uint8_t flags[4];
    struct culm_learn learn = {.grads = 4, .grad = flags};
    const struct fake_sent *sent = fake_world_last(&f->fake, 1, CULM_MSG_LEARN);
    assert_non_null(sent);
    assert_int_equal(culm_learn_decode(sent->meta, sent->meta_bytes, &learn), CULM_OK);
    return flags[grad];
}

static void test_a_stage_is_learnt_while_others_go_on(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_lesson_counts_for_a_holder);
    EXPECT_MARK(pipeline_copy_is_held);
    struct fixture f;
    begin_learning(&f, 0);
    wants(&f, 1, 0, 0);
    assert_true(learns_grad(&f, 1));
    assert_false(learns_grad(&f, 2)); /* nothing of that tensor has been asked for */
    imported(&f, 0, 0, 3);
    wants(&f, 1, 0, 1);
    lesson(&f, 4, 1);
    committed(&f, 4);
    steps(&f, 0, 1, 4);
    imported(&f, 0, 1, 3); /* the source sent it before that step */
    steps(&f, 1, 2, 4);
    wants(&f, 1, 1, 0);
    assert_true(learns_grad(&f, 2));
    assert_int_equal(told_joined(&f), 0);
    imported(&f, 1, 0, 4);
    finish(&f, CULM_TASK_COMPLETE);
    assert_int_equal(told_joined(&f), 1);
    lesson(&f, 5, 1);
    lesson(&f, 5, 2);
    f.view.iteration = 5;
    f.view.transfer_count = 0;
    f.view.node[0].holds = (struct culm_stage_set){{2}};
    view(&f, CULM_VIEW_RUN, "");
    assert_int_equal(culm_node_version(f.node, 1), 4);
    end(&f);
}

/* The commit comes before the view that would have made it a holder: it catches up and says so again. */
static void test_one_that_is_whole_too_late_catches_up(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_copy_is_complete_too_late);
    EXPECT_MARK(pipeline_lesson_comes_after_its_commit);
    struct fixture f;
    begin_learning(&f, 0);
    imported(&f, 0, 0, 3);
    imported(&f, 0, 1, 3);
    imported(&f, 1, 0, 3);
    committed(&f, 4);
    finish(&f, CULM_TASK_COMPLETE);
    assert_int_equal(told_joined(&f), 0);
    lesson(&f, 4, 1);
    steps(&f, 0, 2, 4);
    lesson(&f, 4, 2);
    finish(&f, CULM_TASK_ADVANCE);
    finish(&f, CULM_TASK_COMPLETE);
    assert_int_equal(told_joined(&f), 1);
    end(&f);
}

static void test_a_tensor_that_is_too_far_behind_is_begun_anew(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_tensor_is_too_far_behind);
    EXPECT_MARK(pipeline_state_is_not_wanted);
    struct fixture f;
    begin_learning(&f, 0);
    imported(&f, 0, 0, 3);
    committed(&f, 4);
    committed(&f, 5);
    wants(&f, 1, 0, 1);
    committed(&f, 6);
    wants(&f, 1, 0, 0);
    slice(&f, 0, 1, 3);
    assert_int_equal(f.fake.run_count, 0);
    imported(&f, 0, 0, 6);
    wants(&f, 1, 0, 1);
    end(&f);
}

static void test_a_slice_that_is_too_far_behind_is_asked_for_again(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_slice_is_too_far_behind);
    struct fixture f;
    begin_learning(&f, 0);
    imported(&f, 0, 0, 3);
    for (int64_t k = 4; k <= 6; k++) {
        lesson(&f, k, 1);
        committed(&f, k);
        steps(&f, 0, 1, k);
    }
    fake_world_forget(&f.fake);
    imported(&f, 0, 1, 3);
    wants(&f, 1, 0, 1);
    imported(&f, 0, 1, 6);
    wants(&f, 1, 1, 0);
    end(&f);
}

/* Tasks that run meanwhile come to nothing. */
static void test_what_is_done_for_a_tensor_that_was_begun_anew_counts_not(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_step_of_a_slice_that_went);
    EXPECT_MARK(pipeline_slice_of_a_tensor_that_was_begun_anew);
    struct fixture f;
    begin_learning(&f, 0);
    imported(&f, 0, 0, 3);
    lesson(&f, 4, 1);
    for (int64_t k = 4; k <= 6; k++) {
        committed(&f, k);
    }
    finish(&f, CULM_TASK_ADVANCE);
    wants(&f, 1, 0, 0);
    imported(&f, 0, 0, 6);
    slice(&f, 0, 1, 6);
    for (int64_t k = 7; k <= 9; k++) {
        committed(&f, k);
    }
    finish(&f, CULM_TASK_IMPORT);
    wants(&f, 1, 0, 0);
    end(&f);
}

static void test_a_lesson_of_another_time_is_of_no_use(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_lesson_is_of_no_use);
    struct fixture f;
    begin_learning(&f, 0);
    imported(&f, 0, 0, 3);
    lesson(&f, 6, 1);
    lesson(&f, 3, 1);
    lesson(&f, 4, 0); /* of another stage */
    committed(&f, 4);
    assert_int_equal(f.fake.run_count, 0);
    end(&f);
}

static void test_a_copy_keeps_to_its_rate(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_copy_keeps_to_its_rate);
    struct fixture f;
    begin_learning(&f, 2);
    imported(&f, 0, 0, 3);
    wants(&f, 1, 0, 0); /* 4 bytes at 2 a millisecond */
    assert_true(f.fake.timer_ns[CULM_NODE_TIMER_COPY] >= f.fake.now_ns + 2 * MS);
    f.fake.now_ns = f.fake.timer_ns[CULM_NODE_TIMER_COPY];
    culm_node_actor.timer(f.node, CULM_NODE_TIMER_COPY);
    wants(&f, 1, 0, 1);
    end(&f);
}

/* The rate is that of the node, however many stages it is sent. */
static void test_copies_of_two_stages_keep_to_one_rate(void **state) {
    (void)state;
    struct fixture f;
    begin_learning(&f, 2);
    const int32_t before = fake_world_sent(&f.fake, 1, CULM_MSG_WANT);
    f.view.transfer_count = 2;
    f.view.transfer[1] = (struct culm_transfer){COPY + 1, 1, 0, 0};
    view(&f, CULM_VIEW_RUN, "");
    assert_int_equal(fake_world_sent(&f.fake, 1, CULM_MSG_WANT), before);
    f.fake.now_ns = f.fake.timer_ns[CULM_NODE_TIMER_COPY];
    culm_node_actor.timer(f.node, CULM_NODE_TIMER_COPY);
    assert_int_equal(fake_world_sent(&f.fake, 1, CULM_MSG_WANT), before + 1);
    end(&f);
}

static void test_a_view_says_what_was_committed(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_view_says_what_was_committed);
    struct fixture f;
    begin_learning(&f, 0);
    imported(&f, 0, 0, 3);
    lesson(&f, 4, 1);
    f.view.iteration = 5;
    f.view.last = (struct culm_content){4, 0.5, 1.0, 1.0};
    view(&f, CULM_VIEW_RUN, "");
    steps(&f, 0, 1, 4);
    end(&f);
}

/* No iteration is to come in which it would be too far behind, and whoever reduced the gradient that it lacks may have left. */
static void test_what_cannot_go_on_is_begun_anew_where_nobody_trains(void **state) {
    (void)state;
    struct fixture f;
    begin_learning(&f, 0);
    imported(&f, 0, 0, 3);
    imported(&f, 0, 1, 3);
    imported(&f, 1, 0, 3);
    finish(&f, CULM_TASK_COMPLETE);
    lesson(&f, 4, 2);
    f.view.iteration = 5;
    f.view.last = (struct culm_content){4, 0.5, 1.0, 1.0};
    for (int32_t l = 0; l < f.view.lanes; l++) {
        f.view.lane_pipeline[l] = -1;
    }
    view(&f, CULM_VIEW_RUN, "");
    wants(&f, 1, 0, 0);
    struct culm_task *task = fake_world_run(&f.fake); /* of the other one it has what it needs */
    assert_non_null(task);
    assert_int_equal(task->kind, CULM_TASK_ADVANCE);
    assert_int_equal(task->index, 1);
    culm_node_actor.job_done(f.node, &task->job);
    imported(&f, 0, 0, 4);
    wants(&f, 1, 0, 1);
    imported(&f, 0, 1, 4);
    finish(&f, CULM_TASK_COMPLETE);
    assert_int_equal(told_joined(&f), 2);
    end(&f);
}

/* What came from the source before is kept. */
static void test_a_copy_goes_on_from_another_source(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_copy_goes_on_from_another);
    struct fixture f;
    begin_learning(&f, 0);
    imported(&f, 0, 0, 3);
    f.view.transfer[0] = (struct culm_transfer){COPY + 1, 2, 0, 1};
    view(&f, CULM_VIEW_RUN, "");
    wants(&f, 2, 0, 1);
    end(&f);
}

/* --- a reducer --- */

static void learn(struct fixture *f, int64_t got) {
    const struct culm_learn learn = {
        .view = f->view.number, .got = got, .grads = 3, .grad = (uint8_t[]){1, 0, 0}};
    culm_learn_encode(&learn, &f->buf);
    deliver(f, 5, CULM_MSG_LEARN);
}

/* Node 0 has summed and reduced the gradient of stage 0. */
static void reduce(struct fixture *f) {
    have(f, f->view.number);
    finish(f, CULM_TASK_FORWARD);
    finish(f, CULM_TASK_FORWARD);
    for (int32_t m = 0; m < 2; m++) {
        const struct culm_boundary boundary = {.at = {4, 0}, .stage = 0, .micro = m};
        culm_boundary_encode(&boundary, &f->buf);
        data(f, 1, CULM_MSG_GRADIENT, 4);
        finish(f, CULM_TASK_BACKWARD);
    }
    finish(f, CULM_TASK_FOLD);
}

/* Node 5 learns stage 0 from node 0. */
static void begin_teaching(struct fixture *f) {
    begin(f);
    load(f);
    f->view.node[2] = (struct culm_view_node){5, -1, -1, {{0}}};
    f->view.node_count = 3;
    f->view.transfer_count = 1;
    f->view.transfer[0] = (struct culm_transfer){COPY, 0, 5, 0};
    view(f, CULM_VIEW_RUN, "");
}

static int32_t lessons(const struct fixture *f) {
    return fake_world_sent(&f->fake, 5, CULM_MSG_LESSON);
}

static void test_one_who_learns_is_sent_the_gradients_that_it_wants(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_learner_is_none_any_more);
    struct fixture f;
    begin_teaching(&f);
    learn(&f, 0);
    reduce(&f);
    assert_int_equal(lessons(&f), 1);
    learn(&f, 1);
    assert_int_equal(lessons(&f), 1); /* it has that one */
    f.view.transfer_count = 0;
    view(&f, CULM_VIEW_RUN, "");
    assert_int_equal(lessons(&f), 1);
    end(&f);
}

/* It has not acknowledged those of two iterations. */
static void test_a_lesson_is_left_out_for_one_that_is_slow(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_lesson_is_left_out);
    struct fixture f;
    begin_teaching(&f);
    learn(&f, 2);
    learn(&f, 0);
    reduce(&f);
    assert_int_equal(lessons(&f), 0);
    learn(&f, 1);
    assert_int_equal(lessons(&f), 1);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stage_is_learnt_while_others_go_on),
        cmocka_unit_test(test_one_that_is_whole_too_late_catches_up),
        cmocka_unit_test(test_a_tensor_that_is_too_far_behind_is_begun_anew),
        cmocka_unit_test(test_a_slice_that_is_too_far_behind_is_asked_for_again),
        cmocka_unit_test(test_what_is_done_for_a_tensor_that_was_begun_anew_counts_not),
        cmocka_unit_test(test_a_lesson_of_another_time_is_of_no_use),
        cmocka_unit_test(test_a_copy_keeps_to_its_rate),
        cmocka_unit_test(test_copies_of_two_stages_keep_to_one_rate),
        cmocka_unit_test(test_a_view_says_what_was_committed),
        cmocka_unit_test(test_what_cannot_go_on_is_begun_anew_where_nobody_trains),
        cmocka_unit_test(test_a_copy_goes_on_from_another_source),
        cmocka_unit_test(test_one_who_learns_is_sent_the_gradients_that_it_wants),
        cmocka_unit_test(test_a_lesson_is_left_out_for_one_that_is_slow),
    };
    return cmocka_run_group_tests_name("pipeline/node_learn", tests, NULL, NULL);
}
