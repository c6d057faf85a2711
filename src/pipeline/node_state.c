/*
 * The node: versions of the stages it holds. Loading, stepping, copying to and from others,
 * checkpoints.
 *
 * These tasks are ordered one after another: a copy ordered after a step copies what the step made.
 * A transfer sends slices of tensors as they are asked for; what becomes of them is in node_learn.c.
 */
#include "pipeline/node_internal.h"

#include "base/grow.h"
#include "base/mark.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the queue of orders --- */

void node_order_add(struct culm_node *node, struct state_order order) {
    if (node->order_count == node->order_capacity) {
        int32_t capacity = node->order_capacity ? 2 * node->order_capacity : 64;
        struct state_order *queue = calloc((size_t)capacity, sizeof *queue);
        if (!queue) {
            culm_blob_unref(order.input);
            culm_self_fail(&node->self, CULM_ERR_MEMORY, "queue of state tasks");
            return;
        }
        for (int32_t i = 0; i < node->order_count; i++) {
            queue[i] = node->order[(node->order_first + i) % node->order_capacity];
        }
        free(node->order);
        node->order = queue;
        node->order_first = 0;
        node->order_capacity = capacity;
    }
    node->order[(node->order_first + node->order_count++) % node->order_capacity] = order;
}

/* Removes the waiting orders for which `drop` says so. */
static void orders_filter(struct culm_node *node,
                          bool (*drop)(const struct culm_node *, const struct state_order *)) {
    int32_t kept = 0;
    for (int32_t i = 0; i < node->order_count; i++) {
        struct state_order order = node->order[(node->order_first + i) % node->order_capacity];
        if (drop(node, &order)) {
            CULM_MARK(pipeline_order_is_dropped);
            culm_blob_unref(order.input);
        } else {
            node->order[(node->order_first + kept++) % node->order_capacity] = order;
        }
    }
    node->order_count = kept;
}

static struct incoming *incoming_of(const struct culm_node *node, uint32_t id) {
    for (int32_t s = 0; s < node->o.layout->stages; s++) {
        if (id && node->stage[s].incoming.id == id) {
            return (struct incoming *)&node->stage[s].incoming;
        }
    }
    return NULL;
}

static struct outgoing *outgoing_of(const struct culm_node *node, uint32_t id) {
    for (int32_t i = 0; i < node->outgoing_count; i++) {
        if (node->outgoing[i].id == id) {
            return (struct outgoing *)&node->outgoing[i];
        }
    }
    return NULL;
}

bool node_order_is_export(const struct culm_node *node) {
    return node->order_count > 0 && node->order[node->order_first].kind == CULM_TASK_EXPORT;
}

bool node_order_next(struct culm_node *node) {
    if (node->order_count == 0) {
        return false;
    }
    if (node->busy) {
        return true;
    }
    struct state_order order = node->order[node->order_first];
    node->order_first = (node->order_first + 1) % node->order_capacity;
    node->order_count--;
    struct culm_task *task = &node->task;
    *task = (struct culm_task){.kind = order.kind,
                               .stage = order.stage,
                               .index = order.index,
                               .from_slice = order.slice,
                               .node = node->self.id,
                               .iteration = node->iteration,
                               .resets = node->resets,
                               .version = order.version,
                               .grad = node->stepping,
                               .clip = order.clip,
                               .state_digest = node->stage[order.stage].digest,
                               .input = order.input, /* the order's reference */
                               .digest = order.digest,
                               .source = node->order_source};
    size_t size_bytes = 0;
    if (order.kind == CULM_TASK_EXPORT) {
        int32_t param = node->o.layout->stage[order.stage].params[order.index];
        size_bytes = culm_param_slice_bytes(&node->o.layout->param[param], order.slice);
    } else if (order.kind == CULM_TASK_SNAPSHOT) {
        size_bytes = node->o.layout->stage[order.stage].state_bytes;
    } else if (order.kind == CULM_TASK_STEP) {
        task->iteration = order.version; /* the one being stepped */
    }
    if (size_bytes && !node_get(node, size_bytes, &task->output)) {
        return true;
    }
    if (order.kind == CULM_TASK_LOAD) {
        snprintf(node->order_source, sizeof node->order_source, "%s", node->view->source);
    }
    node->order_transfer = order.transfer;
    node->learn_life = order.life;
    node_submit(node, task);
    return true;
}

