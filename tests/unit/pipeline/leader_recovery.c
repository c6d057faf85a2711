/*
 * The leader alone, in branches of recovery that a history seldom takes: what it hears of those who are lost, of
 * other samples and inputs, and when it waits in vain. Workers are played by the test. The program's realloc
 * fails when told to (see meson.build).
 */
#include "expect_mark.h"
#include "leader_alive.h"

#include "pipeline/waits.h"

/* --- loading --- */

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);

static bool no_memory;

void *__wrap_realloc(void *old, size_t size) {
    return no_memory ? NULL : __real_realloc(old, size);
}

/* It is no fault of the worker, which is not to count as one that has not answered. */
static void test_no_memory_for_an_answer_ends_the_run(void **state) {
    (void)state;
    struct fixture f;
    begin(&f, options(1));
    join(&f);
    struct culm_waits *waits = culm_waits_new(STAGES, 1, 3, f.shape.lanes);
    assert_true(culm_waits_add_deaf(waits, 0));
    culm_waits_encode(waits, &waits->have, &f.buf);
    no_memory = true;
    deliver(&f, 1, CULM_MSG_WAITS);
    no_memory = false;
    assert_int_equal(f.fake.exit_code, culm_status_exit_code(CULM_ERR_MEMORY));
    assert_non_null(strstr(f.fake.error, "read what worker 1 waits for"));
    culm_waits_free(waits);
    end(&f);
}

static void test_one_that_does_not_load_is_put_out(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_stalled_while_loading);
    EXPECT_MARK(pipeline_lost_while_loading);
    struct fixture f;
    begin(&f, options(1));
    join(&f);
    SAY(&f, 0, LOADED, loaded, .view = totals(&f).view);
    struct culm_waits *waits = culm_waits_new(STAGES, 1, 3, f.shape.lanes);
    for (int i = 0; i < 100 && totals(&f).losses == 0; i++) {
        beat(&f, 0, -1, 0, 0);
        beat(&f, 1, -1, 0, 0);
        tick(&f, 200);
        if (fake_world_sent(&f.fake, 1, CULM_WORD_ASK) > 0) {
            for (int32_t node = 0; node < 2; node++) {
                waits->question = 1;
                waits->have.view = totals(&f).view;
                culm_waits_encode(waits, &waits->have, &f.buf);
                deliver(&f, node, CULM_MSG_WAITS);
            }
        }
    }
    assert_int_equal(totals(&f).losses, 1);
    assert_int_equal(json_integer_value(json_object_get(fake_world_told(&f.fake, "lost"), "node")),
                     1);
    culm_waits_free(waits);
    end(&f);
}

/* A run that had done all its steps and not written its model: there is nothing to save. */
static void test_a_run_that_was_done_writes_its_model(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_loaded_the_last_step);
    EXPECT_MARK(pipeline_save_is_there_already);
    struct fixture f;
    struct culm_pipeline_leader_options o = options(1);
    o.start_step = o.shape.steps;
    o.start_source = "step-30";
    begin(&f, o);
    run(&f);
    struct culm_task *task = fake_world_io(&f.fake);
    assert_non_null(task);
    assert_int_equal(task->kind, CULM_TASK_FINISH);
    assert_string_equal(task->text, "step-30");
    /* From here on a worker that fails changes nothing. */
    EXPECT_MARK(pipeline_failed_while_finishing);
    SAY_WORD(&f, 1, FAILED, failed, .status = CULM_ERR_IO, .why = "its disk is full");
    culm_pipeline_leader_actor.job_done(f.c, &task->job);
    assert_int_equal(f.fake.exit_code, 0);
    end(&f);
}

/* --- what workers say --- */

static void test_other_inputs_of_a_worker_end_the_run(void **state) {
    (void)state;
    EXPECT_MARK(crew_inputs_have_changed);
    struct fixture f;
    begin(&f, options(1));
    run(&f);
    SAY_WORD(&f, 1, FAILED, failed, .status = CULM_ERR_CHANGED, .why = "'x' is not what it was");
    assert_int_equal(f.fake.exit_code, culm_status_exit_code(CULM_ERR_CHANGED));
    assert_string_equal(f.fake.error, "worker 1: 'x' is not what it was");
    end(&f);
}

