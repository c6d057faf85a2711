/*
 * Toy actors for the tests of the real worlds. The test program runs itself as worker, launcher or
 * silent process; the worker does what the leader's messages say.
 */
#ifndef CULM_TESTS_UNIT_CLUSTER_TOY_H
#define CULM_TESTS_UNIT_CLUSTER_TOY_H

#include "cluster/host.h"

#define TOY_TOKEN "0123456789abcdef0123456789abcdef"
#define TOY_MB ((size_t)1 << 20)
#define TOY_PAYLOAD_MAX (64 * TOY_MB)
#define TOY_BRIEF (3 * TOY_MB + 7)
#define TOY_LONG_MS 600000 /* limits that a test is not about: only a fault meets them */

/* To a worker unless said otherwise; meta is a struct toy_order. */
enum toy_type {
    TOY_BLAST = 1, /* send `count` TOY_DATA to `node`, of toy_size(size, i) bytes */
    TOY_DATA,      /* worker to worker */
    TOY_FAULT,     /* pass a fault point on the loop */
    TOY_FAULT_JOB, /* pass it on the compute thread */
    TOY_JOBS,      /* `count` jobs on each thread, timers meanwhile */
    TOY_BUSY,      /* a job that never ends */
    TOY_STATUS,    /* answer with a TOY_REPORT */
    TOY_LEAVE,     /* with `count` as exit code, after `size` reports with 1 MB of payload each */
    TOY_REPORT,    /* worker to leader; meta is a struct toy_report */
    TOY_LOST,      /* worker to leader: node `from` is lost */
};

/* Fault points of a toy. */
enum { TOY_PHASE_JOB = 1, TOY_PHASE_SEND = 4, TOY_PHASE_LOOP, TOY_PHASE_OTHER };

struct toy_order {
    int32_t node, phase;
    int64_t count, step, fault_at;
    uint64_t size;
};

struct toy_report {
    int32_t from;
    uint32_t bad;
    int64_t messages, pid, jobs, ticks;
    char news[32]; /* all that came after the brief, as text */
};

/* size 0: 1, 2, 4, ... 64 MB, then small ones; else all of `size - 1`. */
size_t toy_size(uint64_t size, int64_t index);

/* argv[1] says which: main gives its arguments on when there are any. */
int toy_main(int argc, char **argv);
/* Environment of a worker: where it listens and what it advertises (culm_worker_options). A worker with
 * the id CULM_NEWCOMER asks for TOY_WANTED, and says on standard error "is node N in role R". */
#define TOY_LISTEN "CULM_TOY_LISTEN"
#define TOY_ADVERTISE "CULM_TOY_ADVERTISE"
#define TOY_WANTED 5

/* `mode`: "worker", or "wrapped" (a process between it and the launcher), or "silent"; or one that
 * prepares for two seconds ("slow"), until it
 * has heard news ("curious"), for ever without doing anything ("asleep"), or declines
 * ("decline"), or whose end is not told ("undead"). */
char **toy_argv(const char *mode, const char *token, const char *signature, int32_t node,
                const char *name, const char *address, int fault_fd, const char *fault);

/* Set by the program: "launcher" runs this. */
int toy_launcher(const char *mode);

#endif
