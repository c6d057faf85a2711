/*
 * The scheduler of an edge box: runs more models than memory holds, on live video, in time.
 *
 * It is an actor [net/world.h]. To it a feed is a node: each frame is a message of type
 * CULM_EDGE_FRAME, .._FRAME_LOST or .._FRAME_MISSED, and a node that is lost is a feed that has ended. One
 * compute thread runs one batch of one query at a time, and one I/O thread loads tensors.
 *
 *     frame ─▶ waits for every query of its feed ─▶ batch ─▶ settled: answered in time
 *                           └─ too old, or pushed out by newer ones ─▶ settled: dropped
 *
 * Queries are visited in the order of the plan; a query without a frame that it could still answer
 * in time is passed over. While one query runs, the tensors that the next one lacks are loaded, one
 * by one, and what is needed last is evicted for them [residency.h]. While the next query waits for
 * its tensors, others that are in memory may run, provided that costs it nothing. A query that has
 * lost frames by being passed over as often as the plan allows is not passed over again: its
 * tensors are loaded before its next frame arrives. A failed load is tried again after a while.
 *
 * A visit takes the newest frames, as many as the plan says. A batch begins only if it should end
 * before any of its frames is overdue; a frame that is late all the same counts as dropped.
 *
 * Invariant: resident and loading tensors, activations and waiting frames together never exceed the
 * limit.
 *
 * Events: load|evict{query,bytes,resident_bytes}, frame{query,frame,due_ms,done_ms | dropped,why},
 * load_failed{query,error}, feed{feed,ended},
 * done{queries:[{query,frames,processed,dropped,late,shared}],resident_max_bytes,limit_bytes,
 * load_share,loaded_bytes}.
 *
 * Thread: the actor's.
 */
#ifndef CULM_EDGE_SCHEDULER_H
#define CULM_EDGE_SCHEDULER_H

#include "edge/exec.h"
#include "edge/plan.h"

/* meta: u64 number, u64 at_ns by the world's clock; payload: the frame itself, or none. */
#define CULM_EDGE_FRAME 1
/* The same for a frame whose pixels could not be kept, since all slots were taken: it is dropped. */
#define CULM_EDGE_FRAME_LOST 2
/* The same for a frame that was due and did not come. */
#define CULM_EDGE_FRAME_MISSED 3
#define CULM_EDGE_FRAME_META 16

struct culm_edge_scheduler_options {
    struct culm_world *world; /* borrowed, like all pointers here */
    struct culm_edge_exec *exec;
    const struct culm_edge_layout *layout; /* must pass culm_edge_layout_check */
    const struct culm_edge_plan *plan;     /* copied */
    bool quiet;                            /* publish no events */
    bool goes_on; /* once all feeds have ended, wait for new ones or for stop */
};

struct culm_edge_totals {
    int64_t frames, processed, dropped; /* frames: settled, which is processed + dropped */
    int64_t late;                       /* of the dropped ones: their batch ended too late */
    int64_t shared;           /* of the processed ones: another query had computed a prefix */
    int64_t visits, failures; /* batches begun; loads that failed */
    uint64_t longest_wait_ns; /* between one answer in time and the next */
};

struct culm_edge_scheduler;

struct culm_edge_scheduler *
culm_edge_scheduler_new(const struct culm_edge_scheduler_options *options); /* NULL: memory */
void culm_edge_scheduler_free(struct culm_edge_scheduler *scheduler);       /* NULL is fine */
extern const struct culm_actor_ops culm_edge_scheduler_actor;

/* Switches to another layout (layout.h says what must stay as it is) and plan, all at once, as soon
 * as the batch and the load in progress have ended, which may be during this call; exec->relaid is
 * called then. Until then both layouts are borrowed, and no batch or load begins. The plan is
 * copied. On CULM_ERR_ARGUMENT and CULM_ERR_MEMORY nothing has changed. */
enum culm_status culm_edge_scheduler_update(struct culm_edge_scheduler *scheduler,
                                            const struct culm_edge_layout *layout,
                                            const struct culm_edge_plan *plan,
                                            struct culm_error *error);
/* A feed that has ended will send frames again. */
void culm_edge_scheduler_feed_again(struct culm_edge_scheduler *scheduler, int32_t feed);
/* Stops: waits for the batch and the load in progress and discards waiting frames; then publishes
 * `done` and leaves its world with 0. */
void culm_edge_scheduler_stop(struct culm_edge_scheduler *scheduler);

/* The event `done` as it would be now; NULL: out of memory. */
json_t *culm_edge_scheduler_report(const struct culm_edge_scheduler *scheduler);
const struct culm_edge_totals *
culm_edge_scheduler_totals(const struct culm_edge_scheduler *scheduler, int32_t query);
struct culm_edge_memory {
    size_t tensor_bytes, activation_bytes, frame_bytes; /* now */
    size_t most_bytes;                                  /* the maximum of their sum so far */
    int64_t loaded_bytes, loads, evictions;
    uint64_t waited_ns;          /* time in which nothing ran because tensors had to be loaded */
    uint64_t run_ns, elapsed_ns; /* run_ns: the expected time of all batches that have ended */
};
void culm_edge_scheduler_memory(const struct culm_edge_scheduler *scheduler,
                                struct culm_edge_memory *ret_memory);
/* Whether a tensor is in memory; for tests. */
bool culm_edge_scheduler_holds(const struct culm_edge_scheduler *scheduler, int32_t tensor);

#endif
