/*
 * How fast a run on a graph gets on, in virtual time: tasks that take long, epochs that overlap.
 *
 *     gnn_pace [--log]
 *
 * Each case is a run on the symbolic executor whose tasks take the time that the case says; it prints
 * what an epoch took, and fails where that is not what the case wants.
 */
#include "base/rng.h"
#include "gnn_cast.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ull
#define NODES 64 /* at once */
#define SEED 7

struct run {
    struct gnn_cast cast; /* first member */
    /* --- what is asked for --- */
    int32_t count[CULM_GNN_ROLES], intervals, stages;
    bool once; /* no task is given out twice */
    /* an epoch in which a server is killed, and the phase; 0: none is */
    int64_t lose_in;
    uint32_t lose_at;
    /* one task of workers in so many takes SLOW times as long; 0: none */
    int32_t slow_in;
    /* what a worker's task takes, and a server's */
    uint64_t apply_ns, own_ns;
    int64_t rows; /* of an interval; 0: few */
    bool whole;   /* no task begins before all of its rows are there */
    /* going back is half the work for whoever went forward and has kept that */
    bool halves;
    bool anyone;           /* servers do not know that */
    uint64_t bytes_per_ms; /* of a link; 0: any */
    /* epochs in which the first worker begins to stand still for a while, or its word no longer
     * comes through, and in which all other workers are killed, not to be replaced; 0: none */
    int64_t nap_in, deaf_in, alone_in;
    /* the epoch in which the first server loses its links to all nodes but the leader; 0: none */
    int64_t cut_in, suspect_ms; /* 0: 1000 */
    /* the epoch from which on the first server hears nothing of the leader; 0: none */
    int64_t mute_in;
    /* --- what comes of it --- */
    double epoch_ms;
    int64_t retried, tasks, old_rows;
    /* tasks of epochs, whoever does them and whether or not they count; steps of these */
    int64_t begun, steps;
    int64_t lost; /* nodes that it killed */
    int64_t told_lost;
    /* steps that were done again, as the leader tells; -1: it has not */
    int64_t redone;
    /* tasks of workers since the first one is alone */
    int64_t alone;
    /* tasks of workers that go back; those of them for which half was kept */
    int64_t back, found;
    char state[80];
    /* --- meanwhile --- */
    struct culm_sim *sim;
    int32_t home[CULM_GNN_INTERVALS_MAX];
    uint64_t dice;
    double began_ms, ended_ms;
};

enum { SLOW = 5 };

/* The task is half the work for this node. */
static bool is_half(struct run *run, int32_t node, const struct culm_gnn_task *task) {
    bool back = run->cast.layout.step[task->step].kind == CULM_GNN_BACKWARD;
    bool kept = run->halves && gnn_cast_kept(&run->cast, node, task);
    run->back += run->halves && back;
    run->found += kept;
    return kept;
}

static uint64_t cost(void *context, int32_t node, const struct culm_job *job) {
    struct run *run = context;
    const struct culm_gnn_task *task = (const struct culm_gnn_task *)job;
    run->begun +=
        node >= 0 && (task->kind == CULM_GNN_TASK_APPLY || task->kind == CULM_GNN_TASK_GATHER);
    run->steps += node >= 0 && task->kind == CULM_GNN_TASK_APPLY && task->block <= 1;
    if (task->kind != CULM_GNN_TASK_APPLY || !run->cast.layout.step[task->step].remote) {
        return run->own_ns;
    }
    bool works = run->cast.role[node] == CULM_GNN_WORKER;
    run->alone += works && run->alone_in < 0;
    bool slow =
        works && run->slow_in > 0 && culm_rng_below(&run->dice, (uint64_t)run->slow_in) == 0;
    uint64_t blocks = task->block > 0 ? (uint64_t)culm_gnn_layout_blocks(
                                            &run->cast.layout, task->step,
                                            culm_gnn_layout_rows(&run->cast.layout, task->interval))
                                      : 1;
    bool half = is_half(run, node, task);
    return (slow ? SLOW * run->apply_ns : run->apply_ns) / (half ? 2 : 1) / blocks;
}

