/*
 * A leader alone, which holds what could not be saved at the end: how often it is tried, and what is
 * said when it is given up.
 */
#include "expect_mark.h"
#include "leader_played.h"

/* Two epochs, with the second of which a stop ends the run: it cannot be saved, and is held. */
static void begin_held(struct fixture *f) {
    begin_saving(f, 0, 9);
    commits(f, 1);
    culm_gnn_leader_actor.leads->stop(f->leader);
    says_saved(f, 1, CULM_ERR_AGAIN); /* it has stepped to the second already */
    did(f, CULM_GNN_TASK_DISCARD, CULM_OK);
    commits(f, 2);
    assert_int_equal(saver_of(f, 2), 1);
    says_saved(f, 1, CULM_ERR_IO);
    looked(f, CULM_ROOM_NOTHING, "free 3 kB there");
    not_written(f, 2, "free 3 kB there");
    assert_int_equal(fake_world_events(&f->fake, "held"), 1);
    assert_int_equal(fake_world_events(&f->fake, "lost"), 0);
    assert_int_equal(f->fake.exit_code, -1);
}

/* It is saved as soon as that can be done, in the folder that is named; and so is the model. */
static void test_not_saved(void **state) {
    (void)state;
    EXPECT_MARK(interval_held);
    EXPECT_MARK(interval_last_checkpoint_not_written);
    EXPECT_MARK(interval_room_for_all);
    struct fixture f;
    begin_held(&f);
    fake_world_forget(&f.fake);
    later(&f, 1000);
    assert_int_equal(f.fake.io_count, 0);
    later(&f, 1500);
    did(&f, CULM_GNN_TASK_ROOM, CULM_OK);                          /* there is none */
    assert_int_equal(fake_world_events(&f.fake, "checkpoint"), 1); /* for another reason */
    assert_int_equal(fake_world_events(&f.fake, "held"), 0);
    later(&f, 2500);
    struct culm_gnn_task *room = task_of(&f, CULM_GNN_TASK_ROOM);
    assert_true(room->held);
    room->room = CULM_ROOM_ALL;
    snprintf(room->text, sizeof room->text, "/elsewhere");
    task_ends(&f, room, CULM_OK);
    struct culm_gnn_save save;
    assert_int_equal(order_of(&f, &save), 1);
    assert_string_equal(save.to, "/elsewhere");
    says_saved(&f, 1, CULM_OK);
    assert_string_equal(task_of(&f, CULM_GNN_TASK_PUBLISH)->text, "/elsewhere");
    end(&f);
}

/* There seems to be room, and it fails again: it waits then, and the reason is that of the failure. */
static void test_not_saved_though_there_is_room(void **state) {
    (void)state;
    struct fixture f;
    begin_saving(&f, 0, 1);
    commits(&f, 1);
    says_saved(&f, 1, CULM_ERR_IO);
    looked(&f, CULM_ROOM_ALL, "it fails there: see to it");
    assert_int_equal(fake_world_events(&f.fake, "held"), 0);
    says_saved(&f, 1, CULM_ERR_IO);
    looked(&f, CULM_ROOM_ALL, "it fails there: see to it");
    not_written(&f, 1, "the disk is full");
    assert_int_equal(fake_world_events(&f.fake, "held"), 1);
    assert_int_equal(f.fake.io_count, 0);
    end(&f);
}

/* The weights alone, once; what is left at the end is named. */
static void test_room_for_the_weights(void **state) {
    (void)state;
    EXPECT_MARK(interval_room_for_the_weights);
    EXPECT_MARK(interval_weights_not_written);
    EXPECT_MARK(interval_weights_alone_are_left);
    EXPECT_MARK(interval_held_for_too_long);
    EXPECT_MARK(interval_save_is_tried_again);
    struct fixture f;
    struct culm_gnn_save save;
    begin_saving(&f, 0, 1);
    commits(&f, 1);
    says_saved(&f, 1, CULM_ERR_IO);
    looked(&f, CULM_ROOM_WEIGHTS, "free 3 kB there");
    assert_int_equal(order_of(&f, &save), 1);
    assert_true(save.weights);
    says_saved(&f, 1, CULM_ERR_IO);
    did(&f, CULM_GNN_TASK_DISCARD, CULM_OK);
    assert_int_equal(f.fake.io_count, 0);
    later(&f, 2500);
    struct culm_gnn_task *room = task_of(&f, CULM_GNN_TASK_ROOM);
    room->room = CULM_ROOM_WEIGHTS;
    task_ends(&f, room, CULM_OK);
    says_saved(&f, 1, CULM_OK);
    struct culm_gnn_task *publish = task_of(&f, CULM_GNN_TASK_PUBLISH);
    assert_true(publish->weights_only);
    task_ends(&f, publish, CULM_OK);
    assert_int_equal(fake_world_events(&f.fake, "weights"), 1);
    for (int i = 0; i < 5 && f.fake.exit_code == -1; i++) {
        later(&f, 2500);
        if (f.fake.exit_code == -1) {
            room = task_of(&f, CULM_GNN_TASK_ROOM);
            room->room = CULM_ROOM_WEIGHTS; /* which are there */
            task_ends(&f, room, CULM_OK);
        }
    }
    ended_with(&f, CULM_ERR_IO, "; its weights alone are 'file', and --resume begins anew");
    end(&f);
}

/* A try that is under way is waited for, however long it takes, and not made twice: neither by time nor by a
 * stop that comes meanwhile. */
