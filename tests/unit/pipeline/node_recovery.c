/*
 * The node alone, in the branches of recovery: what it drops, keeps and begins afresh when views
 * change under what it does. The leader, the peer and the compute thread are played by the test.
 */
#include "expect_mark.h"
#include "node_driven.h"

#include "crew/self.h"
#include "pipeline/report.h"

/* The same parameter in both stages. */
static int32_t tied_params[1] = {0};
static struct culm_stage_desc tied_stages[STAGES] = {
    {.grad_bytes = 4, .state_bytes = 8, .grad_count = 1, .param_count = 1, .params = tied_params},
    {.grad_bytes = 8,
     .state_bytes = 8,
     .first_grad = 1,
     .grad_count = 2,
     .param_count = 1,
     .params = tied_params}};
static struct culm_grad_desc tied_grads[3] = {{0, 0, 0, 4}, {1, 0, 0, 4}, {1, -1, 4, 4}};
static struct culm_param_desc tied_param[1] = {{.stages = {{3}}, .state_bytes = 8}};
static const struct culm_layout tied = {STAGES, 3, 1, tied_stages, tied_grads, tied_param};

static int32_t sent(const struct fixture *f, int32_t to, uint16_t type) {
    return fake_world_sent(&f->fake, to, type);
}

/* --- views --- */

static void test_an_old_view_changes_nothing(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_view_is_old);
    struct fixture f;
    begin(&f);
    load(&f);
    f.view.number--; /* `view` counts it up again */
    view(&f, CULM_VIEW_LOAD, "step-3");
    assert_int_equal(sent(&f, 1, CULM_MSG_HAVE), 0);
    finish(&f, CULM_TASK_FORWARD);
    end(&f);
}

static void test_one_that_is_fenced_leaves(void **state) {
    (void)state;
    EXPECT_MARK(crew_leaves_since_it_is_fenced);
    struct fixture f;
    begin(&f);
    load(&f);
    culm_fenced_encode(&(struct culm_fenced){"it was silent"}, &f.buf);
    deliver(&f, 1, CULM_WORD_FENCED); /* not for another node to say */
    assert_int_equal(f.fake.exit_code, -1);
    culm_fenced_encode(&(struct culm_fenced){"it was silent"}, &f.buf);
    deliver(&f, CULM_LEADER, CULM_WORD_FENCED);
    assert_int_equal(f.fake.exit_code, 1);
    assert_string_equal(f.fake.error, "fenced: it was silent");
    end(&f);
}

/* It asks each leader, and works until one lets it go. */
static void test_one_that_is_to_end_asks_first(void **state) {
    (void)state;
    EXPECT_MARK(crew_leaves_since_it_is_released);
    struct fixture f;
    begin(&f);
    load(&f);
    culm_node_actor.leave(f.node, 25000);
    culm_node_actor.leave(f.node, 25000);
    assert_int_equal(sent(&f, CULM_LEADER, CULM_WORD_NOTICE), 1);
    culm_node_actor.led(f.node, 2);
    assert_int_equal(sent(&f, CULM_LEADER, CULM_WORD_NOTICE), 2);
    deliver(&f, 1, CULM_WORD_RELEASED); /* not for another node to say */
    assert_int_equal(f.fake.exit_code, -1);
    deliver(&f, CULM_LEADER, CULM_WORD_RELEASED);
    assert_int_equal(f.fake.exit_code, CULM_SELF_RELEASED);
    assert_string_equal(f.fake.error, "");
    end(&f);
}

static void test_a_lost_link_is_told_of(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_complains_of_a_peer);
    struct fixture f;
    begin(&f);
    load(&f);
    culm_node_actor.lost(f.node, 7); /* not in the view: nobody minds */
    assert_int_equal(sent(&f, CULM_LEADER, CULM_WORD_PEER_LOST), 0);
    culm_node_actor.lost(f.node, 1);
    assert_int_equal(sent(&f, CULM_LEADER, CULM_WORD_PEER_LOST), 1);
    end(&f);
}

