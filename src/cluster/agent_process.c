/*
 * Starts processes of nodes, kills them, and reports their ends.
 *
 * Nodes may end without a process: a start that fails, or a newcomer. Their end is reported by a
 * timer without delay, because the functions that cause it must not call back.
 */
#include "cluster/agent_internal.h"

#include "base/clock.h"
#include "base/grow.h"
#include "cluster/wire.h"

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

static void log_path(const struct child *child, char ret_path[PATH_MAX]) {
    snprintf(ret_path, PATH_MAX, "%s/node-%d.log", child->agent->o.log_dir, child->node);
}

/* --- the end --- */

static void ended(struct child *child) {
    struct culm_local_agent *agent = child->agent;
    culm_local_agent_hear_faults(agent);
    child->told = true;
    agent->o.ops->ended(agent->o.ctx, child->node, child->why.text[0] ? &child->why : NULL);
    culm_agent_trace_place(agent);
}

/* The last line of the node's log, with '?' for anything that is not printable ASCII; "" if there
 * is none. */
static void last_words(const struct child *child, char *ret_text, size_t size) {
    char path[PATH_MAX], bytes[512];
    ret_text[0] = '\0';
    log_path(child, path);
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

bool culm_agent_alike(const char *a, const char *b) {
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

void culm_agent_start_error(struct child *child, struct culm_error *error) {
    struct culm_local_agent *agent = child->agent;
    if (!agent->o.ops->over(agent->o.ctx) && !culm_agent_alike(agent->start_error, error->text)) {
        memcpy(agent->start_error, error->text, sizeof error->text);
        culm_error_prefix(error, "node %d", child->node);
        agent->o.ops->complain(agent->o.ctx, error);
    }
}

static void tell_early_end(struct child *child, int exit_status, int term_signal) {
    struct culm_error error;
    char words[256];
    last_words(child, words, sizeof words);
    culm_error_set(&error, CULM_ERR_IO,
                   "ended with %s %d before it joined; its log, in '%.100s', ends with '%s'",
                   term_signal ? "signal" : "exit code", term_signal ? term_signal : exit_status,
                   child->agent->o.log_dir, words);
    culm_agent_start_error(child, &error);
}

static void on_exit_process(struct culm_process *process, int exit_status, int term_signal) {
    struct child *child = process->data;
    child->exited = true;
    child->agent->alive--;
    uv_close((uv_handle_t *)&process->poll, NULL);
    if (!child->joined && !child->ended) {
        tell_early_end(child, exit_status, term_signal);
    }
    ended(child);
}

static void on_defer(uv_timer_t *timer) {
    struct culm_local_agent *agent = timer->data;
    for (int32_t i = 0; i < agent->child_count; i++) {
        if (agent->child[i]->exited && !agent->child[i]->told) {
            ended(agent->child[i]);
        }
    }
}

/* Ends a node without a process; reported from the loop. */
static void end_newcomer(struct child *child) {
    child->exited = true;
    child->agent->alive--;
    culm_agent_end_elsewhere(child);
    uv_timer_start(&child->agent->defer, on_defer, 0, 0);
}

void culm_agent_kill(struct child *child) {
    if (child->exited) {
        return;
    }
    child->ended = true;
    if (child->newcomer) {
        end_newcomer(child);
    } else {
        culm_process_signal(&child->process, SIGKILL);
    }
}

void culm_local_agent_left(struct culm_local_agent *agent, int32_t node) {
    struct child *child = culm_agent_child(agent, node);
    if (!child->newcomer || child->exited) {
        return;
    }
    if (!child->joined && !child->ended) {
        struct culm_error error;
        culm_error_set(&error, CULM_ERR_IO, "left before it was ready");
        culm_agent_start_error(child, &error);
    }
    end_newcomer(child);
}

void culm_local_agent_leave_rest(struct culm_local_agent *agent) {
    for (int32_t i = 0; i < agent->child_count; i++) {
        const struct child *child = agent->child[i];
        if (!child->exited && !child->newcomer) {
            struct culm_error error;
            culm_error_set(&error, CULM_ERR_TIMEOUT,
                           "node %d does not end although it was killed, and is left behind; find "
                           "out what process %lld waits for (a disk or a network file system?)",
                           child->node, (long long)child->pid);
            agent->o.ops->complain(agent->o.ctx, &error);
        }
    }
}

void culm_local_agent_end_all(struct culm_local_agent *agent, bool joined_too) {
    for (int32_t i = 0; i < agent->child_count; i++) {
        if (joined_too || !agent->child[i]->joined) {
            culm_agent_kill(agent->child[i]);
        }
    }
}

void culm_agent_starts_sweep(struct culm_local_agent *agent, uint64_t now_ns) {
    int64_t limit_ms = agent->o.start_limit_ms ? agent->o.start_limit_ms : 60000;
    uint64_t limit_ns = (uint64_t)limit_ms * 1000000;
    bool still = culm_clock_stood_still(&agent->swept_ns, now_ns, limit_ns);
    for (int32_t i = 0; i < agent->child_count; i++) {
        struct child *child = agent->child[i];
        bool awaited =
            !child->elsewhere || child->came; /* else the engine applies a limit of its own */
        child->heard_ns = still ? now_ns : child->heard_ns;
        if (awaited && !child->joined && !child->ended && !child->exited &&
            now_ns > child->heard_ns + limit_ns) {
            struct culm_error error;
            culm_error_set(&error, CULM_ERR_TIMEOUT,
                           child->prepares
                               ? "was silent for %lld ms while it prepared, and is killed"
                               : "did not join within %lld ms, and is killed",
                           (long long)limit_ms);
            culm_agent_start_error(child, &error);
            culm_agent_kill(child);
        }
    }
}

/* --- the start --- */

int32_t culm_agent_count(const struct culm_local_agent *agent, uint32_t role, bool alive) {
    int32_t count = 0;
    for (int32_t i = 0; i < agent->child_count; i++) {
        const struct child *child = agent->child[i];
        count +=
            child->role == role && (!alive || (child->pid && !child->newcomer && !child->exited));
    }
    return count;
}

static struct child *child_new(struct culm_local_agent *agent, uint32_t role, const char *name) {
    if (!CULM_GROW(agent->child, agent->child_capacity, agent->child_count + 1)) {
        return NULL;
    }
    struct child *child = calloc(1, sizeof *child);
    if (child) {
        child->agent = agent;
        child->node = agent->child_count;
        child->role = role;
        child->index = culm_agent_count(agent, role, false);
        child->heard_ns = culm_clock_ns();
        snprintf(child->name, sizeof child->name, "%s", name);
        agent->child[agent->child_count++] = child;
    }
    return child;
}

enum culm_status culm_local_agent_enroll(struct culm_local_agent *agent, uint32_t role, int64_t pid,
                                         const char *name, int32_t *ret_node,
                                         struct culm_error *error) {
    enum culm_status status = culm_agent_take_in(agent, role, pid, name, ret_node, error);
    if (status != CULM_OK || *ret_node != CULM_NEWCOMER) {
        return status;
    }
    if (agent->o.max_nodes > 0 && agent->alive >= agent->o.max_nodes) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "the run has %d nodes already, and max_nodes is %d", agent->alive,
                              agent->o.max_nodes);
    }
    if (agent->child_count >= CULM_NODE_IDS) {
        return culm_error_set(error, CULM_ERR_CONFIG, "all %d ids of nodes have been used",
                              CULM_NODE_IDS);
    }
    struct child *child = child_new(agent, role, name);
    if (!child) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a node");
    }
    child->newcomer = true;
    child->process.fd = -1;
    child->pid = pid;
    agent->alive++;
    *ret_node = child->node;
    return CULM_OK;
}

