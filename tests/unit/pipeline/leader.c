/*
 * The leader alone: what is stale has no effect, and the corners of its life that a whole
 * history seldom meets. Workers are played by the test.
 */
#include "expect_mark.h"
#include "leader_driven.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct culm_pipeline_leader_options options(void) {
    return (struct culm_pipeline_leader_options){
        .layout = &layout,
        .shape = {.pipelines = 1,
                  .stages = STAGES,
                  .lanes = 1,
                  .micros = 1,
                  .micros_per_lane = 1,
                  .global_samples = 1,
                  .micro_samples = 1,
                  .steps = 3,
                  .redundancy = CULM_REDUNDANCY_LAZY},
        .settings = {.crew = {.heartbeat_ms = 100,
                              .suspect_ms = 1000,
                              .kill_suspect_ms = 2000,
                              .replace_ms = 500,
                              .join_ms = 1000,
                              .wait_ms = 60000,
                              .stuck_ms = 30000,
                              .max_nodes = 4},
                     .checkpoint_every = 0},
        .start_source = "",
    };
}

/* `digest`: of every tensor. */
static void stated(struct fixture *f, int32_t from, int64_t version, uint64_t digest) {
    uint64_t all[STAGES] = {digest, digest};
    const struct culm_digests what = {totals(f).view, version, {{3}}, STAGES, STAGES, all};
    culm_digests_encode(&what, &f->buf);
    deliver(f, from, CULM_MSG_DIGESTS);
}

static void prepared(struct fixture *f, int32_t from, uint64_t view, int64_t iteration) {
    stated(f, from, iteration - 1, 7);
    double norm[STAGES] = {1, 1};
    const struct culm_prepared what = {view, iteration, {{3}},  1.0,  1,
                                       1.0,  STAGES,    STAGES, norm, (uint64_t[STAGES]){0}};
    culm_prepared_encode(&what, &f->buf);
    deliver(f, from, CULM_MSG_PREPARED);
}

/* Two workers up, and all loaded: the first step is in progress. */
static void run_two(struct fixture *f) {
    joined(f, 0);
    joined(f, 1);
    uint64_t view = totals(f).view;
    for (int32_t i = 0; i < 2; i++) {
        SAY(f, i, LOADED, loaded, .view = view, .version = totals(f).committed);
    }
    assert_int_equal(totals(f).view, view + 1);
    fake_world_forget(&f->fake);
}

static void commit(struct fixture *f) {
    int64_t k = totals(f).committed + 1;
    prepared(f, 0, totals(f).view, k);
    prepared(f, 1, totals(f).view, k);
    assert_int_equal(totals(f).committed, k);
    stated(f, 0, k, 7);
    stated(f, 1, k, 7);
}

/* The same with one worker, who holds all. */
static void commit_alone(struct fixture *f, int32_t node) {
    int64_t k = totals(f).committed + 1;
    prepared(f, node, totals(f).view, k);
    assert_int_equal(totals(f).committed, k);
    stated(f, node, k, 7);
}

static void test_prepared_counts_in_its_view_and_step(void **state) {
    (void)state;
    struct fixture f;
    begin(&f, options());
    run_two(&f);
    uint64_t view = totals(&f).view;
    prepared(&f, 0, view, 1);
    prepared(&f, 1, view - 1, 1); /* of a view before */
    prepared(&f, 1, view + 1, 1);
    prepared(&f, 1, view, 2); /* of another step */
    prepared(&f, 1, view, 0);
    assert_int_equal(totals(&f).committed, 0);
    prepared(&f, 1, view, 1);
    assert_int_equal(totals(&f).committed, 1);
    assert_int_equal(fake_world_sent(&f.fake, 0, CULM_MSG_COMMIT), 1);
    assert_int_equal(fake_world_sent(&f.fake, 1, CULM_MSG_COMMIT), 1);
    end(&f);
}

static void test_a_view_forgets_who_was_prepared(void **state) {
    (void)state;
    struct fixture f;
    struct culm_pipeline_leader_options o = options();
    o.shape.pipelines = 2;
    o.shape.lanes = 2;
    begin(&f, o);
    for (int32_t i = 0; i < 4; i++) {
        joined(&f, i);
    }
    for (int32_t i = 0; i < 4; i++) {
        SAY(&f, i, LOADED, loaded, .view = totals(&f).view);
    }
    for (int32_t i = 0; i < 3; i++) {
        prepared(&f, i, totals(&f).view, 1);
    }
    lost(&f, 3); /* the others hold all that it held: but not under a new view */
    assert_int_equal(totals(&f).committed, 0);
    for (int32_t i = 0; i < 3; i++) {
        prepared(&f, i, totals(&f).view, 1);
    }
    assert_int_equal(totals(&f).committed, 1);
    end(&f);
}

