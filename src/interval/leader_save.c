/*
 * The leader: checkpoints. See leader.h.
 *
 *     due ──▶ SAVE, ahead of the COMMIT ──▶ SAVED ──▶ PUBLISH ──▶ event `checkpoint`
 *      ▲           │ its writer is lost       │         │
 *      └─ DISCARD ◀┘          not written: DISCARD ──▶ ROOM ──▶ once more, given up, or held
 *
 * One holder writes its piece under its own id, the leader publishes it, and nobody else: a holder
 * that is slow, or that nobody waits for any more, touches nothing that is there. One checkpoint is
 * under way at a time: the commit with which the next one is due waits for it. A checkpoint that is
 * due stays due, of whatever version is committed when there is somebody to write it. What nothing
 * comes after is held if it cannot be written (leader_hold.c).
 */
#include "interval/leader_internal.h"

#include "base/json.h"
#include "base/mark.h"
#include "base/room.h"

#include <stdio.h>
#include <string.h>

#define MS 1000000ull

bool gnn_leader_is_saved(const struct culm_gnn_leader *leader) {
    return leader->saved_version == leader->version && leader->saved_path[0];
}

/* Whether nothing is trained after the version that is committed. */
static bool at_the_end(const struct culm_gnn_leader *leader) {
    return leader->view.number > 0 && gnn_leader_is_over(leader) && !leader->view.course.train;
}

static bool is_last(const struct culm_gnn_leader *leader) {
    return leader->saving.version == leader->version && at_the_end(leader);
}

bool gnn_leader_saves(const struct culm_gnn_leader *leader) {
    const struct gnn_saving *saving = &leader->saving;
    return saving->active || leader->io_busy || saving->discard_due || saving->room_due;
}

void gnn_leader_not_saved(struct culm_gnn_leader *leader, const char *why) {
    if (leader->stopping) {
        leader->stop_again_ns = culm_crew_now(&leader->crew) + CULM_ROOM_AGAIN_MS * MS;
    }
    culm_crew_event(&leader->crew,
                    json_pack("{s:s, s:I, s:b, s:b, s:s, s:o}", "event", "checkpoint", "epoch",
                              (json_int_t)leader->saving.version, "ok", 0, "waited",
                              is_last(leader), "path", "", "message", culm_json_text(why)));
}

/* --- orders --- */

bool gnn_leader_order(struct culm_gnn_leader *leader, bool weights, const char *to) {
    struct gnn_saving *saving = &leader->saving;
    const int32_t writer = gnn_leader_saver(leader);
    if (writer < 0) {
        CULM_MARK(interval_nobody_can_save);
        return false; /* it stays due */
    }
    saving->active = true;
    saving->due = saving->written = false;
    saving->order++;
    saving->version = leader->version;
    saving->branch = culm_gnn_past_branch(&leader->past);
    saving->verdict = leader->verdict;
    saving->writer = writer;
    saving->weights = weights;
    struct culm_gnn_save save = {.attempt = leader->view.attempt,
                                 .version = saving->version,
                                 .order = saving->order,
                                 .weights = weights};
    snprintf(save.to, sizeof save.to, "%s", to);
    memcpy(saving->to, save.to, sizeof saving->to);
    culm_gnn_save_encode(&save, culm_crew_meta(&leader->crew));
    culm_crew_send(&leader->crew, writer, CULM_GNN_MSG_SAVE);
    return true;
}

void gnn_leader_save(struct culm_gnn_leader *leader, bool commits) {
    struct gnn_saving *saving = &leader->saving;
    const bool last = at_the_end(leader);
    saving->due = last ? !gnn_leader_is_saved(leader) : saving->due;
    if (saving->due && (last || commits) && !gnn_leader_saves(leader) && !leader->hold.active &&
        !leader->back_due && !leader->crew.left) {
        (void)gnn_leader_order(leader, false, "");
    }
}

