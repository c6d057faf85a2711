/* The coordinator's parts, shared by its files. Not for others. See coordinator.h. */
#ifndef CULM_PIPELINE_COORDINATOR_INTERNAL_H
#define CULM_PIPELINE_COORDINATOR_INTERNAL_H

#include "ledger/failures.h"
#include "ledger/ledger.h"
#include "ledger/patience.h"
#include "ledger/pulse.h"
#include "ledger/stall.h"
#include "pipeline/control.h"
#include "pipeline/coordinator.h"
#include "pipeline/message.h"
#include "pipeline/waits.h"

enum phase { WAITING, LOADING, RUNNING, FINISHING, ENDED };

/* Why a worker is lost, as the event "lost" says it. */
enum culm_cause {
    CULM_CAUSE_EOF,       /* its connection ended, or others cannot reach it */
    CULM_CAUSE_EXIT,      /* its process ended */
    CULM_CAUSE_HEARTBEAT, /* it was silent */
    CULM_CAUSE_STUCK,     /* it does not finish a task */
    CULM_CAUSE_STALLED,   /* what others sent to it, or it to others, does not arrive */
    CULM_CAUSE_FAILED,    /* it said that it cannot go on */
    CULM_CAUSE_DIFFERS,   /* what it has is not what it should be */
    CULM_CAUSE_REMOVED,   /* a preemption trace took it away */
};

/* A worker that has joined, from then to the end of the run. */
struct worker {
    int32_t id;  /* its node */
    bool alive;  /* in the run; false: lost */
    bool fenced; /* lost, spoke again, and was told so */
    int64_t pid;
    char name[64];
    int32_t pipeline, stage; /* slot; -1: standing by */
    uint64_t holds;          /* acknowledged, at the committed version */
    uint64_t prepared;       /* stages, of the iteration in progress and the current view */
    uint64_t stepped;        /* stages that came to the version before by its own doing */
    struct words *words;     /* coordinator_agree.c; NULL: it has said nothing */
    bool contradicted;
    bool loaded;      /* in the current LOAD view */
    uint64_t seen_ns; /* its last word */
    int64_t progress; /* as its last heartbeat told it */
    int64_t task_ms;  /* how long its running task had taken at its last heartbeat */
    int32_t task_kind, task_stage;
    uint64_t task_began_ns;
    struct culm_waits *waits; /* its answer; NULL: none */
    uint64_t kill_ns;         /* when to kill a suspect; CULM_NEVER */
    uint64_t unloaded_view;   /* the LOAD view in which it could not load */
    enum culm_status unloaded_status;
    char unloaded[200];
    int32_t unsaved_attempt; /* in which it could not write the parts of these stages: */
    uint64_t unsaved;
};

/* One worker said that it cannot reach another. */
struct complaint {
    int32_t by, about;
    uint64_t due_ns;
};

/* A lost node whose stages have not all been taken over. */
struct pending {
    int32_t node, pipeline;
    uint64_t stages;
    uint64_t lost_ns;
    uint64_t view;           /* what was said in views before does not count */
    enum culm_origin origin; /* the worst so far */
    int64_t redone;
};

struct saving {
    bool active, publishing;
    bool weights; /* them alone */
    char to[CULM_SOURCE_MAX];
    int32_t attempt; /* counts all of the run */
    int64_t version;
    int32_t writer[CULM_MAX_STAGES];
    uint64_t saved; /* stages */
    uint64_t out;   /* stages that are being written, whatever becomes of it */
    char piece[CULM_MAX_STAGES][CULM_PIECE_TEXT_MAX];
};

/* The version committed last is held: it could not be saved, or the model not be written, and nothing
 * comes after it. coordinator_hold.c. */
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

struct culm_coordinator {
    struct culm_coordinator_options o;
    enum phase phase;
    bool first_start, stop_requested;
    struct worker *worker;
    int32_t worker_count, worker_capacity;
    int64_t iteration; /* in progress: committed + 1 */
    struct culm_view *view, *draft;
    uint32_t transfer_ids;
    struct culm_transfer transfer[CULM_MAX_TRANSFERS]; /* outstanding */
    int32_t transfer_count;
    bool transfers_settled; /* some have joined since the last view */
    uint64_t join_ns;       /* when to give outstanding ones up */
    uint64_t wait_ns;       /* when to give waiting up */
    int32_t waiting_have;   /* last reported; -1 */
    uint64_t tick_ns;

