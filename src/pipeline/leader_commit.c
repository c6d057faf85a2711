/*
 * The leader: PREPARED and COMMIT, checkpoints, and the end of the run.
 *
 * COMMIT(k) goes out when every holder of the current view is prepared; those who are being sent copies catch up.
 * Checkpoints are written by one holder of each stage and published here; the last one, and the one
 * a signal asks for, are tried again under every new view until they are whole, while all state is
 * kept. Of another one whose writer is lost, the next commit is saved in its place.
 */
#include "pipeline/leader_internal.h"

#include "base/json.h"
#include "base/mark.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ull
#define DISCARD_MS 2000 /* that one waits for those who still write what is given up */

void leader_prepared(struct culm_pipeline_leader *leader, struct worker *worker,
                     const struct culm_message *message) {
    int32_t params = leader->o.layout->param_count;
    const int32_t stages = leader->o.shape.stages;
    double *norm = malloc((size_t)params * sizeof *norm);
    uint64_t *ids = malloc((size_t)stages * sizeof *ids);
    if (!norm || !ids) {
        free(norm);
        free(ids);
        culm_crew_fail(&leader->crew, CULM_ERR_MEMORY, "read PREPARED");
        return;
    }
    struct culm_prepared prepared = {
        .params = params, .of_stages = stages, .norm = norm, .ids = ids};
    if (culm_prepared_decode(message->meta, message->meta_bytes, &prepared) == CULM_OK &&
        leader->phase == RUNNING && prepared.view == leader->view->number &&
        prepared.iteration == leader->iteration) {
        worker->prepared = prepared.stages;
        leader_keep_prepared(leader, worker, &prepared);
        leader_try_commit(leader);
    }
    free(norm);
    free(ids);
}

/* Looks at everyone only when nobody is missing any more. */
static bool all_prepared(struct culm_pipeline_leader *leader) {
    const int32_t count = leader->view->node_count;
    for (int32_t i = 0; i < count; i++) {
        leader->unprepared %= count;
        const struct culm_view_node *node = &leader->view->node[leader->unprepared];
        const struct worker *worker = leader_worker(leader, node->id);
        if (!worker || !worker->mate.alive ||
            !culm_stage_set_within(&node->holds, &worker->prepared)) {
            return false;
        }
        leader->unprepared++;
    }
    return true;
}

/* What everyone can say of a step: a pure function of it. NULL: out of memory. */
static json_t *content_event(const struct culm_pipeline_leader *leader, int64_t step, double loss,
                             double norm) {
    const float single = (float)loss;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    char text[16];
    snprintf(text, sizeof text, "0x%08x", bits);
    const json_int_t first = (json_int_t)culm_run_shape_first_sample(&leader->o.shape, step, 0);
    return json_pack("{s:s, s:I, s:f, s:s, s:f, s:f, s:[I, I]}", "event", "step", "step",
                     (json_int_t)step, "loss", loss, "loss_bits", text, "grad_norm", norm, "lr",
                     leader->o.lr ? leader->o.lr(leader->o.lr_context, step) : 0.0, "samples",
                     first, first + (json_int_t)leader->o.shape.global_samples - 1);
}

static void step_event(struct culm_pipeline_leader *leader, double norm) {
    uint64_t now = culm_crew_now(&leader->crew);
    double seconds = (double)(now - leader->step_ns) / 1e9;
    double tokens = (double)(leader->o.shape.global_samples * leader->o.tokens_per_sample);
    leader->step_ns = now;
    json_t *event = content_event(leader, leader->iteration, leader->loss, norm);
    json_object_set_new(event, "tokens_per_s", json_real(seconds > 0 ? tokens / seconds : 0.0));
    json_object_set_new(event, "step_ms", json_real(seconds * 1e3));
    culm_crew_event(&leader->crew, event);
}

void leader_tell_step_again(struct culm_pipeline_leader *leader, int64_t step,
                            const struct culm_curve_step *told) {
    json_t *event = content_event(leader, step, told->loss, told->norm);
    json_object_set_new(event, "again", json_true());
    culm_crew_event(&leader->crew, event);
}

