/*
 * The coordinator: PREPARED and COMMIT, checkpoints, and the end of the run.
 *
 * COMMIT(k) goes out when every holder of the current view is prepared and no copy is under way.
 * Checkpoints are written by one holder of each stage and published here; the last one, and the one
 * a signal asks for, are tried again under every new view until they are whole, while all state is
 * kept.
 */
#include "pipeline/coordinator_internal.h"

#include "base/grow.h"
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ull
#define DISCARD_MS 2000 /* that one waits for those who still write what is given up */

void culm_coordinator_prepared(struct culm_coordinator *c, struct worker *worker,
                               const struct culm_message *message) {
    int32_t params = c->o.layout->param_count;
    double *norm = malloc((size_t)params * sizeof *norm);
    if (!norm) {
        culm_coordinator_fail(c, CULM_ERR_MEMORY, "read PREPARED");
        return;
    }
    struct culm_prepared prepared = {.params = params, .norm = norm};
    if (culm_prepared_decode(message->meta, message->meta_bytes, &prepared) == CULM_OK &&
        c->phase == RUNNING && prepared.view == c->view->number &&
        prepared.iteration == c->iteration) {
        worker->prepared = prepared.stages;
        culm_coordinator_keep_prepared(c, worker, &prepared);
        culm_coordinator_try_commit(c);
    }
    free(norm);
}

static bool all_prepared(const struct culm_coordinator *c) {
    for (int32_t i = 0; i < c->view->node_count; i++) {
        const struct culm_view_node *node = &c->view->node[i];
        const struct worker *worker = culm_coordinator_worker(c, node->id);
        if (!worker->alive || (worker->prepared & node->holds) != node->holds) {
            return false;
        }
    }
    return true;
}

static void step_event(struct culm_coordinator *c, double norm) {
    uint64_t now = culm_coordinator_now(c);
    double seconds = (double)(now - c->step_ns) / 1e9;
    double tokens = (double)(c->o.shape.global_samples * c->o.tokens_per_sample);
    c->step_ns = now;
    culm_stall_round(&c->watch, seconds * 1e3);
    float loss = (float)c->loss;
    uint32_t bits;
    memcpy(&bits, &loss, sizeof bits);
    char text[16];
    snprintf(text, sizeof text, "0x%08x", bits);
    json_int_t first = (json_int_t)culm_run_shape_first_sample(&c->o.shape, c->iteration, 0);
    culm_coordinator_event(
        c, json_pack("{s:s, s:I, s:f, s:s, s:f, s:f, s:f, s:f, s:[I, I]}", "event", "step", "step",
                     (json_int_t)c->iteration, "loss", c->loss, "loss_bits", text, "grad_norm",
                     norm, "lr", c->o.lr ? c->o.lr(c->o.lr_context, c->iteration) : 0.0,
                     "tokens_per_s", seconds > 0 ? tokens / seconds : 0.0, "step_ms", seconds * 1e3,
                     "samples", first, first + (json_int_t)c->o.shape.global_samples - 1));
}

static const char *boundary_reason(const struct culm_coordinator *c, char *text, size_t size) {
    snprintf(text, size, "roles were assigned anew after step %lld", (long long)(c->iteration - 1));
    return text;
}

