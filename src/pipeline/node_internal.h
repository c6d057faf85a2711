/* The node's parts, shared by its files. Not for others. See node.h. */
#ifndef CULM_PIPELINE_NODE_INTERNAL_H
#define CULM_PIPELINE_NODE_INTERNAL_H

#include "base/ids.h"
#include "crew/self.h"
#include "pipeline/control.h"
#include "pipeline/message.h"
#include "pipeline/node.h"
#include "pipeline/report.h"

/* One micro-batch at one stage. */
struct cell {
    struct culm_blob *input;       /* ACTIVATION that enters the stage; NULL for stage 0 */
    struct culm_blob *d_output;    /* GRADIENT of the stage's output */
    struct culm_blob *activations; /* what F left for B */
    bool forward, backward;        /* done here */
    /* The peer that wants it has it, or was sent it, in this view. */
    bool sent_input, sent_d_output;
};

/* A tensor of a copy that comes here. node_learn.c. */
struct learnt {
    int64_t version;      /* of slices [0, done) */
    int64_t tail_version; /* of the slice behind them */
    int32_t done;
    uint32_t life; /* another one whenever what a task does to it would not count any more */
    bool tail;     /* that slice is here, too */
    bool asked;    /* it is on its way, or being imported: */
    bool came;
};

/* A copy of a stage that comes here. */
struct incoming {
    uint32_t id; /* of the transfer; 0: none */
    int32_t stage, source;
    struct learnt *tensor; /* [params of the stage] */
    size_t asked_bytes;
    uint64_t begun_ns; /* the copy, whoever the source was then */
    int64_t bytes;     /* that have come */
    int64_t told;      /* the iteration in which the leader was told that it is whole */
};

/* What a learner needs of an iteration to step by. */
#define KEPT                                                                                       \
    4 /* by iteration modulo this: two that are committed, the one in progress, and the next */
struct kept {
    int64_t iteration; /* 0: none */
    bool committed;
    double clip;
    struct culm_blob **grad; /* [grads] G; NULL: not here */
};

/* Who sends lessons here, and to whom this node sends them. */
struct teacher {
    int32_t id;
    int64_t got, told; /* lessons that have come; as it was told last */
};
struct student {
    int32_t id;
    uint64_t view;     /* that it was in when it said so */
    int64_t sent, got; /* lessons; as it said */
    uint8_t *grad;     /* [grads] 1: it wants G of them */
    int64_t *sent_in;  /* [grads] the last iteration whose G it was sent */
};

struct stage_state {
    bool held;        /* by the view */
    int64_t version;  /* of the state here; -1: none */
    uint64_t *digest; /* [params of the stage] of that state */
    struct incoming incoming;
    /* By node of the lane tree: whole sums, and a leaf being filled. */
    struct culm_blob **sum;
    uint64_t *lanes_done;    /* [lanes] whose leaf is, or has been, whole (base/bits.h) */
    bool merges;             /* there may be two whole halves to be folded */
    bool took_over;          /* report the first task done at this stage */
    enum culm_origin origin; /* of its state then */
    int32_t reduce_frames;   /* SUM and REDUCED frames of this stage sent in this iteration */
};

struct grad_state {
    struct culm_blob *reduced; /* G */
    struct culm_slice *slice;  /* as reducer: sums by tree node; NULL: there was none yet */
    int32_t lanes;             /* that these cover */
    uint64_t
        *sent_lanes;  /* [lanes] as contributor: that the reducer has, or was sent, in this view */
    bool contributed; /* and that is all there is to send */
    bool spread;      /* as reducer: all who need G have it, or were sent it */
};

struct peer_state {
    int32_t id;
    bool have;        /* its HAVE of this view has come */
    bool gives;       /* may send this node something in this view */
    bool takes;       /* may be sent something by it, and says HAVE */
    uint8_t *reduced; /* [grads] it has G, or was sent it, in this view */
};

/* A state task waiting its turn. */
struct state_order {
    enum culm_task_kind kind;
    int32_t stage, index, slice;
    uint32_t life; /* IMPORT: of the tensor */
    int64_t version;
    double clip;
    struct culm_blob *input;
    uint64_t digest;
    uint32_t transfer;
};

