/* The insides of a server, shared by server*.c alone. See server.h. */
#ifndef CULM_GNN_SERVER_INTERNAL_H
#define CULM_GNN_SERVER_INTERNAL_H

#include "gnn/holder.h"
#include "gnn/server.h"

/* Rows of a gather that another server's interval made. */
struct ghost {
    struct culm_gnn_slice_key key;
    struct culm_blob *blob;
    struct ghost *next;
};

/* Whom rows were sent in this epoch, and for which of its intervals. */
struct sent {
    int32_t node;
    struct culm_gnn_set readers;
};

/* What an interval has made for one gather. */
struct made {
    struct culm_blob *blob;
    struct sent *sent;
    int32_t sent_count, sent_capacity;
    bool served; /* everyone has been sent what it reads of it */
};

/* Another server of the view. */
struct peer {
    int32_t node;
    struct culm_gnn_set owns;
};

struct worker {
    int32_t node;
    int32_t room, out; /* how many tasks more it takes, and how many it has */
    bool leaving;
    struct culm_gnn_set warm; /* intervals whose constant input it has, or was sent */
    struct worker *next;
};

#define CULM_GNN_TOOK_KEPT 31

/* An epoch of an interval. */
struct turn {
    int64_t epoch;                       /* 0: none */
    int32_t step;                        /* the next */
    bool out;                            /* that step, or what it needs, is being done */
    int32_t worker, second;              /* by which, and who does it too; -1: nobody */
    int32_t keeper[CULM_GNN_STAGES_MAX]; /* the worker that did a stage forward; -1: none */
    bool here;                           /* it is done here */
    uint64_t out_ns;                     /* since when the first worker has it */
    struct made *made;                   /* [gathers] */
    struct culm_blob **gathered;         /* [gathers] */
    struct culm_blob *gradient[CULM_GNN_STAGES_MAX];
    struct culm_blob *share;   /* the gradient that came from a worker, ahead of its rows */
    struct culm_blob *weights; /* with which it is computed, all of it; NULL: not chosen yet */
    int64_t version;           /* of them; -1: not chosen yet */
    struct culm_blob *scores;  /* of an evaluation, for the leader; NULL: none */
    struct culm_gnn_totals totals;
    struct culm_gnn_work work;
    bool told;     /* DONE has been sent */
    uint32_t life; /* how often all this was forgotten */
};

struct interval {
    bool mine;
    bool came;                  /* from another owner, and no DONE has been sent since */
    bool here;                  /* OWN is done */
    int64_t front;              /* the epoch that it is in */
    struct turn *turn;          /* [window] by epoch % window */
    struct made *constants;     /* [gathers] whom rows were sent that never change */
    struct culm_blob *constant; /* its constant input, packed for workers */
};

/* A sum of a gradient that this server has formed. */
struct sum {
    struct culm_blob *blob;
    int32_t sent_count; /* to whom */
    int32_t sent[CULM_GNN_HOLDERS_MAX];
};

/* Those of one epoch. */
struct sums {
    int64_t epoch;
    struct sum *sum[CULM_GNN_STAGES_MAX]; /* [tree.count] those of `cover` */
};

/* How long workers took for one step, from giving it out to its result. */
struct took {
    int64_t count;
    double ms[CULM_GNN_TOOK_KEPT]; /* of the last ones */
    double median_ms;
};

struct culm_gnn_server {
    struct culm_gnn_self self; /* first member */
    bool waits;                /* for the first worker; not for ever */
    int32_t gathers_begun;     /* since it last looked at what waits */
    int32_t window;
    struct culm_gnn_holder *holder;
    struct culm_fold_tree tree; /* over intervals */
    struct interval *interval;  /* [intervals] */
    struct peer *peer;          /* [intervals] */
    int32_t peer_count;
    int32_t *cover; /* [intervals] the fewest nodes of the tree that are its intervals together */
    int32_t cover_count;
    struct sums *sums;             /* [window] by epoch % window */
    struct culm_slice *fold_slice; /* [tree.count] of the FOLD that runs */
    struct ghost **ghost;          /* [gathers * intervals] of all epochs that are kept */
    struct ghost *early;           /* of an attempt that this server does not know yet */
    struct worker *workers;
    bool once, lean;
    struct took *took;             /* [steps] */
    struct culm_blob **weights;    /* [window] by version % window; NULL: none */
    struct culm_gnn_version *have; /* [window] of what they are */
    int64_t *asked;                /* [window] by epoch % window: for whose weights; 0: nobody's */
    struct culm_gnn_task task;     /* one at a time */
    bool busy;
    uint32_t task_attempt, task_life;
    int64_t task_epoch;
    /* What the GATHER that runs reads: a commit or a view may forget it meanwhile. */
    struct culm_gnn_source *source;      /* [intervals] */
    struct culm_gnn_set *readers;        /* [intervals] */
    struct culm_blob **made, **gathered; /* [gathers] */
};

