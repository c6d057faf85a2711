/* The common part of servers, parameter servers and workers. See self.h. */
#include "interval/self.h"

#include "base/mark.h"
#include "crew/term.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void culm_gnn_self_init(struct culm_gnn_self *self, const struct culm_gnn_node_options *options) {
    *self = (struct culm_gnn_self){.o = *options};
    culm_self_init(&self->node, options->world, options->id, options->beat_ms, CULM_GNN_META_MAX);
    self->node.stops = options->stops;
}

void culm_gnn_self_release(struct culm_gnn_self *self) {
    culm_self_release(&self->node);
    for (int32_t i = 0; i < self->traffic.count; i++) {
        free(self->traffic.thing[i]);
    }
    culm_ids_release(&self->traffic);
    culm_ids_release(&self->gone);
    culm_ids_release(&self->missing);
    free(self->named);
    free(self->curve);
    culm_gnn_view_release(&self->view);
    culm_gnn_view_release(&self->next);
}

/* The counters for a node; NULL: the leader, this node itself, one that is gone, or out of memory.
 * Messages are not counted then; at worst, after a stall, the wrong node is removed. */
static struct culm_gnn_traffic *traffic_with(struct culm_gnn_self *self, int32_t node) {
    if (node < 0 || node == self->o.id) {
        return NULL;
    }
    struct culm_gnn_traffic *traffic = culm_ids_find(&self->traffic, node);
    if (traffic || culm_gnn_is_gone(self, node)) {
        return traffic;
    }
    traffic = malloc(sizeof *traffic);
    if (!traffic || !culm_ids_put(&self->traffic, node, traffic)) {
        free(traffic);
        return NULL;
    }
    *traffic = (struct culm_gnn_traffic){.node = node};
    return traffic;
}

void culm_gnn_send_part(struct culm_gnn_self *self, int32_t to, enum culm_gnn_message_type type,
                        struct culm_blob *payload, size_t offset_bytes, size_t size_bytes) {
    struct culm_gnn_traffic *traffic = traffic_with(self, to);
    if (traffic) {
        traffic->sent++;
    }
    culm_self_send(&self->node, to, (uint16_t)type, payload, offset_bytes, size_bytes);
}

void culm_gnn_send(struct culm_gnn_self *self, int32_t to, enum culm_gnn_message_type type,
                   struct culm_blob *payload) {
    culm_gnn_send_part(self, to, type, payload, 0, payload ? payload->size_bytes : 0);
}

static void prepare(struct culm_gnn_self *self, struct culm_gnn_task *task) {
    task->exec = self->o.exec;
    task->job = (struct culm_job){.execute = culm_gnn_task_execute};
}

/* Distinguishes tasks of the same kind that may take different times. */
static int32_t part_of(const struct culm_gnn_task *task) {
    switch (task->kind) {
    case CULM_GNN_TASK_GATHER:
    case CULM_GNN_TASK_SLICE: return task->gather;
    case CULM_GNN_TASK_APPLY: return task->step;
    case CULM_GNN_TASK_FOLD: return task->stage;
    default: return 0;
    }
}

static void begin(struct culm_gnn_self *self, int32_t line, const struct culm_gnn_task *task) {
    culm_self_begins(&self->node, line, (int32_t)task->kind, part_of(task));
}

void culm_gnn_ran(struct culm_gnn_self *self, const struct culm_job *job) {
    bool computed = self->queue_count > 0 && &self->queue[0]->job == job;
    self->node.progress++;
    culm_self_ends(&self->node, computed ? 0 : 1, job->status == CULM_OK);
    if (!computed) {
        return;
    }
    memmove(self->queue, self->queue + 1, (size_t)--self->queue_count * sizeof *self->queue);
    if (self->queue_count > 0) {
        begin(self, 0, self->queue[0]);
    }
}

void culm_gnn_run(struct culm_gnn_self *self, struct culm_gnn_task *task) {
    prepare(self, task);
    assert(self->queue_count < CULM_GNN_QUEUE_MAX);
    self->queue[self->queue_count++] = task;
    if (self->queue_count == 1) {
        begin(self, 0, task);
    }
    self->o.world->ops->run(self->o.world, &task->job);
}

void culm_gnn_run_io(struct culm_gnn_self *self, struct culm_gnn_task *task) {
    prepare(self, task);
    begin(self, 1, task);
    self->o.world->ops->io(self->o.world, &task->job);
}

