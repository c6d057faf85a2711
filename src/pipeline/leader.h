/*
 * The leader: membership, views and commits of one run, as a state machine without I/O.
 *
 *   waiting ──enough workers──▶ loading ──all LOADED──▶ running ──last COMMIT──▶ finishing ──▶ done
 *      ▲                           ▲ │ loss: load again    │ loss: another view
 *      └───────────────────────────┴─┴──────── roll-back ◀─┘ when a stage has no copy left
 *
 * It alone makes views, commits iterations and publishes checkpoints; it computes nothing and holds
 * no tensors. What it does follows from who lives, what each node holds (acknowledged, never
 * assumed) and who is PREPARED. Nodes act only on what it says, in the order in which it says it.
 *
 * Files: leader.c workers and dispatch; leader_view.c views, loading, roll-back; leader_commit.c
 * iterations, checkpoints and the end; leader_hold.c steps that cannot be saved; leader_agree.c
 * whether nodes that speak of the same thing say the same; leader_stall.c which is to blame when
 * nothing moves; leader_trouble.c checkpoints that cannot be loaded; leader_take.c what it does first, if it takes over from
 * another leader. Who is there, silent, stuck,
 * missing or waited for is its crew's: crew/crew.h.
 *
 * Thread: the loop thread of its world.
 */
#ifndef CULM_PIPELINE_LEADER_H
#define CULM_PIPELINE_LEADER_H

#include "ledger/order.h"
#include "net/leader.h"
#include "pipeline/exec.h"
#include "pipeline/memory.h"

/* What nodes are to be: there is one role. */
#define CULM_ROLE_WORKER 0

struct culm_pipeline_leader;

struct culm_pipeline_leader_options {
    struct culm_world *world;   /* borrowed, like all pointers here; must outlive the leader */
    struct culm_agent *agent;   /* who starts and ends workers */
    struct culm_record *record; /* where deeds are written; NULL: nobody else can lead */
    struct culm_exec *exec;     /* PUBLISH, DISCARD, ROOM, FIND and FINISH only */
    const struct culm_layout *layout;
    struct culm_run_shape shape;
    const struct culm_memory *memory; /* NULL: workers may take any amount */
    struct culm_pipeline_settings settings;
    int64_t tokens_per_sample;
    struct culm_order order;  /* which sample is where in the stream; samples 0: not known, and what
                                was read is not looked at */
    int64_t start_step;       /* version to begin from */
    const char *start_source; /* its checkpoint directory; "": from the seed */
    uint64_t term;            /* in which it leads; 0 and 1: nobody has led before */
    const struct culm_known_node *known; /* those who took part under the leader before; copied */
    int32_t known_count;
    int64_t orphan_ms; /* after which a node without a leader has ended */
    bool traced;       /* workers come and go by a preemption trace: no replacements of our own */
    bool open;         /* newcomers may come */
    int32_t here_most; /* with `open`: workers at once that the agent is asked for, at most */
    double (*lr)(void *lr_context, int64_t step); /* for the step event; pure */
    /* The norm to which gradients of a step are scaled down, 0: none. NULL: that of the shape. */
    double (*clip_norm)(void *lr_context, int64_t step);
    void *lr_context;
};

/* What a summary or a test wants to know at the end, or at any time. */
struct culm_pipeline_leader_totals {
    int64_t losses, rollbacks, steps_redone, recovered, samples_lost, samples_repeated;
    int64_t committed; /* newest version */
    uint64_t view;
    double loss;
    bool done;
    int32_t alive, coming; /* workers; asked for or to be asked for */
    int32_t transfers;     /* copies under way */
};

struct culm_pipeline_leader *culm_pipeline_leader_new(
    const struct culm_pipeline_leader_options *options); /* NULL: out of memory */
void culm_pipeline_leader_free(struct culm_pipeline_leader *leader);
void culm_pipeline_leader_totals_of(const struct culm_pipeline_leader *leader,
                                    struct culm_pipeline_leader_totals *ret_totals);

extern const struct culm_actor_ops
    culm_pipeline_leader_actor; /* its `actor` is a struct culm_pipeline_leader * */

#endif
