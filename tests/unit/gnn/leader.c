/* A leader alone: nodes that fail, who saves, what a loss costs, and which end of a broken link goes. */
#include "leader_played.h"

/* Every worker that has been asked for comes, and fails, or never joins. */
static void fail_all(struct fixture *f, enum culm_status status, bool joins) {
    while (f->seen < f->fake.started_as[CULM_GNN_WORKER]) {
        f->seen++;
        assert_true(f->next < FAKE_MAX);
        if (joins) {
            joined(f, CULM_GNN_WORKER);
            failed(f, f->next - 1, status);
        } else {
            f->fake.role[f->next] = CULM_GNN_WORKER;
            culm_gnn_leader_actor.leads->ended(f->leader, f->next++, NULL);
        }
        fake_world_forget(&f->fake);
    }
}

/* So many seconds until more are asked for. */
static int32_t rest_of(struct fixture *f) {
    int32_t before = f->fake.started_as[CULM_GNN_WORKER], seconds = 0;
    while (f->fake.started_as[CULM_GNN_WORKER] == before && seconds < 10000) {
        f->fake.now_ns += 1000 * MS;
        culm_gnn_leader_actor.timer(f->leader, 0);
        fake_world_forget(&f->fake);
        seconds++;
    }
    return seconds;
}

/* Each round of failures is paid for: the rest behind it grows, up to an end, and starts again with one
 * that works. */
static void resting(enum culm_status status, bool joins) {
    struct fixture f;
    int32_t longest = 0, rests = 0, seconds = 0;
    begin(&f, 1, WORKERS);
    while (seconds < 4 * 3600) {
        fail_all(&f, status, joins);
        int32_t rest = rest_of(&f);
        assert_true(rest >= longest);               /* never more often than before */
        assert_true(rest <= 2 * longest || !rests); /* and not at once never again */
        longest = rest;
        seconds += rest;
        rests++;
    }
    assert_true(longest >= 600 && longest <= 660);
    /* of all rests but the first ones the longest takes a place */
    assert_true(f.fake.started_as[CULM_GNN_WORKER] < 2 * (4 * 3600 / 600 + 7 * ROUND));
    end(&f);
}

static void test_out_of_memory(void **state) {
    (void)state;
    resting(CULM_ERR_MEMORY, true);
}

static void test_never_join(void **state) {
    (void)state;
    resting(CULM_ERR_MEMORY, false);
}

/* One that never had a link to a server, though it has one to the leader. */
static void test_never_reach(void **state) {
    (void)state;
    resting(CULM_ERR_CLOSED, true);
}

/* One that lost a link after a while is replaced at once, however often. */
static void test_lost_link(void **state) {
    (void)state;
    struct fixture f;
    begin(&f, 1, WORKERS);
    for (int i = 0; i < 4 * ROUND; i++) {
        int32_t before = f.fake.started_as[CULM_GNN_WORKER];
        joined(&f, CULM_GNN_WORKER);
        f.fake.now_ns += 60000 * MS;
        failed(&f, f.next - 1, CULM_ERR_CLOSED);
        assert_int_equal(f.fake.started_as[CULM_GNN_WORKER], before + 1);
        fake_world_forget(&f.fake);
    }
    end(&f);
}

/* `by` says that it has lost its link to `peer`; then all are heard of, until the leader decides. */
static void break_link(struct fixture *f, int32_t by, int32_t peer) {
    culm_gnn_peer_encode(peer, &f->buf);
    deliver(f, by, CULM_GNN_MSG_PEER_LOST);
    assert_int_equal(fake_world_events(&f->fake, "lost"), 0);
    for (int tick = 0; tick < 5; tick++) {
        const struct culm_heartbeat beat = {.kind = -1};
        f->fake.now_ns += 300 * MS;
        for (int32_t node = 0; node < f->next; node++) {
            culm_heartbeat_encode(&beat, &f->buf);
            deliver(f, node, CULM_GNN_MSG_BEAT);
        }
        culm_gnn_leader_actor.timer(f->leader, 0); /* CULM_GNN_LEADER_WATCH */
    }
}

static int64_t last_lost(struct fixture *f) {
    const json_t *event = fake_world_told(&f->fake, "lost");
    int64_t node = event ? json_integer_value(json_object_get(event, "node")) : -1;
    fake_world_forget(&f->fake);
    return node;
}