void leader_note_step(struct culm_pipeline_leader *leader, int64_t step,
                      const struct culm_curve_step *told) {
    if (leader->curve) {
        culm_curve_add(leader->curve, step, told->loss, told->norm);
        culm_curve_cut(leader->curve, leader->checkpoint_version, step);
    }
}

/* One whose copy has come, and that no view has named yet, has not stepped with the holders: it catches up, and says so again. */
static void forget_unnamed(struct culm_pipeline_leader *leader) {
    for (int32_t i = 0; i < leader->crew.mates.count; i++) {
        struct worker *worker = worker_at(leader, i);
        const struct culm_view_node *named = culm_view_find(leader->view, worker->mate.id);
        const struct culm_stage_set holds = named ? named->holds : (struct culm_stage_set){{0}};
        const struct culm_stage_set more = culm_stage_set_minus(&worker->holds, &holds);
        if (!culm_stage_set_empty(&more)) {
            CULM_MARK(pipeline_copy_is_overtaken_by_a_commit);
            worker->holds = culm_stage_set_minus(&worker->holds, &more);
        }
    }
}

static const char *boundary_reason(const struct culm_pipeline_leader *leader, char *text,
                                   size_t size) {
    snprintf(text, size, "roles were assigned anew after step %lld",
             (long long)(leader->iteration - 1));
    return text;
}

/* The sum of all squared norms, in the order of parameters, each of which is used once. False: the
 * step cannot be committed, and the run has failed. */
static bool add_norms(struct culm_pipeline_leader *leader, double *ret_sum) {
    double sum = 0;
    for (int32_t i = 0; i < leader->o.layout->param_count; i++) {
        if (!leader->norm_known[i]) {
            culm_crew_fail(&leader->crew, CULM_ERR_INTERNAL, "step %lld: parameter %d has no norm",
                           (long long)leader->iteration, i);
            return false;
        }
        sum += leader->norm[i];
        leader->norm_known[i] = false;
    }
    if (leader->samples != leader->o.shape.global_samples) {
        culm_crew_fail(&leader->crew, CULM_ERR_INTERNAL, "step %lld counted %lld samples, not %lld",
                       (long long)leader->iteration, (long long)leader->samples,
                       (long long)leader->o.shape.global_samples);
        return false;
    }
    if (!isfinite(sum) || !isfinite(leader->loss)) {
        culm_crew_fail(&leader->crew, CULM_ERR_CONFIG,
                       "step %lld: the loss or a gradient is not finite (loss %g); lower "
                       "optimizer.lr or set optimizer.clip_norm",
                       (long long)leader->iteration, leader->loss);
        return false;
    }
    *ret_sum = sum;
    return true;
}

