/* The agent: construction and destruction, orders of the leader, news of nodes. See agent.h. */
#include "cluster/agent_internal.h"

#include "cluster/oom.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SWEEP_MS 100

static struct culm_local_agent *self(struct culm_agent *table) {
    return (struct culm_local_agent *)table;
}

/* --- the table --- */

static void start_node(struct culm_agent *table, uint32_t role) {
    struct culm_local_agent *agent = self(table);
    bool by_trace = agent->o.trace && role == agent->o.trace_role;
    if (!by_trace && !agent->o.ops->over(agent->o.ctx)) {
        agent_start(agent, role, agent->host_name);
    }
}

static void end_node(struct culm_agent *table, int32_t node) {
    struct child *child = agent_child(self(table), node);
    if (child) {
        agent_kill(child);
    }
}

static uint32_t role_of(struct culm_agent *table, int32_t node) {
    const struct child *child = agent_child(self(table), node);
    bool started = child && (!child->newcomer || child->elsewhere);
    return started ? child->role : CULM_NO_ROLE;
}

static const struct culm_agent_ops table = {
    .size = sizeof table, .start = start_node, .end = end_node, .role = role_of};

struct culm_agent *culm_local_agent_table(struct culm_local_agent *agent) {
    return &agent->table;
}

/* --- nodes that are let in --- */

bool culm_local_agent_awaits(struct culm_local_agent *agent, int32_t node, int64_t pid,
                             struct culm_error *ret_error) {
    const struct child *child = agent_child(agent, node);
    if (!child || child->exited || child->joined || child->newcomer) {
        culm_error_set(ret_error, CULM_ERR_CONFIG, "node %d is not expected", node);
        return false;
    }
    if (pid && pid != child->pid) { /* it knows the token, but is not the process we started */
        culm_error_set(ret_error, CULM_ERR_CONFIG, "node %d is process %lld, not %lld", node,
                       (long long)child->pid, (long long)pid);
        culm_local_agent_complain(agent, ret_error);
        return false;
    }
    return true;
}

void culm_local_agent_heard(struct culm_local_agent *agent, int32_t node) {
    struct child *child = agent_child(agent, node);
    child->heard_ns = culm_clock_ns();
    child->prepares = true;
}

void culm_local_agent_joined(struct culm_local_agent *agent, int32_t node) {
    agent_child(agent, node)->joined = true;
}

void culm_local_agent_info(struct culm_local_agent *agent, int32_t node,
                           struct culm_node_info *ret_info) {
    const struct child *child = agent_child(agent, node);
    *ret_info = (struct culm_node_info){
        .role = child->role, .pid = child->pid, .name = child->name, .signature = ""};
    if (child->newcomer) {
        ret_info->host = child->place.host;
        ret_info->zone = child->place.zone;
        ret_info->machine = child->elsewhere ? NULL : child->place.machine;
    } else {
        ret_info->host = agent->host_name;
        ret_info->machine = "";
    }
}

bool culm_local_agent_has_joined(const struct culm_local_agent *agent, int32_t node) {
    return agent_child(agent, node)->joined;
}

uint32_t culm_local_agent_role(const struct culm_local_agent *agent, int32_t node) {
    return agent_child(agent, node)->role;
}

void culm_local_agent_describe(const struct culm_local_agent *agent, int32_t node,
                               char ret_text[CULM_AGENT_NODE_SIZE]) {
    const struct child *child = node < 0 ? agent_child(agent, node) : NULL;
    if (child) {
        snprintf(ret_text, CULM_AGENT_NODE_SIZE, "newcomer '%.64s'", child->name);
    } else {
        snprintf(ret_text, CULM_AGENT_NODE_SIZE, "node %d", node);
    }
}

bool culm_local_agent_is_newcomer(const struct culm_local_agent *agent, int32_t node) {
    return agent_child(agent, node)->newcomer;
}

void culm_local_agent_declined(struct culm_local_agent *agent, int32_t node,
                               const struct culm_error *why) {
    struct child *child = agent_child(agent, node);
    if (why) {
        struct culm_error error = *why;
        child->why = *why;
        agent_start_error(child, &error);
    }
    child->ended = true; /* so its exit is not reported again */
    if (child->newcomer && !child->exited && !child->dropped) {
        child->dropped = true; /* it may be told later */
        agent->alive--;
    }
}

