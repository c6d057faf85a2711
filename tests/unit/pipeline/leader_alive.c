/*
 * The leader alone: runs go on while they can, and end with one line when they cannot.
 * Workers, tasks and disks are played by the test.
 */
#include "leader_alive.h"
#include "expect_mark.h"

#include "crew/patience.h"
#include "pipeline/waits.h"

/* --- tasks that take long --- */

static void test_nobody_is_tried_again_under_a_limit_that_failed(void **state) {
    (void)state;
    EXPECT_MARK(crew_stuck_is_lost);
    struct fixture f;
    begin(&f, options(1));
    run(&f);
    beat(&f, 1, CULM_TASK_BACKWARD, 1, STUCK_MS + 1);
    beat(&f, 0, -1, 0, 0);
    tick(&f, 100);
    assert_int_equal(totals(&f).losses, 1);
    assert_int_equal(fake_world_events(&f.fake, "lost"), 1);
    /* Its successor has the same to do, and twice the time; another kind has not. */
    f.fake.now_ns += 2 * STUCK_MS * MS;
    beat(&f, 0, CULM_TASK_BACKWARD, 1, 2 * STUCK_MS);
    tick(&f, 100);
    assert_int_equal(totals(&f).losses, 1);
    SAY_WORD(&f, 0, TOOK, took, .kind = CULM_TASK_BACKWARD, .part = 1, .task_ms = 2 * STUCK_MS);
    beat(&f, 0, CULM_TASK_BACKWARD, 1, CULM_PATIENCE_FACTOR * 2 * STUCK_MS);
    tick(&f, 100);
    assert_int_equal(totals(&f).losses, 1);
    beat(&f, 0, CULM_TASK_BACKWARD, 0, STUCK_MS + 1);
    tick(&f, 100);
    assert_int_equal(totals(&f).losses, 2);
    end(&f);
}

/* All of them hang: they are one try. */
static void test_those_who_hang_together_go_together(void **state) {
    (void)state;
    struct fixture f;
    begin(&f, options(2));
    run(&f);
    for (int64_t ms = 100; ms <= (STUCK_MS + 100) * 2 + 100; ms += 100) {
        for (int32_t i = 0; i < 4; i++) {
            beat(&f, i, CULM_TASK_DROP, 0, ms);
        }
        tick(&f, 100);
        assert_int_equal(totals(&f).losses, ms <= STUCK_MS               ? 0
                                            : ms <= (STUCK_MS + 100) * 2 ? 1
                                                                         : 4);
    }
    assert_int_equal(f.fake.exit_code, -1);
    end(&f);
}

static void test_a_task_that_nobody_finishes_ends_the_run(void **state) {
    (void)state;
    EXPECT_MARK(crew_nobody_finishes_a_task);
    struct fixture f;
    begin(&f, options(1));
    int64_t limit = STUCK_MS;
    int32_t tried = 0;
    for (; tried < 50 && f.fake.exit_code < 0; tried++) {
        join(&f);
        loaded(&f);
        f.fake.now_ns += (uint64_t)limit * MS + MS;
        beat(&f, f.next - 1, CULM_TASK_FORWARD, 0, limit + 1);
        for (int32_t i = 0; i < f.next - 1; i++) {
            beat(&f, i, -1, 0, 0);
        }
        tick(&f, 100);
        limit = 2 * (limit + 1);
        lost(&f, f.next - 1);
        fake_world_forget(&f.fake);
        tick(&f, 100);
    }
    assert_int_equal(tried, CULM_PATIENCE_TRIES);
    assert_int_equal(f.fake.exit_code, culm_status_exit_code(CULM_ERR_TIMEOUT));
    assert_non_null(strstr(f.fake.error, "a forward task of stage 0"));
    assert_non_null(strstr(f.fake.error, "300 ms"));
    assert_non_null(strstr(f.fake.error, "cluster.stuck_ms"));
    assert_null(strchr(f.fake.error, '\n'));
    end(&f);
}

