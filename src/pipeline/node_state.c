/*
 * The node: versions of the stages it holds. Loading, stepping, copying to and from others,
 * checkpoints.
 *
 * These tasks are ordered one after another: a copy ordered after a step copies what the step made.
 * A transfer sends the state tensor by tensor; whoever receives it acknowledges the whole with its
 * version, and holds the stage once a view says so.
 */
#include "pipeline/node_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the queue of orders --- */

void culm_node_order_add(struct culm_node *node, struct state_order order) {
    if (node->order_count == node->order_capacity) {
        int32_t capacity = node->order_capacity ? 2 * node->order_capacity : 64;
        struct state_order *queue = calloc((size_t)capacity, sizeof *queue);
        if (!queue) {
            culm_blob_unref(order.input);
            culm_node_fail(node, CULM_ERR_MEMORY, "queue of state tasks");
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
            culm_blob_unref(order.input);
        } else {
            node->order[(node->order_first + kept++) % node->order_capacity] = order;
        }
    }
    node->order_count = kept;
}

static struct incoming *incoming_of(const struct culm_node *node, uint32_t id) {
    for (int32_t s = 0; s < node->o.layout->stages; s++) {
        if (id && node->incoming[s].id == id) {
            return (struct incoming *)&node->incoming[s];
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

bool culm_node_order_next(struct culm_node *node) {
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
                               .node = node->o.id,
                               .iteration = node->iteration,
                               .epoch = node->epoch,
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
        size_bytes = node->o.layout->param[param].state_bytes;
    } else if (order.kind == CULM_TASK_SNAPSHOT) {
        size_bytes = node->o.layout->stage[order.stage].state_bytes;
    } else if (order.kind == CULM_TASK_STEP) {
        task->iteration = order.version; /* the one being stepped */
    }
    if (size_bytes && !culm_node_get(node, size_bytes, &task->output)) {
        return true;
    }
    if (order.kind == CULM_TASK_LOAD) {
        snprintf(node->order_source, sizeof node->order_source, "%s", node->view->source);
    }
    node->order_transfer = order.transfer;
    culm_node_submit(node, task);
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
    culm_node_order_add(node, (struct state_order){.kind = CULM_TASK_DROP, .stage = stage});
}

static const struct culm_transfer *transfer_of(const struct culm_view *view, uint32_t id) {
    for (int32_t i = 0; i < view->transfer_count; i++) {
        if (view->transfer[i].id == id) {
            return &view->transfer[i];
        }
    }
    return NULL;
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
            node->saving[order->stage] = false;
        }
    }
    memset(node->save_due, 0, sizeof node->save_due);
}

static void load_all(struct culm_node *node, uint64_t holds) {
    /* A step that is running keeps the gradients it reads until it is done; see stepped(). */
    saves_forget(node);
    orders_filter(node, drop_all);
    if (!node->busy || node->task.kind != CULM_TASK_STEP) {
        stepping_clear(node);
    }
    memset(node->incoming, 0, sizeof node->incoming);
    node->outgoing_count = 0;
    for (int32_t s = 0; s < node->o.layout->stages; s++) {
        forget_stage(node, s);
        node->stage[s].held = holds >> s & 1;
        if (node->stage[s].held) {
            culm_node_order_add(node, (struct state_order){.kind = CULM_TASK_LOAD,
                                                           .stage = s,
                                                           .version = node->iteration - 1});
        }
    }
}

static void enter_transfers(struct culm_node *node) {
    const struct culm_view *view = node->view;
    struct outgoing before[CULM_MAX_TRANSFERS];
    int32_t before_count = node->outgoing_count;
    memcpy(before, node->outgoing, sizeof before);
    node->outgoing_count = 0;
    for (int32_t i = 0; i < view->transfer_count; i++) {
        const struct culm_transfer *t = &view->transfer[i];
        if (t->source != node->o.id) {
            continue;
        }
        struct outgoing out = {.id = t->id, .stage = t->stage, .destination = t->destination};
        for (int32_t b = 0; b < before_count; b++) {
            out = before[b].id == t->id ? before[b] : out;
        }
        node->outgoing[node->outgoing_count++] = out;
    }
    for (int32_t s = 0; s < view->stages; s++) {
        struct incoming *in = &node->incoming[s];
        if (in->id && !node->stage[s].held && !transfer_of(view, in->id)) {
            forget_stage(node, s);
        }
        if (in->id && !transfer_of(view, in->id)) {
            *in = (struct incoming){0};
        }
    }
    for (int32_t i = 0; i < view->transfer_count; i++) {
        const struct culm_transfer *t = &view->transfer[i];
        if (t->destination == node->o.id && node->incoming[t->stage].id != t->id) {
            node->incoming[t->stage] =
                (struct incoming){.id = t->id, .stage = t->stage, .source = t->source};
        }
    }
    orders_filter(node, drop_stale);
}