static void on_point(void *context, int32_t node, const struct culm_fault_point *point) {
    struct run *run = context;
    if (run->lost == 0 && run->lose_in > 0 && point->step == run->lose_in &&
        point->phase == run->lose_at && run->cast.role[node] == CULM_GNN_SERVER && node > 0) {
        run->lost++;
        culm_sim_kill(run->sim, node);
    }
}

/* What befalls nodes in an epoch. */
static void befall(struct run *run, int64_t epoch) {
    const int32_t *count = run->count, first = count[CULM_GNN_SERVER] + count[CULM_GNN_PARAMETER];
    if (epoch == run->nap_in) {
        culm_sim_freeze(run->sim, first, 900 * MS);
    }
    for (int32_t s = 0; s < count[CULM_GNN_SERVER] && epoch == run->deaf_in; s++) {
        culm_sim_drop(run->sim, first, s, CULM_NEVER);
    }
    if (epoch == run->mute_in) {
        culm_sim_drop(run->sim, -1, 0, CULM_NEVER);
    }
    for (int32_t n = 1; n < first + count[CULM_GNN_WORKER] && epoch == run->cut_in; n++) {
        culm_sim_cut(run->sim, 0, n);
    }
    if (epoch == run->alone_in) {
        run->alone_in = -1;
        for (int32_t w = 1; w < count[CULM_GNN_WORKER]; w++) {
            culm_sim_kill(run->sim, first + w);
        }
    }
}

static void on_event(void *context, json_t *event) {
    struct run *run = context;
    const char *name = json_string_value(json_object_get(event, "event"));
    double t_ms = json_number_value(json_object_get(event, "t_ms"));
    if (strcmp(name, "epoch") == 0) {
        int64_t epoch = json_integer_value(json_object_get(event, "epoch"));
        const json_t *ages = json_object_get(event, "ages");
        if (epoch == 1) {
            run->began_ms = t_ms; /* the first one brings constant inputs */
        }
        run->ended_ms = t_ms;
        befall(run, epoch);
        run->retried += epoch > 1 ? json_integer_value(json_object_get(event, "retried")) : 0;
        run->tasks += epoch > 1 ? json_integer_value(json_object_get(event, "tasks")) : 0;
        for (size_t age = 1; age < json_array_size(ages); age++) {
            run->old_rows += json_integer_value(json_array_get(ages, age));
        }
    } else if (strcmp(name, "lost") == 0) {
        run->told_lost++;
    } else if (strcmp(name, "recovered") == 0) {
        run->redone = json_integer_value(json_object_get(event, "redone_tasks"));
    } else if (strcmp(name, "done") == 0) {
        snprintf(run->state, sizeof run->state, "%s",
                 json_string_value(json_object_get(event, "state_sha256")));
    }
}

