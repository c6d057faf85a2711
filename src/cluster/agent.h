/*
 * The agent of this machine: starts processes as nodes, ends them, reports when they have ended,
 * replays a preemption trace, and reads the records of faults that nodes inject into themselves
 * (fault.h).
 *
 * It has no links, and makes no decisions. The host, which admits nodes, asks the agent which nodes
 * it awaits, and tells it what becomes of them. The agent reports to the leader through `ops`, and
 * takes its orders through the table in net/leader.h. So a leader could have agents on several
 * machines.
 *
 * Node ids count from 0 and are never reused. A newcomer gets one when it is ready to join; until
 * then it has a number below CULM_NEWCOMER, which nobody but the host hears of. A node that is silent for start_limit_ms before it
 * has joined is killed. If a node cannot be started, declines, or ends before it has joined, the
 * agent reports an error with the node's last words. Errors that are equal except for numbers are
 * merged: they are reported at most once a minute (complaints.h).
 *
 * With a trace, nodes of one role come and go as the trace says, at time / time_scale after _begin,
 * and the leader's table starts none in that role. At most max_nodes of their processes are alive
 * (or trace_max, among max_nodes in all roles); further ones wait for a free place. A node that the
 * trace removes is killed without warning; if it had joined, `removed` is called.
 *
 * A newcomer, which was started by somebody else, can be enrolled as a node. It has no process
 * here. It ends when its link does, which the host reports; if it is to be ended, the agent calls
 * `ended`, and the host closes the link.
 *
 * With an engine (engine.h), nodes of one role are started by the engine. They arrive as newcomers,
 * under names that the engine has given them, and become the nodes that the leader has asked for.
 *
 * Thread: one, the loop's. It must live as long as the nodes, which may have asked the kernel to
 * kill them when it ends. `ops` are called from the loop, and `ended` never from within a call.
 */
#ifndef CULM_CLUSTER_AGENT_H
#define CULM_CLUSTER_AGENT_H

#include "cluster/engine.h"
#include "cluster/fault.h"
#include "cluster/trace.h"
#include "net/address.h"
#include "net/leader.h"

struct uv_loop_s;

/* A node that is to be started. Borrowed during the call. */
struct culm_agent_starting {
    int32_t node;
    uint32_t role;
    int32_t index; /* counts the starts in this role, from 0, without newcomers; never reused */
    const char *name, *address;
    int fault_fd; /* descriptor that is open in the node, for fault records */
};

/* A fault that a node was told to inject into itself. The agent only counts it, reports it, and
 * thaws the node. */
struct culm_agent_fault {
    int32_t node;      /* -1: the node given by role and index */
    const char *phase; /* as named in the event; borrowed */
    enum culm_fault_how how;
    int64_t for_ms; /* CULM_HOW_STOP: the node is thawed after that time; 0: never */
    uint32_t role;
    int32_t index;         /* as in culm_agent_starting */
    const char *role_name; /* as named in the event; NULL: not in the event */
};

struct culm_local_agent;

#define CULM_AGENT_NODE_SIZE 96

struct culm_local_agent_ops {
    /* Whether the leader has left. Then nothing is started, and failed starts are not reported. */
    bool (*over)(void *ctx);
    /* The node's process has ended or could not be started; or it is a newcomer, whose link has
     * ended or is to be closed now, below 0 if it has not got an id. why: the reason if it declined,
     * or if an engine gave one, or CULM_ERR_MEMORY if the system has killed it for want of memory; else
     * NULL. */
    void (*ended)(void *ctx, int32_t node, const struct culm_error *why);
    void (*removed)(void *ctx, int32_t node);
    void (*fired)(void *ctx, const struct culm_agent_fault *fault, int32_t node, int64_t step);
    void (*complain)(void *ctx, const struct culm_error *error); /* an error; the run goes on */
    void (*failed)(void *ctx, const struct culm_error *error);   /* the run cannot go on */
};

struct culm_local_agent_options { /* all borrowed until _free */
    struct uv_loop_s *loop;
    const char *token;   /* given to nodes on their standard input, without an end of line */
    const char *address; /* that nodes connect to */
    /* The command line of a new node, terminated by NULL. The array and its strings are malloc'd,
     * and the agent frees them. NULL: out of memory. */
    void (*command)(void *ctx, const struct culm_agent_starting *start, char ***ret_argv);
    void *command_ctx;
    const char *log_dir;            /* must exist; output of node K is appended to node-K.log */
    const struct culm_trace *trace; /* NULL: none */
    uint32_t trace_role;            /* role of the nodes in the trace */
    double time_scale;              /* of the trace; 0: 1 */
    /* Limit of processes that a trace has alive at once. Newcomers are not enrolled if so many
     * nodes of any role are alive. 0: no limit. */
    int32_t max_nodes;
    /* Where nodes of other roles count in max_nodes too: limit of the trace's processes. 0: there
     * are no other roles. */
    int32_t trace_max;
    const struct culm_agent_fault *faults;
    size_t fault_count;
    int64_t start_limit_ms; /* 0: 60000 */
    const char *vmstat; /* where the system counts whom it kills for memory; NULL: /proc/vmstat */
    struct culm_engine *engine; /* starts the nodes of engine_role; NULL: the agent does */
    uint32_t engine_role;
    int32_t first_node; /* ids below were given when another one led */
    const struct culm_local_agent_ops *ops;
    void *ctx;
};

