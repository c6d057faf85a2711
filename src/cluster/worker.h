/*
 * The real world of a worker: a process of its own, joined to a leader.
 *
 * The process ends with its leader. If the connection to it ends (unless the worker outlives that), or it is silent for
 * orphan_ms, culm_worker_run returns 1. If the leader is also the parent process and dies, the
 * kernel kills the worker (so the launcher must start workers from a thread that lives as long as
 * they do). A job that still runs half a second after its last words were read is not waited for: the process
 * ends with _exit.
 *
 * Peers: see member.h for when connections are opened and in which direction they carry data. Each
 * side proves itself first (handshake.h). An attempt that fails for lack of something (descriptors,
 * room in the peer's queue, an answer) is repeated for up to dial_limit_ms; messages wait
 * meanwhile. `lost` is called once for each peer, when either connection ends or cannot be opened;
 * nothing is received from that peer or sent to it afterwards.
 *
 * A fault fires once everything sent before has left the process, except what is held for a peer
 * that cannot be connected to. If the leader sends something that is not a frame, or memory
 * for a received payload is out, the worker ends with an error; where it can, it reports that to
 * the leader.
 *
 * Signals are left alone. One that its agent has started has those blocked that are sent to end a
 * run (base/stops.h), since the leader decides what becomes of it; a newcomer has not, since whoever
 * started it decides. Nor does that one end with its parent. With leave_ms, SIGTERM does not end one that runs: its actor is told to
 * leave (net/world.h).
 *
 * Thread: one, the loop's.
 */
#ifndef CULM_CLUSTER_WORKER_H
#define CULM_CLUSTER_WORKER_H

#include "cluster/fault.h"

struct culm_worker_options { /* all borrowed until culm_worker_free */
    const char *address;     /* of the leader (net/address.h); names are looked up */
    const char *token;
    int32_t node;  /* CULM_NEWCOMER: it gets an id when it is ready; see culm_worker_node */
    uint32_t role; /* that a newcomer asks for */
    bool
        plain; /* of a newcomer: it takes part in a run that encrypts nothing between machines, too */
    bool calls_only; /* does not listen: peers send over the connections that it opens */
    /* Address to listen at for peers; NULL: the local address of the leader's connection. */
    const char *listen;
    /* Address that peers connect to; a name is looked up here; port 0: the one listened at. NULL:
     * the one listened at, or if that is 0.0.0.0 or [::], the local address of the leader's
     * connection. */
    const char *advertise;
    const char *name;                       /* NULL: "" */
    const char *zone;                       /* where this machine is, for a newcomer; NULL: "" */
    int fault_fd;                           /* for fault records; -1: they are not written */
    const struct culm_worker_fault *faults; /* of this worker only */
    size_t fault_count;
    void (*flip)(void *flip_ctx, const struct culm_fault_point *point); /* any thread; or NULL */
    void *flip_ctx;
    /* Additions to the brief (culm_host_add_news), from culm_worker_new on: before the loop runs they
     * come on a thread of their own, one at a time. The bytes are borrowed; NULL: the connection to
     * the leader has ended while this worker prepared, so that nothing will be said any more. May be
     * NULL. */
    void (*news)(void *news_ctx, const void *news, size_t len);
    /* Another one leads, and lets nodes in at this address; the loop's thread, before the actor hears of it. May be NULL. */
    void (*led)(void *news_ctx, const char *address);
    void *news_ctx;
    int64_t hello_limit_ms; /* time in which a connection must prove itself; 0: 10000 */
    int64_t leave_ms;       /* after SIGTERM it is ended by then; 0: SIGTERM is left alone */
    struct culm_stranded
        *stranded; /* shared with its agent; NULL: it has none that knows a store */
};

/* What a worker knows once it has prepared. Borrowed until culm_worker_free. */
struct culm_worker_ready {
    const char *signature;       /* must be the same in all workers; NULL: "" */
    struct culm_blob_pool *pool; /* for received payloads */
    size_t payload_max;          /* bytes of the largest payload that may be received */
    int64_t dial_limit_ms;       /* a peer that cannot be reached in this time is lost; 0: 6000 */
    int64_t orphan_ms;           /* longest silence of the leader; 0: 60000, */
    int64_t stranded_ms;         /* and, at most, of it what does not count (stranded.h) */
    bool
        outlives; /* the end of the connection to the leader is not its own: another one may call it (`led`) */
};

struct culm_worker;

/* Tries to join for up to 30 s, not counting the time that the system's resolver takes.
 * CULM_ERR_CLOSED: it was refused, nobody is there, or the other side does not know the token;
 * error->status tells these apart: it is CULM_ERR_CONFIG unless nobody is there. CULM_ERR_TIMEOUT.
 * The caller then prepares, on this thread, for as long as it takes; the leader is sent signs
 * of life as long as the thread computes (preparing.h). */
enum culm_status culm_worker_new(const struct culm_worker_options *options,
                                 struct culm_worker **ret_worker, struct culm_error *error);
/* The worker's node id, CULM_NEWCOMER before culm_worker_report_ready if it came as one; *ret_role
 * (may be NULL): its role. */
int32_t culm_worker_node(const struct culm_worker *worker, uint32_t *ret_role);
/* The brief, to prepare from. Valid until culm_worker_free. NULL: there is none. */
const void *culm_worker_brief(const struct culm_worker *worker, size_t *ret_len);
/* Reports that the worker is ready, and awaits the id of a newcomer; culm_worker_run may follow.
 * CULM_ERR_CLOSED: the leader is gone, or refuses it. CULM_ERR_TIMEOUT: after orphan_ms. */
enum culm_status culm_worker_report_ready(struct culm_worker *worker,
                                          const struct culm_worker_ready *ready,
                                          struct culm_error *error);
/* In place of culm_worker_report_ready: reports, if possible, why the worker cannot take part. The caller
 * then frees it. */
void culm_worker_decline(struct culm_worker *worker, const struct culm_error *why);
struct culm_world *culm_worker_world(struct culm_worker *worker);
/* After culm_worker_report_ready. Runs the actor until it leaves (returns its exit code) or the world ends
 * (returns 1, or 4 if memory is out); ret_error->text is "" if there is no error. Messages sent to
 * the leader before the actor left have arrived there if it reads them within 1 s. No job runs
 * afterwards. May be called once. */
int culm_worker_run(struct culm_worker *worker, const struct culm_actor_ops *ops, void *actor,
                    struct culm_error *ret_error);
void culm_worker_free(struct culm_worker *worker); /* NULL is fine */

#endif
