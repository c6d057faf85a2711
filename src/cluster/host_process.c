/*
 * Processes of workers: start, end, kill, freeze and thaw, and the pipe of fault records.
 *
 * A start that fails is an end without a process; it is told by a timer of no delay, since spawn
 * must not call back.
 */
#include "cluster/host_internal.h"

#include "base/grow.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAULT_FD 3

static void log_path(const struct worker *worker, char ret_path[PATH_MAX]) {
    snprintf(ret_path, PATH_MAX, "%s/node-%d.log", worker->host->o.log_dir, worker->node);
}

/* --- the end --- */

static void ended(struct worker *worker) {
    struct culm_host *host = worker->host;
    culm_host_records_read(host);
    (void)culm_roster_end(host->roster, worker->node);
    worker->told = true;
    if (culm_real_listens(&host->real)) {
        host->real.actor_ops->leads->ended(host->real.actor, worker->node,
                                           worker->why.text[0] ? &worker->why : NULL);
    }
    culm_host_trace_place(host);
}

/* The last line of its log, without the end of line, anything but ASCII as '?'; "" when there is
 * none. */
static void last_words(const struct worker *worker, char *ret_text, size_t size) {
    char path[PATH_MAX], bytes[512];
    ret_text[0] = '\0';
    log_path(worker, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    off_t end = lseek(fd, 0, SEEK_END);
    off_t start = end > (off_t)sizeof bytes - 1 ? end - ((off_t)sizeof bytes - 1) : 0;
    ssize_t got = pread(fd, bytes, sizeof bytes - 1, start);
    close(fd);
    while (got > 0 && bytes[got - 1] == '\n') {
        got--;
    }
    bytes[got > 0 ? got : 0] = '\0';
    const char *line = strrchr(bytes, '\n');
    snprintf(ret_text, size, "%.*s", (int)size - 1, line ? line + 1 : bytes);
    for (char *at = ret_text; *at; at++) {
        *at = *at < ' ' || *at > '~' ? '?' : *at;
    }
}

/* The same but for numbers: of a node, a process, a signal. */
static bool alike(const char *a, const char *b) {
    while (*a && *b) {
        a += strspn(a, "0123456789");
        b += strspn(b, "0123456789");
        if (*a != *b) {
            return false;
        }
        a += *a != 0;
        b += *b != 0;
    }
    return !*a && !*b;
}

void culm_host_start_error(struct worker *worker, struct culm_error *error) {
    struct culm_host *host = worker->host;
    if (!host->real.left && !alike(host->start_error, error->text)) {
        memcpy(host->start_error, error->text, sizeof error->text);
        culm_error_prefix(error, "node %d", worker->node);
        culm_host_complain(host, error);
    }
}

static void tell_early_end(struct worker *worker, int exit_status, int term_signal) {
    struct culm_error error;
    char words[256];
    last_words(worker, words, sizeof words);
    culm_error_set(&error, CULM_ERR_IO,
                   "ended with %s %d before it joined; its log, in '%.100s', ends with '%s'",
                   term_signal ? "signal" : "exit code", term_signal ? term_signal : exit_status,
                   worker->host->o.log_dir, words);
    culm_host_start_error(worker, &error);
}

static void on_exit_process(struct culm_process *process, int exit_status, int term_signal) {
    struct worker *worker = process->data;
    worker->exited = true;
    worker->host->alive--;
    uv_close((uv_handle_t *)&process->poll, NULL);
    if (!worker->up && !worker->ended) {
        tell_early_end(worker, exit_status, term_signal);
    }
    ended(worker);
}

static void on_defer(uv_timer_t *timer) {
    struct culm_host *host = timer->data;
    for (int32_t i = 0; i < host->worker_count; i++) {
        if (host->worker[i]->exited && !host->worker[i]->told) {
            ended(host->worker[i]);
        }
    }
}

void culm_host_kill(struct worker *worker) {
    if (!worker->exited) {
        worker->ended = true;
        culm_process_signal(&worker->process, SIGKILL);
    }
}

void culm_host_complain_of_rest(struct culm_host *host) {
    for (int32_t i = 0; i < host->worker_count; i++) {
        const struct worker *worker = host->worker[i];
        if (!worker->exited) {
            struct culm_error error;
            culm_error_set(&error, CULM_ERR_TIMEOUT,
                           "node %d does not end although it was killed and is left behind; look "
                           "what process %lld waits for (a disk or a network file system?)",
                           worker->node, (long long)worker->pid);
            culm_host_complain(host, &error);
        }
    }
}

void culm_host_kill_all(struct culm_host *host) {
    for (int32_t i = 0; i < host->worker_count; i++) {
        culm_host_kill(host->worker[i]);
    }
}

void culm_host_starts_sweep(struct culm_host *host, uint64_t now_ns) {
    int64_t limit_ms = host->o.start_limit_ms ? host->o.start_limit_ms : 60000;
    for (int32_t i = 0; i < host->worker_count; i++) {
        struct worker *worker = host->worker[i];
        if (!worker->up && !worker->ended && !worker->exited &&
            now_ns > worker->heard_ns + (uint64_t)limit_ms * 1000000) {
            struct culm_error error;
            culm_error_set(&error, CULM_ERR_TIMEOUT,
                           worker->prepares
                               ? "was silent for %lld ms while it prepared, and is killed"
                               : "did not join within %lld ms and is killed",
                           (long long)limit_ms);
            culm_host_start_error(worker, &error);
            culm_host_kill(worker);
        }
    }
}

/* --- the start --- */

static struct worker *worker_new(struct culm_host *host, uint32_t role, const char *name) {
    if (!CULM_GROW(host->worker, host->worker_capacity, host->worker_count + 1)) {
        return NULL;
    }
    struct worker *worker = calloc(1, sizeof *worker);
    if (worker) {
        worker->host = host;
        worker->node = host->worker_count;
        worker->role = role;
        worker->heard_ns = culm_clock_ns();
        snprintf(worker->name, sizeof worker->name, "%s", name);
        host->worker[host->worker_count++] = worker;
    }
    return worker;
}

/* A pipe that holds the token, and its end: nobody can read it out of an environment or a command
 * line, and what a worker starts does not inherit it. */
static enum culm_status token_pipe(const char *token, int *ret_fd, struct culm_error *error) {
    int fd[2];
    ssize_t len = (ssize_t)strlen(token);
    if (pipe2(fd, O_CLOEXEC)) {
        return culm_error_errno(error, errno, "open a pipe");
    }
    ssize_t put = write(fd[1], token, (size_t)len); /* fits: it is short, and the pipe empty */
    close(fd[1]);
    if (put != len) {
        close(fd[0]);
        return culm_error_set(error, CULM_ERR_IO, "write the token into a pipe");
    }
    *ret_fd = fd[0];
    return CULM_OK;
}

static enum culm_status spawn(struct worker *worker, char **argv, int token_fd, int log_fd,
                              struct culm_error *error) {
    struct culm_host *host = worker->host;
    /* In a session of its own: a signal to the launcher's group is for the launcher. */
    const int fds[CULM_PROCESS_FDS] = {token_fd, log_fd, log_fd, host->record_fd[1]};
    worker->process.data = worker;
    worker->process.ended = on_exit_process;
    enum culm_status status =
        culm_process_start(&worker->process, &host->real.loop, argv, fds, error);
    if (status != CULM_OK) {
        return status;
    }
    worker->pid = worker->process.pid;
    host->alive++;
    return CULM_OK;
}

static enum culm_status start(struct worker *worker, struct culm_error *error) {
    struct culm_host *host = worker->host;
    char path[PATH_MAX];
    log_path(worker, path);
    int log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (log_fd < 0) {
        return culm_error_errno(error, errno, "open '%.400s'", path);
    }
    char **argv = NULL;
    int token_fd = -1;
    enum culm_status status = token_pipe(host->o.token, &token_fd, error);
    if (status == CULM_OK) {
        host->o.command(host->o.ctx, worker->node, worker->role, worker->name, host->address,
                        FAULT_FD, &argv);
        status = argv ? spawn(worker, argv, token_fd, log_fd, error)
                      : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a command line");
        close(token_fd);
    }
    for (char **arg = argv; arg && *arg; arg++) {
        free(*arg);
    }
    free(argv);
    close(log_fd);
    return status;
}

void culm_host_start(struct culm_host *host, uint32_t role, const char *name) {
    struct culm_error error;
    struct worker *worker = worker_new(host, role, name);
    if (!worker) {
        culm_error_set(&error, CULM_ERR_MEMORY, "out of memory for a worker");
        culm_real_fail(&host->real, &error);
    } else if (start(worker, &error) != CULM_OK) {
        culm_host_start_error(worker, &error);
        worker->exited = true;
        uv_timer_start(&host->defer, on_defer, 0, 0);
    }
}

/* --- fault records --- */

void culm_host_thaw_free(struct thaw *thaw) {
    *thaw->slot = thaw->next;
    if (thaw->next) {
        thaw->next->slot = thaw->slot;
    }
    uv_close((uv_handle_t *)&thaw->timer, (uv_close_cb)free);
}

static void on_thaw(uv_timer_t *timer) {
    struct thaw *thaw = (struct thaw *)timer;
    siginfo_t stopped = {0};
    if (thaw->worker->exited) {
        culm_host_thaw_free(thaw);
        return;
    }
    /* The record comes before the signal: one not yet frozen must not be thawed too early. */
    if (waitid(P_PID, (id_t)thaw->worker->pid, &stopped, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
        stopped.si_pid == (pid_t)thaw->worker->pid) {
        culm_process_signal(&thaw->worker->process, SIGCONT);
        culm_host_thaw_free(thaw);
    } else {
        uv_timer_start(timer, on_thaw, 1, 0);
    }
}

static void thaw_later(struct worker *worker, int64_t for_ms) {
    struct culm_host *host = worker->host;
    struct thaw *thaw = calloc(1, sizeof *thaw);
    if (!thaw) {
        struct culm_error error;
        culm_error_set(&error, CULM_ERR_MEMORY, "out of memory for a timer");
        culm_real_fail(&host->real, &error);
        return;
    }
    thaw->worker = worker;
    thaw->next = host->thaws;
    thaw->slot = &host->thaws;
    if (thaw->next) {
        thaw->next->slot = &thaw->next;
    }
    host->thaws = thaw;
    uv_timer_init(&host->real.loop, &thaw->timer);
    uv_update_time(&host->real.loop);
    uv_timer_start(&thaw->timer, on_thaw, (uint64_t)for_ms, 0);
}

static void handle_record(struct culm_host *host, const char *line) {
    struct culm_fault_record record;
    if (!culm_fault_record_parse(line, &record) || record.index < 0 ||
        (size_t)record.index >= host->o.fault_count) {
        return; /* a worker wrote nonsense into its pipe; nothing can be counted from it */
    }
    const struct culm_host_fault *fault = &host->o.faults[record.index];
    host->fired[record.index]++;
    culm_host_publish(host,
                      json_pack("{s:s, s:i, s:I, s:s}", "event", "fault", "node", (int)fault->node,
                                "step", (json_int_t)record.step, "phase", fault->phase));
    if (fault->how == CULM_HOW_STOP && fault->for_ms > 0 && fault->node >= 0 &&
        fault->node < host->worker_count) {
        thaw_later(host->worker[fault->node], fault->for_ms);
    }
}

void culm_host_records_read(struct culm_host *host) {
    char bytes[512];
    ssize_t got;
    while ((got = read(host->record_fd[0], bytes, sizeof bytes)) > 0) {
        for (ssize_t i = 0; i < got; i++) {
            if (bytes[i] != '\n') {
                host->record[host->record_len] = bytes[i];
                host->record_len += host->record_len < sizeof host->record - 1;
                continue;
            }
            host->record[host->record_len] = '\0';
            host->record_len = 0;
            handle_record(host, host->record);
        }
    }
}

void culm_host_on_records(uv_poll_t *poll, int status, int events) {
    (void)status;
    (void)events;
    culm_host_records_read(poll->data);
}