/* --- views --- */

static bool drop_all(const struct culm_node *node, const struct state_order *order) {
    (void)node;
    (void)order;
    return true;
}

/* EXPORT and IMPORT orders of transfers that are no more. */
static bool drop_stale(const struct culm_node *node, const struct state_order *order) {
    return (order->kind == CULM_TASK_IMPORT && !incoming_of(node, order->transfer)) ||
           (order->kind == CULM_TASK_EXPORT && !outgoing_of(node, order->transfer));
}

static void forget_stage(struct culm_node *node, int32_t stage) {
    node->stage[stage].held = false;
    node->stage[stage].version = -1;
    node_order_add(node, (struct state_order){.kind = CULM_TASK_DROP, .stage = stage});
}

static void stepping_clear(struct culm_node *node) {
    for (int32_t g = 0; g < node->o.layout->grad_count; g++) {
        culm_blob_clear(&node->stepping[g]);
    }
}

/* After a LOAD view nobody waits for what was to be saved; what is being written ends by itself. */
static void saves_forget(struct culm_node *node) {
    for (int32_t i = 0; i < node->order_count; i++) {
        const struct state_order *order =
            &node->order[(node->order_first + i) % node->order_capacity];
        if (order->kind == CULM_TASK_SNAPSHOT) {
            CULM_MARK(pipeline_snapshot_is_dropped);
            node->save[order->stage].runs = false;
        }
    }
    for (int32_t s = 0; s < node->o.layout->stages; s++) {
        node->save[s].due = (struct save_order){0};
    }
}

static void load_all(struct culm_node *node, const struct culm_stage_set *holds) {
    /* A step that is running keeps the gradients it reads until it is done; see stepped(). */
    saves_forget(node);
    orders_filter(node, drop_all);
    if (!node->busy || node->task.kind != CULM_TASK_STEP) {
        stepping_clear(node);
    } else {
        CULM_MARK(pipeline_load_while_a_step_runs);
    }
    node->outgoing_count = 0; /* what is asked for in a view to come counts then */
    node_learn_forget(node);
    for (int32_t s = 0; s < node->o.layout->stages; s++) {
        node_learn_end(node, s);
        forget_stage(node, s);
        node->stage[s].held = culm_stage_set_has(holds, s);
        if (node->stage[s].held) {
            node_order_add(node, (struct state_order){.kind = CULM_TASK_LOAD,
                                                      .stage = s,
                                                      .version = node->iteration - 1});
        }
    }
}

/* Does the view have a transfer of this stage to here? */
static bool comes(const struct culm_node *node, int32_t stage) {
    for (int32_t i = 0; i < node->view->transfer_count; i++) {
        if (node->view->transfer[i].destination == node->self.id &&
            node->view->transfer[i].stage == stage) {
            return true;
        }
    }
    return false;
}

static void enter_transfers(struct culm_node *node) {
    const struct culm_view *view = node->view;
    struct outgoing *before = node->outgoing;
    int32_t before_count = node->outgoing_count;
    node->outgoing = NULL;
    node->outgoing_count = node->outgoing_capacity = 0;
    for (int32_t i = 0; i < view->transfer_count; i++) {
        const struct culm_transfer *t = &view->transfer[i];
        if (t->source != node->self.id) {
            continue;
        }
        struct outgoing out = {.id = t->id, .stage = t->stage, .destination = t->destination};
        for (int32_t b = 0; b < before_count; b++) {
            if (before[b].id == t->id) {
                CULM_MARK(pipeline_copy_goes_on_in_a_new_view);
                out = before[b];
            }
        }
        if (!CULM_GROW(node->outgoing, node->outgoing_capacity, node->outgoing_count + 1)) {
            culm_self_fail(&node->self, CULM_ERR_MEMORY, "remember the copies of a view");
            break;
        }
        node->outgoing[node->outgoing_count++] = out;
    }
    free(before);
    for (int32_t s = 0; s < view->stages; s++) {
        if (node->stage[s].incoming.id && !comes(node, s)) {
            const bool held = node->stage[s].held;
            node_learn_end(node, s);
            if (!held) {
                CULM_MARK(pipeline_half_a_copy_is_dropped);
                forget_stage(node, s);
            }
        }
    }
    for (int32_t i = 0; i < view->transfer_count; i++) {
        if (view->transfer[i].destination == node->self.id) {
            node_learn_begin(node, &view->transfer[i]);
        }
    }
    orders_filter(node, drop_stale);
}

