/*
 * The node: the protocol of one worker, as a state machine without I/O.
 *
 * A node obeys the newest view. It keeps, for the iteration in progress, every boundary activation
 * and gradient it made or got, the sums over lanes of the stages it owns, and every reduced
 * gradient of the stages it holds; all of it until COMMIT. From (view, what it has, what peers said
 * they have) follow its next task and its next frame; there is no other memory of "where it was",
 * so a loss at any point is only another view.
 *
 *   ready task, by priority:
 *     state (load, step, copies) > folds > norms > B(s,m) > F(s,m), bounded in flight > FRC
 *
 * Files: node.c life and views; node_task.c choosing and finishing tasks; node_data.c what is kept
 * and who is sent it; node_reduce.c sums, reduction, PREPARED and COMMIT; node_state.c versions,
 * transfers, checkpoints; node_learn.c copies that come here while all go on; node_agree.c what it says of its state; node_watch.c signs of life.
 *
 * Thread: the loop thread of its world.
 */
#ifndef CULM_PIPELINE_NODE_H
#define CULM_PIPELINE_NODE_H

#include "pipeline/exec.h"
#include "pipeline/view.h"

struct culm_node;

#define CULM_NODE_TIMER_COPY 1 /* beside that of crew/self.h */

struct culm_node_options {
    int32_t id;
    struct culm_world *world; /* borrowed, like everything below; must outlive the node */
    struct culm_exec *exec;
    struct culm_blob_pool *pool; /* every blob comes from here; its limit is the plan's promise */
    const struct culm_layout *layout;
    struct culm_run_shape shape;
    int64_t heartbeat_ms;
    /* Of a copy that is sent here: how much is asked for in a millisecond (0: any amount), and at a time (0: 1 MB). */
    uint64_t copy_bytes_per_ms;
    size_t copy_window_bytes;
    bool stops; /* crew/self.h */
};

struct culm_node *culm_node_new(const struct culm_node_options *options); /* NULL: out of memory */
void culm_node_free(struct culm_node *node); /* NULL is fine; no task of it may be running */

extern const struct culm_actor_ops culm_node_actor; /* its `actor` is a struct culm_node * */

/* For tests and oracles, at any time: the version of `stage` that the node has, or -1. */
int64_t culm_node_version(const struct culm_node *node, int32_t stage);
/* It has found its memory not to be what it had put there, and does no more. */
bool culm_node_is_damaged(const struct culm_node *node);
/* The same: how long its queues are. */
struct culm_node_queues {
    int32_t early, early_have, orders;
};
struct culm_node_queues culm_node_queues_of(const struct culm_node *node);

#endif
