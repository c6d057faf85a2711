/*
 * The leader alone, when it takes over from another one: what it decides by what those who took part report. Servers 0 and 1 own
 * an interval each, parameter servers 2 and 3 hold the weights, in a view of the leader before.
 */
#include "expect_mark.h"
#include "leader_played.h"

#include "base/room.h"
#include "crew/take.h"
#include "crew/term.h"
#include "interval/committed.h"

#define TERM 3
#define SUSPECT_MS 1000
#define ORPHAN_MS 4000
#define BEFORE 6 /* the number of the last view of the leader before */
#define EPOCH 5  /* in progress in it */
#define KNOWN 4

struct taken {
    struct fixture f; /* first member */
    struct culm_gnn_view view;
    struct culm_gnn_curve *curve;
};

static struct culm_gnn_settings plain(void) {
    struct culm_gnn_settings settings = settings_of(2, 2, 0);
    settings.crew.suspect_ms = SUSPECT_MS;
    settings.crew.replace_ms = -1;
    settings.newcomers = true;
    return settings;
}

/* `intervals`, the first one of which is at home at server 0. */
static void take_written(struct taken *t, const struct culm_gnn_settings *settings, int64_t saved,
                         int32_t intervals, const char *committed_or_null) {
    struct culm_known_node known[KNOWN];
    *t = (struct taken){.curve = calloc(1, sizeof *t->curve)};
    struct culm_gnn_leader_options o = prepare(&t->f, intervals, 1, settings);
    for (int32_t i = 0; i < KNOWN; i++) {
        const uint32_t role = i < 2 ? CULM_GNN_SERVER : CULM_GNN_PARAMETER;
        known[i] = (struct culm_known_node){i, {.role = role, .name = "test", .signature = "test"}};
        t->f.fake.role[i] = CULM_NO_ROLE; /* nobody here has started it */
    }
    o.record = &t->f.fake.record;
    o.term = TERM;
    o.known = known;
    o.known_count = KNOWN;
    o.orphan_ms = ORPHAN_MS;
    o.depot = true;
    o.start_version = saved;
    o.start_path = saved ? "file" : "";
    o.committed = committed_or_null;
    lead(&t->f, &o);
    t->f.next = KNOWN;
    assert_true(t->curve && culm_gnn_view_init(&t->view, intervals));
    t->view.number = BEFORE;
    t->view.attempt = t->view.load_attempt = 1;
    t->view.course = (struct culm_gnn_course){.epoch = EPOCH, .train = true};
    t->view.owner[1] = 1;
    t->view.holder_count = 2;
    t->view.holder[0] = (struct culm_gnn_view_holder){2, -1, 1};
    t->view.holder[1] = (struct culm_gnn_view_holder){3, -1, 1};
    for (int64_t epoch = 1; epoch < EPOCH; epoch++) {
        culm_gnn_curve_add(t->curve,
                           &(struct culm_gnn_outcome){.epoch = epoch, .loss = (float)epoch});
    }
}

static void take_so(struct taken *t, const struct culm_gnn_settings *settings, int64_t saved,
                    int32_t intervals) {
    take_written(t, settings, saved, intervals, NULL);
}

static void take_from(struct taken *t, const struct culm_gnn_settings *settings, int64_t saved) {
    take_so(t, settings, saved, 2);
}

static void take(struct taken *t) {
    const struct culm_gnn_settings settings = plain();
    take_from(t, &settings, 0);
}

static void release(struct taken *t) {
    culm_gnn_view_release(&t->view);
    free(t->curve);
    end(&t->f);
}

/* By one that has heard that all before `epoch` are committed, and, if `version` is not below 0, has the state of that. */
static struct culm_gnn_report report(int64_t epoch, int64_t version) {
    return (struct culm_gnn_report){.view = BEFORE,
                                    .attempt = 1,
                                    .course = {.epoch = epoch, .train = true},
                                    .holds = version >= 0,
                                    .version = version >= 0 ? version : 0,
                                    .digest = (uint64_t)version,
                                    .since = version >= 0,
                                    .curve_first = 1,
                                    .last = {.epoch = epoch - 1, .loss = (float)(epoch - 1)},
                                    .balance = {.losses = 3, .rollbacks = 1, .usd = 2}};
}

