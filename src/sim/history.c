/* Histories: made from a seed, run, judged. See history.h. */
#include "sim/history.h"

#include "base/rng.h"
#include "sim/sim.h"
#include "sim/symbolic.h"
#include "train/coordinator.h"
#include "train/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX 64
#define LIMIT_MS 600000 /* virtual; after the last fault */

struct running {
    struct culm_history *history;
    struct culm_sim *sim;
    struct culm_layout layout;
    struct culm_pool *pool;
    struct culm_symbolic_store store;
    struct culm_coordinator *coordinator;
    struct culm_exec *coordinator_exec;
    struct culm_exec **exec; /* by worker */
    int32_t exec_count;
    bool put_out[1024]; /* workers that the coordinator has declared lost */
    char loss_bits[STEPS_MAX][16];
    char weights[65];
    uint64_t last_fault_ns;
    int64_t rollbacks, views;
    bool done;
    char complaint[400];
};

__attribute__((format(printf, 2, 3))) static void complain(struct running *run, const char *format,
                                                           ...) {
    if (run->complaint[0]) {
        return;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(run->complaint, sizeof run->complaint, format, args);
    va_end(args);
}

/* --- the oracle's eyes --- */

/* Does some stage have no copy left among those who live, are not frozen for good, and are still in
 * the run? */
static bool some_stage_is_gone(const struct running *run) {
    for (int32_t s = 0; s < run->layout.stages; s++) {
        int32_t copies = 0;
        for (int32_t i = 0; i < culm_sim_worker_count(run->sim); i++) {
            const struct culm_node *node = culm_sim_worker(run->sim, i);
            copies += node && !run->put_out[i] && culm_node_version(node, s) >= 0;
        }
        if (copies == 0) {
            return true;
        }
    }
    return false;
}

static void on_event(void *context, json_t *event) {
    struct running *run = context;
    const char *name = json_string_value(json_object_get(event, "event"));
    if (strcmp(name, "step") == 0) {
        int64_t step = json_integer_value(json_object_get(event, "step"));
        if (step < STEPS_MAX) {
            snprintf(run->loss_bits[step], sizeof run->loss_bits[0], "%s",
                     json_string_value(json_object_get(event, "loss_bits")));
        }
    } else if (strcmp(name, "view") == 0) {
        run->views++;
    } else if (strcmp(name, "lost") == 0) {
        int64_t node = json_integer_value(json_object_get(event, "node"));
        if (node >= 0 && node < 1024) {
            run->put_out[node] = true;
        }
    } else if (strcmp(name, "rollback") == 0) {
        run->rollbacks++;
        if (!some_stage_is_gone(run)) {
            complain(run, "rolled back although every stage had a copy: %s",
                     json_string_value(json_object_get(event, "reason")));
        }
    } else if (strcmp(name, "error") == 0) {
        complain(run, "error: %s", json_string_value(json_object_get(event, "message")));
    } else if (strcmp(name, "done") == 0) {
        run->done = true;
        snprintf(run->weights, sizeof run->weights, "%s",
                 json_string_value(json_object_get(event, "weights_sha256")));
        if (json_integer_value(json_object_get(event, "samples_lost")) != 0 ||
            json_integer_value(json_object_get(event, "samples_repeated")) != 0) {
            complain(run, "samples were lost or repeated");
        }
    }
}

/* --- faults --- */

static void harm(struct running *run, struct culm_history_fault *fault, int32_t node) {
    fault->fired = true;
    run->last_fault_ns = culm_sim_now(run->sim);
    uint64_t freeze_ns = fault->freeze_ms ? fault->freeze_ms * 1000000 : CULM_NEVER;
    if (fault->harm == CULM_HARM_KILL) {
        culm_sim_kill(run->sim, node);
    } else {
        culm_sim_freeze(run->sim, node, freeze_ns);
        if (fault->freeze_ms) {
            run->last_fault_ns += freeze_ns;
        }
    }
    if (fault->with_neighbour) {
        int32_t stages = run->history->shape.stages;
        int32_t next = node < run->history->shape.pipelines * stages
                           ? node / stages * stages + (node + 1) % stages
                           : node + 1;
        culm_sim_kill(run->sim, next);
    }
}

static void on_fault_point(void *context, int32_t node, const struct culm_fault_point *point) {
    struct running *run = context;
    for (int32_t i = 0; i < run->history->fault_count; i++) {
        struct culm_history_fault *fault = &run->history->fault[i];
        if (fault->by_phase && !fault->fired && fault->phase == point->phase &&
            fault->step == point->step && (fault->node < 0 || fault->node == node) &&
            (fault->micro < 0 || fault->micro == point->micro)) {
            harm(run, fault, node);
            return;
        }
    }
}

/* Faults by time befall a worker chosen now, among those who live. */
static void timed_faults(struct running *run) {
    uint64_t now = culm_sim_now(run->sim);
    for (int32_t i = 0; i < run->history->fault_count; i++) {
        struct culm_history_fault *fault = &run->history->fault[i];
        if (fault->by_phase || fault->fired || now < 1000000000 + fault->at_ms * 1000000) {
            continue;
        }
        int32_t alive[1024], count = 0;
        for (int32_t w = 0; w < culm_sim_worker_count(run->sim) && count < 1024; w++) {
            if (culm_sim_worker(run->sim, w)) {
                alive[count++] = w;
            }
        }
        if (count > 0) {
            harm(run, fault, alive[culm_sim_random(run->sim, (uint64_t)count)]);
        }
    }
}

/* --- building the run --- */

static void *make_worker(void *context, int32_t id, struct culm_world *world) {
    struct running *run = context;
    const struct culm_history *history = run->history;
    struct culm_exec **exec = realloc(run->exec, (size_t)(id + 1) * sizeof *exec);
    if (!exec) {
        return NULL;
    }
    run->exec = exec;
    run->exec_count = id + 1;
    exec[id] = culm_symbolic_new(&run->layout, &history->shape, run->pool, &run->store, world, 42);
    const struct culm_node_options options = {.id = id,
                                              .world = world,
                                              .exec = exec[id],
                                              .pool = run->pool,
                                              .layout = &run->layout,
                                              .shape = history->shape,
                                              .heartbeat_ms = history->cluster.heartbeat_ms};
    return exec[id] ? culm_node_new(&options) : NULL;
}

static void destroy_worker(void *context, int32_t id, void *actor) {
    (void)context;
    (void)id;
    culm_node_free(actor);
}

static bool build(struct running *run) {
    struct culm_history *history = run->history;
    if (culm_symbolic_layout_new(&history->shape, history->params_per_stage, &run->layout) !=
        CULM_OK) {
        return false;
    }
    run->pool = culm_pool_new(0);
    culm_symbolic_store_init(&run->store, history->seed, history->save_fail_percent);
    const struct culm_sim_options options = {
        .seed = history->seed,
        .latency_ns = history->latency_us * 1000,
        .jitter_ns = history->jitter_us * 1000,
        .job_ns = history->job_us * 1000,
        .io_ns = history->job_us * 5000,
        .spawn_ns = 30000000,
        .spawn_max = (int32_t)history->cluster.max_nodes,
        .worker = {run, &culm_node_actor, make_worker, destroy_worker},
        .coordinator_ops = &culm_coordinator_actor,
        .event = on_event,
        .event_context = run,
        .fault = on_fault_point,
        .log = history->log,
    };
    run->sim = culm_sim_new(&options);
    if (!run->pool || !run->sim) {
        return false;
    }
    struct culm_world *world = culm_sim_coordinator_world(run->sim);
    run->coordinator_exec =
        culm_symbolic_new(&run->layout, &history->shape, run->pool, &run->store, NULL, 42);
    const struct culm_coordinator_options coordinator = {.world = world,
                                                         .exec = run->coordinator_exec,
                                                         .layout = &run->layout,
                                                         .shape = history->shape,
                                                         .cluster = history->cluster,
                                                         .checkpoint = history->checkpoint,
                                                         .tokens_per_sample = 1,
                                                         .start_source = ""};
    run->coordinator = culm_coordinator_new(&coordinator);
    if (!run->coordinator_exec || !run->coordinator) {
        return false;
    }
    culm_sim_coordinator(run->sim, run->coordinator);
    return true;
}

static void tear_down(struct running *run) {
    culm_sim_free(run->sim);
    culm_coordinator_free(run->coordinator);
    culm_symbolic_free(run->coordinator_exec);
    for (int32_t i = 0; i < run->exec_count; i++) {
        culm_symbolic_free(run->exec[i]);
    }
    free(run->exec);
    culm_layout_release(&run->layout);
    culm_pool_free(run->pool);
}

static void play(struct running *run) {
    while (!run->complaint[0] && culm_sim_step(run->sim)) {
        timed_faults(run);
        uint64_t now = culm_sim_now(run->sim);
        uint64_t calm = run->last_fault_ns ? run->last_fault_ns : 1000000000;
        if (now > calm + LIMIT_MS * 1000000ull) {
            struct culm_coordinator_totals totals;
            culm_coordinator_totals(run->coordinator, &totals);
            complain(run,
                     "still not done %d s after the last fault; %lld steps committed, view %llu",
                     LIMIT_MS / 1000, (long long)totals.committed, (unsigned long long)totals.view);
        }
    }
    int exit_code = -1;
    const char *error = "";
    if (!culm_sim_left(run->sim, &exit_code, &error)) {
        complain(run, "nothing is left to happen and the run is not done");
    } else if (exit_code != 0 || !run->done) {
        complain(run, "the run ended with %d: %s", exit_code, error);
    }
}

/* The undisturbed run of the same shape: one pipeline, no redundancy, no faults, no failing disk.
 */
static bool reference(const struct culm_history *history, struct running *ret_run) {
    struct culm_history *calm = malloc(sizeof *calm);
    if (!calm) {
        return false;
    }
    *calm = *history;
    calm->shape.pipelines = 1;
    calm->shape.redundancy = CULM_REDUNDANCY_NONE;
    calm->fault_count = 0;
    calm->save_fail_percent = 0;
    calm->checkpoint.every = 0;
    calm->log = false;
    memset(ret_run, 0, sizeof *ret_run);
    ret_run->history = calm;
    if (build(ret_run)) {
        play(ret_run);
    }
    tear_down(ret_run);
    free(calm);
    return !ret_run->complaint[0] && ret_run->done;
}

static void judge(struct running *run, const struct running *calm) {
    if (strcmp(run->weights, calm->weights) != 0) {
        complain(run, "final weights %s differ from the undisturbed %s", run->weights,
                 calm->weights);
    }
    for (int64_t step = 1; step <= run->history->shape.steps && step < STEPS_MAX; step++) {
        if (strcmp(run->loss_bits[step], calm->loss_bits[step]) != 0) {
            complain(run, "loss of step %lld differs from the undisturbed", (long long)step);
        }
    }
    for (int32_t i = 0; i < run->history->fault_count && run->history->must_fire; i++) {
        if (!run->history->fault[i].fired) {
            complain(run, "fault %d never fired", i);
        }
    }
}

void culm_history_run(struct culm_history *history, struct culm_history_result *ret_result) {
    struct running *run = calloc(1, sizeof *run), *calm = calloc(1, sizeof *calm);
    struct culm_history_result result = {0};
    if (!run || !calm) {
        snprintf(result.why, sizeof result.why, "out of memory");
        goto out;
    }
    if (!reference(history, calm)) {
        snprintf(result.why, sizeof result.why, "the undisturbed run failed: %s", calm->complaint);
        goto out;
    }
    for (int32_t i = 0; i < history->fault_count; i++) {
        history->fault[i].fired = false;
    }
    run->history = history;
    if (build(run)) {
        play(run);
        if (!run->complaint[0]) {
            judge(run, calm);
        }
        struct culm_coordinator_totals totals;
        culm_coordinator_totals(run->coordinator, &totals);
        result.losses = totals.losses;
        result.recovered = totals.recovered;
        result.virtual_ms = (culm_sim_now(run->sim) - 1000000000) / 1000000;
    } else {
        complain(run, "out of memory");
    }
    result.rollbacks = run->rollbacks;
    result.views = run->views;
    for (int32_t i = 0; i < history->fault_count; i++) {
        result.faults_fired += history->fault[i].fired;
    }
    result.ok = !run->complaint[0];
    snprintf(result.why, sizeof result.why, "%s", run->complaint);
    tear_down(run);
out:
    free(run);
    free(calm);
    *ret_result = result;
}

/* --- from a seed --- */

void culm_history_from_seed(uint64_t seed, struct culm_history *ret_history) {
    uint64_t r = culm_rng_mix(seed, 0xC01);
    struct culm_history h = {.seed = seed};
#define PICK(n) ((int64_t)culm_rng_below(&r, (uint64_t)(n)))
    h.shape.pipelines = (int32_t)(1 + PICK(3));
    h.shape.stages = (int32_t)(1 + PICK(4));
    h.shape.lanes = h.shape.pipelines + (int32_t)PICK(4);
    h.shape.micros_per_lane = (int32_t)(1 + PICK(3));
    h.shape.micros = h.shape.lanes * h.shape.micros_per_lane;
    h.shape.micro_samples = 1 + PICK(3);
    h.shape.global_samples = h.shape.micros * h.shape.micro_samples;
    h.shape.steps = 2 + PICK(6);
    h.shape.redundancy = (enum culm_redundancy)PICK(3);
    h.shape.clip_norm = 1.0;
    h.cluster = (struct culm_cluster_config){.heartbeat_ms = 20,
                                             .suspect_ms = 200,
                                             .kill_suspect_ms = 400,
                                             .replace_ms = PICK(4) == 0 ? 0 : 5 + PICK(300),
                                             .join_ms = 200 + PICK(800),
                                             .wait_ms = 300000,
                                             .stuck_ms = 30000};
    h.cluster.max_nodes = h.shape.pipelines * h.shape.stages + PICK(3) + 1;
    h.checkpoint = (struct culm_checkpoint_config){.every = PICK(4), .keep = 2};
    h.params_per_stage = (int32_t)(1 + PICK(4));
    h.save_fail_percent = 0;
    h.latency_us = (uint64_t)(20 + PICK(500));
    h.jitter_us = (uint64_t)PICK(4000);
    h.job_us = (uint64_t)(200 + PICK(3000));
    h.fault_count = (int32_t)PICK(7);
    for (int32_t i = 0; i < h.fault_count; i++) {
        struct culm_history_fault *fault = &h.fault[i];
        fault->by_phase = PICK(3) > 0;
        fault->phase = (enum culm_phase)PICK(CULM_PHASE_COUNT);
        fault->step = 1 + PICK(h.shape.steps);
        fault->micro = -1;
        fault->node = PICK(2) ? -1 : (int32_t)PICK(h.shape.pipelines * h.shape.stages + 2);
        fault->at_ms = (uint64_t)(10 + PICK(600));
        fault->harm = PICK(4) == 0 ? CULM_HARM_FREEZE : CULM_HARM_KILL;
        fault->freeze_ms = PICK(3) == 0 ? 0 : (uint64_t)(1 + PICK(900));
        fault->with_neighbour = PICK(4) == 0;
    }
#undef PICK
    *ret_history = h;
}

void culm_history_describe(const struct culm_history *h, char *ret_text, size_t size) {
    static const char *const redundancy[] = {"none", "lazy", "eager"};
    snprintf(ret_text, size,
             "seed %llu: %d x %d, lanes %d x %d, %lld steps, %s, %d faults, checkpoint every %lld, "
             "replace after %lld ms",
             (unsigned long long)h->seed, h->shape.pipelines, h->shape.stages, h->shape.lanes,
             h->shape.micros_per_lane, (long long)h->shape.steps, redundancy[h->shape.redundancy],
             h->fault_count, (long long)h->checkpoint.every, (long long)h->cluster.replace_ms);
}
