/*
 * The node alone: what it borrows stays put while a task runs, and what is stale has no effect.
 * The leader, the peer and the compute thread are played by the test.
 */
#include "expect_mark.h"
#include "node_driven.h"

#include "pipeline/waits.h"

static void test_a_load_of_an_older_view_is_not_one_of_the_newer(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_load_of_a_view_before);
    struct fixture f;
    begin(&f);
    view(&f, CULM_VIEW_LOAD, "step-3");
    finish(&f, CULM_TASK_DROP);
    struct culm_task *old = fake_world_run(&f.fake);
    assert_non_null(old);
    assert_int_equal(old->kind, CULM_TASK_LOAD);
    /* While it reads, two views come. What it reads from must not move. */
    view(&f, CULM_VIEW_LOAD, "another-3");
    view(&f, CULM_VIEW_LOAD, "a-third-3");
    assert_string_equal(old->source, "step-3");
    culm_node_actor.job_done(f.node, &old->job);
    assert_int_equal(fake_world_sent(&f.fake, CULM_LEADER, CULM_MSG_LOADED), 0);
    assert_int_equal(culm_node_version(f.node, 0), -1);
    finish(&f, CULM_TASK_DROP);
    struct culm_task *task = fake_world_run(&f.fake);
    assert_non_null(task);
    assert_int_equal(task->kind, CULM_TASK_LOAD);
    assert_string_equal(task->source, "a-third-3");
    culm_node_actor.job_done(f.node, &task->job);
    assert_int_equal(fake_world_sent(&f.fake, CULM_LEADER, CULM_MSG_LOADED), 1);
    end(&f);
}

static void test_nothing_is_sent_before_have(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_have_of_an_old_view);
    struct fixture f;
    begin(&f);
    load(&f);
    finish(&f, CULM_TASK_FORWARD);
    assert_int_equal(fake_world_sent(&f.fake, 1, CULM_MSG_ACTIVATION), 0);
    have(&f, f.view.number - 1); /* of a view before */
    assert_int_equal(fake_world_sent(&f.fake, 1, CULM_MSG_ACTIVATION), 0);
    have(&f, f.view.number);
    assert_int_equal(fake_world_sent(&f.fake, 1, CULM_MSG_ACTIVATION), 1);
    /* a new view: it may be lost, and is sent again when the peer says that it has it not */
    view(&f, CULM_VIEW_RUN, "");
    finish(&f, CULM_TASK_FORWARD);
    assert_int_equal(fake_world_sent(&f.fake, 1, CULM_MSG_ACTIVATION), 1);
    have(&f, f.view.number);
    assert_int_equal(fake_world_sent(&f.fake, 1, CULM_MSG_ACTIVATION), 3);
    end(&f);
}

static void test_have_of_many_peers_may_come_early(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_have_of_a_view_to_come);
    EXPECT_MARK(pipeline_have_of_two_views_to_come);
    EXPECT_MARK(pipeline_have_waits_for_its_view);
    struct fixture f;
    begin(&f);
    load(&f);
    finish(&f, CULM_TASK_FORWARD);
    for (uint64_t ahead = 1; ahead <= 3; ahead++) { /* three views, of which it has heard of none */
        for (int32_t from = 1; from <= 130; from++) {
            have_from(&f, from, f.view.number + ahead);
        }
    }
    assert_int_equal(fake_world_sent(&f.fake, CULM_LEADER, CULM_WORD_FAILED), 0);
    assert_int_equal(culm_node_queues_of(f.node).early_have, 130);
    view(&f, CULM_VIEW_RUN, "");
    view(&f, CULM_VIEW_RUN, "");
    assert_int_equal(fake_world_sent(&f.fake, 1, CULM_MSG_ACTIVATION), 0);
    have(&f, f.view.number); /* of a view that its sender has left: the newer one counts on */
    view(&f, CULM_VIEW_RUN, "");
    assert_true(fake_world_sent(&f.fake, 1, CULM_MSG_ACTIVATION) > 0);
    assert_int_equal(culm_node_queues_of(f.node).early_have, 0);
    end(&f);
}

static bool stepping(struct fixture *f) {
    struct culm_task *task = fake_world_run(&f->fake);
    assert_non_null(task);
    culm_node_actor.job_done(f->node, &task->job); /* the forward that was running */
    return f->fake.run_count && ((struct culm_task *)f->fake.run[0])->kind == CULM_TASK_STEP;
}