/* --- life --- */

int32_t culm_local_agent_fired(const struct culm_local_agent *agent, size_t fault) {
    return agent->fired[fault];
}

int32_t culm_local_agent_alive(const struct culm_local_agent *agent) { return agent->alive; }

static void on_sweep(uv_timer_t *timer) { agent_starts_sweep(timer->data, culm_clock_ns()); }

void culm_local_agent_begin(struct culm_local_agent *agent) {
    agent->begin_ns = culm_clock_ns();
    uv_poll_start(&agent->records, UV_READABLE, agent_on_records);
    uv_timer_start(&agent->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
    agent_trace_begin(agent);
    agent_engine_open(agent);
}

static enum culm_status open_pipe(struct culm_local_agent *agent, struct culm_error *error) {
    if (pipe2(agent->record_fd, O_CLOEXEC) || fcntl(agent->record_fd[0], F_SETFL, O_NONBLOCK)) {
        return culm_error_errno(error, errno, "open a pipe");
    }
    int failed = uv_poll_init(agent->o.loop, &agent->records, agent->record_fd[0]);
    return failed ? culm_error_set(error, CULM_ERR_IO, "watch a pipe: %s", uv_strerror(failed))
                  : CULM_OK;
}

/* Cannot fail. From now on, handles have to be closed. */
static void init_handles(struct culm_local_agent *agent) {
    uv_timer_t *timers[] = {&agent->sweep, &agent->defer, &agent->trace_timer};
    for (size_t i = 0; i < sizeof timers / sizeof timers[0]; i++) {
        uv_timer_init(agent->o.loop, timers[i]);
        timers[i]->data = agent;
    }
    agent->records.data = agent;
}

enum culm_status culm_local_agent_new(const struct culm_local_agent_options *options,
                                      struct culm_local_agent **ret_agent,
                                      struct culm_error *error) {
    struct culm_local_agent *agent = calloc(1, sizeof *agent);
    if (!agent) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for an agent");
    }
    agent->table.ops = &table;
    agent->o = *options;
    agent->next_node = options->first_node;
    agent->oom_kills = culm_oom_kills(agent_vmstat(agent));
    agent->record_fd[0] = agent->record_fd[1] = -1;
    if (gethostname(agent->host_name, sizeof agent->host_name - 1)) {
        strcpy(agent->host_name, "localhost");
    }
    agent->fired = calloc(options->fault_count + 1, sizeof *agent->fired);
    agent->queue = calloc((options->trace ? options->trace->count : 0) + 1, sizeof *agent->queue);
    enum culm_status status =
        agent->fired && agent->queue
            ? open_pipe(agent, error)
            : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for an agent");
    if (status != CULM_OK) {
        culm_local_agent_free(agent);
        return status;
    }
    init_handles(agent);
    *ret_agent = agent;
    return CULM_OK;
}

void culm_local_agent_close(struct culm_local_agent *agent) {
    uv_handle_t *handles[] = {(uv_handle_t *)&agent->records, (uv_handle_t *)&agent->sweep,
                              (uv_handle_t *)&agent->defer, (uv_handle_t *)&agent->trace_timer};
    agent_thaws_free(agent, NULL);
    agent_engine_close(agent);
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++) {
        uv_close(handles[i], NULL);
    }
    for (int32_t i = 0; i < agent->children.count; i++) {
        struct child *child = agent->children.thing[i];
        if (!child->exited && !child->newcomer) { /* left behind */
            culm_process_abandon(&child->process);
            uv_close((uv_handle_t *)&child->process.poll, NULL);
        }
    }
}

void culm_local_agent_free(struct culm_local_agent *agent) {
    if (!agent) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        if (agent->record_fd[i] >= 0) {
            close(agent->record_fd[i]);
        }
    }
    for (int32_t i = 0; i < agent->children.count; i++) {
        free(agent->children.thing[i]);
    }
    culm_ids_release(&agent->children);
    free(agent->role);
    agent_engine_free(agent);
    free(agent->queue);
    free(agent->fired);
    free(agent);
}