/* Of two nodes that cannot reach each other a newcomer goes; else the younger, but only the first time. */
static void test_broken_links(void **state) {
    (void)state;
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(2, 1, 0);
    settings.suspect_ms = 1000;
    begin_so(&f, 2, 1, &settings);
    joined(&f, CULM_GNN_SERVER); /* 3 */
    const struct culm_node_info info = {.role = CULM_GNN_SERVER, .name = "newcomer"};
    f.fake.role[4] = CULM_NO_ROLE;
    culm_gnn_leader_actor.leads->joined(f.leader, f.next++, &info);
    joined(&f, CULM_GNN_SERVER); /* 5 */
    break_link(&f, 4, 5);
    assert_int_equal(last_lost(&f), 4);
    break_link(&f, 0, 5);
    assert_int_equal(last_lost(&f), 5);
    joined(&f, CULM_GNN_SERVER); /* 6 */
    break_link(&f, 0, 6);
    assert_int_equal(last_lost(&f), 0);
    end(&f);
}

/* One that may still be writing goes on to save; whoever takes the place of another before it in the order
 * does not save beside it. */
static void test_one_saves(void **state) {
    (void)state;
    struct fixture f;
    begin(&f, 2, 0);
    holds(&f, 1, 0);
    holds(&f, 2, 0);
    commits(&f, 1);
    assert_int_equal(saver_of(&f, 1), 1);
    lost(&f, 1);
    done(&f, 2);
    holds(&f, 0, 2); /* a server is a holder for as long as there is one parameter server */
    holds(&f, 2, 2);
    assert_int_equal(saver_of(&f, 2), 2); /* there is no other */
    joined(&f, CULM_GNN_PARAMETER);
    assert_int_equal(f.next, 4);
    holds(&f, 3, 2);
    done(&f, 3);
    holds(&f, 0, 3);
    holds(&f, 2, 3);
    holds(&f, 3, 3);
    assert_int_equal(saver_of(&f, 3), 2);
    lost(&f, 2);
    done(&f, 4);
    holds(&f, 0, 4);
    holds(&f, 3, 4);
    assert_int_equal(saver_of(&f, 4), 3);
    end(&f);
}

/* The second parameter server reports a failure, and another one takes its place; the first goes on. */
static int32_t failed_and_replaced(struct fixture *f, int32_t node, int64_t version) {
    failed(f, node, CULM_ERR_IO);
    if (f->fake.exit_code == -1) {
        joined(f, CULM_GNN_PARAMETER);
        holds(f, f->next - 1, version);
    }
    return f->next - 1;
}

/* Failures that are reported end the run if there are three without a commit between them, not three in all. */
static void test_failures_since_the_commit(void **state) {
    (void)state;
    struct fixture f;
    int64_t epoch = 1;
    int32_t second = 2;
    begin(&f, 2, 0);
    holds(&f, 1, 0);
    holds(&f, 2, 0);
    commits(&f, epoch);
    for (; epoch < 7; epoch++) {
        second = failed_and_replaced(&f, second, epoch);
        assert_int_equal(f.fake.exit_code, -1);
        done(&f, epoch + 1);
        holds(&f, 0, epoch + 1);
        holds(&f, 1, epoch + 1);
        holds(&f, second, epoch + 1);
        saver_of(&f, epoch + 1); /* it was committed */
        fake_world_forget(&f.fake);
    }
    second = failed_and_replaced(&f, second, epoch);
    second = failed_and_replaced(&f, second, epoch);
    assert_int_equal(f.fake.exit_code, -1);
    failed_and_replaced(&f, second, epoch);
    assert_int_equal(f.fake.exit_code, culm_status_exit_code(CULM_ERR_IO));
    f.fake.exit_code = -1; /* as it should */
    end(&f);
}

/* All holders of the weights are lost, one of them with a failure, so the run goes back to its beginning. */
static void failed_and_rolled_back(struct fixture *f, int32_t first) {
    failed(f, first, CULM_ERR_IO);
    if (f->fake.exit_code == -1) {
        lost(f, first + 1);
        f->attempt++;
        joined(f, CULM_GNN_PARAMETER);
        joined(f, CULM_GNN_PARAMETER);
    }
}

