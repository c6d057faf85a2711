/* How a history ended, and whether that is how it should: see history.h. */
#include "history_internal.h"

#include <string.h>

#define STAYS_MOST 2 /* steps, for which one that asks to leave, and is of no use, is still there */

#define STOP_MS 30000 /* from a stop to the end of the run */
#define SLACK 4       /* steps until a checkpoint that is due is written */

/* Each that was due was written or said to be given up before the next one was due. Where one is due in every step
 * or nearly, one for which older ones have to give way first may be written with one of the next steps. */
static void judge_due(struct running *run) {
    int64_t every = run->history->settings.checkpoint_every;
    for (int64_t due = every; every > 0 && due <= run->committed; due += every) {
        bool said = due <= run->start_step;
        for (int64_t step = due; step < due + (every > SLACK ? every : SLACK) && step < STEPS_MAX;
             step++) {
            said = said || run->told[step];
        }
        run->due += due > run->start_step;
        if (!said) {
            culm_history_complain(run, "a checkpoint was due at step %lld, and nothing came of it",
                                  (long long)due);
        }
    }
}

uint64_t culm_history_stop_took_ms(const struct running *run) {
    uint64_t from = run->last_fault_ns > run->stopped_ns ? run->last_fault_ns : run->stopped_ns;
    uint64_t now = culm_sim_now(run->sim);
    return run->stopped_ns && now > from ? (now - from) / 1000000 : 0;
}

bool culm_history_is_kind(const struct culm_history *h) {
    bool kind = h->trouble_count == 0 && h->save_fail_percent == 0 && h->start_fail_percent == 0;
    for (int32_t i = 0; i < h->fault_count; i++) {
        kind = kind && h->fault[i].kind == CULM_FAULT_LEAVE &&
               h->fault[i].freeze_ms == CULM_HISTORY_GRACE_MS;
    }
    return kind;
}

bool culm_history_is_calm(const struct running *run) {
    return run->left > 0 && run->start_step == 0 && run->done && culm_history_is_kind(run->history);
}

/* Who could own every stage of some pipeline, if those who are to leave were not there; and of what this one has, two others have a
 * copy. */
static bool is_of_no_use(const struct running *run, int32_t node) {
    bool whole = false;
    for (int32_t p = 0; p < run->history->shape.pipelines; p++) {
        bool others = true;
        for (int32_t s = 0; s < run->layout.stages; s++) {
            others = others && run->role[p][s].owner >= 0 && !run->asked[run->role[p][s].owner];
        }
        whole = whole || others;
    }
    for (int32_t s = 0; s < run->layout.stages && whole; s++) {
        int32_t copies = 0;
        for (int32_t i = 0; i < culm_sim_worker_count(run->sim); i++) {
            const struct culm_node *other = culm_sim_worker(run->sim, i);
            copies +=
                other && !run->asked[i] && !run->put_out[i] && culm_node_version(other, s) >= 0;
        }
        whole = copies > 1 || culm_node_version(culm_sim_worker(run->sim, node), s) < 0;
    }
    return whole;
}

void culm_history_check_leavers(struct running *run) {
    for (int32_t i = 0; i < culm_sim_worker_count(run->sim) && i < WORKERS_MAX; i++) {
        const bool stays = run->asked[i] && !run->put_out[i] && culm_sim_worker(run->sim, i) &&
                           culm_sim_started(run->sim, i) && is_of_no_use(run, i);
        run->stays[i] = stays ? run->stays[i] + 1 : 0;
        if (run->stays[i] > STAYS_MOST && culm_history_is_kind(run->history)) {
            culm_history_complain(run, "node %d asked to leave, and is still there", i);
        }
    }
}

/* Nothing is done twice for those who leave. */
static void judge_leaving(struct running *run) {
    const struct culm_run_shape *shape = &run->history->shape;
    const int64_t tasks = shape->steps * shape->stages * shape->micros;
    if (run->totals.losses > run->gone_before || run->rollbacks > 0) {
        culm_history_complain(run, "%lld losses and %lld roll-backs, as nodes left",
                              (long long)run->totals.losses, (long long)run->rollbacks);
    }
    /* A view is read after the COMMIT before it, and in as many pieces as a stream likes: the owner before it may have begun. */
    const int64_t most = tasks + run->left * shape->micros;
    if ((run->backwards < tasks || run->backwards > most) && run->leader_count == 1) {
        culm_history_complain(run, "%lld backward tasks, and not %lld, as nodes left",
                              (long long)run->backwards, (long long)tasks);
    }
}

