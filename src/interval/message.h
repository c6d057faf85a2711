/*
 * Messages of the graph network protocol (those of any job are in crew/words.h): their types, and for each a struct and its encoding into
 * the meta bytes of a frame.
 *
 * A payload is a pure function of what the meta bytes say: whoever sends it, the bytes are the
 * same. So the first to arrive counts, and repeats are dropped. `attempt` counts how often the run
 * went back to a checkpoint, and, where rows may be stale, how often another one has led; messages of other attempts do not count.
 *
 * Decoders check every bound; a malformed message is CULM_ERR_FORMAT, and changes nothing but
 * *view where that is said. Thread: any.
 */
#ifndef CULM_INTERVAL_MESSAGE_H
#define CULM_INTERVAL_MESSAGE_H

#include "base/buf.h"
#include "crew/words.h"
#include "interval/exec.h"
#include "interval/outcome.h"
#include "interval/pace.h"

enum culm_gnn_message_type {
    /* Server to server. */
    CULM_GNN_MSG_SLICE =
        CULM_WORD_OWN, /* culm_gnn_slice_key; payload: rows that gathers there read */
    /* Server to holder; where rows may be stale, also from the first holder to others. */
    CULM_GNN_MSG_GRADIENT, /* culm_gnn_gradient_key; payload: a sum over intervals */
    /* Server or worker to holder, and back. */
    CULM_GNN_MSG_GET, /* culm_gnn_version: asks for the weights of that version */
    /* culm_gnn_version; payload: the weights, or none: there are only later ones. Also ahead of a
     * STATE */
    CULM_GNN_MSG_WEIGHTS,
    /* Holder to holder. */
    CULM_GNN_MSG_STATE, /* culm_gnn_held; payload: the whole state */
    /* Worker to server. */
    CULM_GNN_MSG_READY, /* asks for one more task; lists the constant inputs that it has */
    CULM_GNN_MSG_SHARE, /* culm_gnn_task_key; payload: the gradient of a task */
    CULM_GNN_MSG_ROWS,  /* culm_gnn_result: the task is done; payload: its rows, if it has any */
    /* Empty. To a server: "give me no more tasks". From a server: "you will get none, and all that
     * you have sent has arrived". To the leader: "do not count on me". From the leader: "leave". */
    CULM_GNN_MSG_LEAVING,
    /* culm_gnn_task_key: "I do not have the constant input of that task, and will not do it" */
    CULM_GNN_MSG_LACKS,
    /* culm_gnn_task_key: "I have dropped that task, whose result no longer counts" */
    CULM_GNN_MSG_DROPPED,
    /* Server to worker. */
    CULM_GNN_MSG_PART_CONSTANT, /* culm_gnn_task_key; payload: constant input; before the task */
    CULM_GNN_MSG_PART_ROWS,     /* culm_gnn_part; payload: a block of rows; after the task */
    CULM_GNN_MSG_PART_D_ROWS,   /* the same, of gradients */
    CULM_GNN_MSG_TASK,          /* culm_gnn_task_key */
    /* Leader to all. */
    CULM_GNN_MSG_VIEW,   /* culm_gnn_view */
    CULM_GNN_MSG_COMMIT, /* culm_gnn_commit */
    /* Leader to a holder. */
    CULM_GNN_MSG_SAVE, /* culm_gnn_save; ahead of the COMMIT of that version */
    /* To the leader. */
    CULM_GNN_MSG_DONE,   /* culm_gnn_done, from a server; payload: scores, if layout->scores */
    CULM_GNN_MSG_HOLDS,  /* culm_gnn_held, from a holder */
    CULM_GNN_MSG_SAVED,  /* culm_gnn_saved, from a holder */
    CULM_GNN_MSG_COLD,   /* a worker's first message: whether it has no constant inputs */
    CULM_GNN_MSG_ANSWER, /* culm_gnn_answer, to CULM_WORD_ASK */
    /* Leader to servers. */
    CULM_GNN_MSG_GONE, /* culm_peer_lost: a worker that was removed; its links may not show it */
    /* To a leader that takes over, from servers and parameter servers. */
    CULM_GNN_MSG_REPORT, /* culm_gnn_report: at once */
    /* culm_gnn_curve: after the VIEW, to SHOW. From a leader that is not the only one, to those who join: they may have to tell of
     * epochs before they came. */
    CULM_GNN_MSG_CURVE,
    /* From that leader. */
    CULM_GNN_MSG_SHOW, /* empty: "your newest view, and what you can tell of epochs" */
};