/* Answers ASK with the counters for nodes that this one can still reach; the latest nodes first. */
static void answer(struct culm_gnn_self *self, const struct culm_message *message) {
    struct culm_ask ask;
    if (culm_ask_decode(message->meta, message->meta_bytes, &ask) != CULM_OK) {
        return;
    }
    const int32_t all = self->traffic.count,
                  count = all < CULM_GNN_NODES_MAX ? all : CULM_GNN_NODES_MAX;
    struct culm_gnn_answer *answer = malloc(sizeof *answer + (size_t)count * sizeof *answer->with);
    if (!answer) {
        culm_self_fail(&self->node, CULM_ERR_MEMORY, "out of memory");
        return;
    }
    *answer = (struct culm_gnn_answer){.question = ask.question, .count = count};
    for (int32_t n = 0; n < count; n++) {
        const struct culm_gnn_traffic *with = self->traffic.thing[all - 1 - n];
        answer->with[n] = *with;
    }
    culm_gnn_answer_encode(answer, culm_self_meta(&self->node));
    culm_self_tell(&self->node, CULM_GNN_MSG_ANSWER);
    free(answer);
}

/* Of epochs of which this node may not have heard. It comes ahead of the first view that a leader tells it. */
static void hear_curve(struct culm_gnn_self *self, const struct culm_message *message) {
    struct culm_gnn_curve *curve = calloc(1, sizeof *curve);
    if (curve && culm_gnn_curve_decode(message->meta, message->meta_bytes, curve) == CULM_OK) {
        CULM_MARK(interval_hears_of_epochs_before_it_came);
        free(self->curve);
        self->curve = curve;
    } else {
        free(curve); /* it can tell of fewer */
    }
}

/* Shows a leader that takes over its newest view, and what it can tell of epochs. */
static void show(struct culm_gnn_self *self) {
    if (self->view.number > 0) {
        culm_gnn_view_encode(&self->view, self->o.layout->intervals, culm_self_meta(&self->node));
        culm_self_tell(&self->node, CULM_GNN_MSG_VIEW);
        culm_gnn_curve_encode(self->curve, culm_self_meta(&self->node));
        culm_self_tell(&self->node, CULM_GNN_MSG_CURVE);
    }
}

bool culm_gnn_heard(struct culm_gnn_self *self, int32_t from, const struct culm_message *message) {
    struct culm_gnn_traffic *traffic = traffic_with(self, from);
    if (culm_self_heard(&self->node, from, message)) {
        return true;
    }
    if (traffic) {
        traffic->got++;
    }
    if (from == CULM_LEADER && message->type == CULM_WORD_ASK) {
        answer(self, message);
        return true;
    }
    if (from == CULM_LEADER && message->type == CULM_GNN_MSG_CURVE) {
        hear_curve(self, message);
        return true;
    }
    if (from == CULM_LEADER && message->type == CULM_GNN_MSG_SHOW) {
        show(self);
        return true;
    }
    self->node.progress++;
    return false;
}

/* False: out of memory. */
static bool make_room(struct culm_gnn_self *self) {
    const int32_t intervals = self->o.layout->intervals;
    if (!self->named) {
        self->named = malloc(((size_t)intervals + CULM_GNN_HOLDERS_MAX) * sizeof *self->named);
    }
    self->curve = self->curve ? self->curve : calloc(1, sizeof *self->curve);
    return self->named && self->curve &&
           (self->next.owner || culm_gnn_view_init(&self->next, intervals)) &&
           (self->view.owner || culm_gnn_view_init(&self->view, intervals));
}