void leader_try_commit(struct culm_pipeline_leader *leader) {
    if (leader->phase != RUNNING || leader->crew.review_why || leader->crew.cut_off ||
        leader->view->phase != CULM_VIEW_RUN || leader_last_save(leader) ||
        leader->iteration > leader->o.shape.steps || !all_prepared(leader) ||
        !leader_agree(leader)) {
        return;
    }
    double sum;
    if (!add_norms(leader, &sum)) {
        return;
    }
    double norm = sqrt(sum) / leader->weight;
    double limit = leader->o.clip_norm
                       ? leader->o.clip_norm(leader->o.lr_context, leader->iteration)
                       : leader->o.shape.clip_norm;
    double clip = limit > 0 && norm + 1e-6 > limit ? limit / (norm + 1e-6) : 1.0;
    clip /= leader->weight;
    leader->last = (struct culm_content){leader->iteration, clip, leader->loss, norm};
    const struct culm_commit commit = {.view = leader->view->number,
                                       .content = leader->last,
                                       .published = leader->checkpoint_version,
                                       .totals = leader_totals(leader)};
    culm_commit_encode(&commit, culm_crew_meta(&leader->crew));
    for (int32_t i = 0; i < leader->view->node_count; i++) {
        culm_crew_send(&leader->crew, leader->view->node[i].id, CULM_MSG_COMMIT);
    }
    uint64_t first = culm_run_shape_first_sample(&leader->o.shape, leader->iteration, 0);
    culm_ledger_commit(leader->ledger, leader->iteration, first,
                       first + (uint64_t)leader->o.shape.global_samples - 1);
    const double round_ms = (double)(culm_crew_now(&leader->crew) - leader->step_ns) / 1e6;
    step_event(leader, norm);
    for (int32_t i = 0; i < leader->crew.mates.count; i++) {
        worker_at(leader, i)->prepared = (struct culm_stage_set){{0}};
    }
    leader_note_step(leader, leader->iteration, &(struct culm_curve_step){leader->loss, norm});
    forget_unnamed(leader);
    leader_words_stepped(leader);
    leader_stepped_without(leader);
    int64_t step = leader->iteration++;
    culm_crew_committed(&leader->crew, step, round_ms);
    for (int32_t i = 0; i < leader->crew.mates.count; i++) {
        if (culm_crew_at(&leader->crew, i)->alive) {
            culm_crew_worked(&leader->crew, culm_crew_at(&leader->crew, i));
        }
    }
    char reason[CULM_REASON_MAX];
    leader_publish(leader, true, boundary_reason(leader, reason, sizeof reason));
    bool due = leader->save_due || (leader->o.settings.checkpoint_every > 0 &&
                                    step % leader->o.settings.checkpoint_every == 0);
    if (due || leader->stop_requested || step == leader->o.shape.steps) {
        leader_save(leader);
    }
    if (!leader->stop_requested && step < leader->o.shape.steps) {
        culm_crew_boundary(&leader->crew);
    }
}

/* --- checkpoints --- */

bool leader_last_save(const struct culm_pipeline_leader *leader) {
    return (leader->hold.active ||
            (leader->saving.active && leader->saving.version == leader->iteration - 1)) &&
           (leader->stop_requested || leader->iteration > leader->o.shape.steps);
}

void leader_checkpoint_event(struct culm_pipeline_leader *leader, int64_t step, const char *path,
                             bool ok, bool waited, const char *why) {
    json_t *event =
        json_pack("{s:s, s:I, s:o, s:b, s:b}", "event", "checkpoint", "step", (json_int_t)step,
                  "path", culm_json_text(path), "ok", ok, "waited", waited);
    if (why) {
        json_object_set_new(event, "message", culm_json_text(why));
    }
    culm_crew_event(&leader->crew, event);
}

void leader_io_start(struct culm_pipeline_leader *leader, enum culm_task_kind kind,
                     int64_t version) {
    leader->io = (struct culm_task){.kind = kind, .version = version, .exec = leader->o.exec};
    leader->io.job.execute = culm_task_execute;
    leader->io.job.owner = leader;
    leader->io.attempt =
        kind == CULM_TASK_DISCARD ? leader->discard_attempt : leader->saving.attempt;
    if (kind == CULM_TASK_PUBLISH) {
        for (int32_t s = 0; s < leader->o.shape.stages; s++) {
            leader->io_pieces[s] = leader->saving.piece[s];
        }
        leader->io.pieces = leader->io_pieces;
        leader->io.piece_count = leader->o.shape.stages;
        leader->io.weights_only = leader->saving.weights;
        memcpy(leader->io.text, leader->saving.to, sizeof leader->saving.to);
    } else if (kind == CULM_TASK_DISCARD) {
        memcpy(leader->io.text, leader->discard_to, sizeof leader->discard_to);
    } else if (kind == CULM_TASK_ROOM) {
        leader->io.held = leader->hold.active;
        leader->io.failed = leader->hold.active ? leader->hold.failed : true;
    } else if (kind == CULM_TASK_FINISH) {
        snprintf(leader->io.text, sizeof leader->io.text, "%s", leader->checkpoint_path);
    }
    leader->io_busy = true;
    leader->crew.tell.world->ops->io(leader->crew.tell.world, &leader->io.job);
}

