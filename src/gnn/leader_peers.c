/*
 * The leader: nodes that cannot reach each other. See leader.h.
 *
 * A node that has lost the link to another one says so. If the other one has died, the leader notices
 * that as well; so for suspect_ms it does nothing. If both are still there then, the link between them
 * is broken, and one of them has to go: the one with more such links, since it is rather one node that
 * reaches nobody, such as a newcomer behind a firewall, than all others. If both have as many, it is the
 * newcomer; else the one that joined later, unless the other one has just outlived another such node.
 */
#include "gnn/leader_internal.h"

#include "base/grow.h"

#include <stdio.h>

#define MS 1000000ull
#define FORGET_NS 600000000000ull /* what a node has outlived counts for so long */

void culm_gnn_leader_peer_lost(struct culm_gnn_leader *leader, const struct gnn_node *by,
                               const struct culm_message *message) {
    int32_t peer;
    /* A worker that can no longer reach a node fails by itself: look_for_gone in worker.c. */
    if (culm_gnn_peer_decode(message->meta, message->meta_bytes, &peer) != CULM_OK ||
        by->role == CULM_GNN_WORKER || peer == by->id || !culm_gnn_leader_node(leader, peer)) {
        return;
    }
    for (int32_t b = 0; b < leader->broken_count; b++) {
        const struct gnn_broken *broken = &leader->broken[b];
        if ((broken->a == by->id && broken->b == peer) ||
            (broken->a == peer && broken->b == by->id)) {
            return;
        }
    }
    if (!CULM_GROW(leader->broken, leader->broken_capacity, leader->broken_count + 1)) {
        culm_gnn_leader_fail(leader, CULM_ERR_MEMORY, "out of memory");
        return;
    }
    leader->broken[leader->broken_count++] =
        (struct gnn_broken){by->id, peer, culm_gnn_leader_now(leader)};
}

/* Forgets links of nodes that are gone. */
static void forget(struct culm_gnn_leader *leader) {
    int32_t left = 0;
    for (int32_t b = 0; b < leader->broken_count; b++) {
        const struct gnn_broken *broken = &leader->broken[b];
        if (culm_gnn_leader_node(leader, broken->a) && culm_gnn_leader_node(leader, broken->b)) {
            leader->broken[left++] = *broken;
        }
    }
    leader->broken_count = left;
}

static int32_t links_of(const struct culm_gnn_leader *leader, const struct gnn_node *node) {
    int32_t count = 0;
    for (int32_t b = 0; b < leader->broken_count; b++) {
        count += leader->broken[b].a == node->id || leader->broken[b].b == node->id;
    }
    return count;
}

static int32_t outlived_by(const struct culm_gnn_leader *leader, const struct gnn_node *node) {
    bool lately = culm_gnn_leader_now(leader) - node->outlived_ns < FORGET_NS;
    return lately ? node->outlived : 0;
}

/* Which end goes: `a`? *ret_guess: nothing but age spoke for that. */
static bool rather(const struct culm_gnn_leader *leader, const struct gnn_node *a,
                   const struct gnn_node *b, bool *ret_guess) {
    int32_t more = links_of(leader, a) - links_of(leader, b);
    *ret_guess = false;
    if (more != 0 || a->newcomer != b->newcomer) {
        return more != 0 ? more > 0 : a->newcomer;
    }
    int32_t outlived = outlived_by(leader, a) - outlived_by(leader, b);
    *ret_guess = outlived == 0;
    return outlived == 0 ? culm_gnn_leader_rather(a, b) : outlived > 0;
}

/* One end of a link that has been broken for long enough, which goes, and the other; NULL: there is
 * none. */
static struct gnn_node *blamed(struct culm_gnn_leader *leader, struct gnn_node **ret_other) {
    uint64_t limit = (uint64_t)leader->o.settings.suspect_ms * MS;
    for (int32_t i = 0; i < leader->broken_count; i++) {
        const struct gnn_broken *broken = &leader->broken[i];
        if (culm_gnn_leader_now(leader) - broken->since_ns >= limit) {
            struct gnn_node *a = culm_gnn_leader_node(leader, broken->a);
            struct gnn_node *b = culm_gnn_leader_node(leader, broken->b);
            bool guess, first = rather(leader, a, b, &guess);
            *ret_other = first ? b : a;
            if (guess) {
                (*ret_other)->outlived = outlived_by(leader, *ret_other) + 1;
                (*ret_other)->outlived_ns = culm_gnn_leader_now(leader);
            }
            return first ? a : b;
        }
    }
    return NULL;
}

void culm_gnn_leader_check_links(struct culm_gnn_leader *leader, bool slept) {
    struct gnn_node *node, *other;
    forget(leader);
    for (int32_t b = 0; b < leader->broken_count && slept; b++) {
        leader->broken[b].since_ns = culm_gnn_leader_now(leader);
    }
    while (!leader->ended && (node = blamed(leader, &other))) {
        char why[120];
        snprintf(why, sizeof why, "it and node %d cannot reach each other", other->id);
        culm_gnn_leader_lose(leader, node, "peer", why);
        forget(leader);
    }
}
