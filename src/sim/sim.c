/* The simulated world from outside: made, stepped, looked at. See sim.h. */
#include "sim/sim.h"

#include "base/rng.h"
#include "sim/sim_internal.h"

#include <stdlib.h>

struct culm_sim *culm_sim_new(const struct culm_sim_options *options) {
    struct culm_sim *sim = calloc(1, sizeof *sim);
    if (!sim) {
        return NULL;
    }
    sim->o = *options;
    sim->now_ns = 1000000000; /* not 0, which means "never yet" in places */
    sim->random_net = culm_rng_mix(options->seed, 1);
    sim->random_test = culm_rng_mix(options->seed, 2);
    struct process *first = sim_process_new(sim, 0, 0);
    if (options->candidates && !sim_stand_begin(sim)) {
        culm_sim_free(sim);
        return NULL;
    }
    if (options->candidates) {
        sim_stand_join(sim, first);
    }
    for (int32_t i = 1; i < options->candidates; i++) {
        (void)culm_sim_candidate(sim);
    }
    return sim;
}

size_t culm_sim_free(struct culm_sim *sim) {
    size_t left = 0;
    if (!sim) {
        return 0;
    }
    for (int32_t i = 1; i < sim->process_count; i++) {
        struct process *process = sim->process[i];
        if (process->actor) {
            const struct culm_sim_role *role = &sim->o.role[process->role];
            role->destroy(role->context, process->id, process->actor);
        }
    }
    for (int32_t i = 0; i < sim->process_count; i++) {
        sim_process_free(sim->process[i]);
    }
    for (int32_t i = 0; i < sim->later_count; i++) {
        sim_process_free(sim->later[i]);
    }
    sim_fabric_free(sim);
    for (int32_t i = 0; i < sim->later_count; i++) {
        culm_blob_pool_free(sim->later[i]->pool);
        free(sim->later[i]);
    }
    free(sim->known);
    for (int32_t i = 0; i < sim->process_count; i++) {
        struct culm_blob_pool_stats stats = {0};
        culm_blob_pool_stats_of(sim->process[i]->pool, &stats);
        left += stats.used_bytes;
        if (stats.used_bytes == 0) { /* else its blobs stay, to be told of rather than asserted */
            culm_blob_pool_free(sim->process[i]->pool);
        }
        free(sim->process[i]);
    }
    sim_stand_end(sim);
    free(sim->process);
    free(sim->heap);
    free(sim);
    return left;
}

struct culm_world *culm_sim_leader_world(struct culm_sim *sim) {
    return &sim->leads->world;
}

bool culm_sim_lead(struct culm_sim *sim, struct culm_sim_reign *ret_reign) {
    struct process *leader = sim_leader_new(sim);
    if (leader) {
        sim_lead(sim, leader, sim->leads->term + 1);
        sim_note_known(sim);
        *ret_reign = sim_reign_of(sim, leader);
    }
    return leader != NULL;
}

void culm_sim_reign_of(struct culm_sim *sim, struct culm_sim_reign *ret_reign) {
    *ret_reign = sim_reign_of(sim, sim->leads);
}

int32_t culm_sim_leads(const struct culm_sim *sim) { return sim->leads->id; }

struct culm_agent *culm_sim_agent(struct culm_sim *sim) {
    return &sim->leads->agent;
}

int64_t culm_sim_deeds(const struct culm_sim *sim, enum culm_deed deed) {
    return sim->leads->deeds[deed];
}

struct culm_record *culm_sim_record(struct culm_sim *sim) {
    return &sim->leads->record;
}

const char *culm_sim_committed(struct culm_sim *sim) { return sim_stand_committed(sim); }

struct culm_blob_pool *culm_sim_pool(struct culm_sim *sim, int32_t id) {
    return sim_process(sim, id)->pool;
}

static void begin(struct culm_sim *sim, const struct happen *happen) {
    (void)sim;
    happen->to->started = true;
    if (!sim_moment(happen->to, CULM_SIM_BEGINS, 0)) {
        return;
    }
    happen->to->ops->start(happen->to->actor);
    if (happen->to->term > 1) {
        sim_call_all(happen->to);
    }
}

/* So that workers can tell a silent leader from one that is gone. */
static void say_alive(struct culm_sim *sim, const struct happen *happen) {
    culm_roster_say_alive(happen->to->roster);
    struct happen again = *happen;
    sim_schedule(sim, sim->now_ns + (uint64_t)sim->o.orphan_ms * 1000000 / 8, again);
}

