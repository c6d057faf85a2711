/* The node's parts, shared by its files. Not for others. See node.h. */
#ifndef CULM_PIPELINE_NODE_INTERNAL_H
#define CULM_PIPELINE_NODE_INTERNAL_H

#include "pipeline/control.h"
#include "pipeline/message.h"
#include "pipeline/node.h"
#include "pipeline/patience.h"

/* One micro-batch at one stage. */
struct cell {
    struct culm_blob *input;       /* ACTIVATION that enters the stage; NULL for stage 0 */
    struct culm_blob *d_output;    /* GRADIENT of the stage's output */
    struct culm_blob *activations; /* what F left for B */
    bool forward, backward;        /* done here */
    bool sent_input,
        sent_d_output; /* the peer that wants it has it, or was sent it, in this view */
};

struct stage_state {
    bool held;        /* by the view */
    int64_t version;  /* of the state here; -1: none */
    uint64_t *digest; /* [params of the stage] of that state */
    struct culm_blob
        *sum[2 * CULM_MAX_LANES]; /* by tree node: whole sums, and a leaf being filled */
    uint64_t lanes_done;          /* lanes whose leaf is, or has been, whole */
    bool took_over;               /* report the first task done at this stage */
    enum culm_origin origin;      /* of its state then */
    int32_t reduce_frames;        /* SUM and REDUCED frames of this stage sent in this iteration */
};

struct grad_state {
    struct culm_blob *reduced;                   /* G */
    struct culm_slice slice[2 * CULM_MAX_LANES]; /* as reducer: sums by tree node */
    uint64_t sent_lanes; /* as contributor: lanes the reducer has, or was sent, in this view */
};

struct peer_state {
    int32_t id;
    bool have;        /* its HAVE of this view has come */
    uint8_t *reduced; /* [grads] it has G, or was sent it, in this view */
};

/* A state task waiting its turn. */
struct order {
    enum culm_task_kind kind;
    int32_t stage, index;
    int64_t version;
    double clip;
    struct culm_blob *input;
    uint64_t digest;
    uint32_t transfer;
};

struct incoming {
    uint32_t id; /* 0: none */
    int32_t stage, source, ordered, imported;
};

/* A SAVE that came while the one before, given up since, was still being written. */
struct save_order {
    bool waits;
    int64_t version;
    int32_t attempt;
};

struct outgoing {
    uint32_t id;
    int32_t stage, destination, next;
    bool ordered; /* an EXPORT for `next` waits or runs */
};

/* A frame of the next iteration, come before its COMMIT has reached us. */
struct early {
    int32_t from;
    uint16_t type;
    struct culm_data_key key;
    struct culm_blob *payload;
    size_t payload_bytes;
};
#define EARLY_MAX 8192
#define CULM_NODE_TIMER_HEARTBEAT 0

struct early_have {
    int32_t from;
    struct culm_have have;
};

struct culm_node {
    struct culm_node_options o;
    struct culm_lane_tree tree;
    struct culm_view *view; /* current; number 0: none yet */
    struct culm_view *next; /* room to decode into */
    int32_t pipeline;       /* whose roles this node has; -1: none */
    int64_t iteration;      /* in progress */
    int64_t epoch;          /* counts resets of the cells; a task of an older one is dropped */

    struct stage_state *stage;   /* [stages] */
    struct cell *cell;           /* [stages * micros] */
    struct grad_state *grad;     /* [grads] */
    struct culm_blob **stepping; /* [grads] G of the iteration being stepped */
    struct culm_blob **reduced;  /* [grads] what a running NORM reads */
    double *norm;                /* [params] */
    uint64_t *digest;            /* [params] scratch for DIGESTS */
    double loss;
    int64_t samples;
    double weight;
    uint64_t ids[CULM_MAX_STAGES];
    uint64_t normed;   /* stages whose norms are known for this iteration */
    uint64_t prepared; /* stages PREPARED was sent for, in this view */
    bool committed;    /* fault point COMMIT was passed */

    struct peer_state peer[CULM_MAX_NODES];
    int32_t peer_count;
    int32_t *lost; /* ids that were in a view and no longer are */
    int32_t lost_count, lost_capacity;

    struct order *order; /* queue */
    int32_t order_first, order_count, order_capacity;
    struct incoming incoming[CULM_MAX_STAGES];
    struct outgoing outgoing[CULM_MAX_TRANSFERS];
    int32_t outgoing_count;

    struct early *early;
    int32_t early_count;
    struct early_have *early_have;
    int32_t early_have_count, early_have_capacity;

    struct culm_task task; /* the compute task running, unless it is frc */
    struct culm_task frc;  /* the redundant forward running or suspended */
    bool busy;             /* a compute task runs */
    bool frc_running, frc_suspended;
    struct culm_slice fold_slice[2 * CULM_MAX_LANES];
    uint32_t order_transfer;            /* of the EXPORT or IMPORT running */
    int64_t order_epoch;                /* of the cells when the running order began */
    char order_source[CULM_SOURCE_MAX]; /* what a running LOAD reads: views come and go meanwhile */
    bool frc_stale; /* the running or suspended redundant forward is of no use any more */

