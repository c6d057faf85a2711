/*
 * The coordinator alone: a step that the run ends with and that cannot be saved is held, tried again, saved in
 * part or elsewhere, and given up in the end. Workers, tasks and disks are played by the test.
 */
#include "coordinator_alive.h"

static void not_saved(struct fixture *f, int32_t node, int32_t attempt) {
    SAY(f, node, SAVED, saved, .version = 1, .attempt = attempt, .stage = node,
        .status = CULM_ERR_IO, .why = "no space left");
}

static void saved(struct fixture *f, int32_t node, int32_t attempt) {
    SAY(f, node, SAVED, saved, .version = 1, .attempt = attempt, .stage = node, .status = CULM_OK,
        .piece = "a piece");
}

/* The I/O that the coordinator has asked for, which has to be of this kind, is done so. */
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
    culm_coordinator_actor.job_done(f->c, &task->job);
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
    const struct culm_digests stated = {totals(f).view, totals(f).committed, 3, STAGES, digest};
    for (int32_t i = 0; i < f->next; i++) {
        culm_digests_encode(&stated, &f->buf);
        deliver(f, i, CULM_MSG_DIGESTS);
    }
}

/* Two workers without a shadow, one step, of which the last save has failed. */
static void begin_held(struct fixture *f) {
    struct culm_coordinator_options o = options(1);
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
    struct fixture f;
    begin_held(&f);
    io(&f, CULM_TASK_ROOM, CULM_OK, CULM_ROOM_NOTHING, "");
    culm_coordinator_actor.leads->stop(f.c);
    io(&f, CULM_TASK_ROOM, CULM_OK, CULM_ROOM_NOTHING, "");
    assert_int_equal(f.fake.exit_code, -1);
    wait(&f, 500);
    assert_int_equal(f.fake.exit_code, culm_status_exit_code(CULM_ERR_IO));
    end(&f);
}

/* The checkpoint is there: the model alone is waited for. */
static void test_the_model_waits_for_room(void **state) {
    (void)state;
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
    struct fixture f;
    struct culm_coordinator_options o = options(1);
    o.shape.redundancy = CULM_REDUNDANCY_NONE;
    begin(&f, o);
    run(&f);
    culm_coordinator_actor.leads->stop(f.c);
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
    struct fixture f;
    struct culm_coordinator_options o = options(1);
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
    struct culm_coordinator_options o = options(1);
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
    };
    return cmocka_run_group_tests_name("pipeline/coordinator_hold", tests, NULL, NULL);
}
