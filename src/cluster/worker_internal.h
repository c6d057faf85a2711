/* Shared by the files of the worker's world; nobody else includes it. */
#ifndef CULM_CLUSTER_WORKER_INTERNAL_H
#define CULM_CLUSTER_WORKER_INTERNAL_H

#include "cluster/guests.h"
#include "cluster/handshake.h"
#include "cluster/preparing.h"
#include "cluster/real.h"
#include "cluster/worker.h"
#include "net/conn.h"
#include "net/listener.h"

#include <pthread.h>

#define SECOND 1000000000ull

enum link_kind { COORDINATOR, OUT, IN, STRANGER };

struct link {
    struct culm_guest guest; /* first; of a stranger */
    struct culm_worker *worker;
    struct culm_conn *conn;
    struct link *next, **slot;
    enum link_kind kind;
    int32_t node; /* of OUT and IN */
    struct culm_handshake handshake;
};

/* A frame that waits until its peer has let us in. */
struct held {
    struct held *next;
    struct culm_message message; /* owns the payload; its meta follows */
};

struct peer {
    char *address; /* NULL: not known */
    struct link *out, *in;
    bool open;    /* `out` is: the peer said welcome */
    bool dialing; /* wanted, and not open */
    bool lost;    /* reported, or about to be */
    bool told;
    uint64_t give_up_ns, again_ns, pause_ns; /* while dialing */
    struct held *held, *held_last;
    size_t held_bytes; /* without payloads */
};

struct culm_worker {
    struct culm_real real; /* first */
    struct culm_worker_options o;
    struct culm_worker_ready ready;
    struct culm_pool *brief_pool;
    struct culm_blob *brief; /* NULL: nothing */
    struct culm_preparing *preparing;
    struct culm_faults faults;
    pthread_t thread;
    int coordinator_fd, listen_fd; /* -1: none, or a connection's already */
    char address[CULM_ADDRESS_SIZE];
    struct link *links, *coordinator;
    struct peer *peer; /* [peer_capacity], by node */
    int32_t peer_capacity, dialing;
    struct culm_guests strangers;
    struct culm_listener listener;
    uv_timer_t report; /* armed when a peer is lost and not told */
    uv_timer_t sweep;  /* armed while there are strangers */
    uv_timer_t dial;   /* armed while peers are dialed */
    uv_timer_t orphan;
    uint64_t heard_ns; /* from the coordinator */
    bool accepting;
};

/* worker.c */
void culm_worker_end(struct culm_worker *worker, enum culm_status status, const char *text);
/* The same; the coordinator is told why, as far as that is possible. */
void culm_worker_fail(struct culm_worker *worker, const struct culm_error *error);

/* worker_join.c */
enum culm_status culm_worker_join(struct culm_worker *worker, struct culm_error *error);
enum culm_status culm_worker_say_ready(struct culm_worker *worker, const struct culm_ready *ready,
                                       struct culm_error *error);

/* worker_link.c */
void culm_worker_links_open(struct culm_worker *worker);
void culm_worker_links_close(struct culm_worker *worker);
/* False: nothing can be sent to it. Else it is open, or being dialed from now on. */
bool culm_worker_peer_dial(struct culm_worker *worker, int32_t node);
/* NULL: not open; then a frame for it can be held until it is. */
struct culm_conn *culm_worker_peer_conn(struct culm_worker *worker, int32_t node);
void culm_worker_peer_hold(struct culm_worker *worker, int32_t node,
                           const struct culm_message *message);
/* Waits until a peer that is dialed is open or lost. */
void culm_worker_peer_await(struct culm_worker *worker, int32_t node, uint64_t deadline_ns);
/* All that was sent leaves this process; never calls back. */
void culm_worker_flush_all(struct culm_worker *worker);

#endif
