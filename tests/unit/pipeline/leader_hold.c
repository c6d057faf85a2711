/*
 * The leader alone: a step that the run ends with and that cannot be saved is held, tried again, saved in
 * part or elsewhere, and given up in the end. Workers, tasks and disks are played by the test.
 */
#include "expect_mark.h"
#include "leader_alive.h"

static void not_saved(struct fixture *f, int32_t node, int32_t attempt) {
    SAY(f, node, SAVED, saved, .version = 1, .attempt = attempt, .stage = node,
        .status = CULM_ERR_IO, .why = "no space left");
}

static void saved(struct fixture *f, int32_t node, int32_t attempt) {
    SAY(f, node, SAVED, saved, .version = 1, .attempt = attempt, .stage = node, .status = CULM_OK,
        .piece = "a piece");
}

/* The I/O that the leader has asked for, which has to be of this kind, is done so. */
static void io(struct fixture *f, enum culm_task_kind kind, enum culm_status status,
               enum culm_room_for room, const char *text) {
    struct culm_task *task = fake_world_io(&f->fake);
    assert_non_null(task);
    assert_int_equal(task->kind, kind);
    task->room = room;
    snprintf(task->text, sizeof task->text, "%s", text);
    task->job.status = status;
    if (status != CULM_OK) {
        snprintf(task->job.error.text, sizeof task->job.error.text, "no space left");
    } else if (kind == CULM_TASK_ROOM) {
        snprintf(task->note, sizeof task->note, "free 7 MB");
    }
    culm_pipeline_leader_actor.job_done(f->c, &task->job);
}

static struct culm_save ordered(struct fixture *f, int32_t node) {
    struct culm_save save = {0};
    const struct fake_sent *sent = fake_world_last(&f->fake, node, CULM_MSG_SAVE);
    assert_non_null(sent);
    assert_int_equal(culm_save_decode(sent->meta, sent->meta_bytes, &save), CULM_OK);
    return save;
}

/* All have taken the step that was committed. */
static void stepped(struct fixture *f) {
    uint64_t digest[STAGES] = {7, 7};
    const struct culm_digests stated = {totals(f).view, totals(f).committed, {{3}}, STAGES, STAGES,
                                        digest};
    for (int32_t i = 0; i < f->next; i++) {
        culm_digests_encode(&stated, &f->buf);
        deliver(f, i, CULM_MSG_DIGESTS);
    }
}

/* Two workers without a shadow, one step, of which the last save has failed. */
static void begin_held(struct fixture *f) {
    struct culm_pipeline_leader_options o = options(1);
    o.shape.redundancy = CULM_REDUNDANCY_NONE;
    o.shape.steps = 1;
    begin(f, o);
    run(f);
    commit(f);
    stepped(f);
    assert_int_equal(fake_world_sent(&f->fake, 0, CULM_MSG_SAVE), 1);
    saved(f, 0, 1);
    not_saved(f, 1, 1);
    assert_int_equal(f->fake.exit_code, -1);
    assert_int_equal(fake_world_events(&f->fake, "checkpoint"), 1);
    io(f, CULM_TASK_DISCARD, CULM_OK, 0, "");
}

static void wait(struct fixture *f, int64_t ms) {
    for (int64_t gone = 0; gone < ms && f->fake.exit_code < 0; gone += 100) {
        beat(f, 0, -1, 0, 0);
        beat(f, 1, -1, 0, 0);
        tick(f, 100);
    }
}

static void finishes(struct fixture *f) {
    io(f, CULM_TASK_FINISH, CULM_OK, 0, "");
    assert_int_equal(f->fake.exit_code, 0);
    assert_int_equal(totals(f).losses, 0);
    end(f);
}

static void test_a_finished_run_waits_for_room(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_held);
    EXPECT_MARK(pipeline_room_for_all);
    EXPECT_MARK(pipeline_save_of_what_is_held);
    struct fixture f;
    begin_held(&f);
    for (int32_t i = 0; i < 5; i++) { /* seconds in which nothing but room is looked for */
        io(&f, CULM_TASK_ROOM, CULM_OK, CULM_ROOM_NOTHING, "");
        assert_int_equal(fake_world_sent(&f.fake, 0, CULM_MSG_SAVE), 1);
        wait(&f, 2200);
    }
    assert_int_equal(fake_world_events(&f.fake, "held"), 1); /* and told of once */
    assert_string_equal(
        json_string_value(json_object_get(fake_world_told(&f.fake, "held"), "message")),
        "free 7 MB");
    io(&f, CULM_TASK_ROOM, CULM_OK, CULM_ROOM_ALL, "");
    assert_int_equal(ordered(&f, 0).attempt, 2);
    assert_false(ordered(&f, 0).weights);
    saved(&f, 0, 2);
    saved(&f, 1, 2);
    io(&f, CULM_TASK_PUBLISH, CULM_OK, 0, "path");
    finishes(&f);
}

