/*
 * Histories of another protocol in the simulated world: servers that are called and callers that
 * only call, in roles, led by an actor that starts and ends them, while some of both die.
 *
 *     leader ── GO: which are servers, which callers ──▶ all
 *     server ── GREETING ──▶ each caller      if that has not called yet, it waits for its call
 *     caller ── ASK 0, 1, ... ──▶ each server ── ANSWER 0, 1, ... ──▶ caller, over the same link
 *     caller ── DONE ──▶ leader               of each server it has all answers, or it is lost
 *
 * In half of the histories callers are shy: one asks a server when that has greeted it, and so would
 * never call if it did only in order to send.
 *
 * Each looks that what it hears comes once and in order, that the greeting is before the answers, that
 * nothing comes of a server after its end, and that nobody is told lost who lives. The leader ends the
 * run when every caller that lives is done.
 */
#include "sim/sim.h"

#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERVERS 3
#define CALLERS 4
#define NODES (SERVERS + CALLERS)
#define QUESTIONS 20
#define HISTORIES 300

enum { ROLE_SERVER = 1, ROLE_CALLER = 3 };
enum { GO = 1, GREETING, ASK, ANSWER, DONE };

struct go {
    bool server[NODES], caller[NODES];
};

struct history {
    struct culm_sim *sim;
    struct culm_world *world;
    struct culm_agent *agent;
    int32_t up, ended, answers, greetings;
    int32_t role_of[NODES]; /* -1: not joined */
    bool joined[NODES], lost[NODES], done[NODES], killed[NODES];
    bool gone, shy;
    char wrong[128];
};

/* A server or a caller. */
struct node {
    struct history *history;
    struct culm_world *world;
    struct culm_blob_pool *pool;
    int32_t id;
    bool caller;
    struct go go;
    int64_t next[NODES]; /* the number that has to come next */
    bool greeted[NODES]; /* by a server; or, of a server, the callers that it has greeted */
    bool lost[NODES], began, finished;
};

static void wrong(struct history *history, const char *what, int32_t who, int32_t of) {
    if (!history->wrong[0]) {
        snprintf(history->wrong, sizeof history->wrong, "%s (node %d of %d)", what, who, of);
    }
}

static void say(struct culm_world *world, int32_t to, uint16_t type, const void *meta,
                size_t bytes) {
    const struct culm_message message = {.type = type, .meta = meta, .meta_bytes = (uint32_t)bytes};
    world->ops->send(world, to, &message);
}

/* --- servers and callers --- */

static void node_start(void *actor) { (void)actor; }

static void finish_if_done(struct node *node) {
    bool done = node->began;
    for (int32_t i = 0; i < NODES; i++) {
        done = done && (!node->go.server[i] || node->lost[i] || node->next[i] == QUESTIONS);
    }
    if (done && !node->finished) {
        node->finished = true;
        say(node->world, CULM_LEADER, DONE, NULL, 0);
    }
}

static void greet(struct node *node, int32_t caller) {
    if (!node->greeted[caller]) {
        node->greeted[caller] = true;
        say(node->world, caller, GREETING, NULL, 0);
    }
}

static void ask(struct node *node, int32_t server) {
    for (int64_t n = 0; n < QUESTIONS; n++) {
        say(node->world, server, ASK, &n, sizeof n);
    }
}

static void begin(struct node *node, const struct culm_message *message) {
    memcpy(&node->go, message->meta, sizeof node->go);
    node->began = true;
    for (int32_t i = 0; i < NODES; i++) {
        if (!node->caller && node->go.caller[i]) {
            greet(node, i);
        } else if (node->caller && node->go.server[i] && !node->history->shy) {
            ask(node, i);
        }
    }
    if (node->caller) {
        finish_if_done(node);
    }
}

static void hear_number(struct node *node, int32_t from, const struct culm_message *message) {
    int64_t number;
    memcpy(&number, message->meta, sizeof number);
    if (number != node->next[from]++) {
        wrong(node->history, "out of order", node->id, from);
    }
    if (!node->caller) {
        greet(node, from); /* it may hear the question before GO */
        say(node->world, from, ANSWER, &number, sizeof number);
        return;
    }
    if (!node->greeted[from]) {
        wrong(node->history, "answered before it greeted", node->id, from);
    }
    node->history->answers++;
    finish_if_done(node);
}

