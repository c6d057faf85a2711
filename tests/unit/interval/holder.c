/*
 * A parameter server alone, whose leader, servers and fellow holders the test plays: copies that come and go, gradients
 * that come early or twice, and checkpoints that cannot be written.
 */
#include "crew/term.h"
#include "expect_mark.h"
#include "interval/parameter.h"

#include "../fake_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GRADIENT_BYTES 64
#define STATE_BYTES 32

enum { SERVER, SELF, FELLOW };
enum { STAGES = 2 };

struct fixture {
    struct fake_world fake;
    struct culm_gnn_layout layout;
    struct culm_blob_pool *pool;
    struct culm_gnn_parameter *parameter;
    struct culm_buf buf;
    struct culm_gnn_view view; /* as it was told last */
    bool goes_on;              /* in a new attempt, with the state of the one before */
    int32_t owner[1];
};

static struct culm_blob *blob(struct fixture *f, size_t bytes) {
    struct culm_blob *blob;
    assert_int_equal(culm_blob_pool_get(f->pool, bytes, &blob), CULM_OK);
    memset(blob->data, 1, bytes);
    return blob;
}

/* What lies in the buffer, as a message of `from`. */
static void deliver(struct fixture *f, int32_t from, uint16_t type, size_t payload_bytes) {
    struct culm_blob *payload = payload_bytes ? blob(f, payload_bytes) : NULL;
    const struct culm_message message = {.type = type,
                                         .meta = f->buf.data,
                                         .meta_bytes = (uint32_t)f->buf.len,
                                         .payload = payload,
                                         .payload_bytes = payload_bytes};
    culm_gnn_parameter_actor.message(f->parameter, from, &message);
    culm_blob_unref(payload);
    culm_buf_clear(&f->buf);
}

static void view(struct fixture *f) {
    f->view.number++;
    f->view.load_attempt = f->goes_on ? f->view.load_attempt : f->view.attempt;
    culm_gnn_view_encode(&f->view, f->layout.intervals, &f->buf);
    deliver(f, CULM_LEADER, CULM_GNN_MSG_VIEW, 0);
}

/* `staleness`: with more than 0 the first holder sums for all. */
static void begin(struct fixture *f, int32_t staleness) {
    static const size_t row_bytes[] = {8, 8}, gradient_bytes[] = {GRADIENT_BYTES, GRADIENT_BYTES};
    *f = (struct fixture){0};
    fake_world_init(&f->fake);
    culm_buf_init(&f->buf, CULM_GNN_META_MAX);
    f->pool = culm_blob_pool_new(0);
    assert_int_equal(culm_gnn_layout_init(&f->layout, 1, NULL), CULM_OK);
    f->layout.first[1] = 2;
    culm_gnn_layout_steps(&f->layout, STAGES, row_bytes, row_bytes, gradient_bytes);
    const struct culm_gnn_node_options options = {.world = &f->fake.world,
                                                  .layout = &f->layout,
                                                  .pool = f->pool,
                                                  .id = SELF,
                                                  .beat_ms = 100,
                                                  .pace = {.epochs = 9, .staleness = staleness}};
    f->parameter = culm_gnn_parameter_new(&options);
    assert_non_null(f->parameter);
    culm_gnn_parameter_actor.start(f->parameter);
    f->view = (struct culm_gnn_view){.course = {.epoch = 1, .train = true},
                                     .holder_count = 1,
                                     .holder = {{SELF, -1, 1}},
                                     .owner = f->owner};
}

static void end(struct fixture *f) {
    culm_gnn_parameter_free(f->parameter);
    fake_world_release(&f->fake);
    struct culm_blob_pool_stats stats;
    culm_blob_pool_stats_of(f->pool, &stats);
    assert_int_equal(stats.used_bytes, 0);
    culm_blob_pool_free(f->pool);
    culm_gnn_layout_release(&f->layout);
    culm_buf_release(&f->buf);
}

/* The task that runs, which must be of that kind, ends. */
static void finish(struct fixture *f, enum culm_gnn_task_kind kind) {
    struct culm_gnn_task *task = fake_world_run(&f->fake);
    assert_non_null(task);
    assert_int_equal(task->kind, kind);
    if (kind == CULM_GNN_TASK_WEIGHTS || kind == CULM_GNN_TASK_EXPORT) {
        task->output = blob(f, STATE_BYTES);
    } else if (kind == CULM_GNN_TASK_FOLD) {
        task->output = blob(f, GRADIENT_BYTES);
    }
    culm_gnn_parameter_actor.job_done(f->parameter, &task->job);
}

