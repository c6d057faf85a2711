/*
 * The leader: what it does first, if it takes over from another one, which is dead, or frozen, or cut off.
 *
 * Nothing was written of the other one's views and commits, and nothing has to be: those who took part report what they
 * have (report.h), and what follows is a function of their answers.
 *
 *   V                The newest view that one of those who live names. A stage that nobody who has answered holds may be held
 *                    by a member of V that has not answered: as long as that one is neither known to be dead nor silent for
 *                    1.5 x orphan_ms, by when it has ended itself, nothing is decided and everybody works on.
 *   V is of loading  Everyone loads the same once more.
 *   COMMIT(k)        If one holder has it, it was made, so that every holder is prepared: those who lack it get it, with its
 *                    content as it was, under the view in which they prepared. If nobody has it, k is not committed, even if one
 *                    that is lost has stepped: done again, it has the same bits.
 *   then             If every stage has a copy, a view of those who have answered, in which all goes on; what is said in it
 *                    counts, and an unfinished checkpoint is due again. Else everyone goes back to the last checkpoint.
 */
#include "pipeline/leader_internal.h"

#include "base/mark.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool leader_take_begin(struct culm_pipeline_leader *leader) {
    struct taking *taking = &leader->taking;
    leader->phase = TAKING;
    leader->first_start = false;
    leader->tell_whole = true; /* each may know another view */
    taking->curve = calloc(1, sizeof *taking->curve);
    const bool room = culm_take_begin(&leader->crew, leader->o.known, leader->o.known_count) &&
                      taking->curve && culm_view_init(&taking->view, &leader->o.shape);
    for (int32_t i = 0; i < leader->crew.mates.count; i++) {
        worker_at(leader, i)->pipeline = worker_at(leader, i)->stage = -1;
    }
    return room;
}

void leader_take_end(struct culm_pipeline_leader *leader) {
    for (int32_t i = 0; i < leader->crew.mates.count; i++) {
        free(worker_at(leader, i)->report);
        worker_at(leader, i)->report = NULL;
    }
    culm_view_release(&leader->taking.view);
    free(leader->taking.curve);
    leader->taking = (struct taking){0};
    culm_take_end(&leader->crew);
}

struct culm_totals leader_totals(const struct culm_pipeline_leader *leader) {
    return (struct culm_totals){leader->crew.lost, leader->rollbacks, leader->steps_redone,
                                leader->recovered, leader->copied};
}

/* --- what they say --- */

void leader_reported(struct culm_pipeline_leader *leader, struct worker *worker,
                     const struct culm_message *message) {
    struct culm_report report = {.of_stages = leader->o.shape.stages};
    if (culm_report_decode(message->meta, message->meta_bytes, &report) != CULM_OK) {
        culm_crew_lose(&leader->crew, &worker->mate, CULM_CAUSE_FAILED, CULM_TAKE_UNREADABLE);
        leader_take_on(leader);
        return;
    }
    worker->report = worker->report ? worker->report : malloc(sizeof *worker->report);
    if (!worker->report) {
        culm_crew_fail(&leader->crew, CULM_ERR_MEMORY, "out of memory for a report");
        return;
    }
    *worker->report = report;
    culm_take_reported(&worker->mate, report.view, report.curve_first);
    leader_take_on(leader);
}

void leader_shown(struct culm_pipeline_leader *leader, struct worker *worker,
                  const struct culm_message *message) {
    struct taking *taking = &leader->taking;
    if (!culm_take_is_asked(&leader->crew, &worker->mate)) {
        return;
    }
    if (message->type == CULM_MSG_VIEW &&
        culm_view_decode(message->meta, message->meta_bytes, NULL, &leader->o.shape,
                         &taking->view) != CULM_OK) {
        culm_crew_fail(&leader->crew, CULM_ERR_FORMAT, "the view of node %d cannot be read",
                       worker->mate.id);
    } else if (message->type == CULM_MSG_CURVE &&
               culm_curve_decode(message->meta, message->meta_bytes, taking->curve) == CULM_OK) {
        culm_take_shown(&leader->crew);
        leader_take_on(leader);
    }
}

