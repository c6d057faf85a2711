/*
 * The scheduler of an edge box: more models than memory, on live video, in time.
 *
 * An actor [net/world.h]. A feed is a node: each of its frames is a message of type
 * CULM_EDGE_FRAME, and when it is lost the feed has ended. There is one compute thread, which runs
 * batches of one query after another, and one I/O thread, which brings tensors in.
 *
 *     frame ─▶ waits for every query of its feed ─▶ batch ─▶ settled: answered in time
 *                           └─ too old, or pushed out by newer ones ─▶ settled: dropped
 *
 * Queries are visited in the order of the plan; one without a frame that it could still answer in
 * time is passed over. While one runs, what the next one lacks is brought in, tensor by tensor;
 * what must go for it is what is needed last [residency.h]. While the next one waits for its
 * tensors, others that are in memory may run, as long as that costs it nothing. One that has lost
 * frames by being passed over, as often as the plan allows, is not passed over again: its tensors
 * are brought in before its next frame comes. A query that fails to load is tried again after a
 * while.
 *
 * Of the frames of a visit the newest count, as many as the plan says. A batch begins only when it
 * should end before all its frames are due; what is late all the same counts as dropped.
 *
 * Tensors that are there or on their way, activations and waiting frames together never pass the
 * limit.
 *
 * Events: load|evict{query,bytes,resident_bytes}, frame{query,frame,due_ms,done_ms | dropped,why},
 * load_failed{query,error}, feed{feed,ended}, done{queries:[{query,frames,processed,dropped}],
 * resident_max_bytes,limit_bytes,load_share,loaded_bytes}.
 *
 * Thread: the actor's.
 */
#ifndef CULM_EDGE_SCHEDULER_H
#define CULM_EDGE_SCHEDULER_H

#include "edge/exec.h"
#include "edge/plan.h"

/* meta: u64 number, u64 at_ns, as of the world's clock; payload: the frame, where there is one. */
#define CULM_EDGE_FRAME 1
#define CULM_EDGE_FRAME_META 16

struct culm_edge_scheduler_options {
    struct culm_world *world; /* borrowed, as all */
    struct culm_edge_exec *exec;
    const struct culm_edge_layout *layout; /* sound */
    const struct culm_edge_plan *plan;     /* copied */
    bool quiet;                            /* publishes nothing */
    bool goes_on; /* when all feeds have ended it waits for others, or for stop */
};

struct culm_edge_totals {
    int64_t frames, processed, dropped; /* settled; processed + dropped */
    int64_t late;                       /* of dropped: began in time and ended too late */
    int64_t shared;                     /* of processed: another had run the first part on it */
    int64_t visits, failures;
    uint64_t longest_wait_ns; /* from one answer in time to the next */
};

struct culm_edge_scheduler;

struct culm_edge_scheduler *
culm_edge_scheduler_new(const struct culm_edge_scheduler_options *options); /* NULL: memory */
void culm_edge_scheduler_free(struct culm_edge_scheduler *scheduler);       /* NULL is fine */
extern const struct culm_actor_ops culm_edge_scheduler_actor;

/* These queries, feeds and tensors (layout.h says what stays), whole, as soon as what runs and what
 * is being loaded has ended: then exec->relaid is called. Until then both layouts are borrowed, and
 * nothing new begins. CULM_ERR_ARGUMENT, CULM_ERR_MEMORY: nothing has changed. */
enum culm_status culm_edge_scheduler_update(struct culm_edge_scheduler *scheduler,
                                            const struct culm_edge_layout *layout,
                                            const struct culm_edge_plan *plan,
                                            struct culm_error *error);
/* Ends: what runs is waited for, what waits is forgotten; then `done`, and it leaves with 0. */
void culm_edge_scheduler_stop(struct culm_edge_scheduler *scheduler);

const struct culm_edge_totals *
culm_edge_scheduler_totals(const struct culm_edge_scheduler *scheduler, int32_t query);
struct culm_edge_memory {
    size_t tensor_bytes, activation_bytes, frame_bytes; /* now */
    size_t most_bytes;                                  /* that the three together ever were */
    int64_t loaded_bytes, loads, evictions;
    uint64_t waited_ns; /* nothing ran because tensors had to come */
    uint64_t run_ns, elapsed_ns;
};
void culm_edge_scheduler_memory(const struct culm_edge_scheduler *scheduler,
                                struct culm_edge_memory *ret_memory);
/* Whether a tensor is in memory; for tests. */
bool culm_edge_scheduler_holds(const struct culm_edge_scheduler *scheduler, int32_t tensor);

#endif
