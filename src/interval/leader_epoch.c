/* The leader: epochs and their commits, and the end of the run. See leader.h. */
#include "interval/leader_internal.h"

#include "base/mark.h"
#include "crew/term.h"
#include "interval/roc.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ull
#define LATE "copies took longer than cluster.join_ms"

static bool is_over(const struct culm_gnn_leader *leader, int64_t version) {
    return version >= leader->o.settings.pace.epochs || leader->verdict.enough || leader->stopping;
}

/* Whether nothing is left to be done: a stop may come before the final evaluation. */
static bool is_whole(const struct culm_gnn_leader *leader) {
    const bool trained =
        leader->version >= leader->o.settings.pace.epochs || leader->verdict.enough;
    return trained && (leader->judged || leader->o.settings.pace.eval_every == 0);
}

bool gnn_leader_is_over(const struct culm_gnn_leader *leader) {
    return is_over(leader, leader->version);
}

struct culm_gnn_course gnn_leader_course(const struct culm_gnn_leader *leader, int64_t version) {
    int64_t every = leader->o.settings.pace.eval_every;
    struct culm_gnn_course course = {.epoch = version + 1};
    if (is_over(leader, version)) {
        course.evaluate = every > 0 && !leader->stopping;
    } else {
        course.train = true;
        course.evaluate = culm_gnn_pace_evaluates(&leader->o.settings.pace, version + 1);
    }
    return course;
}

static void add_split(json_t *event, const struct culm_gnn_leader *leader, const char *key,
                      int part, const int64_t *correct) {
    int64_t rows = leader->o.rows[part];
    if (rows > 0) {
        json_object_set_new(event, key, json_real((double)correct[part] / (double)rows));
    }
}

/* The totals of all intervals, added up in order. */
static struct culm_gnn_totals sum_totals(const struct culm_gnn_leader *leader) {
    struct culm_gnn_totals sum = {0};
    const struct culm_gnn_totals *totals = gnn_leader_done(leader)->totals;
    for (int32_t i = 0; i < leader->o.layout->intervals; i++) {
        sum.loss += totals[i].loss;
        for (int p = 0; p < CULM_GNN_SPLITS; p++) {
            sum.correct[p] += totals[i].correct[p];
        }
    }
    return sum;
}

/* The area under the ROC curve of each part; -1: not known. */
static void find_areas(const struct culm_gnn_leader *leader, double ret_area[CULM_GNN_SPLITS]) {
    const struct culm_gnn_layout *layout = leader->o.layout;
    struct culm_blob *const *scores = gnn_leader_done(leader)->scores;
    int64_t count = layout->first[layout->intervals];
    struct culm_gnn_scored *all =
        layout->scores ? malloc((size_t)count * sizeof *all + 1) : NULL; /* NULL: no areas */
    for (int32_t i = 0; all && i < layout->intervals; i++) {
        if (!scores[i]) {
            free(all);
            all = NULL;
        } else {
            memcpy(all + layout->first[i], scores[i]->data, scores[i]->size_bytes);
        }
    }
    for (uint32_t part = 0; part < CULM_GNN_SPLITS; part++) {
        ret_area[part] = all ? culm_gnn_roc_area(all, count, part) : -1;
    }
    free(all);
}

static void add_areas(json_t *event, const double area[CULM_GNN_SPLITS]) {
    static const char *const keys[CULM_GNN_SPLITS] = {"train_auc", "valid_auc", "test_auc"};
    for (int part = 0; part < CULM_GNN_SPLITS; part++) {
        if (area[part] >= 0) {
            json_object_set_new(event, keys[part], json_real(area[part]));
        }
    }
}

/* Takes in the evaluation of an epoch. The final one, after training, is not part of the verdict that
 * --resume goes on with. */
static void judge(struct culm_gnn_leader *leader, const struct culm_gnn_totals *totals) {
    double valid_rows = (double)leader->o.rows[CULM_GNN_VALID];
    double test_rows = (double)leader->o.rows[CULM_GNN_TEST];
    if (valid_rows > 0) {
        culm_gnn_verdict_judge(
            leader->view.course.train ? &leader->verdict : &leader->final_verdict,
            &leader->o.settings.stop, (double)totals->correct[CULM_GNN_VALID] / valid_rows,
            test_rows > 0 ? (double)totals->correct[CULM_GNN_TEST] / test_rows : 0);
    }
    if (leader->view.course.train) {
        leader->final_verdict = leader->verdict;
    }
}

