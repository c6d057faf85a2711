/*
 * The leader: a version that is committed and cannot be saved. See leader.h.
 *
 * The last checkpoint and the final model hold what is nowhere else. When there is no room for
 * them, holders keep the state, no epoch follows, and it is tried again every two seconds until
 * wait_ms have passed:
 *
 *     not written ─▶ DISCARD ─▶ ROOM ─┬─ for all of it: SAVE ──▶ published
 *          ▲                          ├─ for the weights: SAVE these, once
 *          └──── every two seconds ───┴─ for nothing
 *
 * Which older checkpoints give way and where else it may go is the executor's. This is no failure
 * of a node, and counts for none of the limits on these.
 */
#include "interval/leader_internal.h"

#include "base/json.h"
#include "base/mark.h"
#include "base/room.h"

#include <stdio.h>
#include <string.h>

#define MS 1000000ull
#define FIXED 48 /* what that message takes besides its reason, and what is left */

/* What there is of a run whose last checkpoint is given up. */
static void say_left(const struct culm_gnn_leader *leader, const struct gnn_hold *hold,
                     char *ret_text, size_t size) {
    char weights[192] = "";
    if (hold->weights[0]) {
        CULM_MARK(interval_weights_alone_are_left);
        snprintf(weights, sizeof weights, "its weights alone are '%.140s', and ", hold->weights);
    }
    if (leader->saved_path[0]) {
        snprintf(ret_text, size, "%s--resume goes on from epoch %lld", weights,
                 (long long)leader->saved_version);
    } else {
        snprintf(ret_text, size, "%s--resume begins anew", weights);
    }
}

static void give_up(struct culm_gnn_leader *leader) {
    const struct gnn_hold hold = leader->hold;
    leader->hold.active = false;
    if (leader->finishing) {
        CULM_MARK(interval_model_is_given_up);
        culm_crew_fail(&leader->crew, hold.status, "write the final model: %s", hold.why);
    } else if (leader->stopping && leader->version < leader->o.settings.pace.epochs &&
               !leader->verdict.enough) {
        CULM_MARK(interval_held_and_stopped);
        /* Whoever launched the run says what is lost of it. */
        gnn_leader_end_stopped(leader, false, "stopped after epoch %lld",
                               (long long)leader->version);
    } else {
        CULM_MARK(interval_last_checkpoint_is_given_up);
        char left[256];
        say_left(leader, &hold, left, sizeof left);
        culm_crew_fail(&leader->crew, hold.status,
                       "the last checkpoint could not be written: %.*s; %s",
                       (int)(CULM_ERROR_MAX - FIXED - strlen(left)), hold.why, left);
    }
}

/* Begins to hold, or goes on to. True: the reason is news. */
static bool hold_on(struct culm_gnn_leader *leader, enum culm_status status, const char *why) {
    struct gnn_hold *hold = &leader->hold;
    const uint64_t now = culm_crew_now(&leader->crew);
    const int64_t wait_ms = leader->crew.settings.wait_ms;
    if (!hold->active) {
        *hold = (struct gnn_hold){
            .active = true, .until_ns = wait_ms > 0 ? now + (uint64_t)wait_ms * MS : CULM_NEVER};
    }
    const bool news = strcmp(hold->why, why) != 0;
    hold->again_ns = now + CULM_ROOM_AGAIN_MS * MS;
    hold->status = status;
    snprintf(hold->why, sizeof hold->why, "%s", why);
    return news;
}

static void tell_held(struct culm_gnn_leader *leader) {
    struct gnn_hold *hold = &leader->hold;
    if (!hold->told) {
        CULM_MARK(interval_held);
        hold->told = true;
        culm_crew_event(&leader->crew, json_pack("{s:s, s:I, s:f, s:o}", "event", "held", "epoch",
                                                 (json_int_t)leader->version, "for_ms",
                                                 (double)leader->crew.settings.wait_ms, "message",
                                                 culm_json_text(hold->why)));
    }
}

void gnn_leader_hold(struct culm_gnn_leader *leader, enum culm_status status, const char *why) {
    (void)hold_on(leader, status, why);
    if (!culm_room_may_pass(status)) {
        CULM_MARK(interval_hold_is_no_use);
        give_up(leader);
    } else {
        tell_held(leader);
    }
}

void gnn_leader_hold_room(struct culm_gnn_leader *leader) {
    const struct gnn_saving *saving = &leader->saving;
    const struct culm_gnn_task *io = &leader->io;
    const enum culm_room_for room = io->room;
    char to[CULM_GNN_PATH_MAX];
    memcpy(to, io->text, sizeof to);
    const char *why = room == CULM_ROOM_ALL || !io->note[0] ? saving->why : io->note;
    const bool news = hold_on(leader, saving->status, why);
    struct gnn_hold *hold = &leader->hold;
    if (room == CULM_ROOM_ALL && !hold->tried) {
        CULM_MARK(interval_room_for_all);
        hold->tried = true; /* if that fails, too, it waits */
        (void)gnn_leader_order(leader, false, to);
        return;
    }
    if (news || !hold->told) {
        CULM_MARK(interval_last_checkpoint_not_written);
        gnn_leader_not_saved(leader, hold->why);
    }
    tell_held(leader);
    if (room == CULM_ROOM_WEIGHTS && !hold->weights_tried) {
        CULM_MARK(interval_room_for_the_weights);
        hold->weights_tried = true;
        (void)gnn_leader_order(leader, true, "");
    }
}

void gnn_leader_hold_weights(struct culm_gnn_leader *leader, const char *path) {
    snprintf(leader->hold.weights, sizeof leader->hold.weights, "%s", path);
    culm_crew_event(&leader->crew,
                    json_pack("{s:s, s:I, s:o}", "event", "weights", "epoch",
                              (json_int_t)leader->version, "path", culm_json_text(path)));
}

void gnn_leader_hold_over(struct culm_gnn_leader *leader) { leader->hold = (struct gnn_hold){0}; }

void gnn_leader_hold_tick(struct culm_gnn_leader *leader) {
    struct gnn_hold *hold = &leader->hold;
    const uint64_t now = culm_crew_now(&leader->crew);
    if (!hold->active || leader->crew.left || now < hold->again_ns || gnn_leader_saves(leader)) {
        return; /* a try that is under way is waited for */
    }
    if (now >= hold->until_ns && !hold->cut_short) {
        CULM_MARK(interval_held_for_too_long);
        give_up(leader);
        return;
    }
    hold->cut_short = false;
    hold->again_ns = now + CULM_ROOM_AGAIN_MS * MS;
    if (leader->finishing) {
        CULM_MARK(interval_model_is_tried_again);
        leader->finishing = leader->crew.closing = false;
    } else {
        CULM_MARK(interval_save_is_tried_again);
        hold->tried = false;
        hold->weights_tried = hold->weights[0];
        leader->saving.room_due = true;
    }
    gnn_leader_io_on(leader);
}

void gnn_leader_hold_stop(struct culm_gnn_leader *leader) {
    if (leader->hold.active && !leader->crew.left) {
        CULM_MARK(interval_stopped_while_held);
        leader->hold.again_ns = 0;
        gnn_leader_hold_tick(leader);
        leader->hold.until_ns = culm_crew_now(&leader->crew);
    }
}