static void test_loaded_counts_in_its_view(void **state) {
    (void)state;
    struct fixture f;
    begin(&f, options());
    joined(&f, 0);
    joined(&f, 1);
    uint64_t view = totals(&f).view;
    SAY(&f, 0, LOADED, loaded, .view = view);
    SAY(&f, 1, LOADED, loaded, .view = view - 1);
    SAY(&f, 1, LOADED, loaded, .view = view, .version = 1);
    assert_int_equal(totals(&f).view, view);
    SAY(&f, 1, LOADED, loaded, .view = view);
    assert_int_equal(totals(&f).view, view + 1);
    end(&f);
}

/* Another one may lead, whom nodes that it cannot reach obey: it does not go on for as long as it likes. */
static void test_cut_off_it_saves_and_commits_no_more(void **state) {
    (void)state;
    EXPECT_MARK(crew_is_cut_off);
    EXPECT_MARK(pipeline_saves_as_it_is_cut_off);
    struct fixture f;
    struct culm_pipeline_leader_options o = options();
    o.settings.crew.store_ms = 3000;
    begin(&f, o);
    run_two(&f);
    commit(&f);
    const struct culm_leader_ops *leads = culm_pipeline_leader_actor.leads;
    leads->away(f.c, 2999);
    commit(&f); /* training goes on */
    assert_int_equal(fake_world_sent(&f.fake, 0, CULM_MSG_SAVE), 0);
    leads->away(f.c, 3000);
    leads->away(f.c, 3200);
    assert_int_equal(fake_world_events(&f.fake, "warning"), 1);
    assert_int_equal(fake_world_sent(&f.fake, 0, CULM_MSG_SAVE), 1);
    assert_int_equal(fake_world_sent(&f.fake, 1, CULM_MSG_SAVE), 1);
    prepared(&f, 0, totals(&f).view, 3);
    prepared(&f, 1, totals(&f).view, 3);
    assert_int_equal(totals(&f).committed, 2);
    leads->away(f.c, 0);
    assert_int_equal(totals(&f).committed, 3);
    end(&f);
}

static void test_fenced_workers_are_not_heard(void **state) {
    (void)state;
    EXPECT_MARK(crew_silent_is_lost);
    EXPECT_MARK(crew_suspect_is_ended);
    EXPECT_MARK(crew_fenced);
    struct fixture f;
    struct culm_pipeline_leader_options o = options();
    begin(&f, o);
    run_two(&f);
    for (int i = 0; i < 3; i++) {
        SAY_WORD(&f, 0, HEARTBEAT, heartbeat, 0);
        tick(&f, 400);
    }
    assert_int_equal(fake_world_events(&f.fake, "lost"), 1);
    assert_int_equal(f.fake.ended, 0); /* put out first, killed later */
    int64_t before = totals(&f).committed;
    prepared(&f, 0, totals(&f).view, 1);
    int64_t after = totals(&f).committed;
    assert_int_equal(after, before + 1); /* node 0 has all */
    prepared(&f, 1, totals(&f).view, 2);
    assert_int_equal(totals(&f).committed, after);
    assert_int_equal(fake_world_sent(&f.fake, 1, CULM_WORD_FENCED), 2); /* whatever it says */
    assert_int_equal(fake_world_events(&f.fake, "fenced"), 1);
    SAY_WORD(&f, 1, HEARTBEAT, heartbeat, 0);
    assert_int_equal(fake_world_events(&f.fake, "fenced"), 1); /* told again, reported once */
    for (int i = 0; i < 6; i++) {
        tick(&f, 400);
        SAY_WORD(&f, 0, HEARTBEAT, heartbeat, 0);
    }
    assert_int_equal(f.fake.ended, 1);
    end(&f);
}

