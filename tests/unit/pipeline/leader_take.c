/*
 * The leader alone, when it takes over from another one: what it decides by what those who took part report. Workers are
 * played by the test; the view that they know is one of the leader before.
 */
#include "expect_mark.h"
#include "leader_alive.h"
#include "pipeline/report.h"

#define TERM 2
#define SUSPECT_MS 1000
#define ORPHAN_MS 4000
#define BEFORE 6 /* the number of the last view of the leader before */
#define STEP 5   /* in progress in it */

struct taken {
    struct fixture f; /* first member */
    struct culm_view view;
    struct culm_curve curve;
};

/* Two nodes, of which each holds what it is given, in a view of the leader before. */
static void take(struct taken *t, struct culm_pipeline_leader_options o, int32_t known_count,
                 uint64_t first_holds, uint64_t second_holds) {
    struct culm_known_node known[8];
    *t = (struct taken){0};
    for (int32_t i = 0; i < known_count; i++) {
        known[i] = (struct culm_known_node){i, {.name = "test", .signature = "test"}};
    }
    o.term = TERM;
    o.known = known;
    o.known_count = known_count;
    o.orphan_ms = ORPHAN_MS;
    begin(&t->f, o);
    t->f.next = known_count;
    assert_true(culm_view_init(&t->view, &o.shape));
    t->view.number = BEFORE;
    t->view.phase = CULM_VIEW_RUN;
    t->view.iteration = STEP;
    assert_true(culm_view_add_node(&t->view, &(struct culm_view_node){0, 0, 0, {{first_holds}}}));
    assert_true(culm_view_add_node(&t->view, &(struct culm_view_node){1, 0, 1, {{second_holds}}}));
    culm_view_assign(&t->view, &o.shape, NULL);
    for (int64_t step = 1; step < STEP; step++) {
        culm_curve_add(&t->curve, step, (double)step, 1);
    }
    for (int32_t i = 0; i < known_count; i++) {
        t->f.fake.role[i] = CULM_NO_ROLE; /* nobody here has started it */
    }
}

static struct culm_pipeline_leader_options plain(void) {
    struct culm_pipeline_leader_options o = options(1);
    o.settings.crew.replace_ms = -1;
    return o;
}

static void release(struct taken *t) {
    culm_view_release(&t->view);
    end(&t->f);
}

/* The leader before has committed all before `iteration`, as far as it has heard. */
static struct culm_report report(uint64_t view, int64_t iteration, uint64_t holds) {
    return (struct culm_report){
        .view = view,
        .iteration = iteration,
        .holds = {{holds}},
        .commit = {iteration > 1 ? iteration - 1 : 0, 0.5, (double)(iteration - 1), 1},
        .curve_first = 1,
        .totals = {.losses = 3, .rollbacks = 1}};
}

static void says(struct taken *t, int32_t node, struct culm_report what) {
    joined(&t->f, node);
    culm_report_encode(&what, &t->f.buf);
    deliver(&t->f, node, CULM_MSG_REPORT);
}

/* Whoever was asked shows what it knows. */
static void shows(struct taken *t, int32_t node) {
    assert_int_equal(fake_world_sent(&t->f.fake, node, CULM_MSG_SHOW), 1);
    culm_view_encode(&t->view, NULL, &t->f.shape, &t->f.buf);
    deliver(&t->f, node, CULM_MSG_VIEW);
    culm_curve_encode(&t->curve, &t->f.buf);
    deliver(&t->f, node, CULM_MSG_CURVE);
}

static const char *reason_of(const struct taken *t) {
    const json_t *told = fake_world_told(&t->f.fake, "leader");
    assert_non_null(told);
    assert_int_equal(json_integer_value(json_object_get(told, "term")), TERM);
    return json_string_value(json_object_get(told, "reason"));
}

/* Those who are alive, and have reported, go on speaking. */
static void wait(struct taken *t, int64_t ms, int32_t node) {
    for (int64_t gone = 0; gone < ms; gone += 100) {
        beat(&t->f, node, -1, 0, 0);
        tick(&t->f, 100);
    }
}

