/* Shared by the files of the agent; nobody else includes it. See agent.h. */
#ifndef CULM_CLUSTER_AGENT_INTERNAL_H
#define CULM_CLUSTER_AGENT_INTERNAL_H

#include "cluster/agent.h"
#include "cluster/process.h"

#include "base/clock.h"

#include <pthread.h>

#define CULM_AGENT_NAME_SIZE 512

/* A node's process, from its start to the end of the agent. */
struct child {
    struct culm_local_agent *agent;
    int32_t node;
    uint32_t role;
    int32_t index; /* in its role */
    char name[CULM_AGENT_NAME_SIZE];
    struct culm_process process;
    int64_t pid;           /* 0: could not be started */
    uint64_t heard_ns;     /* its start, or the last that was heard of it before it joined */
    struct culm_error why; /* text "": it declined for nothing */
    bool newcomer;         /* somebody else started it, or will; `process` is none */
    bool elsewhere;        /* that is the engine */
    bool came;             /* of elsewhere: it has proved who it is */
    bool prepares;         /* it has proved who it is */
    bool joined;
    bool ended;  /* it is known why it ends: killed, refused, or declined */
    bool exited; /* reaped, or never started; or the link of a newcomer is gone, or is to go */
    bool told;   /* `ended` was called */
};

/* A node that froze itself and is to go on after a while. */
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
    char start_error[CULM_ERROR_MAX];  /* the last one complained of */
    char engine_error[CULM_ERROR_MAX]; /* the last one that the engine did */
    struct culm_engine_report *report; /* NULL: there is no engine */
    const char **queue;                /* trace names that wait for a place; [trace->count] */
    size_t queue_count, trace_at;
    int record_fd[2]; /* the pipe that nodes write fault records into */
    char record[256]; /* the line in progress */
    size_t record_len;
    int32_t *fired; /* by index of the fault */
    struct thaw *thaws;
    uv_poll_t records;
    uv_timer_t sweep, defer, trace_timer;
};

/* NULL: there never was one. */
static inline struct child *culm_agent_child(const struct culm_local_agent *agent, int32_t node) {
    return node >= 0 && node < agent->child_count ? agent->child[node] : NULL;
}

/* --- agent_process.c --- */

/* Starts a process as the next node. One that could not be started has ended, which is told from the
 * loop, and not before this returns. */
void culm_agent_start(struct culm_local_agent *agent, uint32_t role, const char *name);
/* The same but for numbers: of a node, a process, a signal. */
bool culm_agent_alike(const char *a, const char *b);
/* Complains of one that has not joined, with its node in front; what equals the one before is not
 * told again. */
void culm_agent_start_error(struct child *child, struct culm_error *error);
/* How many were started in the role, or of these have a process now. */
int32_t culm_agent_count(const struct culm_local_agent *agent, uint32_t role, bool alive);
/* SIGKILL; of a newcomer, the end of its link. Nothing if it has been reaped. */
void culm_agent_kill(struct child *child);
/* Kills those of which nothing was heard for start_limit_ms before they had joined, unless that is because
 * this process stood still. */
void culm_agent_starts_sweep(struct culm_local_agent *agent, uint64_t now_ns);

/* --- agent_engine.c --- */

bool culm_agent_starts_elsewhere(const struct culm_local_agent *agent, uint32_t role);
void culm_agent_start_elsewhere(struct child *child);
void culm_agent_end_elsewhere(const struct child *child); /* if it was started there */
/* A newcomer of a name that the engine gives is one of those that are awaited of it; its node is
 * CULM_NEWCOMER if it has another name. CULM_ERR_CONFIG: nobody is awaited. */
enum culm_status culm_agent_take_in(struct culm_local_agent *agent, uint32_t role, int64_t pid,
                                    const char *name, int32_t *ret_node, struct culm_error *error);
void culm_agent_engine_open(struct culm_local_agent *agent);  /* if it cannot, the run fails */
void culm_agent_engine_close(struct culm_local_agent *agent); /* also if it was not opened */
void culm_agent_engine_free(struct culm_local_agent *agent);  /* the loop has run since */

/* --- agent_fault.c --- */

/* The loop calls it when there is something in the pipe of fault records. */
void culm_agent_on_records(uv_poll_t *poll, int status, int events);
void culm_agent_thaws_free(
    struct culm_local_agent *agent); /* gone when the loop has run once more */

/* --- agent_trace.c --- */

void culm_agent_trace_begin(struct culm_local_agent *agent);
/* A place may be free: starts the first of those that wait for one. */
void culm_agent_trace_place(struct culm_local_agent *agent);

#endif
