/*
 * Starts processes of nodes, kills them, and reports their ends.
 *
 * Nodes may end without a process: a start that fails, or a newcomer. Their end is reported by a
 * timer without delay, because the functions that cause it must not call back.
 */
#include "cluster/agent_internal.h"

#include "base/clock.h"
#include "base/grow.h"
#include "cluster/oom.h"
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

/* NULL: there is none, and no memory for it. */
static struct role_count *count_of(struct culm_local_agent *agent, uint32_t role) {
    for (int32_t i = 0; i < agent->role_count; i++) {
        if (agent->role[i].role == role) {
            return &agent->role[i];
        }
    }
    if (!CULM_GROW(agent->role, agent->role_capacity, agent->role_count + 1)) {
        return NULL;
    }
    agent->role[agent->role_count] = (struct role_count){.role = role};
    return &agent->role[agent->role_count++];
}

int32_t agent_processes(const struct culm_local_agent *agent, uint32_t role) {
    for (int32_t i = 0; i < agent->role_count; i++) {
        if (agent->role[i].role == role) {
            return agent->role[i].processes;
        }
    }
    return 0;
}

static void on_closed(uv_handle_t *poll) { free(((struct culm_process *)(uv_poll_t *)poll)->data); }

/* Nobody asks for it any more. */
static void forget(struct child *child) {
    (void)culm_ids_take(&child->agent->children, child->node);
    agent_thaws_free(child->agent, child);
    if (child->watched) {
        uv_close((uv_handle_t *)&child->process.poll, on_closed);
    } else {
        free(child);
    }
}

static void ended(struct child *child) {
    struct culm_local_agent *agent = child->agent;
    culm_local_agent_hear_faults(agent);
    agent->o.ops->ended(agent->o.ctx, child->node, child->why.text[0] ? &child->why : NULL);
    forget(child);
    agent_trace_place(agent);
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

void agent_start_error(struct child *child, struct culm_error *error) {
    struct culm_local_agent *agent = child->agent;
    char who[CULM_AGENT_NODE_SIZE];
    if (!child->why.text[0]) {
        child->why = *error; /* the leader says it of a run that waits */
    }
    if (!agent->o.ops->over(agent->o.ctx) &&
        culm_complaints_hear(&agent->complaints, error, culm_clock_ns())) {
        culm_local_agent_describe(agent, child->node, who);
        culm_error_prefix(error, "%s", who);
        agent->o.ops->complain(agent->o.ctx, error);
    }
}

void culm_local_agent_complain(struct culm_local_agent *agent, const struct culm_error *error) {
    struct culm_error said = *error;
    if (!agent->o.ops->over(agent->o.ctx) &&
        culm_complaints_hear(&agent->complaints, &said, culm_clock_ns())) {
        agent->o.ops->complain(agent->o.ctx, &said);
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
    agent_start_error(child, &error);
}

/* Somebody has killed it, and it was not the agent: the system, if it has killed one more for memory. */
static bool out_of_memory(struct culm_local_agent *agent) {
    bool more = culm_oom_kills(agent_vmstat(agent)) > agent->oom_kills;
    agent->oom_kills += more;
    return more;
}

static void on_exit_process(struct culm_process *process, int exit_status, int term_signal) {
    struct child *child = process->data;
    child->exited = true;
    child->agent->alive--;
    count_of(child->agent, child->role)->processes--;
    if (term_signal == SIGKILL && !child->ended && out_of_memory(child->agent)) {
        culm_error_set(&child->why, CULM_ERR_MEMORY,
                       "the system has killed it for want of memory; use fewer nodes on this "
                       "machine, or smaller ones");
        if (child->joined) {
            agent_start_error(child, &child->why);
        }
    }
    if (!child->joined && !child->ended) {
        tell_early_end(child, exit_status, term_signal);
    }
    ended(child);
}

static void on_defer(uv_timer_t *timer) {
    struct culm_local_agent *agent = timer->data;
    for (struct child *child = agent_child_from(agent, INT32_MIN); child;) {
        int32_t node = child->node;
        if (child->exited) {
            ended(child);
        }
        child = agent_child_from(agent, node + 1);
    }
}

/* Ends a node without a process; reported from the loop. */
static void end_newcomer(struct child *child) {
    child->exited = true;
    child->agent->alive -= !child->dropped;
    agent_end_elsewhere(child);
    uv_timer_start(&child->agent->defer, on_defer, 0, 0);
}

void agent_kill(struct child *child) {
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
    struct child *child = agent_child(agent, node);
    if (!child || !child->newcomer || child->exited) {
        return;
    }
    if (!child->joined && !child->ended) {
        struct culm_error error;
        culm_error_set(&error, CULM_ERR_IO, "left before it was ready");
        agent_start_error(child, &error);
    }
    end_newcomer(child);
}

void culm_local_agent_leave_rest(struct culm_local_agent *agent) {
    for (int32_t i = 0; i < agent->children.count; i++) {
        const struct child *child = agent->children.thing[i];
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
    for (int32_t i = 0; i < agent->children.count; i++) {
        struct child *child = agent->children.thing[i];
        if (joined_too || !child->joined) {
            agent_kill(child);
        }
    }
}

void agent_starts_sweep(struct culm_local_agent *agent, uint64_t now_ns) {
    int64_t limit_ms = agent->o.start_limit_ms ? agent->o.start_limit_ms : 60000;
    uint64_t limit_ns = (uint64_t)limit_ms * 1000000;
    bool still = culm_clock_stood_still(&agent->swept_ns, now_ns, limit_ns);
    for (int32_t i = 0; i < agent->children.count; i++) {
        struct child *child = agent->children.thing[i];
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
            agent_start_error(child, &error);
            agent_kill(child);
        }
    }
}

/* --- the start --- */

static struct child *child_new(struct culm_local_agent *agent, int32_t node, uint32_t role,
                               const char *name) {
    struct role_count *count = count_of(agent, role);
    struct child *child = count ? calloc(1, sizeof *child) : NULL;
    if (!child || !culm_ids_put(&agent->children, node, child)) {
        free(child);
        return NULL;
    }
    child->agent = agent;
    child->node = node;
    child->role = role;
    child->index = -1;
    child->heard_ns = culm_clock_ns();
    snprintf(child->name, sizeof child->name, "%s", name);
    return child;
}

/* Nobody has heard of such a number: it is given again, as soon as it is free and all others were. */
static int32_t next_guest(struct culm_local_agent *agent) {
    do {
        agent->guest = agent->guest < CULM_NEWCOMER && agent->guest > INT32_MIN ? agent->guest - 1
                                                                                : CULM_NEWCOMER - 1;
    } while (agent_child(agent, agent->guest));
    return agent->guest;
}

enum culm_status culm_local_agent_enroll(struct culm_local_agent *agent, uint32_t role, int64_t pid,
                                         const char *name, const struct culm_agent_place *place,
                                         int32_t *ret_node, struct culm_error *error) {
    enum culm_status status = agent_take_in(agent, role, pid, name, ret_node, error);
    if (status != CULM_OK || *ret_node != CULM_NEWCOMER) {
        return status;
    }
    if (agent->o.max_nodes > 0 && agent->alive >= agent->o.max_nodes) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "the run has %d nodes already, and max_nodes is %d", agent->alive,
                              agent->o.max_nodes);
    }
    struct child *child = child_new(agent, next_guest(agent), role, name);
    if (!child) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a node");
    }
    child->newcomer = true;
    child->place = *place;
    child->process.fd = -1;
    child->pid = pid;
    agent->alive++;
    *ret_node = child->node;
    return CULM_OK;
}

