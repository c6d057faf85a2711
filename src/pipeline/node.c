/* The node: its life, its views, and its dispatch of messages. See node.h. */
#include "pipeline/node_internal.h"

#include "base/grow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct culm_node *culm_node_new(const struct culm_node_options *options) {
    struct culm_node *node = calloc(1, sizeof *node);
    if (!node) {
        return NULL;
    }
    node->o = *options;
    node->pipeline = -1;
    const struct culm_layout *layout = options->layout;
    size_t stages = (size_t)layout->stages, micros = (size_t)options->shape.micros;
    size_t grads = (size_t)layout->grad_count;
    culm_buf_init(&node->meta, CULM_META_MAX);
    culm_pulse_init(&node->pulse, options->heartbeat_ms);
    node->view = calloc(1, sizeof *node->view);
    node->next = calloc(1, sizeof *node->next);
    node->stage = calloc(stages, sizeof *node->stage);
    node->cell = calloc(stages * micros, sizeof *node->cell);
    node->grad = calloc(grads, sizeof *node->grad);
    node->stepping = calloc(grads, sizeof(struct culm_blob *));
    node->reduced = calloc(grads, sizeof(struct culm_blob *));
    node->norm = calloc((size_t)layout->param_count, sizeof *node->norm);
    node->digest = calloc((size_t)layout->param_count, sizeof *node->digest);
    node->early = calloc(EARLY_MAX, sizeof *node->early);
    bool failed = !culm_fold_tree_init(&node->tree, options->shape.lanes) ||
                  culm_have_init(&node->have, layout->stages, options->shape.micros,
                                 layout->grad_count) != CULM_OK;
    for (int32_t i = 0; i < CULM_MAX_NODES && !failed; i++) {
        node->peer[i].reduced = calloc(grads, 1);
        failed = !node->peer[i].reduced;
    }
    for (size_t s = 0; s < stages && node->stage; s++) {
        size_t params = (size_t)layout->stage[s].param_count;
        node->stage[s].digest = calloc(params ? params : 1, sizeof *node->stage[s].digest);
        failed |= !node->stage[s].digest;
    }
    if (failed || !node->digest || !node->view || !node->next || !node->stage || !node->cell ||
        !node->grad || !node->stepping || !node->reduced || !node->norm || !node->early) {
        culm_node_free(node);
        return NULL;
    }
    for (size_t s = 0; s < stages; s++) {
        node->stage[s].version = -1;
    }
    return node;
}

void culm_node_free(struct culm_node *node) {
    if (!node) {
        return;
    }
    if (node->cell) {
        culm_node_cells_clear(node);
    }
    if (node->grad && node->stage && node->reduced) {
        culm_node_grads_clear(node);
    }
    for (int32_t g = 0; node->stepping && node->reduced && g < node->o.layout->grad_count; g++) {
        culm_blob_clear(&node->stepping[g]);
        culm_blob_clear(&node->reduced[g]);
    }
    for (int32_t i = 0; i < node->order_count; i++) {
        culm_blob_unref(node->order[(node->order_first + i) % node->order_capacity].input);
    }
    culm_node_early_clear(node);
    for (int32_t i = 0; i < node->early_have_count; i++) {
        culm_have_release(&node->early_have[i].have);
    }
    for (int32_t i = 0; i < CULM_MAX_NODES; i++) {
        free(node->peer[i].reduced);
    }
    if (node->frc_running || node->frc_suspended) {
        culm_task_release(&node->frc);
    }
    if (node->busy && !node->frc_running) {
        culm_task_release(&node->task);
    }
    for (int32_t s = 0; s < CULM_MAX_STAGES; s++) {
        if (node->saving[s]) {
            culm_blob_clear(&node->save[s].input);
        }
    }
    for (int32_t i = 0; i < node->tree.count; i++) {
        culm_blob_clear(&node->fold_slice[i].blob);
    }
    culm_fold_tree_release(&node->tree);
    for (int32_t s = 0; node->stage && s < node->o.layout->stages; s++) {
        free(node->stage[s].digest);
    }
    free(node->view);
    free(node->next);
    free(node->stage);
    free(node->cell);
    free(node->grad);
    free(node->stepping);
    free(node->reduced);
    free(node->norm);
    free(node->digest);
    free(node->early);
    free(node->early_have);
    free(node->order);
    free(node->lost);
    culm_have_release(&node->have);
    culm_buf_release(&node->meta);
    free(node);
}

int64_t culm_node_version(const struct culm_node *node, int32_t stage) {
    return node->stage[stage].held ? node->stage[stage].version : -1;
}

struct culm_node_queues culm_node_queues(const struct culm_node *node) {
    return (struct culm_node_queues){node->early_count, node->early_have_count, node->order_count};
}