    double *norm; /* [params] squared, of the iteration in progress */
    bool *norm_known;
    double loss;
    int64_t samples;
    double weight;    /* share of the rows that count: loss and gradients are means over these */
    uint64_t step_ns; /* when the last commit was */

    struct culm_patience patience;
    struct culm_stall watch; /* whether anything moves: coordinator_stall.c */
    bool once_more;          /* this iteration is done once more, because its norms differed */
    bool afresh;             /* the next view begins the iteration afresh */
    int64_t agreed_version;  /* the newest whose copies all say the same; -1 */
    uint64_t load_view;      /* what was said in views before is of another past */

    struct complaint *complaint;
    int32_t complaint_count, complaint_capacity;

    struct pending pending[CULM_MAX_NODES];
    int32_t pending_count;
    double *pause_ms;
    int32_t pause_count, pause_capacity;

    uint64_t spawn_ns[CULM_MAX_NODES]; /* replacements due */
    int32_t spawn_count;
    int32_t starting;      /* asked for, not yet joined */
    int32_t failed_rounds; /* of starts, in a row */
    int32_t round_left;    /* starts of the round that failed last, still to come */
    struct culm_failures failures;

    int64_t checkpoint_version; /* newest published; start_step at first */
    char checkpoint_path[CULM_SOURCE_MAX];
    struct saving saving;
    struct culm_task io;
    struct hold hold;
    bool room_due;   /* a checkpoint was given up: older ones give way to the next */
    bool save_again; /* and have: the next commit is saved */
    char discard_to[CULM_SOURCE_MAX];
    uint64_t discard_ns; /* at the latest, though some still write */
    bool io_busy, discard_due;
    bool find_due;     /* a worker could not load the checkpoint */
    bool rollback_due; /* as soon as it is known whether the checkpoint being published is whole */
    char rollback_reason[CULM_REASON_MAX];
    int64_t discard_version;
    const char *io_pieces[CULM_MAX_STAGES];

    struct culm_ledger *ledger;
    int64_t losses, rollbacks, steps_redone, recovered;
    struct culm_buf meta;
};

/*
 * Every function below is called on the loop thread. Most may end the run (culm_coordinator_fail and
 * culm_coordinator_leave set `phase` to ENDED), lose workers, or issue another view, in which what
 * was said under the one before does not count: whoever goes on after them looks again. They do
 * nothing in a phase in which they mean nothing, unless it says otherwise.
 */

/* --- coordinator.c --- */

/* NULL: it has never joined. The pointer is good until another worker joins. */
struct worker *culm_coordinator_worker(const struct culm_coordinator *c, int32_t id);
uint64_t culm_coordinator_now(const struct culm_coordinator *c);
/* Publishes it, with "view" added. */
void culm_coordinator_event(struct culm_coordinator *c, json_t *take_event);
/* Where a message is encoded, emptied. Good until the next call. */
struct culm_buf *culm_coordinator_meta(struct culm_coordinator *c);
/* Sends what culm_coordinator_meta holds; again for each that is to get the same. */
void culm_coordinator_send(struct culm_coordinator *c, int32_t to, uint16_t type);
/* Ends the run with an error, which is published. */
void culm_coordinator_fail(struct culm_coordinator *c, enum culm_status status, const char *format,
                           ...) __attribute__((format(printf, 3, 4)));
/* Ends the run: tells every worker END, and leaves. */
void culm_coordinator_leave(struct culm_coordinator *c, int exit_code,
                            const struct culm_error *error);
/* Gives a worker that stands by a slot, if one is vacant. */
void culm_coordinator_seat(struct culm_coordinator *c, struct worker *worker);
/* All stages of a lost worker have been taken over: publishes it and counts the pause. The caller
 * takes `pending` off the list. */
void culm_coordinator_recovered(struct culm_coordinator *c, struct pending *pending);
int32_t culm_coordinator_alive(const struct culm_coordinator *c); /* workers */
/* Puts it out of the run, which goes on without it: another view follows, or a roll-back. Its
 * process is killed, now or (one that is silent) later. `message` (why, in words) may be NULL. Does
 * nothing to one that is lost already. */
