/*
 * A server alone, whose leader, holder and workers the test plays: rows of other servers, requests, views, attempts and
 * epochs. What comes late or twice has no effect on what comes next, and what is of no use any more is not kept.
 */
#include "expect_mark.h"
#include "server_played.h"

#include "crew/term.h"

/* Rows without the gradient that must come before them are no result. */
static void test_rows_alone(void **state) {
    (void)state;
    struct fixture f;
    come_to_loss(&f);
    rows(&f, WORKER, LOSS, 4);
    assert_null(fake_world_run(&f.fake));
    share(&f, WORKER, LOSS, 4);
    rows(&f, WORKER, LOSS, 4);
    assert_pushed(&f, 1, 4);
    run(&f, CULM_GNN_TASK_GATHER, 6);
    end(&f);
}

/* Rows that never change, for what this server has of `readers`. */
static void constant_rows_of(struct fixture *f, int32_t interval, int32_t from, uint64_t readers,
                             uint64_t view) {
    const struct culm_gnn_slice_key key = {
        .epoch = 1, .interval = interval, .readers = set_of(readers), .view = view};
    culm_gnn_slice_encode(&key, &f->buf);
    deliver(f, from, CULM_GNN_MSG_SLICE, blob(f, 2 * ROW_BYTES, 9));
}

/* The same of interval 1. */
static void constant_rows(struct fixture *f, int32_t from, uint64_t readers, uint64_t view) {
    constant_rows_of(f, 1, from, readers, view);
}

/* Rows that never change are sent once, and kept for as long as an interval here reads them: intervals come
 * and go, and memory does not grow. */
static void test_constants(void **state) {
    (void)state;
    EXPECT_MARK(interval_comes_to_a_server);
    EXPECT_MARK(interval_leaves_a_server);
    EXPECT_MARK(interval_rows_are_here);
    EXPECT_MARK(interval_rows_replace_others);
    EXPECT_MARK(interval_constant_rows_are_let_go);
    static const int32_t home[] = {SERVER, OTHER, THIRD}, without_third[] = {SERVER, OTHER, SERVER},
                         alone[] = {SERVER, SERVER, SERVER};
    struct fixture f;
    begin_with(&f, home, INTERVALS, true);
    int64_t none = used(&f);
    constant_rows(&f, OTHER, 1, f.view);
    int64_t one = used(&f);
    assert_true(one > none);
    constant_rows(&f, OTHER, 1, f.view); /* twice */
    assert_int_equal(used(&f), one);
    for (int i = 0; i < 3; i++) {
        tell_owners(&f, without_third);
        constant_rows(&f, OTHER, 4, f.view);
        assert_true(used(&f) > one);
        constant_rows(&f, OTHER, 1 | 4, f.view); /* all that the others have */
        assert_int_equal(used(&f), one);
        tell_owners(&f, home);
        assert_int_equal(used(&f), one); /* interval 0 reads some of them */
        tell_owners(&f, alone);
        assert_int_equal(used(&f), none);
        tell_owners(&f, home);
        constant_rows(&f, OTHER, 1, f.view);
        assert_int_equal(used(&f), one);
        tell_owners(&f, without_third);
        constant_rows(&f, OTHER, 4, f.view);
        tell_owners(&f, home);
        assert_int_equal(used(&f), one); /* nobody reads the second ones */
    }
    end(&f);
}

/* Who sends may know views that this server does not know yet. */
static void test_constants_ahead(void **state) {
    (void)state;
    EXPECT_MARK(interval_constant_rows_of_a_later_view_are_kept);
    static const int32_t home[] = {SERVER, OTHER, THIRD}, without[] = {OTHER, OTHER, THIRD};
    struct fixture f;
    begin_with(&f, home, INTERVALS, true);
    int64_t none = used(&f);
    constant_rows(&f, OTHER, 1, f.view);
    int64_t one = used(&f);
    constant_rows(&f, OTHER, 1, f.view + 2); /* sent again, as interval 0 goes and comes back */
    tell_owners(&f, without);
    assert_int_equal(used(&f), one);
    tell_owners(&f, home);
    assert_int_equal(used(&f), one);
    tell_owners(&f, without);
    assert_int_equal(used(&f), none);
    end(&f);
}

/* On another link more of them comes later, though it was sent earlier: it takes their place, and stays as
 * long as they would have. */
