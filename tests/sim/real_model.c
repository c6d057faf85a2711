/*
 * A tiny real model in the simulated world: the numeric executor under the protocol, with
 * checkpoints on disk.
 *
 *     real_model [--first SEED] [--count N]
 *
 * First the shapes: 1 x 1, 1 x 3, 2 x 3, 3 x 2, lanes 6 and 12, eager, lazy and none, 1 and 2
 * threads end with the same bits as one process. A worker that reads other samples ends the run.
 * Then seeded histories with workers killed and frozen at random points, one of them in a phase
 * that goes around with the seeds.
 */
#include "base/file.h"
#include "base/rng.h"
#include "pipeline/leader.h"
#include "pipeline/node.h"
#include "sim/sim.h"
#include "train/numeric.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct shape {
    int pipelines, stages, lanes, threads;
    const char *redundancy;
};

/* What happened in all histories: a test in which nothing happens proves nothing. */
struct happened {
    int64_t kills, freezes, losses, recovered, rollbacks, phase[CULM_PHASE_COUNT];
};

struct run {
    struct culm_train_config config;
    char *config_text;
    char dir[128];
    struct culm_network *network;
    struct culm_plan *plan;
    struct culm_source *source;
    struct culm_source *other; /* of other samples, for a worker that is to read them; NULL */
    int32_t astray;            /* that worker */
    struct culm_device *cpu;
    struct culm_blob_pool *pool;
    struct culm_sim *sim;
    struct culm_pipeline_leader *leader;
    struct culm_exec *leader_exec, *exec[256];
    int32_t execs;
    uint64_t random;
    int32_t faults_left, odds;
    int wanted; /* the phase that one of the faults is kept for; -1 */
    struct happened *happened;
    bool done;
    char weights[65], state[65], error[CULM_ERROR_MAX];
};

static const char *data_path;

static void on_event(void *context, json_t *event) {
    struct run *run = context;
    const char *name = json_string_value(json_object_get(event, "event"));
    if (strcmp(name, "done") == 0) {
        run->done = true;
        snprintf(run->weights, sizeof run->weights, "%s",
                 json_string_value(json_object_get(event, "weights_sha256")));
        snprintf(run->state, sizeof run->state, "%s",
                 json_string_value(json_object_get(event, "state_sha256")));
    } else if (strcmp(name, "rollback") == 0) {
        run->happened->rollbacks++;
    } else if (strcmp(name, "lost") == 0) {
        run->happened->losses++;
    } else if (strcmp(name, "recovered") == 0) {
        run->happened->recovered++;
    } else if (strcmp(name, "error") == 0) {
        snprintf(run->error, sizeof run->error, "%s",
                 json_string_value(json_object_get(event, "message")));
    }
}

static void on_fault_point(void *context, int32_t node, const struct culm_fault_point *point) {
    struct run *run = context;
    bool wanted = (int)point->phase == run->wanted && culm_rng_below(&run->random, 4) == 0;
    bool any = run->faults_left > (run->wanted >= 0) &&
               culm_rng_below(&run->random, (uint64_t)run->odds) == 0;
    if (run->faults_left == 0 || !(wanted || any)) {
        return;
    }
    run->wanted = wanted ? -1 : run->wanted;
    run->faults_left--;
    run->happened->phase[point->phase]++;
    if (culm_rng_below(&run->random, 4) == 0) {
        run->happened->freezes++;
        culm_sim_freeze(run->sim, node, (1 + culm_rng_below(&run->random, 500)) * 1000000);
    } else {
        run->happened->kills++;
        culm_sim_kill(run->sim, node);
    }
}

static void *make_worker(void *context, int32_t id, struct culm_world *world,
                         struct culm_blob_pool *pool) {
    struct run *run = context;
    struct culm_error error;
    const struct culm_numeric_options numeric = {
        .config = &run->config,
        .config_text = run->config_text,
        .signature = "simulated",
        .run_dir = run->dir,
        .network = run->network,
        .plan = run->plan,
        .pool = pool,
        .world = world,
        .device = run->cpu,
        .source = run->other && id == run->astray ? run->other : run->source};
    if (id >= 256 || culm_numeric_new(&numeric, &run->exec[id], &error) != CULM_OK) {
        return NULL;
    }
    run->execs = id + 1;
    const struct culm_node_options node = {.id = id,
                                           .world = world,
                                           .exec = run->exec[id],
                                           .pool = pool,
                                           .layout = &run->plan->layout,
                                           .shape = run->plan->shape,
                                           .heartbeat_ms = run->config.cluster.heartbeat_ms};
    return culm_node_new(&node);
}

static void destroy_worker(void *context, int32_t id, void *actor) {
    struct run *run = context;
    culm_node_free(actor);
    culm_numeric_free(run->exec[id]);
}

