/*
 * The host: its links, that is, a roster (roster.h) over sockets. The agent knows which nodes are
 * awaited. See host.h.
 */
#include "cluster/host_internal.h"

#include "base/grow.h"
#include "base/json.h"

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

/* It may be shown on a terminal. */
static void make_plain(char *text) {
    for (; *text; text++) {
        *text = *text < ' ' || *text > '~' ? '?' : *text;
    }
}

/* Machines that are called alike have other addresses, and those behind one address are called otherwise. */
static void take_place(const struct culm_caller *caller, struct culm_agent_place *ret_place) {
    char own[CULM_PLACE_SIZE] = "", origin[CULM_ADDRESS_SIZE + 8];
    struct culm_address address;
    *ret_place = (struct culm_agent_place){0};
    memcpy(ret_place->host, caller->introduction->host, sizeof ret_place->host);
    memcpy(ret_place->zone, caller->introduction->zone, sizeof ret_place->zone);
    make_plain(ret_place->host);
    make_plain(ret_place->zone);
    (void)gethostname(own, sizeof own - 1);
    snprintf(origin, sizeof origin, strchr(caller->origin, ':') ? "tcp:[%s]:1" : "tcp:%s:1",
             caller->origin);
    bool near = !caller->origin[0] || (culm_address_parse(origin, &address, NULL) == CULM_OK &&
                                       culm_address_is_loopback(&address));
    if (!near || strcmp(own, ret_place->host) != 0) {
        snprintf(ret_place->machine, sizeof ret_place->machine, "%s@%s", ret_place->host,
                 near ? "" : caller->origin);
    }
}

/* The leader decides whether a newcomer may join, and in which role. It gets an id when it is ready. */
static bool on_enroll(void *ctx, const struct culm_caller *caller, int32_t *ret_node,
                      uint32_t *ret_role, struct culm_error *ret_error) {
    struct culm_host *host = ctx;
    char name[CULM_WIRE_TEXT_MAX];
    memcpy(name, caller->introduction->name, sizeof name);
    make_plain(name);
    struct culm_agent_place place;
    take_place(caller, &place);
    const struct culm_node_info info = {.role = caller->introduction->role,
                                        .pid = caller->pid,
                                        .name = name,
                                        .signature = "",
                                        .host = place.host,
                                        .zone = place.zone,
                                        .machine = place.machine};
    if (!culm_real_listens(&host->real)) { /* it has left, such as one that was deposed */
        culm_error_set(ret_error, CULM_ERR_CLOSED, "this process leads no more");
        return false;
    }
    const struct culm_leader_ops *leads = host->real.actor_ops->leads;
    uint32_t role = info.role;
    if (!leads || !leads->admits) {
        culm_error_set(ret_error, CULM_ERR_CONFIG,
                       "this run starts its nodes itself, and lets in no newcomers");
        return false;
    }
    if (!leads->admits(host->real.actor, &info, &role, ret_error) ||
        culm_local_agent_enroll(host->agent, role, info.pid, info.name, &place, ret_node,
                                ret_error)) {
        return false;
    }
    *ret_role = role;
    return true;
}

static enum culm_status write_brief(const struct culm_host *host, uint32_t role, bool newcomer,
                                    struct culm_blob **ret_blob, struct culm_error *error) {
    struct culm_blob *blob = NULL;
    struct culm_buf brief;
    culm_buf_init(&brief, CULM_WIRE_BRIEF_MAX);
    bool failed = !host->o.brief(host->o.ctx, role, newcomer, &brief) || brief.failed ||
                  (brief.len && culm_blob_pool_get(host->o.pool, brief.len, &blob));
    if (blob) {
        memcpy(blob->data, brief.data, brief.len);
    }
    culm_buf_release(&brief);
    if (failed) {
        return culm_error_set(error, CULM_ERR_MEMORY,
                              "the brief for this worker does not fit into the launcher's memory, "
                              "or exceeds %zu MB; try again when fewer join at a time",
                              CULM_WIRE_BRIEF_MAX >> 20);
    }
    *ret_blob = blob;
    return CULM_OK;
}

static const struct culm_host_brief *find_brief(const struct culm_host *host, uint32_t role,
                                                bool newcomer) {
    for (size_t i = 0; i < host->brief_count; i++) {
        if (host->brief[i].role == role && host->brief[i].newcomer == newcomer) {
            return &host->brief[i];
        }
    }
    return NULL;
}

/* One blob is sent to all callers of a role, so that however many of them do not read it take no
 * more memory than one. */
