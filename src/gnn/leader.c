/* The leader: nodes, losses and commits. leader_view.c makes views. See leader.h. */
#include "gnn/leader_internal.h"

#include "base/grow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ull
#define START_ROUNDS_MAX 5 /* nodes that end before they join, one after the other */
#define FAILURES_MAX 3     /* of nodes, for the same reason, with no epoch committed in between */

static const char *const role_names[CULM_GNN_ROLES] = {"server", "parameter", "worker"};

const char *culm_gnn_role_name(uint32_t role) {
    return role < CULM_GNN_ROLES ? role_names[role] : NULL;
}

struct culm_gnn_leader *culm_gnn_leader_new(const struct culm_gnn_leader_options *options) {
    struct culm_gnn_leader *leader = calloc(1, sizeof *leader);
    if (!leader) {
        return NULL;
    }
    size_t intervals = (size_t)options->layout->intervals;
    leader->o = *options;
    culm_buf_init(&leader->meta, CULM_GNN_META_MAX);
    leader->done = calloc(intervals, sizeof *leader->done);
    leader->totals = calloc(intervals, sizeof *leader->totals);
    if (!leader->done || !leader->totals) {
        culm_gnn_leader_free(leader);
        return NULL;
    }
    for (int r = 0; r < CULM_GNN_ROLES; r++) {
        memset(leader->slot[r], -1, sizeof leader->slot[r]);
    }
    leader->saved_version = options->start_version;
    snprintf(leader->saved_path, sizeof leader->saved_path, "%s", options->start_path);
    leader->best = -1;
    return leader;
}

void culm_gnn_leader_free(struct culm_gnn_leader *leader) {
    if (!leader) {
        return;
    }
    free(leader->seen);
    free(leader->done);
    free(leader->totals);
    culm_buf_release(&leader->meta);
    free(leader);
}

/* --- saying --- */

uint64_t culm_gnn_leader_now(const struct culm_gnn_leader *leader) {
    return leader->o.world->ops->now_ns(leader->o.world);
}

void culm_gnn_leader_publish(struct culm_gnn_leader *leader, json_t *take_event) {
    if (take_event) {
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
                                  .heard_ns = culm_gnn_leader_now(leader)};
    }
    return node;
}

static void start_node(struct culm_gnn_leader *leader, uint32_t role) {
    leader->starting[role]++;
    leader->o.agent->ops->start(leader->o.agent, role);
}

