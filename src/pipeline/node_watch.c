/* The node: signs of life (crew/pulse.h), and what it waits for. */
#include "pipeline/node_internal.h"
#include "pipeline/waits.h"

#include <string.h>

_Static_assert(CULM_MAX_STAGES <= CULM_PATIENCE_PARTS, "tasks of each stage are watched");

static int32_t line_of(const struct culm_task *task) {
    return task->kind == CULM_TASK_SAVE ? 1 + task->stage : 0;
}

void node_task_begins(struct culm_node *node, const struct culm_task *task) {
    culm_self_begins(&node->self, line_of(task), (int32_t)task->kind, task->stage);
}

void node_task_ends(struct culm_node *node, const struct culm_task *task) {
    culm_self_ends(&node->self, line_of(task), task->job.status == CULM_OK);
}

void node_heartbeat(struct culm_node *node) {
    const struct culm_task *task = node->frc_running ? &node->frc : &node->task;
    uint64_t moved = __atomic_load_n(&task->moved, __ATOMIC_RELAXED);
    if (node->busy && moved != node->moved) {
        node->moved = moved;
        culm_pulse_moved(&node->self.pulse, 0, culm_self_now(&node->self));
    }
    culm_self_beat(&node->self);
}

void node_asked(struct culm_node *node, const struct culm_message *message) {
    struct culm_ask ask;
    if (culm_ask_decode(message->meta, message->meta_bytes, &ask) != CULM_OK) {
        return;
    }
    const struct culm_layout *layout = node->o.layout;
    struct culm_waits *waits = culm_waits_new(layout->stages, node->o.shape.micros,
                                              layout->grad_count, node->o.shape.lanes);
    bool room = waits != NULL;
    for (int32_t s = 0; s < layout->stages && room; s++) {
        memcpy(culm_waits_lanes(waits, s), node->stage[s].lanes_done,
               (size_t)node->have.lane_words * sizeof *waits->lanes_done);
    }
    for (int32_t i = 0; i < node->peer_count && room; i++) {
        if (node->peer[i].takes && !node->peer[i].have) {
            room = culm_waits_add_deaf(waits, node->peer[i].id);
        }
    }
    if (room) {
        waits->question = ask.question;
        node_have_fill(node);
        culm_waits_encode(waits, &node->have, culm_self_meta(&node->self));
        culm_self_tell(&node->self, CULM_MSG_WAITS);
    } else {
        culm_self_fail(&node->self, CULM_ERR_MEMORY, "say what it waits for");
    }
    culm_waits_free(waits);
}
