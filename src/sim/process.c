/*
 * Simulated processes: their world table, how they join, freeze and die.
 *
 * A worker's life: asked for, it starts after spawn_ns, connects, says hello; let in, its actor
 * starts. Leaving, it lets the leader read what it last said, at most a second. Dead, the
 * system closes its streams, and the leader hears of its end once more, as a parent does,
 * before or after it found the stream's end. What it was stays to be looked at.
 */
#include "sim/sim_internal.h"

#include "base/rng.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define AT_ONCE_NS 3000000ull
#define LINGER_NS 1000000000ull
#define START_LIMIT_NS 60000000000ull
#define TOKEN "simulated"

struct process *sim_process(const struct culm_sim *sim, int32_t id) {
    int32_t slot = id + 1, later = CULM_SIM_FIRST_LATER - id;
    if (later >= 0) {
        return later < sim->later_count ? sim->later[later] : NULL;
    }
    return slot >= 0 && slot < sim->process_count ? sim->process[slot] : NULL;
}

struct process *sim_process_of_fabric(struct culm_fabric *fabric) {
    return (struct process *)((char *)fabric - offsetof(struct process, fabric));
}

static struct process *self(struct culm_world *world) { return (struct process *)world; }

static bool listens(const struct process *process) {
    return process->alive && !process->left && process->started;
}

/* When something that `process` does now takes effect: a frozen one acts when it thaws. */
static uint64_t acts_at(const struct process *process) {
    uint64_t now = process->sim->now_ns;
    return process->frozen_until_ns > now ? process->frozen_until_ns : now;
}

static uint64_t delay_of_store(struct culm_sim *sim) {
    return sim_around(sim, sim->o.store_ns) / 2;
}

bool sim_moment(struct process *leader, enum culm_sim_does does, uint32_t what) {
    const struct culm_sim_moment moment = {does, what};
    if (leader->alive && leader->sim->o.moment) {
        leader->sim->o.moment(leader->sim->o.event_context, leader->id, &moment);
    }
    return leader->alive;
}

/* --- the world table --- */

static uint64_t world_now(struct culm_world *world) { return self(world)->sim->now_ns; }

static void world_send(struct culm_world *world, int32_t to, const struct culm_message *message) {
    struct process *process = self(world);
    if (!listens(process)) {
        return;
    }
    if (process->member) {
        culm_member_send(process->member, to, message);
    } else if (sim_moment(process, CULM_SIM_SENDS, message->type)) {
        culm_roster_send(process->roster, to, message);
        (void)sim_moment(process, CULM_SIM_SENT, message->type);
    }
}

static void on_timer(struct culm_sim *sim, const struct happen *happen) {
    struct process *process = happen->to;
    (void)sim;
    if (listens(process) && process->timer_generation[happen->number] == happen->generation) {
        process->ops->timer(process->actor, (uint32_t)happen->number);
    }
}

static void world_timer(struct culm_world *world, uint32_t timer, uint64_t delay_ns) {
    struct process *process = self(world);
    process->timer_generation[timer]++;
    if (delay_ns == 0) { /* a loop gets to it when it has dealt with all that has happened */
        delay_ns = culm_rng_mix(process->sim->now_ns, timer) % AT_ONCE_NS;
    }
    if (delay_ns != CULM_NEVER && process->alive) {
        sim_schedule(process->sim, process->sim->now_ns + delay_ns,
                     (struct happen){.to = process,
                                     .timer = true,
                                     .call = on_timer,
                                     .number = timer,
                                     .generation = process->timer_generation[timer]});
    }
}

static void on_job(struct culm_sim *sim, const struct happen *happen) {
    struct process *process = happen->to;
    struct culm_job *job = happen->of;
    (void)sim;
    if (process->stuck || !listens(process)) {
        return;
    }
    job->status = job->execute(job);
    if (listens(process)) {
        process->ops->job_done(process->actor, job);
    }
}

