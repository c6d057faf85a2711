/*
 * The coordinator: finished steps that cannot be saved.
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
#include "pipeline/coordinator_internal.h"

#include "base/json.h"
#include "base/room.h"

#include <stdio.h>
#include <string.h>

#define MS 1000000ull

static bool finishing(const struct culm_coordinator *c) { return c->phase == FINISHING; }

static void give_up(struct culm_coordinator *c) {
    const struct hold hold = c->hold;
    c->hold = (struct hold){0};
    if (c->stop_requested && c->iteration <= c->o.shape.steps) {
        culm_coordinator_leave(c, 75, NULL); /* whoever leads says what is lost of it */
    } else if (finishing(c)) {
        culm_coordinator_fail(c, hold.status, "write the final model: %s", hold.why);
    } else {
        char weights[CULM_SOURCE_MAX + 32] = "";
        if (hold.weights[0]) {
            snprintf(weights, sizeof weights, "its weights alone are '%s', and ", hold.weights);
        }
        culm_coordinator_fail(c, hold.status,
                              "the last checkpoint could not be written: %.200s; %s--resume goes "
                              "on from step %lld",
                              hold.why, weights, (long long)c->checkpoint_version);
    }
}

void culm_coordinator_note(struct culm_coordinator *c) {
    if (c->io.note[0]) {
        culm_coordinator_event(
            c, json_pack("{s:s, s:o}", "event", "warning", "message", culm_json_text(c->io.note)));
    }
}

static void tell_held(struct culm_coordinator *c, const char *note) {
    uint64_t now = culm_coordinator_now(c);
    double left_ms = c->hold.until_ns > now ? (double)(c->hold.until_ns - now) / 1e6 : 0;
    culm_coordinator_event(c, json_pack("{s:s, s:I, s:f, s:o}", "event", "held", "step",
                                        (json_int_t)(c->iteration - 1), "for_ms", left_ms,
                                        "message", culm_json_text(note)));
}

void culm_coordinator_hold(struct culm_coordinator *c, enum culm_status status, const char *why) {
    struct hold *hold = &c->hold;
    const bool first = !hold->active;
    const bool news = first || strcmp(hold->why, why) != 0;
    const bool weights = c->saving.active && c->saving.weights;
    hold->weights_next = !first && c->saving.active && !weights && !hold->weights[0];
    if (first) {
        *hold = (struct hold){.active = true,
                              .until_ns =
                                  culm_coordinator_now(c) + (uint64_t)c->o.settings.wait_ms * MS,
                              .look = true};
    }
    hold->status = status;
    snprintf(hold->why, sizeof hold->why, "%s", why);
    hold->failed = status == CULM_ERR_IO; /* nothing gives way for anything else */
    hold->again_ns = culm_coordinator_now(c) + CULM_ROOM_AGAIN_MS * MS;
    if (news && !finishing(c) && !weights) {
        culm_coordinator_checkpoint_event(c, c->iteration - 1, "", false, true, why);
    }
    if (!culm_room_may_pass(status)) {
        give_up(c);
        return;
    }
    if (finishing(c)) {
        hold->look = false;
        if (first) {
            tell_held(c, why);
        }
        return;
    }
    if (!first && !hold->told) { /* there seems to be room, and it fails again */
        hold->told = true;
        tell_held(c, hold->note[0] ? hold->note : why);
    }
    if (c->saving.active) {
        c->saving.active = c->saving.publishing = false;
        culm_coordinator_discard(c, true);
    }
    culm_coordinator_hold_on(c);
}

static void look(struct culm_coordinator *c) {
    c->hold.look = false;
    c->hold.again_ns = culm_coordinator_now(c) + CULM_ROOM_AGAIN_MS * MS;
    culm_coordinator_io_start(c, CULM_TASK_ROOM, c->iteration - 1);
}

void culm_coordinator_hold_on(struct culm_coordinator *c) {
    struct hold *hold = &c->hold;
    if (!hold->active || c->io_busy || c->saving.active || (c->phase != RUNNING && !finishing(c))) {
        return;
    }
    if (culm_coordinator_discard_if_due(c) || c->discard_due) {
        return; /* what is still being written takes room */
    }
    if (hold->weights_next && !finishing(c)) {
        hold->weights_next = false;
        culm_coordinator_save_so(c, true, "");
        return;
    }
    if (!hold->look && culm_coordinator_now(c) < hold->again_ns) {
        return;
    }
    if (finishing(c)) {
        hold->again_ns = culm_coordinator_now(c) + CULM_ROOM_AGAIN_MS * MS;
        culm_coordinator_io_start(c, CULM_TASK_FINISH, c->checkpoint_version);
    } else {
        look(c);
    }
}

void culm_coordinator_room(struct culm_coordinator *c) {
    struct hold *hold = &c->hold;
    char to[CULM_SOURCE_MAX];
    snprintf(to, sizeof to, "%.*s", (int)sizeof to - 1, c->io.text);
    if (!hold->active) {
        culm_coordinator_note(c);
        c->save_again = c->io.room == CULM_ROOM_ALL;
        return;
    }
    if (c->phase != RUNNING) {
        return; /* a roll-back has begun, which ends what is held */
    }
    const enum culm_room_for room = c->io.room;
    hold->again_ns = culm_coordinator_now(c) + CULM_ROOM_AGAIN_MS * MS;
    memcpy(hold->note, c->io.note, sizeof hold->note);
    if (room != CULM_ROOM_ALL && !hold->told) {
        hold->told = true;
        tell_held(c, hold->note);
    }
    hold->failed = false;
    if (room == CULM_ROOM_ALL) {
        culm_coordinator_save_so(c, false, to);
    } else if (room == CULM_ROOM_WEIGHTS && !hold->weights[0]) {
        culm_coordinator_save_so(c, true, "");
    }
}

void culm_coordinator_weights_saved(struct culm_coordinator *c) {
    if (c->hold.active) {
        snprintf(c->hold.weights, sizeof c->hold.weights, "%.*s", CULM_SOURCE_MAX - 1, c->io.text);
    }
    culm_coordinator_event(c, json_pack("{s:s, s:I, s:o}", "event", "weights", "step",
                                        (json_int_t)c->io.version, "path",
                                        culm_json_text(c->io.text)));
}

void culm_coordinator_hold_tick(struct culm_coordinator *c, uint64_t now) {
    if (!c->hold.active || c->io_busy || c->saving.active) {
        return;
    }
    if (now >= c->hold.until_ns) {
        give_up(c);
    } else {
        culm_coordinator_hold_on(c);
    }
}

void culm_coordinator_hold_stop(struct culm_coordinator *c) {
    if (c->phase == ENDED) {
        return;
    }
    c->discard_ns = 0;
    (void)culm_coordinator_discard_if_due(c); /* the last save follows it */
    if (c->hold.active) {
        c->hold.look = true;
        culm_coordinator_hold_on(c);
        c->hold.until_ns = culm_coordinator_now(c);
    }
}
