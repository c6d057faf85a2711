/*
 * Graph networks with a thousand real nodes, of which a tenth is lost at the same moment.
 *
 *     gnn_crowd [--nodes N] [--log]
 *
 * Once nearly all of them are servers, each with an interval, and once nearly all are workers. The executor is symbolic,
 * and each interval reads a few others. What comes of it is what one server alone, with one parameter server, comes
 * to; all that were lost are missed in one view, and nothing is done again but what they had not sent.
 */
#include "gnn_cast.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MS 1000000ull
#define SEED 7
#define EPOCHS 5
#define LOST_IN 2 /* the epoch after which they are lost */
#define LIMIT_MS 600000
#define STANDBY 12

struct run {
    struct gnn_cast cast; /* first member */
    int32_t count[CULM_GNN_ROLES];
    int32_t lose; /* one node in so many, the last parameter server among them; 0: none */
    char state[80];
    int64_t killed, lost, reviews, rollbacks, recovered;
    struct culm_sim *sim;
};

static int32_t nodes_of(const struct run *run) {
    return run->count[CULM_GNN_SERVER] + run->count[CULM_GNN_PARAMETER] +
           run->count[CULM_GNN_WORKER];
}

/* Nodes are numbered in the order in which the leader asks for them, role by role. */
static void lose_many(struct run *run) {
    const int32_t last = run->count[CULM_GNN_SERVER] + run->count[CULM_GNN_PARAMETER] - 1;
    for (int32_t node = 0; node < nodes_of(run) && run->lose > 0; node++) {
        if (node % run->lose == run->lose / 2 || node == last) {
            culm_sim_kill(run->sim, node);
            run->killed++;
        }
    }
}

static void on_event(void *context, json_t *event) {
    struct run *run = context;
    const char *name = json_string_value(json_object_get(event, "event"));
    const char *reason = json_string_value(json_object_get(event, "reason"));
    if (strcmp(name, "epoch") == 0 &&
        json_integer_value(json_object_get(event, "epoch")) == LOST_IN) {
        lose_many(run);
    } else if (strcmp(name, "done") == 0) {
        snprintf(run->state, sizeof run->state, "%s",
                 json_string_value(json_object_get(event, "state_sha256")));
    }
    run->lost += strcmp(name, "lost") == 0;
    run->recovered += strcmp(name, "recovered") == 0;
    run->rollbacks += strcmp(name, "rollback") == 0;
    run->reviews += strcmp(name, "view") == 0 && strcmp(reason, "lost") == 0;
}

static struct culm_gnn_leader *lead(struct run *run, struct culm_gnn_exec *exec,
                                    const int32_t *home) {
    struct culm_gnn_leader_options options = {
        .world = culm_sim_leader_world(run->sim),
        .agent = culm_sim_agent(run->sim),
        .exec = exec,
        .layout = &run->cast.layout,
        .settings = {.pace = run->cast.pace,
                     .crew = {.heartbeat_ms = 1000,
                              .suspect_ms = 10000,
                              .stuck_ms = 30000,
                              .join_ms = 10000,
                              .max_nodes = nodes_of(run) + STANDBY}},
        .home = home,
        .rows = {10, 10, 10},
        .start_path = "",
    };
    memcpy(options.settings.count, run->count, sizeof run->count);
    return culm_gnn_leader_new(&options);
}

/* False: it did not come to its end, or left something behind. */
static bool play(struct run *run, int32_t intervals, bool log) {
    struct culm_sim_options options = gnn_cast_alike(&run->cast, SEED, CAST_NODES);
    options.scratch_bytes = 2048;
    options.event = on_event;
    options.event_context = run;
    options.log = log;
    int code = -1;
    const char *error = "it has not ended";
    int32_t *home = calloc((size_t)intervals, sizeof *home);
    run->cast.beat_ms = 1000;
    run->cast.pace = (struct culm_gnn_pace){.epochs = EPOCHS, .tail = 1};
    run->cast.server = (struct culm_gnn_server_options){.workers = run->count[CULM_GNN_WORKER] > 0};
    if (!home || culm_gnn_symbolic_layout(SEED, intervals, 3, &run->cast.layout, NULL) != CULM_OK) {
        abort();
    }
    for (int32_t i = 0; i < intervals; i++) {
        home[i] = (int32_t)((int64_t)i * run->count[CULM_GNN_SERVER] / intervals);
    }
    run->sim = culm_sim_new(&options);
    struct culm_gnn_exec *exec =
        culm_gnn_symbolic_new(&run->cast.layout, &run->cast.pace, SEED, NULL);
    struct culm_gnn_leader *leader = lead(run, exec, home);
    culm_sim_leader(run->sim, leader);
    while (culm_sim_step(run->sim) && culm_sim_now(run->sim) < LIMIT_MS * MS) {
    }
    const bool left = culm_sim_left(run->sim, &code, &error);
    if (!left || code != 0) {
        printf("# code %d: %s\n", code, error);
    }
    culm_gnn_leader_free(leader);
    const size_t kept = culm_sim_free(run->sim);
    culm_gnn_symbolic_free(exec);
    culm_gnn_layout_release(&run->cast.layout);
    free(home);
    return left && code == 0 && kept == 0;
}

static double used_s(void) { return (double)clock() / CLOCKS_PER_SEC; }

/* A tenth of these is lost. */
static bool lose_a_tenth(int number, const int32_t *count, int32_t intervals, const char *state,
                         bool log) {
    static struct run run;
    const double since_s = used_s();
    run = (struct run){.lose = 10};
    memcpy(run.count, count, sizeof run.count);
    const bool ended = play(&run, intervals, log);
    const bool good = ended && run.lost == run.killed && run.reviews == 1 && run.rollbacks == 0 &&
                      run.recovered > 0 && strcmp(run.state, state) == 0;
    printf("%s %d - %d servers, %d parameter servers, %d workers: %lld of %lld killed are lost in "
           "%lld "
           "views, %lld recovered, %lld roll-backs, state %s; %.1f s\n",
           good ? "ok" : "not ok", number, count[CULM_GNN_SERVER], count[CULM_GNN_PARAMETER],
           count[CULM_GNN_WORKER], (long long)run.lost, (long long)run.killed,
           (long long)run.reviews, (long long)run.recovered, (long long)run.rollbacks, run.state,
           used_s() - since_s);
    return good;
}

int main(int argc, char **argv) {
    static struct run alone = {.count = {1, 1, 0}};
    int32_t nodes = 1000;
    bool log = false;
    for (int a = 1; a < argc; a++) {
        log = log || strcmp(argv[a], "--log") == 0;
        nodes = strcmp(argv[a], "--nodes") == 0 && a + 1 < argc ? atoi(argv[a + 1]) : nodes;
    }
    if (nodes < 40 || nodes > CAST_NODES / 2) {
        fprintf(stderr, "40 to %d nodes\n", CAST_NODES / 2);
        return 2;
    }
    const int32_t intervals = nodes - 4, serve[CULM_GNN_ROLES] = {nodes - 4, 4, 0},
                  work[CULM_GNN_ROLES] = {14, 2, nodes - 16};
    printf("1..2\n");
    const bool reference = play(&alone, intervals, false);
    printf("# alone: state %s; %.1f s\n", alone.state, used_s());
    const bool servers = lose_a_tenth(1, serve, intervals, alone.state, log);
    const bool workers = lose_a_tenth(2, work, intervals, alone.state, log);
    return !reference || !servers || !workers;
}