static void load(struct fixture *f) {
    view(f);
    finish(f, CULM_GNN_TASK_LOAD);
    finish(f, CULM_GNN_TASK_WEIGHTS);
    assert_int_equal(fake_world_sent(&f->fake, CULM_LEADER, CULM_GNN_MSG_HOLDS), 1);
}

static void gradient(struct fixture *f, uint32_t attempt, int64_t epoch, int32_t stage) {
    const struct culm_gnn_gradient_key key = {attempt, epoch, stage, 0};
    culm_gnn_gradient_encode(&key, &f->buf);
    deliver(f, SERVER, CULM_GNN_MSG_GRADIENT, GRADIENT_BYTES);
}

/* Both gradients of an epoch come, and the state takes the step. */
static void step(struct fixture *f, int64_t epoch) {
    for (int32_t stage = 0; stage < STAGES; stage++) {
        gradient(f, 0, epoch, stage);
        finish(f, CULM_GNN_TASK_FOLD);
    }
    finish(f, CULM_GNN_TASK_STEP);
    finish(f, CULM_GNN_TASK_WEIGHTS);
}

static int32_t count(const struct fixture *f, int32_t to, uint16_t type) {
    return fake_world_sent(&f->fake, to, (uint16_t)type);
}

/* --- gradients --- */

static void test_gradients_that_come_twice_or_early(void **state) {
    (void)state;
    EXPECT_MARK(interval_gradient_is_part_of_the_state);
    EXPECT_MARK(interval_gradient_is_early);
    struct fixture f;
    begin(&f, 0);
    load(&f);
    step(&f, 1);
    gradient(&f, 0, 1, 0); /* again, of a server in a view of which this node has not heard */
    gradient(&f, 0, 2, 0);
    gradient(&f, 0, 3, 0);
    assert_int_equal(f.fake.run_count, 0); /* nothing is summed before the commit */
    end(&f);
}

static void test_gradients_of_an_attempt_that_is_over(void **state) {
    (void)state;
    EXPECT_MARK(interval_early_gradient_is_of_the_past);
    struct fixture f;
    begin(&f, 0);
    load(&f);
    gradient(&f, 1, 1, 0); /* of an attempt to come, of which there will be two */
    f.view.attempt = 2;
    view(&f);
    finish(&f, CULM_GNN_TASK_LOAD);
    finish(&f, CULM_GNN_TASK_WEIGHTS);
    assert_int_equal(f.fake.run_count, 0);
    end(&f); /* and nothing of it is kept */
}

static size_t held_bytes(const struct fixture *f) {
    struct culm_blob_pool_stats stats;
    culm_blob_pool_stats_of(f->pool, &stats);
    return stats.used_bytes;
}

/* However many come early, and however often, no more are kept than are sums in a window of epochs; and none is lost
 * that counts. */
static void test_gradients_that_come_early_again_and_again(void **state) {
    (void)state;
    EXPECT_MARK(interval_early_gradients_are_thinned);
    struct fixture f;
    begin(&f, 0);
    load(&f);
    step(&f, 1);
    const size_t before = held_bytes(&f);
    gradient(&f, 0, 2, 0);
    const size_t one = held_bytes(&f) - before;
    for (int32_t i = 0; i < 10000; i++) {
        gradient(&f, 0, 2, i % STAGES);
        gradient(&f, 0, 3, i % STAGES);
    }
    assert_true(held_bytes(&f) - before <= 64 * one);
    f.view.course.epoch = 2;
    view(&f); /* the first epoch is committed, and what has come of the second one counts */
    finish(&f, CULM_GNN_TASK_FOLD);
    finish(&f, CULM_GNN_TASK_FOLD);
    finish(&f, CULM_GNN_TASK_STEP);
    finish(&f, CULM_GNN_TASK_WEIGHTS);
    /* Others have been told of these, and this node has not. */
    for (int64_t epoch = 4; epoch < 10000; epoch++) {
        gradient(&f, 0, epoch, 0);
    }
    for (uint32_t attempt = 1; attempt < 10000; attempt++) {
        gradient(&f, attempt, 1, 0);
    }
    assert_true(held_bytes(&f) - before <= 64 * one);
    end(&f);
}

/* --- copies --- */

