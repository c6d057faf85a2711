/* The host: passes reports of the agent on, to the leader and as events. See host.h. */
#include "cluster/host_internal.h"

static bool on_over(void *ctx) {
    const struct culm_host *host = ctx;
    return host->real.left;
}

/* Everything that the node has sent is delivered before its end. */
static void on_ended(void *ctx, int32_t node, const struct culm_error *why) {
    struct culm_host *host = ctx;
    culm_roster_uncall(host->roster, node);
    (void)culm_roster_end(host->roster, node);
    if (node >= 0 && host->o.went) {
        host->o.went(host->o.ctx, node);
    }
    if (node >= 0 && culm_real_listens(&host->real)) { /* else the leader never heard of it */
        host->real.actor_ops->leads->ended(host->real.actor, node, why);
    }
}

static void on_removed(void *ctx, int32_t node) {
    struct culm_host *host = ctx;
    if (culm_real_listens(&host->real)) {
        host->real.actor_ops->leads->removed(host->real.actor, node);
    }
}

static void on_fired(void *ctx, const struct culm_agent_fault *fault, int32_t node, int64_t step) {
    json_t *event = json_pack("{s:s, s:i, s:I, s:s}", "event", "fault", "node", (int)node, "step",
                              (json_int_t)step, "phase", fault->phase);
    if (event && fault->role_name) {
        json_object_set_new(event, "role", json_string(fault->role_name));
    }
    host_publish_event(ctx, event);
}

static void on_complaint(void *ctx, const struct culm_error *error) { host_complain(ctx, error); }

static void on_failed(void *ctx, const struct culm_error *error) {
    struct culm_host *host = ctx;
    culm_real_fail(&host->real, error);
}

static const struct culm_local_agent_ops agent_ops = {on_over,  on_ended,     on_removed,
                                                      on_fired, on_complaint, on_failed};

enum culm_status host_agent_new(struct culm_host *host, struct culm_error *error) {
    const struct culm_local_agent_options options = {
        .loop = &host->real.loop,
        .token = host->o.token,
        .address = host->address,
        .command = host->o.command,
        .command_ctx = host->o.ctx,
        .log_dir = host->o.log_dir,
        .trace = host->o.trace,
        .trace_role = host->o.trace_role,
        .time_scale = host->o.time_scale,
        .max_nodes = host->o.max_nodes,
        .trace_max = host->o.trace_max,
        .faults = host->o.faults,
        .fault_count = host->o.fault_count,
        .start_limit_ms = host->o.start_limit_ms,
        .engine = host->o.engine,
        .engine_role = host->o.engine_role,
        .first_node = host->o.first_node,
        .ops = &agent_ops,
        .ctx = host,
    };
    return culm_local_agent_new(&options, &host->agent, error);
}