/* The leader that it was told to may have died with it. */
static void test_a_lost_link_is_told_of_to_another_leader(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_complains_to_another_leader);
    struct fixture f;
    begin(&f);
    load(&f);
    culm_node_actor.lost(f.node, 1);
    view(&f, CULM_VIEW_RUN, "");
    assert_int_equal(sent(&f, CULM_LEADER, CULM_WORD_PEER_LOST), 1); /* the same leader knows */
    f.view.number = CULM_VIEW_OF_TERM(2) + 7;                        /* `view` counts it up */
    view(&f, CULM_VIEW_RUN, "");
    assert_int_equal(sent(&f, CULM_LEADER, CULM_WORD_PEER_LOST), 2);
    end(&f);
}

/* Another leader knows of one that has seen no view; the leader before had put it out. */
static void test_one_that_was_lost_comes_again(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_one_that_was_lost_is_in_the_view_again);
    struct fixture f;
    begin(&f);
    load(&f);
    f.view.node_count = 1;
    f.view.role[0][1].owner = -1;
    view(&f, CULM_VIEW_RUN, "");
    f.view.node_count = 2;
    f.view.role[0][1].owner = 1;
    for (int again = 0; again < 2; again++) { /* and goes once more */
        view(&f, CULM_VIEW_LOAD, "step-3");
        f.view.node_count = 1;
        view(&f, CULM_VIEW_LOAD, "step-3");
        f.view.node_count = 2;
    }
    end(&f);
}

static struct culm_report reported(const struct fixture *f) {
    struct culm_report report = {.of_stages = STAGES};
    const struct fake_sent *sent = fake_world_last(&f->fake, CULM_LEADER, CULM_MSG_REPORT);
    assert_non_null(sent);
    assert_int_equal(culm_report_decode(sent->meta, sent->meta_bytes, &report), CULM_OK);
    return report;
}

static void test_another_leader_is_told_what_there_is(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_reports_to_a_new_leader);
    struct fixture f;
    begin(&f);
    culm_node_actor.led(f.node, 2);
    assert_int_equal(reported(&f).view, 0); /* it has seen none */
    load(&f);
    culm_node_actor.led(f.node, 2);
    struct culm_report report = reported(&f);
    assert_int_equal(report.view, f.view.number);
    assert_int_equal(report.iteration, 4);
    assert_int_equal(report.holds.word[0], 1);
    assert_int_equal(report.commit.iteration, 0); /* none since it has loaded */
    assert_int_equal(report.curve_first, 0);
    deliver(&f, CULM_LEADER, CULM_MSG_SHOW);
    struct culm_view newest = {0};
    const struct fake_sent *shown = fake_world_last(&f.fake, CULM_LEADER, CULM_MSG_VIEW);
    assert_non_null(shown);
    assert_int_equal(culm_view_decode(shown->meta, shown->meta_bytes, NULL, &f.shape, &newest),
                     CULM_OK);
    assert_int_equal(newest.number, f.view.number);
    culm_view_release(&newest);
    assert_int_equal(sent(&f, CULM_LEADER, CULM_MSG_CURVE), 1);
    fake_world_forget(&f.fake);
    f.view.number = CULM_VIEW_OF_TERM(2) + 7; /* `view` counts it up */
    view(&f, CULM_VIEW_RUN, "");
    assert_int_equal(sent(&f, CULM_LEADER, CULM_MSG_DIGESTS), 1); /* which it has not heard */
    end(&f);
}

/* It is told of steps before it came, ahead of its first view; the view may tell of the last of them again. One that was put out
 * once, and comes in anew, is told of those that it may lack. */
