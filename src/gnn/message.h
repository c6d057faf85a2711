/*
 * Messages of the protocol of graph networks: their types, and a struct and an encoding into a
 * frame's meta bytes for each.
 *
 * Whatever has a payload is a pure function of what its meta bytes say: whoever sends it, the bytes
 * are the same, so the first that comes counts and repeats are dropped. `attempt` counts how often
 * the run went back to a checkpoint; what is of another attempt does not count.
 *
 * Decoders check every bound; a malformed message is CULM_ERR_FORMAT and has no effect. Thread: none
 * of their own.
 */
#ifndef CULM_GNN_MESSAGE_H
#define CULM_GNN_MESSAGE_H

#include "base/buf.h"
#include "gnn/exec.h"
#include "gnn/pace.h"
#include "ledger/pulse.h"

enum culm_gnn_message_type {
    /* server to server */
    CULM_GNN_MSG_SLICE = 0x100, /* rows that a gather there reads; culm_gnn_slice_key */
    /* server to holder */
    CULM_GNN_MSG_GRADIENT, /* a sum over intervals; culm_gnn_gradient_key */
    /* server or worker to holder, and back */
    CULM_GNN_MSG_GET,     /* culm_gnn_version: asks for the weights of that version */
    CULM_GNN_MSG_WEIGHTS, /* culm_gnn_version */
    /* holder to holder */
    CULM_GNN_MSG_STATE, /* culm_gnn_held */
    /* worker to server */
    CULM_GNN_MSG_READY, /* "give me one task more"; of which intervals it has the constant input */
    CULM_GNN_MSG_SHARE, /* culm_gnn_task_key: the gradient of a task */
    CULM_GNN_MSG_ROWS,  /* culm_gnn_result: the task is done; rows, if it made any */
    /* Without content. To a server: "give me no more tasks"; from it: "you will get none, and all that
     * you sent is here". To the leader: "do not count on me". From the leader: "leave". */
    CULM_GNN_MSG_LEAVING,
    /* "I do not, or no longer, have the constant input of that task, and will not do it";
     * culm_gnn_task_key */
    CULM_GNN_MSG_LACKS,
    /* server to worker */
    CULM_GNN_MSG_PART_CONSTANT, /* culm_gnn_task_key; before the task */
    CULM_GNN_MSG_PART_ROWS,     /* culm_gnn_part; behind it, block by block */
    CULM_GNN_MSG_PART_D_ROWS,   /* the same */
    CULM_GNN_MSG_TASK,          /* culm_gnn_task_key */
    /* leader to all */
    CULM_GNN_MSG_VIEW,   /* culm_gnn_view */
    CULM_GNN_MSG_COMMIT, /* culm_gnn_commit */
    CULM_GNN_MSG_END,    /* without content: the run is over */
    /* to the leader */
    CULM_GNN_MSG_BEAT,      /* culm_heartbeat: a sign of life (ledger/pulse.h) */
    CULM_GNN_MSG_DONE,      /* culm_gnn_done, of a server; scores, if it evaluated two classes */
    CULM_GNN_MSG_HOLDS,     /* culm_gnn_held, of a holder */
    CULM_GNN_MSG_SAVED,     /* culm_gnn_saved, of a holder */
    CULM_GNN_MSG_FAILED,    /* culm_gnn_failed */
    CULM_GNN_MSG_PEER_LOST, /* culm_gnn_peer */
    CULM_GNN_MSG_COLD,      /* of a worker, first of all: whether it has no constant input */
    CULM_GNN_MSG_TOOK,      /* culm_took */
    CULM_GNN_MSG_ANSWER,    /* culm_gnn_answer */
    /* leader to all */
    CULM_GNN_MSG_ASK,  /* culm_gnn_ask: nothing moves; what have you sent and got? */
    CULM_GNN_MSG_GONE, /* culm_gnn_peer: a worker was put out, whether or not its link says so */
};

#define CULM_GNN_META_MAX (64u << 10)
#define CULM_GNN_HOLDERS_MAX 16
#define CULM_GNN_PATH_MAX 512

struct culm_gnn_slice_key {
    uint32_t attempt;
    int64_t epoch;
    int32_t gather, interval;
    struct culm_gnn_set readers; /* whose rows these are, all together */
    uint64_t view;               /* under which it was sent */
};

struct culm_gnn_gradient_key {
    uint32_t attempt;
    int64_t epoch;
    int32_t stage, tree_node;
};

struct culm_gnn_version {
    uint32_t attempt;
    int64_t version;
    int64_t oldest; /* GET: the newest that is there will do, down to this; WEIGHTS: as `version` */
};

/* What a holder has, or sends. */
struct culm_gnn_held {
    uint32_t attempt;
    int64_t version;
    uint64_t digest; /* of the whole state */
    uint64_t view;   /* under which it was said */
    bool diverged;   /* the last step was not taken: its gradient is not finite */
};

struct culm_gnn_task_key {
    uint32_t attempt;
    int64_t epoch, version; /* of the weights that it uses */
    int32_t interval, step;
};

struct culm_gnn_part {
    struct culm_gnn_task_key key;
    int32_t block, blocks; /* from 0; of so many */
};

struct culm_gnn_result {
    struct culm_gnn_task_key key;
    struct culm_gnn_totals totals;
};

/* What an interval's epoch took, for people. */
struct culm_gnn_work {
    int64_t tasks, retried; /* steps; those that were given to a worker again */
    /* Read by gathers, those of evaluations left out; rows by how many epochs old they were. */
    int64_t gathered_floats, rows_by_age[CULM_GNN_STALENESS_MAX + 1];
    int64_t ghost_bytes;  /* of its rows, to other servers */
    int64_t worker_bytes; /* of rows, to and from workers */
    /* How often its server looked at what waits, and how much did: for itself to gather, and for
     * workers, none of whom has room for it. Only where there are workers. */
    int64_t looks, gathers_waiting, applies_waiting;
};