void leader_give_up_save(struct culm_pipeline_leader *leader, const char *why) {
    leader->saving.active = false;
    leader_checkpoint_event(leader, leader->saving.version, "", false, false, why);
    leader_discard(leader, false);
}

void leader_discard(struct culm_pipeline_leader *leader, bool waits) {
    leader->discard_due = true;
    leader->discard_ns = waits ? culm_crew_now(&leader->crew) + DISCARD_MS * MS : 0;
    leader->discard_version = leader->saving.version;
    leader->discard_attempt = leader->saving.attempt;
    memcpy(leader->discard_to, leader->saving.to, sizeof leader->discard_to);
    (void)leader_discard_if_due(leader);
}

bool leader_discard_if_due(struct culm_pipeline_leader *leader) {
    const bool waits = !culm_stage_set_empty(&leader->saving.out) && leader->phase == RUNNING &&
                       culm_crew_now(&leader->crew) < leader->discard_ns;
    if (!leader->discard_due || leader->io_busy || waits) {
        return false;
    }
    CULM_MARK(pipeline_save_is_discarded);
    leader->discard_due = false;
    leader_io_start(leader, CULM_TASK_DISCARD, leader->discard_version);
    return true;
}

/* Has it tried to write this part, in this attempt, in vain? */
static bool could_not_write(const struct culm_pipeline_leader *leader, int32_t id, int32_t stage) {
    const struct worker *worker = leader_worker(leader, id);
    return worker->unsaved_attempt == leader->saving.attempt &&
           culm_stage_set_has(&worker->unsaved, stage);
}

/* -1: nobody is left who could. */
static int32_t writer_of(const struct culm_pipeline_leader *leader, int32_t stage) {
    for (int32_t p = 0; p < leader->view->pipelines; p++) {
        int32_t owner = leader->view->role[p][stage].owner;
        if (owner >= 0 && !could_not_write(leader, owner, stage)) {
            return owner;
        }
    }
    for (int32_t i = 0; i < leader->view->node_count; i++) {
        const struct culm_view_node *node = &leader->view->node[i];
        if (culm_stage_set_has(&node->holds, stage) && !could_not_write(leader, node->id, stage)) {
            CULM_MARK(pipeline_piece_is_written_by_no_owner);
            return node->id;
        }
    }
    return -1;
}

static void order_piece(struct culm_pipeline_leader *leader, int32_t stage) {
    leader->saving.writer[stage] = writer_of(leader, stage);
    if (leader->saving.writer[stage] < 0) {
        CULM_MARK(pipeline_piece_has_no_writer);
        char why[80];
        snprintf(why, sizeof why, "no worker is left that could write stage %d", stage);
        leader_hold(leader, CULM_ERR_IO, why);
        return;
    }
    struct culm_save save = {.version = leader->saving.version,
                             .attempt = leader->saving.attempt,
                             .stage = stage,
                             .weights = leader->saving.weights};
    memcpy(save.to, leader->saving.to, sizeof save.to);
    culm_stage_set_add(&leader->saving.out, stage);
    culm_save_encode(&save, culm_crew_meta(&leader->crew));
    culm_crew_send(&leader->crew, leader->saving.writer[stage], CULM_MSG_SAVE);
}

/* The version that everyone waited for is on disk: leaves (after a stop), or writes the model. */
static void finish(struct culm_pipeline_leader *leader) {
    leader->hold = (struct hold){0};
    if (leader->iteration <= leader->o.shape.steps) {
        leader_leave_stopped(leader);
        return;
    }
    leader->phase = FINISHING;
    leader_io_start(leader, CULM_TASK_FINISH, leader->checkpoint_version);
}

