/*
 * A worker: orders, weights, constant inputs, leaving, and links that fail it. See worker.h.
 *
 * The link to a holder may swallow what is sent over it, one way or the other. The worker then has tasks and no
 * weights, and gives each task back once the epoch is committed without it. Nothing stands still, so the leader does
 * not notice; but each epoch has waited for this worker. A holder answers whatever it is asked, if only to say that
 * it has later weights. So a worker that has asked and hears nothing from there while epochs are committed fails, as
 * it does if a connection has ended.
 */
#include "interval/worker.h"

#include "base/mark.h"

#include <stdlib.h>
#include <string.h>

#define TASKS_A_SERVER 2 /* asked of each server: one arrives while the other is computed */
#define MS 1000000ull
#define PART_MS 5000  /* after being told to leave, leaves at the latest */
#define GONE_MS 5000  /* by then, the leader must have noticed a loss as well */
#define OWED_EPOCHS 3 /* committed while a holder owes an answer: the link to it swallows */

/* A task, as far as it has arrived. */
struct order {
    int32_t server;
    struct culm_gnn_task_key key;
    struct culm_blob *constant;
    struct culm_blob *rows[CULM_GNN_BLOCKS_MAX], *d_rows[CULM_GNN_BLOCKS_MAX];
    bool there;     /* TASK has arrived */
    int32_t block;  /* the next one to be computed */
    int32_t blocks; /* number of blocks; 0: no rows have arrived yet */
    /* The results of the blocks before. */
    struct culm_blob *output, *gradient;
    struct culm_gnn_totals totals;
    bool gone; /* its server is lost */
    struct order *next;
};

/* A holder that was asked for weights and has said nothing since. */
struct owed {
    int32_t holder; /* -1: none */
    int64_t epoch;  /* that was in progress when it was asked */
    int64_t beats;  /* of this worker, since; a process that does not run has none */
};

/* To leave, it first finishes its tasks (DRAINS), then waits until the results have arrived. */
enum stay { STAYS, DRAINS, PARTS };

struct culm_gnn_worker {
    struct culm_gnn_self self; /* first member */
    struct culm_gnn_worker_options o;
    struct culm_gnn_constants constants; /* used if the options have none */
    struct culm_ids called;              /* servers that it has connected to */
    struct culm_ids owing;               /* those that owe it an answer to LEAVING */
    enum stay stay;
    struct order *orders; /* in order of arrival */
    int64_t *used;        /* [intervals] value of `uses` when its constant input was used last */
    int64_t uses;
    int32_t window;
    struct culm_blob **weights;            /* [window] by version % window; NULL: none */
    struct culm_gnn_version *have, *asked; /* [window] version of weights[i]; version asked for */
    struct owed owed;
    struct culm_gnn_task task;
    struct order *doing; /* the order of the running task; not in the list */
    bool busy;
};

struct culm_gnn_worker *culm_gnn_worker_new(const struct culm_gnn_worker_options *options) {
    struct culm_gnn_worker *worker = calloc(1, sizeof *worker);
    if (!worker) {
        return NULL;
    }
    culm_gnn_self_init(&worker->self, &options->node);
    worker->o = *options;
    worker->owed.holder = -1;
    worker->o.constants = options->constants ? options->constants : &worker->constants;
    worker->window = culm_gnn_pace_window(&options->node.pace);
    size_t window = (size_t)worker->window;
    worker->weights = calloc(window, sizeof(struct culm_blob *));
    worker->have = calloc(window, sizeof *worker->have);
    worker->asked = calloc(window, sizeof *worker->asked);
    worker->used = calloc((size_t)options->node.layout->intervals, sizeof *worker->used);
    if (!worker->used || !worker->weights || !worker->have || !worker->asked) {
        culm_gnn_worker_free(worker);
        return NULL;
    }
    return worker;
}

static void free_order(struct order *order) {
    if (order) {
        culm_blob_unref(order->constant);
        culm_blob_unref(order->output);
        culm_blob_unref(order->gradient);
        for (int32_t b = 0; b < CULM_GNN_BLOCKS_MAX; b++) {
            culm_blob_unref(order->rows[b]);
            culm_blob_unref(order->d_rows[b]);
        }
        free(order);
    }
}

