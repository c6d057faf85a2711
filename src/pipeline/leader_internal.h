/* The leader's parts, shared by its files. Not for others. See leader.h. */
#ifndef CULM_PIPELINE_LEADER_INTERNAL_H
#define CULM_PIPELINE_LEADER_INTERNAL_H

#include "crew/take.h"
#include "ledger/ledger.h"
#include "pipeline/control.h"
#include "pipeline/leader.h"
#include "pipeline/message.h"
#include "pipeline/report.h"
#include "pipeline/waits.h"

/* TAKING: over from another leader. */
enum phase { WAITING, LOADING, RUNNING, FINISHING, ENDED, TAKING };

/* A worker that has joined. */
struct worker {
    struct culm_mate mate;
    int32_t pipeline, stage; /* slot; -1: standing by */
    int32_t gave_up; /* while a view is worked out: the slot that it has just left; -1: none */
    struct culm_stage_set holds;    /* acknowledged, at the committed version */
    struct culm_stage_set prepared; /* stages, of the iteration in progress and the current view */
    struct culm_stage_set stepped;  /* stages that came to the version before by its own doing */
    struct words *words;            /* leader_agree.c; NULL: it has said nothing */
    bool contradicted;
    enum culm_cause cause;      /* it is lost for */
    struct culm_report *report; /* while this leader takes over; NULL: it has not reported */
    bool loaded;                /* in the current LOAD view */
    struct culm_waits *waits;   /* its answer; NULL: none */
    uint64_t unloaded_view;     /* the LOAD view in which it could not load */
    enum culm_status unloaded_status;
    char unloaded[200];
    int32_t unsaved_attempt; /* in which it could not write the parts of these stages: */
    struct culm_stage_set unsaved;
};

/* What all have said of one thing. leader_agree.c. */
struct tally {
    uint64_t value;
    int32_t same, other; /* who say so; who say otherwise */
};

struct tallies {
    struct tally *thing; /* [count] */
    int32_t count;
    int32_t differ; /* things of which some say otherwise */
};

/* A lost node whose stages have not all been taken over. */
struct pending {
    int32_t node, pipeline;
    struct culm_stage_set stages;
    uint64_t lost_ns;
    uint64_t view;           /* what was said in views before does not count */
    enum culm_origin origin; /* the worst so far */
    int64_t redone;
    bool idle;    /* its pipeline had no lanes */
    bool stepped; /* a step was committed without it */
};

struct saving {
    bool active, publishing;
    bool weights; /* them alone */
    char to[CULM_SOURCE_MAX];
    int32_t attempt; /* counts all of the run */
    int64_t version;
    int32_t *writer;                    /* [stages] */
    struct culm_stage_set saved;        /* stages */
    struct culm_stage_set out;          /* stages that are being written, whatever becomes of it */
    char (*piece)[CULM_PIECE_TEXT_MAX]; /* [stages] */
};

/* The version committed last is held: it could not be saved, or the model not be written, and nothing
 * comes after it. leader_hold.c. */
struct hold {
    bool active;
    uint64_t until_ns, again_ns;   /* given up; tried again */
    bool look;                     /* room is to be looked at now */
    bool failed;                   /* a save has failed since it was */
    char weights[CULM_SOURCE_MAX]; /* where they are saved; "": not yet */
    bool weights_next;         /* all of it fails though there seems to be room: what is smaller */
    bool told;                 /* by the event "held" */
    char note[CULM_ERROR_MAX]; /* what the last look at the room came to */
    enum culm_status status;   /* why it could not be saved */
    char why[CULM_ERROR_MAX];
};

/* What it finds out when it takes over. */
struct taking {
    struct culm_view view;
    struct culm_curve *curve;
};