void culm_node_state_view(struct culm_node *node) {
    const struct culm_view_node *self = culm_view_find(node->view, node->o.id);
    uint64_t holds = self ? self->holds : 0;
    if (node->view->phase == CULM_VIEW_LOAD) {
        load_all(node, holds);
        return;
    }
    for (int32_t s = 0; s < node->o.layout->stages; s++) {
        bool now = holds >> s & 1;
        if (node->stage[s].held && !now) {
            forget_stage(node, s);
        } else if (!node->stage[s].held && now) {
            if (node->stage[s].version != node->iteration - 1) {
                culm_node_fail(node, CULM_ERR_INTERNAL,
                               "view %llu says that stage %d is held here at version %lld",
                               (unsigned long long)node->view->number, s,
                               (long long)(node->iteration - 1));
                return;
            }
            node->stage[s].held = true;
        }
    }
    enter_transfers(node);
}

/* --- transfers --- */

void culm_node_transfers(struct culm_node *node) {
    for (int32_t i = 0; i < node->outgoing_count; i++) {
        struct outgoing *out = &node->outgoing[i];
        if (out->ordered || !culm_node_said_have(node, out->destination) ||
            out->next == node->o.layout->stage[out->stage].param_count ||
            node->stage[out->stage].version != node->iteration - 1) {
            continue;
        }
        out->ordered = true;
        culm_node_order_add(node, (struct state_order){.kind = CULM_TASK_EXPORT,
                                                       .stage = out->stage,
                                                       .index = out->next,
                                                       .version = node->iteration - 1,
                                                       .transfer = out->id});
    }
}

void culm_node_transfers_end(struct culm_node *node) {
    node->outgoing_count = 0;
    for (int32_t s = 0; s < node->o.layout->stages; s++) {
        if (node->incoming[s].id && !node->stage[s].held) {
            node->incoming[s] = (struct incoming){0};
            forget_stage(node, s);
        }
    }
    orders_filter(node, drop_stale);
}

void culm_node_state_message(struct culm_node *node, int32_t from,
                             const struct culm_message *message) {
    struct culm_state state;
    if (culm_state_decode(message->meta, message->meta_bytes, &state) != CULM_OK) {
        return;
    }
    node->tasks_done++; /* a sign that links work */
    struct incoming *in = incoming_of(node, state.transfer);
    if (!in || !message->payload || in->source != from || state.index != in->ordered ||
        state.version != node->iteration - 1 ||
        state.index >= node->o.layout->stage[in->stage].param_count) {
        return;
    }
    int32_t param = node->o.layout->stage[in->stage].params[state.index];
    if (message->payload_bytes != node->o.layout->param[param].state_bytes) {
        return;
    }
    in->ordered++;
    culm_node_order_add(node, (struct state_order){.kind = CULM_TASK_IMPORT,
                                                   .stage = in->stage,
                                                   .index = state.index,
                                                   .version = state.version,
                                                   .input = culm_blob_ref(message->payload),
                                                   .digest = state.digest,
                                                   .transfer = in->id});
}

static void exported(struct culm_node *node, struct culm_task *task) {
    struct outgoing *out = outgoing_of(node, node->order_transfer);
    if (!out) {
        return;
    }
    const struct culm_state state = {.version = task->version,
                                     .transfer = out->id,
                                     .index = task->index,
                                     .digest = task->digest};
    culm_state_encode(&state, culm_node_meta(node));
    culm_node_send(node, out->destination, CULM_MSG_STATE, task->output, 0,
                   task->output->size_bytes);
    out->next++;
    out->ordered = false;
}

static void imported(struct culm_node *node, const struct culm_task *task) {
    struct incoming *in = incoming_of(node, node->order_transfer);
    if (!in) {
        return;
    }
    in->imported++;
    if (in->imported == node->o.layout->stage[in->stage].param_count) {
        node->stage[in->stage].version = task->version;
        culm_node_tell_digests(node, 1ull << in->stage, task->version);
        const struct culm_joined joined = {.version = task->version, .transfer = in->id};
        culm_joined_encode(&joined, culm_node_meta(node));
        culm_node_tell(node, CULM_MSG_JOINED);
    }
}

/* --- done --- */

static void loaded(struct culm_node *node, const struct culm_task *task) {
    if (node->view->phase != CULM_VIEW_LOAD || task->epoch != node->epoch ||
        !node->stage[task->stage].held) {
        return; /* ordered by a view before: this one has ordered it again */
    }
    node->stage[task->stage].version = task->version;
    uint64_t stages = 0;
    for (int32_t s = 0; s < node->o.layout->stages; s++) {
        if (node->stage[s].held && node->stage[s].version != task->version) {
            return;
        }
        stages |= (uint64_t)node->stage[s].held << s;
    }
    culm_node_tell_digests(node, stages, task->version);
    const struct culm_loaded loaded = {.view = node->view->number, .version = task->version};
    culm_loaded_encode(&loaded, culm_node_meta(node));
    culm_node_tell(node, CULM_MSG_LOADED);
}