void culm_coordinator_lose(struct culm_coordinator *c, struct worker *worker, enum culm_cause cause,
                           const char *message);

/* --- coordinator_watch.c --- */

/* HEARTBEAT, TOOK have come. */
void culm_coordinator_heartbeat(struct worker *worker, const struct culm_message *message);
void culm_coordinator_took(struct culm_coordinator *c, const struct culm_message *message);
/* Puts the worker out if its task has taken too long; ends the run if nobody finishes it. At every
 * tick, of one that is alive. */
void culm_coordinator_check_task(struct culm_coordinator *c, struct worker *worker);

/* --- coordinator_stall.c --- */

/* At every tick: does anything move? Asks, or judges what was answered. `slept`: this process did
 * not run for a while, so no time counts. */
void culm_coordinator_watch(struct culm_coordinator *c, uint64_t now, bool slept);
/* WAITS has come. */
void culm_coordinator_waits(struct culm_coordinator *c, struct worker *worker,
                            const struct culm_message *message);
void culm_coordinator_watch_release(struct culm_coordinator *c); /* frees the answers */

/* --- coordinator_trouble.c --- */

/* FAILED has come. */
void culm_coordinator_failed(struct culm_coordinator *c, struct worker *worker,
                             const struct culm_message *message);
/* A step was committed, and `iteration` is the next one. */
void culm_coordinator_got_on(struct culm_coordinator *c);
/* A worker that was asked for has ended before it joined; another is asked for, later each time.
 * `why`: what it declined for; or NULL. */
void culm_coordinator_start_failed(struct culm_coordinator *c, const struct culm_error *why);
/* A worker that was asked for has joined. */
void culm_coordinator_start_came(struct culm_coordinator *c);
/* UNLOADED has come: the checkpoint is looked at. */
void culm_coordinator_unloaded(struct culm_coordinator *c, struct worker *worker,
                               const struct culm_message *message);
/* Starts to look, if that is due and no other I/O runs. */
void culm_coordinator_find_if_due(struct culm_coordinator *c);
/* FIND has ended: if the checkpoint is not whole the run goes back to the one before, else the
 * trouble is the worker's. */
void culm_coordinator_found(struct culm_coordinator *c);

/* --- coordinator_view.c --- */

/* While waiting: makes everyone load, if there are enough workers and memory, else says what is
 * missing. */
void culm_coordinator_start_if_ready(struct culm_coordinator *c);
/* LOADED has come; when it was the last, the run goes on. */
void culm_coordinator_loaded(struct culm_coordinator *c, struct worker *worker,
                             const struct culm_message *message);
/* Leaves when a stop was asked for and nothing is newer than the last checkpoint. True: the run has
 * ended. */
bool culm_coordinator_stop_if_safe(struct culm_coordinator *c);
/* While running: a view from who lives now, or a roll-back if a stage has no copy left. boundary: an
 * iteration has just been committed, so roles may move; a view that would change nothing is then not
 * issued. */
void culm_coordinator_publish(struct culm_coordinator *c, bool boundary, const char *reason);
/* Is some lane without a pipeline? Then the run waits. */
bool culm_coordinator_parked(const struct culm_coordinator *c);
/* JOINED has come: a copy is whole, and its holder holds the stage. */
void culm_coordinator_joined(struct culm_coordinator *c, struct worker *worker,
                             const struct culm_message *message);
/* Copies have taken join_ms: the step no longer waits for them, unless nothing else can bring it
 * on. */
void culm_coordinator_give_up_joins(struct culm_coordinator *c);
/* Everyone goes back to the last checkpoint; later, if one is being published just now. */
void culm_coordinator_rollback(struct culm_coordinator *c, const char *reason);

/* --- coordinator_agree.c --- */

void culm_coordinator_words_free(struct worker *worker);         /* it has said nothing */
void culm_coordinator_words_stepped(struct culm_coordinator *c); /* a step was committed */
void culm_coordinator_words_afresh(struct culm_coordinator *c);  /* its norms do not count */
void culm_coordinator_words_loaded(struct culm_coordinator *c);  /* all hold what they loaded */
void culm_coordinator_words_forget(struct culm_coordinator *c);  /* at a roll-back */
/* Remembers what a worker said of this iteration; a later word takes the place of an earlier. */
void culm_coordinator_keep_prepared(struct culm_coordinator *c, struct worker *worker,
                                    const struct culm_prepared *prepared);