static void test_a_view_takes_the_state_while_it_loads(void **state) {
    (void)state;
    EXPECT_MARK(interval_holder_loads);
    EXPECT_MARK(interval_result_is_not_wanted_any_more);
    struct fixture f;
    begin(&f, 0);
    view(&f);
    f.view.attempt++;
    view(&f);
    finish(&f, CULM_GNN_TASK_LOAD);
    finish(&f, CULM_GNN_TASK_LOAD);
    finish(&f, CULM_GNN_TASK_WEIGHTS);
    assert_int_equal(count(&f, CULM_LEADER, CULM_GNN_MSG_HOLDS), 1);
    end(&f);
}

static void state_comes(struct fixture *f, int64_t version, uint64_t number) {
    const struct culm_gnn_held held = {.version = version, .digest = 7, .view = number};
    culm_gnn_held_encode(&held, &f->buf);
    deliver(f, FELLOW, CULM_GNN_MSG_STATE, STATE_BYTES);
}

/* The copy may come before the view that asks for it; weights that precede it are given out once it is here. */
static void test_a_copy_comes_before_its_view(void **state) {
    (void)state;
    EXPECT_MARK(interval_weights_precede_a_copy);
    EXPECT_MARK(interval_copy_is_taken);
    struct fixture f;
    begin(&f, 0);
    f.view.holder[0] = (struct culm_gnn_view_holder){FELLOW, -1, 1};
    view(&f);
    const struct culm_gnn_version weights = {0, 2, 2};
    culm_gnn_version_encode(&weights, &f.buf);
    deliver(&f, FELLOW, CULM_GNN_MSG_WEIGHTS, STATE_BYTES);
    state_comes(&f, 3, f.view.number + 1);
    assert_int_equal(f.fake.run_count, 0);
    f.view.course.epoch = 4;
    f.view.holder_count = 2;
    f.view.holder[1] = (struct culm_gnn_view_holder){SELF, FELLOW, f.view.number + 1};
    view(&f);
    finish(&f, CULM_GNN_TASK_IMPORT);
    finish(&f, CULM_GNN_TASK_WEIGHTS);
    assert_int_equal(count(&f, CULM_LEADER, CULM_GNN_MSG_HOLDS), 1);
    culm_gnn_version_encode(&weights, &f.buf);
    deliver(&f, SERVER, CULM_GNN_MSG_GET, 0);
    assert_int_equal(count(&f, SERVER, CULM_GNN_MSG_WEIGHTS), 1);
    end(&f);
}

/* FELLOW is to get a copy from here. */
static void copy(struct fixture *f) {
    f->view.holder_count = 2;
    f->view.holder[1] = (struct culm_gnn_view_holder){FELLOW, SELF, f->view.number + 1};
    view(f);
}

static void test_a_copy_of_an_attempt_that_is_over_is_not_sent(void **state) {
    (void)state;
    EXPECT_MARK(interval_export_of_an_attempt_before);
    struct fixture f;
    begin(&f, 0);
    load(&f);
    copy(&f);
    f.view.attempt++;
    f.view.holder_count = 1;
    view(&f);
    finish(&f, CULM_GNN_TASK_EXPORT);
    assert_int_equal(count(&f, FELLOW, CULM_GNN_MSG_STATE), 0);
    end(&f);
}

/* Where one holder sums for all, whoever gets a copy gets the sums that the others had before. */
static void test_a_copy_comes_with_the_sums_of_its_epoch(void **state) {
    (void)state;
    EXPECT_MARK(interval_copy_gets_whole_gradients);
    struct fixture f;
    begin(&f, 1);
    load(&f);
    gradient(&f, 0, 1, 0);
    finish(&f, CULM_GNN_TASK_FOLD);
    copy(&f);
    finish(&f, CULM_GNN_TASK_EXPORT);
    assert_int_equal(count(&f, FELLOW, CULM_GNN_MSG_STATE), 1);
    assert_int_equal(count(&f, FELLOW, CULM_GNN_MSG_GRADIENT), 1);
    end(&f);
}

/* A holder of which the first one hears only now, and which loads by itself, gets them too: those of the version that is
 * to be committed, and those of the next one as far as they are there. */