void culm_coordinator_try_commit(struct culm_coordinator *c) {
    if (c->phase != RUNNING || c->view->phase != CULM_VIEW_RUN || c->transfer_count > 0 ||
        culm_coordinator_last_save(c) || c->iteration > c->o.shape.steps || !all_prepared(c) ||
        !culm_coordinator_agree(c)) {
        return;
    }
    double sum = 0;
    for (int32_t i = 0; i < c->o.layout->param_count; i++) {
        if (!c->norm_known[i]) {
            culm_coordinator_fail(c, CULM_ERR_INTERNAL, "step %lld: parameter %d has no norm",
                                  (long long)c->iteration, i);
            return;
        }
        sum += c->norm[i];
        c->norm_known[i] = false;
    }
    if (c->samples != c->o.shape.global_samples) {
        culm_coordinator_fail(c, CULM_ERR_INTERNAL, "step %lld counted %lld samples, not %lld",
                              (long long)c->iteration, (long long)c->samples,
                              (long long)c->o.shape.global_samples);
        return;
    }
    if (!isfinite(sum) || !isfinite(c->loss)) {
        culm_coordinator_fail(c, CULM_ERR_CONFIG,
                              "step %lld: the loss or a gradient is not finite (loss %g); lower "
                              "optimizer.lr or set optimizer.clip_norm",
                              (long long)c->iteration, c->loss);
        return;
    }
    double norm = sqrt(sum) / c->weight;
    double limit =
        c->o.clip_norm ? c->o.clip_norm(c->o.lr_context, c->iteration) : c->o.shape.clip_norm;
    double clip = limit > 0 && norm + 1e-6 > limit ? limit / (norm + 1e-6) : 1.0;
    clip /= c->weight;
    const struct culm_commit commit = {
        .view = c->view->number, .iteration = c->iteration, .clip = clip, .loss = c->loss};
    culm_commit_encode(&commit, culm_coordinator_meta(c));
    for (int32_t i = 0; i < c->view->node_count; i++) {
        culm_coordinator_send(c, c->view->node[i].id, CULM_MSG_COMMIT);
    }
    uint64_t first = culm_run_shape_first_sample(&c->o.shape, c->iteration, 0);
    culm_ledger_commit(c->ledger, c->iteration, first,
                       first + (uint64_t)c->o.shape.global_samples - 1);
    step_event(c, norm);
    for (int32_t i = 0; i < c->worker_count; i++) {
        c->worker[i].prepared = 0;
    }
    culm_coordinator_words_stepped(c);
    int64_t step = c->iteration++;
    culm_patience_committed(&c->patience);
    culm_coordinator_got_on(c);
    char reason[CULM_REASON_MAX];
    culm_coordinator_publish(c, true, boundary_reason(c, reason, sizeof reason));
    bool due = c->save_again ||
               (c->o.settings.checkpoint_every > 0 && step % c->o.settings.checkpoint_every == 0);
    if (due || c->stop_requested || step == c->o.shape.steps) {
        culm_coordinator_save(c);
    }
}

/* --- checkpoints --- */

bool culm_coordinator_last_save(const struct culm_coordinator *c) {
    return (c->hold.active || (c->saving.active && c->saving.version == c->iteration - 1)) &&
           (c->stop_requested || c->iteration > c->o.shape.steps);
}

void culm_coordinator_checkpoint_event(struct culm_coordinator *c, int64_t step, const char *path,
                                       bool ok, bool waited, const char *why) {
    json_t *event =
        json_pack("{s:s, s:I, s:o, s:b, s:b}", "event", "checkpoint", "step", (json_int_t)step,
                  "path", culm_json_text(path), "ok", ok, "waited", waited);
    if (why) {
        json_object_set_new(event, "message", culm_json_text(why));
    }
    culm_coordinator_event(c, event);
}

void culm_coordinator_io_start(struct culm_coordinator *c, enum culm_task_kind kind,
                               int64_t version) {
    c->io = (struct culm_task){.kind = kind, .version = version, .exec = c->o.exec};
    c->io.job.execute = culm_task_execute;
    c->io.job.owner = c;
    if (kind == CULM_TASK_PUBLISH) {
        for (int32_t s = 0; s < c->o.shape.stages; s++) {
            c->io_pieces[s] = c->saving.piece[s];
        }
        c->io.pieces = c->io_pieces;
        c->io.piece_count = c->o.shape.stages;
        c->io.weights_only = c->saving.weights;
        memcpy(c->io.text, c->saving.to, sizeof c->saving.to);
    } else if (kind == CULM_TASK_DISCARD) {
        memcpy(c->io.text, c->discard_to, sizeof c->discard_to);
    } else if (kind == CULM_TASK_ROOM) {
        c->io.held = c->hold.active;
        c->io.failed = c->hold.active ? c->hold.failed : true;
    } else if (kind == CULM_TASK_FINISH) {
        snprintf(c->io.text, sizeof c->io.text, "%s", c->checkpoint_path);
    }
    c->io_busy = true;
    c->o.world->ops->io(c->o.world, &c->io.job);
}