/* A SAVE that came while the one before, given up since, was still being written. */
struct save_order {
    bool waits;
    int64_t version;
    int32_t attempt;
    bool weights;
    char to[CULM_SOURCE_MAX];
};

/* What is written of a stage: one file at a time. */
struct save_state {
    bool runs; /* from its SAVE to its SAVED */
    struct save_order as, due;
    struct culm_task task; /* I/O */
};

/* A copy of a stage that this node sends. */
struct outgoing {
    uint32_t id; /* of the transfer */
    int32_t stage, destination;
};

/* A slice that this node was asked for and has not begun to send: of a view that has not come yet, or until a step is
 * done. */
struct wanted {
    int32_t from;
    struct culm_want what;
};

/* A data frame of an iteration, decoded. */
struct frame {
    int32_t from;
    uint16_t type;
    struct culm_moment at;
    union {
        struct culm_boundary boundary; /* ACTIVATION, GRADIENT */
        struct culm_sum sum;
        struct culm_reduced reduced;
    } of;
    struct culm_blob *payload;
    size_t payload_bytes;
};
#define EARLY_MAX 8192

/* HAVE of a view that has not come yet: the newest of each node. */
struct early_have {
    int32_t from;
    struct culm_have have;
};

struct culm_node {
    struct culm_self
        self; /* its pulse: line 0: the compute task; 1 + s: the file of stage s; progress:
                              tasks done and data frames taken */
    struct culm_node_options o;
    struct culm_fold_tree tree; /* over lanes */
    struct culm_view views[2];
    struct culm_view *view; /* current; number 0: none yet */
    struct culm_view *next; /* room to decode into */
    int32_t pipeline;       /* whose roles this node has; -1: none */
    int64_t iteration;      /* in progress */
    int64_t resets;         /* of the cells; a task from before the last one is dropped */

    struct stage_state *stage;   /* [stages] */
    struct cell *cell;           /* [stages * micros] */
    struct grad_state *grad;     /* [grads] */
    struct culm_blob **stepping; /* [grads] G of the iteration being stepped */
    struct culm_blob **reduced;  /* [grads] what a running NORM reads */
    int32_t *reducer;            /* [grads] in this view; -1: nobody */
    int32_t *whole;              /* [pipelines] scratch for it */
    uint64_t *lane_sets;         /* all `lanes_done` and `sent_lanes` */
    struct culm_blob **sums;     /* all `sum` */
    double *norm;                /* [params] */
    uint64_t *digest;            /* [params] scratch for DIGESTS */
    double loss;
    int64_t samples;
    double weight;
    uint64_t *ids;                  /* [stages] */
    struct culm_stage_set normed;   /* stages whose norms are known for this iteration */
    struct culm_stage_set prepared; /* stages PREPARED was sent for, in this view */
    bool committed;                 /* fault point COMMIT was passed */

    struct peer_state *peer; /* by id */
    int32_t peer_count, peer_capacity;
    struct culm_ids lost; /* that were in a view and no longer are */
    struct culm_ids deaf; /* it has complained of those, and heard nothing of them since */

    struct state_order *order; /* queue */
    int32_t order_first, order_count, order_capacity;
    struct outgoing *outgoing;
    int32_t outgoing_count, outgoing_capacity;
    struct wanted *wanted_slice; /* in the order that they were asked for */
    int32_t wanted_slice_count, wanted_slice_capacity;
    bool exported; /* the last compute task was for a copy: another one has its turn */

    /* node_learn.c */
    struct kept kept[KEPT];
    struct culm_blob **lesson; /* [grads] what a running ADVANCE reads */
    uint32_t learn_life;       /* of the tensor that a running task works on */
    uint8_t *wanted;           /* [grads] this node wants as lessons */
    uint8_t *wanted_there;     /* [grads] scratch */
    int32_t wanted_count;
    uint64_t ask_ns; /* no more slices are asked for before, of whatever stage */
    bool learn_due;  /* it says so again, with what has come */
    bool learn_got;  /* something has come since that was looked at */
    struct teacher *teacher;
    int32_t teacher_count, teacher_capacity;
    struct student *student;
    int32_t student_count, student_capacity;
    bool reduces; /* some gradient, in this view */

