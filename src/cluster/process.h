/*
 * Child processes on a loop: starts them, and reports their end, without a signal handler. The end
 * is noticed through a pidfd, so a program that embeds Culm may have a SIGCHLD handler of its own.
 * If it ignores SIGCHLD, or reaps all children, only exit statuses are lost. Thread: the loop's.
 */
#ifndef CULM_CLUSTER_PROCESS_H
#define CULM_CLUSTER_PROCESS_H

#include "base/status.h"

#include <uv.h>

#define CULM_PROCESS_FDS 4

struct culm_process {
    uv_poll_t poll; /* first member; the caller closes it with uv_close after `ended` */
    int64_t pid;
    int fd; /* the pidfd */
    /* The process has ended: its exit code, and the signal that ended it or 0. -1 and 0 if somebody
     * else has reaped it. */
    void (*ended)(struct culm_process *process, int code, int number);
    void *data;
};

/* Starts argv[0] (searched in PATH if it has no slash) in a new session, with fds[i] as descriptor
 * i, the signals of base/stops.h blocked, and all signals at their default. On failure there is
 * nothing to close. CULM_ERR_IO. */
enum culm_status culm_process_start(struct culm_process *process, uv_loop_t *loop, char **argv,
                                    const int fds[CULM_PROCESS_FDS], struct culm_error *error);
/* Sends a signal unless the process has ended. Uses the pidfd, so it never hits another process
 * that has got the same pid. */
void culm_process_signal(const struct culm_process *process, int number);
/* Stops watching a process that has not ended; the caller then calls uv_close. */
void culm_process_abandon(struct culm_process *process);

#endif