struct culm_pipeline_leader {
    struct culm_crew crew; /* of one role */
    struct culm_pipeline_leader_options o;
    enum phase phase;
    bool first_start, stop_requested;
    int64_t iteration; /* in progress: committed + 1 */
    struct culm_view views[2], *view, *draft;
    bool tell_whole; /* the next view, to everyone: what was said last may not have come */
    struct culm_stage_set *taken; /* [pipelines] stages whose slot is some worker's */
    bool seats_changed;           /* or somebody stands by, since they were last looked at */
    uint32_t transfer_ids;
    struct culm_transfer *transfer; /* outstanding */
    int32_t transfer_count, transfer_capacity;
    bool transfers_settled; /* some have joined since the last view */
    bool plan_copies;       /* the next view has all that are missing */
    uint64_t
        join_ns; /* where lanes wait: when those that have joined are used without the others */

    double *norm; /* [params] squared, of the iteration in progress */
    bool *norm_known;
    struct culm_content last; /* commit */
    double loss;
    int64_t samples;
    double weight;    /* share of the rows that count: loss and gradients are means over these */
    uint64_t step_ns; /* when the last commit was */

    bool once_more;         /* this iteration is done once more, because its norms differed */
    bool afresh;            /* the next view begins the iteration afresh */
    int64_t agreed_version; /* the newest whose copies all say the same; -1 */
    struct tallies gradients, states;
    /* Where to look first for one who has not said PREPARED, DIGESTS, LOADED: mostly it has not now either. */
    int32_t unprepared, unstated, unloaded;
    uint64_t load_view; /* what was said in views before is of another past */

    struct culm_curve *curve; /* of steps since the last checkpoint; NULL: nobody else can lead */
    struct pending *pending;
    int32_t pending_count, pending_capacity;
    int32_t lost_count;                /* since the last review */
    char lost_reason[CULM_REASON_MAX]; /* of the first of them */

    int64_t checkpoint_version; /* newest published; start_step at first */
    char checkpoint_path[CULM_SOURCE_MAX];
    struct saving saving;
    struct culm_task io;
    struct hold hold;
    bool room_due;           /* a checkpoint was given up: older ones give way to the next */
    int64_t cut_off_version; /* that was to be saved, as the leader was cut off */
    bool save_due; /* and have, or its writer was lost: the next commit is saved in its place */
    char discard_to[CULM_SOURCE_MAX];
    uint64_t discard_ns; /* at the latest, though some still write */
    bool io_busy, discard_due;
    bool find_due;     /* a worker could not load the checkpoint */
    bool rollback_due; /* as soon as it is known whether the checkpoint being published is whole */
    bool begin_due;    /* all load as soon as that is written down: nobody knows of a view */
    char rollback_reason[CULM_REASON_MAX];
    int64_t discard_version;
    int32_t discard_attempt;
    const char **io_pieces; /* [stages] */

    struct culm_ledger *ledger;
    int64_t rollbacks, steps_redone, recovered, copied;
    struct taking taking;
};

/*
 * Every function below is called on the loop thread. Most may end the run (`phase` is
 * ENDED then), lose workers, or issue another view, in which what
 * was said under the one before does not count: whoever goes on after them looks again. They do
 * nothing in a phase in which they mean nothing, unless it says otherwise.
 *
 * The view that follows from a loss comes a moment later, with all that are lost by then (crew.review_why).
 * Meanwhile nothing is committed and nothing is asked of anyone by the view that still names the lost;
 * whatever would do that has the review first. What workers say (PREPARED, DIGESTS) is kept.
 */

/* --- leader.c --- */

