/* Internals of the leader, shared by leader*.c only. See leader.h. */
#ifndef CULM_INTERVAL_LEADER_INTERNAL_H
#define CULM_INTERVAL_LEADER_INTERNAL_H

#include "crew/crew.h"
#include "crew/late.h"
#include "interval/committed.h"
#include "interval/leader.h"
#include "interval/message.h"

struct gnn_node {
    struct culm_mate mate;
    int32_t slot;              /* -1: on standby, or it asks to leave */
    bool parted;               /* it asks to leave, and an epoch has been committed since */
    bool files;                /* it reaches checkpoints: it was started here, or has a depot */
    uint64_t told;             /* the last view that it was sent; 0: none */
    bool holder;               /* under the current view */
    uint64_t holder_since;     /* the view that made it a holder */
    bool holds;                /* it has reported since then that it has the state */
    int32_t copy_from;         /* who sends it a copy of the state; -1: nobody */
    uint64_t copy_ns;          /* since when */
    struct culm_late late;     /* for copies that epochs went on without, since it last held */
    struct culm_gnn_held held; /* its last HOLDS */
    bool unsure;               /* that is only what it has reported to one that takes over */
    struct culm_gnn_answer *answer; /* to the last ASK, by node; NULL: none yet, or not asked */
    int32_t gaps;                   /* links that swallow, of which it is an end: for a moment */
    int32_t place;                  /* in `answer`, meanwhile */
    struct culm_gnn_report *report; /* to a leader that takes over; NULL: none */
    enum culm_cause cause;          /* lost meanwhile: why */
};

/* A lost node from which the run has not recovered yet. */
struct gnn_pause {
    int32_t node;
    uint32_t role, attempt;
    uint64_t since_ns, view;   /* when, and under which view, it was lost */
    struct culm_set intervals; /* that it owned, and that have not been DONE since */
    int64_t redone;            /* steps of its intervals that had to be repeated */
};

/* What intervals have reported of an epoch. */
struct gnn_done {
    int64_t epoch;                  /* 0: unused */
    int32_t count;                  /* intervals whose DONE has come */
    bool *there;                    /* [intervals] it has */
    struct culm_gnn_totals *totals; /* [intervals] */
    struct culm_blob **scores;      /* [intervals] NULL: none */
    struct culm_gnn_work work;
};

/* The last view that was told. */
struct gnn_told {
    uint64_t number; /* 0: none */
    int32_t *owner;  /* [intervals] */
};

/* What the server in a slot owns. */
struct gnn_load {
    int64_t rows;
    int32_t slot;
};

/* The checkpoint under way, and the next one. leader_save.c. */
struct gnn_saving {
    bool due;     /* to be ordered, of the version that is committed when somebody can write it */
    bool again;   /* it is, since there may be room for it now */
    bool active;  /* ordered, and neither published nor given up */
    bool written; /* its piece is there */
    int64_t order, version;
    uint32_t branch; /* of which it is, where rows may be stale; else 0 */
    int32_t writer;
    bool weights;                    /* them alone */
    struct culm_gnn_verdict verdict; /* at that version */
    char to[CULM_GNN_PATH_MAX];      /* the folder; "": the run's */
    char piece[CULM_GNN_PATH_MAX];
    enum culm_status status; /* why it was not written, or not published */
    char why[CULM_ERROR_MAX];
    bool discard_due, room_due; /* tasks of the leader */
};

/* The version committed last could not be saved, or the model not be written. leader_hold.c. */
struct gnn_hold {
    bool active, told;
    bool tried, weights_tried; /* since it was last looked for room */
    bool cut_short; /* the last try ended with its writer: another one follows in any case */
    uint64_t until_ns, again_ns;     /* given up; tried again */
    char weights[CULM_GNN_PATH_MAX]; /* that were saved alone; "": none */
    enum culm_status status;
    char why[CULM_ERROR_MAX];
};

