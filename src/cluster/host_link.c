/*
 * The host: its links, that is, a roster (roster.h) over sockets. The agent knows which nodes are
 * awaited. See host.h.
 */
#include "cluster/host_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- callbacks of the roster --- */

static bool on_check(void *ctx, const struct culm_caller *caller, struct culm_error *ret_error) {
    struct culm_host *host = ctx;
    if (!culm_real_listens(&host->real)) {
        culm_error_set(ret_error, CULM_ERR_CONFIG, "node %d is not expected", caller->node);
        return false;
    }
    return culm_local_agent_awaits(host->agent, caller->node, caller->pid, ret_error);
}

/* The leader decides whether a newcomer may join, and in which role; the agent gives it an id. */
static bool on_enroll(void *ctx, const struct culm_caller *caller, int32_t *ret_node,
                      uint32_t *ret_role, struct culm_error *ret_error) {
    struct culm_host *host = ctx;
    char name[CULM_WIRE_TEXT_MAX];
    memcpy(name, caller->introduction->name, sizeof name);
    for (char *at = name; *at; at++) { /* it may be shown on a terminal */
        *at = *at < ' ' || *at > '~' ? '?' : *at;
    }
    const struct culm_node_info info = {
        .role = caller->introduction->role, .pid = caller->pid, .name = name, .signature = ""};
    const struct culm_leader_ops *leads =
        culm_real_listens(&host->real) ? host->real.actor_ops->leads : NULL;
    uint32_t role = info.role;
    if (!leads || !leads->admits) {
        culm_error_set(ret_error, CULM_ERR_CONFIG,
                       "this run starts its nodes itself, and lets in no newcomers");
        return false;
    }
    if (!leads->admits(host->real.actor, &info, &role, ret_error) ||
        culm_local_agent_enroll(host->agent, role, info.pid, info.name, ret_node, ret_error)) {
        return false;
    }
    *ret_role = role;
    return true;
}

/* Makes the brief as a blob, so that it need not be copied when it is queued. */
static bool on_brief(void *ctx, int32_t node, struct culm_blob **ret_brief) {
    struct culm_host *host = ctx;
    struct culm_blob *blob = NULL;
    struct culm_buf brief;
    culm_buf_init(&brief, CULM_WIRE_BRIEF_MAX);
    uint32_t role = culm_local_agent_role(host->agent, node);
    bool failed =
        host->o.brief && (!host->o.brief(host->o.ctx, role, &brief) || brief.failed ||
                          (brief.len && culm_blob_pool_get(host->o.pool, brief.len, &blob)));
    if (blob) {
        memcpy(blob->data, brief.data, brief.len);
        *ret_brief = blob;
    }
    culm_buf_release(&brief);
    if (failed) {
        struct culm_error error;
        culm_error_set(&error, CULM_ERR_MEMORY,
                       "the brief for workers does not fit into memory, or exceeds %zu MB",
                       CULM_WIRE_BRIEF_MAX >> 20);
        culm_real_fail(&host->real, &error);
    }
    return !failed;
}

static void on_preparing(void *ctx, int32_t node) {
    struct culm_host *host = ctx;
    culm_local_agent_heard(host->agent, node);
}

static bool on_ready(void *ctx, int32_t node, const struct culm_ready *ready,
                     struct culm_error *ret_error) {
    struct culm_host *host = ctx;
    if (ready->status != CULM_OK) {
        struct culm_error why;
        culm_error_set(&why, ready->status, "%s", ready->text);
        culm_local_agent_declined(host->agent, node, &why);
        return true;
    }
    if (host->o.signature && strcmp(ready->signature, host->o.signature)) {
        culm_error_set(
            ret_error, CULM_ERR_CONFIG,
            "node %d has the signature '%.120s', not '%.120s'; start workers of the same build",
            node, ready->signature, host->o.signature);
        culm_host_complain(host, ret_error);
        culm_local_agent_declined(host->agent, node, NULL);
        return false;
    }
    return true;
}

static void on_up(void *ctx, int32_t node, const struct culm_ready *ready) {
    struct culm_host *host = ctx;
    struct culm_node_info info;
    culm_local_agent_joined(host->agent, node, &info);
    info.signature = ready->signature;
    culm_host_news_catch_up(host, node);
    if (culm_real_listens(&host->real)) {
        host->real.actor_ops->leads->joined(host->real.actor, node, &info);
    }
}

static void on_message(void *ctx, int32_t node, const struct culm_message *message) {
    struct culm_host *host = ctx;
    if (culm_real_listens(&host->real)) {
        host->real.actor_ops->message(host->real.actor, node, message);
    }
}

static void on_failed(void *ctx, int32_t node, const struct culm_ready *why) {
    struct culm_error error;
    culm_error_set(&error, why->status, "node %d: %s", node, why->text);
    culm_host_complain(ctx, &error);
}

static void on_eof(void *ctx, int32_t node, const struct culm_error *why) {
    struct culm_host *host = ctx;
    culm_local_agent_hear_faults(host->agent); /* a fault is reported before its consequences */
    if (why->status != CULM_ERR_CLOSED) {
        struct culm_error error = *why;
        culm_error_prefix(&error, "node %d", node);
        culm_host_complain(host, &error);
    }
    if (culm_local_agent_has_joined(host->agent, node) && /* else the leader does not know it */
        culm_real_listens(&host->real)) {
        host->real.actor_ops->lost(host->real.actor, node);
    }
    culm_local_agent_left(host->agent, node);
}

static const struct culm_roster_ops roster_ops = {
    .check = on_check,
    .enroll = on_enroll,
    .brief = on_brief,
    .preparing = on_preparing,
    .ready = on_ready,
    .up = on_up,
    .message = on_message,
    .failed = on_failed,
    .eof = on_eof,
};

/* --- callbacks of the network --- */

static void on_rang(void *ctx) {
    struct culm_host *host = ctx;
    culm_roster_alarm(host->roster);
}

static void on_accepted(void *ctx, struct culm_stream *take_stream, int64_t pid) {
    struct culm_host *host = ctx;
    culm_roster_accepted(host->roster, take_stream, pid);
}

static bool on_evict(void *ctx) {
    struct culm_host *host = ctx;
    return culm_roster_evict(host->roster);
}

static const struct culm_real_network_ops network_ops = {on_rang, on_accepted, on_evict};

/* --- life --- */

enum culm_status culm_host_links_new(struct culm_host *host, struct culm_error *error) {
    culm_real_network_init(&host->network, &host->real.loop, &network_ops, host);
    const struct culm_roster_options options = {
        .network = &host->network.network,
        .token = host->o.token,
        .pid = (int64_t)getpid(),
        .pool = host->o.pool,
        .payload_max = host->o.payload_max,
        .hello_limit_ms = host->o.hello_limit_ms,
        .ops = &roster_ops,
        .ctx = host,
    };
    host->roster = culm_roster_new(&options);
    return host->roster ? culm_real_network_listen(&host->network, host->listen_fd, error)
                        : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a host");
}

void culm_host_links_free(struct culm_host *host) {
    culm_roster_free(host->roster);
    culm_real_network_close(&host->network);
}