void leader_save(struct culm_pipeline_leader *leader) {
    int64_t version = leader->iteration - 1;
    if (leader->phase != RUNNING) {
        CULM_MARK(pipeline_save_while_not_running);
        return; /* the model is being written, or the view after the commit ended the run */
    }
    bool wanted = leader->stop_requested || version == leader->o.shape.steps;
    if (leader->hold.active) {
        CULM_MARK(pipeline_save_of_what_is_held);
        leader_hold_on(leader);
        return;
    }
    leader->discard_ns = 0; /* it may be of the same version */
    (void)leader_discard_if_due(leader);
    leader->save_due = leader->io_busy &&
                       (leader->io.kind == CULM_TASK_ROOM || leader->io.kind == CULM_TASK_DISCARD);
    if (leader->save_due && !wanted) {
        CULM_MARK(pipeline_save_waits_for_room_being_made);
        return; /* with the next commit, when room has been made */
    }
    if (leader->saving.active || leader->io_busy) {
        if (!wanted) {
            CULM_MARK(pipeline_save_is_left_out);
            leader_checkpoint_event(leader, version, "", false, false,
                                    "the previous one is still being written");
        }
        return; /* a wanted one follows when that is done */
    }
    if (version == leader->checkpoint_version && leader->checkpoint_path[0] && wanted) {
        CULM_MARK(pipeline_save_is_there_already);
        finish(leader); /* it is there already */
        return;
    }
    leader_save_so(leader, false, "");
}

/* What was committed last, once: by when it can go on, those who have it may have ended. */
void leader_save_cut_off(struct culm_pipeline_leader *leader) {
    const bool due = leader->crew.cut_off && leader->iteration - 1 > leader->checkpoint_version &&
                     leader->iteration - 1 > leader->cut_off_version;
    if (due && leader->phase == RUNNING && leader->view->phase == CULM_VIEW_RUN &&
        !leader->hold.active && !leader->saving.active && !leader->io_busy &&
        !leader->rollback_due) {
        CULM_MARK(pipeline_saves_as_it_is_cut_off);
        leader->cut_off_version = leader->iteration - 1;
        leader_save(leader);
    }
}

void leader_save_so(struct culm_pipeline_leader *leader, bool weights, const char *to) {
    leader->saving.active = true;
    leader->saving.attempt++;
    leader->saving.publishing = false;
    leader->saving.version = leader->iteration - 1;
    leader->saving.saved = leader->saving.out = (struct culm_stage_set){{0}};
    leader->saving.weights = weights;
    snprintf(leader->saving.to, sizeof leader->saving.to, "%s", to);
    for (int32_t s = 0; s < leader->o.shape.stages && leader->saving.active; s++) {
        order_piece(leader, s);
    }
}

static bool writes(const struct culm_pipeline_leader *leader, int32_t stage) {
    const struct worker *worker = leader_worker(leader, leader->saving.writer[stage]);
    return worker && worker->mate.alive;
}

void leader_writers_lost(struct culm_pipeline_leader *leader) {
    for (int32_t s = 0; s < leader->o.shape.stages; s++) {
        if (!writes(leader, s)) {
            culm_stage_set_remove(&leader->saving.out, s);
        }
    }
    if (leader->phase != RUNNING || !leader->saving.active || leader->saving.publishing) {
        return;
    }
    for (int32_t s = 0; s < leader->o.shape.stages && leader->saving.active; s++) {
        if (leader->saving.writer[s] < 0 || writes(leader, s) ||
            culm_stage_set_has(&leader->saving.saved, s)) {
            continue;
        }
        if (!leader_last_save(leader)) {
            CULM_MARK(pipeline_writer_lost_gives_up_a_save);
            leader->save_due = true;
            leader_give_up_save(leader, "a worker was lost while it wrote its part");
            return;
        }
        CULM_MARK(pipeline_writer_lost_another_writes);
        order_piece(leader, s);
    }
    leader_settle(leader);
}

/* One worker's disk may be full where another's is not. */
static bool another_writer(struct culm_pipeline_leader *leader, struct worker *worker,
                           int32_t stage) {
    if (worker->unsaved_attempt != leader->saving.attempt) {
        worker->unsaved_attempt = leader->saving.attempt;
        worker->unsaved = (struct culm_stage_set){{0}};
    }
    culm_stage_set_add(&worker->unsaved, stage);
    if (writer_of(leader, stage) < 0) {
        return false;
    }
    CULM_MARK(pipeline_piece_is_tried_by_another);
    order_piece(leader, stage);
    return true;
}

