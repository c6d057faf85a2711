/* Internals of a worker's world, shared by worker*.c only. See worker.h. */
#ifndef CULM_CLUSTER_WORKER_INTERNAL_H
#define CULM_CLUSTER_WORKER_INTERNAL_H

#include "cluster/handshake.h"
#include "cluster/member.h"
#include "cluster/preparing.h"
#include "cluster/real.h"
#include "cluster/real_fabric.h"
#include "cluster/worker.h"
#include "net/channel.h"
#include "net/conn.h"

#include <pthread.h>

#define SECOND 1000000000ull

struct culm_worker {
    struct culm_real real; /* first */
    struct culm_worker_options o;
    struct culm_worker_ready ready;
    struct culm_blob_pool *brief_pool;
    struct culm_blob *brief; /* NULL: there is none */
    struct culm_preparing *preparing;
    struct culm_faults faults;
    struct culm_job hang; /* CULM_HOW_STUCK: a job that never ends, so that none after it begins */
    pthread_t thread;     /* the loop's */
    struct culm_channel leader;      /* none: the loop has taken it over */
    int listen_fd;                   /* -1: none, or the loop has taken it over */
    char address[CULM_ADDRESS_SIZE]; /* that peers connect to; "": none */
    struct culm_real_fabric fabric;
    struct culm_member *member; /* NULL: not running yet */
    uv_signal_t stop;           /* SIGTERM, if `hears` */
    bool hears;
};

/* All of these are called on the loop thread. */

/* --- worker.c --- */

/* Ends the worker because of an error of its own. The actor is not told; culm_worker_run returns.
 */
void worker_end(struct culm_worker *worker, enum culm_status status, const char *text);

/* --- worker_join.c --- */

/* Joins the leader and gets the brief, before the loop runs. Blocks for up to 30 s plus the
 * time that the system's resolver takes. Signs of life are then sent until worker_say_ready.
 */
enum culm_status worker_join(struct culm_worker *worker, struct culm_error *error);
/* The part of it in which the leader welcomes the worker, or visitor. */
enum culm_status worker_call(struct culm_worker *worker, int64_t *ret_pid,
                             struct culm_error *error);
/* Sends READY, or why the worker declines, before the loop takes the socket over. */
enum culm_status worker_say_ready(struct culm_worker *worker, const struct culm_ready *ready,
                                  struct culm_error *error);
/* After that: awaits the id of a newcomer, for as long as the leader may be silent. */
enum culm_status worker_await_id(struct culm_worker *worker, struct culm_error *error);

/* --- worker_listen.c --- */

/* Listens for peers and sets worker->address, unless it does so already or calls_only is set. There
 * must be a connection to the leader; the loop does not run yet. */
enum culm_status worker_listen(struct culm_worker *worker, struct culm_error *error);
void worker_listen_stop(struct culm_worker *worker);

/* --- worker_link.c --- */

void worker_fabric_init(struct culm_worker *worker);
/* Gives the loop the connection to the leader and the listener. If memory or descriptors are
 * out, the worker ends. */
void worker_links_open(struct culm_worker *worker);
void worker_links_close(struct culm_worker *worker); /* also if they were never opened */
/* Waits until a peer that is being dialed is open or lost. Does not call back. Does not wait for a
 * peer to connect, since the loop would have to run to accept it. */
void worker_peer_await(struct culm_worker *worker, int32_t node, uint64_t deadline_ns);
/* Waits up to 2 s until everything sent has left this process, except what is held for peers that
 * cannot be connected to. Does not call back. */
void worker_flush_all(struct culm_worker *worker);

#endif
