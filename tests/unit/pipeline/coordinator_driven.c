/* See coordinator_driven.h. */
#include "coordinator_driven.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static int32_t params_of[STAGES][1] = {{0}, {1}};
static struct culm_stage_desc stage_descs[STAGES] = {
    {.grad_bytes = 4, .grad_count = 1, .param_count = 1, .params = params_of[0]},
    {.grad_bytes = 8, .first_grad = 1, .grad_count = 2, .param_count = 1, .params = params_of[1]}};
static struct culm_grad_desc grad_descs[3] = {{0, 0, 0, 4}, {1, 1, 0, 4}, {1, -1, 4, 4}};
static struct culm_param_desc param_descs[STAGES] = {{1, 8}, {2, 8}};
const struct culm_layout layout = {STAGES, 3, STAGES, stage_descs, grad_descs, param_descs};

void begin(struct fixture *f, struct culm_coordinator_options o) {
    *f = (struct fixture){0};
    fake_world_init(&f->fake);
    culm_buf_init(&f->buf, CULM_META_MAX);
    o.world = &f->fake.world;
    o.agent = &f->fake.agent;
    f->c = culm_coordinator_new(&o);
    assert_non_null(f->c);
    culm_coordinator_actor.start(f->c);
}

void end(struct fixture *f) {
    culm_coordinator_free(f->c);
    culm_buf_release(&f->buf);
    fake_world_release(&f->fake);
}

struct culm_coordinator_totals totals(const struct fixture *f) {
    struct culm_coordinator_totals now;
    culm_coordinator_totals(f->c, &now);
    return now;
}

void joined(struct fixture *f, int32_t node) {
    const struct culm_node_info info = {.pid = 100 + node, .name = "test", .signature = "test"};
    culm_coordinator_actor.leads->joined(f->c, node, &info);
}

void lost(struct fixture *f, int32_t node) { culm_coordinator_actor.lost(f->c, node); }

void ended(struct fixture *f, int32_t node) {
    culm_coordinator_actor.leads->ended(f->c, node, NULL);
}

void deliver(struct fixture *f, int32_t from, uint16_t type) {
    const struct culm_message message = {
        .type = type, .meta = f->buf.data, .meta_bytes = (uint32_t)f->buf.len};
    culm_coordinator_actor.message(f->c, from, &message);
    culm_buf_clear(&f->buf);
}

void tick(struct fixture *f, uint64_t ms) {
    f->fake.now_ns += ms * MS;
    culm_coordinator_actor.timer(f->c, 0);
}
