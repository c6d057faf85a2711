/* Shared by the files of histories; nobody else includes it. */
#ifndef CULM_TESTS_SIM_HISTORY_INTERNAL_H
#define CULM_TESTS_SIM_HISTORY_INTERNAL_H

#include "history.h"
#include "pipeline/leader.h"
#include "pipeline/node.h"
#include "sim/sim.h"
#include "sim/symbolic.h"

#define WORKERS_MAX 2048
#define PIPELINES_MAX 256
#define STAGES_MAX 160
#define STEPS_MAX 64
#define CULM_HISTORY_ORPHAN_MS 60000
#define BEGIN_NS 1000000000ull /* when a simulated world begins */

/* A history while it is played: one start of the program, the oracle's memory, the faults. */
struct running {
    struct culm_history *history;
    struct culm_sim *sim;
    struct culm_layout layout;
    struct culm_symbolic_store *store;
    struct culm_pipeline_leader *leader; /* the newest */
    struct culm_pipeline_leader *leaders[CULM_SIM_LEADERS];
    struct culm_exec *leader_exec[CULM_SIM_LEADERS];
    int32_t leader_process[CULM_SIM_LEADERS];
    int32_t leader_count;
    uint64_t take_ns;        /* when another one takes over; 0: nobody is to */
    struct culm_exec **exec; /* by worker */
    int32_t exec_count;
    bool put_out[WORKERS_MAX]; /* workers that the leader has declared lost */
    bool let_go
        [WORKERS_MAX]; /* they had asked to leave; one that leads next may not know, and lose them */
    int64_t gone_before;       /* such losses */
    uint64_t took_ns;          /* since when the newest leader leads */
    bool deciding;             /* it has not made a view yet */
    bool in_curve[STEPS_MAX];  /* steps that were told of, and not rolled back since */
    bool voided[STEPS_MAX];    /* as it was before a roll-back of which no view has told yet */
    bool begins;               /* it has found nobody who has seen a view */
    int64_t rolled_back;       /* how often it has */
    bool unheard[WORKERS_MAX]; /* it went on without them */
    bool doomed[WORKERS_MAX];  /* workers that a fault befell for good */
    bool pinched[WORKERS_MAX]; /* workers that were refused memory */
    int32_t owed[WORKERS_MAX]; /* lost with a stage and not recovered: steps since, plus one */
    struct culm_role role[PIPELINES_MAX][STAGES_MAX]; /* of the newest view */
    int32_t owner_before[PIPELINES_MAX][STAGES_MAX];
    int32_t skipped[CULM_HISTORY_FAULTS_MAX], countdown[CULM_HISTORY_FAULTS_MAX];
    bool armed[CULM_HISTORY_FAULTS_MAX];
    bool seen_through[CULM_HISTORY_FAULTS_MAX]; /* a view has followed it */
    bool made_up[WORKERS_MAX];                  /* traced: somebody comes in its place, or has */
    int32_t linked[WORKERS_MAX];  /* 1 + the other end of the link struck last; 0: none */
    uint64_t add_ns[WORKERS_MAX]; /* traced: workers to come */
    int32_t add_count;
    char (*loss_bits)[16]; /* [STEPS_MAX]; goes on in a resumed run */
    char weights[65];
    uint64_t last_fault_ns;
    int64_t start_step;
    struct culm_pipeline_leader_totals totals; /* at the end */
    int64_t rollbacks, views;
    int exit_code;
    bool held;         /* a step that could not be saved */
    bool was_held;     /* at any time */
    bool done, honest; /* it failed, and said that the last checkpoint could not be written, or that
                          copies differ */
    bool asked[WORKERS_MAX];    /* to leave */
    int32_t stays[WORKERS_MAX]; /* for how many steps it has been of no use since */
    int64_t left, backwards;    /* who left as they asked; backward tasks that were begun */
    bool said;                  /* it failed as the history wants it to */
    bool over;        /* it is done, as the store says, and whoever led was not there to say so */
    uint64_t away_ns; /* since when the store was away, when it was last */
    bool slept;       /* one that leads was frozen */
    int64_t away_commits;      /* while the store was away */
    int64_t copied_on, copies; /* steps committed while copies were under way; copies that came */
    uint64_t step_ns;          /* when the last step was committed */
    uint64_t longest_ns[2]; /* the longest time from one to the next; [1]: with copies under way */
    int64_t flips_seen[WORKERS_MAX]; /* of its executor, at the last look */
    bool flipped[WORKERS_MAX];       /* and not yet noticed */
    int64_t flips, noticed, undecided, misread;
    int64_t samples_lost, samples_repeated; /* as told when they were misread */
    bool reader;                            /* some worker was made to read others */
    bool blind;
    bool loading;     /* the last view was one of loading */
    int32_t stuck;    /* were made so */
    uint64_t come_ns; /* open: when the next may come from elsewhere */
    int64_t came;
    uint64_t stopped_ns;                    /* 0: it was not */
    bool troubled;                          /* it failed, as tasks of one kind do everywhere */
    int64_t furthest;                       /* step that was committed, by whomever */
    int64_t committed, steps, refused, due; /* committed; tasks that failed as drawn; checkpoints */
    bool told[STEPS_MAX];                   /* [step] `checkpoint` was published */
    bool save_owed;     /* one was given up because its writer was lost, and none has come since */
    int64_t owed_after; /* this step */
    char complaint[400];
};