static void says(struct taken *t, int32_t node, struct culm_gnn_report what) {
    const struct culm_node_info info = {.role = node < 2 ? CULM_GNN_SERVER : CULM_GNN_PARAMETER,
                                        .name = "test"};
    culm_gnn_leader_actor.leads->joined(t->f.leader, node, &info);
    culm_gnn_report_encode(&what, &t->f.buf);
    deliver(&t->f, node, CULM_GNN_MSG_REPORT);
}

/* Whoever was asked shows what it knows. */
static void shows(struct taken *t, int32_t node) {
    assert_int_equal(fake_world_sent(&t->f.fake, node, CULM_GNN_MSG_SHOW), 1);
    culm_gnn_view_encode(&t->view, t->f.layout.intervals, &t->f.buf);
    deliver(&t->f, node, CULM_GNN_MSG_VIEW);
    culm_gnn_curve_encode(t->curve, &t->f.buf);
    deliver(&t->f, node, CULM_GNN_MSG_CURVE);
    t->f.attempt = 1;
}

static const char *reason_of(const struct taken *t) {
    const json_t *told = fake_world_told(&t->f.fake, "leader");
    assert_non_null(told);
    assert_int_equal(json_integer_value(json_object_get(told, "term")), TERM);
    return json_string_value(json_object_get(told, "reason"));
}

static void test_a_report_that_cannot_be_read(void **state) {
    (void)state;
    struct taken t;
    take(&t);
    says(&t, 0, report(EPOCH, -1));
    says(&t, 1, report(EPOCH, -1));
    says(&t, 2, report(EPOCH, EPOCH - 1));
    const struct culm_node_info info = {.role = CULM_GNN_PARAMETER, .name = "test"};
    culm_gnn_leader_actor.leads->joined(t.f.leader, 3, &info);
    culm_buf_clear(&t.f.buf);
    deliver(&t.f, 3, CULM_GNN_MSG_REPORT);
    shows(&t, 0);
    assert_string_equal(reason_of(&t), "the process that led is gone");
    const json_t *told = fake_world_told(&t.f.fake, "lost");
    assert_non_null(told);
    assert_int_equal(json_integer_value(json_object_get(told, "node")), 3);
    release(&t);
}

/* Time passes; these go on speaking. */
static void wait_with(struct taken *t, int64_t ms, int32_t first, int32_t last) {
    for (int64_t gone = 0; gone < ms; gone += 100) {
        for (int32_t node = first; node <= last; node++) {
            const struct culm_heartbeat beat = {.kind = -1};
            culm_heartbeat_encode(&beat, &t->f.buf);
            deliver(&t->f, node, CULM_WORD_HEARTBEAT);
        }
        later(&t->f, 100);
    }
}

static void all_say(struct taken *t, int64_t epoch, int64_t version) {
    says(t, 0, report(epoch, -1));
    says(t, 1, report(epoch, -1));
    says(t, 2, report(epoch, version));
    says(t, 3, report(epoch, version));
}

/* Servers are done with that epoch, and holders have stepped to it. */
static void all_done(struct taken *t, int64_t epoch) {
    done_so(&t->f, 0, 0, epoch, 0);
    done_so(&t->f, 1, 1, epoch, 0);
    both_hold(&t->f, 2, 3, epoch);
}

static void test_all_goes_on(void **state) {
    (void)state;
    EXPECT_MARK(crew_awaited_has_come);
    struct taken t;
    take(&t);
    assert_int_equal(t.f.fake.started_as[CULM_GNN_SERVER], 0); /* nobody in place of those */
    all_say(&t, EPOCH, EPOCH - 1);
    assert_int_equal(fake_world_events(&t.f.fake, "leader"), 0); /* nobody has shown a view */
    shows(&t, 0);
    assert_string_equal(reason_of(&t), "the process that led is gone");
    const struct culm_gnn_view *view = view_of(&t.f, 1);
    assert_int_equal(view->number, CULM_VIEW_OF_TERM(TERM) + BEFORE + 1);
    assert_int_equal(view->attempt, 1); /* what there is of the epoch is used */
    assert_int_equal(view->course.epoch, EPOCH);
    assert_int_equal(view->owner[0], 0);
    assert_int_equal(view->owner[1], 1);
    assert_int_equal(view->holder[0].since, 1);
    assert_int_equal(view->balance.losses, 3);
    assert_int_equal(view->last.epoch, EPOCH - 1);
    assert_int_equal(fake_world_events(&t.f.fake, "epoch"), EPOCH - 1); /* the curve is whole */
    all_done(&t, EPOCH);
    committed(&t.f, EPOCH);
    assert_int_equal(fake_world_events(&t.f.fake, "rollback"), 0);
    release(&t);
}

