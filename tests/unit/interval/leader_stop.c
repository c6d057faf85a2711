/*
 * A leader alone that is told to stop: it saves at once what is committed, or finishes the epoch, and
 * waits for nothing else for long.
 */
#include "expect_mark.h"
#include "leader_played.h"

/* Whatever is missing of the epoch in progress, what is committed is saved at once, and that is the end. */
static void test_a_stop_saves_what_is_committed(void **state) {
    (void)state;
    EXPECT_MARK(interval_stopped_where_it_can_be_saved);
    EXPECT_MARK(interval_stopped_where_it_is_saved);
    for (int saved = 0; saved < 2; saved++) {
        struct fixture f;
        begin_saving(&f, saved, 9);
        commits(&f, 1);
        if (saved) {
            saves(&f, 1);
        }
        lost(&f, 0); /* the only server: nothing will be committed any more */
        culm_gnn_leader_actor.leads->stop(f.leader);
        if (!saved) {
            assert_int_equal(saver_of(&f, 1), 1);
            saves(&f, 1);
        }
        did(&f, CULM_GNN_TASK_FINISH, CULM_OK);
        ended_with(&f, CULM_ERR_STOPPED, "stopped after epoch 1; continue with --resume");
        end(&f);
    }
}

/* Nothing is committed: neither what there is of an epoch nor what is missing of it is waited for. */
static void test_a_stop_in_the_first_epoch(void **state) {
    (void)state;
    EXPECT_MARK(interval_stopped_in_the_first_epoch);
    for (int missing = 0; missing < 2; missing++) {
        struct fixture f;
        begin_saving(&f, 1, 9);
        if (missing) {
            lost(&f, 0);
        }
        culm_gnn_leader_actor.leads->stop(f.leader);
        ended_with(&f, CULM_ERR_STOPPED, "stopped in the first epoch; continue with --resume");
        end(&f);
    }
}

/* The holders have stepped, and a server that is lost has yet to say so: it is waited for, but not long. */
static void test_a_stop_that_comes_too_late_for_that(void **state) {
    (void)state;
    EXPECT_MARK(interval_stopped_too_late_for_that);
    EXPECT_MARK(interval_stopped_while_it_waits);
    EXPECT_MARK(crew_replacement_is_needed_now);
    for (int comes = 0; comes < 2; comes++) {
        struct fixture f;
        struct culm_gnn_settings settings = settings_of(1, 2, 0);
        settings.crew.replace_ms = 3600000;
        begin_held_by_two(&f, &settings);
        commits(&f, 1);
        lost(&f, 0);
        assert_int_equal(f.fake.started_as[CULM_GNN_SERVER], 1);
        culm_gnn_leader_actor.leads->stop(f.leader);
        assert_int_equal(f.fake.started_as[CULM_GNN_SERVER], 2); /* now, and not in an hour */
        says_saved(&f, 1, CULM_ERR_AGAIN);
        did(&f, CULM_GNN_TASK_DISCARD, CULM_OK);
        later(&f, 9000);
        assert_int_equal(f.fake.exit_code, -1);
        if (comes) {
            joined(&f, CULM_GNN_SERVER);
            done_so(&f, 3, 0, 2, 0);
            holds(&f, 1, 2);
            holds(&f, 2, 2);
            struct culm_gnn_save save;
            assert_int_equal(order_of(&f, &save), 1);
            assert_int_equal(save.version, 2);
        } else {
            later(&f, 1500);
            assert_int_equal(f.fake.exit_code, -1); /* it is on its way */
            f.fake.role[3] = CULM_GNN_SERVER;
            culm_gnn_leader_actor.leads->ended(f.leader, 3, NULL);
            later(&f, 100);
            ended_with(&f, CULM_ERR_STOPPED,
                       "stopped while it waited for a server; there is no "
                       "checkpoint yet");
        }
        end(&f);
    }
}

/* The last epoch of two, with a run that ends with an evaluation. */
static void begin_evaluated(struct fixture *f) {
    struct culm_gnn_settings settings = settings_of(1, 2, 0);
    settings.pace.epochs = 2;
    settings.pace.eval_every = 9;
    settings.crew.wait_ms = 10000;
    begin_held_by_two(f, &settings);
    commits(f, 1);
}

/* It is not waited for: what was trained is saved, and the run says that it goes on. */
static void test_a_stop_before_the_last_evaluation(void **state) {
    (void)state;
    EXPECT_MARK(interval_stopped_before_the_last_evaluation);
    struct fixture f;
    begin_evaluated(&f);
    commits(&f, 2);
    saves(&f, 1);
    assert_null(fake_world_io(&f.fake)); /* the evaluation is still to come */
    culm_gnn_leader_actor.leads->stop(f.leader);
    did(&f, CULM_GNN_TASK_FINISH, CULM_OK);
    ended_with(&f, CULM_ERR_STOPPED, "stopped after epoch 2; continue with --resume");
    assert_int_equal(fake_world_events(&f.fake, "done"), 0);
    end(&f);
}

/* The same of one that comes in the last epoch. */
static void test_a_stop_in_the_last_epoch(void **state) {
    (void)state;
    struct fixture f;
    begin_evaluated(&f);
    culm_gnn_leader_actor.leads->stop(f.leader);
    says_saved(&f, 1, CULM_ERR_AGAIN);
    did(&f, CULM_GNN_TASK_DISCARD, CULM_OK);
    commits(&f, 2);
    saves(&f, 1);
    did(&f, CULM_GNN_TASK_FINISH, CULM_OK);
    ended_with(&f, CULM_ERR_STOPPED, "stopped after epoch 2; continue with --resume");
    assert_int_equal(fake_world_events(&f.fake, "done"), 0);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stop_saves_what_is_committed),
        cmocka_unit_test(test_a_stop_in_the_first_epoch),
        cmocka_unit_test(test_a_stop_that_comes_too_late_for_that),
        cmocka_unit_test(test_a_stop_before_the_last_evaluation),
        cmocka_unit_test(test_a_stop_in_the_last_epoch),
    };
    return cmocka_run_group_tests_name("interval/leader_stop", tests, NULL, NULL);
}
