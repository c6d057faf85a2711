/* A leader alone, whose nodes the test plays: workers that fail, who saves, what a loss costs, who is replaced or waited for, and which end of a broken link goes. */
#include "gnn/leader.h"

#include "../fake_world.h"
#include "gnn/message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000000ull
#define WORKERS 2
#define INTERVALS 4 /* at most */
#define ROUND 5     /* workers that fail one after the other, before there is a rest */

struct fixture {
    struct fake_world fake;
    struct culm_gnn_layout layout;
    struct culm_gnn_leader *leader;
    struct culm_buf buf;
    int32_t home[INTERVALS];
    int32_t next,
        seen; /* id of the next node to come; workers asked for that have been looked at */
    uint32_t attempt;
};

static void joined(struct fixture *f, uint32_t role) {
    const struct culm_node_info info = {.role = role, .name = "here"};
    f->fake.role[f->next] = role;
    culm_gnn_leader_actor.leads->joined(f->leader, f->next++, &info);
}

/* Intervals of two vertices each; the first `at_first` are of server 0, and the others of server 1, if there
 * are two. Nobody has joined yet. */
static void make(struct fixture *f, int32_t intervals, int32_t at_first,
                 const struct culm_gnn_settings *settings) {
    static const size_t bytes[] = {8, 8};
    *f = (struct fixture){.attempt = 1};
    fake_world_init(&f->fake);
    culm_buf_init(&f->buf, CULM_GNN_META_MAX);
    assert_int_equal(culm_gnn_layout_init(&f->layout, intervals, NULL), CULM_OK);
    for (int32_t i = 0; i < intervals; i++) {
        f->layout.first[i + 1] = f->layout.first[i] + 2;
        f->home[i] = i >= at_first;
    }
    culm_gnn_layout_steps(&f->layout, 2, bytes, bytes, bytes);
    const struct culm_gnn_leader_options options = {
        .world = &f->fake.world,
        .agent = &f->fake.agent,
        .layout = &f->layout,
        .settings = *settings,
        .home = f->home,
        .rows = {1, 1, 1},
        .start_path = "",
    };
    f->leader = culm_gnn_leader_new(&options);
    assert_non_null(f->leader);
    culm_gnn_leader_actor.start(f->leader);
    assert_int_equal(f->fake.started_as[CULM_GNN_WORKER], settings->count[CULM_GNN_WORKER]);
}

static struct culm_gnn_settings settings_of(int32_t servers, int32_t parameters, int32_t workers) {
    return (struct culm_gnn_settings){.count = {servers, parameters, workers},
                                      .pace = {.epochs = 9},
                                      .checkpoint_every = 1,
                                      .beat_ms = 100,
                                      .suspect_ms = 1000000000,
                                      .stuck_ms = 1000000000};
}

/* All servers and parameter servers have joined. */
static void begin_so(struct fixture *f, int32_t intervals, int32_t at_first,
                     const struct culm_gnn_settings *settings) {
    make(f, intervals, at_first, settings);
    for (int32_t s = 0; s < settings->count[CULM_GNN_SERVER]; s++) {
        joined(f, CULM_GNN_SERVER);
    }
    for (int32_t p = 0; p < settings->count[CULM_GNN_PARAMETER]; p++) {
        joined(f, CULM_GNN_PARAMETER);
    }
}

static void begin_with(struct fixture *f, int32_t intervals, int32_t at_first, int32_t servers,
                       int32_t parameters, int32_t workers) {
    const struct culm_gnn_settings settings = settings_of(servers, parameters, workers);
    begin_so(f, intervals, at_first, &settings);
}

static void begin(struct fixture *f, int32_t parameters, int32_t workers) {
    begin_with(f, 1, 1, 1, parameters, workers);
}

static void end(struct fixture *f) {
    assert_int_equal(f->fake.exit_code, -1); /* the run is still on */
    culm_gnn_leader_free(f->leader);
    fake_world_release(&f->fake);
    culm_gnn_layout_release(&f->layout);
    culm_buf_release(&f->buf);
}

/* What lies in the buffer, as a message of `node`. */
static void deliver(struct fixture *f, int32_t node, enum culm_gnn_message_type type) {
    const struct culm_message message = {
        .type = (uint16_t)type, .meta = f->buf.data, .meta_bytes = (uint32_t)f->buf.len};
    culm_gnn_leader_actor.message(f->leader, node, &message);
    culm_buf_clear(&f->buf);
}

static void lost(struct fixture *f, int32_t node) {
    culm_gnn_leader_actor.lost(f->leader, node);
    culm_gnn_leader_actor.leads->ended(f->leader, node, NULL);
}

static void failed(struct fixture *f, int32_t node, enum culm_status status) {
    const struct culm_gnn_failed why = {.status = status, .why = "for a test"};
    culm_gnn_failed_encode(&why, &f->buf);
    deliver(f, node, CULM_GNN_MSG_FAILED);
    lost(f, node);
}

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