enum culm_status culm_local_agent_new(const struct culm_local_agent_options *options,
                                      struct culm_local_agent **ret_agent,
                                      struct culm_error *error);
/* Whether the fault is meant for this node. */
static inline bool culm_agent_fault_meets(const struct culm_agent_fault *fault, int32_t node,
                                          uint32_t role, int32_t index) {
    return fault->node >= 0 ? fault->node == node : fault->role == role && fault->index == index;
}

/* The table through which the leader gives its orders. */
struct culm_agent *culm_local_agent_table(struct culm_local_agent *agent);
/* The run begins: starts the trace, the engine, and the watch over nodes that have not joined. */
void culm_local_agent_begin(struct culm_local_agent *agent);

/* --- for the host, which admits nodes --- */

/* Where a newcomer is; as in culm_node_info. */
struct culm_agent_place {
    char host[CULM_PLACE_SIZE], zone[CULM_PLACE_SIZE];
    char machine[2 * CULM_PLACE_SIZE + CULM_ADDRESS_SIZE];
};

/* Whether `node` is awaited and, unless `pid` is 0 (not known), is that process. If not, *ret_error
 * says why. */
bool culm_local_agent_awaits(struct culm_local_agent *agent, int32_t node, int64_t pid,
                             struct culm_error *ret_error);
/* Lets the newcomer of this name, process `pid` (0: not known), prepare; *ret_node is a number of its
 * own below CULM_NEWCOMER, or its id, if it comes for an engine's start. CULM_ERR_CONFIG: there are
 * max_nodes already, or its name is that of an engine's start and none is awaited. */
enum culm_status culm_local_agent_enroll(struct culm_local_agent *agent, uint32_t role, int64_t pid,
                                         const char *name, const struct culm_agent_place *place,
                                         int32_t *ret_node, struct culm_error *error);
/* The newcomer is ready: *node becomes its id, which it keeps. CULM_ERR_CONFIG: all have been used, or it has
 * been ended. */
enum culm_status culm_local_agent_admit(struct culm_local_agent *agent, int32_t *node,
                                        struct culm_error *error);
/* What it is called in messages: "node 7", or "newcomer 'NAME'" if it has no id. */
void culm_local_agent_describe(const struct culm_local_agent *agent, int32_t node,
                               char ret_text[CULM_AGENT_NODE_SIZE]);
/* The link of a node has ended; a newcomer ends with it. */
void culm_local_agent_left(struct culm_local_agent *agent, int32_t node);
/* The node has been let in and prepares, or has sent a sign of life meanwhile. */
void culm_local_agent_heard(struct culm_local_agent *agent, int32_t node);
/* *ret_info has no signature; its strings live until `ended`. */
void culm_local_agent_info(struct culm_local_agent *agent, int32_t node,
                           struct culm_node_info *ret_info);
/* The node takes part now. */
void culm_local_agent_joined(struct culm_local_agent *agent, int32_t node);
/* A node that joined when another one led, as a newcomer. False: out of memory. */
bool culm_local_agent_recall(struct culm_local_agent *agent, int32_t node, uint32_t role,
                             const char *name, const struct culm_agent_place *place);
bool culm_local_agent_has_joined(const struct culm_local_agent *agent, int32_t node);
uint32_t culm_local_agent_role(const struct culm_local_agent *agent, int32_t node);
/* Whether it was started elsewhere, by people or by an engine. */
bool culm_local_agent_is_newcomer(const struct culm_local_agent *agent, int32_t node);
/* The node will not take part. why: the reason it gave; NULL: one that has been reported. */
void culm_local_agent_declined(struct culm_local_agent *agent, int32_t node,
                               const struct culm_error *why);

/* --- at any time --- */

/* Reports an error that ends nothing, unless ones like it were reported lately (complaints.h). */
void culm_local_agent_complain(struct culm_local_agent *agent, const struct culm_error *error);

/* Reads and reports pending fault records now. */
void culm_local_agent_hear_faults(struct culm_local_agent *agent);
int32_t culm_local_agent_fired(const struct culm_local_agent *agent, size_t fault); /* how often */
/* The number of living processes and newcomers, and of starts that an engine is asked for. */
int32_t culm_local_agent_alive(const struct culm_local_agent *agent);
/* Kills all nodes, or only those that have not joined. */
void culm_local_agent_end_all(struct culm_local_agent *agent, bool joined_too);
/* Reports each process that was killed but has not ended: it is left behind. */
void culm_local_agent_leave_rest(struct culm_local_agent *agent);
/* Closes its handles; nothing is reported from now on. The memory is in use until the loop has run
 * once more. */
void culm_local_agent_close(struct culm_local_agent *agent);
void culm_local_agent_free(struct culm_local_agent *agent); /* after _close; NULL is fine */

#endif
