/* `culm merge --watch` beside a run. See edge_remerge.h. */
#include "run/edge_remerge.h"

#include "run/program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ENDS_MS 1000
#define LOOK_MS 10
#define NICE 19

/* In the child, between fork and exec: other threads of the run may have held any lock. */
static void become(char **argv, int log, pid_t parent) {
    sigset_t none;
    sigemptyset(&none);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && getppid() == parent && null >= 0 &&
        dup2(null, STDIN_FILENO) >= 0 && dup2(null, STDOUT_FILENO) >= 0 &&
        dup2(log, STDERR_FILENO) >= 0 && setpriority(PRIO_PROCESS, 0, NICE) == 0 &&
        signal(SIGHUP, SIG_IGN) != SIG_ERR && /* meant for the run, but sent to the whole group */
        sigprocmask(SIG_SETMASK, &none, NULL) == 0) {
        (void)close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC); /* those of libraries */
        execv(argv[0], argv);
    }
    _exit(127);
}

enum culm_status edge_remerge_start(const char *package, const char *run, pid_t *ret_pid,
                                    struct culm_error *error) {
    char program[CULM_PATH_MAX], log[CULM_PATH_MAX];
    enum culm_status status = culm_program_find(NULL, program, error);
    status = status ? status : culm_path_format(log, error, "%s/remerge.log", run);
    if (status != CULM_OK) {
        return culm_error_prefix(error, "edge.remerge");
    }
    char *argv[] = {program, "merge", "--watch", (char *)(uintptr_t)package, (char *)(uintptr_t)run,
                    NULL};
    const int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) {
        return culm_error_errno(error, errno, "write '%s'", log);
    }
    const pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        become(argv, fd, parent);
    }
    const int failed = errno;
    close(fd);
    if (pid < 0) {
        return culm_error_errno(error, failed, "edge.remerge: start '%s'", program);
    }
    *ret_pid = pid;
    return CULM_OK;
}

void edge_remerge_stop(pid_t pid) {
    const struct timespec look = {.tv_nsec = LOOK_MS * 1000000L};
    (void)kill(pid, SIGTERM);
    for (int waited = 0; waited < ENDS_MS; waited += LOOK_MS) {
        if (waitpid(pid, NULL, WNOHANG) != 0) { /* it has ended, or somebody else has reaped it */
            return;
        }
        (void)nanosleep(&look, NULL);
    }
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}
