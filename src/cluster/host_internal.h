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

/* A process, from its start to the end of the host. */
struct worker {
    struct culm_host *host;
    int32_t node;
    char name[CULM_WIRE_TEXT_MAX], signature[CULM_WIRE_TEXT_MAX];
    struct culm_process process;
    int64_t pid;           /* 0: could not be started */
    uint64_t heard_ns;     /* its start, or the last that was heard of it before it was ready */
    struct culm_error why; /* text "": it declined for nothing */
    bool prepares;         /* it has proved who it is */
    bool up;               /* ready: the actor heard UP */
    bool ended;            /* it is known why it ends: killed or refused by us */
    bool exited;           /* reaped, or never started */
    bool told;             /* the actor heard EXIT */
};

struct thaw {
    uv_timer_t timer;
    struct worker *worker;
    struct thaw *next, **slot;
};

struct culm_host {
    struct culm_real real; /* first */
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

/* host.c */
void culm_host_publish(struct culm_host *host, json_t *take_event);
void culm_host_complain(struct culm_host *host, const struct culm_error *error);
void culm_host_tell(struct worker *worker, enum culm_peer_change change);

/* host_link.c */
enum culm_status culm_host_links_new(struct culm_host *host, struct culm_error *error);
void culm_host_links_free(struct culm_host *host); /* also when _new failed */

/* host_process.c */
void culm_host_start(struct culm_host *host, const char *name);
/* Of one that has not joined; what equals the one before is not told again. */
void culm_host_start_error(struct worker *worker, struct culm_error *error);
void culm_host_kill(struct worker *worker);
void culm_host_kill_all(struct culm_host *host);
void culm_host_complain_of_rest(struct culm_host *host); /* those not reaped */
void culm_host_starts_sweep(struct culm_host *host, uint64_t now_ns);
void culm_host_on_defer(uv_timer_t *timer);
void culm_host_on_records(uv_poll_t *poll, int status, int events);
void culm_host_records_read(struct culm_host *host);
void culm_host_thaw_free(struct thaw *thaw);

/* host_trace.c */
void culm_host_trace_start(struct culm_host *host);
void culm_host_trace_place(struct culm_host *host); /* a place may be free */

#endif
