/*
 * The leader: what it does first, if it takes over from another one, which is dead, or frozen, or cut off. See leader.h.
 *
 * Nothing was written of the other one's views and commits: servers and parameter servers report what they have, and what
 * follows is a function of their answers. (Workers hold nothing, and end with their leader.)
 *
 *   V             The newest view that one of those who live names. If no holder of V has answered with the state, while one may
 *                 live that is silent, nothing is decided, and everybody works on.
 *   COMMIT(k)     The epoch was committed if one of V's members says so; then every holder of V had version k. Whoever lacks the
 *                 COMMIT hears of it by the view that follows. If nobody says so, the epoch is in progress; done again, it has
 *                 the same bits. Where it would not have, as rows may be stale, each commit is written down before it is told, and
 *                 only that counts: with the state of which it says the digest, and of no branch (past.h) before its own.
 *   then          If a holder has the version committed last, or the one after it, a view in which all goes on: reports of
 *                 intervals and holders are said once more, and an unfinished checkpoint is due again. If none has, and it is not
 *                 the version that V loads, everyone goes back to the last checkpoint.
 *
 * Where rows may be stale, what there is of the epoch in progress is dropped, in a new attempt; but if a holder has stepped to its
 * version, that decides, and the other holders get copies of it.
 *
 * Whom V does not name comes in as if it joined: it may have been put out, and what it has does not count.
 */
#include "interval/leader_internal.h"

#include "base/mark.h"
#include "crew/take.h"

#include <stdlib.h>
#include <string.h>

bool gnn_leader_take_begin(struct culm_gnn_leader *leader) {
    struct gnn_taking *taking = &leader->taking;
    taking->curve = calloc(1, sizeof *taking->curve);
    const bool room = culm_take_begin(&leader->crew, leader->o.known, leader->o.known_count) &&
                      taking->curve &&
                      culm_gnn_view_init(&taking->view, leader->o.layout->intervals);
    for (int32_t n = 0; n < leader->crew.mates.count; n++) {
        gnn_leader_node_init(leader, gnn_node_at(leader, n));
    }
    return room;
}

void gnn_leader_take_end(struct culm_gnn_leader *leader) {
    for (int32_t n = 0; n < leader->crew.mates.count; n++) {
        free(gnn_node_at(leader, n)->report);
        gnn_node_at(leader, n)->report = NULL;
    }
    culm_gnn_view_release(&leader->taking.view);
    free(leader->taking.curve);
    leader->taking = (struct gnn_taking){0};
    culm_take_end(&leader->crew);
}

void gnn_leader_take_past(struct culm_gnn_leader *leader) {
    const char *about = leader->o.committed;
    struct culm_gnn_committed *committed = &leader->taking.committed;
    if (!gnn_leader_writes(leader) || !about || !about[0] ||
        culm_gnn_committed_read(about, committed) != CULM_OK) {
        return;
    }
    leader->past = committed->past;
    if (leader->saved_version > 0 &&
        !culm_gnn_past_names(&leader->past, leader->saved_version, leader->o.start_branch)) {
        CULM_MARK(interval_checkpoint_is_of_another_past);
        leader->saved_version = 0;
        leader->saved_path[0] = '\0';
        leader->saved_verdict = (struct culm_gnn_verdict){0};
        leader->verdict = leader->final_verdict = leader->saved_verdict;
        leader->seeks = true;
    }
}

/* --- what they say --- */

static void hear_report(struct culm_gnn_leader *leader, struct gnn_node *node,
                        const struct culm_message *message) {
    struct culm_gnn_report report;
    if (culm_gnn_report_decode(message->meta, message->meta_bytes, &report) != CULM_OK) {
        culm_crew_lose(&leader->crew, &node->mate, CULM_CAUSE_FAILED, CULM_TAKE_UNREADABLE);
        return;
    }
    node->report = node->report ? node->report : malloc(sizeof *node->report);
    if (!node->report) {
        culm_crew_fail(&leader->crew, CULM_ERR_MEMORY, "out of memory for a report");
        return;
    }
    *node->report = report;
    culm_take_reported(&node->mate, report.view, report.curve_first);
}

