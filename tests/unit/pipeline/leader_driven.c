/* See leader_driven.h. */
#include "leader_driven.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static int32_t params_of[STAGES][1] = {{0}, {1}};
static struct culm_stage_desc stage_descs[STAGES] = {
    {.grad_bytes = 4, .grad_count = 1, .param_count = 1, .params = params_of[0]},
    {.grad_bytes = 8, .first_grad = 1, .grad_count = 2, .param_count = 1, .params = params_of[1]}};
static struct culm_grad_desc grad_descs[3] = {{0, 0, 0, 4}, {1, 1, 0, 4}, {1, -1, 4, 4}};
static struct culm_param_desc param_descs[STAGES] = {{.stages = {{1}}, .state_bytes = 8},
                                                     {.stages = {{2}}, .state_bytes = 8}};
const struct culm_layout layout = {STAGES, 3, STAGES, stage_descs, grad_descs, param_descs};

static void forget(struct fixture *f, int32_t node) {
    if (f->knows[node]) {
        culm_view_release(f->knows[node]);
        free(f->knows[node]);
    }
}

/* What a node does with a view. */
static void read_view(struct fake_world *fake, const struct fake_sent *sent) {
    struct fixture *f = (struct fixture *)fake;
    if (sent->type != CULM_MSG_VIEW) {
        return;
    }
    assert_true(sent->to >= 0 && sent->to < VIEWERS);
    struct culm_view *next = calloc(1, sizeof *next);
    assert_non_null(next);
    assert_int_equal(
        culm_view_decode(sent->meta, sent->meta_bytes, f->knows[sent->to], &f->shape, next),
        CULM_OK);
    forget(f, sent->to);
    f->knows[sent->to] = next;
}

const struct culm_view *newest(const struct fixture *f, int32_t node) {
    assert_non_null(f->knows[node]);
    return f->knows[node];
}

void begin(struct fixture *f, struct culm_pipeline_leader_options o) {
    *f = (struct fixture){.shape = o.shape};
    fake_world_init(&f->fake);
    f->fake.on_sent = read_view;
    culm_buf_init(&f->buf, CULM_META_MAX);
    o.world = &f->fake.world;
    o.agent = &f->fake.agent;
    f->c = culm_pipeline_leader_new(&o);
    assert_non_null(f->c);
    culm_pipeline_leader_actor.start(f->c);
}

void end(struct fixture *f) {
    culm_pipeline_leader_free(f->c);
    culm_buf_release(&f->buf);
    fake_world_release(&f->fake);
    for (int32_t i = 0; i < VIEWERS; i++) {
        forget(f, i);
    }
}

struct culm_pipeline_leader_totals totals(const struct fixture *f) {
    struct culm_pipeline_leader_totals now;
    culm_pipeline_leader_totals_of(f->c, &now);
    return now;
}

void joined(struct fixture *f, int32_t node) {
    const struct culm_node_info info = {.pid = 100 + node, .name = "test", .signature = "test"};
    culm_pipeline_leader_actor.leads->joined(f->c, node, &info);
}

/* What follows from losses comes with a timer that is due at once. */
static void review(struct fixture *f) {
    if (!f->reads && f->fake.timer_ns[CULM_CREW_REVIEW] <= f->fake.now_ns) {
        f->fake.timer_ns[CULM_CREW_REVIEW] = CULM_NEVER;
        culm_pipeline_leader_actor.timer(f->c, CULM_CREW_REVIEW);
    }
}

void lost(struct fixture *f, int32_t node) {
    culm_pipeline_leader_actor.lost(f->c, node);
    review(f);
}

void ended(struct fixture *f, int32_t node) {
    culm_pipeline_leader_actor.leads->ended(f->c, node, NULL);
    review(f);
}

void deliver(struct fixture *f, int32_t from, uint16_t type) {
    const struct culm_message message = {
        .type = type, .meta = f->buf.data, .meta_bytes = (uint32_t)f->buf.len};
    culm_pipeline_leader_actor.message(f->c, from, &message);
    culm_buf_clear(&f->buf);
    review(f);
}

void tick(struct fixture *f, uint64_t ms) {
    f->fake.now_ns += ms * MS;
    culm_pipeline_leader_actor.timer(f->c, CULM_CREW_TICK);
    review(f);
}