static void test_weights_alone_if_only_they_fit(void **state) {
    (void)state;
    struct fixture f;
    begin_held(&f);
    io(&f, CULM_TASK_ROOM, CULM_OK, CULM_ROOM_WEIGHTS, "");
    assert_true(ordered(&f, 0).weights);
    saved(&f, 0, 2);
    saved(&f, 1, 2);
    io(&f, CULM_TASK_PUBLISH, CULM_OK, 0, "weights-step-1");
    assert_int_equal(fake_world_events(&f.fake, "weights"), 1);
    assert_int_equal(f.fake.exit_code, -1); /* which is not all of it */
    wait(&f, 2200);
    io(&f, CULM_TASK_ROOM, CULM_OK, CULM_ROOM_WEIGHTS, "");
    assert_int_equal(fake_world_sent(&f.fake, 0, CULM_MSG_SAVE), 2); /* once is enough */
    wait(&f, 2200);
    io(&f, CULM_TASK_ROOM, CULM_OK, CULM_ROOM_ALL, "");
    saved(&f, 0, 3);
    saved(&f, 1, 3);
    io(&f, CULM_TASK_PUBLISH, CULM_OK, 0, "path");
    finishes(&f);
}

/* There seems to be room, and writing fails all the same, as with a quota. */
static void test_weights_alone_if_all_of_it_fails_again(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_held_though_there_is_room);
    EXPECT_MARK(pipeline_hold_waits_for_writers);
    EXPECT_MARK(pipeline_weights_alone_are_tried);
    EXPECT_MARK(pipeline_piece_of_a_save_given_up);
    struct fixture f;
    begin_held(&f);
    io(&f, CULM_TASK_ROOM, CULM_OK, CULM_ROOM_ALL, "");
    not_saved(&f, 1, 2);
    saved(&f, 0, 2);
    io(&f, CULM_TASK_DISCARD, CULM_OK, 0, "");
    assert_true(ordered(&f, 1).weights);
    assert_int_equal(fake_world_events(&f.fake, "held"), 1);
    not_saved(&f, 0, 3);
    not_saved(&f, 1, 3);
    io(&f, CULM_TASK_DISCARD, CULM_OK, 0, "");
    assert_int_equal(fake_world_sent(&f.fake, 1, CULM_MSG_SAVE), 3); /* not before a while */
    wait(&f, 2200);
    io(&f, CULM_TASK_ROOM, CULM_OK, CULM_ROOM_ALL, "");
    saved(&f, 0, 4);
    saved(&f, 1, 4);
    io(&f, CULM_TASK_PUBLISH, CULM_OK, 0, "path");
    finishes(&f);
}

static void test_a_folder_that_was_named(void **state) {
    (void)state;
    struct fixture f;
    begin_held(&f);
    io(&f, CULM_TASK_ROOM, CULM_OK, CULM_ROOM_ALL, "/elsewhere");
    assert_string_equal(ordered(&f, 0).to, "/elsewhere");
    assert_string_equal(ordered(&f, 1).to, "/elsewhere");
    saved(&f, 0, 2);
    saved(&f, 1, 2);
    assert_string_equal(((struct culm_task *)f.fake.io[0])->text, "/elsewhere");
    io(&f, CULM_TASK_PUBLISH, CULM_OK, 0, "path");
    finishes(&f);
}

static void test_room_is_waited_for_no_longer_than_wait_ms(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_last_checkpoint_is_given_up);
    struct fixture f;
    begin_held(&f);
    for (int i = 0; i < 400 && f.fake.exit_code < 0; i++) {
        if (f.fake.io_count > 0) {
            io(&f, CULM_TASK_ROOM, CULM_OK, CULM_ROOM_NOTHING, "");
        }
        wait(&f, 2200);
        if (i % 10 == 9) {
            fake_world_forget(&f.fake);
        }
    }
    assert_int_equal(f.fake.exit_code, culm_status_exit_code(CULM_ERR_IO));
    assert_non_null(
        strstr(f.fake.error, "the last checkpoint could not be written: no space left"));
    end(&f);
}

