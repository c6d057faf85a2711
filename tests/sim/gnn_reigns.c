/*
 * Graph networks that several processes may lead: candidates stand at a store of keys, and nodes, leaders and the store are struck.
 *
 *     gnn_reigns [--first SEED] [--count N] [--soak] [--log]
 *
 * Each seed is a small world: its shape, who stands, and what befalls it. It is judged beside an undisturbed run of the same shape:
 * it ends; every epoch is told, with the loss that it has there; every checkpoint that is published, by whomever, has the state that
 * the version has there; nothing goes back while a node that is well has a copy of the state; nothing that cannot be taken back is done
 * by one that does not lead. (Where rows may be stale, the numbers may be others.)
 */
#include "gnn_cast.h"

#include "base/rng.h"
#include "tally.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ull
#define BEGIN_MS 1000 /* when a simulated world begins */
#define ORPHAN_MS 4000
#define HEARD_MS 300   /* at most, before it fell asleep */
#define CALM_MS 120000 /* after the last fault it has ended */
#define EPOCHS_MAX 40
#define FAULTS_MAX 6
#define INTERVALS_MAX 48
#define STRUCK_MAX CAST_NODES
#define STORE_FAULTS_MS 3000

enum kind {
    KILL,
    FREEZE,
    KILL_LEADER,
    FREEZE_LEADER,
    CUT_LEADER,
    AWAY,
    HOLDERS_DIE,
    OTHERS_DIE,  /* all holders but one that is frozen */
    LAST_SLEEPS, /* all holders die but one that is frozen, and who leads */
    KINDS
};

static const char *const kind_name[KINDS] = {"kill",
                                             "freeze",
                                             "kill leader",
                                             "freeze leader",
                                             "cut leader",
                                             "away",
                                             "holders die",
                                             "holders die, and the last one sleeps",
                                             "holders and leader die, and the last one sleeps"};

struct fault {
    enum kind kind;
    uint64_t at_ms, for_ms; /* for_ms 0: for good */
    int32_t node;
    bool refused, fired;
};

struct world {
    struct gnn_cast cast; /* first member */
    uint64_t seed;
    bool log, calm;
    int32_t count[CULM_GNN_ROLES], home[INTERVALS_MAX];
    int64_t checkpoint_every;
    struct culm_gnn_stop stop;
    int32_t candidates;
    int64_t lease_ms, store_ms;
    uint32_t store_fault_percent;
    struct fault fault[FAULTS_MAX];
    int32_t fault_count;
    uint64_t stop_ms; /* 0: never */
    /* While it is played. */
    struct culm_sim *sim;
    struct culm_gnn_leader *leader[CULM_SIM_LEADERS];
    struct culm_gnn_exec *leader_exec[CULM_SIM_LEADERS];
    int32_t leaders;
    uint64_t last_fault_ns, away_ns; /* since when the store was away, when it was last */
    bool stopped, slept;             /* one that leads was frozen */
    uint64_t slept_ns[STRUCK_MAX];   /* since when it sleeps, or did last */
    uint64_t took_ns;                /* since when the newest leader leads */
    int32_t awaited[CULM_GNN_HOLDERS_MAX], awaited_count; /* holders, as it found them */
    uint64_t well_ns[STRUCK_MAX]; /* not struck before then; CULM_NEVER: never again */
    int32_t holder[CULM_GNN_HOLDERS_MAX], holder_count;
    bool told[EPOCHS_MAX + 1];
    char loss[EPOCHS_MAX + 1][16], file[EPOCHS_MAX + 1][64]; /* by version */
    struct culm_gnn_verdict verdict[EPOCHS_MAX + 1];
    int64_t newest, epoch, rollbacks, takeovers, lost, checkpoints, commits_away, outages;
    const struct world *reference;
    char state[80];
    bool done;
    int code;
    char wrong[200];
};

static void complain(struct world *w, const char *what) {
    if (!w->wrong[0]) {
        snprintf(w->wrong, sizeof w->wrong, "%s", what);
    }
}

static int64_t below(uint64_t *dice, int64_t bound) {
    return (int64_t)culm_rng_below(dice, (uint64_t)bound);
}

