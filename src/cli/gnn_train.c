/*
 * `culm gnn train`: parses options, prints the plan (`--dry-run`) or the run's progress. The checks
 * and the run are in culm/gnn.h.
 */
#include "cli/cluster.h"
#include "cli/command.h"
#include "report/gnn.h"
#include "report/sink.h"
#include "run/launches.h"
#include "run/node.h"
#include "run/references.h"

#include <culm/gnn.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct values {
    struct culm_cli_launching l;
    const char *plan, *partition;
};

static const struct culm_option option_rows[] = {
    CULM_CLI_OPTIONS_OF_RUN(struct values, l),
    CULM_OPTION("accept-inputs", FLAG, NULL, struct values, l.accept_inputs,
                "with --resume: accepts files of the graph that have changed"),
    CULM_OPTION("plan", TEXT, "FILE", struct values, plan,
                "takes the cut of another run (its plan.json)"),
    CULM_OPTION("partition", TEXT, "FILE", struct values, partition,
                "takes the intervals from a file, as 'gnn partition --out' writes it"),
    CULM_OPTION("listen", TEXT, "ADDR:PORT", struct values, l.listen,
                "lets nodes that have the token join at this address ('culm node --role')"),
    CULM_CLI_OPTIONS_OF_OTHERS(struct values, l),
    CULM_OPTION("workers", COUNT, "N", struct values, l.workers,
                "with --listen: how many nodes of each role there are on this machine, at most "
                "(default: all that the configuration asks for; 0: none); with --cluster: how many "
                "this machine brings (default: none)"),
    CULM_OPTION("fault", LIST, "SPEC", struct values, l.faults,
                "makes a node fail; repeatable, see below"),
    CULM_CLI_OPTIONS_OF_TRACE(struct values, l),
};

static char *remark(void) {
    return culm_cli_resume_remark(culm_gnn_resumable_keys(), culm_gnn_setting_keys());
}

const struct culm_usage culm_usage_gnn_train = {
    .command = "gnn train",
    .arguments = "CONFIG.yaml",
    .min_arguments = 1,
    .max_arguments = 1,
    .summary = "Trains a graph network with servers, parameter servers and workers",
    .options = option_rows,
    .option_count = sizeof option_rows / sizeof *option_rows,
    .remark = remark,
    .details =
        "A fault is "
        "node=ROLE:K,epoch=E[,interval=I][,phase=P][,how=kill|stop|exit|stuck][,for_ms=N].\n"
        "The roles are server, parameter and worker; the phases are load, gather, scatter, apply,\n"
        "edge, push-gradient, push-rows, update, commit and checkpoint; only servers\n"
        "reach edge, with arch: gat. A trace has lines 'milliseconds,add|remove,NAME'; while "
        "there\n"
        "is no worker, servers do the work.\n\n"
        "The exit code is 0 for done, 1 for failed, 2 for wrong usage, 3 for a wrong configuration "
        "or\n"
        "input, 4 for a problem of the environment, and 75 for a run that was stopped by a signal "
        "and\n"
        "can be resumed. 'culm help config gnn' lists every key.\n",
};

struct train {
    struct values values; /* first: see `body` */
    struct culm_config *config;
    char out_dir[CULM_PATH_MAX];
    struct culm_sink *sink;
    struct culm_gnn_training *training;
    uint32_t roles[CULM_NODE_WORKERS_MAX]; /* with --cluster: of the processes here */
};

static void warn(void *ctx, const char *text) {
    (void)ctx;
    fprintf(stderr, "culm gnn train: warning: %s\n", text);
}

static void print_plan(const json_t *plan) {
    const json_t *order = json_object_get(plan, "multiply_first");
    printf("%lld parameters; %lld vertices and %lld edges in %lld interval%s\n",
           (long long)culm_event_int(plan, "parameters", 0),
           (long long)culm_event_int(plan, "vertices", 0),
           (long long)culm_event_int(plan, "edges", 0),
           (long long)culm_event_int(plan, "intervals", 0),
           culm_event_int(plan, "intervals", 0) == 1 ? "" : "s");
    printf("servers: %lld, parameter servers: %lld, workers: %lld; edges cut: %lld, ghost rows: "
           "%lld\n",
           (long long)culm_event_int(plan, "servers", 0),
           (long long)culm_event_int(plan, "parameter_servers", 0),
           (long long)culm_event_int(plan, "workers", 0),
           (long long)culm_event_int(plan, "cut_edges", 0),
           (long long)culm_event_int(plan, "ghosts", 0));
    printf("memory of all servers together: about %.1f MB\n",
           (double)culm_event_int(plan, "memory_bytes", 0) / 1e6);
    printf("layers:");
    for (size_t l = 0; l < json_array_size(order); l++) {
        bool multiplies = json_is_true(json_array_get(order, l));
        bool kept = l == 0 && json_is_true(json_object_get(plan, "aggregated"));
        printf(" %s", multiplies ? "multiply, then gather" : kept ? "gathered once" : "gather");
        printf(l + 1 < json_array_size(order) ? ";" : "\n");
    }
}