static void release_task(struct culm_gnn_task *task) {
    culm_blob_clear(&task->input);
    culm_blob_clear(&task->rows);
    culm_blob_clear(&task->d_rows);
    culm_blob_clear(&task->weights);
    culm_blob_clear(&task->output);
    culm_blob_clear(&task->gradient);
}

void culm_gnn_worker_free(struct culm_gnn_worker *worker) {
    if (!worker) {
        return;
    }
    while (worker->orders) {
        struct order *order = worker->orders;
        worker->orders = order->next;
        free_order(order);
    }
    release_task(&worker->task);
    free_order(worker->doing);
    for (int32_t w = 0; worker->weights && w < worker->window; w++) {
        culm_blob_clear(&worker->weights[w]);
    }
    free(worker->weights);
    free(worker->have);
    free(worker->asked);
    free(worker->used);
    culm_ids_release(&worker->called);
    culm_ids_release(&worker->owing);
    culm_set_release(&worker->constants.intervals);
    culm_gnn_self_release(&worker->self);
    free(worker);
}

/* --- connecting to servers --- */

static void call_servers(struct culm_gnn_worker *worker) {
    for (int32_t i = 0; i < worker->self.o.layout->intervals; i++) {
        int32_t node = worker->self.view.owner[i];
        if (node < 0 || culm_ids_has(&worker->called, node)) {
            continue;
        }
        if (!culm_ids_put(&worker->called, node, NULL)) {
            culm_self_fail(&worker->self.node, CULM_ERR_MEMORY, "out of memory");
            return;
        }
        for (int t = 0; t < TASKS_A_SERVER; t++) {
            culm_gnn_warm_encode(&worker->o.constants->intervals,
                                 culm_self_meta(&worker->self.node));
            culm_gnn_send(&worker->self, node, CULM_GNN_MSG_READY, NULL);
        }
    }
}

/* --- orders --- */

static bool same(const struct culm_gnn_task_key *a, const struct culm_gnn_task_key *b) {
    return a->attempt == b->attempt && a->epoch == b->epoch && a->version == b->version &&
           a->interval == b->interval && a->step == b->step;
}

/* The order of this key; NULL: there is none. */
static struct order *find_order(const struct culm_gnn_worker *worker, int32_t server,
                                const struct culm_gnn_task_key *key) {
    if (worker->doing && worker->doing->server == server && same(&worker->doing->key, key)) {
        return worker->doing;
    }
    struct order *order = worker->orders;
    while (order && !(order->server == server && same(&order->key, key))) {
        order = order->next;
    }
    return order;
}

/* The same, or a new one. NULL: out of memory. */
static struct order *order_of(struct culm_gnn_worker *worker, int32_t server,
                              const struct culm_gnn_task_key *key) {
    struct order *order = find_order(worker, server, key);
    struct order **at = &worker->orders;
    if (order) {
        return order;
    }
    order = calloc(1, sizeof *order);
    if (!order) {
        culm_self_fail(&worker->self.node, CULM_ERR_MEMORY, "out of memory");
        return NULL;
    }
    while (*at) {
        at = &(*at)->next;
    }
    order->server = server;
    order->key = *key;
    *at = order;
    return order;
}

/* Whether the interval's constant input has arrived but is not ready for use yet. */
static bool is_coming(const struct culm_gnn_worker *worker, int32_t interval) {
    for (const struct order *order = worker->orders; order; order = order->next) {
        if (order->key.interval == interval && order->constant) {
            return true;
        }
    }
    return worker->busy && worker->task.kind == CULM_GNN_TASK_TAKE &&
           worker->task.interval == interval;
}

/* Gives a task back to its server: LACKS or DROPPED. */
static void give_back(struct culm_gnn_worker *worker, int32_t server,
                      const struct culm_gnn_task_key *key, enum culm_gnn_message_type why) {
    culm_gnn_task_key_encode(key, culm_self_meta(&worker->self.node));
    culm_gnn_send(&worker->self, server, why, NULL);
}