/* What it finds out when it takes over. leader_take.c. */
struct gnn_taking {
    struct culm_gnn_view view;
    struct culm_gnn_curve *curve;
    bool decided; /* all that is left is to tell it */
    /* Where commits are written down: the last one; epoch 0: there is none. */
    struct culm_gnn_committed committed;
};

struct culm_gnn_leader {
    struct culm_crew crew;
    struct culm_gnn_leader_options o;
    struct gnn_hold hold;
    int32_t *slot[CULM_GNN_ROLES];   /* [at most wanted] nodes; -1: vacant */
    int32_t filled[CULM_GNN_ROLES];  /* slots that are not vacant */
    int32_t vacant[CULM_GNN_ROLES];  /* none below this one is */
    struct culm_gnn_view view, next; /* the current view; scratch for the next one */
    struct gnn_told told;
    struct gnn_load *load; /* [servers wanted] scratch for it */
    int64_t version;       /* the last one committed */
    struct gnn_saving saving;
    struct culm_gnn_task io; /* the leader's own task, or the last one */
    bool io_busy;
    bool back_due;      /* the run goes back to a checkpoint as soon as one is found */
    bool back_for_want; /* since no copy is left */
    bool back_found;    /* and as soon as that is written down */
    bool begin_due;     /* all load as soon as that is written down: nobody knows of a view */
    bool begin_sought;  /* and as soon as the checkpoint that they load was looked for */
    bool load_failed; /* by somebody who was told to load the checkpoint: it is looked for again */
    char back_why[80];
    int64_t saved_version;
    char saved_path[CULM_GNN_PATH_MAX]; /* "": initial weights */
    int32_t window;
    struct gnn_done *done; /* [window] by epoch % window */
    struct culm_gnn_totals final_totals;
    double final_area[CULM_GNN_SPLITS]; /* under the ROC curve; -1: not known */
    uint64_t epoch_ns;                  /* when the epoch began */
    double eval_ms;                     /* of the evaluation after training */
    bool evaluated;                     /* no final evaluation is outstanding */
    bool judged;                        /* there was one */
    bool stopping, finishing;
    int64_t cut_version; /* the one whose save was ordered as nothing more was to be committed */
    bool cut_late;       /* they have left it by then: the epoch after it is committed, and saved */
    uint64_t stop_ns;    /* when the stop was asked for */
    uint64_t
        stop_again_ns; /* not before is the version that was committed then saved (again); CULM_NEVER */
    struct culm_gnn_bill bill;
    struct culm_gnn_tuner tuner;
    double loss;
    struct culm_gnn_outcome last; /* of the epoch committed last */
    struct culm_gnn_curve
        *curve; /* of epochs since the last checkpoint; NULL: nobody else can lead */
    struct gnn_taking taking;
    struct culm_gnn_past past; /* where rows may be stale; else empty */
    struct culm_gnn_commit
        committing;   /* is being written down, and nobody is told before; epoch 0: none is */
    bool review_due;  /* as soon as it is */
    bool seeks;       /* it knows of no checkpoint that counts, and there may be one */
    uint64_t seek_ns; /* not looked for before */
    struct culm_error
        ending; /* with which it leaves, as soon as it is written down that the run is stopped */
    bool
        ending_due; /* to be written after what is being written, and in place of what that was for */
    bool ending_fails; /* it is published, too */
    /* At `version`; at saved_version; and with the final evaluation, which is no part of training. */
    struct culm_gnn_verdict verdict, saved_verdict, final_verdict;
    int64_t rollbacks;
    struct gnn_pause *pause;
    int32_t pause_count, pause_capacity;
};

/* Number i of the crew. */
static inline struct gnn_node *gnn_node_at(const struct culm_gnn_leader *leader, int32_t i) {
    return (struct gnn_node *)culm_crew_at(&leader->crew, i);
}

/* Whether rows may be stale: what is redone has other bits then. */
static inline bool gnn_leader_stale(const struct culm_gnn_leader *leader) {
    return leader->o.settings.pace.staleness > 0;
}