static void holds_so(struct fixture *f, int32_t node, int64_t version, bool diverged) {
    const struct culm_gnn_held held = {.attempt = f->attempt,
                                       .version = version,
                                       .digest = (uint64_t)version,
                                       .view = UINT64_MAX,
                                       .diverged = diverged};
    culm_gnn_held_encode(&held, &f->buf);
    deliver(f, node, CULM_GNN_MSG_HOLDS);
}

static void holds(struct fixture *f, int32_t node, int64_t version) {
    holds_so(f, node, version, false);
}

static void done_so(struct fixture *f, int32_t node, int32_t interval, int64_t epoch,
                    int64_t redone) {
    const struct culm_gnn_done done = {.attempt = f->attempt,
                                       .epoch = epoch,
                                       .interval = interval,
                                       .trained = true,
                                       .redone = redone};
    culm_gnn_done_encode(&done, &f->buf);
    deliver(f, node, CULM_GNN_MSG_DONE);
}

/* The only server is done with the epoch, which is committed when all holders are. */
static void done(struct fixture *f, int64_t epoch) { done_so(f, 0, 0, epoch, 0); }

/* Nodes 0, a server, and 1 and 2, which hold the weights, are done with the epoch. */
static void commits(struct fixture *f, int64_t epoch) {
    done(f, epoch);
    holds(f, 1, epoch);
    holds(f, 2, epoch);
}

/* Who was told to save what was committed last. */
static int32_t saver_of(const struct fixture *f, int64_t epoch) {
    const struct fake_sent *sent = fake_world_last(&f->fake, 0, CULM_GNN_MSG_COMMIT);
    struct culm_gnn_commit commit;
    assert_non_null(sent);
    assert_int_equal(culm_gnn_commit_decode(sent->meta, sent->meta_bytes, &commit), CULM_OK);
    assert_int_equal(commit.epoch, epoch);
    return commit.saver;
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
    const struct culm_gnn_saved saved = {
        .attempt = f->attempt, .version = version, .status = CULM_ERR_IO, .why = "the disk is full"};
    culm_gnn_saved_encode(&saved, &f->buf);
    deliver(f, node, CULM_GNN_MSG_SAVED);
}

/* Of a checkpoint that could not be written it is told; the last one ends the run, which after a stop is
 * that of the epoch in progress. */
