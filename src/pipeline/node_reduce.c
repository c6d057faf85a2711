/*
 * The node: sums over lanes, the reduced gradients, PREPARED and COMMIT.
 *
 * Sums live at nodes of the lane tree. A leaf fills up by B in order; when both halves of a node
 * are whole they are folded into one and let go, so a stage keeps at most log2(lanes) + 1 of them.
 * When all lanes of this pipeline are whole, what is left is sent, tensor by tensor, to the reducer
 * the view names; the reducer folds the root and sends it to every holder.
 */
#include "pipeline/node_internal.h"

#include "base/mark.h"

#include <stdlib.h>
#include <string.h>

static bool whole(const struct culm_node *node, int32_t stage, int32_t tree_node) {
    const struct stage_state *state = &node->stage[stage];
    const struct culm_fold_node *at = &node->tree.node[tree_node];
    return state->sum[tree_node] && (at->left >= 0 || culm_bits_has(state->lanes_done, at->lo));
}

void node_grads_clear(struct culm_node *node) {
    for (int32_t s = 0; s < node->o.layout->stages; s++) {
        struct stage_state *state = &node->stage[s];
        for (int32_t i = 0; i < node->tree.count; i++) {
            culm_blob_clear(&state->sum[i]);
        }
        memset(state->lanes_done, 0, (size_t)node->have.lane_words * sizeof *state->lanes_done);
        state->merges = false;
        state->reduce_frames = 0;
    }
    for (int32_t g = 0; g < node->o.layout->grad_count; g++) {
        culm_blob_clear(&node->grad[g].reduced);
        if (node->grad[g].slice) {
            culm_fold_clear(&node->tree, node->grad[g].slice);
        }
        node->grad[g].lanes = 0;
        node_not_sent(node, g);
        node->grad[g].spread = false;
    }
}

void node_not_sent(struct culm_node *node, int32_t grad) {
    memset(node->grad[grad].sent_lanes, 0, (size_t)node->have.lane_words * sizeof(uint64_t));
    node->grad[grad].contributed = false;
}

void node_sum_is_whole(struct culm_node *node, int32_t stage) {
    const struct culm_stage_desc *desc = &node->o.layout->stage[stage];
    node->stage[stage].merges = true;
    for (int32_t g = desc->first_grad; g < desc->first_grad + desc->grad_count; g++) {
        node->grad[g].contributed = false;
    }
}

/* --- slices at the reducer --- */

void node_slice_add(struct culm_node *node, int32_t grad, int32_t tree_node, struct culm_blob *blob,
                    size_t offset_bytes) {
    struct grad_state *state = &node->grad[grad];
    if (state->reduced) {
        return;
    }
    if (!state->slice) {
        state->slice = calloc((size_t)node->tree.count, sizeof *state->slice);
    }
    if (!state->slice) {
        culm_self_fail(&node->self, CULM_ERR_MEMORY, "keep the sums of a gradient");
        return;
    }
    state->lanes += culm_fold_add(&node->tree, state->slice, tree_node, blob, offset_bytes);
}

void node_slice_lanes(const struct culm_node *node, int32_t grad, uint64_t *ret_lanes) {
    const struct culm_slice *slice = node->grad[grad].slice;
    memset(ret_lanes, 0, (size_t)node->have.lane_words * sizeof *ret_lanes);
    for (int32_t i = 0; i < node->tree.count && slice && !node->grad[grad].reduced; i++) {
        if (slice[i].blob) {
            culm_bits_add_range(ret_lanes, node->tree.node[i].lo, node->tree.node[i].hi);
        }
    }
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
                               .resets = node->resets};
    if (!node_get(node, size_bytes, &task->output)) {
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
    node_submit(node, task);
}