static void test_a_run_that_commits_is_not_ended_by_stuck_workers(void **state) {
    (void)state;
    EXPECT_MARK(crew_leader_slept);
    EXPECT_MARK(crew_suspect_may_wake);
    struct fixture f;
    begin(&f, options(1));
    int64_t limit = STUCK_MS;
    run(&f);
    for (int32_t tried = 0; tried < 3 * CULM_PATIENCE_TRIES; tried++) {
        int32_t last = f.next - 1;
        f.fake.now_ns += (uint64_t)limit * MS + MS;
        beat(&f, last, CULM_TASK_SAVE, 0, limit + 1);
        for (int32_t i = 0; i < last; i++) {
            beat(&f, i, -1, 0, 0);
        }
        tick(&f, 100);
        limit = 2 * (limit + 1);
        commit(&f);
        join(&f);
        struct culm_pipeline_leader_totals now = totals(&f);
        for (int32_t id = 1; now.transfers > 0 && id < 200; id++) {
            SAY(&f, f.next - 1, JOINED, joined, .version = now.committed, .transfer = id);
        }
        fake_world_forget(&f.fake);
    }
    assert_int_equal(f.fake.exit_code, -1);
    assert_int_equal(totals(&f).losses, 3 * CULM_PATIENCE_TRIES);
    end(&f);
}

/* --- one worker's trouble --- */

static void fails(struct fixture *f, int32_t node, enum culm_status status) {
    SAY_WORD(f, node, FAILED, failed, .status = status, .why = "a copied tensor is damaged");
    lost(f, node);
}

static void test_a_worker_that_fails_is_a_loss(void **state) {
    (void)state;
    EXPECT_MARK(crew_failed_may_leave);
    struct fixture f;
    begin(&f, options(1));
    run(&f);
    int32_t spawned = f.fake.started;
    fails(&f, 1, CULM_ERR_FORMAT);
    assert_int_equal(f.fake.exit_code, -1);
    assert_int_equal(totals(&f).losses, 1);
    assert_int_equal(f.fake.ended, 0); /* it ends by itself, and says why in its log */
    tick(&f, 100);
    assert_int_equal(f.fake.started, spawned + 1);
    for (int i = 0; i < 10; i++) { /* and with progress in between they are no more than losses */
        commit(&f);
        join(&f);
        fails(&f, f.next - 1, CULM_ERR_FORMAT);
        beat(&f, 0, -1, 0, 0);
        tick(&f, 100);
        fake_world_forget(&f.fake);
    }
    assert_int_equal(f.fake.exit_code, -1);
    end(&f);
}

static void test_what_fails_everywhere_ends_the_run(void **state) {
    (void)state;
    EXPECT_MARK(crew_failed_too_often);
    struct fixture f;
    begin(&f, options(2));
    run(&f);
    fails(&f, 0, CULM_ERR_IO);
    fails(&f, 1, CULM_ERR_MEMORY);
    fails(&f, 2, CULM_ERR_IO);
    assert_int_equal(f.fake.exit_code, -1);
    tick(&f, 100);
    join(&f);
    fails(&f, f.next - 1, CULM_ERR_IO);
    assert_int_equal(f.fake.exit_code, culm_status_exit_code(CULM_ERR_IO));
    assert_non_null(strstr(f.fake.error, "a copied tensor is damaged"));
    end(&f);
}

static void test_the_last_one_that_fails_ends_the_run(void **state) {
    (void)state;
    EXPECT_MARK(crew_last_one_failed);
    struct fixture f;
    struct culm_pipeline_leader_options o = options(1);
    o.settings.crew.replace_ms = -1;
    begin(&f, o);
    run(&f);
    fails(&f, 0, CULM_ERR_MEMORY);
    assert_int_equal(f.fake.exit_code, -1);
    fails(&f, 1, CULM_ERR_FORMAT);
    assert_int_equal(f.fake.exit_code, culm_status_exit_code(CULM_ERR_FORMAT));
    end(&f);
}