/* A task, or the constant input for one. */
static void hear_order(struct culm_gnn_worker *worker, int32_t from,
                       const struct culm_message *message) {
    struct culm_gnn_task_key key;
    if (culm_gnn_task_key_decode(message->meta, message->meta_bytes, worker->self.o.layout, &key) !=
        CULM_OK) {
        return;
    }
    bool task = message->type == CULM_GNN_MSG_TASK;
    if (!task && !message->payload) {
        return;
    }
    if (task && !find_order(worker, from, &key) &&
        !culm_set_has(&worker->o.constants->intervals, key.interval) &&
        !is_coming(worker, key.interval)) {
        /* its rows, which follow, find no order and are dropped */
        CULM_MARK(interval_order_lacks_its_input);
        give_back(worker, from, &key, CULM_GNN_MSG_LACKS);
        return;
    }
    struct order *order = order_of(worker, from, &key);
    if (order && task) {
        order->there = true;
    } else if (order) {
        culm_blob_clear(&order->constant);
        order->constant = culm_gnn_payload(message);
    }
}

static void hear_part(struct culm_gnn_worker *worker, int32_t from,
                      const struct culm_message *message) {
    struct culm_gnn_part part;
    if (culm_gnn_part_decode(message->meta, message->meta_bytes, worker->self.o.layout, &part) !=
        CULM_OK) {
        return;
    }
    const struct culm_gnn_step *step = &worker->self.o.layout->step[part.key.step];
    struct order *order = find_order(worker, from, &part.key);
    bool rows = message->type == CULM_GNN_MSG_PART_ROWS;
    bool read = (rows ? step->rows : step->d_rows) >= 0;
    if (order && read && part.block >= order->block &&
        (order->blocks == 0 || order->blocks == part.blocks)) {
        order->blocks = part.blocks;
        struct culm_blob **at = rows ? &order->rows[part.block] : &order->d_rows[part.block];
        if (!*at) {
            *at = culm_gnn_payload(message);
        }
    }
}

/* --- leaving --- */

static void say_leaving(struct culm_gnn_worker *worker, int32_t to) {
    culm_self_meta(&worker->self.node);
    culm_gnn_send(&worker->self, to, CULM_GNN_MSG_LEAVING, NULL);
}

static void ask_servers(struct culm_gnn_worker *worker) {
    for (int32_t i = 0; i < worker->called.count; i++) {
        const int32_t node = worker->called.id[i];
        if (culm_gnn_is_gone(&worker->self, node)) {
            continue;
        }
        if (!culm_ids_has(&worker->owing, node) && !culm_ids_put(&worker->owing, node, NULL)) {
            culm_self_fail(&worker->self.node, CULM_ERR_MEMORY, "out of memory");
            return;
        }
        say_leaving(worker, node);
    }
}

static bool someone_owes(const struct culm_gnn_worker *worker) { return worker->owing.count > 0; }

/* There is nothing to do: goes on with leaving, if it is. */
static void part(struct culm_gnn_worker *worker) {
    if (worker->stay == DRAINS && !worker->orders && !someone_owes(worker)) {
        worker->stay = PARTS;
        ask_servers(worker);
    }
    if (worker->stay == PARTS && !someone_owes(worker)) {
        culm_self_leave(&worker->self.node);
    }
}

static void hear_leaving(struct culm_gnn_worker *worker, int32_t from) {
    (void)culm_ids_take(&worker->owing, from);
}

static void time_to_leave(struct culm_gnn_worker *worker) {
    if (worker->stay != STAYS) { /* leaving takes too long: a slow server, or a long task */
        CULM_MARK(interval_leaving_takes_too_long);
        culm_self_leave(&worker->self.node);
        return;
    }
    worker->stay = DRAINS;
    say_leaving(worker, CULM_LEADER);
    ask_servers(worker);
    int64_t part_ms = worker->o.part_ms > 0 ? worker->o.part_ms : PART_MS;
    worker->self.o.world->ops->timer(worker->self.o.world, CULM_GNN_TIMER_LEAVE,
                                     (uint64_t)part_ms * MS);
}

/* --- weights --- */