static void test_sums_for_a_holder_that_is_heard_of_later(void **state) {
    (void)state;
    EXPECT_MARK(interval_sums_are_handed_on_again);
    struct fixture f;
    begin(&f, 1);
    load(&f);
    gradient(&f, 0, 1, 0);
    finish(&f, CULM_GNN_TASK_FOLD);
    f.view.holder_count = 2;
    f.view.holder[1] = (struct culm_gnn_view_holder){FELLOW, -1, f.view.number + 1};
    view(&f);
    assert_int_equal(count(&f, FELLOW, CULM_GNN_MSG_GRADIENT), 1);
    gradient(&f, 0, 1, 1);
    finish(&f, CULM_GNN_TASK_FOLD);
    assert_int_equal(count(&f, FELLOW, CULM_GNN_MSG_GRADIENT), 2);
    finish(&f, CULM_GNN_TASK_STEP);
    view(&f);
    assert_int_equal(count(&f, FELLOW, CULM_GNN_MSG_GRADIENT), 2 + STAGES);
    finish(&f, CULM_GNN_TASK_WEIGHTS);
    const struct culm_gnn_commit commit = {.epoch = 1, .next = {.epoch = 2, .train = true}};
    culm_gnn_commit_encode(&commit, &f.buf);
    deliver(&f, CULM_LEADER, CULM_GNN_MSG_COMMIT, 0);
    f.view.course.epoch = 2;
    view(&f);
    assert_int_equal(count(&f, FELLOW, CULM_GNN_MSG_GRADIENT), 2 + STAGES);
    end(&f);
}

static void test_weights_are_asked_for_twice(void **state) {
    (void)state;
    EXPECT_MARK(interval_weights_are_asked_for_again);
    struct fixture f;
    begin(&f, 0);
    view(&f);
    for (int i = 0; i < 2; i++) {
        const struct culm_gnn_version weights = {0, 0, 0};
        culm_gnn_version_encode(&weights, &f.buf);
        deliver(&f, SERVER, CULM_GNN_MSG_GET, 0);
    }
    finish(&f, CULM_GNN_TASK_LOAD);
    finish(&f, CULM_GNN_TASK_WEIGHTS);
    assert_int_equal(count(&f, SERVER, CULM_GNN_MSG_WEIGHTS), 1);
    end(&f);
}

/* It is answered, so that who asks does not take the link for one that swallows. */
static void test_weights_are_asked_for_too_late(void **state) {
    (void)state;
    struct fixture f;
    begin(&f, 0);
    load(&f);
    for (int64_t epoch = 1; epoch <= 4; epoch++) {
        step(&f, epoch);
        const struct culm_gnn_commit commit = {.epoch = epoch,
                                               .next = {.epoch = epoch + 1, .train = true}};
        culm_gnn_commit_encode(&commit, &f.buf);
        deliver(&f, CULM_LEADER, CULM_GNN_MSG_COMMIT, 0);
    }
    EXPECT_MARK(interval_weights_are_asked_for_too_late);
    const struct culm_gnn_version weights = {0, 0, 0};
    culm_gnn_version_encode(&weights, &f.buf);
    deliver(&f, SERVER, CULM_GNN_MSG_GET, 0);
    const struct fake_sent *sent = fake_world_last(&f.fake, SERVER, CULM_GNN_MSG_WEIGHTS);
    assert_non_null(sent);
    assert_null(sent->payload);
    end(&f);
}

/* --- checkpoints --- */

static struct culm_gnn_saved last_saved(const struct fixture *f) {
    struct culm_gnn_saved saved = {.version = -1};
    const struct fake_sent *sent = fake_world_last(&f->fake, CULM_LEADER, CULM_GNN_MSG_SAVED);
    assert_non_null(sent);
    assert_int_equal(culm_gnn_saved_decode(sent->meta, sent->meta_bytes, &saved), CULM_OK);
    return saved;
}

static void order(struct fixture *f, int32_t from, const struct culm_gnn_save *save) {
    culm_gnn_save_encode(save, &f->buf);
    deliver(f, from, CULM_GNN_MSG_SAVE, 0);
}

/* The piece of version 0 is being written: the task, which runs. */
static struct culm_gnn_task *write_piece(struct fixture *f, int64_t number) {
    const struct culm_gnn_save save = {.order = number, .to = "/elsewhere"};
    order(f, CULM_LEADER, &save);
    finish(f, CULM_GNN_TASK_EXPORT);
    struct culm_gnn_task *file = fake_world_io(&f->fake);
    assert_non_null(file);
    assert_int_equal(file->kind, CULM_GNN_TASK_SAVE);
    assert_int_equal(file->node, SELF);
    assert_string_equal(file->text, "/elsewhere");
    return file;
}

/* A piece is written under the node's own id, to where the leader says, and told of with the number of the
 * order. */
