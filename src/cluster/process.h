/*
 * Child processes on a loop: started, and their end told, without a signal handler. The end is read
 * from a descriptor of the process (pidfd), so whoever has a SIGCHLD handler of its own is not
 * disturbed; a caller that ignores SIGCHLD, or reaps every child, takes the exit status away and
 * nothing else. Thread: the loop's.
 */
#ifndef CULM_CLUSTER_PROCESS_H
#define CULM_CLUSTER_PROCESS_H

#include "base/status.h"

#include <uv.h>

#define CULM_PROCESS_FDS 4

struct culm_process {
    uv_poll_t poll; /* first: closing it is the caller's, with uv_close, once `ended` was called */
    int64_t pid;
    int fd;
    /* Its exit code, and the signal that ended it or 0; -1 and 0 when somebody else reaped it. */
    void (*ended)(struct culm_process *process, int code, int number);
    void *data;
};

/* Starts argv[0] (found in PATH where it has no slash) in a session of its own, with fds[i] as its
 * descriptor i, those opened with O_CLOEXEC closed, no signal blocked and all of them at their
 * default. On failure there is nothing to close. CULM_ERR_IO. */
enum culm_status culm_process_start(struct culm_process *process, uv_loop_t *loop, char **argv,
                                    const int fds[CULM_PROCESS_FDS], struct culm_error *error);
/* Sends it a signal, unless it has ended: by its descriptor, so that never another process is meant. */
void culm_process_signal(const struct culm_process *process, int number);
/* Stops watching one that has not ended and is left behind; then uv_close. */
void culm_process_abandon(struct culm_process *process);

#endif
