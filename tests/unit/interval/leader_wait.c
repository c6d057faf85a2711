/* A leader alone: who is replaced, and who is waited for. */
#include "expect_mark.h"
#include "leader_played.h"

#define DUE 1 /* the timer of what is due */

static void pass(struct fixture *f, int64_t ms) {
    f->fake.now_ns += (uint64_t)ms * MS;
    if (f->fake.timer_ns[DUE] <= f->fake.now_ns) {
        f->fake.timer_ns[DUE] = CULM_NEVER;
        culm_gnn_leader_actor.timer(f->leader, DUE);
    }
}

/* The run has ended by itself, with that in its last words. */
static void failed_with(struct fixture *f, enum culm_status status, const char *text) {
    ended_with(f, status, text);
    end(f);
}

static void told_of(const struct fixture *f, const char *role, int32_t need, int32_t have) {
    const json_t *told = fake_world_told(&f->fake, "waiting");
    assert_non_null(told);
    assert_string_equal(json_string_value(json_object_get(told, "role")), role);
    assert_int_equal(json_integer_value(json_object_get(told, "need")), need);
    assert_int_equal(json_integer_value(json_object_get(told, "have")), have);
}

static bool admits(struct fixture *f, uint32_t as, const char *refusal) {
    const struct culm_node_info info = {.role = as, .name = "elsewhere"};
    struct culm_error error = {0};
    uint32_t role;
    bool may = culm_gnn_leader_actor.leads->admits(f->leader, &info, &role, &error);
    if (!may && (!refusal || !strstr(error.text, refusal))) {
        fail_msg("refused: %s", error.text);
    }
    return may;
}

/* Of each role, when it is due and not before; a worker that leaves by itself at once. */
static void test_replaced_later(void **state) {
    (void)state;
    EXPECT_MARK(crew_start_is_due);
    static const int32_t node[CULM_GNN_ROLES] = {1, 2, 3};
    for (uint32_t r = 0; r < CULM_GNN_ROLES; r++) {
        struct fixture f;
        struct culm_gnn_settings settings = settings_of(2, 1, 1);
        settings.crew.replace_ms = 500;
        begin_so(&f, 2, 1, &settings);
        joined(&f, CULM_GNN_WORKER);
        both_hold(&f, 2, 0, 0);
        int32_t before = f.fake.started_as[r];
        lost(&f, node[r]);
        pass(&f, 499);
        tick(&f);
        assert_int_equal(f.fake.started_as[r], before);
        pass(&f, 1);
        assert_int_equal(f.fake.started_as[r], before + 1);
        pass(&f, 10000);
        assert_int_equal(f.fake.started_as[r], before + 1); /* that one is on its way */
        end(&f);
    }
}

static void test_released_at_once(void **state) {
    (void)state;
    EXPECT_MARK(crew_left_as_it_said);
    EXPECT_MARK(interval_worker_lost);
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(1, 1, 1);
    settings.crew.replace_ms = -1;
    begin_so(&f, 1, 1, &settings);
    joined(&f, CULM_GNN_WORKER);
    deliver(&f, 2, CULM_GNN_MSG_LEAVING);
    assert_int_equal(f.fake.started_as[CULM_GNN_WORKER], 2);
    lost(&f, 2); /* as it said */
    joined(&f, CULM_GNN_WORKER);
    joined(&f, CULM_GNN_WORKER);
    lost(&f, 3);
    assert_int_equal(fake_world_sent(&f.fake, 0, CULM_GNN_MSG_GONE), 2); /* it gives them tasks */
    assert_int_equal(fake_world_sent(&f.fake, 1, CULM_GNN_MSG_GONE), 0); /* they do not know it */
    assert_int_equal(fake_world_sent(&f.fake, 4, CULM_GNN_MSG_GONE), 0);
    pass(&f, 100000);
    assert_int_equal(f.fake.started_as[CULM_GNN_WORKER], 2);
    end(&f);
}

/* One from elsewhere has come in its place by the time it is due. */
static void test_place_taken(void **state) {
    (void)state;
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(2, 1, 0);
    settings.crew.replace_ms = 500;
    settings.newcomers = true;
    begin_so(&f, 2, 1, &settings);
    lost(&f, 1);
    joined(&f, CULM_GNN_SERVER);
    pass(&f, 500);
    assert_int_equal(f.fake.started_as[CULM_GNN_SERVER], 2);
    lost(&f, 3); /* it is replaced like any other */
    pass(&f, 500);
    assert_int_equal(f.fake.started_as[CULM_GNN_SERVER], 3);
    end(&f);
}

