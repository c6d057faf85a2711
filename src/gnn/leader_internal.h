/* The insides of the leader, shared by leader*.c alone. See leader.h. */
#ifndef CULM_GNN_LEADER_INTERNAL_H
#define CULM_GNN_LEADER_INTERNAL_H

#include "gnn/leader.h"
#include "gnn/message.h"
#include "ledger/patience.h"
#include "ledger/stall.h"

#define CULM_GNN_SLOTS_MAX CULM_GNN_NODES_MAX /* of a role */

struct gnn_node {
    int32_t id, slot; /* slot -1: it stands by */
    int64_t pid;      /* 0: not known */
    uint32_t role;
    bool alive;
    bool leaving;          /* of its own accord or let go of: it is watched, and not counted on */
    int32_t failed_before; /* starts of its role that had failed just before it joined */
    uint64_t joined_ns, heard_ns;
    bool holder;                    /* of the view */
    uint64_t holder_since;          /* the view that made it one */
    bool holds;                     /* it has the state, since then */
    struct culm_gnn_held held;      /* what it last said */
    struct culm_heartbeat beat;     /* the same */
    uint64_t task_began_ns;         /* of that */
    struct culm_gnn_answer *answer; /* NULL: it was not asked, or has not answered */
};

/* A loss that is not made up for yet. */
struct gnn_pause {
    int32_t node;
    uint32_t role, attempt;
    uint64_t since_ns, view;       /* in which it was lost */
    struct culm_gnn_set intervals; /* that it owned, and nobody has been done with since */
    int64_t redone;                /* steps of it that were done again */
};

/* Which intervals are done with an epoch. */
struct gnn_done {
    int64_t epoch;                  /* 0: none */
    bool *there;                    /* [intervals] */
    struct culm_gnn_totals *totals; /* [intervals] */
    struct culm_blob **scores;      /* [intervals] NULL: none */
    struct culm_gnn_work work;
};

struct culm_gnn_leader {
    struct culm_gnn_leader_options o;
    struct culm_buf meta;
    struct gnn_node node[CULM_GNN_NODES_MAX];
    int32_t node_count;
    int32_t *seen; /* ids that ever joined */
    int32_t seen_count, seen_capacity;
    int32_t slot[CULM_GNN_ROLES][CULM_GNN_SLOTS_MAX]; /* nodes; -1: vacant */
    int32_t starting[CULM_GNN_ROLES];
    int32_t failed_rounds[CULM_GNN_ROLES]; /* starts that failed one after the other */
    int32_t failures[CULM_ERR_STOPPED + 1];
    struct culm_gnn_view view, next; /* as it is told; a scratch one */
    int64_t version;                 /* committed last */
    int32_t saver;                   /* who was told last to save; -1: nobody */
    int64_t saved_version;
    char saved_path[CULM_GNN_PATH_MAX]; /* "": the seed */
    int32_t window;
    struct gnn_done *done; /* [window] by epoch % window */
    struct culm_gnn_totals final_totals;
    double final_area[CULM_GNN_SPLITS]; /* under the ROC curve; -1: not known */
    uint64_t epoch_ns, watched_ns;
    struct culm_patience patience;
    struct culm_stall stall;
    uint64_t rest_ns[CULM_GNN_ROLES]; /* until when nobody is started; 0: now */
    bool evaluated;                   /* nothing is left of the last evaluation */
    bool enough, stopping, finishing, ended;
    struct culm_gnn_task finish;
    struct culm_gnn_bill bill;
    struct culm_gnn_tuner tuner;
    double loss, best, test_at_best; /* best: -1: none */
    int64_t since_best, lost, rollbacks;
    struct gnn_pause *pause;
    int32_t pause_count, pause_capacity;
    double *paused_ms; /* of those that were made up for */
    int32_t paused_count, paused_capacity;
};

/* leader.c */
uint64_t culm_gnn_leader_now(const struct culm_gnn_leader *leader);
void culm_gnn_leader_publish(struct culm_gnn_leader *leader, json_t *take_event);
void culm_gnn_leader_fail(struct culm_gnn_leader *leader, enum culm_status status,
                          const char *format, ...) __attribute__((format(printf, 3, 4)));
