/*
 * The node: what it keeps of an iteration, what it says it has, and what it sends to whom.
 *
 * HAVE goes to those who may send this node something in the view (node_peers.c). Nothing is sent to
 * a peer before its HAVE of the current view has come; from then on everything it wants goes to it as
 * soon as it exists. Receivers drop what they have. So a frame is never lost
 * by a view and never counts twice.
 */
#include "pipeline/node_internal.h"

#include "base/grow.h"
#include "base/mark.h"

#include <stdlib.h>
#include <string.h>

/* Was it in a view, and no longer is? Ids are never used again. */
static bool known_lost(const struct culm_node *node, int32_t id) {
    return culm_ids_has(&node->lost, id);
}

void node_cells_clear(struct culm_node *node) {
    size_t cells = (size_t)node->o.layout->stages * (size_t)node->o.shape.micros;
    for (size_t i = 0; i < cells; i++) {
        struct cell *cell = &node->cell[i];
        culm_blob_clear(&cell->input);
        culm_blob_clear(&cell->d_output);
        culm_blob_clear(&cell->activations);
        *cell = (struct cell){0};
    }
    node->resets++;
    node_frc_forget(node);
}

/* --- receiving --- */

static enum culm_status read_frame(const struct culm_message *message, struct frame *ret_frame) {
    struct frame *frame = ret_frame;
    const uint8_t *meta = message->meta;
    enum culm_status status;
    switch (message->type) {
    case CULM_MSG_ACTIVATION:
    case CULM_MSG_GRADIENT:
        status = culm_boundary_decode(meta, message->meta_bytes, &frame->of.boundary);
        frame->at = frame->of.boundary.at;
        break;
    case CULM_MSG_SUM:
        status = culm_sum_decode(meta, message->meta_bytes, &frame->of.sum);
        frame->at = frame->of.sum.at;
        break;
    default:
        status = culm_reduced_decode(meta, message->meta_bytes, &frame->of.reduced);
        frame->at = frame->of.reduced.at;
        break;
    }
    return status;
}

/* Of the payload; 0: there is no such frame in this run. */
static size_t expected_bytes(const struct culm_node *node, const struct frame *frame) {
    const struct culm_layout *layout = node->o.layout;
    int32_t stage = frame->of.boundary.stage, micro = frame->of.boundary.micro;
    int32_t grad;
    switch (frame->type) {
    case CULM_MSG_ACTIVATION:
        return stage > 0 && stage < layout->stages && micro < node->o.shape.micros
                   ? layout->stage[stage].input_bytes
                   : 0;
    case CULM_MSG_GRADIENT:
        return stage < layout->stages - 1 && micro < node->o.shape.micros
                   ? layout->stage[stage].output_bytes
                   : 0;
    case CULM_MSG_SUM:
        grad = frame->of.sum.grad;
        return grad < layout->grad_count && frame->of.sum.tree_node < node->tree.count
                   ? layout->grad[grad].size_bytes
                   : 0;
    default:
        grad = frame->of.reduced.grad;
        return grad < layout->grad_count ? layout->grad[grad].size_bytes : 0;
    }
}

static void accept(struct culm_node *node, const struct frame *frame) {
    if (frame->payload_bytes == 0 || frame->payload_bytes != expected_bytes(node, frame)) {
        return; /* not of this run */
    }
    struct cell *cell;
    struct grad_state *grad;
    switch (frame->type) {
    case CULM_MSG_ACTIVATION:
        cell = cell_at(node, frame->of.boundary.stage, frame->of.boundary.micro);
        if (!cell->input && !cell->backward) {
            cell->input = culm_blob_ref(frame->payload);
        }
        break;
    case CULM_MSG_GRADIENT:
        cell = cell_at(node, frame->of.boundary.stage, frame->of.boundary.micro);
        if (!cell->d_output && !cell->backward) {
            cell->d_output = culm_blob_ref(frame->payload);
        }
        break;
    case CULM_MSG_SUM:
        node_slice_add(node, frame->of.sum.grad, frame->of.sum.tree_node, frame->payload, 0);
        break;
    default:
        grad = &node->grad[frame->of.reduced.grad];
        if (!grad->reduced) {
            grad->reduced = culm_blob_ref(frame->payload);
        }
        break;
    }
}