static bool prepare(struct run *run, const struct shape *shape, struct culm_error *error) {
    char text[1024];
    snprintf(text, sizeof text,
             "model: {arch: gpt2, layers: 3, width: 32, heads: 2, context: 16, vocab: 256, "
             "dropout: 0.1}\n"
             "data: {kind: text, path: %s}\n"
             "batch: {global: 24, micro: 2, lanes: %d}\n"
             "pipelines: %d\nstages: %d\nredundancy: %s\nthreads: %d\nsteps: 5\n"
             "checkpoint: {every: 2, keep: 2}\n"
             "cluster: {heartbeat_ms: 20, suspect_ms: 200, kill_suspect_ms: 400, replace_ms: 50, "
             "max_nodes: 12}\n"
             "schedule: {name: cosine, warmup: 2, min_lr: 1.0e-4}\n",
             data_path, shape->lanes, shape->pipelines, shape->stages, shape->redundancy,
             shape->threads);
    strcpy(run->dir, "/tmp/culm-real-model-XXXXXX");
    if (!mkdtemp(run->dir)) {
        return culm_error_set(error, CULM_ERR_IO, "no temporary directory") == CULM_OK;
    }
    if (culm_train_config_parse(text, strlen(text), "test", NULL, 0, &run->config, error)) {
        return false;
    }
    struct culm_source_options source;
    culm_train_config_source(&run->config, false, &source);
    if (culm_network_open(&run->config, &run->network, error) ||
        culm_plan_new(run->network, NULL, &run->plan, error) ||
        culm_source_open(&source, &run->source, error) ||
        culm_device_new(shape->threads, &run->cpu, error)) {
        return false;
    }
    run->config_text = culm_train_config_dump(&run->config);
    run->pool = culm_blob_pool_new(0);
    const struct culm_sim_options options = {
        .seed = run->random,
        .latency_ns = 100000,
        .jitter_ns = 1000000,
        .job_ns = 1000000,
        .io_ns = 5000000,
        .spawn_ns = 30000000,
        .spawn_max = 12,
        .role = {{run, &culm_node_actor, make_worker, destroy_worker}},
        .leader_ops = &culm_pipeline_leader_actor,
        .event = on_event,
        .event_context = run,
        .fault = on_fault_point,
    };
    run->sim = culm_sim_new(&options);
    const struct culm_numeric_options store = {.config = &run->config,
                                               .config_text = run->config_text,
                                               .signature = "simulated",
                                               .run_dir = run->dir,
                                               .plan = run->plan,
                                               .pool = run->pool};
    if (culm_numeric_new(&store, &run->leader_exec, error) != CULM_OK) {
        return false;
    }
    struct culm_pipeline_leader_options leader = {.world = culm_sim_leader_world(run->sim),
                                                  .agent = culm_sim_agent(run->sim),
                                                  .exec = run->leader_exec,
                                                  .layout = &run->plan->layout,
                                                  .shape = run->plan->shape,
                                                  .settings = culm_plan_settings(&run->config),
                                                  .tokens_per_sample =
                                                      run->config.model.options.context,
                                                  .start_source = ""};
    culm_order_init(&leader.order, run->config.seed, culm_source_samples(run->source));
    run->leader = culm_pipeline_leader_new(&leader);
    culm_sim_leader(run->sim, run->leader);
    return run->leader != NULL;
}

static void finish(struct run *run) {
    culm_sim_free(run->sim);
    culm_pipeline_leader_free(run->leader);
    culm_numeric_free(run->leader_exec);
    culm_device_free(run->cpu);
    culm_source_free(run->source);
    culm_source_free(run->other);
    culm_plan_free(run->plan);
    culm_network_close(run->network);
    culm_blob_pool_free(run->pool);
    free(run->config_text);
    culm_train_config_release(&run->config);
    (void)culm_tree_remove(NULL, run->dir, NULL);
}

/* Runs one history; true when it is done with these hashes (NULL: any, which are then given back).
 */
static bool play(const struct shape *shape, uint64_t seed, int32_t faults, char weights[65],
                 char state[65], struct happened *happened) {
    struct run *run = calloc(1, sizeof *run);
    struct culm_error error = {0};
    run->random = culm_rng_mix(seed, 77);
    run->faults_left = faults;
    run->happened = happened;
    run->wanted = faults ? (int)(seed % CULM_PHASE_COUNT) : -1;
    run->odds = 400;
    bool ok = prepare(run, shape, &error);
    if (!ok) {
        printf("not ok - %s\n", error.text);
        free(run);
        return false;
    }
    while (culm_sim_now(run->sim) < 400000000000ull && culm_sim_step(run->sim)) {
    }
    ok = run->done;
    if (ok && weights[0]) {
        ok = strcmp(weights, run->weights) == 0 && strcmp(state, run->state) == 0;
    } else if (ok) {
        memcpy(weights, run->weights, 65);
        memcpy(state, run->state, 65);
    }
    if (!ok) {
        printf("not ok - %d x %d, lanes %d, %s, %d threads, seed %llu: %s\n", shape->pipelines,
               shape->stages, shape->lanes, shape->redundancy, shape->threads,
               (unsigned long long)seed,
               run->done       ? "other bits"
               : run->error[0] ? run->error
                               : "did not end");
    }
    finish(run);
    free(run);
    return ok;
}