/* Counts of gathered rows by their age in epochs. */
static json_t *ages_of(const struct culm_gnn_leader *leader, const struct culm_gnn_work *work) {
    json_t *ages = json_array();
    for (int age = 0; age <= leader->o.settings.pace.staleness; age++) {
        json_array_append_new(ages, json_integer((json_int_t)work->rows_by_age[age]));
    }
    return ages;
}

/* The mean loss of training vertices. */
static float loss_of(const struct culm_gnn_leader *leader, const struct culm_gnn_totals *totals) {
    return (float)(totals->loss / (double)leader->o.rows[CULM_GNN_TRAIN]);
}

static json_t *event_of(const struct culm_gnn_leader *leader,
                        const struct culm_gnn_outcome *outcome) {
    uint32_t bits;
    char text[16];
    memcpy(&bits, &outcome->loss, sizeof bits);
    snprintf(text, sizeof text, "0x%08x", bits);
    json_t *event =
        json_pack("{s:s, s:I, s:f, s:s}", "event", "epoch", "epoch", (json_int_t)outcome->epoch,
                  "loss", (double)outcome->loss, "loss_bits", text);
    if (event && outcome->evaluated) {
        add_split(event, leader, "train", CULM_GNN_TRAIN, outcome->correct);
        add_split(event, leader, "valid", CULM_GNN_VALID, outcome->correct);
        add_split(event, leader, "test", CULM_GNN_TEST, outcome->correct);
        add_areas(event, outcome->area);
    }
    return event;
}

void gnn_leader_tell_again_of(struct culm_gnn_leader *leader,
                              const struct culm_gnn_outcome *outcome) {
    json_t *event = event_of(leader, outcome);
    if (event) {
        json_object_set_new(event, "again", json_true());
    }
    culm_crew_event(&leader->crew, event);
}

void gnn_leader_note_outcome(struct culm_gnn_leader *leader,
                             const struct culm_gnn_outcome *outcome) {
    if (leader->curve) {
        culm_gnn_curve_add(leader->curve, outcome);
        culm_gnn_curve_cut(leader->curve, leader->saved_version, outcome->epoch);
    }
}

void gnn_leader_tell_curve(struct culm_gnn_leader *leader, const struct gnn_node *node) {
    if (leader->curve && node->mate.role != CULM_GNN_WORKER) {
        culm_gnn_curve_encode(leader->curve, culm_crew_meta(&leader->crew));
        culm_crew_send(&leader->crew, node->mate.id, CULM_GNN_MSG_CURVE);
    }
}

struct culm_gnn_balance gnn_leader_balance(struct culm_gnn_leader *leader) {
    struct culm_gnn_bill *bill = &leader->bill;
    culm_gnn_bill_advance(bill, (int64_t)culm_crew_now(&leader->crew));
    return (struct culm_gnn_balance){.losses = leader->crew.lost,
                                     .rollbacks = leader->rollbacks,
                                     .published = leader->saved_version,
                                     .verdict = leader->verdict,
                                     .usd = culm_gnn_bill_usd(bill),
                                     .seconds = culm_gnn_bill_s(bill)};
}

/* What the epoch has come to, in `ret_outcome`, if it is one of training; the verdict takes in what was evaluated. */
static void settle_epoch(struct culm_gnn_leader *leader, struct culm_gnn_outcome *ret_outcome) {
    const struct culm_gnn_course *course = &leader->view.course;
    const struct culm_gnn_totals totals = sum_totals(leader);
    leader->final_totals = totals;
    if (course->evaluate) {
        judge(leader, &totals);
        find_areas(leader, leader->final_area);
    }
    *ret_outcome = (struct culm_gnn_outcome){
        .epoch = course->epoch, .loss = loss_of(leader, &totals), .evaluated = course->evaluate};
    for (int part = 0; part < CULM_GNN_SPLITS && course->evaluate; part++) {
        ret_outcome->correct[part] = totals.correct[part];
        ret_outcome->area[part] = leader->final_area[part];
    }
}