static void test_a_commit_counts_in_its_view_and_step(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_commit_of_another_view);
    EXPECT_MARK(pipeline_task_is_of_no_use_any_more);
    struct fixture f;
    begin(&f);
    load(&f);
    have(&f, f.view.number);
    commit(&f, f.view.number - 1, 4);
    commit(&f, f.view.number + 1, 4);
    commit(&f, f.view.number, 3);
    commit(&f, f.view.number, 5);
    assert_false(stepping(&f));
    commit(&f, f.view.number, 4);
    assert_true(stepping(&f));
    /* what came for the step before does not count in this one */
    commit(&f, f.view.number, 4);
    finish(&f, CULM_TASK_STEP);
    assert_int_equal(culm_node_version(f.node, 0), 4);
    end(&f);
}

static void test_a_second_save_waits_for_the_first(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_save_waits_for_the_one_before);
    struct fixture f;
    begin(&f);
    load(&f);
    save(&f, 1, 3);
    finish(&f, CULM_TASK_FORWARD);
    save(&f, 2, 3); /* the first was given up, and its snapshot is being taken */
    finish(&f, CULM_TASK_SNAPSHOT);
    assert_int_equal(f.fake.io_count, 1);
    struct culm_task *first = fake_world_io(&f.fake);
    save(&f, 3, 3); /* the second, too, while it is being written */
    assert_int_equal(f.fake.io_count, 0);
    culm_node_actor.job_done(f.node, &first->job);
    assert_int_equal(last_saved(&f).attempt, 1);
    finish(&f, CULM_TASK_FORWARD);
    finish(&f, CULM_TASK_SNAPSHOT);
    struct culm_task *third = fake_world_io(&f.fake);
    assert_non_null(third);
    culm_node_actor.job_done(f.node, &third->job);
    assert_int_equal(last_saved(&f).attempt, 3);
    assert_int_equal(last_saved(&f).status, CULM_OK);
    end(&f);
}

static void test_a_save_that_waited_past_its_version_is_refused(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_save_waited_too_long);
    struct fixture f;
    begin(&f);
    load(&f);
    save(&f, 1, 3);
    finish(&f, CULM_TASK_FORWARD);
    finish(&f, CULM_TASK_SNAPSHOT);
    struct culm_task *first = fake_world_io(&f.fake);
    assert_non_null(first);
    save(&f, 2, 3);
    commit(&f, f.view.number, 4); /* the state of version 3 is about to go */
    culm_node_actor.job_done(f.node, &first->job);
    assert_int_equal(fake_world_sent(&f.fake, CULM_LEADER, CULM_MSG_SAVED), 2);
    assert_int_equal(last_saved(&f).attempt, 2);
    assert_int_equal(last_saved(&f).status, CULM_ERR_AGAIN);
    end(&f);
}

/* --- what a task made is kept --- */

/* The first stage comes to node 0, and the second goes to a newcomer, who has nothing yet. */
static void stages_move(struct fixture *f) {
    f->view.node[1] = (struct culm_view_node){2, 0, 0, {{2}}};
    f->view.role[0][0] = (struct culm_role){0, -1};
    f->view.role[0][1] = (struct culm_role){2, 0};
    view(f, CULM_VIEW_RUN, "");
    struct culm_have have;
    assert_int_equal(culm_have_init(&have, STAGES, 2, 3, f->shape.lanes), CULM_OK);
    have.view = f->view.number;
    have.iteration = f->view.iteration;
    culm_have_encode(&have, &f->buf);
    culm_have_release(&have);
    deliver(f, 2, CULM_MSG_HAVE);
}

static void test_a_forward_done_again_feeds_who_has_the_stage_now(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_takes_over_a_stage);
    struct fixture f;
    begin(&f);
    own_second(&f, false);
    activation(&f);
    finish(&f, CULM_TASK_FORWARD);
    finish(&f, CULM_TASK_BACKWARD);
    stages_move(&f);
    finish(&f, CULM_TASK_FORWARD); /* of the first stage; the second's backward is done here */
    assert_int_equal(fake_world_sent(&f.fake, 2, CULM_MSG_ACTIVATION), 1);
    end(&f);
}

