/*
 * The node: sums over lanes, the reduced gradients, PREPARED and COMMIT.
 *
 * Sums live at nodes of the lane tree. A leaf fills up by B in order; when both halves of a node
 * are whole they are folded into one and let go, so a stage keeps at most log2(lanes) + 1 of them.
 * When all lanes of this pipeline are whole, what is left is sent, tensor by tensor, to the reducer
 * the view names; the reducer folds the root and sends it to every holder.
 */
#include "pipeline/node_internal.h"

#include <string.h>

static bool whole(const struct culm_node *node, int32_t stage, int32_t tree_node) {
    const struct stage_state *state = &node->stage[stage];
    const struct culm_fold_node *at = &node->tree.node[tree_node];
    return state->sum[tree_node] && (at->left >= 0 || (state->lanes_done >> at->lo & 1));
}

void culm_node_grads_clear(struct culm_node *node) {
    for (int32_t s = 0; s < node->o.layout->stages; s++) {
        struct stage_state *state = &node->stage[s];
        for (int32_t i = 0; i < node->tree.count; i++) {
            culm_blob_clear(&state->sum[i]);
        }
        state->lanes_done = 0;
        state->reduce_frames = 0;
    }
    for (int32_t g = 0; g < node->o.layout->grad_count; g++) {
        culm_blob_clear(&node->grad[g].reduced);
        culm_fold_clear(&node->tree, node->grad[g].slice);
        node->grad[g].sent_lanes = 0;
    }
}

/* --- slices at the reducer --- */

void culm_node_slice_add(struct culm_node *node, int32_t grad, int32_t tree_node,
                         struct culm_blob *blob, size_t offset_bytes) {
    if (!node->grad[grad].reduced) {
        culm_fold_add(&node->tree, node->grad[grad].slice, tree_node, blob, offset_bytes);
    }
}

static uint64_t lanes_of(const struct culm_node *node, int32_t tree_node) {
    uint64_t lanes = 0;
    for (int32_t l = node->tree.node[tree_node].lo; l < node->tree.node[tree_node].hi; l++) {
        lanes |= 1ull << l;
    }
    return lanes;
}

uint64_t culm_node_slice_lanes(const struct culm_node *node, int32_t grad) {
    if (node->grad[grad].reduced) {
        return UINT64_MAX;
    }
    uint64_t lanes = 0;
    for (int32_t l = 0; l < node->tree.parts; l++) {
        lanes |= (uint64_t)culm_fold_has(&node->tree, node->grad[grad].slice, l) << l;
    }
    return lanes;
}

/* --- folding --- */

static void start_fold(struct culm_node *node, int32_t stage, int32_t grad, int32_t root,
                       size_t size_bytes) {
    struct culm_task *task = &node->task;
    *task = (struct culm_task){.kind = CULM_TASK_FOLD,
                               .stage = stage,
                               .index = grad,
                               .iteration = node->iteration,
                               .tree = &node->tree,
                               .slice = node->fold_slice,
                               .root = root,
                               .size_bytes = size_bytes,
                               .epoch = node->epoch};
    if (!culm_node_get(node, size_bytes, &task->output)) {
        return;
    }
    for (int32_t i = 0; i < node->tree.count; i++) {
        struct culm_slice *slice = &node->fold_slice[i];
        *slice = (struct culm_slice){0};
        if (grad >= 0) {
            *slice = node->grad[grad].slice[i];
        } else if (node->tree.node[i].parent == root) {
            slice->blob = node->stage[stage].sum[i];
        }
        culm_blob_ref(slice->blob);
    }
    culm_node_submit(node, task);
}

/* Two whole halves of the same node, to be folded into it. */
static bool merge_next(struct culm_node *node) {
    for (int32_t s = 0; s < node->o.layout->stages; s++) {
        for (int32_t i = 0; i < node->tree.count && node->stage[s].lanes_done; i++) {
            const struct culm_fold_node *at = &node->tree.node[i];
            if (at->left < 0 || node->stage[s].sum[i] || !whole(node, s, at->left) ||
                !whole(node, s, at->right)) {
                continue;
            }
            if (!node->busy) {
                start_fold(node, s, -1, i, node->o.layout->stage[s].grad_bytes);
            }
            return true;
        }
    }
    return false;
}

static bool reduce_next(struct culm_node *node) {
    uint64_t all = lanes_of(node, 0);
    for (int32_t g = 0; g < node->o.layout->grad_count; g++) {
        const struct culm_grad_desc *desc = &node->o.layout->grad[g];
        int32_t index = g - node->o.layout->stage[desc->stage].first_grad;
        if (node->grad[g].reduced || culm_node_slice_lanes(node, g) != all ||
            culm_view_reducer(node->view, desc->stage, index) != node->o.id) {
            continue;
        }
        if (!node->busy) {
            start_fold(node, desc->stage, g, 0, desc->size_bytes);
        }
        return true;
    }
    return false;
}