void culm_coordinator_give_up_save(struct culm_coordinator *c, const char *why) {
    c->saving.active = false;
    culm_coordinator_checkpoint_event(c, c->saving.version, "", false, false, why);
    culm_coordinator_discard(c, false);
}

void culm_coordinator_discard(struct culm_coordinator *c, bool waits) {
    c->discard_due = true;
    c->discard_ns = waits ? culm_coordinator_now(c) + DISCARD_MS * MS : 0;
    c->discard_version = c->saving.version;
    memcpy(c->discard_to, c->saving.to, sizeof c->discard_to);
    (void)culm_coordinator_discard_if_due(c);
}

bool culm_coordinator_discard_if_due(struct culm_coordinator *c) {
    const bool waits =
        c->saving.out && c->phase == RUNNING && culm_coordinator_now(c) < c->discard_ns;
    if (!c->discard_due || c->io_busy || waits) {
        return false;
    }
    c->discard_due = false;
    culm_coordinator_io_start(c, CULM_TASK_DISCARD, c->discard_version);
    return true;
}

/* Has it tried to write this part, in this attempt, in vain? */
static bool could_not_write(const struct culm_coordinator *c, int32_t id, int32_t stage) {
    const struct worker *worker = culm_coordinator_worker(c, id);
    return worker->unsaved_attempt == c->saving.attempt && (worker->unsaved >> stage & 1);
}

/* -1: nobody is left who could. */
static int32_t writer_of(const struct culm_coordinator *c, int32_t stage) {
    for (int32_t p = 0; p < c->view->pipelines; p++) {
        int32_t owner = c->view->role[p][stage].owner;
        if (owner >= 0 && !could_not_write(c, owner, stage)) {
            return owner;
        }
    }
    for (int32_t i = 0; i < c->view->node_count; i++) {
        const struct culm_view_node *node = &c->view->node[i];
        if ((node->holds >> stage & 1) && !could_not_write(c, node->id, stage)) {
            return node->id;
        }
    }
    return -1;
}

static void order_piece(struct culm_coordinator *c, int32_t stage) {
    c->saving.writer[stage] = writer_of(c, stage);
    if (c->saving.writer[stage] < 0) {
        char why[80];
        snprintf(why, sizeof why, "no worker is left that could write stage %d", stage);
        culm_coordinator_hold(c, CULM_ERR_IO, why);
        return;
    }
    struct culm_save save = {.version = c->saving.version,
                             .attempt = c->saving.attempt,
                             .stage = stage,
                             .weights = c->saving.weights};
    memcpy(save.to, c->saving.to, sizeof save.to);
    c->saving.out |= 1ull << stage;
    culm_save_encode(&save, culm_coordinator_meta(c));
    culm_coordinator_send(c, c->saving.writer[stage], CULM_MSG_SAVE);
}

/* The version that everyone waited for is on disk: leaves (after a stop), or writes the model. */
static void finish(struct culm_coordinator *c) {
    c->hold = (struct hold){0};
    if (c->iteration <= c->o.shape.steps) {
        culm_coordinator_leave(c, 75, NULL);
        return;
    }
    c->phase = FINISHING;
    culm_coordinator_io_start(c, CULM_TASK_FINISH, c->checkpoint_version);
}

void culm_coordinator_save(struct culm_coordinator *c) {
    int64_t version = c->iteration - 1;
    if (c->phase != RUNNING) {
        return; /* the view that was to follow the commit found no copy: a roll-back is under way */
    }
    bool wanted = c->stop_requested || version == c->o.shape.steps;
    if (c->hold.active) {
        culm_coordinator_hold_on(c);
        return;
    }
    c->discard_ns = 0; /* it may be of the same version */
    (void)culm_coordinator_discard_if_due(c);
    c->save_again = c->io_busy && (c->io.kind == CULM_TASK_ROOM || c->io.kind == CULM_TASK_DISCARD);
    if (c->save_again && !wanted) {
        return; /* with the next commit, when room has been made */
    }
    if (c->saving.active || c->io_busy) {
        if (!wanted) {
            culm_coordinator_checkpoint_event(c, version, "", false, false,
                                              "the previous one is still being written");
        }
        return; /* a wanted one follows when that is done */
    }
    if (version == c->checkpoint_version && c->checkpoint_path[0] && wanted) {
        finish(c); /* it is there already */
        return;
    }
    culm_coordinator_save_so(c, false, "");
}