/* --- what is drawn --- */

static void draw_faults(struct world *w, uint64_t *dice) {
    const int32_t nodes = w->count[CULM_GNN_SERVER] + w->count[CULM_GNN_PARAMETER];
    w->fault_count = (int32_t)below(dice, FAULTS_MAX + 1);
    for (int32_t f = 0; f < w->fault_count; f++) {
        struct fault *fault = &w->fault[f];
        *fault = (struct fault){.kind = (enum kind)below(dice, KINDS),
                                .at_ms = BEGIN_MS + (uint64_t)below(dice, 700),
                                .node = (int32_t)below(dice, nodes + 4),
                                .refused = below(dice, 2)};
        const int64_t longest = below(dice, 2) ? 500 : (fault->kind == AWAY ? 12 : 3) * w->lease_ms;
        fault->for_ms = (uint64_t)(20 + below(dice, longest));
        if (fault->kind == KILL || fault->kind == KILL_LEADER || fault->kind == HOLDERS_DIE) {
            fault->for_ms = 0;
        } else if (fault->kind == LAST_SLEEPS || fault->kind == OTHERS_DIE) {
            fault->for_ms *= 4;
        }
    }
    w->stop_ms = below(dice, 6) ? 0 : BEGIN_MS + (uint64_t)below(dice, 900);
}

/* Half of all have more than seven nodes, one in fifty more than 32. */
static void draw_counts(uint64_t *dice, bool crowd, int32_t intervals, int32_t *ret_count) {
    const int32_t most = intervals < 5 ? intervals : 5;
    ret_count[CULM_GNN_SERVER] = (int32_t)(crowd ? 16 + below(dice, 9) : 1 + below(dice, most));
    ret_count[CULM_GNN_PARAMETER] = (int32_t)(crowd ? 4 + below(dice, 5) : 1 + below(dice, 4));
    ret_count[CULM_GNN_WORKER] = (int32_t)(crowd            ? 13 + below(dice, 12)
                                           : below(dice, 4) ? 1 + below(dice, 6)
                                                            : 0);
}

static void draw(struct world *w, uint64_t seed) {
    uint64_t dice = culm_rng_mix(seed, 77);
    const bool crowd = below(&dice, 50) == 0;
    const int32_t intervals = (int32_t)(crowd ? INTERVALS_MAX / 2 + below(&dice, INTERVALS_MAX / 2)
                                              : 1 + below(&dice, 10));
    *w = (struct world){.seed = seed};
    if (culm_gnn_symbolic_layout(seed, intervals, (int32_t)(2 + below(&dice, 2)), &w->cast.layout,
                                 NULL) != CULM_OK) {
        abort();
    }
    draw_counts(&dice, crowd, intervals, w->count);
    for (int32_t i = 0; i < intervals; i++) {
        w->home[i] = i * w->count[CULM_GNN_SERVER] / intervals;
    }
    const bool async = below(&dice, 4) == 0;
    w->cast.pace = (struct culm_gnn_pace){.staleness = async ? (int32_t)(1 + below(&dice, 2)) : 0,
                                          .ahead = async,
                                          .in_step = !async && below(&dice, 4) == 0,
                                          .epochs = 4 + below(&dice, 20),
                                          .tail = 1,
                                          .eval_every = below(&dice, 3)};
    w->checkpoint_every = below(&dice, 5);
    w->stop.patience = w->cast.pace.eval_every && below(&dice, 3) == 0 ? 1 + below(&dice, 3) : 0;
    w->candidates = (int32_t)(1 + below(&dice, 3));
    w->lease_ms = 300 + below(&dice, below(&dice, 2) ? 400 : 2000);
    w->store_ms = below(&dice, 2) ? 1 + below(&dice, 2 * w->lease_ms) : 0;
    w->store_fault_percent = below(&dice, 3) ? (uint32_t)below(&dice, 30) : 0;
    draw_faults(w, &dice);
}

/* --- the oracle --- */

