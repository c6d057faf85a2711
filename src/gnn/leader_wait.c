/*
 * The leader: nodes that are missing. See leader.h.
 *
 * A lost node is replaced after replace_ms, or never. A run cannot go on without a server, cannot
 * begin before all servers and parameter servers are there, and cannot end before a parameter
 * server has saved what was committed last. It waits wait_ms for such a node, and longer for one
 * that is starting; when none can come any more it ends at once. That is so as soon as the last
 * parameter server is lost and is not to be replaced, though servers may have the weights: nobody
 * else could save them.
 */
#include "gnn/leader_internal.h"

#include <stdio.h>
#include <string.h>

#define MS 1000000ull

/* --- replacements --- */

void culm_gnn_leader_vacate(struct culm_gnn_leader *leader, uint32_t role) {
    struct gnn_vacancies *vacant = &leader->vacant[role];
    int64_t after_ms = leader->o.settings.replace_ms;
    if (after_ms < 0) {
        vacant->never++;
    } else if (after_ms > 0 && vacant->count < CULM_GNN_NODES_MAX) {
        vacant->due_ns[vacant->count++] = culm_gnn_leader_now(leader) + (uint64_t)after_ms * MS;
    }
}

int32_t culm_gnn_leader_vacant(struct culm_gnn_leader *leader, uint32_t role) {
    struct gnn_vacancies *vacant = &leader->vacant[role];
    uint64_t now = culm_gnn_leader_now(leader);
    int32_t due = 0;
    while (due < vacant->count && vacant->due_ns[due] <= now) { /* the earliest are first */
        due++;
    }
    vacant->count -= due;
    memmove(vacant->due_ns, vacant->due_ns + due, (size_t)vacant->count * sizeof *vacant->due_ns);
    return vacant->never + vacant->count;
}

/* --- who is missing --- */

static int32_t there(const struct culm_gnn_leader *leader, uint32_t role) {
    int32_t count = 0;
    for (int32_t s = 0; s < leader->o.settings.count[role]; s++) {
        count += leader->slot[role][s] >= 0;
    }
    return count;
}

/* How many nodes of the role it takes: before the first view, all that have not been lost for good;
 * later, one. */
static int32_t needed(const struct culm_gnn_leader *leader, uint32_t role) {
    int32_t left = leader->o.settings.count[role] - leader->vacant[role].never;
    return leader->view.number == 0 && left > 1 ? left : 1;
}

bool culm_gnn_leader_all_there(const struct culm_gnn_leader *leader) {
    for (uint32_t r = 0; r <= CULM_GNN_PARAMETER; r++) {
        bool full = there(leader, r) == leader->o.settings.count[r];
        if (!full && (there(leader, r) < needed(leader, r) || leader->starting[r] > 0)) {
            return false;
        }
    }
    return true;
}

static bool is_saved(const struct culm_gnn_leader *leader) {
    return leader->saved_version == leader->version && leader->saved_path[0];
}

/* Whether the role has anything left to do before the run ends. */
static bool has_to_do(const struct culm_gnn_leader *leader, uint32_t role) {
    bool over = leader->view.number > 0 && culm_gnn_leader_is_over(leader);
    return !over || (role == CULM_GNN_SERVER ? !leader->evaluated : !is_saved(leader));
}

/* Whether the run stands still until another node of the role joins. */
static bool lacks(const struct culm_gnn_leader *leader, uint32_t role) {
    if (leader->view.number == 0) {
        return there(leader, role) < needed(leader, role);
    }
    bool now = role == CULM_GNN_SERVER || !has_to_do(leader, CULM_GNN_SERVER);
    return now && has_to_do(leader, role) && there(leader, role) == 0;
}

