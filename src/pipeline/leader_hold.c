/*
 * The leader: finished steps that cannot be saved.
 *
 * The last checkpoint, the one that a stop asks for, and the final model are nothing that a run may
 * give up lightly: what they hold is nowhere else. So the version is *held*. Its nodes keep the
 * state, nothing is committed, and saving is tried again until wait_ms have passed since it first
 * failed:
 *
 *     a save fails ─▶ DISCARD ─▶ ROOM ─┬─ for all of it: save ──▶ done
 *          ▲                           ├─ for the weights: save these, once
 *          └──── every two seconds ───┴─ for nothing
 *
 * How much room there is, which older checkpoints give way, and whether somebody has named another
 * folder, is what the executor of ROOM finds out. A failure here is nobody's fault among the nodes,
 * and counts for none of the limits on failures.
 */
#include "pipeline/leader_internal.h"

#include "base/json.h"
#include "base/mark.h"
#include "base/room.h"

#include <stdio.h>
#include <string.h>

#define MS 1000000ull

static bool finishing(const struct culm_pipeline_leader *leader) {
    return leader->phase == FINISHING;
}

static void give_up(struct culm_pipeline_leader *leader) {
    const struct hold hold = leader->hold;
    leader->hold = (struct hold){0};
    if (leader->stop_requested && leader->iteration <= leader->o.shape.steps) {
        CULM_MARK(pipeline_held_and_stopped);
        leader_leave_stopped(leader); /* whoever leads says what is lost of it */
    } else if (finishing(leader)) {
        CULM_MARK(pipeline_model_is_given_up);
        culm_crew_fail(&leader->crew, hold.status, "write the final model: %s", hold.why);
    } else {
        CULM_MARK(pipeline_last_checkpoint_is_given_up);
        char weights[CULM_SOURCE_MAX + 32] = "";
        if (hold.weights[0]) {
            CULM_MARK(pipeline_weights_alone_are_left);
            snprintf(weights, sizeof weights, "its weights alone are '%s', and ", hold.weights);
        }
        culm_crew_fail(&leader->crew, hold.status,
                       "the last checkpoint could not be written: %.200s; %s--resume goes "
                       "on from step %lld",
                       hold.why, weights, (long long)leader->checkpoint_version);
    }
}

void leader_note(struct culm_pipeline_leader *leader) {
    if (leader->io.note[0]) {
        culm_crew_event(&leader->crew, json_pack("{s:s, s:o}", "event", "warning", "message",
                                                 culm_json_text(leader->io.note)));
    }
}

static void tell_held(struct culm_pipeline_leader *leader, const char *note) {
    uint64_t now = culm_crew_now(&leader->crew);
    double left_ms = leader->hold.until_ns > now ? (double)(leader->hold.until_ns - now) / 1e6 : 0;
    culm_crew_event(&leader->crew, json_pack("{s:s, s:I, s:f, s:o}", "event", "held", "step",
                                             (json_int_t)(leader->iteration - 1), "for_ms", left_ms,
                                             "message", culm_json_text(note)));
}

void leader_hold(struct culm_pipeline_leader *leader, enum culm_status status, const char *why) {
    struct hold *hold = &leader->hold;
    const bool first = !hold->active;
    const bool news = first || strcmp(hold->why, why) != 0;
    const bool weights = leader->saving.active && leader->saving.weights;
    hold->weights_next = !first && leader->saving.active && !weights && !hold->weights[0];
    if (first) {
        *hold = (struct hold){.active = true,
                              .until_ns = culm_crew_now(&leader->crew) +
                                          (uint64_t)leader->crew.settings.wait_ms * MS,
                              .look = true};
    }
    hold->status = status;
    snprintf(hold->why, sizeof hold->why, "%s", why);
    hold->failed = status == CULM_ERR_IO; /* nothing gives way for anything else */
    hold->again_ns = culm_crew_now(&leader->crew) + CULM_ROOM_AGAIN_MS * MS;
    if (news && !finishing(leader) && !weights) {
        leader_checkpoint_event(leader, leader->iteration - 1, "", false, true, why);
    }
    if (!culm_room_may_pass(status)) {
        CULM_MARK(pipeline_hold_is_no_use);
        give_up(leader);
        return;
    }
    if (finishing(leader)) {
        hold->look = false;
        CULM_MARK(pipeline_model_waits_for_room);
        if (first) {
            tell_held(leader, why);
        }
        return;
    }
    if (!first && !hold->told) { /* there seems to be room, and it fails again */
        CULM_MARK(pipeline_held_though_there_is_room);
        hold->told = true;
        tell_held(leader, hold->note[0] ? hold->note : why);
    }
    if (leader->saving.active) {
        CULM_MARK(pipeline_held);
        leader->saving.active = leader->saving.publishing = false;
        leader_discard(leader, true);
    }
    leader_hold_on(leader);
}