static void test_not_saved(void **state) {
    (void)state;
    struct fixture f;
    begin(&f, 2, 0);
    holds(&f, 1, 0);
    holds(&f, 2, 0);
    commits(&f, 1);
    assert_int_equal(saver_of(&f, 1), 1);
    culm_gnn_leader_actor.leads->stop(f.leader);
    not_saved(&f, 1, 1);
    assert_int_equal(fake_world_events(&f.fake, "checkpoint"), 1);
    assert_int_equal(f.fake.exit_code, -1);
    assert_int_equal(fake_world_events(&f.fake, "lost"), 0);
    commits(&f, 2);
    assert_int_equal(saver_of(&f, 2), 1);
    not_saved(&f, 1, 2);
    assert_int_equal(fake_world_events(&f.fake, "checkpoint"), 2);
    assert_int_equal(f.fake.exit_code, culm_status_exit_code(CULM_ERR_IO));
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

/* --- who is replaced, and who is waited for --- */

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
    assert_int_equal(f->fake.exit_code, culm_status_exit_code(status));
    if (!strstr(f->fake.error, text)) {
        fail_msg("'%s' is not in '%s'", text, f->fake.error);
    }
    f->fake.exit_code = -1;
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
    static const int32_t node[CULM_GNN_ROLES] = {1, 2, 3};
    for (uint32_t r = 0; r < CULM_GNN_ROLES; r++) {
        struct fixture f;
        struct culm_gnn_settings settings = settings_of(2, 1, 1);
        settings.replace_ms = 500;
        begin_so(&f, 2, 1, &settings);
        joined(&f, CULM_GNN_WORKER);
        holds(&f, 2, 0);
        holds(&f, 0, 0);
        int32_t before = f.fake.started_as[r];
        lost(&f, node[r]);
        pass(&f, 499);
        culm_gnn_leader_actor.timer(f.leader, 0);
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
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(1, 1, 1);
    settings.replace_ms = -1;
    begin_so(&f, 1, 1, &settings);
    joined(&f, CULM_GNN_WORKER);
    deliver(&f, 2, CULM_GNN_MSG_LEAVING);
    assert_int_equal(f.fake.started_as[CULM_GNN_WORKER], 2);
    lost(&f, 2); /* as it said */
    joined(&f, CULM_GNN_WORKER);
    lost(&f, 3);
    pass(&f, 100000);
    assert_int_equal(f.fake.started_as[CULM_GNN_WORKER], 2);
    end(&f);
}

/* One from elsewhere has come in its place by the time it is due. */
static void test_place_taken(void **state) {
    (void)state;
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(2, 1, 0);
    settings.replace_ms = 500;
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
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(2, 1, 0);
    settings.replace_ms = -1;
    begin_so(&f, 2, 1, &settings);
    holds(&f, 2, 0);
    holds(&f, 0, 0);
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

/* Servers have the weights, but none of them may save. */
static void test_never_saved(void **state) {
    (void)state;
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(2, 1, 0);
    settings.replace_ms = -1;
    settings.newcomers = true;
    begin_so(&f, 2, 1, &settings);
    holds(&f, 2, 0);
    holds(&f, 0, 0);
    lost(&f, 2);
    failed_with(&f, CULM_ERR_IO, "the last parameter server was lost");
}

/* Before the first view: those who are left begin. */
static void test_fewer_begin(void **state) {
    (void)state;
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(2, 1, 0);
    settings.replace_ms = -1;
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

/* Somebody may still come from elsewhere, but not for ever. */
static void test_waits_for_newcomer(void **state) {
    (void)state;
    for (int comes = 0; comes < 2; comes++) {
        struct fixture f;
        struct culm_gnn_settings settings = settings_of(1, 1, 0);
        settings.replace_ms = -1;
        settings.wait_ms = 1000;
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
                    "waited 1000 ms for servers and have only 0 of 1; there is no "
                    "checkpoint yet");
    }
}

static void test_stopped_while_waiting(void **state) {
    (void)state;
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(1, 1, 0);
    settings.replace_ms = -1;
    settings.newcomers = true;
    begin_so(&f, 1, 1, &settings);
    lost(&f, 0);
    culm_gnn_leader_actor.leads->stop(f.leader);
    failed_with(&f, CULM_ERR_STOPPED, "stopped while it waited for a server");
}

/* A start that is under way is waited for longer, and when it has come there is a whole limit again. */
static void test_waits_for_start(void **state) {
    (void)state;
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(1, 1, 0);
    settings.wait_ms = 1000;
    make(&f, 1, 1, &settings);
    assert_int_equal(fake_world_events(&f.fake, "waiting"), 2); /* of both roles */
    pass(&f, 5000);
    joined(&f, CULM_GNN_SERVER);
    told_of(&f, "parameter", 1, 0);
    culm_gnn_leader_actor.timer(f.leader, 0);
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
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(2, 1, 0);
    settings.wait_ms = 1000;
    settings.replace_ms = 60000;
    make(&f, 2, 1, &settings);
    joined(&f, CULM_GNN_SERVER);
    joined(&f, CULM_GNN_SERVER);
    lost(&f, 1);
    told_of(&f, "server", 2, 1);
    pass(&f, 1000);
    failed_with(&f, CULM_ERR_IO,
                "waited 1000 ms for servers and have only 1 of 2; start more, or lower servers");
}

/* All is done but for the last checkpoint, which only a parameter server can write. */
static void test_waits_to_save(void **state) {
    (void)state;
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(1, 1, 0);
    settings.wait_ms = 1000;
    settings.replace_ms = 60000;
    settings.pace.epochs = 1;
    begin_so(&f, 1, 1, &settings);
    holds(&f, 1, 0);
    holds(&f, 0, 0);
    done(&f, 1);
    holds(&f, 1, 1);
    holds(&f, 0, 1);
    assert_int_equal(saver_of(&f, 1), 1);
    fake_world_forget(&f.fake);
    lost(&f, 1);
    told_of(&f, "parameter", 1, 0);
    pass(&f, 1000);
    failed_with(&f, CULM_ERR_IO, "waited 1000 ms for parameter servers and have only 0 of 1");
}

static void test_no_more_than(void **state) {
    (void)state;
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(1, 1, 0);
    settings.replace_ms = 500;
    settings.newcomers = true;
    settings.max_nodes = 3;
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
        cmocka_unit_test(test_replaced_later),
        cmocka_unit_test(test_released_at_once),
        cmocka_unit_test(test_place_taken),
        cmocka_unit_test(test_never_replaced),
        cmocka_unit_test(test_lost_at_the_end),
        cmocka_unit_test(test_not_saved),
        cmocka_unit_test(test_never_saved),
        cmocka_unit_test(test_fewer_begin),
        cmocka_unit_test(test_waits_for_newcomer),
        cmocka_unit_test(test_stopped_while_waiting),
        cmocka_unit_test(test_waits_for_start),
        cmocka_unit_test(test_never_begins),
        cmocka_unit_test(test_waits_to_save),
        cmocka_unit_test(test_no_more_than),
    };
    return cmocka_run_group_tests_name("gnn/leader", tests, NULL, NULL);
}