static struct culm_blob *weights_of(struct culm_gnn_worker *worker,
                                    const struct culm_gnn_task_key *key) {
    int64_t at = key->version % worker->window;
    bool here = worker->weights[at] && worker->have[at].attempt == key->attempt &&
                worker->have[at].version == key->version;
    return here ? worker->weights[at] : NULL;
}

static void ask_weights(struct culm_gnn_worker *worker, const struct culm_gnn_task_key *key) {
    const int32_t holder = culm_gnn_view_source(&worker->self.view, worker->self.o.id);
    const struct culm_gnn_version what = {key->attempt, key->version, key->version};
    struct culm_gnn_version *asked = &worker->asked[key->version % worker->window];
    if (holder < 0 || (asked->attempt == what.attempt && asked->version == what.version)) {
        return;
    }
    *asked = what;
    culm_gnn_version_encode(&what, culm_self_meta(&worker->self.node));
    culm_gnn_send(&worker->self, holder, CULM_GNN_MSG_GET, NULL);
    if (worker->owed.holder != holder) {
        worker->owed = (struct owed){holder, worker->self.view.course.epoch, 0};
    }
}

static void hear_weights(struct culm_gnn_worker *worker, const struct culm_message *message) {
    struct culm_gnn_version key;
    if (culm_gnn_version_decode(message->meta, message->meta_bytes, &key) == CULM_OK &&
        message->payload) {
        int64_t at = key.version % worker->window;
        culm_blob_clear(&worker->weights[at]);
        worker->weights[at] = culm_blob_ref(message->payload);
        worker->have[at] = key;
        worker->asked[at] = (struct culm_gnn_version){0};
    }
}

/* --- constant inputs --- */

static bool is_needed(const struct culm_gnn_worker *worker, int32_t interval) {
    for (const struct order *order = worker->orders; order; order = order->next) {
        if (order->key.interval == interval) {
            return true;
        }
    }
    return worker->doing && worker->doing->key.interval == interval;
}

/* The interval whose constant input is to be dropped to make room: the least recently used one that
 * no order needs. -1: there is room, or none can be dropped. */
static int32_t too_many(const struct culm_gnn_worker *worker) {
    int32_t oldest = -1;
    size_t bytes = 0;
    const struct culm_set *here = &worker->o.constants->intervals;
    for (int32_t i = culm_set_next(here, 0); i >= 0; i = culm_set_next(here, i + 1)) {
        bytes += worker->o.constants->bytes[i];
        if (!is_needed(worker, i) && (oldest < 0 || worker->used[i] < worker->used[oldest])) {
            oldest = i;
        }
    }
    return worker->o.keep_bytes > 0 && bytes > worker->o.keep_bytes ? oldest : -1;
}

/* --- tasks --- */

/* Whether the order's next block can be computed, or its constant input unpacked. Asks for weights
 * that are missing. */
static bool is_ready(struct culm_gnn_worker *worker, const struct order *order) {
    const struct culm_gnn_step *step = &worker->self.o.layout->step[order->key.step];
    if (order->constant) {
        return true;
    }
    if (!order->there || (step->rows >= 0 && !order->rows[order->block]) ||
        (step->d_rows >= 0 && !order->d_rows[order->block])) {
        return false;
    }
    if (!weights_of(worker, &order->key)) {
        ask_weights(worker, &order->key);
        return false;
    }
    return culm_set_has(&worker->o.constants->intervals, order->key.interval);
}

/* Whether the order's result no longer counts: its epoch is committed, or its attempt over. Its
 * weights may be gone too. An order with a constant input is taken first: that is not sent again. */
static bool is_over(const struct culm_gnn_worker *worker, const struct order *order) {
    const struct culm_gnn_view *view = &worker->self.view;
    return order->there && !order->constant &&
           (order->key.attempt < view->attempt ||
            (order->key.attempt == view->attempt && order->key.epoch < view->course.epoch));
}

/* Takes the order to be done next off the list: of those that are ready, one of the earliest epoch,
 * since later epochs may need weights that depend on it. NULL: none is ready. */