/* Epochs that are done again are no progress: what fails behind them each time ends the run. */
static void test_failures_after_a_roll_back(void **state) {
    (void)state;
    struct fixture f;
    begin(&f, 2, 0);
    for (int32_t first = 1, time = 1; time <= 3; first += 2, time++) {
        holds(&f, first, 0);
        holds(&f, first + 1, 0);
        for (int64_t epoch = 1; epoch <= 3; epoch++) {
            done(&f, epoch);
            holds(&f, first, epoch);
            holds(&f, first + 1, epoch);
            saver_of(&f, epoch); /* it was committed */
            fake_world_forget(&f.fake);
        }
        failed_and_rolled_back(&f, first);
        assert_int_equal(fake_world_events(&f.fake, "rollback"), time < 3);
        fake_world_forget(&f.fake);
    }
    assert_int_equal(f.fake.exit_code, culm_status_exit_code(CULM_ERR_IO));
    f.fake.exit_code = -1; /* as it should */
    end(&f);
}

static void not_saved(struct fixture *f, int32_t node, int64_t version) {
    const struct culm_gnn_saved saved = {.attempt = f->attempt,
                                         .version = version,
                                         .status = CULM_ERR_IO,
                                         .why = "the disk is full"};
    culm_gnn_saved_encode(&saved, &f->buf);
    deliver(f, node, CULM_GNN_MSG_SAVED);
}

static void saved(struct fixture *f, int32_t node, int64_t version) {
    const struct culm_gnn_saved said = {.attempt = f->attempt, .version = version, .path = "file"};
    culm_gnn_saved_encode(&said, &f->buf);
    deliver(f, node, CULM_GNN_MSG_SAVED);
}

/* Whom the last view that a node was sent tells to save; -1: nobody. */
static int32_t asked_again(const struct fixture *f, int32_t node) {
    static struct culm_gnn_view view;
    const struct fake_sent *sent = fake_world_last(&f->fake, node, CULM_GNN_MSG_VIEW);
    assert_non_null(sent);
    assert_int_equal(culm_gnn_view_decode(sent->meta, sent->meta_bytes, &f->layout, &view),
                     CULM_OK);
    return view.saver;
}

static void wait(struct fixture *f, uint64_t ms) {
    f->fake.now_ns += ms * MS;
    culm_gnn_leader_actor.timer(f->leader, 0); /* CULM_GNN_LEADER_WATCH */
}

/* Two epochs of which the first could not be saved, which is told, and the second, with which a stop ends
 * the run, neither: it is held. */
static void begin_held(struct fixture *f) {
    struct culm_gnn_settings settings = settings_of(1, 2, 0);
    settings.wait_ms = 10000;
    begin_so(f, 1, 1, &settings);
    holds(f, 1, 0);
    holds(f, 2, 0);
    commits(f, 1);
    assert_int_equal(saver_of(f, 1), 1);
    culm_gnn_leader_actor.leads->stop(f->leader);
    not_saved(f, 1, 1);
    assert_int_equal(fake_world_events(&f->fake, "checkpoint"), 1);
    assert_int_equal(fake_world_events(&f->fake, "held"), 0);
    assert_int_equal(f->fake.exit_code, -1);
    commits(f, 2);
    assert_int_equal(saver_of(f, 2), 1);
    not_saved(f, 1, 2);
    assert_int_equal(fake_world_events(&f->fake, "checkpoint"), 2);
    assert_int_equal(fake_world_events(&f->fake, "held"), 1);
    assert_int_equal(fake_world_events(&f->fake, "lost"), 0);
    assert_int_equal(f->fake.exit_code, -1);
}

/* A version that is the last one is saved as soon as that can be done. */
static void test_not_saved(void **state) {
    (void)state;
    struct fixture f;
    begin_held(&f);
    fake_world_forget(&f.fake);
    wait(&f, 1000);
    assert_null(fake_world_last(&f.fake, 1, CULM_GNN_MSG_VIEW));
    wait(&f, 1500);
    assert_int_equal(asked_again(&f, 1), 1);
    not_saved(&f, 1, 2);
    assert_int_equal(fake_world_events(&f.fake, "checkpoint"),
                     0); /* for the same reason: told once */
    assert_int_equal(fake_world_events(&f.fake, "held"), 0);
    wait(&f, 2500);
    saved(&f, 1, 2);
    assert_int_equal(fake_world_events(&f.fake, "checkpoint"), 1);
    struct culm_gnn_task *finish = fake_world_io(&f.fake);
    assert_non_null(finish);
    assert_int_equal(finish->kind, CULM_GNN_TASK_FINISH);
    finish->job.status = CULM_ERR_IO; /* the model has no room either */
    snprintf(finish->job.error.text, sizeof finish->job.error.text, "the disk is full");
    culm_gnn_leader_actor.job_done(f.leader, &finish->job);
    assert_int_equal(f.fake.exit_code, -1);
    wait(&f, 2500);
    finish = fake_world_io(&f.fake);
    assert_non_null(finish);
    finish->job.status = CULM_OK;
    culm_gnn_leader_actor.job_done(f.leader, &finish->job);
    assert_int_equal(f.fake.exit_code, culm_status_exit_code(CULM_ERR_STOPPED));
    f.fake.exit_code = -1;
    end(&f);
}

