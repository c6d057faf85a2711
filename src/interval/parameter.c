/* A parameter server. See parameter.h. */
#include "interval/parameter.h"

#include "interval/holder.h"

#include <stdlib.h>

struct culm_gnn_parameter {
    struct culm_gnn_self self; /* first member */
    struct culm_gnn_holder *holder;
};

struct culm_gnn_parameter *culm_gnn_parameter_new(const struct culm_gnn_node_options *options) {
    struct culm_gnn_parameter *parameter = calloc(1, sizeof *parameter);
    if (!parameter) {
        return NULL;
    }
    culm_gnn_self_init(&parameter->self, options);
    parameter->holder = culm_gnn_holder_new(&parameter->self);
    if (!parameter->holder) {
        culm_gnn_parameter_free(parameter);
        return NULL;
    }
    return parameter;
}

void culm_gnn_parameter_free(struct culm_gnn_parameter *parameter) {
    if (parameter) {
        culm_gnn_holder_free(parameter->holder);
        culm_gnn_self_release(&parameter->self);
        free(parameter);
    }
}

int64_t culm_gnn_parameter_version(const struct culm_gnn_parameter *parameter) {
    return culm_gnn_holder_version(parameter->holder);
}

static void on_message(void *actor, int32_t from, const struct culm_message *message) {
    struct culm_gnn_parameter *parameter = actor;
    struct culm_gnn_self *self = &parameter->self;
    struct culm_gnn_commit commit;
    if (culm_gnn_heard(self, from, message)) {
        return;
    }
    if (from != CULM_LEADER || message->type == CULM_GNN_MSG_SAVE) {
        culm_gnn_holder_message(parameter->holder, from, message);
    } else if (message->type == CULM_GNN_MSG_VIEW && culm_gnn_enter(self, message)) {
        culm_gnn_tell_gone(self);
        culm_gnn_holder_view(parameter->holder);
    } else if (message->type == CULM_GNN_MSG_COMMIT &&
               culm_gnn_hear_commit(self, message, &commit)) {
        culm_gnn_holder_commit(parameter->holder, &commit);
    } else if (message->type == CULM_WORD_END) {
        culm_self_leave(&self->node);
    }
}

static void on_lost(void *actor, int32_t node) {
    struct culm_gnn_parameter *parameter = actor;
    struct culm_gnn_self *self = &parameter->self;
    if (!self->node.left) {
        culm_gnn_gone(self, node);
        culm_gnn_tell_gone(self);
    }
}

static void on_led(void *actor, uint64_t term) {
    struct culm_gnn_parameter *parameter = actor;
    struct culm_gnn_report report;
    (void)term;
    if (!parameter->self.node.left) {
        culm_gnn_holder_report(parameter->holder, &report);
        culm_gnn_report(&parameter->self, &report);
        culm_self_ask_again(&parameter->self.node);
    }
}

static void on_leave(void *actor, int64_t within_ms) {
    culm_self_ask_leave(&((struct culm_gnn_parameter *)actor)->self.node, within_ms);
}

static void on_start(void *actor) {
    struct culm_gnn_parameter *parameter = actor;
    culm_self_beat(&parameter->self.node);
}

static void on_timer(void *actor, uint32_t timer) {
    struct culm_gnn_parameter *parameter = actor;
    if (!parameter->self.node.left && timer == CULM_GNN_TIMER_BEAT) {
        culm_self_beat(&parameter->self.node);
    }
}

static void on_job_done(void *actor, struct culm_job *job) {
    struct culm_gnn_parameter *parameter = actor;
    culm_gnn_ran(&parameter->self, job);
    (void)culm_gnn_holder_job_done(parameter->holder, job);
}

const struct culm_actor_ops culm_gnn_parameter_actor = {
    .size = sizeof culm_gnn_parameter_actor,
    .start = on_start,
    .message = on_message,
    .lost = on_lost,
    .timer = on_timer,
    .job_done = on_job_done,
    .led = on_led,
    .leave = on_leave,
};
