/*
 * A worker of graph networks: calls all servers, is given tasks, and sends back what they make.
 *
 * It keeps nothing that cannot be had again: constant inputs of intervals that it was given, and the
 * weights of two versions. Nobody calls it; when it ends, its tasks are given to others. Of a task
 * that has a gradient it sends that first and the rows behind it: the rows say that it is done.
 *
 * Thread: the actor's.
 */
#ifndef CULM_GNN_WORKER_H
#define CULM_GNN_WORKER_H

#include "gnn/self.h"

struct culm_gnn_worker;

struct culm_gnn_worker *
culm_gnn_worker_new(const struct culm_gnn_node_options *options); /* NULL: out of memory */
void culm_gnn_worker_free(struct culm_gnn_worker *worker);        /* NULL is fine */
extern const struct culm_actor_ops culm_gnn_worker_actor;

#endif
