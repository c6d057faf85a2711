/* The simulated world. See sim.h. */
#include "sim/sim.h"

#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMERS 16
#define COORDINATOR_SLOT 0 /* processes[0]; worker id is slot - 1 */

enum happening { DELIVER, TIMER, JOB, PEER, START, START_LIMIT, FALL, NOTHING, REQUEST };

struct happen {
    uint64_t at_ns, order;
    enum happening what;
    int32_t to, from;
    uint32_t number; /* timer and its generation, peer change, request */
    uint64_t generation;
    struct culm_job *job;
    struct culm_message message; /* owns meta and a reference to the payload */
};

struct process {
    struct culm_world world; /* first member */
    struct culm_sim *sim;
    int32_t id;
    void *actor;
    const struct culm_actor_ops *ops;
    bool alive, started, left, stuck;
    uint64_t frozen_until_ns; /* 0: not frozen */
    uint64_t compute_free_ns, io_free_ns;
    uint64_t generation[TIMERS];
};

struct link {
    int32_t from, to;
    uint64_t last_ns;
    bool cut;
};

struct culm_sim {
    struct culm_sim_options o;
    uint64_t now_ns, orders;
    uint64_t random_net, random_test;
    struct happen *heap;
    size_t heap_count, heap_capacity;
    struct process **process;
    int32_t process_count, process_capacity;
    struct link *link;
    size_t link_count, link_capacity;
    int64_t refused;
    bool coordinator_left;
    int exit_code;
    char error[CULM_ERROR_MAX];
};

/* --- heap of things to come --- */

