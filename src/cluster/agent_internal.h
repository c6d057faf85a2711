/* Internals of the agent, shared by agent*.c only. See agent.h. */
#ifndef CULM_CLUSTER_AGENT_INTERNAL_H
#define CULM_CLUSTER_AGENT_INTERNAL_H

#include "cluster/agent.h"
#include "cluster/complaints.h"
#include "cluster/process.h"

#include "base/clock.h"
#include "base/ids.h"

#include <pthread.h>

#define CULM_AGENT_NAME_SIZE 512

/* A node: a process, or a newcomer. Freed when its end has been reported. */
struct child {
    struct culm_local_agent *agent;
    int32_t node;
    uint32_t role;
    int32_t index; /* in its role */
    char name[CULM_AGENT_NAME_SIZE];
    struct culm_agent_place place; /* of a newcomer */
    struct culm_process process;
    bool watched;          /* `process` is to be closed */
    int64_t pid;           /* 0: not started, or not known */
    uint64_t heard_ns;     /* when it was started, or last heard of before it joined */
    struct culm_error why; /* why it declined; text "": it did not */
    bool newcomer;         /* started by somebody else; `process` is not used */
    bool elsewhere;        /* a newcomer that the engine starts */
    bool came;             /* of `elsewhere`: it has arrived */
    bool prepares;         /* it has been let in */
    bool joined;
    bool dropped; /* a newcomer that was refused, or declined: it is not counted any more */
    bool ended;   /* the reason of its end is known: it was killed or refused, or has declined */
    bool exited;  /* reaped, or never started; a newcomer: its link has ended, or is to be closed */
};

/* Nodes of one role. */
struct role_count {
    uint32_t role;
    int32_t starts;    /* so far */
    int32_t processes; /* that are alive here */
};

/* A node that froze itself and is to be thawed after a while. */
struct thaw {
    uv_timer_t timer;
    struct child *child;
    struct thaw *next, **slot;
};

struct culm_local_agent {
    struct culm_agent table; /* first */
    struct culm_local_agent_options o;
    char host_name[64];
    uint64_t begin_ns, swept_ns;
    struct culm_ids children; /* struct child, by node; those whose end has not been reported */
    int32_t next_node, alive;
    int32_t guest; /* the last number that a newcomer without an id has got */
    struct role_count *role;
    int32_t role_count, role_capacity;
    int64_t
        oom_kills; /* processes that the system has killed for memory, as far as they are accounted for */
    struct culm_complaints complaints; /* of nodes that do not join, and of the engine */
    struct culm_engine_report *report; /* NULL: there is no engine */
    const char **queue;                /* [trace->count] names of the trace that wait for a place */
    size_t queue_count, trace_at;
    int record_fd[2]; /* the pipe that nodes write fault records into */
    char record[256]; /* the line in progress */
    size_t record_len;
    int32_t *fired; /* by index of the fault */
    struct thaw *thaws;
    uv_poll_t records;
    uv_timer_t sweep, defer, trace_timer;
};

/* NULL: there is no such node, or its end has been reported. */
static inline struct child *agent_child(const struct culm_local_agent *agent, int32_t node) {
    return (struct child *)culm_ids_find(&agent->children, node);
}
/* The one with the lowest id that is not below `node`; NULL: there is none. */
static inline struct child *agent_child_from(const struct culm_local_agent *agent, int32_t node) {
    int32_t at = culm_ids_from(&agent->children, node);
    return at < agent->children.count ? (struct child *)agent->children.thing[at] : NULL;
}

/* --- agent_process.c --- */

/* Starts the next node. If that fails, the node counts as ended, which is reported from the loop,
 * not before this returns. */
void agent_start(struct culm_local_agent *agent, uint32_t role, const char *name);
/* Reports an error of a node that has not joined, prefixed with the node, unless ones like it were
 * reported lately. */
void agent_start_error(struct child *child, struct culm_error *error);
/* How many processes of the role are alive here. */
int32_t agent_processes(const struct culm_local_agent *agent, uint32_t role);
/* Sends SIGKILL; ends a newcomer instead. Does nothing if the node has exited. */
void agent_kill(struct child *child);
static inline const char *agent_vmstat(const struct culm_local_agent *agent) {
    return agent->o.vmstat ? agent->o.vmstat : "/proc/vmstat";
}
/* Kills nodes that have been silent for start_limit_ms and have not joined. Time during which this
 * process stood still does not count. */
void agent_starts_sweep(struct culm_local_agent *agent, uint64_t now_ns);

/* --- agent_engine.c --- */

bool agent_starts_elsewhere(const struct culm_local_agent *agent, uint32_t role);
void agent_start_elsewhere(struct child *child);
/* Tells the engine that the node has ended, if the engine started it. */
void agent_end_elsewhere(const struct child *child);
/* If the newcomer has a name of the engine's, makes it one of the nodes awaited from there;
 * otherwise *ret_node is CULM_NEWCOMER. CULM_ERR_CONFIG: none is awaited. */
enum culm_status agent_take_in(struct culm_local_agent *agent, uint32_t role, int64_t pid,
                               const char *name, int32_t *ret_node, struct culm_error *error);
void agent_engine_open(struct culm_local_agent *agent);  /* calls ops->failed if it fails */
void agent_engine_close(struct culm_local_agent *agent); /* also if it was not opened */
void agent_engine_free(struct culm_local_agent *agent);  /* once the loop has run again */

/* --- agent_fault.c --- */

/* Called by the loop when the pipe of fault records is readable. */
void agent_on_records(uv_poll_t *poll, int status, int events);
/* Closes the timers of that node, or NULL: all; their memory is freed when the loop runs next. */
void agent_thaws_free(struct culm_local_agent *agent, const struct child *child);

/* --- agent_trace.c --- */

void agent_trace_begin(struct culm_local_agent *agent);
/* A place may have become free: starts the first node that waits for one. */
void agent_trace_place(struct culm_local_agent *agent);

#endif