static void test_another_holder_writes_what_one_cannot(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_piece_is_tried_by_another);
    EXPECT_MARK(pipeline_piece_is_written_by_no_owner);
    EXPECT_MARK(pipeline_piece_nobody_can_write);
    struct fixture f;
    begin(&f, options(1));
    run(&f);
    culm_pipeline_leader_actor.leads->stop(f.c);
    commit(&f);
    const struct culm_saved full = {
        .version = 1, .attempt = 1, .stage = 1, .status = CULM_ERR_IO, .why = "no space left"};
    assert_int_equal(fake_world_sent(&f.fake, 0, CULM_MSG_SAVE), 1);
    culm_saved_encode(&full, &f.buf);
    deliver(&f, 1, CULM_MSG_SAVED);
    assert_int_equal(f.fake.exit_code, -1);
    assert_int_equal(fake_world_sent(&f.fake, 0, CULM_MSG_SAVE), 2);
    culm_saved_encode(&full, &f.buf);
    deliver(&f, 0, CULM_MSG_SAVED);         /* it is full everywhere */
    assert_int_equal(f.fake.exit_code, -1); /* so the step is held */
    assert_int_equal(fake_world_sent(&f.fake, 0, CULM_WORD_END), 0);
    end(&f);
}

/* --- starts that fail --- */

static void test_a_run_that_trains_outlives_starts_that_fail(void **state) {
    (void)state;
    EXPECT_MARK(crew_start_is_tried_again);
    struct fixture f;
    begin(&f, options(1));
    run(&f);
    int32_t before = f.fake.started, asked = 0;
    lost(&f, 1); /* node 0 has all, and trains on */
    uint64_t began = f.fake.now_ns, waited = 0;
    for (int i = 0; i < 2000 && asked < 20; i++) {
        beat(&f, 0, CULM_TASK_FORWARD, 0, 1);
        tick(&f, 50);
        if (f.fake.started > before) {
            assert_int_equal(f.fake.started, ++before);
            waited = f.fake.now_ns - began;
            began = f.fake.now_ns;
            ended(&f, f.next++);
            asked++;
        }
        fake_world_forget(&f.fake);
    }
    assert_int_equal(asked, 20);
    assert_int_equal(f.fake.exit_code, -1);
    assert_true(waited >= 4000 * MS && waited <= 5200 * MS); /* ever more slowly */
    for (int i = 0; i < 110 && f.fake.started == before; i++) {
        beat(&f, 0, -1, 0, 0);
        tick(&f, 50);
    }
    const int32_t back = f.next;
    joined(&f, f.next++);
    commit(&f); /* after a step that one has done with the others it is counted anew */
    lost(&f, back);
    before = f.fake.started;
    ended(&f, f.next++);
    for (int i = 0; i < 5; i++) {
        beat(&f, 0, -1, 0, 0);
        tick(&f, 50);
    }
    assert_int_equal(f.fake.started, before + 1);
    end(&f);
}

static void test_a_worker_that_declines_says_why_the_run_ends(void **state) {
    (void)state;
    struct fixture f;
    begin(&f, options(1));
    struct culm_error why;
    culm_error_set(&why, CULM_ERR_CONFIG, "its data is not the launcher's");
    int i = 0;
    for (; i < 100 && f.fake.exit_code < 0; i++) {
        while (f.asked < f.fake.started) {
            f.asked++;
            culm_pipeline_leader_actor.leads->ended(f.c, f.next++, &why);
        }
        tick(&f, 100);
    }
    assert_int_equal(f.fake.exit_code, culm_status_exit_code(CULM_ERR_CONFIG));
    assert_non_null(strstr(f.fake.error, "its data is not the launcher's"));
    assert_true(i < 50); /* in five seconds */
    end(&f);
}

/* --- checkpoints that cannot be loaded --- */

