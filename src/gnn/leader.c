/* The leader: nodes that join and leave, and messages. See leader.h. */
#include "gnn/leader_internal.h"

#include "base/grow.h"
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ull
#define START_ROUNDS_MAX 5    /* failed starts in a row, after which there is a pause, or the end */
#define REST_NS 5000000000ull /* the pause, if the run can do without the nodes */
#define REST_DOUBLINGS 7      /* of the pause, at most, if starts go on failing: 640 s */
#define SOON_NS 30000000000ull /* a worker that loses a link sooner may never have had it */

struct culm_gnn_leader *culm_gnn_leader_new(const struct culm_gnn_leader_options *options) {
    struct culm_gnn_leader *leader = calloc(1, sizeof *leader);
    if (!leader) {
        return NULL;
    }
    size_t intervals = (size_t)options->layout->intervals;
    leader->o = *options;
    culm_buf_init(&leader->meta, CULM_GNN_META_MAX);
    leader->window = culm_gnn_pace_window(&options->settings.pace);
    leader->done = calloc((size_t)leader->window, sizeof *leader->done);
    bool there = leader->done != NULL;
    for (int32_t w = 0; w < leader->window && there; w++) {
        leader->done[w].there = calloc(intervals, sizeof *leader->done[w].there);
        leader->done[w].totals = calloc(intervals, sizeof *leader->done[w].totals);
        leader->done[w].scores = calloc(intervals, sizeof(struct culm_blob *));
        there = leader->done[w].there && leader->done[w].totals && leader->done[w].scores;
    }
    if (!there) {
        culm_gnn_leader_free(leader);
        return NULL;
    }
    for (int r = 0; r < CULM_GNN_ROLES; r++) {
        memset(leader->slot[r], -1, sizeof leader->slot[r]);
    }
    leader->saver = -1;
    leader->armed_ns = CULM_NEVER;
    memset(leader->wait_ns, -1, sizeof leader->wait_ns); /* CULM_NEVER */
    leader->saved_version = options->start_version;
    culm_failures_init(&leader->failures, options->start_version);
    snprintf(leader->saved_path, sizeof leader->saved_path, "%s", options->start_path);
    leader->verdict = leader->saved_verdict = leader->final_verdict = options->start_verdict;
    for (int part = 0; part < CULM_GNN_SPLITS; part++) {
        leader->final_area[part] = -1;
    }
    culm_patience_init(&leader->patience, options->settings.stuck_ms, CULM_GNN_TASK_FINISH,
                       CULM_PATIENCE_PARTS);
    return leader;
}

void culm_gnn_leader_free(struct culm_gnn_leader *leader) {
    if (!leader) {
        return;
    }
    free(leader->seen);
    free(leader->broken);
    free(leader->pause);
    free(leader->paused_ms);
    culm_gnn_leader_forget_answers(leader);
    for (int32_t w = 0; leader->done && w < leader->window; w++) {
        for (int32_t i = 0; leader->done[w].scores && i < leader->o.layout->intervals; i++) {
            culm_blob_unref(leader->done[w].scores[i]);
        }
        free(leader->done[w].there);
        free(leader->done[w].totals);
        free(leader->done[w].scores);
    }
    free(leader->done);
    culm_buf_release(&leader->meta);
    free(leader);
}

/* --- sending --- */

uint64_t culm_gnn_leader_now(const struct culm_gnn_leader *leader) {
    return leader->o.world->ops->now_ns(leader->o.world);
}

void culm_gnn_leader_publish(struct culm_gnn_leader *leader, json_t *take_event) {
    if (take_event) {
        json_object_set_new(take_event, "view", json_integer((json_int_t)leader->view.number));
        leader->o.world->ops->publish(leader->o.world, take_event);
    }
}