static void test_a_slow_save_is_waited_for(void **state) {
    (void)state;
    EXPECT_MARK(interval_stopped_while_held);
    EXPECT_MARK(interval_model_not_written);
    EXPECT_MARK(interval_model_is_tried_again);
    struct fixture f;
    begin_held(&f);
    later(&f, 2500);
    struct culm_gnn_task *room = task_of(&f, CULM_GNN_TASK_ROOM);
    room->room = CULM_ROOM_ALL;
    task_ends(&f, room, CULM_OK);
    later(&f, 20000); /* beyond wait_ms */
    culm_gnn_leader_actor.leads->stop(f.leader);
    later(&f, 20000);
    assert_int_equal(f.fake.io_count, 0);
    assert_int_equal(f.fake.exit_code, -1);
    saves(&f, 1);
    did(&f, CULM_GNN_TASK_FINISH, CULM_ERR_IO);
    later(&f, 2500);
    struct culm_gnn_task *finish =
        task_of(&f, CULM_GNN_TASK_FINISH); /* the model is written again */
    culm_gnn_leader_actor.leads->stop(f.leader);
    later(&f, 20000);
    assert_int_equal(f.fake.io_count, 0);
    assert_int_equal(f.fake.exit_code, -1);
    task_ends(&f, finish, CULM_OK);
    assert_int_equal(f.fake.exit_code, culm_status_exit_code(CULM_ERR_STOPPED));
    f.fake.exit_code = -1;
    end(&f);
}

/* All parameter servers are lost while the last version is held: a server has it, and saves it. */
static void test_a_server_saves_what_is_held(void **state) {
    (void)state;
    EXPECT_MARK(interval_server_stays_a_holder);
    struct fixture f;
    begin_held(&f);
    lost(&f, 1);
    holds(&f, 0, 2);
    lost(&f, 2);
    later(&f, 2500);
    struct culm_gnn_task *room = task_of(&f, CULM_GNN_TASK_ROOM);
    room->room = CULM_ROOM_ALL;
    task_ends(&f, room, CULM_OK);
    saves(&f, 0);
    assert_int_equal(f.fake.io_count, 1);
    end(&f);
}

/* After wait_ms the run ends; whoever launched it says what the stop has lost. */
static void test_never_saved(void **state) {
    (void)state;
    EXPECT_MARK(interval_held_and_stopped);
    struct fixture f;
    begin_held(&f);
    for (int i = 0; i < 5 && f.fake.exit_code < 0; i++) {
        later(&f, 2500);
        if (f.fake.exit_code < 0) {
            did(&f, CULM_GNN_TASK_ROOM, CULM_OK);
        }
    }
    assert_int_equal(f.fake.exit_code, culm_status_exit_code(CULM_ERR_STOPPED));
    assert_int_equal(fake_world_events(&f.fake, "done"), 0);
    f.fake.exit_code = -1;
    end(&f);
}

/* It says where a resumed run goes on. */
static void test_a_last_checkpoint_is_given_up(void **state) {
    (void)state;
    EXPECT_MARK(interval_last_checkpoint_is_given_up);
    for (int saved = 0; saved < 2; saved++) {
        struct fixture f;
        begin_saving(&f, saved, 1 + saved);
        if (saved) {
            commits(&f, 1);
            saves(&f, 1);
        }
        commits(&f, 1 + saved);
        says_saved(&f, 1, CULM_ERR_IO);
        looked(&f, CULM_ROOM_NOTHING, "free 3 kB there");
        later(&f, 20000);
        ended_with(&f, CULM_ERR_IO,
                   saved ? "the last checkpoint could not be written: free 3 kB there; --resume "
                           "goes on from epoch 1"
                         : "the last checkpoint could not be written: free 3 kB there; --resume "
                           "begins anew");
        end(&f);
    }
}

static void test_what_cannot_pass_is_not_waited_for(void **state) {
    (void)state;
    EXPECT_MARK(interval_hold_is_no_use);
    struct fixture f;
    begin_saving(&f, 0, 1);
    commits(&f, 1);
    says_saved(&f, 1, CULM_ERR_CONFIG);
    ended_with(&f, CULM_ERR_CONFIG, "the last checkpoint could not be written");
    end(&f);
}

static void test_a_model_is_given_up(void **state) {
    (void)state;
    EXPECT_MARK(interval_model_is_given_up);
    struct fixture f;
    begin_saving(&f, 0, 1);
    commits(&f, 1);
    saves(&f, 1);
    for (int i = 0; i < 5 && f.fake.exit_code == -1; i++) {
        did(&f, CULM_GNN_TASK_FINISH, CULM_ERR_IO);
        later(&f, 2500);
    }
    ended_with(&f, CULM_ERR_IO, "write the final model: the disk is full");
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_not_saved),
        cmocka_unit_test(test_not_saved_though_there_is_room),
        cmocka_unit_test(test_room_for_the_weights),
        cmocka_unit_test(test_a_slow_save_is_waited_for),
        cmocka_unit_test(test_a_server_saves_what_is_held),
        cmocka_unit_test(test_never_saved),
        cmocka_unit_test(test_a_last_checkpoint_is_given_up),
        cmocka_unit_test(test_what_cannot_pass_is_not_waited_for),
        cmocka_unit_test(test_a_model_is_given_up),
    };
    return cmocka_run_group_tests_name("interval/leader_hold", tests, NULL, NULL);
}
