/* The node: its life, its views, and its dispatch of messages. See node.h. */
#include "pipeline/node_internal.h"

#include "base/mark.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What there is of each lane, and of each node of the tree over them. False: out of memory. */
static bool lanes_init(struct culm_node *node) {
    const struct culm_layout *layout = node->o.layout;
    const size_t stages = (size_t)layout->stages, grads = (size_t)layout->grad_count;
    const size_t words = culm_bits_words(node->o.shape.lanes), places = (size_t)node->tree.count;
    node->lane_sets = calloc((stages + grads) * words, sizeof *node->lane_sets);
    node->sums = calloc(stages * places, sizeof(struct culm_blob *));
    node->fold_slice = calloc(places, sizeof *node->fold_slice);
    if (!node->lane_sets || !node->sums || !node->fold_slice || !node->stage || !node->grad) {
        return false;
    }
    for (size_t s = 0; s < stages; s++) {
        node->stage[s].lanes_done = node->lane_sets + s * words;
        node->stage[s].sum = node->sums + s * places;
    }
    for (size_t g = 0; g < grads; g++) {
        node->grad[g].sent_lanes = node->lane_sets + (stages + g) * words;
    }
    return true;
}

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
    culm_self_init(&node->self, options->world, options->id, options->heartbeat_ms, CULM_META_MAX);
    node->self.stops = options->stops;
    node->view = &node->views[0];
    node->next = &node->views[1];
    bool failed = !culm_view_init(node->view, &options->shape) ||
                  !culm_view_init(node->next, &options->shape);
    node->stage = calloc(stages, sizeof *node->stage);
    node->ids = calloc(stages, sizeof *node->ids);
    node->save = calloc(stages, sizeof *node->save);
    failed |= !node->ids || !node->save;
    node->cell = calloc(stages * micros, sizeof *node->cell);
    node->grad = calloc(grads, sizeof *node->grad);
    node->stepping = calloc(grads, sizeof(struct culm_blob *));
    node->reduced = calloc(grads, sizeof(struct culm_blob *));
    node->reducer = calloc(grads, sizeof *node->reducer);
    node->whole = calloc((size_t)options->shape.pipelines, sizeof *node->whole);
    node->norm = calloc((size_t)layout->param_count, sizeof *node->norm);
    node->digest = calloc((size_t)layout->param_count, sizeof *node->digest);
    node->early = calloc(EARLY_MAX, sizeof *node->early);
    node->curve = calloc(1, sizeof *node->curve);
    failed |= !culm_fold_tree_init(&node->tree, options->shape.lanes) ||
              culm_have_init(&node->have, layout->stages, options->shape.micros, layout->grad_count,
                             options->shape.lanes) != CULM_OK;
    failed = failed || !lanes_init(node) || !node_learn_init(node);
    for (size_t s = 0; s < stages && node->stage; s++) {
        size_t params = (size_t)layout->stage[s].param_count;
        node->stage[s].digest = calloc(params ? params : 1, sizeof *node->stage[s].digest);
        failed |= !node->stage[s].digest;
    }
    if (failed || !node->digest || !node->stage || !node->cell || !node->grad || !node->stepping ||
        !node->reduced || !node->reducer || !node->whole || !node->norm || !node->early ||
        !node->curve) {
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
        node_cells_clear(node);
    }
    if (node->fold_slice && node->sums && node->lane_sets && node->grad && node->stage) {
        node_grads_clear(node);
        culm_fold_clear(&node->tree, node->fold_slice);
    }
    for (int32_t g = 0; node->grad && g < node->o.layout->grad_count; g++) {
        free(node->grad[g].slice);
    }
    for (int32_t g = 0; node->stepping && node->reduced && g < node->o.layout->grad_count; g++) {
        culm_blob_clear(&node->stepping[g]);
        culm_blob_clear(&node->reduced[g]);
    }
    for (int32_t i = 0; i < node->order_count; i++) {
        culm_blob_unref(node->order[(node->order_first + i) % node->order_capacity].input);
    }
    node_learn_release(node);
    node_early_clear(node);
    for (int32_t i = 0; i < node->early_have_count; i++) {
        culm_have_release(&node->early_have[i].have);
    }
    for (int32_t i = 0; i < node->peer_capacity; i++) {
        free(node->peer[i].reduced);
    }
    free(node->peer);
    free(node->outgoing);
    free(node->wanted_slice);
    if (node->frc_running || node->frc_suspended) {
        culm_task_release(&node->frc);
    }
    if (node->busy && !node->frc_running) {
        culm_task_release(&node->task);
    }
    for (int32_t s = 0; node->save && s < node->o.layout->stages; s++) {
        if (node->save[s].runs) {
            culm_blob_clear(&node->save[s].task.input);
        }
    }
    free(node->ids);
    free(node->save);
    culm_fold_tree_release(&node->tree);
    for (int32_t s = 0; node->stage && s < node->o.layout->stages; s++) {
        free(node->stage[s].digest);
    }
    culm_view_release(&node->views[0]);
    culm_view_release(&node->views[1]);
    free(node->lane_sets);
    free(node->sums);
    free(node->fold_slice);
    free(node->whole);
    free(node->stage);
    free(node->cell);
    free(node->grad);
    free(node->stepping);
    free(node->reduced);
    free(node->reducer);
    free(node->norm);
    free(node->digest);
    free(node->early);
    free(node->curve);
    free(node->early_have);
    free(node->order);
    culm_ids_release(&node->lost);
    culm_ids_release(&node->deaf);
    culm_have_release(&node->have);
    culm_self_release(&node->self);
    free(node);
}