void culm_gnn_leader_fail(struct culm_gnn_leader *leader, enum culm_status status,
                          const char *format, ...) {
    struct culm_error error;
    va_list args;
    if (leader->ended) {
        return;
    }
    va_start(args, format);
    culm_error_setv(&error, status, format, args);
    va_end(args);
    culm_gnn_leader_publish(leader, json_pack("{s:s, s:s, s:o}", "event", "error", "code",
                                              culm_status_name(status), "message",
                                              culm_json_text(error.text)));
    leader->ended = true;
    leader->o.world->ops->leave(leader->o.world, culm_status_exit_code(status), &error);
}

void culm_gnn_leader_send_all(struct culm_gnn_leader *leader, enum culm_gnn_message_type type) {
    for (int32_t i = 0; i < leader->node_count; i++) {
        if (leader->node[i].alive) {
            culm_gnn_leader_send(leader, leader->node[i].id, type);
        }
    }
}

void culm_gnn_leader_send(struct culm_gnn_leader *leader, int32_t to,
                          enum culm_gnn_message_type type) {
    if (leader->meta.failed) {
        culm_gnn_leader_fail(leader, CULM_ERR_MEMORY, "out of memory for a message");
        return;
    }
    const struct culm_message message = {.type = (uint16_t)type,
                                         .meta = leader->meta.data,
                                         .meta_bytes = (uint32_t)leader->meta.len};
    leader->o.world->ops->send(leader->o.world, to, &message);
}

/* --- nodes --- */

struct gnn_node *culm_gnn_leader_node(struct culm_gnn_leader *leader, int32_t id) {
    for (int32_t i = 0; i < leader->node_count; i++) {
        if (leader->node[i].id == id && leader->node[i].alive) {
            return &leader->node[i];
        }
    }
    return NULL;
}

static struct gnn_node *add_node(struct culm_gnn_leader *leader, int32_t id, uint32_t role) {
    struct gnn_node *node = NULL;
    for (int32_t i = 0; i < leader->node_count && !node; i++) {
        node = leader->node[i].alive ? NULL : &leader->node[i];
    }
    if (!node && leader->node_count < CULM_GNN_NODES_MAX) {
        node = &leader->node[leader->node_count++];
    }
    if (node) {
        *node = (struct gnn_node){.id = id,
                                  .role = role,
                                  .alive = true,
                                  .slot = -1,
                                  .joined_ns = culm_gnn_leader_now(leader),
                                  .beat = {.kind = -1},
                                  .heard_ns = culm_gnn_leader_now(leader)};
    }
    return node;
}

static void start_node(struct culm_gnn_leader *leader, uint32_t role) {
    leader->starting[role]++;
    leader->o.agent->ops->start(leader->o.agent, role);
}

/* Counts nodes that have been asked for but have not joined yet, and those whose replacement is not
 * due yet. */
void culm_gnn_leader_fill_up(struct culm_gnn_leader *leader) {
    uint64_t now = culm_gnn_leader_now(leader);
    for (uint32_t r = 0; r < CULM_GNN_ROLES && !leader->ended && !leader->finishing; r++) {
        int32_t there = leader->starting[r] + culm_gnn_leader_vacant(leader, r);
        if (now < leader->rest_ns[r]) {
            continue;
        }
        for (int32_t i = 0; i < leader->node_count; i++) {
            const struct gnn_node *node = &leader->node[i];
            there += node->alive && !node->leaving && node->role == r;
        }
        for (; there < leader->o.settings.count[r]; there++) {
            start_node(leader, r);
        }
    }
}

/* Pauses starts of that role, for a time that doubles with each further round of failures. */
static void rest(struct culm_gnn_leader *leader, uint32_t role) {
    int32_t wanted = leader->o.settings.count[role];
    int32_t round = wanted > START_ROUNDS_MAX ? wanted : START_ROUNDS_MAX;
    int32_t doublings = (leader->failed_rounds[role] - START_ROUNDS_MAX) / round;
    doublings = doublings < REST_DOUBLINGS ? doublings : REST_DOUBLINGS;
    leader->rest_ns[role] = culm_gnn_leader_now(leader) + (REST_NS << doublings);
}