static void test_it_is_told_of_steps_before_it_came(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_hears_of_steps_before_it_came);
    struct fixture f;
    begin(&f);
    static struct culm_curve curve, shown;
    curve.count = 0;
    culm_curve_add(&curve, 2, 7, 1);
    culm_curve_add(&curve, 3, 8, 1);
    culm_curve_encode(&curve, &f.buf);
    deliver(&f, CULM_LEADER, CULM_MSG_CURVE);
    f.view.node[0] = (struct culm_view_node){0, -1, -1, {{0}}}; /* it stands by */
    f.view.role[0][0] = (struct culm_role){1, -1};
    f.view.last = (struct culm_content){3, 0.5, 8, 1};
    view(&f, CULM_VIEW_RUN, "");
    for (int anew = 0; anew < 2; anew++) {
        deliver(&f, CULM_LEADER, CULM_MSG_SHOW);
        const struct fake_sent *sent = fake_world_last(&f.fake, CULM_LEADER, CULM_MSG_CURVE);
        assert_non_null(sent);
        assert_int_equal(culm_curve_decode(sent->meta, sent->meta_bytes, &shown), CULM_OK);
        assert_int_equal(shown.first, 2);
        assert_int_equal(shown.count, 2 + anew);
        assert_true(shown.step[0].loss == 7 && shown.step[1].loss == 8);
        culm_curve_add(&curve, 4, 9, 1);
        culm_curve_encode(&curve, &f.buf);
        deliver(&f, CULM_LEADER, CULM_MSG_CURVE);
    }
    end(&f);
}

/* A view says what was committed last, and one in which all load that nothing was; what is here then is not what is to be loaded. */
static void test_a_view_says_what_was_committed(void **state) {
    (void)state;
    struct fixture f;
    begin(&f);
    load(&f);
    f.view.last = (struct culm_content){3, 0.5, 2, 1};
    view(&f, CULM_VIEW_RUN, "");
    culm_node_actor.led(f.node, 2);
    assert_int_equal(reported(&f).commit.iteration, 3);
    assert_int_equal(reported(&f).curve_first, 3);
    f.view.last = (struct culm_content){0};
    f.view.iteration = 3;
    view(&f, CULM_VIEW_LOAD, "step-2");
    culm_node_actor.led(f.node, 3);
    assert_int_equal(reported(&f).commit.iteration, 0);
    assert_int_equal(reported(&f).curve_first, 0);
    assert_int_equal(reported(&f).holds.word[0], 0);
    end(&f);
}

/* The lanes of another pipeline come here; the first task that is done of them is told of. */
static void test_lanes_are_taken_over(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_takes_over_lanes);
    EXPECT_MARK(pipeline_says_what_it_took_over);
    struct fixture f;
    begin_with(&f, &layout, 2);
    f.view.lane_pipeline[1] = 1;
    f.view.node_count = 4;
    f.view.node[2] = (struct culm_view_node){2, 1, 0, {{1}}};
    f.view.node[3] = (struct culm_view_node){3, 1, 1, {{2}}};
    f.view.role[1][0] = (struct culm_role){2, -1};
    f.view.role[1][1] = (struct culm_role){3, -1};
    load(&f);
    finish(&f, CULM_TASK_FORWARD);
    fake_world_forget(&f.fake);
    f.view.node_count = 3;
    f.view.node[2] = f.view.node[3];
    f.view.role[1][0].owner = -1;
    f.view.lane_pipeline[1] = 0;
    view(&f, CULM_VIEW_RUN, "");
    finish(&f, CULM_TASK_FORWARD);
    const struct fake_sent *told = fake_world_last(&f.fake, CULM_LEADER, CULM_MSG_TAKEN_OVER);
    struct culm_taken_over said;
    assert_non_null(told);
    assert_int_equal(culm_taken_over_decode(told->meta, told->meta_bytes, &said), CULM_OK);
    assert_int_equal(said.stage, 0);
    assert_int_equal(said.origin, CULM_ORIGIN_PEER);
    end(&f);
}

/* --- what is not what was put there --- */