void culm_sim_reigns(struct culm_sim *sim, int32_t id, void *actor) {
    struct process *leader = sim_process(sim, id);
    if (sim->o.orphan_ms) {
        sim_schedule(sim, sim->now_ns, (struct happen){.to = leader, .call = say_alive});
    }
    leader->actor = actor;
    sim_schedule(sim, sim->now_ns, (struct happen){.to = leader, .call = begin});
}

void culm_sim_leader(struct culm_sim *sim, void *actor) {
    culm_sim_reigns(sim, sim->leads->id, actor);
}

static void on_stop(struct culm_sim *sim, const struct happen *happen) {
    struct process *leader = happen->to;
    (void)sim;
    if (!leader->started || leader->left) {
        return; /* nobody leads now: it is told to who does next */
    }
    leader->ops->leads->stop(leader->actor);
}

void culm_sim_stop(struct culm_sim *sim) {
    sim_schedule(sim, sim->now_ns, (struct happen){.to = sim->leads, .call = on_stop, .from = -1});
}

static void on_resign(struct culm_sim *sim, const struct happen *happen) {
    struct process *leader = happen->to;
    (void)sim;
    if (leader->started && !leader->left && leader->ops->leads->resign) {
        leader->ops->leads->resign(leader->actor);
    }
}

void culm_sim_resign(struct culm_sim *sim) {
    culm_sim_log(sim, "leader %d is to resign", sim->leads->id);
    sim_schedule(sim, sim->now_ns, (struct happen){.to = sim->leads, .call = on_resign});
}

static void on_removed(struct culm_sim *sim, const struct happen *happen) {
    struct process *leader = happen->to;
    (void)sim;
    leader->ops->leads->removed(leader->actor, happen->from);
}

void culm_sim_removed(struct culm_sim *sim, int32_t node) {
    sim_schedule(sim, sim->now_ns,
                 (struct happen){.to = sim->leads, .call = on_removed, .from = node});
}

void culm_sim_starts_fail(struct culm_sim *sim, uint32_t percent) {
    sim->o.start_fail_percent = percent;
}

bool culm_sim_is_newcomer(const struct culm_sim *sim, int32_t node) {
    const struct process *process = node >= 0 ? sim_process(sim, node) : NULL;
    return process && process->newcomer;
}

bool culm_sim_step(struct culm_sim *sim) {
    if (sim->leader_left || sim->heap_count == 0) {
        return false;
    }
    struct happen happen = sim_next(sim);
    const struct process *to = happen.to;
    sim->now_ns = happen.at_ns;
    if (to && to->alive && to->frozen_until_ns > sim->now_ns) {
        if (to->frozen_until_ns != CULM_NEVER) { /* else it will be killed before it sees this */
            happen.at_ns = to->frozen_until_ns;
            /* A loop that goes on runs timers that are due before it looks at sockets. */
            happen.order = happen.timer ? happen.order & ~(1ull << 63) : happen.order | 1ull << 63;
            sim_again(sim, happen);
        }
    } else if (!to || to->alive) {
        happen.call(sim, &happen);
    }
    return true;
}

uint64_t culm_sim_now(const struct culm_sim *sim) { return sim->now_ns; }

uint64_t culm_sim_random(struct culm_sim *sim, uint64_t bound) {
    return culm_rng_below(&sim->random_test, bound);
}

bool culm_sim_left(const struct culm_sim *sim, int *ret_exit_code, const char **ret_error) {
    if (sim->leader_left) {
        *ret_exit_code = sim->exit_code;
        *ret_error = sim->error;
    }
    return sim->leader_left;
}

void culm_sim_totals_of(const struct culm_sim *sim, struct culm_sim_totals *ret_totals) {
    *ret_totals = sim->totals;
    for (int32_t i = 0; i < sim->process_count; i++) {
        struct culm_blob_pool_stats stats = {0};
        culm_blob_pool_stats_of(sim->process[i]->pool, &stats);
        ret_totals->memory += (int64_t)stats.refused;
    }
}

void *culm_sim_worker(const struct culm_sim *sim, int32_t node) {
    const struct process *process = sim_process(sim, node);
    return node >= 0 && process && process->alive && !process->left ? process->actor : NULL;
}

void *culm_sim_remains(const struct culm_sim *sim, int32_t node) {
    const struct process *process = sim_process(sim, node);
    return node >= 0 && process ? process->actor : NULL;
}

bool culm_sim_started(const struct culm_sim *sim, int32_t node) {
    const struct process *process = sim_process(sim, node);
    return node >= 0 && process && process->started;
}

int32_t culm_sim_worker_count(const struct culm_sim *sim) { return sim->process_count - 1; }