/* A holder that is a version ahead has made the epoch, and that was committed if anyone has heard so. */
static void test_one_that_has_heard_of_the_commit(void **state) {
    (void)state;
    EXPECT_MARK(interval_epoch_that_one_alone_knows);
    for (int heard = 0; heard < 2; heard++) {
        struct taken t;
        take(&t);
        says(&t, 0, report(EPOCH, -1));
        says(&t, 1, report(EPOCH + heard, -1));
        says(&t, 2, report(EPOCH, EPOCH));
        says(&t, 3, report(EPOCH, EPOCH));
        shows(&t, 0);
        assert_int_equal(view_of(&t.f, 0)->course.epoch, EPOCH + heard);
        assert_int_equal(fake_world_events(&t.f.fake, "epoch"), EPOCH - 1 + heard);
        release(&t);
    }
}

/* Of a copy that is on its way nobody knows whether it comes; one that is of the version before is none. */
static void test_it_goes_back_when_no_copy_is_left(void **state) {
    (void)state;
    struct taken t;
    take(&t);
    lost(&t.f, 2);
    says(&t, 0, report(EPOCH, -1));
    says(&t, 1, report(EPOCH, -1));
    says(&t, 3, report(EPOCH, EPOCH - 2));
    shows(&t, 0);
    assert_int_equal(fake_world_events(&t.f.fake, "lost"), 1);
    assert_int_equal(number(&t.f, "lost", "node"), 2);
    assert_int_equal(fake_world_events(&t.f.fake, "rollback"), 0); /* not before it is written */
    assert_int_equal(t.f.fake.deeds, 1);
    assert_int_equal(t.f.fake.give_ups,
                     0); /* it has not tried for long, and nobody could do better */
    culm_gnn_leader_actor.leads->written(t.f.leader, CULM_DEED_ROLL_BACK);
    assert_int_equal(fake_world_events(&t.f.fake, "rollback"), 1);
    const struct culm_gnn_view *view = view_of(&t.f, 1);
    assert_int_equal(view->course.epoch, 1);
    assert_true(view->attempt > 1);
    release(&t);
}

/* The copy had been on its way, and is there before the roll-back is written. */
static void test_a_copy_that_comes_before_it_goes_back(void **state) {
    (void)state;
    EXPECT_MARK(interval_copy_comes_before_it_goes_back);
    struct taken t;
    take(&t);
    lost(&t.f, 2);
    says(&t, 0, report(EPOCH, -1));
    says(&t, 1, report(EPOCH, -1));
    says(&t, 3, report(EPOCH, -1));
    shows(&t, 0);
    holds(&t.f, 3, EPOCH - 1);
    culm_gnn_leader_actor.leads->written(t.f.leader, CULM_DEED_ROLL_BACK);
    assert_int_equal(fake_world_events(&t.f.fake, "rollback"), 0);
    assert_int_equal(view_of(&t.f, 1)->attempt, 1);
    release(&t);
}

static void test_a_last_copy_is_waited_for(void **state) {
    (void)state;
    EXPECT_MARK(interval_takes_over_and_waits_for_a_last_copy);
    EXPECT_MARK(crew_another_one_is_to_try);
    EXPECT_MARK(interval_silent_when_taken_over);
    struct taken t;
    take(&t);
    lost(&t.f, 2);
    says(&t, 0, report(EPOCH, -1));
    says(&t, 1, report(EPOCH, -1));
    wait_with(&t, SUSPECT_MS + 200, 0, 1);
    shows(&t, 0);
    assert_int_equal(fake_world_events(&t.f.fake, "leader"), 0);
    assert_int_equal(fake_world_events(&t.f.fake, "waiting"), 1);
    assert_int_equal(t.f.fake.give_ups, 1); /* if another one waits, that one is to try */
    wait_with(&t, ORPHAN_MS * 3 / 2, 0, 1); /* by then it has ended itself */
    assert_int_equal(fake_world_events(&t.f.fake, "leader"), 1);
    culm_gnn_leader_actor.leads->written(t.f.leader, CULM_DEED_ROLL_BACK);
    assert_int_equal(fake_world_events(&t.f.fake, "rollback"), 1);
    release(&t);
}

