/* The node: signs of life (ledger/pulse.h), and what it waits for. */
#include "pipeline/node_internal.h"
#include "pipeline/waits.h"

#define MS 1000000ull

static uint64_t now_of(const struct culm_node *node) {
    return node->o.world->ops->now_ns(node->o.world);
}

static int32_t line_of(const struct culm_task *task) {
    return task->kind == CULM_TASK_SAVE ? 1 + task->stage : 0;
}

void culm_node_task_begins(struct culm_node *node, const struct culm_task *task) {
    culm_pulse_begin(&node->pulse, line_of(task), (int32_t)task->kind, task->stage, now_of(node));
}

void culm_node_task_ends(struct culm_node *node, const struct culm_task *task) {
    struct culm_took took;
    bool well = task->job.status == CULM_OK;
    if (culm_pulse_end(&node->pulse, line_of(task), well, now_of(node), &took)) {
        culm_took_encode(&took, culm_node_meta(node));
        culm_node_tell(node, CULM_MSG_TOOK);
    }
}

void culm_node_heartbeat(struct culm_node *node) {
    struct culm_heartbeat beat;
    const struct culm_task *task = node->frc_running ? &node->frc : &node->task;
    uint64_t moved = __atomic_load_n(&task->moved, __ATOMIC_RELAXED);
    if (node->busy && moved != node->moved) {
        node->moved = moved;
        culm_pulse_moved(&node->pulse, 0, now_of(node));
    }
    culm_pulse_beat(&node->pulse, node->tasks_done, now_of(node), &beat);
    culm_heartbeat_encode(&beat, culm_node_meta(node));
    culm_node_tell(node, CULM_MSG_HEARTBEAT);
    node->o.world->ops->timer(node->o.world, CULM_NODE_TIMER_HEARTBEAT,
                              (uint64_t)node->o.heartbeat_ms * MS);
}

void culm_node_asked(struct culm_node *node, const struct culm_message *message) {
    struct culm_ask ask;
    if (culm_ask_decode(message->meta, message->meta_bytes, &ask) != CULM_OK) {
        return;
    }
    struct culm_waits waits = {.question = ask.question};
    for (int32_t s = 0; s < node->o.layout->stages; s++) {
        waits.lanes_done[s] = node->stage[s].lanes_done;
    }
    for (int32_t i = 0; i < node->peer_count && waits.deaf_count < CULM_MAX_NODES; i++) {
        if (!node->peer[i].have) {
            waits.deaf[waits.deaf_count++] = node->peer[i].id;
        }
    }
    culm_node_have_fill(node);
    culm_waits_encode(&waits, &node->have, culm_node_meta(node));
    culm_node_tell(node, CULM_MSG_WAITS);
}
