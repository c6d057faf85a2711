/*
 * A node alone, in a fake world, driven by a test that plays the leader, the peer and the compute
 * thread. Failures end the test (cmocka). Thread: the test's.
 */
#ifndef TESTS_UNIT_PIPELINE_NODE_DRIVEN_H
#define TESTS_UNIT_PIPELINE_NODE_DRIVEN_H

#include "../fake_world.h"

#include "crew/pulse.h"
#include "pipeline/control.h"
#include "pipeline/message.h"
#include "pipeline/node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define STAGES 2

/* Node 0 has stage 0, node 1 stage 1; one parameter each, two micro-batches in one lane. */
static int32_t params_of[STAGES][1] = {{0}, {1}};
static struct culm_stage_desc stage_descs[STAGES] = {{.output_bytes = 4,
                                                      .activation_bytes = 4,
                                                      .grad_bytes = 4,
                                                      .state_bytes = 8,
                                                      .grad_count = 1,
                                                      .param_count = 1,
                                                      .params = params_of[0]},
                                                     {.input_bytes = 4,
                                                      .activation_bytes = 4,
                                                      .grad_bytes = 8,
                                                      .state_bytes = 8,
                                                      .first_grad = 1,
                                                      .grad_count = 2,
                                                      .param_count = 1,
                                                      .params = params_of[1]}};
static struct culm_grad_desc grad_descs[3] = {{0, 0, 0, 4}, {1, 1, 0, 4}, {1, -1, 4, 4}};
static struct culm_param_desc param_descs[STAGES] = {{.stages = {{1}}, .state_bytes = 8},
                                                     {.stages = {{2}}, .state_bytes = 8}};
static const struct culm_layout layout = {STAGES, 3, STAGES, stage_descs, grad_descs, param_descs};

struct fixture {
    struct fake_world fake;
    struct culm_exec exec;
    struct culm_blob_pool *pool;
    struct culm_node *node;
    struct culm_buf buf;
    struct culm_run_shape shape;
    struct culm_view view;
};

/* The two micro-batches are in that many lanes; copies to here are asked for at that rate. */
static inline void begin_copying(struct fixture *f, const struct culm_layout *of, int32_t lanes,
                                 uint64_t copy_bytes_per_ms) {
    fake_world_init(&f->fake);
    culm_buf_init(&f->buf, CULM_META_MAX);
    f->pool = culm_blob_pool_new(0);
    f->shape = (struct culm_run_shape){.pipelines = lanes,
                                       .stages = STAGES,
                                       .lanes = lanes,
                                       .micros = 2,
                                       .micros_per_lane = 2 / lanes,
                                       .global_samples = 2,
                                       .micro_samples = 1,
                                       .steps = 9};
    const struct culm_node_options options = {
        .id = 0,
        .world = &f->fake.world,
        .exec = &f->exec,
        .pool = f->pool,
        .layout = of,
        .shape = f->shape,
        .heartbeat_ms = 100,
        .copy_bytes_per_ms = copy_bytes_per_ms,
        .copy_window_bytes = 4,
    };
    f->node = culm_node_new(&options);
    assert_non_null(f->node);
    culm_node_actor.start(f->node);
    assert_true(culm_view_init(&f->view, &f->shape));
    assert_true(culm_view_reserve(&f->view, 8));
    for (int32_t t = 0; t < 4; t++) { /* room for so many */
        assert_true(culm_view_add_transfer(&f->view, &(struct culm_transfer){0}));
    }
    f->view.transfer_count = 0;
    f->view.iteration = 4;
    f->view.node_count = 2;
    f->view.node[0] = (struct culm_view_node){0, 0, 0, {{1}}};
    f->view.node[1] = (struct culm_view_node){1, 0, 1, {{2}}};
    f->view.role[0][0] = (struct culm_role){0, -1};
    f->view.role[0][1] = (struct culm_role){1, -1};
    for (int32_t l = 0; l < lanes; l++) {
        f->view.lane_pipeline[l] = 0;
    }
}

static inline void begin_with(struct fixture *f, const struct culm_layout *of, int32_t lanes) {
    begin_copying(f, of, lanes, 0);
}

static inline void begin(struct fixture *f) { begin_with(f, &layout, 1); }

static inline void end(struct fixture *f) {
    culm_node_free(f->node);
    fake_world_release(&f->fake);
    struct culm_blob_pool_stats stats;
    culm_blob_pool_stats_of(f->pool, &stats);
    assert_int_equal(stats.used_bytes, 0);
    culm_blob_pool_free(f->pool);
    culm_buf_release(&f->buf);
    culm_view_release(&f->view);
    fake_world_release(&f->fake);
}

static inline void deliver(struct fixture *f, int32_t from, uint16_t type) {
    const struct culm_message message = {
        .type = type, .meta = f->buf.data, .meta_bytes = (uint32_t)f->buf.len};
    culm_node_actor.message(f->node, from, &message);
    culm_buf_clear(&f->buf);
}