    struct frame *early; /* of the next iteration, come before its COMMIT has reached us */
    int32_t early_count;
    struct early_have *early_have;
    int32_t early_have_count, early_have_capacity;

    struct culm_task task; /* the compute task running, unless it is frc */
    struct culm_task frc;  /* the redundant forward running or suspended */
    bool busy;             /* a compute task runs */
    bool frc_running, frc_suspended;
    struct culm_slice *fold_slice;
    uint32_t order_transfer;            /* of the EXPORT or IMPORT running */
    char order_source[CULM_SOURCE_MAX]; /* what a running LOAD reads: views come and go meanwhile */
    bool frc_stale; /* the running or suspended redundant forward is of no use any more */

    struct save_state *save; /* [stages] */

    struct culm_content last_commit;
    struct culm_curve *curve;  /* commits since the last checkpoint that it knows of */
    struct culm_totals totals; /* the newest it has heard */
    bool damaged;
    struct culm_damaged damage;

    uint64_t moved;        /* of the running task, when last looked at */
    struct culm_have have; /* scratch for HAVE in and out */
};

static inline struct cell *cell_at(const struct culm_node *node, int32_t stage, int32_t micro) {
    return &node->cell[(size_t)stage * (size_t)node->o.shape.micros + (size_t)micro];
}
static inline int32_t lane_of(const struct culm_node *node, int32_t micro) {
    return micro / node->o.shape.micros_per_lane;
}
static inline int32_t last_stage(const struct culm_node *node) {
    return node->o.layout->stages - 1;
}
/* Does this node run micro-batch m? */
static inline bool runs(const struct culm_node *node, int32_t micro) {
    return node->pipeline >= 0 && node->view->lane_pipeline[lane_of(node, micro)] == node->pipeline;
}
static inline bool owns(const struct culm_node *node, int32_t stage) {
    return node->pipeline >= 0 && node->view->role[node->pipeline][stage].owner == node->self.id;
}
/* Does a node that holds these stages step with this gradient? Of statistics: does it have to know
 * them? */
bool node_needs_grad(const struct culm_node *node, int32_t grad,
                     const struct culm_stage_set *holds);

/*
 * Every function below is called on the loop thread, and none is called again before it returns.
 * Those that may end the node's life (culm_self_fail, and what calls it) set node->self.left; whoever
 * goes on after them looks at it, or does nothing that would be wrong then.
 */

/* --- node.c --- */

/* Passes a fault point of the iteration in progress. May not return, or return late. */
void node_fault(struct culm_node *node, enum culm_phase phase, int64_t micro);
/* A blob from the node's pool. False: the promise of the plan is reached, and the node has failed. */
bool node_get(struct culm_node *node, size_t size_bytes, struct culm_blob **ret_blob);

/* --- node_peers.c --- */

/* The view is new: who is in it, and who may send what to whom. Roles of the view count for this node's
 * pipeline. False: out of memory, and this node has failed. */
bool node_meet(struct culm_node *node);
/* NULL: it is not in the view. */
struct peer_state *node_peer(const struct culm_node *node, int32_t id);

/* --- node_watch.c --- */

/* Says what runs and for how long, and sets the timer for the next time. At the start, then by the
 * timer only. */
void node_heartbeat(struct culm_node *node);
/* ASK has come: answers with WAITS. */
void node_asked(struct culm_node *node, const struct culm_message *message);
/* A task begins; has ended, and if it ended well and how long it took is news, says TOOK. */
void node_task_begins(struct culm_node *node, const struct culm_task *task);
void node_task_ends(struct culm_node *node, const struct culm_task *task);

/* --- node_task.c --- */

/* Gives a task whose request is filled in, node->task or node->frc, to the world. Only when no
 * compute task runs; afterwards node->busy, until node_task_done. */
void node_submit(struct culm_node *node, struct culm_task *task);
/* Starts the first task that is ready, in the order of node.h, or asks a redundant forward that runs
 * to give way to it. With something else running it does nothing. */
void node_run_next(struct culm_node *node);
/* A compute task has ended, well or not: takes what it made, unless the cells have been reset since
 * it was submitted, and lets go of its blobs. */
