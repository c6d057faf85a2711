/* A leader alone: nodes that fail, who saves, what a loss costs, and which end of a broken link goes. */
#include "expect_mark.h"
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
        tick(f);
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
    EXPECT_MARK(crew_joined_in_vain);
    EXPECT_MARK(interval_worker_failed);
    resting(CULM_ERR_MEMORY, true);
}

static void test_never_join(void **state) {
    (void)state;
    EXPECT_MARK(crew_start_is_tried_again);
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
    EXPECT_MARK(interval_worker_joins_a_run);
    struct fixture f;
    begin(&f, 1, WORKERS);
    for (int i = 0; i < 4 * ROUND; i++) {
        int32_t before = f.fake.started_as[CULM_GNN_WORKER];
        joined(&f, CULM_GNN_WORKER);
        f.fake.now_ns += 60000 * MS;
        culm_took_encode(&(struct culm_took){.kind = 1}, &f.buf);
        deliver(&f, f.next - 1, CULM_WORD_TOOK); /* it has worked */
        failed(&f, f.next - 1, CULM_ERR_CLOSED);
        assert_int_equal(f.fake.started_as[CULM_GNN_WORKER], before + 1);
        fake_world_forget(&f.fake);
    }
    end(&f);
}

/* `by` says that it has lost its link to `peer`; then all are heard of, until the leader decides. */
static void break_link(struct fixture *f, int32_t by, int32_t peer) {
    culm_peer_lost_encode(&(struct culm_peer_lost){peer}, &f->buf);
    deliver(f, by, CULM_WORD_PEER_LOST);
    assert_int_equal(fake_world_events(&f->fake, "lost"), 0);
    for (int i = 0; i < 5; i++) {
        const struct culm_heartbeat beat = {.kind = -1};
        f->fake.now_ns += 300 * MS;
        for (int32_t node = 0; node < f->next; node++) {
            culm_heartbeat_encode(&beat, &f->buf);
            deliver(f, node, CULM_WORD_HEARTBEAT);
        }
        tick(f);
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
    EXPECT_MARK(interval_standby_takes_a_slot);
    EXPECT_MARK(interval_goes_home);
    EXPECT_MARK(crew_newcomer_goes);
    EXPECT_MARK(crew_one_has_outlived_another);
    EXPECT_MARK(interval_server_becomes_a_holder);
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(2, 1, 0);
    settings.crew.suspect_ms = 1000;
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
    EXPECT_MARK(crew_failed_too_often);
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
        committed(&f, epoch + 1);
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
    EXPECT_MARK(interval_no_copy_is_left);
    struct fixture f;
    begin(&f, 2, 0);
    for (int32_t first = 1, time = 1; time <= 3; first += 2, time++) {
        holds(&f, first, 0);
        holds(&f, first + 1, 0);
        for (int64_t epoch = 1; epoch <= 3; epoch++) {
            done(&f, epoch);
            holds(&f, first, epoch);
            holds(&f, first + 1, epoch);
            committed(&f, epoch);
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

/* A loss that is finite does not help a gradient that is not; and nothing is committed or saved of it. */
static void test_diverged(void **state) {
    (void)state;
    EXPECT_MARK(interval_diverged);
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
    EXPECT_MARK(interval_goes_to_another_server);
    EXPECT_MARK(interval_server_or_holder_lost);
    EXPECT_MARK(interval_server_is_recovered);
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
        deliver(&f, 0, CULM_WORD_HEARTBEAT);
        deliver(&f, 1, CULM_WORD_HEARTBEAT);
        tick(&f);
    }
    f.fake.now_ns += limit / 100 * percent;
    tick(&f);
    assert_int_equal(fake_world_events(&f.fake, "lost"), 0);
    for (int i = 0; i < 5; i++) {
        f.fake.now_ns += limit / 4;
        tick(&f);
    }
    assert_int_equal(fake_world_events(&f.fake, "lost"), 2);
    end(&f);
}

static void test_stands_still(void **state) {
    (void)state;
    EXPECT_MARK(crew_silent_is_lost);
    for (int ticks = 0; ticks < 3; ticks++) {
        stands_still(ticks, 51);
        stands_still(ticks, 70);
        stands_still(ticks, 99);
        stands_still(ticks, 300);
    }
}

/* The losses of intervals are added in the order of intervals, whichever is done first. */
static void test_losses_are_added_in_order(void **state) {
    static const double loss[INTERVALS] = {1e17, 1, -1e17, 1}; /* to the first, one adds nothing */
    (void)state;
    double sum = 0, other = 0;
    for (int i = 0; i < INTERVALS; i++) {
        sum += loss[i];
        other += loss[INTERVALS - 1 - i];
    }
    assert_true(sum == 1 && other == 0); /* the negative control */
    for (int first = 0; first < INTERVALS; first++) {
        struct fixture f;
        begin_with(&f, INTERVALS, INTERVALS, 1, 1, 0);
        holds(&f, 0, 0); /* a copy of the weights */
        holds(&f, 1, 0);
        for (int i = 0; i < INTERVALS; i++) {
            const int32_t interval = (first + i) % INTERVALS;
            const struct culm_gnn_done all_of_it = {.attempt = f.attempt,
                                                    .epoch = 1,
                                                    .interval = interval,
                                                    .trained = true,
                                                    .totals = {.loss = loss[interval]}};
            culm_gnn_done_encode(&all_of_it, &f.buf);
            deliver(&f, 0, CULM_GNN_MSG_DONE);
        }
        holds(&f, 0, 1);
        holds(&f, 1, 1);
        const json_t *epoch = fake_world_told(&f.fake, "epoch");
        assert_true(json_real_value(json_object_get(epoch, "loss")) == sum);
        end(&f);
    }
}

static void joined_there(struct fixture *f, uint32_t role, const char *machine, const char *zone) {
    const struct culm_node_info info = {
        .role = role, .name = "there", .machine = machine, .zone = zone};
    f->fake.role[f->next] = CULM_NO_ROLE;
    culm_gnn_leader_actor.leads->joined(f->leader, f->next++, &info);
    settle(f);
}

/* Where there is another machine, or another zone, the loss of one costs no last copy; nothing is copied for it again and again. */
static void test_copies_are_apart(void **state) {
    (void)state;
    EXPECT_MARK(interval_server_becomes_a_holder_apart);
    struct fixture f;
    const struct culm_gnn_settings settings = settings_of(2, 2, 0);
    struct culm_gnn_leader_options options = prepare(&f, 2, 1, &settings);
    options.depot = true;
    lead(&f, &options);
    joined_there(&f, CULM_GNN_SERVER, "one", "north"); /* 0 to 3, all on one machine */
    joined_there(&f, CULM_GNN_SERVER, "one", "north");
    joined_there(&f, CULM_GNN_PARAMETER, "one", "north");
    joined_there(&f, CULM_GNN_PARAMETER, "one", "north");
    both_hold(&f, 2, 3, 0);
    assert_int_equal(view_of(&f, 0)->holder_count, 2); /* there is nothing better */
    joined_there(&f, CULM_GNN_SERVER, "two", "north"); /* 4 stands by */
    assert_int_equal(view_of(&f, 0)->holder_count, 3);
    assert_true(culm_gnn_view_holds(view_of(&f, 0), 4));
    holds(&f, 4, 0);
    joined_there(&f, CULM_GNN_SERVER, "two", "north"); /* 5 */
    assert_false(culm_gnn_view_holds(view_of(&f, 0), 5));
    joined_there(&f, CULM_GNN_SERVER, "three", "south"); /* 6 is in another zone, too */
    assert_true(culm_gnn_view_holds(view_of(&f, 0), 6));
    assert_true(culm_gnn_view_holds(view_of(&f, 0), 4)); /* until the other one has got its copy */
    holds(&f, 6, 0);
    assert_false(culm_gnn_view_holds(view_of(&f, 0), 4));
    const uint64_t number = view_of(&f, 0)->number;
    joined_there(&f, CULM_GNN_SERVER, "four", "south");
    assert_int_equal(view_of(&f, 0)->number, number);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies_are_apart),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_never_join),
        cmocka_unit_test(test_never_reach),
        cmocka_unit_test(test_lost_link),
        cmocka_unit_test(test_broken_links),
        cmocka_unit_test(test_failures_since_the_commit),
        cmocka_unit_test(test_failures_after_a_roll_back),
        cmocka_unit_test(test_diverged),
        cmocka_unit_test(test_losses_are_added_in_order),
        cmocka_unit_test(test_stands_still),
        cmocka_unit_test(test_recovered),
        cmocka_unit_test(test_recovered_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
