/*
 * The host, the real world of the coordinator, in the launcher's process: it starts workers as processes of this machine, admits those
 * that say hello, watches their connections and their ends, and adds the clock and the view to
 * events.
 *
 * A worker joins in two steps: its hello is answered with the brief, all that it needs to know; it
 * prepares, and says that it is ready, with its signature, or why it cannot be.
 *
 * Of one worker its actor, which leads (net/leader.h), hears that it joined, then messages, then
 * that it is lost, then that it has ended; of one that never joined only that, with what it declined
 * for. All that a worker sent before its end comes before it is lost. Node ids count from 0 and are never used again. A worker of which nothing was heard for start_limit_ms,
 * from its start until it is ready, is killed. One that cannot be started, declines, or ends by
 * itself before it has joined, is told of by an "error" event with its last words; what equals the
 * one before, but for numbers, is not repeated.
 *
 * With a trace, workers come and go as it says, at time / time_scale from the call of run, and the
 * agent starts nobody else; at most max_nodes processes live, further ones wait their turn. A
 * worker removed is killed without warning, then the actor, if that had joined, hears
 * `removed`. Those that a trace adds have role 0.
 *
 * A worker is admitted as the node that it proves to be (handshake.h), if it also is the process
 * that was started as that node, where the system tells (unix:).
 *
 * The host must be run on a thread that lives as long as the workers: they ask the kernel to be
 * killed when it ends. Thread: one, the loop's, for all of this.
 */
#ifndef CULM_CLUSTER_HOST_H
#define CULM_CLUSTER_HOST_H

#include "base/buf.h"
#include "cluster/fault.h"
#include "cluster/trace.h"
#include "net/leader.h"

/* What workers were told to do to themselves; here only to count, to tell and to thaw. */
struct culm_host_fault {
    int32_t node;
    const char *phase; /* as the event names it; borrowed */
    enum culm_fault_how how;
    int64_t for_ms; /* CULM_HOW_STOP: thawed so long after; 0: never */
};

struct culm_host_options { /* all borrowed until _free */
    const char *listen;    /* where; net/address.h; NULL: "unix:" */
    const char *token;     /* every worker must prove that it knows it */
    const char *signature; /* that each must have; NULL: any */
    /* What a worker is told; the bytes are copied at once. NULL: nothing. Out of memory: false. */
    bool (*brief)(void *ctx, struct culm_buf *out);
    int32_t max_nodes;           /* processes alive at once, by a trace */
    size_t payload_max;          /* bytes of the largest payload that may be received */
    struct culm_blob_pool *pool; /* for received payloads */
    /* The command line of a new worker, ended by NULL; the vector and each string are malloc'd and
     * the host's to free. NULL: out of memory. fault_fd is open in the worker; its standard input
     * is the token, without an end of line. */
    void (*command)(void *ctx, int32_t node, uint32_t role, const char *name, const char *address,
                    int fault_fd, char ***ret_argv);
    const char *log_dir; /* exists; what worker K prints is appended to node-K.log */
    /* Borrows the event, "t_ms" and "view" added behind "event". */
    void (*publish)(void *ctx, json_t *event);
    void *ctx;
    const struct culm_trace *trace; /* NULL: none */
    double time_scale;              /* of the trace; 0: 1 */
    int64_t start_ms;               /* t_ms at the time of _new */
    const struct culm_host_fault *faults;
    size_t fault_count;
    int64_t start_limit_ms; /* 0: 60000 */
    int64_t hello_limit_ms; /* a connection that proves nothing is closed then; 0: 10000 */
    int stop_fd;            /* an eventfd, EFD_SEMAPHORE and EFD_NONBLOCK; 0: nobody asks */
    int64_t alive_ms;       /* every worker hears something at least so often; 0: 1000 */
};

struct culm_host;

enum culm_status culm_host_new(const struct culm_host_options *options, struct culm_host **ret_host,
                               struct culm_error *error);
struct culm_world *culm_host_world(struct culm_host *host);
struct culm_agent *culm_host_agent(struct culm_host *host); /* for the actor, which leads */
const char *culm_host_address(const struct culm_host *host);
/* Runs the actor until it leaves; then workers are told what was sent to them and that it is over,
 * and have 2 s to end before they are killed. Returns the actor's exit code when all are reaped, or
 * with an "error" event for each that 5 s later is not.
 * The first count of stop_fd asks the actor to stop; the second kills all, and 75 is returned. Once a
 * host. */
int culm_host_run(struct culm_host *host, const struct culm_actor_ops *ops, void *actor,
                  struct culm_error *ret_error);
/* How often fault `index` was fired; also after run. */
int32_t culm_host_fired(const struct culm_host *host, size_t index);
void culm_host_free(struct culm_host *host); /* NULL is fine */

#endif
