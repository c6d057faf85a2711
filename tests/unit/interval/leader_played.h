/* A leader alone, whose nodes the test plays. */
#ifndef CULM_TESTS_LEADER_PLAYED_H
#define CULM_TESTS_LEADER_PLAYED_H

#include "interval/leader.h"

#include "../fake_world.h"
#include "crew/crew.h"
#include "interval/message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000000ull
#define WORKERS 2
#define INTERVALS 8 /* at most */
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

/* What was due at once is done. */
static inline void settle(struct fixture *f) {
    if (f->fake.timer_ns[CULM_CREW_REVIEW] <= f->fake.now_ns) {
        f->fake.timer_ns[CULM_CREW_REVIEW] = CULM_NEVER;
        culm_gnn_leader_actor.timer(f->leader, CULM_CREW_REVIEW);
    }
}

/* A tick of the leader. */
static inline void tick(struct fixture *f) {
    culm_gnn_leader_actor.timer(f->leader, CULM_CREW_TICK);
    settle(f);
}

static inline void later(struct fixture *f, uint64_t ms) {
    f->fake.now_ns += ms * MS;
    tick(f);
}

static inline void joined(struct fixture *f, uint32_t role) {
    const struct culm_node_info info = {.role = role, .name = "here"};
    f->fake.role[f->next] = role;
    culm_gnn_leader_actor.leads->joined(f->leader, f->next++, &info);
    settle(f);
}

/* Nobody has started it, and it has no run directory. */
static inline void joined_from_elsewhere(struct fixture *f, uint32_t role) {
    const struct culm_node_info info = {.role = role, .name = "there"};
    f->fake.role[f->next] = CULM_NO_ROLE;
    culm_gnn_leader_actor.leads->joined(f->leader, f->next++, &info);
    settle(f);
}

/* Options of a leader whose intervals have two vertices each; the first `at_first` are of server 0, and the others of server 1, if there
 * are two. */
static inline struct culm_gnn_leader_options prepare(struct fixture *f, int32_t intervals,
                                                     int32_t at_first,
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
    return (struct culm_gnn_leader_options){
        .world = &f->fake.world,
        .agent = &f->fake.agent,
        .layout = &f->layout,
        .settings = *settings,
        .home = f->home,
        .rows = {1, 1, 1},
        .start_path = "",
        .here_most = INT32_MAX,
    };
}

static inline void lead(struct fixture *f, const struct culm_gnn_leader_options *options) {
    f->leader = culm_gnn_leader_new(options);
    assert_non_null(f->leader);
    culm_gnn_leader_actor.start(f->leader);
}

/* A run that goes on from a version; `depot`: nodes from elsewhere reach its checkpoints. Nobody has joined yet. */
static inline void make_reached(struct fixture *f, int32_t intervals, int32_t at_first,
                                const struct culm_gnn_settings *settings, int64_t version,
                                const char *path, bool depot) {
    struct culm_gnn_leader_options options = prepare(f, intervals, at_first, settings);
    options.start_version = version;
    options.start_path = path;
    options.depot = depot;
    lead(f, &options);
    assert_int_equal(f->fake.started_as[CULM_GNN_WORKER], settings->count[CULM_GNN_WORKER]);
}

static inline void make_from(struct fixture *f, int32_t intervals, int32_t at_first,
                             const struct culm_gnn_settings *settings, int64_t version,
                             const char *path) {
    make_reached(f, intervals, at_first, settings, version, path, false);
}

static inline void make(struct fixture *f, int32_t intervals, int32_t at_first,
                        const struct culm_gnn_settings *settings) {
    make_from(f, intervals, at_first, settings, 0, "");
}

static inline struct culm_gnn_settings settings_of(int32_t servers, int32_t parameters,
                                                   int32_t workers) {
    return (struct culm_gnn_settings){.count = {servers, parameters, workers},
                                      .pace = {.epochs = 9},
                                      .crew = {.heartbeat_ms = 100,
                                               .suspect_ms = 1000000000,
                                               .stuck_ms = 1000000000,
                                               .join_ms = 1000000000,
                                               .max_nodes = CULM_GNN_NODES_MAX}};
}

/* All servers and parameter servers have joined. */
static inline void begin_so(struct fixture *f, int32_t intervals, int32_t at_first,
                            const struct culm_gnn_settings *settings) {
    make(f, intervals, at_first, settings);
    for (int32_t s = 0; s < settings->count[CULM_GNN_SERVER]; s++) {
        joined(f, CULM_GNN_SERVER);
    }
    for (int32_t p = 0; p < settings->count[CULM_GNN_PARAMETER]; p++) {
        joined(f, CULM_GNN_PARAMETER);
    }
}