/* Whoever stops a run that is done and waits has it end, after one more try. */
static void test_a_stop_ends_the_waiting(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_stopped_while_held);
    struct fixture f;
    begin_held(&f);
    io(&f, CULM_TASK_ROOM, CULM_OK, CULM_ROOM_NOTHING, "");
    culm_pipeline_leader_actor.leads->stop(f.c);
    io(&f, CULM_TASK_ROOM, CULM_OK, CULM_ROOM_NOTHING, "");
    assert_int_equal(f.fake.exit_code, -1);
    wait(&f, 500);
    assert_int_equal(f.fake.exit_code, culm_status_exit_code(CULM_ERR_IO));
    end(&f);
}

/* The checkpoint is there: the model alone is waited for. */
static void test_the_model_waits_for_room(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_model_not_written);
    EXPECT_MARK(pipeline_model_waits_for_room);
    EXPECT_MARK(pipeline_save_while_not_running);
    struct fixture f;
    begin_held(&f);
    io(&f, CULM_TASK_ROOM, CULM_OK, CULM_ROOM_ALL, "");
    saved(&f, 0, 2);
    saved(&f, 1, 2);
    io(&f, CULM_TASK_PUBLISH, CULM_OK, 0, "path");
    fake_world_forget(&f.fake);
    io(&f, CULM_TASK_FINISH, CULM_ERR_IO, 0, "");
    assert_int_equal(f.fake.exit_code, -1);
    assert_int_equal(fake_world_events(&f.fake, "held"), 1);
    wait(&f, 2200);
    io(&f, CULM_TASK_FINISH, CULM_ERR_IO, 0, "");
    wait(&f, 2200);
    assert_int_equal(fake_world_events(&f.fake, "held"), 1);
    finishes(&f);
}

/* A model that can never be written is nothing to wait for. */
static void test_what_cannot_pass_is_not_waited_for(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_hold_is_no_use);
    EXPECT_MARK(pipeline_model_is_given_up);
    struct fixture f;
    begin_held(&f);
    io(&f, CULM_TASK_ROOM, CULM_OK, CULM_ROOM_ALL, "");
    saved(&f, 0, 2);
    saved(&f, 1, 2);
    io(&f, CULM_TASK_PUBLISH, CULM_OK, 0, "path");
    io(&f, CULM_TASK_FINISH, CULM_ERR_CONFIG, 0, "");
    assert_int_equal(f.fake.exit_code, culm_status_exit_code(CULM_ERR_CONFIG));
    end(&f);
}

/* A stop that finds no room holds the step, commits no other, and ends as one that lost it. */
static void test_a_stop_without_room(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_held_and_stopped);
    struct fixture f;
    struct culm_pipeline_leader_options o = options(1);
    o.shape.redundancy = CULM_REDUNDANCY_NONE;
    begin(&f, o);
    run(&f);
    culm_pipeline_leader_actor.leads->stop(f.c);
    commit(&f);
    stepped(&f);
    saved(&f, 0, 1);
    not_saved(&f, 1, 1);
    io(&f, CULM_TASK_DISCARD, CULM_OK, 0, "");
    io(&f, CULM_TASK_ROOM, CULM_OK, CULM_ROOM_NOTHING, "");
    prepare(&f);
    assert_int_equal(totals(&f).committed, 1);
    for (int i = 0; i < 400 && f.fake.exit_code < 0; i++) {
        wait(&f, 2200);
        if (f.fake.io_count > 0) {
            io(&f, CULM_TASK_ROOM, CULM_OK, CULM_ROOM_NOTHING, "");
        }
        if (i % 10 == 9) {
            fake_world_forget(&f.fake);
        }
    }
    assert_int_equal(f.fake.exit_code, 75); /* the launcher says what is lost */
    end(&f);
}