#define CULM_GNN_META_MAX (128u << 10) /* an answer of as many nodes as there may be fits */
#define CULM_GNN_HOLDERS_MAX 16
#define CULM_GNN_PATH_MAX 512

struct culm_gnn_slice_key {
    uint32_t attempt;
    int64_t epoch;
    int32_t gather, interval;
    struct culm_set readers; /* the slice has the rows that any of these intervals reads */
    uint64_t view;           /* the sender's view */
};

struct culm_gnn_gradient_key {
    uint32_t attempt;
    int64_t epoch;
    int32_t stage, tree_node;
};

struct culm_gnn_version {
    uint32_t attempt;
    int64_t version;
    int64_t oldest; /* GET: an older version will do, but not below this; WEIGHTS: = version */
};

/* The state that a holder has, or sends. */
struct culm_gnn_held {
    uint32_t attempt;
    int64_t version;
    uint64_t digest; /* of the whole state */
    uint64_t view;   /* the sender's view */
    bool diverged;   /* the gradient was not finite, so the last update was skipped */
};

struct culm_gnn_task_key {
    uint32_t attempt;
    int64_t epoch, version; /* version: of the weights to be used */
    int32_t interval, step;
};

struct culm_gnn_part {
    struct culm_gnn_task_key key;
    int32_t block, blocks; /* counted from 0; the number of blocks */
};

struct culm_gnn_result {
    struct culm_gnn_task_key key;
    struct culm_gnn_totals totals;
};

/* Statistics of one interval in one epoch, for events and for tuning. */
struct culm_gnn_work {
    int64_t tasks, retried; /* steps done; steps that were given out again */
    /* Floats that gathers read, evaluations not counted; rows by their age in epochs. */
    int64_t gathered_floats, rows_by_age[CULM_GNN_STALENESS_MAX + 1];
    int64_t ghost_bytes;  /* of its rows, sent to other servers */
    int64_t worker_bytes; /* sent to and received from workers */
    /* How often its server sampled its queues, and the sums over the samples: gathers that waited
     * for the server, and steps that waited because no worker had room. Zero without workers. */
    int64_t looks, gathers_waiting, applies_waiting;
};

struct culm_gnn_done {
    uint32_t attempt;
    int64_t epoch;
    int32_t interval;
    bool trained; /* false: it only evaluated */
    struct culm_gnn_totals totals;
    struct culm_gnn_work work;
    /* In the first DONE after the interval changed hands: steps that its previous owner had done in
     * this epoch and later ones, as far as rows received from there tell. Else 0. */
    int64_t redone;
};

/* An order to write a version, which the leader publishes. */
struct culm_gnn_save {
    uint32_t attempt;
    int64_t version, order;     /* orders count from 1 */
    bool weights;               /* them alone */
    char to[CULM_GNN_PATH_MAX]; /* the folder; "": the run's */
};

struct culm_gnn_saved {
    int64_t version, order;        /* as in the order to save it */
    enum culm_status status;       /* not CULM_OK: it could not be written */
    char piece[CULM_GNN_PATH_MAX]; /* the executor's, for PUBLISH */
    char why[CULM_ERROR_MAX];
};

/* How many messages a node has exchanged with `node`. What one end has sent, the other has received
 * or will receive, unless the link between them swallows frames. */
struct culm_gnn_traffic {
    int32_t node;
    int64_t sent, got;
};

struct culm_gnn_answer {
    uint64_t question;
    int32_t count;
    struct culm_gnn_traffic with[]; /* [count] */
};

/* A node that has the state, or is to get it. */
struct culm_gnn_view_holder {
    int32_t node;
    int32_t from;   /* the holder that sends it a copy; -1: it has the state, or loads it */
    uint64_t since; /* the view that made it a holder; a state from before does not count */
};