static struct order *next_order(struct culm_gnn_worker *worker) {
    struct order **best = NULL;
    for (struct order **at = &worker->orders; *at;) {
        struct order *order = *at;
        if (is_over(worker, order)) {
            *at = order->next;
            CULM_MARK(interval_order_is_over);
            give_back(worker, order->server, &order->key, CULM_GNN_MSG_DROPPED);
            free_order(order);
            continue;
        }
        if (is_ready(worker, order) && (!best || order->key.epoch < (*best)->key.epoch)) {
            best = at;
        }
        at = &order->next;
    }
    struct order *order = best ? *best : NULL;
    if (order) {
        *best = order->next;
        order->next = NULL;
    }
    return order;
}

/* Puts an order that is not finished back at the front of the list. */
static void put_back(struct culm_gnn_worker *worker, struct order *order) {
    order->next = worker->orders;
    worker->orders = order;
}

static void start(struct culm_gnn_worker *worker, struct order *order) {
    if (order->constant) {
        culm_self_point(&worker->self.node, CULM_GNN_PHASE_LOAD, order->key.epoch,
                        order->key.interval);
        worker->task = (struct culm_gnn_task){
            .kind = CULM_GNN_TASK_TAKE, .interval = order->key.interval, .input = order->constant};
        order->constant = NULL;
        return;
    }
    int32_t b = order->block;
    if (b == 0) {
        culm_self_point(&worker->self.node, CULM_GNN_PHASE_APPLY, order->key.epoch,
                        order->key.interval);
    }
    worker->task = (struct culm_gnn_task){.kind = CULM_GNN_TASK_APPLY,
                                          .interval = order->key.interval,
                                          .step = order->key.step,
                                          .epoch = order->key.epoch,
                                          .attempt = order->key.attempt,
                                          .block = order->blocks > 1 ? b + 1 : 0,
                                          .weights = culm_blob_ref(weights_of(worker, &order->key)),
                                          .rows = order->rows[b],
                                          .d_rows = order->d_rows[b],
                                          .output = order->output,
                                          .gradient = order->gradient,
                                          .totals = order->totals};
    order->rows[b] = order->d_rows[b] = order->output = order->gradient = NULL;
}

static void go_on(struct culm_gnn_worker *worker) {
    if (worker->self.node.left || worker->busy) {
        return;
    }
    int32_t forget = too_many(worker);
    struct order *order = forget < 0 ? next_order(worker) : NULL;
    if (forget >= 0) {
        CULM_MARK(interval_input_is_dropped_for_room);
        culm_set_remove(&worker->o.constants->intervals, forget);
        worker->task = (struct culm_gnn_task){.kind = CULM_GNN_TASK_DROP, .interval = forget};
    } else if (order) {
        worker->doing = order;
        start(worker, order);
    } else {
        part(worker);
        return;
    }
    worker->busy = true;
    culm_gnn_run(&worker->self, &worker->task);
}

static void send_result(struct culm_gnn_worker *worker) {
    const struct culm_gnn_task *task = &worker->task;
    struct order *order = worker->doing;
    struct culm_gnn_self *self = &worker->self;
    if (task->gradient) {
        culm_self_point(&self->node, CULM_GNN_PHASE_PUSH_GRADIENT, order->key.epoch,
                        order->key.interval);
        culm_gnn_task_key_encode(&order->key, culm_self_meta(&self->node));
        culm_gnn_send(self, order->server, CULM_GNN_MSG_SHARE, task->gradient);
    }
    culm_self_point(&self->node, CULM_GNN_PHASE_PUSH_ROWS, order->key.epoch, order->key.interval);
    const struct culm_gnn_result result = {order->key, task->totals};
    culm_gnn_result_encode(&result, culm_self_meta(&self->node));
    culm_gnn_send(self, order->server, CULM_GNN_MSG_ROWS, task->output);
}

/* A block has been computed; the last one completes the task. */
static void applied(struct culm_gnn_worker *worker) {
    struct culm_gnn_task *task = &worker->task;
    struct order *order = worker->doing;
    worker->used[order->key.interval] = ++worker->uses;
    if (++order->block >= order->blocks) {
        send_result(worker);
        free_order(order);
        worker->doing = NULL;
        return;
    }
    worker->doing = NULL;
    order->output = task->output;
    order->gradient = task->gradient;
    order->totals = task->totals;
    task->output = task->gradient = NULL;
    if (order->gone) {
        CULM_MARK(interval_block_for_a_lost_server);
        free_order(order);
    } else {
        put_back(worker, order);
    }
}