static void publish_epoch(struct culm_gnn_leader *leader) {
    const uint64_t now = culm_crew_now(&leader->crew);
    json_t *event = event_of(leader, &leader->last);
    if (event) {
        const struct culm_gnn_work *work = &gnn_leader_done(leader)->work;
        json_t *more = json_pack("{s:f, s:I, s:I, s:I, s:I, s:I, s:o}", "epoch_ms",
                                 (double)(now - leader->epoch_ns) / (double)MS, "tasks",
                                 (json_int_t)work->tasks, "retried", (json_int_t)work->retried,
                                 "gathered_floats", (json_int_t)work->gathered_floats,
                                 "ghost_bytes", (json_int_t)work->ghost_bytes, "worker_bytes",
                                 (json_int_t)work->worker_bytes, "ages", ages_of(leader, work));
        json_object_update(event, more);
        json_decref(more);
    }
    culm_crew_event(&leader->crew, event);
}

/* Whether all holders have this version that do not get their copy too late, and somebody has. If their bits
 * differ, deals with that. */
static bool all_hold(struct culm_gnn_leader *leader, int64_t version) {
    const struct culm_gnn_view *view = &leader->view;
    uint64_t digest = 0;
    int32_t hold = 0;
    for (int32_t h = 0; h < view->holder_count; h++) {
        const struct gnn_node *node = gnn_leader_node(leader, view->holder[h].node);
        if (gnn_leader_is_late(leader, &view->holder[h])) {
            continue;
        }
        if (!node || node->held.attempt != view->attempt || node->held.version != version ||
            !node->holds || node->unsure) {
            return false;
        }
        if (hold++ > 0 && node->held.digest != digest) {
            CULM_MARK(interval_holders_differ);
            gnn_leader_differ(leader, version);
            return false;
        }
        digest = node->held.digest;
    }
    return hold > 0;
}

const struct gnn_done *gnn_leader_done(const struct culm_gnn_leader *leader) {
    return &leader->done[leader->view.course.epoch % leader->window];
}

void gnn_leader_clear_done(struct culm_gnn_leader *leader, struct gnn_done *done) {
    size_t intervals = (size_t)leader->o.layout->intervals;
    memset(done->there, 0, intervals * sizeof *done->there);
    memset(done->totals, 0, intervals * sizeof *done->totals);
    for (size_t i = 0; i < intervals; i++) {
        culm_blob_clear(&done->scores[i]);
    }
    done->work = (struct culm_gnn_work){0};
    done->count = 0;
    done->epoch = 0;
}

void gnn_leader_keep_scores(struct culm_gnn_leader *leader, struct gnn_done *done, int32_t interval,
                            const struct culm_message *message) {
    const int64_t *first = leader->o.layout->first;
    size_t bytes = (size_t)(first[interval + 1] - first[interval]) * sizeof(struct culm_gnn_scored);
    if (leader->o.layout->scores && message->payload && message->payload_bytes == bytes) {
        culm_blob_clear(&done->scores[interval]);
        done->scores[interval] = culm_blob_ref(message->payload);
    }
}

static bool all_done(const struct culm_gnn_leader *leader) {
    const struct gnn_done *done = gnn_leader_done(leader);
    return done->epoch == leader->view.course.epoch && done->count == leader->o.layout->intervals;
}

void gnn_leader_new_epoch(struct culm_gnn_leader *leader) {
    leader->epoch_ns = culm_crew_now(&leader->crew);
}

/* Ends the run if it has diverged; earlier checkpoints remain. A gradient may become infinite or
 * NaN before the loss does; holders then have skipped the update and say so. */
