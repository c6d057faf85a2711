/*
 * The node: signs of life. What runs, for how long, what tasks have taken, and what it waits for.
 *
 * The coordinator puts out who lives but does not finish a task; the limit follows what tasks of
 * that kind take elsewhere (patience.h). So a heartbeat names the kind of the running task, and
 * TOOK says how long one took when that is news. Time in which this whole process did not run
 * (a frozen machine) is no task's time.
 */
#include "pipeline/node_internal.h"
#include "pipeline/waits.h"

#define MS 1000000ull
/* A write may take this many times as long as a task: disks are slow, and may also hang. */
#define WRITE_FACTOR 10

static uint64_t now_of(const struct culm_node *node) {
    return node->o.world->ops->now_ns(node->o.world);
}

static void shift(uint64_t *since_ns, uint64_t by_ns, uint64_t now) {
    if (*since_ns) {
        *since_ns = *since_ns + by_ns < now ? *since_ns + by_ns : now;
    }
}

/* Four heartbeats in a row that never were: nothing of this process ran. */
static void forgive_sleep(struct culm_node *node, uint64_t now) {
    uint64_t period = (uint64_t)node->o.heartbeat_ms * MS;
    uint64_t silent = node->beat_ns ? now - node->beat_ns : 0;
    if (silent > 4 * period) {
        shift(&node->running_since_ns, silent - period, now);
        for (int32_t s = 0; s < node->o.layout->stages; s++) {
            shift(&node->writing_since_ns[s], silent - period, now);
        }
        node->beat_ns = now;
    }
}

/* The running task: of frc and task, one at most is with the executor. */
static struct culm_task *running(struct culm_node *node) {
    return !node->busy ? NULL : node->frc_running ? &node->frc : &node->task;
}

void culm_node_heartbeat(struct culm_node *node) {
    uint64_t now = now_of(node);
    forgive_sleep(node, now);
    node->beat_ns = now;
    struct culm_heartbeat beat = {.progress = node->tasks_done, .kind = -1, .task_ms = -1};
    struct culm_task *task = running(node);
    if (task) {
        uint64_t moved = __atomic_load_n(&task->moved, __ATOMIC_RELAXED);
        if (moved != node->moved) {
            node->moved = moved;
            node->running_since_ns = now;
        }
        beat.kind = (int32_t)task->kind;
        beat.stage = task->stage;
        beat.task_ms = (int64_t)((now - node->running_since_ns) / MS);
    }
    for (int32_t s = 0; s < node->o.layout->stages; s++) {
        uint64_t since = node->writing_since_ns[s];
        int64_t writing = since ? (int64_t)((now - since) / MS / WRITE_FACTOR) : -1;
        if (writing > beat.task_ms) {
            beat.kind = CULM_TASK_SAVE;
            beat.stage = s;
            beat.task_ms = writing;
        }
    }
    beat.task_ms = beat.task_ms < 0 ? 0 : beat.task_ms;
    culm_heartbeat_encode(&beat, culm_node_meta(node));
    culm_node_tell(node, CULM_MSG_HEARTBEAT);
    node->o.world->ops->timer(node->o.world, CULM_NODE_TIMER_HEARTBEAT,
                              (uint64_t)node->o.heartbeat_ms * MS);
}

void culm_node_took(struct culm_node *node, const struct culm_task *task) {
    uint64_t now = now_of(node);
    if (task->kind >= CULM_WATCHED_KINDS) {
        return;
    }
    forgive_sleep(node, now);
    bool write = task->kind == CULM_TASK_SAVE;
    uint64_t since = write ? node->writing_since_ns[task->stage] : node->running_since_ns;
    int64_t ms = (int64_t)((now - since) / MS / (write ? WRITE_FACTOR : 1));
    int64_t *told = &node->told_ms[task->kind][task->stage];
    if (ms < node->o.heartbeat_ms || ms <= *told + *told / 4) {
        return; /* shorter than what a heartbeat can see, or no news */
    }
    *told = ms;
    const struct culm_took took = {
        .kind = (int32_t)task->kind, .stage = task->stage, .task_ms = ms};
    culm_took_encode(&took, culm_node_meta(node));
    culm_node_tell(node, CULM_MSG_TOOK);
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