/* Plays the writers and the disk of one checkpoint. */
static void save_piece(struct fixture *f, int32_t node, int32_t stage, int32_t attempt) {
    SAY(f, node, SAVED, saved, .version = totals(f).committed, .attempt = attempt, .stage = stage,
        .status = CULM_OK, .piece = "piece");
}

static void test_a_part_of_an_earlier_attempt_does_not_count(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_writer_lost_gives_up_a_save);
    EXPECT_MARK(pipeline_piece_counts_not);
    EXPECT_MARK(pipeline_save_that_waited);
    struct fixture f;
    struct culm_pipeline_leader_options o = options();
    o.settings.checkpoint_every = 1;
    o.shape.redundancy = CULM_REDUNDANCY_LAZY;
    begin(&f, o);
    run_two(&f);
    commit(&f);
    assert_int_equal(fake_world_sent(&f.fake, 0, CULM_MSG_SAVE), 1);
    assert_int_equal(fake_world_sent(&f.fake, 1, CULM_MSG_SAVE), 1);
    lost(&f, 1); /* the first attempt is given up, its files go */
    struct culm_task *discard = fake_world_io(&f.fake);
    assert_non_null(discard);
    assert_int_equal(discard->kind, CULM_TASK_DISCARD);
    fake_world_forget(&f.fake);
    culm_pipeline_leader_actor.leads->stop(f.c);
    culm_pipeline_leader_actor.job_done(f.c, &discard->job);
    assert_int_equal(fake_world_sent(&f.fake, 0, CULM_MSG_SAVE), 2); /* both parts, anew */
    save_piece(&f, 0, 0, 1);
    save_piece(&f, 0, 1, 1);
    assert_null(fake_world_io(&f.fake));
    save_piece(&f, 0, 0, 2);
    save_piece(&f, 0, 1, 2);
    struct culm_task *publish = fake_world_io(&f.fake);
    assert_non_null(publish);
    assert_int_equal(publish->kind, CULM_TASK_PUBLISH);
    snprintf(publish->text, sizeof publish->text, "step-1");
    culm_pipeline_leader_actor.job_done(f.c, &publish->job);
    assert_int_equal(f.fake.exit_code, 75);
    end(&f);
}

static void test_one_checkpoint_is_written_at_a_time(void **state) {
    (void)state;
    struct fixture f;
    struct culm_pipeline_leader_options o = options();
    o.settings.checkpoint_every = 1;
    begin(&f, o);
    run_two(&f);
    commit(&f);
    commit(&f); /* the first is still being written */
    assert_int_equal(fake_world_sent(&f.fake, 0, CULM_MSG_SAVE), 1);
    const json_t *told = fake_world_told(&f.fake, "checkpoint");
    assert_int_equal(json_integer_value(json_object_get(told, "step")), 2);
    assert_true(json_is_false(json_object_get(told, "ok")));
    assert_string_equal(json_string_value(json_object_get(told, "message")),
                        "the previous one is still being written");
    end(&f);
}

static void test_a_roll_back_waits_for_a_publication(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_rollback_waits_for_publication);
    EXPECT_MARK(pipeline_rollback_that_waited);
    EXPECT_MARK(pipeline_rollback);
    struct fixture f;
    struct culm_pipeline_leader_options o = options();
    o.settings.checkpoint_every = 1;
    begin(&f, o);
    run_two(&f);
    commit(&f);
    save_piece(&f, 0, 0, 1);
    save_piece(&f, 1, 1, 1);
    struct culm_task *publish = fake_world_io(&f.fake);
    assert_non_null(publish);
    lost(&f, 0);
    lost(&f, 1);
    assert_int_equal(totals(&f).rollbacks, 0);
    snprintf(publish->text, sizeof publish->text, "step-1");
    culm_pipeline_leader_actor.job_done(f.c, &publish->job);
    assert_int_equal(totals(&f).rollbacks, 1);
    assert_int_equal(totals(&f).committed, 1); /* nothing has to be done again */
    assert_int_equal(totals(&f).steps_redone, 0);
    culm_pipeline_leader_actor.leads->stop(f.c);
    assert_int_equal(f.fake.exit_code, 75); /* there is nothing to wait for */
    end(&f);
}