static void node_message(void *actor, int32_t from, const struct culm_message *message) {
    struct node *node = actor;
    if (from != CULM_LEADER && node->lost[from]) {
        wrong(node->history, "heard after its end", node->id, from);
    }
    switch (message->type) {
    case GO: begin(node, message); break;
    case GREETING:
        node->history->greetings++;
        node->greeted[from] = true;
        if (node->history->shy) {
            ask(node, from);
        }
        break;
    default: hear_number(node, from, message); break;
    }
}

static void node_lost(void *actor, int32_t id) {
    struct node *node = actor;
    if (node->lost[id]) {
        wrong(node->history, "lost twice", node->id, id);
    }
    if (!node->history->killed[id] && !node->history->gone) {
        wrong(node->history, "told lost, and lives", node->id, id);
    }
    node->lost[id] = true;
    if (node->caller) {
        finish_if_done(node);
    }
}

static void node_timer(void *actor, uint32_t timer) {
    (void)actor;
    (void)timer;
}

static void node_job_done(void *actor, struct culm_job *job) {
    (void)actor;
    (void)job;
}

static const struct culm_actor_ops node_ops = {.size = sizeof node_ops,
                                               .start = node_start,
                                               .message = node_message,
                                               .lost = node_lost,
                                               .timer = node_timer,
                                               .job_done = node_job_done};

static void *make(void *context, int32_t id, struct culm_world *world, struct culm_blob_pool *pool,
                  bool caller) {
    struct node *node = calloc(1, sizeof *node);
    if (node) {
        *node = (struct node){context, world, pool, id, caller, .finished = false};
    }
    return node;
}

static void *make_server(void *context, int32_t id, struct culm_world *world,
                         struct culm_blob_pool *pool) {
    return make(context, id, world, pool, false);
}

static void *make_caller(void *context, int32_t id, struct culm_world *world,
                         struct culm_blob_pool *pool) {
    return make(context, id, world, pool, true);
}

static void destroy(void *context, int32_t id, void *actor) {
    (void)context;
    (void)id;
    free(actor);
}

/* --- the one who leads --- */

static void leader_start(void *actor) {
    struct history *h = actor;
    for (int32_t i = 0; i < NODES; i++) {
        h->agent->ops->start(h->agent, i < SERVERS ? ROLE_SERVER : ROLE_CALLER);
    }
}

static void leave_if_done(struct history *h) {
    bool done = h->up + h->ended >= NODES;
    for (int32_t i = 0; i < NODES; i++) {
        done = done && (h->role_of[i] != ROLE_CALLER || h->lost[i] || h->done[i]);
    }
    if (done && !h->gone) {
        h->gone = true;
        h->world->ops->leave(h->world, 0, NULL);
    }
}

/* Once, when all are there. */
static void go(struct history *h) {
    struct go go = {0};
    for (int32_t i = 0; i < NODES; i++) {
        go.server[i] = h->role_of[i] == ROLE_SERVER;
        go.caller[i] = h->role_of[i] == ROLE_CALLER;
    }
    for (int32_t i = 0; i < NODES; i++) {
        say(h->world, i, GO, &go, sizeof go);
    }
}

static void on_joined(void *leader, int32_t node, const struct culm_node_info *info) {
    struct history *h = leader;
    if (h->joined[node] || (info->role != ROLE_SERVER && info->role != ROLE_CALLER)) {
        wrong(h, "joined twice, or in no role", node, -1);
    }
    h->joined[node] = true;
    h->role_of[node] = (int32_t)info->role;
    if (++h->up == NODES) {
        go(h);
    }
}

static void leader_lost(void *actor, int32_t node) {
    struct history *h = actor;
    h->lost[node] = true;
    leave_if_done(h);
}

static void on_ended(void *leader, int32_t node, const struct culm_error *why) {
    struct history *h = leader;
    (void)why;
    if (h->joined[node] && !h->lost[node]) {
        wrong(h, "ended before it was lost", node, -1);
    }
    h->ended++;
    leave_if_done(h);
}