/* One that has reported and lives; else NULL. */
static const struct culm_report *report_of(const struct worker *worker_or_null) {
    return worker_or_null && culm_take_has_reported(&worker_or_null->mate) ? worker_or_null->report
                                                                           : NULL;
}

static bool may_live(const struct culm_pipeline_leader *leader, const struct worker *worker) {
    return worker && culm_take_may_live(&leader->crew, &worker->mate);
}

/* Whether commits that it has heard count: one that holds nothing, and has not seen V, may tell of those before a roll-back. */
static bool counts(const struct culm_pipeline_leader *leader, const struct culm_report *report) {
    return report &&
           (!culm_stage_set_empty(&report->holds) || report->view == leader->taking.view.number);
}

/* The member of V who is at the version that all will be at: after the newest commit that one of V's members has. */
static const struct culm_report *furthest(const struct culm_pipeline_leader *leader) {
    const struct culm_report *best = NULL;
    for (int32_t i = 0; i < leader->taking.view.node_count; i++) {
        const struct culm_report *report =
            report_of(leader_worker(leader, leader->taking.view.node[i].id));
        if (counts(leader, report) && (!best || report->iteration > best->iteration ||
                                       (report->iteration == best->iteration &&
                                        report->commit.iteration > best->commit.iteration))) {
            best = report;
        }
    }
    return best;
}

/* What it holds for certain when all are at that iteration. */
static struct culm_stage_set has_then(const struct culm_report *report, int64_t iteration) {
    return report->iteration == iteration ? culm_stage_set_any(&report->holds, &report->whole)
                                          : report->holds;
}

/* --- the decision --- */

/* Takes the view and all that it says of who sits where. */
static void take_view(struct culm_pipeline_leader *leader) {
    struct culm_view before = *leader->view;
    *leader->view = leader->taking.view;
    leader->taking.view = before;
    leader->crew.view = leader->view->number;
    for (int32_t i = 0; i < leader->view->node_count; i++) {
        const struct culm_view_node *node = &leader->view->node[i];
        struct worker *worker = leader_worker(leader, node->id);
        if (worker && worker->mate.alive && node->pipeline >= 0 &&
            !culm_stage_set_has(&leader->taken[node->pipeline], node->stage)) {
            worker->pipeline = node->pipeline;
            worker->stage = node->stage;
            culm_stage_set_add(&leader->taken[node->pipeline], node->stage);
        }
    }
}

static void take_totals(struct culm_pipeline_leader *leader) {
    const struct culm_report *newest = NULL;
    for (int32_t i = 0; i < leader->crew.mates.count; i++) {
        const struct culm_report *report = report_of(worker_at(leader, i));
        if (report && (!newest || report->view > newest->view ||
                       (report->view == newest->view && report->iteration > newest->iteration))) {
            newest = report;
        }
    }
    leader->crew.lost = 0; /* so far all are of those whom it has only known */
    if (newest) {
        leader->crew.lost = newest->totals.losses;
        leader->rollbacks = newest->totals.rollbacks;
        leader->steps_redone = newest->totals.steps_redone;
        leader->recovered = newest->totals.recovered;
        leader->copied = newest->totals.copied;
    }
}

/* Those who did not answer are put out, and those who were out of V are told so. One that has seen no view is new. */
static void put_out_others(struct culm_pipeline_leader *leader) {
    for (int32_t i = 0; i < leader->crew.mates.count && leader->phase != ENDED; i++) {
        struct worker *worker = worker_at(leader, i);
        if (!worker->mate.alive || !worker->mate.known) {
            continue;
        }
        if (!worker->report) {
            CULM_MARK(pipeline_silent_when_taken_over);
            culm_crew_lose(&leader->crew, &worker->mate, CULM_CAUSE_HEARTBEAT, NULL);
        } else if (worker->report->view > 0 && !culm_view_find(leader->view, worker->mate.id)) {
            if (worker->mate.asks) {
                CULM_MARK(pipeline_leaver_is_out_of_the_view_when_taken_over);
                leader_release(leader, worker);
                continue;
            }
            CULM_MARK(pipeline_out_of_the_view_when_taken_over);
            leader->crew.lost--; /* it was counted then */
            culm_crew_lose(&leader->crew, &worker->mate, CULM_CAUSE_HEARTBEAT,
                           "the leader before had put it out");
        }
    }
}