/* Whether it lives, and has the state at the version committed last, or after it. */
static bool has_copy(const struct world *w, int32_t node) {
    void *actor = culm_sim_worker(w->sim, node);
    const int64_t version = !actor ? -1
                            : w->cast.role[node] == CULM_GNN_SERVER
                                ? culm_gnn_server_version(actor)
                                : culm_gnn_parameter_version(actor);
    return version >= w->epoch;
}

/* One that is well, and that the last view names, with a copy; or one that sleeps, and that one who has just taken over has to
 * wait for; -1: nobody. */
static int32_t copy_left(const struct world *w) {
    const uint64_t now = culm_sim_now(w->sim);
    for (int32_t h = 0; h < w->holder_count; h++) {
        if (now >= w->well_ns[w->holder[h]] && has_copy(w, w->holder[h])) {
            return w->holder[h];
        }
    }
    for (int32_t h = 0; h < w->awaited_count && now < w->took_ns + ORPHAN_MS * 3 / 2 * MS; h++) {
        if (has_copy(w, w->awaited[h])) {
            return w->awaited[h];
        }
    }
    return -1;
}

/* One that cannot ask who leads commits no more after a while; it is asked seldom enough that a few leases may pass until it knows. */
static void check_cut_off(struct world *w, int64_t epoch) {
    char text[120];
    const uint64_t now = culm_sim_now(w->sim);
    if (w->calm || !w->store_ms || !culm_sim_store_is_away(w->sim) || w->slept) {
        return;
    }
    w->commits_away++;
    if (now > w->away_ns + (uint64_t)(w->store_ms + 3 * w->lease_ms + 500) * MS) {
        snprintf(text, sizeof text, "epoch %" PRId64 " was committed by one that was cut off",
                 epoch);
        complain(w, text);
    }
}

static void hear_epoch(struct world *w, const json_t *event, bool deposed) {
    const int64_t epoch = json_integer_value(json_object_get(event, "epoch"));
    const char *loss = json_string_value(json_object_get(event, "loss_bits"));
    const bool exact = w->cast.pace.staleness == 0;
    char text[120];
    if (epoch < 1 || epoch > EPOCHS_MAX) {
        complain(w, "an epoch that is none");
        return;
    }
    if (!w->calm && exact && strcmp(w->reference->loss[epoch], loss) != 0) {
        snprintf(text, sizeof text, "epoch %" PRId64 ": loss %s, not %s", epoch, loss,
                 w->reference->loss[epoch]);
        complain(w, text);
    }
    snprintf(w->loss[epoch], sizeof w->loss[epoch], "%s", loss);
    w->told[epoch] = true;
    if (!deposed && !json_object_get(event, "again")) {
        check_cut_off(w, epoch);
    }
    if (!deposed) {
        w->epoch = epoch;
    }
}

static void hear_checkpoint(struct world *w, const json_t *event) {
    const int64_t version = json_integer_value(json_object_get(event, "epoch"));
    const char *path = json_string_value(json_object_get(event, "path"));
    if (!json_is_true(json_object_get(event, "ok")) || version > EPOCHS_MAX) {
        return;
    }
    const char *expected = w->calm ? "" : w->reference->file[version]; /* "": no room there */
    if (expected[0] && w->cast.pace.staleness == 0 && strcmp(expected, path) != 0) {
        complain(w, "a checkpoint has another state than an undisturbed run");
    }
    snprintf(w->file[version], sizeof w->file[version], "%s", path);
    w->newest = version > w->newest ? version : w->newest;
    w->checkpoints++;
}

static void hear_rollback(struct world *w, const json_t *event) {
    char text[120];
    w->rollbacks++;
    if (copy_left(w) >= 0) {
        snprintf(text, sizeof text, "went back from %" PRId64 " while node %d had a copy", w->epoch,
                 (int)copy_left(w));
        complain(w, text);
    }
    w->epoch = json_integer_value(json_object_get(event, "to_epoch"));
    if (culm_sim_deeds(w->sim, CULM_DEED_ROLL_BACK) < 1) {
        complain(w, "went back, and that was not written by who leads");
    }
}

