/*
 * Histories: whole runs of the protocol in the simulated world, with faults, judged by an oracle.
 *
 * A history is made from its seed alone: the shape of the run, the timing, and the faults: when,
 * whom and which. The oracle stands outside the protocol. It asks that
 *   - the run ends, within a bounded virtual time after its last fault; one that was stopped, or
 *     whose last checkpoint could not be written and that said so, is resumed and ends then;
 *   - weights and every step's loss are those of the undisturbed run of the same shape with one
 *     pipeline and no redundancy;
 *   - a roll-back happens if no worker in the run has a copy of some stage, and only then;
 *   - no step is committed unless every stage has a copy at the version before;
 *   - no sample is lost or counts twice;
 *   - every worker lost with a stage is reported recovered once, within two steps;
 *   - whoever is lost is replaced, where that is asked for, and never by too many;
 *   - queues stay within bounds and no blob is left at the end;
 *   - a bit that was flipped in a worker's memory is noticed: that worker is put out, unless it is
 *     lost or let go before, or nothing uses the bit any more. (One that was lost meanwhile, for
 *     another reason, may have had others use what it made: then the bits at the end are not
 *     judged. Nor are those of a run that ended because two copies differ and nobody could say
 *     which is right: it is resumed.)
 *   - a fault that the plan says must fire has fired;
 *   - who leaves as it asked is no loss: where nothing else befalls anyone, and it has the time, nothing is lost, nor done twice;
 *   - a run that was stopped ends soon after that, or after what befell it later;
 *   - where who leads is decided at a store of keys: terms rise, and what cannot be taken back is done by who has the key of that
 *     term, and by nobody after the end;
 *   - each checkpoint that was due was published, or said to be given up, before the next one was due; for one
 *     whose writer was lost, the next one is of one of the next two steps.
 *
 * Thread: one a history; histories are independent.
 */
#ifndef CULM_TESTS_SIM_HISTORY_H
#define CULM_TESTS_SIM_HISTORY_H

#include "net/world.h"
#include "pipeline/layout.h"
#include "pipeline/phase.h"
#include "sim/sim.h"
#include "sim/symbolic.h"

#define CULM_HISTORY_FAULTS_MAX 16
#define CULM_HISTORY_GRACE_MS 120000 /* enough to leave in any case */

enum culm_fault_kind {
    CULM_FAULT_KILL,
    CULM_FAULT_FREEZE,
    CULM_FAULT_STICK,  /* its tasks no longer end, but it goes on talking */
    CULM_FAULT_CUT,    /* it and the next node of the ring cannot reach each other any more */
    CULM_FAULT_STOP,   /* the run, by a signal */
    CULM_FAULT_FLIP,   /* a bit of its memory: `flip` says of what */
    CULM_FAULT_DAMAGE, /* the newest checkpoint, where `node` modulo parameters is */
    /* Of its link to the `far` end, one direction: */
    CULM_FAULT_DROP, /* nothing passes any more, and nobody is told; after freeze_ms it goes on */
    CULM_FAULT_SLOW,
    CULM_FAULT_GARBLE,      /* one bit */
    CULM_FAULT_DESCRIPTORS, /* it can open no connection */
    CULM_FAULT_MEMORY,      /* the n-th thing it asks memory for is refused */
    CULM_FAULT_AWAY,        /* the store of keys, for freeze_ms */
    CULM_FAULT_LEAVE,       /* it is told to end, and is ended after freeze_ms */
    CULM_FAULT_COUNT,
};

extern const char *const culm_fault_kind_names[CULM_FAULT_COUNT];

/* The other end of a link at fault. */
enum culm_far {
    CULM_FAR_NEXT, /* of the ring */
    CULM_FAR_ANYONE,
    CULM_FAR_LEADER,
    CULM_FAR_NODE, /* far_node */
};

