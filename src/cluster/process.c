/* Child processes on a loop. See process.h. */
#include "cluster/process.h"

#include "base/stops.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

static void reap(struct culm_process *process) {
    siginfo_t info = {0};
    int code = -1, number = 0;
    /* Fails if somebody else has reaped it, or a debugger holds it. */
    if (waitid((idtype_t)P_PIDFD, (id_t)process->fd, &info, WEXITED | WNOHANG) != 0) {
        info.si_code = 0;
    }
    if (info.si_code == CLD_EXITED) {
        code = info.si_status;
    } else if (info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED) {
        code = 0;
        number = info.si_status;
    }
    culm_process_abandon(process);
    process->ended(process, code, number);
}

static void on_readable(uv_poll_t *poll, int status, int events) {
    (void)status;
    (void)events;
    reap((struct culm_process *)poll);
}

void culm_process_signal(const struct culm_process *process, int number) {
    if (process->fd >= 0) {
        (void)syscall(SYS_pidfd_send_signal, process->fd, number, NULL, 0);
    }
}

void culm_process_abandon(struct culm_process *process) {
    uv_poll_stop(&process->poll);
    close(process->fd);
    process->fd = -1;
}

/* Duplicates the descriptors above the numbers they are to get, so that dup2 overwrites none that
 * is still needed. */
static int lift(const int fds[CULM_PROCESS_FDS], int ret_lifted[CULM_PROCESS_FDS]) {
    int failed = 0;
    for (int i = 0; i < CULM_PROCESS_FDS; i++) {
        ret_lifted[i] = failed ? -1 : fcntl(fds[i], F_DUPFD_CLOEXEC, CULM_PROCESS_FDS);
        failed = ret_lifted[i] < 0 && !failed ? errno : failed;
    }
    return failed;
}

static int spawn(char **argv, const int fds[CULM_PROCESS_FDS], pid_t *ret_pid) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t stops, all;
    culm_stop_signals_set(&stops);
    sigfillset(&all);
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed) {
        return failed;
    }
    if ((failed = posix_spawnattr_init(&attributes))) {
        posix_spawn_file_actions_destroy(&actions);
        return failed;
    }
    for (int i = 0; i < CULM_PROCESS_FDS && !failed; i++) {
        failed = posix_spawn_file_actions_adddup2(&actions, fds[i], i);
    }
    /* What a library has opened, or the process that runs us, need not be close-on-exec. */
    failed = failed ? failed : posix_spawn_file_actions_addclosefrom_np(&actions, CULM_PROCESS_FDS);
    if (!failed) {
        posix_spawnattr_setsigmask(&attributes, &stops);
        posix_spawnattr_setsigdefault(&attributes, &all);
        failed = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
                                                           POSIX_SPAWN_SETSIGDEF);
    }
    failed = failed ? failed : posix_spawnp(ret_pid, argv[0], &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return failed;
}

/* Kills and reaps a process that cannot be watched. */
static void undo(pid_t pid) {
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
}

enum culm_status culm_process_start(struct culm_process *process, uv_loop_t *loop, char **argv,
                                    const int fds[CULM_PROCESS_FDS], struct culm_error *error) {
    int lifted[CULM_PROCESS_FDS];
    pid_t pid = -1;
    process->fd = -1;
    int failed = lift(fds, lifted);
    failed = failed ? failed : spawn(argv, lifted, &pid);
    for (int i = 0; i < CULM_PROCESS_FDS; i++) {
        if (lifted[i] >= 0) {
            close(lifted[i]);
        }
    }
    if (!failed) {
        process->fd = (int)syscall(SYS_pidfd_open, pid, 0);
        failed = process->fd < 0 ? errno : -uv_poll_init(loop, &process->poll, process->fd);
        if (failed && failed != ESRCH) { /* ESRCH: it has ended, and somebody else has reaped it */
            undo(pid);
        }
        if (failed && process->fd >= 0) {
            close(process->fd);
        }
    }
    if (failed) {
        return culm_error_errno(error, failed, "start '%.200s'", argv[0]);
    }
    process->pid = pid;
    uv_poll_start(&process->poll, UV_READABLE, on_readable);
    return CULM_OK;
}