static void test_a_damaged_node_says_so_and_does_no_more(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_finds_itself_damaged);
    EXPECT_MARK(pipeline_tells_another_leader_of_its_damage);
    struct fixture f;
    begin(&f);
    load(&f);
    struct culm_task *task = fake_world_run(&f.fake);
    task->damaged = true;
    culm_error_set(&task->job.error, CULM_ERR_INTERNAL, "a tensor has changed");
    task->job.status = CULM_ERR_INTERNAL;
    culm_node_actor.job_done(f.node, &task->job);
    assert_int_equal(sent(&f, CULM_LEADER, CULM_MSG_DAMAGED), 1);
    assert_int_equal(sent(&f, CULM_LEADER, CULM_WORD_FAILED), 0);
    have(&f, f.view.number);
    assert_int_equal(f.fake.run_count, 0);
    culm_node_actor.led(f.node, 2); /* the one before may have told nobody */
    assert_int_equal(sent(&f, CULM_LEADER, CULM_MSG_DAMAGED), 2);
    assert_int_equal(sent(&f, CULM_LEADER, CULM_MSG_REPORT), 0);
    end(&f);
}

/* Two stages here share a tensor, and it is not the same in both: neither is believed. */
static void test_copies_of_a_tied_tensor_that_differ(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_copies_of_a_tied_tensor_differ);
    struct fixture f;
    begin_with(&f, &tied, 1);
    f.view.node_count = 1;
    f.view.node[0].holds = (struct culm_stage_set){{3}};
    f.view.role[0][1].owner = 0;
    view(&f, CULM_VIEW_LOAD, "step-3");
    for (struct culm_task *task; (task = fake_world_run(&f.fake));) {
        if (task->kind == CULM_TASK_LOAD) {
            task->state_digest[0] = 5 + (uint64_t)task->stage;
        }
        culm_node_actor.job_done(f.node, &task->job);
    }
    const struct fake_sent *told = fake_world_last(&f.fake, CULM_LEADER, CULM_MSG_DIGESTS);
    uint64_t digest[1] = {0};
    struct culm_digests said = {.params = 1, .of_stages = STAGES, .digest = digest};
    assert_non_null(told);
    assert_int_equal(culm_digests_decode(told->meta, told->meta_bytes, &said), CULM_OK);
    assert_true(digest[0] == ~(uint64_t)6);
    end(&f);
}

static void test_a_checkpoint_that_cannot_be_loaded(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_says_that_it_cannot_load);
    struct fixture f;
    begin(&f);
    view(&f, CULM_VIEW_LOAD, "step-3");
    finish(&f, CULM_TASK_DROP);
    struct culm_task *task = fake_world_run(&f.fake);
    assert_int_equal(task->kind, CULM_TASK_LOAD);
    task->job.status = CULM_ERR_FORMAT;
    culm_node_actor.job_done(f.node, &task->job);
    assert_int_equal(sent(&f, CULM_LEADER, CULM_MSG_UNLOADED), 1);
    assert_int_equal(f.fake.exit_code, -1); /* it waits for what to load instead */
    view(&f, CULM_VIEW_LOAD, "step-2");
    finish(&f, CULM_TASK_DROP);
    finish(&f, CULM_TASK_DROP);
    finish(&f, CULM_TASK_LOAD);
    finish(&f, CULM_TASK_DROP);
    assert_int_equal(sent(&f, CULM_LEADER, CULM_MSG_LOADED), 1);
    end(&f);
}

/* --- copies --- */

#define FROM_HERE 1 /* ids of transfers */
#define TO_HERE 2

/* Stage 0 goes to node 1, or stage 1 comes from it. */
static void copy(struct fixture *f, uint32_t id) {
    f->view.transfer_count = 1;
    f->view.transfer[0] =
        id == FROM_HERE ? (struct culm_transfer){id, 0, 1, 0} : (struct culm_transfer){id, 1, 0, 1};
    view(f, CULM_VIEW_RUN, "");
}

/* Node 1 asks for what there is of stage 0. */
static void wanted(struct fixture *f, uint32_t transfer, uint64_t number) {
    const struct culm_want want = {.view = number, .transfer = transfer};
    culm_want_encode(&want, &f->buf);
    deliver(f, 1, CULM_MSG_WANT);
}

static void state_comes(struct fixture *f, int32_t index) {
    const struct culm_state state = {.version = 3, .transfer = TO_HERE, .index = index};
    culm_state_encode(&state, &f->buf);
    data(f, 1, CULM_MSG_STATE, 8);
}