static void start_job(struct process *process, struct culm_job *job, uint64_t *free_ns,
                      uint64_t mean_ns) {
    struct culm_sim *sim = process->sim;
    if (!process->alive || acts_at(process) == CULM_NEVER) {
        return;
    }
    uint64_t start = acts_at(process);
    start = start > *free_ns ? start : *free_ns;
    uint64_t cost = sim->o.cost && process->member
                        ? sim->o.cost(sim->o.event_context, process->id, job)
                        : job->cost_ns;
    *free_ns = start + (cost ? cost : sim_around(sim, mean_ns));
    sim_schedule(sim, *free_ns, (struct happen){.to = process, .call = on_job, .of = job});
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
    if (!self(world)->roster || !self(world)->alive) { /* it does not lead, or not any more */
        json_decref(take_event);
        return;
    }
    if (self(world) != sim->leads) {
        json_object_set_new(take_event, "deposed", json_true());
    }
    json_object_set_new(take_event, "t_ms", json_real((double)sim->now_ns / 1e6));
    if (sim->o.log) {
        char *text = json_dumps(take_event, JSON_COMPACT);
        culm_sim_log(sim, "%s", text);
        free(text);
    }
    if (sim->o.event) {
        sim->o.event(sim->o.event_context, take_event);
    }
    json_decref(take_event);
}

static void die(struct culm_sim *sim, const struct happen *happen) {
    culm_sim_kill(sim, happen->to->id);
}

static void world_leave(struct culm_world *world, int exit_code, const struct culm_error *error) {
    struct process *process = self(world);
    struct culm_sim *sim = process->sim;
    if (process->left || (process->roster && !process->alive)) {
        return;
    }
    process->left = true;
    if (process->roster && (process != sim->leads || process->deposed)) {
        culm_sim_log(sim, "a leader before leaves with %d: %s", exit_code,
                     error ? error->text : "");
        sim_stand_left(process);
        sim_schedule(sim, sim->now_ns, (struct happen){.to = process, .call = die});
        return;
    }
    if (process->roster) {
        sim->leader_left = true;
        sim->exit_code = exit_code;
        snprintf(sim->error, sizeof sim->error, "%s", error ? error->text : "");
        return;
    }
    culm_sim_log(sim, "node %d leaves with %d%s%s", process->id, exit_code, error ? ": " : "",
                 error ? error->text : "");
    culm_member_finish(process->member);
    sim_schedule(sim, sim->now_ns + LINGER_NS, (struct happen){.to = process, .call = die});
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
    .leave = world_leave,
};

/* --- a leader's agent --- */

static struct process *leader_of(struct culm_agent *agent) {
    return (struct process *)((char *)agent - offsetof(struct process, agent));
}

static struct culm_sim *sim_of(struct culm_agent *agent) { return leader_of(agent)->sim; }

static void agent_start(struct culm_agent *agent, uint32_t role) {
    struct culm_sim *sim = sim_of(agent);
    int32_t alive = 0;
    if (!leader_of(agent)->alive) {
        return;
    }
    for (int32_t i = 1; i < sim->process_count; i++) {
        alive += sim->process[i]->alive && !sim->process[i]->left;
    }
    sim->totals.refused += alive >= sim->o.spawn_max;
    culm_sim_add(sim, role);
}

static void agent_end(struct culm_agent *agent, int32_t node) {
    const struct process *process = sim_process(sim_of(agent), node);
    if (!leader_of(agent)->alive) {
        return;
    }
    if (process && culm_member_term(process->member) > leader_of(agent)->term) {
        return; /* it has promised another one */
    }
    culm_roster_uncall(leader_of(agent)->roster, node);
    culm_sim_kill(sim_of(agent), node);
}

static uint32_t agent_role(struct culm_agent *agent, int32_t node) {
    const struct process *process = sim_process(sim_of(agent), node);
    return node >= 0 && process && !process->newcomer &&
                   process->asked_term == leader_of(agent)->term
               ? process->role
               : CULM_NO_ROLE;
}

const struct culm_agent_ops sim_agent_ops = {
    .size = sizeof sim_agent_ops, .start = agent_start, .end = agent_end, .role = agent_role};

/* --- a leader's record --- */

void sim_depose(struct process *leader) {
    leader->deposed = true;
    if (listens(leader) && leader->ops->leads->deposed) {
        leader->ops->leads->deposed(leader->actor, 0);
    }
}

void sim_written(struct process *leader, enum culm_deed deed) {
    if (listens(leader)) {
        culm_sim_log(leader->sim, "leader %d has written deed %d", leader->id, (int)deed);
        leader->deeds[deed]++;
    }
    if (listens(leader) && sim_moment(leader, CULM_SIM_KNOWS, deed)) {
        leader->ops->leads->written(leader->actor, deed);
    }
}

static void on_written(struct culm_sim *sim, const struct happen *happen) {
    struct process *leader = happen->to;
    (void)sim;
    if (happen->generation == 0) {
        sim_depose(leader);
    } else {
        sim_written(leader, (enum culm_deed)happen->number);
    }
}

