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

/* It is asked seldom enough whether it answers that a few leases may pass until that is known. */
void culm_history_commits(struct running *run, int64_t step) {
    const struct culm_history *history = run->history;
    const int64_t store_ms = history->settings.crew.store_ms;
    if (!culm_sim_store_is_away(run->sim)) {
        return;
    }
    run->away_commits++;
    if (store_ms && !run->slept &&
        culm_sim_now(run->sim) >
            run->away_ns + (uint64_t)(store_ms + 3 * history->lease_ms + 500) * 1000000) {
        culm_history_complain(run, "step %lld was committed by one that was cut off",
                              (long long)step);
    }
}

static bool begins_anew(const char *reason) { return strncmp(reason, "nobody is left", 14) == 0; }

void culm_history_decided(struct running *run, const char *reason) {
    const int64_t newest = culm_symbolic_store_newest(run->store);
    for (int64_t step = 0; step < STEPS_MAX; step++) {
        run->in_curve[step] |=
            run->voided[step]; /* a roll-back that nobody has heard of was none */
    }
    if (!begins_anew(reason)) {
        culm_history_cut_curve(run, newest > run->start_step ? newest : run->start_step);
        return; /* what the one before has told may be lost with it: this one tells it again */
    }
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
    for (int32_t i = 0; i < run->leader_count; i++) {
        if (exec == run->leader_exec[i]) {
            return culm_sim_may(run->sim, run->leader_process[i]);
        }
    }
    return false;
}

/* --- a leader is made --- */

static bool make_leader(struct running *run, const struct culm_sim_reign *reign) {
    const struct culm_history *history = run->history;
    const int64_t newest = culm_symbolic_store_newest(run->store);
    struct culm_exec *exec =
        culm_symbolic_new(&run->layout, &history->shape, reign->pool, run->store, NULL, 42);
    char source[32] = "";
    if (newest >= 0) {
        run->start_step = run->leader_count == 0 ? newest : run->start_step;
        snprintf(source, sizeof source, "step-%lld", (long long)newest);
    }
    struct culm_pipeline_leader_options options = {.world = reign->world,
                                                   .agent = reign->agent,
                                                   .record =
                                                       history->outlives ? reign->record : NULL,
                                                   .exec = exec,
                                                   .layout = &run->layout,
                                                   .shape = history->shape,
                                                   .settings = history->settings,
                                                   .tokens_per_sample = 1,
                                                   .start_step = newest >= 0 ? newest : 0,
                                                   .start_source = source,
                                                   .term = reign->term,
                                                   .known = reign->known,
                                                   .known_count = reign->known_count,
                                                   .orphan_ms = CULM_HISTORY_ORPHAN_MS,
                                                   .traced = history->traced,
                                                   .open = history->open,
                                                   .here_most = history->here_most};
    culm_order_init(&options.order, 42, CULM_SYMBOLIC_SAMPLES);
    struct culm_pipeline_leader *leader = culm_pipeline_leader_new(&options);
    run->leader = reign->newest ? leader : run->leader;
    run->leaders[run->leader_count] = leader;
    run->leader_process[run->leader_count] = reign->process;
    run->leader_exec[run->leader_count++] = exec;
    if (exec && leader) {
        culm_sim_reigns(run->sim, reign->process, leader);
    }
    return exec && leader;
}

/* What the one before has said may never have come to anything: this one says it again. */
static void forget_what_was_said(struct running *run) {
    run->took_ns = culm_sim_now(run->sim);
    run->deciding = true;
    run->begins = false;
    run->rolled_back = 0;
    memset(run->unheard, 0, sizeof run->unheard);
    memset(run->put_out, 0, sizeof run->put_out);
    memset(run->owed, 0, sizeof run->owed);
    run->save_owed = false;
    run->last_fault_ns = culm_sim_now(run->sim);
}

bool culm_history_begin(struct running *run) {
    struct culm_sim_reign reign;
    culm_sim_reign_of(run->sim, &reign);
    return run->history->candidates || make_leader(run, &reign);
}

void culm_history_leads(void *context, const struct culm_sim_reign *reign) {
    struct running *run = context;
    if (!make_leader(run, reign)) {
        culm_history_complain(run, "nobody can take over");
        return;
    }
    if (reign->term > 1 && reign->newest) {
        forget_what_was_said(run);
    }
    if (run->stopped_ns && reign->newest) { /* as is written down somewhere */
        culm_sim_stop(run->sim);
    }
}

void culm_history_take_over(struct running *run) {
    struct culm_sim_reign reign;
    if (culm_sim_lead(run->sim, &reign)) {
        culm_history_leads(run, &reign);
    } else {
        culm_history_complain(run, "nobody can take over");
    }
}

void culm_history_totals_of(const struct running *run,
                            struct culm_pipeline_leader_totals *ret_totals) {
    *ret_totals = (struct culm_pipeline_leader_totals){0};
    if (run->leader) {
        culm_pipeline_leader_totals_of(run->leader, ret_totals);
    }
}

/* --- faults --- */

static void freeze(struct running *run, int32_t leads, const struct culm_history_fault *fault) {
    run->slept = true;
    const bool last = run->leader_count == CULM_SIM_LEADERS || !run->history->outlives;
    culm_sim_freeze(run->sim, leads, fault->freeze_ms * 1000000);
    if (!last && !run->take_ns && fault->freeze_ms > run->history->take_ms &&
        !run->history->candidates) {
        run->take_ns = culm_sim_now(run->sim) + run->history->take_ms * 1000000;
    }
}

/* Another candidate comes in the place of one that is gone for good. The others hear that it is dead, or not. */
static bool befall_candidate(struct running *run, const struct culm_history_fault *fault,
                             int32_t leads) {
    const uint64_t for_ns = fault->freeze_ms ? fault->freeze_ms * 1000000 : CULM_NEVER;
    const bool lasts = fault->kind == CULM_FAULT_KILL || for_ns == CULM_NEVER;
    if ((fault->kind != CULM_FAULT_KILL && fault->kind != CULM_FAULT_CUT) ||
        (lasts && !culm_sim_candidate(run->sim))) {
        return false;
    }
    if (fault->kind == CULM_FAULT_CUT) {
        culm_sim_store_cut(run->sim, leads, for_ns);
        return true;
    }
    culm_sim_kill(run->sim, leads);
    if (culm_sim_random(run->sim, 2)) {
        culm_sim_refused(run->sim, leads);
    }
    return true;
}

bool culm_history_befall_leader(struct running *run, const struct culm_history_fault *fault) {
    const int32_t leads = culm_sim_leads(run->sim);
    const bool last = run->leader_count == CULM_SIM_LEADERS || !run->history->outlives;
    if (fault->kind == CULM_FAULT_LEAVE) {
        if (run->history->candidates && run->leader) {
            culm_sim_resign(run->sim);
        }
        return run->history->candidates && run->leader;
    }
    if (fault->kind == CULM_FAULT_FREEZE && fault->freeze_ms) {
        freeze(run, leads, fault);
        return true;
    }
    if (run->history->candidates) {
        return befall_candidate(run, fault, leads);
    }
    if ((fault->kind != CULM_FAULT_KILL && fault->kind != CULM_FAULT_CUT) || last) {
        return false;
    }
    if (fault->kind == CULM_FAULT_KILL) {
        culm_sim_kill(run->sim, leads);
    } /* else it leads on, until it hears of the other one */
    const uint64_t take_ns = culm_sim_now(run->sim) + run->history->take_ms * 1000000;
    run->take_ns = run->take_ns ? run->take_ns : take_ns;
    return true;
}
