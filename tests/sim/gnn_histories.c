/*
 * Histories of graph networks in the simulated world, on the symbolic executor.
 *
 *     gnn_histories [--first SEED] [--count N] [--replace MS] [--log]
 *
 * Each seed makes up a graph, a network and a shape (servers, parameter servers, workers), and what
 * befalls them: nodes are killed or frozen where they do a certain thing, or at any time, or only nap, links are
 * cut or swallow what is sent over them, tasks hang, bits flip in a holder's state, workers leave by
 * themselves, and some starts take seconds. It must end, with the state that one server and one parameter
 * server come to when nothing befalls them; without a roll-back unless all holders were lost, and with
 * no blob left. What befell the runs is counted, and there are floors.
 *
 * Lost nodes are replaced at once. Every tenth history is played again with replacements that come later,
 * and every tenth with none: it may then end with an error, but only when no server or no parameter server
 * is left.
 */
#include "base/rng.h"
#include "gnn_cast.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ull
#define FAULTS 3
#define NAPS 4
#define NODES 64 /* alive at once */
#define FLOORS_FROM 1000
#define LEAVING_BELOW 24 /* ids of workers that leave by themselves, in some histories */
#define NODES_EVER 1024
#define WAIT_MS 60000
#define COLD_NS (200 * MS) /* a start that takes longer than most epochs */

/* Seeds that once showed a mistake; run with any large number of others. */
static const uint64_t kept[] = {
    1007,   /* a worker was put out, and its server's end of the link never said so */
    1625,   /* a sum came from a holder that had been told of a view earlier, and was forgotten */
    8281,   /* gradients for a copy of the state were taken by the state that it replaced */
    104863, /* enough, with no parameter server there: the others had left the last version */
    17789,  /* a worker waited for weights that came of a task behind that one */
};

enum kind { KILL, FREEZE, CUT, FLIP, SLOW, STICK, DROP, KINDS };

struct fault {
    enum kind kind;
    bool at_phase;
    uint32_t role, phase; /* at_phase: the `after`th time that one of this role is there */
    int32_t after;
    uint64_t time_ns; /* else then */
    int32_t node, other;
    bool backwards, fired;
};

/* A process stands still, but not for so long that it is given up. */
struct nap {
    int32_t node;
    uint64_t time_ns, for_ns;
    bool fired;
};

struct shape {
    int32_t count[CULM_GNN_ROLES];
    struct culm_gnn_pace pace;
    int64_t checkpoint_every;
    bool tunes; /* the number of workers is sought */
    enum culm_gnn_tune goal;
    int64_t replace_ms; /* -1: never */
    struct culm_gnn_stop stop;
};

/* What was seen in all histories. */
struct seen {
    int64_t fired[CULM_GNN_ROLES][CULM_GNN_PHASE_COUNT], kind[KINDS], lost, rollbacks, checkpoints,
        unsaved, released, tunes, naps;
    int64_t stuck, stalled;  /* of those that were lost */
    int64_t cold, recovered; /* starts; losses */
    int64_t too_few;         /* histories */
    int64_t ended;           /* histories whose evaluations were enough */
    int64_t ages[CULM_GNN_STALENESS_MAX + 1], ahead;
};

struct history {
    struct gnn_cast cast; /* first member */
    struct culm_sim *sim;
    struct culm_gnn_exec *leader_exec;
    struct culm_gnn_leader *leader;
    struct shape shape;
    uint64_t seed;
    struct fault fault[FAULTS];
    int32_t fault_count;
    struct nap nap[NAPS];
    int32_t nap_count;
    int64_t all_in; /* the epoch after which all servers and parameter servers that it began with
                     * die; 0: none */
    int32_t slow;   /* the jobs of this node take long; -1: nobody's */
    int32_t home[CULM_GNN_INTERVALS_MAX];
    char state[80]; /* of `done` */
    int64_t epoch, lost, stuck, stalled, rollbacks, checkpoints, unsaved, released, tunes, cold,
        recovered;
    int64_t alive[CULM_GNN_ROLES];
    bool too_few; /* it ended with an error, since nobody of a role was left */
    bool made_up[NODES_EVER];
    int64_t ages[CULM_GNN_STALENESS_MAX + 1];
    bool log;
    char wrong[256];
};

