/*
 * The leader: a version that is committed and cannot be saved. See leader.h.
 *
 * The last checkpoint and the final model hold what is nowhere else. When there is no room for
 * them, holders keep the state, no epoch follows, and the saver, or FINISH, is asked again every
 * two seconds until wait_ms have passed. What takes less room, which older checkpoints give way and
 * where else it may go is the executor's. This is no failure of a node, and counts for none of the
 * limits on these.
 */
#include "gnn/leader_internal.h"

#include "base/json.h"
#include "base/room.h"

#include <stdio.h>

#define MS 1000000ull

static void give_up(struct culm_gnn_leader *leader) {
    const struct gnn_hold hold = leader->hold;
    leader->hold.active = false;
    if (leader->finishing) {
        culm_gnn_leader_fail(leader, hold.status, "%s", hold.why);
    } else if (leader->stopping && leader->version < leader->o.settings.pace.epochs &&
               !leader->verdict.enough) {
        struct culm_error error; /* whoever launched the run says what is lost of it */
        culm_error_set(&error, CULM_ERR_STOPPED, "stopped after epoch %lld",
                       (long long)leader->version);
        culm_gnn_leader_meta(leader);
        culm_gnn_leader_send_all(leader, CULM_GNN_MSG_END);
        leader->ended = true;
        leader->o.world->ops->leave(leader->o.world, culm_status_exit_code(CULM_ERR_STOPPED),
                                    &error);
    } else {
        culm_gnn_leader_fail(leader, hold.status, "the last checkpoint could not be written: %s",
                             hold.why);
    }
}

void culm_gnn_leader_hold(struct culm_gnn_leader *leader, enum culm_status status,
                          const char *why) {
    struct gnn_hold *hold = &leader->hold;
    const uint64_t now = culm_gnn_leader_now(leader);
    const int64_t wait_ms = leader->o.settings.wait_ms;
    const bool first = !hold->active;
    if (first) {
        *hold = (struct gnn_hold){
            .active = true, .until_ns = wait_ms > 0 ? now + (uint64_t)wait_ms * MS : CULM_NEVER};
    }
    hold->again_ns = now + CULM_ROOM_AGAIN_MS * MS;
    hold->status = status;
    snprintf(hold->why, sizeof hold->why, "%s", why);
    if (!culm_room_may_pass(status)) {
        give_up(leader);
        return;
    }
    culm_gnn_leader_arm(leader);
    if (first) {
        culm_gnn_leader_publish(leader, json_pack("{s:s, s:I, s:f, s:o}", "event", "held", "epoch",
                                                  (json_int_t)leader->version, "for_ms",
                                                  (double)wait_ms, "message", culm_json_text(why)));
    }
}

void culm_gnn_leader_hold_over(struct culm_gnn_leader *leader) {
    leader->hold = (struct gnn_hold){0};
}

void culm_gnn_leader_hold_tick(struct culm_gnn_leader *leader) {
    struct gnn_hold *hold = &leader->hold;
    const uint64_t now = culm_gnn_leader_now(leader);
    if (!hold->active || leader->ended || now < hold->again_ns) {
        return;
    }
    if (now >= hold->until_ns) {
        give_up(leader);
        return;
    }
    hold->again_ns = now + CULM_ROOM_AGAIN_MS * MS;
    if (leader->finishing) {
        culm_gnn_leader_finish_again(leader);
    } else {
        culm_gnn_leader_save_again(leader);
    }
    if (!leader->ended) {
        culm_gnn_leader_arm(leader);
    }
}

void culm_gnn_leader_hold_stop(struct culm_gnn_leader *leader) {
    if (leader->hold.active && !leader->ended) {
        if (leader->hold.again_ns != CULM_NEVER) { /* else a try is under way */
            leader->hold.again_ns = 0;
            culm_gnn_leader_hold_tick(leader);
        }
        leader->hold.until_ns = culm_gnn_leader_now(leader);
    }
}