static bool diverged(struct culm_gnn_leader *leader) {
    const struct culm_gnn_totals totals = sum_totals(leader);
    const struct culm_gnn_view *view = &leader->view;
    float loss = loss_of(leader, &totals);
    bool finite = !view->course.train || isfinite(loss);
    for (int32_t h = 0; h < view->holder_count && view->course.train; h++) {
        const struct gnn_node *node = gnn_leader_node(leader, view->holder[h].node);
        finite = finite && !(gnn_leader_is_full(leader, node) && node->held.diverged);
    }
    if (finite) {
        return false;
    }
    CULM_MARK(interval_diverged);
    culm_crew_fail(&leader->crew, CULM_ERR_CONFIG,
                   "epoch %lld: the loss or a gradient is not finite (loss %g); lower "
                   "optimizer.lr",
                   (long long)view->course.epoch, (double)loss);
    return true;
}

/* Whether a checkpoint is due with that version. */
static bool is_due(const struct culm_gnn_leader *leader, int64_t version) {
    const int64_t every = leader->o.settings.checkpoint_every;
    return every > 0 && version % every == 0;
}

/* Whether the commit of the epoch waits for the checkpoint under way, since another one is due. */
static bool waits_to_save(const struct culm_gnn_leader *leader) {
    const int64_t epoch = leader->view.course.epoch;
    const bool saves =
        leader->saving.due || leader->cut_late || is_due(leader, epoch) || is_over(leader, epoch);
    return leader->view.course.train && saves && gnn_leader_saves(leader);
}

static double round_ms(const struct culm_gnn_leader *leader) {
    return (double)(culm_crew_now(&leader->crew) - leader->epoch_ns) / (double)MS;
}

/* Those whose copy is of the version before get another one: sums of an epoch that is committed are of no use any more. True: there
 * are some. */
static bool leave_behind(struct culm_gnn_leader *leader) {
    bool found = false;
    for (int32_t h = 0; h < leader->view.holder_count && gnn_leader_writes(leader); h++) {
        struct gnn_node *node = gnn_leader_node(leader, leader->view.holder[h].node);
        if (gnn_leader_is_full(leader, node) && node->held.version < leader->version) {
            CULM_MARK(interval_copy_is_of_the_version_before);
            node->holds = node->holder = false;
            found = true;
        }
    }
    return found;
}

/* Everyone is told, people too: nothing takes it back but all going back together. */
static void tell_commit(struct culm_gnn_leader *leader, const struct culm_gnn_commit *told) {
    struct culm_gnn_view *view = &leader->view;
    struct culm_gnn_commit commit = *told;
    leader->last = commit.outcome;
    leader->loss = leader->last.loss;
    publish_epoch(leader);
    gnn_leader_tune(leader);
    leader->version = view->course.epoch;
    culm_crew_committed(&leader->crew, leader->version, round_ms(leader));
    bool last = is_over(leader, leader->version);
    view->course = commit.next;
    if (!commit.next.train) {
        gnn_leader_clear_done(leader, &leader->done[commit.next.epoch % leader->window]);
    }
    leader->evaluated = !commit.next.train && !commit.next.evaluate;
    gnn_leader_new_epoch(leader);
    leader->saving.due = leader->saving.due || is_due(leader, leader->version) || leader->cut_late;
    if (leader->cut_late) {
        CULM_MARK(interval_commits_what_it_saves_as_it_is_cut_off);
        leader->cut_late = false;
        leader->cut_version = leader->version;
    }
    gnn_leader_note_outcome(leader, &leader->last);
    commit.balance = gnn_leader_balance(leader);
    view->last = commit.outcome;
    view->balance = commit.balance;
    gnn_leader_save(leader, true); /* ahead of the commit, with which the version may be left */
    culm_gnn_commit_encode(&commit, culm_crew_meta(&leader->crew));
    culm_crew_send_all(&leader->crew, CULM_GNN_MSG_COMMIT);
    const bool behind = leave_behind(leader), late = gnn_leader_leave_late(leader) || behind;
    if (!last) {
        gnn_leader_review(leader, true, late ? LATE : "epoch");
        culm_crew_boundary(&leader->crew);
    } else if (late) { /* a copy of what is no longer the version must not count as one */
        CULM_MARK(interval_last_epoch_without_a_late_copy);
        gnn_leader_review(leader, false, LATE);
    }
    if (leader
            ->evaluated) { /* one that led before may have saved this version, and then there is nothing to wait for */
        gnn_leader_io_on(leader);
    }
}

