/*
 * The coordinator alone: what is stale has no effect, and the corners of its life that a whole
 * history seldom meets. Workers are played by the test.
 */
#include "coordinator_driven.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct culm_coordinator_options options(void) {
    return (struct culm_coordinator_options){
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
        .settings = {.heartbeat_ms = 100,
                     .suspect_ms = 1000,
                     .kill_suspect_ms = 2000,
                     .replace_ms = 500,
                     .join_ms = 1000,
                     .wait_ms = 60000,
                     .stuck_ms = 30000,
                     .max_nodes = 4,
                     .checkpoint_every = 0},
        .start_source = "",
    };
}

/* `digest`: of every tensor. */
static void stated(struct fixture *f, int32_t from, int64_t version, uint64_t digest) {
    uint64_t all[STAGES] = {digest, digest};
    const struct culm_digests what = {totals(f).view, version, 3, STAGES, all};
    culm_digests_encode(&what, &f->buf);
    deliver(f, from, CULM_MSG_DIGESTS);
}

static void prepared(struct fixture *f, int32_t from, uint64_t view, int64_t iteration) {
    stated(f, from, iteration - 1, 7);
    double norm[STAGES] = {1, 1};
    const struct culm_prepared what = {view, iteration, 3, 1.0, 1, 1.0, STAGES, norm, {0}};
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
    struct culm_coordinator_options o = options();
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

static void test_fenced_workers_are_not_heard(void **state) {
    (void)state;
    struct fixture f;
    struct culm_coordinator_options o = options();
    begin(&f, o);
    run_two(&f);
    for (int i = 0; i < 3; i++) {
        SAY(&f, 0, HEARTBEAT, heartbeat, 0);
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
    assert_int_equal(fake_world_sent(&f.fake, 1, CULM_MSG_FENCED), 2); /* whatever it says */
    assert_int_equal(fake_world_events(&f.fake, "fenced"), 1);
    SAY(&f, 1, HEARTBEAT, heartbeat, 0);
    assert_int_equal(fake_world_events(&f.fake, "fenced"), 1); /* told again, reported once */
    for (int i = 0; i < 6; i++) {
        tick(&f, 400);
        SAY(&f, 0, HEARTBEAT, heartbeat, 0);
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
    struct fixture f;
    struct culm_coordinator_options o = options();
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
    culm_coordinator_actor.leads->stop(f.c);
    culm_coordinator_actor.job_done(f.c, &discard->job);
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
    culm_coordinator_actor.job_done(f.c, &publish->job);
    assert_int_equal(f.fake.exit_code, 75);
    end(&f);
}

static void test_a_roll_back_waits_for_a_publication(void **state) {
    (void)state;
    struct fixture f;
    struct culm_coordinator_options o = options();
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
    culm_coordinator_actor.job_done(f.c, &publish->job);
    assert_int_equal(totals(&f).rollbacks, 1);
    assert_int_equal(totals(&f).committed, 1); /* nothing has to be done again */
    assert_int_equal(totals(&f).steps_redone, 0);
    culm_coordinator_actor.leads->stop(f.c);
    assert_int_equal(f.fake.exit_code, 75); /* there is nothing to wait for */
    end(&f);
}

static void test_a_roll_back_gives_up_what_is_being_written(void **state) {
    (void)state;
    struct fixture f;
    struct culm_coordinator_options o = options();
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

static void test_a_stop_before_a_roll_back_ends_with_it(void **state) {
    (void)state;
    struct fixture f;
    begin(&f, options());
    run_two(&f);
    commit(&f);
    culm_coordinator_actor.leads->stop(f.c);
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
    struct fixture f;
    struct culm_coordinator_options o = options();
    o.settings.replace_ms = -1;
    begin(&f, o);
    joined(&f, 0);
    lost(&f, 0);
    assert_int_equal(totals(&f).view, 0); /* the other is still to come */
    joined(&f, 1);
    assert_int_equal(totals(&f).view, 1);
    end(&f);
}

static void test_traced_workers_may_go_before_they_join(void **state) {
    (void)state;
    struct fixture f;
    struct culm_coordinator_options o = options();
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

static void test_workers_that_cannot_start_end_the_run(void **state) {
    (void)state;
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
    culm_coordinator_actor.leads->ended(f->c, node, &why);
}

static void test_other_inputs_end_a_run_that_waits(void **state) {
    (void)state;
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
    int32_t spawned = f.fake.started;
    for (int32_t i = 2; i < 22; i++) {
        refused(&f, i);
        assert_int_equal(f.fake.exit_code, -1);
        assert_int_equal(f.fake.started, spawned);
        for (int32_t ms = 0; ms < 60000 && f.fake.started == spawned; ms += 100) {
            SAY(&f, 0, HEARTBEAT, heartbeat, .progress = ms);
            SAY(&f, 1, HEARTBEAT, heartbeat, .progress = ms);
            tick(&f, 100);
        }
        assert_int_equal(f.fake.started, ++spawned);
    }
    end(&f);
}

static void test_a_report_of_an_older_view_recovers_nobody(void **state) {
    (void)state;
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
    struct fixture f;
    struct culm_coordinator_options o = options();
    o.settings.max_nodes = 2;
    begin(&f, o);
    run_two(&f);
    int32_t spawned = f.fake.started;
    for (int i = 0; i < 5; i++) { /* 2000 ms: node 1 is silent since 1000 */
        SAY(&f, 0, HEARTBEAT, heartbeat, 0);
        tick(&f, 400);
    }
    assert_int_equal(fake_world_events(&f.fake, "lost"), 1);
    assert_int_equal(f.fake.started, spawned);
    for (int i = 0; i < 8; i++) {
        SAY(&f, 0, HEARTBEAT, heartbeat, 0);
        tick(&f, 400);
    }
    assert_int_equal(f.fake.ended, 1);
    assert_int_equal(f.fake.started, spawned + 1);
    end(&f);
}

static void heartbeats(struct fixture *f, int32_t workers, int rounds) {
    for (int i = 0; i < rounds; i++) {
        for (int32_t w = 0; w < workers; w++) {
            SAY(f, w, HEARTBEAT, heartbeat, 0);
        }
        tick(f, 400);
    }
}

static void test_a_broken_link_costs_one_of_its_ends(void **state) {
    (void)state;
    struct fixture f;
    begin(&f, options());
    run_two(&f);
    SAY(&f, 0, PEER_LOST, peer_lost, .node = 1);
    SAY(&f, 1, PEER_LOST, peer_lost, .node = 0);
    heartbeats(&f, 2, 8);
    assert_int_equal(totals(&f).losses, 1);
    assert_int_equal(totals(&f).rollbacks, 0);
    end(&f);
}

static void test_who_cannot_reach_the_others_is_lost(void **state) {
    (void)state;
    struct fixture f;
    struct culm_coordinator_options o = options();
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
        SAY(&f, 0, PEER_LOST, peer_lost, .node = i);
        SAY(&f, i, PEER_LOST, peer_lost, .node = 0);
    }
    heartbeats(&f, 4, 8);
    assert_int_equal(totals(&f).losses, 1);
    prepared(&f, 0, totals(&f).view, 1);
    assert_int_equal(fake_world_sent(&f.fake, 0, CULM_MSG_FENCED) > 0, 1);
    end(&f);
}

/* The newest view that was sent to `to`. */
static void newest_view(const struct fixture *f, const struct culm_run_shape *shape, int32_t to,
                        struct culm_view *ret_view) {
    ret_view->number = 0;
    for (int32_t i = 0; i < f->fake.sent_count; i++) {
        const struct fake_sent *sent = &f->fake.sent[i];
        if (sent->to == to && sent->type == CULM_MSG_VIEW) {
            assert_int_equal(culm_view_decode(sent->meta, sent->meta_bytes, shape, ret_view),
                             CULM_OK);
        }
    }
}

static void test_only_the_receiver_ends_a_copy(void **state) {
    (void)state;
    struct fixture f;
    static struct culm_view now;
    const struct culm_coordinator_options o = options();
    begin(&f, o);
    run_two(&f);
    lost(&f, 1);
    joined(&f, 2);
    commit_alone(&f, 0);
    newest_view(&f, &o.shape, 2, &now);
    assert_int_equal(now.transfer_count, 2); /* both stages for the newcomer */
    struct culm_transfer before = now.transfer[0];
    assert_int_equal(before.source, 0);
    SAY(&f, 2, JOINED, joined, .version = 1, .transfer = before.id);
    SAY(&f, 2, JOINED, joined, .version = 1, .transfer = before.id); /* said twice */
    assert_int_equal(totals(&f).transfers, 1);
    /* not by who gets it */
    SAY(&f, 0, JOINED, joined, .version = 1, .transfer = now.transfer[1].id);
    assert_int_equal(totals(&f).transfers, 1);
    prepared(&f, 0, totals(&f).view, 2);
    prepared(&f, 2, totals(&f).view, 2);
    assert_int_equal(totals(&f).committed, 1); /* nothing is committed with a copy under way */
    end(&f);
}

static void test_a_copy_whose_source_died_starts_over(void **state) {
    (void)state;
    struct fixture f;
    static struct culm_view now;
    struct culm_coordinator_options o = options();
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
    newest_view(&f, &o.shape, 6, &now);
    assert_int_equal(now.transfer_count, 1);
    const struct culm_transfer before = now.transfer[0];
    assert_true(before.source == 2 || before.source == 4);
    lost(&f, before.source);
    newest_view(&f, &o.shape, 6, &now);
    assert_int_equal(now.transfer_count, 1);
    assert_int_equal(now.transfer[0].source, 6 - before.source);
    assert_int_equal(now.transfer[0].destination, 6);
    SAY(&f, 6, JOINED, joined, .version = 1, .transfer = before.id);
    assert_int_equal(totals(&f).transfers, 1); /* that one is no more */
    SAY(&f, 6, JOINED, joined, .version = 1, .transfer = now.transfer[0].id);
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
    culm_coordinator_actor.leads->stop(f.c);
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
    culm_coordinator_actor.job_done(f.c, &publish->job);
    assert_int_equal(f.fake.exit_code, 75);
    end(&f);
}

/* So many workers that hold all of a model, each. */
static void run_copies(struct fixture *f, int32_t count) {
    struct culm_coordinator_options o = options();
    o.shape.pipelines = count;
    o.shape.lanes = count;
    o.shape.stages = 1;
    o.settings.checkpoint_every = 1;
    o.settings.replace_ms = -1;
    static int32_t first[1] = {0};
    static struct culm_stage_desc one = {
        .grad_bytes = 8, .grad_count = 2, .param_count = 1, .params = first};
    static struct culm_grad_desc grads[2] = {{0, 0, 0, 4}, {0, -1, 4, 4}};
    static struct culm_param_desc params[1] = {{1, 8}};
    static const struct culm_layout all = {1, 2, 1, &one, grads, params};
    o.layout = &all;
    begin(f, o);
    for (int32_t i = 0; i < count; i++) {
        joined(f, i);
    }
    for (int32_t i = 0; i < count; i++) {
        SAY(f, i, LOADED, loaded, .view = totals(f).view);
    }
}

static void one_stated(struct fixture *f, int32_t from, int64_t version, uint64_t digest) {
    const struct culm_digests what = {totals(f).view, version, 1, 1, &digest};
    culm_digests_encode(&what, &f->buf);
    deliver(f, from, CULM_MSG_DIGESTS);
}

static void one_prepared(struct fixture *f, int32_t from, double norm, double loss) {
    one_stated(f, from, totals(f).committed, 7);
    const struct culm_prepared what = {
        totals(f).view, totals(f).committed + 1, 1, loss, 1, 1.0, 1, &norm, {0}};
    culm_prepared_encode(&what, &f->buf);
    deliver(f, from, CULM_MSG_PREPARED);
}

static void test_whoever_the_majority_contradicts_is_put_out(void **state) {
    (void)state;
    for (int loss = 0; loss < 2; loss++) {
        struct fixture f;
        run_copies(&f, 3);
        one_prepared(&f, 0, 1.0, 1.0);
        one_prepared(&f, 1, loss ? 1.0 : 1.0 + 0x1p-52, loss ? 1.0 + 0x1p-52 : 1.0);
        assert_int_equal(totals(&f).losses, 0); /* not before all have said */
        one_prepared(&f, 2, 1.0, 1.0);
        assert_int_equal(totals(&f).committed, 0);
        assert_int_equal(totals(&f).losses, 1);
        assert_int_equal(fake_world_events(&f.fake, "differs"), 1);
        one_prepared(&f, 0, 1.0, 1.0);
        one_prepared(&f, 2, 1.0, 1.0);
        assert_int_equal(totals(&f).committed, 1);
        one_prepared(&f, 1, 1.0, 1.0);
        assert_int_equal(fake_world_sent(&f.fake, 1, CULM_MSG_FENCED), 2);
        end(&f);
    }
}

static void test_two_that_differ_do_the_step_once_more(void **state) {
    (void)state;
    for (int again = 0; again < 2; again++) {
        struct fixture f;
        run_copies(&f, 2);
        uint64_t view = totals(&f).view;
        one_prepared(&f, 0, 1.0, 1.0);
        one_prepared(&f, 1, 2.0, 1.0);
        assert_int_equal(totals(&f).committed, 0);
        assert_int_equal(totals(&f).losses, 0);
        assert_int_equal(totals(&f).view, view + 1);
        one_prepared(&f, 0, 1.0, 1.0);
        one_prepared(&f, 1, again ? 2.0 : 1.0, 1.0);
        if (again) { /* nobody can say which is right */
            assert_int_equal(f.fake.exit_code, 1);
        } else { /* the second try contradicts worker 1 */
            assert_int_equal(totals(&f).losses, 1);
            one_prepared(&f, 0, 1.0, 1.0);
            assert_int_equal(totals(&f).committed, 1);
        }
        end(&f);
    }
}

static void test_state_that_differs_is_not_published(void **state) {
    (void)state;
    for (int32_t count = 2; count <= 3; count++) {
        struct fixture f;
        run_copies(&f, count);
        for (int32_t i = 0; i < count; i++) {
            one_prepared(&f, i, 1.0, 1.0);
        }
        assert_int_equal(totals(&f).committed, 1);
        save_piece(&f, 0, 0, 1);
        assert_null(fake_world_io(&f.fake)); /* nobody has said what the state is */
        one_stated(&f, 0, 1, 8);
        for (int32_t i = 1; i < count; i++) {
            one_stated(&f, i, 1, 9);
        }
        if (count == 2) {
            assert_int_equal(f.fake.exit_code, 1);
            assert_null(fake_world_io(&f.fake));
        } else { /* the writer was wrong */
            assert_int_equal(totals(&f).losses, 1);
            struct culm_task *discard = fake_world_io(&f.fake);
            assert_non_null(discard);
            assert_int_equal(discard->kind, CULM_TASK_DISCARD);
        }
        end(&f);
    }
}

static void test_digests_of_another_past_do_not_count(void **state) {
    (void)state;
    struct fixture f;
    run_copies(&f, 2);
    one_stated(&f, 0, 0, 7);
    one_stated(&f, 1, 1, 9); /* of another version */
    one_stated(&f, 1, -1, 9);
    one_prepared(&f, 0, 1.0, 1.0);
    assert_int_equal(totals(&f).committed, 0);
    one_prepared(&f, 1, 1.0, 1.0);
    assert_int_equal(totals(&f).committed, 1);
    end(&f);
}

static void test_a_damaged_copy_is_put_out(void **state) {
    (void)state;
    struct fixture f;
    run_copies(&f, 2);
    one_prepared(&f, 0, 1.0, 1.0);
    SAY(&f, 1, DAMAGED, damaged, .iteration = 1, .why = "a test says so");
    assert_int_equal(totals(&f).losses, 1);
    assert_int_equal(totals(&f).committed, 0);
    assert_int_equal(fake_world_events(&f.fake, "differs"), 1);
    one_prepared(&f, 0, 3.0, 1.0); /* afresh: what it said before does not count */
    assert_int_equal(totals(&f).committed, 1);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prepared_counts_in_its_view_and_step),
        cmocka_unit_test(test_a_view_forgets_who_was_prepared),
        cmocka_unit_test(test_whoever_the_majority_contradicts_is_put_out),
        cmocka_unit_test(test_two_that_differ_do_the_step_once_more),
        cmocka_unit_test(test_state_that_differs_is_not_published),
        cmocka_unit_test(test_digests_of_another_past_do_not_count),
        cmocka_unit_test(test_a_damaged_copy_is_put_out),
        cmocka_unit_test(test_loaded_counts_in_its_view),
        cmocka_unit_test(test_fenced_workers_are_not_heard),
        cmocka_unit_test(test_a_part_of_an_earlier_attempt_does_not_count),
        cmocka_unit_test(test_a_roll_back_waits_for_a_publication),
        cmocka_unit_test(test_a_roll_back_gives_up_what_is_being_written),
        cmocka_unit_test(test_a_stop_before_a_roll_back_ends_with_it),
        cmocka_unit_test(test_first_start_goes_on_with_who_is_left),
        cmocka_unit_test(test_traced_workers_may_go_before_they_join),
        cmocka_unit_test(test_workers_that_cannot_start_end_the_run),
        cmocka_unit_test(test_other_inputs_end_a_run_that_waits),
        cmocka_unit_test(test_other_inputs_end_no_run_that_goes_on),
        cmocka_unit_test(test_a_report_of_an_older_view_recovers_nobody),
        cmocka_unit_test(test_a_broken_link_costs_one_of_its_ends),
        cmocka_unit_test(test_who_cannot_reach_the_others_is_lost),
        cmocka_unit_test(test_only_the_receiver_ends_a_copy),
        cmocka_unit_test(test_a_copy_whose_source_died_starts_over),
        cmocka_unit_test(test_nothing_is_committed_during_the_last_save),
        cmocka_unit_test(test_a_suspect_takes_its_place_until_it_is_killed),
    };
    return cmocka_run_group_tests_name("pipeline/coordinator", tests, NULL, NULL);
}