/* A try that is under way is waited for, however long it takes, and not made twice: neither by time nor by a
 * stop that comes meanwhile. */
static void test_a_slow_save_is_waited_for(void **state) {
    (void)state;
    struct fixture f;
    begin_held(&f);
    wait(&f, 2500);
    assert_int_equal(asked_again(&f, 1), 1);
    fake_world_forget(&f.fake);
    wait(&f, 20000); /* beyond wait_ms */
    culm_gnn_leader_actor.leads->stop(f.leader);
    wait(&f, 20000);
    assert_null(fake_world_last(&f.fake, 1, CULM_GNN_MSG_VIEW));
    assert_int_equal(f.fake.exit_code, -1);
    saved(&f, 1, 2);
    struct culm_gnn_task *finish = fake_world_io(&f.fake);
    finish->job.status = CULM_ERR_IO;
    snprintf(finish->job.error.text, sizeof finish->job.error.text, "the disk is full");
    culm_gnn_leader_actor.job_done(f.leader, &finish->job);
    wait(&f, 2500);
    assert_int_equal(f.fake.io_count, 1); /* the model is written again */
    culm_gnn_leader_actor.leads->stop(f.leader);
    wait(&f, 20000);
    assert_int_equal(f.fake.io_count, 1);
    assert_int_equal(f.fake.exit_code, -1);
    finish = fake_world_io(&f.fake);
    finish->job.status = CULM_OK;
    culm_gnn_leader_actor.job_done(f.leader, &finish->job);
    assert_int_equal(f.fake.exit_code, culm_status_exit_code(CULM_ERR_STOPPED));
    f.fake.exit_code = -1;
    end(&f);
}

/* Another holder saves when the one that could not is lost. */
static void test_not_saved_and_lost(void **state) {
    (void)state;
    struct fixture f;
    begin_held(&f);
    lost(&f, 1);
    fake_world_forget(&f.fake);
    wait(&f, 2500);
    assert_int_equal(asked_again(&f, 2), 2);
    saved(&f, 2, 2);
    assert_non_null(fake_world_io(&f.fake));
    end(&f);
}

/* After wait_ms the run ends; whoever launched it says what the stop has lost. */
static void test_never_saved(void **state) {
    (void)state;
    struct fixture f;
    begin_held(&f);
    for (int i = 0; i < 5 && f.fake.exit_code < 0; i++) {
        wait(&f, 2500);
        if (f.fake.exit_code < 0) {
            not_saved(&f, 1, 2);
        }
    }
    assert_int_equal(f.fake.exit_code, culm_status_exit_code(CULM_ERR_STOPPED));
    assert_int_equal(fake_world_events(&f.fake, "done"), 0);
    f.fake.exit_code = -1;
    end(&f);
}

/* A loss that is finite does not help a gradient that is not; and nothing is committed or saved of it. */
static void test_diverged(void **state) {
    (void)state;
    struct fixture f;
    begin(&f, 2, 0);
    holds(&f, 1, 0);
    holds(&f, 2, 0);
    done(&f, 1);
    holds_so(&f, 1, 1, true);
    assert_int_equal(f.fake.exit_code, -1); /* not before all have told */
    holds_so(&f, 2, 1, true);
    assert_int_equal(f.fake.exit_code, culm_status_exit_code(CULM_ERR_CONFIG));
    assert_null(fake_world_last(&f.fake, 1, CULM_GNN_MSG_COMMIT));
    f.fake.exit_code = -1;
    end(&f);
}

/* A lost server is made up for when the last of its intervals is done with an epoch elsewhere. What is done again
 * is what it was done with, and of the rest what its rows show. */
