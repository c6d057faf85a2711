/* Internals of a server, shared by server*.c only. See server.h. */
#ifndef CULM_INTERVAL_SERVER_INTERNAL_H
#define CULM_INTERVAL_SERVER_INTERNAL_H

#include "interval/holder.h"
#include "interval/server.h"

/* A slice of rows that another server has sent. */
struct ghost {
    struct culm_gnn_slice_key key;
    struct culm_blob *blob;
    struct ghost *next;
};

/* That rows were sent to `node`, for its intervals `readers`. */
struct sent {
    int32_t node;
    struct culm_set readers;
};

/* The rows that an interval has made for one gather. */
struct made {
    struct culm_blob *blob;
    struct sent *sent; /* by node */
    int32_t sent_count, sent_capacity;
    int32_t next_peer; /* those before it have been sent what they need */
    bool served;       /* all have */
};

/* Another server of the view. */
struct peer {
    int32_t node;
    struct culm_set owns;
};

struct worker {
    int32_t node;
    int32_t room, out; /* tasks that it has asked for, and tasks that it has */
    bool leaving;
    int32_t counted;      /* of the room of all: its own, while it stays */
    struct culm_set warm; /* intervals whose constant input it has or was sent */
};

#define CULM_GNN_TOOK_KEPT 31

/* A turn: one interval's progress through one epoch. */
struct turn {
    int64_t epoch;                       /* 0: unused */
    int32_t step;                        /* the next one to be done */
    bool out;                            /* that step, or a gather it needs, is in progress */
    int32_t worker, second;              /* workers that have the step; -1: nobody */
    int32_t keeper[CULM_GNN_STAGES_MAX]; /* the worker that did the stage forward; -1: none */
    bool here;                           /* this server does the step */
    uint64_t out_ns;                     /* when `worker` was given the step */
    int32_t lacks_gather,
        lacks;         /* that gather lacks the rows of this interval, and of none before */
    struct made *made; /* [gathers] */
    struct culm_blob **gathered; /* [gathers] */
    struct culm_blob *gradient[CULM_GNN_STAGES_MAX];
    struct culm_blob *share;   /* a worker's gradient, which arrives before its rows */
    struct culm_blob *weights; /* used by all steps of the turn; NULL: not chosen yet */
    int64_t version;           /* of `weights`; -1: not chosen yet */
    struct culm_blob *scores;  /* of an evaluation, for the leader; NULL: none */
    struct culm_gnn_totals totals;
    struct culm_gnn_work work;
    bool told;     /* DONE has been sent */
    uint32_t life; /* another one whenever a turn is cleared: tells stale results apart */
};

struct interval {
    bool mine;
    bool came;         /* taken over from another owner, and not DONE since */
    bool here;         /* OWN has run, and DROP has not */
    int64_t front;     /* the latest epoch that it has begun */
    struct turn *turn; /* [window] by epoch % window; NULL: it is another server's */
    struct made
        *constants; /* [gathers] only `sent` is used: who has the constant rows; as `turn` */
    struct culm_blob *constant; /* its constant input, packed for workers; NULL: not packed */
    struct culm_set warm;       /* workers that have it or were sent it, by place, if `ranked` */
};

/* A sum of gradients that this server has formed. */
struct sum {
    struct culm_blob *blob;
    int32_t sent_count;
    int32_t sent[CULM_GNN_HOLDERS_MAX]; /* the nodes it was sent to */
};

/* The sums of one epoch. */
struct sums {
    int64_t epoch;
    struct culm_ids sum[CULM_GNN_STAGES_MAX]; /* struct sum, by node of the tree: some of `cover` */
};

/* How long workers took for a step, from being given it to their result. */
struct took {
    int64_t count;                 /* of all results */
    double ms[CULM_GNN_TOOK_KEPT]; /* the latest ones, a ring */
    double median_ms;              /* of these */
};