static void wrong(struct history *h, const char *what) {
    if (!h->wrong[0]) {
        snprintf(h->wrong, sizeof h->wrong, "%s", what);
    }
}

/* --- actors --- */

static void *make_worker(void *context, int32_t id, struct culm_world *world,
                         struct culm_blob_pool *pool) {
    struct history *h = context;
    uint64_t dice = culm_rng_mix(h->seed, 100 + (uint64_t)id);
    h->cast.worker = (struct culm_gnn_worker_options){0};
    if (h->seed % 3 == 0 && id < LEAVING_BELOW) {
        h->cast.worker.stay_ms = 1 + (int64_t)culm_rng_below(&dice, 200);
        h->cast.worker.part_ms = h->seed % 2 ? 1 : 5000;
    }
    if (h->seed % 5 == 0) { /* room for one or two constant inputs */
        h->cast.worker.keep_bytes = (size_t)(1 + culm_rng_below(&dice, 2)) * sizeof(uint64_t);
    }
    return gnn_cast_worker(context, id, world, pool);
}

static void end_node(void *context, int32_t id, void *actor) {
    struct history *h = context;
    for (int age = 0; age <= CULM_GNN_STALENESS_MAX && h->cast.exec[id]; age++) {
        h->ages[age] += culm_gnn_symbolic_ages(h->cast.exec[id])[age];
    }
    gnn_cast_end(context, id, actor);
}

/* --- what is said, and what befalls --- */

/* Steps that one server can have done beyond what is committed. */
static int64_t most_redone(const struct history *h) {
    return (int64_t)h->cast.layout.intervals * h->cast.layout.steps *
           culm_gnn_pace_window(&h->shape.pace);
}

static void count_nodes(struct history *h, const char *name, const json_t *event) {
    const char *role = json_string_value(json_object_get(event, "role"));
    for (uint32_t r = 0; r < CULM_GNN_ROLES && role; r++) {
        if (strcmp(role, culm_gnn_role_name(r)) == 0) {
            h->alive[r] += (strcmp(name, "joined") == 0) - (strcmp(name, "lost") == 0);
        }
    }
}

static void kill_all(struct history *h) {
    const int32_t *count = h->shape.count;
    h->all_in = 0;
    for (int32_t node = 0; node < count[CULM_GNN_SERVER] + count[CULM_GNN_PARAMETER]; node++) {
        if (culm_sim_worker(h->sim, node)) {
            culm_sim_kill(h->sim, node);
        }
    }
}