/* Those of V who are dead, as it knows by now; all, if nobody can tell of a view. */
static void tell_dead(struct culm_pipeline_leader *leader) {
    for (int32_t i = 0; i < leader->crew.mates.count; i++) {
        struct worker *worker = worker_at(leader, i);
        const bool was_in =
            leader->view->number == 0 || culm_view_find(leader->view, worker->mate.id);
        if (!worker->mate.alive && was_in) {
            leader->crew.lost++;
            leader_tell_lost(leader, worker, NULL);
        }
    }
}

/* The commit goes to the holders of V who lack it, under the view in which each has prepared. */
static void hand_on_commit(struct culm_pipeline_leader *leader,
                           const struct culm_report *furthest) {
    struct culm_commit commit = {.content = furthest->commit,
                                 .published = leader->checkpoint_version,
                                 .totals = leader_totals(leader)};
    leader->last = commit.content;
    for (int32_t i = 0; i < leader->view->node_count; i++) {
        const struct worker *worker = leader_worker(leader, leader->view->node[i].id);
        const struct culm_report *report = report_of(worker);
        if (report && report->iteration == commit.content.iteration &&
            !culm_stage_set_empty(&report->holds)) {
            CULM_MARK(pipeline_commit_is_handed_on);
            commit.view = report->view;
            culm_commit_encode(&commit, culm_crew_meta(&leader->crew));
            culm_crew_send(&leader->crew, worker->mate.id, CULM_MSG_COMMIT);
        }
    }
}

/* Steps that the other one has committed since the last checkpoint; whether it has told of them nobody knows. The last one may be known
 * to another node than the one that was asked for all. */
static void tell_curve(struct culm_pipeline_leader *leader, const struct culm_content *last) {
    const struct culm_curve *curve = leader->taking.curve;
    for (int32_t i = 0; i < curve->count && curve->first + i < leader->iteration; i++) {
        if (curve->first + i > leader->checkpoint_version) {
            leader_note_step(leader, curve->first + i, &curve->step[i]);
            leader_tell_step_again(leader, curve->first + i, &curve->step[i]);
            leader->loss = curve->step[i].loss;
        }
    }
    if (last && last->iteration == leader->iteration - 1 &&
        last->iteration >= curve->first + curve->count &&
        last->iteration > leader->checkpoint_version) {
        CULM_MARK(pipeline_step_that_one_alone_knows);
        const struct culm_curve_step step = {last->loss, last->norm};
        leader_note_step(leader, last->iteration, &step);
        leader_tell_step_again(leader, last->iteration, &step);
        leader->loss = last->loss;
    }
}

/* What was being saved is due again. */
static void saves_are_due(struct culm_pipeline_leader *leader) {
    const int64_t every = leader->o.settings.checkpoint_every;
    const int64_t from = leader->checkpoint_version;
    for (int64_t due = every > 0 ? (from / every + 1) * every : INT64_MAX; due < leader->iteration;
         due += every) {
        CULM_MARK(pipeline_save_of_the_leader_before_is_due_again);
        leader_checkpoint_event(leader, due, "", false, false,
                                "the process that led was lost while it was written");
        leader->save_due = true;
    }
}

static void tell(struct culm_pipeline_leader *leader, const char *reason) {
    culm_take_tell(&leader->crew, leader->o.term, reason);
}

/* Nobody has seen a view, or V is one in which all load: they load, whoever they are. */
static void load(struct culm_pipeline_leader *leader, bool again) {
    CULM_MARK(pipeline_taken_over_while_loading);
    tell(leader, again ? "all were loading" : "nobody is left who has seen a view");
    if (again) {
        take_view(leader);
        leader->phase = LOADING;
        leader->iteration = leader->view->iteration;
        leader->checkpoint_version = leader->iteration - 1;
        snprintf(leader->checkpoint_path, sizeof leader->checkpoint_path, "%s",
                 leader->view->source);
        tell_dead(leader);
        put_out_others(leader);
    } else {
        tell_dead(leader);
    }
    leader_fill_ledger(leader);
    leader_take_end(leader);
    if (leader->phase == ENDED) {
        return;
    }
    leader->phase = WAITING;
    leader->begin_due =
        !again && culm_crew_write(&leader->crew, CULM_DEED_ROLL_BACK, leader->iteration - 1);
    if (!leader->begin_due) {
        leader_start_if_ready(leader);
    }
}