static void test_a_roll_back_gives_up_what_is_being_written(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_rollback_gives_up_a_save);
    EXPECT_MARK(pipeline_save_is_discarded);
    struct fixture f;
    struct culm_pipeline_leader_options o = options();
    o.settings.checkpoint_every = 1;
    o.shape.redundancy = CULM_REDUNDANCY_NONE;
    begin(&f, o);
    run_two(&f);
    commit(&f);
    fake_world_forget(&f.fake);
    lost(&f, 0); /* the only copy of the first stage */
    assert_int_equal(totals(&f).rollbacks, 1);
    assert_int_equal(totals(&f).committed, 0);
    assert_int_equal(fake_world_events(&f.fake, "checkpoint"), 1); /* it says so */
    struct culm_task *discard = fake_world_io(&f.fake);
    assert_non_null(discard); /* at once, and not when another one is being written */
    assert_int_equal(discard->kind, CULM_TASK_DISCARD);
    assert_int_equal(discard->version, 1);
    end(&f);
}

/* What is on its way was made of states that nobody has looked at since, and are loaded over. */
static void test_a_roll_back_begins_another_attempt(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_load_begins_another_attempt);
    struct fixture f;
    struct culm_pipeline_leader_options o = options();
    o.shape.redundancy = CULM_REDUNDANCY_NONE;
    begin(&f, o);
    run_two(&f);
    const uint64_t attempt = newest(&f, 1)->attempt;
    lost(&f, 0); /* the only copy of the first stage */
    assert_int_equal(totals(&f).rollbacks, 1);
    joined(&f, 2);
    assert_int_equal(newest(&f, 1)->phase, CULM_VIEW_LOAD);
    assert_int_equal(newest(&f, 1)->iteration, 1);
    assert_int_not_equal(newest(&f, 1)->attempt, attempt);
    assert_int_equal(newest(&f, 1)->attempt, newest(&f, 1)->number); /* no two have the same */
    end(&f);
}

static void test_a_stop_before_a_roll_back_ends_with_it(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_stopped_while_loading);
    struct fixture f;
    begin(&f, options());
    run_two(&f);
    commit(&f);
    culm_pipeline_leader_actor.leads->stop(f.c);
    assert_int_equal(f.fake.exit_code, -1); /* after this step */
    lost(&f, 0);
    lost(&f, 1);
    assert_int_equal(totals(&f).rollbacks, 1);
    assert_int_equal(f.fake.exit_code, 75);
    int32_t spawned = f.fake.started;
    tick(&f, 1000);
    assert_int_equal(f.fake.started, spawned); /* the dead ask for nobody */
    end(&f);
}

static void test_first_start_goes_on_with_who_is_left(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_lost_while_waiting);
    EXPECT_MARK(pipeline_goes_on_with_who_is_left);
    struct fixture f;
    struct culm_pipeline_leader_options o = options();
    o.settings.crew.replace_ms = -1;
    begin(&f, o);
    const json_t *waiting = fake_world_told(&f.fake, "waiting");
    assert_int_equal(json_integer_value(json_object_get(waiting, "need")), 2);
    joined(&f, 0);
    lost(&f, 0);
    assert_int_equal(totals(&f).view, 0); /* the other is still to come */
    joined(&f, 1);
    assert_int_equal(totals(&f).view, 1);
    end(&f);
}

/* Of two workers one is lost for good, one comes from elsewhere in its place, and the other never joins: it is not missing. */
static void test_first_start_goes_on_when_a_start_is_not_needed(void **state) {
    (void)state;
    struct fixture f;
    struct culm_pipeline_leader_options o = options();
    o.settings.crew.replace_ms = -1;
    begin(&f, o);
    joined(&f, 0);
    lost(&f, 0);
    f.fake.role[2] = CULM_NO_ROLE;
    joined(&f, 2);
    assert_int_equal(totals(&f).view, 0);
    ended(&f, 1);
    tick(&f, 500);
    assert_int_equal(totals(&f).view, 1);
    end(&f);
}

static void test_traced_workers_may_go_before_they_join(void **state) {
    (void)state;
    EXPECT_MARK(crew_taken_away_before_it_joined);
    struct fixture f;
    struct culm_pipeline_leader_options o = options();
    o.traced = true;
    begin(&f, o);
    for (int32_t i = 0; i < 20; i++) {
        ended(&f, i);
    }
    tick(&f, 500);
    assert_int_equal(f.fake.started, 0);
    assert_int_equal(f.fake.exit_code, -1);
    end(&f);
}