static void keep_early(struct culm_node *node, const struct frame *frame) {
    if (node->early_count == EARLY_MAX) {
        culm_self_fail(&node->self, CULM_ERR_MEMORY, "more than %d early frames", EARLY_MAX);
        return;
    }
    node->early[node->early_count] = *frame;
    culm_blob_ref(node->early[node->early_count++].payload);
}

/* Takes the frame, keeps it for later, or drops it. */
static void sort(struct culm_node *node, const struct frame *frame) {
    if (known_lost(node, frame->from) || !frame->payload) {
        CULM_MARK(pipeline_frame_of_a_lost_peer);
        return;
    }
    if (frame->at.attempt != node->view->attempt) {
        CULM_MARK(pipeline_frame_of_another_attempt);
        return; /* what a damaged copy may have had a part in */
    }
    if (frame->at.iteration == node->iteration + 1) {
        CULM_MARK(pipeline_frame_is_early);
        keep_early(node, frame);
    } else if (frame->at.iteration == node->iteration) {
        accept(node, frame);
    }
}

void node_data(struct culm_node *node, int32_t from, const struct culm_message *message) {
    struct frame frame = {.from = from,
                          .type = message->type,
                          .payload = message->payload,
                          .payload_bytes = message->payload_bytes};
    if (read_frame(message, &frame) == CULM_OK) {
        node->self.progress++; /* a sign that links work */
        sort(node, &frame);
    }
}

void node_early_clear(struct culm_node *node) {
    for (int32_t i = 0; i < node->early_count; i++) {
        culm_blob_unref(node->early[i].payload);
    }
    node->early_count = 0;
}

void node_replay_early(struct culm_node *node) {
    int32_t count = node->early_count;
    node->early_count = 0;
    for (int32_t i = 0; i < count; i++) {
        struct frame early = node->early[i]; /* sort() may put it back, at or before i */
        sort(node, &early);
        culm_blob_unref(early.payload);
    }
}

/* --- HAVE --- */

void node_have_fill(struct culm_node *node) {
    const struct culm_layout *layout = node->o.layout;
    struct culm_have *have = &node->have;
    have->view = node->view->number;
    have->iteration = node->iteration;
    for (int32_t s = 0; s < layout->stages; s++) {
        for (int32_t m = 0; m < node->o.shape.micros; m++) {
            const struct cell *cell = cell_at(node, s, m);
            size_t i = (size_t)s * (size_t)node->o.shape.micros + (size_t)m;
            have->activation[i] = s == 0 || cell->input || cell->backward;
            have->gradient[i] = s == last_stage(node) || cell->d_output || cell->backward;
        }
    }
    for (int32_t g = 0; g < layout->grad_count; g++) {
        have->reduced[g] = node->grad[g].reduced != NULL;
        node_slice_lanes(node, g, culm_have_lanes(have, g));
    }
}

void node_have_send(struct culm_node *node) {
    node_have_fill(node);
    culm_have_encode(&node->have, culm_self_meta(&node->self));
    for (int32_t i = 0; i < node->peer_count; i++) {
        if (node->peer[i].gives) {
            culm_self_send(&node->self, node->peer[i].id, CULM_MSG_HAVE, NULL, 0, 0);
        }
    }
}

bool node_said_have(const struct culm_node *node, int32_t id) {
    const struct peer_state *peer = node_peer(node, id);
    return peer && peer->have;
}

static void apply_have(struct culm_node *node, int32_t from, const struct culm_have *have) {
    struct peer_state *peer = node_peer(node, from);
    if (!peer) {
        return;
    }
    peer->have = true;
    if (have->iteration != node->iteration) {
        CULM_MARK(pipeline_have_of_the_iteration_before);
        return; /* we have gone on since; of this iteration it had nothing */
    }
    const struct culm_layout *layout = node->o.layout;
    memcpy(peer->reduced, have->reduced, (size_t)layout->grad_count);
    const struct culm_view *view = node->view;
    for (int32_t s = 0; s < layout->stages && node->pipeline >= 0; s++) {
        if (view->role[node->pipeline][s].owner != from) {
            continue;
        }
        for (int32_t m = 0; m < node->o.shape.micros; m++) {
            size_t i = (size_t)s * (size_t)node->o.shape.micros + (size_t)m;
            cell_at(node, s, m)->sent_input = have->activation[i];
            cell_at(node, s, m)->sent_d_output = have->gradient[i];
        }
    }
    for (int32_t g = 0; g < layout->grad_count; g++) {
        node->grad[g].spread = false;
        if (node->reducer[g] == from) {
            node_not_sent(node, g);
            memcpy(node->grad[g].sent_lanes, culm_have_lanes(have, g),
                   (size_t)have->lane_words * sizeof *have->lanes);
            if (have->reduced[g]) {
                culm_bits_add_range(node->grad[g].sent_lanes, 0, node->o.shape.lanes);
            }
        }
    }
}

