/*
 * A holder: gradients, their sums, and the update that is made of them. See holder.h.
 *
 * Senders may be told of epochs, views and attempts before this node is, so that gradients come early; they are kept
 * until it is their turn, or past.
 */
#include "interval/holder_internal.h"

#include "base/grow.h"
#include "base/mark.h"

#include <stdlib.h>
#include <string.h>

void gnn_holder_clear_sums(struct culm_gnn_holder *holder) {
    for (int32_t s = 0; s < CULM_GNN_STAGES_MAX; s++) {
        if (holder->slice[s]) {
            culm_fold_clear(&holder->tree, holder->slice[s]);
            holder->parts[s] = 0;
        }
        culm_blob_clear(&holder->whole[s]);
    }
}

void gnn_holder_clear_handed(struct culm_gnn_holder *holder) {
    for (int32_t s = 0; s < CULM_GNN_STAGES_MAX; s++) {
        culm_blob_clear(&holder->handed[s]);
    }
}

void gnn_holder_clear_early(struct culm_gnn_holder *holder) {
    for (int32_t i = 0; i < holder->early_count; i++) {
        culm_blob_unref(holder->early[i].blob);
    }
    holder->early_count = 0;
}

/* --- sums --- */

bool gnn_holder_one_sums(const struct culm_gnn_holder *holder) {
    return holder->self->o.pace.staleness > 0;
}

static bool is_first(const struct culm_gnn_holder *holder) {
    const struct culm_gnn_view *view = &holder->self->view;
    return view->holder_count > 0 && view->holder[0].node == holder->self->o.id;
}

void gnn_holder_hand_to(struct culm_gnn_holder *holder, int32_t node, int32_t stage, int64_t epoch,
                        struct culm_blob *sum) {
    const struct culm_gnn_gradient_key key = {holder->attempt, epoch, stage, 0};
    culm_gnn_gradient_encode(&key, culm_self_meta(&holder->self->node));
    culm_gnn_send(holder->self, node, CULM_GNN_MSG_GRADIENT, sum);
}

static void hand_on(struct culm_gnn_holder *holder, int32_t stage) {
    const struct culm_gnn_view *view = &holder->self->view;
    for (int32_t h = 1; gnn_holder_one_sums(holder) && is_first(holder) && h < view->holder_count;
         h++) {
        gnn_holder_hand_to(holder, view->holder[h].node, stage, holder->version + 1,
                           holder->whole[stage]);
    }
}

void gnn_holder_hand_on_again(struct culm_gnn_holder *holder) {
    const struct culm_gnn_view *view = &holder->self->view;
    for (int32_t h = 1; gnn_holder_one_sums(holder) && is_first(holder) && h < view->holder_count;
         h++) {
        for (int32_t s = 0; s < holder->self->o.layout->stages && view->holder[h].from < 0; s++) {
            if (holder->handed[s] && holder->version > holder->committed) {
                CULM_MARK(interval_sums_are_handed_on_again);
                gnn_holder_hand_to(holder, view->holder[h].node, s, holder->version,
                                   holder->handed[s]);
            }
            if (holder->whole[s]) {
                gnn_holder_hand_to(holder, view->holder[h].node, s, holder->version + 1,
                                   holder->whole[s]);
            }
        }
    }
}

/* Where one holder sums for all: whether gradients from this sender count now. If the sender is not
 * the first holder, it may be under a newer view, which this node has not been told of. Under that
 * view this node may have to drop the version that it got from the previous first holder. */
static bool counts(const struct culm_gnn_holder *holder, int32_t from) {
    const struct culm_gnn_view *view = &holder->self->view;
    return !gnn_holder_one_sums(holder) || is_first(holder) ||
           (view->holder_count > 0 && view->holder[0].node == from);
}

/* Whether all gradients are here of which the stage's is the sum. */
static bool has_all(const struct culm_gnn_holder *holder, int32_t stage) {
    return holder->parts[stage] == holder->tree.parts;
}