bool gnn_leader_writes(const struct culm_gnn_leader *leader) {
    return leader->crew.record && gnn_leader_stale(leader);
}

/* The state that all who have it have at that version. */
static uint64_t digest_at(const struct culm_gnn_leader *leader, int64_t version) {
    for (int32_t h = 0; h < leader->view.holder_count; h++) {
        const struct gnn_node *node = gnn_leader_node(leader, leader->view.holder[h].node);
        if (gnn_leader_is_full(leader, node) && node->held.version == version) {
            return node->held.digest;
        }
    }
    return 0;
}

static void write_commit(struct culm_gnn_leader *leader, const struct culm_gnn_commit *commit) {
    char about[CULM_DEED_ABOUT_MAX];
    const struct culm_gnn_committed committed = {
        .commit = *commit, .digest = digest_at(leader, commit->epoch), .past = leader->past};
    if (!culm_gnn_committed_write(&committed, about)) {
        culm_crew_fail(&leader->crew, CULM_ERR_MEMORY, "out of memory for a commit");
        return;
    }
    leader->committing = *commit;
    (void)culm_crew_write_commit(&leader->crew, commit->epoch, about);
}

void gnn_leader_commit_written(struct culm_gnn_leader *leader) {
    const struct culm_gnn_commit commit = leader->committing;
    const bool review = leader->review_due;
    leader->committing = (struct culm_gnn_commit){0};
    leader->review_due = false;
    if (leader->finishing) {
        return; /* nothing comes after what it ends with */
    }
    tell_commit(leader, &commit);
    if (review) {
        gnn_leader_review(leader, false, "lost");
    }
    gnn_leader_stop_on(leader);
    gnn_leader_go_on(leader);
    gnn_leader_wait(leader);
}

static void commit(struct culm_gnn_leader *leader) {
    const struct culm_gnn_view *view = &leader->view;
    struct culm_gnn_commit commit = {.attempt = view->attempt, .epoch = view->course.epoch};
    if (diverged(leader)) {
        return;
    }
    settle_epoch(leader, &commit.outcome);
    if (!view->course.train) { /* the final evaluation, which is reported in `done` */
        const double ms = round_ms(leader);
        gnn_leader_tune(leader);
        leader->evaluated = leader->judged = true;
        leader->eval_ms = ms;
        culm_crew_committed(&leader->crew, leader->version, ms);
        gnn_leader_io_on(leader);
        return;
    }
    commit.next = gnn_leader_course(leader, commit.epoch);
    commit.balance = gnn_leader_balance(leader);
    if (gnn_leader_writes(leader)) {
        write_commit(leader, &commit);
    } else {
        tell_commit(leader, &commit);
    }
}

void gnn_leader_go_on(struct culm_gnn_leader *leader) {
    const struct culm_gnn_course *course = &leader->view.course;
    if (leader->crew.left || leader->back_due || leader->view.number == 0 || leader->finishing ||
        leader->crew.taking || (leader->crew.cut_off && !leader->cut_late) ||
        leader->committing.epoch > 0 || !(course->train || course->evaluate) || !all_done(leader) ||
        (course->train && !all_hold(leader, course->epoch))) {
        return;
    }
    if (!course->train && leader->evaluated) {
        return;
    }
    if (waits_to_save(leader)) {
        CULM_MARK(interval_commit_waits_for_a_checkpoint);
        return;
    }
    commit(leader);
    gnn_leader_wait(leader);
}

/* --- the end --- */

/* Brings the bill up to date, for `done` too, and publishes it. */
static void publish_cost(struct culm_gnn_leader *leader) {
    struct culm_gnn_bill *bill = &leader->bill;
    culm_gnn_bill_advance(bill, (int64_t)culm_crew_now(&leader->crew));
    double usd = culm_gnn_bill_usd(bill), seconds = culm_gnn_bill_s(bill);
    culm_crew_event(&leader->crew,
                    json_pack("{s:s, s:f, s:f, s:f}", "event", "cost", "usd", usd, "value",
                              culm_gnn_value(seconds, usd), "seconds", seconds));
}

