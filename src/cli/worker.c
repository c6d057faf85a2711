/* One worker: plan, data, device, executor, node, and the real world around them. */
#include "cli/worker.h"

#include "base/file.h"

#include "cli/command.h"
#include "cli/fault.h"
#include "cli/version.h"
#include "cluster/worker.h"
#include "train/node.h"
#include "train/numeric.h"

#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARGUMENTS 6 /* worker DIR NODE PORT NAME FAULT_FD */

struct worker {
    struct culm_train_config config;
    char *config_text;
    char signature[CULM_SIGNATURE_SIZE];
    struct culm_plan *plan;
    struct culm_source *source;
    struct culm_cpu *cpu;
    struct culm_pool *pool;
    struct culm_worker_fault *faults;
    size_t fault_count;
    struct culm_worker *world;
    struct culm_exec *exec;
    struct culm_node *node;
};

void culm_signature(const struct culm_cpu *cpu, const struct culm_train_config *config,
                    char ret_text[CULM_SIGNATURE_SIZE]) {
    bool half = strcmp(config->precision, "bf16") == 0;
    snprintf(ret_text, CULM_SIGNATURE_SIZE, "culm-%s+%s/%s%s%s/glibc-%s/gcc-%s", CULM_VERSION,
             CULM_GIT, culm_cpu_signature(cpu), half ? "/bf16-" : "",
             half ? culm_cpu_bf16_flavour(cpu) : "", gnu_get_libc_version(), __VERSION__);
}

size_t culm_payload_max(const struct culm_plan *plan) {
    size_t most = 0;
    const struct culm_layout *layout = &plan->layout;
    for (int32_t s = 0; s < layout->stages; s++) {
        most = layout->stage[s].output_bytes > most ? layout->stage[s].output_bytes : most;
    }
    for (int32_t i = 0; i < layout->param_count; i++) {
        most = layout->param[i].state_bytes > most ? layout->param[i].state_bytes : most;
    }
    for (int32_t i = 0; i < layout->grad_count; i++) {
        most = layout->grad[i].size_bytes > most ? layout->grad[i].size_bytes : most;
    }
    return most;
}

static enum culm_status read_faults(struct worker *w, int argc, char **argv,
                                    struct culm_error *error) {
    w->faults = calloc((size_t)argc, sizeof *w->faults);
    if (!w->faults) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    for (int i = ARGUMENTS; i + 1 < argc; i += 2) {
        struct culm_fault_spec spec;
        enum culm_status status = culm_fault_parse(argv[i + 1], &spec, error);
        if (status != CULM_OK) {
            return status;
        }
        w->faults[w->fault_count++] =
            (struct culm_worker_fault){atoi(argv[i]), spec.point, spec.how};
    }
    return CULM_OK;
}

/* As the launcher made it: its choices are in the run directory. */
static enum culm_status make_plan(struct worker *w, const char *dir, struct culm_error *error) {
    struct culm_choices choices = {0};
    char path[CULM_PATH_MAX];
    enum culm_status status = culm_path_format(path, error, "%s/plan.json", dir);
    if (status == CULM_OK) {
        status = culm_choices_load(path, &choices, error);
    }
    if (status == CULM_OK) {
        status = culm_plan_new(&w->config, &choices, &w->plan, error);
    }
    culm_choices_release(&choices);
    return status;
}

static enum culm_status open_source(struct worker *w, struct culm_error *error) {
    struct culm_source_options options;
    culm_train_config_source(&w->config, false, &options);
    return culm_source_open(&options, &w->source, error);
}

static enum culm_status prepare(struct worker *w, const char *dir, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    enum culm_status status = culm_path_format(path, error, "%s/config.yaml", dir);
    if (status == CULM_OK) {
        status = culm_train_config_load(path, NULL, 0, &w->config, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    w->config_text = culm_train_config_dump(&w->config);
    if ((status = make_plan(w, dir, error)) || (status = open_source(w, error)) ||
        (status = culm_cpu_new((int)w->config.threads, &w->cpu, error))) {
        return status;
    }
    culm_signature(w->cpu, &w->config, w->signature);
    w->pool = culm_pool_new(w->plan->limit_bytes);
    return w->pool && w->config_text ? CULM_OK
                                     : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

static enum culm_status join(struct worker *w, char **argv, struct culm_error *error) {
    const char *token = getenv(CULM_TOKEN_VARIABLE);
    const struct culm_worker_options options = {
        .host = "127.0.0.1",
        .port = atoi(argv[3]),
        .token = token ? token : "",
        .node = atoi(argv[2]),
        .name = argv[4],
        .signature = w->signature,
        .pool = w->pool,
        .payload_max = culm_payload_max(w->plan),
        .fault_fd = atoi(argv[5]),
        .faults = w->faults,
        .fault_count = w->fault_count,
    };
    enum culm_status status = culm_worker_new(&options, &w->world, error);
    if (status != CULM_OK) {
        return status;
    }
    struct culm_world *world = culm_worker_world(w->world);
    const struct culm_numeric_options numeric = {
        .config = &w->config,
        .config_text = w->config_text,
        .signature = w->signature,
        .run_dir = argv[1],
        .plan = w->plan,
        .pool = w->pool,
        .world = world,
        .cpu = w->cpu,
        .source = w->source,
    };
    status = culm_numeric_new(&numeric, &w->exec, error);
    if (status != CULM_OK) {
        return status;
    }
    const struct culm_node_options node = {
        .id = options.node,
        .world = world,
        .exec = w->exec,
        .pool = w->pool,
        .layout = &w->plan->layout,
        .shape = w->plan->shape,
        .heartbeat_ms = w->config.cluster.heartbeat_ms,
    };
    w->node = culm_node_new(&node);
    return w->node ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

/* VmHWM of this process, for the log. */
static long peak_kb(void) {
    long kb = 0;
    char line[128];
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "VmHWM: %ld", &kb) == 1) {
            break;
        }
    }
    if (file) {
        fclose(file);
    }
    return kb;
}

static void print_memory(const struct worker *w) {
    struct culm_pool_stats stats;
    culm_pool_stats(w->pool, &stats);
    fprintf(stderr, "memory: blobs %.1f MB at most, process %.1f MB at most, %zu allocations\n",
            (double)stats.peak_bytes / 1e6, (double)peak_kb() / 1e3, stats.allocations);
}

int culm_cli_worker(int argc, char **argv) {
    struct worker w = {0};
    struct culm_error error = {0};
    int code;
    if (argc < ARGUMENTS) {
        culm_error_set(&error, CULM_ERR_ARGUMENT, "this command is for the launcher");
        return culm_cli_fail("worker", &error);
    }
    if (read_faults(&w, argc, argv, &error) || prepare(&w, argv[1], &error) ||
        join(&w, argv, &error)) {
        code = culm_cli_fail("worker", &error);
    } else {
        code = culm_worker_run(w.world, &culm_node_actor, w.node, &error);
        if (error.text[0]) {
            fprintf(stderr, "culm worker: %s\n", error.text);
        }
        print_memory(&w);
    }
    culm_node_free(w.node);
    culm_worker_free(w.world);
    culm_numeric_free(w.exec);
    culm_cpu_free(w.cpu);
    culm_source_free(w.source);
    culm_plan_free(w.plan);
    culm_pool_free(w.pool);
    free(w.faults);
    free(w.config_text);
    culm_train_config_release(&w.config);
    return code;
}