static void take_gradient(struct culm_gnn_holder *holder, const struct culm_gnn_gradient_key *key,
                          struct culm_blob *blob) {
    if (gnn_holder_one_sums(holder) && !is_first(holder)) {
        if (key->tree_node == 0 && !holder->whole[key->stage] && !holder->stepping) {
            holder->whole[key->stage] = culm_blob_ref(blob);
        }
        return;
    }
    /* Once the sum is complete, a FOLD may be using the slices. */
    if (!holder->whole[key->stage] && !holder->stepping && !has_all(holder, key->stage)) {
        holder->parts[key->stage] +=
            culm_fold_add(&holder->tree, holder->slice[key->stage], key->tree_node, blob, 0);
    }
}

/* Whether that epoch is committed. */
static bool is_over(const struct culm_gnn_holder *holder, const struct culm_gnn_gradient_key *key) {
    return key->attempt == holder->self->view.attempt && key->epoch <= holder->committed;
}

/* --- gradients that come early --- */

static int compare_keys(const struct culm_gnn_gradient_key *a,
                        const struct culm_gnn_gradient_key *b) {
    if (a->attempt != b->attempt) {
        return a->attempt < b->attempt ? -1 : 1;
    }
    if (a->epoch != b->epoch) {
        return a->epoch < b->epoch ? -1 : 1;
    }
    return a->stage != b->stage ? a->stage - b->stage : a->tree_node - b->tree_node;
}

/* By key and sender; of equal ones the one that came first is first. */
static int compare_early(const void *a, const void *b) {
    const struct early *one = a, *other = b;
    int keys = compare_keys(&one->key, &other->key);
    if (keys != 0) {
        return keys;
    }
    if (one->from != other->from) {
        return one->from < other->from ? -1 : 1;
    }
    return one->number < other->number ? -1 : one->number > other->number;
}

/* What the newest of them shows to be over, and what is there twice, goes: the run has left earlier
 * attempts, and no epoch begins before those a whole window earlier are committed. What stays is at
 * most one of each sum, of each sender, in the epochs of a window. */
static void thin_early(struct culm_gnn_holder *holder) {
    int64_t window = culm_gnn_pace_window(&holder->self->o.pace);
    int32_t left = 0;
    qsort(holder->early, (size_t)holder->early_count, sizeof *holder->early, compare_early);
    const struct culm_gnn_gradient_key newest = holder->early[holder->early_count - 1].key;
    for (int32_t i = 0; i < holder->early_count; i++) {
        const struct early *early = &holder->early[i];
        const struct early *before = left > 0 ? &holder->early[left - 1] : NULL;
        bool over =
            early->key.attempt < newest.attempt || early->key.epoch <= newest.epoch - window;
        if (over || (before && before->from == early->from &&
                     compare_keys(&before->key, &early->key) == 0)) {
            CULM_MARK(interval_early_gradients_are_thinned);
            culm_blob_unref(early->blob);
        } else {
            holder->early[left++] = *early;
        }
    }
    holder->early_count = left;
}

/* False: out of memory. */
static bool keep_early(struct culm_gnn_holder *holder, int32_t from,
                       const struct culm_gnn_gradient_key *key, struct culm_blob *blob) {
    int32_t wanted = holder->early_count + 1;
    if (holder->early_count > 0 && holder->early_count == holder->early_capacity) {
        thin_early(holder);
        wanted = holder->early_count + holder->early_count / 2 + 1; /* or it would soon be full */
    }
    if (!CULM_GROW(holder->early, holder->early_capacity, wanted)) {
        return false;
    }
    holder->early[holder->early_count++] =
        (struct early){from, holder->early_number++, *key, culm_blob_ref(blob)};
    return true;
}