static void test_a_complaint_counts_once(void **state) {
    (void)state;
    EXPECT_MARK(crew_broken_link_is_known);
    EXPECT_MARK(crew_broken_link_costs_one);
    struct fixture f;
    begin(&f, options(2));
    run(&f);
    SAY_WORD(&f, 0, PEER_LOST, peer_lost, .node = 3);
    SAY_WORD(&f, 0, PEER_LOST, peer_lost, .node = 3);
    SAY_WORD(&f, 3, PEER_LOST, peer_lost, .node = 0);
    for (int i = 0; i < 12; i++) {
        for (int32_t node = 0; node < 4; node++) {
            beat(&f, node, -1, 0, 0);
        }
        tick(&f, 100);
    }
    assert_int_equal(totals(&f).losses, 1);
    assert_int_equal(json_integer_value(json_object_get(fake_world_told(&f.fake, "lost"), "node")),
                     3);
    end(&f);
}

/* Three workers hold all of the model; one says something else, and is lost before the others speak.
 * It might have been right: they may have theirs from one reducer. */
static void test_the_word_of_a_lost_one_does_not_stand_against_others(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_word_of_a_lost_one_counts_not);
    struct fixture f;
    begin(&f, options(2));
    run(&f);
    double wrong[STAGES] = {1, 5}, right[STAGES] = {1, 1};
    uint64_t digest[STAGES] = {7, 7};
    for (int again = 0; again < 2; again++) {
        for (int32_t node = again ? 2 : 3; node >= 0; node--) {
            const struct culm_digests stated = {totals(&f).view, 0, {{3}}, STAGES, STAGES, digest};
            culm_digests_encode(&stated, &f.buf);
            deliver(&f, node, CULM_MSG_DIGESTS);
            const struct culm_prepared what = {totals(&f).view,
                                               1,
                                               {{3}},
                                               1.0,
                                               1,
                                               1.0,
                                               STAGES,
                                               STAGES,
                                               node == 3 ? wrong : right,
                                               (uint64_t[STAGES]){0}};
            culm_prepared_encode(&what, &f.buf);
            deliver(&f, node, CULM_MSG_PREPARED);
            if (node == 3) {
                lost(&f, 3);
            }
        }
        assert_int_equal(totals(&f).committed, again); /* the step is done once more */
    }
    assert_int_equal(totals(&f).losses, 1);
    end(&f);
}

/* --- many at the same moment --- */

/* What is said between losses and the view that follows from them is of the view before. */
static void test_one_view_follows_from_losses_of_one_moment(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_one_view_for_several_losses);
    struct fixture f;
    begin(&f, options(2));
    run(&f);
    const uint64_t view = totals(&f).view;
    f.reads = true;
    lost(&f, 0);
    lost(&f, 3);
    assert_int_equal(fake_world_events(&f.fake, "lost"), 2);
    assert_int_equal(totals(&f).view, view);
    prepare(&f); /* those who are left, too */
    assert_int_equal(totals(&f).committed, 0);
    assert_int_equal(totals(&f).view, view);
    f.reads = false;
    tick(&f, 0);
    assert_int_equal(totals(&f).view, view + 1);
    for (int32_t node = 1; node < 3; node++) {
        assert_int_equal(fake_world_sent(&f.fake, node, CULM_MSG_VIEW), 1);
    }
    assert_string_equal(
        json_string_value(json_object_get(fake_world_told(&f.fake, "view"), "reason")),
        "node 0 was lost (eof), and 1 more");
    commit(&f);
    end(&f);
}

/* A stop, and whatever else goes by who has what, has the view first. */
static void test_a_stop_comes_after_the_view_that_follows_from_a_loss(void **state) {
    (void)state;
    struct fixture f;
    begin(&f, options(2));
    run(&f);
    commit(&f);
    const uint64_t view = totals(&f).view;
    f.reads = true;
    lost(&f, 0);
    culm_pipeline_leader_actor.leads->stop(f.c);
    assert_int_equal(totals(&f).view, view + 1);
    f.reads = false;
    tick(&f, 0);
    assert_int_equal(totals(&f).view, view + 1); /* and no other */
    end(&f);
}

/* While all load, too: what was loaded for the view before does not count. */
static void test_losses_while_loading_cost_one_load(void **state) {
    (void)state;
    struct fixture f;
    struct culm_pipeline_leader_options o = options(2);
    o.settings.crew.replace_ms = -1; /* those who are left are enough */
    begin(&f, o);
    join(&f);
    const uint64_t view = totals(&f).view;
    f.reads = true;
    lost(&f, 0);
    lost(&f, 3);
    loaded(&f);
    assert_int_equal(totals(&f).view, view);
    f.reads = false;
    tick(&f, 0);
    assert_int_equal(totals(&f).view, view + 1);
    loaded(&f);
    commit(&f);
    end(&f);
}

/* --- samples --- */