/* It reaches the store, whatever has become of the leader by then: `from` led when it was asked for. */
static void write_deed(struct culm_sim *sim, const struct happen *happen) {
    struct process *leader = sim_process(sim, happen->from);
    const bool leads = leader == sim->leads;
    (void)(leads && sim_moment(leader, CULM_SIM_WRITTEN, (uint32_t)happen->number));
    sim_schedule(
        sim, sim->now_ns + delay_of_store(sim),
        (struct happen){
            .to = leader, .call = on_written, .number = happen->number, .generation = leads});
}

static void record_write(struct culm_record *record, enum culm_deed deed, int64_t step,
                         const char *about) {
    struct process *leader = (struct process *)((char *)record - offsetof(struct process, record));
    if (!sim_moment(leader, CULM_SIM_WRITES, deed)) {
        return;
    }
    if (leader->candidate) {
        sim_stand_write(leader, deed, step, about);
        return;
    }
    sim_schedule(leader->sim, leader->sim->now_ns + delay_of_store(leader->sim),
                 (struct happen){.call = write_deed, .from = leader->id, .number = deed});
}

static void record_give_up(struct culm_record *record) {
    struct process *leader = (struct process *)((char *)record - offsetof(struct process, record));
    if (leader->candidate) {
        sim_stand_give_up(leader);
    }
}

static const struct culm_record_ops record_ops = {
    .size = sizeof record_ops, .write = record_write, .give_up = record_give_up};

/* --- a worker's membership --- */

static void on_joined(void *ctx, int64_t leader_pid) {
    struct process *process = ctx;
    (void)leader_pid;
    culm_member_ready(process->member);
    process->started = true;
    process->ops->start(process->actor);
}

static void on_member_message(void *ctx, int32_t from, const struct culm_message *message) {
    struct process *process = ctx;
    if (listens(process)) {
        process->ops->message(process->actor, from, message);
    }
}

static void on_lost(void *ctx, int32_t node) {
    struct process *process = ctx;
    if (listens(process)) {
        process->ops->lost(process->actor, node);
    }
}

static void on_ended(void *ctx, const struct culm_error *why) {
    struct process *process = ctx;
    struct culm_sim *sim = process->sim;
    if (!process->left) {
        culm_sim_log(sim, "node %d ends: %s", process->id, why->text);
        process->left = true;
    }
    bool told = culm_member_conn(process->member, CULM_LEADER) == NULL;
    culm_member_finish(process->member);
    sim_schedule(sim, sim->now_ns + (told ? 0 : LINGER_NS),
                 (struct happen){.to = process, .call = die});
}

static void on_led(void *ctx, uint64_t term, const char *address) {
    struct process *process = ctx;
    (void)address;
    culm_sim_log(process->sim, "node %d promises term %llu", process->id, (unsigned long long)term);
    if (process->sim->leads->term == term) {
        (void)sim_moment(process->sim->leads, CULM_SIM_PROMISED, 0);
    }
    if (listens(process) && process->ops->led) {
        process->ops->led(process->actor, term);
    }
}

/* Its agent asks the same store as those who could lead. */
static bool on_stranded(void *ctx, int64_t for_ms) {
    const struct process *process = ctx;
    (void)for_ms;
    return culm_sim_store_is_away(process->sim);
}

static const struct culm_member_ops member_ops = {.joined = on_joined,
                                                  .stranded = on_stranded,
                                                  .message = on_member_message,
                                                  .lost = on_lost,
                                                  .ended = on_ended,
                                                  .led = on_led};

/* --- the leader's --- */

static bool on_check(void *ctx, const struct culm_caller *caller, struct culm_error *ret_error) {
    struct process *process = ctx;
    struct process *worker = sim_process(process->sim, caller->node);
    if (!worker || worker->up) {
        culm_error_set(ret_error, CULM_ERR_CONFIG, "node %d is not expected", caller->node);
        return false;
    }
    if (worker->newcomer) {
        const struct culm_node_info info = {
            .role = worker->role, .name = "elsewhere", .signature = "sim"};
        uint32_t role = worker->role;
        return process->ops->leads->admits &&
               process->ops->leads->admits(process->actor, &info, &role, ret_error);
    }
    return true;
}

/* Newcomers are on one of several machines, which follows from the seed and their number, so that no draw is spent on it. Those
 * with little memory are on one: what fails on two machines is the fault of the work. */
