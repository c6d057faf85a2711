/*
 * A worker of graph networks: calls all servers, is given tasks, and sends back what they make.
 *
 * It keeps nothing that cannot be had again: constant inputs of intervals that it was given, and the
 * weights of some versions. Rows come block by block, and it computes with the first ones while the
 * others are on their way. Nobody calls it; when it ends, its tasks are given to others. Of a task
 * that has a gradient it sends that first and the rows behind it: the rows say that it is done.
 *
 * It may be told to stay for a while only, or to leave. Then it goes in a way that leaves nothing to be
 * done again: it tells everyone; a server answers, and sends it nothing from then on; it does what it has,
 * and goes when the servers have said that all of that has come.
 *
 * Thread: the actor's.
 */
#ifndef CULM_GNN_WORKER_H
#define CULM_GNN_WORKER_H

#include "gnn/self.h"

struct culm_gnn_worker;

/* Intervals whose constant input an executor has, and the size of each as it came. */
struct culm_gnn_constants {
    struct culm_gnn_set intervals;
    size_t bytes[CULM_GNN_INTERVALS_MAX];
};

struct culm_gnn_worker_options {
    struct culm_gnn_node_options node;
    /* What the executor has. It is brought up to date, for the next worker on the same executor.
     * Borrowed as long as the worker lives. NULL: the executor has nothing, and no worker comes next. */
    struct culm_gnn_constants *constants;
    /* How much of constant inputs it keeps, as they came; beyond that, those go that were needed least
     * recently. 0: it keeps all. */
    size_t keep_bytes;
    /* stay_ms after its start it takes no new tasks, and leaves with exit code 0 when it has done those
     * that it has; part_ms after that it leaves in any case. stay_ms 0: it stays. */
    int64_t stay_ms, part_ms;
};

struct culm_gnn_worker *
culm_gnn_worker_new(const struct culm_gnn_worker_options *options); /* NULL: out of memory */
void culm_gnn_worker_free(struct culm_gnn_worker *worker);          /* NULL is fine */
extern const struct culm_actor_ops culm_gnn_worker_actor;

#endif