static bool before(const struct happen *a, const struct happen *b) {
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void heap_push(struct culm_sim *sim, struct happen happen) {
    if (sim->heap_count == sim->heap_capacity) {
        sim->heap_capacity = sim->heap_capacity ? 2 * sim->heap_capacity : 256;
        sim->heap = realloc(sim->heap, sim->heap_capacity * sizeof *sim->heap);
        if (!sim->heap) {
            abort(); /* a simulator without memory proves nothing */
        }
    }
    size_t i = sim->heap_count++;
    while (i > 0 && before(&happen, &sim->heap[(i - 1) / 2])) {
        sim->heap[i] = sim->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    sim->heap[i] = happen;
}

static struct happen heap_pop(struct culm_sim *sim) {
    struct happen top = sim->heap[0], last = sim->heap[--sim->heap_count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= sim->heap_count) {
            break;
        }
        if (child + 1 < sim->heap_count && before(&sim->heap[child + 1], &sim->heap[child])) {
            child++;
        }
        if (!before(&sim->heap[child], &last)) {
            break;
        }
        sim->heap[i] = sim->heap[child];
        i = child;
    }
    sim->heap[i] = last;
    return top;
}

static void schedule(struct culm_sim *sim, uint64_t at_ns, struct happen happen) {
    happen.at_ns = at_ns;
    happen.order = sim->orders++;
    heap_push(sim, happen);
}

static void happen_release(struct happen *happen) {
    if (happen->what == DELIVER) {
        free((void *)happen->message.meta);
        culm_blob_unref(happen->message.payload);
    }
}

/* --- processes --- */

static struct process *process_of(const struct culm_sim *sim, int32_t id) {
    int32_t slot = id + 1;
    return slot >= 0 && slot < sim->process_count ? sim->process[slot] : NULL;
}

static uint64_t around(struct culm_sim *sim, uint64_t mean_ns) {
    return mean_ns / 2 + (mean_ns ? culm_rng_below(&sim->random_net, mean_ns) : 0);
}

/* When something that `process` does now takes effect: a frozen one acts when it thaws. */
static uint64_t acts_at(const struct process *process) {
    uint64_t now = process->sim->now_ns;
    return process->frozen_until_ns > now ? process->frozen_until_ns : now;
}

static struct link *link_of(struct culm_sim *sim, int32_t from, int32_t to) {
    for (size_t i = 0; i < sim->link_count; i++) {
        if (sim->link[i].from == from && sim->link[i].to == to) {
            return &sim->link[i];
        }
    }
    if (sim->link_count == sim->link_capacity) {
        sim->link_capacity = sim->link_capacity ? 2 * sim->link_capacity : 64;
        sim->link = realloc(sim->link, sim->link_capacity * sizeof *sim->link);
        if (!sim->link) {
            abort();
        }
    }
    sim->link[sim->link_count] = (struct link){.from = from, .to = to};
    return &sim->link[sim->link_count++];
}

/* The arrival of what is sent now on the link, never before what was sent earlier. */
static uint64_t arrival(struct process *process, int32_t to) {
    struct culm_sim *sim = process->sim;
    uint64_t start = acts_at(process);
    if (start == CULM_NEVER) {
        return CULM_NEVER;
    }
    uint64_t *last = &link_of(sim, process->id, to)->last_ns;
    uint64_t at = start + sim->o.latency_ns;
    at += sim->o.jitter_ns ? culm_rng_below(&sim->random_net, sim->o.jitter_ns) : 0;
    at = at > *last ? at : *last;
    *last = at;
    return at;
}

/* Whoever sends over a link that is cut is told that the other cannot be reached; not for every
 * frame. */
static void unreachable(struct process *process, struct link *link) {
    struct culm_sim *sim = process->sim;
    if (sim->now_ns >= link->last_ns + 50000000) {
        link->last_ns = sim->now_ns;
        schedule(sim, sim->now_ns + around(sim, sim->o.latency_ns + 1),
                 (struct happen){.what = PEER,
                                 .to = link->from,
                                 .from = link->to,
                                 .number = (uint32_t)CULM_PEER_EOF});
    }
}

/* --- the world table --- */

static struct process *self(struct culm_world *world) { return (struct process *)world; }

static uint64_t world_now(struct culm_world *world) { return self(world)->sim->now_ns; }

static void world_send(struct culm_world *world, int32_t to, const struct culm_message *message) {
    struct process *process = self(world);
    struct process *target = process_of(process->sim, to);
    if (!process->alive || !target || !target->alive) {
        return;
    }
    struct link *link = link_of(process->sim, process->id, to);
    if (link->cut) {
        unreachable(process, link);
        return;
    }
    uint64_t at = arrival(process, to);
    if (at == CULM_NEVER) {
        return;
    }
    struct happen happen = {.what = DELIVER, .to = to, .from = process->id, .message = *message};
    uint8_t *meta = malloc(message->meta_bytes + 1);
    if (!meta) {
        abort();
    }
    memcpy(meta, message->meta, message->meta_bytes);
    happen.message.meta = meta;
    if (message->payload) {
        /* What arrives is a copy, so that no simulated worker shares memory with another. */
        struct culm_blob *copy = NULL;
        if (culm_pool_get(message->payload->pool, message->payload_bytes, &copy) != CULM_OK) {
            abort();
        }
        memcpy(copy->data, (const char *)message->payload->data + message->payload_offset,
               message->payload_bytes);
        happen.message.payload = copy;
        happen.message.payload_offset = 0;
    }
    schedule(process->sim, at, happen);
}

static void world_timer(struct culm_world *world, uint32_t timer, uint64_t delay_ns) {
    struct process *process = self(world);
    process->generation[timer]++;
    if (delay_ns != CULM_NEVER && process->alive) {
        schedule(process->sim, process->sim->now_ns + delay_ns,
                 (struct happen){.what = TIMER,
                                 .to = process->id,
                                 .number = timer,
                                 .generation = process->generation[timer]});
    }
}

static void start_job(struct process *process, struct culm_job *job, uint64_t *free_ns,
                      uint64_t mean_ns) {
    if (!process->alive) {
        return;
    }
    uint64_t start = acts_at(process);
    if (start == CULM_NEVER) {
        return;
    }
    start = start > *free_ns ? start : *free_ns;
    uint64_t cost = job->cost_ns ? job->cost_ns : around(process->sim, mean_ns);
    *free_ns = start + cost;
    schedule(process->sim, *free_ns, (struct happen){.what = JOB, .to = process->id, .job = job});
}

static void world_run(struct culm_world *world, struct culm_job *job) {
    struct process *process = self(world);
    start_job(process, job, &process->compute_free_ns, process->sim->o.job_ns);
}

static void world_io(struct culm_world *world, struct culm_job *job) {
    struct process *process = self(world);
    start_job(process, job, &process->io_free_ns, process->sim->o.io_ns);
}

static void world_fault(struct culm_world *world, const struct culm_fault_point *point) {
    struct process *process = self(world);
    if (process->alive && process->sim->o.fault) {
        process->sim->o.fault(process->sim->o.event_context, process->id, point);
    }
}

static void world_publish(struct culm_world *world, json_t *take_event) {
    struct culm_sim *sim = self(world)->sim;
    json_object_set_new(take_event, "t_ms", json_real((double)sim->now_ns / 1e6));
    if (sim->o.log) {
        char *text = json_dumps(take_event, JSON_COMPACT);
        printf("%12.3f  %s\n", (double)sim->now_ns / 1e6, text);
        free(text);
    }
    if (sim->o.event) {
        sim->o.event(sim->o.event_context, take_event);
    }
    json_decref(take_event);
}

static struct process *process_new(struct culm_sim *sim);

void culm_sim_add(struct culm_sim *sim) {
    struct process *process = process_new(sim);
    process->actor = sim->o.worker.make(sim->o.worker.context, process->id, &process->world);
    process->ops = sim->o.worker.ops;
    if (!process->actor) {
        abort();
    }
    uint64_t at = sim->now_ns + around(sim, sim->o.spawn_ns);
    bool fails = sim->o.start_fail_percent &&
                 culm_rng_below(&sim->random_net, 100) < sim->o.start_fail_percent;
    schedule(sim, at, (struct happen){.what = fails ? FALL : START, .to = process->id});
    schedule(sim, sim->now_ns + 100 * sim->o.spawn_ns,
             (struct happen){.what = START_LIMIT, .to = CULM_COORDINATOR, .from = process->id});
}

static void world_spawn(struct culm_world *world) {
    struct culm_sim *sim = self(world)->sim;
    int32_t alive = 0;
    for (int32_t i = 1; i < sim->process_count; i++) {
        alive += sim->process[i]->alive;
    }
    sim->refused += alive >= sim->o.spawn_max;
    culm_sim_add(sim);
}

static void world_kill(struct culm_world *world, int32_t node) {
    culm_sim_kill(self(world)->sim, node);
}

static void world_leave(struct culm_world *world, int exit_code, const struct culm_error *error) {
    struct process *process = self(world);
    struct culm_sim *sim = process->sim;
    if (process->id == CULM_COORDINATOR) {
        sim->coordinator_left = true;
        sim->exit_code = exit_code;
        snprintf(sim->error, sizeof sim->error, "%s", error ? error->text : "");
        return;
    }
    if (sim->o.log) {
        printf("%12.3f  node %d leaves with %d%s%s\n", (double)sim->now_ns / 1e6, process->id,
               exit_code, error ? ": " : "", error ? error->text : "");
    }
    process->left = true;
    culm_sim_kill(sim, process->id);
}

static const struct culm_world_ops world_ops = {
    .size = sizeof world_ops,
    .now_ns = world_now,
    .send = world_send,
    .timer = world_timer,
    .run = world_run,
    .io = world_io,
    .fault = world_fault,
    .publish = world_publish,
    .spawn = world_spawn,
    .kill = world_kill,
    .leave = world_leave,
};

static struct process *process_new(struct culm_sim *sim) {
    if (sim->process_count == sim->process_capacity) {
        sim->process_capacity = sim->process_capacity ? 2 * sim->process_capacity : 32;
        sim->process =
            realloc(sim->process, (size_t)sim->process_capacity * sizeof(struct process *));
    }
    struct process *process = calloc(1, sizeof *process);
    if (!sim->process || !process) {
        abort();
    }
    process->world.ops = &world_ops;
    process->sim = sim;
    process->id = sim->process_count - 1;
    process->alive = true;
    sim->process[sim->process_count++] = process;
    return process;
}

/* --- the simulator's own interface --- */

struct culm_sim *culm_sim_new(const struct culm_sim_options *options) {
    struct culm_sim *sim = calloc(1, sizeof *sim);
    if (!sim) {
        return NULL;
    }
    sim->o = *options;
    sim->now_ns = 1000000000; /* not 0, which means "never yet" in places */
    sim->random_net = culm_rng_mix(options->seed, 1);
    sim->random_test = culm_rng_mix(options->seed, 2);
    struct process *coordinator = process_new(sim);
    coordinator->ops = options->coordinator_ops;
    return sim;
}

void culm_sim_free(struct culm_sim *sim) {
    if (!sim) {
        return;
    }
    for (size_t i = 0; i < sim->heap_count; i++) {
        happen_release(&sim->heap[i]);
    }
    for (int32_t i = 0; i < sim->process_count; i++) {
        struct process *process = sim->process[i];
        if (process->id >= 0 && process->actor) {
            sim->o.worker.destroy(sim->o.worker.context, process->id, process->actor);
        }
        free(process);
    }
    free(sim->process);
    free(sim->heap);
    free(sim->link);
    free(sim);
}

struct culm_world *culm_sim_coordinator_world(struct culm_sim *sim) {
    return &sim->process[COORDINATOR_SLOT]->world;
}

void culm_sim_coordinator(struct culm_sim *sim, void *actor) {
    struct process *process = sim->process[COORDINATOR_SLOT];
    process->actor = actor;
    schedule(sim, sim->now_ns, (struct happen){.what = START, .to = CULM_COORDINATOR});
}

uint64_t culm_sim_now(const struct culm_sim *sim) { return sim->now_ns; }

uint64_t culm_sim_random(struct culm_sim *sim, uint64_t bound) {
    return culm_rng_below(&sim->random_test, bound);
}

bool culm_sim_left(const struct culm_sim *sim, int *ret_exit_code, const char **ret_error) {
    if (sim->coordinator_left) {
        *ret_exit_code = sim->exit_code;
        *ret_error = sim->error;
    }
    return sim->coordinator_left;
}

void *culm_sim_worker(const struct culm_sim *sim, int32_t node) {
    const struct process *process = process_of(sim, node);
    return node >= 0 && process && process->alive ? process->actor : NULL;
}

void *culm_sim_remains(const struct culm_sim *sim, int32_t node) {
    const struct process *process = process_of(sim, node);
    return node >= 0 && process ? process->actor : NULL;
}

bool culm_sim_started(const struct culm_sim *sim, int32_t node) {
    const struct process *process = process_of(sim, node);
    return node >= 0 && process && process->started;
}

int64_t culm_sim_refused(const struct culm_sim *sim) { return sim->refused; }

bool culm_sim_frozen(const struct culm_sim *sim, int32_t node) {
    const struct process *process = process_of(sim, node);
    return process && process->frozen_until_ns > sim->now_ns;
}

int32_t culm_sim_worker_count(const struct culm_sim *sim) { return sim->process_count - 1; }

/* Loses a random suffix of what `node` has on the wire to `to`, and tells `to` of the end after
 * what is left. */
static void cut_wire(struct culm_sim *sim, int32_t node, int32_t to, enum culm_peer_change change) {
    uint64_t last = 0, now = sim->now_ns;
    uint64_t horizon =
        now + culm_rng_below(&sim->random_net, sim->o.latency_ns + sim->o.jitter_ns + 1);
    for (size_t i = 0; i < sim->heap_count; i++) {
        struct happen *happen = &sim->heap[i];
        if (happen->what != DELIVER || happen->from != node || happen->to != to) {
            continue;
        }
        if (happen->at_ns > horizon) {
            happen_release(happen);
            happen->what = NOTHING; /* an empty event in its place keeps the heap in order */
            happen->to = CULM_COORDINATOR;
        } else if (happen->at_ns > last) {
            last = happen->at_ns;
        }
    }
    uint64_t at = (last > now ? last : now) + around(sim, sim->o.latency_ns + 1);
    schedule(sim, at,
             (struct happen){.what = PEER, .to = to, .from = node, .number = (uint32_t)change});
}

void culm_sim_kill(struct culm_sim *sim, int32_t node) {
    struct process *process = process_of(sim, node);
    if (node < 0 || !process || !process->alive) {
        return;
    }
    if (sim->o.log) {
        printf("%12.3f  node %d dies\n", (double)sim->now_ns / 1e6, node);
    }
    process->alive = false;
    cut_wire(sim, node, CULM_COORDINATOR, process->started ? CULM_PEER_EOF : CULM_PEER_EXIT);
    for (int32_t i = 0; i < sim->process_count - 1; i++) {
        if (i != node && sim->process[i + 1]->alive) {
            cut_wire(sim, node, i, CULM_PEER_EOF);
        }
    }
}

void culm_sim_stick(struct culm_sim *sim, int32_t node) {
    struct process *process = process_of(sim, node);
    if (node >= 0 && process && process->alive) {
        if (sim->o.log) {
            printf("%12.3f  node %d is stuck\n", (double)sim->now_ns / 1e6, node);
        }
        process->stuck = true;
    }
}

void culm_sim_cut(struct culm_sim *sim, int32_t one, int32_t other) {
    if (one == other || !culm_sim_worker(sim, one) || !culm_sim_worker(sim, other) ||
        link_of(sim, one, other)->cut) {
        return;
    }
    if (sim->o.log) {
        printf("%12.3f  nodes %d and %d are cut off from each other\n", (double)sim->now_ns / 1e6,
               one, other);
    }
    link_of(sim, one, other)->cut = true;
    link_of(sim, other, one)->cut = true;
    cut_wire(sim, one, other, CULM_PEER_EOF);
    cut_wire(sim, other, one, CULM_PEER_EOF);
}

void culm_sim_freeze(struct culm_sim *sim, int32_t node, uint64_t for_ns) {
    struct process *process = process_of(sim, node);
    if (node < 0 || !process || !process->alive || process->frozen_until_ns > sim->now_ns) {
        return;
    }
    if (sim->o.log) {
        printf("%12.3f  node %d freezes for %.1f ms\n", (double)sim->now_ns / 1e6, node,
               for_ns == CULM_NEVER ? -1.0 : (double)for_ns / 1e6);
    }
    process->frozen_until_ns = for_ns == CULM_NEVER ? CULM_NEVER : sim->now_ns + for_ns;
}

void culm_sim_request(struct culm_sim *sim, enum culm_request request, int32_t node) {
    schedule(
        sim, sim->now_ns,
        (struct happen){
            .what = REQUEST, .to = CULM_COORDINATOR, .from = node, .number = (uint32_t)request});
}

static void start(struct culm_sim *sim, struct process *process) {
    process->started = true;
    process->ops->start(process->actor);
    if (process->id != CULM_COORDINATOR) {
        const struct culm_peer_info info = {process->id + 1000, "sim", "sim"};
        struct process *coordinator = process_of(sim, CULM_COORDINATOR);
        coordinator->ops->peer(coordinator->actor, process->id, CULM_PEER_UP, &info);
    }
}

static void happen_to(struct culm_sim *sim, struct process *process, struct happen *happen) {
    const struct culm_actor_ops *ops = process->ops;
    static const struct culm_peer_info nobody = {0, "", ""};
    switch (happen->what) {
    case DELIVER: ops->message(process->actor, happen->from, &happen->message); break;
    case TIMER:
        if (process->generation[happen->number] == happen->generation) {
            ops->timer(process->actor, happen->number);
        }
        break;
    case JOB:
        if (process->stuck) {
            break;
        }
        happen->job->status = happen->job->execute(happen->job);
        if (process->alive) {
            ops->job_done(process->actor, happen->job);
        }
        break;
    case PEER:
        ops->peer(process->actor, happen->from, (enum culm_peer_change)happen->number, &nobody);
        break;
    case START: start(sim, process); break;
    case REQUEST:
        ops->request(process->actor, (enum culm_request)happen->number, happen->from);
        break;
    case FALL: culm_sim_kill(sim, process->id); break;
    case START_LIMIT:
    case NOTHING: break;
    }
}

bool culm_sim_step(struct culm_sim *sim) {
    if (sim->coordinator_left || sim->heap_count == 0) {
        return false;
    }
    struct happen happen = heap_pop(sim);
    sim->now_ns = happen.at_ns;
    struct process *process = process_of(sim, happen.to);
    if (happen.what == START_LIMIT && !process_of(sim, happen.from)->started) {
        culm_sim_kill(sim, happen.from);
        return true;
    }
    if (process->alive && process->frozen_until_ns > sim->now_ns) {
        if (process->frozen_until_ns == CULM_NEVER) {
            happen_release(&happen); /* it will be killed before it could see this */
        } else {
            uint64_t order = happen.order; /* what waited keeps its order */
            happen.at_ns = process->frozen_until_ns;
            happen.order = order;
            heap_push(sim, happen);
        }
        return true;
    }
    if (process->alive && process->actor) {
        happen_to(sim, process, &happen);
    }
    happen_release(&happen);
    return true;
}