/* What is done in an epoch. */
struct culm_gnn_course {
    int64_t epoch; /* from 1; begins with version epoch - 1 of the weights */
    bool train, evaluate;
};

/* Who does what from now on. */
struct culm_gnn_view {
    uint64_t number; /* crew/term.h; from 1 */
    uint32_t attempt;
    /* The attempt in which all have loaded; later ones go on with the state of those before them (past.h). Else the same. */
    uint32_t load_attempt;
    int64_t load_version;         /* the version that it begins with */
    char load[CULM_GNN_PATH_MAX]; /* its checkpoint; "": initial weights */
    struct culm_gnn_course course;
    int32_t holder_count;
    /* Where rows may be stale (pace.h), only the first one sums gradients. */
    struct culm_gnn_view_holder holder[CULM_GNN_HOLDERS_MAX];
    int32_t *owner; /* [intervals] nodes; -1: nobody just now */
    /* As of the last commit: a node that was not there then knows it too. */
    struct culm_gnn_outcome last;
    struct culm_gnn_balance balance;
};

/* Epoch `epoch` is committed; `next` follows. */
struct culm_gnn_commit {
    uint32_t attempt;
    int64_t epoch;
    struct culm_gnn_course next;
    struct culm_gnn_outcome outcome;
    struct culm_gnn_balance balance;
};

/* What a node has, for a leader that takes over. */
struct culm_gnn_report {
    uint64_t view; /* the newest here; 0: none, and the rest is zero */
    uint32_t attempt;
    struct culm_gnn_course course; /* by that view, and commits since */
    /* The state under that view, or a copy of it that is whole, when what is under way is done. */
    bool holds, diverged;
    int64_t version;
    uint64_t digest;
    uint64_t since;      /* the view that made it a holder */
    int64_t curve_first; /* the first epoch of which CURVE would tell; 0: of none */
    struct culm_gnn_outcome last;
    struct culm_gnn_balance balance;
};

/* One whose number is 0, with room for that many owners. False: out of memory. */
bool culm_gnn_view_init(struct culm_gnn_view *view, int32_t intervals);
void culm_gnn_view_release(struct culm_gnn_view *view); /* fine on a zeroed one */
/* Both are initialised. */
void culm_gnn_view_copy(struct culm_gnn_view *view, const struct culm_gnn_view *from,
                        int32_t intervals);
void culm_gnn_work_add(struct culm_gnn_work *sum, const struct culm_gnn_work *work);

/* Whether the node owns an interval; whether it is a holder. */
bool culm_gnn_view_serves(const struct culm_gnn_view *view, int32_t intervals, int32_t node);
bool culm_gnn_view_holds(const struct culm_gnn_view *view, int32_t node);
/* The holder, other than itself, that the node asks for weights: one that has them, rather than one that is being
 * sent a copy. Nodes ask different ones. -1: there is none. */
int32_t culm_gnn_view_source(const struct culm_gnn_view *view, int32_t node);

void culm_gnn_slice_encode(const struct culm_gnn_slice_key *key, struct culm_buf *buf);
/* CULM_ERR_MEMORY. ret_key->readers is the caller's to release. */
enum culm_status culm_gnn_slice_decode(const uint8_t *meta, size_t len,
                                       const struct culm_gnn_layout *layout,
                                       struct culm_gnn_slice_key *ret_key);
void culm_gnn_gradient_encode(const struct culm_gnn_gradient_key *key, struct culm_buf *buf);
/* `nodes`: the number of nodes of the tree over intervals. */
enum culm_status culm_gnn_gradient_decode(const uint8_t *meta, size_t len,
                                          const struct culm_gnn_layout *layout, int32_t nodes,
                                          struct culm_gnn_gradient_key *ret_key);
void culm_gnn_version_encode(const struct culm_gnn_version *version, struct culm_buf *buf);
enum culm_status culm_gnn_version_decode(const uint8_t *meta, size_t len,
                                         struct culm_gnn_version *ret_version);