static void take_slot(struct culm_gnn_leader *leader, struct gnn_node *node) {
    for (int32_t s = 0; s < leader->o.settings.count[node->role]; s++) {
        if (leader->slot[node->role][s] < 0) {
            leader->slot[node->role][s] = node->id;
            node->slot = s;
            return;
        }
    }
}

/* Sorts slots by node id, so that the order of arrival does not matter, and a run has the same
 * shape each time. */
static void order_slots(struct culm_gnn_leader *leader) {
    for (int r = 0; r < CULM_GNN_ROLES; r++) {
        int32_t *slot = leader->slot[r], count = leader->o.settings.count[r];
        for (int32_t a = 0; a < count; a++) {
            for (int32_t b = a + 1; b < count; b++) {
                if (slot[b] >= 0 && (slot[a] < 0 || slot[b] < slot[a])) {
                    int32_t other = slot[a];
                    slot[a] = slot[b];
                    slot[b] = other;
                }
            }
        }
        for (int32_t s = 0; s < count; s++) {
            struct gnn_node *node = slot[s] >= 0 ? culm_gnn_leader_node(leader, slot[s]) : NULL;
            if (node) {
                node->slot = s;
            }
        }
    }
}

static void begin_if_all_there(struct culm_gnn_leader *leader) {
    if (culm_gnn_leader_all_there(leader)) {
        order_slots(leader);
        culm_gnn_leader_begin(leader);
    }
}

/* The pid is not known if the node is on another machine. */
static void add_pid(json_t *event, const struct gnn_node *node) {
    if (event && node->pid > 0) {
        json_object_set_new(event, "pid", json_integer((json_int_t)node->pid));
    }
}

static void on_joined(void *actor, int32_t id, const struct culm_node_info *info) {
    struct culm_gnn_leader *leader = actor;
    if (leader->ended || info->role >= CULM_GNN_ROLES) {
        return;
    }
    leader->starting[info->role] -= leader->starting[info->role] > 0;
    struct gnn_node *node = add_node(leader, id, info->role);
    if (node) {
        node->failed_before = leader->failed_rounds[info->role];
    }
    leader->failed_rounds[info->role] = 0;
    if (!CULM_GROW(leader->seen, leader->seen_capacity, leader->seen_count + 1)) {
        culm_gnn_leader_fail(leader, CULM_ERR_MEMORY, "out of memory");
        return;
    }
    leader->seen[leader->seen_count++] = id;
    if (!node) {
        leader->o.agent->ops->end(leader->o.agent, id);
        return;
    }
    node->pid = info->pid;
    node->newcomer = leader->o.agent->ops->role(leader->o.agent, id) >= CULM_GNN_ROLES;
    take_slot(leader, node);
    culm_gnn_bill_joined(&leader->bill, node->role, (int64_t)node->joined_ns);
    json_t *event = json_pack("{s:s, s:i, s:s, s:s}", "event", "joined", "node", (int)id, "role",
                              culm_gnn_role_name(info->role), "name", info->name);
    add_pid(event, node);
    culm_gnn_leader_publish(leader, event);
    if (leader->view.number == 0) {
        begin_if_all_there(leader);
    } else if (info->role == CULM_GNN_WORKER) {
        culm_gnn_view_encode(&leader->view, leader->o.layout->intervals,
                             culm_gnn_leader_meta(leader));
        culm_gnn_leader_send(leader, id, CULM_GNN_MSG_VIEW);
    } else {
        culm_gnn_leader_review(leader, false, "joined");
    }
    culm_gnn_leader_wait(leader);
}

struct culm_buf *culm_gnn_leader_meta(struct culm_gnn_leader *leader) {
    culm_buf_clear(&leader->meta);
    return &leader->meta;
}

/* The node is no longer counted, nor billed. Its slot goes to a node on standby. */
static void left(struct culm_gnn_leader *leader, struct gnn_node *node) {
    culm_gnn_bill_left(&leader->bill, node->role, (int64_t)node->joined_ns,
                       (int64_t)culm_gnn_leader_now(leader));
    if (node->slot < 0) {
        return;
    }
    leader->slot[node->role][node->slot] = -1;
    node->slot = -1;
    for (int32_t i = 0; i < leader->node_count; i++) {
        struct gnn_node *other = &leader->node[i];
        if (other != node && other->alive && !other->leaving && other->role == node->role &&
            other->slot < 0) {
            take_slot(leader, other);
        }
    }
}