/* Nobody is on the way: whoever starts workers has as long as wait_ms. */
static void test_workers_are_waited_for_no_longer_than_wait_ms(void **state) {
    (void)state;
    struct fixture f;
    struct culm_pipeline_leader_options o = options();
    o.traced = true;
    begin(&f, o);
    joined(&f, 0);
    assert_int_equal(fake_world_events(&f.fake, "waiting"), 2); /* for two, and for one */
    tick(&f, (uint64_t)o.settings.crew.wait_ms - 1);
    assert_int_equal(f.fake.exit_code, -1);
    tick(&f, 1);
    assert_int_equal(f.fake.exit_code, 4);
    assert_non_null(strstr(f.fake.error, "waited 60000 ms for workers"));
    end(&f);
}

static void test_workers_that_cannot_start_end_the_run(void **state) {
    (void)state;
    EXPECT_MARK(crew_start_failed_with_others);
    EXPECT_MARK(crew_starts_failed_too_often);
    struct fixture f;
    begin(&f, options());
    int32_t node = 0;
    for (int i = 0; i < 20 && f.fake.exit_code < 0; i++) {
        ended(&f, node++);
        tick(&f, 500);
    }
    assert_int_equal(f.fake.exit_code, culm_status_exit_code(CULM_ERR_IO));
    assert_int_equal(fake_world_events(&f.fake, "error"), 1);
    end(&f);
}

static void refused(struct fixture *f, int32_t node) {
    struct culm_error why;
    culm_error_set(&why, CULM_ERR_CHANGED, "'x' is not what it was");
    culm_pipeline_leader_actor.leads->ended(f->c, node, &why);
}

static void test_other_inputs_end_a_run_that_waits(void **state) {
    (void)state;
    EXPECT_MARK(crew_start_finds_other_inputs);
    struct fixture f;
    begin(&f, options());
    refused(&f, 0);
    assert_int_equal(f.fake.exit_code, 1);
    end(&f);
}

/* It goes on without, and asks again, later each time. */
static void test_other_inputs_end_no_run_that_goes_on(void **state) {
    (void)state;
    struct fixture f;
    begin(&f, options());
    run_two(&f);
    lost(&f, 1);
    int32_t spawned = f.fake.started + 1;
    for (int i = 0; i < 10 && f.fake.started < spawned; i++) {
        SAY_WORD(&f, 0, HEARTBEAT, heartbeat, .progress = i);
        tick(&f, 100);
    }
    for (int32_t i = 2; i < 22; i++) {
        refused(&f, i);
        assert_int_equal(f.fake.exit_code, -1);
        assert_int_equal(f.fake.started, spawned);
        for (int32_t ms = 0; ms < 60000 && f.fake.started == spawned; ms += 100) {
            SAY_WORD(&f, 0, HEARTBEAT, heartbeat, .progress = 100 + ms);
            tick(&f, 100);
        }
        assert_int_equal(f.fake.started, ++spawned);
    }
    end(&f);
}

static void test_a_report_of_an_older_view_recovers_nobody(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_lost_while_running);
    EXPECT_MARK(pipeline_taken_over_counts_not);
    EXPECT_MARK(pipeline_recovered);
    struct fixture f;
    begin(&f, options());
    run_two(&f);
    uint64_t before = totals(&f).view;
    lost(&f, 1);
    SAY(&f, 0, TAKEN_OVER, taken_over, .view = before, .stage = 1);
    assert_int_equal(fake_world_events(&f.fake, "recovered"), 0);
    SAY(&f, 0, TAKEN_OVER, taken_over, .view = before + 1, .stage = 1);
    SAY(&f, 0, TAKEN_OVER, taken_over, .view = before + 1, .stage = 1);
    assert_int_equal(fake_world_events(&f.fake, "recovered"), 1);
    end(&f);
}

static void test_a_suspect_takes_its_place_until_it_is_killed(void **state) {
    (void)state;
    EXPECT_MARK(crew_suspect_may_wake);
    EXPECT_MARK(crew_replacement_waits_for_room);
    EXPECT_MARK(crew_start_is_due);
    struct fixture f;
    struct culm_pipeline_leader_options o = options();
    o.settings.crew.max_nodes = 2;
    begin(&f, o);
    run_two(&f);
    int32_t spawned = f.fake.started;
    for (int i = 0; i < 5; i++) { /* 2000 ms: node 1 is silent since 1000 */
        SAY_WORD(&f, 0, HEARTBEAT, heartbeat, 0);
        tick(&f, 400);
    }
    assert_int_equal(fake_world_events(&f.fake, "lost"), 1);
    assert_int_equal(f.fake.started, spawned);
    for (int i = 0; i < 8; i++) {
        SAY_WORD(&f, 0, HEARTBEAT, heartbeat, 0);
        tick(&f, 400);
    }
    assert_int_equal(f.fake.ended, 1);
    assert_int_equal(f.fake.started, spawned + 1);
    end(&f);
}