/* DIGESTS, DAMAGED have come. */
void culm_coordinator_digests(struct culm_coordinator *c, struct worker *worker,
                              const struct culm_message *message);
void culm_coordinator_damaged(struct culm_coordinator *c, struct worker *worker,
                              const struct culm_message *message);
/* All are prepared: do they agree? Then norms, loss, samples and weight are known. False: someone
 * has yet to say what it stepped to, or was put out, or the iteration begins afresh, or the run has
 * ended. */
bool culm_coordinator_agree(struct culm_coordinator *c);
/* The same of the state at the version before: agreed_version is that one. */
bool culm_coordinator_state_agreed(struct culm_coordinator *c);

/* --- coordinator_hold.c --- */

/* What everyone waits for could not be saved or written: holds it, or ends the run where trying again
 * is no use. Also when it is held already. */
void culm_coordinator_hold(struct culm_coordinator *c, enum culm_status status, const char *why);
/* While a version is held: tries to save it, when that is due and nothing is being done for it. */
void culm_coordinator_hold_on(struct culm_coordinator *c);
/* At every tick: the same, or gives it up. */
void culm_coordinator_hold_tick(struct culm_coordinator *c, uint64_t now);
/* A stop was asked for: what is held because the run is done is tried once more, and given up. */
void culm_coordinator_hold_stop(struct culm_coordinator *c);
/* ROOM has ended. */
void culm_coordinator_room(struct culm_coordinator *c);
/* The weights alone of the version that is held are published. */
void culm_coordinator_weights_saved(struct culm_coordinator *c);
/* Tells what a task has to say of the room. */
void culm_coordinator_note(struct culm_coordinator *c);

/* --- coordinator_commit.c --- */

/* Whoever may have waited for what has just been said, or for one that was lost: looks again. */
void culm_coordinator_settle(struct culm_coordinator *c);
/* PREPARED has come. */
void culm_coordinator_prepared(struct culm_coordinator *c, struct worker *worker,
                               const struct culm_message *message);
/* Commits the iteration, if every holder of the view is prepared, they agree, and nothing is being
 * copied. */
void culm_coordinator_try_commit(struct culm_coordinator *c);
/* Begins a checkpoint of the version that was committed last, or says why not; one that is wanted
 * (the last one, or at a stop) follows when the one before is done. */
void culm_coordinator_save(struct culm_coordinator *c);
/* Orders the pieces of the version that was committed last: all of it or the weights alone, into the
 * folder `to` ("": the run's). */
void culm_coordinator_save_so(struct culm_coordinator *c, bool weights, const char *to);
/* SAVED has come; when it was the last piece, the checkpoint is published. */
void culm_coordinator_saved(struct culm_coordinator *c, struct worker *worker,
                            const struct culm_message *message);
/* A worker is lost: another one writes its pieces, if the checkpoint is wanted; else it is given
 * up. */
void culm_coordinator_writer_lost(struct culm_coordinator *c, int32_t node);
/* The checkpoint being written is not to be: says so, and removes what there is of it. */
void culm_coordinator_give_up_save(struct culm_coordinator *c, const char *why);
/* What is being saved is not to be: there is to be nothing of it, as soon as those who still write
 * have done so (`waits`), or at once. */
void culm_coordinator_discard(struct culm_coordinator *c, bool waits);
/* Removes what there is of a checkpoint that was given up, when all have written. True: that has
 * begun. */
bool culm_coordinator_discard_if_due(struct culm_coordinator *c);
/* Starts an I/O task. Only when none runs (io_busy). */
void culm_coordinator_io_start(struct culm_coordinator *c, enum culm_task_kind kind,
                               int64_t version);
/* It has ended; starts what waited for it. */
void culm_coordinator_io_done(struct culm_coordinator *c);
/* Publishes what became of a checkpoint, and whether everyone waited for it; `why` may be NULL. */
void culm_coordinator_checkpoint_event(struct culm_coordinator *c, int64_t step, const char *path,
                                       bool ok, bool waited, const char *why);
/* Is the checkpoint being written that of the newest version, and what everyone waits for? */
bool culm_coordinator_last_save(const struct culm_coordinator *c);

#endif
