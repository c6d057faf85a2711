/*
 * Who leads in a history, and what the oracle asks of that: one that takes over decides nothing before those have ended who may
 * have a last copy; what cannot be taken back is written by who leads before anyone is told.
 */
#include "history_internal.h"

#include <stdio.h>
#include <string.h>

/* --- the oracle's eyes --- */

/* One that has just taken over has not heard of it, and it was a member. A silent node ends itself before one and a half of the
 * time are over; until then it may have all that is left of something. */
bool culm_history_is_awaited(const struct running *run, int32_t node) {
    return run->deciding && run->unheard[node] && culm_history_is_named(run, node) &&
           culm_sim_now(run->sim) < run->took_ns + CULM_HISTORY_ORPHAN_MS * 3 / 2 * 1000000ull;
}

/* Who of those is left, with anything; -1: nobody. */
static int32_t left_behind(const struct running *run) {
    for (int32_t i = 0; i < culm_sim_worker_count(run->sim) && i < WORKERS_MAX; i++) {
        const struct culm_node *node = culm_sim_worker(run->sim, i);
        for (int32_t s = 0; s < run->layout.stages && node && culm_history_is_awaited(run, i);
             s++) {
            if (culm_node_version(node, s) >= 0 && !culm_node_is_damaged(node)) {
                return i;
            }
        }
    }
    return -1;
}

/* Where another process may lead, what cannot be taken back is written by who leads before anyone is told. */
void culm_history_check_deed(struct running *run, enum culm_deed deed, int64_t times,
                             const char *what) {
    if (run->history->outlives && culm_sim_deeds(run->sim, deed) < times) {
        culm_history_complain(run, "%s, and that was not written by who leads", what);
    }
}

static bool begins_anew(const char *reason) { return strncmp(reason, "nobody is left", 14) == 0; }

void culm_history_decided(struct running *run, const char *reason) {
    if (!begins_anew(reason)) { /* a roll-back that nobody has heard of was none */
        for (int64_t step = 0; step < STEPS_MAX; step++) {
            run->in_curve[step] |= run->voided[step];
        }
        return;
    }
    const int64_t newest = culm_symbolic_store_newest(run->store);
    for (int32_t i = 0; i < WORKERS_MAX; i++) {
        run->unheard[i] = true;
    }
    if (left_behind(run) >= 0) {
        culm_history_complain(run, "begins anew before node %d has ended", left_behind(run));
    }
    run->begins = true;
    culm_history_cut_curve(run, newest);
    run->committed = run->furthest =
        newest > 0 ? newest : 0; /* of what came after it nobody can tell */
}

/* Who leads no more may still finish what it has begun to publish. */
bool culm_history_may_prune(void *context, const struct culm_exec *exec) {
    const struct running *run = context;
    return exec == run->leader_exec[run->leader_count - 1];
}

/* --- a leader is made --- */

/* False: out of memory. */
bool culm_history_make_leader(struct running *run, struct culm_world *world,
                              const struct culm_known_node *known, int32_t known_count,
                              uint64_t term) {
    const struct culm_history *history = run->history;
    const int64_t newest = culm_symbolic_store_newest(run->store);
    struct culm_exec *exec =
        culm_symbolic_new(&run->layout, &history->shape,
                          culm_sim_pool(run->sim, culm_sim_leads(run->sim)), run->store, NULL, 42);
    char source[32] = "";
    if (newest >= 0) {
        run->start_step = term == 1 ? newest : run->start_step;
        snprintf(source, sizeof source, "step-%lld", (long long)newest);
    }
    struct culm_pipeline_leader_options leader = {
        .world = world,
        .agent = culm_sim_agent(run->sim),
        .record = history->outlives ? culm_sim_record(run->sim) : NULL,
        .exec = exec,
        .layout = &run->layout,
        .shape = history->shape,
        .settings = history->settings,
        .tokens_per_sample = 1,
        .start_step = newest >= 0 ? newest : 0,
        .start_source = source,
        .term = term,
        .known = known,
        .known_count = known_count,
        .orphan_ms = CULM_HISTORY_ORPHAN_MS,
        .traced = history->traced,
        .open = history->open,
        .here_most = history->here_most};
    culm_order_init(&leader.order, 42, CULM_SYMBOLIC_SAMPLES);
    run->leader = culm_pipeline_leader_new(&leader);
    run->leaders[run->leader_count] = run->leader;
    run->leader_exec[run->leader_count++] = exec;
    if (exec && run->leader) {
        culm_sim_leader(run->sim, run->leader);
    }
    return exec && run->leader;
}

void culm_history_take_over(struct running *run) {
    const struct culm_known_node *known;
    int32_t count;
    uint64_t term;
    struct culm_world *world = culm_sim_lead(run->sim, &known, &count, &term);
    if (!world || !culm_history_make_leader(run, world, known, count, term)) {
        culm_history_complain(run, "nobody can take over");
        return;
    }
    /* What the one before has said may never have come to anything: this one says it again. */
    run->took_ns = culm_sim_now(run->sim);
    run->deciding = true;
    run->begins = false;
    run->rolled_back = 0;
    memset(run->unheard, 0, sizeof run->unheard);
    memset(run->put_out, 0, sizeof run->put_out);
    memset(run->owed, 0, sizeof run->owed);
    run->save_owed = false;
    run->last_fault_ns = culm_sim_now(run->sim);
    if (run->stopped_ns) { /* as is written down somewhere */
        culm_sim_stop(run->sim);
    }
}