void culm_history_judge_end(struct running *run) {
    const struct culm_history *history = run->history;
    int64_t newest = culm_symbolic_store_newest(run->store);
    culm_history_look_for_flips(run);
    for (int32_t i = 0; i < run->exec_count && i < WORKERS_MAX && run->done; i++) {
        /* What one has that no view names, because it is yet to be let in or was put out, is nobody's. */
        if (run->flipped[i] && culm_history_is_named(run, i) &&
            culm_symbolic_damaged(run->exec[i])) {
            culm_history_complain(run, "a bit of node %d was flipped and nobody noticed", i);
        }
    }
    bool stopped = false;
    for (int32_t i = 0; i < history->fault_count; i++) {
        stopped |= history->fault[i].fired && history->fault[i].kind == CULM_FAULT_STOP;
    }
    if (run->exit_code == 75 && !run->over) {
        culm_history_check_deed(run, CULM_DEED_STOP, 1, "stopped");
    }
    if (run->exit_code == 75 && !stopped) {
        culm_history_complain(run, "it ended as if stopped, and was not");
    }
    if (run->exit_code == 75 && !run->held && run->totals.committed != (newest < 0 ? 0 : newest) &&
        !(history->outlives &&
          newest > run->totals.committed)) { /* one that led before was further */
        culm_history_complain(run,
                              "it was stopped after step %lld and left a checkpoint of step %lld",
                              (long long)run->totals.committed, (long long)newest);
    }
    /* One that is frozen for good is waited for until it has ended itself, if it may have a last copy. */
    const uint64_t stop_ms = STOP_MS + (history->outlives ? CULM_HISTORY_ORPHAN_MS * 3 / 2 : 0);
    if (culm_history_stop_took_ms(run) > stop_ms &&
        !run->was_held) { /* else it waits for room, and says so */
        culm_history_complain(run, "a stop took %llu ms",
                              (unsigned long long)culm_history_stop_took_ms(run));
    }
    if (run->done || run->exit_code == 75) {
        judge_due(run);
    }
    if (culm_history_is_calm(run)) {
        judge_leaving(run);
    }
    struct culm_sim_totals totals;
    culm_sim_totals_of(run->sim, &totals);
    if (totals.refused > 0 &&
        !history->outlives && /* whoever takes over does not know who was asked for */
        !history->open) {     /* who comes from elsewhere may take the room of one asked for */
        culm_history_complain(run, "more than %lld workers were asked for",
                              (long long)history->settings.crew.max_nodes);
    }
    int32_t wanted = history->shape.pipelines * history->shape.stages;
    wanted = history->open && history->here_most < wanted ? history->here_most : wanted;
    /* Who was asked for by one that leads no more may end without the next one's knowing. */
    if (!history->traced && history->settings.crew.replace_ms >= 0 && run->leader_count == 1 &&
        !(run->honest && !run->done) && run->totals.alive + run->totals.coming < wanted) {
        culm_history_complain(run, "%d workers of %d at the end, and %d to come", run->totals.alive,
                              wanted, run->totals.coming);
    }
    /* What is left to be told at the end, one that was not there any more has not told. */
    for (int32_t i = 0; i < WORKERS_MAX && run->done && !run->over; i++) {
        if (run->owed[i]) {
            culm_history_complain(run, "node %d was lost and never recovered", i);
        }
    }
}

void culm_history_judge(struct running *run, const struct running *calm) {
    if (run->blind) {
        return;
    }
    if (run->over) { /* nobody was there to tell of the weights, which had been saved before that was written */
        if (culm_symbolic_store_newest(run->store) != run->history->shape.steps) {
            culm_history_complain(
                run, "it is written that it is done, and the last checkpoint is missing");
        }
    } else if (strcmp(run->weights, calm->weights) != 0) {
        culm_history_complain(run, "final weights %s differ from the undisturbed %s", run->weights,
                              calm->weights);
    }
    for (int64_t step = 1; step <= run->history->shape.steps && step < STEPS_MAX; step++) {
        if (strcmp(run->loss_bits[step], calm->loss_bits[step]) != 0) {
            culm_history_complain(run, "loss of step %lld differs from the undisturbed",
                                  (long long)step);
        }
    }
    for (int32_t i = 0; i < run->history->fault_count && run->history->must_fire; i++) {
        if (!run->history->fault[i].fired) {
            culm_history_complain(run, "fault %d never fired", i);
        }
    }
}