struct culm_buf *culm_gnn_leader_meta(struct culm_gnn_leader *leader);
void culm_gnn_leader_send(struct culm_gnn_leader *leader, int32_t to,
                          enum culm_gnn_message_type type);
void culm_gnn_leader_send_all(struct culm_gnn_leader *leader, enum culm_gnn_message_type type);
struct gnn_node *culm_gnn_leader_node(struct culm_gnn_leader *leader, int32_t id); /* alive */

/* It is no longer counted on; its process is ended if it still runs. `why`: in words, or NULL. */
void culm_gnn_leader_lose(struct culm_gnn_leader *leader, struct gnn_node *node, const char *cause,
                          const char *why);
/* Starts as many of each role as there should be. */
void culm_gnn_leader_fill_up(struct culm_gnn_leader *leader);

/* A worker is going: another one comes in its place, if that is to be. */
void culm_gnn_leader_let_go(struct culm_gnn_leader *leader, struct gnn_node *node);

/* leader_pause.c */
/* The node is being lost. */
void culm_gnn_leader_pause(struct culm_gnn_leader *leader, const struct gnn_node *node);
/* An interval's owner says that it is done with an epoch; it has not been noted yet. */
void culm_gnn_leader_pause_done(struct culm_gnn_leader *leader, const struct culm_gnn_done *done);
/* A holder has said what it has. */
void culm_gnn_leader_pause_held(struct culm_gnn_leader *leader);
/* The run is over. */
void culm_gnn_leader_pause_end(struct culm_gnn_leader *leader);

/* leader_watch.c: those who are silent, or do not get on */
void culm_gnn_leader_beat(struct culm_gnn_leader *leader, struct gnn_node *node,
                          const struct culm_message *message);
void culm_gnn_leader_took(struct culm_gnn_leader *leader, const struct culm_message *message);
void culm_gnn_leader_answer(struct culm_gnn_leader *leader, struct gnn_node *node,
                            const struct culm_message *message);
void culm_gnn_leader_watch(struct culm_gnn_leader *leader); /* at the start */
void culm_gnn_leader_tick(struct culm_gnn_leader *leader);  /* then by the timer */
void culm_gnn_leader_forget_answers(struct culm_gnn_leader *leader);
/* leader_tune.c */
/* The run begins. */
void culm_gnn_leader_tune_begin(struct culm_gnn_leader *leader);
/* An epoch is about to be committed. */
void culm_gnn_leader_tune(struct culm_gnn_leader *leader);

/* leader_epoch.c */
/* What comes after `version`. */
struct culm_gnn_course culm_gnn_leader_course(const struct culm_gnn_leader *leader,
                                              int64_t version);
bool culm_gnn_leader_is_over(const struct culm_gnn_leader *leader);
/* Of the epoch that is committed next. */
const struct gnn_done *culm_gnn_leader_done(const struct culm_gnn_leader *leader);
void culm_gnn_leader_clear_done(struct culm_gnn_leader *leader, struct gnn_done *done);
/* What a DONE carries, if it is what it should be. */
void culm_gnn_leader_keep_scores(struct culm_gnn_leader *leader, struct gnn_done *done,
                                 int32_t interval, const struct culm_message *message);
void culm_gnn_leader_new_epoch(struct culm_gnn_leader *leader);
void culm_gnn_leader_go_on(struct culm_gnn_leader *leader);
void culm_gnn_leader_finish_if_done(struct culm_gnn_leader *leader);
void culm_gnn_leader_job_done(struct culm_gnn_leader *leader, struct culm_job *job);

/* leader_view.c */
/* Who can save what is committed; -1: nobody just now. */
int32_t culm_gnn_leader_saver(struct culm_gnn_leader *leader);
/* The first view: all are there. */
void culm_gnn_leader_begin(struct culm_gnn_leader *leader);
/* Makes the view that should be now, and tells it, and why, if it is another. `boundary`: an epoch has
 * just been committed, so intervals may go home. */
void culm_gnn_leader_review(struct culm_gnn_leader *leader, bool boundary, const char *why);
/* Tells the same view anew: everyone says once more what it has. */
void culm_gnn_leader_tell_again(struct culm_gnn_leader *leader);
/* Holders say different things of the same version. */
void culm_gnn_leader_differ(struct culm_gnn_leader *leader, int64_t version);

#endif