int64_t culm_node_version(const struct culm_node *node, int32_t stage) {
    return node->stage[stage].held ? node->stage[stage].version : -1;
}

bool culm_node_is_damaged(const struct culm_node *node) { return node->damaged; }

struct culm_node_queues culm_node_queues_of(const struct culm_node *node) {
    return (struct culm_node_queues){node->early_count, node->early_have_count, node->order_count};
}

void node_fault(struct culm_node *node, enum culm_phase phase, int64_t micro) {
    culm_self_point(&node->self, phase, node->iteration, micro);
}

bool node_get(struct culm_node *node, size_t size_bytes, struct culm_blob **ret_blob) {
    if (culm_blob_pool_get(node->o.pool, size_bytes, ret_blob) == CULM_OK) {
        return true;
    }
    culm_self_fail(&node->self, CULM_ERR_MEMORY,
                   "out of memory for %zu bytes: the plan's limit is reached; lower batch.micro or "
                   "use more stages",
                   size_bytes);
    return false;
}

bool node_needs_grad(const struct culm_node *node, int32_t grad,
                     const struct culm_stage_set *holds) {
    int32_t param = node->o.layout->grad[grad].param;
    return param < 0 ? culm_stage_set_has(holds, node->o.layout->grad[grad].stage)
                     : culm_stage_set_meets(holds, &node->o.layout->param[param].stages);
}

/* Sends what can be sent and runs what can be run, after anything has changed. */
static void advance(struct culm_node *node) {
    if (node->self.left || node->view->number == 0) {
        return;
    }
    node_push(node);
    node_transfers(node);
    node_learn(node);
    node_prepare(node);
    node_run_next(node);
}

/* --- views --- */

/* One that is in the view again has seen none before, when another leader put it out: it has nothing that could be wrong. */
static void forget_lost(struct culm_node *node) {
    for (int32_t i = node->lost.count - 1; i >= 0; i--) {
        if (culm_view_find(node->next, node->lost.id[i])) {
            CULM_MARK(pipeline_one_that_was_lost_is_in_the_view_again);
            (void)culm_ids_take(&node->lost, node->lost.id[i]);
        }
    }
}