void culm_gnn_held_encode(const struct culm_gnn_held *held, struct culm_buf *buf);
enum culm_status culm_gnn_held_decode(const uint8_t *meta, size_t len,
                                      struct culm_gnn_held *ret_held);
void culm_gnn_task_key_encode(const struct culm_gnn_task_key *key, struct culm_buf *buf);
enum culm_status culm_gnn_task_key_decode(const uint8_t *meta, size_t len,
                                          const struct culm_gnn_layout *layout,
                                          struct culm_gnn_task_key *ret_key);
/* READY: the intervals whose constant input the worker has. */
void culm_gnn_warm_encode(const struct culm_set *warm, struct culm_buf *buf);
/* CULM_ERR_MEMORY. *ret_warm is the caller's to release. */
enum culm_status culm_gnn_warm_decode(const uint8_t *meta, size_t len,
                                      const struct culm_gnn_layout *layout,
                                      struct culm_set *ret_warm);
void culm_gnn_cold_encode(bool cold, struct culm_buf *buf);
enum culm_status culm_gnn_cold_decode(const uint8_t *meta, size_t len, bool *ret_cold);
void culm_gnn_part_encode(const struct culm_gnn_part *part, struct culm_buf *buf);
enum culm_status culm_gnn_part_decode(const uint8_t *meta, size_t len,
                                      const struct culm_gnn_layout *layout,
                                      struct culm_gnn_part *ret_part);
void culm_gnn_result_encode(const struct culm_gnn_result *result, struct culm_buf *buf);
enum culm_status culm_gnn_result_decode(const uint8_t *meta, size_t len,
                                        const struct culm_gnn_layout *layout,
                                        struct culm_gnn_result *ret_result);
void culm_gnn_done_encode(const struct culm_gnn_done *done, struct culm_buf *buf);
enum culm_status culm_gnn_done_decode(const uint8_t *meta, size_t len,
                                      const struct culm_gnn_layout *layout,
                                      struct culm_gnn_done *ret_done);
void culm_gnn_save_encode(const struct culm_gnn_save *save, struct culm_buf *buf);
enum culm_status culm_gnn_save_decode(const uint8_t *meta, size_t len,
                                      struct culm_gnn_save *ret_save);
void culm_gnn_saved_encode(const struct culm_gnn_saved *saved, struct culm_buf *buf);
enum culm_status culm_gnn_saved_decode(const uint8_t *meta, size_t len,
                                       struct culm_gnn_saved *ret_saved);
void culm_gnn_answer_encode(const struct culm_gnn_answer *answer, struct culm_buf *buf);
/* CULM_ERR_MEMORY. The caller frees *ret_answer. */
enum culm_status culm_gnn_answer_decode(const uint8_t *meta, size_t len,
                                        struct culm_gnn_answer **ret_answer);
/* With as many owners as the run has intervals. */
void culm_gnn_view_encode(const struct culm_gnn_view *view, int32_t intervals,
                          struct culm_buf *buf);
/* The same for those who know view `base`, in which intervals have the owners `before`: lists the intervals that
 * change hands. False: that would hardly be shorter, and nothing was encoded. */
bool culm_gnn_view_encode_changes(const struct culm_gnn_view *view, uint64_t base,
                                  const int32_t *before, int32_t intervals, struct culm_buf *buf);
/* `view`: initialised; the one that is known, which the changes begin with; its number is 0 if none is. CULM_ERR_FORMAT also if
 * they begin with another. On failure, *view is in an undefined state. */
enum culm_status culm_gnn_view_decode(const uint8_t *meta, size_t len,
                                      const struct culm_gnn_layout *layout,
                                      struct culm_gnn_view *view);
void culm_gnn_report_encode(const struct culm_gnn_report *report, struct culm_buf *buf);
enum culm_status culm_gnn_report_decode(const uint8_t *meta, size_t len,
                                        struct culm_gnn_report *ret_report);
void culm_gnn_commit_encode(const struct culm_gnn_commit *commit, struct culm_buf *buf);
enum culm_status culm_gnn_commit_decode(const uint8_t *meta, size_t len,
                                        struct culm_gnn_commit *ret_commit);

#endif