/* Floors, at about half of what seeds give. */
static bool enough(const struct happened *happened, int64_t count) {
    bool all = happened->kills >= count && happened->freezes >= count / 4 &&
               happened->losses >= count && happened->recovered >= count &&
               happened->rollbacks >= count / 25;
    for (int phase = 0; phase < CULM_PHASE_COUNT; phase++) {
        if (happened->phase[phase] == 0) {
            printf("nothing befell anyone in phase %d\n", phase);
            all = false;
        }
    }
    if (!all) {
        printf("too little happened\n");
    }
    return all;
}

/* One worker's data has fewer samples, so its order is another: the run must end and say so. */
static bool stray(const struct shape *shape, int32_t worker) {
    struct run *run = calloc(1, sizeof *run);
    struct happened happened = {0};
    struct culm_error error = {0};
    struct culm_source_options source;
    run->happened = &happened;
    run->wanted = -1;
    run->astray = worker;
    bool ok = prepare(run, shape, &error);
    if (ok) {
        culm_train_config_source(&run->config, false, &source);
        source.held_out = 0.4;
        ok = culm_source_open(&source, &run->other, &error) == CULM_OK;
    }
    while (ok && culm_sim_now(run->sim) < 400000000000ull && culm_sim_step(run->sim)) {
    }
    ok = ok && !run->done && strstr(run->error, "has not read the samples whose turn it was");
    if (!ok) {
        printf("not ok - %d x %d, worker %d reads other samples: %s\n", shape->pipelines,
               shape->stages, worker, run->done ? "nobody noticed" : run->error);
    }
    finish(run);
    free(run);
    return ok;
}

static const char *make_data(void) {
    static char path[] = "/tmp/culm-real-model-text-XXXXXX";
    int fd = mkstemp(path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    uint64_t random = 3;
    for (int i = 0; file && i < 4000; i++) {
        fputc("the quick brown fox, again "[culm_rng_below(&random, 27)], file);
    }
    return file && fclose(file) == 0 ? path : NULL;
}

int main(int argc, char **argv) {
    uint64_t first = 1, count = 50;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--first") == 0) {
            first = strtoull(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--count") == 0) {
            count = strtoull(argv[i + 1], NULL, 10);
        }
    }
    static const struct shape shapes[] = {
        {1, 1, 6, 1, "none"},  {1, 1, 6, 2, "eager"},  {1, 3, 6, 1, "eager"}, {2, 3, 6, 1, "eager"},
        {2, 3, 6, 1, "lazy"},  {2, 3, 6, 2, "none"},   {3, 2, 6, 1, "eager"}, {3, 2, 6, 1, "none"},
        {1, 1, 12, 1, "none"}, {3, 2, 12, 1, "eager"}, {2, 3, 12, 2, "lazy"},
    };
    data_path = make_data();
    if (!data_path) {
        return 1;
    }
    char weights[2][65] = {"", ""}, state[2][65] = {"", ""};
    uint64_t failed = 0, ran = 0;
    struct happened happened = {0};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++, ran++) {
        int which = shapes[i].lanes == 12;
        failed += !play(&shapes[i], 1, 0, weights[which], state[which], &happened);
    }
    for (uint64_t i = 0; i < count; i++, ran++) {
        const struct shape *shape = &shapes[2 + (first + i) % 6];
        if (!play(shape, first + i, 4, weights[0], state[0], &happened)) {
            printf("    replay: real_model --first %llu --count 1\n",
                   (unsigned long long)(first + i));
            failed++;
        }
    }
    static const int32_t astray[] = {0, 2, 3, 5}; /* of 2 x 3: they read tokens, or targets */
    for (size_t i = 0; i < sizeof astray / sizeof *astray; i++, ran++) {
        failed += !stray(&shapes[3], astray[i]);
    }
    unlink(data_path);
    printf("%llu histories of a real model, %llu failed; %lld killed, %lld frozen, %lld losses, "
           "%lld recoveries, %lld roll-backs\n",
           (unsigned long long)ran, (unsigned long long)failed, (long long)happened.kills,
           (long long)happened.freezes, (long long)happened.losses, (long long)happened.recovered,
           (long long)happened.rollbacks);
    if (count >= 50 && !enough(&happened, (int64_t)count)) {
        failed++;
    }
    return failed ? 1 : 0;
}