enum culm_when {
    CULM_AT_TIME,     /* at_ms after the run began */
    CULM_AT_PHASE,    /* the skip+1st time that a worker passes (phase, step, micro) */
    CULM_AFTER_EVENT, /* `delay` happenings after the skip+1st event of that name */
    CULM_AT_MOMENT    /* the skip+1st time that one who leads is there */
};

/* Whom. What is chosen from the newest view is chosen when the fault fires. */
enum culm_target {
    CULM_TARGET_ANY,      /* at a phase: whoever passes; else any worker that lives */
    CULM_TARGET_NODE,     /* `node`; at a phase: only when it passes */
    CULM_TARGET_TAKER,    /* an owner that was not the owner in the view before; or any */
    CULM_TARGET_OWNER,    /* of a stage */
    CULM_TARGET_SHADOW,   /* of a stage */
    CULM_TARGET_PAIR,     /* owner and shadow of a stage */
    CULM_TARGET_PIPELINE, /* every owner in one */
    CULM_TARGET_STAGE,    /* every holder of a stage */
    CULM_TARGET_ALL,
    CULM_TARGET_COUNT,
    CULM_TARGET_LEADER, /* freezes, and kills where another one takes over */
};

struct culm_history_fault {
    enum culm_when when;
    enum culm_phase phase;
    int64_t step, micro; /* -1: any */
    uint64_t at_ms;
    const char *event; /* its name; a literal */
    int32_t delay, skip;
    struct culm_sim_moment moment;
    int32_t behind; /* nothing counts before that fault, by its number from 1, has fired; 0: none */
    bool after_view; /* nor before a view has followed it */
    enum culm_target target;
    int32_t node;
    enum culm_fault_kind kind;
    enum culm_far far;
    bool inward;        /* the direction that fails: true, towards the target */
    uint64_t freeze_ms; /* how long it lasts; 0: for good */
    enum culm_flip flip;
    int32_t far_node;
    bool with_neighbour; /* the next node of the ring dies too */
    bool spent, fired;   /* its moment came; it did something */
};

/* Tasks of this kind fail with this status: so many, after so many that go well; 0 times: all that follow. */
struct culm_history_trouble {
    enum culm_task_kind kind;
    enum culm_status status;
    int32_t after, times;
    int32_t met, failed;
};

#define CULM_HISTORY_TROUBLES_MAX 2

/* What a seed draws besides, with dice of its own: a history without them is the same as before. */
enum culm_history_draw {
    CULM_HISTORY_DRAW_STARTS, /* more of the starts fail, most of all once a step is committed */
    CULM_HISTORY_DRAW_TASKS,  /* tasks of one kind fail: once, twice, or wherever they are run */
    CULM_HISTORY_DRAW_LOADS,  /* checkpoints are damaged, and all workers are lost */
    CULM_HISTORY_DRAW_OPEN, /* some or all workers come from elsewhere, as long as some are missing and beyond */
    CULM_HISTORY_DRAW_LEADERS, /* those who lead die, or freeze, and others take over */
    CULM_HISTORY_DRAW_STORE, /* who leads is decided at a store of keys, which fails now and then */
    CULM_HISTORY_DRAW_SIZE, /* half of them have more than seven nodes, one in fifty more than 32 */
    CULM_HISTORY_DRAW_LEAVE, /* nodes are told to end; in some of these histories nothing else befalls anyone */
    CULM_HISTORY_DRAW_COPIES, /* slow links to those who come later, and copies in small parts, or at a limited rate */
    CULM_HISTORY_DRAWS
};

extern const char *const culm_history_draw_names[CULM_HISTORY_DRAWS];

/* What streams are like. See sim.h. */
struct culm_history_fabric {
    uint64_t bytes_per_ms, later_bytes_per_ms; /* the latter: from and to who came later */
    size_t buffer_bytes, piece_bytes, scratch_bytes;
    uint32_t short_percent, backlog_full_percent;
    uint64_t exit_us, unacked_ms;
};