static int dry_run(struct train *t) {
    struct culm_error error = {0};
    const char *json = NULL;
    enum culm_status status = culm_gnn_training_plan(t->training, &json, &error);
    if (status != CULM_OK) {
        return culm_cli_fail("gnn train", &error);
    }
    if (t->values.l.json) {
        puts(json);
    } else {
        json_t *plan = json_loads(json, 0, NULL);
        print_plan(plan);
        json_decref(plan);
    }
    return 0;
}

static int go(void *job, struct culm_error *ret_error) {
    return culm_gnn_training_go(job, ret_error);
}

static void stop(void *job) { culm_gnn_training_stop(job); }

static void end_now(void *job) { culm_gnn_training_abort(job); }

static bool fired(void *job, size_t fault) { return culm_gnn_training_fired(job, fault); }

static const struct culm_summary *summary(void *job) { return culm_gnn_training_summary(job); }

static struct culm_terminal_options terminal_of(const struct train *t) {
    return culm_terminal_options_of(STDOUT_FILENO, culm_terminal_gnn,
                                    culm_gnn_training_epochs(t->training));
}

static enum culm_status create(void *job, const char *store, const char *name,
                               const char *token_file, bool resume, struct culm_error *error) {
    struct train *t = job;
    const enum culm_status status =
        culm_gnn_training_create(t->training, store, name, token_file, resume, error);
    culm_gnn_training_free(t->training);
    t->training = NULL;
    return status;
}

static int run_cluster(struct train *t) {
    const struct culm_cli_launching *v = &t->values.l;
    const int64_t most = v->workers == CULM_CLI_WORKERS_FREE ? 0 : v->workers;
    const struct culm_cli_cluster cluster = {
        .command = "gnn train",
        .values = v,
        .dir = t->out_dir,
        .terminal = terminal_of(t),
        .workers = culm_gnn_training_roles(t->training, most, t->roles, CULM_NODE_WORKERS_MAX),
        .roles = t->roles,
        .create = create,
        .job = t};
    return culm_cli_cluster_run(&cluster);
}

static int run(struct train *t) {
    if (t->values.l.cluster) {
        return run_cluster(t);
    }
    const struct culm_cli_job run = {.command = "gnn train",
                                     .dir = t->out_dir,
                                     .json = t->values.l.json,
                                     .faults = &t->values.l.faults,
                                     .job = t->training,
                                     .go = go,
                                     .stop = stop,
                                     .abort = end_now,
                                     .fired = fired,
                                     .summary = summary};
    return culm_cli_launch(&run, &t->sink);
}

static enum culm_status open_sink(struct train *t, struct culm_error *error) {
    const struct culm_terminal_options terminal = terminal_of(t);
    bool json = t->values.l.json;
    if (t->values.l.cluster) {
        return CULM_OK; /* whoever leads opens its own */
    }
    enum culm_status status = culm_cli_open_sink(json, &terminal, &t->sink, error);
    culm_gnn_training_watch(t->training, json ? t->sink : NULL, json ? NULL : t->sink);
    return status;
}

static enum culm_status prepare(struct train *t, const char *config_path,
                                struct culm_error *error) {
    const struct culm_cli_launching *v = &t->values.l;
    enum culm_status status =
        culm_cli_launching_open(v, config_path, t->out_dir, &t->config, error);
    if (status == CULM_OK) {
        status = culm_cli_cluster_check(v, t->out_dir, false, error);
    }
    const struct culm_gnn_training_options options = {
        .size = sizeof options,
        .dir = t->out_dir,
        .resume = v->resume && !v->cluster, /* there the store says what there is */
        .accept_inputs = v->accept_inputs,
        .from_start = v->from_start,
        .insecure = v->insecure,
        .program = "/proc/self/exe",
        .plan = t->values.plan,
        .partition = t->values.partition,
        .listen = v->cluster ? NULL : v->listen,
        .advertise = v->cluster ? NULL : v->advertise,
        .token_file = v->cluster ? NULL : v->token_file,
        .warning = warn,
        .limit_workers = v->workers != CULM_CLI_WORKERS_FREE && !v->cluster,
        .workers = v->workers,
    };
    const struct culm_launch_extras extras = culm_cli_launching_extras(v);
    if (status == CULM_OK) {
        status = culm_gnn_training_make(t->config, &options, &extras, &t->training, error);
    }
    return status == CULM_OK ? open_sink(t, error) : status;
}

static enum culm_status body(const struct culm_arguments *arguments, void *values, int *ret_code,
                             struct culm_error *error) {
    struct train *t = values; /* they are its first member */
    enum culm_status status = prepare(t, arguments->items[0], error);
    if (status == CULM_OK) {
        *ret_code = t->values.l.dry_run ? dry_run(t) : run(t);
    }
    culm_gnn_training_free(t->training);
    culm_config_free(t->config);
    culm_sink_free(t->sink);
    return status;
}

int culm_cli_gnn_train(int argc, char **argv) {
    struct train t = {.values.l.workers = CULM_CLI_WORKERS_FREE};
    return culm_cli_run(&culm_usage_gnn_train, argc, argv, &t, body);
}