/* One that may be missed is given up, others give way, and the next step is saved in its place. */
static void test_older_ones_give_way_to_the_next_step(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_piece_not_written);
    struct fixture f;
    struct culm_pipeline_leader_options o = options(1);
    o.shape.redundancy = CULM_REDUNDANCY_NONE;
    o.settings.checkpoint_every = 1000;
    o.start_step = 999;
    o.shape.steps = 2000;
    begin(&f, o);
    run(&f);
    commit(&f);
    SAY(&f, 1, SAVED, saved, .version = 1000, .attempt = 1, .stage = 1, .status = CULM_ERR_IO,
        .why = "no space left");
    assert_int_equal(f.fake.io_count, 0); /* while another still writes */
    SAY(&f, 0, SAVED, saved, .version = 1000, .attempt = 1, .stage = 0, .status = CULM_OK,
        .piece = "a piece");
    io(&f, CULM_TASK_DISCARD, CULM_OK, 0, "");
    io(&f, CULM_TASK_ROOM, CULM_OK, CULM_ROOM_ALL, "");
    assert_int_equal(fake_world_sent(&f.fake, 0, CULM_MSG_SAVE), 1);
    assert_int_equal(fake_world_events(&f.fake, "warning"), 1);
    commit(&f);
    assert_int_equal(ordered(&f, 0).version, 1001);
    commit(&f);
    assert_int_equal(ordered(&f, 0).version, 1001);
    end(&f);
}

/* None gives way for what room does not help. */
static void test_no_checkpoint_gives_way_for_memory(void **state) {
    (void)state;
    struct fixture f;
    struct culm_pipeline_leader_options o = options(1);
    o.shape.redundancy = CULM_REDUNDANCY_NONE;
    o.settings.checkpoint_every = 1000;
    o.start_step = 999;
    o.shape.steps = 2000;
    begin(&f, o);
    run(&f);
    commit(&f);
    SAY(&f, 1, SAVED, saved, .version = 1000, .attempt = 1, .stage = 1, .status = CULM_ERR_MEMORY,
        .why = "out of memory");
    SAY(&f, 0, SAVED, saved, .version = 1000, .attempt = 1, .stage = 0, .status = CULM_OK,
        .piece = "a piece");
    io(&f, CULM_TASK_DISCARD, CULM_OK, 0, "");
    assert_int_equal(f.fake.io_count, 0);
    end(&f);
}

/* --- pieces and files that fail --- */

/* The weights alone fit, and all of it never does. */
static void test_weights_alone_are_what_is_left(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_weights_alone_are_left);
    EXPECT_MARK(pipeline_room_for_the_weights);
    EXPECT_MARK(pipeline_held_for_too_long);
    struct fixture f;
    begin_held(&f);
    io(&f, CULM_TASK_ROOM, CULM_OK, CULM_ROOM_WEIGHTS, "");
    saved(&f, 0, 2);
    saved(&f, 1, 2);
    io(&f, CULM_TASK_PUBLISH, CULM_OK, 0, "weights-step-1");
    for (int i = 0; i < 400 && f.fake.exit_code < 0; i++) {
        wait(&f, 2200);
        if (f.fake.io_count > 0) {
            io(&f, CULM_TASK_ROOM, CULM_OK, CULM_ROOM_NOTHING, "");
        }
        fake_world_forget(&f.fake);
    }
    assert_int_equal(f.fake.exit_code, culm_status_exit_code(CULM_ERR_IO));
    assert_non_null(strstr(f.fake.error, "its weights alone are 'weights-step-1'"));
    end(&f);
}

/* A run with shadows is stopped, and its last step committed. */
static void begin_stopped(struct fixture *f) {
    begin(f, options(1));
    run(f);
    culm_pipeline_leader_actor.leads->stop(f->c);
    commit(f);
    stepped(f);
    assert_int_equal(fake_world_sent(&f->fake, 1, CULM_MSG_SAVE), 1);
}

static void said(struct fixture *f, int32_t node, int32_t stage, enum culm_status status) {
    if (status == CULM_OK) {
        SAY(f, node, SAVED, saved, .version = 1, .attempt = 1, .stage = stage, .status = CULM_OK,
            .piece = "a piece");
    } else {
        SAY(f, node, SAVED, saved, .version = 1, .attempt = 1, .stage = stage, .status = status,
            .why = "no space left");
    }
}

