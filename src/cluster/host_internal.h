/* Shared by the files of the host; nobody else includes it. See host.h. */
#ifndef CULM_CLUSTER_HOST_INTERNAL_H
#define CULM_CLUSTER_HOST_INTERNAL_H

#include "cluster/host.h"
#include "cluster/process.h"
#include "cluster/real.h"
#include "cluster/real_network.h"
#include "cluster/roster.h"
#include "net/conn.h"
#include "net/socket.h"

#define SECOND 1000000000ull

/* A worker's process, from its start to the end of the host. */
struct worker {
    struct culm_host *host;
    int32_t node;
    uint32_t role;
    char name[CULM_WIRE_TEXT_MAX], signature[CULM_WIRE_TEXT_MAX];
    struct culm_process process;
    int64_t pid;           /* 0: could not be started */
    uint64_t heard_ns;     /* its start, or the last that was heard of it before it was ready */
    struct culm_error why; /* text "": it declined for nothing */
    bool prepares;         /* it has proved who it is */
    bool up;               /* ready: the actor heard that it joined */
    bool ended;            /* it is known why it ends: killed or refused by us */
    bool exited;           /* reaped, or never started */
    bool told;             /* the actor heard that it ended */
};

/* A worker that froze itself and is to go on after a while. */
struct thaw {
    uv_timer_t timer;
    struct worker *worker;
    struct thaw *next, **slot;
};

struct culm_host {
    struct culm_real real; /* first */
    struct culm_agent agent;
    struct culm_host_options o;
    uint64_t birth_ns, run_ns;
    json_int_t view; /* of the actor's last event: the host's own events are in it */
    char host_name[64];
    int listen_fd;
    char address[CULM_ADDRESS_SIZE];
    int record_fd[2]; /* the pipe that workers write fault records into */
    char record[256]; /* the line in progress */
    size_t record_len;
    int32_t *fired; /* by index of the fault */
    struct culm_real_network network;
    struct culm_roster *roster;
    struct worker **worker; /* by node */
    int32_t worker_count, worker_capacity, alive;
    struct thaw *thaws;
    const char **queue; /* trace names that wait for a place; [trace->count] */
    size_t queue_count, trace_at;
    char start_error[CULM_ERROR_MAX]; /* the last one told */
    uv_poll_t records;
    uv_timer_t sweep, alive_timer, defer, trace_timer, end;
    uv_poll_t stop;
    int stops;
    bool given_up; /* what has not ended is left behind */
};

static inline struct culm_host *culm_host_of(struct culm_world *world) {
    return (struct culm_host *)world;
}

/* All of these are called on the loop thread, between culm_host_new and culm_host_free. */

/* --- host.c --- */

/* Takes the event, and gives it to the host's user with "t_ms" and "view" behind "event". */
void culm_host_publish(struct culm_host *host, json_t *take_event);
/* An "error" event: something that the actor need not hear of. */
void culm_host_complain(struct culm_host *host, const struct culm_error *error);

/* --- host_link.c --- */

/* The roster and the listener on the host's socket; nothing is accepted before the host runs. */
enum culm_status culm_host_links_new(struct culm_host *host, struct culm_error *error);
void culm_host_links_free(struct culm_host *host); /* also when _new failed */

/* --- host_process.c --- */

/* Starts a process as the next node. One that could not be started has ended: the actor hears that
 * from the loop, and not before this returns. */
void culm_host_start(struct culm_host *host, uint32_t role, const char *name);
/* Complains of one that has not joined, with its node in front; what equals the one before is not
 * told again. */
void culm_host_start_error(struct worker *worker, struct culm_error *error);
/* SIGKILL. Nothing if it has been reaped. */
void culm_host_kill(struct worker *worker);
void culm_host_kill_all(struct culm_host *host);
/* Complains of each that has been killed and not reaped, when it is not waited for any longer. */
void culm_host_complain_of_rest(struct culm_host *host);
/* Kills those of which nothing was heard for start_limit_ms before they were ready. */
void culm_host_starts_sweep(struct culm_host *host, uint64_t now_ns);
/* The loop calls it when there is something in the pipe of fault records. */
void culm_host_on_records(uv_poll_t *poll, int status, int events);
/* The same at any time: counts and publishes what workers have said they do to themselves. */
void culm_host_records_read(struct culm_host *host);
/* Takes it off the host's list; its memory goes when the loop has run once more. */
void culm_host_thaw_free(struct thaw *thaw);

/* --- host_trace.c --- */

/* The run begins: so does the trace, if there is one. */
void culm_host_trace_start(struct culm_host *host);
/* A place may be free: starts the first of those that wait for one. */
void culm_host_trace_place(struct culm_host *host);

#endif