void gnn_leader_stop_on(struct culm_gnn_leader *leader) {
    struct culm_gnn_course *course = &leader->view.course;
    if (!leader->stopping || leader->crew.left || leader->committing.epoch > 0 ||
        leader->finishing || leader->view.number == 0 || leader->back_due) {
        return;
    }
    if (leader->version == 0) { /* whatever there is of the first epoch, --resume begins with it */
        CULM_MARK(interval_stopped_in_the_first_epoch);
        gnn_leader_end_stopped(leader, true, "stopped in the first epoch; continue with --resume");
    } else if (at_the_end(leader)) {
        if (!leader->evaluated) {
            CULM_MARK(interval_stopped_before_the_last_evaluation);
            leader->evaluated = true;
            gnn_leader_io_on(leader);
        }
    } else if (gnn_leader_is_saved(leader)) {
        CULM_MARK(interval_stopped_where_it_is_saved);
        course->train = course->evaluate = false; /* the epoch in progress is left */
        leader->evaluated = true;
        gnn_leader_io_on(leader);
    } else if (culm_crew_now(&leader->crew) >= leader->stop_again_ns && !gnn_leader_saves(leader) &&
               gnn_leader_order(leader, false, "")) {
        CULM_MARK(interval_stopped_where_it_can_be_saved);
        leader->stop_again_ns = CULM_NEVER;
    }
}

void gnn_leader_save_cut_off(struct culm_gnn_leader *leader) {
    if (leader->crew.cut_off && !leader->crew.left && !leader->finishing &&
        leader->version > leader->cut_version && !gnn_leader_is_saved(leader) &&
        !gnn_leader_saves(leader) && !leader->hold.active && !leader->back_due &&
        leader->view.number > 0 && gnn_leader_order(leader, false, "")) {
        CULM_MARK(interval_saves_as_it_is_cut_off);
        leader->cut_version = leader->version;
    }
}

static void discard(struct culm_gnn_leader *leader) {
    leader->saving.active = false;
    leader->saving.discard_due = true;
}

void gnn_leader_check_writer(struct culm_gnn_leader *leader) {
    struct gnn_saving *saving = &leader->saving;
    if (!saving->active || saving->written ||
        gnn_leader_is_full(leader, gnn_leader_node(leader, saving->writer))) {
        return;
    }
    if (!is_last(leader)) {
        CULM_MARK(interval_writer_lost_gives_up_a_checkpoint);
        char why[80];
        snprintf(why, sizeof why, "node %d was lost while it wrote it", (int)saving->writer);
        gnn_leader_not_saved(leader, why);
    } else {
        CULM_MARK(interval_writer_lost_another_writes);
    }
    saving->due = !saving->weights;
    leader->cut_version = 0;
    if (leader->hold.active) { /* others hold it still: what became of this try says nothing */
        leader->hold.cut_short = true;
        leader->hold.again_ns = 0;
    }
    leader->hold.weights_tried = leader->hold.weights_tried && !saving->weights;
    discard(leader);
    gnn_leader_io_on(leader);
}

void gnn_leader_forget_saving(struct culm_gnn_leader *leader) {
    struct gnn_saving *saving = &leader->saving;
    saving->due = saving->again = saving->room_due = false;
    const bool published = leader->io_busy && leader->io.kind == CULM_GNN_TASK_PUBLISH;
    if (saving->active && !published) {
        CULM_MARK(interval_checkpoint_is_of_what_is_undone);
        gnn_leader_not_saved(leader, "the run goes back to before it");
    }
    if (saving->active) {
        discard(leader);
    }
}

/* --- what comes of them --- */

/* It was not written, or not published. What there is of it takes the room of the next one. */
static void failed(struct culm_gnn_leader *leader, enum culm_status status, const char *why) {
    struct gnn_saving *saving = &leader->saving;
    saving->status = status;
    snprintf(saving->why, sizeof saving->why, "%s", why);
    discard(leader);
    if (saving->weights) {
        CULM_MARK(interval_weights_not_written);
    } else if (culm_room_may_pass(status)) {
        saving->room_due = true;
    } else {
        gnn_leader_not_saved(leader, why);
        if (is_last(leader)) {
            gnn_leader_hold(leader, status, why);
        }
    }
}