void node_state_view(struct culm_node *node) {
    const struct culm_view_node *self = culm_view_find(node->view, node->self.id);
    const struct culm_stage_set holds = self ? self->holds : (struct culm_stage_set){{0}};
    if (node->view->phase == CULM_VIEW_LOAD) {
        load_all(node, &holds);
        return;
    }
    for (int32_t s = 0; s < node->o.layout->stages; s++) {
        bool now = culm_stage_set_has(&holds, s);
        if (node->stage[s].held && !now) {
            CULM_MARK(pipeline_stage_is_let_go);
            forget_stage(node, s);
        } else if (!node->stage[s].held && now) {
            if (node->stage[s].version != node->iteration - 1) {
                culm_self_fail(&node->self, CULM_ERR_INTERNAL,
                               "view %llu says that stage %d is held here at version %lld",
                               (unsigned long long)node->view->number, s,
                               (long long)(node->iteration - 1));
                return;
            }
            CULM_MARK(pipeline_copy_is_held);
            node_learn_hold(node, s);
            node->stage[s].held = true;
        }
    }
    enter_transfers(node);
}

/* --- transfers --- */

void node_want(struct culm_node *node, int32_t from, const struct culm_message *message) {
    struct culm_want want;
    if (culm_want_decode(message->meta, message->meta_bytes, &want) != CULM_OK ||
        culm_ids_has(&node->lost, from)) {
        return;
    }
    if (!CULM_GROW(node->wanted_slice, node->wanted_slice_capacity, node->wanted_slice_count + 1)) {
        culm_self_fail(&node->self, CULM_ERR_MEMORY, "remember who asks for a copy");
        return;
    }
    node->wanted_slice[node->wanted_slice_count++] = (struct wanted){from, want};
}

void node_transfers(struct culm_node *node) {
    int32_t kept = 0;
    for (int32_t i = 0; i < node->wanted_slice_count; i++) {
        const struct wanted wanted = node->wanted_slice[i];
        const struct culm_want *want = &wanted.what;
        const struct outgoing *out = outgoing_of(node, want->transfer);
        const struct culm_stage_desc *desc = out ? &node->o.layout->stage[out->stage] : NULL;
        if (!out && want->view > node->view->number) {
            CULM_MARK(pipeline_copy_is_asked_for_in_a_view_to_come);
            node->wanted_slice[kept++] = wanted;
        } else if (!out || out->destination != wanted.from || want->index >= desc->param_count ||
                   want->slice >=
                       culm_param_slices(&node->o.layout->param[desc->params[want->index]])) {
            CULM_MARK(pipeline_copy_that_is_no_more_is_asked_for);
        } else if (node->stage[out->stage].version != node->iteration - 1) {
            CULM_MARK(pipeline_copy_waits_for_a_step);
            node->wanted_slice[kept++] = wanted;
        } else {
            node_order_add(node, (struct state_order){.kind = CULM_TASK_EXPORT,
                                                      .stage = out->stage,
                                                      .index = want->index,
                                                      .slice = want->slice,
                                                      .version = node->iteration - 1,
                                                      .transfer = out->id});
        }
    }
    node->wanted_slice_count = kept;
}

