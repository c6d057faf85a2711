/* Internals of a holder, shared by holder*.c only. See holder.h. */
#ifndef CULM_INTERVAL_HOLDER_INTERNAL_H
#define CULM_INTERVAL_HOLDER_INTERNAL_H

#include "interval/holder.h"

/* A request for weights that are not here yet. */
struct asked {
    int32_t node;
    struct culm_gnn_version what;
};

struct culm_gnn_holder {
    struct culm_gnn_self *self;
    struct culm_fold_tree tree; /* over intervals */
    uint32_t attempt;           /* of the state, or of weights that precede it */
    int64_t version;            /* of the state; -1: there is none */
    uint64_t digest;
    bool diverged; /* the update to `version` was skipped; the leader will end the run */
    bool ready;    /* the state is complete, and its weights have been copied out */
    int64_t committed;
    struct culm_gnn_save save; /* what is to be saved; order 0: nothing */
    uint64_t since;            /* the view that made this node a holder */
    int32_t window;
    struct culm_blob *weights[CULM_GNN_STALENESS_MAX + 3]; /* [window] by version % window */
    int64_t weights_version[CULM_GNN_STALENESS_MAX + 3];   /* -1: none */
    /* Gradients of epoch version + 1: parts of the sums, and the whole sums. */
    struct culm_slice *slice[CULM_GNN_STAGES_MAX]; /* [tree.count] */
    int32_t parts[CULM_GNN_STAGES_MAX];            /* intervals that these cover */
    struct culm_blob *whole[CULM_GNN_STAGES_MAX];
    bool stepping;
    /* Where rows may be stale, what it steps to decides what the epoch comes to: it does not, between its report to a leader that takes
     * over and that one's view. */
    bool frozen;
    bool folds_in_vain; /* the FOLD that is under way is of an attempt before */
    /* Where one holder sums for all: the sums of which `version` was made, until it is committed. */
    struct culm_blob *handed[CULM_GNN_STAGES_MAX];
    /* GRADIENTs of later epochs, views or attempts: senders may be told of these before this node
     * is. Also those for a copy of the state that is still to come, while a task goes on with the
     * state that it replaces: what that one has summed or stepped will be dropped. */
    struct early {
        int32_t from;
        uint64_t number; /* in the order in which they came */
        struct culm_gnn_gradient_key key;
        struct culm_blob *blob;
    } * early;
    uint64_t early_number;
    int32_t early_count, early_capacity;
    struct asked *asked; /* by node, attempt and version */
    int32_t asked_count, asked_capacity;
    /* A copy of the state that has arrived for this holder. */
    struct culm_gnn_held copy;
    struct culm_blob *copy_state;
    /* [view.holder_count] Which holders have been sent a copy under this view. */
    bool sent[CULM_GNN_HOLDERS_MAX];
    struct culm_gnn_task task, export_task, save_task;
    bool busy, exporting, saving;
    int64_t export_order; /* of the checkpoint that the running EXPORT is for; 0: other holders */
    int64_t save_order;   /* of what is being saved */
    uint32_t export_attempt;
};

/* holder.c: decides what to do next, and handles messages. */
/* Whether this node is a holder under the current view, and what it has counts there. */
bool gnn_holder_is_current(const struct culm_gnn_holder *holder);
/* Starts holder->task, which has been filled in but for its kind. */
void gnn_holder_start(struct culm_gnn_holder *holder, enum culm_gnn_task_kind kind);

/* holder_weights.c: the weights that it keeps, and requests for them. */
void gnn_holder_keep_weights(struct culm_gnn_holder *holder, int64_t version,
                             struct culm_blob *blob);
/* NULL: these can no longer be had. */
void gnn_holder_send_weights(struct culm_gnn_holder *holder, int32_t to, int64_t version,
                             struct culm_blob *blob_or_null);
/* Answers the requests that wait, as far as they can be answered. */
void gnn_holder_answer(struct culm_gnn_holder *holder);
void gnn_holder_hear_get(struct culm_gnn_holder *holder, int32_t from,
                         const struct culm_message *message);

/* holder_sums.c: gradients, their sums, and the step. */
void gnn_holder_clear_sums(struct culm_gnn_holder *holder);
void gnn_holder_clear_handed(struct culm_gnn_holder *holder);
void gnn_holder_clear_early(struct culm_gnn_holder *holder);
/* Where rows may be stale, only the first holder sums (see send_sum in server_data.c), and sends
 * the whole gradients to the others. */
bool gnn_holder_one_sums(const struct culm_gnn_holder *holder);
void gnn_holder_hand_to(struct culm_gnn_holder *holder, int32_t node, int32_t stage, int64_t epoch,
                        struct culm_blob *sum);
/* A view may have a holder that was not in the one under which they were handed on, and which has loaded the
 * version before by itself. Copies come with them. */
void gnn_holder_hand_on_again(struct culm_gnn_holder *holder);
void gnn_holder_hear_gradient(struct culm_gnn_holder *holder, int32_t from,
                              const struct culm_message *message);
/* Takes those whose turn it is, once the state is complete; drops those that will never be wanted. */
void gnn_holder_replay_early(struct culm_gnn_holder *holder);
/* Forms the next sum, or updates the state if all sums are there. True: a task was started. */
bool gnn_holder_step_on(struct culm_gnn_holder *holder);
/* The FOLD or STEP is done. */
void gnn_holder_folded(struct culm_gnn_holder *holder);
void gnn_holder_stepped(struct culm_gnn_holder *holder);

/* holder_copy.c: copies of the state, and pieces of checkpoints. */
/* Starts the EXPORT that a copy or a checkpoint needs. True: it was started. */
bool gnn_holder_export_on(struct culm_gnn_holder *holder);
/* The EXPORT or SAVE is done. */
void gnn_holder_exported(struct culm_gnn_holder *holder);
void gnn_holder_saved(struct culm_gnn_holder *holder);
void gnn_holder_hear_save(struct culm_gnn_holder *holder, const struct culm_message *message);
void gnn_holder_hear_state(struct culm_gnn_holder *holder, const struct culm_message *message);
void gnn_holder_hear_weights(struct culm_gnn_holder *holder, const struct culm_message *message);

#endif