static void test_another_writes_the_piece_of_a_lost_one(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_writer_lost_another_writes);
    struct fixture f;
    begin_stopped(&f);
    lost(&f, 1);
    assert_int_equal(ordered(&f, 0).stage, 1);
    said(&f, 0, 0, CULM_OK);
    said(&f, 0, 1, CULM_OK);
    io(&f, CULM_TASK_PUBLISH, CULM_OK, 0, "path");
    assert_int_equal(f.fake.exit_code, 75);
    end(&f);
}

/* Node 1 cannot write its piece, and node 0, which was to write it then, is lost. */
static void test_a_piece_that_nobody_is_left_to_write(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_piece_has_no_writer);
    EXPECT_MARK(pipeline_piece_is_tried_by_another);
    struct fixture f;
    begin_stopped(&f);
    said(&f, 1, 1, CULM_ERR_IO);
    assert_int_equal(ordered(&f, 0).stage, 1);
    lost(&f, 0);
    assert_int_equal(f.fake.exit_code, -1); /* the step is held */
    const json_t *event = fake_world_told(&f.fake, "checkpoint");
    assert_non_null(event);
    assert_string_equal(json_string_value(json_object_get(event, "message")),
                        "no worker is left that could write stage 1");
    end(&f);
}

static void test_a_last_checkpoint_that_cannot_be_published_is_held(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_last_checkpoint_not_published);
    EXPECT_MARK(pipeline_held);
    struct fixture f;
    begin_stopped(&f);
    said(&f, 0, 0, CULM_OK);
    said(&f, 1, 1, CULM_OK);
    io(&f, CULM_TASK_PUBLISH, CULM_ERR_IO, 0, "");
    assert_int_equal(f.fake.exit_code, -1);
    io(&f, CULM_TASK_DISCARD, CULM_OK, 0, "");
    io(&f, CULM_TASK_ROOM, CULM_OK, CULM_ROOM_ALL, "");
    assert_int_equal(ordered(&f, 0).attempt, 2);
    end(&f);
}

/* Lost after the last commit: it had nothing left to do, and that is told with the end. */
static void test_one_lost_during_the_last_save_is_recovered(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_recovered_at_the_end);
    struct fixture f;
    struct culm_pipeline_leader_options o = options(1);
    o.shape.steps = 1;
    begin(&f, o);
    run(&f);
    commit(&f);
    stepped(&f);
    lost(&f, 1);
    said(&f, 0, 0, CULM_OK);
    said(&f, 0, 1, CULM_OK);
    io(&f, CULM_TASK_PUBLISH, CULM_OK, 0, "path");
    assert_int_equal(fake_world_events(&f.fake, "recovered"), 0);
    io(&f, CULM_TASK_FINISH, CULM_OK, 0, "");
    assert_int_equal(fake_world_events(&f.fake, "recovered"), 1);
    assert_int_equal(f.fake.exit_code, 0);
    end(&f);
}

/* --- checkpoints that a run can do without --- */

/* Every step is to be saved, and the first is being saved. */
static void begin_saving(struct fixture *f) {
    struct culm_pipeline_leader_options o = options(1);
    o.shape.redundancy = CULM_REDUNDANCY_NONE;
    o.settings.checkpoint_every = 1;
    begin(f, o);
    run(f);
    commit(f);
    stepped(f);
}

static void test_a_checkpoint_is_left_out_if_the_one_before_takes_long(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_save_is_left_out);
    struct fixture f;
    begin_saving(&f);
    commit(&f);
    assert_int_equal(fake_world_sent(&f.fake, 0, CULM_MSG_SAVE), 1);
    assert_int_equal(fake_world_events(&f.fake, "checkpoint"), 1);
    end(&f);
}

static void test_a_checkpoint_that_cannot_be_published_is_missed(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_checkpoint_not_published);
    EXPECT_MARK(pipeline_older_checkpoints_give_way);
    EXPECT_MARK(pipeline_save_waits_for_room_being_made);
    struct fixture f;
    begin_saving(&f);
    said(&f, 0, 0, CULM_OK);
    said(&f, 1, 1, CULM_OK);
    io(&f, CULM_TASK_PUBLISH, CULM_ERR_IO, 0, "");
    commit(&f); /* while room is being made: the next one is saved */
    assert_int_equal(fake_world_sent(&f.fake, 0, CULM_MSG_SAVE), 1);
    io(&f, CULM_TASK_ROOM, CULM_OK, CULM_ROOM_ALL, "");
    commit(&f);
    assert_int_equal(ordered(&f, 0).version, 3);
    end(&f);
}