static void publish_if_whole(struct culm_pipeline_leader *leader) {
    if (leader->saving.active && !leader->saving.publishing &&
        culm_stage_set_count(&leader->saving.saved) == leader->o.shape.stages && !leader->io_busy &&
        leader->agreed_version >= leader->saving.version) {
        leader->saving.publishing = true;
        leader_io_start(leader, CULM_TASK_PUBLISH, leader->saving.version);
    }
}

void leader_settle(struct culm_pipeline_leader *leader) {
    if (leader->phase == RUNNING && leader->agreed_version < leader->iteration - 1 &&
        !leader_state_agreed(leader)) {
        return;
    }
    if (leader->phase == RUNNING) {
        publish_if_whole(leader);
        leader_try_commit(leader);
    }
}

void leader_saved(struct culm_pipeline_leader *leader, struct worker *worker,
                  const struct culm_message *message) {
    struct culm_saved saved;
    if (culm_saved_decode(message->meta, message->meta_bytes, &saved) != CULM_OK) {
        return;
    }
    struct saving *saving = &leader->saving;
    const bool asked = saved.version == saving->version && saved.attempt == saving->attempt &&
                       saved.stage >= 0 && saved.stage < leader->o.shape.stages &&
                       saving->writer[saved.stage] == worker->mate.id;
    if (asked) {
        culm_stage_set_remove(&saving->out, saved.stage);
    }
    if (asked && !saving->active) {
        CULM_MARK(pipeline_piece_of_a_save_given_up);
        leader_hold_on(leader);
        (void)leader_discard_if_due(leader);
    }
    if (!asked || !saving->active || saving->publishing) {
        CULM_MARK(pipeline_piece_counts_not);
        return;
    }
    if (saved.status != CULM_OK) {
        if (leader_last_save(leader) && another_writer(leader, worker, saved.stage)) {
            return;
        }
        if (leader_last_save(leader)) {
            CULM_MARK(pipeline_piece_nobody_can_write);
            leader_hold(leader, saved.status, saved.why);
            return;
        }
        CULM_MARK(pipeline_piece_not_written);
        saving->active = false;
        leader_checkpoint_event(leader, saving->version, "", false, false, saved.why);
        leader->room_due = saved.status == CULM_ERR_IO;
        leader_discard(leader, true);
        return;
    }
    memcpy(saving->piece[saved.stage], saved.piece, sizeof saving->piece[0]);
    culm_stage_set_add(&saving->saved, saved.stage);
    /* Whether the states agree may have waited for a holder that was lost before this was asked. */
    leader_settle(leader);
}

static void published(struct culm_pipeline_leader *leader) {
    bool last = leader_last_save(leader);
    if (leader->io.job.status != CULM_OK && last) {
        CULM_MARK(pipeline_last_checkpoint_not_published);
        leader_hold(leader, leader->io.job.status, leader->io.job.error.text);
        return;
    }
    leader->saving.active = leader->saving.publishing = false;
    if (leader->io.job.status != CULM_OK) {
        CULM_MARK(pipeline_checkpoint_not_published);
        leader_checkpoint_event(leader, leader->io.version, "", false, false,
                                leader->io.job.error.text);
        leader->room_due = leader->io.job.status == CULM_ERR_IO;
        return;
    }
    leader_note(leader);
    if (leader->io.weights_only) {
        leader_weights_saved(leader);
        return;
    }
    if (leader->io.version < leader->iteration) {
        leader->checkpoint_version = leader->io.version;
        snprintf(leader->checkpoint_path, sizeof leader->checkpoint_path, "%.*s",
                 (int)sizeof leader->checkpoint_path - 1, leader->io.text);
    }
    leader_checkpoint_event(leader, leader->io.version, leader->io.text, true, last, NULL);
    if (last) {
        finish(leader);
    }
}