void node_task_done(struct culm_node *node, struct culm_task *task);
/* No redundant forward that runs or is suspended is of use any more: under a new view, or with the
 * cells reset. One that runs is asked to stop and dropped when it has. */
void node_frc_forget(struct culm_node *node);

/* --- node_data.c --- */

/* A data frame has come: of this iteration it is taken unless it is here already, of the next it is
 * kept (early), of any other, of another attempt or of a lost node it is dropped. */
void node_data(struct culm_node *node, int32_t from, const struct culm_message *message);
/* The iteration has just become the next one: takes the early frames, which are of it. */
void node_replay_early(struct culm_node *node);
/* Drops them: everyone loads. */
void node_early_clear(struct culm_node *node);
/* node->have := what this node has now, under the current view. */
void node_have_fill(struct culm_node *node);
/* Once a view, when all of it has been entered: HAVE to every peer that may send something. */
void node_have_send(struct culm_node *node);
/* HAVE has come: of the current view it counts at once, of a later one when that view comes, of an
 * earlier one never. Overwrites node->have. */
void node_have(struct culm_node *node, int32_t from, const struct culm_message *message);
/* A view has been entered: those of it that came before it count now. */
void node_have_replay(struct culm_node *node);
/* Sends what peers that have said HAVE want and do not have: boundaries to owners of the node's own
 * pipeline, sums to reducers, reduced gradients to holders. Nothing while everyone loads. */
void node_push(struct culm_node *node);
/* A reset: forgets all boundaries and activations of the iteration. What tasks made for them put
 * out is dropped. */
void node_cells_clear(struct culm_node *node);
/* Has its HAVE of the current view come? Before that nothing goes to it. */
bool node_said_have(const struct culm_node *node, int32_t id);

/* --- node_reduce.c --- */

/* Starts a fold that is ready. True: one is; it was not started if something else runs. */
bool node_fold_next(struct culm_node *node);
/* The same of the norms, once all reduced gradients of what it holds are here and the step before
 * is done. */
bool node_norm_next(struct culm_node *node);
/* The fold, or the norms, that ran have ended well. NULL: they were from before a reset, and only
 * what the task borrowed is let go of. */
void node_fold_done(struct culm_node *node, struct culm_task *task);
void node_norm_done(struct culm_node *node, struct culm_task *task);
/* As owner: gives the sums of stages that are summed to the reducers that lack them (itself, too). */
void node_contribute(struct culm_node *node);
/* As reducer: sends reduced gradients to the holders that lack them. */
void node_distribute(struct culm_node *node);
/* As reducer: the sum of `grad` over a node of the lane tree, from `offset_bytes` of the blob, which
 * is referenced. One that is covered by what is here changes nothing; one that covers others takes
 * their place. */
void node_slice_add(struct culm_node *node, int32_t grad, int32_t tree_node, struct culm_blob *blob,
                    size_t offset_bytes);
/* Lanes whose sums of `grad` are here, and which it is not reduced of yet. */
void node_slice_lanes(const struct culm_node *node, int32_t grad, uint64_t *ret_lanes);
/* Nothing has been sent to the reducer of `grad`, as far as is known. */
void node_not_sent(struct culm_node *node, int32_t grad);
/* A sum of the stage has become whole: it may be half of another, and is to be sent. */
void node_sum_is_whole(struct culm_node *node, int32_t stage);
/* Says PREPARED, once a view, when the norms of all that this node holds are known. */
void node_prepare(struct culm_node *node);
/* COMMIT has come; one of another view or iteration does not count. Orders the steps, and begins the
 * next iteration. */
void node_commit(struct culm_node *node, const struct culm_message *message);
/* Forgets all sums and reduced gradients of the iteration. */
void node_grads_clear(struct culm_node *node);

/* --- node_report.c --- */

/* A commit counts here; or a view says what the last one was. */
void node_committed(struct culm_node *node, const struct culm_content *commit);
/* Everyone loads `version`: there has been no commit after it. */
void node_forget_commits(struct culm_node *node, int64_t version);
/* Another one leads: is told what there is. */
void node_report(struct culm_node *node);
/* SHOW has come: tells view and curve. */
void node_show(struct culm_node *node);
/* CURVE from the leader, ahead of the first view: of steps that were committed before this node came. */
void node_hear_curve(struct culm_node *node, const struct culm_message *message);
/* The view is the first of a new leader, which has not heard what the state here is. */
void node_say_again(struct culm_node *node);

