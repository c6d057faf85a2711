/*
 * The host: the part of the launcher's process in which the leader and an agent run. It is the
 * leader's real world: it admits the workers that the agent (agent.h) awaits, carries messages, and
 * adds the time and the view to events.
 *
 * A worker joins in two steps. Its hello is answered with the brief, which has all that it needs to
 * know. It then prepares, and reports that it is ready, with its signature, or why it cannot be.
 *
 * What the leader is told of a worker is described in net/leader.h; everything that a worker has
 * sent arrives before it is reported as lost. Errors that the agent reports become events "error".
 * A worker is admitted as the node that it proves to be (handshake.h) if, where the system can tell
 * (unix:), it is the process that was started as that node. A newcomer is admitted if the leader
 * admits newcomers, and this one.
 *
 * A host whose leader takes over from another one calls the nodes from elsewhere that took part. Those that have the
 * signature, and promise, are reported as joined, others as lost.
 *
 * Thread: one, the loop's, except culm_host_add_news and what is said of a store. It must live as long as the workers, which have
 * asked the kernel to kill them when it ends.
 */
#ifndef CULM_CLUSTER_HOST_H
#define CULM_CLUSTER_HOST_H

#include "base/buf.h"
#include "cluster/agent.h"
#include "net/channel.h"
#include "net/leader.h"

#define CULM_HOST_NAME_SIZE 128

/* A node from elsewhere that takes part, or took part when another one led. */
struct culm_host_node {
    int32_t node;
    uint32_t role;
    char name[CULM_HOST_NAME_SIZE];
    struct culm_agent_place place;
    char address[CULM_ADDRESS_SIZE]; /* where it listens */
};

struct culm_host_options { /* all borrowed until _free */
    /* Address to listen at (net/address.h); NULL: "unix:". A name stands for the first of its
     * addresses that this machine can listen at. */
    const char *listen;
    int reserved_fd; /* of culm_socket_reserve, which is taken and listens in place of `listen`; 0: none */
    /* Address that nodes connect to: a number, or a name that they look up; port 0: the one that is
     * listened at. NULL: the one listened at, which then must not be 0.0.0.0 or [::]. */
    const char *advertise;
    const char *token; /* every worker must prove that it knows it; the key of TLS (net/tls.h) */
    bool plain;        /* between machines nothing is encrypted: the network is trusted */
    const char *signature; /* that every worker must have; NULL: any */
    /* Writes the brief for workers in this role; `newcomer`: that come from elsewhere, and may have
     * no other way to what those started here find on this machine. One serves all of them, until
     * there is news (culm_host_add_news). NULL: there is none. False: out of memory; the worker is
     * refused. */
    bool (*brief)(void *ctx, uint32_t role, bool newcomer, struct culm_buf *out);
    /* Takes the connection of a visitor (visit.h), on the loop's thread. NULL: there are no visits. */
    void (*visit)(void *ctx, struct culm_channel *take_channel);
    size_t payload_max;          /* bytes of the largest payload that may be received */
    struct culm_blob_pool *pool; /* for received payloads */
    int64_t hello_limit_ms;      /* time in which a connection must prove itself; 0: 10000 */
    int64_t alive_ms;            /* every worker is sent something at least so often; 0: 1000 */
    int stop_fd;                 /* eventfd with EFD_NONBLOCK; 0: none */
    /* Borrows the event; "t_ms" and "view" follow "event". */
    void (*publish)(void *ctx, json_t *event);
    void *ctx;
    int64_t start_ms; /* t_ms at the time of _new */
    /* For the agent, as in culm_local_agent_options; `command` is given `ctx`. */
    void (*command)(void *ctx, const struct culm_agent_starting *start, char ***ret_argv);
    const char *log_dir;
    const struct culm_trace *trace;
    uint32_t trace_role;
    double time_scale;
    int32_t max_nodes, trace_max;
    const struct culm_agent_fault *faults;
    size_t fault_count;
    int64_t start_limit_ms;
    struct culm_engine *engine;
    uint32_t engine_role;
    /* The term in which the leader leads (net/leader.h); 0 and 1: the first. Of later ones: those who took part
     * and may be there, whom it calls; ids from first_node on have not been given. */
    uint64_t term;
    const struct culm_host_node *known; /* [known_count] */
    int32_t known_count, first_node;
    /* One is ready to join. Others than those from elsewhere that listen have the address "": they do not outlive this
     * process. False: it is to wait until culm_host_entered. NULL: never mind. */
    bool (*came)(void *ctx, const struct culm_host_node *node);
    /* One has gone, whether it had joined or not. NULL: never mind. */
    void (*went)(void *ctx, int32_t node);
};

struct culm_host;

enum culm_status culm_host_new(const struct culm_host_options *options, struct culm_host **ret_host,
                               struct culm_error *error);
struct culm_world *culm_host_world(struct culm_host *host);
struct culm_agent *culm_host_agent(struct culm_host *host); /* for the leader */
/* Where it listens, which may be all addresses of the machine. */
const char *culm_host_listening(const struct culm_host *host);
const char *culm_host_address(const struct culm_host *host); /* that nodes connect to */
/* Runs the leader until it leaves. Workers are then sent what is queued and the end of the stream,
 * and have 2 s to end before they are killed. Returns the leader's exit code when all have been
 * reaped, or 5 s after the kill, with an event "error" for each that has not.
 * CULM_HOST_STOP, added to stop_fd any number of times, asks the leader once to stop;
 * CULM_HOST_RESIGN asks it to resign (net/leader.h);
 * CULM_HOST_ABORT kills all workers, and 75 is returned. May be called once. */
#define CULM_HOST_STOP ((uint64_t)1)
#define CULM_HOST_RESIGN ((uint64_t)1 << 16)
#define CULM_HOST_ABORT ((uint64_t)1 << 32)
int culm_host_run(struct culm_host *host, const struct culm_actor_ops *ops, void *actor,
                  struct culm_error *ret_error);
/* Sends an addition to the brief to all workers, also those that prepare, and later to those that
 * come, in the order of the calls. The bytes, at most CULM_HOST_NEWS_MAX, are copied.
 * CULM_ERR_MEMORY; CULM_ERR_ARGUMENT: too long. Any thread, between _new and _free. */
#define CULM_HOST_NEWS_MAX 2048
enum culm_status culm_host_add_news(struct culm_host *host, const void *news, size_t len);
/* --- what a store of keys has said (net/leader.h); any thread, between _new and _free --- */

/* The node, which waits, takes part. */
void culm_host_entered(struct culm_host *host, int32_t node);
/* The deed is written. */
void culm_host_written(struct culm_host *host, enum culm_deed deed);
/* Another one leads. */
void culm_host_deposed(struct culm_host *host);
/* It has not answered for so long; 0: it has again. */
void culm_host_away(struct culm_host *host, int64_t ms);

/* How often fault `index` has fired; also after culm_host_run. */
int32_t culm_host_fired(const struct culm_host *host, size_t index);
void culm_host_free(struct culm_host *host); /* NULL is fine */

#endif