void culm_node_send(struct culm_node *node, int32_t to, uint16_t type, struct culm_blob *payload,
                    size_t offset_bytes, size_t size_bytes) {
    if (node->meta.failed) {
        culm_node_fail(node, CULM_ERR_MEMORY, "encode message %u", type);
        return;
    }
    const struct culm_message message = {
        .type = type,
        .meta = node->meta.data,
        .meta_bytes = (uint32_t)node->meta.len,
        .payload = payload,
        .payload_offset = offset_bytes,
        .payload_bytes = size_bytes,
    };
    node->o.world->ops->send(node->o.world, to, &message);
}

struct culm_buf *culm_node_meta(struct culm_node *node) {
    culm_buf_clear(&node->meta);
    return &node->meta;
}

void culm_node_tell(struct culm_node *node, uint16_t type) {
    culm_node_send(node, CULM_LEADER, type, NULL, 0, 0);
}

void culm_node_fault(struct culm_node *node, enum culm_phase phase, int64_t micro) {
    const struct culm_fault_point point = {phase, node->iteration, micro};
    node->o.world->ops->fault(node->o.world, &point);
}

void culm_node_fail(struct culm_node *node, enum culm_status status, const char *format, ...) {
    if (node->left) {
        return;
    }
    node->left = true;
    struct culm_error error;
    va_list args;
    va_start(args, format);
    culm_error_setv(&error, status, format, args);
    va_end(args);
    struct culm_failed failed = {.status = status};
    snprintf(failed.why, sizeof failed.why, "%s", error.text);
    culm_failed_encode(&failed, culm_node_meta(node));
    const struct culm_message message = {
        .type = CULM_MSG_FAILED, .meta = node->meta.data, .meta_bytes = (uint32_t)node->meta.len};
    node->o.world->ops->send(node->o.world, CULM_LEADER, &message);
    node->o.world->ops->leave(node->o.world, culm_status_exit_code(status), &error);
}

bool culm_node_get(struct culm_node *node, size_t size_bytes, struct culm_blob **ret_blob) {
    if (culm_blob_pool_get(node->o.pool, size_bytes, ret_blob) == CULM_OK) {
        return true;
    }
    culm_node_fail(node, CULM_ERR_MEMORY,
                   "out of memory for %zu bytes: the plan's limit is reached; lower batch.micro or "
                   "use more stages",
                   size_bytes);
    return false;
}

bool culm_node_needs_grad(const struct culm_node *node, int32_t grad, uint64_t holds) {
    int32_t param = node->o.layout->grad[grad].param;
    uint64_t stages =
        param < 0 ? 1ull << node->o.layout->grad[grad].stage : node->o.layout->param[param].stages;
    return (stages & holds) != 0;
}

/* Sends what can be sent and runs what can be run, after anything has changed. */
static void advance(struct culm_node *node) {
    if (node->left || node->view->number == 0) {
        return;
    }
    culm_node_push(node);
    culm_node_transfers(node);
    culm_node_prepare(node);
    culm_node_run_next(node);
}

/* --- views --- */

static void remember_lost(struct culm_node *node) {
    for (int32_t i = 0; i < node->view->node_count; i++) {
        int32_t id = node->view->node[i].id;
        if (culm_view_find(node->next, id)) {
            continue;
        }
        if (!CULM_GROW(node->lost, node->lost_capacity, node->lost_count + 1)) {
            culm_node_fail(node, CULM_ERR_MEMORY, "remember lost nodes");
            return;
        }
        node->lost[node->lost_count++] = id;
    }
}

/* Notes which stages and lanes are new here, so that the first task done there is reported. */
static void notice_take_over(struct culm_node *node, const struct culm_view *before) {
    const struct culm_view *view = node->view;
    if (node->pipeline < 0) {
        return;
    }
    bool new_lanes = false;
    for (int32_t l = 0; l < view->lanes && before->number; l++) {
        new_lanes |=
            view->lane_pipeline[l] == node->pipeline && before->lane_pipeline[l] != node->pipeline;
    }
    for (int32_t s = 0; s < view->stages; s++) {
        if (!owns(node, s)) {
            node->stage[s].took_over = false;
            continue;
        }
        bool fresh = !before->number || before->role[node->pipeline][s].owner != node->o.id;
        if (view->phase == CULM_VIEW_LOAD) {
            node->stage[s].took_over = true;
            node->stage[s].origin = CULM_ORIGIN_CHECKPOINT;
        } else if (before->number && before->phase == CULM_VIEW_LOAD && !fresh) {
            continue; /* still the news of the load */
        } else if (fresh || new_lanes) {
            node->stage[s].took_over = true;
            node->stage[s].origin = fresh ? CULM_ORIGIN_SHADOW : CULM_ORIGIN_PEER;
        }
    }
}

