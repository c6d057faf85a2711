/* Internals of the leader, shared by leader*.c only. See leader.h. */
#ifndef CULM_GNN_LEADER_INTERNAL_H
#define CULM_GNN_LEADER_INTERNAL_H

#include "gnn/leader.h"
#include "gnn/message.h"
#include "ledger/failures.h"
#include "ledger/patience.h"
#include "ledger/stall.h"

#define CULM_GNN_SLOTS_MAX CULM_GNN_NODES_MAX /* per role */

enum { CULM_GNN_LEADER_WATCH, CULM_GNN_LEADER_DUE }; /* timers */

struct gnn_node {
    int32_t id, slot; /* slot -1: on standby */
    int64_t pid;      /* 0: not known */
    uint32_t role;
    bool alive;
    bool newcomer; /* nobody in the run has started it */
    /* Broken links of which it is the end that stayed, for no better reason than its age; and when
     * that was last. */
    int32_t outlived;
    uint64_t outlived_ns;
    bool leaving;          /* by itself or as it was told: still watched, but no longer counted */
    int32_t failed_before; /* failed starts of its role in a row, just before it joined */
    uint64_t joined_ns, heard_ns;
    bool holder;                    /* under the current view */
    uint64_t holder_since;          /* the view that made it a holder */
    bool holds;                     /* it has reported since then that it has the state */
    struct culm_gnn_held held;      /* its last HOLDS */
    struct culm_heartbeat beat;     /* its last heartbeat */
    uint64_t task_began_ns;         /* when the task in `beat` began */
    struct culm_gnn_answer *answer; /* to the last ASK; NULL: not asked, or not answered yet */
};

/* A lost node from which the run has not recovered yet. */
struct gnn_pause {
    int32_t node;
    uint32_t role, attempt;
    uint64_t since_ns, view;       /* when, and under which view, it was lost */
    struct culm_gnn_set intervals; /* that it owned, and that have not been DONE since */
    int64_t redone;                /* steps of its intervals that had to be repeated */
};

/* A link that one of its ends says it has lost. */
struct gnn_broken {
    int32_t a, b; /* nodes */
    uint64_t since_ns;
};

/* Lost nodes of a role that have not been replaced. */
struct gnn_vacancies {
    int32_t count, never;                /* to be replaced; never to be replaced */
    uint64_t due_ns[CULM_GNN_NODES_MAX]; /* [count] when, the earliest first */
};

/* What intervals have reported of an epoch. */
struct gnn_done {
    int64_t epoch;                  /* 0: unused */
    bool *there;                    /* [intervals] DONE has come */
    struct culm_gnn_totals *totals; /* [intervals] */
    struct culm_blob **scores;      /* [intervals] NULL: none */
    struct culm_gnn_work work;
};

/* The version committed last could not be saved, or the model not be written. leader_hold.c. */
struct gnn_hold {
    bool active;
    uint64_t until_ns, again_ns; /* given up; tried again */
    enum culm_status status;
    char why[CULM_ERROR_MAX];
};