static void hear_shown(struct culm_gnn_leader *leader, struct gnn_node *node,
                       const struct culm_message *message) {
    struct gnn_taking *taking = &leader->taking;
    if (!culm_take_is_asked(&leader->crew, &node->mate)) {
        return;
    }
    if (message->type == CULM_GNN_MSG_VIEW &&
        culm_gnn_view_decode(message->meta, message->meta_bytes, leader->o.layout, &taking->view) !=
            CULM_OK) {
        culm_crew_fail(&leader->crew, CULM_ERR_FORMAT, "the view of node %d cannot be read",
                       (int)node->mate.id);
    } else if (message->type == CULM_GNN_MSG_CURVE &&
               culm_gnn_curve_decode(message->meta, message->meta_bytes, taking->curve) ==
                   CULM_OK) {
        culm_take_shown(&leader->crew);
    }
}

void gnn_leader_take_hear(struct culm_gnn_leader *leader, struct gnn_node *node,
                          const struct culm_message *message) {
    switch (message->type) {
    case CULM_GNN_MSG_REPORT: hear_report(leader, node, message); break;
    case CULM_GNN_MSG_VIEW:
    case CULM_GNN_MSG_CURVE: hear_shown(leader, node, message); break;
    default: return; /* of a view that the other one made */
    }
    gnn_leader_take_on(leader);
}

/* --- the decision --- */

static bool is_named(const struct culm_gnn_leader *leader, int32_t id) {
    const struct culm_gnn_view *view = &leader->taking.view;
    return culm_gnn_view_serves(view, leader->o.layout->intervals, id) ||
           culm_gnn_view_holds(view, id);
}

/* The report of one that lives and is a member of V, or stood by in it; NULL: what it says does not count. */
static const struct culm_gnn_report *report_of(const struct culm_gnn_leader *leader,
                                               const struct gnn_node *node_or_null) {
    const struct culm_gnn_view *view = &leader->taking.view;
    if (!node_or_null || !culm_take_has_reported(&node_or_null->mate)) {
        return NULL;
    }
    const struct culm_gnn_report *report = node_or_null->report;
    const bool counts = report->view > 0 && report->attempt >= view->load_attempt &&
                        report->attempt <= view->attempt &&
                        (report->view == view->number || is_named(leader, node_or_null->mate.id));
    return counts ? report : NULL;
}

/* Of the members, the one that has heard of most commits. */
static const struct culm_gnn_report *furthest(const struct culm_gnn_leader *leader) {
    const struct culm_gnn_report *best = NULL;
    for (int32_t n = 0; n < leader->crew.mates.count; n++) {
        const struct culm_gnn_report *report = report_of(leader, gnn_node_at(leader, n));
        if (report && (!best || report->course.epoch > best->course.epoch ||
                       (report->course.epoch == best->course.epoch && report->view > best->view))) {
            best = report;
        }
    }
    return best;
}

/* Where commits are written down: how V is related to the last one. */
enum branch { BEFORE, SAME, AFTER };
static enum branch branch_of(const struct culm_gnn_leader *leader) {
    const uint32_t written = culm_gnn_past_branch(&leader->taking.committed.past),
                   loaded = leader->taking.view.load_attempt;
    return loaded < written ? BEFORE : loaded > written ? AFTER : SAME;
}

/* The version committed last. */
static int64_t version_of(const struct culm_gnn_leader *leader,
                          const struct culm_gnn_report *last) {
    if (!gnn_leader_writes(leader)) {
        return last->course.epoch - 1;
    }
    return branch_of(leader) == AFTER ? leader->taking.view.load_version
                                      : leader->taking.committed.commit.epoch;
}

/* Whether that is the state that was committed, or is a version ahead of it. */
static bool is_committed(const struct culm_gnn_leader *leader,
                         const struct culm_gnn_report *report) {
    const struct culm_gnn_committed *committed = &leader->taking.committed;
    if (!gnn_leader_writes(leader) || branch_of(leader) == AFTER) {
        return true;
    }
    return branch_of(leader) == SAME &&
           (report->version > committed->commit.epoch || report->digest == committed->digest);
}

/* Whether that holder of V has the state of the version, or of the one after it, by its report. */
static bool has_state(const struct culm_gnn_leader *leader,
                      const struct culm_gnn_view_holder *holder, int64_t version) {
    const struct culm_gnn_report *report =
        report_of(leader, (const struct gnn_node *)culm_crew_find(&leader->crew, holder->node));
    return report && report->holds && report->since == holder->since &&
           report->version >= version && is_committed(leader, report);
}

