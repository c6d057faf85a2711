/*
 * The leader: measures how long it takes to recover from a loss (event `recovered`). See leader.h.
 *
 * The pause after the loss of a server ends when each of its intervals has been DONE by its new
 * owner; that of a parameter server, when all holders of the view have the state. Workers have no
 * pause: others do their tasks at once.
 *
 * What a lost server had done of uncommitted epochs has to be repeated. How much that was is known
 * for epochs that it had reported DONE, and for others from the rows that it had sent. What a
 * roll-back repeats is not counted here; the event `rollback` tells how far it went.
 */
#include "base/grow.h"
#include "base/mark.h"
#include "interval/leader_internal.h"

#define MS 1e6

/* Ends a pause; the last one takes its place in the list. */
static void recovered(struct culm_gnn_leader *leader, int32_t index) {
    struct gnn_pause pause = leader->pause[index];
    double ms = (double)(culm_crew_now(&leader->crew) - pause.since_ns) / MS;
    const char *source = pause.attempt != leader->view.attempt ? "checkpoint" : "peer";
    leader->pause[index] = leader->pause[--leader->pause_count];
    culm_crew_event(&leader->crew,
                    json_pack("{s:s, s:i, s:s, s:s, s:f, s:I}", "event", "recovered", "node",
                              (int)pause.node, "role", culm_gnn_role_name(pause.role), "source",
                              source, "pause_ms", ms, "redone_tasks", (json_int_t)pause.redone));
    culm_crew_recovered(&leader->crew, ms);
    culm_set_release(&pause.intervals);
}

bool gnn_leader_pause(struct culm_gnn_leader *leader, const struct gnn_node *node) {
    const struct culm_gnn_view *view = &leader->view;
    struct gnn_pause pause = {.node = node->mate.id,
                              .role = node->mate.role,
                              .since_ns = culm_crew_now(&leader->crew),
                              .attempt = view->attempt,
                              .view = view->number};
    bool there = true;
    for (int32_t i = 0; i < leader->o.layout->intervals && view->number > 0; i++) {
        there = there && (view->owner[i] != node->mate.id || culm_set_add(&pause.intervals, i));
    }
    bool counts = node->mate.role == CULM_GNN_SERVER
                      ? !culm_set_is_empty(&pause.intervals)
                      : node->mate.role == CULM_GNN_PARAMETER && node->holder;
    if (!counts || !there ||
        !CULM_GROW(leader->pause, leader->pause_capacity, leader->pause_count + 1)) {
        culm_set_release(&pause.intervals);
        return false;
    }
    leader->pause[leader->pause_count++] = pause;
    return true;
}

static int64_t steps_of(const struct culm_gnn_leader *leader, int64_t epoch) {
    const struct culm_gnn_layout *layout = leader->o.layout;
    const struct culm_gnn_course course = epoch == leader->view.course.epoch
                                              ? leader->view.course
                                              : gnn_leader_course(leader, epoch - 1);
    return (course.train ? layout->train_steps : 0) +
           (course.evaluate ? layout->steps - layout->train_steps : 0);
}

/* How many steps of the interval its previous owner is known to have done in this epoch and later
 * ones. */
static int64_t done_before(const struct culm_gnn_leader *leader, const struct culm_gnn_done *done) {
    int64_t steps = 0;
    for (int32_t w = 0; w < leader->window; w++) {
        const struct gnn_done *before = &leader->done[w];
        if (before->epoch >= done->epoch && before->there[done->interval]) {
            steps += steps_of(leader, before->epoch);
        }
    }
    return done->redone > steps ? done->redone : steps;
}

void gnn_leader_pause_done(struct culm_gnn_leader *leader, const struct culm_gnn_done *done) {
    for (int32_t p = leader->pause_count - 1; p >= 0; p--) {
        struct gnn_pause *pause = &leader->pause[p];
        if (!culm_set_has(&pause->intervals, done->interval)) {
            continue;
        }
        culm_set_remove(&pause->intervals, done->interval);
        pause->redone += pause->attempt == leader->view.attempt ? done_before(leader, done) : 0;
        if (culm_set_is_empty(&pause->intervals)) {
            CULM_MARK(interval_server_is_recovered);
            recovered(leader, p);
        }
    }
}

void gnn_leader_pause_held(struct culm_gnn_leader *leader) {
    const struct culm_gnn_view *view = &leader->view;
    for (int32_t h = 0; h < view->holder_count; h++) {
        const struct gnn_node *node = gnn_leader_node(leader, view->holder[h].node);
        if (!node || !node->holds || node->held.attempt != view->attempt) {
            return;
        }
    }
    for (int32_t p = leader->pause_count - 1; p >= 0; p--) {
        if (leader->pause[p].role == CULM_GNN_PARAMETER && leader->pause[p].view < view->number) {
            CULM_MARK(interval_holder_is_recovered);
            recovered(leader, p);
        }
    }
}

void gnn_leader_pause_end(struct culm_gnn_leader *leader) {
    while (leader->pause_count > 0) {
        CULM_MARK(interval_recovered_at_the_end);
        recovered(leader, leader->pause_count - 1); /* nothing is left to be done */
    }
}