bool culm_node_fold_next(struct culm_node *node) { return merge_next(node) || reduce_next(node); }

/* A quarter of the way into the reduction of a stage is "some tensors sent". */
static void count_reduce_frame(struct culm_node *node, int32_t stage) {
    if (node->stage[stage].reduce_frames++ == node->o.layout->stage[stage].grad_count / 4) {
        culm_node_fault(node, CULM_PHASE_REDUCE, -1);
    }
}

void culm_node_fold_done(struct culm_node *node, struct culm_task *task) {
    culm_fold_clear(&node->tree, node->fold_slice);
    if (!task) {
        return; /* made for an iteration that is over */
    }
    if (task->index < 0) {
        struct stage_state *state = &node->stage[task->stage];
        state->sum[task->root] = culm_blob_ref(task->output);
        culm_blob_clear(&state->sum[node->tree.node[task->root].left]);
        culm_blob_clear(&state->sum[node->tree.node[task->root].right]);
        return;
    }
    struct grad_state *grad = &node->grad[task->index];
    if (!grad->reduced) {
        grad->reduced = culm_blob_ref(task->output);
    }
    culm_fold_clear(&node->tree, grad->slice);
    count_reduce_frame(node, task->stage);
}

/* --- contributing and distributing --- */

/* All lanes of this pipeline are summed at `stage`, and nothing is left to fold. */
static bool summed(struct culm_node *node, int32_t stage) {
    bool any = false;
    for (int32_t l = 0; l < node->o.shape.lanes; l++) {
        if (node->view->lane_pipeline[l] == node->pipeline) {
            any = true;
            if (!(node->stage[stage].lanes_done >> l & 1)) {
                return false;
            }
        }
    }
    for (int32_t i = 0; i < node->tree.count && any; i++) {
        const struct culm_fold_node *at = &node->tree.node[i];
        if (at->left >= 0 && whole(node, stage, at->left) && whole(node, stage, at->right)) {
            return false;
        }
    }
    return any;
}

/* meta: culm_node_meta, already encoded. */
static void send_grad(struct culm_node *node, int32_t to, uint16_t type, int32_t grad,
                      struct culm_blob *blob, size_t offset_bytes) {
    culm_node_send(node, to, type, blob, offset_bytes, node->o.layout->grad[grad].size_bytes);
    count_reduce_frame(node, node->o.layout->grad[grad].stage);
}

static void contribute_grad(struct culm_node *node, int32_t stage, int32_t grad) {
    const struct culm_grad_desc *desc = &node->o.layout->grad[grad];
    int32_t index = grad - node->o.layout->stage[stage].first_grad;
    int32_t reducer = culm_view_reducer(node->view, stage, index);
    for (int32_t i = 0; i < node->tree.count; i++) {
        struct grad_state *state = &node->grad[grad];
        uint64_t lanes = lanes_of(node, i);
        if (!whole(node, stage, i) || (state->sent_lanes & lanes) == lanes) {
            continue;
        }
        if (reducer == node->o.id) {
            state->sent_lanes |= lanes;
            culm_node_slice_add(node, grad, i, node->stage[stage].sum[i], desc->offset_bytes);
        } else if (culm_node_said_have(node, reducer)) {
            state->sent_lanes |= lanes;
            const struct culm_sum sum = {
                .at = {node->iteration, node->view->attempt}, .grad = grad, .tree_node = i};
            culm_sum_encode(&sum, culm_node_meta(node));
            send_grad(node, reducer, CULM_MSG_SUM, grad, node->stage[stage].sum[i],
                      desc->offset_bytes);
        }
    }
}

void culm_node_contribute(struct culm_node *node) {
    for (int32_t s = 0; s < node->o.layout->stages; s++) {
        const struct culm_stage_desc *desc = &node->o.layout->stage[s];
        if (!owns(node, s) || !summed(node, s)) {
            continue;
        }
        for (int32_t g = desc->first_grad; g < desc->first_grad + desc->grad_count; g++) {
            contribute_grad(node, s, g);
        }
    }
}