static void test_recovered(void **state) {
    (void)state;
    struct fixture f;
    begin_with(&f, 4, 3, 2, 1, 0);
    holds(&f, 2, 0);
    done_so(&f, 0, 0, 1, 0);
    lost(&f, 0);
    f.fake.now_ns += 20 * MS;
    done_so(&f, 1, 3, 1, 0); /* its own */
    done_so(&f, 1, 0, 1, 2);
    f.fake.now_ns += 20 * MS;
    done_so(&f, 1, 1, 1, 2);
    done_so(&f, 1, 1, 1, 2); /* twice */
    assert_int_equal(fake_world_events(&f.fake, "recovered"), 0);
    f.fake.now_ns += 20 * MS;
    done_so(&f, 1, 2, 1, 1);
    const json_t *told = fake_world_told(&f.fake, "recovered");
    assert_non_null(told);
    assert_int_equal(json_integer_value(json_object_get(told, "node")), 0);
    assert_int_equal(json_integer_value(json_object_get(told, "redone_tasks")),
                     f.layout.train_steps + 2 + 1);
    assert_true(json_real_value(json_object_get(told, "pause_ms")) == 60);
    assert_int_equal(fake_world_events(&f.fake, "recovered"), 1);
    end(&f);
}

/* Of one that is lost while it makes up for another both are told, with what of each was done again. */
static void test_recovered_twice(void **state) {
    (void)state;
    struct fixture f;
    begin_with(&f, 2, 1, 2, 1, 0);
    holds(&f, 2, 0);
    lost(&f, 0);
    joined(&f, CULM_GNN_SERVER);
    assert_int_equal(f.next, 4);
    lost(&f, 1);
    done_so(&f, 3, 0, 1, 2);
    assert_int_equal(fake_world_events(&f.fake, "recovered"), 1);
    assert_int_equal(
        json_integer_value(json_object_get(fake_world_told(&f.fake, "recovered"), "node")), 0);
    done_so(&f, 3, 1, 1, 1);
    const json_t *told = fake_world_told(&f.fake, "recovered");
    assert_int_equal(fake_world_events(&f.fake, "recovered"), 2);
    assert_int_equal(json_integer_value(json_object_get(told, "node")), 1);
    assert_int_equal(json_integer_value(json_object_get(told, "redone_tasks")), 2 + 1);
    end(&f);
}

/* The whole machine stands still for so much of the limit, after some ticks, and goes on with one: nobody is missed.
 * Who is silent from then on is. */
static void stands_still(int ticks, uint64_t percent) {
    const uint64_t limit = 1000000000 * MS;
    struct fixture f;
    begin(&f, 1, 0);
    for (int i = 0; i < ticks; i++) {
        f.fake.now_ns += limit / 4;
        deliver(&f, 0, CULM_GNN_MSG_BEAT);
        deliver(&f, 1, CULM_GNN_MSG_BEAT);
        culm_gnn_leader_actor.timer(f.leader, 0);
    }
    f.fake.now_ns += limit / 100 * percent;
    culm_gnn_leader_actor.timer(f.leader, 0);
    assert_int_equal(fake_world_events(&f.fake, "lost"), 0);
    for (int i = 0; i < 5; i++) {
        f.fake.now_ns += limit / 4;
        culm_gnn_leader_actor.timer(f.leader, 0);
    }
    assert_int_equal(fake_world_events(&f.fake, "lost"), 2);
    end(&f);
}

static void test_stands_still(void **state) {
    (void)state;
    for (int ticks = 0; ticks < 3; ticks++) {
        stands_still(ticks, 51);
        stands_still(ticks, 70);
        stands_still(ticks, 99);
        stands_still(ticks, 300);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_never_join),
        cmocka_unit_test(test_never_reach),
        cmocka_unit_test(test_lost_link),
        cmocka_unit_test(test_broken_links),
        cmocka_unit_test(test_one_saves),
        cmocka_unit_test(test_failures_since_the_commit),
        cmocka_unit_test(test_failures_after_a_roll_back),
        cmocka_unit_test(test_diverged),
        cmocka_unit_test(test_stands_still),
        cmocka_unit_test(test_recovered),
        cmocka_unit_test(test_recovered_twice),
        cmocka_unit_test(test_not_saved),
        cmocka_unit_test(test_a_slow_save_is_waited_for),
        cmocka_unit_test(test_not_saved_and_lost),
        cmocka_unit_test(test_never_saved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
