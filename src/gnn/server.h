/*
 * A server of graph networks: owns intervals, gathers for them, and does their steps itself or has
 * workers do them.
 *
 * In an epoch each of its intervals goes through the steps of the layout:
 *
 *     rows ─▶ step (here or at a worker) ─▶ made ─┬─▶ SLICE to the servers of those who read it
 *                                                 └─▶ gather, once all that it reads is here ─▶ rows
 *
 * A task that takes much longer than such tasks have taken is given to a second worker, or done here;
 * the first result counts. Of each stage's gradient it adds up what its own intervals make, as far as
 * the tree over intervals allows, and sends that to all holders. It keeps what it has made and gathered
 * until the epoch is committed:
 * when another server is lost, whoever gets its intervals does their epoch again, and everyone sends
 * the slices that it needs. Rows are pure functions of the epoch, so nobody notices the difference.
 *
 * Thread: the actor's.
 */
#ifndef CULM_GNN_SERVER_H
#define CULM_GNN_SERVER_H

#include "gnn/self.h"

struct culm_gnn_server;

struct culm_gnn_server_options {
    struct culm_gnn_node_options node;
    bool workers; /* some are to come: it waits a little for the first one */
    bool once;    /* no task is given to a second worker because the first takes long */
    bool lean;    /* it does not keep what it packed for workers, since memory is short */
};

/* NULL: out of memory. */
struct culm_gnn_server *culm_gnn_server_new(const struct culm_gnn_server_options *options);
void culm_gnn_server_free(struct culm_gnn_server *server); /* NULL is fine */
extern const struct culm_actor_ops culm_gnn_server_actor;

#endif