static void unloaded(struct fixture *f, int32_t node, uint64_t view) {
    SAY(f, node, UNLOADED, unloaded, .view = view, .status = CULM_ERR_FORMAT,
        .why = "piece is damaged");
}

static void test_a_damaged_checkpoint_gives_way_to_the_one_before(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_checkpoint_is_damaged);
    struct fixture f;
    struct culm_pipeline_leader_options o = options(1);
    o.start_step = 6;
    o.start_source = "step-6";
    begin(&f, o);
    join(&f);
    uint64_t view = totals(&f).view;
    assert_string_equal(newest(&f, 0)->source, "step-6");
    unloaded(&f, 0, view - 1); /* of a view before */
    assert_null(fake_world_io(&f.fake));
    unloaded(&f, 0, view);
    unloaded(&f, 1, view);
    struct culm_task *find = fake_world_io(&f.fake);
    assert_non_null(find);
    assert_int_equal(find->kind, CULM_TASK_FIND);
    assert_int_equal(find->version, 6);
    find->version = 3;
    snprintf(find->text, sizeof find->text, "step-3");
    culm_pipeline_leader_actor.job_done(f.c, &find->job);
    assert_int_equal(totals(&f).rollbacks, 1);
    assert_int_equal(totals(&f).losses, 0);
    assert_int_equal(totals(&f).committed, 3);
    assert_string_equal(newest(&f, 0)->source, "step-3");
    find = fake_world_io(&f.fake); /* the second one's word came meanwhile; it changes nothing */
    if (find) {
        assert_int_equal(find->version, 3);
        culm_pipeline_leader_actor.job_done(f.c, &find->job);
    }
    assert_int_equal(totals(&f).losses, 0);
    /* and if that is damaged as well: from the seed */
    unloaded(&f, 1, totals(&f).view);
    find = fake_world_io(&f.fake);
    assert_non_null(find);
    find->version = 0;
    find->text[0] = '\0';
    culm_pipeline_leader_actor.job_done(f.c, &find->job);
    assert_int_equal(totals(&f).committed, 0);
    assert_string_equal(newest(&f, 1)->source, "");
    loaded(&f);
    commit(&f);
    assert_int_equal(f.fake.exit_code, -1);
    end(&f);
}

static void test_a_worker_that_cannot_load_what_is_whole_is_lost(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_unloaded);
    EXPECT_MARK(pipeline_unloaded_is_its_own_trouble);
    EXPECT_MARK(pipeline_lost_while_loading);
    struct fixture f;
    struct culm_pipeline_leader_options o = options(1);
    o.start_step = 6;
    o.start_source = "step-6";
    begin(&f, o);
    join(&f);
    unloaded(&f, 1, totals(&f).view);
    struct culm_task *find = fake_world_io(&f.fake);
    assert_non_null(find);
    culm_pipeline_leader_actor.job_done(f.c, &find->job); /* it is whole */
    assert_int_equal(totals(&f).losses, 1);
    assert_int_equal(totals(&f).rollbacks, 0);
    assert_int_equal(totals(&f).committed, 6);
    lost(&f, 1);
    beat(&f, 0, -1, 0, 0);
    tick(&f, 100);
    assert_int_equal(f.fake.started, 2); /* not at once: it has failed before it did anything */
    tick(&f, 100);
    join(&f);
    loaded(&f);
    commit(&f);
    end(&f);
}

/* --- nothing moves --- */

/* Both talk, and neither has anything to do. */
static void idle(struct fixture *f, uint64_t ms) {
    for (uint64_t t = 0; t < ms; t += 200) {
        beat(f, 0, -1, 0, 0);
        beat(f, 1, -1, 0, 0);
        tick(f, 200);
    }
}

static uint64_t asked(const struct fixture *f, int32_t node) {
    struct culm_ask what = {.question = 0};
    for (int32_t i = 0; i < f->fake.sent_count; i++) {
        const struct fake_sent *sent = &f->fake.sent[i];
        if (sent->to == node && sent->type == CULM_WORD_ASK) {
            assert_int_equal(culm_ask_decode(sent->meta, sent->meta_bytes, &what), CULM_OK);
        }
    }
    return what.question;
}

