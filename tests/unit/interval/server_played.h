/* A server alone, whose leader, holder and workers the test plays. */
#ifndef CULM_TESTS_SERVER_PLAYED_H
#define CULM_TESTS_SERVER_PLAYED_H

#include "interval/server.h"

#include "../fake_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000000ull
#define ROW_BYTES 8
#define GRADIENT_BYTES 64 /* of each stage: one passes for the other by its size */

enum { SERVER, HOLDER, WORKER, OTHER, THIRD };
enum { INTERVALS = 3, BUSY = 5 }; /* at most: whose rows are constant; that make workers busy */
enum { FORWARD, LOSS, BACKWARD }; /* the steps of two stages */

struct fixture {
    struct fake_world fake;
    struct culm_gnn_layout layout;
    struct culm_blob_pool *pool;
    struct culm_gnn_server *server;
    struct culm_buf buf;
    uint64_t view; /* told last */
};

/* Every byte of it is `mark`. */
static inline struct culm_blob *blob(struct fixture *f, size_t bytes, int mark) {
    struct culm_blob *blob;
    assert_int_equal(culm_blob_pool_get(f->pool, bytes, &blob), CULM_OK);
    memset(blob->data, mark, bytes);
    return blob;
}

/* What lies in the buffer, as a message of `from`. */
static inline void deliver(struct fixture *f, int32_t from, uint16_t type,
                           struct culm_blob *take_payload) {
    const struct culm_message message = {.type = type,
                                         .meta = f->buf.data,
                                         .meta_bytes = (uint32_t)f->buf.len,
                                         .payload = take_payload,
                                         .payload_bytes =
                                             take_payload ? take_payload->size_bytes : 0};
    culm_gnn_server_actor.message(f->server, from, &message);
    culm_blob_unref(take_payload);
    culm_buf_clear(&f->buf);
}

/* Who owns which interval from now on. */
static inline void tell_owners(struct fixture *f, const int32_t *owner) {
    const struct culm_gnn_view view = {.number = ++f->view,
                                       .course = {.epoch = 1, .train = true},
                                       .holder_count = 1,
                                       .holder = {{HOLDER, -1, 1}},
                                       .owner = (int32_t *)owner};
    culm_gnn_view_encode(&view, f->layout.intervals, &f->buf);
    deliver(f, CULM_LEADER, CULM_GNN_MSG_VIEW, NULL);
}

/* Intervals of two vertices, each of which reads all. `constant`: the first stage learns nothing, so its rows
 * are always the same. */
static inline void begin_paced(struct fixture *f, const int32_t *owner, int32_t intervals,
                               bool constant, struct culm_gnn_pace pace) {
    static const size_t row_bytes[] = {ROW_BYTES, ROW_BYTES};
    const size_t gradient_bytes[] = {constant ? 0 : GRADIENT_BYTES, GRADIENT_BYTES};
    *f = (struct fixture){0};
    fake_world_init(&f->fake);
    culm_buf_init(&f->buf, CULM_GNN_META_MAX);
    f->pool = culm_blob_pool_new(0);
    assert_int_equal(culm_gnn_layout_init(&f->layout, intervals, NULL), CULM_OK);
    for (int32_t i = 0; i < intervals; i++) {
        f->layout.first[i + 1] = f->layout.first[i] + 2;
        for (int32_t j = 0; j < intervals; j++) {
            assert_int_equal(culm_gnn_layout_reads(&f->layout, false, i, j), CULM_OK);
            assert_int_equal(culm_gnn_layout_reads(&f->layout, true, i, j), CULM_OK);
        }
    }
    culm_gnn_layout_steps(&f->layout, 2, row_bytes, row_bytes, gradient_bytes);
    for (int32_t s = 0; s < f->layout.steps; s++) {
        f->layout.step[s].remote = true;
        f->layout.step[s].kept = f->layout.step[s].kind == CULM_GNN_BACKWARD;
    }
    const struct culm_gnn_server_options options = {.node = {.world = &f->fake.world,
                                                             .layout = &f->layout,
                                                             .pool = f->pool,
                                                             .id = SERVER,
                                                             .beat_ms = 100,
                                                             .pace = pace},
                                                    .workers = true};
    f->server = culm_gnn_server_new(&options);
    assert_non_null(f->server);
    culm_gnn_server_actor.start(f->server);
    tell_owners(f, owner);
    const struct culm_gnn_version version = {0, 0, 0};
    culm_gnn_version_encode(&version, &f->buf);
    deliver(f, HOLDER, CULM_GNN_MSG_WEIGHTS, blob(f, 8, 1));
}

static inline void begin_with(struct fixture *f, const int32_t *owner, int32_t intervals,
                              bool constant) {
    begin_paced(f, owner, intervals, constant, (struct culm_gnn_pace){.epochs = 9});
}

/* One server that owns the only interval, and is given its weights. */
static inline void begin(struct fixture *f) {
    static const int32_t owner[] = {SERVER};
    begin_with(f, owner, 1, false);
}

static inline void end(struct fixture *f) {
    assert_int_equal(f->fake.exit_code, -1);
    culm_gnn_server_free(f->server);
    fake_world_release(&f->fake);
    struct culm_blob_pool_stats stats;
    culm_blob_pool_stats_of(f->pool, &stats);
    assert_int_equal(stats.used_bytes, 0);
    culm_blob_pool_free(f->pool);
    culm_gnn_layout_release(&f->layout);
    culm_buf_release(&f->buf);
}

