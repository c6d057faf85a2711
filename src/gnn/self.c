/* The common part of servers, parameter servers and workers. See self.h. */
#include "gnn/self.h"

#include "base/grow.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ull

void culm_gnn_self_init(struct culm_gnn_self *self, const struct culm_gnn_node_options *options) {
    *self = (struct culm_gnn_self){.o = *options};
    culm_buf_init(&self->meta, CULM_GNN_META_MAX);
    culm_pulse_init(&self->pulse, options->beat_ms);
}

void culm_gnn_self_release(struct culm_gnn_self *self) {
    culm_buf_release(&self->meta);
    free(self->traffic);
    free(self->gone);
}

static uint64_t now_of(const struct culm_gnn_self *self) {
    return self->o.world->ops->now_ns(self->o.world);
}

/* The counters for a node; NULL: the leader, this node itself, or out of memory. Messages are not
 * counted then; at worst, after a stall, the wrong node is removed. */
static struct culm_gnn_traffic *traffic_with(struct culm_gnn_self *self, int32_t node) {
    if (node < 0 || node == self->o.id ||
        !CULM_GROW(self->traffic, self->traffic_capacity, node + 1)) {
        return NULL;
    }
    for (; self->traffic_count <= node; self->traffic_count++) {
        self->traffic[self->traffic_count] = (struct culm_gnn_traffic){.node = self->traffic_count};
    }
    return &self->traffic[node];
}

struct culm_buf *culm_gnn_meta(struct culm_gnn_self *self) {
    culm_buf_clear(&self->meta);
    return &self->meta;
}

void culm_gnn_send_part(struct culm_gnn_self *self, int32_t to, enum culm_gnn_message_type type,
                        struct culm_blob *payload, size_t offset_bytes, size_t size_bytes) {
    if (self->meta.failed) {
        culm_gnn_fail(self, CULM_ERR_MEMORY, "out of memory for a message");
        return;
    }
    const struct culm_message message = {
        .type = (uint16_t)type,
        .meta = self->meta.data,
        .meta_bytes = (uint32_t)self->meta.len,
        .payload = payload,
        .payload_offset = offset_bytes,
        .payload_bytes = size_bytes,
    };
    struct culm_gnn_traffic *traffic = traffic_with(self, to);
    if (traffic) {
        traffic->sent++;
    }
    self->o.world->ops->send(self->o.world, to, &message);
}

void culm_gnn_send(struct culm_gnn_self *self, int32_t to, enum culm_gnn_message_type type,
                   struct culm_blob *payload) {
    culm_gnn_send_part(self, to, type, payload, 0, payload ? payload->size_bytes : 0);
}

void culm_gnn_fail(struct culm_gnn_self *self, enum culm_status status, const char *format, ...) {
    if (self->left) {
        return;
    }
    self->left = true;
    struct culm_error error;
    va_list args;
    va_start(args, format);
    culm_error_setv(&error, status, format, args);
    va_end(args);
    struct culm_gnn_failed failed = {.status = status};
    snprintf(failed.why, sizeof failed.why, "%s", error.text);
    culm_gnn_failed_encode(&failed, culm_gnn_meta(self));
    if (!self->meta.failed) {
        culm_gnn_send(self, CULM_LEADER, CULM_GNN_MSG_FAILED, NULL);
    }
    self->o.world->ops->leave(self->o.world, culm_status_exit_code(status), &error);
}

void culm_gnn_point(struct culm_gnn_self *self, enum culm_gnn_phase phase, int64_t epoch,
                    int64_t interval) {
    const struct culm_fault_point point = {phase, epoch, interval};
    self->o.world->ops->fault(self->o.world, &point);
}

void culm_gnn_beat(struct culm_gnn_self *self) {
    struct culm_heartbeat beat;
    culm_pulse_beat(&self->pulse, self->progress, now_of(self), &beat);
    culm_heartbeat_encode(&beat, culm_gnn_meta(self));
    culm_gnn_send(self, CULM_LEADER, CULM_GNN_MSG_BEAT, NULL);
    self->o.world->ops->timer(self->o.world, CULM_GNN_TIMER_BEAT, (uint64_t)self->o.beat_ms * MS);
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
    culm_pulse_begin(&self->pulse, line, (int32_t)task->kind, part_of(task), now_of(self));
}

