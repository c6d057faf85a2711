/*
 * The leader: nodes without which the run cannot go on. See leader.h, crew/wait.c.
 *
 * A lost node is replaced after replace_ms, or never. A run cannot go on without a server, cannot
 * begin before all servers and parameter servers are there, and cannot end before somebody who
 * reaches the run's checkpoints has saved what was committed last: a parameter server, or a server
 * that the launcher has started or that has a depot. It waits wait_ms for such a node, and longer
 * for one that is starting; when none can come any more it ends at once.
 */
#include "interval/leader_internal.h"

#include "base/mark.h"

#include <stdio.h>
#include <string.h>

#define STOP_NS                                                                                    \
    10000000000ull /* that a run which is to end waits for those without whom it loses work */

/* --- who is missing --- */

static int32_t there(const struct culm_gnn_leader *leader, uint32_t role) {
    const int32_t count = leader->o.settings.count[role], filled = leader->filled[role];
    return filled < count ? filled : count;
}

/* How many nodes of the role it takes: before the first view, all that have not been lost for good;
 * later, one. */
static int32_t needed(const struct culm_gnn_leader *leader, uint32_t role) {
    int32_t left = leader->o.settings.count[role] - leader->crew.role[role].never;
    return leader->view.number == 0 && left > 1 ? left : 1;
}

bool gnn_leader_all_there(const struct culm_gnn_leader *leader) {
    for (uint32_t r = 0; r <= CULM_GNN_PARAMETER; r++) {
        bool full = there(leader, r) == leader->o.settings.count[r];
        if (!full &&
            (there(leader, r) < needed(leader, r) || culm_crew_coming(&leader->crew, r) > 0)) {
            return false;
        }
    }
    return true;
}

/* Whether the role has anything left to do before the run ends. */
static bool has_to_do(const struct culm_gnn_leader *leader, uint32_t role) {
    bool over = leader->view.number > 0 && gnn_leader_is_over(leader);
    return !over || (role == CULM_GNN_SERVER ? !leader->evaluated : !gnn_leader_is_saved(leader));
}

/* Whether somebody of the role is there, or of another who can do all that the role has to do. A run
 * that has begun needs no parameter server as long as there is a server that can save. */
static bool is_there(const struct culm_gnn_leader *leader, uint32_t role) {
    bool found = there(leader, role) > 0;
    for (int32_t n = 0; n < leader->crew.mates.count && role == CULM_GNN_PARAMETER && !found; n++) {
        const struct gnn_node *node = gnn_node_at(leader, n);
        found = leader->view.number > 0 && node->mate.alive && !node->mate.leaving &&
                node->mate.role == CULM_GNN_SERVER && node->files;
    }
    return found;
}

bool gnn_leader_lacks(const struct culm_crew *crew, uint32_t role) {
    const struct culm_gnn_leader *leader = (const struct culm_gnn_leader *)crew;
    if (role == CULM_GNN_WORKER || leader->finishing || crew->taking) {
        return false;
    }
    if (leader->view.number == 0) {
        return there(leader, role) < needed(leader, role);
    }
    bool now = role == CULM_GNN_SERVER || !has_to_do(leader, CULM_GNN_SERVER) ||
               leader->view.holder_count == 0; /* nobody is left who could load the state */
    return now && has_to_do(leader, role) && !is_there(leader, role);
}

/* Whether none of the role is left, and none will be started. */
static bool forsaken(const struct culm_gnn_leader *leader, uint32_t role) {
    return !is_there(leader, role) && culm_crew_nobody_comes(&leader->crew, role) &&
           has_to_do(leader, role) && leader->crew.role[role].never > 0;
}

/* --- waiting --- */

static const char *name_of(uint32_t role) {
    return role == CULM_GNN_SERVER ? "server" : "parameter server";
}

/* How a run that ends now is resumed. */
static void say_resume(const struct culm_gnn_leader *leader, char *ret_text, size_t size) {
    if (leader->saved_path[0]) {
        snprintf(ret_text, size, "--resume continues from '%s'", leader->saved_path);
    } else {
        snprintf(ret_text, size,
                 "there is no checkpoint yet, so --resume starts from the beginning");
    }
}

/* Ends the run if a node that it needs cannot join any more, or not soon enough after a stop. */
static bool give_up(struct culm_gnn_leader *leader, uint32_t role) {
    const bool stopping = leader->stopping, lacks = gnn_leader_lacks(&leader->crew, role);
    const bool from_elsewhere = role == CULM_GNN_SERVER && leader->o.settings.newcomers;
    if (stopping && lacks) {
        culm_crew_hurry(&leader->crew, role);
    }
    if (stopping && gnn_leader_saves(leader)) {
        return false; /* it may be all that was missing */
    }
    const bool late = stopping && culm_crew_now(&leader->crew) - leader->stop_ns > STOP_NS;
    const bool too_late = late && lacks && leader->crew.role[role].starting == 0;
    const bool in_vain = forsaken(leader, role) &&
                         (stopping ? late || gnn_leader_saver(leader) < 0 : !from_elsewhere);
    if (!too_late && !in_vain) {
        return false;
    }
    char resume[CULM_GNN_PATH_MAX + 64];
    say_resume(leader, resume, sizeof resume);
    if (too_late || from_elsewhere) {
        CULM_MARK(interval_stopped_while_it_waits);
        gnn_leader_end_stopped(leader, true, "stopped while it waited for a %s; %s", name_of(role),
                               resume);
    } else {
        CULM_MARK(interval_last_one_is_lost);
        culm_crew_fail(&leader->crew, CULM_ERR_IO,
                       "the last %s was lost, and none replaces it, since "
                       "cluster.replace_ms is -1; %s",
                       name_of(role), resume);
    }
    return true;
}

void gnn_leader_in_vain(struct culm_crew *crew, uint32_t role) {
    const struct culm_gnn_leader *leader = (const struct culm_gnn_leader *)crew;
    const struct culm_error *why = &crew->role[role].failed;
    const bool failed = why->status != CULM_OK;
    static const char *const keys[] = {"servers", "parameter_servers"};
    char what[CULM_GNN_PATH_MAX + 64];
    if (leader->view.number == 0) {
        snprintf(what, sizeof what, "start more, or lower %s", keys[role]);
    } else {
        say_resume(leader, what, sizeof what);
    }
    culm_crew_fail(crew, culm_crew_vain_status(crew, role),
                   "waited %lld ms for %ss, but only %d of %d are there; %s%s%s",
                   (long long)leader->crew.settings.wait_ms, name_of(role), there(leader, role),
                   needed(leader, role), what, failed ? "; the last one did not start: " : "",
                   failed ? why->text : "");
}

void gnn_leader_wait(struct culm_gnn_leader *leader) {
    for (uint32_t r = 0; r <= CULM_GNN_PARAMETER; r++) {
        if (leader->crew.left || leader->finishing || leader->crew.taking || give_up(leader, r)) {
            return;
        }
        if (gnn_leader_lacks(&leader->crew, r)) {
            culm_crew_wait(&leader->crew, r, needed(leader, r), there(leader, r), NULL);
        } else {
            culm_crew_wait_over(&leader->crew, r);
        }
    }
}