struct culm_gnn_server {
    struct culm_gnn_self self; /* first member */
    bool waits;                /* for the first worker, up to a time limit */
    uint64_t worked_ns;        /* when a worker came last, or was given or returned a task */
    int32_t gathers_begun;     /* since the queues were last sampled (server_queue.c) */
    int32_t window;
    struct culm_gnn_holder *holder;
    struct culm_fold_tree tree; /* over intervals */
    struct interval *interval;  /* [intervals] */
    int32_t
        *own; /* [intervals] those that are its own, or were and have not been dropped; rising */
    int32_t own_count;
    struct peer *peer; /* [intervals] by node */
    int32_t peer_count;
    int32_t *cover; /* [intervals] the fewest nodes of the tree that together cover its intervals */
    int32_t cover_count;
    struct sums *sums;             /* [window] by epoch % window */
    struct culm_slice *fold_slice; /* [tree.count] input of the running FOLD */
    struct ghost **ghost;          /* [gathers * intervals] lists, of all epochs that are kept */
    struct ghost *early;           /* of attempts that this server has not been told of yet */
    struct culm_ids workers;       /* struct worker, by node */
    int32_t room;                  /* of all that stay */
    /* By their place among `workers`, if `ranked`: which have room and nothing to do; which have room, and something to
     * do. */
    struct culm_set idle, working;
    bool ranked;
    bool once, lean;
    struct took *took;             /* [steps] */
    struct culm_blob **weights;    /* [window] by version % window; NULL: none */
    struct culm_gnn_version *have; /* [window] which version weights[i] is */
    int64_t *asked;                /* [window] by epoch % window: the epoch, once asked for */
    struct culm_gnn_task task;     /* one at a time */
    bool busy;
    uint32_t task_attempt, task_life, lives;
    int64_t task_epoch;
    /* References for the running GATHER: a commit or a view may clear their origin meanwhile. */
    struct culm_gnn_source *source;      /* [intervals] */
    struct culm_set *readers;            /* [intervals] */
    struct culm_blob **made, **gathered; /* [gathers] */
};

/* The turn of an interval in `epoch`; NULL: there is none, or it is no longer kept. */
static inline struct turn *gnn_turn(const struct culm_gnn_server *server, int32_t interval,
                                    int64_t epoch) {
    struct turn *turns = server->interval[interval].turn;
    struct turn *turn = turns ? &turns[epoch % server->window] : NULL;
    return turn && turn->epoch == epoch ? turn : NULL;
}
/* The turn of the latest epoch that the interval has begun; NULL: there is none. */
static inline struct turn *gnn_front(const struct culm_gnn_server *server, int32_t interval) {
    return gnn_turn(server, interval, server->interval[interval].front);
}

/* The next gather that the turn's current step needs; -1: it has all its rows. */
static inline int32_t gnn_missing(const struct culm_gnn_server *server, const struct turn *turn) {
    const struct culm_gnn_step *step = &server->self.o.layout->step[turn->step];
    return step->rows >= 0 && !turn->gathered[step->rows]       ? step->rows
           : step->d_rows >= 0 && !turn->gathered[step->d_rows] ? step->d_rows
                                                                : -1;
}

/* server_data.c: rows between servers, sums for holders. */
void gnn_server_hear_slice(struct culm_gnn_server *server, const struct culm_message *message);
/* Frees ghosts of epochs before `oldest`; INT64_MAX: all. Constant rows are freed only then. */
void gnn_server_forget_ghosts(struct culm_gnn_server *server, int64_t oldest);
/* After a change of attempt: takes in ghosts of the new attempt that arrived before its view. */
void gnn_server_recall_ghosts(struct culm_gnn_server *server);
/* The rows that `interval` made in `epoch`, in a form that a gather for `reader` can use; blob
 * NULL: they are not here. */
struct culm_gnn_source gnn_server_rows(struct culm_gnn_server *server, int32_t gather,
                                       int32_t interval, int64_t epoch, int32_t reader);
/* How many steps the interval's previous owner had done in `epoch` and later ones, as far as the
 * rows that it has sent here tell. */
int64_t gnn_server_done_before(struct culm_gnn_server *server, int32_t interval, int64_t epoch);
/* How many other servers of the view have lower ids than that. */
int32_t gnn_server_peers_before(const struct culm_gnn_server *server, int32_t node);
/* Start the next SLICE, or the next FOLD, after sending sums that need none. True: a task was
 * started. */
bool gnn_server_scatter(struct culm_gnn_server *server);
bool gnn_server_sum(struct culm_gnn_server *server);
/* After a new view: works out its peers and `cover` again, and what has to be sent once more. */
void gnn_server_resend(struct culm_gnn_server *server);
/* The SLICE or FOLD is done: the result is sent, or kept. */
void gnn_server_sliced(struct culm_gnn_server *server);
void gnn_server_summed(struct culm_gnn_server *server);
/* Frees the sums of epochs before `oldest`. */
void gnn_server_clear_sums(struct culm_gnn_server *server, int64_t oldest);

