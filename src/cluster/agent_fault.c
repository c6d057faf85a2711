/* Reads fault records of nodes from a pipe, counts and reports them; thaws nodes that froze. */
#include "cluster/agent_internal.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- the thaw --- */

static void thaw_free(struct thaw *thaw) {
    *thaw->slot = thaw->next;
    if (thaw->next) {
        thaw->next->slot = thaw->slot;
    }
    uv_close((uv_handle_t *)&thaw->timer, (uv_close_cb)free);
}

static void on_thaw(uv_timer_t *timer) {
    struct thaw *thaw = (struct thaw *)timer;
    siginfo_t stopped = {0};
    if (thaw->child->exited) {
        thaw_free(thaw);
        return;
    }
    /* The record comes before the signal: one not yet frozen must not be thawed too early. */
    if (waitid(P_PID, (id_t)thaw->child->pid, &stopped, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
        stopped.si_pid == (pid_t)thaw->child->pid) {
        culm_process_signal(&thaw->child->process, SIGCONT);
        thaw_free(thaw);
    } else {
        uv_timer_start(timer, on_thaw, 1, 0);
    }
}

static void thaw_later(struct child *child, int64_t for_ms) {
    struct culm_local_agent *agent = child->agent;
    struct thaw *thaw = calloc(1, sizeof *thaw);
    if (!thaw) {
        struct culm_error error;
        culm_error_set(&error, CULM_ERR_MEMORY, "out of memory for a timer");
        agent->o.ops->failed(agent->o.ctx, &error);
        return;
    }
    thaw->child = child;
    thaw->next = agent->thaws;
    thaw->slot = &agent->thaws;
    if (thaw->next) {
        thaw->next->slot = &thaw->next;
    }
    agent->thaws = thaw;
    uv_timer_init(agent->o.loop, &thaw->timer);
    uv_update_time(agent->o.loop);
    uv_timer_start(&thaw->timer, on_thaw, (uint64_t)for_ms, 0);
}

void agent_thaws_free(struct culm_local_agent *agent, const struct child *child) {
    for (struct thaw *thaw = agent->thaws, *next; thaw; thaw = next) {
        next = thaw->next;
        if (!child || thaw->child == child) {
            thaw_free(thaw);
        }
    }
}

/* --- records --- */

/* The node that the fault is for; NULL: it was never started, so the record is nonsense (records of
 * one that has ended are read before its end is reported). */
static struct child *child_of(const struct culm_local_agent *agent,
                              const struct culm_agent_fault *fault) {
    for (int32_t i = 0; i < agent->children.count; i++) {
        struct child *child = agent->children.thing[i];
        if (!child->newcomer &&
            culm_agent_fault_meets(fault, child->node, child->role, child->index)) {
            return child;
        }
    }
    return NULL;
}

static void handle_record(struct culm_local_agent *agent, const char *line) {
    struct culm_fault_record record;
    if (!culm_fault_record_parse(line, &record) || record.index < 0 ||
        (size_t)record.index >= agent->o.fault_count) {
        return; /* nonsense in the pipe; there is nothing to count */
    }
    const struct culm_agent_fault *fault = &agent->o.faults[record.index];
    struct child *child = child_of(agent, fault);
    if (!child) {
        return;
    }
    agent->fired[record.index]++;
    agent->o.ops->fired(agent->o.ctx, fault, child->node, record.step);
    if (fault->how == CULM_HOW_STOP && fault->for_ms > 0) {
        thaw_later(child, fault->for_ms);
    }
}

void culm_local_agent_hear_faults(struct culm_local_agent *agent) {
    char bytes[512];
    ssize_t got;
    while ((got = read(agent->record_fd[0], bytes, sizeof bytes)) > 0) {
        for (ssize_t i = 0; i < got; i++) {
            if (bytes[i] != '\n') {
                agent->record[agent->record_len] = bytes[i];
                agent->record_len += agent->record_len < sizeof agent->record - 1;
                continue;
            }
            agent->record[agent->record_len] = '\0';
            agent->record_len = 0;
            handle_record(agent, agent->record);
        }
    }
}

void agent_on_records(uv_poll_t *poll, int status, int events) {
    (void)status;
    (void)events;
    culm_local_agent_hear_faults(poll->data);
}