static void on_event(void *context, json_t *event) {
    struct history *h = context;
    const char *name = json_string_value(json_object_get(event, "event"));
    count_nodes(h, name, event);
    if (h->log) {
        char *text = json_dumps(event, JSON_COMPACT);
        printf("# %s\n", text);
        free(text);
    }
    if (strcmp(name, "epoch") == 0) {
        int64_t epoch = json_integer_value(json_object_get(event, "epoch"));
        if (epoch != h->epoch + 1) {
            wrong(h, "an epoch was told twice or not at all");
        }
        h->epoch = epoch;
        if (epoch == h->all_in) {
            kill_all(h);
        }
        /* Workers that have the time to leave as they should leave nothing undone. */
        if (h->fault_count == 0 && h->seed % 4 == 0 &&
            json_integer_value(json_object_get(event, "retried")) > 0) {
            wrong(h, "a task was done again although nobody was lost");
        }
    } else if (strcmp(name, "rollback") == 0) {
        h->rollbacks++;
        h->epoch = json_integer_value(json_object_get(event, "to_epoch"));
    } else if (strcmp(name, "done") == 0) {
        snprintf(h->state, sizeof h->state, "%s",
                 json_string_value(json_object_get(event, "state_sha256")));
    }
    if (strcmp(name, "joined") == 0 && h->seed % 2) { /* it hears of others before the leader */
        culm_sim_slow(h->sim, -1, (int32_t)json_integer_value(json_object_get(event, "node")), 300,
                      100 * MS);
    }
    h->tunes += strcmp(name, "tune") == 0 && h->epoch > 0; /* workers come or go */
    if (strcmp(name, "lost") == 0) {
        const char *cause = json_string_value(json_object_get(event, "cause"));
        h->lost++;
        h->stuck += strcmp(cause, "stuck") == 0;
        h->stalled += strcmp(cause, "stalled") == 0;
    }
    if (strcmp(name, "recovered") == 0) {
        int64_t node = json_integer_value(json_object_get(event, "node"));
        if (node < 0 || node >= NODES_EVER || h->made_up[node] ||
            json_real_value(json_object_get(event, "pause_ms")) < 0 ||
            json_integer_value(json_object_get(event, "redone_tasks")) < 0 ||
            json_integer_value(json_object_get(event, "redone_tasks")) > most_redone(h)) {
            wrong(h,
                  "a loss was made up for twice, before it was, or by more than there was to do");
        } else {
            h->made_up[node] = true;
            h->recovered++;
        }
    }
    h->released += strcmp(name, "released") == 0;
    if (strcmp(name, "checkpoint") == 0) {
        bool ok = json_is_true(json_object_get(event, "ok"));
        h->checkpoints += ok;
        h->unsaved += !ok;
    }
}

static void fire(struct history *h, struct fault *fault, int32_t node) {
    fault->fired = true;
    fault->node = node;
    switch (fault->kind) {
    case KILL: culm_sim_kill(h->sim, node); break;
    case FREEZE: culm_sim_freeze(h->sim, node, CULM_NEVER); break;
    case FLIP: culm_gnn_symbolic_flip(h->cast.exec[node]); break;     /* nothing, but of a holder */
    case SLOW: culm_sim_slow(h->sim, -1, node, 300, 500 * MS); break; /* the leader's word */
    case STICK: culm_sim_stick(h->sim, node); break;
    case DROP:
        if (fault->backwards) {
            culm_sim_drop(h->sim, fault->other, node, CULM_NEVER);
        } else {
            culm_sim_drop(h->sim, node, fault->other, CULM_NEVER);
        }
        break;
    default: culm_sim_cut(h->sim, node, fault->other); break;
    }
}

static uint64_t cost(void *context, int32_t node, const struct culm_job *job) {
    const struct history *h = context;
    (void)job;
    return node == h->slow ? 30 * MS : 0;
}

/* In four histories of seven: a third of the starts takes up to 400 ms more, and some of the rest up to three
 * seconds, which is longer than it takes to put a node out. */
static uint64_t cold(void *context, int32_t node) {
    struct history *h = context;
    uint64_t dice = culm_rng_mix(h->seed, 200 + (uint64_t)node), later = 0;
    if (h->seed % 7 < 4 && culm_rng_below(&dice, 3) == 0) {
        later = culm_rng_below(&dice, 400 * MS);
    } else if (h->seed % 7 < 4 && culm_rng_below(&dice, 5) == 0) {
        later = culm_rng_below(&dice, 3000 * MS);
    }
    h->cold += later > COLD_NS;
    return later;
}

static void on_point(void *context, int32_t node, const struct culm_fault_point *point) {
    struct history *h = context;
    for (int32_t f = 0; f < h->fault_count; f++) {
        struct fault *fault = &h->fault[f];
        if (!fault->fired && fault->at_phase && node >= 0 && h->cast.role[node] == fault->role &&
            point->phase == fault->phase && fault->after-- == 0) {
            fire(h, fault, node);
        }
    }
}