/* False: it did not come to its end. */
static bool play(struct run *run) {
    struct culm_sim_options options = gnn_cast_alike(&run->cast, SEED, NODES);
    options.bytes_per_ms = run->bytes_per_ms;
    options.event = on_event;
    options.event_context = run;
    options.cost = cost;
    options.fault = on_point;
    if (culm_gnn_symbolic_layout(SEED, run->intervals, run->stages, &run->cast.layout, NULL) !=
        CULM_OK) {
        return false;
    }
    for (int32_t i = 0; i < run->intervals; i++) {
        run->home[i] = i * run->count[CULM_GNN_SERVER] / run->intervals;
    }
    for (int32_t i = 0; i < run->intervals && run->rows > 0; i++) {
        run->cast.layout.first[i + 1] = run->cast.layout.first[i] + run->rows;
    }
    run->cast.layout.payload_max += (size_t)run->rows * sizeof(uint64_t);
    if (run->whole || run->slow_in > 0) { /* a task that is slow is so as a whole */
        run->cast.layout.block_unit = 0;
    }
    for (int32_t s = 0; s < run->cast.layout.steps; s++) {
        struct culm_gnn_step *step = &run->cast.layout.step[s];
        step->kept = run->halves && !run->anyone && step->kind == CULM_GNN_BACKWARD;
    }
    run->dice = culm_rng_mix(SEED, 3);
    run->cast.beat_ms = 100;
    run->cast.gone_ms = run->suspect_ms ? 5000 + 2 * run->suspect_ms : 0;
    run->cast.server = (struct culm_gnn_server_options){.workers = run->count[CULM_GNN_WORKER] > 0,
                                                        .once = run->once};
    run->sim = culm_sim_new(&options);
    struct culm_gnn_exec *exec =
        culm_gnn_symbolic_new(&run->cast.layout, &run->cast.pace, SEED, NULL);
    struct culm_gnn_leader_options leader = {
        .world = culm_sim_leader_world(run->sim),
        .agent = culm_sim_agent(run->sim),
        .exec = exec,
        .layout = &run->cast.layout,
        .settings = {.pace = run->cast.pace,
                     .crew = {.heartbeat_ms = 100,
                              .suspect_ms = run->suspect_ms ? run->suspect_ms : 1000,
                              .stuck_ms = 30000,
                              .join_ms = 10000,
                              .max_nodes = CULM_GNN_NODES_MAX}},
        .home = run->home,
        .rows = {10, 10, 10},
        .start_path = "",
    };
    memcpy(leader.settings.count, run->count, sizeof run->count);
    leader.settings.crew.replace_ms = run->alone_in > 0 ? -1 : 0;
    struct culm_gnn_leader *leads = culm_gnn_leader_new(&leader);
    culm_sim_leader(run->sim, leads);
    while (culm_sim_step(run->sim) && culm_sim_now(run->sim) < 600000 * MS) {
    }
    int code = -1;
    const char *error = NULL;
    bool left = culm_sim_left(run->sim, &code, &error);
    culm_gnn_leader_free(leads);
    culm_sim_free(run->sim);
    culm_gnn_symbolic_free(exec);
    culm_gnn_layout_release(&run->cast.layout);
    run->epoch_ms = (run->ended_ms - run->began_ms) / (double)(run->cast.pace.epochs - 1);
    return left && code == 0;
}

/* --- cases --- */

static int failed, cases;

static void check(bool good, const char *name, const char *figures) {
    printf("%s %d - %s: %s\n", good ? "ok" : "not ok", ++cases, name, figures);
    failed += !good;
}

static struct run shape(int32_t workers) {
    return (struct run){.count = {2, 1, workers},
                        .intervals = 16,
                        .stages = 3,
                        .cast.pace = {.epochs = 40, .tail = 1},
                        .slow_in = 10,
                        .apply_ns = 100 * MS,
                        .own_ns = MS};
}

/* One task in ten takes five times as long, and none is given out twice: epochs that overlap wait
 * less for it. */
static void test_overlap(int32_t workers) {
    struct run sync = shape(workers), async = shape(workers);
    char name[80], figures[160];
    sync.once = async.once = true;
    async.cast.pace.ahead = true;
    async.cast.pace.staleness = 1;
    bool good = play(&sync) && play(&async);
    double ratio = sync.epoch_ms / async.epoch_ms;
    snprintf(name, sizeof name, "slow tasks, %d workers, async against sync", workers);
    snprintf(figures, sizeof figures, "%.0f ms an epoch, %.0f: %.2f times as fast, %lld old rows",
             sync.epoch_ms, async.epoch_ms, ratio, (long long)async.old_rows);
    check(good && ratio >= 1.2 && async.old_rows > 0 && sync.retried + async.retried == 0, name,
          figures);
}

/* The same tasks, given out twice where they take long: less time, the same bits. */
static void test_twice(int32_t workers) {
    struct run once = shape(workers), twice = shape(workers);
    char name[80], figures[160];
    once.once = true;
    bool good = play(&once) && play(&twice);
    double ratio = once.epoch_ms / twice.epoch_ms;
    snprintf(name, sizeof name, "slow tasks, %d workers, given out twice", workers);
    snprintf(figures, sizeof figures,
             "%.0f ms an epoch, %.0f: %.2f times as fast, %lld of %lld tasks twice", once.epoch_ms,
             twice.epoch_ms, ratio, (long long)twice.retried, (long long)twice.tasks);
    check(good && ratio >= 1.1 && twice.retried > 0 && strcmp(once.state, twice.state) == 0, name,
          figures);
}

/* Where none takes long, none is given out twice. */
static void test_even(void) {
    struct run even = shape(8);
    char figures[160];
    even.slow_in = 0;
    bool good = play(&even);
    snprintf(figures, sizeof figures, "%.0f ms an epoch, %lld tasks twice", even.epoch_ms,
             (long long)even.retried);
    check(good && even.retried == 0, "even tasks", figures);
}