static void no_copy(struct fixture *f) {
    f->view.transfer_count = 0;
    view(f, CULM_VIEW_RUN, "");
}

static void test_a_copy_goes_on_in_a_new_view(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_copy_goes_on_in_a_new_view);
    struct fixture f;
    begin(&f);
    load(&f);
    copy(&f, FROM_HERE);
    wanted(&f, FROM_HERE, f.view.number);
    finish(&f, CULM_TASK_FORWARD);
    copy(&f, FROM_HERE); /* another view, and the same copy, of which a part is on its way */
    finish(&f, CULM_TASK_EXPORT);
    finish(&f, CULM_TASK_FORWARD);
    assert_int_equal(sent(&f, 1, CULM_MSG_STATE), 1);
    end(&f);
}

static void test_what_was_exported_for_a_copy_that_is_no_more(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_export_of_a_copy_that_is_no_more);
    struct fixture f;
    begin(&f);
    load(&f);
    copy(&f, FROM_HERE);
    wanted(&f, FROM_HERE, f.view.number);
    finish(&f, CULM_TASK_FORWARD);
    no_copy(&f);
    finish(&f, CULM_TASK_EXPORT);
    assert_int_equal(sent(&f, 1, CULM_MSG_STATE), 0);
    end(&f);
}

static void test_half_a_copy_is_dropped(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_half_a_copy_is_dropped);
    EXPECT_MARK(pipeline_order_is_dropped);
    struct fixture f;
    begin(&f);
    load(&f);
    copy(&f, TO_HERE);
    state_comes(&f, 0); /* its IMPORT waits for the forward that runs */
    no_copy(&f);
    finish(&f, CULM_TASK_FORWARD);
    finish(&f, CULM_TASK_DROP);
    assert_int_equal(sent(&f, CULM_LEADER, CULM_MSG_JOINED), 0);
    end(&f);
}

static void test_what_was_imported_for_a_copy_that_is_no_more(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_import_of_a_copy_that_is_no_more);
    struct fixture f;
    begin(&f);
    load(&f);
    copy(&f, TO_HERE);
    state_comes(&f, 0);
    finish(&f, CULM_TASK_FORWARD);
    no_copy(&f);
    finish(&f, CULM_TASK_IMPORT);
    finish(&f, CULM_TASK_DROP);
    assert_int_equal(sent(&f, CULM_LEADER, CULM_MSG_JOINED), 0);
    assert_int_equal(culm_node_version(f.node, 1), -1);
    end(&f);
}

/* A copy is held once a view says so, and let go when one says so. */
static void test_a_copy_is_held_by_the_view(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_copy_is_held);
    EXPECT_MARK(pipeline_stage_is_let_go);
    EXPECT_MARK(pipeline_state_is_not_wanted);
    struct fixture f;
    begin(&f);
    load(&f);
    copy(&f, TO_HERE);
    state_comes(&f, 1); /* there is no second tensor */
    state_comes(&f, 0);
    state_comes(&f, 0); /* it has it */
    finish(&f, CULM_TASK_FORWARD);
    finish(&f, CULM_TASK_IMPORT);
    finish(&f, CULM_TASK_COMPLETE);
    finish(&f, CULM_TASK_FORWARD);
    assert_int_equal(sent(&f, CULM_LEADER, CULM_MSG_JOINED), 1);
    assert_int_equal(culm_node_version(f.node, 1), -1);
    f.view.node[0].holds = (struct culm_stage_set){{3}};
    no_copy(&f);
    assert_int_equal(culm_node_version(f.node, 1), 3);
    f.view.node[0].holds = (struct culm_stage_set){{1}};
    no_copy(&f);
    assert_int_equal(culm_node_version(f.node, 1), -1);
    finish(&f, CULM_TASK_DROP);
    end(&f);
}