static void fire_by_time(struct history *h) {
    for (int32_t f = 0; f < h->fault_count; f++) {
        struct fault *fault = &h->fault[f];
        if (!fault->fired && !fault->at_phase && culm_sim_now(h->sim) >= fault->time_ns) {
            fault->fired = true;
            if (culm_sim_worker(h->sim, fault->node)) {
                fire(h, fault, fault->node);
            }
        }
    }
    for (int32_t n = 0; n < h->nap_count; n++) {
        struct nap *nap = &h->nap[n];
        if (!nap->fired && culm_sim_now(h->sim) >= nap->time_ns &&
            culm_sim_worker(h->sim, nap->node)) {
            nap->fired = true;
            culm_sim_freeze(h->sim, nap->node, nap->for_ns);
        }
    }
}

/* --- histories --- */

static void shape_from(uint64_t *dice, const struct culm_gnn_layout *layout, struct shape *shape) {
    *shape = (struct shape){
        .pace = {.epochs = 1 + (int64_t)culm_rng_below(dice, 6),
                 .eval_every = (int64_t)culm_rng_below(dice, 3),
                 .tail = (int64_t)culm_rng_below(dice, 3)},
        .checkpoint_every = (int64_t)culm_rng_below(dice, 4),
    };
    int32_t most = layout->intervals < 4 ? layout->intervals : 4;
    shape->count[CULM_GNN_SERVER] = 1 + (int32_t)culm_rng_below(dice, (uint64_t)most);
    shape->count[CULM_GNN_PARAMETER] = 1 + (int32_t)culm_rng_below(dice, 3);
    shape->count[CULM_GNN_WORKER] = (int32_t)culm_rng_below(dice, 5);
    shape->pace.in_step = culm_rng_below(dice, 8) == 0;
    shape->pace.ahead = !shape->pace.in_step && culm_rng_below(dice, 2);
    shape->pace.staleness = shape->pace.ahead ? (int32_t)culm_rng_below(dice, 4) : 0;
    shape->tunes = shape->count[CULM_GNN_WORKER] > 0 && culm_rng_below(dice, 3) == 0;
    shape->goal = (enum culm_gnn_tune)culm_rng_below(dice, 3);
    shape->pace.epochs += 8 * shape->tunes; /* it takes some */
}

static void faults_from(uint64_t *dice, struct history *h) {
    h->fault_count = (int32_t)culm_rng_below(dice, FAULTS + 1);
    int32_t nodes = h->shape.count[0] + h->shape.count[1] + h->shape.count[2];
    for (int32_t f = 0; f < h->fault_count; f++) {
        struct fault *fault = &h->fault[f];
        fault->kind = (enum kind)culm_rng_below(dice, KINDS);
        fault->at_phase = culm_rng_below(dice, 3) > 0;
        fault->role = (uint32_t)culm_rng_below(dice, CULM_GNN_ROLES);
        fault->phase = (uint32_t)culm_rng_below(dice, CULM_GNN_PHASE_COUNT);
        fault->after = (int32_t)culm_rng_below(dice, 12);
        fault->time_ns = 1000 * MS + culm_rng_below(dice, 300 * MS);
        fault->node = (int32_t)culm_rng_below(dice, (uint64_t)nodes);
        fault->other = (int32_t)culm_rng_below(dice, (uint64_t)nodes + 1) - 1;
        if ((fault->kind == CUT || fault->kind == DROP) && fault->node == fault->other) {
            fault->kind = KILL;
        }
        fault->backwards = culm_rng_below(dice, 2);
    }
}

/* In a quarter of the histories, and in all where nobody is replaced, with dice of their own: what else is
 * drawn is that of the seed without them. Workers nap more often; others then do what they were given. */