static void test_all_goes_on(void **state) {
    (void)state;
    EXPECT_MARK(crew_awaited_has_come);
    struct taken t;
    take(&t, plain(), 2, 3, 3);
    assert_int_equal(t.f.fake.started, 0); /* nobody is asked for in place of those */
    says(&t, 0, report(BEFORE, STEP, 3));
    assert_int_equal(fake_world_events(&t.f.fake, "leader"), 0); /* the other one is awaited */
    says(&t, 1, report(BEFORE, STEP, 3));
    shows(&t, 0);
    assert_string_equal(reason_of(&t), "the process that led is gone");
    const struct culm_view *view = newest(&t.f, 1);
    assert_int_equal(view->number, CULM_VIEW_OF_TERM(TERM) + BEFORE + 1);
    assert_int_equal(view->iteration, STEP);
    assert_int_equal(view->attempt, t.view.attempt); /* what there is of the step is used */
    assert_int_equal(view->role[0][0].owner, 0);
    assert_int_equal(view->role[0][1].owner, 1);
    assert_int_equal(view->totals.losses, 3);
    assert_int_equal(view->last.iteration, STEP - 1);
    assert_int_equal(fake_world_events(&t.f.fake, "step"), STEP - 1); /* the curve is whole */
    assert_int_equal(fake_world_sent(&t.f.fake, 0, CULM_MSG_COMMIT), 0);
    commit(&t.f);
    assert_int_equal(totals(&t.f).committed, STEP);
    assert_int_equal(totals(&t.f).rollbacks, 1);
    assert_int_equal(totals(&t.f).samples_lost + totals(&t.f).samples_repeated, 0);
    release(&t);
}

static void test_a_commit_is_handed_on(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_commit_is_handed_on);
    struct taken t;
    take(&t, plain(), 2, 3, 3);
    culm_curve_add(&t.curve, STEP, STEP, 1);
    says(&t, 0, report(BEFORE, STEP + 1, 3));
    says(&t, 1, report(BEFORE - 1, STEP, 3)); /* nor has it heard of the view */
    shows(&t, 0);
    struct culm_commit commit;
    const struct fake_sent *sent = fake_world_last(&t.f.fake, 1, CULM_MSG_COMMIT);
    assert_non_null(sent);
    assert_int_equal(culm_commit_decode(sent->meta, sent->meta_bytes, &commit), CULM_OK);
    assert_int_equal(commit.content.iteration, STEP);
    assert_int_equal(commit.view, BEFORE - 1); /* in which it prepared */
    assert_true(commit.content.clip == 0.5 && commit.content.loss == STEP);
    assert_int_equal(fake_world_sent(&t.f.fake, 0, CULM_MSG_COMMIT), 0);
    assert_int_equal(newest(&t.f, 1)->iteration, STEP + 1);
    assert_int_equal(fake_world_events(&t.f.fake, "step"), STEP); /* each once */
    assert_int_equal(totals(&t.f).committed, STEP);
    release(&t);
}

/* Whoever is asked for all that has been done has not heard of the last step, of which the leader before had told one node alone. */
static void test_the_last_step_is_told_by_one_who_was_not_asked(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_step_that_one_alone_knows);
    struct taken t;
    take(&t, plain(), 2, 3, 3);
    says(&t, 0, report(BEFORE, STEP, 3));
    says(&t, 1, report(BEFORE, STEP + 1, 3));
    shows(&t, 0);
    assert_int_equal(fake_world_sent(&t.f.fake, 0, CULM_MSG_COMMIT), 1);
    assert_int_equal(fake_world_events(&t.f.fake, "step"), STEP);
    assert_int_equal(totals(&t.f).committed, STEP);
    release(&t);
}

/* Of two that are as far the one tells of the commit who can: the other one came when it had been made. */
static void test_the_commit_is_of_one_who_heard_it(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_step_that_one_alone_knows);
    struct taken t;
    take(&t, plain(), 3, 3, 3);
    assert_true(culm_view_add_node(&t.view, &(struct culm_view_node){2, -1, -1, {{3}}}));
    struct culm_report came = report(BEFORE, STEP + 1, 3);
    came.commit = (struct culm_content){0};
    says(&t, 0, came);
    says(&t, 1, report(BEFORE, STEP + 1, 3));
    says(&t, 2, report(BEFORE, STEP, 3));
    shows(&t, 0);
    assert_int_equal(fake_world_events(&t.f.fake, "step"),
                     STEP); /* though the curve ends before it */
    assert_int_equal(fake_world_sent(&t.f.fake, 2, CULM_MSG_COMMIT), 1);
    assert_int_equal(newest(&t.f, 2)->iteration, STEP + 1);
    release(&t);
}