bool culm_local_agent_recall(struct culm_local_agent *agent, int32_t node, uint32_t role,
                             const char *name, const struct culm_agent_place *place) {
    struct child *child = child_new(agent, node, role, name);
    if (child) {
        child->newcomer = child->prepares = child->joined = true;
        child->place = *place;
        child->process.fd = -1;
        agent->alive++;
    }
    return child != NULL;
}

enum culm_status culm_local_agent_admit(struct culm_local_agent *agent, int32_t *node,
                                        struct culm_error *error) {
    struct child *child = agent_child(agent, *node);
    if (child->node >= 0) {
        return CULM_OK; /* it came for a start */
    }
    if (child->exited) { /* its READY was on its way; its end is about to be reported */
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "it is ready too late: it was given up, or the run is at its end");
    }
    if (agent->next_node >= CULM_NODE_IDS) {
        return culm_error_set(error, CULM_ERR_CONFIG, "all %d ids of nodes have been used",
                              CULM_NODE_IDS);
    }
    child->node = agent->next_node++;
    culm_ids_renumber(&agent->children, *node, child->node);
    *node = child->node;
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
    child->watched = true;
    child->pid = child->process.pid;
    agent->alive++;
    count_of(agent, child->role)->processes++;
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
        const struct culm_agent_starting what = {.node = child->node,
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

void agent_start(struct culm_local_agent *agent, uint32_t role, const char *name) {
    struct culm_error error;
    struct child *child =
        agent->next_node < CULM_NODE_IDS ? child_new(agent, agent->next_node, role, name) : NULL;
    if (!child) {
        culm_error_set(&error, CULM_ERR_MEMORY, "out of memory, or of ids, for a node");
        agent->o.ops->failed(agent->o.ctx, &error);
        return;
    }
    agent->next_node++;
    child->index = count_of(agent, role)->starts++;
    if (agent_starts_elsewhere(agent, role)) {
        agent_start_elsewhere(child);
    } else if (start(child, &error) != CULM_OK) {
        agent_start_error(child, &error);
        child->exited = true;
        uv_timer_start(&agent->defer, on_defer, 0, 0);
    }
}