/* Without replacements the others go on, and the last one ends the run. */
static void test_never_replaced(void **state) {
    (void)state;
    EXPECT_MARK(crew_lost_for_good);
    EXPECT_MARK(interval_last_one_is_lost);
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(2, 1, 0);
    settings.crew.replace_ms = -1;
    begin_so(&f, 2, 1, &settings);
    both_hold(&f, 2, 0, 0);
    lost(&f, 0);
    holds(&f, 1, 0);
    pass(&f, 100000);
    assert_int_equal(f.fake.started, 3);
    done_so(&f, 1, 0, 1, 0);
    done_so(&f, 1, 1, 1, 0);
    holds(&f, 1, 1);
    holds(&f, 2, 1);
    assert_int_equal(fake_world_events(&f.fake, "epoch"), 1);
    fake_world_forget(&f.fake);
    lost(&f, 1);
    assert_int_equal(fake_world_events(&f.fake, "waiting"), 0);
    failed_with(&f, CULM_ERR_IO, "the last server was lost, and none replaces it");
}

/* All others are done with the epoch when one of the holders is put out: nobody says anything more, and it
 * is committed. */
static void test_lost_at_the_end(void **state) {
    (void)state;
    struct fixture f;
    begin(&f, 3, 0);
    for (int32_t version = 0; version < 2; version++) {
        holds(&f, 1, version);
        holds(&f, 2, version);
    }
    done(&f, 1);
    assert_int_equal(fake_world_events(&f.fake, "epoch"), 0);
    lost(&f, 3); /* which never had any weights */
    assert_int_equal(fake_world_events(&f.fake, "epoch"), 1);
    end(&f);
}

/* The last parameter server is lost for good. Servers that came from elsewhere have the weights, but none of them
 * could save; one that the launcher has started can. */
static void test_never_saved(void **state) {
    (void)state;
    for (int here = 0; here < 2; here++) {
        struct fixture f;
        struct culm_gnn_settings settings = settings_of(2, 1, 0);
        settings.crew.replace_ms = -1;
        settings.newcomers = true;
        settings.pace.epochs = 1;
        make(&f, 2, 1, &settings);
        joined_from_elsewhere(&f, CULM_GNN_SERVER);
        (here ? joined : joined_from_elsewhere)(&f, CULM_GNN_SERVER);
        joined(&f, CULM_GNN_PARAMETER);
        both_hold(&f, 2, 0, 0);
        lost(&f, 2);
        if (!here) {
            failed_with(&f, CULM_ERR_IO, "the last parameter server was lost");
            continue;
        }
        holds(&f, 1, 0);
        done_so(&f, 0, 0, 1, 0);
        done_so(&f, 1, 1, 1, 0);
        holds(&f, 0, 1);
        holds(&f, 1, 1);
        assert_int_equal(saver_of(&f, 1), 1);
        saves(&f, 1);
        did(&f, CULM_GNN_TASK_FINISH, CULM_OK);
        assert_int_equal(f.fake.exit_code, 0);
        f.fake.exit_code = -1;
        end(&f);
    }
}

/* Before the first view: those who are left begin. */
static void test_fewer_begin(void **state) {
    (void)state;
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(2, 1, 0);
    settings.crew.replace_ms = -1;
    make(&f, 2, 1, &settings);
    joined(&f, CULM_GNN_SERVER);
    joined(&f, CULM_GNN_PARAMETER);
    lost(&f, 0);
    assert_int_equal(fake_world_events(&f.fake, "view"), 0); /* the other server is on its way */
    joined(&f, CULM_GNN_SERVER);
    assert_int_equal(fake_world_events(&f.fake, "view"), 1);
    assert_int_equal(f.fake.started, 3);
    end(&f);
    make(&f, 2, 1, &settings);
    joined(&f, CULM_GNN_SERVER);
    joined(&f, CULM_GNN_SERVER);
    joined(&f, CULM_GNN_PARAMETER);
    assert_int_equal(fake_world_events(&f.fake, "view"), 1);
    end(&f);
}

/* Of three servers one is lost for good, one comes from elsewhere in its place, and one never joins: it is not missing. */
static void test_begins_when_a_start_is_not_needed(void **state) {
    (void)state;
    EXPECT_MARK(crew_start_is_not_needed_any_more);
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(3, 1, 0);
    settings.crew.replace_ms = -1;
    make(&f, 3, 1, &settings);
    joined(&f, CULM_GNN_SERVER);
    joined(&f, CULM_GNN_SERVER);
    f.fake.role[f.next] = CULM_GNN_SERVER;
    const int32_t never_joins = f.next++;
    joined(&f, CULM_GNN_PARAMETER);
    lost(&f, 0);
    joined_from_elsewhere(&f, CULM_GNN_SERVER);
    assert_int_equal(fake_world_events(&f.fake, "view"), 0); /* that one is on its way */
    culm_gnn_leader_actor.leads->ended(f.leader, never_joins, NULL);
    tick(&f);
    assert_int_equal(fake_world_events(&f.fake, "view"), 1);
    end(&f);
}

