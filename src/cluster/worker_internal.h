/* Shared by the files of the worker's world; nobody else includes it. */
#ifndef CULM_CLUSTER_WORKER_INTERNAL_H
#define CULM_CLUSTER_WORKER_INTERNAL_H

#include "cluster/handshake.h"
#include "cluster/member.h"
#include "cluster/preparing.h"
#include "cluster/real.h"
#include "cluster/real_network.h"
#include "cluster/worker.h"
#include "net/conn.h"

#include <pthread.h>

#define SECOND 1000000000ull

struct culm_worker {
    struct culm_real real; /* first */
    struct culm_worker_options o;
    struct culm_worker_ready ready;
    struct culm_blob_pool *brief_pool;
    struct culm_blob *brief; /* NULL: nothing */
    struct culm_preparing *preparing;
    struct culm_faults faults;
    struct culm_job hang; /* never ends; whatever is behind it never begins */
    pthread_t thread;
    int coordinator_fd, listen_fd;   /* -1: none, or a connection's already */
    char address[CULM_ADDRESS_SIZE]; /* where peers call; "": nowhere */
    struct culm_real_network network;
    struct culm_member *member; /* NULL: it does not run yet */
};

/* All of these are called on the loop thread. */

/* --- worker.c --- */

/* Ends the worker with an error of its own making: the actor is not told, run returns. */
void culm_worker_end(struct culm_worker *worker, enum culm_status status, const char *text);

/* --- worker_join.c --- */

/* Before there is a loop: calls the coordinator until it is let in, and has the brief. Blocks, at
 * most 30 s and what the system's resolver takes. Afterwards signs of life are sent until
 * culm_worker_say_ready. */
enum culm_status culm_worker_join(struct culm_worker *worker, struct culm_error *error);
/* Says READY (or why not: its status), over the socket that the loop takes over next. */
enum culm_status culm_worker_say_ready(struct culm_worker *worker, const struct culm_ready *ready,
                                       struct culm_error *error);

/* --- worker_listen.c --- */

/* Before there is a loop, with a connection to the coordinator: listens for peers, unless it does or
 * only calls; worker->address is where they are to call. */
enum culm_status culm_worker_listen(struct culm_worker *worker, struct culm_error *error);
void culm_worker_listen_stop(struct culm_worker *worker);

/* --- worker_link.c --- */

void culm_worker_network_init(struct culm_worker *worker);
/* From here on the loop has the links: the coordinator's, and those of peers. If memory or
 * descriptors are out the worker ends. */
void culm_worker_links_open(struct culm_worker *worker);
void culm_worker_links_close(struct culm_worker *worker); /* also if they were never opened */
/* Waits until a peer that is dialed is open or lost; never calls back. Not for the call of one that
 * only calls: the loop would have to run to accept it. */
void culm_worker_peer_await(struct culm_worker *worker, int32_t node, uint64_t deadline_ns);
/* All that was sent leaves this process, in at most 2 s, but what waits for the call of one that only
 * calls; never calls back. */
void culm_worker_flush_all(struct culm_worker *worker);

#endif