static void test_constants_overtaken(void **state) {
    (void)state;
    static const int32_t home[] = {SERVER, OTHER, SERVER}, without[] = {OTHER, OTHER, OTHER};
    struct fixture f;
    begin_with(&f, home, INTERVALS, true);
    int64_t none = used(&f);
    constant_rows(&f, THIRD, 1, f.view + 2);
    int64_t one = used(&f);
    constant_rows(&f, OTHER, 1 | 4, f.view);
    assert_int_equal(used(&f), one);
    tell_owners(&f, without);
    assert_int_equal(used(&f), one);
    tell_owners(&f, home);
    assert_int_equal(used(&f), one);
    tell_owners(&f, without);
    assert_int_equal(used(&f), none);
    end(&f);
}

/* A gather does not begin while rows are missing that were here when it was looked for them: those of an
 * interval that has come to this server, which frees what the owner before has sent. */
static void test_rows_that_were_here(void **state) {
    (void)state;
    EXPECT_MARK(interval_rows_that_were_here_are_not);
    static const int32_t home[] = {SERVER, OTHER, THIRD}, comes[] = {SERVER, SERVER, THIRD};
    struct fixture f;
    begin_with(&f, home, INTERVALS, true);
    run(&f, CULM_GNN_TASK_OWN, 0);
    ready(&f, WORKER);
    rows_of(&f, WORKER, 0, FORWARD, 2);
    run(&f, CULM_GNN_TASK_SLICE, 2);
    run(&f, CULM_GNN_TASK_SLICE, 2);
    constant_rows(&f, OTHER, 1, f.view);
    tell_owners(&f, comes);
    run(&f, CULM_GNN_TASK_OWN, 0);
    ready(&f, WORKER);
    constant_rows_of(&f, 2, THIRD, 1 | 2, f.view);
    assert_int_equal(f.fake.run_count, 0);
    rows_of(&f, WORKER, 1, FORWARD, 2);
    run(&f, CULM_GNN_TASK_SLICE, 2);
    run(&f, CULM_GNN_TASK_GATHER, 3);
    end(&f);
}

/* An interval that leaves while the server gets ready for it is dropped when that is done. */
static void test_an_interval_that_leaves_at_once(void **state) {
    (void)state;
    EXPECT_MARK(interval_left_while_it_got_ready);
    static const int32_t home[] = {SERVER, OTHER, THIRD}, without[] = {OTHER, OTHER, THIRD};
    struct fixture f;
    begin_with(&f, home, INTERVALS, false);
    tell_owners(&f, without);
    run(&f, CULM_GNN_TASK_OWN, 0);
    run(&f, CULM_GNN_TASK_DROP, 0);
    assert_int_equal(f.fake.run_count, 0);
    end(&f);
}

/* And whoever sends sends again what was let go of there. */
static void test_constants_again(void **state) {
    (void)state;
    EXPECT_MARK(interval_constant_rows_were_sent_to_one_that_is_gone);
    static const int32_t home[] = {SERVER, OTHER}, alone[] = {SERVER, SERVER};
    struct fixture f;
    begin_with(&f, home, 2, true);
    run(&f, CULM_GNN_TASK_OWN, 0);
    culm_gnn_server_actor.timer(f.server, CULM_GNN_TIMER_WATCH); /* no worker comes */
    run(&f, CULM_GNN_TASK_APPLY, 5);
    run(&f, CULM_GNN_TASK_SLICE, 6);
    assert_int_equal(fake_world_sent(&f.fake, OTHER, CULM_GNN_MSG_SLICE), 1);
    tell_owners(&f, home);
    assert_null(fake_world_run(&f.fake));
    tell_owners(&f, alone);
    run(&f, CULM_GNN_TASK_OWN, 0);
    tell_owners(&f, home);
    struct culm_gnn_task *task;
    while ((task = fake_world_run(&f.fake))) { /* the other interval was begun here */
        if (task->kind != CULM_GNN_TASK_DROP) {
            task->output = blob(&f, 2 * ROW_BYTES, 7);
        }
        culm_gnn_server_actor.job_done(f.server, &task->job);
    }
    assert_int_equal(fake_world_sent(&f.fake, OTHER, CULM_GNN_MSG_SLICE), 2);
    end(&f);
}