static void look(struct culm_pipeline_leader *leader) {
    leader->hold.look = false;
    leader->hold.again_ns = culm_crew_now(&leader->crew) + CULM_ROOM_AGAIN_MS * MS;
    leader_io_start(leader, CULM_TASK_ROOM, leader->iteration - 1);
}

void leader_hold_on(struct culm_pipeline_leader *leader) {
    struct hold *hold = &leader->hold;
    if (!hold->active || leader->io_busy || leader->saving.active ||
        (leader->phase != RUNNING && !finishing(leader))) {
        return;
    }
    if (leader_discard_if_due(leader) || leader->discard_due) {
        CULM_MARK(pipeline_hold_waits_for_writers);
        return; /* what is still being written takes room */
    }
    if (hold->weights_next && !finishing(leader)) {
        CULM_MARK(pipeline_weights_alone_are_tried);
        hold->weights_next = false;
        leader_save_so(leader, true, "");
        return;
    }
    if (!hold->look && culm_crew_now(&leader->crew) < hold->again_ns) {
        return;
    }
    if (finishing(leader)) {
        hold->again_ns = culm_crew_now(&leader->crew) + CULM_ROOM_AGAIN_MS * MS;
        leader_io_start(leader, CULM_TASK_FINISH, leader->checkpoint_version);
    } else {
        look(leader);
    }
}

void leader_room(struct culm_pipeline_leader *leader) {
    struct hold *hold = &leader->hold;
    char to[CULM_SOURCE_MAX];
    snprintf(to, sizeof to, "%.*s", (int)sizeof to - 1, leader->io.text);
    if (!hold->active) {
        leader_note(leader);
        leader->save_due |= leader->io.room == CULM_ROOM_ALL;
        return;
    }
    const enum culm_room_for room = leader->io.room;
    hold->again_ns = culm_crew_now(&leader->crew) + CULM_ROOM_AGAIN_MS * MS;
    memcpy(hold->note, leader->io.note, sizeof hold->note);
    if (room != CULM_ROOM_ALL && !hold->told) {
        hold->told = true;
        tell_held(leader, hold->note);
    }
    hold->failed = false;
    if (room == CULM_ROOM_ALL) {
        CULM_MARK(pipeline_room_for_all);
        leader_save_so(leader, false, to);
    } else if (room == CULM_ROOM_WEIGHTS && !hold->weights[0]) {
        CULM_MARK(pipeline_room_for_the_weights);
        leader_save_so(leader, true, "");
    }
}

void leader_weights_saved(struct culm_pipeline_leader *leader) {
    if (leader->hold.active) {
        snprintf(leader->hold.weights, sizeof leader->hold.weights, "%.*s", CULM_SOURCE_MAX - 1,
                 leader->io.text);
    }
    culm_crew_event(&leader->crew, json_pack("{s:s, s:I, s:o}", "event", "weights", "step",
                                             (json_int_t)leader->io.version, "path",
                                             culm_json_text(leader->io.text)));
}

void leader_hold_tick(struct culm_pipeline_leader *leader, uint64_t now) {
    if (!leader->hold.active || leader->io_busy || leader->saving.active) {
        return;
    }
    if (now >= leader->hold.until_ns) {
        CULM_MARK(pipeline_held_for_too_long);
        give_up(leader);
    } else {
        leader_hold_on(leader);
    }
}

void leader_hold_stop(struct culm_pipeline_leader *leader) {
    if (leader->phase == ENDED) {
        return;
    }
    leader->discard_ns = 0;
    (void)leader_discard_if_due(leader); /* the last save follows it */
    if (leader->hold.active) {
        CULM_MARK(pipeline_stopped_while_held);
        leader->hold.look = true;
        leader_hold_on(leader);
        leader->hold.until_ns = culm_crew_now(&leader->crew);
    }
}