/* Two workers of which each holds all; the checkpoint of step 4 is being written. */
static void begin_writing(struct fixture *f) {
    struct culm_pipeline_leader_options o = options(1);
    o.settings.checkpoint_every = 4;
    begin(f, o);
    run(f);
    for (int32_t i = 0; i < 4; i++) {
        commit(f);
    }
    assert_int_equal(ordered(f, 0).version, 4);
}

static void test_a_checkpoint_whose_writer_is_lost_is_due_again(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_writer_lost_gives_up_a_save);
    struct fixture f;
    begin_writing(&f);
    lost(&f, 1);
    assert_int_equal(fake_world_events(&f.fake, "checkpoint"), 1); /* given up, */
    f.next = 1;
    commit(&f);
    assert_int_equal(ordered(&f, 0).version, 4); /* and being removed; */
    io(&f, CULM_TASK_DISCARD, CULM_OK, 0, "");
    commit(&f); /* this one is saved in its place, */
    assert_int_equal(ordered(&f, 0).version, 6);
    stepped(&f);
    SAY(&f, 0, SAVED, saved, .version = 6, .attempt = 2, .stage = 0, .piece = "a piece");
    SAY(&f, 0, SAVED, saved, .version = 6, .attempt = 2, .stage = 1, .piece = "a piece");
    io(&f, CULM_TASK_PUBLISH, CULM_OK, 0, "path");
    commit(&f); /* and no other */
    assert_int_equal(ordered(&f, 0).version, 6);
    end(&f);
}

/* Another one is due while older ones are to give way, and there is no room. */
static void test_a_checkpoint_that_waits_for_room_stays_due(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_save_waits_for_room_being_made);
    struct fixture f;
    begin_writing(&f);
    stepped(&f);
    SAY(&f, 0, SAVED, saved, .version = 4, .attempt = 1, .stage = 0, .piece = "a piece");
    SAY(&f, 1, SAVED, saved, .version = 4, .attempt = 1, .stage = 1, .piece = "a piece");
    io(&f, CULM_TASK_PUBLISH, CULM_ERR_IO, 0, "");
    for (int32_t i = 0; i < 4; i++) {
        commit(&f);
    }
    io(&f, CULM_TASK_ROOM, CULM_OK, CULM_ROOM_NOTHING, "");
    assert_int_equal(ordered(&f, 0).version, 4);
    commit(&f);
    assert_int_equal(ordered(&f, 0).version, 9);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_finished_run_waits_for_room),
        cmocka_unit_test(test_weights_alone_if_only_they_fit),
        cmocka_unit_test(test_weights_alone_if_all_of_it_fails_again),
        cmocka_unit_test(test_a_folder_that_was_named),
        cmocka_unit_test(test_room_is_waited_for_no_longer_than_wait_ms),
        cmocka_unit_test(test_a_stop_ends_the_waiting),
        cmocka_unit_test(test_the_model_waits_for_room),
        cmocka_unit_test(test_what_cannot_pass_is_not_waited_for),
        cmocka_unit_test(test_a_stop_without_room),
        cmocka_unit_test(test_older_ones_give_way_to_the_next_step),
        cmocka_unit_test(test_no_checkpoint_gives_way_for_memory),
        cmocka_unit_test(test_weights_alone_are_what_is_left),
        cmocka_unit_test(test_another_writes_the_piece_of_a_lost_one),
        cmocka_unit_test(test_a_piece_that_nobody_is_left_to_write),
        cmocka_unit_test(test_a_last_checkpoint_that_cannot_be_published_is_held),
        cmocka_unit_test(test_one_lost_during_the_last_save_is_recovered),
        cmocka_unit_test(test_a_checkpoint_is_left_out_if_the_one_before_takes_long),
        cmocka_unit_test(test_a_checkpoint_that_cannot_be_published_is_missed),
        cmocka_unit_test(test_a_checkpoint_whose_writer_is_lost_is_due_again),
        cmocka_unit_test(test_a_checkpoint_that_waits_for_room_stays_due),
    };
    return cmocka_run_group_tests_name("pipeline/leader_hold", tests, NULL, NULL);
}