static void test_a_copy_is_asked_for_before_its_view(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_copy_is_asked_for_in_a_view_to_come);
    EXPECT_MARK(pipeline_copy_that_is_no_more_is_asked_for);
    struct fixture f;
    begin(&f);
    load(&f);
    wanted(&f, FROM_HERE, f.view.number + 1);
    wanted(&f, FROM_HERE, f.view.number); /* and in one in which there is none */
    copy(&f, FROM_HERE);
    finish(&f, CULM_TASK_FORWARD);
    finish(&f, CULM_TASK_EXPORT);
    finish(&f, CULM_TASK_FORWARD);
    assert_int_equal(sent(&f, 1, CULM_MSG_STATE), 1);
    end(&f);
}

/* Between two slices training has its turn. */
static void test_a_copy_and_training_take_turns(void **state) {
    (void)state;
    struct fixture f;
    begin(&f);
    load(&f);
    copy(&f, FROM_HERE);
    for (int32_t i = 0; i < 3; i++) {
        wanted(&f, FROM_HERE, f.view.number);
    }
    finish(&f, CULM_TASK_FORWARD);
    finish(&f, CULM_TASK_EXPORT);
    finish(&f, CULM_TASK_FORWARD);
    finish(&f, CULM_TASK_EXPORT); /* until its gradients come there is nothing else to do */
    finish(&f, CULM_TASK_EXPORT);
    assert_int_equal(sent(&f, 1, CULM_MSG_STATE), 3);
    end(&f);
}

/* What is sent is of the version that was committed last. */
static void test_a_copy_waits_for_the_step_before(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_copy_waits_for_a_step);
    struct fixture f;
    begin(&f);
    load(&f);
    copy(&f, FROM_HERE);
    commit(&f, f.view.number, 4);
    wanted(&f, FROM_HERE, f.view.number);
    finish(&f, CULM_TASK_FORWARD);
    finish(&f, CULM_TASK_STEP);
    struct culm_task *task = fake_world_run(&f.fake);
    assert_true(task->kind == CULM_TASK_EXPORT && task->version == 4);
    culm_node_actor.job_done(f.node, &task->job);
    assert_int_equal(sent(&f, 1, CULM_MSG_STATE), 1);
    end(&f);
}

/* --- everyone loads --- */

static void test_a_snapshot_that_waits_is_dropped_when_all_load(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_snapshot_is_dropped);
    struct fixture f;
    begin(&f);
    load(&f);
    save(&f, 1, 3); /* behind the forward that runs */
    view(&f, CULM_VIEW_LOAD, "step-3");
    for (struct culm_task *task; (task = fake_world_run(&f.fake));) {
        assert_int_not_equal(task->kind, CULM_TASK_SNAPSHOT);
        culm_node_actor.job_done(f.node, &task->job);
    }
    view(&f, CULM_VIEW_RUN, "");
    save(&f, 2, 3); /* which no longer waits for the first */
    finish(&f, CULM_TASK_FORWARD);
    finish(&f, CULM_TASK_SNAPSHOT);
    struct culm_task *file = fake_world_io(&f.fake);
    assert_non_null(file);
    culm_node_actor.job_done(f.node, &file->job);
    assert_int_equal(last_saved(&f).attempt, 2);
    end(&f);
}

static void test_a_step_keeps_what_it_reads_when_all_load(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_load_while_a_step_runs);
    EXPECT_MARK(pipeline_step_of_a_stage_that_went);
    struct fixture f;
    begin(&f);
    load(&f);
    culm_reduced_encode(&(struct culm_reduced){.at = {4, 0}, .grad = 0}, &f.buf);
    data(&f, 1, CULM_MSG_REDUCED, 4);
    finish(&f, CULM_TASK_FORWARD);
    commit(&f, f.view.number, 4);
    finish(&f, CULM_TASK_NORM);
    struct culm_task *step = fake_world_run(&f.fake);
    assert_non_null(step);
    assert_int_equal(step->kind, CULM_TASK_STEP);
    view(&f, CULM_VIEW_LOAD, "step-3");
    assert_non_null(step->grad[0]);
    culm_node_actor.job_done(f.node, &step->job);
    assert_null(step->grad[0]);
    assert_int_equal(culm_node_version(f.node, 0), -1);
    end(&f);
}

/* --- redundant forwards --- */