static void test_a_piece_is_written_and_told_of(void **state) {
    (void)state;
    struct fixture f;
    begin(&f, 0);
    load(&f);
    struct culm_gnn_task *file = write_piece(&f, 7);
    snprintf(file->text, sizeof file->text, "piece");
    culm_gnn_parameter_actor.job_done(f.parameter, &file->job);
    assert_int_equal(last_saved(&f).version, 0);
    assert_int_equal(last_saved(&f).order, 7);
    assert_int_equal(last_saved(&f).status, CULM_OK);
    assert_string_equal(last_saved(&f).piece, "piece");
    end(&f);
}

static void test_a_save_fails(void **state) {
    (void)state;
    EXPECT_MARK(interval_holder_cannot_save);
    struct fixture f;
    begin(&f, 0);
    load(&f);
    struct culm_gnn_task *file = write_piece(&f, 1);
    file->job.status = CULM_ERR_IO;
    snprintf(file->job.error.text, sizeof file->job.error.text, "the disk is full");
    culm_gnn_parameter_actor.job_done(f.parameter, &file->job);
    assert_int_equal(last_saved(&f).order, 1);
    assert_int_equal(last_saved(&f).status, CULM_ERR_IO);
    assert_string_equal(last_saved(&f).why, "the disk is full");
    assert_null(fake_world_run(&f.fake));
    assert_int_equal(count(&f, CULM_LEADER, CULM_WORD_FAILED), 0);
    end(&f);
}

/* A version that is to be saved is not left before it is copied out, whatever has been committed. */
static void test_a_step_waits_for_the_copy_to_be_saved(void **state) {
    (void)state;
    struct fixture f;
    begin(&f, 0);
    load(&f);
    const struct culm_gnn_save save = {.order = 1};
    order(&f, CULM_LEADER, &save);
    gradient(&f, 0, 1, 0);
    gradient(&f, 0, 1, 1);
    assert_int_equal(f.fake.run_count, 1);
    finish(&f, CULM_GNN_TASK_EXPORT);
    finish(&f, CULM_GNN_TASK_FOLD);
    finish(&f, CULM_GNN_TASK_FOLD);
    finish(&f, CULM_GNN_TASK_STEP); /* while the piece is written */
    assert_int_equal(f.fake.io_count, 1);
    finish(&f, CULM_GNN_TASK_WEIGHTS);
    end(&f);
}

/* Of an attempt that is over, of a version that is not here, and of somebody who is not the leader. */
static void test_orders_that_do_not_count(void **state) {
    (void)state;
    EXPECT_MARK(interval_order_to_save_is_of_the_past);
    struct fixture f;
    begin(&f, 0);
    f.view.attempt = 1;
    load(&f);
    order(&f, CULM_LEADER, &(struct culm_gnn_save){.attempt = 0, .order = 1});
    order(&f, CULM_LEADER, &(struct culm_gnn_save){.attempt = 1, .version = 1, .order = 2});
    order(&f, FELLOW, &(struct culm_gnn_save){.attempt = 1, .order = 3});
    assert_int_equal(f.fake.run_count, 0);
    order(&f, CULM_LEADER, &(struct culm_gnn_save){.attempt = 1, .order = 4});
    assert_int_equal(f.fake.run_count, 1);
    f.view.holder[0].since = f.view.number + 1; /* it is given up while it is copied out */
    view(&f);
    finish(&f, CULM_GNN_TASK_EXPORT);
    assert_int_equal(f.fake.io_count, 0);
    end(&f);
}

/* What has become of the last order, as the leader is told; -1: nothing yet. */
static int32_t told_of_order(const struct fixture *f, int64_t order) {
    const struct fake_sent *sent = fake_world_last(&f->fake, CULM_LEADER, CULM_GNN_MSG_SAVED);
    struct culm_gnn_saved saved = {.order = -1};
    if (sent) {
        assert_int_equal(culm_gnn_saved_decode(sent->meta, sent->meta_bytes, &saved), CULM_OK);
    }
    return saved.order == order ? (int32_t)saved.status : -1;
}