void culm_node_distribute(struct culm_node *node) {
    for (int32_t g = 0; g < node->o.layout->grad_count; g++) {
        int32_t stage = node->o.layout->grad[g].stage;
        int32_t index = g - node->o.layout->stage[stage].first_grad;
        if (!node->grad[g].reduced || culm_view_reducer(node->view, stage, index) != node->o.id) {
            continue;
        }
        for (int32_t i = 0; i < node->peer_count; i++) {
            struct peer_state *peer = &node->peer[i];
            const struct culm_view_node *at = culm_view_find(node->view, peer->id);
            if (peer->have && !peer->reduced[g] && at && culm_node_needs_grad(node, g, at->holds)) {
                peer->reduced[g] = 1;
                const struct culm_reduced reduced = {.at = {node->iteration, node->view->attempt},
                                                     .grad = g};
                culm_reduced_encode(&reduced, culm_node_meta(node));
                send_grad(node, peer->id, CULM_MSG_REDUCED, g, node->grad[g].reduced, 0);
            }
        }
    }
}

/* --- norms, PREPARED, COMMIT --- */

static uint64_t held(const struct culm_node *node) {
    const struct culm_view_node *self = culm_view_find(node->view, node->o.id);
    return self ? self->holds : 0;
}

bool culm_node_norm_next(struct culm_node *node) {
    uint64_t holds = held(node);
    if (holds == 0 || node->normed == holds) {
        return false;
    }
    for (int32_t s = 0; s < node->o.layout->stages; s++) {
        if ((holds >> s & 1) && node->stage[s].version != node->iteration - 1) {
            return false; /* the step before is not done: never more than one version behind */
        }
    }
    for (int32_t g = 0; g < node->o.layout->grad_count; g++) {
        if (!node->grad[g].reduced && culm_node_needs_grad(node, g, holds)) {
            return false;
        }
    }
    if (node->busy) {
        return true;
    }
    for (int32_t g = 0; g < node->o.layout->grad_count; g++) {
        node->reduced[g] = culm_blob_ref(node->grad[g].reduced);
    }
    struct culm_task *task = &node->task;
    *task = (struct culm_task){.kind = CULM_TASK_NORM,
                               .iteration = node->iteration,
                               .epoch = node->epoch,
                               .stages = holds,
                               .grad = node->reduced,
                               .norm = node->norm,
                               .ids = node->ids};
    culm_node_submit(node, task);
    return true;
}

void culm_node_norm_done(struct culm_node *node, struct culm_task *task) {
    for (int32_t g = 0; g < node->o.layout->grad_count; g++) {
        culm_blob_clear(&node->reduced[g]);
    }
    if (!task) {
        return; /* made for an iteration that is over */
    }
    node->normed = task->stages;
    node->loss = task->loss;
    node->samples = task->samples;
    node->weight = task->weight;
}

void culm_node_prepare(struct culm_node *node) {
    uint64_t holds = held(node);
    if (holds == 0 || node->normed != holds || node->prepared == holds ||
        node->view->phase != CULM_VIEW_RUN) {
        return;
    }
    node->prepared = holds;
    struct culm_prepared prepared = {.view = node->view->number,
                                     .iteration = node->iteration,
                                     .stages = holds,
                                     .loss = node->loss,
                                     .samples = node->samples,
                                     .weight = node->weight,
                                     .params = node->o.layout->param_count,
                                     .norm = node->norm};
    memcpy(prepared.ids, node->ids, sizeof prepared.ids);
    culm_prepared_encode(&prepared, culm_node_meta(node));
    culm_node_tell(node, CULM_MSG_PREPARED);
    if (!node->committed) {
        node->committed = true;
        culm_node_fault(node, CULM_PHASE_COMMIT, -1);
    }
}

void culm_node_commit(struct culm_node *node, const struct culm_message *message) {
    struct culm_commit commit;
    if (culm_commit_decode(message->meta, message->meta_bytes, &commit) != CULM_OK) {
        culm_node_fail(node, CULM_ERR_FORMAT, "a commit could not be decoded");
        return;
    }
    if (commit.iteration != node->iteration || commit.view != node->view->number) {
        return;
    }
    culm_node_transfers_end(node);
    uint64_t holds = held(node);
    /* Whoever holds something was prepared, so no step of its before can still be running. */
    for (int32_t g = 0; g < node->o.layout->grad_count && holds; g++) {
        culm_blob_clear(&node->stepping[g]);
        node->stepping[g] = node->grad[g].reduced;
        node->grad[g].reduced = NULL;
    }
    for (int32_t s = 0; s < node->o.layout->stages; s++) {
        if (holds >> s & 1) {
            culm_node_order_add(node, (struct state_order){.kind = CULM_TASK_STEP,
                                                           .stage = s,
                                                           .version = commit.iteration,
                                                           .clip = commit.clip});
        }
    }
    culm_node_cells_clear(node);
    culm_node_grads_clear(node);
    for (int32_t i = 0; i < node->peer_count; i++) {
        memset(node->peer[i].reduced, 0, (size_t)node->o.layout->grad_count);
    }
    node->iteration++;
    node->normed = node->prepared = 0;
    node->committed = false;
    culm_node_replay_early(node);
}