void culm_gnn_ran(struct culm_gnn_self *self, const struct culm_job *job) {
    struct culm_took took;
    bool computed = self->queue_count > 0 && &self->queue[0]->job == job;
    self->progress++;
    if (culm_pulse_end(&self->pulse, computed ? 0 : 1, job->status == CULM_OK, now_of(self),
                       &took)) {
        culm_took_encode(&took, culm_gnn_meta(self));
        culm_gnn_send(self, CULM_LEADER, CULM_GNN_MSG_TOOK, NULL);
    }
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
    struct culm_gnn_ask ask;
    struct culm_gnn_answer *answer = malloc(sizeof *answer);
    if (!answer) {
        culm_gnn_fail(self, CULM_ERR_MEMORY, "out of memory");
        return;
    }
    if (culm_gnn_ask_decode(message->meta, message->meta_bytes, &ask) == CULM_OK) {
        answer->question = ask.question;
        answer->count = 0;
        for (int32_t n = self->traffic_count - 1; n >= 0 && answer->count < CULM_GNN_NODES_MAX;
             n--) {
            const struct culm_gnn_traffic *with = &self->traffic[n];
            if (!culm_gnn_is_gone(self, n) && (with->sent > 0 || with->got > 0)) {
                answer->with[answer->count++] = *with;
            }
        }
        culm_gnn_answer_encode(answer, culm_gnn_meta(self));
        culm_gnn_send(self, CULM_LEADER, CULM_GNN_MSG_ANSWER, NULL);
    }
    free(answer);
}

bool culm_gnn_heard(struct culm_gnn_self *self, int32_t from, const struct culm_message *message) {
    struct culm_gnn_traffic *traffic = traffic_with(self, from);
    if (self->left) {
        return true;
    }
    if (traffic) {
        traffic->got++;
    }
    if (from == CULM_LEADER && message->type == CULM_GNN_MSG_ASK) {
        answer(self, message);
        return true;
    }
    self->progress++;
    return false;
}

bool culm_gnn_enter(struct culm_gnn_self *self, const struct culm_message *message) {
    struct culm_gnn_view *next = malloc(sizeof *next);
    bool newer = false;
    if (!next) {
        culm_gnn_fail(self, CULM_ERR_MEMORY, "out of memory");
    } else if (culm_gnn_view_decode(message->meta, message->meta_bytes, self->o.layout, next) !=
               CULM_OK) {
        culm_gnn_fail(self, CULM_ERR_FORMAT, "a view could not be decoded");
    } else if (next->number > self->view.number) {
        self->view = *next;
        newer = true;
    }
    free(next);
    return newer;
}

bool culm_gnn_hear_commit(struct culm_gnn_self *self, const struct culm_message *message,
                          struct culm_gnn_commit *ret_commit) {
    struct culm_gnn_view *view = &self->view;
    if (culm_gnn_commit_decode(message->meta, message->meta_bytes, ret_commit) != CULM_OK ||
        ret_commit->attempt != view->attempt || ret_commit->epoch != view->course.epoch) {
        return false;
    }
    view->course = ret_commit->next;
    return true;
}

void culm_gnn_leave(struct culm_gnn_self *self) {
    self->left = true;
    self->o.world->ops->leave(self->o.world, 0, NULL);
}

bool culm_gnn_is_gone(const struct culm_gnn_self *self, int32_t node) {
    for (int32_t i = 0; i < self->gone_count; i++) {
        if (self->gone[i] == node) {
            return true;
        }
    }
    return false;
}

void culm_gnn_gone(struct culm_gnn_self *self, int32_t node) {
    if (culm_gnn_is_gone(self, node)) {
        return;
    }
    if (!CULM_GROW(self->gone, self->gone_capacity, self->gone_count + 1)) {
        culm_gnn_fail(self, CULM_ERR_MEMORY, "out of memory");
        return;
    }
    self->gone[self->gone_count++] = node;
}

int32_t culm_gnn_next_gone(const struct culm_gnn_self *self, int32_t *at) {
    while (*at < self->gone_count) {
        int32_t node = self->gone[(*at)++];
        if (culm_gnn_view_serves(&self->view, self->o.layout->intervals, node) ||
            culm_gnn_view_holds(&self->view, node)) {
            return node;
        }
    }
    return -1;
}

void culm_gnn_tell_gone(struct culm_gnn_self *self) {
    int32_t at = 0, node;
    while ((node = culm_gnn_next_gone(self, &at)) >= 0) {
        culm_gnn_peer_encode(node, culm_gnn_meta(self));
        culm_gnn_send(self, CULM_LEADER, CULM_GNN_MSG_PEER_LOST, NULL);
    }
}

struct culm_blob *culm_gnn_payload(const struct culm_message *message) {
    return message->payload ? culm_blob_ref(message->payload) : NULL;
}
