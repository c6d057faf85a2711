/*
 * The real world of a worker: a process of its own, joined to a coordinator.
 *
 * The process ends with its coordinator: when that connection ends, run returns 1; when the
 * coordinator is also the parent process and dies, the kernel kills the worker (so the launcher
 * must start workers from a thread that lives as long as it does). A job still running 1.5 s after
 * the end was decided is not waited for: run then leaves the process with _exit. A coordinator that
 * says nothing for orphan_ms, although its connection stands, is as good as gone.
 *
 * Data for a peer goes over a connection that this worker opens when it first sends something; what
 * the peer sends comes over a connection that the peer opens, unless one of the two only calls
 * (member.h). Each side proves itself first (handshake.h). An attempt that fails because something is
 * lacking (descriptors, room in the peer's queue, an answer) is repeated until dial_limit_ms have
 * passed; what is sent meanwhile waits. A fault fires after everything that was sent has left, except
 * what waits for a call from a peer that only calls. `lost` comes once for each peer, when either
 * connection ends or cannot be opened; afterwards nothing comes from that peer or goes to it. If the
 * coordinator sends something that is not a frame, or a received payload does not fit the pool, the
 * worker ends with an error, which it tells the coordinator.
 *
 * Ignores SIGINT in this process: a terminal sends it to all, and the coordinator decides. A newcomer
 * does not: whoever started it decides, and it does not end with its parent either. Thread: one, the
 * loop's, for all of this.
 */
#ifndef CULM_CLUSTER_WORKER_H
#define CULM_CLUSTER_WORKER_H

#include "cluster/fault.h"

struct culm_worker_options { /* all borrowed until culm_worker_free */
    const char *address;     /* of the coordinator (net/address.h): a name is looked up */
    const char *token;
    int32_t node;    /* CULM_NEWCOMER: it asks for an id, which culm_worker_node tells */
    uint32_t role;   /* that a newcomer asks for */
    bool calls_only; /* it has no socket that listens: peers answer over the connections it opens */
    /* Where it listens for peers; NULL: where its connection to the coordinator begins. */
    const char *listen;
    /* Where peers call; a name is looked up here; port 0: the one listened at. NULL: where it listens;
     * at 0.0.0.0 or [::], there where its connection to the coordinator begins. */
    const char *advertise;
    const char *name;                       /* NULL: "" */
    int fault_fd;                           /* where fault records go; -1: nowhere */
    const struct culm_worker_fault *faults; /* of this worker only */
    size_t fault_count;
    void (*flip)(void *flip_ctx, const struct culm_fault_point *point); /* any thread; or NULL */
    void *flip_ctx;
    /* What the coordinator would add to the brief by now (culm_host_news), once it is ready; the
     * bytes are borrowed. NULL: it does not care. */
    void (*news)(void *news_ctx, const void *news, size_t len);
    void *news_ctx;
    int64_t hello_limit_ms; /* one that proves nothing is closed then; 0: 10000 */
};

/* What it can say of itself once it has prepared; borrowed until culm_worker_free. */
struct culm_worker_ready {
    const char *signature;       /* what must be the same in all workers; NULL: "" */
    struct culm_blob_pool *pool; /* for received payloads */
    size_t payload_max;          /* bytes of the largest payload that may be received */
    int64_t dial_limit_ms;       /* a peer that cannot be reached for so long is lost; 0: 6000 */
    int64_t orphan_ms;           /* the longest silence of the coordinator; 0: 60000 */
};

struct culm_worker;

/* Calls until it is let in, at most 30 s; looking up a name takes as long as the system's resolver
 * does, and is not part of that. CULM_ERR_CLOSED: refused, nobody there, or one who does not know the
 * token; error->status is then CULM_ERR_CONFIG unless nobody was there. CULM_ERR_TIMEOUT. From here to culm_worker_ready the caller prepares, on this
 * thread, as long as it takes: the coordinator is told of it as long as it computes. */
enum culm_status culm_worker_new(const struct culm_worker_options *options,
                                 struct culm_worker **ret_worker, struct culm_error *error);
/* Which node it is; *ret_role (may be NULL): the role that a newcomer was given. */
int32_t culm_worker_node(const struct culm_worker *worker, uint32_t *ret_role);
/* What the coordinator gave it to prepare from; lives until culm_worker_free. */
const void *culm_worker_brief(const struct culm_worker *worker, size_t *ret_len);
/* Says that it is ready; it may run then. CULM_ERR_CLOSED: the coordinator is gone. */
enum culm_status culm_worker_ready(struct culm_worker *worker,
                                   const struct culm_worker_ready *ready, struct culm_error *error);
/* Or says, as far as that is possible, why it never will be. The caller frees it next. */
void culm_worker_decline(struct culm_worker *worker, const struct culm_error *why);
struct culm_world *culm_worker_world(struct culm_worker *worker);
/* After culm_worker_ready. Runs the actor until it leaves (its exit code) or the world ends (1, or
 * 4 when memory is out); ret_error->text is "" when there is nothing to say. What was sent to the
 * coordinator before a leave has been received by it, if it reads within 1 s. Afterwards no job
 * runs. Once a worker. */
int culm_worker_run(struct culm_worker *worker, const struct culm_actor_ops *ops, void *actor,
                    struct culm_error *ret_error);
void culm_worker_free(struct culm_worker *worker); /* NULL is fine */

#endif