    struct culm_task save[CULM_MAX_STAGES];     /* I/O, one per stage at a time */
    bool saving[CULM_MAX_STAGES];               /* from its SAVE to its SAVED */
    uint64_t writing_since_ns[CULM_MAX_STAGES]; /* 0: not */
    struct save_order saved_as[CULM_MAX_STAGES], save_due[CULM_MAX_STAGES];

    int64_t tasks_done;        /* and data frames taken: whatever shows that it gets on */
    uint64_t running_since_ns; /* or the last sign of progress of the running task */
    uint64_t moved;            /* of the running task, when last looked at */
    uint64_t beat_ns;          /* the last heartbeat */
    int64_t told_ms[CULM_WATCHED_KINDS][CULM_MAX_STAGES]; /* the longest TOOK that was said */
    struct culm_have have;                                /* scratch for HAVE in and out */
    struct culm_buf meta;
    bool left;
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
    return node->pipeline >= 0 && node->view->role[node->pipeline][stage].owner == node->o.id;
}
bool culm_node_needs_grad(const struct culm_node *node, int32_t grad, uint64_t holds);

/* node.c */
void culm_node_fail(struct culm_node *node, enum culm_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void culm_node_send(struct culm_node *node, int32_t to, uint16_t type, struct culm_blob *payload,
                    size_t offset_bytes, size_t size_bytes); /* meta: node->meta, already encoded */
struct culm_buf *culm_node_meta(struct culm_node *node);     /* empty, to encode a message into */
void culm_node_tell(struct culm_node *node, uint16_t type);  /* the coordinator; meta as above */
void culm_node_fault(struct culm_node *node, enum culm_phase phase, int64_t micro);
void culm_node_advance(struct culm_node *node); /* send what can be sent, run what can be run */
bool culm_node_get(struct culm_node *node, size_t size_bytes, struct culm_blob **ret_blob);

/* node_watch.c */
void culm_node_heartbeat(struct culm_node *node);
void culm_node_asked(struct culm_node *node, const struct culm_message *message);
void culm_node_took(struct culm_node *node, const struct culm_task *task); /* it has ended well */

/* node_task.c */
void culm_node_submit(struct culm_node *node, struct culm_task *task);
void culm_node_run_next(struct culm_node *node);
void culm_node_task_done(struct culm_node *node, struct culm_task *task);
void culm_node_frc_forget(struct culm_node *node);

/* node_data.c */
void culm_node_data(struct culm_node *node, int32_t from, const struct culm_message *message);
void culm_node_replay_early(struct culm_node *node);
void culm_node_have_fill(struct culm_node *node); /* node->have := what it has */
void culm_node_have_send(struct culm_node *node);
void culm_node_have(struct culm_node *node, int32_t from, const struct culm_message *message);
void culm_node_have_replay(struct culm_node *node);
void culm_node_push(struct culm_node *node);
void culm_node_cells_clear(struct culm_node *node);
bool culm_node_known_lost(const struct culm_node *node, int32_t id);
bool culm_node_said_have(const struct culm_node *node, int32_t id); /* in the current view */
void culm_node_early_clear(struct culm_node *node);

/* node_reduce.c */
bool culm_node_fold_next(struct culm_node *node);
bool culm_node_norm_next(struct culm_node *node);
void culm_node_fold_done(struct culm_node *node, struct culm_task *task);
void culm_node_norm_done(struct culm_node *node, struct culm_task *task);
void culm_node_contribute(struct culm_node *node);
void culm_node_distribute(struct culm_node *node);
void culm_node_slice_add(struct culm_node *node, int32_t grad, int32_t tree_node,
                         struct culm_blob *blob, size_t offset_bytes);
uint64_t culm_node_slice_lanes(const struct culm_node *node, int32_t grad);
void culm_node_prepare(struct culm_node *node);
void culm_node_commit(struct culm_node *node, const struct culm_message *message);
void culm_node_grads_clear(struct culm_node *node);

/* node_agree.c */
/* What `stages` are at `version`, to the coordinator. */
void culm_node_tell_digests(struct culm_node *node, uint64_t stages, int64_t version);
/* A task found memory of this node damaged: says so and does no more. */
void culm_node_damaged(struct culm_node *node, const struct culm_task *task);

/* node_state.c */
void culm_node_state_view(struct culm_node *node); /* holds, loads and transfers of the new view */
bool culm_node_order_next(struct culm_node *node);
void culm_node_order_done(struct culm_node *node, struct culm_task *task);
/* The task was to load a checkpoint that is not as it was written: says so, and waits. False: that
 * was not it. */
bool culm_node_unloaded(struct culm_node *node, const struct culm_task *task);
void culm_node_order_add(struct culm_node *node, struct order order);
void culm_node_state_message(struct culm_node *node, int32_t from, const struct culm_data_key *key,
                             struct culm_blob *payload, size_t payload_bytes);
void culm_node_transfers(struct culm_node *node);
void culm_node_transfers_end(struct culm_node *node);
void culm_node_save(struct culm_node *node, const struct culm_message *message);
void culm_node_save_done(struct culm_node *node, struct culm_task *task);

#endif