/* The commit had been told only to one that stands by. All others had prepared, or it would not have been made. */
static void test_the_commit_is_of_one_who_stands_by(void **state) {
    (void)state;
    struct taken t;
    take(&t, plain(), 3, 3, 3);
    assert_true(culm_view_add_node(&t.view, &(struct culm_view_node){2, -1, -1, {{0}}}));
    says(&t, 0, report(BEFORE - 1, STEP, 3)); /* nor have the others heard of the view */
    says(&t, 1, report(BEFORE - 1, STEP, 3));
    says(&t, 2, report(BEFORE, STEP + 1, 0));
    shows(&t, 2);
    assert_int_equal(fake_world_sent(&t.f.fake, 0, CULM_MSG_COMMIT), 1);
    assert_int_equal(fake_world_sent(&t.f.fake, 1, CULM_MSG_COMMIT), 1);
    assert_int_equal(newest(&t.f, 0)->iteration, STEP + 1);
    assert_int_equal(fake_world_events(&t.f.fake, "step"), STEP);
    release(&t);
}

/* One that stands by has heard of steps, and then nothing for so long that it does not know of a roll-back behind them. */
static void test_one_who_stands_by_has_missed_a_rollback(void **state) {
    (void)state;
    struct taken t;
    take(&t, plain(), 3, 3, 3);
    assert_true(culm_view_add_node(&t.view, &(struct culm_view_node){2, -1, -1, {{0}}}));
    says(&t, 0, report(BEFORE, STEP, 3));
    says(&t, 1, report(BEFORE, STEP, 3));
    says(&t, 2, report(BEFORE - 2, STEP + 4, 0));
    shows(&t, 0);
    assert_int_equal(fake_world_sent(&t.f.fake, 0, CULM_MSG_COMMIT), 0);
    assert_int_equal(newest(&t.f, 0)->iteration, STEP);
    assert_int_equal(fake_world_events(&t.f.fake, "step"), STEP - 1);
    release(&t);
}

static void test_a_report_that_cannot_be_read(void **state) {
    (void)state;
    struct taken t;
    take(&t, plain(), 2, 3, 3);
    says(&t, 0, report(BEFORE, STEP, 3));
    struct culm_report torn = report(BEFORE, STEP, 3);
    torn.commit.iteration = STEP; /* which it says has not begun */
    says(&t, 1, torn);
    shows(&t, 0);
    assert_int_equal(fake_world_events(&t.f.fake, "leader"), 1);
    const json_t *told = fake_world_told(&t.f.fake, "lost");
    assert_non_null(told);
    assert_int_equal(json_integer_value(json_object_get(told, "node")), 1);
    assert_string_equal(json_string_value(json_object_get(told, "cause")), "failed");
    release(&t);
}

/* A copy that came whole is one of the version before, and cannot step: it has no gradients. */
static void test_a_copy_that_is_whole_and_too_old(void **state) {
    (void)state;
    struct culm_pipeline_leader_options o = plain();
    o.shape.redundancy = CULM_REDUNDANCY_NONE;
    for (int32_t late = 0; late < 2; late++) {
        struct taken t;
        take(&t, o, 3, 1, 2);
        assert_true(culm_view_add_node(&t.view, &(struct culm_view_node){2, -1, -1, {{0}}}));
        struct culm_report learner = report(BEFORE, STEP, 0);
        learner.whole = (struct culm_stage_set){{2}};
        lost(&t.f, 1); /* it alone had stage 1 */
        says(&t, 0, report(BEFORE, STEP + late, 1));
        says(&t, 2, learner);
        shows(&t, 0);
        assert_int_equal(fake_world_events(&t.f.fake, "rollback"), late);
        release(&t);
    }
}