/* One that is only silent is put out, while it may be the last one that has the state. */
static void hear_lost(struct world *w, const json_t *event) {
    const int32_t node = (int32_t)json_integer_value(json_object_get(event, "node"));
    const char *cause = json_string_value(json_object_get(event, "cause"));
    char text[120];
    w->lost++;
    if (strcmp(cause, "heartbeat") != 0 || node >= STRUCK_MAX || !has_copy(w, node) ||
        culm_sim_now(w->sim) > w->slept_ns[node] + (ORPHAN_MS * 3 / 2 - HEARD_MS) * MS) {
        return;
    }
    for (int32_t h = 0; h < w->holder_count; h++) {
        if (w->holder[h] != node && has_copy(w, w->holder[h])) {
            return;
        }
    }
    snprintf(text, sizeof text, "node %d, which sleeps, was put out with the last copy", (int)node);
    complain(w, text);
}

static void hear_view(struct world *w, const json_t *event) {
    const json_t *holders = json_object_get(event, "holders");
    w->holder_count = (int32_t)json_array_size(holders);
    for (int32_t h = 0; h < w->holder_count; h++) {
        w->holder[h] = (int32_t)json_integer_value(json_array_get(holders, (size_t)h));
    }
}

static void on_event(void *context, json_t *event) {
    struct world *w = context;
    const char *name = json_string_value(json_object_get(event, "event"));
    const bool deposed = json_object_get(event, "deposed") != NULL;
    if (w->log) {
        char *text = json_dumps(event, JSON_COMPACT);
        printf("# %s\n", text);
        free(text);
    }
    if (strcmp(name, "epoch") == 0) {
        hear_epoch(w, event, deposed);
    } else if (strcmp(name, "checkpoint") == 0) {
        hear_checkpoint(w, event);
    } else if (strcmp(name, "done") == 0) {
        w->done = true;
        snprintf(w->state, sizeof w->state, "%s",
                 json_string_value(json_object_get(event, "state_sha256")));
    } else if (deposed) {
        return;
    } else if (strcmp(name, "rollback") == 0) {
        hear_rollback(w, event);
    } else if (strcmp(name, "view") == 0) {
        hear_view(w, event);
    } else if (strcmp(name, "lost") == 0) {
        hear_lost(w, event);
    }
    if (strcmp(name, "leader") == 0) {
        w->takeovers++;
        for (int64_t epoch = w->newest + 1; epoch <= EPOCHS_MAX; epoch++) {
            w->told[epoch] =
                false; /* what the one before has said may be lost with it: this one says it again */
        }
    }
}

/* Of what leaders publish the verdict is kept, for the one who begins with it. */
static enum culm_status look(void *context, int32_t node, const struct culm_gnn_task *task) {
    struct world *w = context;
    if (node == CULM_LEADER && task->kind == CULM_GNN_TASK_PUBLISH && task->version <= EPOCHS_MAX) {
        w->verdict[task->version] = task->verdict;
    }
    return CULM_OK;
}

/* --- who leads --- */

static void leads(void *context, const struct culm_sim_reign *reign) {
    struct world *w = context;
    const char *path = w->newest > 0 ? w->file[w->newest] : "";
    struct culm_gnn_exec *exec =
        culm_gnn_symbolic_new(&w->cast.layout, &w->cast.pace, w->seed, NULL);
    culm_gnn_symbolic_trouble(exec, look, w, CULM_LEADER);
    struct culm_gnn_leader_options options = {
        .world = reign->world,
        .agent = reign->agent,
        .record = w->calm ? NULL : reign->record,
        .exec = exec,
        .layout = &w->cast.layout,
        .settings = {.pace = w->cast.pace,
                     .checkpoint_every = w->checkpoint_every,
                     .crew = {.heartbeat_ms = 100,
                              .suspect_ms = 1000,
                              .kill_suspect_ms = w->seed % 3 ? 400 : 0,
                              .wait_ms = 0,
                              .stuck_ms = 300,
                              .join_ms = 10000,
                              .store_ms = w->store_ms,
                              .max_nodes = CULM_GNN_NODES_MAX},
                     .newcomers = true,
                     .stop = w->stop},
        .home = w->home,
        .rows = {10, 10, 10},
        .start_version = w->newest,
        .start_path = path,
        .term = reign->term,
        .known = reign->known,
        .known_count = reign->known_count,
        .orphan_ms = ORPHAN_MS,
        .depot = true,
        .here_most = INT32_MAX,
    };
    if (path[0]) {
        options.start_verdict = w->verdict[w->newest];
        (void)culm_gnn_symbolic_resume(exec, path, &options.start_verdict);
    }
    memcpy(options.settings.count, w->count, sizeof w->count);
    struct culm_gnn_leader *leader = culm_gnn_leader_new(&options);
    if (!leader || w->leaders == CULM_SIM_LEADERS) {
        abort();
    }
    w->leader[w->leaders] = leader;
    w->leader_exec[w->leaders++] = exec;
    culm_sim_reigns(w->sim, reign->process, leader);
    if (reign->newest && reign->term > 1) {
        w->took_ns = culm_sim_now(w->sim);
        w->awaited_count = w->holder_count;
        memcpy(w->awaited, w->holder, sizeof w->holder);
    }
    if (w->stopped && reign->newest) { /* as is written down somewhere */
        culm_sim_stop(w->sim);
    }
}