static inline void begin_with(struct fixture *f, int32_t intervals, int32_t at_first,
                              int32_t servers, int32_t parameters, int32_t workers) {
    const struct culm_gnn_settings settings = settings_of(servers, parameters, workers);
    begin_so(f, intervals, at_first, &settings);
}

static inline void begin(struct fixture *f, int32_t parameters, int32_t workers) {
    begin_with(f, 1, 1, 1, parameters, workers);
}

static inline void end(struct fixture *f) {
    assert_int_equal(f->fake.exit_code, -1); /* the run is still on */
    culm_gnn_leader_free(f->leader);
    fake_world_release(&f->fake);
    culm_gnn_layout_release(&f->layout);
    culm_buf_release(&f->buf);
}

/* What lies in the buffer, as a message of `node`. */
static inline void deliver(struct fixture *f, int32_t node, uint16_t type) {
    const struct culm_message message = {
        .type = (uint16_t)type, .meta = f->buf.data, .meta_bytes = (uint32_t)f->buf.len};
    culm_gnn_leader_actor.message(f->leader, node, &message);
    culm_buf_clear(&f->buf);
}

static inline void lost(struct fixture *f, int32_t node) {
    culm_gnn_leader_actor.lost(f->leader, node);
    culm_gnn_leader_actor.leads->ended(f->leader, node, NULL);
    settle(f);
}

static inline void failed(struct fixture *f, int32_t node, enum culm_status status) {
    const struct culm_failed why = {.status = status, .why = "for a test"};
    culm_failed_encode(&why, &f->buf);
    deliver(f, node, CULM_WORD_FAILED);
    lost(f, node);
}
static inline void holds_so(struct fixture *f, int32_t node, int64_t version, bool diverged) {
    const struct culm_gnn_held held = {.attempt = f->attempt,
                                       .version = version,
                                       .digest = (uint64_t)version,
                                       .view = UINT64_MAX,
                                       .diverged = diverged};
    culm_gnn_held_encode(&held, &f->buf);
    deliver(f, node, CULM_GNN_MSG_HOLDS);
}

static inline void holds(struct fixture *f, int32_t node, int64_t version) {
    holds_so(f, node, version, false);
}