/* One that has stepped is lost: whoever is left has not heard of the commit, and does it again. */
static void test_a_commit_that_nobody_has_was_none(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_silent_when_taken_over);
    struct taken t;
    take(&t, plain(), 2, 3, 3);
    says(&t, 1, report(BEFORE, STEP, 3));
    wait(&t, SUSPECT_MS + 100, 1);
    shows(&t, 1);
    assert_int_equal(newest(&t.f, 1)->iteration, STEP);
    assert_int_equal(fake_world_sent(&t.f.fake, 1, CULM_MSG_COMMIT), 0);
    const json_t *lost = fake_world_told(&t.f.fake, "lost");
    assert_int_equal(json_integer_value(json_object_get(lost, "node")), 0);
    assert_int_equal(json_array_size(json_object_get(lost, "stages")), 1);
    assert_int_equal(totals(&t.f).losses, 4);
    release(&t);
}

static void test_one_that_is_dead_is_told_of_with_its_stages(void **state) {
    (void)state;
    struct taken t;
    take(&t, plain(), 2, 3, 3);
    lost(&t.f, 0); /* its machine says that it is not there */
    assert_int_equal(fake_world_events(&t.f.fake, "lost"), 0);
    says(&t, 1, report(BEFORE, STEP, 3));
    shows(&t, 1);
    const json_t *told = fake_world_told(&t.f.fake, "lost");
    assert_int_equal(json_array_size(json_object_get(told, "stages")), 1);
    assert_int_equal(totals(&t.f).losses, 4);
    release(&t);
}

static void test_a_last_copy_is_waited_for(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_takes_over_and_waits_for_a_last_copy);
    struct culm_pipeline_leader_options o = plain();
    o.shape.redundancy = CULM_REDUNDANCY_NONE;
    struct taken t;
    take(&t, o, 2, 1, 2);
    says(&t, 1, report(BEFORE, STEP, 2));
    wait(&t, SUSPECT_MS + 100, 1);
    shows(&t, 1);
    wait(&t, 3 * SUSPECT_MS, 1);
    assert_int_equal(fake_world_events(&t.f.fake, "waiting"), 1);
    assert_int_equal(fake_world_events(&t.f.fake, "leader"), 0);
    says(&t, 0, report(BEFORE, STEP, 1)); /* it only slept */
    assert_int_equal(fake_world_events(&t.f.fake, "leader"), 1);
    assert_int_equal(newest(&t.f, 0)->phase, CULM_VIEW_RUN);
    assert_int_equal(totals(&t.f).rollbacks, 1); /* of the leader before */
    release(&t);
}

static void test_a_last_copy_that_has_ended(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_taken_over_and_a_stage_is_gone);
    struct culm_pipeline_leader_options o = plain();
    o.shape.redundancy = CULM_REDUNDANCY_NONE;
    o.start_step = 4;
    o.start_source = "step-4";
    struct taken t;
    take(&t, o, 2, 1, 2);
    says(&t, 1, report(BEFORE, STEP + 1, 2));
    wait(&t, SUSPECT_MS + 100, 1);
    shows(&t, 1);
    wait(&t, ORPHAN_MS * 3 / 2, 1);
    const json_t *told = fake_world_told(&t.f.fake, "rollback");
    assert_non_null(told);
    assert_int_equal(json_integer_value(json_object_get(told, "from_step")), STEP);
    assert_int_equal(json_integer_value(json_object_get(told, "to_step")), 4);
    assert_int_equal(newest(&t.f, 1)->phase, CULM_VIEW_LOAD);
    assert_string_equal(newest(&t.f, 1)->source, "step-4");
    release(&t);
}

static void test_one_that_was_put_out_before(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_out_of_the_view_when_taken_over);
    struct taken t;
    take(&t, plain(), 3, 3, 3);
    says(&t, 2, report(BEFORE - 1, STEP, 3)); /* when it was heard last it took part */
    says(&t, 0, report(BEFORE, STEP, 3));
    says(&t, 1, report(BEFORE, STEP, 3));
    shows(&t, 0);
    assert_null(culm_view_find(newest(&t.f, 0), 2));
    assert_int_equal(totals(&t.f).losses, 3); /* it was counted then */
    beat(&t.f, 2, -1, 0, 0);
    assert_int_equal(fake_world_sent(&t.f.fake, 2, CULM_WORD_FENCED), 1);
    release(&t);
}

