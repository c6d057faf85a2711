/* A holder: copies of the state between holders, and pieces of checkpoints. See holder.h. */
#include "interval/holder_internal.h"

#include "base/mark.h"

#include <stdio.h>
#include <string.h>

bool gnn_holder_export_on(struct culm_gnn_holder *holder) {
    if (!holder->ready || holder->exporting) {
        return false;
    }
    const struct culm_gnn_view *view = &holder->self->view;
    bool wanted =
        holder->save.order > 0 && holder->save.version == holder->version && !holder->saving;
    holder->export_order = wanted ? holder->save.order : 0;
    for (int32_t h = 0; h < view->holder_count && !wanted; h++) {
        wanted = view->holder[h].from == holder->self->o.id && !holder->sent[h];
    }
    if (!wanted) {
        return false;
    }
    holder->exporting = true;
    holder->export_attempt = holder->attempt;
    holder->export_task = (struct culm_gnn_task){
        .kind = CULM_GNN_TASK_EXPORT, .version = holder->version, .digest = holder->digest};
    culm_gnn_run(holder->self, &holder->export_task);
    return true;
}

void gnn_holder_exported(struct culm_gnn_holder *holder) {
    struct culm_gnn_self *self = holder->self;
    struct culm_gnn_task *task = &holder->export_task;
    holder->exporting = false;
    if (holder->export_attempt != self->view.attempt) {
        CULM_MARK(interval_export_of_an_attempt_before);
        culm_blob_clear(&task->output);
        return;
    }
    if (holder->export_order > 0) {
        if (holder->save.order == holder->export_order) { /* it is still wanted */
            culm_self_point(&self->node, CULM_GNN_PHASE_CHECKPOINT, task->version, -1);
            holder->saving = true;
            holder->save_order = holder->save.order;
            holder->save_task = (struct culm_gnn_task){.kind = CULM_GNN_TASK_SAVE,
                                                       .version = task->version,
                                                       .node = self->o.id,
                                                       .weights_only = holder->save.weights,
                                                       .input = culm_blob_ref(task->output)};
            memcpy(holder->save_task.text, holder->save.to, sizeof holder->save.to);
            culm_gnn_run_io(self, &holder->save_task);
            holder->save.order = 0;
        }
    } else if (task->version == holder->version) {
        const struct culm_gnn_held held = {holder->attempt, task->version, task->digest,
                                           self->view.number, holder->diverged};
        for (int32_t h = 0; h < self->view.holder_count; h++) {
            const struct culm_gnn_view_holder *to = &self->view.holder[h];
            if (to->from != self->o.id || holder->sent[h]) {
                continue;
            }
            holder->sent[h] = true;
            /* Earlier weights go first: once the receiver has the state, it is asked for them. */
            for (int32_t ago = holder->window - 1; ago > 0; ago--) {
                struct culm_blob *before = culm_gnn_holder_weights(holder, task->version - ago);
                if (before) {
                    gnn_holder_send_weights(holder, to->node, task->version - ago, before);
                    culm_blob_unref(before);
                }
            }
            culm_gnn_held_encode(&held, culm_self_meta(&self->node));
            culm_gnn_send(self, to->node, CULM_GNN_MSG_STATE, task->output);
            for (int32_t s = 0; gnn_holder_one_sums(holder) && s < self->o.layout->stages; s++) {
                if (holder->whole[s]) { /* the others have been sent it before */
                    CULM_MARK(interval_copy_gets_whole_gradients);
                    gnn_holder_hand_to(holder, to->node, s, holder->version + 1, holder->whole[s]);
                }
            }
        }
    }
    culm_blob_clear(&task->output);
}

/* A piece was written, or could not be, which costs the run nothing but the checkpoint. */
void gnn_holder_saved(struct culm_gnn_holder *holder) {
    const struct culm_job *job = &holder->save_task.job;
    struct culm_gnn_saved saved = {
        .version = holder->save_task.version, .order = holder->save_order, .status = job->status};
    _Static_assert(sizeof saved.piece == sizeof holder->save_task.text, "one carries the other");
    if (job->status == CULM_OK) {
        memcpy(saved.piece, holder->save_task.text, sizeof saved.piece);
    } else {
        CULM_MARK(interval_holder_cannot_save);
        snprintf(saved.why, sizeof saved.why, "%s", job->error.text);
    }
    holder->saving = false;
    culm_blob_clear(&holder->save_task.input);
    culm_gnn_saved_encode(&saved, culm_self_meta(&holder->self->node));
    culm_gnn_send(holder->self, CULM_LEADER, CULM_GNN_MSG_SAVED, NULL);
}

/* An order comes ahead of the COMMIT of its version, which is not left before it is exported. */
void gnn_holder_hear_save(struct culm_gnn_holder *holder, const struct culm_message *message) {
    struct culm_gnn_save save;
    if (culm_gnn_save_decode(message->meta, message->meta_bytes, &save) != CULM_OK ||
        save.attempt != holder->self->view.attempt || !gnn_holder_is_current(holder)) {
        CULM_MARK(interval_order_to_save_is_of_the_past);
    } else if (save.version == holder->version && !holder->stepping) {
        holder->save = save;
    } else { /* of a stop, which is not asked for ahead of a COMMIT */
        CULM_MARK(interval_order_to_save_what_is_left);
        struct culm_gnn_saved late = {
            .version = save.version, .order = save.order, .status = CULM_ERR_AGAIN};
        snprintf(late.why, sizeof late.why, "it has come to a later version");
        culm_gnn_saved_encode(&late, culm_self_meta(&holder->self->node));
        culm_gnn_send(holder->self, CULM_LEADER, CULM_GNN_MSG_SAVED, NULL);
    }
}

/* A copy may arrive before the view that makes this node a holder, or makes it one again. */
void gnn_holder_hear_state(struct culm_gnn_holder *holder, const struct culm_message *message) {
    struct culm_gnn_held held;
    if (culm_gnn_held_decode(message->meta, message->meta_bytes, &held) != CULM_OK ||
        !message->payload || held.attempt < holder->self->view.attempt ||
        (holder->frozen && held.attempt == holder->self->view.attempt) || /* it was not told of */
        (gnn_holder_is_current(holder) && holder->version >= 0 &&
         held.view <= holder->self->view.number) ||
        (holder->copy_state && holder->copy.view > held.view)) {
        return;
    }
    culm_blob_clear(&holder->copy_state);
    holder->copy_state = culm_blob_ref(message->payload);
    holder->copy = held;
}

/* Weights from another holder, ahead of a copy of its state. They are of committed versions, so
 * they are the right ones in any case. */
void gnn_holder_hear_weights(struct culm_gnn_holder *holder, const struct culm_message *message) {
    struct culm_gnn_version key;
    if (culm_gnn_version_decode(message->meta, message->meta_bytes, &key) == CULM_OK &&
        message->payload && key.attempt >= holder->self->view.attempt && !holder->busy &&
        !(gnn_holder_is_current(holder) && holder->version >= 0)) {
        CULM_MARK(interval_weights_precede_a_copy);
        holder->attempt = key.attempt;
        holder->version = -1;
        gnn_holder_keep_weights(holder, key.version, message->payload);
    }
}