static void answer(struct fixture *f, int32_t node, uint64_t question, struct culm_waits *waits) {
    waits->question = question;
    waits->have.view = totals(f).view;
    waits->have.iteration = totals(f).committed + 1;
    culm_waits_encode(waits, &waits->have, &f->buf);
    deliver(f, node, CULM_MSG_WAITS);
}

static void test_an_end_of_a_link_that_swallows_is_put_out(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_stalled_by_a_link);
    struct fixture f;
    begin(&f, options(1));
    run(&f);
    idle(&f, 4800);
    assert_int_equal(asked(&f, 0), 0);
    beat(&f, 0, CULM_TASK_FORWARD, 0, 100); /* one works: it moves */
    tick(&f, 100);
    idle(&f, 4800);
    assert_int_equal(asked(&f, 0), 0);
    idle(&f, 600);
    assert_int_equal(asked(&f, 0), 1);
    assert_int_equal(asked(&f, 1), 1);
    /* Node 0 has made the activation that node 1 lacks. */
    struct culm_waits *zero = culm_waits_new(STAGES, 1, 3, f.shape.lanes),
                      *one = culm_waits_new(STAGES, 1, 3, f.shape.lanes);
    zero->have.activation[1] = 1;
    answer(&f, 0, 7, zero); /* to no question that was asked */
    answer(&f, 0, 1, zero);
    assert_int_equal(fake_world_events(&f.fake, "stalled"), 0);
    answer(&f, 1, 1, one);
    idle(&f, 200);
    assert_int_equal(fake_world_events(&f.fake, "stalled"), 1);
    assert_int_equal(totals(&f).losses, 1);
    SAY_WORD(&f, 1, HEARTBEAT, heartbeat, .kind = -1);
    assert_true(fake_world_sent(&f.fake, 1, CULM_WORD_FENCED) > 0); /* the younger one */
    culm_waits_free(zero);
    culm_waits_free(one);
    end(&f);
}

/* A view may be what did not arrive: who knows which one its changes would be to? */
static void test_after_a_stall_the_whole_view_is_told(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_view_is_told_again);
    EXPECT_MARK(pipeline_view_is_told_by_its_changes);
    struct fixture f;
    begin(&f, options(1));
    run(&f);
    f.knows[0]->number--; /* the last one did not come */
    idle(&f, 5400);
    assert_int_equal(asked(&f, 0), 1);
    struct culm_waits *waits = culm_waits_new(STAGES, 1, 3, f.shape.lanes);
    answer(&f, 0, 1, waits);
    answer(&f, 1, 1, waits);
    const uint64_t before = totals(&f).view;
    idle(&f, 200);
    assert_true(totals(&f).view > before);
    assert_int_equal(newest(&f, 0)->number, totals(&f).view);
    culm_waits_free(waits);
    end(&f);
}

static void test_who_does_not_answer_is_put_out(void **state) {
    (void)state;
    EXPECT_MARK(crew_stalled_and_it_does_not_answer);
    EXPECT_MARK(crew_put_out_is_told_so);
    struct fixture f;
    begin(&f, options(1));
    run(&f);
    struct culm_waits *one = culm_waits_new(STAGES, 1, 3, f.shape.lanes);
    idle(&f, 5400);
    assert_int_equal(asked(&f, 1), 1);
    answer(&f, 1, 1, one);
    idle(&f, 1400);
    assert_int_equal(totals(&f).losses, 1);
    const int32_t told = fake_world_sent(&f.fake, 0, CULM_WORD_FENCED); /* if it hears that */
    assert_true(told > 0);
    SAY_WORD(&f, 0, HEARTBEAT, heartbeat, .kind = -1);
    assert_int_equal(fake_world_sent(&f.fake, 0, CULM_WORD_FENCED), told + 1);
    culm_waits_free(one);
    end(&f);
}