static inline void view(struct fixture *f, enum culm_view_phase phase, const char *source) {
    f->view.number++;
    f->view.phase = phase;
    snprintf(f->view.source, sizeof f->view.source, "%s", source);
    culm_view_encode(&f->view, NULL, &f->shape, &f->buf);
    deliver(f, CULM_LEADER, CULM_MSG_VIEW);
}

/* Ends the task that runs, which must be of this kind. */
static inline void finish(struct fixture *f, enum culm_task_kind kind) {
    struct culm_task *task = fake_world_run(&f->fake);
    assert_non_null(task);
    assert_int_equal(task->kind, kind);
    culm_node_actor.job_done(f->node, &task->job);
}

static inline void load(struct fixture *f) {
    view(f, CULM_VIEW_LOAD, "step-3");
    for (struct culm_task *task; (task = fake_world_run(&f->fake));) {
        culm_node_actor.job_done(f->node, &task->job);
    }
    assert_int_equal(fake_world_sent(&f->fake, CULM_LEADER, CULM_MSG_LOADED), 1);
    assert_int_equal(culm_node_version(f->node, 0), 3);
    view(f, CULM_VIEW_RUN, "");
    fake_world_forget(&f->fake);
}

static inline void have_from(struct fixture *f, int32_t from, uint64_t number) {
    struct culm_have have;
    assert_int_equal(culm_have_init(&have, STAGES, 2, 3, f->shape.lanes), CULM_OK);
    have.view = number;
    have.iteration = f->view.iteration;
    culm_have_encode(&have, &f->buf);
    culm_have_release(&have);
    deliver(f, from, CULM_MSG_HAVE);
}

static inline void have(struct fixture *f, uint64_t number) { have_from(f, 1, number); }

static inline void commit(struct fixture *f, uint64_t number, int64_t iteration) {
    const struct culm_commit what = {.view = number, .content = {iteration, 1.0, 1.0, 1.0}};
    culm_commit_encode(&what, &f->buf);
    deliver(f, CULM_LEADER, CULM_MSG_COMMIT);
}

static inline void save(struct fixture *f, int32_t attempt, int64_t version) {
    const struct culm_save what = {.version = version, .attempt = attempt, .stage = 0};
    culm_save_encode(&what, &f->buf);
    deliver(f, CULM_LEADER, CULM_MSG_SAVE);
}

/* The last message of that name that was sent; `field` is -2 if there is none. */
#define LAST(TYPE, name, field)                                                                    \
    static inline struct culm_##name last_##name(const struct fixture *f) {                        \
        struct culm_##name last = {.field = -2};                                                   \
        for (int32_t i = 0; i < f->fake.sent_count; i++) {                                         \
            const struct fake_sent *sent = &f->fake.sent[i];                                       \
            if (sent->type == (TYPE)) {                                                            \
                assert_int_equal(culm_##name##_decode(sent->meta, sent->meta_bytes, &last),        \
                                 CULM_OK);                                                         \
            }                                                                                      \
        }                                                                                          \
        return last;                                                                               \
    }
LAST(CULM_MSG_SAVED, saved, attempt)
LAST(CULM_WORD_HEARTBEAT, heartbeat, kind)
LAST(CULM_WORD_TOOK, took, kind)

/* The meta bytes are in f->buf. */
static inline void data(struct fixture *f, int32_t from, uint16_t type, size_t bytes) {
    struct culm_blob *payload = NULL;
    assert_int_equal(culm_blob_pool_get(f->pool, bytes, &payload), CULM_OK);
    const struct culm_message message = {.type = type,
                                         .meta = f->buf.data,
                                         .meta_bytes = (uint32_t)f->buf.len,
                                         .payload = payload,
                                         .payload_bytes = bytes};
    culm_node_actor.message(f->node, from, &message);
    culm_buf_clear(&f->buf);
    culm_blob_unref(payload);
}

/* From node 1: what enters stage 1 in micro-batch 0 of iteration 4. */
static inline void activation(struct fixture *f) {
    const struct culm_boundary boundary = {.at = {4, 0}, .stage = 1, .micro = 0};
    culm_boundary_encode(&boundary, &f->buf);
    data(f, 1, CULM_MSG_ACTIVATION, 4);
}

/* Node 0 sits in the second slot, holds both stages and owns the second. */
static inline void own_second(struct fixture *f, bool frc) {
    f->view.node[0] = (struct culm_view_node){0, 0, 1, {{3}}};
    f->view.node[1] = (struct culm_view_node){1, 0, 0, {{1}}};
    f->view.role[0][0] = (struct culm_role){1, 0};
    f->view.role[0][1] = (struct culm_role){0, -1};
    f->view.frc = frc;
    load(f);
}

#endif
