/* A world that only counts. See bench_world.h. */
#include "run/bench_world.h"

#include "base/clock.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct bench_sent {
    struct bench_sent *before;
    uint16_t type;
    size_t bytes;
    uint8_t meta[];
};

static struct bench_world *self(struct culm_world *world) { return (struct bench_world *)world; }

static struct bench_world *of_agent(struct culm_agent *agent) {
    return (struct bench_world *)((char *)agent - offsetof(struct bench_world, agent));
}

static uint64_t on_now(struct culm_world *world) {
    (void)world;
    return culm_clock_ns();
}

static void on_send(struct culm_world *world, int32_t node, const struct culm_message *message) {
    struct bench_world *b = self(world);
    struct bench_sent *sent = malloc(sizeof *sent + message->meta_bytes);
    if (!sent) {
        b->no_memory = true;
        return;
    }
    *sent = (struct bench_sent){b->queue, message->type, message->meta_bytes};
    if (message->meta_bytes > 0) {
        memcpy(sent->meta, message->meta, message->meta_bytes);
    }
    b->queue = sent;
    b->sent[message->type % BENCH_TYPES]++;
    if (node >= 0 && node < b->nodes) {
        b->bytes[node] += message->meta_bytes;
    }
}

static void on_timer(struct culm_world *world, uint32_t timer, uint64_t delay_ns) {
    self(world)->due_ns[timer] = delay_ns == CULM_NEVER ? CULM_NEVER : culm_clock_ns() + delay_ns;
}

static void on_job(struct culm_world *world, struct culm_job *job) {
    (void)world;
    (void)job; /* nothing computes, and nothing is saved */
}

static void on_fault(struct culm_world *world, const struct culm_fault_point *point) {
    (void)world;
    (void)point;
}

static void on_publish(struct culm_world *world, json_t *take_event) {
    (void)world;
    json_decref(take_event);
}

static void on_leave(struct culm_world *world, int exit_code, const struct culm_error *error) {
    (void)exit_code;
    self(world)->left = true;
    if (error) {
        self(world)->error = *error;
    }
}

static void on_start(struct culm_agent *agent, uint32_t role) {
    (void)agent;
    (void)role;
}

static void on_end(struct culm_agent *agent, int32_t node) {
    (void)agent;
    (void)node;
}

static uint32_t on_role(struct culm_agent *agent, int32_t node) {
    const struct bench_world *b = of_agent(agent);
    return node >= 0 && node < b->nodes ? b->role[node] : CULM_NO_ROLE;
}

static const struct culm_agent_ops agent_ops = {
    .size = sizeof agent_ops, .start = on_start, .end = on_end, .role = on_role};

static const struct culm_world_ops world_ops = {
    .size = sizeof world_ops,
    .now_ns = on_now,
    .send = on_send,
    .timer = on_timer,
    .run = on_job,
    .io = on_job,
    .fault = on_fault,
    .publish = on_publish,
    .leave = on_leave,
};

bool bench_world_init(struct bench_world *b, int32_t nodes, size_t meta_max) {
    *b = (struct bench_world){.nodes = nodes};
    b->world.ops = &world_ops;
    b->agent.ops = &agent_ops;
    culm_buf_init(&b->said, meta_max);
    b->role = calloc((size_t)nodes, sizeof *b->role);
    b->bytes = calloc((size_t)nodes, sizeof *b->bytes);
    memset(b->due_ns, 0xff, sizeof b->due_ns);
    return b->role && b->bytes;
}

void bench_world_drop(struct bench_world *b) {
    while (b->queue) {
        struct bench_sent *sent = b->queue;
        b->queue = sent->before;
        free(sent);
    }
    memset(b->sent, 0, sizeof b->sent);
    memset(b->bytes, 0, (size_t)b->nodes * sizeof *b->bytes);
}

void bench_world_release(struct bench_world *b) {
    if (b->bytes) {
        bench_world_drop(b);
    }
    culm_buf_release(&b->said);
    free(b->role);
    free(b->bytes);
}

void bench_world_fire(struct bench_world *b) {
    const uint64_t now = culm_clock_ns();
    uint32_t due[BENCH_TIMERS], count = 0;
    for (uint32_t t = 0; t < BENCH_TIMERS; t++) {
        if (b->due_ns[t] <= now) {
            due[count++] = t;
            b->due_ns[t] = CULM_NEVER;
        }
    }
    for (uint32_t t = 0; t < count && !b->left; t++) {
        b->actor->timer(b->leader, due[t]);
    }
}

void bench_world_say(struct bench_world *b, int32_t node, uint16_t type) {
    const struct culm_message message = {
        .type = type, .meta = b->said.data, .meta_bytes = (uint32_t)b->said.len};
    b->no_memory |= b->said.failed;
    b->actor->message(b->leader, node, &message);
    culm_buf_clear(&b->said);
}

const uint8_t *bench_world_last(const struct bench_world *b, uint16_t type, size_t *ret_bytes) {
    const struct bench_sent *sent = b->queue;
    while (sent && sent->type != type) {
        sent = sent->before;
    }
    *ret_bytes = sent ? sent->bytes : 0;
    return sent ? sent->meta : NULL;
}

int64_t bench_world_most_bytes(const struct bench_world *b) {
    int64_t most = 0;
    for (int32_t n = 0; n < b->nodes; n++) {
        most = b->bytes[n] > most ? b->bytes[n] : most;
    }
    return most;
}