static void naps_from(struct history *h) {
    uint64_t dice = culm_rng_mix(h->seed, 300);
    const int32_t *count = h->shape.count;
    h->nap_count =
        h->seed % 4 == 2 || h->shape.replace_ms < 0 ? 1 + (int32_t)culm_rng_below(&dice, NAPS) : 0;
    for (int32_t n = 0; n < h->nap_count; n++) {
        struct nap *nap = &h->nap[n];
        bool works = count[CULM_GNN_WORKER] > 0 && culm_rng_below(&dice, 4) > 0;
        int32_t before = works ? count[CULM_GNN_SERVER] + count[CULM_GNN_PARAMETER] : 0;
        int32_t of = works ? count[CULM_GNN_WORKER] : count[0] + count[1] + count[2];
        *nap = (struct nap){.node = before + (int32_t)culm_rng_below(&dice, (uint64_t)of),
                            .time_ns = 1030 * MS + culm_rng_below(&dice, 400 * MS),
                            .for_ns = 100 * MS + culm_rng_below(&dice, 700 * MS)};
    }
}

static void play(struct history *h, uint64_t seed, bool rough) {
    uint64_t dice = culm_rng_mix(seed, 5);
    struct culm_sim_options options = {
        .seed = seed,
        .latency_ns = 100000,
        .jitter_ns = culm_rng_below(&dice, 2) ? 3 * MS : 0,
        .piece_bytes = rough && culm_rng_below(&dice, 4) == 0 ? 60 : 0,
        .short_percent = rough ? (uint32_t)culm_rng_below(&dice, 30) : 0,
        .exit_ns = 5 * MS,
        .job_ns = 2 * MS,
        .io_ns = 10 * MS,
        .spawn_ns = 30 * MS,
        .spawn_max = NODES,
        .event = on_event,
        .event_context = h,
        .fault = on_point,
        .cost = cost,
        .cold = cold,
        .log = h->log && getenv("SIM_LOG"),
    };
    h->cast.pace = h->shape.pace;
    h->cast.seed = h->seed;
    h->cast.beat_ms = 100;
    h->cast.server = (struct culm_gnn_server_options){
        .workers = h->shape.count[CULM_GNN_WORKER] > 0,
        .once = h->seed % 4 == 0,
        .lean = h->seed % 3 == 0,
    };
    gnn_cast_roles(&h->cast, &options);
    for (int32_t r = 0; r < CULM_GNN_ROLES; r++) {
        options.role[r].destroy = end_node;
    }
    options.role[CULM_GNN_WORKER].make = make_worker;
    h->sim = culm_sim_new(&options);
    h->leader_exec = culm_gnn_symbolic_new(&h->cast.layout, &h->shape.pace, h->seed, NULL);
    struct culm_gnn_leader_options leader = {
        .world = culm_sim_coordinator_world(h->sim),
        .agent = culm_sim_agent(h->sim),
        .exec = h->leader_exec,
        .layout = &h->cast.layout,
        .settings = {.pace = h->shape.pace,
                     .checkpoint_every = h->shape.checkpoint_every,
                     .beat_ms = 100,
                     .suspect_ms = 1000,
                     .replace_ms = h->shape.replace_ms,
                     .wait_ms = h->shape.replace_ms ? WAIT_MS : 0,
                     .stuck_ms = 300},
        .home = h->home,
        .rows = {10, 10, 10},
        .start_path = "",
    };
    memcpy(leader.settings.count, h->shape.count, sizeof h->shape.count);
    leader.settings.stop = h->shape.stop;
    leader.settings.tunes = h->shape.tunes;
    leader.settings.tune = (struct culm_gnn_tune_options){.goal = h->shape.goal,
                                                          .first = h->shape.count[CULM_GNN_WORKER],
                                                          .most = 6,
                                                          .samples = 1,
                                                          .usd_per_s = 1,
                                                          .worker_usd_per_s = 0.1};
    h->leader = culm_gnn_leader_new(&leader);
    culm_sim_coordinator(h->sim, h->leader);
    while (culm_sim_step(h->sim) && culm_sim_now(h->sim) < 300000 * MS) {
        fire_by_time(h);
    }
    int code = -1;
    const char *error = NULL;
    if (!culm_sim_left(h->sim, &code, &error)) {
        wrong(h, "never ended");
    } else if (code != 0 && h->shape.replace_ms < 0 &&
               (h->alive[CULM_GNN_SERVER] == 0 || h->alive[CULM_GNN_PARAMETER] == 0)) {
        h->too_few = true;
    } else if (code != 0) {
        wrong(h, error && error[0] ? error : "ended with an error");
    }
    culm_gnn_leader_free(h->leader);
    if (culm_sim_free(h->sim) != 0) {
        wrong(h, "blobs are left");
    }
    culm_gnn_symbolic_free(h->leader_exec);
}

