/*
 * A server alone, whose leader, holder and workers the test plays: workers that are late, lost, busy or wrong. What they
 * leave has no effect on what comes next, and somebody does what they do not.
 */
#include "expect_mark.h"
#include "server_played.h"

/* A worker pushes its gradient, and holds its rows back for so long that the server does the task too
 * and is first. What is left of the worker's is not of the next step. */
static void test_late_gradient(void **state) {
    (void)state;
    struct fixture f;
    come_to_loss(&f);
    f.fake.now_ns += 6000 * MS;
    culm_gnn_server_actor.timer(f.server, CULM_GNN_TIMER_LATE);
    share(&f, WORKER, LOSS, 4);
    run(&f, CULM_GNN_TASK_APPLY, 5);
    assert_pushed(&f, 1, 5);
    run(&f, CULM_GNN_TASK_GATHER, 6);
    assert_int_equal(fake_world_sent(&f.fake, WORKER, CULM_GNN_MSG_TASK), 3);
    rows(&f, WORKER, LOSS, 4); /* nobody waits for them any more */
    share(&f, WORKER, BACKWARD, 7);
    rows(&f, WORKER, BACKWARD, 7);
    assert_pushed(&f, 0, 7);
    assert_int_equal(fake_world_sent(&f.fake, CULM_LEADER, CULM_GNN_MSG_DONE), 1);
    end(&f);
}

/* A worker dies between its two pushes: the gradient that came is let go of with it. */
static void test_lost_between_pushes(void **state) {
    (void)state;
    EXPECT_MARK(interval_done_again);
    struct fixture f;
    come_to_loss(&f);
    share(&f, WORKER, LOSS, 4);
    culm_gnn_server_actor.lost(f.server, WORKER);
    run(&f, CULM_GNN_TASK_APPLY, 5);
    assert_pushed(&f, 1, 5);
    ready(&f, OTHER);
    run(&f, CULM_GNN_TASK_GATHER, 6);
    share(&f, OTHER, BACKWARD, 7);
    share(&f, OTHER, BACKWARD, 8); /* twice: the first one counts */
    rows(&f, OTHER, BACKWARD, 7);
    assert_pushed(&f, 0, 7);
    end(&f);
}

/* --- whoever has done a stage forward --- */

/* OTHER, alone, has done so many intervals forward, and the server their losses. Another worker has
 * come, which is before OTHER in every list. What is next is to gather what goes back. */
static void come_to_backward(struct fixture *f, int32_t intervals) {
    static const int32_t owner[BUSY] = {SERVER, SERVER, SERVER, SERVER, SERVER};
    begin_with(f, owner, intervals, false);
    f->layout.step[LOSS].remote = false;
    for (int32_t i = 0; i < intervals; i++) {
        run(f, CULM_GNN_TASK_OWN, 0);
    }
    ready(f, OTHER);
    ready(f, OTHER);
    int32_t tasks = 2 * intervals; /* of the server: gathers and losses */
    for (int32_t i = 0; i < intervals; i++) {
        while (!told(f, OTHER, i, FORWARD) && tasks-- > 0) {
            run_next(f, 3);
        }
        rows_of(f, OTHER, i, FORWARD, 2);
    }
    while (tasks-- > 0) {
        run_next(f, 4);
    }
    ready(f, WORKER);
    ready(f, WORKER);
}

static void test_goes_back_to_the_same(void **state) {
    (void)state;
    struct fixture f;
    come_to_backward(&f, 1);
    run(&f, CULM_GNN_TASK_GATHER, 5);
    assert_int_equal(told(&f, OTHER, 0, BACKWARD), 1);
    assert_int_equal(told(&f, WORKER, 0, BACKWARD), 0);
    end(&f);
    /* Where nothing is kept, anybody does it. */
    come_to_backward(&f, 1);
    f.layout.step[BACKWARD].kept = false;
    run(&f, CULM_GNN_TASK_GATHER, 5);
    assert_int_equal(told(&f, OTHER, 0, BACKWARD), 0);
    assert_int_equal(told(&f, WORKER, 0, BACKWARD), 1);
    end(&f);
}