/* A redundant forward of stage 0 runs, and a task of the node's own is ready. */
static void begin_redundant(struct fixture *f) {
    begin(f);
    own_second(f, true);
    activation(f);
}

/* It stops where it is. */
static struct culm_task *gives_way(struct fixture *f) {
    struct culm_task *task = fake_world_run(&f->fake);
    assert_non_null(task);
    assert_true(task->frc);
    assert_int_equal(task->job.stop, 1);
    task->cursor = 3;
    task->job.status = CULM_ERR_AGAIN;
    culm_node_actor.job_done(f->node, &task->job);
    return task;
}

static void test_a_redundant_forward_gives_way_and_goes_on(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_redundant_forward_gives_way);
    EXPECT_MARK(pipeline_suspended_forward_goes_on);
    struct fixture f;
    begin_redundant(&f);
    gives_way(&f);
    finish(&f, CULM_TASK_FORWARD);
    finish(&f, CULM_TASK_BACKWARD);
    struct culm_task *task = fake_world_run(&f.fake);
    assert_non_null(task);
    assert_true(task->frc);
    assert_int_equal(task->cursor, 3);
    task->job.status = CULM_OK;
    culm_node_actor.job_done(f.node, &task->job);
    end(&f);
}

static void test_a_suspended_forward_is_dropped_by_a_view(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_suspended_forward_is_dropped);
    struct fixture f;
    begin_redundant(&f);
    gives_way(&f);
    f.view.frc = false;
    view(&f, CULM_VIEW_RUN, "");
    finish(&f, CULM_TASK_FORWARD);
    finish(&f, CULM_TASK_BACKWARD);
    assert_int_equal(f.fake.run_count, 0);
    end(&f);
}

static void test_a_forward_of_a_view_before_does_not_go_on(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_redundant_forward_is_stale);
    EXPECT_MARK(pipeline_stale_forward_gives_way);
    struct fixture f;
    begin(&f);
    own_second(&f, true);
    f.view.frc = false;
    view(&f, CULM_VIEW_RUN, "");
    gives_way(&f);
    assert_int_equal(f.fake.run_count, 0);
    end(&f);
}

/* --- frames --- */

static void activation_at(struct fixture *f, int64_t iteration, uint32_t attempt) {
    const struct culm_boundary boundary = {.at = {iteration, attempt}, .stage = 1, .micro = 0};
    culm_boundary_encode(&boundary, &f->buf);
    data(f, 1, CULM_MSG_ACTIVATION, 4);
}

static void test_frames_that_do_not_count(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_frame_of_another_attempt);
    EXPECT_MARK(pipeline_frame_of_a_lost_peer);
    EXPECT_MARK(pipeline_peer_is_in_the_view_no_longer);
    struct fixture f;
    begin(&f);
    own_second(&f, false);
    activation_at(&f, 4, 1);
    assert_int_equal(f.fake.run_count, 0);
    f.view.node[1].id = 2;
    f.view.role[0][0].owner = 2;
    view(&f, CULM_VIEW_RUN, "");
    activation_at(&f, 4, 0); /* of node 1, which is lost */
    assert_int_equal(f.fake.run_count, 0);
    end(&f);
}

static void test_a_frame_of_the_next_iteration_waits(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_frame_is_early);
    struct fixture f;
    begin(&f);
    own_second(&f, false);
    activation_at(&f, 5, 0); /* its sender has had the COMMIT */
    assert_int_equal(f.fake.run_count, 0);
    assert_int_equal(culm_node_queues_of(f.node).early, 1);
    commit(&f, f.view.number, 4);
    assert_int_equal(culm_node_queues_of(f.node).early, 0);
    finish(&f, CULM_TASK_STEP);
    finish(&f, CULM_TASK_STEP);
    finish(&f, CULM_TASK_FORWARD);
    end(&f);
}

