/*
 * The agent of this machine: it starts processes as nodes and tells when they have ended, ends them,
 * does what a preemption trace says, and hears what they do to themselves on purpose (fault.h).
 *
 * It has no links and does not lead. Whoever lets nodes in asks whom it awaits and says what became
 * of them; what the one who leads has to know goes through `ops`; what that one wants comes through
 * the table of net/leader.h. So one who leads elsewhere can have agents on many machines.
 *
 * Node ids count from 0 and are never used again. A node of which nothing was heard for
 * start_limit_ms, from its start until it has joined, is killed. One that cannot be started,
 * declines, or ends by itself before it has joined, is complained of with its last words; what
 * equals the complaint before, but for numbers, is not repeated.
 *
 * With a trace, nodes of one role come and go as it says, at time / time_scale from _begin, and the
 * table starts nobody else in that role; at most max_nodes processes of it live, further ones wait
 * their turn. A node that is removed is killed without warning, and then told of if it had joined.
 *
 * A newcomer, which somebody else started, can be enrolled as a node like the others. It has no
 * process here: it ends when its link does, which is told to the agent, and when it is to be ended the
 * agent says that it has, upon which its link is to be closed.
 *
 * With an engine (engine.h), nodes of one role are started there: they come as newcomers do, under
 * names that say so, and are the nodes that the one who leads has asked for.
 *
 * Its thread must live as long as the nodes: they may ask the kernel to be killed when it ends.
 * Thread: one, the loop's, for all of this; `ops` are called from the loop, and `ended` never from
 * within a call.
 */
#ifndef CULM_CLUSTER_AGENT_H
#define CULM_CLUSTER_AGENT_H

#include "cluster/engine.h"
#include "cluster/fault.h"
#include "cluster/trace.h"
#include "net/leader.h"

struct uv_loop_s;

/* A node that is to be started. Borrowed for the length of the call. */
struct culm_agent_start {
    int32_t node;
    uint32_t role;
    int32_t index; /* among those that were started in its role, from 0; never used again either */
    const char *name, *address;
    int fault_fd; /* open in the node */
};

/* What nodes were told to do to themselves; here only to count, to tell and to thaw. */
struct culm_agent_fault {
    int32_t node;      /* -1: the one that role and index say */
    const char *phase; /* as the event names it; borrowed */
    enum culm_fault_how how;
    int64_t for_ms; /* CULM_HOW_STOP: thawed so long after; 0: never */
    uint32_t role;
    int32_t index;         /* as of culm_agent_start */
    const char *role_name; /* as the event names it; NULL: it does not */
};

struct culm_local_agent;

struct culm_local_agent_ops {
    bool (*over)(void *ctx); /* nobody leads any more: nobody is started, and no start failed */
    /* Its process has ended, or could not be started; or it is a newcomer, whose link has ended or is
     * to be closed now. why: what it declined for; NULL: nothing. */
    void (*ended)(void *ctx, int32_t node, const struct culm_error *why);
    void (*removed)(void *ctx, int32_t node);
    void (*fired)(void *ctx, const struct culm_agent_fault *fault, int32_t node, int64_t step);
    void (*complain)(void *ctx, const struct culm_error *error); /* goes on */
    void (*failed)(void *ctx, const struct culm_error *error);   /* cannot */
};

struct culm_local_agent_options { /* all borrowed until _free */
    struct uv_loop_s *loop;
    const char *token;   /* a node reads it from its standard input, without an end of line */
    const char *address; /* where nodes call */
    /* The command line of a new node, ended by NULL; the vector and each string are malloc'd and the
     * agent's to free. NULL: out of memory. */
    void (*command)(void *ctx, const struct culm_agent_start *start, char ***ret_argv);
    void *command_ctx;
    const char *log_dir;            /* exists; what node K prints is appended to node-K.log */
    const struct culm_trace *trace; /* NULL: none */
    uint32_t trace_role;            /* of the nodes that it names */
    double time_scale;              /* of the trace; 0: 1 */
    int32_t max_nodes;              /* processes of that role alive at once, by a trace; of all that
                                       live, if a newcomer is to be let in; 0: any number */
    const struct culm_agent_fault *faults;
    size_t fault_count;
    int64_t start_limit_ms;     /* 0: 60000 */
    struct culm_engine *engine; /* starts the nodes of engine_role; NULL: they are processes too */
    uint32_t engine_role;
    const struct culm_local_agent_ops *ops;
    void *ctx;
};

enum culm_status culm_local_agent_new(const struct culm_local_agent_options *options,
                                      struct culm_local_agent **ret_agent,
                                      struct culm_error *error);
/* Is the fault for this node? */
static inline bool culm_agent_fault_meets(const struct culm_agent_fault *fault, int32_t node,
                                          uint32_t role, int32_t index) {
    return fault->node >= 0 ? fault->node == node : fault->role == role && fault->index == index;
}

/* What the one who leads asks it for. */
struct culm_agent *culm_local_agent_table(struct culm_local_agent *agent);
/* The run begins: with its trace, and with an eye on those that start. */
void culm_local_agent_begin(struct culm_local_agent *agent);

/* --- what those who let nodes in ask and tell --- */

/* Is process `pid` (0: not known) the node that it proved to be, and has that not joined? If not,
 * says why in *ret_error. */
bool culm_local_agent_awaits(struct culm_local_agent *agent, int32_t node, int64_t pid,
                             struct culm_error *ret_error);
/* The newcomer of this name, process `pid` (0: not known), is a node from now on. CULM_ERR_CONFIG: there
 * are max_nodes already, or no ids are left. */
enum culm_status culm_local_agent_enroll(struct culm_local_agent *agent, uint32_t role, int64_t pid,
                                         const char *name, int32_t *ret_node,
                                         struct culm_error *error);
/* The link of a node has ended; if it is a newcomer, so has the node. */
void culm_local_agent_left(struct culm_local_agent *agent, int32_t node);
void culm_local_agent_heard(struct culm_local_agent *agent, int32_t node); /* it prepares */
/* It may take part. *ret_info, without a signature, lives as long as the agent. */
void culm_local_agent_joined(struct culm_local_agent *agent, int32_t node,
                             struct culm_node_info *ret_info);
bool culm_local_agent_has_joined(const struct culm_local_agent *agent, int32_t node);
uint32_t culm_local_agent_role(const struct culm_local_agent *agent, int32_t node);
/* It will not: for a reason of its own, or (NULL) for one that was told already. */
void culm_local_agent_declined(struct culm_local_agent *agent, int32_t node,
                               const struct culm_error *why);

/* --- at any time --- */

/* Tells, now, of the faults that nodes have said they fire. */
void culm_local_agent_hear_faults(struct culm_local_agent *agent);
int32_t culm_local_agent_fired(const struct culm_local_agent *agent, size_t fault); /* how often */
/* Processes, and newcomers. */
int32_t culm_local_agent_alive(const struct culm_local_agent *agent);
void culm_local_agent_end_all(struct culm_local_agent *agent, bool joined_too);
/* Complains of each that was killed and has not ended: it is not waited for any longer. */
void culm_local_agent_leave_rest(struct culm_local_agent *agent);
/* Ends its part in the loop; nothing is told any more. It is in use until the loop has run. */
void culm_local_agent_close(struct culm_local_agent *agent);
void culm_local_agent_free(struct culm_local_agent *agent); /* closed; NULL is fine */

#endif