/* leader.c */
/* The node of that id if it is alive, else NULL. */
struct gnn_node *gnn_leader_node(const struct culm_gnn_leader *leader, int32_t id);
/* Of the crew's struct, which has just been made. */
void gnn_leader_node_init(struct culm_gnn_leader *leader, struct gnn_node *node);
/* Gives it that place, or, `place` below 0, any, if it is vacant and the node has none. NULL is fine. */
void gnn_leader_take_place(struct culm_gnn_leader *leader, struct gnn_node *node_or_null,
                           int32_t place);
/* The events. */
void gnn_leader_tell_joined(struct culm_gnn_leader *leader, struct gnn_node *node);
void gnn_leader_tell_lost(struct culm_gnn_leader *leader, struct gnn_node *node,
                          enum culm_cause cause, const char *why_or_null);
/* Makes the first view, if all are there, and nothing has to be written down before. */
void gnn_leader_begin_if_all_there(struct culm_gnn_leader *leader);
/* A worker is about to leave: it no longer counts, and is replaced if that many are wanted. */
void gnn_leader_let_go(struct culm_gnn_leader *leader, struct gnn_node *node);

/* It may leave, as it asked: it is out of the run. */
void gnn_leader_release(struct culm_gnn_leader *leader, struct gnn_node *node);

/* leader_take.c: what it does first, if it takes over from another leader */
/* Awaits those who took part. False: out of memory. */
bool gnn_leader_take_begin(struct culm_gnn_leader *leader);
void gnn_leader_take_end(struct culm_gnn_leader *leader);
/* What is written down of commits; and the checkpoint that it begins with, unless that is of another past. */
void gnn_leader_take_past(struct culm_gnn_leader *leader);
/* Anything has come from a node. */
void gnn_leader_take_hear(struct culm_gnn_leader *leader, struct gnn_node *node,
                          const struct culm_message *message);
/* Something has happened, or some time has passed: decides, if it can. */
void gnn_leader_take_on(struct culm_gnn_leader *leader);
/* The checkpoint with which all begin anew has been looked for: it is written down that they do. */
void gnn_leader_begin_found(struct culm_gnn_leader *leader);

/* leader_pause.c */
/* Called when a node is lost: its pause begins, if it did work that only it could do. Returns whether
 * it does. */
bool gnn_leader_pause(struct culm_gnn_leader *leader, const struct gnn_node *node);
/* An owner reports an interval done. Called before it is recorded in `done`. */
void gnn_leader_pause_done(struct culm_gnn_leader *leader, const struct culm_gnn_done *done);
/* A holder has reported its state. */
void gnn_leader_pause_held(struct culm_gnn_leader *leader);
/* The run is over: all pauses end. */
void gnn_leader_pause_end(struct culm_gnn_leader *leader);

/* leader_watch.c: what its crew asks (crew/crew.h) */
/* Of two equally suspicious nodes, whether `a` is to be removed: rather a worker, from which nobody
 * has to take over; otherwise the younger one. */
bool gnn_leader_rather(const struct culm_mate *a, const struct culm_mate *b);
void gnn_leader_name_task(int32_t kind, int32_t part, char *ret_text, size_t size);
void gnn_leader_answer(struct culm_gnn_leader *leader, struct gnn_node *node,
                       const struct culm_message *message);
bool gnn_leader_watched(struct culm_crew *crew);
int64_t gnn_leader_progress(const struct culm_crew *crew);
void gnn_leader_forget_answer(struct culm_crew *crew, struct culm_mate *mate);
struct culm_mate *gnn_leader_judge(struct culm_crew *crew, struct culm_mate *silent_or_null,
                                   int64_t silent_ms);

