/*
 * A worker alone, whose leader, holder and servers the test plays: orders that are over, servers that are lost, and a
 * worker that leaves.
 */
#include "interval/worker.h"
#include "expect_mark.h"

#include "../fake_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define INPUT_BYTES 16

enum { SERVER, HOLDER, SELF, OTHER };
enum { INTERVALS = 2 };
enum { FORWARD, LOSS }; /* steps of a network of two stages */

struct fixture {
    struct fake_world fake;
    struct culm_gnn_layout layout;
    struct culm_blob_pool *pool;
    struct culm_gnn_worker *worker;
    struct culm_buf buf;
    struct culm_gnn_view view;
    int32_t owner[INTERVALS];
};

static void deliver(struct fixture *f, int32_t from, uint16_t type, size_t payload_bytes) {
    struct culm_blob *payload = NULL;
    if (payload_bytes) {
        assert_int_equal(culm_blob_pool_get(f->pool, payload_bytes, &payload), CULM_OK);
        memset(payload->data, 1, payload_bytes);
    }
    const struct culm_message message = {.type = type,
                                         .meta = f->buf.data,
                                         .meta_bytes = (uint32_t)f->buf.len,
                                         .payload = payload,
                                         .payload_bytes = payload_bytes};
    culm_gnn_worker_actor.message(f->worker, from, &message);
    culm_blob_unref(payload);
    culm_buf_clear(&f->buf);
}

static void view(struct fixture *f) {
    f->view.number++;
    culm_gnn_view_encode(&f->view, f->layout.intervals, &f->buf);
    deliver(f, CULM_LEADER, CULM_GNN_MSG_VIEW, 0);
}

/* Two servers, with an interval each. */
static void begin_with(struct fixture *f, size_t keep_bytes) {
    static const size_t row_bytes[] = {8, 8}, gradient_bytes[] = {64, 64};
    *f = (struct fixture){0};
    fake_world_init(&f->fake);
    culm_buf_init(&f->buf, CULM_GNN_META_MAX);
    f->pool = culm_blob_pool_new(0);
    assert_int_equal(culm_gnn_layout_init(&f->layout, INTERVALS, NULL), CULM_OK);
    for (int32_t i = 0; i < INTERVALS; i++) {
        f->layout.first[i + 1] = f->layout.first[i] + 2;
    }
    culm_gnn_layout_steps(&f->layout, 2, row_bytes, row_bytes, gradient_bytes);
    const struct culm_gnn_worker_options options = {.node = {.world = &f->fake.world,
                                                             .layout = &f->layout,
                                                             .pool = f->pool,
                                                             .id = SELF,
                                                             .beat_ms = 100,
                                                             .pace = {.epochs = 9}},
                                                    .keep_bytes = keep_bytes,
                                                    .stay_ms = 1000};
    f->worker = culm_gnn_worker_new(&options);
    assert_non_null(f->worker);
    culm_gnn_worker_actor.start(f->worker);
    f->owner[0] = SERVER;
    f->owner[1] = OTHER;
    f->view = (struct culm_gnn_view){.course = {.epoch = 1, .train = true},
                                     .holder_count = 1,
                                     .holder = {{HOLDER, -1, 1}},
                                     .owner = f->owner};
    view(f);
    const struct culm_gnn_version weights = {0, 0, 0};
    culm_gnn_version_encode(&weights, &f->buf);
    deliver(f, HOLDER, CULM_GNN_MSG_WEIGHTS, 8);
}

static void begin(struct fixture *f) { begin_with(f, 0); }

static void end(struct fixture *f) {
    culm_gnn_worker_free(f->worker);
    fake_world_release(&f->fake);
    struct culm_blob_pool_stats stats;
    culm_blob_pool_stats_of(f->pool, &stats);
    assert_int_equal(stats.used_bytes, 0);
    culm_blob_pool_free(f->pool);
    culm_gnn_layout_release(&f->layout);
    culm_buf_release(&f->buf);
}

static int32_t count(const struct fixture *f, int32_t to, uint16_t type) {
    return fake_world_sent(&f->fake, to, (uint16_t)type);
}

static void input(struct fixture *f, int32_t server, int32_t interval) {
    const struct culm_gnn_task_key key = {0, 1, 0, interval, FORWARD};
    culm_gnn_task_key_encode(&key, &f->buf);
    deliver(f, server, CULM_GNN_MSG_PART_CONSTANT, INPUT_BYTES);
}

static void order(struct fixture *f, int32_t server, int32_t interval, int32_t step) {
    const struct culm_gnn_task_key key = {0, 1, 0, interval, step};
    culm_gnn_task_key_encode(&key, &f->buf);
    deliver(f, server, CULM_GNN_MSG_TASK, 0);
}