static void enter_view(struct culm_node *node, const struct culm_message *message) {
    if (culm_view_decode(message->meta, message->meta_bytes, &node->o.shape, node->next) !=
        CULM_OK) {
        culm_node_fail(node, CULM_ERR_FORMAT, "a view could not be decoded");
        return;
    }
    if (node->next->number <= node->view->number) {
        return;
    }
    remember_lost(node);
    struct culm_view *before = node->view;
    node->view = node->next;
    node->next = before;
    const struct culm_view *view = node->view;

    if (view->phase == CULM_VIEW_LOAD || view->iteration != node->iteration ||
        view->attempt != before->attempt) {
        culm_node_cells_clear(node);
        culm_node_grads_clear(node);
        node->iteration = view->iteration;
        node->normed = 0;
        node->committed = false;
    }
    const struct culm_view_node *self = culm_view_find(view, node->o.id);
    node->pipeline = self ? self->pipeline : -1;
    node->prepared = 0;
    node->peer_count = 0;
    for (int32_t i = 0; i < view->node_count; i++) {
        if (view->node[i].id != node->o.id) {
            struct peer_state *peer = &node->peer[node->peer_count++];
            peer->id = view->node[i].id;
            peer->have = false;
            memset(peer->reduced, 0, (size_t)node->o.layout->grad_count);
        }
    }
    size_t cells = (size_t)view->stages * (size_t)node->o.shape.micros;
    for (size_t i = 0; i < cells; i++) {
        node->cell[i].sent_input = node->cell[i].sent_d_output = false;
    }
    for (int32_t g = 0; g < node->o.layout->grad_count; g++) {
        node->grad[g].sent_lanes = 0;
    }
    culm_node_frc_forget(node);
    notice_take_over(node, before);
    culm_node_state_view(node);
    if (view->phase == CULM_VIEW_LOAD) {
        culm_node_early_clear(node);
    }
    culm_node_have_send(node);
    culm_node_have_replay(node);
}

/* --- the actor --- */

static void on_start(void *actor) { culm_node_heartbeat(actor); }

static void leave_for(struct culm_node *node, const struct culm_message *message) {
    node->left = true;
    if (message->type == CULM_MSG_END) {
        node->o.world->ops->leave(node->o.world, 0, NULL);
        return;
    }
    struct culm_fenced fenced = {""};
    struct culm_error error;
    (void)culm_fenced_decode(message->meta, message->meta_bytes, &fenced);
    culm_error_set(&error, CULM_ERR_CLOSED, "fenced: %s", fenced.why);
    node->o.world->ops->leave(node->o.world, 1, &error);
}

static void on_message(void *actor, int32_t from, const struct culm_message *message) {
    struct culm_node *node = actor;
    if (node->left) {
        return;
    }
    bool coordinator = from == CULM_LEADER;
    switch (message->type) {
    case CULM_MSG_ACTIVATION:
    case CULM_MSG_GRADIENT:
    case CULM_MSG_SUM:
    case CULM_MSG_REDUCED: culm_node_data(node, from, message); break;
    case CULM_MSG_STATE: culm_node_state_message(node, from, message); break;
    case CULM_MSG_HAVE: culm_node_have(node, from, message); break;
    case CULM_MSG_VIEW:
        if (coordinator) {
            enter_view(node, message);
        }
        break;
    case CULM_MSG_COMMIT:
        if (coordinator) {
            culm_node_commit(node, message);
        }
        break;
    case CULM_MSG_SAVE:
        if (coordinator) {
            culm_node_save(node, message);
        }
        break;
    case CULM_MSG_ASK:
        if (coordinator) {
            culm_node_asked(node, message);
        }
        break;
    case CULM_MSG_FENCED:
    case CULM_MSG_END:
        if (coordinator) {
            leave_for(node, message);
        }
        break;
    default: break; /* not for a node */
    }
    advance(node);
}

static void on_lost(void *actor, int32_t id) {
    struct culm_node *node = actor;
    if (node->left || !culm_view_find(node->view, id)) {
        return;
    }
    culm_peer_lost_encode(&(struct culm_peer_lost){.node = id}, culm_node_meta(node));
    culm_node_tell(node, CULM_MSG_PEER_LOST);
}

static void on_timer(void *actor, uint32_t timer) {
    struct culm_node *node = actor;
    if (!node->left && timer == CULM_NODE_TIMER_HEARTBEAT) {
        culm_node_heartbeat(node);
    }
}

static void on_job_done(void *actor, struct culm_job *job) {
    struct culm_node *node = actor;
    struct culm_task *task = (struct culm_task *)job;
    if (task->kind == CULM_TASK_SAVE) {
        culm_node_save_done(node, task);
    } else {
        culm_node_task_done(node, task);
    }
    advance(node);
}

const struct culm_actor_ops culm_node_actor = {
    .size = sizeof culm_node_actor,
    .start = on_start,
    .message = on_message,
    .lost = on_lost,
    .timer = on_timer,
    .job_done = on_job_done,
};