/* It is lost, before and after it was told; or it is on its way out. */
static void test_the_same_is_gone(void **state) {
    (void)state;
    struct fixture f;
    come_to_backward(&f, 1);
    culm_gnn_server_actor.lost(f.server, OTHER);
    run(&f, CULM_GNN_TASK_GATHER, 5);
    assert_int_equal(told(&f, WORKER, 0, BACKWARD), 1);
    end(&f);
    come_to_backward(&f, 1);
    run(&f, CULM_GNN_TASK_GATHER, 5);
    assert_int_equal(told(&f, OTHER, 0, BACKWARD), 1);
    culm_gnn_server_actor.lost(f.server, OTHER);
    assert_int_equal(told(&f, WORKER, 0, BACKWARD), 1);
    end(&f);
    come_to_backward(&f, 1);
    deliver(&f, OTHER, CULM_GNN_MSG_LEAVING, NULL);
    run(&f, CULM_GNN_TASK_GATHER, 5);
    assert_int_equal(told(&f, WORKER, 0, BACKWARD), 1);
    end(&f);
}

/* It has as many tasks as it takes. One that would be idle gets the next task; one that would not does not,
 * and the one behind waits until the former has done something. */
static void test_the_same_is_busy(void **state) {
    (void)state;
    struct fixture f;
    come_to_backward(&f, BUSY);
    for (int32_t i = 0; i < BUSY; i++) {
        while (run_next(&f, 5) != CULM_GNN_TASK_GATHER) { /* it adds up gradients in between */
        }
    }
    assert_int_equal(told(&f, OTHER, 0, BACKWARD), 1);
    assert_int_equal(told(&f, OTHER, 1, BACKWARD), 1);
    assert_int_equal(told(&f, WORKER, 2, BACKWARD), 1);
    for (int32_t i = 3; i < BUSY; i++) {
        assert_int_equal(told(&f, OTHER, i, BACKWARD) + told(&f, WORKER, i, BACKWARD), 0);
    }
    share_of(&f, OTHER, 0, BACKWARD, 7);
    rows_of(&f, OTHER, 0, BACKWARD, 7);
    assert_int_equal(told(&f, OTHER, 3, BACKWARD), 1);
    share_of(&f, WORKER, 2, BACKWARD, 7);
    rows_of(&f, WORKER, 2, BACKWARD, 7);
    assert_int_equal(told(&f, WORKER, 4, BACKWARD), 1);
    end(&f);
}

/* What is next of all intervals is to go back: whoever is told does so. How many steps waited for a worker. */
static int64_t waited(struct fixture *f) {
    static const int32_t workers[] = {WORKER, OTHER};
    bool back[BUSY] = {false};
    struct culm_gnn_task *task;
    int64_t waited = 0, done = 0;
    for (int32_t i = 0; i < BUSY; i++) {
        while (run_next(f, 5) != CULM_GNN_TASK_GATHER) {
        }
    }
    for (int32_t round = 0; round < BUSY; round++) { /* what waits is given out meanwhile */
        for (int32_t at = 0; at < 2 * BUSY; at++) {
            int32_t i = at / 2, worker = workers[at % 2];
            if (!back[i] && told(f, worker, i, BACKWARD)) {
                back[i] = true;
                share_of(f, worker, i, BACKWARD, 7);
                rows_of(f, worker, i, BACKWARD, 7);
            }
        }
        while ((task = fake_world_run(&f->fake))) {
            finish(f, task, 8);
        }
    }
    for (int32_t i = 0; i < f->fake.sent_count; i++) {
        const struct fake_sent *sent = &f->fake.sent[i];
        struct culm_gnn_done message;
        if (sent->to == CULM_LEADER && sent->type == CULM_GNN_MSG_DONE) {
            assert_int_equal(
                culm_gnn_done_decode(sent->meta, sent->meta_bytes, &f->layout, &message), CULM_OK);
            waited += message.work.applies_waiting;
            done++;
        }
    }
    assert_int_equal(done, BUSY);
    return waited;
}