static inline void done_so(struct fixture *f, int32_t node, int32_t interval, int64_t epoch,
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
static inline void done(struct fixture *f, int64_t epoch) { done_so(f, 0, 0, epoch, 0); }

static inline void both_hold(struct fixture *f, int32_t a, int32_t b, int64_t version) {
    holds(f, a, version);
    holds(f, b, version);
}

/* Node 0, the only server, and those two, which hold the weights, are done with the epoch. */
static inline void commits_by(struct fixture *f, int64_t epoch, int32_t a, int32_t b) {
    done(f, epoch);
    both_hold(f, a, b, epoch);
}

/* The same of nodes 1 and 2, parameter servers. */
static inline void commits(struct fixture *f, int64_t epoch) { commits_by(f, epoch, 1, 2); }

/* Server 0, and 1 and 2, parameter servers that hold the weights. */
static inline void begin_held_by_two(struct fixture *f, const struct culm_gnn_settings *settings) {
    begin_so(f, 1, 1, settings);
    both_hold(f, 1, 2, 0);
}

/* Server 0, which has come from elsewhere, and parameter server 1, which alone can save what both hold. */
static inline void begin_elsewhere(struct fixture *f, const struct culm_gnn_settings *settings) {
    make(f, 1, 1, settings);
    joined_from_elsewhere(f, CULM_GNN_SERVER);
    joined(f, CULM_GNN_PARAMETER);
    both_hold(f, 1, 0, 0);
}

/* What was committed last is that epoch. */
static inline void committed(const struct fixture *f, int64_t epoch) {
    const struct fake_sent *sent = fake_world_last(&f->fake, 0, CULM_GNN_MSG_COMMIT);
    struct culm_gnn_commit commit;
    assert_non_null(sent);
    assert_int_equal(culm_gnn_commit_decode(sent->meta, sent->meta_bytes, &commit), CULM_OK);
    assert_int_equal(commit.epoch, epoch);
}

/* The last view that the node was told. The next call overwrites it. */
static inline const struct culm_gnn_view *view_of(const struct fixture *f, int32_t node) {
    static int32_t owner[INTERVALS];
    static struct culm_gnn_view view = {.owner = owner};
    const struct fake_sent *sent = fake_world_last(&f->fake, node, CULM_GNN_MSG_VIEW);
    assert_non_null(sent);
    assert_int_equal(culm_gnn_view_decode(sent->meta, sent->meta_bytes, &f->layout, &view),
                     CULM_OK);
    return &view;
}

/* Of the last such event; -1: there is none. */
static inline int64_t number(const struct fixture *f, const char *event, const char *key) {
    const json_t *told = fake_world_told(&f->fake, event);
    return told ? json_integer_value(json_object_get(told, key)) : -1;
}

/* The run has ended so, as it should. */
static inline void ended_with(struct fixture *f, enum culm_status status, const char *text) {
    assert_int_equal(f->fake.exit_code, culm_status_exit_code(status));
    if (!strstr(f->fake.error, text)) {
        fail_msg("'%s' is not in '%s'", text, f->fake.error);
    }
    f->fake.exit_code = -1;
}

/* The last order to save, and who has it; -1: there is none. */
static inline int32_t order_of(const struct fixture *f, struct culm_gnn_save *ret_save) {
    for (int32_t s = f->fake.sent_count - 1; s >= 0; s--) {
        const struct fake_sent *sent = &f->fake.sent[s];
        if (sent->type == CULM_GNN_MSG_SAVE) {
            assert_int_equal(culm_gnn_save_decode(sent->meta, sent->meta_bytes, ret_save), CULM_OK);
            return sent->to;
        }
    }
    return -1;
}

/* Who was told to save that version, ahead of its commit; -1: nobody. */
static inline int32_t saver_of(const struct fixture *f, int64_t epoch) {
    struct culm_gnn_save save;
    committed(f, epoch);
    const int32_t node = order_of(f, &save);
    return node >= 0 && save.version == epoch ? node : -1;
}

/* `node` says what has come of the last order. */
static inline void says_saved(struct fixture *f, int32_t node, enum culm_status status) {
    struct culm_gnn_save save;
    assert_int_equal(order_of(f, &save), node);
    struct culm_gnn_saved saved = {
        .version = save.version, .order = save.order, .status = status, .piece = "piece"};
    snprintf(saved.why, sizeof saved.why, "%s", status ? "the disk is full" : "");
    culm_gnn_saved_encode(&saved, &f->buf);
    deliver(f, node, CULM_GNN_MSG_SAVED);
}

/* The leader's own task, which must be of that kind, and runs. */
static inline struct culm_gnn_task *task_of(struct fixture *f, enum culm_gnn_task_kind kind) {
    struct culm_gnn_task *task = fake_world_io(&f->fake);
    assert_non_null(task);
    assert_int_equal(task->kind, kind);
    return task;
}

static inline void task_ends(struct fixture *f, struct culm_gnn_task *task,
                             enum culm_status status) {
    task->job.status = status;
    if (status != CULM_OK) {
        snprintf(task->job.error.text, sizeof task->job.error.text, "the disk is full");
    } else if (task->kind == CULM_GNN_TASK_PUBLISH) {
        snprintf(task->text, sizeof task->text, "file");
    } else if (task->kind == CULM_GNN_TASK_FIND && task->version > 0 && !task->text[0]) {
        snprintf(task->text, sizeof task->text, "file"); /* it is the one that was looked for */
    }
    culm_gnn_leader_actor.job_done(f->leader, &task->job);
}

/* The leader has such a task, which ends so. */
static inline void did(struct fixture *f, enum culm_gnn_task_kind kind, enum culm_status status) {
    task_ends(f, task_of(f, kind), status);
}

/* What could not be saved is forgotten, and it is looked for room for it. */
static inline void looked(struct fixture *f, enum culm_room_for room, const char *note) {
    did(f, CULM_GNN_TASK_DISCARD, CULM_OK);
    struct culm_gnn_task *task = task_of(f, CULM_GNN_TASK_ROOM);
    task->room = room;
    snprintf(task->note, sizeof task->note, "%s", note);
    task_ends(f, task, CULM_OK);
}

/* `node` has written the version that it was told to, and it is published. */
static inline void saves(struct fixture *f, int32_t node) {
    says_saved(f, node, CULM_OK);
    did(f, CULM_GNN_TASK_PUBLISH, CULM_OK);
}

/* The last checkpoint that was told of was not written, for this reason. */
static inline void not_written(const struct fixture *f, int64_t epoch, const char *why) {
    const json_t *told = fake_world_told(&f->fake, "checkpoint");
    assert_non_null(told);
    assert_int_equal(number(f, "checkpoint", "epoch"), epoch);
    assert_true(json_is_false(json_object_get(told, "ok")));
    assert_string_equal(json_string_value(json_object_get(told, "message")), why);
}

/* Checkpoints every so many epochs; what cannot be written is held for 10 s. */
static inline void begin_saving(struct fixture *f, int64_t every, int64_t epochs) {
    struct culm_gnn_settings settings = settings_of(1, 2, 0);
    settings.checkpoint_every = every;
    settings.pace.epochs = epochs;
    settings.crew.wait_ms = 10000;
    begin_held_by_two(f, &settings);
}

#endif