/* One that has reported, and is silent then for so long that it has ended. */
static void test_one_that_reports_and_falls_silent(void **state) {
    (void)state;
    EXPECT_MARK(crew_reported_and_fell_silent);
    struct taken t;
    take(&t);
    lost(&t.f, 2);
    says(&t, 0, report(EPOCH, -1));
    says(&t, 1, report(EPOCH, -1));
    says(&t, 3, report(EPOCH, EPOCH - 1)); /* the one that is asked would be 0 */
    wait_with(&t, ORPHAN_MS * 3 / 2 + 200, 0, 1);
    shows(&t, 0);
    culm_gnn_leader_actor.leads->written(t.f.leader, CULM_DEED_ROLL_BACK);
    assert_int_equal(fake_world_events(&t.f.fake, "rollback"), 1);
    release(&t);
}

/* Whom the view does not name comes in as if it joined, be it that it was put out. */
static void test_others_come_in_anew(void **state) {
    (void)state;
    EXPECT_MARK(interval_comes_in_anew_when_taken_over);
    EXPECT_MARK(interval_joins_a_leader_that_takes_over);
    struct taken t;
    take(&t);
    joined_from_elsewhere(&t.f, CULM_GNN_SERVER);          /* 4 */
    struct culm_gnn_report out = report(EPOCH + 1, EPOCH); /* nor does what it has heard */
    out.view = BEFORE - 1;
    t.view.holder_count = 1; /* not 3 */
    says(&t, 0, report(EPOCH, -1));
    says(&t, 1, report(EPOCH, -1));
    says(&t, 2, report(EPOCH, EPOCH - 1));
    says(&t, 3, out);
    shows(&t, 0);
    assert_int_equal(fake_world_events(&t.f.fake, "joined"), 2);
    for (int32_t node = 3; node <= 4;
         node++) { /* it may be the only one whom yet another leader can ask */
        const struct fake_sent *told = fake_world_last(&t.f.fake, node, CULM_GNN_MSG_CURVE);
        struct culm_gnn_curve *curve = calloc(1, sizeof *curve);
        assert_true(told && curve);
        assert_int_equal(culm_gnn_curve_decode(told->meta, told->meta_bytes, curve), CULM_OK);
        assert_int_equal(curve->count, t.curve->count);
        free(curve);
    }
    const struct culm_gnn_view *view = view_of(&t.f, 3);
    assert_int_equal(view->course.epoch, EPOCH);
    assert_int_equal(view->holder_count, 3); /* but what it has does not count: it is sent a copy */
    assert_int_equal(view->holder[1].node, 3);
    assert_int_equal(view->holder[1].from, 2);
    assert_int_equal(view->holder[1].since, view->number);
    assert_int_equal(view->holder[2].node, 4); /* which is on another machine */
    release(&t);
}

/* One that owns a part of what is at home in a place has a place, ahead of one that stands by, though that one came first: it is
 * the servers in places to whom others' intervals go. */
static void test_an_owner_of_a_part_has_a_place(void **state) {
    (void)state;
    struct culm_gnn_settings settings = plain();
    settings.count[CULM_GNN_SERVER] = 1;
    struct taken t;
    take_so(&t, &settings, 0, 2);
    t.f.home[1] = 0;
    t.view.owner[0] = -1; /* its owner was lost just now */
    t.view.owner[1] = 1;  /* server 0 stands by */
    all_say(&t, EPOCH, EPOCH - 1);
    shows(&t, 0);
    const struct culm_gnn_view *view = view_of(&t.f, 1);
    assert_int_equal(view->owner[0], 1);
    assert_int_equal(view->owner[1], 1);
    release(&t);
}

static void test_a_save_is_due_again(void **state) {
    (void)state;
    EXPECT_MARK(interval_save_of_the_leader_before_is_due_again);
    struct culm_gnn_settings settings = plain();
    settings.checkpoint_every = 2;
    struct taken t;
    take_from(&t, &settings, 2);
    all_say(&t, EPOCH, EPOCH - 1);
    shows(&t, 0);
    not_written(&t.f, 4, "the process that led was lost while it was written");
    all_done(&t, EPOCH);
    assert_int_equal(saver_of(&t.f, EPOCH), 2);
    release(&t);
}

/* Nobody is left who has seen a view: that all begin with a checkpoint is written before. It is looked for first: what the leader
 * was told of has gone, if another one was cut off from all but the checkpoints, and has saved newer ones. */