static void rows(struct fixture *f, int32_t server, int32_t interval, int32_t step, int32_t block,
                 int32_t blocks) {
    const struct culm_gnn_part part = {{0, 1, 0, interval, step}, block, blocks};
    culm_gnn_part_encode(&part, &f->buf);
    deliver(f, server, CULM_GNN_MSG_PART_ROWS, 8);
}

static void finish(struct fixture *f, enum culm_gnn_task_kind kind) {
    struct culm_gnn_task *task = fake_world_run(&f->fake);
    assert_non_null(task);
    assert_int_equal(task->kind, kind);
    culm_gnn_worker_actor.job_done(f->worker, &task->job);
}

/* It has the input of both intervals. */
static void begin_warm(struct fixture *f) {
    begin(f);
    input(f, SERVER, 0);
    order(f, SERVER, 0, FORWARD);
    finish(f, CULM_GNN_TASK_TAKE);
    finish(f, CULM_GNN_TASK_APPLY);
    assert_int_equal(count(f, SERVER, CULM_GNN_MSG_ROWS), 1);
}

/* --- orders --- */

static void test_an_order_without_its_input_is_given_back(void **state) {
    (void)state;
    EXPECT_MARK(interval_order_lacks_its_input);
    struct fixture f;
    begin(&f);
    order(&f, SERVER, 0, FORWARD);
    assert_int_equal(count(&f, SERVER, CULM_GNN_MSG_LACKS), 1);
    assert_int_equal(f.fake.run_count, 0);
    end(&f);
}

static void test_an_order_that_is_over_is_given_back(void **state) {
    (void)state;
    EXPECT_MARK(interval_order_is_over);
    struct fixture f;
    begin_warm(&f);
    order(&f, SERVER, 0, LOSS); /* its rows do not come */
    const struct culm_gnn_commit commit = {.epoch = 1, .next = {.epoch = 2, .train = true}};
    culm_gnn_commit_encode(&commit, &f.buf);
    deliver(&f, CULM_LEADER, CULM_GNN_MSG_COMMIT, 0);
    assert_int_equal(count(&f, SERVER, CULM_GNN_MSG_DROPPED), 1);
    end(&f);
}

static void test_inputs_give_way_to_others(void **state) {
    (void)state;
    EXPECT_MARK(interval_input_is_dropped_for_room);
    struct fixture f;
    begin_with(&f, INPUT_BYTES);
    input(&f, SERVER, 0);
    order(&f, SERVER, 0, FORWARD);
    finish(&f, CULM_GNN_TASK_TAKE);
    finish(&f, CULM_GNN_TASK_APPLY);
    input(&f, OTHER, 1);
    order(&f, OTHER, 1, FORWARD);
    finish(&f, CULM_GNN_TASK_TAKE);
    finish(&f, CULM_GNN_TASK_DROP);
    finish(&f, CULM_GNN_TASK_APPLY);
    order(&f, SERVER, 0, FORWARD);
    assert_int_equal(count(&f, SERVER, CULM_GNN_MSG_LACKS), 1);
    end(&f);
}

/* --- servers that are lost --- */

static void test_orders_of_a_lost_server_are_dropped(void **state) {
    (void)state;
    EXPECT_MARK(interval_order_of_a_lost_server);
    struct fixture f;
    begin_warm(&f);
    order(&f, SERVER, 0, LOSS);
    culm_gnn_worker_actor.lost(f.worker, SERVER);
    rows(&f, SERVER, 0, LOSS, 0, 1);
    assert_int_equal(f.fake.run_count, 0);
    end(&f);
}

/* While it does something for it: an input stays of use, a block of rows does not. */
static void test_a_server_is_lost_while_its_input_is_unpacked(void **state) {
    (void)state;
    EXPECT_MARK(interval_task_of_a_lost_server);
    EXPECT_MARK(interval_input_of_a_lost_server);
    struct fixture f;
    begin(&f);
    input(&f, SERVER, 0);
    order(&f, SERVER, 0, FORWARD);
    culm_gnn_worker_actor.lost(f.worker, SERVER);
    finish(&f, CULM_GNN_TASK_TAKE);
    assert_int_equal(f.fake.run_count, 0);
    order(&f, OTHER, 0, FORWARD);
    finish(&f, CULM_GNN_TASK_APPLY);
    assert_int_equal(count(&f, OTHER, CULM_GNN_MSG_ROWS), 1);
    end(&f);
}