/* Number i of the crew. */
static inline struct worker *worker_at(const struct culm_pipeline_leader *leader, int32_t i) {
    return (struct worker *)culm_crew_at(&leader->crew, i);
}
/* NULL: it has never joined, or was forgotten (crew/crew.h). */
struct worker *leader_worker(const struct culm_pipeline_leader *leader, int32_t id);
/* Gives a worker that stands by a slot, if one is vacant. */
void leader_seat(struct culm_pipeline_leader *leader, struct worker *worker);
/* The ledger says what the version committed last has consumed: all up to the last checkpoint in one record. */
void leader_fill_ledger(struct culm_pipeline_leader *leader);
void leader_stand_up(struct culm_pipeline_leader *leader, struct worker *worker);
/* All that stand by, as long as there are vacancies. */
void leader_seat_all(struct culm_pipeline_leader *leader);
/* All anew, where that leaves less exposed (place.h): before they load, when nobody holds anything. */
void leader_seat_apart(struct culm_pipeline_leader *leader);
/* At a boundary: one who stands by on another machine takes a seat, where that leaves less exposed; the next one when its copies
 * have come. */
void leader_move_seat(struct culm_pipeline_leader *leader);
/* At a boundary: who asks to leave has no seat any more; or, of those whose seat nobody has taken, has it again. True: somebody has. */
bool leader_leavers_stand_up(struct culm_pipeline_leader *leader);
bool leader_leavers_sit_down(struct culm_pipeline_leader *leader);
/* Or those of one pipeline have theirs again from whoever has taken them, so that it works on while others learn. */
bool leader_leavers_take_back(struct culm_pipeline_leader *leader);
/* Has every pipeline a worker in each slot? */
bool leader_seats_taken(const struct culm_pipeline_leader *leader);
/* All stages of a lost worker have been taken over: publishes it and counts the pause. The caller
 * takes `pending` off the list. */
void leader_recovered(struct culm_pipeline_leader *leader, struct pending *pending);
/* The event of a loss; its stages are to be taken over. */
void leader_tell_lost(struct culm_pipeline_leader *leader, struct worker *worker,
                      const char *why_or_null);
/* The lanes of their pipelines had gone to others before they were lost: there is nothing to take over. */
void leader_nothing_to_take_over(struct culm_pipeline_leader *leader);
/* A step was committed. Two of them without a lost worker, and its stages have been taken over, whether anybody has said so or
 * not: who has the lanes may have had them in the view that it saw last, and has taken over nothing. */
void leader_stepped_without(struct culm_pipeline_leader *leader);
/* --- leader_stall.c --- */

/* What its crew asks: crew/crew.h. */
bool leader_watched(struct culm_crew *crew);
int64_t leader_progress(const struct culm_crew *crew);
bool leader_asked(const struct culm_crew *crew, const struct culm_mate *mate);
void leader_forget_answer(struct culm_crew *crew, struct culm_mate *mate);
struct culm_mate *leader_judge(struct culm_crew *crew, struct culm_mate *silent_or_null,
                               int64_t silent_ms);
void leader_nobody(struct culm_crew *crew, const char *why);
/* WAITS has come. */
void leader_waits(struct culm_pipeline_leader *leader, struct worker *worker,
                  const struct culm_message *message);
/* --- leader_trouble.c --- */

/* UNLOADED has come: the checkpoint is looked at. */
void leader_unloaded(struct culm_pipeline_leader *leader, struct worker *worker,
                     const struct culm_message *message);
/* Starts to look, if that is due and no other I/O runs. */
void leader_find_if_due(struct culm_pipeline_leader *leader);
/* FIND has ended: if the checkpoint is not whole the run goes back to the one before, else the
 * trouble is the worker's. */
void leader_found(struct culm_pipeline_leader *leader);

/* --- leader_take.c --- */

/* Awaits those who took part. False: out of memory. */
bool leader_take_begin(struct culm_pipeline_leader *leader);
void leader_take_end(struct culm_pipeline_leader *leader);
/* REPORT, VIEW and CURVE have come. */
void leader_reported(struct culm_pipeline_leader *leader, struct worker *worker,
                     const struct culm_message *message);
void leader_shown(struct culm_pipeline_leader *leader, struct worker *worker,
                  const struct culm_message *message);