/* A stop asks for the version that is committed, which this one may have left, or be about to leave. */
static void test_an_order_that_comes_too_late_is_answered(void **state) {
    (void)state;
    EXPECT_MARK(interval_order_to_save_what_is_left);
    struct fixture f;
    begin(&f, 0);
    load(&f);
    for (int32_t stage = 0; stage < STAGES; stage++) {
        gradient(&f, 0, 1, stage);
        finish(&f, CULM_GNN_TASK_FOLD);
    }
    order(&f, CULM_LEADER, &(struct culm_gnn_save){.order = 1}); /* it steps */
    assert_int_equal(told_of_order(&f, 1), CULM_ERR_AGAIN);
    finish(&f, CULM_GNN_TASK_STEP);
    finish(&f, CULM_GNN_TASK_WEIGHTS);
    order(&f, CULM_LEADER, &(struct culm_gnn_save){.order = 2}); /* it has */
    assert_int_equal(told_of_order(&f, 2), CULM_ERR_AGAIN);
    end(&f);
}

/* --- another leader, where rows may be stale --- */

/* It takes over, and this node reports. */
static struct culm_gnn_report report(struct fixture *f) {
    struct culm_gnn_report report;
    culm_gnn_parameter_actor.led(f->parameter, 2);
    const struct fake_sent *sent = fake_world_last(&f->fake, CULM_LEADER, CULM_GNN_MSG_REPORT);
    assert_int_equal(culm_gnn_report_decode(sent->meta, sent->meta_bytes, &report), CULM_OK);
    return report;
}

/* It goes on, in a new attempt, with what there is of the state. */
static void go_on(struct fixture *f) {
    f->goes_on = true;
    f->view.attempt++;
    f->view.number |= CULM_VIEW_OF_TERM(2);
    view(f);
}

/* What there is of the epoch in progress is dropped, and it does not step between its report and what follows. */
static void test_another_leader_goes_on_in_a_new_attempt(void **state) {
    (void)state;
    EXPECT_MARK(interval_goes_on_in_a_new_attempt);
    struct fixture f;
    begin(&f, 1);
    load(&f);
    gradient(&f, 0, 1, 0);
    finish(&f, CULM_GNN_TASK_FOLD);
    assert_int_equal(report(&f).version, 0);
    gradient(&f, 0, 1, 1);
    assert_int_equal(f.fake.run_count, 0);
    go_on(&f);
    assert_int_equal(count(&f, CULM_LEADER, CULM_GNN_MSG_HOLDS), 2);
    gradient(&f, 0, 1, 1);
    assert_int_equal(f.fake.run_count, 0);
    for (int32_t stage = 0; stage < STAGES; stage++) {
        gradient(&f, 1, 1, stage);
        finish(&f, CULM_GNN_TASK_FOLD);
    }
    finish(&f, CULM_GNN_TASK_STEP);
    finish(&f, CULM_GNN_TASK_WEIGHTS);
    assert_int_equal(count(&f, CULM_LEADER, CULM_GNN_MSG_HOLDS), 3);
    end(&f);
}

/* A sum that is being formed meanwhile is not of the new attempt, nor is one that another holder could be handed. */
static void test_a_sum_of_the_attempt_before(void **state) {
    (void)state;
    EXPECT_MARK(interval_sum_of_an_attempt_before);
    struct fixture f;
    begin(&f, 1);
    load(&f);
    gradient(&f, 0, 1, 0);
    finish(&f, CULM_GNN_TASK_FOLD);
    gradient(&f, 0, 1, 1);
    (void)report(&f);
    f.view.holder_count = 2;
    f.view.holder[1] = (struct culm_gnn_view_holder){FELLOW, -1, 1};
    go_on(&f);
    assert_int_equal(count(&f, FELLOW, CULM_GNN_MSG_GRADIENT), 0);
    gradient(&f, 1, 1, 1);
    gradient(&f, 1, 1, 0);
    finish(&f, CULM_GNN_TASK_FOLD); /* in vain */
    assert_int_equal(count(&f, FELLOW, CULM_GNN_MSG_GRADIENT), 0);
    finish(&f, CULM_GNN_TASK_FOLD);
    finish(&f, CULM_GNN_TASK_FOLD);
    assert_int_equal(count(&f, FELLOW, CULM_GNN_MSG_GRADIENT), STAGES);
    finish(&f, CULM_GNN_TASK_STEP);
    finish(&f, CULM_GNN_TASK_WEIGHTS);
    end(&f);
}