static void test_a_have_of_the_iteration_before(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_have_of_the_iteration_before);
    struct fixture f;
    begin(&f);
    load(&f);
    finish(&f, CULM_TASK_FORWARD);
    commit(&f, f.view.number, 4);
    have(&f, f.view.number); /* said before it had the COMMIT */
    finish(&f, CULM_TASK_FORWARD);
    finish(&f, CULM_TASK_STEP);
    finish(&f, CULM_TASK_FORWARD);
    assert_int_equal(sent(&f, 1, CULM_MSG_ACTIVATION), 1); /* it counts as heard of */
    end(&f);
}

static void test_a_sum_of_an_iteration_that_is_over(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_sum_of_an_iteration_that_is_over);
    EXPECT_MARK(pipeline_iteration_begins_afresh);
    struct fixture f;
    begin(&f);
    load(&f);
    for (int32_t micro = 0; micro < 2; micro++) {
        const struct culm_boundary boundary = {.at = {4, 0}, .stage = 0, .micro = micro};
        culm_boundary_encode(&boundary, &f.buf);
        data(&f, 1, CULM_MSG_GRADIENT, 4);
    }
    finish(&f, CULM_TASK_FORWARD);
    finish(&f, CULM_TASK_BACKWARD);
    finish(&f, CULM_TASK_FORWARD);
    finish(&f, CULM_TASK_BACKWARD);
    struct culm_task *fold = fake_world_run(&f.fake);
    assert_non_null(fold);
    assert_int_equal(fold->kind, CULM_TASK_FOLD);
    f.view.attempt++;
    view(&f, CULM_VIEW_RUN, "");
    have(&f, f.view.number);
    culm_node_actor.job_done(f.node, &fold->job);
    assert_int_equal(sent(&f, 1, CULM_MSG_REDUCED), 0);
    finish(&f, CULM_TASK_FORWARD);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_old_view_changes_nothing),
        cmocka_unit_test(test_one_that_is_fenced_leaves),
        cmocka_unit_test(test_one_that_is_to_end_asks_first),
        cmocka_unit_test(test_a_lost_link_is_told_of),
        cmocka_unit_test(test_a_lost_link_is_told_of_to_another_leader),
        cmocka_unit_test(test_one_that_was_lost_comes_again),
        cmocka_unit_test(test_another_leader_is_told_what_there_is),
        cmocka_unit_test(test_it_is_told_of_steps_before_it_came),
        cmocka_unit_test(test_a_view_says_what_was_committed),
        cmocka_unit_test(test_lanes_are_taken_over),
        cmocka_unit_test(test_a_damaged_node_says_so_and_does_no_more),
        cmocka_unit_test(test_copies_of_a_tied_tensor_that_differ),
        cmocka_unit_test(test_a_checkpoint_that_cannot_be_loaded),
        cmocka_unit_test(test_a_copy_goes_on_in_a_new_view),
        cmocka_unit_test(test_what_was_exported_for_a_copy_that_is_no_more),
        cmocka_unit_test(test_half_a_copy_is_dropped),
        cmocka_unit_test(test_what_was_imported_for_a_copy_that_is_no_more),
        cmocka_unit_test(test_a_copy_is_held_by_the_view),
        cmocka_unit_test(test_a_copy_is_asked_for_before_its_view),
        cmocka_unit_test(test_a_copy_and_training_take_turns),
        cmocka_unit_test(test_a_copy_waits_for_the_step_before),
        cmocka_unit_test(test_a_snapshot_that_waits_is_dropped_when_all_load),
        cmocka_unit_test(test_a_step_keeps_what_it_reads_when_all_load),
        cmocka_unit_test(test_a_redundant_forward_gives_way_and_goes_on),
        cmocka_unit_test(test_a_suspended_forward_is_dropped_by_a_view),
        cmocka_unit_test(test_a_forward_of_a_view_before_does_not_go_on),
        cmocka_unit_test(test_frames_that_do_not_count),
        cmocka_unit_test(test_a_frame_of_the_next_iteration_waits),
        cmocka_unit_test(test_a_have_of_the_iteration_before),
        cmocka_unit_test(test_a_sum_of_an_iteration_that_is_over),
    };
    return cmocka_run_group_tests_name("pipeline/node_recovery", tests, NULL, NULL);
}