/* Which stage nobody has a copy of who has answered; -1: none. *ret_wait: it may still be had. */
static int32_t gone(const struct culm_pipeline_leader *leader, int64_t iteration, bool *ret_wait) {
    const struct culm_view *view = &leader->taking.view;
    int32_t first = -1;
    *ret_wait = false;
    for (int32_t s = 0; s < view->stages; s++) {
        bool copy = false, silent = false;
        for (int32_t i = 0; i < view->node_count; i++) {
            const struct worker *worker = leader_worker(leader, view->node[i].id);
            const struct culm_report *report = report_of(worker);
            if (report) {
                const struct culm_stage_set has = has_then(report, iteration);
                copy |= culm_stage_set_has(&has, s);
            } else {
                silent |= culm_stage_set_has(&view->node[i].holds, s) && may_live(leader, worker);
            }
        }
        first = first < 0 && !copy ? s : first;
        *ret_wait |= !copy && silent;
    }
    return first;
}

static void go_on(struct culm_pipeline_leader *leader, int64_t iteration, int32_t gone_stage) {
    const struct culm_report *last = furthest(leader);
    take_view(leader);
    leader->iteration = iteration;
    leader->phase = RUNNING;
    for (int32_t i = 0; i < leader->crew.mates.count; i++) {
        struct worker *worker = worker_at(leader, i);
        const struct culm_report *report =
            culm_view_find(leader->view, worker->mate.id) ? report_of(worker) : NULL;
        worker->holds = report ? has_then(report, iteration) : (struct culm_stage_set){{0}};
    }
    tell(leader, "the process that led is gone");
    tell_curve(leader, last ? &last->commit : NULL);
    leader_fill_ledger(leader);
    if (last && last->commit.iteration == iteration - 1) {
        hand_on_commit(leader, last);
    }
    tell_dead(leader);
    put_out_others(leader);
    if (leader->phase == ENDED) {
        return;
    }
    leader_take_end(leader);
    leader->step_ns = culm_crew_now(&leader->crew);
    leader->crew.review_why = NULL; /* the view that follows is without all who are lost */
    leader->lost_count = 0;
    if (gone_stage >= 0) {
        CULM_MARK(pipeline_taken_over_and_a_stage_is_gone);
        char why[CULM_REASON_MAX];
        snprintf(why, sizeof why, "the process that led is gone: no copy of stage %d is left",
                 gone_stage);
        leader_rollback(leader, why);
        return;
    }
    leader_words_loaded(leader); /* each has come to it by itself, and says so again */
    saves_are_due(leader);
    leader_go_on(leader, "another process leads");
    leader_nothing_to_take_over(leader);
    if (leader->phase == RUNNING && leader->iteration > leader->o.shape.steps) {
        CULM_MARK(pipeline_taken_over_after_the_last_step);
        leader_save(leader);
    }
}

void leader_take_on(struct culm_pipeline_leader *leader) {
    uint64_t newest;
    bool lives, wait;
    if (leader->phase != TAKING || !culm_take_is_heard(&leader->crew, &newest, &lives)) {
        return;
    }
    if (newest == 0) { /* any of those who are silent may hold something */
        if (lives) {
            culm_take_waits(&leader->crew,
                            "nobody who has answered has seen a view; others are silent");
        } else {
            load(leader, false);
        }
        return;
    }
    if (culm_take_asks(&leader->crew, newest, CULM_MSG_SHOW)) {
        return;
    }
    if (leader->taking.view.phase == CULM_VIEW_LOAD) {
        take_totals(leader);
        load(leader, true);
        return;
    }
    const struct culm_report *last = furthest(leader);
    const int64_t iteration = last ? last->iteration : leader->taking.view.iteration;
    const int32_t stage = gone(leader, iteration, &wait);
    if (wait) {
        CULM_MARK(pipeline_takes_over_and_waits_for_a_last_copy);
        culm_take_waits(&leader->crew, "a stage may have its last copy on a node that is silent");
        return;
    }
    take_totals(leader);
    go_on(leader, iteration, stage);
}