static void test_what_a_redundant_forward_made_is_kept(void **state) {
    (void)state;
    struct fixture f;
    begin(&f);
    own_second(&f, true);
    finish(&f, CULM_TASK_FORWARD); /* redundant, of the first stage */
    activation(&f);
    finish(&f, CULM_TASK_FORWARD);
    finish(&f, CULM_TASK_BACKWARD);
    stages_move(&f);
    assert_true(fake_world_sent(&f.fake, 2, CULM_MSG_ACTIVATION) > 0);
    end(&f);
}

static void test_a_step_reads_what_it_began_with(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_norms_of_an_iteration_that_is_over);
    struct fixture f;
    begin(&f);
    load(&f);
    culm_reduced_encode(&(struct culm_reduced){.at = {4, 0}, .grad = 0}, &f.buf);
    data(&f, 1, CULM_MSG_REDUCED, 4);
    finish(&f, CULM_TASK_FORWARD);
    commit(&f, f.view.number, 4);
    struct culm_task *step = NULL;
    while (!step || step->kind != CULM_TASK_STEP) {
        if (step) {
            culm_node_actor.job_done(f.node, &step->job);
        }
        step = fake_world_run(&f.fake);
        assert_non_null(step);
    }
    assert_non_null(step->grad[0]);
    /* While it runs the node has nothing more to hold, and the others go on without it. */
    f.view.iteration = 5;
    f.view.node[0].holds = (struct culm_stage_set){{0}};
    f.view.role[0][0] = (struct culm_role){1, -1};
    view(&f, CULM_VIEW_RUN, "");
    commit(&f, f.view.number, 5);
    assert_non_null(step->grad[0]);
    culm_node_actor.job_done(f.node, &step->job);
    end(&f);
}

/* --- signs of life --- */

static void beats(struct fixture *f, int count) {
    for (int i = 0; i < count; i++) {
        f->fake.now_ns += 100000000;
        culm_node_actor.timer(f->node, 0);
    }
}

static void test_a_heartbeat_says_what_runs_and_for_how_long(void **state) {
    (void)state;
    struct fixture f;
    begin(&f);
    assert_int_equal(last_heartbeat(&f).kind, -1);
    view(&f, CULM_VIEW_LOAD, "step-3");
    finish(&f, CULM_TASK_DROP);
    struct culm_task *task = (struct culm_task *)f.fake.run[0];
    beats(&f, 3);
    assert_int_equal(last_heartbeat(&f).kind, CULM_TASK_LOAD);
    assert_int_equal(last_heartbeat(&f).task_ms, 300);
    task->moved += 1000; /* it reads */
    beats(&f, 1);
    assert_int_equal(last_heartbeat(&f).task_ms, 0);
    beats(&f, 2);
    assert_int_equal(last_heartbeat(&f).task_ms, 200);
    finish(&f, CULM_TASK_LOAD);
    assert_int_equal(last_took(&f).kind, CULM_TASK_LOAD);
    assert_int_equal(last_took(&f).task_ms, 200);
    finish(&f, CULM_TASK_DROP);
    beats(&f, 1);
    assert_int_equal(last_heartbeat(&f).kind, -1);
    end(&f);
}

static void test_it_says_what_it_has_and_who_is_silent(void **state) {
    (void)state;
    struct fixture f;
    begin(&f);
    load(&f);
    finish(&f, CULM_TASK_FORWARD);
    const struct culm_ask question = {.question = 5};
    culm_ask_encode(&question, &f.buf);
    deliver(&f, 1, CULM_WORD_ASK); /* not for another node to ask */
    assert_int_equal(fake_world_sent(&f.fake, CULM_LEADER, CULM_MSG_WAITS), 0);
    culm_ask_encode(&question, &f.buf);
    deliver(&f, CULM_LEADER, CULM_WORD_ASK);
    struct culm_waits *waits = culm_waits_new(STAGES, 2, 3, f.shape.lanes);
    for (int32_t i = 0; i < f.fake.sent_count; i++) {
        const struct fake_sent *sent = &f.fake.sent[i];
        if (sent->type == CULM_MSG_WAITS) {
            assert_int_equal(culm_waits_decode(sent->meta, sent->meta_bytes, waits), CULM_OK);
        }
    }
    assert_int_equal(waits->question, 5);
    assert_int_equal(waits->have.view, f.view.number);
    assert_int_equal(waits->deaf_count, 1);
    assert_int_equal(waits->deaf[0], 1);
    assert_int_equal(waits->have.activation[2], 1); /* of stage 1, made here */
    assert_int_equal(waits->have.activation[3], 0);
    culm_waits_free(waits);
    end(&f);
}