static void remember_lost(struct culm_node *node) {
    forget_lost(node);
    for (int32_t i = 0; i < node->view->node_count; i++) {
        int32_t id = node->view->node[i].id;
        if (culm_view_find(node->next, id)) {
            continue;
        }
        if (!culm_ids_put(&node->lost, id, node)) {
            culm_self_fail(&node->self, CULM_ERR_MEMORY, "remember lost nodes");
            return;
        }
        CULM_MARK(pipeline_peer_is_in_the_view_no_longer);
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
        bool fresh = !before->number || before->role[node->pipeline][s].owner != node->self.id;
        if (view->phase == CULM_VIEW_LOAD) {
            node->stage[s].took_over = true;
            node->stage[s].origin = CULM_ORIGIN_CHECKPOINT;
        } else if (before->number && before->phase == CULM_VIEW_LOAD && !fresh) {
            continue; /* still the news of the load */
        } else if (fresh || new_lanes) {
            node->stage[s].took_over = true;
            node->stage[s].origin = fresh ? CULM_ORIGIN_SHADOW : CULM_ORIGIN_PEER;
            if (fresh) {
                CULM_MARK(pipeline_takes_over_a_stage);
            } else {
                CULM_MARK(pipeline_takes_over_lanes);
            }
        }
    }
}

/* What was said of links to the leader before, this one has not heard. */
static void complain_again(struct culm_node *node) {
    for (int32_t i = 0; i < node->deaf.count; i++) {
        if (culm_view_find(node->view, node->deaf.id[i])) {
            CULM_MARK(pipeline_complains_to_another_leader);
            culm_self_complain(&node->self, node->deaf.id[i]);
        }
    }
}

/* The view is of another iteration than the one in progress here. */
static void learn_on(struct culm_node *node, bool afresh) {
    const struct culm_view *view = node->view;
    if (!afresh && view->iteration == node->iteration + 1 &&
        view->last.iteration == node->iteration) {
        CULM_MARK(pipeline_view_says_what_was_committed);
        node_learn_commit(node, &view->last);
    } else {
        node_learn_forget(node);
    }
}

static void enter_view(struct culm_node *node, const struct culm_message *message) {
    const enum culm_status status = culm_view_decode(message->meta, message->meta_bytes, node->view,
                                                     &node->o.shape, node->next);
    if (status != CULM_OK) {
        culm_self_fail(&node->self, status,
                       status == CULM_ERR_MEMORY ? "out of memory for a view"
                                                 : "a view could not be decoded");
        return;
    }
    if (node->next->number <= node->view->number) {
        CULM_MARK(pipeline_view_is_old);
        return;
    }
    remember_lost(node);
    struct culm_view *before = node->view;
    node->view = node->next;
    node->next = before;
    const struct culm_view *view = node->view;
    node->totals = view->totals;
    if (view->phase == CULM_VIEW_LOAD) {
        node_forget_commits(node, view->iteration - 1);
    } else {
        node_committed(node, &view->last);
    }

    const bool afresh = view->attempt != before->attempt;
    if (view->iteration != node->iteration) {
        learn_on(node, afresh);
    }
    if (view->phase == CULM_VIEW_LOAD || view->iteration != node->iteration || afresh) {
        CULM_MARK(pipeline_iteration_begins_afresh);
        node_cells_clear(node);
        node_grads_clear(node);
        node->iteration = view->iteration;
        node->normed = (struct culm_stage_set){{0}};
        node->committed = false;
    }
    const struct culm_view_node *self = culm_view_find(view, node->self.id);
    node->pipeline = self ? self->pipeline : -1;
    node->prepared = (struct culm_stage_set){{0}};
    if (!node_meet(node)) {
        return;
    }
    size_t cells = (size_t)view->stages * (size_t)node->o.shape.micros;
    for (size_t i = 0; i < cells; i++) {
        node->cell[i].sent_input = node->cell[i].sent_d_output = false;
    }
    for (int32_t g = 0; g < node->o.layout->grad_count; g++) {
        node_not_sent(node, g);
        node->grad[g].spread = false;
    }
    node_frc_forget(node);
    notice_take_over(node, before);
    node_learn_view(node, afresh);
    node_state_view(node);
    node_learn_on(node);
    if (view->phase == CULM_VIEW_LOAD) {
        node_early_clear(node);
    } else if (CULM_VIEW_TERM(view->number) != CULM_VIEW_TERM(before->number)) {
        node_say_again(node);
    }
    if (CULM_VIEW_TERM(view->number) != CULM_VIEW_TERM(before->number)) {
        complain_again(node);
    }
    node_have_send(node);
    node_have_replay(node);
}

