/* Replays a preemption trace on the agent's loop: one timer for the next entry, a queue for names
 * that found no place. */
#include "cluster/agent_internal.h"

#include <string.h>

static double scale_of(const struct culm_local_agent *agent) {
    return agent->o.time_scale > 0 ? agent->o.time_scale : 1;
}

static bool has_room(const struct culm_local_agent *agent) {
    int32_t count = agent_processes(agent, agent->o.trace_role);
    return agent->o.trace_max > 0 ? count < agent->o.trace_max && agent->alive < agent->o.max_nodes
                                  : count < agent->o.max_nodes;
}

void agent_trace_place(struct culm_local_agent *agent) {
    while (agent->o.trace && !agent->o.ops->over(agent->o.ctx) && agent->queue_count &&
           has_room(agent)) {
        const char *name = agent->queue[0];
        memmove(agent->queue, agent->queue + 1, --agent->queue_count * sizeof *agent->queue);
        agent_start(agent, agent->o.trace_role, name);
    }
}

static bool drop_queued(struct culm_local_agent *agent, const char *name) {
    for (size_t i = 0; i < agent->queue_count; i++) {
        if (!strcmp(agent->queue[i], name)) {
            memmove(agent->queue + i, agent->queue + i + 1,
                    (--agent->queue_count - i) * sizeof *agent->queue);
            return true;
        }
    }
    return false;
}

static void take_away(struct culm_local_agent *agent, const char *name) {
    if (drop_queued(agent, name)) {
        return;
    }
    /* One that has ended by itself is not there, and one of that name before it was taken away. */
    for (int32_t i = agent->children.count - 1; i >= 0; i--) {
        struct child *child = agent->children.thing[i];
        if (child->newcomer || child->role != agent->o.trace_role || strcmp(child->name, name) ||
            child->exited || child->ended) {
            continue;
        }
        agent_kill(child);
        if (child->joined) {
            agent->o.ops->removed(agent->o.ctx, child->node);
        }
        return;
    }
}

static void on_trace(uv_timer_t *timer) {
    struct culm_local_agent *agent = timer->data;
    const struct culm_trace *trace = agent->o.trace;
    double now_ms = (double)(culm_clock_ns() - agent->begin_ns) / 1e6 * scale_of(agent);
    while (agent->trace_at < trace->count && !agent->o.ops->over(agent->o.ctx)) {
        const struct culm_trace_entry *entry = &trace->entry[agent->trace_at];
        if ((double)entry->at_ms > now_ms) {
            double wait_ms = ((double)entry->at_ms - now_ms) / scale_of(agent);
            uv_update_time(agent->o.loop);
            uv_timer_start(timer, on_trace, (uint64_t)wait_ms + 1, 0);
            return;
        }
        agent->trace_at++;
        if (entry->add) {
            agent->queue[agent->queue_count++] = entry->name;
            agent_trace_place(agent);
        } else {
            take_away(agent, entry->name);
        }
    }
}

void agent_trace_begin(struct culm_local_agent *agent) {
    if (agent->o.trace) {
        uv_timer_start(&agent->trace_timer, on_trace, 0, 0);
    }
}
