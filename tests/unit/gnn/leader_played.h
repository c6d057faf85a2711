/* A leader alone, whose nodes the test plays. */
#ifndef CULM_TESTS_LEADER_PLAYED_H
#define CULM_TESTS_LEADER_PLAYED_H

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

static inline void joined(struct fixture *f, uint32_t role) {
    const struct culm_node_info info = {.role = role, .name = "here"};
    f->fake.role[f->next] = role;
    culm_gnn_leader_actor.leads->joined(f->leader, f->next++, &info);
}

/* Intervals of two vertices each; the first `at_first` are of server 0, and the others of server 1, if there
 * are two. Nobody has joined yet. */
static inline void make(struct fixture *f, int32_t intervals, int32_t at_first,
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

static inline struct culm_gnn_settings settings_of(int32_t servers, int32_t parameters,
                                                   int32_t workers) {
    return (struct culm_gnn_settings){.count = {servers, parameters, workers},
                                      .pace = {.epochs = 9},
                                      .checkpoint_every = 1,
                                      .beat_ms = 100,
                                      .suspect_ms = 1000000000,
                                      .stuck_ms = 1000000000};
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
static inline void deliver(struct fixture *f, int32_t node, enum culm_gnn_message_type type) {
    const struct culm_message message = {
        .type = (uint16_t)type, .meta = f->buf.data, .meta_bytes = (uint32_t)f->buf.len};
    culm_gnn_leader_actor.message(f->leader, node, &message);
    culm_buf_clear(&f->buf);
}

static inline void lost(struct fixture *f, int32_t node) {
    culm_gnn_leader_actor.lost(f->leader, node);
    culm_gnn_leader_actor.leads->ended(f->leader, node, NULL);
}

static inline void failed(struct fixture *f, int32_t node, enum culm_status status) {
    const struct culm_gnn_failed why = {.status = status, .why = "for a test"};
    culm_gnn_failed_encode(&why, &f->buf);
    deliver(f, node, CULM_GNN_MSG_FAILED);
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

/* Nodes 0, a server, and 1 and 2, which hold the weights, are done with the epoch. */
static inline void commits(struct fixture *f, int64_t epoch) {
    done(f, epoch);
    holds(f, 1, epoch);
    holds(f, 2, epoch);
}

/* Who was told to save what was committed last. */
static inline int32_t saver_of(const struct fixture *f, int64_t epoch) {
    const struct fake_sent *sent = fake_world_last(&f->fake, 0, CULM_GNN_MSG_COMMIT);
    struct culm_gnn_commit commit;
    assert_non_null(sent);
    assert_int_equal(culm_gnn_commit_decode(sent->meta, sent->meta_bytes, &commit), CULM_OK);
    assert_int_equal(commit.epoch, epoch);
    return commit.saver;
}

#endif