/* The turn of an epoch; NULL: it is not kept. */
static inline struct turn *culm_gnn_turn(const struct culm_gnn_server *server, int32_t interval,
                                         int64_t epoch) {
    struct turn *turn = &server->interval[interval].turn[epoch % server->window];
    return turn->epoch == epoch ? turn : NULL;
}
static inline struct turn *culm_gnn_front(const struct culm_gnn_server *server, int32_t interval) {
    return culm_gnn_turn(server, interval, server->interval[interval].front);
}

/* server_data.c: what goes from server to server and to holders. */
void culm_gnn_server_hear_slice(struct culm_gnn_server *server, const struct culm_message *message);
/* Forgets those of epochs before `oldest`. */
void culm_gnn_server_forget_ghosts(struct culm_gnn_server *server, int64_t oldest);
/* The attempt is another: those of it that came early count. */
void culm_gnn_server_recall_ghosts(struct culm_gnn_server *server);
/* The rows of `interval`, made in that epoch, that a gather for `reader` can use; blob NULL: they are
 * not here. */
struct culm_gnn_source culm_gnn_server_rows(struct culm_gnn_server *server, int32_t gather,
                                            int32_t interval, int64_t epoch, int32_t reader);
/* How many steps of the interval, in that epoch and later ones, whoever had it before had done: as far as
 * rows show that came from there. */
int64_t culm_gnn_server_done_before(struct culm_gnn_server *server, int32_t interval,
                                    int64_t epoch);
/* Starts the next SLICE or FOLD, or sends what needs none. False: there is none. */
bool culm_gnn_server_scatter(struct culm_gnn_server *server);
bool culm_gnn_server_sum(struct culm_gnn_server *server);
void culm_gnn_server_resend(struct culm_gnn_server *server); /* the view is new */
void culm_gnn_server_sliced(struct culm_gnn_server *server);
void culm_gnn_server_summed(struct culm_gnn_server *server);
/* Of epochs before `oldest`. */
void culm_gnn_server_clear_sums(struct culm_gnn_server *server, int64_t oldest);

/* server_work.c: steps that workers do. */
void culm_gnn_server_worker_ready(struct culm_gnn_server *server, int32_t node,
                                  const struct culm_message *message);
void culm_gnn_server_worker_leaving(struct culm_gnn_server *server, int32_t node);
void culm_gnn_server_worker_lost(struct culm_gnn_server *server, int32_t node);
/* The constant input of a task that it was given. */
void culm_gnn_server_lacks(struct culm_gnn_server *server, int32_t from,
                           const struct culm_message *message);
void culm_gnn_server_share(struct culm_gnn_server *server, const struct culm_message *message);
void culm_gnn_server_result(struct culm_gnn_server *server, int32_t from,
                            const struct culm_message *message);
/* Hands the step out. False: nobody can take it just now, or a PACK had to be started first. */
bool culm_gnn_server_hand_out(struct culm_gnn_server *server, int32_t interval);
/* server_late.c: gives tasks that take long out once more, if nothing else is to be done; sets the
 * timer for those that may yet. */
void culm_gnn_server_late(struct culm_gnn_server *server);
/* A step has come back from the worker that was the first to get it. */
void culm_gnn_server_took(struct culm_gnn_server *server, const struct turn *turn);
/* Sends a worker the present step of an interval, whose constant input is here if it needs that. */
void culm_gnn_server_give(struct culm_gnn_server *server, struct worker *worker, int32_t interval);
bool culm_gnn_server_someone_works(const struct culm_gnn_server *server);
/* How many steps more its workers take now. */
int32_t culm_gnn_server_room(const struct culm_gnn_server *server);

/* server_queue.c: what waits. */
/* A gather of the turn is about to begin. */
void culm_gnn_server_look(struct culm_gnn_server *server, int32_t interval, struct turn *turn);

/* server_memory.c: what a server keeps. */
/* The turn has no epoch any more. */
void culm_gnn_server_forget_turn(struct culm_gnn_server *server, struct turn *turn);
/* Lets go of what the task read and made. */
void culm_gnn_server_release_task(struct culm_gnn_server *server);

/* server.c: what its intervals do next, and what it hears. */
/* The first step of an epoch. */
int32_t culm_gnn_server_first_step(const struct culm_gnn_server *server, int64_t epoch);
/* The newest rows of `interval` that a gather of the turn may read; blob NULL: there are none. */
struct culm_gnn_source culm_gnn_server_newest(struct culm_gnn_server *server,
                                              const struct turn *turn, int32_t gather,
                                              int32_t interval, int32_t reader);
/* Whether it has something to do; ret_behind: what it is at, comparable between intervals. */
bool culm_gnn_server_is_ready(const struct culm_gnn_server *server, int32_t interval,
                              int64_t *ret_behind);
/* Does the present step of an interval here. */
void culm_gnn_server_apply(struct culm_gnn_server *server, int32_t interval);
void culm_gnn_server_start(struct culm_gnn_server *server);
/* A step has come to its end: takes the blobs over. */
void culm_gnn_server_stepped(struct culm_gnn_server *server, struct turn *turn,
                             struct culm_blob *take_output, struct culm_blob *take_gradient,
                             const struct culm_gnn_totals *totals);

#endif