/* What the same comes to with one of each role, undisturbed. */
static void reference(const struct history *of, uint64_t seed, char ret_state[80],
                      int64_t *ret_epochs) {
    struct history h = {
        .slow = -1, .cast = {.layout = of->cast.layout}, .shape = of->shape, .seed = of->seed};
    h.shape.count[CULM_GNN_SERVER] = h.shape.count[CULM_GNN_PARAMETER] = 1;
    h.shape.count[CULM_GNN_WORKER] = 0;
    h.shape.tunes = false;
    h.shape.replace_ms = 0;
    h.shape.pace = (struct culm_gnn_pace){
        .epochs = of->shape.pace.epochs,
        .eval_every = of->shape.stop.patience ? of->shape.pace.eval_every : 0};
    play(&h, seed, false);
    memcpy(ret_state, h.state, sizeof h.state);
    *ret_epochs = h.epoch;
    if (h.wrong[0] || h.lost || h.rollbacks) {
        snprintf(ret_state, 80, "no reference: %.60s", h.wrong);
    }
}

static void count(const struct history *h, struct seen *seen) {
    for (int32_t f = 0; f < h->fault_count; f++) {
        const struct fault *fault = &h->fault[f];
        seen->kind[fault->kind] += fault->fired;
        seen->fired[fault->role][fault->phase] += fault->fired && fault->at_phase;
    }
    for (int32_t n = 0; n < h->nap_count; n++) {
        seen->naps += h->nap[n].fired;
    }
    seen->lost += h->lost;
    seen->released += h->released;
    seen->stuck += h->stuck;
    seen->stalled += h->stalled;
    seen->tunes += h->tunes;
    seen->cold += h->cold;
    seen->recovered += h->recovered;
    seen->too_few += h->too_few;
    seen->rollbacks += h->rollbacks;
    seen->checkpoints += h->checkpoints;
    seen->unsaved += h->unsaved;
    seen->ahead += h->shape.pace.ahead;
    for (int age = 0; age <= CULM_GNN_STALENESS_MAX; age++) {
        seen->ages[age] += h->ages[age];
    }
}

