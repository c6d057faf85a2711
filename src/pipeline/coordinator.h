/*
 * The coordinator: membership, views and commits of one run, as a state machine without I/O.
 *
 *   waiting ──enough workers──▶ loading ──all LOADED──▶ running ──last COMMIT──▶ finishing ──▶ done
 *      ▲                           ▲ │ loss: load again    │ loss: another view
 *      └───────────────────────────┴─┴──────── roll-back ◀─┘ when a stage has no copy left
 *
 * It alone makes views, commits iterations and publishes checkpoints; it computes nothing and holds
 * no tensors. What it does follows from who lives, what each node holds (acknowledged, never
 * assumed) and who is PREPARED. Nodes act only on what it says, in the order in which it says it.
 *
 * Files: coordinator.c workers and dispatch; coordinator_view.c views, loading, roll-back;
 * coordinator_commit.c iterations, checkpoints and the end; coordinator_agree.c whether those who
 * speak of the same thing say the same; coordinator_watch.c who lives and does not get on;
 * coordinator_stall.c who is to blame when nothing moves; coordinator_trouble.c what fails.
 *
 * Thread: the loop thread of its world.
 */
#ifndef CULM_PIPELINE_COORDINATOR_H
#define CULM_PIPELINE_COORDINATOR_H

#include "ledger/order.h"
#include "net/leader.h"
#include "pipeline/exec.h"
#include "pipeline/memory.h"

/* What nodes are to be: there is one role. */
#define CULM_ROLE_WORKER 0

struct culm_coordinator;

struct culm_coordinator_options {
    struct culm_world *world; /* borrowed, like all pointers here; must outlive the coordinator */
    struct culm_agent *agent; /* who starts and ends workers */
    struct culm_exec *exec;   /* PUBLISH, DISCARD and FINISH only */
    const struct culm_layout *layout;
    struct culm_run_shape shape;
    const struct culm_memory *memory; /* NULL: workers may take any amount */
    struct culm_pipeline_settings settings;
    int64_t tokens_per_sample;
    struct culm_order order;  /* which sample is where in the stream; samples 0: not known, and what
                                was read is not looked at */
    int64_t start_step;       /* version to begin from */
    const char *start_source; /* its checkpoint directory; "": from the seed */
    bool traced; /* workers come and go by a preemption trace: no replacements of our own */
    double (*lr)(void *lr_context, int64_t step); /* for the step event; pure */
    /* The norm to which gradients of a step are scaled down, 0: none. NULL: that of the shape. */
    double (*clip_norm)(void *lr_context, int64_t step);
    void *lr_context;
};

/* What a summary or a test wants to know at the end, or at any time. */
struct culm_coordinator_totals {
    int64_t losses, rollbacks, steps_redone, recovered, samples_lost, samples_repeated;
    int64_t committed; /* newest version */
    uint64_t view;
    double loss;
    bool done;
    int32_t alive, coming; /* workers; asked for or to be asked for */
    int32_t transfers;     /* copies under way */
};

struct culm_coordinator *
culm_coordinator_new(const struct culm_coordinator_options *options); /* NULL: out of memory */
void culm_coordinator_free(struct culm_coordinator *coordinator);
void culm_coordinator_totals(const struct culm_coordinator *coordinator,
                             struct culm_coordinator_totals *ret_totals);

extern const struct culm_actor_ops
    culm_coordinator_actor; /* its `actor` is a struct culm_coordinator * */

#endif