static void took_constant(struct culm_gnn_worker *worker) {
    struct order *order = worker->doing;
    int32_t interval = order->key.interval;
    if (!culm_set_add(&worker->o.constants->intervals, interval)) {
        culm_self_fail(&worker->self.node, CULM_ERR_MEMORY, "out of memory");
    }
    worker->o.constants->bytes[interval] = worker->task.input->size_bytes;
    worker->used[interval] = ++worker->uses;
    worker->doing = NULL;
    if (order->gone) {
        CULM_MARK(interval_input_of_a_lost_server);
        free_order(order);
    } else {
        put_back(worker, order);
    }
}

static void on_job_done(void *actor, struct culm_job *job) {
    struct culm_gnn_worker *worker = actor;
    worker->busy = false;
    culm_gnn_ran(&worker->self, job);
    if (job->status != CULM_OK) {
        culm_self_fail(&worker->self.node, job->status, "%s", job->error.text);
    } else if (worker->task.kind == CULM_GNN_TASK_APPLY) {
        applied(worker);
    } else if (worker->task.kind == CULM_GNN_TASK_TAKE) {
        took_constant(worker);
    }
    release_task(&worker->task);
    go_on(worker);
}

/* --- lost links --- */

/* If this worker cannot reach a node that the view still counts on, it fails: others seem to reach
 * it, and so may another worker. */
static void look_for_gone(struct culm_gnn_worker *worker) {
    int32_t at = 0, gone = culm_gnn_next_gone(&worker->self, &at);
    if (gone >= 0) {
        CULM_MARK(interval_worker_cannot_reach_a_node);
        culm_self_fail(&worker->self.node, CULM_ERR_CLOSED, "the connection to node %d ended",
                       gone);
    }
}

static int64_t gone_ms(const struct culm_gnn_worker *worker) {
    return worker->self.o.gone_ms > 0 ? worker->self.o.gone_ms : GONE_MS;
}

static void watch_gone(struct culm_gnn_worker *worker) {
    int32_t at = 0;
    if (culm_gnn_next_gone(&worker->self, &at) >= 0) {
        worker->self.o.world->ops->timer(worker->self.o.world, CULM_GNN_TIMER_WATCH,
                                         (uint64_t)gone_ms(worker) * MS);
    }
}

/* At each heartbeat. Every holder has been through what was committed, and would have answered. */
static void look_for_silent(struct culm_gnn_worker *worker) {
    struct owed *owed = &worker->owed;
    if (owed->holder >= 0 && ++owed->beats * worker->self.o.beat_ms >= gone_ms(worker) &&
        worker->self.view.course.epoch >= owed->epoch + OWED_EPOCHS) {
        CULM_MARK(interval_worker_hears_nothing_of_a_holder);
        culm_self_fail(&worker->self.node, CULM_ERR_CLOSED,
                       "node %d has not answered for %lld epochs, which others went through",
                       owed->holder, (long long)(worker->self.view.course.epoch - owed->epoch));
    }
}

/* --- what is received --- */

static void enter_view(struct culm_gnn_worker *worker, const struct culm_message *message) {
    const uint32_t attempt = worker->self.view.attempt;
    if (culm_gnn_enter(&worker->self, message)) {
        const int32_t source = culm_gnn_view_source(&worker->self.view, worker->self.o.id);
        if (worker->owed.holder != source || worker->self.view.attempt != attempt) {
            worker->owed.holder = -1;
        }
        /* The holders that were asked may be gone, so ask again. */
        memset(worker->asked, 0, (size_t)worker->window * sizeof *worker->asked);
        if (worker->stay == STAYS) {
            call_servers(worker);
        }
        watch_gone(worker);
    }
}