static bool run(uint64_t seed, int64_t replace_ms, bool log, struct seen *seen) {
    uint64_t dice = culm_rng_mix(seed, 3);
    struct history h = {.seed = seed, .log = log};
    int32_t intervals = 1 + (int32_t)culm_rng_below(&dice, 10);
    int32_t stages = 1 + (int32_t)culm_rng_below(&dice, 4);
    char expected[80];
    int64_t epochs;
    if (culm_gnn_symbolic_layout(seed, intervals, stages, &h.cast.layout, NULL) != CULM_OK) {
        return false;
    }
    shape_from(&dice, &h.cast.layout, &h.shape);
    h.shape.replace_ms = replace_ms;
    if (seed % 5 == 3 && h.shape.pace.staleness == 0 && h.shape.pace.eval_every > 0) {
        h.shape.stop.patience = 1 + (int64_t)(seed / 5 % 3); /* evaluations end it */
        h.shape.pace.epochs += 20;
        h.all_in = seed % 2 && replace_ms >= 0 ? 2 + (int64_t)(seed / 7 % 6) : 0;
    }
    h.shape.pace.epochs += replace_ms < 0 ? 40 : 0; /* for what comes of losses and naps */
    for (int32_t i = 0; i < intervals; i++) {
        h.home[i] = i * h.shape.count[CULM_GNN_SERVER] / intervals;
    }
    faults_from(&dice, &h);
    naps_from(&h);
    h.slow = (int32_t)culm_rng_below(&dice, 2) * (1 + h.shape.count[CULM_GNN_SERVER]) - 1;
    h.slow = h.slow >= 0 ? (int32_t)culm_rng_below(&dice, (uint64_t)h.slow) : -1;
    reference(&h, seed, expected, &epochs);
    if (log) {
        printf("# %d intervals, %d stages, %d servers, %d parameter servers, %d workers, %d "
               "epochs, staleness %d%s%s\n",
               intervals, stages, h.shape.count[0], h.shape.count[1], h.shape.count[2],
               (int)h.shape.pace.epochs, h.shape.pace.staleness,
               h.shape.pace.ahead ? ", ahead" : "", h.shape.pace.in_step ? ", in step" : "");
        for (int32_t f = 0; f < h.fault_count; f++) {
            printf(
                "# fault %d: kind %d, %s role %u phase %s after %d, node %d other %d at %llu ms\n",
                f, h.fault[f].kind, h.fault[f].at_phase ? "at" : "not at", h.fault[f].role,
                culm_gnn_phase_name(h.fault[f].phase), h.fault[f].after, h.fault[f].node,
                h.fault[f].other, (unsigned long long)(h.fault[f].time_ns / MS));
        }
    }
    play(&h, seed, true);
    count(&h, seen);
    culm_gnn_layout_release(&h.cast.layout);
    if (!h.wrong[0] && !h.too_few && h.epoch != epochs) {
        wrong(&h, "other epochs than those of an undisturbed run");
    }
    seen->ended += !h.too_few && h.epoch < h.shape.pace.epochs;
    /* Where rows may be old, the state depends on which were; the executor saw that none was too old. */
    if (!h.wrong[0] && !h.too_few && h.shape.pace.staleness == 0 &&
        strcmp(h.state, expected) != 0) {
        wrong(&h, "another state than that of an undisturbed run");
    }
    if (h.wrong[0]) {
        printf("not ok - seed %llu: %s\n    (%s, expected %s)\n    replay: gnn_histories --first "
               "%llu --count 1 --replace %lld --log\n",
               (unsigned long long)seed, h.wrong, h.state, expected, (unsigned long long)seed,
               (long long)replace_ms);
    }
    return !h.wrong[0];
}

/* Which phases a role has. */
static bool has_phase(uint32_t role, uint32_t phase) {
    switch (phase) {
    case CULM_GNN_PHASE_EDGE:
    case CULM_GNN_PHASE_GATHER:
    case CULM_GNN_PHASE_SCATTER: return role == CULM_GNN_SERVER;
    case CULM_GNN_PHASE_APPLY:
    case CULM_GNN_PHASE_PUSH_GRADIENT: return role != CULM_GNN_PARAMETER;
    case CULM_GNN_PHASE_PUSH_ROWS: return role == CULM_GNN_WORKER;
    case CULM_GNN_PHASE_UPDATE:
    case CULM_GNN_PHASE_COMMIT:
    case CULM_GNN_PHASE_CHECKPOINT: return role == CULM_GNN_PARAMETER;
    default: return true;
    }
}

static bool fired_enough(const struct seen *seen, int64_t histories) {
    bool enough = seen->lost > histories / 4 && seen->checkpoints > histories / 4 &&
                  seen->released > histories / 10 && seen->stuck > histories / 50 &&
                  seen->stalled > histories / 100 && seen->tunes > histories / 8 &&
                  seen->cold > histories / 4 && seen->recovered > histories / 8 &&
                  seen->naps > histories / 4 && seen->ended > histories / 40 &&
                  seen->rollbacks > histories / 100;
    for (int age = 0; age <= 3; age++) { /* all that is allowed is met */
        enough = enough && seen->ages[age] > histories / 100;
    }
    for (int k = 0; k < KINDS; k++) {
        enough = enough && seen->kind[k] > histories / 20;
    }
    for (uint32_t r = 0; r < CULM_GNN_ROLES; r++) {
        for (uint32_t p = 0; p < CULM_GNN_PHASE_COUNT; p++) {
            if (has_phase(r, p) && seen->fired[r][p] < histories / 500) {
                printf("# %s %s: fired %lld times\n", culm_gnn_role_name(r), culm_gnn_phase_name(p),
                       (long long)seen->fired[r][p]);
                enough = false;
            }
        }
    }
    return enough;
}