void gnn_leader_saved(struct culm_gnn_leader *leader, const struct gnn_node *node,
                      const struct culm_message *message) {
    struct gnn_saving *saving = &leader->saving;
    struct culm_gnn_saved saved;
    if (culm_gnn_saved_decode(message->meta, message->meta_bytes, &saved) != CULM_OK) {
        return;
    }
    if (!saving->active || saving->written || saved.order != saving->order ||
        saved.version != saving->version || node->mate.id != saving->writer) {
        CULM_MARK(interval_piece_counts_not);
        return;
    }
    if (saved.status == CULM_OK) {
        saving->written = true;
        memcpy(saving->piece, saved.piece, sizeof saving->piece);
    } else {
        if (saved.status == CULM_ERR_AGAIN) { /* the next version will be committed in a moment */
            CULM_MARK(interval_stopped_too_late_for_that);
            leader->cut_late = leader->crew.cut_off; /* or else it never would be */
            discard(leader);
        } else {
            CULM_MARK(interval_piece_not_written);
            failed(leader, saved.status, saved.why);
        }
    }
    gnn_leader_io_on(leader);
}

static void published(struct culm_gnn_leader *leader) {
    struct gnn_saving *saving = &leader->saving;
    const struct culm_gnn_task *io = &leader->io;
    const bool wanted = saving->active;
    saving->active = false;
    if (io->job.status != CULM_OK && !wanted) {
        CULM_MARK(interval_not_published_before_it_goes_back);
        gnn_leader_not_saved(leader, io->job.error.text);
        return;
    }
    if (io->job.status != CULM_OK) {
        CULM_MARK(interval_checkpoint_not_published);
        failed(leader, io->job.status, io->job.error.text);
        return;
    }
    if (io->weights_only) {
        gnn_leader_hold_weights(leader, io->text);
        return;
    }
    saving->again = false;
    leader->saved_version = io->version;
    leader->saved_verdict = io->verdict;
    snprintf(leader->saved_path, sizeof leader->saved_path, "%s", io->text);
    const bool last = is_last(leader);
    culm_crew_event(&leader->crew,
                    json_pack("{s:s, s:I, s:b, s:b, s:o}", "event", "checkpoint", "epoch",
                              (json_int_t)io->version, "ok", 1, "waited", last || leader->stopping,
                              "path", culm_json_text(io->text)));
    if (last) {
        gnn_leader_hold_over(leader);
    }
}

/* A checkpoint could not be written, and what was in its way may have given way. */
static void made_room(struct culm_gnn_leader *leader) {
    struct gnn_saving *saving = &leader->saving;
    const struct culm_gnn_task *io = &leader->io;
    if (io->held) {
        gnn_leader_hold_room(leader);
    } else if (io->room == CULM_ROOM_ALL && !saving->again) {
        CULM_MARK(interval_older_checkpoints_give_way);
        saving->due = saving->again = true;
        leader->stop_again_ns = 0;
    } else {
        CULM_MARK(interval_checkpoint_not_written);
        saving->again = false;
        gnn_leader_not_saved(leader, io->note[0] ? io->note : saving->why);
    }
}

/* What was found counts from now on. Where checkpoints are kept apart it may be newer: a leader that was cut off from all but them
 * may have saved others since, in whose favour the one that was known of has gone. */
static void take_found(struct culm_gnn_leader *leader) {
    const struct culm_gnn_task *io = &leader->io;
    if (io->job.status != CULM_OK) {
        return;
    }
    leader->seeks = false;
    if (io->version < leader->saved_version) {
        CULM_MARK(interval_checkpoint_is_damaged);
        char why[80];
        snprintf(why, sizeof why, "the checkpoint of epoch %lld is damaged",
                 (long long)leader->saved_version);
        culm_crew_event(&leader->crew,
                        json_pack("{s:s, s:I, s:b, s:b, s:o, s:s}", "event", "checkpoint", "epoch",
                                  (json_int_t)leader->saved_version, "ok", 0, "waited", 0, "path",
                                  culm_json_text(leader->saved_path), "message", why));
    } else if (io->version > leader->saved_version) {
        CULM_MARK(interval_checkpoint_is_newer);
    }
    leader->saved_version = io->version;
    leader->saved_verdict = io->verdict;
    snprintf(leader->saved_path, sizeof leader->saved_path, "%s", io->text);
}

/* The run goes back, or begins anew: with the newest whole checkpoint, or with the initial weights. If it could not be
 * looked for, those who load it say why. */