/* Something has come, or some time has passed: decides, if it can. */
void leader_take_on(struct culm_pipeline_leader *leader);
/* What a commit and a view say of the run so far. */
struct culm_totals leader_totals(const struct culm_pipeline_leader *leader);

/* --- leader_view.c --- */

/* While waiting: makes everyone load, if there are enough workers and memory, else says what is
 * missing. */
void leader_start_if_ready(struct culm_pipeline_leader *leader);
/* LOADED has come; when it was the last, the run goes on. */
void leader_loaded(struct culm_pipeline_leader *leader, struct worker *worker,
                   const struct culm_message *message);
/* All is saved, or nothing needs to be: the run ends as one that was stopped. */
void leader_leave_stopped(struct culm_pipeline_leader *leader);
/* The model is written, and so is that the run is done: tells everyone, and leaves. */
void leader_done(struct culm_pipeline_leader *leader);
/* The view in which the run goes on under a new leader: `leader->view` is the last one of the leader before. */
void leader_go_on(struct culm_pipeline_leader *leader, const char *reason);
/* Leaves when a stop was asked for and nothing is newer than the last checkpoint. True: the run has
 * ended. */
bool leader_stop_if_safe(struct culm_pipeline_leader *leader);
/* While running: a view from who lives now, or a roll-back if a stage has no copy left. boundary: an
 * iteration has just been committed, so roles may move; a view that would change nothing is then not
 * issued. */
void leader_publish(struct culm_pipeline_leader *leader, bool boundary, const char *reason);
/* Is some lane without a pipeline? Then the run waits. */
bool leader_parked(const struct culm_pipeline_leader *leader);
/* It may leave, as it asked: it is out of the run. */
void leader_release(struct culm_pipeline_leader *leader, struct worker *worker);
/* JOINED has come: a copy is whole, and its holder holds the stage. */
void leader_joined(struct culm_pipeline_leader *leader, struct worker *worker,
                   const struct culm_message *message);
/* Lanes have waited join_ms for copies. */
void leader_joins_late(struct culm_pipeline_leader *leader);
/* Everyone goes back to the last checkpoint; later, if one is being published just now. */
void leader_rollback(struct culm_pipeline_leader *leader, const char *reason);

/* It is written down: they do. */
void leader_rollback_written(struct culm_pipeline_leader *leader);

/* --- leader_agree.c --- */

bool leader_words_begin(struct culm_pipeline_leader *leader); /* false: out of memory */
void leader_words_end(struct culm_pipeline_leader *leader);   /* after everything of workers */
/* It has said nothing. */
void leader_words_free(struct culm_pipeline_leader *leader, struct worker *worker);
void leader_words_stepped(struct culm_pipeline_leader *leader); /* a step was committed */
void leader_words_afresh(struct culm_pipeline_leader *leader);  /* its norms do not count */
void leader_words_loaded(struct culm_pipeline_leader *leader);  /* all hold what they loaded */
void leader_words_forget(struct culm_pipeline_leader *leader);  /* at a roll-back */
/* Remembers what a worker said of this iteration; a later word takes the place of an earlier. */
void leader_keep_prepared(struct culm_pipeline_leader *leader, struct worker *worker,
                          const struct culm_prepared *prepared);
/* DIGESTS, DAMAGED have come. */
void leader_digests(struct culm_pipeline_leader *leader, struct worker *worker,
                    const struct culm_message *message);
void leader_damaged(struct culm_pipeline_leader *leader, struct worker *worker,
                    const struct culm_message *message);
/* All are prepared: do they agree? Then norms, loss, samples and weight are known. False: someone
 * has yet to say what it stepped to, or was put out, or the iteration begins afresh, or the run has
 * ended. */
bool leader_agree(struct culm_pipeline_leader *leader);
/* The same of the state at the version before: agreed_version is that one. */
bool leader_state_agreed(struct culm_pipeline_leader *leader);

/* --- leader_hold.c --- */