/* history.c. The first complaint is the one that counts. */
__attribute__((format(printf, 2, 3))) void culm_history_complain(struct running *run,
                                                                 const char *format, ...);
/* Looks whether any have come to pass. */
void culm_history_look_for_flips(struct running *run);
/* By the newest view that was told of. */
bool culm_history_is_named(const struct running *run, int32_t node);
/* What was told of steps after that one is void. */
void culm_history_cut_curve(struct running *run, int64_t version);

/* history_judge.c. How the run ended, whether done or to be resumed; and in all, beside the undisturbed one. */
void culm_history_judge_end(struct running *run);
void culm_history_judge(struct running *run, const struct running *calm);
uint64_t culm_history_stop_took_ms(const struct running *run);
/* Nothing befalls anyone but that nodes are told to leave, in good time. */
bool culm_history_is_kind(const struct culm_history *history);
/* A step is committed: one that asks to leave, and is of no use, is let go with one of the next views. */
void culm_history_check_leavers(struct running *run);
/* Nodes left as they asked, and nothing else befell anyone. */
bool culm_history_is_calm(const struct running *run);

/* history_leader.c. The first one leads, or those stand who may. False: out of memory. */
bool culm_history_begin(struct running *run);
/* Another one leads. */
void culm_history_take_over(struct running *run);
void culm_history_leads(void *context, const struct culm_sim_reign *reign);
/* One that freezes for longer than another one waits is taken over from, and wakes up later. False: nothing was done. */
bool culm_history_befall_leader(struct running *run, const struct culm_history_fault *fault);
/* The newest leader's; zeros before there is one. */
void culm_history_totals_of(const struct running *run,
                            struct culm_pipeline_leader_totals *ret_totals);
/* It commits that step. */
void culm_history_commits(struct running *run, int64_t step);
/* It has found out what there is. */
void culm_history_decided(struct running *run, const char *reason);
/* One that has just taken over has not heard of that node, which may have all that is left of something. */
bool culm_history_is_awaited(const struct running *run, int32_t node);
/* What cannot be taken back was written so often by who leads; `what` has happened. */
void culm_history_check_deed(struct running *run, enum culm_deed deed, int64_t times,
                             const char *what);
/* For culm_symbolic_store. */
bool culm_history_may_prune(void *context, const struct culm_exec *exec);

/* history_fault.c */
void culm_history_arm(struct running *run, const char *event); /* it was published */
void culm_history_lost(struct running *run, int32_t node);     /* also one that no fault befell */
void culm_history_at_point(void *context, int32_t node, const struct culm_fault_point *point);
void culm_history_at_moment(void *context, int32_t leader, const struct culm_sim_moment *moment);
/* Has a fault befallen it that makes a worker fail? */
bool culm_history_may_fail(const struct running *run, int64_t node);
/* Between two happenings: faults by time, those after an event, and workers that a trace adds. */
void culm_history_timed(struct running *run);

#endif