static void test_nobody_has_seen_a_view(void **state) {
    (void)state;
    EXPECT_MARK(interval_taken_over_and_nobody_has_seen_a_view);
    EXPECT_MARK(interval_checkpoint_is_newer);
    EXPECT_MARK(interval_bill_of_what_was_before);
    for (int64_t version = 3; version <= 5; version += 2) {
        struct culm_gnn_settings settings = plain();
        struct taken t;
        take_from(&t, &settings, 3);
        for (int32_t node = 0; node < KNOWN; node++) {
            says(&t, node, (struct culm_gnn_report){0});
        }
        assert_string_equal(reason_of(&t), "nobody is left who has seen a view");
        struct culm_gnn_task *find = task_of(&t.f, CULM_GNN_TASK_FIND);
        assert_int_equal(find->version, 3);
        assert_true(find->anew);
        find->version = version;
        find->seconds = 1000;
        find->usd = 7;
        task_ends(&t.f, find, CULM_OK);
        assert_int_equal(fake_world_events(&t.f.fake, "checkpoint"), 0);
        assert_int_equal(fake_world_events(&t.f.fake, "view"), 0);
        culm_gnn_leader_actor.leads->written(t.f.leader, CULM_DEED_ROLL_BACK);
        const struct culm_gnn_view *view = view_of(&t.f, 0);
        assert_int_equal(view->number, CULM_VIEW_OF_TERM(TERM) + 1);
        assert_int_equal(view->load_version, version);
        assert_string_equal(view->load, "file");
        assert_true(view->attempt > 1);             /* that of no leader before */
        assert_true(view->balance.seconds >= 1000); /* nobody else could tell of it */
        assert_true(view->balance.usd >= 7);
        release(&t);
    }
}

/* A stop while it is looked for: nothing else comes of that. */
static void test_a_stop_while_it_looks_for_a_checkpoint(void **state) {
    (void)state;
    struct culm_gnn_settings settings = plain();
    struct taken t;
    take_from(&t, &settings, 3);
    for (int32_t node = 0; node < KNOWN; node++) {
        says(&t, node, (struct culm_gnn_report){0});
    }
    culm_gnn_leader_actor.leads->stop(t.f.leader);
    did(&t.f, CULM_GNN_TASK_FIND, CULM_OK);
    assert_int_equal(t.f.fake.exit_code, -1);
    culm_gnn_leader_actor.leads->written(t.f.leader, CULM_DEED_STOP);
    ended_with(&t.f, CULM_ERR_STOPPED, "stopped before the first epoch");
    assert_int_equal(fake_world_events(&t.f.fake, "view"), 0);
    release(&t);
}

/* A stop that was asked for while it takes over is looked at when it has: what is committed is saved, that is written, and it
 * leaves. */
static void test_a_stop_while_it_takes_over(void **state) {
    (void)state;
    struct taken t;
    take(&t);
    culm_gnn_leader_actor.leads->stop(t.f.leader);
    all_say(&t, EPOCH, EPOCH - 1);
    shows(&t, 0);
    says_saved(&t.f, 2, CULM_OK);
    did(&t.f, CULM_GNN_TASK_PUBLISH, CULM_OK);
    did(&t.f, CULM_GNN_TASK_FINISH, CULM_OK);
    assert_int_equal(t.f.fake.exit_code, -1);
    culm_gnn_leader_actor.leads->written(t.f.leader, CULM_DEED_STOP);
    ended_with(&t.f, CULM_ERR_STOPPED, "stopped after epoch 4");
    release(&t);
}

/* Two things are not written at a time; and what comes of a stop comes of it alone. */
static void test_a_stop_while_it_is_to_begin_anew(void **state) {
    (void)state;
    EXPECT_MARK(interval_stopped_while_it_is_to_go_back);
    struct culm_gnn_settings settings = plain();
    struct taken t;
    take_from(&t, &settings, 3);
    for (int32_t node = 0; node < KNOWN; node++) {
        says(&t, node, (struct culm_gnn_report){0});
    }
    did(&t.f, CULM_GNN_TASK_FIND, CULM_OK);
    culm_gnn_leader_actor.leads->stop(t.f.leader);
    culm_gnn_leader_actor.leads->written(t.f.leader, CULM_DEED_ROLL_BACK);
    assert_int_equal(t.f.fake.exit_code, -1);
    assert_int_equal(fake_world_events(&t.f.fake, "view"), 0);
    culm_gnn_leader_actor.leads->written(t.f.leader, CULM_DEED_STOP);
    ended_with(&t.f, CULM_ERR_STOPPED, "stopped before the first epoch");
    release(&t);
}