/* Saves what was committed last, where the leader is cut off and may not commit any more. */
void leader_save_cut_off(struct culm_pipeline_leader *leader);
/* What everyone waits for could not be saved or written: holds it, or ends the run where trying again
 * is no use. Also when it is held already. */
void leader_hold(struct culm_pipeline_leader *leader, enum culm_status status, const char *why);
/* While a version is held: tries to save it, when that is due and nothing is being done for it. */
void leader_hold_on(struct culm_pipeline_leader *leader);
/* At every tick: the same, or gives it up. */
void leader_hold_tick(struct culm_pipeline_leader *leader, uint64_t now);
/* A stop was asked for: what is held because the run is done is tried once more, and given up. */
void leader_hold_stop(struct culm_pipeline_leader *leader);
/* ROOM has ended. */
void leader_room(struct culm_pipeline_leader *leader);
/* The weights alone of the version that is held are published. */
void leader_weights_saved(struct culm_pipeline_leader *leader);
/* Tells what a task has to say of the room. */
void leader_note(struct culm_pipeline_leader *leader);

/* --- leader_commit.c --- */

/* Keeps a committed step for those who come, until it is in a checkpoint. */
void leader_note_step(struct culm_pipeline_leader *leader, int64_t step,
                      const struct culm_curve_step *told);
/* The event of a step that was committed when another one led. */
void leader_tell_step_again(struct culm_pipeline_leader *leader, int64_t step,
                            const struct culm_curve_step *told);
/* Whoever may have waited for what has just been said, or for one that was lost: looks again. */
void leader_settle(struct culm_pipeline_leader *leader);
/* PREPARED has come. */
void leader_prepared(struct culm_pipeline_leader *leader, struct worker *worker,
                     const struct culm_message *message);
/* Commits the iteration, if every holder of the view is prepared, and they agree. */
void leader_try_commit(struct culm_pipeline_leader *leader);
/* Begins a checkpoint of the version that was committed last, or says why not; one that is wanted
 * (the last one, or at a stop) follows when the one before is done. */
void leader_save(struct culm_pipeline_leader *leader);
/* Orders the pieces of the version that was committed last: all of it or the weights alone, into the
 * folder `to` ("": the run's). */
void leader_save_so(struct culm_pipeline_leader *leader, bool weights, const char *to);
/* SAVED has come; when it was the last piece, the checkpoint is published. */
void leader_saved(struct culm_pipeline_leader *leader, struct worker *worker,
                  const struct culm_message *message);
/* Workers are lost, and the view is without them: others write their pieces, if the checkpoint is
 * wanted; else it is given up, and due with the next commit. */
void leader_writers_lost(struct culm_pipeline_leader *leader);
/* The checkpoint being written is not to be: says so, and removes what there is of it. */
void leader_give_up_save(struct culm_pipeline_leader *leader, const char *why);
/* What is being saved is not to be: there is to be nothing of it, as soon as those who still write
 * have done so (`waits`), or at once. */
void leader_discard(struct culm_pipeline_leader *leader, bool waits);
/* Removes what there is of a checkpoint that was given up, when all have written. True: that has
 * begun. */
bool leader_discard_if_due(struct culm_pipeline_leader *leader);
/* Starts an I/O task. Only when none runs (io_busy). */
void leader_io_start(struct culm_pipeline_leader *leader, enum culm_task_kind kind,
                     int64_t version);
/* It has ended; starts what waited for it. */
void leader_io_done(struct culm_pipeline_leader *leader);
/* Publishes what became of a checkpoint, and whether everyone waited for it; `why` may be NULL. */
void leader_checkpoint_event(struct culm_pipeline_leader *leader, int64_t step, const char *path,
                             bool ok, bool waited, const char *why);
/* Is the checkpoint being written that of the newest version, and what everyone waits for? */
bool leader_last_save(const struct culm_pipeline_leader *leader);

#endif