static void done(struct culm_pipeline_leader *leader) {
    if (leader->io.job.status != CULM_OK) {
        CULM_MARK(pipeline_model_not_written);
        leader_hold(leader, leader->io.job.status, leader->io.job.error.text);
        return;
    }
    leader->hold = (struct hold){0};
    if (!culm_crew_write(&leader->crew, CULM_DEED_DONE, leader->iteration - 1)) {
        leader_done(leader);
    }
}

void leader_leave_stopped(struct culm_pipeline_leader *leader) {
    if (culm_crew_write(&leader->crew, CULM_DEED_STOP, leader->iteration - 1)) {
        leader->phase = FINISHING;
    } else {
        culm_crew_leave(&leader->crew, 75, NULL);
    }
}

void leader_done(struct culm_pipeline_leader *leader) {
    while (leader->pending_count > 0) {
        CULM_MARK(pipeline_recovered_at_the_end);
        leader_recovered(leader,
                         &leader->pending[--leader->pending_count]); /* nothing was left to do */
    }
    struct culm_pipeline_leader_totals totals;
    culm_pipeline_leader_totals_of(leader, &totals);
    double median, longest;
    culm_crew_pauses(&leader->crew, &median, &longest);
    culm_crew_event(
        &leader->crew,
        json_pack("{s:s, s:I, s:f, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:I}", "event",
                  "done", "steps", (json_int_t)(leader->iteration - 1), "loss", leader->loss,
                  "weights_sha256", leader->io.weights, "state_sha256", leader->io.state, "losses",
                  (json_int_t)totals.losses, "samples_lost", (json_int_t)totals.samples_lost,
                  "samples_repeated", (json_int_t)totals.samples_repeated, "rollbacks",
                  (json_int_t)totals.rollbacks, "steps_redone", (json_int_t)totals.steps_redone,
                  "bytes_copied", (json_int_t)leader->copied, "pause_ms_median", median,
                  "pause_ms_max", longest, "leaders", (json_int_t)culm_term_of(leader->o.term)));
    culm_crew_leave(&leader->crew, 0, NULL);
}

void leader_io_done(struct culm_pipeline_leader *leader) {
    leader->io_busy = false;
    if (leader->phase == ENDED) {
        return;
    }
    enum culm_task_kind kind = leader->io.kind;
    if (kind == CULM_TASK_PUBLISH) {
        published(leader);
    } else if (kind == CULM_TASK_FINISH) {
        done(leader);
    } else if (kind == CULM_TASK_FIND) {
        leader_found(leader);
    } else if (kind == CULM_TASK_ROOM) {
        leader_room(leader);
    }
    if (leader->phase == ENDED || leader->io_busy) {
        return;
    }
    (void)leader_discard_if_due(leader);
    if (leader->rollback_due && leader->crew.writing) {
        return;
    }
    if (leader->rollback_due) {
        CULM_MARK(pipeline_rollback_that_waited);
        char reason[CULM_REASON_MAX];
        snprintf(reason, sizeof reason, "%s", leader->rollback_reason);
        leader_rollback(leader, reason);
        return;
    }
    if (!leader->io_busy && !leader_stop_if_safe(leader)) {
        leader_find_if_due(leader);
    }
    if (leader->io_busy || leader->phase == ENDED) {
        return;
    }
    if (leader->room_due && !leader->discard_due && leader->phase == RUNNING &&
        !leader->saving.active && !leader->hold.active) {
        CULM_MARK(pipeline_older_checkpoints_give_way);
        leader->room_due = false;
        leader_io_start(leader, CULM_TASK_ROOM, leader->iteration - 1);
        return;
    }
    publish_if_whole(leader);
    leader_save_cut_off(leader);
    if (!leader->saving.active && !leader->io_busy &&
        (leader->stop_requested || leader->iteration > leader->o.shape.steps)) {
        CULM_MARK(pipeline_save_that_waited);
        leader_save(leader); /* wanted while another was being written */
    }
}