void culm_coordinator_save_so(struct culm_coordinator *c, bool weights, const char *to) {
    c->saving.active = true;
    c->saving.attempt++;
    c->saving.publishing = false;
    c->saving.version = c->iteration - 1;
    c->saving.saved = c->saving.out = 0;
    c->saving.weights = weights;
    snprintf(c->saving.to, sizeof c->saving.to, "%s", to);
    for (int32_t s = 0; s < c->o.shape.stages && c->saving.active; s++) {
        order_piece(c, s);
    }
}

void culm_coordinator_writer_lost(struct culm_coordinator *c, int32_t node) {
    for (int32_t s = 0; s < c->o.shape.stages; s++) {
        c->saving.out &= ~((uint64_t)(c->saving.writer[s] == node) << s);
    }
    if (c->phase != RUNNING || !c->saving.active || c->saving.publishing) {
        return;
    }
    for (int32_t s = 0; s < c->o.shape.stages && c->saving.active; s++) {
        if (c->saving.writer[s] != node || (c->saving.saved >> s & 1)) {
            continue;
        }
        if (!culm_coordinator_last_save(c)) {
            culm_coordinator_give_up_save(c, "a worker was lost while it wrote its part");
            return;
        }
        order_piece(c, s);
    }
    culm_coordinator_settle(c);
}

/* One worker's disk may be full where another's is not. */
static bool another_writer(struct culm_coordinator *c, struct worker *worker, int32_t stage) {
    if (worker->unsaved_attempt != c->saving.attempt) {
        worker->unsaved_attempt = c->saving.attempt;
        worker->unsaved = 0;
    }
    worker->unsaved |= 1ull << stage;
    if (writer_of(c, stage) < 0) {
        return false;
    }
    order_piece(c, stage);
    return true;
}

static void publish_if_whole(struct culm_coordinator *c) {
    uint64_t all = c->o.shape.stages == 64 ? UINT64_MAX : (1ull << c->o.shape.stages) - 1;
    if (c->saving.active && !c->saving.publishing && c->saving.saved == all && !c->io_busy &&
        c->agreed_version >= c->saving.version) {
        c->saving.publishing = true;
        culm_coordinator_io_start(c, CULM_TASK_PUBLISH, c->saving.version);
    }
}

void culm_coordinator_settle(struct culm_coordinator *c) {
    if (c->phase == RUNNING && c->agreed_version < c->iteration - 1 &&
        !culm_coordinator_state_agreed(c)) {
        return;
    }
    if (c->phase == RUNNING) {
        publish_if_whole(c);
        culm_coordinator_try_commit(c);
    }
}

void culm_coordinator_saved(struct culm_coordinator *c, struct worker *worker,
                            const struct culm_message *message) {
    struct culm_saved saved;
    if (culm_saved_decode(message->meta, message->meta_bytes, &saved) != CULM_OK) {
        return;
    }
    struct saving *saving = &c->saving;
    const bool asked = saved.version == saving->version && saved.attempt == saving->attempt &&
                       saved.stage >= 0 && saved.stage < c->o.shape.stages &&
                       saving->writer[saved.stage] == worker->id;
    if (asked) {
        saving->out &= ~(1ull << saved.stage);
    }
    if (asked && !saving->active) {
        culm_coordinator_hold_on(c);
        (void)culm_coordinator_discard_if_due(c);
    }
    if (!asked || !saving->active || saving->publishing) {
        return;
    }
    if (saved.status != CULM_OK) {
        if (culm_coordinator_last_save(c) && another_writer(c, worker, saved.stage)) {
            return;
        }
        if (culm_coordinator_last_save(c)) {
            culm_coordinator_hold(c, saved.status, saved.why);
            return;
        }
        saving->active = false;
        culm_coordinator_checkpoint_event(c, saving->version, "", false, false, saved.why);
        c->room_due = saved.status == CULM_ERR_IO;
        culm_coordinator_discard(c, true);
        return;
    }
    memcpy(saving->piece[saved.stage], saved.piece, sizeof saving->piece[0]);
    saving->saved |= 1ull << saved.stage;
    /* Whether the states agree may have waited for a holder that was lost before this was asked. */
    culm_coordinator_settle(c);
}