struct culm_gnn_done {
    uint32_t attempt;
    int64_t epoch;
    int32_t interval;
    bool trained; /* else it evaluated alone */
    struct culm_gnn_totals totals;
    struct culm_gnn_work work;
    /* The first time after it changed hands: steps of this epoch and of later ones that its owner before
     * had done, as far as rows that came from there show. */
    int64_t redone;
};

struct culm_gnn_saved {
    uint32_t attempt;
    int64_t version;
    char path[CULM_GNN_PATH_MAX];
};

struct culm_gnn_failed {
    enum culm_status status;
    char why[CULM_ERROR_MAX];
};

struct culm_gnn_ask {
    uint64_t question;
};

/* How many messages one node and another have exchanged. Whatever one has sent the other has got, or
 * will get, unless the link between them swallows what it is given. */
struct culm_gnn_traffic {
    int32_t node;
    int64_t sent, got;
};

struct culm_gnn_answer {
    uint64_t question;
    int32_t count;
    struct culm_gnn_traffic with[CULM_GNN_NODES_MAX];
};

/* One who has the state of the weights, or is to get it. */
struct culm_gnn_view_holder {
    int32_t node;
    int32_t from;   /* which other holder sends it a copy; -1: it has the state, or loads it */
    uint64_t since; /* the view from which on it is one; what it had before does not count */
};

/* Which part of an epoch is run. */
struct culm_gnn_course {
    int64_t epoch; /* from 1; it uses version epoch - 1 */
    bool train, evaluate;
};

/* Who does what, from one moment on. */
struct culm_gnn_view {
    uint64_t number; /* from 1 */
    uint32_t attempt;
    int64_t load_version;         /* which the attempt begins from */
    char load[CULM_GNN_PATH_MAX]; /* a checkpoint of it; "": the seed */
    struct culm_gnn_course course;
    int32_t saver; /* which holder saves version course.epoch - 1 as soon as it has it; -1: none */
    int32_t holder_count;
    /* The first one is the only one that sums gradients, where rows may be old (pace.h). */
    struct culm_gnn_view_holder holder[CULM_GNN_HOLDERS_MAX];
    int32_t owner[CULM_GNN_INTERVALS_MAX]; /* [intervals] nodes; -1: nobody just now */
};

/* Epoch `epoch` counts; what comes next. */
struct culm_gnn_commit {
    uint32_t attempt;
    int64_t epoch;
    int32_t saver; /* which holder saves version `epoch`; -1: none */
    struct culm_gnn_course next;
};

void culm_gnn_work_add(struct culm_gnn_work *sum, const struct culm_gnn_work *work);

bool culm_gnn_view_serves(const struct culm_gnn_view *view, int32_t intervals, int32_t node);
bool culm_gnn_view_holds(const struct culm_gnn_view *view, int32_t node);

/* The sizes of sets and views are those of the run's intervals. */
void culm_gnn_slice_encode(const struct culm_gnn_slice_key *key, int32_t intervals,
                           struct culm_buf *buf);
enum culm_status culm_gnn_slice_decode(const uint8_t *meta, size_t len,
                                       const struct culm_gnn_layout *layout,
                                       struct culm_gnn_slice_key *ret_key);
void culm_gnn_gradient_encode(const struct culm_gnn_gradient_key *key, struct culm_buf *buf);
/* `nodes`: of the tree over intervals. */
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
/* READY: which intervals. */
void culm_gnn_warm_encode(const struct culm_gnn_set *warm, int32_t intervals, struct culm_buf *buf);
enum culm_status culm_gnn_warm_decode(const uint8_t *meta, size_t len,
                                      const struct culm_gnn_layout *layout,
                                      struct culm_gnn_set *ret_warm);
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
void culm_gnn_saved_encode(const struct culm_gnn_saved *saved, struct culm_buf *buf);
enum culm_status culm_gnn_saved_decode(const uint8_t *meta, size_t len,
                                       struct culm_gnn_saved *ret_saved);
void culm_gnn_failed_encode(const struct culm_gnn_failed *failed, struct culm_buf *buf);
enum culm_status culm_gnn_failed_decode(const uint8_t *meta, size_t len,
                                        struct culm_gnn_failed *ret_failed);
void culm_gnn_peer_encode(int32_t node, struct culm_buf *buf);
enum culm_status culm_gnn_peer_decode(const uint8_t *meta, size_t len, int32_t *ret_node);
void culm_gnn_ask_encode(const struct culm_gnn_ask *ask, struct culm_buf *buf);
enum culm_status culm_gnn_ask_decode(const uint8_t *meta, size_t len, struct culm_gnn_ask *ret_ask);
void culm_gnn_answer_encode(const struct culm_gnn_answer *answer, struct culm_buf *buf);
/* Of a malformed one ret_answer is left in any state. */
enum culm_status culm_gnn_answer_decode(const uint8_t *meta, size_t len,
                                        struct culm_gnn_answer *ret_answer);
void culm_gnn_view_encode(const struct culm_gnn_view *view, int32_t intervals,
                          struct culm_buf *buf);
/* Of a malformed one ret_view is left in any state. */
enum culm_status culm_gnn_view_decode(const uint8_t *meta, size_t len,
                                      const struct culm_gnn_layout *layout,
                                      struct culm_gnn_view *ret_view);
void culm_gnn_commit_encode(const struct culm_gnn_commit *commit, struct culm_buf *buf);
enum culm_status culm_gnn_commit_decode(const uint8_t *meta, size_t len,
                                        struct culm_gnn_commit *ret_commit);

#endif