/* Constant rows go to a server again if it has let go of them: it had lost the interval that reads them. */
static void test_constants_for_one_that_had_let_go(void **state) {
    (void)state;
    EXPECT_MARK(interval_constant_rows_will_be_sent_again);
    static const int32_t home[] = {SERVER, OTHER, OTHER}, swapped[] = {SERVER, THIRD, OTHER};
    struct fixture f;
    begin_with(&f, home, INTERVALS, true);
    culm_set_remove(&f.layout.read_by[0][0], 2); /* interval 2 does not read interval 0 */
    run(&f, CULM_GNN_TASK_OWN, 0);
    culm_gnn_server_actor.timer(f.server, CULM_GNN_TIMER_WATCH); /* no worker comes */
    run(&f, CULM_GNN_TASK_APPLY, 5);
    run(&f, CULM_GNN_TASK_SLICE, 6);
    assert_int_equal(fake_world_sent(&f.fake, OTHER, CULM_GNN_MSG_SLICE), 1);
    tell_owners(&f, swapped);
    tell_owners(&f, home);
    struct culm_gnn_task *task;
    while ((task = fake_world_run(&f.fake))) {
        finish(&f, task, 7);
    }
    assert_int_equal(fake_world_sent(&f.fake, OTHER, CULM_GNN_MSG_SLICE), 2);
    end(&f);
}

/* Whoever asks for weights that there never will be is not answered, and holds up nobody. */
static void test_asked_for_nonsense(void **state) {
    struct fixture f;
    (void)state;
    begin(&f);
    static const int64_t version[] = {CULM_COUNT_MAX, CULM_COUNT_MAX + 1, INT64_MAX - 1, INT64_MAX};
    for (size_t v = 0; v < sizeof version / sizeof *version; v++) {
        for (int64_t half = 0; half <= 2; half++) {
            const struct culm_gnn_version what = {0, version[v], version[v] / 2 * half};
            culm_gnn_version_encode(&what, &f.buf);
            deliver(&f, OTHER, CULM_GNN_MSG_GET, NULL);
        }
    }
    end(&f);
}

/* --- views, attempts and epochs --- */

/* All begins again from the version that is loaded. */
static void begin_again(struct fixture *f, uint32_t attempt) {
    const struct culm_gnn_view view = {.number = ++f->view,
                                       .attempt = attempt,
                                       .course = {.epoch = 1, .train = true},
                                       .holder_count = 1,
                                       .holder = {{HOLDER, -1, 1}},
                                       .owner = (int32_t[]){SERVER, OTHER, OTHER}};
    culm_gnn_view_encode(&view, f->layout.intervals, &f->buf);
    deliver(f, CULM_LEADER, CULM_GNN_MSG_VIEW, NULL);
}

/* Another server has been told of it before: its rows are kept for then, and no longer. */
static void test_rows_of_an_attempt_to_come(void **state) {
    (void)state;
    EXPECT_MARK(interval_rows_of_an_attempt_to_come);
    EXPECT_MARK(interval_rows_that_came_before_their_attempt);
    EXPECT_MARK(interval_attempt_begins);
    static const int32_t owner[] = {SERVER, OTHER, OTHER};
    struct fixture f;
    begin_with(&f, owner, INTERVALS, false);
    int64_t none = used(&f);
    for (uint32_t attempt = 1; attempt <= 2; attempt++) {
        const struct culm_gnn_slice_key key = {.attempt = attempt,
                                               .epoch = 1,
                                               .interval = 1,
                                               .readers = set_of(1),
                                               .view = f.view + attempt};
        culm_gnn_slice_encode(&key, &f.buf);
        deliver(&f, OTHER, CULM_GNN_MSG_SLICE, blob(&f, 2 * ROW_BYTES, 9));
    }
    int64_t both = used(&f);
    assert_true(both > none);
    begin_again(&f, 1);
    assert_int_equal(used(&f), both);
    begin_again(&f, 2); /* the rows of the first count no more */
    assert_int_equal(used(&f) - none, (both - none) / 2);
    end(&f);
}

/* What is being computed for an attempt that is over is dropped. */
static void test_a_task_of_an_attempt_that_is_over(void **state) {
    (void)state;
    EXPECT_MARK(interval_task_of_a_turn_that_is_over);
    struct fixture f;
    begin(&f);
    run(&f, CULM_GNN_TASK_OWN, 0);
    ready(&f, WORKER);
    rows(&f, WORKER, FORWARD, 2);
    begin_again(&f, 1);
    run(&f, CULM_GNN_TASK_GATHER, 3);
    ready(&f, WORKER);
    assert_int_equal(told(&f, WORKER, 0, LOSS), 0);
    end(&f);
}