/* Tells all that a worker is gone, which its links may not show. Views tell of other nodes. */
static void tell_gone(struct culm_gnn_leader *leader, int32_t id, uint32_t role) {
    if (role == CULM_GNN_WORKER) {
        culm_gnn_peer_encode(id, culm_gnn_leader_meta(leader));
        culm_gnn_leader_send_all(leader, CULM_GNN_MSG_GONE);
    }
}

/* For how long it had not been heard, or had been at its task, if it was lost for that. */
static void add_silence(const struct culm_gnn_leader *leader, json_t *event,
                        const struct gnn_node *node, const char *cause) {
    const bool silent = strcmp(cause, "heartbeat") == 0;
    if (event && (silent || strcmp(cause, "stuck") == 0)) {
        double ms = (double)(culm_gnn_leader_now(leader) - node->heard_ns) / 1e6;
        json_object_set_new(event, "for_ms", json_real(silent ? ms : (double)node->beat.task_ms));
    }
}

/* Its process is ended if it still runs. */
void culm_gnn_leader_lose(struct culm_gnn_leader *leader, struct gnn_node *node, const char *cause,
                          const char *why) {
    int32_t id = node->id;
    uint32_t role = node->role;
    const bool pauses = culm_gnn_leader_pause(leader, node);
    node->alive = false;
    free(node->answer);
    node->answer = NULL;
    if (!node->leaving) { /* else another was asked for when it began to */
        left(leader, node);
        culm_gnn_leader_vacate(leader, role);
    }
    json_t *event = json_pack("{s:s, s:i, s:s, s:s, s:I, s:b}", "event", "lost", "node", (int)id,
                              "role", culm_gnn_role_name(role), "cause", cause, "epoch",
                              (json_int_t)leader->view.course.epoch, "pauses", pauses);
    add_pid(event, node);
    add_silence(leader, event, node, cause);
    if (event && why) {
        json_object_set_new(event, "message", json_string(why));
    }
    leader->lost++;
    culm_gnn_leader_publish(leader, event);
    leader->o.agent->ops->end(leader->o.agent, id);
    culm_gnn_leader_fill_up(leader);
    tell_gone(leader, id, role);
    if (leader->view.number == 0) {
        begin_if_all_there(leader);
    } else if (role != CULM_GNN_WORKER) {
        culm_gnn_leader_review(leader, false, "lost");
        culm_gnn_leader_go_on(leader); /* all others may be done with the epoch */
    }
    culm_gnn_leader_wait(leader);
}

static void on_lost(void *actor, int32_t id) {
    struct culm_gnn_leader *leader = actor;
    struct gnn_node *node = leader->ended ? NULL : culm_gnn_leader_node(leader, id);
    if (node && node->leaving) {
        node->alive = false; /* not a loss: it had announced that it would leave */
        free(node->answer);
        node->answer = NULL;
        tell_gone(leader, id, node->role);
    } else if (node) {
        culm_gnn_leader_lose(leader, node, "eof", NULL);
    }
}

/* A process has ended. If its node had joined and is still there, the node is lost; if it never
 * joined, its start has failed. */