/* Whoever says how many workers there should be is told what no worker has room for. A step that waits for
 * the one that went forward, though another has room, does not want for workers. */
static void test_waits(void **state) {
    (void)state;
    struct fixture f;
    come_to_backward(&f, BUSY); /* the fourth waits for OTHER when the last one is gathered */
    assert_int_equal(waited(&f), 0);
    end(&f);
    come_to_backward(&f, BUSY);
    deliver(&f, WORKER, CULM_GNN_MSG_LEAVING, NULL); /* the third waits, then the fourth too */
    assert_int_equal(waited(&f), 1 + 2);
    end(&f);
}

/* --- workers that are late, lost or wrong --- */

static void lacks(struct fixture *f, int32_t worker, int32_t step, uint16_t type) {
    const struct culm_gnn_task_key key = {0, 1, 0, 0, step};
    culm_gnn_task_key_encode(&key, &f->buf);
    deliver(f, worker, type, NULL);
}

static void test_one_that_lacks_the_input_is_sent_it(void **state) {
    (void)state;
    EXPECT_MARK(interval_worker_lacks_its_input);
    EXPECT_MARK(interval_only_worker_gives_up);
    struct fixture f;
    begin(&f);
    run(&f, CULM_GNN_TASK_OWN, 0);
    ready(&f, WORKER);
    assert_int_equal(told(&f, WORKER, 0, FORWARD), 1);
    assert_int_equal(fake_world_sent(&f.fake, WORKER, CULM_GNN_MSG_PART_CONSTANT), 0);
    lacks(&f, WORKER, FORWARD, CULM_GNN_MSG_LACKS);
    run(&f, CULM_GNN_TASK_PACK, 1);
    assert_int_equal(fake_world_sent(&f.fake, WORKER, CULM_GNN_MSG_PART_CONSTANT), 1);
    assert_int_equal(told(&f, WORKER, 0, FORWARD), 2);
    end(&f);
}

/* It has heard of a commit that this server has yet to hear of: nobody else is given the task. */
static void test_one_drops_what_is_over(void **state) {
    (void)state;
    EXPECT_MARK(interval_worker_drops_what_is_over);
    struct fixture f;
    begin(&f);
    run(&f, CULM_GNN_TASK_OWN, 0);
    ready(&f, WORKER);
    ready(&f, OTHER);
    lacks(&f, WORKER, FORWARD, CULM_GNN_MSG_DROPPED);
    assert_int_equal(told(&f, OTHER, 0, FORWARD), 0);
    assert_null(fake_world_run(&f.fake));
    end(&f);
}

/* WORKER has the loss and is late, so that OTHER is given it, too. */
static void come_to_second(struct fixture *f) {
    come_to_loss(f);
    ready(f, OTHER);
    f->fake.now_ns += 6000 * MS;
    culm_gnn_server_actor.timer(f->server, CULM_GNN_TIMER_LATE);
    assert_int_equal(told(f, OTHER, 0, LOSS), 1);
}

static void test_the_second_worker_is_lost(void **state) {
    (void)state;
    EXPECT_MARK(interval_late_task_goes_to_another_worker);
    EXPECT_MARK(interval_second_worker_gives_up);
    struct fixture f;
    come_to_second(&f);
    culm_gnn_server_actor.lost(f.server, OTHER); /* it is late still: the server does it, too */
    share(&f, WORKER, LOSS, 4);
    rows(&f, WORKER, LOSS, 4); /* and is not the first */
    run(&f, CULM_GNN_TASK_APPLY, 5);
    assert_pushed(&f, 1, 4);
    run(&f, CULM_GNN_TASK_GATHER, 6);
    end(&f);
}