/* --- what befalls it --- */

static void strike(struct world *w, int32_t node, bool kill, uint64_t for_ns) {
    if (node < 0 || node >= STRUCK_MAX || !culm_sim_worker(w->sim, node)) {
        return;
    }
    const bool asleep = culm_sim_now(w->sim) + 2500 * MS < w->well_ns[node];
    const uint64_t well_ns = kill ? CULM_NEVER : culm_sim_now(w->sim) + for_ns + 2500 * MS;
    w->well_ns[node] = well_ns > w->well_ns[node] ? well_ns : w->well_ns[node];
    if (kill) {
        culm_sim_kill(w->sim, node);
    } else {
        w->slept_ns[node] = asleep ? w->slept_ns[node] : culm_sim_now(w->sim);
        culm_sim_freeze(w->sim, node, for_ns);
    }
}

static void kill_leader(struct world *w, bool refused) {
    const int32_t leader = culm_sim_leads(w->sim);
    if (culm_sim_candidate(w->sim)) {
        culm_sim_kill(w->sim, leader);
        if (refused) {
            culm_sim_refused(w->sim, leader);
        }
    }
}

static void befall(struct world *w, const struct fault *fault) {
    const int32_t leader = culm_sim_leads(w->sim);
    const uint64_t for_ns = fault->for_ms * MS;
    switch (fault->kind) {
    case KILL: strike(w, fault->node, true, 0); break;
    case FREEZE: strike(w, fault->node, false, for_ns); break;
    case KILL_LEADER: kill_leader(w, fault->refused); break;
    case OTHERS_DIE:
    case LAST_SLEEPS:
        for (int32_t h = 0; h < w->holder_count; h++) {
            strike(w, w->holder[h], h > 0, for_ns);
        }
        if (fault->kind == LAST_SLEEPS) {
            kill_leader(w, fault->refused);
        }
        break;
    case FREEZE_LEADER:
        w->slept = true;
        culm_sim_freeze(w->sim, leader, for_ns);
        break;
    case CUT_LEADER: culm_sim_store_cut(w->sim, leader, for_ns); break;
    case AWAY:
        w->outages++;
        w->away_ns = culm_sim_store_is_away(w->sim) ? w->away_ns : culm_sim_now(w->sim);
        culm_sim_store_away(w->sim, for_ns);
        break;
    case HOLDERS_DIE:
        for (int32_t h = 0; h < w->holder_count; h++) {
            strike(w, w->holder[h], true, 0);
        }
        break;
    default: break;
    }
}

static void strike_by_time(struct world *w) {
    const uint64_t now = culm_sim_now(w->sim);
    for (int32_t f = 0; f < w->fault_count; f++) {
        struct fault *fault = &w->fault[f];
        if (!fault->fired && now >= fault->at_ms * MS) {
            fault->fired = true;
            w->last_fault_ns = now + fault->for_ms * MS;
            befall(w, fault);
        }
    }
    if (w->stop_ms && !w->stopped && now >= w->stop_ms * MS) {
        w->stopped = true;
        w->last_fault_ns = now > w->last_fault_ns ? now : w->last_fault_ns;
        culm_sim_stop(w->sim);
    }
}