static void on_ended(void *actor, int32_t id, const struct culm_error *why) {
    struct culm_gnn_leader *leader = actor;
    if (leader->ended || leader->finishing) {
        return;
    }
    struct gnn_node *node = culm_gnn_leader_node(leader, id);
    if (node) {
        culm_gnn_leader_lose(leader, node, "exit", NULL);
        return;
    }
    for (int32_t i = 0; i < leader->seen_count; i++) {
        if (leader->seen[i] == id) {
            return;
        }
    }
    uint32_t role = leader->o.agent->ops->role(leader->o.agent, id);
    if (role >= CULM_GNN_ROLES) {
        return; /* a newcomer, which was not asked for */
    }
    leader->starting[role] -= leader->starting[role] > 0;
    /* Whether the run can do without it: servers can do the work of workers; and there may be
     * enough servers and holders for the moment. */
    bool without =
        role == CULM_GNN_WORKER || (leader->view.number > 0 && leader->view.owner[0] >= 0 &&
                                    culm_gnn_leader_saver(leader) >= 0);
    if (++leader->failed_rounds[role] >= START_ROUNDS_MAX && without) {
        rest(leader, role);
        culm_gnn_leader_wait(leader);
        return;
    }
    if (leader->failed_rounds[role] >= START_ROUNDS_MAX) {
        culm_gnn_leader_fail(leader, why ? why->status : CULM_ERR_IO, "no node can start: %s",
                             why ? why->text
                                 : "they end before they join; see the logs folder of the run");
        return;
    }
    culm_gnn_leader_fill_up(leader);
    culm_gnn_leader_wait(leader);
}

/* Servers and workers may join from outside. They take a vacant slot, or stand by. */
static bool on_admits(void *actor, const struct culm_node_info *info, uint32_t *role,
                      struct culm_error *ret_error) {
    const struct culm_gnn_leader *leader = actor;
    int32_t most = leader->o.settings.max_nodes, count = 0;
    most = most > 0 ? most : CULM_GNN_NODES_MAX;
    for (int32_t i = 0; i < leader->node_count; i++) {
        count += leader->node[i].alive && !leader->node[i].leaving;
    }
    for (uint32_t r = 0; r < CULM_GNN_ROLES; r++) { /* of its own role it takes the place */
        count += r != info->role ? leader->vacant[r].count : 0;
    }
    if (leader->ended || leader->finishing) {
        culm_error_set(ret_error, CULM_ERR_CLOSED, "the run is about to end");
        return false;
    }
    if (info->role != CULM_GNN_SERVER && info->role != CULM_GNN_WORKER) {
        culm_error_set(ret_error, CULM_ERR_CONFIG, "only servers and workers may join");
        return false;
    }
    if (count >= most) {
        culm_error_set(ret_error, CULM_ERR_CONFIG,
                       "the run has %d nodes, and cluster.max_nodes is %d", count, most);
        return false;
    }
    *role = info->role;
    return true;
}

static void on_removed(void *actor, int32_t id) {
    struct culm_gnn_leader *leader = actor;
    struct gnn_node *node = leader->ended ? NULL : culm_gnn_leader_node(leader, id);
    if (node) {
        culm_gnn_leader_lose(leader, node, "removed", NULL);
    }
}

static void on_stop(void *actor) {
    struct culm_gnn_leader *leader = actor;
    leader->stopping = true;
    if (!leader->ended && leader->view.number == 0) {
        culm_gnn_leader_fail(leader, CULM_ERR_STOPPED,
                             "stopped before the first epoch; continue with --resume");
    }
    culm_gnn_leader_wait(leader);
    culm_gnn_leader_hold_stop(leader);
}

/* --- messages of nodes --- */

static void hear_done(struct culm_gnn_leader *leader, int32_t from,
                      const struct culm_message *message) {
    struct culm_gnn_done done;
    const struct culm_gnn_view *view = &leader->view;
    if (culm_gnn_done_decode(message->meta, message->meta_bytes, leader->o.layout, &done) !=
            CULM_OK ||
        done.attempt != view->attempt || done.epoch < view->course.epoch ||
        done.epoch >= view->course.epoch + leader->window || view->owner[done.interval] != from) {
        return;
    }
    /* The server may have begun to train in an epoch that turned out to be an evaluation only. */
    if (done.trained != (done.epoch > view->course.epoch || view->course.train)) {
        return;
    }
    struct gnn_done *epoch = &leader->done[done.epoch % leader->window];
    if (epoch->epoch != done.epoch) {
        culm_gnn_leader_clear_done(leader, epoch);
        epoch->epoch = done.epoch;
    }
    culm_gnn_leader_pause_done(leader, &done);
    if (!epoch->there[done.interval]) {
        culm_gnn_work_add(&epoch->work, &done.work);
        epoch->there[done.interval] = true;
        epoch->totals[done.interval] = done.totals;
        culm_gnn_leader_keep_scores(leader, epoch, done.interval, message);
    }
}