/* The leader before had let it go, which it has not heard. */
static void test_one_that_was_let_go_before(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_leaver_is_out_of_the_view_when_taken_over);
    struct taken t;
    take(&t, plain(), 3, 3, 3);
    says(&t, 2, report(BEFORE - 1, STEP, 3));
    SAY_WORD(&t.f, 2, NOTICE, notice, .within_ms = 1000);
    says(&t, 0, report(BEFORE, STEP, 3));
    says(&t, 1, report(BEFORE, STEP, 3));
    shows(&t, 0);
    assert_null(culm_view_find(newest(&t.f, 0), 2));
    assert_int_equal(totals(&t.f).losses, 3);
    assert_int_equal(fake_world_sent(&t.f.fake, 2, CULM_WORD_RELEASED), 1);
    release(&t);
}

static void test_all_were_loading(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_taken_over_while_loading);
    struct taken t;
    take(&t, plain(), 2, 3, 3);
    t.view.phase = CULM_VIEW_LOAD;
    t.view.iteration = 4;
    snprintf(t.view.source, sizeof t.view.source, "step-3");
    says(&t, 0, report(BEFORE, 4, 0));
    says(&t, 1, report(BEFORE, 4, 3));
    shows(&t, 0);
    assert_string_equal(reason_of(&t), "all were loading");
    assert_int_equal(newest(&t.f, 0)->phase, CULM_VIEW_LOAD);
    assert_string_equal(newest(&t.f, 0)->source, "step-3");
    assert_int_equal(newest(&t.f, 0)->iteration, 4);
    assert_int_equal(totals(&t.f).losses, 3);
    assert_int_equal(fake_world_events(&t.f.fake, "rollback"), 0); /* it is the same one */
    release(&t);
}

/* Who is silent may know of one. */
static void test_nobody_has_seen_a_view(void **state) {
    (void)state;
    struct taken t;
    take(&t, plain(), 2, 3, 3);
    says(&t, 0, (struct culm_report){0});
    wait(&t, SUSPECT_MS + 100, 0);
    assert_int_equal(fake_world_events(&t.f.fake, "leader"), 0);
    wait(&t, ORPHAN_MS * 3 / 2, 0);
    assert_string_equal(reason_of(&t), "nobody is left who has seen a view");
    assert_int_equal(newest(&t.f, 0)->phase, CULM_VIEW_LOAD);
    assert_int_equal(newest(&t.f, 0)->iteration, 1);
    release(&t);
}

static void test_a_save_is_due_again(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_save_of_the_leader_before_is_due_again);
    struct culm_pipeline_leader_options o = plain();
    o.settings.checkpoint_every = 2;
    o.start_step = 2;
    o.start_source = "step-2";
    struct taken t;
    take(&t, o, 2, 3, 3);
    says(&t, 0, report(BEFORE, STEP, 3));
    says(&t, 1, report(BEFORE, STEP, 3));
    shows(&t, 0);
    assert_int_equal(fake_world_events(&t.f.fake, "step"),
                     2); /* what is saved is told of elsewhere */
    const json_t *told = fake_world_told(&t.f.fake, "checkpoint");
    assert_int_equal(json_integer_value(json_object_get(told, "step")), 4);
    assert_false(json_is_true(json_object_get(told, "ok")));
    commit(&t.f);
    assert_int_equal(fake_world_sent(&t.f.fake, 0, CULM_MSG_SAVE), 1); /* of step 5 */
    release(&t);
}

static void test_after_the_last_step_only_the_save_is_left(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_taken_over_after_the_last_step);
    struct culm_pipeline_leader_options o = plain();
    o.shape.steps = STEP;
    struct taken t;
    take(&t, o, 2, 3, 3);
    t.view.iteration = STEP + 1;
    says(&t, 0, report(BEFORE, STEP + 1, 3));
    says(&t, 1, report(BEFORE, STEP + 1, 3));
    shows(&t, 0);
    const struct fake_sent *sent = fake_world_last(&t.f.fake, 0, CULM_MSG_SAVE);
    struct culm_save save;
    assert_non_null(sent);
    assert_int_equal(culm_save_decode(sent->meta, sent->meta_bytes, &save), CULM_OK);
    assert_true(save.attempt > 1 << 20); /* as none of the leader before is called */
    release(&t);
}