/* leader_wait.c: nodes that the run waits for */
/* Whether the first view can be made. */
bool gnn_leader_all_there(const struct culm_gnn_leader *leader);
/* Whether the run stands still until another node of the role joins. */
bool gnn_leader_lacks(const struct culm_crew *crew, uint32_t role);
/* After any change: says that the run waits, and ends it if that is in vain. */
void gnn_leader_wait(struct culm_gnn_leader *leader);
void gnn_leader_in_vain(struct culm_crew *crew, uint32_t role);

/* leader_tune.c: called when the run begins, and when an epoch is about to be committed */
void gnn_leader_tune_begin(struct culm_gnn_leader *leader);
void gnn_leader_tune(struct culm_gnn_leader *leader);

/* leader_epoch.c */
/* The course of the epoch that follows `version`. */
struct culm_gnn_course gnn_leader_course(const struct culm_gnn_leader *leader, int64_t version);
/* Whether training is over: all epochs are done, or it was stopped. */
bool gnn_leader_is_over(const struct culm_gnn_leader *leader);
/* The reports on the current epoch. */
const struct gnn_done *gnn_leader_done(const struct culm_gnn_leader *leader);
void gnn_leader_clear_done(struct culm_gnn_leader *leader, struct gnn_done *done);
/* Keeps the scores in a DONE, if their size is right. */
void gnn_leader_keep_scores(struct culm_gnn_leader *leader, struct gnn_done *done, int32_t interval,
                            const struct culm_message *message);
/* The event of an epoch that was committed when another one led. */
void gnn_leader_tell_again_of(struct culm_gnn_leader *leader,
                              const struct culm_gnn_outcome *outcome);
/* Of epochs so far, to a node that holds something, unless nothing is recorded. */
void gnn_leader_tell_curve(struct culm_gnn_leader *leader, const struct gnn_node *node);
/* For those who join: it is committed. */
void gnn_leader_note_outcome(struct culm_gnn_leader *leader,
                             const struct culm_gnn_outcome *outcome);