void node_state_message(struct culm_node *node, int32_t from, const struct culm_message *message) {
    struct culm_state state;
    if (culm_state_decode(message->meta, message->meta_bytes, &state) != CULM_OK) {
        return;
    }
    node->self.progress++; /* a sign that links work */
    struct incoming *in = incoming_of(node, state.transfer);
    if (!in || node->stage[in->stage].held || !message->payload || in->source != from ||
        state.index >= node->o.layout->stage[in->stage].param_count ||
        !node_state_comes(node, in, &state, message->payload_bytes)) {
        CULM_MARK(pipeline_state_is_not_wanted);
        return;
    }
    node_order_add(node, (struct state_order){.kind = CULM_TASK_IMPORT,
                                              .stage = in->stage,
                                              .index = state.index,
                                              .slice = state.slice,
                                              .life = in->tensor[state.index].life,
                                              .version = state.version,
                                              .input = culm_blob_ref(message->payload),
                                              .digest = state.digest,
                                              .transfer = in->id});
}

static void exported(struct culm_node *node, struct culm_task *task) {
    const struct outgoing *out = outgoing_of(node, node->order_transfer);
    if (!out) {
        CULM_MARK(pipeline_export_of_a_copy_that_is_no_more);
        return;
    }
    const struct culm_state state = {.version = task->version,
                                     .transfer = out->id,
                                     .index = task->index,
                                     .slice = task->from_slice,
                                     .digest = task->digest};
    culm_state_encode(&state, culm_self_meta(&node->self));
    culm_self_send_yielding(&node->self, out->destination, CULM_MSG_STATE, task->output, 0,
                            task->output->size_bytes);
}

static void imported(struct culm_node *node, const struct culm_task *task) {
    struct incoming *in = incoming_of(node, node->order_transfer);
    if (!in) {
        CULM_MARK(pipeline_import_of_a_copy_that_is_no_more);
        return;
    }
    node_imported(node, in, task);
}

/* --- done --- */

static void loaded(struct culm_node *node, const struct culm_task *task) {
    if (node->view->phase != CULM_VIEW_LOAD || task->resets != node->resets ||
        !node->stage[task->stage].held) {
        CULM_MARK(pipeline_load_of_a_view_before);
        return; /* ordered by a view before: this one has ordered it again */
    }
    node->stage[task->stage].version = task->version;
    struct culm_stage_set stages = {{0}};
    for (int32_t s = 0; s < node->o.layout->stages; s++) {
        if (node->stage[s].held && node->stage[s].version != task->version) {
            return;
        }
        if (node->stage[s].held) {
            culm_stage_set_add(&stages, s);
        }
    }
    node_tell_digests(node, &stages, task->version);
    const struct culm_loaded loaded = {.view = node->view->number, .version = task->version};
    culm_loaded_encode(&loaded, culm_self_meta(&node->self));
    culm_self_tell(&node->self, CULM_MSG_LOADED);
}

bool node_unloaded(struct culm_node *node, const struct culm_task *task) {
    enum culm_status status = task->job.status;
    if (task->kind != CULM_TASK_LOAD || !task->source[0] ||
        (status != CULM_ERR_FORMAT && status != CULM_ERR_NOT_FOUND && status != CULM_ERR_IO)) {
        return false;
    }
    if (node->view->phase == CULM_VIEW_LOAD && task->resets == node->resets) {
        CULM_MARK(pipeline_says_that_it_cannot_load);
        struct culm_unloaded unloaded = {.view = node->view->number, .status = status};
        snprintf(unloaded.why, sizeof unloaded.why, "%s", task->job.error.text);
        culm_unloaded_encode(&unloaded, culm_self_meta(&node->self));
        culm_self_tell(&node->self, CULM_MSG_UNLOADED);
    }
    return true;
}

static void stepped(struct culm_node *node, const struct culm_task *task) {
    if (node->stage[task->stage].held && node->stage[task->stage].version == task->version - 1) {
        node->stage[task->stage].version = task->version;
    } else {
        CULM_MARK(pipeline_step_of_a_stage_that_went);
    }
    for (int32_t i = 0; i < node->order_count; i++) {
        if (node->order[(node->order_first + i) % node->order_capacity].kind == CULM_TASK_STEP) {
            return;
        }
    }
    stepping_clear(node);
    struct culm_stage_set stages = {{0}};
    for (int32_t s = 0; s < node->o.layout->stages; s++) {
        if (node->stage[s].held && node->stage[s].version == task->version) {
            culm_stage_set_add(&stages, s);
        }
    }
    if (!culm_stage_set_empty(&stages)) {
        node_tell_digests(node, &stages, task->version);
    }
}

