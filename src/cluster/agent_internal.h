/* Internals of the agent, shared by agent*.c only. See agent.h. */
#ifndef CULM_CLUSTER_AGENT_INTERNAL_H
#define CULM_CLUSTER_AGENT_INTERNAL_H

#include "cluster/agent.h"
#include "cluster/process.h"

#include "base/clock.h"

#include <pthread.h>

#define CULM_AGENT_NAME_SIZE 512

/* A node: a process, or a newcomer. Kept until the agent is freed. */
struct child {
    struct culm_local_agent *agent;
    int32_t node;
    uint32_t role;
    int32_t index; /* in its role */
    char name[CULM_AGENT_NAME_SIZE];
    struct culm_process process;
    int64_t pid;           /* 0: not started, or not known */
    uint64_t heard_ns;     /* when it was started, or last heard of before it joined */
    struct culm_error why; /* why it declined; text "": it did not */
    bool newcomer;         /* started by somebody else; `process` is not used */
    bool elsewhere;        /* a newcomer that the engine starts */
    bool came;             /* of `elsewhere`: it has arrived */
    bool prepares;         /* it has been let in */
    bool joined;
    bool ended;  /* the reason of its end is known: it was killed or refused, or has declined */
    bool exited; /* reaped, or never started; a newcomer: its link has ended, or is to be closed */
    bool told;   /* ops->ended has been called */
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
    struct child **child; /* by node */
    int32_t child_count, child_capacity, alive;
    char start_error[CULM_ERROR_MAX];  /* the last failed start that was reported */
    char engine_error[CULM_ERROR_MAX]; /* the last error of the engine that was reported */
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

/* The node of that id, living or not; NULL: there never was one. */
static inline struct child *culm_agent_child(const struct culm_local_agent *agent, int32_t node) {
    return node >= 0 && node < agent->child_count ? agent->child[node] : NULL;
}

/* --- agent_process.c --- */

/* Starts the next node. If that fails, the node counts as ended, which is reported from the loop,
 * not before this returns. */
void culm_agent_start(struct culm_local_agent *agent, uint32_t role, const char *name);
/* Whether two messages are equal except for numbers. */
bool culm_agent_alike(const char *a, const char *b);
/* Reports an error of a node that has not joined, prefixed with the node, unless it is like the
 * previous one. */
void culm_agent_start_error(struct child *child, struct culm_error *error);
/* How many nodes were started in the role; `alive`: only those that have a process now. */
int32_t culm_agent_count(const struct culm_local_agent *agent, uint32_t role, bool alive);
/* Sends SIGKILL; ends a newcomer instead. Does nothing if the node has exited. */
void culm_agent_kill(struct child *child);
/* Kills nodes that have been silent for start_limit_ms and have not joined. Time during which this
 * process stood still does not count. */
void culm_agent_starts_sweep(struct culm_local_agent *agent, uint64_t now_ns);

/* --- agent_engine.c --- */

bool culm_agent_starts_elsewhere(const struct culm_local_agent *agent, uint32_t role);
void culm_agent_start_elsewhere(struct child *child);
/* Tells the engine that the node has ended, if the engine started it. */
void culm_agent_end_elsewhere(const struct child *child);
/* If the newcomer has a name of the engine's, makes it one of the nodes awaited from there;
 * otherwise *ret_node is CULM_NEWCOMER. CULM_ERR_CONFIG: none is awaited. */
enum culm_status culm_agent_take_in(struct culm_local_agent *agent, uint32_t role, int64_t pid,
                                    const char *name, int32_t *ret_node, struct culm_error *error);
void culm_agent_engine_open(struct culm_local_agent *agent);  /* calls ops->failed if it fails */
void culm_agent_engine_close(struct culm_local_agent *agent); /* also if it was not opened */
void culm_agent_engine_free(struct culm_local_agent *agent);  /* once the loop has run again */

/* --- agent_fault.c --- */

/* Called by the loop when the pipe of fault records is readable. */
void culm_agent_on_records(uv_poll_t *poll, int status, int events);
/* Closes the timers; their memory is freed when the loop runs next. */
void culm_agent_thaws_free(struct culm_local_agent *agent);

/* --- agent_trace.c --- */

void culm_agent_trace_begin(struct culm_local_agent *agent);
/* A place may have become free: starts the first node that waits for one. */
void culm_agent_trace_place(struct culm_local_agent *agent);

#endif