static inline enum culm_gnn_task_kind finish(struct fixture *f, struct culm_gnn_task *task,
                                             int mark) {
    enum culm_gnn_task_kind kind = task->kind;
    if (kind != CULM_GNN_TASK_OWN) {
        task->output = blob(f, 2 * ROW_BYTES, mark);
    }
    if (kind == CULM_GNN_TASK_APPLY && f->layout.step[task->step].gradient) {
        task->gradient = blob(f, GRADIENT_BYTES, mark);
    }
    culm_gnn_server_actor.job_done(f->server, &task->job);
    return kind;
}

/* The task that the server has begun comes to its end. `mark`: of what it makes. Its kind. */
static inline enum culm_gnn_task_kind run_next(struct fixture *f, int mark) {
    struct culm_gnn_task *task = fake_world_run(&f->fake);
    assert_non_null(task);
    return finish(f, task, mark);
}

/* The same of one that must be of that kind. */
static inline void run(struct fixture *f, enum culm_gnn_task_kind kind, int mark) {
    assert_int_equal(run_next(f, mark), kind);
}

/* The members, one bit each. */
static inline struct culm_set set_of(uint64_t members) {
    return (struct culm_set){.words = 1, .one = members};
}

static inline void ready(struct fixture *f, int32_t worker) {
    const struct culm_set warm = set_of((1ull << f->layout.intervals) - 1);
    culm_gnn_warm_encode(&warm, &f->buf);
    deliver(f, worker, CULM_GNN_MSG_READY, NULL);
}

static inline void share_of(struct fixture *f, int32_t worker, int32_t interval, int32_t step,
                            int mark) {
    const struct culm_gnn_task_key key = {0, 1, 0, interval, step};
    culm_gnn_task_key_encode(&key, &f->buf);
    deliver(f, worker, CULM_GNN_MSG_SHARE, blob(f, GRADIENT_BYTES, mark));
}

static inline void rows_of(struct fixture *f, int32_t worker, int32_t interval, int32_t step,
                           int mark) {
    const struct culm_gnn_result result = {.key = {0, 1, 0, interval, step}};
    bool makes = f->layout.step[step].makes >= 0;
    culm_gnn_result_encode(&result, &f->buf);
    deliver(f, worker, CULM_GNN_MSG_ROWS, makes ? blob(f, 2 * ROW_BYTES, mark) : NULL);
}

/* Of the first interval. */
static inline void share(struct fixture *f, int32_t worker, int32_t step, int mark) {
    share_of(f, worker, 0, step, mark);
}

static inline void rows(struct fixture *f, int32_t worker, int32_t step, int mark) {
    rows_of(f, worker, 0, step, mark);
}

/* The interval has come to its step with a loss, which a worker has been given. */
static inline void come_to_loss(struct fixture *f) {
    begin(f);
    run(f, CULM_GNN_TASK_OWN, 0);
    ready(f, WORKER);
    ready(f, WORKER); /* it takes two at once */
    assert_int_equal(fake_world_sent(&f->fake, WORKER, CULM_GNN_MSG_TASK), 1);
    rows(f, WORKER, FORWARD, 2);
    run(f, CULM_GNN_TASK_GATHER, 3);
    assert_int_equal(fake_world_sent(&f->fake, WORKER, CULM_GNN_MSG_TASK), 2);
}

/* The sum that its holder was sent of a stage is all `mark`. */
static inline void assert_pushed(struct fixture *f, int32_t stage, int mark) {
    int32_t found = 0;
    for (int32_t i = 0; i < f->fake.sent_count; i++) {
        const struct fake_sent *sent = &f->fake.sent[i];
        struct culm_gnn_gradient_key key;
        if (sent->to != HOLDER || sent->type != CULM_GNN_MSG_GRADIENT) {
            continue;
        }
        assert_int_equal(
            culm_gnn_gradient_decode(sent->meta, sent->meta_bytes, &f->layout, 1, &key), CULM_OK);
        if (key.stage == stage) {
            uint8_t wanted[GRADIENT_BYTES];
            memset(wanted, mark, sizeof wanted);
            assert_memory_equal(sent->payload->data, wanted, sizeof wanted);
            found++;
        }
    }
    assert_int_equal(found, 1);
}

static inline int64_t used(const struct fixture *f) {
    struct culm_blob_pool_stats stats;
    culm_blob_pool_stats_of(f->pool, &stats);
    return (int64_t)stats.used_bytes;
}

/* How often a worker was told to do that step of an interval. */
static inline int32_t told(const struct fixture *f, int32_t worker, int32_t interval,
                           int32_t step) {
    int32_t count = 0;
    for (int32_t i = 0; i < f->fake.sent_count; i++) {
        const struct fake_sent *sent = &f->fake.sent[i];
        struct culm_gnn_task_key key;
        if (sent->to == worker && sent->type == CULM_GNN_MSG_TASK &&
            culm_gnn_task_key_decode(sent->meta, sent->meta_bytes, &f->layout, &key) == CULM_OK) {
            count += key.interval == interval && key.step == step;
        }
    }
    return count;
}

#endif