static void hear_holds(struct culm_gnn_leader *leader, struct gnn_node *node,
                       const struct culm_message *message) {
    struct culm_gnn_held held;
    if (culm_gnn_held_decode(message->meta, message->meta_bytes, &held) != CULM_OK ||
        held.attempt != leader->view.attempt || !node->holder || held.view < node->holder_since) {
        return;
    }
    bool news = !node->holds || node->held.attempt != held.attempt;
    node->held = held;
    node->holds = true;
    if (news) {
        culm_gnn_leader_review(leader, false, "copied");
        culm_gnn_leader_finish_if_done(leader);
    }
    culm_gnn_leader_pause_held(leader);
}

static void hear_saved(struct culm_gnn_leader *leader, const struct gnn_node *node,
                       const struct culm_message *message) {
    struct culm_gnn_saved saved;
    if (!node->holder || node->role != CULM_GNN_PARAMETER ||
        culm_gnn_saved_decode(message->meta, message->meta_bytes, &saved) != CULM_OK ||
        saved.attempt != leader->view.attempt || saved.version > leader->version ||
        (saved.version <= leader->saved_version && leader->saved_path[0])) {
        return;
    }
    const bool last = saved.version == leader->version && culm_gnn_leader_is_over(leader) &&
                      !leader->view.course.train; /* after a stop, the epoch in progress is saved */
    if (saved.status != CULM_OK) {
        if (!leader->hold.active || strcmp(leader->hold.why, saved.why) != 0) {
            culm_gnn_leader_publish(
                leader, json_pack("{s:s, s:I, s:b, s:b, s:s, s:o}", "event", "checkpoint", "epoch",
                                  (json_int_t)saved.version, "ok", 0, "waited", last, "path", "",
                                  "message", culm_json_text(saved.why)));
        }
        if (last) {
            culm_gnn_leader_hold(leader, saved.status, saved.why);
        }
        return;
    }
    if (saved.version == leader->version) {
        culm_gnn_leader_hold_over(leader);
    }
    leader->saved_version = saved.version;
    leader->saved_verdict = saved.verdict;
    snprintf(leader->saved_path, sizeof leader->saved_path, "%s", saved.path);
    culm_gnn_leader_publish(leader, json_pack("{s:s, s:I, s:b, s:b, s:s}", "event", "checkpoint",
                                              "epoch", (json_int_t)saved.version, "ok", 1, "waited",
                                              last, "path", saved.path));
    culm_gnn_leader_finish_if_done(leader);
}

/* A worker that fails does not end the run, since servers can do its work. It counts as a failed
 * start, as if it had never joined. */
static void worker_failed(struct culm_gnn_leader *leader, const struct gnn_node *node) {
    int32_t *failed = &leader->failed_rounds[CULM_GNN_WORKER];
    *failed = (node->failed_before > *failed ? node->failed_before : *failed) + 1;
    if (*failed >= START_ROUNDS_MAX) {
        rest(leader, CULM_GNN_WORKER);
    }
}

static void hear_failed(struct culm_gnn_leader *leader, struct gnn_node *node,
                        const struct culm_message *message) {
    struct culm_gnn_failed failed;
    if (culm_gnn_failed_decode(message->meta, message->meta_bytes, &failed) != CULM_OK) {
        return;
    }
    int32_t id = node->id;
    const char *role = culm_gnn_role_name(node->role);
    bool works = node->role == CULM_GNN_WORKER;
    if (!works && (failed.status == CULM_ERR_CHANGED ||
                   culm_failures_add(&leader->failures, leader->version, (int32_t)failed.status))) {
        culm_gnn_leader_fail(leader, failed.status, "%s %d: %s", role, id, failed.why);
        return;
    }
    /* CLOSED: it has lost a link, and may work elsewhere. */
    bool soon = culm_gnn_leader_now(leader) - node->joined_ns < SOON_NS;
    if (works && (failed.status != CULM_ERR_CLOSED || soon)) {
        worker_failed(leader, node);
    }
    culm_gnn_leader_lose(leader, node, "failed", failed.why);
}