static bool on_brief(void *ctx, int32_t node, struct culm_blob **ret_brief,
                     struct culm_error *ret_error) {
    struct culm_host *host = ctx;
    uint32_t role = culm_local_agent_role(host->agent, node);
    bool newcomer = culm_local_agent_is_newcomer(host->agent, node);
    const struct culm_host_brief *there = find_brief(host, role, newcomer);
    struct culm_blob *blob = there ? culm_blob_ref(there->blob) : NULL;
    if (!there && host->o.brief) {
        if (write_brief(host, role, newcomer, &blob, ret_error) != CULM_OK) {
            culm_local_agent_declined(host->agent, node, ret_error);
            return false;
        }
        if (CULM_GROW(host->brief, host->brief_capacity, host->brief_count + 1)) {
            host->brief[host->brief_count++] =
                (struct culm_host_brief){role, newcomer, culm_blob_ref(blob)};
        }
    }
    *ret_brief = blob;
    return true;
}

void host_forget_briefs(struct culm_host *host) {
    while (host->brief_count) {
        culm_blob_unref(host->brief[--host->brief_count].blob);
    }
}

static void on_welcomed(void *ctx, int32_t node) { host_news_catch_up(ctx, node); }

static void on_preparing(void *ctx, int32_t node) {
    struct culm_host *host = ctx;
    culm_local_agent_heard(host->agent, node);
}

static bool has_signature(const struct culm_host *host, int32_t node,
                          const struct culm_ready *ready, struct culm_error *ret_error) {
    char who[CULM_AGENT_NODE_SIZE];
    if (!host->o.signature || strcmp(ready->signature, host->o.signature) == 0) {
        return true;
    }
    culm_local_agent_describe(host->agent, node, who);
    culm_error_set(ret_error, CULM_ERR_CONFIG,
                   "%s has the signature '%.120s', not '%.120s'; start workers of the same build",
                   who, ready->signature, host->o.signature);
    return false;
}

/* Whether it may take part at once. `number`: by which the roster knows it yet. */
static bool tell_of(const struct culm_host *host, int32_t number, int32_t node) {
    struct culm_node_info node_info;
    const struct culm_node_info *info = &node_info;
    if (!host->o.came) {
        return true;
    }
    culm_local_agent_info(host->agent, node, &node_info);
    struct culm_host_node came = {.node = node, .role = info->role};
    snprintf(came.name, sizeof came.name, "%s", info->name);
    if (culm_local_agent_is_newcomer(host->agent, node)) {
        snprintf(came.address, sizeof came.address, "%s",
                 culm_roster_address(host->roster, number));
        snprintf(came.place.host, sizeof came.place.host, "%s", info->host);
        snprintf(came.place.zone, sizeof came.place.zone, "%s", info->zone);
        snprintf(came.place.machine, sizeof came.place.machine, "%s",
                 info->machine ? info->machine : info->name);
    }
    return host->o.came(host->o.ctx, &came);
}

static bool on_ready(void *ctx, int32_t *node, const struct culm_ready *ready,
                     struct culm_error *ret_error) {
    struct culm_host *host = ctx;
    const int32_t number = *node;
    if (ready->status != CULM_OK) {
        struct culm_error why;
        culm_error_set(&why, ready->status, "%s", ready->text);
        culm_local_agent_declined(host->agent, *node, &why);
        return true;
    }
    if (!has_signature(host, *node, ready, ret_error)) {
        culm_local_agent_complain(host->agent, ret_error);
        culm_local_agent_declined(host->agent, *node, NULL);
        return false;
    }
    if (culm_local_agent_admit(host->agent, node, ret_error) != CULM_OK) {
        culm_local_agent_declined(host->agent, *node, ret_error);
        return false;
    }
    if (!culm_local_agent_has_joined(host->agent, *node) && !tell_of(host, number, *node)) {
        ret_error->status = CULM_ERR_AGAIN; /* culm_host_entered follows */
        return false;
    }
    return true;
}

static void on_up(void *ctx, int32_t node, const struct culm_ready *ready) {
    struct culm_host *host = ctx;
    struct culm_node_info info;
    culm_local_agent_joined(host->agent, node);
    culm_local_agent_info(host->agent, node, &info);
    info.signature = ready->signature;
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
    host_complain(ctx, &error);
}