/* As many of each role as there should be, those counted that are on their way. */
static void fill_up(struct culm_gnn_leader *leader) {
    for (uint32_t r = 0; r < CULM_GNN_ROLES && !leader->ended && !leader->finishing; r++) {
        int32_t there = leader->starting[r];
        for (int32_t i = 0; i < leader->node_count; i++) {
            there += leader->node[i].alive && leader->node[i].role == r;
        }
        for (; there < leader->o.settings.count[r]; there++) {
            start_node(leader, r);
        }
    }
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

static bool all_there(const struct culm_gnn_leader *leader) {
    for (int r = 0; r <= CULM_GNN_PARAMETER; r++) {
        for (int32_t s = 0; s < leader->o.settings.count[r]; s++) {
            if (leader->slot[r][s] < 0) {
                return false;
            }
        }
    }
    return true;
}

static void on_joined(void *actor, int32_t id, const struct culm_node_info *info) {
    struct culm_gnn_leader *leader = actor;
    if (leader->ended || info->role >= CULM_GNN_ROLES) {
        return;
    }
    leader->starting[info->role] -= leader->starting[info->role] > 0;
    leader->failed_rounds = 0;
    struct gnn_node *node = add_node(leader, id, info->role);
    if (!CULM_GROW(leader->seen, leader->seen_capacity, leader->seen_count + 1)) {
        culm_gnn_leader_fail(leader, CULM_ERR_MEMORY, "out of memory");
        return;
    }
    leader->seen[leader->seen_count++] = id;
    if (!node) {
        leader->o.agent->ops->end(leader->o.agent, id);
        return;
    }
    take_slot(leader, node);
    culm_gnn_leader_publish(leader,
                            json_pack("{s:s, s:i, s:s, s:s, s:I}", "event", "joined", "node",
                                      (int)id, "role", culm_gnn_role_name(info->role), "name",
                                      info->name, "pid", (json_int_t)info->pid));
    if (leader->view.number == 0) {
        if (all_there(leader)) {
            culm_gnn_leader_begin(leader);
        }
    } else if (info->role == CULM_GNN_WORKER) {
        culm_gnn_view_encode(&leader->view, leader->o.layout->intervals,
                             culm_gnn_leader_meta(leader));
        culm_gnn_leader_send(leader, id, CULM_GNN_MSG_VIEW);
    } else {
        culm_gnn_leader_review(leader, false);
    }
}

struct culm_buf *culm_gnn_leader_meta(struct culm_gnn_leader *leader) {
    culm_buf_clear(&leader->meta);
    return &leader->meta;
}

/* It is no longer counted on; its process is ended if it still runs. */
static void lose(struct culm_gnn_leader *leader, struct gnn_node *node, const char *cause,
                 const char *why) {
    int32_t id = node->id;
    uint32_t role = node->role;
    node->alive = false;
    if (node->slot >= 0) {
        leader->slot[role][node->slot] = -1;
        for (int32_t i = 0; i < leader->node_count; i++) {
            if (leader->node[i].alive && leader->node[i].role == role && leader->node[i].slot < 0) {
                take_slot(leader, &leader->node[i]);
            }
        }
    }
    json_t *event = json_pack("{s:s, s:i, s:s, s:s}", "event", "lost", "node", (int)id, "role",
                              culm_gnn_role_name(role), "cause", cause);
    if (event && why) {
        json_object_set_new(event, "message", json_string(why));
    }
    leader->lost++;
    culm_gnn_leader_publish(leader, event);
    leader->o.agent->ops->end(leader->o.agent, id);
    fill_up(leader);
    if (leader->view.number && role != CULM_GNN_WORKER) {
        culm_gnn_leader_review(leader, false);
    }
}

static void on_lost(void *actor, int32_t id) {
    struct culm_gnn_leader *leader = actor;
    struct gnn_node *node = leader->ended ? NULL : culm_gnn_leader_node(leader, id);
    if (node) {
        lose(leader, node, "eof", NULL);
    }
}

/* Of one that never joined; the others were lost before. */
static void on_ended(void *actor, int32_t id, const struct culm_error *why) {
    struct culm_gnn_leader *leader = actor;
    if (leader->ended || leader->finishing) {
        return;
    }
    struct gnn_node *node = culm_gnn_leader_node(leader, id);
    if (node) {
        lose(leader, node, "exit", NULL);
        return;
    }
    for (int32_t i = 0; i < leader->seen_count; i++) {
        if (leader->seen[i] == id) {
            return;
        }
    }
    for (uint32_t r = 0; r < CULM_GNN_ROLES; r++) { /* which role it was is not told */
        leader->starting[r] = 0;
    }
    if (++leader->failed_rounds >= START_ROUNDS_MAX) {
        culm_gnn_leader_fail(leader, why ? why->status : CULM_ERR_IO, "no node can start: %s",
                             why ? why->text
                                 : "they end before they join; see the logs folder of the run");
        return;
    }
    fill_up(leader);
}

static void on_removed(void *actor, int32_t id) {
    struct culm_gnn_leader *leader = actor;
    struct gnn_node *node = leader->ended ? NULL : culm_gnn_leader_node(leader, id);
    if (node) {
        lose(leader, node, "removed", NULL);
    }
}

static void on_stop(void *actor) {
    struct culm_gnn_leader *leader = actor;
    leader->stopping = true;
    if (!leader->ended && leader->view.number == 0) {
        culm_gnn_leader_fail(leader, CULM_ERR_STOPPED, "stopped before the first epoch");
    }
}

/* --- epochs --- */

static bool is_over(const struct culm_gnn_leader *leader, int64_t version) {
    return version >= leader->o.settings.epochs || leader->enough || leader->stopping;
}

bool culm_gnn_leader_is_over(const struct culm_gnn_leader *leader) {
    return is_over(leader, leader->version);
}

struct culm_gnn_course culm_gnn_leader_course(const struct culm_gnn_leader *leader,
                                              int64_t version) {
    int64_t every = leader->o.settings.eval_every;
    struct culm_gnn_course course = {.epoch = version + 1};
    if (is_over(leader, version)) {
        course.evaluate = every > 0 && !leader->stopping;
    } else {
        course.train = true;
        course.evaluate = every > 0 && version % every == 0;
    }
    return course;
}

static void add_split(json_t *event, const struct culm_gnn_leader *leader, const char *key,
                      int part, const int64_t *correct) {
    int64_t rows = leader->o.rows[part];
    if (rows > 0) {
        json_object_set_new(event, key, json_real((double)correct[part] / (double)rows));
    }
}

/* What all intervals say together, added up in their order. */
static struct culm_gnn_totals sum_totals(const struct culm_gnn_leader *leader) {
    struct culm_gnn_totals sum = {0};
    for (int32_t i = 0; i < leader->o.layout->intervals; i++) {
        sum.loss += leader->totals[i].loss;
        for (int p = 0; p < CULM_GNN_SPLITS; p++) {
            sum.correct[p] += leader->totals[i].correct[p];
        }
    }
    return sum;
}

/* Whether an evaluation says that it is enough. */
static void judge(struct culm_gnn_leader *leader, const struct culm_gnn_totals *totals) {
    const struct culm_gnn_settings *settings = &leader->o.settings;
    double rows = (double)leader->o.rows[CULM_GNN_VALID];
    double test_rows = (double)leader->o.rows[CULM_GNN_TEST];
    if (rows == 0) {
        return;
    }
    double valid = (double)totals->correct[CULM_GNN_VALID] / rows;
    leader->since_best++;
    if (valid > leader->best) {
        leader->best = valid;
        leader->test_at_best =
            test_rows > 0 ? (double)totals->correct[CULM_GNN_TEST] / test_rows : 0;
        leader->since_best = 0;
    }
    leader->enough = leader->enough ||
                     (settings->stop_accuracy > 0 && valid >= settings->stop_accuracy) ||
                     (settings->patience > 0 && leader->since_best >= settings->patience);
}

static void publish_epoch(struct culm_gnn_leader *leader) {
    const struct culm_gnn_course *course = &leader->view.course;
    struct culm_gnn_totals totals = sum_totals(leader);
    uint64_t now = culm_gnn_leader_now(leader);
    double rows = (double)leader->o.rows[CULM_GNN_TRAIN];
    leader->final_totals = totals;
    if (course->evaluate) {
        judge(leader, &totals);
    }
    if (!course->train) {
        return; /* the evaluation of the end, which `done` tells */
    }
    float loss = (float)(totals.loss / rows);
    uint32_t bits;
    memcpy(&bits, &loss, sizeof bits);
    char text[16];
    snprintf(text, sizeof text, "%08x", bits);
    leader->loss = loss;
    json_t *event = json_pack("{s:s, s:I, s:f, s:s}", "event", "epoch", "epoch",
                              (json_int_t)course->epoch, "loss", (double)loss, "loss_bits", text);
    if (event && course->evaluate) {
        add_split(event, leader, "train", CULM_GNN_TRAIN, totals.correct);
        add_split(event, leader, "valid", CULM_GNN_VALID, totals.correct);
        add_split(event, leader, "test", CULM_GNN_TEST, totals.correct);
    }
    if (event) {
        json_object_set_new(event, "epoch_ms",
                            json_real((double)(now - leader->epoch_ns) / (double)MS));
    }
    culm_gnn_leader_publish(leader, event);
}

/* All holders have the version that the epoch makes, and the same bits. */
static bool all_hold(struct culm_gnn_leader *leader, int64_t version) {
    const struct culm_gnn_view *view = &leader->view;
    uint64_t digest = 0;
    for (int32_t h = 0; h < view->holder_count; h++) {
        const struct gnn_node *node = culm_gnn_leader_node(leader, view->holder[h].node);
        if (!node || node->held.attempt != view->attempt || node->held.version != version ||
            !node->holds) {
            return false;
        }
        if (h > 0 && node->held.digest != digest) {
            culm_gnn_leader_differ(leader, version);
            return false;
        }
        digest = node->held.digest;
    }
    return view->holder_count > 0;
}

static bool all_done(const struct culm_gnn_leader *leader) {
    for (int32_t i = 0; i < leader->o.layout->intervals; i++) {
        if (!leader->done[i]) {
            return false;
        }
    }
    return true;
}

void culm_gnn_leader_new_epoch(struct culm_gnn_leader *leader) {
    size_t intervals = (size_t)leader->o.layout->intervals;
    memset(leader->done, 0, intervals * sizeof *leader->done);
    memset(leader->totals, 0, intervals * sizeof *leader->totals);
    leader->epoch_ns = culm_gnn_leader_now(leader);
}

static void commit(struct culm_gnn_leader *leader) {
    struct culm_gnn_view *view = &leader->view;
    const struct culm_gnn_settings *settings = &leader->o.settings;
    struct culm_gnn_commit commit = {
        .attempt = view->attempt, .epoch = view->course.epoch, .saver = -1};
    publish_epoch(leader);
    memset(leader->failures, 0, sizeof leader->failures);
    if (!view->course.train) {
        leader->evaluated = true;
        culm_gnn_leader_finish_if_done(leader);
        return;
    }
    leader->version = view->course.epoch;
    commit.next = culm_gnn_leader_course(leader, leader->version);
    bool last = is_over(leader, leader->version);
    bool due = settings->checkpoint_every > 0 && leader->version % settings->checkpoint_every == 0;
    if (last || due) {
        commit.saver = view->holder[0].node;
    }
    view->course = commit.next;
    view->saver = last ? commit.saver : -1;
    leader->evaluated = !commit.next.train && !commit.next.evaluate;
    culm_gnn_leader_new_epoch(leader);
    culm_gnn_commit_encode(&commit, culm_gnn_leader_meta(leader));
    culm_gnn_leader_send_all(leader, CULM_GNN_MSG_COMMIT);
    if (!last) {
        culm_gnn_leader_review(leader, true);
    }
}

void culm_gnn_leader_go_on(struct culm_gnn_leader *leader) {
    const struct culm_gnn_course *course = &leader->view.course;
    if (leader->ended || leader->view.number == 0 || !(course->train || course->evaluate) ||
        !all_done(leader) || (course->train && !all_hold(leader, course->epoch))) {
        return;
    }
    if (!course->train && leader->evaluated) {
        return;
    }
    commit(leader);
}

/* --- the end --- */

static enum culm_status finish_execute(struct culm_job *job) { return culm_gnn_task_execute(job); }

void culm_gnn_leader_finish_if_done(struct culm_gnn_leader *leader) {
    if (leader->finishing || leader->ended || !leader->evaluated ||
        !is_over(leader, leader->version) || leader->saved_version != leader->version ||
        !leader->saved_path[0]) {
        return;
    }
    leader->finishing = true;
    leader->finish = (struct culm_gnn_task){.job = {.execute = finish_execute},
                                            .exec = leader->o.exec,
                                            .kind = CULM_GNN_TASK_FINISH,
                                            .version = leader->version};
    snprintf(leader->finish.text, sizeof leader->finish.text, "%s", leader->saved_path);
    leader->o.world->ops->io(leader->o.world, &leader->finish.job);
}

static void publish_done(struct culm_gnn_leader *leader) {
    const struct culm_gnn_task *finish = &leader->finish;
    json_t *event = json_pack("{s:s, s:I, s:s, s:s, s:I, s:I}", "event", "done", "epochs",
                              (json_int_t)leader->version, "weights_sha256", finish->weights_sha256,
                              "state_sha256", finish->state_sha256, "nodes_lost",
                              (json_int_t)leader->lost, "rollbacks", (json_int_t)leader->rollbacks);
    if (event && leader->version > leader->o.start_version) {
        json_object_set_new(event, "loss", json_real(leader->loss));
    }
    if (event && leader->o.settings.eval_every > 0 && !leader->stopping) {
        add_split(event, leader, "train", CULM_GNN_TRAIN, leader->final_totals.correct);
        add_split(event, leader, "valid", CULM_GNN_VALID, leader->final_totals.correct);
        add_split(event, leader, "test", CULM_GNN_TEST, leader->final_totals.correct);
        if (leader->best >= 0) {
            json_object_set_new(event, "test_at_best_valid", json_real(leader->test_at_best));
        }
    }
    culm_gnn_leader_publish(leader, event);
}

static void on_job_done(void *actor, struct culm_job *job) {
    struct culm_gnn_leader *leader = actor;
    if (leader->ended) {
        return;
    }
    if (job->status != CULM_OK) {
        culm_gnn_leader_fail(leader, job->status, "%s", job->error.text);
        return;
    }
    bool whole = leader->version >= leader->o.settings.epochs || leader->enough;
    if (whole) {
        publish_done(leader);
    }
    culm_gnn_leader_meta(leader);
    culm_gnn_leader_send_all(leader, CULM_GNN_MSG_END);
    leader->ended = true;
    struct culm_error error;
    culm_error_set(&error, CULM_ERR_STOPPED, "stopped after epoch %lld; --resume goes on",
                   (long long)leader->version);
    leader->o.world->ops->leave(leader->o.world,
                                whole ? 0 : culm_status_exit_code(CULM_ERR_STOPPED),
                                whole ? NULL : &error);
}

/* --- what nodes say --- */

static void hear_done(struct culm_gnn_leader *leader, int32_t from,
                      const struct culm_message *message) {
    struct culm_gnn_done done;
    const struct culm_gnn_view *view = &leader->view;
    if (culm_gnn_done_decode(message->meta, message->meta_bytes, leader->o.layout, &done) ==
            CULM_OK &&
        done.attempt == view->attempt && done.epoch == view->course.epoch &&
        view->owner[done.interval] == from) {
        leader->done[done.interval] = true;
        leader->totals[done.interval] = done.totals;
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
        culm_gnn_leader_review(leader, false);
        culm_gnn_leader_finish_if_done(leader);
    }
}

static void hear_saved(struct culm_gnn_leader *leader, const struct culm_message *message) {
    struct culm_gnn_saved saved;
    if (culm_gnn_saved_decode(message->meta, message->meta_bytes, &saved) != CULM_OK ||
        saved.attempt != leader->view.attempt ||
        (saved.version <= leader->saved_version && leader->saved_path[0])) {
        return;
    }
    leader->saved_version = saved.version;
    snprintf(leader->saved_path, sizeof leader->saved_path, "%s", saved.path);
    culm_gnn_leader_publish(leader, json_pack("{s:s, s:I, s:s}", "event", "checkpoint", "epoch",
                                              (json_int_t)saved.version, "path", saved.path));
    culm_gnn_leader_finish_if_done(leader);
}

static void hear_failed(struct culm_gnn_leader *leader, struct gnn_node *node,
                        const struct culm_message *message) {
    struct culm_gnn_failed failed;
    if (culm_gnn_failed_decode(message->meta, message->meta_bytes, &failed) != CULM_OK) {
        return;
    }
    int32_t id = node->id;
    const char *role = culm_gnn_role_name(node->role);
    if (failed.status == CULM_ERR_CHANGED || ++leader->failures[failed.status] >= FAILURES_MAX) {
        culm_gnn_leader_fail(leader, failed.status, "%s %d: %s", role, id, failed.why);
        return;
    }
    lose(leader, node, "failed", failed.why);
}

/* Somebody cannot reach it: who is reported is put out, unless who reports is a worker. */
static void hear_peer_lost(struct culm_gnn_leader *leader, const struct culm_message *message) {
    int32_t peer;
    if (culm_gnn_peer_decode(message->meta, message->meta_bytes, &peer) == CULM_OK) {
        struct gnn_node *node = culm_gnn_leader_node(leader, peer);
        if (node) {
            lose(leader, node, "peer", NULL);
        }
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
    case CULM_GNN_MSG_SAVED: hear_saved(leader, message); break;
    case CULM_GNN_MSG_FAILED: hear_failed(leader, node, message); break;
    case CULM_GNN_MSG_PEER_LOST: hear_peer_lost(leader, message); break;
    default: return; /* a sign of life */
    }
    culm_gnn_leader_go_on(leader);
}

/* --- silence --- */

static void watch(struct culm_gnn_leader *leader) {
    uint64_t every = (uint64_t)leader->o.settings.suspect_ms * MS / 4;
    leader->o.world->ops->timer(leader->o.world, 0, every > MS ? every : MS);
}

static void on_timer(void *actor, uint32_t timer) {
    struct culm_gnn_leader *leader = actor;
    (void)timer;
    if (leader->ended) {
        return;
    }
    uint64_t now = culm_gnn_leader_now(leader);
    uint64_t limit = (uint64_t)leader->o.settings.suspect_ms * MS;
    /* A leader that was frozen itself has heard nobody: all have a whole limit more. */
    bool slept = leader->watched_ns && now - leader->watched_ns > limit;
    leader->watched_ns = now;
    for (int32_t i = 0; i < leader->node_count && !leader->ended; i++) {
        struct gnn_node *node = &leader->node[i];
        if (slept) {
            node->heard_ns = now;
        } else if (node->alive && now - node->heard_ns > limit) {
            lose(leader, node, "heartbeat", NULL);
        }
    }
    watch(leader);
}

static void on_start(void *actor) {
    struct culm_gnn_leader *leader = actor;
    fill_up(leader);
    watch(leader);
}

static const struct culm_leader_ops leads = {
    .size = sizeof leads,
    .joined = on_joined,
    .ended = on_ended,
    .removed = on_removed,
    .stop = on_stop,
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