struct culm_gnn_leader {
    struct culm_gnn_leader_options o;
    struct gnn_hold hold;
    struct culm_buf meta;
    struct gnn_node node[CULM_GNN_NODES_MAX];
    int32_t node_count;
    int32_t *seen; /* ids of all nodes that have ever joined */
    int32_t seen_count, seen_capacity;
    int32_t slot[CULM_GNN_ROLES][CULM_GNN_SLOTS_MAX]; /* nodes; -1: vacant */
    int32_t starting[CULM_GNN_ROLES];                 /* asked for, and not joined yet */
    int32_t failed_rounds[CULM_GNN_ROLES];            /* failed starts in a row */
    struct culm_failures failures;                    /* of servers and parameter servers */
    struct culm_gnn_view view, next; /* the current view; scratch for the next one */
    int64_t version;                 /* the last one committed */
    int32_t saver;                   /* the node last told to save; -1: none */
    int64_t saved_version;
    char saved_path[CULM_GNN_PATH_MAX]; /* "": initial weights */
    int32_t window;
    struct gnn_done *done; /* [window] by epoch % window */
    struct culm_gnn_totals final_totals;
    double final_area[CULM_GNN_SPLITS]; /* under the ROC curve; -1: not known */
    uint64_t epoch_ns, watched_ns;      /* when the epoch began; when nodes were last checked */
    double eval_ms;                     /* of the evaluation after training */
    struct culm_patience patience;
    struct culm_stall stall;
    struct gnn_broken *broken;
    int32_t broken_count, broken_capacity;
    struct gnn_vacancies vacant[CULM_GNN_ROLES];
    bool waits[CULM_GNN_ROLES];       /* the run waits for the role, and `waiting` was published */
    uint64_t wait_ns[CULM_GNN_ROLES]; /* until when */
    uint64_t armed_ns;                /* when the timer is to fire */
    uint64_t rest_ns[CULM_GNN_ROLES]; /* no starts before this time */
    bool evaluated;                   /* no final evaluation is outstanding */
    bool stopping, finishing, ended;
    struct culm_gnn_task finish;
    struct culm_gnn_bill bill;
    struct culm_gnn_tuner tuner;
    double loss;
    /* At `version`; at saved_version; and with the final evaluation, which is no part of training. */
    struct culm_gnn_verdict verdict, saved_verdict, final_verdict;
    int64_t lost, rollbacks;
    struct gnn_pause *pause;
    int32_t pause_count, pause_capacity;
    double *paused_ms; /* durations of past pauses */
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
/* The node of that id if it is alive, else NULL. */
struct gnn_node *culm_gnn_leader_node(struct culm_gnn_leader *leader, int32_t id);

/* Declares the node lost, ends its process if that still runs, and has the node replaced. `cause`
 * is that of the event `lost`; `why` its message, or NULL. */
void culm_gnn_leader_lose(struct culm_gnn_leader *leader, struct gnn_node *node, const char *cause,
                          const char *why);
/* Starts as many nodes of each role as are missing. */
void culm_gnn_leader_fill_up(struct culm_gnn_leader *leader);

/* A worker is about to leave: it no longer counts, and is replaced if that many are wanted. */
void culm_gnn_leader_let_go(struct culm_gnn_leader *leader, struct gnn_node *node);

/* leader_pause.c */
/* Called when a node is lost: its pause begins, if it did work that only it could do. Returns whether
 * it does. */
bool culm_gnn_leader_pause(struct culm_gnn_leader *leader, const struct gnn_node *node);
/* An owner reports an interval done. Called before it is recorded in `done`. */
void culm_gnn_leader_pause_done(struct culm_gnn_leader *leader, const struct culm_gnn_done *done);
/* A holder has reported its state. */
void culm_gnn_leader_pause_held(struct culm_gnn_leader *leader);
/* The run is over: all pauses end. */
void culm_gnn_leader_pause_end(struct culm_gnn_leader *leader);

/* leader_peers.c: nodes that cannot reach each other */
/* Node `by` says that it has lost the link to another one. */
void culm_gnn_leader_peer_lost(struct culm_gnn_leader *leader, const struct gnn_node *by,
                               const struct culm_message *message);
/* Called at every tick: removes a node of each link that has been broken for suspect_ms, or, if the
 * leader `slept`, begins to count anew. */
void culm_gnn_leader_check_links(struct culm_gnn_leader *leader, bool slept);

/* leader_watch.c: nodes that are silent or stuck, and links that swallow */
/* Of two equally suspicious nodes, whether `a` is to be removed: rather a worker, from which nobody
 * has to take over; otherwise the one that joined later. */
bool culm_gnn_leader_rather(const struct gnn_node *a, const struct gnn_node *b);
void culm_gnn_leader_beat(struct culm_gnn_leader *leader, struct gnn_node *node,
                          const struct culm_message *message);
void culm_gnn_leader_took(struct culm_gnn_leader *leader, const struct culm_message *message);
void culm_gnn_leader_answer(struct culm_gnn_leader *leader, struct gnn_node *node,
                            const struct culm_message *message);
void culm_gnn_leader_watch(struct culm_gnn_leader *leader); /* sets the timer for the next tick */
void culm_gnn_leader_tick(struct culm_gnn_leader *leader);  /* checks all nodes */
void culm_gnn_leader_forget_answers(struct culm_gnn_leader *leader);

/* leader_wait.c: lost nodes that are to be replaced, and nodes that the run waits for */
/* A node of the role was lost. */
void culm_gnn_leader_vacate(struct culm_gnn_leader *leader, uint32_t role);
/* Nodes of the role that were lost and are not to be replaced yet. */
int32_t culm_gnn_leader_vacant(struct culm_gnn_leader *leader, uint32_t role);
/* Whether the first view can be made. */
bool culm_gnn_leader_all_there(const struct culm_gnn_leader *leader);
/* After any change: publishes that the run waits, ends it if that is in vain, and sets the timer. */
void culm_gnn_leader_wait(struct culm_gnn_leader *leader);
void culm_gnn_leader_due(struct culm_gnn_leader *leader); /* the timer has fired */

/* leader_tune.c: called when the run begins, and when an epoch is about to be committed */
void culm_gnn_leader_tune_begin(struct culm_gnn_leader *leader);
void culm_gnn_leader_tune(struct culm_gnn_leader *leader);

/* leader_epoch.c */
/* The course of the epoch that follows `version`. */
struct culm_gnn_course culm_gnn_leader_course(const struct culm_gnn_leader *leader,
                                              int64_t version);
/* Whether training is over: all epochs are done, or it was stopped. */
bool culm_gnn_leader_is_over(const struct culm_gnn_leader *leader);
/* The reports on the current epoch. */
const struct gnn_done *culm_gnn_leader_done(const struct culm_gnn_leader *leader);
void culm_gnn_leader_clear_done(struct culm_gnn_leader *leader, struct gnn_done *done);
/* Keeps the scores in a DONE, if their size is right. */
void culm_gnn_leader_keep_scores(struct culm_gnn_leader *leader, struct gnn_done *done,
                                 int32_t interval, const struct culm_message *message);
/* The clock of the epoch starts now. */
void culm_gnn_leader_new_epoch(struct culm_gnn_leader *leader);
/* Commits the epoch if all its reports are in. */
void culm_gnn_leader_go_on(struct culm_gnn_leader *leader);
/* leader_hold.c: what everyone waits for could not be saved or written. The nodes keep it, and it
 * is tried again at ticks until wait_ms have passed; where that is no use, the run ends. */
void culm_gnn_leader_hold(struct culm_gnn_leader *leader, enum culm_status status, const char *why);
void culm_gnn_leader_hold_tick(struct culm_gnn_leader *leader);
/* It was saved, or the run goes back to before it. */
void culm_gnn_leader_hold_over(struct culm_gnn_leader *leader);
/* A stop was asked for: what is held because the run is done is tried once more, and given up. */
void culm_gnn_leader_hold_stop(struct culm_gnn_leader *leader);

/* leader_view.c: the current view is told again, without an event: whoever is to save tries once
 * more. */
void culm_gnn_leader_save_again(struct culm_gnn_leader *leader);
/* leader_epoch.c: FINISH is done once more. */
void culm_gnn_leader_finish_again(struct culm_gnn_leader *leader);
/* leader_wait.c: sets the timer to what is due next. */
void culm_gnn_leader_arm(struct culm_gnn_leader *leader);
/* Starts FINISH if training is over, evaluated and saved. */
void culm_gnn_leader_finish_if_done(struct culm_gnn_leader *leader);
void culm_gnn_leader_job_done(struct culm_gnn_leader *leader, struct culm_job *job);

/* leader_view.c */
/* The node that can save the committed version; -1: none just now. */
int32_t culm_gnn_leader_saver(struct culm_gnn_leader *leader);
/* Makes the first view; all nodes are there. */
void culm_gnn_leader_begin(struct culm_gnn_leader *leader);
/* Works out what the view should be now, and announces it, with the reason, if it has changed.
 * `boundary`: an epoch has just been committed, so intervals may return to their home servers. */
void culm_gnn_leader_review(struct culm_gnn_leader *leader, bool boundary, const char *why);
/* Announces the same view under a new number, so that all nodes report again. */
void culm_gnn_leader_tell_again(struct culm_gnn_leader *leader);
/* Holders disagree about a version: rolls back, or ends the run after too many times. */
void culm_gnn_leader_differ(struct culm_gnn_leader *leader, int64_t version);

#endif