/* Whether a holder of V has it; *ret_wait: one may that is silent. */
static bool is_held(const struct culm_gnn_leader *leader, int64_t version, bool *ret_wait) {
    const struct culm_gnn_view *view = &leader->taking.view;
    bool held = false;
    *ret_wait = false;
    for (int32_t h = 0; h < view->holder_count; h++) {
        held |= has_state(leader, &view->holder[h], version);
        *ret_wait |=
            culm_take_may_live(&leader->crew, culm_crew_find(&leader->crew, view->holder[h].node));
    }
    *ret_wait &= !held;
    return held;
}

static void take_holders(struct culm_gnn_leader *leader, int64_t version) {
    const struct culm_gnn_view *view = &leader->taking.view;
    for (int32_t h = 0; h < view->holder_count; h++) {
        const struct culm_gnn_view_holder *holder = &view->holder[h];
        struct gnn_node *node = (struct gnn_node *)culm_crew_find(&leader->crew, holder->node);
        if (!node) {
            continue;
        }
        node->holder = true;
        node->holder_since = holder->since;
        node->copy_from = holder->from;
        node->copy_ns = culm_crew_now(&leader->crew);
        node->holds = has_state(leader, holder, version);
        if (node->holds) {
            node->unsure = gnn_leader_stale(leader);
            node->held = (struct culm_gnn_held){.attempt = leader->view.attempt,
                                                .version = node->report->version,
                                                .digest = node->report->digest,
                                                .view = node->report->view,
                                                .diverged = node->report->diverged};
        }
    }
}

/* Where rows may be stale, the holder that has come furthest is the first one, and decides; who has not come as far gets a copy of
 * what that one has. Sums of the attempt before are nobody's any more. */
static void choose_furthest(struct culm_gnn_leader *leader) {
    struct culm_gnn_view *view = &leader->view;
    int32_t best = -1;
    int64_t version = -1;
    for (int32_t h = 0; h < view->holder_count; h++) {
        const struct gnn_node *node = gnn_leader_node(leader, view->holder[h].node);
        if (node && node->holds && node->held.version > version) {
            best = h;
            version = node->held.version;
        }
    }
    if (best < 0) {
        return;
    }
    const struct culm_gnn_view_holder first = view->holder[best];
    view->holder[best] = view->holder[0];
    view->holder[0] = first;
    for (int32_t h = 1; h < view->holder_count; h++) {
        struct gnn_node *node = gnn_leader_node(leader, view->holder[h].node);
        if (node && node->holds && node->held.version < version) {
            CULM_MARK(interval_holder_is_not_as_far_when_taken_over);
            node->holds = node->holder = false; /* the view that follows makes it one again */
        }
    }
}

/* As told, or, where only what is written down counts, as it is there. */
static struct culm_gnn_report state_of(const struct culm_gnn_leader *leader,
                                       const struct culm_gnn_report *last) {
    const struct culm_gnn_commit *commit = &leader->taking.committed.commit;
    struct culm_gnn_report state = *last;
    if (gnn_leader_writes(leader) && branch_of(leader) != AFTER) {
        if (branch_of(leader) == BEFORE || last->course.epoch <= commit->epoch) {
            CULM_MARK(interval_commit_that_is_only_written);
            state.last = commit->outcome;
            state.balance = commit->balance;
        }
        state.course = commit->next;
    }
    return state;
}

/* What is written down of commits, and of what V loads. */
static void take_branch(struct culm_gnn_leader *leader) {
    const struct culm_gnn_view *view = &leader->taking.view;
    if (!gnn_leader_stale(leader)) {
        return;
    }
    if (!gnn_leader_writes(leader) || branch_of(leader) == AFTER) {
        culm_gnn_past_add(&leader->past, view->load_attempt, view->load_version);
    } else if (branch_of(leader) == BEFORE) {
        CULM_MARK(interval_nobody_is_left_of_what_is_written);
        leader->taking.curve->count = 0;
        leader->load_failed = true; /* it is not what V loads that counts */
    }
    leader->view.attempt = gnn_leader_attempt_after(leader, view->attempt);
}

/* Who owns all intervals of a server's place is the server in that place, and has it again: nothing moves for the change of leader.
 * Parameter servers have places in the order in which V names them. */