/* --- played, and judged --- */

static void judge(struct world *w) {
    const char *error = "";
    char text[160];
    enum culm_deed how;
    const bool left = culm_sim_left(w->sim, &w->code, &error), over = culm_sim_over(w->sim, &how);
    if (culm_sim_wrong(w->sim)) {
        complain(w, culm_sim_wrong(w->sim));
    }
    if (!left && !over) {
        snprintf(text, sizeof text, "has not ended; epoch %" PRId64, w->epoch);
        complain(w, text);
        return;
    }
    const bool stopped = over ? how == CULM_DEED_STOP : w->code == 75;
    const bool given_up =
        w->stopped && error && strstr(error, "last checkpoint could not be written");
    if (given_up) { /* there was no room, and a stop does not wait for any */
        return;
    }
    if ((stopped && !w->stopped) || (!over && !stopped && (w->code != 0 || !w->done))) {
        snprintf(text, sizeof text, "ended with %d: %.120s", w->code, error ? error : "");
        complain(w, text);
    }
    if (!over && !w->calm &&
        culm_sim_deeds(w->sim, stopped ? CULM_DEED_STOP : CULM_DEED_DONE) < 1) {
        complain(w, "it has ended, and that was not written by who leads");
    }
    if (stopped) {
        return;
    }
    for (int64_t epoch = 1; epoch <= w->epoch; epoch++) {
        if (!w->told[epoch]) {
            snprintf(text, sizeof text, "epoch %" PRId64 " was never told", epoch);
            complain(w, text);
        }
    }
    if (!w->calm && !over && w->epoch != w->reference->epoch && w->cast.pace.staleness == 0) {
        complain(w, "other epochs than those of an undisturbed run");
    }
    if (!w->calm && !over && w->cast.pace.staleness == 0 &&
        strcmp(w->state, w->reference->state) != 0) {
        complain(w, "another state than that of an undisturbed run");
    }
}

static void play(struct world *w) {
    struct culm_sim_options options = gnn_cast_alike(&w->cast, w->seed, CAST_NODES);
    uint64_t dice = culm_rng_mix(w->seed, 78);
    options.jitter_ns = culm_rng_below(&dice, 2) ? 3 * MS : 0;
    options.job_ns = 2 * MS;
    options.io_ns = 10 * MS;
    options.event = on_event;
    options.event_context = w;
    options.orphan_ms = ORPHAN_MS;
    options.outlives = true;
    options.store_ns = 2 * MS;
    options.log = w->log && getenv("SIM_LOG");
    options.leads = leads;
    if (!w->calm) {
        options.candidates = w->candidates;
        options.lease_ms = w->lease_ms;
        options.store_end_ms = w->store_ms ? w->store_ms + ORPHAN_MS : 0;
        options.store_fault_percent = w->store_fault_percent;
        options.store_faults_ns = (BEGIN_MS + STORE_FAULTS_MS) * MS;
    }
    w->cast.beat_ms = 100;
    w->cast.server = (struct culm_gnn_server_options){.workers = w->count[CULM_GNN_WORKER] > 0};
    w->sim = culm_sim_new(&options);
    w->last_fault_ns = (BEGIN_MS + STORE_FAULTS_MS) * MS;
    if (w->calm) {
        struct culm_sim_reign reign;
        culm_sim_reign_of(w->sim, &reign);
        leads(w, &reign);
    }
    enum culm_deed how;
    while (!w->wrong[0] && culm_sim_step(w->sim) &&
           culm_sim_now(w->sim) < w->last_fault_ns + CALM_MS * MS) {
        strike_by_time(w);
        if (culm_sim_over(w->sim, &how)) {
            break;
        }
    }
    judge(w);
    for (int32_t i = 0; i < w->leaders; i++) {
        culm_gnn_leader_free(w->leader[i]);
    }
    if (culm_sim_free(w->sim) != 0) {
        complain(w, "blobs are left");
    }
    for (int32_t i = 0; i < w->leaders; i++) {
        culm_gnn_symbolic_free(w->leader_exec[i]);
    }
}