/* Somebody may still come from elsewhere, but not for ever. */
static void test_waits_for_newcomer(void **state) {
    (void)state;
    EXPECT_MARK(crew_waits);
    for (int comes = 0; comes < 2; comes++) {
        struct fixture f;
        struct culm_gnn_settings settings = settings_of(1, 1, 0);
        settings.crew.replace_ms = -1;
        settings.crew.wait_ms = 1000;
        settings.newcomers = true;
        begin_so(&f, 1, 1, &settings);
        holds(&f, 1, 0);
        fake_world_forget(&f.fake);
        lost(&f, 0);
        told_of(&f, "server", 1, 0);
        pass(&f, 999);
        if (comes) {
            joined(&f, CULM_GNN_SERVER);
            pass(&f, 100000);
            assert_int_equal(fake_world_events(&f.fake, "waiting"), 1);
            end(&f);
            continue;
        }
        pass(&f, 1);
        failed_with(&f, CULM_ERR_IO,
                    "waited 1000 ms for servers, but only 0 of 1 are there; there is no "
                    "checkpoint yet");
    }
}

static void test_stopped_while_waiting(void **state) {
    (void)state;
    EXPECT_MARK(interval_stopped_in_the_first_epoch);
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(1, 1, 0);
    settings.crew.replace_ms = -1;
    settings.newcomers = true;
    begin_so(&f, 1, 1, &settings);
    lost(&f, 0);
    culm_gnn_leader_actor.leads->stop(f.leader);
    failed_with(&f, CULM_ERR_STOPPED, "stopped in the first epoch");
}

/* A start that is under way is waited for longer, and when it has come there is a whole limit again. */
static void test_waits_for_start(void **state) {
    (void)state;
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(1, 1, 0);
    settings.crew.wait_ms = 1000;
    make(&f, 1, 1, &settings);
    assert_int_equal(fake_world_events(&f.fake, "waiting"), 2); /* of both roles */
    pass(&f, 5000);
    joined(&f, CULM_GNN_SERVER);
    told_of(&f, "parameter", 1, 0);
    tick(&f);
    joined(&f, CULM_GNN_PARAMETER);
    holds(&f, 1, 0);
    lost(&f, 0); /* another is asked for at once */
    told_of(&f, "server", 1, 0);
    pass(&f, 5000);
    joined(&f, CULM_GNN_SERVER);
    assert_int_equal(fake_world_events(&f.fake, "waiting"), 3);
    end(&f);
}

/* The first view, before which all are needed. */
static void test_never_begins(void **state) {
    (void)state;
    EXPECT_MARK(crew_waited_in_vain);
    EXPECT_MARK(interval_lost_before_the_first_view);
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(2, 1, 0);
    settings.crew.wait_ms = 1000;
    settings.crew.replace_ms = 60000;
    make(&f, 2, 1, &settings);
    joined(&f, CULM_GNN_SERVER);
    joined(&f, CULM_GNN_SERVER);
    lost(&f, 1);
    told_of(&f, "server", 2, 1);
    pass(&f, 1000);
    failed_with(
        &f, CULM_ERR_IO,
        "waited 1000 ms for servers, but only 1 of 2 are there; start more, or lower servers");
}

/* All is done but for the last checkpoint, which only a parameter server can write, since the server came from
 * elsewhere. */
static void test_waits_to_save(void **state) {
    (void)state;
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(1, 1, 0);
    settings.crew.wait_ms = 1000;
    settings.crew.replace_ms = 60000;
    settings.pace.epochs = 1;
    begin_elsewhere(&f, &settings);
    commits_by(&f, 1, 1, 0);
    assert_int_equal(saver_of(&f, 1), 1);
    fake_world_forget(&f.fake);
    lost(&f, 1);
    told_of(&f, "parameter", 1, 0);
    pass(&f, 1000);
    failed_with(&f, CULM_ERR_IO, "waited 1000 ms for parameter servers, but only 0 of 1 are there");
}

static void test_no_more_than(void **state) {
    (void)state;
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(1, 1, 0);
    settings.crew.replace_ms = 500;
    settings.newcomers = true;
    settings.crew.max_nodes = 3;
    begin_so(&f, 1, 1, &settings);
    assert_true(admits(&f, CULM_GNN_WORKER, NULL));
    joined(&f, CULM_GNN_WORKER);
    assert_false(admits(&f, CULM_GNN_WORKER, "the run has 3 nodes, and cluster.max_nodes is 3"));
    assert_false(admits(&f, CULM_GNN_PARAMETER, "only servers and workers"));
    lost(&f, 0);
    assert_false(admits(&f, CULM_GNN_WORKER, "3 nodes")); /* the place is that of its replacement */
    assert_true(admits(&f, CULM_GNN_SERVER, NULL));       /* which this one would be */
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replaced_later),
        cmocka_unit_test(test_released_at_once),
        cmocka_unit_test(test_place_taken),
        cmocka_unit_test(test_never_replaced),
        cmocka_unit_test(test_lost_at_the_end),
        cmocka_unit_test(test_never_saved),
        cmocka_unit_test(test_fewer_begin),
        cmocka_unit_test(test_begins_when_a_start_is_not_needed),
        cmocka_unit_test(test_waits_for_newcomer),
        cmocka_unit_test(test_stopped_while_waiting),
        cmocka_unit_test(test_waits_for_start),
        cmocka_unit_test(test_never_begins),
        cmocka_unit_test(test_waits_to_save),
        cmocka_unit_test(test_no_more_than),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