static void leader_message(void *actor, int32_t from, const struct culm_message *message) {
    struct history *h = actor;
    if (message->type != DONE || h->done[from]) {
        wrong(h, "done twice, or not done", from, -1);
    }
    h->done[from] = true;
    leave_if_done(h);
}

static void on_nothing(void *leader) { (void)leader; }

static void on_removed(void *leader, int32_t node) {
    (void)leader;
    (void)node;
}

static const struct culm_leader_ops leads = {.size = sizeof leads,
                                             .joined = on_joined,
                                             .ended = on_ended,
                                             .removed = on_removed,
                                             .stop = on_nothing};
static const struct culm_actor_ops leader_ops = {.size = sizeof leader_ops,
                                                 .start = leader_start,
                                                 .message = leader_message,
                                                 .lost = leader_lost,
                                                 .timer = node_timer,
                                                 .job_done = node_job_done,
                                                 .leads = &leads};

/* --- histories --- */

static bool run(uint64_t seed, int64_t *ret_kills, int64_t *ret_answers) {
    uint64_t dice = culm_rng_mix(seed, 77);
    struct history h = {.shy = culm_rng_below(&dice, 2)};
    int32_t kills = (int32_t)culm_rng_below(&dice, 3);
    uint64_t kill_ns[2];
    int32_t victim[2];
    const struct culm_sim_options options = {
        .seed = seed,
        .latency_ns = 100000,
        .jitter_ns = culm_rng_below(&dice, 2) ? 2000000 : 0,
        .piece_bytes = culm_rng_below(&dice, 2) ? 40 : 0,
        .buffer_bytes = culm_rng_below(&dice, 2) ? 500 : 0,
        .short_percent = (uint32_t)culm_rng_below(&dice, 50),
        .exit_ns = 5000000,
        .spawn_ns = 30000000,
        .spawn_max = NODES,
        .role = {[ROLE_SERVER] = {&h, &node_ops, make_server, destroy, .calls_only = false},
                 [ROLE_CALLER] = {&h, &node_ops, make_caller, destroy, .calls_only = true}},
        .leader_ops = &leader_ops,
    };
    memset(h.role_of, -1, sizeof h.role_of);
    h.sim = culm_sim_new(&options);
    h.world = culm_sim_leader_world(h.sim);
    h.agent = culm_sim_agent(h.sim);
    culm_sim_leader(h.sim, &h);
    for (int32_t i = 0; i < kills; i++) {
        kill_ns[i] = 1045000000 + culm_rng_below(&dice, 30000000);
        victim[i] = (int32_t)culm_rng_below(&dice, NODES);
    }
    while (culm_sim_step(h.sim) && culm_sim_now(h.sim) < 60000000000ull) {
        for (int32_t i = 0; i < kills; i++) {
            if (culm_sim_now(h.sim) >= kill_ns[i] && h.up == NODES) {
                *ret_kills += culm_sim_worker(h.sim, victim[i]) != NULL;
                culm_sim_kill(h.sim, victim[i]);
                h.killed[victim[i]] = true;
                kill_ns[i] = UINT64_MAX;
            }
        }
    }
    if (!h.gone) {
        wrong(&h, "never ended", h.up, h.ended);
    }
    if (kills == 0 && h.answers != SERVERS * CALLERS * QUESTIONS) {
        wrong(&h, "an answer is missing", h.answers, -1);
    }
    *ret_answers += h.answers;
    if (culm_sim_free(h.sim) != 0) {
        wrong(&h, "blobs are left", -1, -1);
    }
    if (h.wrong[0]) {
        printf("# seed %llu: %s\n", (unsigned long long)seed, h.wrong);
    }
    return !h.wrong[0];
}

int main(void) {
    int64_t kills = 0, answers = 0;
    int failed = 0;
    for (uint64_t seed = 1; seed <= HISTORIES; seed++) {
        failed += !run(seed, &kills, &answers);
    }
    bool fired = kills > HISTORIES / 4 && answers > HISTORIES * QUESTIONS;
    printf(
        "1..1\n%s 1 - %d histories of callers and servers, %lld killed, %lld answers, %d failed\n",
        failed || !fired ? "not ok" : "ok", HISTORIES, (long long)kills, (long long)answers,
        failed);
    return failed || !fired;
}