static void test_one_that_was_asked_falls_silent(void **state) {
    (void)state;
    EXPECT_MARK(crew_reported_and_fell_silent);
    struct taken t;
    take(&t, plain(), 2, 3, 3);
    says(&t, 0, report(BEFORE, STEP, 3));
    says(&t, 1, report(BEFORE - 1, STEP, 3));
    assert_int_equal(fake_world_sent(&t.f.fake, 0, CULM_MSG_SHOW), 1);
    wait(&t, ORPHAN_MS * 3 / 2 + 200, 1); /* only that one knew of the view, and has ended by now */
    t.view.number = BEFORE - 1;
    shows(&t, 1);
    assert_int_equal(newest(&t.f, 1)->number, CULM_VIEW_OF_TERM(TERM) + BEFORE);
    release(&t);
}

static void test_another_one_is_asked_in_its_place(void **state) {
    (void)state;
    struct taken t;
    take(&t, plain(), 2, 3, 3);
    says(&t, 0, report(BEFORE, STEP, 3));
    says(&t, 1, report(BEFORE, STEP, 3));
    assert_int_equal(fake_world_sent(&t.f.fake, 0, CULM_MSG_SHOW), 1);
    wait(&t, SUSPECT_MS + 200, 1);
    shows(&t, 1);
    assert_int_equal(fake_world_events(&t.f.fake, "leader"), 1);
    release(&t);
}

static void test_a_newcomer_comes_meanwhile(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_joins_a_leader_that_takes_over);
    struct culm_pipeline_leader_options o = plain();
    o.open = true;
    struct taken t;
    take(&t, o, 2, 3, 3);
    t.f.fake.role[7] = CULM_NO_ROLE;
    says(&t, 0, report(BEFORE, STEP, 3));
    joined(&t.f, 7); /* it has nothing to report */
    says(&t, 1, report(BEFORE, STEP, 3));
    shows(&t, 0);
    assert_int_equal(fake_world_events(&t.f.fake, "leader"), 1);
    assert_non_null(culm_view_find(newest(&t.f, 0), 7));
    release(&t);
}

/* One that comes is told of all steps since the last checkpoint, by whoever has committed them: it may be the last one that can tell. */
static void test_a_newcomer_is_told_of_steps_before(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_tells_of_steps_before_one_came);
    struct culm_pipeline_leader_options o = plain();
    o.open = true;
    struct taken t;
    o.record = &t.f.fake.record;
    take(&t, o, 2, 3, 3);
    t.f.fake.role[7] = CULM_NO_ROLE;
    says(&t, 0, report(BEFORE, STEP, 3));
    says(&t, 1, report(BEFORE, STEP, 3));
    shows(&t, 0);
    commit(&t.f);
    joined(&t.f, 7);
    for (int32_t step = 0; step < 3 && fake_world_sent(&t.f.fake, 7, CULM_MSG_VIEW) == 0; step++) {
        commit(&t.f);
    }
    const struct fake_sent *sent = fake_world_last(&t.f.fake, 7, CULM_MSG_CURVE);
    assert_non_null(sent);
    static struct culm_curve told;
    assert_int_equal(culm_curve_decode(sent->meta, sent->meta_bytes, &told), CULM_OK);
    assert_int_equal(told.first, 1);
    assert_int_equal(told.count, totals(&t.f).committed);
    assert_true(told.step[0].loss == 1 && told.step[STEP - 1].norm > 0);
    assert_int_equal(fake_world_sent(&t.f.fake, 0, CULM_MSG_CURVE),
                     0); /* who was there knows them */
    release(&t);
}

/* What is under way of the leader before is planned again at once, so that what has come of it is kept; and goes by another name. */
static void test_copies_have_ids_of_their_own(void **state) {
    (void)state;
    struct taken t;
    take(&t, plain(), 2, 1, 2);
    assert_true(culm_view_add_transfer(&t.view, &(struct culm_transfer){7, 0, 1, 0}));
    says(&t, 0, report(BEFORE, STEP, 1));
    says(&t, 1, report(BEFORE, STEP, 2));
    shows(&t, 0);
    const struct culm_view *view = newest(&t.f, 0);
    assert_int_equal(view->iteration, STEP);
    assert_true(view->transfer_count > 0);
    assert_true(view->transfer[0].id > 7);
    release(&t);
}