/* --- the actor --- */

static void on_start(void *actor) { node_heartbeat(actor); }

static void on_message(void *actor, int32_t from, const struct culm_message *message) {
    struct culm_node *node = actor;
    if (culm_self_heard(&node->self, from, message)) {
        return;
    }
    bool leader = from == CULM_LEADER;
    (void)culm_ids_take(&node->deaf, from);
    switch (message->type) {
    case CULM_MSG_ACTIVATION:
    case CULM_MSG_GRADIENT:
    case CULM_MSG_SUM:
    case CULM_MSG_REDUCED: node_data(node, from, message); break;
    case CULM_MSG_STATE: node_state_message(node, from, message); break;
    case CULM_MSG_WANT: node_want(node, from, message); break;
    case CULM_MSG_LESSON: node_lesson(node, from, message); break;
    case CULM_MSG_LEARN: node_learner(node, from, message); break;
    case CULM_MSG_HAVE: node_have(node, from, message); break;
    case CULM_MSG_VIEW:
        if (leader) {
            enter_view(node, message);
        }
        break;
    case CULM_MSG_COMMIT:
        if (leader) {
            node_commit(node, message);
        }
        break;
    case CULM_MSG_SAVE:
        if (leader) {
            node_save(node, message);
        }
        break;
    case CULM_MSG_CURVE:
        if (leader) {
            node_hear_curve(node, message);
        }
        break;
    case CULM_MSG_SHOW:
        if (leader) {
            node_show(node);
        }
        break;
    case CULM_WORD_ASK:
        if (leader) {
            node_asked(node, message);
        }
        break;
    default: break; /* not for a node */
    }
    advance(node);
}

static void on_led(void *actor, uint64_t term) {
    struct culm_node *node = actor;
    (void)term;
    if (node->damaged) {
        CULM_MARK(pipeline_tells_another_leader_of_its_damage);
        node_tell_damage(node);
    } else if (!node->self.left) {
        node_report(node);
        culm_self_ask_again(&node->self);
    }
}

static void on_leave(void *actor, int64_t within_ms) {
    culm_self_ask_leave(&((struct culm_node *)actor)->self, within_ms);
}

static void on_lost(void *actor, int32_t id) {
    struct culm_node *node = actor;
    if (node->self.left || !culm_view_find(node->view, id)) {
        return;
    }
    CULM_MARK(pipeline_complains_of_a_peer);
    culm_self_complain(&node->self, id);
    if (!culm_ids_has(&node->deaf, id) && !culm_ids_put(&node->deaf, id, node)) {
        culm_self_fail(&node->self, CULM_ERR_MEMORY, "remember who cannot be reached");
    }
}

static void on_timer(void *actor, uint32_t timer) {
    struct culm_node *node = actor;
    if (!node->self.left && timer == CULM_SELF_TIMER_HEARTBEAT) {
        node_heartbeat(node);
    } else {
        advance(node); /* CULM_NODE_TIMER_COPY: more may be asked for */
    }
}

static void on_job_done(void *actor, struct culm_job *job) {
    struct culm_node *node = actor;
    struct culm_task *task = (struct culm_task *)job;
    if (task->kind == CULM_TASK_SAVE) {
        node_save_done(node, task);
    } else {
        node_task_done(node, task);
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
    .led = on_led,
    .leave = on_leave,
};
