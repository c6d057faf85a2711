/*
 * The node alone: what it borrows stays put while a task runs, and what is stale has no effect.
 * The coordinator, the peer and the compute thread are played by the test.
 */
#include "../fake_world.h"

#include "ledger/pulse.h"
#include "pipeline/control.h"
#include "pipeline/message.h"
#include "pipeline/node.h"
#include "pipeline/waits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define STAGES 2

/* Node 0 has stage 0, node 1 stage 1; one parameter each, two micro-batches in one lane. */
static int32_t params_of[STAGES][1] = {{0}, {1}};
static struct culm_stage_desc stage_descs[STAGES] = {{.output_bytes = 4,
                                                      .activation_bytes = 4,
                                                      .grad_bytes = 4,
                                                      .state_bytes = 8,
                                                      .grad_count = 1,
                                                      .param_count = 1,
                                                      .params = params_of[0]},
                                                     {.input_bytes = 4,
                                                      .activation_bytes = 4,
                                                      .grad_bytes = 8,
                                                      .state_bytes = 8,
                                                      .first_grad = 1,
                                                      .grad_count = 2,
                                                      .param_count = 1,
                                                      .params = params_of[1]}};
static struct culm_grad_desc grad_descs[3] = {{0, 0, 0, 4}, {1, 1, 0, 4}, {1, -1, 4, 4}};
static struct culm_param_desc param_descs[STAGES] = {{1, 8}, {2, 8}};
static const struct culm_layout layout = {STAGES, 3, STAGES, stage_descs, grad_descs, param_descs};

struct fixture {
    struct fake_world fake;
    struct culm_exec exec;
    struct culm_blob_pool *pool;
    struct culm_node *node;
    struct culm_buf buf;
    struct culm_view view;
};

static void begin(struct fixture *f) {
    fake_world_init(&f->fake);
    culm_buf_init(&f->buf, CULM_META_MAX);
    f->pool = culm_blob_pool_new(0);
    const struct culm_node_options options = {
        .id = 0,
        .world = &f->fake.world,
        .exec = &f->exec,
        .pool = f->pool,
        .layout = &layout,
        .shape = {.pipelines = 1,
                  .stages = STAGES,
                  .lanes = 1,
                  .micros = 2,
                  .micros_per_lane = 2,
                  .global_samples = 2,
                  .micro_samples = 1,
                  .steps = 9},
        .heartbeat_ms = 100,
    };
    f->node = culm_node_new(&options);
    assert_non_null(f->node);
    culm_node_actor.start(f->node);
    f->view = (struct culm_view){.number = 0,
                                 .iteration = 4,
                                 .pipelines = 1,
                                 .stages = STAGES,
                                 .lanes = 1,
                                 .node_count = 2,
                                 .node = {{0, 0, 0, 1}, {1, 0, 1, 2}},
                                 .role = {{{0, -1}, {1, -1}}}};
}

static void end(struct fixture *f) {
    culm_node_free(f->node);
    fake_world_release(&f->fake);
    struct culm_blob_pool_stats stats;
    culm_blob_pool_stats(f->pool, &stats);
    assert_int_equal(stats.used_bytes, 0);
    culm_blob_pool_free(f->pool);
    culm_buf_release(&f->buf);
    fake_world_release(&f->fake);
}

static void deliver(struct fixture *f, int32_t from, uint16_t type) {
    const struct culm_message message = {
        .type = type, .meta = f->buf.data, .meta_bytes = (uint32_t)f->buf.len};
    culm_node_actor.message(f->node, from, &message);
    culm_buf_clear(&f->buf);
}

static void view(struct fixture *f, enum culm_view_phase phase, const char *source) {
    f->view.number++;
    f->view.phase = phase;
    snprintf(f->view.source, sizeof f->view.source, "%s", source);
    culm_view_encode(&f->view, &f->buf);
    deliver(f, CULM_LEADER, CULM_MSG_VIEW);
}

/* Ends the task that runs, which must be of this kind. */
static void finish(struct fixture *f, enum culm_task_kind kind) {
    struct culm_task *task = fake_world_run(&f->fake);
    assert_non_null(task);
    assert_int_equal(task->kind, kind);
    culm_node_actor.job_done(f->node, &task->job);
}

static void load(struct fixture *f) {
    view(f, CULM_VIEW_LOAD, "step-3");
    for (struct culm_task *task; (task = fake_world_run(&f->fake));) {
        culm_node_actor.job_done(f->node, &task->job);
    }
    assert_int_equal(fake_world_sent(&f->fake, CULM_LEADER, CULM_MSG_LOADED), 1);
    assert_int_equal(culm_node_version(f->node, 0), 3);
    view(f, CULM_VIEW_RUN, "");
    fake_world_forget(&f->fake);
}

static void have_from(struct fixture *f, int32_t from, uint64_t number) {
    struct culm_have have;
    assert_int_equal(culm_have_init(&have, STAGES, 2, 3), CULM_OK);
    have.view = number;
    have.iteration = f->view.iteration;
    culm_have_encode(&have, &f->buf);
    culm_have_release(&have);
    deliver(f, from, CULM_MSG_HAVE);
}

static void have(struct fixture *f, uint64_t number) { have_from(f, 1, number); }