bool culm_node_unloaded(struct culm_node *node, const struct culm_task *task) {
    enum culm_status status = task->job.status;
    if (task->kind != CULM_TASK_LOAD || !task->source[0] ||
        (status != CULM_ERR_FORMAT && status != CULM_ERR_NOT_FOUND && status != CULM_ERR_IO)) {
        return false;
    }
    if (node->view->phase == CULM_VIEW_LOAD && task->epoch == node->epoch) {
        struct culm_unloaded unloaded = {.view = node->view->number, .status = status};
        snprintf(unloaded.why, sizeof unloaded.why, "%s", task->job.error.text);
        culm_unloaded_encode(&unloaded, culm_node_meta(node));
        culm_node_tell(node, CULM_MSG_UNLOADED);
    }
    return true;
}

static void stepped(struct culm_node *node, const struct culm_task *task) {
    if (node->stage[task->stage].held && node->stage[task->stage].version == task->version - 1) {
        node->stage[task->stage].version = task->version;
    }
    for (int32_t i = 0; i < node->order_count; i++) {
        if (node->order[(node->order_first + i) % node->order_capacity].kind == CULM_TASK_STEP) {
            return;
        }
    }
    stepping_clear(node);
    uint64_t stages = 0;
    for (int32_t s = 0; s < node->o.layout->stages; s++) {
        bool stepped = node->stage[s].held && node->stage[s].version == task->version;
        stages |= (uint64_t)stepped << s;
    }
    if (stages) {
        culm_node_tell_digests(node, stages, task->version);
    }
}

static void start_save(struct culm_node *node, struct culm_task *snapshot) {
    struct culm_task *save = &node->save[snapshot->stage];
    *save = (struct culm_task){.kind = CULM_TASK_SAVE,
                               .stage = snapshot->stage,
                               .node = node->o.id,
                               .iteration = snapshot->version,
                               .version = snapshot->version,
                               .input = culm_blob_ref(snapshot->output),
                               .exec = node->o.exec};
    save->weights_only = node->saved_as[snapshot->stage].weights;
    memcpy(save->text, node->saved_as[snapshot->stage].to, CULM_SOURCE_MAX);
    save->job.execute = culm_task_execute;
    save->job.owner = node;
    culm_node_task_begins(node, save);
    node->o.world->ops->io(node->o.world, &save->job);
}

void culm_node_order_done(struct culm_node *node, struct culm_task *task) {
    switch (task->kind) {
    case CULM_TASK_LOAD: loaded(node, task); break;
    case CULM_TASK_STEP: stepped(node, task); break;
    case CULM_TASK_EXPORT: exported(node, task); break;
    case CULM_TASK_IMPORT: imported(node, task); break;
    case CULM_TASK_SNAPSHOT: start_save(node, task); break;
    default: break;
    }
}

/* --- checkpoints --- */

static void order_snapshot(struct culm_node *node, int32_t stage, struct save_order save) {
    node->saving[stage] = true;
    node->saved_as[stage] = save;
    culm_node_order_add(
        node,
        (struct state_order){.kind = CULM_TASK_SNAPSHOT, .stage = stage, .version = save.version});
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
    culm_saved_encode(&saved, culm_node_meta(node));
    culm_node_tell(node, CULM_MSG_SAVED);
}

void culm_node_save(struct culm_node *node, const struct culm_message *message) {
    struct culm_save said;
    if (culm_save_decode(message->meta, message->meta_bytes, &said) != CULM_OK || said.stage < 0 ||
        said.stage >= node->o.layout->stages || !node->stage[said.stage].held) {
        return; /* an order from before a view that took the stage away: that view gave it up */
    }
    struct save_order save = {true, said.version, said.attempt, said.weights, ""};
    memcpy(save.to, said.to, sizeof save.to);
    if (node->saving[said.stage]) {
        node->save_due[said.stage] = save; /* the one file that is written has its own attempt */
    } else {
        order_snapshot(node, said.stage, save);
    }
}

void culm_node_save_done(struct culm_node *node, struct culm_task *task) {
    int32_t stage = task->stage;
    struct save_order due = node->save_due[stage];
    culm_node_task_ends(node, task);
    node->saving[stage] = false;
    node->save_due[stage] = (struct save_order){0};
    culm_blob_clear(&task->input);
    if (task->damaged) {
        culm_node_damaged(node, task);
        return;
    }
    tell_saved(node, stage, node->saved_as[stage], task->job.status,
               task->job.status == CULM_OK ? task->text : task->job.error.text);
    if (due.waits && node->stage[stage].held && due.version == node->iteration - 1) {
        order_snapshot(node, stage, due);
    } else if (due.waits) {
        tell_saved(node, stage, due, CULM_ERR_AGAIN,
                   "the checkpoint before was still being written");
    }
}