static const char *machine_of(const struct process *worker) {
    static const char *const machines[] = {"one", "two", "three"};
    return !worker->newcomer ? ""
           : worker->small   ? "small"
                           : machines[culm_rng_mix(worker->sim->o.seed, (uint64_t)worker->id) % 3];
}

struct culm_node_info sim_info_of(const struct process *worker) {
    return (struct culm_node_info){.role = worker->role,
                                   .pid = worker->newcomer ? 0 : worker->id + 1000,
                                   .name = worker->newcomer ? "elsewhere" : "sim",
                                   .signature = "sim",
                                   .machine = machine_of(worker)};
}

static void on_up(void *ctx, int32_t node, const struct culm_ready *ready) {
    struct process *process = ctx, *worker = sim_process(process->sim, node);
    const struct culm_node_info info = sim_info_of(worker);
    (void)ready;
    worker->up = true;
    if (listens(process)) {
        process->ops->leads->joined(process->actor, node, &info);
    }
}

/* That it takes part is written down first. */
static bool on_ready(void *ctx, int32_t *node, const struct culm_ready *ready,
                     struct culm_error *ret_error) {
    struct process *process = ctx, *worker = sim_process(process->sim, *node);
    (void)ready;
    if (process->candidate ? worker->admitted : process == process->sim->leads) {
        return true;
    }
    if (process->candidate && sim_moment(process, CULM_SIM_WRITES, CULM_SIM_ADMITS) &&
        sim_stand_admit(process, worker)) {
        culm_error_set(ret_error, CULM_ERR_AGAIN, "that it takes part is being written");
        return false;
    }
    culm_error_set(ret_error, CULM_ERR_CLOSED, "another one leads");
    sim_schedule(process->sim, process->sim->now_ns,
                 (struct happen){.to = process, .call = on_written});
    return false;
}

static void on_roster_message(void *ctx, int32_t node, const struct culm_message *message) {
    struct process *process = ctx;
    if (listens(process) && sim_moment(process, CULM_SIM_HEARS, message->type)) {
        process->ops->message(process->actor, node, message);
    }
}

static void on_eof(void *ctx, int32_t node, const struct culm_error *why) {
    struct process *process = ctx;
    if (why->status != CULM_ERR_CLOSED) {
        culm_sim_log(process->sim, "node %d: %s", node, why->text);
    }
    if (sim_process(process->sim, node)->up && listens(process)) {
        process->ops->lost(process->actor, node);
    }
}

static void on_absent(void *ctx, int32_t node, const struct culm_error *why) {
    struct process *process = ctx;
    culm_sim_log(process->sim, "node %d is not there: %s", node, why->text);
    sim_stand_gone(process, sim_process(process->sim, node));
    if (listens(process)) {
        process->ops->lost(process->actor, node);
    }
}

static void on_deposed(void *ctx, uint64_t term) {
    struct process *process = ctx;
    process->deposed = true;
    if (listens(process) && process->ops->leads->deposed) {
        process->ops->leads->deposed(process->actor, term);
    }
}

static const struct culm_roster_ops roster_ops = {.check = on_check,
                                                  .ready = on_ready,
                                                  .up = on_up,
                                                  .message = on_roster_message,
                                                  .eof = on_eof,
                                                  .absent = on_absent,
                                                  .deposed = on_deposed};

void sim_accepted(struct process *process, struct culm_stream *take_stream) {
    if (process->member) {
        culm_member_accepted(process->member, take_stream);
    } else {
        culm_roster_accepted(process->roster, take_stream, 0, "");
    }
}

/* --- life --- */

static void *must(void *pointer) {
    if (!pointer) {
        abort();
    }
    return pointer;
}

static struct process *process_new(struct culm_sim *sim, int32_t id, uint32_t role,
                                   size_t pool_bytes) {
    struct process *process = must(calloc(1, sizeof *process));
    process->world.ops = &world_ops;
    process->fabric.ops = &sim_fabric_ops;
    process->agent.ops = &sim_agent_ops;
    process->record.ops = &record_ops;
    process->sim = sim;
    process->id = id;
    process->role = role;
    process->alive = true;
    process->pool = must(culm_blob_pool_new(pool_bytes));
    return process;
}

void sim_lead(struct culm_sim *sim, struct process *process, uint64_t term) {
    process->term = term;
    const struct culm_roster_options roster = {
        .fabric = &process->fabric,
        .token = TOKEN,
        .pid = 999,
        .pool = process->pool,
        .payload_max = (size_t)1 << 30,
        .scratch_bytes = sim->o.scratch_bytes,
        .term = process->term,
        .ops = &roster_ops,
        .ctx = process,
    };
    process->roster = must(culm_roster_new(&roster));
    process->ops = sim->o.leader_ops;
    process->listening = true;
    sim->leads = !sim->leads || term > sim->leads->term ? process : sim->leads;
}