/* Two whole halves of the same node, to be folded into it. */
static bool merge_next(struct culm_node *node) {
    for (int32_t s = 0; s < node->o.layout->stages; s++) {
        for (int32_t i = 0; i < node->tree.count && node->stage[s].merges; i++) {
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
        node->stage[s].merges = false;
    }
    return false;
}

static bool reduce_next(struct culm_node *node) {
    for (int32_t g = 0; g < node->o.layout->grad_count; g++) {
        const struct culm_grad_desc *desc = &node->o.layout->grad[g];
        if (node->reducer[g] != node->self.id || node->grad[g].reduced ||
            node->grad[g].lanes < node->tree.parts) {
            continue;
        }
        if (!node->busy) {
            start_fold(node, desc->stage, g, 0, desc->size_bytes);
        }
        return true;
    }
    return false;
}

bool node_fold_next(struct culm_node *node) { return merge_next(node) || reduce_next(node); }

/* A quarter of the way into the reduction of a stage is "some tensors sent". */
static void count_reduce_frame(struct culm_node *node, int32_t stage) {
    if (node->stage[stage].reduce_frames++ == node->o.layout->stage[stage].grad_count / 4) {
        node_fault(node, CULM_PHASE_REDUCE, -1);
    }
}

void node_fold_done(struct culm_node *node, struct culm_task *task) {
    culm_fold_clear(&node->tree, node->fold_slice);
    if (!task) {
        CULM_MARK(pipeline_sum_of_an_iteration_that_is_over);
        return; /* made for an iteration that is over */
    }
    if (task->index < 0) {
        struct stage_state *state = &node->stage[task->stage];
        state->sum[task->root] = culm_blob_ref(task->output);
        culm_blob_clear(&state->sum[node->tree.node[task->root].left]);
        culm_blob_clear(&state->sum[node->tree.node[task->root].right]);
        node_sum_is_whole(node, task->stage);
        return;
    }
    struct grad_state *grad = &node->grad[task->index];
    if (!grad->reduced) {
        grad->reduced = culm_blob_ref(task->output);
    }
    if (grad->slice) {
        culm_fold_clear(&node->tree, grad->slice);
        grad->lanes = 0;
    }
    count_reduce_frame(node, task->stage);
}

/* --- contributing and distributing --- */

/* All lanes of this pipeline are summed at `stage`, and nothing is left to fold. */
static bool summed(struct culm_node *node, int32_t stage) {
    bool any = false;
    for (int32_t l = 0; l < node->o.shape.lanes; l++) {
        if (node->view->lane_pipeline[l] == node->pipeline) {
            any = true;
            if (!culm_bits_has(node->stage[stage].lanes_done, l)) {
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

/* meta: node_meta, already encoded. */
static void send_grad(struct culm_node *node, int32_t to, uint16_t type, int32_t grad,
                      struct culm_blob *blob, size_t offset_bytes) {
    culm_self_send(&node->self, to, type, blob, offset_bytes,
                   node->o.layout->grad[grad].size_bytes);
    count_reduce_frame(node, node->o.layout->grad[grad].stage);
}

static void contribute_grad(struct culm_node *node, int32_t stage, int32_t grad) {
    const struct culm_grad_desc *desc = &node->o.layout->grad[grad];
    int32_t reducer = node->reducer[grad];
    struct grad_state *state = &node->grad[grad];
    bool all = true;
    for (int32_t i = 0; i < node->tree.count && !state->contributed; i++) {
        const struct culm_fold_node *at = &node->tree.node[i];
        if (!whole(node, stage, i) || culm_bits_has_range(state->sent_lanes, at->lo, at->hi)) {
            continue;
        }
        if (reducer == node->self.id) {
            culm_bits_add_range(state->sent_lanes, at->lo, at->hi);
            node_slice_add(node, grad, i, node->stage[stage].sum[i], desc->offset_bytes);
        } else if (!node_said_have(node, reducer)) {
            all = false;
        } else {
            culm_bits_add_range(state->sent_lanes, at->lo, at->hi);
            const struct culm_sum sum = {
                .at = {node->iteration, node->view->attempt}, .grad = grad, .tree_node = i};
            culm_sum_encode(&sum, culm_self_meta(&node->self));
            send_grad(node, reducer, CULM_MSG_SUM, grad, node->stage[stage].sum[i],
                      desc->offset_bytes);
        }
    }
    state->contributed = all;
}

void node_contribute(struct culm_node *node) {
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

/* To all who need it and have said what they have. */
static void spread(struct culm_node *node, int32_t g) {
    bool all = true;
    for (int32_t i = 0; i < node->peer_count; i++) {
        struct peer_state *peer = &node->peer[i];
        const struct culm_view_node *at =
            peer->takes && !peer->reduced[g] ? culm_view_find(node->view, peer->id) : NULL;
        if (!at || !node_needs_grad(node, g, &at->holds)) {
            continue;
        }
        all &= peer->have;
        if (peer->have) {
            peer->reduced[g] = 1;
            const struct culm_reduced reduced = {.at = {node->iteration, node->view->attempt},
                                                 .grad = g};
            culm_reduced_encode(&reduced, culm_self_meta(&node->self));
            send_grad(node, peer->id, CULM_MSG_REDUCED, g, node->grad[g].reduced, 0);
        }
    }
    node->grad[g].spread = all;
}

void node_distribute(struct culm_node *node) {
    for (int32_t g = 0; g < node->o.layout->grad_count; g++) {
        struct grad_state *grad = &node->grad[g];
        if (grad->reduced && !grad->spread && node->reducer[g] == node->self.id) {
            spread(node, g);
        }
    }
}

/* --- norms, PREPARED, COMMIT --- */

static struct culm_stage_set held(const struct culm_node *node) {
    const struct culm_view_node *self = culm_view_find(node->view, node->self.id);
    return self ? self->holds : (struct culm_stage_set){{0}};
}

bool node_norm_next(struct culm_node *node) {
    const struct culm_stage_set holds = held(node);
    if (culm_stage_set_empty(&holds) || culm_stage_set_same(&node->normed, &holds)) {
        return false;
    }
    for (int32_t s = culm_stage_set_next(&holds, 0); s >= 0;
         s = culm_stage_set_next(&holds, s + 1)) {
        if (node->stage[s].version != node->iteration - 1) {
            return false; /* the step before is not done: never more than one version behind */
        }
    }
    for (int32_t g = 0; g < node->o.layout->grad_count; g++) {
        if (!node->grad[g].reduced && node_needs_grad(node, g, &holds)) {
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
                               .resets = node->resets,
                               .stages = holds,
                               .grad = node->reduced,
                               .norm = node->norm,
                               .ids = node->ids};
    node_submit(node, task);
    return true;
}

void node_norm_done(struct culm_node *node, struct culm_task *task) {
    for (int32_t g = 0; g < node->o.layout->grad_count; g++) {
        culm_blob_clear(&node->reduced[g]);
    }
    if (!task) {
        CULM_MARK(pipeline_norms_of_an_iteration_that_is_over);
        return; /* made for an iteration that is over */
    }
    node->normed = task->stages;
    node->loss = task->loss;
    node->samples = task->samples;
    node->weight = task->weight;
}

void node_prepare(struct culm_node *node) {
    const struct culm_stage_set holds = held(node);
    if (culm_stage_set_empty(&holds) || !culm_stage_set_same(&node->normed, &holds) ||
        culm_stage_set_same(&node->prepared, &holds) || node->view->phase != CULM_VIEW_RUN) {
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
                                     .of_stages = node->o.layout->stages,
                                     .norm = node->norm,
                                     .ids = node->ids};
    culm_prepared_encode(&prepared, culm_self_meta(&node->self));
    culm_self_tell(&node->self, CULM_MSG_PREPARED);
    if (!node->committed) {
        node->committed = true;
        node_fault(node, CULM_PHASE_COMMIT, -1);
    }
}

void node_commit(struct culm_node *node, const struct culm_message *message) {
    struct culm_commit commit;
    if (culm_commit_decode(message->meta, message->meta_bytes, &commit) != CULM_OK) {
        culm_self_fail(&node->self, CULM_ERR_FORMAT, "a commit could not be decoded");
        return;
    }
    if (commit.content.iteration != node->iteration || commit.view != node->view->number) {
        CULM_MARK(pipeline_commit_of_another_view);
        return;
    }
    node_learn_commit(node, &commit.content);
    const struct culm_stage_set holds = held(node);
    /* Whoever holds something was prepared, so no step of its before can still be running. */
    for (int32_t g = 0; g < node->o.layout->grad_count && !culm_stage_set_empty(&holds); g++) {
        culm_blob_clear(&node->stepping[g]);
        node->stepping[g] = node->grad[g].reduced;
        node->grad[g].reduced = NULL;
    }
    for (int32_t s = culm_stage_set_next(&holds, 0); s >= 0;
         s = culm_stage_set_next(&holds, s + 1)) {
        node_order_add(node, (struct state_order){.kind = CULM_TASK_STEP,
                                                  .stage = s,
                                                  .version = commit.content.iteration,
                                                  .clip = commit.content.clip});
    }
    node_cells_clear(node);
    node_grads_clear(node);
    for (int32_t i = 0; i < node->peer_count; i++) {
        memset(node->peer[i].reduced, 0, (size_t)node->o.layout->grad_count);
    }
    node_committed(node, &commit.content);
    culm_curve_cut(node->curve, commit.published, commit.content.iteration);
    node->totals = commit.totals;
    node->iteration++;
    node->normed = node->prepared = (struct culm_stage_set){{0}};
    node->committed = false;
    node_learn_on(node);
    node_replay_early(node);
}