static int by_number(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Whom the view names, and who of them is gone. Owners mostly rise with their intervals. */
static void name_nodes(struct culm_gnn_self *self) {
    int32_t *named = self->named, count = 0;
    bool rise = true;
    for (int32_t i = 0; i < self->o.layout->intervals + self->view.holder_count; i++) {
        const int32_t holder = i - self->o.layout->intervals;
        const int32_t node = holder < 0 ? self->view.owner[i] : self->view.holder[holder].node;
        if (node >= 0 && (count == 0 || named[count - 1] != node)) {
            rise = rise && (count == 0 || named[count - 1] < node);
            named[count++] = node;
        }
    }
    if (!rise) {
        qsort(named, (size_t)count, sizeof *named, by_number);
    }
    culm_ids_release(&self->missing);
    self->named_count = 0;
    for (int32_t n = 0; n < count; n++) {
        if (n > 0 && named[n] == named[self->named_count - 1]) {
            continue;
        }
        named[self->named_count++] = named[n];
        if (culm_gnn_is_gone(self, named[n]) && !culm_ids_put(&self->missing, named[n], NULL)) {
            culm_self_fail(&self->node, CULM_ERR_MEMORY, "out of memory");
        }
    }
}

/* --- views and commits --- */

/* What is told of the last epoch, and up to which ones a checkpoint tells it. */
static void note_last(struct culm_gnn_self *self) {
    const struct culm_gnn_view *view = &self->view;
    if (view->last.epoch > 0) {
        culm_gnn_curve_add(self->curve, &view->last);
    }
    culm_gnn_curve_cut(self->curve, view->balance.published, view->course.epoch - 1);
}

bool culm_gnn_enter(struct culm_gnn_self *self, const struct culm_message *message) {
    const int32_t intervals = self->o.layout->intervals;
    if (!make_room(self)) {
        culm_self_fail(&self->node, CULM_ERR_MEMORY, "out of memory");
        return false;
    }
    culm_gnn_view_copy(&self->next, &self->view, intervals);
    if (culm_gnn_view_decode(message->meta, message->meta_bytes, self->o.layout, &self->next) !=
        CULM_OK) {
        culm_self_fail(&self->node, CULM_ERR_FORMAT, "a view could not be decoded");
        return false;
    }
    if (self->next.number <= self->view.number) {
        return false;
    }
    const struct culm_gnn_view before = self->view;
    self->view = self->next;
    self->next = before;
    self->anew = CULM_VIEW_TERM(before.number) != CULM_VIEW_TERM(self->view.number);
    note_last(self);
    name_nodes(self);
    return true;
}

bool culm_gnn_hear_commit(struct culm_gnn_self *self, const struct culm_message *message,
                          struct culm_gnn_commit *ret_commit) {
    struct culm_gnn_view *view = &self->view;
    if (culm_gnn_commit_decode(message->meta, message->meta_bytes, ret_commit) != CULM_OK ||
        ret_commit->attempt != view->attempt || ret_commit->epoch != view->course.epoch) {
        CULM_MARK(interval_commit_of_another_epoch);
        return false;
    }
    view->course = ret_commit->next;
    view->last = ret_commit->outcome;
    view->balance = ret_commit->balance;
    note_last(self);
    return true;
}

/* --- another leader --- */

void culm_gnn_report(struct culm_gnn_self *self, struct culm_gnn_report *state) {
    const struct culm_gnn_view *view = &self->view;
    if (view->number > 0) {
        state->view = view->number;
        state->attempt = view->attempt;
        state->course = view->course;
        state->curve_first = culm_gnn_curve_first(self->curve);
        state->last = view->last;
        state->balance = view->balance;
    }
    CULM_MARK(interval_reports_to_another_leader);
    culm_gnn_report_encode(state, culm_self_meta(&self->node));
    culm_self_tell(&self->node, CULM_GNN_MSG_REPORT);
}

bool culm_gnn_is_gone(const struct culm_gnn_self *self, int32_t node) {
    return culm_ids_has(&self->gone, node);
}

void culm_gnn_gone(struct culm_gnn_self *self, int32_t node) {
    if (culm_gnn_is_gone(self, node)) {
        return;
    }
    const bool named =
        self->named_count > 0 &&
        bsearch(&node, self->named, (size_t)self->named_count, sizeof node, by_number);
    if (!culm_ids_put(&self->gone, node, NULL) ||
        (named && !culm_ids_put(&self->missing, node, NULL))) {
        culm_self_fail(&self->node, CULM_ERR_MEMORY, "out of memory");
        return;
    }
    free(culm_ids_take(&self->traffic, node));
}

int32_t culm_gnn_next_gone(const struct culm_gnn_self *self, int32_t *at) {
    return *at < self->missing.count ? self->missing.id[(*at)++] : -1;
}

void culm_gnn_tell_gone(struct culm_gnn_self *self) {
    int32_t at = 0, node;
    while ((node = culm_gnn_next_gone(self, &at)) >= 0) {
        CULM_MARK(interval_complains_of_a_peer);
        culm_self_complain(&self->node, node);
    }
}

struct culm_blob *culm_gnn_payload(const struct culm_message *message) {
    return message->payload ? culm_blob_ref(message->payload) : NULL;
}
