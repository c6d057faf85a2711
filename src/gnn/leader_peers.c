/*
 * The leader: nodes that cannot reach each other. See leader.h.
 *
 * A node that has lost the link to another one says so. If the other one has died, the leader notices
 * that as well; so for suspect_ms it does nothing. If both are still there then, the link between them
 * is broken, and one of them has to go: the one with more such links, past ones included, since it is
 * rather one node that reaches nobody, such as a newcomer behind a firewall, than all others. If both
 * have as many, it is the newcomer, else the one that joined later.
 */
#include "gnn/leader_internal.h"

#include "base/grow.h"

#include <stdio.h>

#define MS 1000000ull

void culm_gnn_leader_peer_lost(struct culm_gnn_leader *leader, const struct gnn_node *by,
                               const struct culm_message *message) {
    int32_t peer;
    if (culm_gnn_peer_decode(message->meta, message->meta_bytes, &peer) != CULM_OK ||
        by->role == CULM_GNN_WORKER || peer == by->id || !culm_gnn_leader_node(leader, peer)) {
        return; /* a worker that reaches a node no longer fails by itself: look_for_gone in worker.c */
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
    int32_t count = node->outlived;
    for (int32_t b = 0; b < leader->broken_count; b++) {
        count += leader->broken[b].a == node->id || leader->broken[b].b == node->id;
    }
    return count;
}

static bool rather(const struct culm_gnn_leader *leader, const struct gnn_node *a,
                   const struct gnn_node *b) {
    int32_t more = links_of(leader, a) - links_of(leader, b);
    bool tie = a->newcomer == b->newcomer;
    return more != 0 ? more > 0 : tie ? culm_gnn_leader_rather(a, b) : a->newcomer;
}

/* One end of a link that has been broken for long enough; NULL: there is none. */
static struct gnn_node *blamed(struct culm_gnn_leader *leader, struct gnn_broken *ret_broken) {
    uint64_t limit = (uint64_t)leader->o.settings.suspect_ms * MS;
    for (int32_t b = 0; b < leader->broken_count; b++) {
        *ret_broken = leader->broken[b];
        if (culm_gnn_leader_now(leader) - ret_broken->since_ns >= limit) {
            struct gnn_node *one = culm_gnn_leader_node(leader, ret_broken->a);
            struct gnn_node *other = culm_gnn_leader_node(leader, ret_broken->b);
            return rather(leader, one, other) ? one : other;
        }
    }
    return NULL;
}

void culm_gnn_leader_check_links(struct culm_gnn_leader *leader, bool slept) {
    struct gnn_broken broken;
    struct gnn_node *node;
    forget(leader);
    for (int32_t b = 0; b < leader->broken_count && slept; b++) {
        leader->broken[b].since_ns = culm_gnn_leader_now(leader);
    }
    while (!leader->ended && (node = blamed(leader, &broken))) {
        char why[120];
        int32_t other = node->id == broken.a ? broken.b : broken.a;
        snprintf(why, sizeof why, "it and node %d cannot reach each other", other);
        culm_gnn_leader_node(leader, other)->outlived++;
        culm_gnn_leader_lose(leader, node, "peer", why);
        forget(leader);
    }
}