static void take_slots(struct culm_gnn_leader *leader) {
    const struct culm_gnn_view *view = &leader->taking.view;
    const int32_t intervals = view->number > 0 ? leader->o.layout->intervals : 0;
    for (int32_t first = 0, end; first < intervals; first = end) {
        const int32_t place = leader->o.home[first], owner = view->owner[first];
        bool all = true;
        for (end = first; end < intervals && leader->o.home[end] == place; end++) {
            all = all && view->owner[end] == owner;
        }
        if (all && owner >= 0) {
            gnn_leader_take_place(leader, gnn_leader_node(leader, owner), place);
        }
    }
    for (int32_t i = 0; i < intervals;
         i++) { /* ahead of those who stand by: who owns something has a place */
        if (view->owner[i] >= 0) {
            gnn_leader_take_place(leader, gnn_leader_node(leader, view->owner[i]), -1);
        }
    }
    for (int32_t h = 0; h < view->holder_count; h++) {
        struct gnn_node *node = gnn_leader_node(leader, view->holder[h].node);
        if (node && node->mate.role == CULM_GNN_PARAMETER) {
            gnn_leader_take_place(leader, node, -1);
        }
    }
    for (int32_t n = 0; n < leader->crew.mates.count; n++) {
        struct gnn_node *node = gnn_node_at(leader, n);
        if (node->mate.alive) {
            gnn_leader_take_place(leader, node, -1);
        }
    }
}

static void take_balance(struct culm_gnn_leader *leader, const struct culm_gnn_report *last) {
    leader->crew.lost = last->balance.losses; /* so far all are of those whom it has only known */
    leader->rollbacks = last->balance.rollbacks;
    leader->verdict = leader->final_verdict = last->balance.verdict;
    leader->last = last->last;
    leader->loss = last->last.loss;
    leader->bill.before_usd = last->balance.usd;
    leader->bill.before_s = last->balance.seconds;
}

/* Epochs that the other one has committed since the last checkpoint; whether it has told of them nobody knows. */
static void tell_curve(struct culm_gnn_leader *leader) {
    const struct culm_gnn_curve *curve = leader->taking.curve;
    for (int32_t i = 0; i < curve->count; i++) {
        const struct culm_gnn_outcome *outcome = &curve->outcome[i];
        if (outcome->epoch > leader->saved_version && outcome->epoch <= leader->version) {
            gnn_leader_note_outcome(leader, outcome);
            gnn_leader_tell_again_of(leader, outcome);
        }
    }
    const int64_t told = culm_gnn_curve_first(curve) + curve->count;
    if (leader->last.epoch == leader->version && leader->version >= told &&
        leader->version > leader->saved_version) {
        CULM_MARK(interval_epoch_that_one_alone_knows);
        gnn_leader_note_outcome(leader, &leader->last);
        gnn_leader_tell_again_of(leader, &leader->last);
    }
}

/* Those who did not answer are put out; whom V does not name comes in anew. */
static void settle_others(struct culm_gnn_leader *leader) {
    for (int32_t n = 0; n < leader->crew.mates.count && !leader->crew.left; n++) {
        struct gnn_node *node = gnn_node_at(leader, n);
        if (!node->mate.alive || !node->mate.known) {
            continue;
        }
        if (!node->mate.reported) {
            CULM_MARK(interval_silent_when_taken_over);
            culm_crew_lose(&leader->crew, &node->mate, CULM_CAUSE_HEARTBEAT, NULL);
        } else if (leader->view.number > 0 && !is_named(leader, node->mate.id)) {
            CULM_MARK(interval_comes_in_anew_when_taken_over);
            gnn_leader_tell_joined(leader, node);
        }
    }
}

/* Those of V who are dead, as it knows by now; all, if nobody can tell of a view. */
static void tell_dead(struct culm_gnn_leader *leader) {
    for (int32_t n = 0; n < leader->crew.mates.count; n++) {
        struct gnn_node *node = gnn_node_at(leader, n);
        if (!node->mate.alive &&
            (leader->taking.view.number == 0 || is_named(leader, node->mate.id))) {
            leader->crew.lost++;
            gnn_leader_tell_lost(leader, node, node->cause, NULL);
        }
    }
}

/* What was being saved is due again. */
static void save_is_due(struct culm_gnn_leader *leader) {
    const int64_t every = leader->o.settings.checkpoint_every;
    const int64_t next = every > 0 ? (leader->saved_version / every + 1) * every : INT64_MAX;
    if (next <= leader->version) {
        CULM_MARK(interval_save_of_the_leader_before_is_due_again);
        leader->saving.version = leader->version - leader->version % every;
        gnn_leader_not_saved(leader, "the process that led was lost while it was written");
        leader->saving.due = true;
    }
}