static void follow(struct culm_sim *sim, struct process *process) {
    snprintf(process->address, sizeof process->address, CULM_SIM_ADDRESS, process->id);
    snprintf(process->leader, sizeof process->leader, CULM_SIM_ADDRESS, sim->leads->id);
    process->asked_term = sim->leads->term;
    const struct culm_member_options member = {
        .fabric = &process->fabric,
        .leader = process->leader,
        .address = sim->o.role[process->role].calls_only ? "" : process->address,
        .token = TOKEN,
        .node = process->id,
        .name = "sim",
        .signature = "sim",
        .orphan_ms = sim->o.orphan_ms,
        .stranded_ms = sim->o.store_end_ms,
        .outlives = sim->o.outlives && !sim->o.role[process->role].calls_only,
        .pool = process->pool,
        .payload_max = (size_t)1 << 30,
        .scratch_bytes = sim->o.scratch_bytes,
        .ops = &member_ops,
        .ctx = process,
    };
    process->member = must(culm_member_new(&member));
}

struct process *sim_process_new(struct culm_sim *sim, uint32_t role, size_t pool_bytes) {
    if (sim->process_count == sim->process_capacity) {
        sim->process_capacity = sim->process_capacity ? 2 * sim->process_capacity : 32;
        sim->process =
            must(realloc(sim->process, (size_t)sim->process_capacity * sizeof(struct process *)));
    }
    struct process *process = process_new(sim, sim->process_count - 1, role, pool_bytes);
    sim->process[sim->process_count++] = process;
    if (sim->leads) {
        follow(sim, process);
    } else if (sim->o.candidates) {
        sim->leads = process; /* until somebody does */
    } else {
        sim_lead(sim, process, 1);
    }
    return process;
}

struct process *sim_leader_new(struct culm_sim *sim) {
    if (sim->later_count == CULM_SIM_LEADERS - 1) {
        return NULL;
    }
    struct process *process = process_new(sim, CULM_SIM_FIRST_LATER - sim->later_count, 0, 0);
    sim->later[sim->later_count++] = process;
    return process;
}

/* --- what a store would know --- */

static bool is_known(const struct process *worker) {
    return worker->id >= 0 && worker->up && !worker->told &&
           !worker->sim->o.role[worker->role].calls_only;
}

void sim_note_known(struct culm_sim *sim) {
    free(sim->known);
    sim->known_count = 0;
    sim->known = must(calloc((size_t)sim->process_count, sizeof *sim->known));
    for (int32_t i = 1; i < sim->process_count; i++) {
        if (is_known(sim->process[i])) {
            sim->known[sim->known_count++] =
                (struct culm_known_node){sim->process[i]->id, sim_info_of(sim->process[i])};
        }
    }
}

struct culm_sim_reign sim_reign_of(struct culm_sim *sim, struct process *process) {
    return (struct culm_sim_reign){.world = &process->world,
                                   .agent = &process->agent,
                                   .record = &process->record,
                                   .pool = process->pool,
                                   .process = process->id,
                                   .known = sim->known,
                                   .known_count = sim->known_count,
                                   .term = process->term,
                                   .committed = sim_stand_committed(sim),
                                   .newest = process == sim->leads};
}

void sim_call_all(struct process *leader) {
    struct culm_sim *sim = leader->sim;
    for (int32_t i = 0; i < sim->known_count; i++) {
        const struct process *worker = sim_process(sim, sim->known[i].node);
        if (!culm_roster_call(leader->roster, worker->id, worker->address)) {
            abort();
        }
    }
}

void sim_process_free(struct process *process) {
    culm_member_free(process->member);
    culm_roster_free(process->roster);
    for (int32_t i = 0; i < process->ways; i++) {
        free(process->way[i]);
    }
    free(process->way);
}

static void begin(struct culm_sim *sim, const struct happen *happen) {
    struct process *process = happen->to;
    (void)sim;
    process->listening = !process->sim->o.role[process->role].calls_only;
    culm_member_join(process->member);
}

static void start_limit(struct culm_sim *sim, const struct happen *happen) {
    if (!sim_process(sim, happen->from)->up) {
        culm_sim_kill(sim, happen->from);
    }
}