void gnn_holder_hear_gradient(struct culm_gnn_holder *holder, int32_t from,
                              const struct culm_message *message) {
    struct culm_gnn_gradient_key key;
    const struct culm_gnn_layout *layout = holder->self->o.layout;
    if (culm_gnn_gradient_decode(message->meta, message->meta_bytes, layout, holder->tree.count,
                                 &key) != CULM_OK ||
        !message->payload || message->payload_bytes != layout->gradient_bytes[key.stage] ||
        key.attempt < holder->self->view.attempt || is_over(holder, &key)) {
        return;
    }
    bool now = key.attempt == holder->attempt && gnn_holder_is_current(holder) &&
               counts(holder, from) && !holder->folds_in_vain;
    if (now && key.epoch <= holder->version) {
        CULM_MARK(interval_gradient_is_part_of_the_state);
        return; /* already part of the state */
    }
    if (now && key.epoch == holder->version + 1) {
        take_gradient(holder, &key, message->payload);
        return;
    }
    CULM_MARK(interval_gradient_is_early);
    if (!keep_early(holder, from, &key, message->payload)) {
        culm_self_fail(&holder->self->node, CULM_ERR_MEMORY, "out of memory");
    }
}

void gnn_holder_replay_early(struct culm_gnn_holder *holder) {
    int32_t left = 0;
    for (int32_t i = 0; i < holder->early_count; i++) {
        struct early *early = &holder->early[i];
        bool now = holder->ready && !holder->folds_in_vain &&
                   early->key.attempt == holder->attempt && gnn_holder_is_current(holder) &&
                   counts(holder, early->from);
        if (now && early->key.epoch == holder->version + 1) {
            take_gradient(holder, &early->key, early->blob);
        }
        bool past = early->key.attempt < holder->self->view.attempt ||
                    is_over(holder, &early->key) ||
                    (now && early->key.epoch <= holder->version + 1);
        if (!past) {
            holder->early[left++] = *early;
        } else {
            if (!now) {
                CULM_MARK(interval_early_gradient_is_of_the_past);
            }
            culm_blob_unref(early->blob);
        }
    }
    holder->early_count = left;
}

/* --- the step --- */

bool gnn_holder_step_on(struct culm_gnn_holder *holder) {
    const struct culm_gnn_layout *layout = holder->self->o.layout;
    /* A version is not left before its commit, nor before it is exported if it is to be saved. The
     * final one is never left: it may have to be saved later, and servers that run ahead may have
     * begun an epoch after it. */
    const struct culm_gnn_course *course = &holder->self->view.course;
    bool final = !course->train && holder->version + 1 >= course->epoch;
    if (!holder->ready || holder->version > holder->committed || holder->save.order > 0 || final ||
        holder->frozen || holder->folds_in_vain) {
        return false;
    }
    bool all = true;
    for (int32_t s = 0; s < layout->stages; s++) {
        if (layout->gradient_bytes[s] == 0 || holder->whole[s]) {
            continue;
        }
        all = false;
        if (has_all(holder, s)) {
            holder->task = (struct culm_gnn_task){
                .stage = s, .tree = &holder->tree, .slice = holder->slice[s], .root = 0};
            gnn_holder_start(holder, CULM_GNN_TASK_FOLD);
            return true;
        }
    }
    if (!all) {
        return false;
    }
    culm_self_point(&holder->self->node, CULM_GNN_PHASE_UPDATE, holder->version + 1, -1);
    holder->task = (struct culm_gnn_task){
        .epoch = holder->version + 1, .whole = holder->whole, .digest = holder->digest};
    holder->stepping = true;
    gnn_holder_start(holder, CULM_GNN_TASK_STEP);
    return true;
}

void gnn_holder_folded(struct culm_gnn_holder *holder) {
    const int32_t stage = holder->task.stage;
    holder->whole[stage] = holder->task.output;
    holder->task.output = NULL;
    hand_on(holder, stage);
    culm_fold_clear(&holder->tree, holder->slice[stage]);
    holder->parts[stage] = 0;
}

void gnn_holder_stepped(struct culm_gnn_holder *holder) {
    holder->stepping = false;
    gnn_holder_clear_handed(holder);
    if (gnn_holder_one_sums(holder) && is_first(holder)) {
        memcpy(holder->handed, holder->whole, sizeof holder->handed);
        memset(holder->whole, 0, sizeof holder->whole);
    }
    gnn_holder_clear_sums(holder);
}