/* What a stage says that read the samples of that iteration, of which there is one. */
static uint64_t told_of(const struct culm_order *order, int64_t iteration) {
    uint32_t sum[CULM_IDS_PARTS] = {0};
    uint64_t ids = culm_order_ids(order, (uint64_t)(iteration - 1), 1);
    for (int i = 0; i < CULM_IDS_PARTS; i++) {
        sum[i] += culm_order_ids_part(ids, i);
    }
    return culm_order_ids_told(sum);
}

/* Its first stage reads, and says so. */
static void reads(struct fixture *f, int64_t iteration, uint64_t ids) {
    static const int32_t params_of[STAGES][1] = {{0}, {1}};
    static const struct culm_stage_desc stages[STAGES] = {
        {.grad_bytes = 4, .grad_count = 1, .reads = true, .param_count = 1, .params = params_of[0]},
        {.grad_bytes = 8,
         .first_grad = 1,
         .grad_count = 2,
         .param_count = 1,
         .params = params_of[1]}};
    static struct culm_layout reading;
    struct culm_pipeline_leader_options o = options(1);
    reading = layout;
    reading.stage = (struct culm_stage_desc *)stages;
    o.layout = &reading;
    culm_order_init(&o.order, 42, 1000);
    begin(f, o);
    run(f);
    ids = iteration ? told_of(&o.order, iteration) : ids;
    for (int32_t node = 0; node < 2; node++) {
        double norm[STAGES] = {1, 1};
        uint64_t digest[STAGES] = {7, 7};
        const struct culm_digests stated = {totals(f).view, 0, {{3}}, STAGES, STAGES, digest};
        culm_digests_encode(&stated, &f->buf);
        deliver(f, node, CULM_MSG_DIGESTS);
        const struct culm_prepared what = {
            totals(f).view, 1, {{3}}, 1.0, 1, 1.0, STAGES, STAGES, norm, (uint64_t[STAGES]){ids}};
        culm_prepared_encode(&what, &f->buf);
        deliver(f, node, CULM_MSG_PREPARED);
    }
}

static void test_samples_in_their_turn_are_read(void **state) {
    (void)state;
    struct fixture f;
    reads(&f, 1, 0);
    assert_int_equal(totals(&f).committed, 1);
    end(&f);
}

static void test_samples_of_another_step(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_samples_of_another_step_were_read);
    EXPECT_MARK(pipeline_samples_were_misread);
    struct fixture f;
    reads(&f, 3, 0);
    assert_int_equal(totals(&f).committed, 0);
    assert_non_null(strstr(f.fake.error, "but those of step 3"));
    end(&f);
}

static void test_samples_of_nobody_knows_where(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_samples_were_misread);
    struct fixture f;
    reads(&f, 0, 12345);
    assert_int_equal(totals(&f).committed, 0);
    assert_non_null(strstr(f.fake.error, "which they are cannot be told"));
    end(&f);
}

/* --- waiting --- */

static void test_workers_that_never_come_end_the_run(void **state) {
    (void)state;
    EXPECT_MARK(crew_waited_in_vain);
    EXPECT_MARK(pipeline_waits_for_workers);
    struct fixture f;
    struct culm_pipeline_leader_options o = options(1);
    o.traced = true; /* nobody is asked for */
    o.settings.crew.wait_ms = 5000;
    begin(&f, o);
    for (int i = 0; i < 48; i++) {
        tick(&f, 100);
    }
    assert_int_equal(f.fake.exit_code, -1);
    for (int i = 0; i < 4; i++) {
        tick(&f, 100);
    }
    assert_int_equal(f.fake.exit_code, culm_status_exit_code(CULM_ERR_IO));
    assert_non_null(strstr(f.fake.error, "waited 5000 ms for workers, but only 0 joined"));
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_memory_for_an_answer_ends_the_run),
        cmocka_unit_test(test_one_that_does_not_load_is_put_out),
        cmocka_unit_test(test_a_run_that_was_done_writes_its_model),
        cmocka_unit_test(test_other_inputs_of_a_worker_end_the_run),
        cmocka_unit_test(test_a_complaint_counts_once),
        cmocka_unit_test(test_the_word_of_a_lost_one_does_not_stand_against_others),
        cmocka_unit_test(test_one_view_follows_from_losses_of_one_moment),
        cmocka_unit_test(test_a_stop_comes_after_the_view_that_follows_from_a_loss),
        cmocka_unit_test(test_losses_while_loading_cost_one_load),
        cmocka_unit_test(test_samples_in_their_turn_are_read),
        cmocka_unit_test(test_samples_of_another_step),
        cmocka_unit_test(test_samples_of_nobody_knows_where),
        cmocka_unit_test(test_workers_that_never_come_end_the_run),
    };
    return cmocka_run_group_tests_name("pipeline/leader_recovery", tests, NULL, NULL);
}