static void on_message(void *actor, int32_t from, const struct culm_message *message) {
    struct culm_gnn_worker *worker = actor;
    bool leader = from == CULM_LEADER;
    struct culm_gnn_commit commit;
    if (culm_gnn_heard(&worker->self, from, message)) {
        return;
    }
    if (from == worker->owed.holder) {
        worker->owed.holder = -1;
    }
    if (message->type == CULM_GNN_MSG_VIEW && leader) {
        enter_view(worker, message);
    } else if (message->type == CULM_GNN_MSG_COMMIT && leader) {
        (void)culm_gnn_hear_commit(&worker->self, message, &commit);
    } else if (message->type == CULM_WORD_END && leader) {
        culm_self_leave(&worker->self.node);
    } else if (message->type == CULM_GNN_MSG_WEIGHTS) {
        hear_weights(worker, message);
    } else if (message->type == CULM_GNN_MSG_LEAVING && !leader) {
        hear_leaving(worker, from);
    } else if (message->type == CULM_GNN_MSG_LEAVING && worker->stay == STAYS) {
        time_to_leave(worker);
    } else if (leader) {
        /* nothing else is accepted from the leader */
    } else if (message->type == CULM_GNN_MSG_PART_CONSTANT || message->type == CULM_GNN_MSG_TASK) {
        hear_order(worker, from, message);
    } else if (message->type == CULM_GNN_MSG_PART_ROWS ||
               message->type == CULM_GNN_MSG_PART_D_ROWS) {
        hear_part(worker, from, message);
    }
    go_on(worker);
}

static void on_lost(void *actor, int32_t node) {
    struct culm_gnn_worker *worker = actor;
    for (struct order **at = &worker->orders; *at;) {
        struct order *order = *at;
        if (order->server == node && !order->constant) {
            CULM_MARK(interval_order_of_a_lost_server);
            *at = order->next;
            free_order(order);
            continue;
        }
        if (order->server == node) { /* orders of other servers may count on this input */
            CULM_MARK(interval_input_of_a_lost_server_is_taken);
            order->gone = true;
        }
        at = &order->next;
    }
    if (worker->doing && worker->doing->server == node) {
        CULM_MARK(interval_task_of_a_lost_server);
        worker->doing->gone = true;
    }
    hear_leaving(worker, node); /* it will never answer */
    if (!worker->self.node.left) {
        culm_gnn_gone(&worker->self, node);
        watch_gone(worker);
        go_on(worker);
    }
}

static void on_start(void *actor) {
    struct culm_gnn_worker *worker = actor;
    culm_gnn_cold_encode(culm_set_is_empty(&worker->o.constants->intervals),
                         culm_self_meta(&worker->self.node));
    culm_gnn_send(&worker->self, CULM_LEADER, CULM_GNN_MSG_COLD, NULL);
    culm_self_beat(&worker->self.node);
    if (worker->o.stay_ms > 0) {
        worker->self.o.world->ops->timer(worker->self.o.world, CULM_GNN_TIMER_LEAVE,
                                         (uint64_t)worker->o.stay_ms * MS);
    }
}

static void on_timer(void *actor, uint32_t timer) {
    struct culm_gnn_worker *worker = actor;
    if (worker->self.node.left) {
        return;
    }
    if (timer == CULM_GNN_TIMER_BEAT) {
        culm_self_beat(&worker->self.node);
        look_for_silent(worker);
    } else if (timer == CULM_GNN_TIMER_LEAVE) {
        time_to_leave(worker);
        go_on(worker);
    } else {
        look_for_gone(worker);
    }
}

/* Nothing hangs on it: it finishes its tasks, and leaves by itself. */
static void on_leave(void *actor, int64_t within_ms) {
    struct culm_gnn_worker *worker = actor;
    (void)within_ms;
    worker->self.node.leaving = true;
    if (!worker->self.node.left && worker->stay == STAYS) {
        CULM_MARK(interval_worker_is_to_end);
        time_to_leave(worker);
        go_on(worker);
    }
}

const struct culm_actor_ops culm_gnn_worker_actor = {
    .size = sizeof culm_gnn_worker_actor,
    .start = on_start,
    .message = on_message,
    .lost = on_lost,
    .timer = on_timer,
    .job_done = on_job_done,
    .leave = on_leave,
};