/* HAVE goes to those who may send something, and is expected of those who may be sent something: two pipelines, one
 * that stands by, and one that is sent a copy. */
static void test_have_is_for_those_who_may_send(void **state) {
    (void)state;
    struct fixture f;
    begin_with(&f, &layout, 2);
    for (int32_t i = 0; i < 6; i++) {
        f.view.node[i] =
            i < 4 ? (struct culm_view_node){i, i / STAGES, i % STAGES, {{1ull << i % STAGES}}}
                  : (struct culm_view_node){i, -1, -1, {{0}}};
    }
    f.view.node_count = 6;
    f.view.lane_pipeline[1] = 1;
    f.view.role[1][0] = (struct culm_role){2, -1};
    f.view.role[1][1] = (struct culm_role){3, -1};
    load(&f);
    f.view.transfer_count = 1;
    f.view.transfer[0] = (struct culm_transfer){1, 0, 5, 0};
    view(&f, CULM_VIEW_RUN, "");
    for (int32_t i = 1; i < 6; i++) { /* a neighbour; one whose sums are added up here */
        assert_int_equal(fake_world_sent(&f.fake, i, CULM_MSG_HAVE), i == 1 || i == 2);
    }
    culm_ask_encode(&(struct culm_ask){.question = 5}, &f.buf);
    deliver(&f, CULM_LEADER, CULM_WORD_ASK);
    struct culm_waits *waits = culm_waits_new(STAGES, 2, 3, f.shape.lanes);
    const struct fake_sent *sent = fake_world_last(&f.fake, CULM_LEADER, CULM_MSG_WAITS);
    assert_int_equal(culm_waits_decode(sent->meta, sent->meta_bytes, waits), CULM_OK);
    assert_int_equal(waits->deaf_count, 3);
    assert_int_equal(waits->deaf[0], 1);
    assert_int_equal(waits->deaf[1], 2); /* holds the stage whose gradient is reduced here */
    assert_int_equal(waits->deaf[2], 5);
    culm_waits_free(waits);
    end(&f);
}

static void test_a_process_that_slept_is_not_stuck(void **state) {
    (void)state;
    struct fixture f;
    begin(&f);
    load(&f);
    assert_int_equal(((struct culm_task *)f.fake.run[0])->kind, CULM_TASK_FORWARD);
    beats(&f, 2);
    f.fake.now_ns += 60000000000; /* the machine was suspended */
    beats(&f, 1);
    assert_int_equal(last_heartbeat(&f).kind, CULM_TASK_FORWARD);
    assert_true(last_heartbeat(&f).task_ms <= 400);
    f.fake.now_ns += 60000000000; /* and again, and the task ends before a heartbeat */
    finish(&f, CULM_TASK_FORWARD);
    assert_true(last_took(&f).task_ms <= 500);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_load_of_an_older_view_is_not_one_of_the_newer),
        cmocka_unit_test(test_nothing_is_sent_before_have),
        cmocka_unit_test(test_have_of_many_peers_may_come_early),
        cmocka_unit_test(test_a_commit_counts_in_its_view_and_step),
        cmocka_unit_test(test_a_forward_done_again_feeds_who_has_the_stage_now),
        cmocka_unit_test(test_what_a_redundant_forward_made_is_kept),
        cmocka_unit_test(test_a_step_reads_what_it_began_with),
        cmocka_unit_test(test_a_heartbeat_says_what_runs_and_for_how_long),
        cmocka_unit_test(test_it_says_what_it_has_and_who_is_silent),
        cmocka_unit_test(test_have_is_for_those_who_may_send),
        cmocka_unit_test(test_a_process_that_slept_is_not_stuck),
        cmocka_unit_test(test_a_second_save_waits_for_the_first),
        cmocka_unit_test(test_a_save_that_waited_past_its_version_is_refused),
    };
    return cmocka_run_group_tests_name("pipeline/node", tests, NULL, NULL);
}