static void start_save(struct culm_node *node, struct culm_task *snapshot) {
    struct culm_task *save = &node->save[snapshot->stage].task;
    *save = (struct culm_task){.kind = CULM_TASK_SAVE,
                               .stage = snapshot->stage,
                               .node = node->self.id,
                               .iteration = snapshot->version,
                               .version = snapshot->version,
                               .input = culm_blob_ref(snapshot->output),
                               .exec = node->o.exec};
    save->attempt = node->save[snapshot->stage].as.attempt;
    save->weights_only = node->save[snapshot->stage].as.weights;
    memcpy(save->text, node->save[snapshot->stage].as.to, CULM_SOURCE_MAX);
    save->job.execute = culm_task_execute;
    save->job.owner = node;
    node_task_begins(node, save);
    node->self.tell.world->ops->io(node->self.tell.world, &save->job);
}

void node_order_done(struct culm_node *node, struct culm_task *task) {
    switch (task->kind) {
    case CULM_TASK_LOAD: loaded(node, task); break;
    case CULM_TASK_STEP: stepped(node, task); break;
    case CULM_TASK_EXPORT: exported(node, task); break;
    case CULM_TASK_IMPORT: imported(node, task); break;
    case CULM_TASK_COMPLETE: node_completed(node, task); break;
    case CULM_TASK_SNAPSHOT: start_save(node, task); break;
    default: break;
    }
}

/* --- checkpoints --- */

static void order_snapshot(struct culm_node *node, int32_t stage, struct save_order save) {
    node->save[stage].runs = true;
    node->save[stage].as = save;
    node_order_add(node, (struct state_order){
                             .kind = CULM_TASK_SNAPSHOT, .stage = stage, .version = save.version});
}

static void tell_saved(struct culm_node *node, int32_t stage, struct save_order save,
                       enum culm_status status, const char *text) {
    struct culm_saved saved = {
        .version = save.version, .attempt = save.attempt, .stage = stage, .status = status};
    if (status == CULM_OK) {
        snprintf(saved.piece, sizeof saved.piece, "%s", text);
    } else {
        snprintf(saved.why, sizeof saved.why, "%s", text);
    }
    culm_saved_encode(&saved, culm_self_meta(&node->self));
    culm_self_tell(&node->self, CULM_MSG_SAVED);
}

void node_save(struct culm_node *node, const struct culm_message *message) {
    struct culm_save said;
    if (culm_save_decode(message->meta, message->meta_bytes, &said) != CULM_OK || said.stage < 0 ||
        said.stage >= node->o.layout->stages) {
        return;
    }
    struct save_order save = {true, said.version, said.attempt, said.weights, ""};
    memcpy(save.to, said.to, sizeof save.to);
    if (node->save[said.stage].runs) {
        CULM_MARK(pipeline_save_waits_for_the_one_before);
        node->save[said.stage].due = save; /* the one file that is written has its own attempt */
    } else {
        order_snapshot(node, said.stage, save);
    }
}

void node_save_done(struct culm_node *node, struct culm_task *task) {
    int32_t stage = task->stage;
    struct save_order due = node->save[stage].due;
    node_task_ends(node, task);
    node->save[stage].runs = false;
    node->save[stage].due = (struct save_order){0};
    culm_blob_clear(&task->input);
    if (task->damaged) {
        node_damaged(node, task);
        return;
    }
    tell_saved(node, stage, node->save[stage].as, task->job.status,
               task->job.status == CULM_OK ? task->text : task->job.error.text);
    if (due.waits && node->stage[stage].held && due.version == node->iteration - 1) {
        order_snapshot(node, stage, due);
    } else if (due.waits) {
        CULM_MARK(pipeline_save_waited_too_long);
        tell_saved(node, stage, due, CULM_ERR_AGAIN,
                   "the checkpoint before was still being written");
    }
}
