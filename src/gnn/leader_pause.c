/*
 * The leader: what a loss costs in time. See leader.h.
 *
 * A server is made up for when one of its intervals is done with an epoch at its new owner; a holder of
 * the weights, when all holders of the view have them. Workers are not: others do their tasks at once.
 */
#include "base/grow.h"
#include "gnn/leader_internal.h"

#define MS 1e6

/* Its loss is made up for: the last one takes its place in the list. */
static void recovered(struct culm_gnn_leader *leader, int32_t index) {
    const struct gnn_pause pause = leader->pause[index];
    double ms = (double)(culm_gnn_leader_now(leader) - pause.since_ns) / MS;
    const char *source = pause.attempt != leader->view.attempt ? "checkpoint" : "peer";
    leader->pause[index] = leader->pause[--leader->pause_count];
    culm_gnn_leader_publish(leader,
                            json_pack("{s:s, s:i, s:s, s:s, s:f}", "event", "recovered", "node",
                                      (int)pause.node, "role", culm_gnn_role_name(pause.role),
                                      "source", source, "pause_ms", ms));
    if (CULM_GROW(leader->paused_ms, leader->paused_capacity, leader->paused_count + 1)) {
        leader->paused_ms[leader->paused_count++] = ms; /* else a statistic less */
    }
}

void culm_gnn_leader_pause(struct culm_gnn_leader *leader, const struct gnn_node *node) {
    const struct culm_gnn_view *view = &leader->view;
    struct gnn_pause pause = {.node = node->id,
                              .role = node->role,
                              .since_ns = culm_gnn_leader_now(leader),
                              .attempt = view->attempt,
                              .view = view->number};
    for (int32_t i = 0; i < leader->o.layout->intervals && view->number > 0; i++) {
        if (view->owner[i] == node->id) {
            culm_gnn_set_add(&pause.intervals, i);
        }
    }
    bool counts = node->role == CULM_GNN_SERVER ? !culm_gnn_set_empty(&pause.intervals)
                                                : node->role == CULM_GNN_PARAMETER && node->holder;
    if (counts && CULM_GROW(leader->pause, leader->pause_capacity, leader->pause_count + 1)) {
        leader->pause[leader->pause_count++] = pause;
    }
}

void culm_gnn_leader_pause_done(struct culm_gnn_leader *leader, int32_t interval) {
    for (int32_t p = leader->pause_count - 1; p >= 0; p--) {
        if (culm_gnn_set_has(&leader->pause[p].intervals, interval)) {
            recovered(leader, p);
        }
    }
}

void culm_gnn_leader_pause_held(struct culm_gnn_leader *leader) {
    const struct culm_gnn_view *view = &leader->view;
    for (int32_t h = 0; h < view->holder_count; h++) {
        const struct gnn_node *node = culm_gnn_leader_node(leader, view->holder[h].node);
        if (!node || !node->holds || node->held.attempt != view->attempt) {
            return;
        }
    }
    for (int32_t p = leader->pause_count - 1; p >= 0; p--) {
        if (leader->pause[p].role == CULM_GNN_PARAMETER && leader->pause[p].view < view->number) {
            recovered(leader, p);
        }
    }
}

void culm_gnn_leader_pause_end(struct culm_gnn_leader *leader) {
    while (leader->pause_count > 0) {
        recovered(leader, leader->pause_count - 1); /* nothing was left to do */
    }
}