/* It leads, and then cannot ask who does for longer than store_ms. */
static void take_cut_off(struct taken *t) {
    struct culm_gnn_settings settings = plain();
    settings.crew.store_ms = 500;
    take_from(t, &settings, 0);
    all_say(t, EPOCH, EPOCH - 1);
    shows(t, 0);
    culm_gnn_leader_actor.leads->away(t->f.leader, 600);
}

/* One that cannot ask who leads commits nothing, and has saved what is committed. */
static void test_it_is_cut_off(void **state) {
    (void)state;
    EXPECT_MARK(interval_saves_as_it_is_cut_off);
    EXPECT_MARK(crew_is_cut_off);
    struct taken t;
    take_cut_off(&t);
    says_saved(&t.f, 2, CULM_OK);
    did(&t.f, CULM_GNN_TASK_PUBLISH, CULM_OK);
    all_done(&t, EPOCH);
    assert_int_equal(fake_world_sent(&t.f.fake, 0, CULM_GNN_MSG_COMMIT), 0);
    culm_gnn_leader_actor.leads->away(t.f.leader, 0);
    committed(&t.f, EPOCH);
    release(&t);
}

/* A silent one is put out, but not with the last copy: for that it is waited until it must have ended. */
static void test_a_silent_one_with_the_last_copy(void **state) {
    (void)state;
    EXPECT_MARK(crew_silent_may_have_the_last_copy);
    struct taken t;
    take(&t);
    all_say(&t, EPOCH, EPOCH - 1);
    shows(&t, 0);
    wait_with(&t, SUSPECT_MS + 200, 0, 2); /* 3 is silent, and 2 has what it has */
    assert_int_equal(fake_world_events(&t.f.fake, "lost"), 1);
    wait_with(&t, SUSPECT_MS + 200, 0, 1); /* so is 2; to 0 and 1 nothing has been copied */
    assert_int_equal(fake_world_events(&t.f.fake, "lost"), 1);
    assert_int_equal(fake_world_events(&t.f.fake, "waiting"), 1);
    assert_int_equal(fake_world_events(&t.f.fake, "rollback"), 0);
    wait_with(&t, 200, 0, 2); /* it wakes */
    wait_with(&t, SUSPECT_MS + 200, 0, 1);
    assert_int_equal(fake_world_events(&t.f.fake, "waiting"), 2);
    wait_with(&t, ORPHAN_MS * 3 / 2, 0, 1);
    assert_int_equal(fake_world_events(&t.f.fake, "lost"), 2);
    culm_gnn_leader_actor.leads->written(t.f.leader, CULM_DEED_ROLL_BACK);
    assert_int_equal(fake_world_events(&t.f.fake, "rollback"), 1);
    release(&t);
}

/* Those who would save it have left that version by then, and cannot tell of it any more: the epoch that they have come to is
 * committed, saved ahead of that, and is the last one. */
static void test_it_is_cut_off_too_late(void **state) {
    (void)state;
    EXPECT_MARK(interval_stopped_too_late_for_that);
    EXPECT_MARK(interval_commits_what_it_saves_as_it_is_cut_off);
    struct taken t;
    take_cut_off(&t);
    says_saved(&t.f, 2, CULM_ERR_AGAIN);
    all_done(&t, EPOCH);
    assert_int_equal(fake_world_sent(&t.f.fake, 0, CULM_GNN_MSG_COMMIT),
                     0); /* it could not be saved yet */
    did(&t.f, CULM_GNN_TASK_DISCARD, CULM_OK);
    assert_int_equal(saver_of(&t.f, EPOCH), 2);
    saves(&t.f, 2);
    fake_world_forget(&t.f.fake);
    all_done(&t, EPOCH + 1);
    assert_int_equal(fake_world_sent(&t.f.fake, 0, CULM_GNN_MSG_COMMIT), 0);
    assert_int_equal(fake_world_sent(&t.f.fake, 2, CULM_GNN_MSG_SAVE), 0);
    culm_gnn_leader_actor.leads->away(t.f.leader, 0);
    committed(&t.f, EPOCH + 1);
    release(&t);
}