static void found(struct culm_gnn_leader *leader) {
    take_found(leader);
    if (leader->seeks) {
        /* It could not be looked for, and the initial weights are not to be taken for it. */
        CULM_MARK(interval_checkpoint_is_looked_for_again);
        leader->seek_ns = culm_crew_now(&leader->crew) + CULM_ROOM_AGAIN_MS * MS;
    } else if (leader->back_due) {
        gnn_leader_go_back(leader);
    } else if (leader->begin_sought && !leader->finishing) {
        if (leader->io.seconds > 0) {
            CULM_MARK(interval_bill_of_what_was_before);
            leader->bill.before_usd = leader->io.usd;
            leader->bill.before_s = leader->io.seconds;
        }
        gnn_leader_begin_found(leader);
    }
}

/* --- the leader's own tasks --- */

static void io_start(struct culm_gnn_leader *leader, enum culm_gnn_task_kind kind) {
    const struct gnn_saving *saving = &leader->saving;
    struct culm_gnn_task *io = &leader->io;
    *io = (struct culm_gnn_task){.job = {.execute = culm_gnn_task_execute},
                                 .exec = leader->o.exec,
                                 .kind = kind,
                                 .version = saving->version};
    switch (kind) {
    case CULM_GNN_TASK_PUBLISH:
        io->piece = saving->piece;
        io->verdict = saving->verdict;
        io->branch = saving->branch;
        io->past = leader->past;
        io->weights_only = saving->weights;
        memcpy(io->text, saving->to, sizeof saving->to);
        break;
    case CULM_GNN_TASK_DISCARD: memcpy(io->text, saving->to, sizeof saving->to); break;
    case CULM_GNN_TASK_ROOM: io->held = is_last(leader); break;
    case CULM_GNN_TASK_FIND:
        io->version = leader->seeks ? INT64_MAX - 1 : leader->saved_version;
        io->past = leader->past;
        io->anew = leader->begin_sought;
        break;
    default: /* FINISH */
        io->version = leader->version;
        snprintf(io->text, sizeof io->text, "%s", leader->saved_path);
        break;
    }
    leader->io_busy = true;
    leader->o.world->ops->io(leader->o.world, &io->job);
}

/* Starts FINISH if training is over, evaluated and saved. */
static void finish_if_done(struct culm_gnn_leader *leader) {
    if (!leader->finishing && leader->evaluated && gnn_leader_is_over(leader) &&
        gnn_leader_is_saved(leader)) {
        leader->finishing = leader->crew.closing = true;
        io_start(leader, CULM_GNN_TASK_FINISH);
    }
}

void gnn_leader_io_on(struct culm_gnn_leader *leader) {
    struct gnn_saving *saving = &leader->saving;
    if (leader->io_busy || leader->crew.left || leader->finishing || leader->back_found) {
        return;
    }
    if (saving->discard_due) {
        saving->discard_due = false;
        io_start(leader, CULM_GNN_TASK_DISCARD);
    } else if (leader->seeks && culm_crew_now(&leader->crew) < leader->seek_ns) {
        return;
    } else if (leader->begin_sought ||
               (leader->back_due && (leader->saved_path[0] || leader->seeks))) {
        io_start(leader, CULM_GNN_TASK_FIND);
    } else if (leader->back_due) {
        gnn_leader_go_back(leader); /* to the initial weights */
    } else if (saving->room_due) {
        saving->room_due = false;
        io_start(leader, CULM_GNN_TASK_ROOM);
    } else if (saving->active && saving->written) {
        io_start(leader, CULM_GNN_TASK_PUBLISH);
    } else {
        gnn_leader_save(leader, false);
        finish_if_done(leader);
    }
}

void gnn_leader_job_done(struct culm_gnn_leader *leader, struct culm_job *job) {
    (void)job;
    leader->io_busy = false;
    if (leader->crew.left) {
        return;
    }
    switch (leader->io.kind) {
    case CULM_GNN_TASK_PUBLISH: published(leader); break;
    case CULM_GNN_TASK_ROOM: made_room(leader); break;
    case CULM_GNN_TASK_FIND: found(leader); break;
    case CULM_GNN_TASK_FINISH: gnn_leader_finished(leader); break;
    default: break; /* DISCARD: what is left of it goes with the next one */
    }
    gnn_leader_io_on(leader);
    gnn_leader_go_on(leader); /* a commit may have waited for this */
    gnn_leader_stop_on(leader);
    gnn_leader_save_cut_off(leader);
}