static void on_eof(void *ctx, int32_t node, const struct culm_error *why) {
    struct culm_host *host = ctx;
    culm_local_agent_hear_faults(host->agent); /* a fault is reported before its consequences */
    if (why->status != CULM_ERR_CLOSED) {
        struct culm_error error = *why;
        char who[CULM_AGENT_NODE_SIZE];
        culm_local_agent_describe(host->agent, node, who);
        culm_error_prefix(&error, "%s", who);
        if (node < 0) {
            culm_local_agent_complain(host->agent, &error); /* it may come again and again */
            culm_local_agent_declined(host->agent, node, NULL);
        } else {
            host_complain(host, &error);
        }
    }
    if (culm_local_agent_has_joined(host->agent, node) && /* else the leader does not know it */
        culm_real_listens(&host->real)) {
        host->real.actor_ops->lost(host->real.actor, node);
    }
    culm_local_agent_left(host->agent, node);
}

static void on_visit(void *ctx, struct culm_channel *take_channel) {
    const struct culm_host *host = ctx;
    if (host->o.visit) {
        host->o.visit(host->o.ctx, take_channel);
    } else {
        culm_channel_close(take_channel);
    }
}

/* Its machine says that nobody is there, or it is of another kind. */
static void on_absent(void *ctx, int32_t node, const struct culm_error *why) {
    struct culm_host *host = ctx;
    if (why->status == CULM_ERR_CONFIG) {
        host_complain(host, why);
    }
    if (culm_real_listens(&host->real)) {
        host->real.actor_ops->lost(host->real.actor, node);
    }
    culm_local_agent_left(host->agent, node);
}

static void on_refused(void *ctx, const char *origin, const char *why, int32_t unsaid) {
    json_t *event = json_pack("{s:s, s:s, s:o}", "event", "refused", "address", origin, "reason",
                              culm_json_text(why));
    if (event && unsaid > 0) {
        json_object_set_new(event, "others", json_integer(unsaid));
    }
    host_publish_event(ctx, event);
}

static void on_deposed(void *ctx, uint64_t term) {
    struct culm_host *host = ctx;
    const struct culm_leader_ops *leads =
        culm_real_listens(&host->real) ? host->real.actor_ops->leads : NULL;
    if (leads && leads->deposed) {
        leads->deposed(host->real.actor, term);
    }
}

void host_call_known(struct culm_host *host) {
    for (int32_t i = 0; i < host->o.known_count && !host->real.left; i++) {
        const struct culm_host_node *known = &host->o.known[i];
        if (!culm_local_agent_recall(host->agent, known->node, known->role, known->name,
                                     &known->place) ||
            !culm_roster_call(host->roster, known->node, known->address)) {
            struct culm_error error;
            culm_error_set(&error, CULM_ERR_MEMORY, "out of memory for the nodes of the run");
            culm_real_fail(&host->real, &error);
        }
    }
}

static const struct culm_roster_ops roster_ops = {
    .check = on_check,
    .enroll = on_enroll,
    .visit = on_visit,
    .brief = on_brief,
    .welcomed = on_welcomed,
    .preparing = on_preparing,
    .ready = on_ready,
    .up = on_up,
    .message = on_message,
    .failed = on_failed,
    .eof = on_eof,
    .absent = on_absent,
    .refused = on_refused,
    .deposed = on_deposed,
};

/* --- callbacks of the fabric --- */

static void on_rang(void *ctx) {
    struct culm_host *host = ctx;
    culm_roster_alarm(host->roster);
}

static void on_accepted(void *ctx, struct culm_stream *take_stream, int64_t pid,
                        const char *origin) {
    struct culm_host *host = ctx;
    culm_roster_accepted(host->roster, take_stream, pid, origin);
}

static bool on_evict(void *ctx) {
    struct culm_host *host = ctx;
    return culm_roster_evict(host->roster);
}

static const struct culm_real_fabric_ops fabric_ops = {on_rang, on_accepted, on_evict};

/* --- life --- */

enum culm_status host_links_new(struct culm_host *host, struct culm_error *error) {
    culm_real_fabric_init(&host->fabric, &host->real.loop, &fabric_ops, host);
    culm_real_fabric_guard(&host->fabric, host->o.token, host->o.plain);
    const struct culm_roster_options options = {
        .fabric = &host->fabric.fabric,
        .token = host->o.token,
        .pid = (int64_t)getpid(),
        .plain = host->o.plain,
        .pool = host->o.pool,
        .payload_max = host->o.payload_max,
        .hello_limit_ms = host->o.hello_limit_ms,
        .term = host->o.term,
        .address = host->address,
        .ops = &roster_ops,
        .ctx = host,
    };
    host->roster = culm_roster_new(&options);
    return host->roster ? culm_real_fabric_listen(&host->fabric, host->listen_fd, error)
                        : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a host");
}

void host_links_free(struct culm_host *host) {
    host_forget_briefs(host);
    free(host->brief);
    culm_roster_free(host->roster);
    culm_real_fabric_close(&host->fabric);
}