/* The one that saves it is lost: another one does. */
static void test_the_writer_is_lost_as_it_is_cut_off(void **state) {
    (void)state;
    struct taken t;
    take_cut_off(&t);
    lost(&t.f, 2);
    did(&t.f, CULM_GNN_TASK_DISCARD, CULM_OK);
    saves(&t.f, 3);
    assert_int_equal(number(&t.f, "checkpoint", "epoch"), EPOCH - 1);
    release(&t);
}

static void test_it_is_deposed(void **state) {
    (void)state;
    struct taken t;
    take(&t);
    all_say(&t, EPOCH, EPOCH - 1);
    shows(&t, 0);
    fake_world_forget(&t.f.fake);
    culm_gnn_leader_actor.leads->deposed(t.f.leader, TERM + 1);
    ended_with(&t.f, CULM_ERR_CLOSED, "another process leads");
    assert_int_equal(fake_world_sent(&t.f.fake, 0, CULM_WORD_END), 0);
    release(&t);
}

/* --- where rows may be stale --- */

/* That epoch is written down as committed, with a state of that digest, in the branch that began with that attempt and version. */
static void take_stale(struct taken *t, int64_t epoch, uint64_t digest, uint32_t branch,
                       int64_t version, int64_t saved) {
    struct culm_gnn_settings settings = plain();
    struct culm_gnn_committed committed = {.digest = digest,
                                           .commit = {.attempt = branch,
                                                      .epoch = epoch,
                                                      .next = {.epoch = epoch + 1, .train = true},
                                                      .outcome = {.epoch = epoch, .loss = 77}}};
    char about[CULM_DEED_ABOUT_MAX];
    settings.pace.staleness = 1;
    culm_gnn_past_add(&committed.past, branch, version);
    assert_true(culm_gnn_committed_write(&committed, about));
    take_written(t, &settings, saved, 2, about);
}

/* What is committed is what is written down, whatever anyone has heard. */
static void test_a_commit_of_which_nobody_has_heard(void **state) {
    (void)state;
    EXPECT_MARK(interval_commit_that_is_only_written);
    struct taken t;
    take_stale(&t, EPOCH, EPOCH, 1, 0, 0);
    all_say(&t, EPOCH, EPOCH);
    shows(&t, 0);
    const struct culm_gnn_view *view = view_of(&t.f, 1);
    assert_int_equal(view->course.epoch, EPOCH + 1);
    assert_true(view->attempt > 1); /* what there is of the epoch is not used */
    assert_int_equal(view->load_attempt, 1);
    assert_int_equal(view->holder[0].since, 1);
    assert_int_equal(number(&t.f, "epoch", "epoch"), EPOCH);
    assert_true(json_real_value(json_object_get(fake_world_told(&t.f.fake, "epoch"), "loss")) ==
                77);
    t.f.attempt = view->attempt;
    done_so(&t.f, 0, 0, EPOCH + 1, 0);
    done_so(&t.f, 1, 1, EPOCH + 1, 0);
    both_hold(&t.f, 2, 3, EPOCH + 1);
    assert_int_equal(t.f.fake.deed, CULM_DEED_COMMIT);
    assert_int_equal(t.f.fake.deed_step, EPOCH + 1);
    release(&t);
}

/* Nor is a state of that version that of the commit, if it is another one; or if all have loaded since, whom nobody can tell of. */
static void test_a_state_that_was_not_committed(void **state) {
    (void)state;
    EXPECT_MARK(interval_nobody_is_left_of_what_is_written);
    for (int later_branch = 0; later_branch < 2; later_branch++) {
        struct taken t;
        take_stale(&t, EPOCH, later_branch ? EPOCH : 99, later_branch ? 9 : 1, 0, 0);
        all_say(&t, EPOCH, EPOCH);
        shows(&t, 0);
        assert_int_equal(t.f.fake.deeds, 1);
        assert_int_equal(t.f.fake.deed, CULM_DEED_ROLL_BACK);
        assert_int_equal(t.f.fake.deed_step, 0);
        culm_gnn_leader_actor.leads->written(t.f.leader, CULM_DEED_ROLL_BACK);
        const struct culm_gnn_view *view = view_of(&t.f, 1);
        assert_int_equal(view->course.epoch, 1);
        assert_int_equal(view->load_attempt, view->attempt);
        release(&t);
    }
}