/* An order of another server counts on an input that is not unpacked yet. */
static void test_a_server_is_lost_before_its_input_is_unpacked(void **state) {
    (void)state;
    EXPECT_MARK(interval_input_of_a_lost_server_is_taken);
    struct fixture f;
    begin(&f);
    input(&f, OTHER, 1);
    order(&f, OTHER, 1, FORWARD);
    input(&f, SERVER, 0);
    order(&f, SERVER, 0, FORWARD);
    order(&f, OTHER, 0, FORWARD);
    assert_int_equal(count(&f, OTHER, CULM_GNN_MSG_LACKS), 0);
    culm_gnn_worker_actor.lost(f.worker, SERVER);
    finish(&f, CULM_GNN_TASK_TAKE);
    finish(&f, CULM_GNN_TASK_APPLY);
    assert_int_equal(count(&f, OTHER, CULM_GNN_MSG_ROWS), 1);
    finish(&f, CULM_GNN_TASK_TAKE);
    finish(&f, CULM_GNN_TASK_APPLY);
    assert_int_equal(count(&f, OTHER, CULM_GNN_MSG_ROWS), 2);
    assert_int_equal(count(&f, SERVER, CULM_GNN_MSG_ROWS), 0);
    assert_int_equal(f.fake.run_count, 0);
    end(&f);
}

static void test_a_server_is_lost_between_two_blocks(void **state) {
    (void)state;
    EXPECT_MARK(interval_block_for_a_lost_server);
    struct fixture f;
    begin_warm(&f);
    order(&f, SERVER, 0, LOSS);
    rows(&f, SERVER, 0, LOSS, 0, 2);
    rows(&f, SERVER, 0, LOSS, 1, 2);
    culm_gnn_worker_actor.lost(f.worker, SERVER);
    finish(&f, CULM_GNN_TASK_APPLY);
    assert_int_equal(f.fake.run_count, 0);
    assert_int_equal(count(&f, SERVER, CULM_GNN_MSG_ROWS), 1);
    end(&f);
}

/* The leader counts on it still after a while: so others reach it, and this worker does not. */
static void test_one_that_cannot_reach_a_node_fails(void **state) {
    (void)state;
    EXPECT_MARK(interval_worker_cannot_reach_a_node);
    struct fixture f;
    begin(&f);
    culm_gnn_worker_actor.lost(f.worker, SERVER);
    assert_int_equal(f.fake.exit_code, -1);
    f.view.owner[0] = OTHER;
    view(&f);
    culm_gnn_worker_actor.timer(f.worker, CULM_GNN_TIMER_WATCH);
    assert_int_equal(f.fake.exit_code, -1); /* the view is without it */
    culm_gnn_worker_actor.lost(f.worker, OTHER);
    culm_gnn_worker_actor.timer(f.worker, CULM_GNN_TIMER_WATCH);
    assert_int_equal(count(&f, CULM_LEADER, CULM_WORD_FAILED), 1);
    assert_int_equal(f.fake.exit_code, culm_status_exit_code(CULM_ERR_CLOSED));
    end(&f);
}

/* --- holders that say nothing --- */

static void commit(struct fixture *f) {
    const struct culm_gnn_commit commit = {
        .epoch = f->view.course.epoch, .next = {.epoch = ++f->view.course.epoch, .train = true}};
    culm_gnn_commit_encode(&commit, &f->buf);
    deliver(f, CULM_LEADER, CULM_GNN_MSG_COMMIT, 0);
}

/* It is given a step of the epoch in progress, and lacks its weights. */
static void order_later(struct fixture *f) {
    const struct culm_gnn_task_key key = {0, f->view.course.epoch, f->view.course.epoch - 1, 0,
                                          LOSS};
    culm_gnn_task_key_encode(&key, &f->buf);
    deliver(f, SERVER, CULM_GNN_MSG_TASK, 0);
    const struct culm_gnn_part part = {key, 0, 1};
    culm_gnn_part_encode(&part, &f->buf);
    deliver(f, SERVER, CULM_GNN_MSG_PART_ROWS, 8);
}

static void beats(struct fixture *f, int32_t number) {
    while (number-- > 0 && f->fake.exit_code < 0) {
        culm_gnn_worker_actor.timer(f->worker, CULM_GNN_TIMER_BEAT);
    }
}