/* The last step is committed, and the link to one worker swallows COMMIT and SAVE. */
static void test_who_is_told_in_vain_to_write_is_put_out(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_writer_lost_another_writes);
    struct fixture f;
    struct culm_pipeline_leader_options o = options(1);
    o.shape.steps = 1;
    begin(&f, o);
    run(&f);
    commit(&f);
    SAY(&f, 0, SAVED, saved, .version = 1, .attempt = 1, .stage = 0, .piece = "a piece");
    struct culm_waits *zero = culm_waits_new(STAGES, 1, 3, f.shape.lanes);
    idle(&f, 5400);
    answer(&f, 0, asked(&f, 0), zero);
    assert_int_equal(fake_world_sent(&f.fake, 0, CULM_MSG_SAVE), 1);
    idle(&f, 1400);
    assert_int_equal(totals(&f).losses, 1);
    assert_int_equal(fake_world_sent(&f.fake, 0, CULM_MSG_SAVE), 2); /* the other part too */
    culm_waits_free(zero);
    end(&f);
}

/* Nobody can be blamed: all say anew what they have; it is looked at ever more seldom, and ends. */
static void test_what_never_moves_ends_the_run(void **state) {
    (void)state;
    EXPECT_MARK(crew_stalled_for_good);
    EXPECT_MARK(crew_stalled_and_nobody_is_to_blame);
    struct fixture f;
    struct culm_pipeline_leader_options o = options(1);
    begin(&f, o);
    run(&f);
    struct culm_waits *waits = culm_waits_new(STAGES, 1, 3, f.shape.lanes);
    uint64_t question = 0, view = totals(&f).view;
    int rounds = 0;
    for (; rounds < 20000 && f.fake.exit_code < 0; rounds++) {
        idle(&f, 200);
        if (asked(&f, 0) > question) {
            question = asked(&f, 0);
            answer(&f, 0, question, waits);
            answer(&f, 1, question, waits);
        }
        fake_world_forget(&f.fake);
    }
    assert_int_equal(f.fake.exit_code, culm_status_exit_code(CULM_ERR_TIMEOUT));
    assert_non_null(strstr(f.fake.error, "nothing has moved in step 1"));
    assert_int_equal(totals(&f).losses, 0);
    assert_true(totals(&f).view >= view + 5);
    culm_waits_free(waits);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_is_tried_again_under_a_limit_that_failed),
        cmocka_unit_test(test_those_who_hang_together_go_together),
        cmocka_unit_test(test_a_task_that_nobody_finishes_ends_the_run),
        cmocka_unit_test(test_a_run_that_commits_is_not_ended_by_stuck_workers),
        cmocka_unit_test(test_a_worker_that_fails_is_a_loss),
        cmocka_unit_test(test_what_fails_everywhere_ends_the_run),
        cmocka_unit_test(test_the_last_one_that_fails_ends_the_run),
        cmocka_unit_test(test_another_holder_writes_what_one_cannot),
        cmocka_unit_test(test_a_run_that_trains_outlives_starts_that_fail),
        cmocka_unit_test(test_a_worker_that_declines_says_why_the_run_ends),
        cmocka_unit_test(test_a_damaged_checkpoint_gives_way_to_the_one_before),
        cmocka_unit_test(test_a_worker_that_cannot_load_what_is_whole_is_lost),
        cmocka_unit_test(test_an_end_of_a_link_that_swallows_is_put_out),
        cmocka_unit_test(test_after_a_stall_the_whole_view_is_told),
        cmocka_unit_test(test_who_does_not_answer_is_put_out),
        cmocka_unit_test(test_who_is_told_in_vain_to_write_is_put_out),
        cmocka_unit_test(test_what_never_moves_ends_the_run),
    };
    return cmocka_run_group_tests_name("pipeline/leader_alive", tests, NULL, NULL);
}