/* One holder has stepped to the version of the epoch in progress: so that is what it comes to. */
static void test_a_holder_that_is_ahead_decides(void **state) {
    (void)state;
    EXPECT_MARK(interval_holder_is_not_as_far_when_taken_over);
    struct taken t;
    take_stale(&t, EPOCH - 1, EPOCH - 1, 1, 0, 0);
    says(&t, 0, report(EPOCH, -1));
    says(&t, 1, report(EPOCH, -1));
    says(&t, 2, report(EPOCH, EPOCH - 1));
    says(&t, 3, report(EPOCH, EPOCH));
    shows(&t, 0);
    const struct culm_gnn_view *view = view_of(&t.f, 1);
    assert_int_equal(view->course.epoch, EPOCH);
    assert_int_equal(view->holder[0].node, 3);
    assert_int_equal(view->holder[0].since, 1);
    assert_int_equal(view->holder[1].node, 2);
    assert_int_equal(view->holder[1].from, 3);
    assert_int_equal(view->holder[1].since, view->number);
    t.f.attempt = view->attempt;
    done_so(&t.f, 0, 0, EPOCH, 0);
    done_so(&t.f, 1, 1, EPOCH, 0);
    holds(&t.f, 2, EPOCH);
    assert_int_equal(t.f.fake.deeds,
                     0); /* the other one has only said so to a leader that takes over */
    holds(&t.f, 3, EPOCH);
    assert_int_equal(t.f.fake.deed, CULM_DEED_COMMIT);
    release(&t);
}

/* The newest checkpoint is of a branch that is over: an older one is looked for, until it is known whether there is one. */
static void test_a_checkpoint_of_another_past(void **state) {
    (void)state;
    EXPECT_MARK(interval_checkpoint_is_of_another_past);
    EXPECT_MARK(interval_checkpoint_is_looked_for_again);
    struct taken t;
    take_stale(&t, EPOCH, EPOCH, 9, 2, 4);
    all_say(&t, EPOCH, EPOCH);
    shows(&t, 0);
    did(&t.f, CULM_GNN_TASK_FIND, CULM_ERR_IO);
    assert_int_equal(t.f.fake.deeds, 0);
    assert_null(fake_world_io(&t.f.fake));
    wait_with(&t, CULM_ROOM_AGAIN_MS + 100, 0, 3);
    struct culm_gnn_task *find = task_of(&t.f, CULM_GNN_TASK_FIND);
    assert_false(culm_gnn_past_names(&find->past, 4, 1));
    assert_true(culm_gnn_past_names(&find->past, 4, 9));
    find->version = 2;
    task_ends(&t.f, find, CULM_OK);
    assert_int_equal(t.f.fake.deed, CULM_DEED_ROLL_BACK);
    assert_int_equal(t.f.fake.deed_step, 2);
    release(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_goes_on),
        cmocka_unit_test(test_one_that_has_heard_of_the_commit),
        cmocka_unit_test(test_it_goes_back_when_no_copy_is_left),
        cmocka_unit_test(test_a_copy_that_comes_before_it_goes_back),
        cmocka_unit_test(test_a_last_copy_is_waited_for),
        cmocka_unit_test(test_one_that_reports_and_falls_silent),
        cmocka_unit_test(test_others_come_in_anew),
        cmocka_unit_test(test_an_owner_of_a_part_has_a_place),
        cmocka_unit_test(test_a_save_is_due_again),
        cmocka_unit_test(test_nobody_has_seen_a_view),
        cmocka_unit_test(test_a_stop_while_it_takes_over),
        cmocka_unit_test(test_a_stop_while_it_looks_for_a_checkpoint),
        cmocka_unit_test(test_a_stop_while_it_is_to_begin_anew),
        cmocka_unit_test(test_a_report_that_cannot_be_read),
        cmocka_unit_test(test_it_is_cut_off),
        cmocka_unit_test(test_a_silent_one_with_the_last_copy),
        cmocka_unit_test(test_it_is_cut_off_too_late),
        cmocka_unit_test(test_the_writer_is_lost_as_it_is_cut_off),
        cmocka_unit_test(test_it_is_deposed),
        cmocka_unit_test(test_a_commit_of_which_nobody_has_heard),
        cmocka_unit_test(test_a_state_that_was_not_committed),
        cmocka_unit_test(test_a_holder_that_is_ahead_decides),
        cmocka_unit_test(test_a_checkpoint_of_another_past),
    };
    return cmocka_run_group_tests_name("interval/leader_take", tests, NULL, NULL);
}