static void heartbeats(struct fixture *f, int32_t workers, int rounds) {
    for (int i = 0; i < rounds; i++) {
        for (int32_t w = 0; w < workers; w++) {
            SAY_WORD(f, w, HEARTBEAT, heartbeat, 0);
        }
        tick(f, 400);
    }
}

static void test_a_broken_link_costs_one_of_its_ends(void **state) {
    (void)state;
    EXPECT_MARK(crew_broken_link_costs_one);
    struct fixture f;
    begin(&f, options());
    run_two(&f);
    SAY_WORD(&f, 0, PEER_LOST, peer_lost, .node = 1);
    SAY_WORD(&f, 1, PEER_LOST, peer_lost, .node = 0);
    heartbeats(&f, 2, 8);
    assert_int_equal(totals(&f).losses, 1);
    assert_int_equal(totals(&f).rollbacks, 0);
    end(&f);
}

static void test_who_cannot_reach_the_others_is_lost(void **state) {
    (void)state;
    EXPECT_MARK(crew_more_links_are_broken);
    struct fixture f;
    struct culm_pipeline_leader_options o = options();
    o.shape.pipelines = 2;
    o.shape.lanes = 2;
    begin(&f, o);
    for (int32_t i = 0; i < 4; i++) {
        joined(&f, i);
    }
    for (int32_t i = 0; i < 4; i++) {
        SAY(&f, i, LOADED, loaded, .view = totals(&f).view);
    }
    for (int32_t i = 1; i < 4; i++) { /* node 0 says so first, of everyone */
        SAY_WORD(&f, 0, PEER_LOST, peer_lost, .node = i);
        SAY_WORD(&f, i, PEER_LOST, peer_lost, .node = 0);
    }
    heartbeats(&f, 4, 8);
    assert_int_equal(totals(&f).losses, 1);
    prepared(&f, 0, totals(&f).view, 1);
    assert_int_equal(fake_world_sent(&f.fake, 0, CULM_WORD_FENCED) > 0, 1);
    end(&f);
}

static void test_only_the_receiver_ends_a_copy(void **state) {
    (void)state;
    struct fixture f;
    const struct culm_view *now;
    const struct culm_pipeline_leader_options o = options();
    begin(&f, o);
    run_two(&f);
    lost(&f, 1);
    joined(&f, 2);
    commit_alone(&f, 0);
    now = newest(&f, 2);
    assert_int_equal(now->transfer_count, 2); /* both stages for the newcomer */
    const struct culm_transfer before = now->transfer[0], other = now->transfer[1];
    assert_int_equal(before.source, 0);
    SAY(&f, 2, JOINED, joined, .version = 1, .transfer = before.id);
    SAY(&f, 2, JOINED, joined, .version = 1, .transfer = before.id); /* said twice */
    assert_int_equal(totals(&f).transfers, 1);
    /* not by who gets it */
    SAY(&f, 0, JOINED, joined, .version = 1, .transfer = other.id);
    assert_int_equal(totals(&f).transfers, 1);
    prepared(&f, 0, totals(&f).view, 2);
    prepared(&f, 2, totals(&f).view, 2);
    assert_int_equal(totals(&f).committed, 2); /* nothing waits for the other copy */
    end(&f);
}