/* What it has done of an epoch that is not committed it tells another leader as well, in that one's view. */
static void test_another_one_leads(void **state) {
    (void)state;
    EXPECT_MARK(interval_done_is_said_to_another_leader);
    static const int32_t owner[] = {SERVER};
    struct fixture f;
    come_to_loss(&f);
    share(&f, WORKER, LOSS, 4);
    rows(&f, WORKER, LOSS, 4);
    run(&f, CULM_GNN_TASK_GATHER, 6);
    share(&f, WORKER, BACKWARD, 7);
    rows(&f, WORKER, BACKWARD, 7);
    assert_int_equal(fake_world_sent(&f.fake, CULM_LEADER, CULM_GNN_MSG_DONE), 1);
    culm_gnn_server_actor.led(f.server, 2);
    const struct fake_sent *sent = fake_world_last(&f.fake, CULM_LEADER, CULM_GNN_MSG_REPORT);
    struct culm_gnn_report report;
    assert_non_null(sent);
    assert_int_equal(culm_gnn_report_decode(sent->meta, sent->meta_bytes, &report), CULM_OK);
    assert_true(!report.holds && report.view == f.view && report.course.epoch == 1);
    tell_owners(&f, owner);
    assert_int_equal(fake_world_sent(&f.fake, CULM_LEADER, CULM_GNN_MSG_DONE), 1);
    f.view = CULM_VIEW_OF_TERM(2);
    tell_owners(&f, owner);
    assert_int_equal(fake_world_sent(&f.fake, CULM_LEADER, CULM_GNN_MSG_DONE), 2);
    end(&f);
}

static void test_an_epoch_that_is_begun_and_is_none(void **state) {
    (void)state;
    EXPECT_MARK(interval_epoch_is_begun_again);
    static const int32_t owner[] = {SERVER};
    struct fixture f;
    begin_paced(&f, owner, 1, false, (struct culm_gnn_pace){.epochs = 9, .ahead = true});
    run(&f, CULM_GNN_TASK_OWN, 0);
    culm_gnn_server_actor.timer(f.server, CULM_GNN_TIMER_WATCH); /* no worker comes */
    for (int i = 0; i < 20 && fake_world_sent(&f.fake, CULM_LEADER, CULM_GNN_MSG_DONE) == 0; i++) {
        run_next(&f, 3);
    }
    assert_int_equal(fake_world_sent(&f.fake, HOLDER, CULM_GNN_MSG_GET),
                     1); /* for the next epoch */
    const struct culm_gnn_commit commit = {.epoch = 1, .next = {.epoch = 2, .evaluate = true}};
    culm_gnn_commit_encode(&commit, &f.buf);
    deliver(&f, CULM_LEADER, CULM_GNN_MSG_COMMIT, NULL);
    const struct culm_gnn_version version = {0, 1, 1};
    culm_gnn_version_encode(&version, &f.buf);
    deliver(&f, HOLDER, CULM_GNN_MSG_WEIGHTS, blob(&f, 8, 1));
    const struct culm_gnn_task *task = (const struct culm_gnn_task *)f.fake.run[0];
    assert_int_equal(task->kind, CULM_GNN_TASK_APPLY);
    assert_true(task->step >= f.layout.train_steps);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_of_an_attempt_to_come),
        cmocka_unit_test(test_a_task_of_an_attempt_that_is_over),
        cmocka_unit_test(test_constants_for_one_that_had_let_go),
        cmocka_unit_test(test_another_one_leads),
        cmocka_unit_test(test_an_epoch_that_is_begun_and_is_none),
        cmocka_unit_test(test_rows_alone),
        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_constants_ahead),
        cmocka_unit_test(test_constants_overtaken),
        cmocka_unit_test(test_constants_again),
        cmocka_unit_test(test_rows_that_were_here),
        cmocka_unit_test(test_an_interval_that_leaves_at_once),
        cmocka_unit_test(test_asked_for_nonsense),
    };
    return cmocka_run_group_tests_name("interval/server", tests, NULL, NULL);
}