static void test_a_load_of_an_older_view_is_not_one_of_the_newer(void **state) {
    (void)state;
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
    struct fixture f;
    begin(&f);
    load(&f);
    finish(&f, CULM_TASK_FORWARD);
    for (uint64_t ahead = 1; ahead <= 3; ahead++) { /* three views, of which it has heard of none */
        for (int32_t from = 1; from <= 130; from++) {
            have_from(&f, from, f.view.number + ahead);
        }
    }
    assert_int_equal(fake_world_sent(&f.fake, CULM_LEADER, CULM_MSG_FAILED), 0);
    assert_int_equal(culm_node_queues(f.node).early_have, 130);
    view(&f, CULM_VIEW_RUN, "");
    view(&f, CULM_VIEW_RUN, "");
    assert_int_equal(fake_world_sent(&f.fake, 1, CULM_MSG_ACTIVATION), 0);
    have(&f, f.view.number); /* of a view that its sender has left: the newer one counts on */
    view(&f, CULM_VIEW_RUN, "");
    assert_true(fake_world_sent(&f.fake, 1, CULM_MSG_ACTIVATION) > 0);
    assert_int_equal(culm_node_queues(f.node).early_have, 0);
    end(&f);
}

static void commit(struct fixture *f, uint64_t number, int64_t iteration) {
    const struct culm_commit what = {number, iteration, 1.0, 1.0};
    culm_commit_encode(&what, &f->buf);
    deliver(f, CULM_LEADER, CULM_MSG_COMMIT);
}

static bool stepping(struct fixture *f) {
    struct culm_task *task = fake_world_run(&f->fake);
    assert_non_null(task);
    culm_node_actor.job_done(f->node, &task->job); /* the forward that was running */
    return f->fake.run_count && ((struct culm_task *)f->fake.run[0])->kind == CULM_TASK_STEP;
}

static void test_a_commit_counts_in_its_view_and_step(void **state) {
    (void)state;
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

static void save(struct fixture *f, int32_t attempt, int64_t version) {
    const struct culm_save what = {.version = version, .attempt = attempt, .stage = 0};
    culm_save_encode(&what, &f->buf);
    deliver(f, CULM_LEADER, CULM_MSG_SAVE);
}

/* The last message of that name that was sent; `field` is -2 if there is none. */
#define LAST(TYPE, name, field)                                                                    \
    static struct culm_##name last_##name(const struct fixture *f) {                               \
        struct culm_##name last = {.field = -2};                                                   \
        for (int32_t i = 0; i < f->fake.sent_count; i++) {                                         \
            const struct fake_sent *sent = &f->fake.sent[i];                                       \
            if (sent->type == CULM_MSG_##TYPE) {                                                   \
                assert_int_equal(culm_##name##_decode(sent->meta, sent->meta_bytes, &last),        \
                                 CULM_OK);                                                         \
            }                                                                                      \
        }                                                                                          \
        return last;                                                                               \
    }
LAST(SAVED, saved, attempt)
LAST(HEARTBEAT, heartbeat, kind)
LAST(TOOK, took, kind)

static void test_a_second_save_waits_for_the_first(void **state) {
    (void)state;
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

/* The meta bytes are in f->buf. */
static void data(struct fixture *f, int32_t from, uint16_t type, size_t bytes) {
    struct culm_blob *payload = NULL;
    assert_int_equal(culm_blob_pool_get(f->pool, bytes, &payload), CULM_OK);
    const struct culm_message message = {.type = type,
                                         .meta = f->buf.data,
                                         .meta_bytes = (uint32_t)f->buf.len,
                                         .payload = payload,
                                         .payload_bytes = bytes};
    culm_node_actor.message(f->node, from, &message);
    culm_buf_clear(&f->buf);
    culm_blob_unref(payload);
}

/* From node 1: what enters stage 1 in micro-batch 0 of iteration 4. */
static void activation(struct fixture *f) {
    const struct culm_boundary boundary = {.at = {4, 0}, .stage = 1, .micro = 0};
    culm_boundary_encode(&boundary, &f->buf);
    data(f, 1, CULM_MSG_ACTIVATION, 4);
}

/* Node 0 sits in the second slot, holds both stages and owns the second. */
static void own_second(struct fixture *f, bool frc) {
    f->view.node[0] = (struct culm_view_node){0, 0, 1, 3};
    f->view.node[1] = (struct culm_view_node){1, 0, 0, 1};
    f->view.role[0][0] = (struct culm_role){1, 0};
    f->view.role[0][1] = (struct culm_role){0, -1};
    f->view.frc = frc;
    load(f);
}

/* The first stage comes to node 0, and the second goes to a newcomer, who has nothing yet. */
static void stages_move(struct fixture *f) {
    f->view.node[1] = (struct culm_view_node){2, 0, 0, 2};
    f->view.role[0][0] = (struct culm_role){0, -1};
    f->view.role[0][1] = (struct culm_role){2, 0};
    view(f, CULM_VIEW_RUN, "");
    struct culm_have have;
    assert_int_equal(culm_have_init(&have, STAGES, 2, 3), CULM_OK);
    have.view = f->view.number;
    have.iteration = f->view.iteration;
    culm_have_encode(&have, &f->buf);
    culm_have_release(&have);
    deliver(f, 2, CULM_MSG_HAVE);
}

static void test_a_forward_done_again_feeds_who_has_the_stage_now(void **state) {
    (void)state;
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
    f.view.node[0].holds = 0;
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
    deliver(&f, 1, CULM_MSG_ASK); /* not for another node to ask */
    assert_int_equal(fake_world_sent(&f.fake, CULM_LEADER, CULM_MSG_WAITS), 0);
    culm_ask_encode(&question, &f.buf);
    deliver(&f, CULM_LEADER, CULM_MSG_ASK);
    struct culm_waits *waits = culm_waits_new(STAGES, 2, 3);
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
        cmocka_unit_test(test_a_process_that_slept_is_not_stuck),
        cmocka_unit_test(test_a_second_save_waits_for_the_first),
        cmocka_unit_test(test_a_save_that_waited_past_its_version_is_refused),
    };
    return cmocka_run_group_tests_name("pipeline/node", tests, NULL, NULL);
}
