/*
 * A server of a graph network: owns intervals, gathers for them, and computes their steps or gives
 * these to workers.
 *
 * In an epoch, each interval that it owns goes through the steps of the layout:
 *
 *     rows ─▶ step (here or on a worker) ─▶ made ─┬─▶ SLICE to servers whose intervals read it
 *                                                 └─▶ gather, once all sources are here ─▶ rows
 *
 * A step that takes a worker much longer than usual is given to a second worker, or done here; the
 * first result counts. The server adds up its intervals' gradients as far as the tree over
 * intervals allows, and sends the sums to the holders.
 *
 * What it has made and gathered is kept until the epoch is committed. If another server is lost,
 * the new owners of its intervals repeat the epoch for them, and all servers send them the slices
 * they need. Rows are pure functions of their key, so the repetition gives the same bits (unless
 * rows may be stale, pace.h).
 *
 * Thread: the actor's.
 */
#ifndef CULM_INTERVAL_SERVER_H
#define CULM_INTERVAL_SERVER_H

#include "interval/self.h"

struct culm_gnn_server;

struct culm_gnn_server_options {
    struct culm_gnn_node_options node;
    bool workers; /* workers are expected: waits a little for the first one */
    bool once;    /* leaves a slow task to its worker: nobody else does it, nor this server */
    bool lean;    /* memory is short: does not keep constant inputs that it packed for workers */
};

/* NULL: out of memory. */
struct culm_gnn_server *culm_gnn_server_new(const struct culm_gnn_server_options *options);
void culm_gnn_server_free(struct culm_gnn_server *server); /* NULL is fine */
/* The version of the state that it holds under its view; -1: none. */
int64_t culm_gnn_server_version(const struct culm_gnn_server *server);
extern const struct culm_actor_ops culm_gnn_server_actor;

#endif
