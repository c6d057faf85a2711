/*
 * The host: the launcher's process, where the one who leads and an agent live together. It is the
 * real world of that actor: it lets in workers that the agent (agent.h) awaits, carries what they
 * say, and adds the clock and the view to events.
 *
 * A worker joins in two steps: its hello is answered with the brief, all that it needs to know; it
 * prepares, and says that it is ready, with its signature, or why it cannot be.
 *
 * Of one worker the actor hears what net/leader.h says; all that the worker sent before its end
 * comes before it is lost. What the agent complains of is an "error" event. A worker is admitted as
 * the node that it proves to be (handshake.h), if it also is the process that was started as that
 * node, where the system tells (unix:). A newcomer is admitted if the actor admits any, and it.
 *
 * The host must be run on a thread that lives as long as the workers: they ask the kernel to be
 * killed when it ends. Thread: one, the loop's, for all of this.
 */
#ifndef CULM_CLUSTER_HOST_H
#define CULM_CLUSTER_HOST_H

#include "base/buf.h"
#include "cluster/agent.h"

struct culm_host_options { /* all borrowed until _free */
    /* Where; net/address.h; NULL: "unix:". Of a name, at the first number that can be had here. */
    const char *listen;
    /* Where nodes call, as text: a number, or a name that they look up; port 0: the one listened at.
     * NULL: where it listens, which must not be 0.0.0.0 or [::] then. */
    const char *advertise;
    const char *token;     /* every worker must prove that it knows it */
    const char *signature; /* that each must have; NULL: any */
    /* What one in this role is told; the bytes are copied at once. NULL: nothing. Out of memory:
     * false. */
    bool (*brief)(void *ctx, uint32_t role, struct culm_buf *out);
    size_t payload_max;          /* bytes of the largest payload that may be received */
    struct culm_blob_pool *pool; /* for received payloads */
    int64_t hello_limit_ms;      /* a connection that proves nothing is closed then; 0: 10000 */
    int64_t alive_ms;            /* every worker hears something at least so often; 0: 1000 */
    int stop_fd;                 /* an eventfd, EFD_SEMAPHORE and EFD_NONBLOCK; 0: nobody asks */
    /* Borrows the event, "t_ms" and "view" added behind "event". */
    void (*publish)(void *ctx, json_t *event);
    void *ctx;
    int64_t start_ms; /* t_ms at the time of _new */
    /* The agent's, as culm_local_agent_options has them; command is given `ctx`. */
    void (*command)(void *ctx, const struct culm_agent_start *start, char ***ret_argv);
    const char *log_dir;
    const struct culm_trace *trace;
    uint32_t trace_role;
    double time_scale;
    int32_t max_nodes;
    const struct culm_agent_fault *faults;
    size_t fault_count;
    int64_t start_limit_ms;
    struct culm_engine *engine;
    uint32_t engine_role;
};

struct culm_host;

enum culm_status culm_host_new(const struct culm_host_options *options, struct culm_host **ret_host,
                               struct culm_error *error);
struct culm_world *culm_host_world(struct culm_host *host);
struct culm_agent *culm_host_agent(struct culm_host *host);  /* for the actor, which leads */
const char *culm_host_address(const struct culm_host *host); /* where nodes call */
/* Runs the actor until it leaves; then workers are told what was sent to them and that it is over,
 * and have 2 s to end before they are killed. Returns the actor's exit code when all are reaped, or
 * with an "error" event for each that 5 s later is not.
 * The first count of stop_fd asks the actor to stop; the second kills all, and 75 is returned. Once a
 * host. */
int culm_host_run(struct culm_host *host, const struct culm_actor_ops *ops, void *actor,
                  struct culm_error *ret_error);
/* Something that the brief would say by now: to all workers that are ready, and to those that become
 * so. At most CULM_HOST_NEWS_MAX bytes, copied. From any thread, from _new to _free; the order is kept.
 * CULM_ERR_MEMORY. */
#define CULM_HOST_NEWS_MAX 2048
enum culm_status culm_host_news(struct culm_host *host, const void *news, size_t len);
/* How often fault `index` was fired; also after run. */
int32_t culm_host_fired(const struct culm_host *host, size_t index);
void culm_host_free(struct culm_host *host); /* NULL is fine */

#endif