static void hear_cold(struct culm_gnn_leader *leader, const struct gnn_node *node,
                      const struct culm_message *message) {
    bool cold;
    if (culm_gnn_cold_decode(message->meta, message->meta_bytes, &cold) == CULM_OK) {
        culm_gnn_leader_publish(leader, json_pack("{s:s, s:i, s:b}", "event", "worker", "node",
                                                  (int)node->id, "cold", (int)cold));
    }
}

void culm_gnn_leader_let_go(struct culm_gnn_leader *leader, struct gnn_node *node) {
    if (node->role == CULM_GNN_WORKER && !node->leaving) {
        node->leaving = true;
        left(leader, node);
        culm_gnn_leader_publish(leader,
                                json_pack("{s:s, s:i, s:s}", "event", "released", "node",
                                          (int)node->id, "role", culm_gnn_role_name(node->role)));
        culm_gnn_leader_fill_up(leader);
    }
}

static void on_message(void *actor, int32_t from, const struct culm_message *message) {
    struct culm_gnn_leader *leader = actor;
    struct gnn_node *node = leader->ended ? NULL : culm_gnn_leader_node(leader, from);
    if (!node) {
        return;
    }
    node->heard_ns = culm_gnn_leader_now(leader);
    switch (message->type) {
    case CULM_GNN_MSG_DONE: hear_done(leader, from, message); break;
    case CULM_GNN_MSG_HOLDS: hear_holds(leader, node, message); break;
    case CULM_GNN_MSG_SAVED: hear_saved(leader, node, message); break;
    case CULM_GNN_MSG_FAILED: hear_failed(leader, node, message); break;
    case CULM_GNN_MSG_PEER_LOST: culm_gnn_leader_peer_lost(leader, node, message); break;
    case CULM_GNN_MSG_COLD: hear_cold(leader, node, message); return;
    case CULM_GNN_MSG_LEAVING: culm_gnn_leader_let_go(leader, node); return;
    case CULM_GNN_MSG_BEAT: culm_gnn_leader_beat(leader, node, message); return;
    case CULM_GNN_MSG_TOOK: culm_gnn_leader_took(leader, message); return;
    case CULM_GNN_MSG_ANSWER: culm_gnn_leader_answer(leader, node, message); return;
    default: return;
    }
    culm_gnn_leader_go_on(leader);
}

static void on_timer(void *actor, uint32_t timer) {
    if (timer == CULM_GNN_LEADER_DUE) {
        culm_gnn_leader_due(actor);
    } else {
        culm_gnn_leader_tick(actor);
    }
}

static void on_job_done(void *actor, struct culm_job *job) { culm_gnn_leader_job_done(actor, job); }

static void on_start(void *actor) {
    struct culm_gnn_leader *leader = actor;
    culm_gnn_bill_init(&leader->bill, &leader->o.rates, leader->o.settings.count,
                       (int64_t)culm_gnn_leader_now(leader));
    leader->bill.before_usd = leader->o.spent_usd;
    leader->bill.before_s = leader->o.spent_s;
    culm_gnn_leader_tune_begin(leader);
    culm_gnn_leader_fill_up(leader);
    culm_gnn_leader_wait(leader);
    culm_gnn_leader_watch(leader);
}

static const struct culm_leader_ops leads = {
    .size = sizeof leads,
    .joined = on_joined,
    .ended = on_ended,
    .removed = on_removed,
    .stop = on_stop,
    .admits = on_admits,
};

const struct culm_actor_ops culm_gnn_leader_actor = {
    .size = sizeof culm_gnn_leader_actor,
    .start = on_start,
    .message = on_message,
    .lost = on_lost,
    .timer = on_timer,
    .job_done = on_job_done,
    .leads = &leads,
};