/* Epochs are committed that it has asked for the weights of: the holder has them, and the link swallows. */
static void test_one_that_is_not_answered_fails(void **state) {
    (void)state;
    EXPECT_MARK(interval_worker_hears_nothing_of_a_holder);
    struct fixture f;
    begin_warm(&f);
    for (int32_t epoch = 0; epoch < 3; epoch++) {
        commit(&f);
        order_later(&f);
    }
    assert_int_equal(count(&f, HOLDER, CULM_GNN_MSG_GET), 3);
    beats(&f, 60); /* two epochs, however long */
    assert_int_equal(f.fake.exit_code, -1);
    commit(&f);
    beats(&f, 1);
    assert_int_equal(count(&f, CULM_LEADER, CULM_WORD_FAILED), 1);
    assert_int_equal(f.fake.exit_code, culm_status_exit_code(CULM_ERR_CLOSED));
    end(&f);
}

/* Short epochs say little; and a holder that speaks, or is one no longer, is not waited for. */
static void test_one_that_is_answered_late_does_not_fail(void **state) {
    (void)state;
    struct fixture f;
    begin_warm(&f);
    for (int32_t epoch = 0; epoch < 9; epoch++) {
        commit(&f);
        order_later(&f);
    }
    beats(&f, 49); /* of 100 ms each */
    const struct culm_gnn_version late = {0, 1, 1};
    culm_gnn_version_encode(&late, &f.buf);
    deliver(&f, HOLDER, CULM_GNN_MSG_WEIGHTS, 0); /* there are only later ones */
    beats(&f, 60);
    assert_int_equal(f.fake.exit_code, -1);
    for (int32_t epoch = 0; epoch < 9; epoch++) {
        commit(&f);
        order_later(&f);
    }
    f.view.holder[0].node = OTHER;
    view(&f);
    beats(&f, 60);
    assert_int_equal(f.fake.exit_code, -1);
    assert_int_equal(count(&f, OTHER, CULM_GNN_MSG_GET), 1);
    end(&f);
}

/* --- leaving --- */

static void test_leaving_takes_no_longer_than_it_may(void **state) {
    (void)state;
    EXPECT_MARK(interval_leaving_takes_too_long);
    struct fixture f;
    begin(&f);
    culm_gnn_worker_actor.timer(f.worker, CULM_GNN_TIMER_LEAVE);
    assert_int_equal(count(&f, SERVER, CULM_GNN_MSG_LEAVING), 1);
    assert_int_equal(count(&f, OTHER, CULM_GNN_MSG_LEAVING), 1);
    deliver(&f, OTHER, CULM_GNN_MSG_LEAVING, 0);
    assert_int_equal(f.fake.exit_code, -1); /* the other has not answered */
    culm_gnn_worker_actor.timer(f.worker, CULM_GNN_TIMER_LEAVE);
    assert_int_equal(f.fake.exit_code, 0);
    end(&f);
}

/* It says so to all that count on it, and leaves when they have let it go. */
static void test_one_that_is_to_end_leaves_nothing_undone(void **state) {
    (void)state;
    EXPECT_MARK(interval_worker_is_to_end);
    struct fixture f;
    begin(&f);
    for (int32_t twice = 0; twice < 2; twice++) {
        culm_gnn_worker_actor.leave(f.worker, 25000);
        assert_int_equal(count(&f, CULM_LEADER, CULM_GNN_MSG_LEAVING), 1);
        assert_int_equal(count(&f, SERVER, CULM_GNN_MSG_LEAVING), 1);
        assert_int_equal(f.fake.exit_code, -1);
    }
    for (int32_t twice = 0; twice < 2;
         twice++) { /* it has no tasks any more; its results have come */
        deliver(&f, SERVER, CULM_GNN_MSG_LEAVING, 0);
        deliver(&f, OTHER, CULM_GNN_MSG_LEAVING, 0);
    }
    assert_int_equal(f.fake.exit_code, CULM_SELF_RELEASED);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_order_without_its_input_is_given_back),
        cmocka_unit_test(test_an_order_that_is_over_is_given_back),
        cmocka_unit_test(test_inputs_give_way_to_others),
        cmocka_unit_test(test_orders_of_a_lost_server_are_dropped),
        cmocka_unit_test(test_a_server_is_lost_while_its_input_is_unpacked),
        cmocka_unit_test(test_a_server_is_lost_before_its_input_is_unpacked),
        cmocka_unit_test(test_a_server_is_lost_between_two_blocks),
        cmocka_unit_test(test_one_that_cannot_reach_a_node_fails),
        cmocka_unit_test(test_one_that_is_not_answered_fails),
        cmocka_unit_test(test_one_that_is_answered_late_does_not_fail),
        cmocka_unit_test(test_leaving_takes_no_longer_than_it_may),
        cmocka_unit_test(test_one_that_is_to_end_leaves_nothing_undone),
    };
    return cmocka_run_group_tests_name("interval/worker", tests, NULL, NULL);
}