/* What is known of epochs goes to each ahead of the first view: those who came meanwhile know of none, and those who were put out
 * once may lack some. */
static void end_taking(struct culm_gnn_leader *leader) {
    gnn_leader_take_end(leader);
    for (int32_t n = 0; n < leader->crew.mates.count; n++) {
        const struct culm_mate *mate = &gnn_node_at(leader, n)->mate;
        if (mate->alive) { /* billed from now on: what was before is in the balance */
            culm_gnn_bill_joined(&leader->bill, mate->role, (int64_t)culm_crew_now(&leader->crew));
            gnn_leader_tell_curve(leader, gnn_node_at(leader, n));
        }
    }
}

/* Nobody has seen a view: they load the last checkpoint, whoever they are, as soon as it was looked for, and that is written down. */
static void begin_anew(struct culm_gnn_leader *leader) {
    CULM_MARK(interval_taken_over_and_nobody_has_seen_a_view);
    leader->taking.decided = true;
    culm_take_tell(&leader->crew, leader->o.term, "nobody is left who has seen a view");
    tell_dead(leader);
    settle_others(leader);
    take_slots(leader);
    end_taking(leader);
    leader->begin_due = leader->begin_sought = true;
    gnn_leader_io_on(leader);
    gnn_leader_wait(leader);
}

void gnn_leader_begin_found(struct culm_gnn_leader *leader) {
    leader->begin_sought = false;
    leader->begin_due = culm_crew_write(&leader->crew, CULM_DEED_ROLL_BACK, leader->saved_version);
    if (!leader->begin_due) {
        gnn_leader_begin_if_all_there(leader);
    }
}

static void go_on(struct culm_gnn_leader *leader, const struct culm_gnn_report *last) {
    const struct culm_gnn_view *view = &leader->taking.view;
    const struct culm_gnn_report state = state_of(leader, last);
    leader->taking.decided = true;
    leader->version = state.course.epoch - 1;
    culm_gnn_view_copy(&leader->view, view, leader->o.layout->intervals);
    leader->view.course = state.course;
    leader->crew.view = leader->view.number;
    take_balance(leader, &state);
    leader->evaluated = !state.course.train && !state.course.evaluate;
    gnn_leader_new_epoch(leader);
    take_branch(leader);
    take_holders(leader, leader->version);
    if (gnn_leader_stale(leader)) {
        choose_furthest(leader);
    }
    culm_take_tell(&leader->crew, leader->o.term, "the process that led is gone");
    tell_curve(leader);
    tell_dead(leader);
    settle_others(leader);
    if (leader->crew.left) {
        return;
    }
    take_slots(leader);
    save_is_due(leader);
    end_taking(leader);
    leader->crew.review_why = NULL; /* the view that follows is without all who are lost */
    gnn_leader_review_anew(leader, "another process leads");
    gnn_leader_io_on(leader);
    gnn_leader_stop_on(leader);
    gnn_leader_wait(leader);
}

void gnn_leader_take_on(struct culm_gnn_leader *leader) {
    uint64_t newest;
    bool lives, wait;
    if (!leader->crew.taking || leader->crew.left ||
        !culm_take_is_heard(&leader->crew, &newest, &lives)) {
        return;
    }
    if (newest == 0) { /* any of those who are silent may hold something */
        if (lives) {
            culm_take_waits(&leader->crew,
                            "nobody who has answered has seen a view; others are silent");
        } else {
            begin_anew(leader);
        }
        return;
    }
    if (culm_take_asks(&leader->crew, newest, CULM_GNN_MSG_SHOW)) {
        return;
    }
    const struct culm_gnn_report *last = furthest(leader);
    if (!last) {
        return; /* the one that has shown it is gone, and this is looked at again */
    }
    const bool held = is_held(leader, version_of(leader, last), &wait);
    if (wait || (!held && lives && gnn_leader_writes(leader))) { /* those of a later view, too */
        CULM_MARK(interval_takes_over_and_waits_for_a_last_copy);
        culm_take_waits(&leader->crew,
                        "the last copy of the weights may be on a node that is silent");
        return;
    }
    go_on(leader, last);
}