/* Whoever has gone forward goes back, unless others would be idle. */
static void test_kept(int32_t workers, int32_t slow_in) {
    struct run kept = shape(workers);
    kept.slow_in = slow_in;
    kept.halves = true;
    struct run anyone = kept;
    char name[80], figures[160];
    anyone.anyone = true;
    bool good = play(&kept) && play(&anyone);
    double ratio = anyone.epoch_ms / kept.epoch_ms, share = (double)kept.found / (double)kept.back;
    snprintf(name, sizeof name, "tasks that go back, %d workers, %s", workers,
             slow_in > 0 ? "some slow" : "even");
    snprintf(
        figures, sizeof figures,
        "%.0f %% find what was kept, else %.0f %%; %.0f ms an epoch, else %.0f: %.2f times as fast",
        100 * share, 100 * (double)anyone.found / (double)anyone.back, kept.epoch_ms,
        anyone.epoch_ms, ratio);
    check(good && share >= (slow_in > 0 ? 0.6 : 0.95) && ratio >= 1.03 &&
              strcmp(kept.state, anyone.state) == 0,
          name, figures);
}

/* A lost server costs less than an epoch, counted in tasks that are begun: what its intervals had of
 * the epoch is done again, and nothing else. The leader tells no more steps than that, and leaves out at
 * most two of each interval: one whose rows had not left, and one that was under way. */
static void test_lost_server(int32_t workers, int32_t staleness) {
    static const uint32_t phases[] = {CULM_GNN_PHASE_GATHER, CULM_GNN_PHASE_SCATTER,
                                      CULM_GNN_PHASE_APPLY, CULM_GNN_PHASE_PUSH_GRADIENT,
                                      CULM_GNN_PHASE_COMMIT};
    struct run whole = shape(workers);
    whole.count[CULM_GNN_SERVER] = 4;
    whole.slow_in = 0;
    whole.once = true;
    whole.cast.pace.ahead = staleness > 0;
    whole.cast.pace.staleness = staleness;
    struct run base = whole;
    bool good = play(&base);
    double epoch = (double)base.begun / (double)whole.cast.pace.epochs;
    for (size_t p = 0; p < sizeof phases / sizeof *phases; p++) {
        struct run lost = whole;
        char name[80], figures[200];
        lost.redone = -1;
        lost.lose_in = 5;
        lost.lose_at = phases[p];
        bool ended = play(&lost);
        int64_t again = lost.begun - base.begun, steps = lost.steps - base.steps;
        snprintf(name, sizeof name, "a server is lost at %s, %d workers, staleness %d",
                 culm_gnn_phase_name(phases[p]), workers, staleness);
        snprintf(figures, sizeof figures,
                 "%lld tasks more, of %.0f an epoch: %.2f of one; %lld steps, told %lld",
                 (long long)again, epoch, (double)again / epoch, (long long)steps,
                 (long long)lost.redone);
        bool same = staleness > 0 || strcmp(lost.state, base.state) == 0;
        check(good && ended && lost.lost == 1 && again >= 0 && (double)again < epoch &&
                  lost.redone >= 0 && lost.redone <= steps &&
                  lost.redone >= steps - 2 * lost.intervals / lost.count[CULM_GNN_SERVER] && same,
              name, figures);
    }
}

/* A worker that stood still while others did what it had been given, and later is the only one, works
 * again: it does not wait for weights that nobody has any more, and its servers know that it has room. */
static void test_nap(void) {
    struct run base = shape(2);
    base.slow_in = 0;
    base.apply_ns = 2 * MS; /* many epochs in a nap */
    base.intervals = 4;
    base.cast.pace.epochs = 200;
    struct run nap = base;
    char figures[160];
    nap.nap_in = 5;
    nap.alone_in = 100;
    bool good = play(&base) && play(&nap);
    snprintf(figures, sizeof figures, "%lld tasks alone; %.0f ms an epoch, else %.0f",
             (long long)nap.alone, nap.epoch_ms, base.epoch_ms);
    check(good && nap.alone > 3000 && strcmp(base.state, nap.state) == 0, "a worker naps", figures);
}