static void tell(const struct world *w) {
    printf("# seed %" PRIu64 ": %d intervals, %d servers, %d parameter servers, %d workers, "
           "staleness %d, %" PRId64 " epochs, a checkpoint every %" PRId64
           ", %d candidates, leases "
           "of %" PRId64 " ms, store_ms %" PRId64 ", %u %% of the store's answers bad\n",
           w->seed, w->cast.layout.intervals, w->count[0], w->count[1], w->count[2],
           w->cast.pace.staleness, w->cast.pace.epochs, w->checkpoint_every, w->candidates,
           w->lease_ms, w->store_ms, w->store_fault_percent);
    for (int32_t f = 0; f < w->fault_count; f++) {
        printf("#   %s at %" PRIu64 " ms, for %" PRIu64 " ms, node %d%s\n",
               kind_name[w->fault[f].kind], w->fault[f].at_ms, w->fault[f].for_ms, w->fault[f].node,
               w->fault[f].refused ? ", refused" : "");
    }
    if (w->stop_ms) {
        printf("#   stopped at %" PRIu64 " ms\n", w->stop_ms);
    }
}

int main(int argc, char **argv) {
    static struct world world, calm;
    uint64_t first = 1, count = 200;
    bool log = false, soak = false;
    struct tally tally = {0};
    for (int a = 1; a < argc; a++) {
        log = log || strcmp(argv[a], "--log") == 0;
        soak = soak || strcmp(argv[a], "--soak") == 0;
        first = strcmp(argv[a], "--first") == 0 && a + 1 < argc ? strtoull(argv[a + 1], NULL, 10)
                                                                : first;
        count = strcmp(argv[a], "--count") == 0 && a + 1 < argc ? strtoull(argv[a + 1], NULL, 10)
                                                                : count;
    }
    int64_t failed = 0, takeovers = 0, rollbacks = 0, lost = 0, stops = 0, checkpoints = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        draw(&calm, seed);
        calm.calm = true;
        calm.fault_count = 0;
        calm.stop_ms = 0;
        calm.checkpoint_every = 1;
        calm.count[CULM_GNN_WORKER] = 0;
        calm.cast.pace.staleness = 0;
        calm.cast.pace.ahead = calm.cast.pace.in_step = false;
        play(&calm);
        culm_gnn_layout_release(&calm.cast.layout);
        draw(&world, seed);
        world.reference = &calm;
        world.log = log;
        if (log) {
            tell(&world);
        }
        play(&world);
        takeovers += world.takeovers;
        rollbacks += world.rollbacks;
        lost += world.lost;
        stops += world.stopped;
        checkpoints += world.checkpoints;
        if (world.wrong[0] || calm.wrong[0]) {
            failed++;
            tell(&world);
            printf("not ok - seed %" PRIu64 ": %s%s\n    replay: sim_gnn_reigns --first %" PRIu64
                   " --count 1 --log\n",
                   seed, calm.wrong[0] ? "undisturbed: " : "",
                   calm.wrong[0] ? calm.wrong : world.wrong, seed);
        }
        tally_add(&tally, world.count[0] + world.count[1] + world.count[2],
                  world.wrong[0] || calm.wrong[0]);
        tally.outages += world.outages;
        culm_gnn_layout_release(&world.cast.layout);
    }
    if (soak) {
        tally.takeovers = takeovers;
        tally.rollbacks = rollbacks;
        tally_print(&tally);
        return failed > 0;
    }
    printf("%" PRIu64 " worlds: %" PRId64 " times another one led, %" PRId64 " nodes lost, %" PRId64
           " roll-backs, %" PRId64 " checkpoints, %" PRId64 " stopped; %" PRId64 " failed\n",
           count, takeovers, lost, rollbacks, checkpoints, stops, failed);
    if (count >= 200 && (takeovers < 50 || rollbacks == 0 || stops == 0)) {
        printf("not ok - too little has happened\n");
        return 1;
    }
    return failed > 0;
}