/* --- node_learn.c --- */

bool node_learn_init(struct culm_node *node); /* false: out of memory */
void node_learn_release(struct culm_node *node);
/* The view has this transfer to here: it is begun, or goes on, also from another source. */
void node_learn_begin(struct culm_node *node, const struct culm_transfer *transfer);
/* No copy of the stage is to come any more. */
void node_learn_end(struct culm_node *node, int32_t stage);
/* Copies are begun anew: nothing that came of iterations counts. */
void node_learn_forget(struct culm_node *node);
/* The iteration in progress is committed; its gradients are still here. */
void node_learn_commit(struct culm_node *node, const struct culm_content *content);
/* It is the next one that is in progress now. */
void node_learn_on(struct culm_node *node);
/* The view, which has been entered but for what it lets this node hold, is new; afresh: so is the attempt. */
void node_learn_view(struct culm_node *node, bool afresh);
/* This node is about to hold the stage: it has what it learnt of the iteration in progress. */
void node_learn_hold(struct culm_node *node, int32_t stage);
/* LESSON and LEARN have come. */
void node_lesson(struct culm_node *node, int32_t from, const struct culm_message *message);
void node_learner(struct culm_node *node, int32_t from, const struct culm_message *message);
/* Asks for slices and gradients, and says which copies are whole. */
void node_learn(struct culm_node *node);
/* As reducer: sends gradients to learners that want them. */
void node_learn_push(struct culm_node *node);
/* Is this slice one that was asked for? */
bool node_state_comes(struct culm_node *node, struct incoming *in, const struct culm_state *state,
                      size_t bytes);
/* Starts a step of what has come, or makes a copy whole. True: there is one to do. */
bool node_learn_next(struct culm_node *node);
/* IMPORT, ADVANCE and COMPLETE have ended; the first and the last of them well. */
void node_imported(struct culm_node *node, struct incoming *in, const struct culm_task *task);
void node_advanced(struct culm_node *node, const struct culm_task *task, bool well);
void node_completed(struct culm_node *node, const struct culm_task *task);

/* --- node_agree.c --- */

/* Tells the leader the digests of `stages` at `version`, which they have just come to. */
void node_tell_digests(struct culm_node *node, const struct culm_stage_set *stages,
                       int64_t version);
/* A task found memory of this node damaged: says so and does no more; but says it again to another leader. */
void node_damaged(struct culm_node *node, const struct culm_task *task);
void node_tell_damage(struct culm_node *node);

/* --- node_state.c --- */

/* The view is new: what it lets this node hold, load and copy. Before HAVE is sent. */
void node_state_view(struct culm_node *node);
/* At the end of the queue. Takes order.input, also when it fails. */
void node_order_add(struct culm_node *node, struct state_order order);
/* Starts the first of the queue. True: there is one; it was not started if something else runs. */
bool node_order_next(struct culm_node *node);
/* Is it to send a slice of a copy? Then it may wait for one task of training, however many are behind it. */
bool node_order_is_export(const struct culm_node *node);
/* The order that ran has ended well. */
void node_order_done(struct culm_node *node, struct culm_task *task);
/* A task has failed. If it was to load a checkpoint that is not as it was written: says so, and
 * waits for another view. False: that was not it. */
bool node_unloaded(struct culm_node *node, const struct culm_task *task);
/* A STATE frame has come. It counts if it was asked for in a transfer of the view, from its source. */
void node_state_message(struct culm_node *node, int32_t from, const struct culm_message *message);
/* WANT has come: in a transfer that this node is the source of, or in a view that has yet to come, it counts. */
void node_want(struct culm_node *node, int32_t from, const struct culm_message *message);
/* Orders what it was asked for, unless a step is to be done before. */
void node_transfers(struct culm_node *node);
/* SAVE has come: orders a snapshot, or remembers it while another one of the stage is written. */
void node_save(struct culm_node *node, const struct culm_message *message);
/* The file is written, or could not be: says SAVED, then does what was remembered. */
void node_save_done(struct culm_node *node, struct culm_task *task);

#endif