/* server_work.c: steps done by workers. */
void gnn_server_worker_ready(struct culm_gnn_server *server, int32_t node,
                             const struct culm_message *message);
void gnn_server_worker_leaving(struct culm_gnn_server *server, int32_t node);
void gnn_server_worker_lost(struct culm_gnn_server *server, int32_t node);
/* A worker gives a task back: it lacks the interval's constant input (LACKS), or the result no
 * longer counts (DROPPED). */
void gnn_server_given_back(struct culm_gnn_server *server, int32_t from,
                           const struct culm_message *message);
/* A worker has sent the gradient of a task, or its rows, which complete it. */
void gnn_server_share(struct culm_gnn_server *server, const struct culm_message *message);
void gnn_server_result(struct culm_gnn_server *server, int32_t from,
                       const struct culm_message *message);
/* Gives the interval's step to a worker. False: no worker can take it now, or a PACK had to be
 * started first. */
bool gnn_server_hand_out(struct culm_gnn_server *server, int32_t interval);
/* server_late.c: called when there is nothing else to do. Gives slow tasks out a second time, does
 * steps that silent workers leave undone, and sets the timer for what may become late. */
void gnn_server_late(struct culm_gnn_server *server);
/* Records how long the worker took that was the first to get the turn's step. */
void gnn_server_took(struct culm_gnn_server *server, const struct turn *turn);
/* Sends the worker the interval's current step, and before it the constant input if it lacks that;
 * then it must have been packed. */
void gnn_server_give(struct culm_gnn_server *server, struct worker *worker, int32_t interval);
bool gnn_server_someone_works(const struct culm_gnn_server *server);
/* Workers have come or gone, or intervals have changed hands. */
void gnn_server_rank_later(struct culm_gnn_server *server);
/* An idle worker that does not have the turn's step, but the interval's constant input; NULL: there is none. */
struct worker *gnn_server_idle(struct culm_gnn_server *server, const struct turn *turn,
                               int32_t interval);

/* server_queue.c: samples the lengths of queues. Called when a gather of the turn is about to
 * begin. */
void gnn_server_look(struct culm_gnn_server *server, int32_t interval, struct turn *turn);

/* server_memory.c: allocates and frees. Nobody has been sent these rows. */
void gnn_server_forget_sent(struct made *made);
/* Makes room for the turns of an interval, and frees it with what is in them. False: out of memory; it has none then. */
bool gnn_server_make_turns(struct culm_gnn_server *server, struct interval *interval);
void gnn_server_free_turns(struct culm_gnn_server *server, struct interval *interval);
/* Clears a turn, which is unused then. */
void gnn_server_forget_turn(struct culm_gnn_server *server, struct turn *turn);
/* Releases the blobs of the task that has ended. */
void gnn_server_release_task(struct culm_gnn_server *server);

/* server.c: decides what to do next, and handles messages. */
/* How far behind the interval is that is furthest behind; INT64_MAX: none has anything to do. */
int64_t gnn_server_least(const struct culm_gnn_server *server);
/* The first step of an interval in `epoch`. */
int32_t gnn_server_first_step(const struct culm_gnn_server *server, int64_t epoch);
/* The newest rows of `interval` that a gather of the turn may read; blob NULL: there are none. */
struct culm_gnn_source gnn_server_newest(struct culm_gnn_server *server, const struct turn *turn,
                                         int32_t gather, int32_t interval, int32_t reader);
/* Whether the interval is waiting for its next task. *ret_behind: its progress; a smaller value is
 * further behind. It may be set even if the result is false. */
bool gnn_server_is_ready(const struct culm_gnn_server *server, int32_t interval,
                         int64_t *ret_behind);
/* Computes the interval's current step on this server. */
void gnn_server_apply(struct culm_gnn_server *server, int32_t interval);
/* Starts server->task, which has been filled in. */
void gnn_server_start(struct culm_gnn_server *server);
/* The turn's current step is done, here or by a worker. Takes ownership of the blobs. */
void gnn_server_stepped(struct culm_gnn_server *server, struct turn *turn,
                        struct culm_blob *take_output, struct culm_blob *take_gradient,
                        const struct culm_gnn_totals *totals);

#endif