/* A step that is under way cannot be taken back: it is what the epoch comes to. */
static void test_it_reports_what_it_steps_to(void **state) {
    (void)state;
    EXPECT_MARK(interval_reports_what_it_steps_to);
    struct fixture f;
    begin(&f, 1);
    load(&f);
    for (int32_t stage = 0; stage < STAGES; stage++) {
        gradient(&f, 0, 1, stage);
        finish(&f, CULM_GNN_TASK_FOLD);
    }
    const struct culm_gnn_report told = report(&f); /* it steps */
    assert_true(told.holds);
    assert_int_equal(told.version, 1);
    go_on(&f);
    assert_int_equal(count(&f, CULM_LEADER, CULM_GNN_MSG_HOLDS),
                     1); /* of which the digest is not known */
    finish(&f, CULM_GNN_TASK_STEP);
    finish(&f, CULM_GNN_TASK_WEIGHTS);
    struct culm_gnn_held held;
    const struct fake_sent *sent = fake_world_last(&f.fake, CULM_LEADER, CULM_GNN_MSG_HOLDS);
    assert_int_equal(culm_gnn_held_decode(sent->meta, sent->meta_bytes, &held), CULM_OK);
    assert_int_equal(held.attempt, 1);
    assert_int_equal(held.version, 1);
    end(&f);
}

/* --- what is heard --- */

static void test_a_commit_counts_in_its_epoch(void **state) {
    (void)state;
    EXPECT_MARK(interval_commit_of_another_epoch);
    struct fixture f;
    begin(&f, 0);
    load(&f);
    step(&f, 1);
    gradient(&f, 0, 2, 0);
    gradient(&f, 0, 2, 1);
    struct culm_gnn_commit commit = {.attempt = 1, .epoch = 1, .next = {.epoch = 2, .train = true}};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(f.fake.run_count, 0); /* no step before the commit of the one before */
        culm_gnn_commit_encode(&commit, &f.buf);
        deliver(&f, CULM_LEADER, CULM_GNN_MSG_COMMIT, 0);
        commit.attempt = 0;
        commit.epoch = i ? 1 : 2;
    }
    finish(&f, CULM_GNN_TASK_FOLD);
    finish(&f, CULM_GNN_TASK_FOLD);
    finish(&f, CULM_GNN_TASK_STEP);
    end(&f);
}

/* --- another leader --- */

/* What it reports now. */
static struct culm_gnn_report reported(struct fixture *f) {
    struct culm_gnn_report report;
    fake_world_forget(&f->fake);
    culm_gnn_parameter_actor.led(f->parameter, 2);
    const struct fake_sent *sent = fake_world_last(&f->fake, CULM_LEADER, CULM_GNN_MSG_REPORT);
    assert_non_null(sent);
    assert_int_equal(culm_gnn_report_decode(sent->meta, sent->meta_bytes, &report), CULM_OK);
    return report;
}

static void commit(struct fixture *f, int64_t epoch) {
    const struct culm_gnn_commit commit = {
        .epoch = epoch,
        .next = {.epoch = epoch + 1, .train = true},
        .outcome = {.epoch = epoch, .loss = 2, .evaluated = true, .area = {-1, -1, 0.5}},
        .balance = {.losses = 4, .verdict = {.known = true, .best = 0.5}}};
    culm_gnn_commit_encode(&commit, &f->buf);
    deliver(f, CULM_LEADER, CULM_GNN_MSG_COMMIT, 0);
}

/* It tells what it has and has heard, shows that when it is asked, and says HOLDS again in the new leader's view. */
static void test_another_one_leads(void **state) {
    (void)state;
    EXPECT_MARK(interval_reports_to_another_leader);
    EXPECT_MARK(interval_holds_is_said_to_another_leader);
    EXPECT_MARK(interval_hears_of_epochs_before_it_came);
    struct fixture f;
    begin(&f, 0);
    assert_int_equal(reported(&f).view, 0);
    struct culm_gnn_curve *curve = calloc(1, sizeof *curve);
    assert_non_null(curve);
    culm_gnn_curve_add(curve, &(struct culm_gnn_outcome){.epoch = 7});
    culm_gnn_curve_encode(curve, &f.buf);
    deliver(&f, CULM_LEADER, CULM_GNN_MSG_CURVE, 0); /* of a run that was further, and went back */
    load(&f);
    step(&f, 1);
    commit(&f, 1);
    step(&f, 2);
    const struct culm_gnn_report report = reported(&f);
    assert_true(report.holds && report.view == 1 && report.since == 1);
    assert_int_equal(report.version, 2); /* one ahead */
    assert_int_equal(report.course.epoch, 2);
    assert_int_equal(report.curve_first, 1);
    assert_int_equal(report.balance.losses, 4);
    assert_true(report.balance.verdict.known && report.last.evaluated && report.last.area[2] > 0);
    deliver(&f, CULM_LEADER, CULM_GNN_MSG_SHOW, 0);
    const struct fake_sent *sent = fake_world_last(&f.fake, CULM_LEADER, CULM_GNN_MSG_CURVE);
    assert_non_null(sent);
    assert_int_equal(culm_gnn_curve_decode(sent->meta, sent->meta_bytes, curve), CULM_OK);
    assert_int_equal(curve->count, 1);
    assert_true(curve->outcome[0].loss > 1.5f && curve->outcome[0].area[0] < 0);
    free(curve);
    assert_int_equal(count(&f, CULM_LEADER, CULM_GNN_MSG_VIEW), 1);
    f.view.number = CULM_VIEW_OF_TERM(2) + 1;
    f.view.course.epoch = 2;
    view(&f);
    assert_int_equal(count(&f, CULM_LEADER, CULM_GNN_MSG_HOLDS), 1);
    view(&f); /* of the same leader */
    assert_int_equal(count(&f, CULM_LEADER, CULM_GNN_MSG_HOLDS), 1);
    end(&f);
}

