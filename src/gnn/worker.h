/*
 * A worker of graph networks: calls all servers, is given tasks, and sends back what they make.
 *
 * It keeps nothing that cannot be had again: constant inputs of intervals that it was given, and the
 * weights of some versions. Rows come block by block, and it computes with the first ones while the
 * others are on their way. Nobody calls it; when it ends, its tasks are given to others. Of a task
 * that has a gradient it sends that first and the rows behind it: the rows say that it is done.
 *
 * It may be told to stay for a while only, or to leave. Then it leaves so that nothing has to be done again: it says
 * so to all; servers answer, from when on they send it nothing; it does what it has; and it goes when
 * servers have said that all of that has come.
 *
 * Thread: the actor's.
 */
#ifndef CULM_GNN_WORKER_H
#define CULM_GNN_WORKER_H

#include "gnn/self.h"

struct culm_gnn_worker;

/* Intervals whose constant input an executor has, and the size of each as it came. */
struct culm_gnn_kept {
    struct culm_gnn_set intervals;
    size_t bytes[CULM_GNN_INTERVALS_MAX];
};

struct culm_gnn_worker_options {
    struct culm_gnn_node_options node;
    /* What the executor has, which is so kept up to date: for a worker that goes on with that
     * executor. Borrowed as long as it lives. NULL: nothing, and nobody will. */
    struct culm_gnn_kept *kept;
    /* Of constant inputs, as they came; beyond that, those are forgotten that were needed least
     * lately. 0: all are kept. */
    size_t keep_bytes;
    /* So long after its start it takes no new tasks, and leaves with 0 when it has done those that it
     * has; so long after that, in any case. 0: it stays. */
    int64_t stay_ms, part_ms;
};

struct culm_gnn_worker *
culm_gnn_worker_new(const struct culm_gnn_worker_options *options); /* NULL: out of memory */
void culm_gnn_worker_free(struct culm_gnn_worker *worker);          /* NULL is fine */
extern const struct culm_actor_ops culm_gnn_worker_actor;

#endif