struct culm_history {
    uint64_t seed;
    struct culm_run_shape shape;
    struct culm_pipeline_settings settings;
    int64_t checkpoint_keep;
    int32_t params_per_stage;
    uint64_t copy_bytes_per_ms; /* as in pipeline/node.h */
    size_t copy_window_bytes;
    uint32_t save_fail_percent, start_fail_percent;
    uint32_t start_fail_later; /* after the first step; 0: as before */
    struct culm_history_trouble trouble[CULM_HISTORY_TROUBLES_MAX];
    int32_t trouble_count;
    uint64_t latency_us, jitter_us, job_us;
    struct culm_history_fabric fabric;
    int32_t fault_count;
    struct culm_history_fault fault[CULM_HISTORY_FAULTS_MAX];
    bool must_fire; /* every fault has to fire */
    bool traced;    /* workers come and go by a trace: the faults kill, and others are added */
    bool outlives;  /* workers outlive their leader, and another one takes over after take_ms */
    uint64_t take_ms;
    int32_t
        candidates; /* so many may lead, and a store of keys decides who does, in place of take_ms; 0: there is none */
    int64_t lease_ms;
    uint32_t store_fault_percent;
    bool open; /* newcomers come, and `here_most` workers are asked for, at most */
    int32_t here_most;
    /* Tasks of this kind take as long for everyone, at this stage; 0 ms: as all others. */
    int32_t slow_kind, slow_stage;
    uint64_t slow_ms;
    uint64_t
        slice_us; /* what a task takes that sends or takes a slice of a copy; 0: as all others */
    /* The run has to end with an error that says this, after at most so many losses. NULL: it has
     * to be done. */
    const char *must_say;
    int64_t losses_max;
    /* What a resumed run has instead. */
    int32_t resume_pipelines;
    enum culm_redundancy resume_redundancy;
    bool log;
};

struct culm_history_result {
    bool ok;
    char why[512]; /* when not ok */
    int64_t losses, rollbacks, recovered, views, resumes;
    int32_t faults_fired, faults_missed; /* missed: planned, and did nothing */
    int64_t kind_fired[CULM_FAULT_COUNT], phase_fired[CULM_PHASE_COUNT];
    struct culm_sim_totals world;
    int64_t flips, noticed;                 /* bits flipped; workers put out for it */
    int64_t misread;                        /* the run ended because other samples were read, */
    int64_t samples_lost, samples_repeated; /* and so many were lost, and used again */
    int64_t undecided;            /* the run ended because nobody could say which copy is right */
    int64_t blind;                /* a flipped worker was lost before it was noticed */
    uint64_t virtual_ms, stop_ms; /* the latter: the longest from a stop to the end */
    int64_t stops, due, unstarted, came, refused; /* of tasks, as they were drawn */
    int64_t leaders;                              /* that took over */
    int64_t left, calm; /* who left as they asked; runs in which nothing else befell anyone */
    int64_t alone_us,
        copying_us; /* the longest between two commits, in the last start; the latter with copies under way */
    int64_t copied_on, copies; /* steps committed while copies were under way; copies that came */
    int64_t stores, away_commits,
        overs; /* runs with a store; steps committed while it was away; runs of which it alone knew the end */
};

void culm_history_from_seed(uint64_t seed, struct culm_history *ret_history);
/* Adds to it what its seed draws besides; a bit each of enum culm_history_draw. */
void culm_history_draw(struct culm_history *history, uint32_t draws);
/* What befalls it, one bit each (shrink.h): faults by number, and behind them conditions. */
uint32_t culm_history_events(const struct culm_history *history);
/* Leaves only these. Faults are numbered anew. */
void culm_history_keep(struct culm_history *history, uint32_t events);
/* Prints one line for each. */
void culm_history_print_events(const struct culm_history *history);
/* Adds what happened in one history to the sums of many. */
void culm_history_result_add(struct culm_history_result *sum,
                             const struct culm_history_result *result);
void culm_history_run(struct culm_history *history, struct culm_history_result *ret_result);
/* One line that describes it. */
void culm_history_describe(const struct culm_history *history, char *ret_text, size_t size);

#endif
