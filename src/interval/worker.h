/*
 * A worker of a graph network: connects to all servers, gets tasks from them, and sends results
 * back.
 *
 * It holds nothing that cannot be sent again: constant inputs of intervals, and some versions of
 * the weights. Rows arrive block by block, and it computes with the first ones while the others are
 * on their way. Nobody connects to it. If it dies, its tasks are given to others. A task's
 * gradient, if it has one, is sent before its rows; the rows complete the task.
 *
 * A worker may be given a time limit, or be told to leave. It then leaves without causing any task
 * to be repeated: it sends LEAVING to the leader and to all servers; these answer, and give it no
 * more tasks. It finishes the tasks it has, sends LEAVING to the servers once more, and leaves when
 * they have answered, which means that its results have arrived.
 *
 * Thread: the actor's.
 */
#ifndef CULM_INTERVAL_WORKER_H
#define CULM_INTERVAL_WORKER_H

#include "interval/self.h"

struct culm_gnn_worker;

/* The intervals whose constant input an executor has, and the size of each as received. */
struct culm_gnn_constants {
    struct culm_set intervals;
    size_t bytes[CULM_GNN_INTERVALS_MAX];
};

struct culm_gnn_worker_options {
    struct culm_gnn_node_options node;
    /* What the executor has already. The worker keeps it up to date, for the next worker on the
     * same executor. Borrowed for the lifetime of the worker. NULL: the executor is new, and no
     * other worker will use it. */
    struct culm_gnn_constants *constants;
    /* How many bytes of constant inputs to keep, as received; beyond that, the least recently used
     * are dropped. 0: no limit. */
    size_t keep_bytes;
    /* stay_ms after its start, the worker begins to leave as described above, with exit code 0;
     * part_ms after that it leaves in any case (0: a default). stay_ms 0: it stays. */
    int64_t stay_ms, part_ms;
};

struct culm_gnn_worker *
culm_gnn_worker_new(const struct culm_gnn_worker_options *options); /* NULL: out of memory */
void culm_gnn_worker_free(struct culm_gnn_worker *worker);          /* NULL is fine */
extern const struct culm_actor_ops culm_gnn_worker_actor;

#endif
