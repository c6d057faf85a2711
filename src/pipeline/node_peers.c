/*
 * The node: the others of its view, and who may send what to whom in it.
 *
 * Both ends of a link work it out from the view alone: whoever may send this node something is told what
 * it has (HAVE), and of whoever it may send something it expects to be told.
 *
 *   ACTIVATION, GRADIENT   owners of neighbouring stages of a pipeline to each other
 *   SUM                    the owners of a stage to those who reduce its gradients
 *   REDUCED                a reducer to all who need the gradient
 *   STATE                  the source of a transfer to its destination
 */
#include "pipeline/node_internal.h"

#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

struct peer_state *node_peer(const struct culm_node *node, int32_t id) {
    int32_t low = 0, high = node->peer_count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (node->peer[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool found = low < node->peer_count && node->peer[low].id == id;
    return found ? (struct peer_state *)&node->peer[low] : NULL;
}

/* False: out of memory, and this node has failed. */
static bool meet_one(struct culm_node *node, int32_t id) {
    const size_t grads = (size_t)node->o.layout->grad_count;
    const int32_t had = node->peer_capacity;
    bool room = CULM_GROW(node->peer, node->peer_capacity, node->peer_count + 1);
    if (room && had < node->peer_capacity) {
        memset(node->peer + had, 0, (size_t)(node->peer_capacity - had) * sizeof *node->peer);
    }
    struct peer_state *peer = room ? &node->peer[node->peer_count] : NULL;
    if (peer && !peer->reduced) {
        peer->reduced = malloc(grads);
    }
    if (!peer || !peer->reduced) {
        culm_self_fail(&node->self, CULM_ERR_MEMORY, "remember the nodes of a view");
        return false;
    }
    peer->id = id;
    peer->have = peer->gives = peer->takes = false;
    memset(peer->reduced, 0, grads);
    node->peer_count++;
    return true;
}

static void gives(struct culm_node *node, int32_t id) {
    struct peer_state *peer = id < 0 ? NULL : node_peer(node, id);
    if (peer) {
        peer->gives = true;
    }
}

static void takes(struct culm_node *node, int32_t id) {
    struct peer_state *peer = id < 0 ? NULL : node_peer(node, id);
    if (peer) {
        peer->takes = true;
    }
}

/* Owners of neighbouring stages in the node's own pipeline. */
static void meet_neighbours(struct culm_node *node) {
    for (int32_t s = 0; s < node->o.layout->stages; s++) {
        for (int32_t other = s - 1; other <= s + 1 && owns(node, s); other += 2) {
            if (other >= 0 && other < node->o.layout->stages) {
                gives(node, node->view->role[node->pipeline][other].owner);
                takes(node, node->view->role[node->pipeline][other].owner);
            }
        }
    }
}

/* culm_view_reducer, of all gradients at once. */
static void find_reducers(struct culm_node *node) {
    const struct culm_layout *layout = node->o.layout;
    int32_t *whole = node->whole, count = 0;
    for (int32_t p = 0; p < node->view->pipelines; p++) {
        if (culm_view_whole(node->view, p)) {
            whole[count++] = p;
        }
    }
    for (int32_t g = 0; g < layout->grad_count; g++) {
        const int32_t stage = layout->grad[g].stage, index = g - layout->stage[stage].first_grad;
        const int32_t reducers = culm_layout_reducers(layout, stage, count);
        node->reducer[g] = count ? node->view->role[whole[index % reducers]][stage].owner : -1;
    }
}

/* Sums go to the reducer, and what it makes of them to all who need it. */
static void meet_reducers(struct culm_node *node, const struct culm_stage_set *holds) {
    const struct culm_view *view = node->view;
    for (int32_t g = 0; g < node->o.layout->grad_count; g++) {
        const int32_t stage = node->o.layout->grad[g].stage, reducer = node->reducer[g];
        if (owns(node, stage)) {
            takes(node, reducer);
        }
        if (node_needs_grad(node, g, holds)) {
            gives(node, reducer);
        }
        for (int32_t p = 0; p < view->pipelines && reducer == node->self.id; p++) {
            gives(node, view->role[p][stage].owner);
        }
        for (int32_t i = 0; i < view->node_count && reducer == node->self.id; i++) {
            if (node_needs_grad(node, g, &view->node[i].holds)) {
                takes(node, view->node[i].id);
            }
        }
    }
}

bool node_meet(struct culm_node *node) {
    const struct culm_view *view = node->view;
    const struct culm_view_node *self = culm_view_find(view, node->self.id);
    node->peer_count = 0;
    for (int32_t i = 0; i < view->node_count; i++) {
        if (view->node[i].id != node->self.id && !meet_one(node, view->node[i].id)) {
            return false;
        }
    }
    meet_neighbours(node);
    find_reducers(node);
    meet_reducers(node, self ? &self->holds : &(struct culm_stage_set){{0}});
    for (int32_t i = 0; i < view->transfer_count; i++) {
        const struct culm_transfer *t = &view->transfer[i];
        if (t->destination == node->self.id) {
            gives(node, t->source);
        } else if (t->source == node->self.id) {
            takes(node, t->destination);
        }
    }
    return true;
}