static void publish_done(struct culm_gnn_leader *leader) {
    const struct culm_gnn_task *finish = &leader->io;
    double usd = culm_gnn_bill_usd(&leader->bill), seconds = culm_gnn_bill_s(&leader->bill);
    double median, longest;
    culm_crew_pauses(&leader->crew, &median, &longest);
    json_t *event =
        json_pack("{s:s, s:I, s:s, s:s, s:I, s:I, s:I, s:f, s:f, s:I}", "event", "done", "epochs",
                  (json_int_t)leader->version, "weights_sha256", finish->weights_sha256,
                  "state_sha256", finish->state_sha256, "nodes_lost", (json_int_t)leader->crew.lost,
                  "losses", (json_int_t)leader->crew.lost, "rollbacks",
                  (json_int_t)leader->rollbacks, "pause_ms_median", median, "pause_ms_max", longest,
                  "leaders", (json_int_t)culm_term_of(leader->o.term));
    if (event && leader->eval_ms > 0) {
        json_object_set_new(event, "eval_ms", json_real(leader->eval_ms));
    }
    if (event && leader->version > leader->o.start_version) {
        json_object_set_new(event, "loss", json_real(leader->loss));
    }
    if (event) {
        json_object_set_new(event, "usd", json_real(usd));
        json_object_set_new(event, "value", json_real(culm_gnn_value(seconds, usd)));
    }
    if (event && leader->o.settings.pace.eval_every > 0) {
        add_split(event, leader, "train", CULM_GNN_TRAIN, leader->final_totals.correct);
        add_split(event, leader, "valid", CULM_GNN_VALID, leader->final_totals.correct);
        add_split(event, leader, "test", CULM_GNN_TEST, leader->final_totals.correct);
        add_areas(event, leader->final_area);
        if (leader->final_verdict.known && leader->o.rows[CULM_GNN_TEST] > 0) {
            json_object_set_new(event, "test_at_best_valid",
                                json_real(leader->final_verdict.test_at_best));
        }
    }
    culm_crew_event(&leader->crew, event);
}

void gnn_leader_finished(struct culm_gnn_leader *leader) {
    const struct culm_job *job = &leader->io.job;
    if (job->status != CULM_OK) {
        CULM_MARK(interval_model_not_written);
        gnn_leader_hold(leader, job->status, job->error.text);
        return;
    }
    gnn_leader_hold_over(leader);
    if (!is_whole(leader)) {
        gnn_leader_pause_end(leader);
        publish_cost(leader);
        gnn_leader_end_stopped(leader, false, "stopped after epoch %lld; continue with --resume",
                               (long long)leader->version);
    } else if (!culm_crew_write(&leader->crew, CULM_DEED_DONE, leader->version)) {
        gnn_leader_done_written(leader);
    }
}

void gnn_leader_done_written(struct culm_gnn_leader *leader) {
    gnn_leader_pause_end(leader);
    publish_cost(leader);
    publish_done(leader);
    culm_crew_leave(&leader->crew, 0, NULL);
}

/* --- a stop --- */

void gnn_leader_end_stopped(struct culm_gnn_leader *leader, bool fails, const char *format, ...) {
    va_list args;
    va_start(args, format);
    culm_error_setv(&leader->ending, CULM_ERR_STOPPED, format, args);
    va_end(args);
    leader->ending_fails = fails;
    leader->finishing = leader->crew.closing = true; /* nothing else is begun */
    leader->ending_due = leader->crew.writing;
    if (!leader->ending_due && !culm_crew_write(&leader->crew, CULM_DEED_STOP, leader->version)) {
        gnn_leader_stop_written(leader);
    }
}

void gnn_leader_stop_written(struct culm_gnn_leader *leader) {
    if (leader->ending_fails) {
        culm_crew_fail(&leader->crew, CULM_ERR_STOPPED, "%s", leader->ending.text);
    } else {
        culm_crew_leave(&leader->crew, culm_status_exit_code(CULM_ERR_STOPPED), &leader->ending);
    }
}