static void published(struct culm_coordinator *c) {
    bool last = culm_coordinator_last_save(c);
    if (c->io.job.status != CULM_OK && last) {
        culm_coordinator_hold(c, c->io.job.status, c->io.job.error.text);
        return;
    }
    c->saving.active = c->saving.publishing = false;
    if (c->io.job.status != CULM_OK) {
        culm_coordinator_checkpoint_event(c, c->io.version, "", false, false, c->io.job.error.text);
        c->room_due = c->io.job.status == CULM_ERR_IO;
        return;
    }
    culm_coordinator_note(c);
    if (c->io.weights_only) {
        culm_coordinator_weights_saved(c);
        return;
    }
    if (c->io.version < c->iteration) {
        c->checkpoint_version = c->io.version;
        snprintf(c->checkpoint_path, sizeof c->checkpoint_path, "%.*s",
                 (int)sizeof c->checkpoint_path - 1, c->io.text);
    }
    culm_coordinator_checkpoint_event(c, c->io.version, c->io.text, true, last, NULL);
    if (last) {
        finish(c);
    }
}

static void done(struct culm_coordinator *c) {
    if (c->io.job.status != CULM_OK) {
        culm_coordinator_hold(c, c->io.job.status, c->io.job.error.text);
        return;
    }
    c->hold = (struct hold){0};
    while (c->pending_count > 0) {
        culm_coordinator_recovered(c, &c->pending[--c->pending_count]); /* nothing was left to do */
    }
    struct culm_coordinator_totals totals;
    culm_coordinator_totals(c, &totals);
    double median = culm_median(c->pause_ms, (size_t)c->pause_count); /* sorts */
    double longest = c->pause_count ? c->pause_ms[c->pause_count - 1] : 0;
    culm_coordinator_event(
        c, json_pack("{s:s, s:I, s:f, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:f}", "event",
                     "done", "steps", (json_int_t)(c->iteration - 1), "loss", c->loss,
                     "weights_sha256", c->io.weights, "state_sha256", c->io.state, "losses",
                     (json_int_t)totals.losses, "samples_lost", (json_int_t)totals.samples_lost,
                     "samples_repeated", (json_int_t)totals.samples_repeated, "rollbacks",
                     (json_int_t)totals.rollbacks, "steps_redone", (json_int_t)totals.steps_redone,
                     "pause_ms_median", median, "pause_ms_max", longest));
    culm_coordinator_leave(c, 0, NULL);
}

void culm_coordinator_io_done(struct culm_coordinator *c) {
    c->io_busy = false;
    if (c->phase == ENDED) {
        return;
    }
    enum culm_task_kind kind = c->io.kind;
    if (kind == CULM_TASK_PUBLISH) {
        published(c);
    } else if (kind == CULM_TASK_FINISH) {
        done(c);
    } else if (kind == CULM_TASK_FIND) {
        culm_coordinator_found(c);
    } else if (kind == CULM_TASK_ROOM) {
        culm_coordinator_room(c);
    }
    if (c->phase == ENDED || c->io_busy) {
        return;
    }
    (void)culm_coordinator_discard_if_due(c);
    if (c->rollback_due) {
        char reason[CULM_REASON_MAX];
        snprintf(reason, sizeof reason, "%s", c->rollback_reason);
        culm_coordinator_rollback(c, reason);
        return;
    }
    if (!c->io_busy && !culm_coordinator_stop_if_safe(c)) {
        culm_coordinator_find_if_due(c);
    }
    if (c->io_busy || c->phase == ENDED) {
        return;
    }
    if (c->room_due && !c->discard_due && c->phase == RUNNING && !c->saving.active &&
        !c->hold.active) {
        c->room_due = false;
        culm_coordinator_io_start(c, CULM_TASK_ROOM, c->iteration - 1);
        return;
    }
    publish_if_whole(c);
    if (!c->saving.active && !c->io_busy &&
        (c->stop_requested || c->iteration > c->o.shape.steps)) {
        culm_coordinator_save(c); /* wanted while another was being written */
    }
}