static void test_a_copy_whose_source_died_has_another(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_copy_has_another_source);
    EXPECT_MARK(pipeline_stage_is_gone);
    EXPECT_MARK(pipeline_view_starts_over);
    struct fixture f;
    const struct culm_view *now;
    struct culm_pipeline_leader_options o = options();
    o.shape.pipelines = 3;
    o.shape.lanes = 3;
    o.shape.redundancy = CULM_REDUNDANCY_NONE;
    begin(&f, o);
    for (int32_t i = 0; i < 6; i++) {
        joined(&f, i);
    }
    for (int32_t i = 0; i < 6; i++) {
        SAY(&f, i, LOADED, loaded, .view = totals(&f).view);
    }
    lost(&f, 0);
    joined(&f, 6);
    for (int32_t i = 1; i < 6; i++) {
        prepared(&f, i, totals(&f).view, 1);
    }
    now = newest(&f, 6);
    assert_int_equal(now->transfer_count, 1);
    const struct culm_transfer before = now->transfer[0];
    assert_true(before.source == 2 || before.source == 4);
    lost(&f, before.source);
    now = newest(&f, 6);
    assert_int_equal(now->transfer_count, 1);
    assert_int_equal(now->transfer[0].source, 6 - before.source);
    assert_int_equal(now->transfer[0].destination, 6);
    SAY(&f, 6, JOINED, joined, .version = 1, .transfer = before.id);
    assert_int_equal(totals(&f).transfers, 1); /* that one is no more */
    SAY(&f, 6, JOINED, joined, .version = 1, .transfer = now->transfer[0].id);
    assert_int_equal(totals(&f).transfers, 0);
    /* and when the last source is gone, there is nothing to copy */
    lost(&f, 6 - before.source);
    assert_int_equal(totals(&f).rollbacks, 0);
    lost(&f, 6);
    assert_int_equal(totals(&f).rollbacks, 1);
    end(&f);
}

static void test_nothing_is_committed_during_the_last_save(void **state) {
    (void)state;
    struct fixture f;
    begin(&f, options());
    run_two(&f);
    culm_pipeline_leader_actor.leads->stop(f.c);
    commit(&f);
    assert_int_equal(fake_world_sent(&f.fake, 0, CULM_MSG_SAVE), 1);
    prepared(&f, 0, totals(&f).view, 2);
    prepared(&f, 1, totals(&f).view, 2);
    assert_int_equal(totals(&f).committed, 1);
    save_piece(&f, 0, 0, 1);
    save_piece(&f, 1, 1, 1);
    struct culm_task *publish = fake_world_io(&f.fake);
    assert_non_null(publish);
    assert_int_equal(publish->version, 1);
    culm_pipeline_leader_actor.job_done(f.c, &publish->job);
    assert_int_equal(f.fake.exit_code, 75);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prepared_counts_in_its_view_and_step),
        cmocka_unit_test(test_a_view_forgets_who_was_prepared),
        cmocka_unit_test(test_loaded_counts_in_its_view),
        cmocka_unit_test(test_cut_off_it_saves_and_commits_no_more),
        cmocka_unit_test(test_fenced_workers_are_not_heard),
        cmocka_unit_test(test_a_part_of_an_earlier_attempt_does_not_count),
        cmocka_unit_test(test_one_checkpoint_is_written_at_a_time),
        cmocka_unit_test(test_a_roll_back_waits_for_a_publication),
        cmocka_unit_test(test_a_roll_back_gives_up_what_is_being_written),
        cmocka_unit_test(test_a_roll_back_begins_another_attempt),
        cmocka_unit_test(test_a_stop_before_a_roll_back_ends_with_it),
        cmocka_unit_test(test_first_start_goes_on_with_who_is_left),
        cmocka_unit_test(test_first_start_goes_on_when_a_start_is_not_needed),
        cmocka_unit_test(test_traced_workers_may_go_before_they_join),
        cmocka_unit_test(test_workers_are_waited_for_no_longer_than_wait_ms),
        cmocka_unit_test(test_workers_that_cannot_start_end_the_run),
        cmocka_unit_test(test_other_inputs_end_a_run_that_waits),
        cmocka_unit_test(test_other_inputs_end_no_run_that_goes_on),
        cmocka_unit_test(test_a_report_of_an_older_view_recovers_nobody),
        cmocka_unit_test(test_a_broken_link_costs_one_of_its_ends),
        cmocka_unit_test(test_who_cannot_reach_the_others_is_lost),
        cmocka_unit_test(test_only_the_receiver_ends_a_copy),
        cmocka_unit_test(test_a_copy_whose_source_died_has_another),
        cmocka_unit_test(test_nothing_is_committed_during_the_last_save),
        cmocka_unit_test(test_a_suspect_takes_its_place_until_it_is_killed),
    };
    return cmocka_run_group_tests_name("pipeline/leader", tests, NULL, NULL);
}