/* A copy that is here is as good as the state, before it is taken and while it is. */
static void test_a_copy_is_reported_to_another_leader(void **state) {
    (void)state;
    EXPECT_MARK(interval_reports_a_copy_that_is_whole);
    struct fixture f;
    begin(&f, 0);
    f.view.holder[1] = (struct culm_gnn_view_holder){FELLOW, -1, 1};
    f.view.holder[0] = (struct culm_gnn_view_holder){SELF, FELLOW, 1};
    f.view.holder_count = 2;
    view(&f);
    assert_false(reported(&f).holds);
    state_comes(&f, 3, 1);
    assert_int_equal(reported(&f).version, 3);
    assert_true(reported(&f).holds);
    finish(&f, CULM_GNN_TASK_IMPORT);
    finish(&f, CULM_GNN_TASK_WEIGHTS);
    assert_int_equal(reported(&f).version, 3);
    end(&f);
}

static void test_a_lost_link_is_told_of(void **state) {
    (void)state;
    EXPECT_MARK(interval_complains_of_a_peer);
    struct fixture f;
    begin(&f, 0);
    load(&f);
    culm_gnn_parameter_actor.lost(f.parameter, FELLOW); /* of no use in this view */
    assert_int_equal(count(&f, CULM_LEADER, CULM_WORD_PEER_LOST), 0);
    culm_gnn_parameter_actor.lost(f.parameter, SERVER);
    assert_int_equal(count(&f, CULM_LEADER, CULM_WORD_PEER_LOST), 1);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_that_come_twice_or_early),
        cmocka_unit_test(test_gradients_that_come_early_again_and_again),
        cmocka_unit_test(test_gradients_of_an_attempt_that_is_over),
        cmocka_unit_test(test_a_view_takes_the_state_while_it_loads),
        cmocka_unit_test(test_a_copy_comes_before_its_view),
        cmocka_unit_test(test_a_copy_of_an_attempt_that_is_over_is_not_sent),
        cmocka_unit_test(test_a_copy_comes_with_the_sums_of_its_epoch),
        cmocka_unit_test(test_sums_for_a_holder_that_is_heard_of_later),
        cmocka_unit_test(test_weights_are_asked_for_twice),
        cmocka_unit_test(test_weights_are_asked_for_too_late),
        cmocka_unit_test(test_a_piece_is_written_and_told_of),
        cmocka_unit_test(test_a_save_fails),
        cmocka_unit_test(test_a_step_waits_for_the_copy_to_be_saved),
        cmocka_unit_test(test_orders_that_do_not_count),
        cmocka_unit_test(test_an_order_that_comes_too_late_is_answered),
        cmocka_unit_test(test_another_leader_goes_on_in_a_new_attempt),
        cmocka_unit_test(test_a_sum_of_the_attempt_before),
        cmocka_unit_test(test_it_reports_what_it_steps_to),
        cmocka_unit_test(test_a_commit_counts_in_its_epoch),
        cmocka_unit_test(test_another_one_leads),
        cmocka_unit_test(test_a_copy_is_reported_to_another_leader),
        cmocka_unit_test(test_a_lost_link_is_told_of),
    };
    return cmocka_run_group_tests_name("interval/holder", tests, NULL, NULL);
}