static struct process *add(struct culm_sim *sim, uint32_t role, size_t pool_bytes, bool newcomer) {
    const struct culm_sim_role *how = &sim->o.role[role];
    struct process *process = sim_process_new(sim, role, pool_bytes);
    process->newcomer = newcomer;
    process->small = newcomer && pool_bytes > 0;
    process->ops = how->ops;
    process->actor = must(how->make(how->context, process->id, &process->world, process->pool));
    uint64_t cold = sim->o.cold ? sim->o.cold(sim->o.event_context, process->id) : 0;
    uint64_t at = sim->now_ns + sim_around(sim, sim->o.spawn_ns) + cold;
    bool fails =
        !newcomer && sim->o.start_fail_percent && sim_draw(sim, 100) < sim->o.start_fail_percent;
    sim->totals.unstarted += fails;
    sim_schedule(sim, at, (struct happen){.to = process, .call = fails ? die : begin});
    sim_schedule(sim, sim->now_ns + START_LIMIT_NS,
                 (struct happen){.to = sim->leads, .call = start_limit, .from = process->id});
    return process;
}

void culm_sim_add(struct culm_sim *sim, uint32_t role) {
    (void)add(sim, role, sim->o.pool_bytes, false);
}

int32_t culm_sim_come(struct culm_sim *sim, uint32_t role, size_t pool_bytes) {
    return add(sim, role, pool_bytes, true)->id;
}

static void exit_told(struct culm_sim *sim, const struct happen *happen) {
    struct process *leader = happen->to;
    int32_t node = happen->from;
    struct process *process = sim_process(sim, node);
    process->told = true;
    sim_stand_gone(leader, process);
    sim->totals.exit_first += culm_roster_end(leader->roster, node);
    if (listens(leader)) {
        leader->ops->leads->ended(leader->actor, node, NULL);
    }
}

void culm_sim_kill(struct culm_sim *sim, int32_t node) {
    struct process *process = sim_process(sim, node);
    if (!process || !process->alive) {
        return;
    }
    culm_sim_log(sim, "%s %d dies", process->member ? "node" : "leader", node);
    process->alive = false;
    sim_fabric_end(process);
    if (!process->member) {
        return;
    }
    sim_schedule(sim, sim->now_ns + sim_draw(sim, sim->o.exit_ns + 1),
                 (struct happen){.to = sim->leads, .call = exit_told, .from = node});
}

void culm_sim_stick(struct culm_sim *sim, int32_t node) {
    struct process *process = sim_process(sim, node);
    if (node >= 0 && process && process->alive) {
        culm_sim_log(sim, "node %d is stuck", node);
        process->stuck = true;
    }
}

void culm_sim_freeze(struct culm_sim *sim, int32_t id, uint64_t for_ns) {
    struct process *process = sim_process(sim, id);
    if (!process || !process->alive || process->frozen_until_ns > sim->now_ns) {
        return;
    }
    culm_sim_log(sim, "%d freezes for %.1f ms", id,
                 for_ns == CULM_NEVER ? -1.0 : (double)for_ns / 1e6);
    process->frozen_until_ns = for_ns == CULM_NEVER ? CULM_NEVER : sim->now_ns + for_ns;
}

static void told_to_leave(struct culm_sim *sim, const struct happen *happen) {
    struct process *process = happen->to;
    if (!listens(process) || !process->ops->leave) {
        culm_sim_kill(sim, process->id);
    } else {
        process->ops->leave(process->actor, (int64_t)happen->number);
    }
}

void culm_sim_leave(struct culm_sim *sim, int32_t node, uint64_t within_ms) {
    struct process *process = sim_process(sim, node);
    if (node < 0 || !process || !process->alive || process->told_to_leave) {
        return;
    }
    process->told_to_leave = true;
    culm_sim_log(sim, "node %d is to leave within %llu ms", node, (unsigned long long)within_ms);
    if (acts_at(process) != CULM_NEVER) {
        sim_schedule(sim, acts_at(process),
                     (struct happen){.to = process, .call = told_to_leave, .number = within_ms});
    }
    sim_schedule(sim, sim->now_ns + within_ms * 1000000,
                 (struct happen){.to = process, .call = die});
}

void culm_sim_no_descriptors(struct culm_sim *sim, int32_t id, uint64_t for_ns) {
    struct process *process = sim_process(sim, id);
    if (process && process->alive) {
        culm_sim_log(sim, "%d has no descriptor left for %.1f ms", id, (double)for_ns / 1e6);
        process->no_descriptors_until_ns = sim->now_ns + for_ns;
    }
}