/* Servers do not wait for good for a worker whose results do not arrive: here two do what one would. */
static void test_deaf(void) {
    struct run base = shape(1);
    base.slow_in = 0;
    struct run deaf = base;
    char figures[160];
    deaf.deaf_in = 5;
    bool good = play(&base) && play(&deaf);
    snprintf(figures, sizeof figures, "%.0f ms an epoch, else %.0f", deaf.epoch_ms, base.epoch_ms);
    check(good && deaf.epoch_ms < base.epoch_ms && strcmp(base.state, deaf.state) == 0,
          "a worker is not heard", figures);
}

/* What befalls `hit` costs it one node, and no bit of what `base` comes to. */
static void check_one_lost(struct run *base, struct run *hit, const char *name) {
    char figures[160];
    bool good = play(base) && play(hit);
    snprintf(figures, sizeof figures, "%lld nodes lost", (long long)hit->told_lost);
    check(good && hit->told_lost == 1 && strcmp(base->state, hit->state) == 0, name, figures);
}

/* A server that reaches nobody but the leader goes, and neither those that it no longer reaches, nor workers,
 * however long the leader takes. */
static void test_cut(int32_t workers, int64_t suspect_ms) {
    struct run base = shape(workers);
    base.slow_in = 0;
    base.count[CULM_GNN_SERVER] = 4;
    struct run cut = base;
    cut.cut_in = 5;
    cut.suspect_ms = suspect_ms;
    check_one_lost(&base, &cut, "a server is cut off");
}

/* A server that hears nothing of the leader gives out tasks of an epoch that is over. Workers that know
 * better give them back, and that is no progress: the server is found, and goes. */
static void test_mute(void) {
    struct run base = shape(2);
    base.slow_in = 0;
    struct run mute = base;
    mute.mute_in = 5;
    check_one_lost(&base, &mute, "a server does not hear the leader");
}

/* One worker with one interval does one task after the other. What it computes while rows come is
 * hidden: of each task at most the shorter of both. */
static void test_stream(uint64_t transfer_ms, uint64_t compute_ms) {
    enum { ROWS = 4096 };
    struct run whole = {.count = {1, 1, 1},
                        .intervals = 1,
                        .stages = 3,
                        .cast.pace = {.epochs = 12, .tail = 1},
                        .apply_ns = compute_ms * MS,
                        .own_ns = MS,
                        .rows = ROWS,
                        .whole = true,
                        .once = true,
                        .bytes_per_ms = ROWS * sizeof(uint64_t) / transfer_ms};
    struct run stream = whole;
    char name[80], figures[160];
    stream.whole = false;
    bool good = play(&whole) && play(&stream);
    /* Rows come for forward 1 and backward 1 and 0; for backward 1 twice as many. */
    double once = (double)(transfer_ms < compute_ms ? transfer_ms : compute_ms);
    double twice = (double)(2 * transfer_ms < compute_ms ? 2 * transfer_ms : compute_ms);
    double hidden = (whole.epoch_ms - stream.epoch_ms) / (2 * once + twice);
    snprintf(name, sizeof name, "rows come in %d ms, a task takes %d", (int)transfer_ms,
             (int)compute_ms);
    snprintf(figures, sizeof figures,
             "%.0f ms an epoch, streaming %.0f: %.0f %% of the shorter hidden", whole.epoch_ms,
             stream.epoch_ms, 100 * hidden);
    check(good && hidden >= 0.7 && strcmp(whole.state, stream.state) == 0, name, figures);
}

int main(void) {
    test_overlap(16);
    test_overlap(8);
    test_twice(16);
    test_twice(8);
    test_even();
    test_kept(4, 0);
    test_kept(2, 0);
    test_kept(8, 10);
    test_kept(4, 10);
    test_lost_server(0, 0);
    test_lost_server(8, 0);
    test_lost_server(0, 1);
    test_lost_server(8, 1);
    test_nap();
    test_deaf();
    test_cut(0, 1000);
    test_cut(4, 6000);
    test_mute();
    test_stream(100, 100);
    test_stream(100, 50);
    test_stream(100, 200);
    printf("1..%d\n", cases);
    return failed > 0;
}