/* A pipe that contains the token and is closed at the other end. Unlike in an environment variable
 * or on a command line, nobody else can read the token there, and children of the node do not
 * inherit it. */
static enum culm_status token_pipe(const char *token, int *ret_fd, struct culm_error *error) {
    int fd[2];
    ssize_t len = (ssize_t)strlen(token);
    if (pipe2(fd, O_CLOEXEC)) {
        return culm_error_errno(error, errno, "open a pipe");
    }
    ssize_t put = write(fd[1], token, (size_t)len); /* cannot block: short, and the pipe is empty */
    close(fd[1]);
    if (put != len) {
        close(fd[0]);
        return culm_error_set(error, CULM_ERR_IO, "write the token into a pipe");
    }
    *ret_fd = fd[0];
    return CULM_OK;
}

static enum culm_status spawn(struct child *child, char **argv, int token_fd, int log_fd,
                              struct culm_error *error) {
    struct culm_local_agent *agent = child->agent;
    /* In a session of its own, so that a signal to the launcher's group reaches the launcher
     * only. */
    const int fds[CULM_PROCESS_FDS] = {token_fd, log_fd, log_fd, agent->record_fd[1]};
    child->process.data = child;
    child->process.ended = on_exit_process;
    enum culm_status status = culm_process_start(&child->process, agent->o.loop, argv, fds, error);
    if (status != CULM_OK) {
        return status;
    }
    child->pid = child->process.pid;
    agent->alive++;
    return CULM_OK;
}

static enum culm_status start(struct child *child, struct culm_error *error) {
    struct culm_local_agent *agent = child->agent;
    char path[PATH_MAX];
    log_path(child, path);
    int log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (log_fd < 0) {
        return culm_error_errno(error, errno, "open '%.400s'", path);
    }
    char **argv = NULL;
    int token_fd = -1;
    enum culm_status status = token_pipe(agent->o.token, &token_fd, error);
    if (status == CULM_OK) {
        const struct culm_agent_start what = {.node = child->node,
                                              .role = child->role,
                                              .index = child->index,
                                              .name = child->name,
                                              .address = agent->o.address,
                                              .fault_fd = FAULT_FD};
        agent->o.command(agent->o.command_ctx, &what, &argv);
        status = argv ? spawn(child, argv, token_fd, log_fd, error)
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

void culm_agent_start(struct culm_local_agent *agent, uint32_t role, const char *name) {
    struct culm_error error;
    struct child *child = child_new(agent, role, name);
    if (!child) {
        culm_error_set(&error, CULM_ERR_MEMORY, "out of memory for a worker");
        agent->o.ops->failed(agent->o.ctx, &error);
    } else if (culm_agent_starts_elsewhere(agent, role)) {
        culm_agent_start_elsewhere(child);
    } else if (start(child, &error) != CULM_OK) {
        culm_agent_start_error(child, &error);
        child->exited = true;
        uv_timer_start(&agent->defer, on_defer, 0, 0);
    }
}
