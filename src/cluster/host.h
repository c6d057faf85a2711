/*
 * The host: the launcher's process, in which the actor that leads and an agent live together. It is
 * the real world of that actor: it lets in the workers that the agent (agent.h) expects, carries
 * their messages, and adds the clock and the view to events.
 *
 * A worker joins in two steps. Its hello is answered with the brief, which holds everything that it
 * has to know. It then prepares, and says either that it is ready, with its signature, or why it
 * never will be.
 *
 * What the actor hears of a worker is described in net/leader.h; whatever the worker sent before
 * its end comes before the news that it is lost. Complaints of the agent become "error" events. A
 * worker is admitted as the node that it proves to be (handshake.h). Where the system tells which
 * process is calling (unix:), it must also be the process that was started as that node. A newcomer
 * is admitted if the actor agrees.
 *
 * The thread that runs the host must live as long as the workers, because they ask the kernel to
 * kill them when that thread ends. Thread: one, the loop's, for all of this.
 */
#ifndef CULM_CLUSTER_HOST_H
#define CULM_CLUSTER_HOST_H

#include "base/buf.h"
#include "cluster/agent.h"

struct culm_host_options { /* all borrowed until _free */
    /* Where to listen (net/address.h); NULL: "unix:". A name is looked up: the host listens at the
     * first of its numbers that this machine has. */
    const char *listen;
    /* Where nodes call: a number, or a name that they look up; port 0 stands for the port that the
     * host listens at. NULL: where it listens, which then must not be 0.0.0.0 or [::]. */
    const char *advertise;
    const char *token;     /* every worker must prove that it knows this */
    const char *signature; /* every worker must have this; NULL: any will do */
    /* Appends what a worker in this role is told; the bytes are copied at once. NULL: workers are
     * told nothing. Returns false if memory is out. */
    bool (*brief)(void *ctx, uint32_t role, struct culm_buf *out);
    size_t payload_max;          /* bytes of the largest payload that may be received */
    struct culm_blob_pool *pool; /* for received payloads */
    int64_t hello_limit_ms; /* a connection that has proved nothing by then is closed; 0: 10000 */
    int64_t alive_ms;       /* the longest time in which a worker hears nothing; 0: 1000 */
    int stop_fd;            /* an eventfd, EFD_SEMAPHORE and EFD_NONBLOCK; 0: nobody asks */
    /* Borrows the event, to which "t_ms" and "view" have been added after "event". */
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
};

struct culm_host;

enum culm_status culm_host_new(const struct culm_host_options *options, struct culm_host **ret_host,
                               struct culm_error *error);
struct culm_world *culm_host_world(struct culm_host *host);
struct culm_agent *culm_host_agent(struct culm_host *host);  /* for the actor, which leads */
const char *culm_host_address(const struct culm_host *host); /* where nodes call */
/* Runs the actor until it leaves. Workers then receive what was sent to them and the news that the
 * run is over, and are killed if they have not ended 2 s later. Returns the actor's exit code once
 * all of them are reaped; for each one that is not reaped 5 s after it was killed, there is an
 * "error" event. The first count of stop_fd asks the actor to stop; the second kills all workers,
 * and 75 is returned. May be called once for each host. */
int culm_host_run(struct culm_host *host, const struct culm_actor_ops *ops, void *actor,
                  struct culm_error *ret_error);
/* How often fault `index` has fired; may also be asked after culm_host_run. */
int32_t culm_host_fired(const struct culm_host *host, size_t index);
void culm_host_free(struct culm_host *host); /* NULL is fine */

#endif