/* What it has told others may be wrong, and it told the leader before so, who may have told nobody. */
static void test_one_that_is_damaged(void **state) {
    (void)state;
    struct taken t;
    take(&t, plain(), 2, 3, 3);
    says(&t, 1, report(BEFORE, STEP, 3));
    joined(&t.f, 0);
    SAY(&t.f, 0, DAMAGED, damaged, .iteration = STEP, .stage = 0, .why = "a bit");
    shows(&t, 1);
    const struct culm_view *view = newest(&t.f, 1);
    assert_null(culm_view_find(view, 0));
    assert_int_equal(view->attempt, view->number); /* the step begins afresh */
    release(&t);
}

/* A silent one is put out, but not with the last copy of a stage: for that it is waited until it must have ended. */
static void test_a_silent_one_with_the_last_copy(void **state) {
    (void)state;
    EXPECT_MARK(crew_silent_may_have_the_last_copy);
    for (int32_t alone = 0; alone < 2; alone++) {
        struct culm_pipeline_leader_options o = plain();
        struct taken t;
        o.record = &t.f.fake.record;
        take(&t, o, 2, alone ? 1 : 3, 3);
        says(&t, 0, report(BEFORE, STEP, alone ? 1 : 3));
        says(&t, 1, report(BEFORE, STEP, 3));
        shows(&t, 0);
        wait(&t, SUSPECT_MS + 200, 0);
        assert_int_equal(fake_world_events(&t.f.fake, "lost"), !alone);
        assert_int_equal(fake_world_events(&t.f.fake, "waiting"), alone);
        assert_int_equal(t.f.fake.give_ups, alone); /* if another one waits, that one is to try */
        for (int32_t i = 0; i < 2 && alone; i++) {
            assert_int_equal(fake_world_events(&t.f.fake, "lost"), i);
            wait(&t, ORPHAN_MS * 3 / 2 - SUSPECT_MS, 0);
        }
        assert_int_equal(fake_world_events(&t.f.fake, "lost"), 1);
        release(&t);
    }
}

static void test_it_gives_way(void **state) {
    (void)state;
    EXPECT_MARK(crew_gives_way_to_another_leader);
    struct taken t;
    take(&t, plain(), 2, 3, 3);
    says(&t, 0, report(BEFORE, STEP, 3));
    culm_pipeline_leader_actor.leads->deposed(t.f.c, 3);
    assert_int_equal(t.f.fake.exit_code, 1);
    assert_string_equal(t.f.fake.error,
                        "another process leads this run now (term 3); this one leads no more");
    assert_int_equal(fake_world_sent(&t.f.fake, 0, CULM_WORD_END), 0); /* they go on */
    release(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_goes_on),
        cmocka_unit_test(test_a_commit_is_handed_on),
        cmocka_unit_test(test_the_last_step_is_told_by_one_who_was_not_asked),
        cmocka_unit_test(test_the_commit_is_of_one_who_heard_it),
        cmocka_unit_test(test_the_commit_is_of_one_who_stands_by),
        cmocka_unit_test(test_one_who_stands_by_has_missed_a_rollback),
        cmocka_unit_test(test_a_report_that_cannot_be_read),
        cmocka_unit_test(test_a_copy_that_is_whole_and_too_old),
        cmocka_unit_test(test_a_commit_that_nobody_has_was_none),
        cmocka_unit_test(test_one_that_is_dead_is_told_of_with_its_stages),
        cmocka_unit_test(test_a_last_copy_is_waited_for),
        cmocka_unit_test(test_a_last_copy_that_has_ended),
        cmocka_unit_test(test_one_that_was_put_out_before),
        cmocka_unit_test(test_one_that_was_let_go_before),
        cmocka_unit_test(test_all_were_loading),
        cmocka_unit_test(test_nobody_has_seen_a_view),
        cmocka_unit_test(test_a_save_is_due_again),
        cmocka_unit_test(test_after_the_last_step_only_the_save_is_left),
        cmocka_unit_test(test_one_that_was_asked_falls_silent),
        cmocka_unit_test(test_another_one_is_asked_in_its_place),
        cmocka_unit_test(test_a_newcomer_comes_meanwhile),
        cmocka_unit_test(test_a_newcomer_is_told_of_steps_before),
        cmocka_unit_test(test_copies_have_ids_of_their_own),
        cmocka_unit_test(test_one_that_is_damaged),
        cmocka_unit_test(test_a_silent_one_with_the_last_copy),
        cmocka_unit_test(test_it_gives_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