int main(int argc, char **argv) {
    uint64_t first = 1, histories = 100;
    int64_t replace_ms = 0;
    bool log = false;
    for (int i = 1; i < argc; i++) {
        log = log || strcmp(argv[i], "--log") == 0;
        if (i + 1 < argc && strcmp(argv[i], "--first") == 0) {
            first = strtoull(argv[++i], NULL, 10);
        } else if (i + 1 < argc && strcmp(argv[i], "--count") == 0) {
            histories = strtoull(argv[++i], NULL, 10);
        } else if (i + 1 < argc && strcmp(argv[i], "--replace") == 0) {
            replace_ms = strtoll(argv[++i], NULL, 10);
        }
    }
    struct seen seen = {0}, later = {0}, never = {0};
    int64_t failed = 0;
    for (size_t k = 0; histories >= FLOORS_FROM && k < sizeof kept / sizeof *kept; k++) {
        failed += !run(kept[k], 0, log, &seen);
    }
    for (uint64_t seed = first; seed < first + histories; seed++) {
        failed += !run(seed, replace_ms, log, &seen);
        if (replace_ms == 0 && seed % 10 == 0) {
            failed += !run(seed, 1 + (int64_t)(seed * 7 % 3000), log, &later);
        } else if (replace_ms == 0 && seed % 10 == 5) {
            failed += !run(seed, -1, log, &never);
        }
    }
    bool enough =
        histories < FLOORS_FROM ||
        (fired_enough(&seen, (int64_t)histories) && seen.unsaved > (int64_t)histories / 10 &&
         later.lost > (int64_t)histories / 40 && never.lost > (int64_t)histories / 40 &&
         never.too_few > (int64_t)histories / 400);
    printf("# replaced later: %lld nodes lost, %lld roll-backs; never: %lld lost, %lld "
           "histories had too few\n",
           (long long)later.lost, (long long)later.rollbacks, (long long)never.lost,
           (long long)never.too_few);
    printf("# %lld ended by their evaluations\n", (long long)seen.ended);
    printf("# rows by age: %lld %lld %lld %lld; %lld histories ahead\n", (long long)seen.ages[0],
           (long long)seen.ages[1], (long long)seen.ages[2], (long long)seen.ages[3],
           (long long)seen.ahead);
    printf("1..1\n%s 1 - %llu histories: %lld killed, %lld frozen, %lld naps, %lld links cut, %lld "
           "flips, "
           "%lld slow links, %lld stuck, %lld deaf, "
           "%lld nodes lost (%lld stuck, %lld stalled), %lld recovered, "
           "%lld changes of the number of workers, %lld cold starts, "
           "%lld released, %lld roll-backs, %lld checkpoints, %lld not written, %lld failed%s\n",
           failed || !enough ? "not ok" : "ok", (unsigned long long)histories,
           (long long)seen.kind[KILL], (long long)seen.kind[FREEZE], (long long)seen.naps,
           (long long)seen.kind[CUT], (long long)seen.kind[FLIP], (long long)seen.kind[SLOW],
           (long long)seen.kind[STICK], (long long)seen.kind[DROP], (long long)seen.lost,
           (long long)seen.stuck, (long long)seen.stalled, (long long)seen.recovered,
           (long long)seen.tunes, (long long)seen.cold, (long long)seen.released,
           (long long)seen.rollbacks, (long long)seen.checkpoints, (long long)seen.unsaved,
           (long long)failed, enough ? "" : ", and too little befell them");
    return failed || !enough;
}