/* Of a view that we have yet to hear of. Whoever is in a later one has left that before: only the
 * newest of each peer will count. */
static void keep_early_have(struct culm_node *node, int32_t from) {
    for (int32_t i = 0; i < node->early_have_count; i++) {
        struct early_have *early = &node->early_have[i];
        if (early->from == from) {
            CULM_MARK(pipeline_have_of_two_views_to_come);
            struct culm_have swap = early->have;
            early->have = node->have.view > swap.view ? node->have : swap;
            node->have = node->have.view > swap.view ? swap : node->have;
            return;
        }
    }
    struct culm_have fresh;
    if (!CULM_GROW(node->early_have, node->early_have_capacity, node->early_have_count + 1) ||
        culm_have_init(&fresh, node->have.stages, node->have.micros, node->have.grads,
                       node->o.shape.lanes) != CULM_OK) {
        culm_self_fail(&node->self, CULM_ERR_MEMORY, "keep a HAVE");
        return;
    }
    node->early_have[node->early_have_count++] = (struct early_have){from, node->have};
    node->have = fresh;
}

void node_have(struct culm_node *node, int32_t from, const struct culm_message *message) {
    if (culm_have_decode(message->meta, message->meta_bytes, &node->have) != CULM_OK ||
        known_lost(node, from)) {
        return;
    }
    if (node->have.view == node->view->number) {
        apply_have(node, from, &node->have);
        return;
    }
    if (node->have.view < node->view->number) {
        CULM_MARK(pipeline_have_of_an_old_view);
        return;
    }
    CULM_MARK(pipeline_have_of_a_view_to_come);
    keep_early_have(node, from);
}

void node_have_replay(struct culm_node *node) {
    int32_t kept = 0;
    for (int32_t i = 0; i < node->early_have_count; i++) {
        struct early_have early = node->early_have[i];
        if (early.have.view > node->view->number) {
            CULM_MARK(pipeline_have_waits_for_its_view);
            node->early_have[kept++] = early;
            continue;
        }
        if (early.have.view == node->view->number) {
            apply_have(node, early.from, &early.have);
        }
        culm_have_release(&early.have);
    }
    node->early_have_count = kept;
}

/* --- sending --- */

static void send_boundary(struct culm_node *node, int32_t to, uint16_t type, int32_t stage,
                          int32_t micro, struct culm_blob *payload) {
    const struct culm_boundary boundary = {
        .at = {node->iteration, node->view->attempt}, .stage = stage, .micro = micro};
    node_fault(node, CULM_PHASE_SEND, micro);
    culm_boundary_encode(&boundary, culm_self_meta(&node->self));
    culm_self_send(&node->self, to, type, payload, 0, payload->size_bytes);
}

static void push_boundaries(struct culm_node *node) {
    const struct culm_role *role = node->view->role[node->pipeline];
    for (int32_t s = 0; s < node->o.layout->stages; s++) {
        if (role[s].owner == node->self.id || role[s].owner < 0 ||
            !node_said_have(node, role[s].owner)) {
            continue;
        }
        bool feeds = s > 0 && owns(node, s - 1);
        bool answers = s < last_stage(node) && owns(node, s + 1);
        for (int32_t m = 0; m < node->o.shape.micros && (feeds || answers); m++) {
            struct cell *cell = cell_at(node, s, m);
            if (!runs(node, m)) {
                continue;
            }
            if (feeds && cell->input && !cell->sent_input) {
                cell->sent_input = true;
                send_boundary(node, role[s].owner, CULM_MSG_ACTIVATION, s, m, cell->input);
            }
            if (answers && cell->d_output && !cell->sent_d_output) {
                cell->sent_d_output = true;
                send_boundary(node, role[s].owner, CULM_MSG_GRADIENT, s, m, cell->d_output);
            }
        }
    }
}

void node_push(struct culm_node *node) {
    if (node->view->phase != CULM_VIEW_RUN || node->iteration > node->o.shape.steps) {
        return;
    }
    if (node->pipeline >= 0) {
        push_boundaries(node);
        node_contribute(node);
    }
    node_distribute(node);
    node_learn_push(node);
}