static void test_the_first_worker_is_lost(void **state) {
    (void)state;
    EXPECT_MARK(interval_first_worker_gives_up);
    struct fixture f;
    come_to_second(&f);
    culm_gnn_server_actor.lost(f.server, WORKER); /* it is late still: the server does it, too */
    share(&f, OTHER, LOSS, 4);
    rows(&f, OTHER, LOSS, 4); /* and is not the first */
    run(&f, CULM_GNN_TASK_APPLY, 5);
    assert_pushed(&f, 1, 4);
    run(&f, CULM_GNN_TASK_GATHER, 6);
    end(&f);
}

/* The server does the task itself, and is not the first. */
static void test_a_worker_is_faster_after_all(void **state) {
    (void)state;
    EXPECT_MARK(interval_late_task_is_done_by_the_server);
    EXPECT_MARK(interval_worker_was_faster);
    struct fixture f;
    come_to_loss(&f);
    f.fake.now_ns += 6000 * MS;
    culm_gnn_server_actor.timer(f.server, CULM_GNN_TIMER_LATE);
    share(&f, WORKER, LOSS, 4);
    rows(&f, WORKER, LOSS, 4);
    run(&f, CULM_GNN_TASK_APPLY, 5);
    assert_pushed(&f, 1, 4);
    run(&f, CULM_GNN_TASK_GATHER, 6);
    end(&f);
}

/* Workers have all the tasks that they asked for, and return none. */
static void test_silent_workers_are_not_waited_for(void **state) {
    (void)state;
    EXPECT_MARK(interval_silent_workers_leave_a_task);
    static const int32_t owner[] = {SERVER, SERVER, SERVER};
    struct fixture f;
    begin_with(&f, owner, INTERVALS, false);
    for (int32_t i = 0; i < INTERVALS; i++) {
        run(&f, CULM_GNN_TASK_OWN, 0);
    }
    ready(&f, WORKER);
    assert_null(fake_world_run(&f.fake));
    f.fake.now_ns += 4900 * MS;
    culm_gnn_server_actor.timer(f.server, CULM_GNN_TIMER_LATE);
    assert_null(fake_world_run(&f.fake));
    f.fake.now_ns += 200 * MS;
    culm_gnn_server_actor.timer(f.server, CULM_GNN_TIMER_LATE);
    run(&f, CULM_GNN_TASK_APPLY, 5);
    end(&f);
}

/* Its link may not show that a worker is gone; the leader's word does. */
static void test_one_that_is_gone_gets_nothing_more(void **state) {
    (void)state;
    EXPECT_MARK(interval_ready_of_one_that_is_gone);
    struct fixture f;
    begin(&f);
    run(&f, CULM_GNN_TASK_OWN, 0);
    culm_peer_lost_encode(&(struct culm_peer_lost){WORKER}, &f.buf);
    deliver(&f, CULM_LEADER, CULM_GNN_MSG_GONE, NULL);
    ready(&f, WORKER);
    assert_int_equal(told(&f, WORKER, 0, FORWARD), 0);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_that_lacks_the_input_is_sent_it),
        cmocka_unit_test(test_one_drops_what_is_over),
        cmocka_unit_test(test_the_second_worker_is_lost),
        cmocka_unit_test(test_the_first_worker_is_lost),
        cmocka_unit_test(test_a_worker_is_faster_after_all),
        cmocka_unit_test(test_silent_workers_are_not_waited_for),
        cmocka_unit_test(test_one_that_is_gone_gets_nothing_more),
        cmocka_unit_test(test_late_gradient),
        cmocka_unit_test(test_lost_between_pushes),
        cmocka_unit_test(test_goes_back_to_the_same),
        cmocka_unit_test(test_the_same_is_gone),
        cmocka_unit_test(test_the_same_is_busy),
        cmocka_unit_test(test_waits),
    };
    return cmocka_run_group_tests_name("interval/server_workers", tests, NULL, NULL);
}