/* Whether none of the role is left, and none will be started. */
static bool forsaken(const struct culm_gnn_leader *leader, uint32_t role) {
    return there(leader, role) == 0 && leader->starting[role] == 0 && has_to_do(leader, role) &&
           leader->vacant[role].never >= leader->o.settings.count[role];
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

/* Ends the run if a node that it needs cannot join any more. */
static bool give_up(struct culm_gnn_leader *leader, uint32_t role) {
    char resume[CULM_GNN_PATH_MAX + 64];
    bool from_elsewhere = role == CULM_GNN_SERVER && leader->o.settings.newcomers;
    if (!forsaken(leader, role) || (from_elsewhere && !leader->stopping)) {
        return false;
    }
    say_resume(leader, resume, sizeof resume);
    if (from_elsewhere) {
        culm_gnn_leader_fail(leader, CULM_ERR_STOPPED, "stopped while it waited for a server; %s",
                             resume);
    } else {
        culm_gnn_leader_fail(leader, CULM_ERR_IO,
                             "the last %s was lost, and none replaces it, since "
                             "cluster.replace_ms is -1; %s",
                             name_of(role), resume);
    }
    return true;
}

/* The run has waited for too long. */
static void fail(struct culm_gnn_leader *leader, uint32_t role) {
    static const char *const keys[] = {"servers", "parameter_servers"};
    char what[CULM_GNN_PATH_MAX + 64];
    if (leader->view.number == 0) {
        snprintf(what, sizeof what, "start more, or lower %s", keys[role]);
    } else {
        say_resume(leader, what, sizeof what);
    }
    culm_gnn_leader_fail(leader, CULM_ERR_IO, "waited %lld ms for %ss and have only %d of %d; %s",
                         (long long)leader->o.settings.wait_ms, name_of(role), there(leader, role),
                         needed(leader, role), what);
}

/* The run waits for one of the role from now on. */
static void begin_to_wait(struct culm_gnn_leader *leader, uint32_t role) {
    int64_t wait_ms = leader->o.settings.wait_ms;
    if (wait_ms > 0) {
        leader->wait_ns[role] = culm_gnn_leader_now(leader) + (uint64_t)wait_ms * MS;
    }
    leader->waits[role] = true;
    culm_gnn_leader_publish(leader,
                            json_pack("{s:s, s:s, s:i, s:i}", "event", "waiting", "role",
                                      culm_gnn_role_name(role), "need", (int)needed(leader, role),
                                      "have", (int)there(leader, role)));
}

void culm_gnn_leader_arm(struct culm_gnn_leader *leader) {
    uint64_t now = culm_gnn_leader_now(leader), next = CULM_NEVER;
    next = leader->hold.active ? leader->hold.again_ns : next;
    for (int r = 0; r < CULM_GNN_ROLES; r++) {
        const struct gnn_vacancies *vacant = &leader->vacant[r];
        uint64_t wait_ns = leader->wait_ns[r];
        next = vacant->count > 0 && vacant->due_ns[0] < next ? vacant->due_ns[0] : next;
        next = wait_ns > now && wait_ns < next ? wait_ns : next;
    }
    if (next != leader->armed_ns) {
        uint64_t delay_ns = next == CULM_NEVER ? CULM_NEVER : next > now ? next - now : 0;
        leader->armed_ns = next;
        leader->o.world->ops->timer(leader->o.world, CULM_GNN_LEADER_DUE, delay_ns);
    }
}

void culm_gnn_leader_wait(struct culm_gnn_leader *leader) {
    for (uint32_t r = 0; r <= CULM_GNN_PARAMETER; r++) {
        if (leader->ended || leader->finishing || give_up(leader, r)) {
            return;
        }
        if (!lacks(leader, r)) {
            leader->waits[r] = false;
            leader->wait_ns[r] = CULM_NEVER;
        } else if (!leader->waits[r]) {
            begin_to_wait(leader, r);
        }
        /* One that starts is on its way, or its end is told; one that opens large data takes its
         * time. */
        if (leader->wait_ns[r] <= culm_gnn_leader_now(leader) && leader->starting[r] == 0) {
            fail(leader, r);
            return;
        }
    }
    culm_gnn_leader_arm(leader);
}

void culm_gnn_leader_due(struct culm_gnn_leader *leader) {
    leader->armed_ns = CULM_NEVER;
    if (!leader->ended) {
        culm_gnn_leader_fill_up(leader);
        culm_gnn_leader_wait(leader);
        culm_gnn_leader_hold_tick(leader);
    }
}