/* What commits and views say of the run so far. */
struct culm_gnn_balance gnn_leader_balance(struct culm_gnn_leader *leader);
/* Leaves, since the run was stopped; with an event `error`, if it `fails`. As soon as that is written down. */
void gnn_leader_end_stopped(struct culm_gnn_leader *leader, bool fails, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* It is written down that the run is stopped; is done. */
void gnn_leader_stop_written(struct culm_gnn_leader *leader);
void gnn_leader_done_written(struct culm_gnn_leader *leader);
/* Whether a commit is written down ahead of being told: another one may lead, and done again an epoch has other bits. */
bool gnn_leader_writes(const struct culm_gnn_leader *leader);
/* The commit is written down. */
void gnn_leader_commit_written(struct culm_gnn_leader *leader);
/* The clock of the epoch starts now. */
void gnn_leader_new_epoch(struct culm_gnn_leader *leader);
/* Commits the epoch if all its reports are in. */
void gnn_leader_go_on(struct culm_gnn_leader *leader);
/* FINISH is done: the run ends, or what it has is held. */
void gnn_leader_finished(struct culm_gnn_leader *leader);

/* leader_save.c */
/* Orders the checkpoint that is due, if it can be now: `commits`: the COMMIT of its version has not
 * been sent; else only what nothing comes after. */
void gnn_leader_save(struct culm_gnn_leader *leader, bool commits);
/* Whether the version that is committed has a checkpoint. */
bool gnn_leader_is_saved(const struct culm_gnn_leader *leader);
/* A stop was asked for: saves the version that is committed, unless it is, and ends there, whatever of the next
 * epoch, or of the last evaluation, is missing: --resume does that. If it is too late for that, the epoch is
 * finished first. In the first epoch, where nothing is committed, ends at once. */
void gnn_leader_stop_on(struct culm_gnn_leader *leader);
/* It may not commit any more: what was committed last is saved, if somebody still has it. */
void gnn_leader_save_cut_off(struct culm_gnn_leader *leader);
/* Whether a checkpoint is under way, or a task of the leader is. */
bool gnn_leader_saves(const struct culm_gnn_leader *leader);
/* Orders the committed version, to that folder; "": the run's. False: nobody can write it. */
bool gnn_leader_order(struct culm_gnn_leader *leader, bool weights, const char *to);
/* After any change of holders: gives a checkpoint up whose writer does not hold the state any more. */
void gnn_leader_check_writer(struct culm_gnn_leader *leader);
/* The run goes back: nothing is due, and what is not being published is given up. */
void gnn_leader_forget_saving(struct culm_gnn_leader *leader);
void gnn_leader_saved(struct culm_gnn_leader *leader, const struct gnn_node *node,
                      const struct culm_message *message);
/* The event: a checkpoint was given up, or is held. */
void gnn_leader_not_saved(struct culm_gnn_leader *leader, const char *why);
/* Goes on with what the leader itself has to do, FINISH included. */
void gnn_leader_io_on(struct culm_gnn_leader *leader);
void gnn_leader_job_done(struct culm_gnn_leader *leader, struct culm_job *job);

/* leader_hold.c: what everyone waits for could not be saved or written. The nodes keep it, and it
 * is tried again at ticks until wait_ms have passed; where that is no use, the run ends. */
void gnn_leader_hold(struct culm_gnn_leader *leader, enum culm_status status, const char *why);
/* It was looked for room, for what could not be saved. */
void gnn_leader_hold_room(struct culm_gnn_leader *leader);
/* The weights alone were saved. */
void gnn_leader_hold_weights(struct culm_gnn_leader *leader, const char *path);
void gnn_leader_hold_tick(struct culm_gnn_leader *leader);
/* It was saved, or the run goes back to before it. */
void gnn_leader_hold_over(struct culm_gnn_leader *leader);
/* A stop was asked for: what is held because the run is done is tried once more, and given up. */
void gnn_leader_hold_stop(struct culm_gnn_leader *leader);

/* leader_view.c */
/* Sends the view that lies in the crew's buffer. */
void gnn_leader_send_view(struct culm_gnn_leader *leader, struct gnn_node *node);
/* Whether the node has the state under the current view. NULL: no. */
bool gnn_leader_is_full(const struct culm_gnn_leader *leader, const struct gnn_node *node);
/* Whether the commit of the epoch no longer waits for that holder of the view, which is being sent a copy. */
bool gnn_leader_is_late(const struct culm_gnn_leader *leader,
                        const struct culm_gnn_view_holder *holder);
/* The epoch is committed without those that are late, and the next view is without them. True: there are some. */
bool gnn_leader_leave_late(struct culm_gnn_leader *leader);
/* The node that can save the committed version: rather a parameter server, which has less to do; -1:
 * none just now. */
int32_t gnn_leader_saver(struct culm_gnn_leader *leader);
/* The run goes back to the last checkpoint, which is the one that was found; as soon as that is written down. */
void gnn_leader_go_back(struct culm_gnn_leader *leader);
void gnn_leader_back_written(struct culm_gnn_leader *leader);
/* Makes the first view; all nodes are there. */
void gnn_leader_begin(struct culm_gnn_leader *leader);
/* Works out what the view should be now, and announces it, with the reason, if it has changed.
 * `boundary`: an epoch has just been committed, so intervals may return to their home servers. */
void gnn_leader_review(struct culm_gnn_leader *leader, bool boundary, const char *why);
/* The same, but announced in any case: `view` is the last one of the leader before. */
void gnn_leader_review_anew(struct culm_gnn_leader *leader, const char *why);
/* Announces the same view under a new number, so that all nodes report again. */
void gnn_leader_tell_again(struct culm_gnn_leader *leader);
/* Leaders never mean different things by the same attempt: the next one, after `last`. */
uint32_t gnn_leader_attempt_after(const struct culm_gnn_leader *leader, uint32_t last);
/* Holders disagree about a version: rolls back, or ends the run after too many times. */
void gnn_leader_differ(struct culm_gnn_leader *leader, int64_t version);

#endif
