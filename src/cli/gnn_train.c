/*
 * `culm gnn train`: parses options, prints the plan (`--dry-run`) or the run's progress. The checks
 * and the run are in culm/gnn.h.
 */
#include "base/file.h"
#include "cli/command.h"
#include "cli/launching.h"
#include "report/gnn.h"
#include "report/sink.h"
#include "run/launches.h"
#include "run/references.h"

#include <culm/gnn.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct values {
    struct culm_option_list sets, faults;
    const char *out, *plan, *partition, *trace, *listen, *advertise, *token_file;
    double time_scale;
    bool resume, accept_inputs, from_start, dry_run, json, insecure;
};

static const struct culm_option option_rows[] = {
    CULM_OPTION("set", LIST, "key.sub=value", struct values, sets,
                "changes a key of the configuration; repeatable"),
    CULM_OPTION("out", TEXT, "DIR", struct values, out,
                "run directory (default: runs/<config name>)"),
    CULM_OPTION("resume", FLAG, NULL, struct values, resume, "continues the run in DIR"),
    CULM_OPTION("accept-inputs", FLAG, NULL, struct values, accept_inputs,
                "with --resume: accepts files of the graph that have changed"),
    CULM_OPTION("from-start", FLAG, NULL, struct values, from_start,
                "with --resume: begins anew if all checkpoints are gone"),
    CULM_OPTION("plan", TEXT, "FILE", struct values, plan,
                "takes the cut of another run (its plan.json)"),
    CULM_OPTION("partition", TEXT, "FILE", struct values, partition,
                "takes the intervals from a file, as 'gnn partition --out' writes it"),
    CULM_OPTION("dry-run", FLAG, NULL, struct values, dry_run,
                "prints the plan and ends; writes nothing"),
    CULM_OPTION("json", FLAG, NULL, struct values, json,
                "prints the events as JSON lines, and nothing else"),
    CULM_OPTION("listen", TEXT, "ADDR:PORT", struct values, listen,
                "lets servers and workers that have the token join at this address"),
    CULM_OPTION("advertise", TEXT, "ADDR:PORT", struct values, advertise,
                "the address that they connect to, if it is another one"),
    CULM_OPTION(
        "token-file", TEXT, "FILE", struct values, token_file,
        "the token that they have, of 'culm keys new' (default: one is drawn into DIR/token)"),
    CULM_OPTION("insecure", FLAG, NULL, struct values, insecure,
                "encrypts nothing between machines, for a network that is private"),
    CULM_OPTION("fault", LIST, "SPEC", struct values, faults,
                "makes a node fail; repeatable, see below"),
    CULM_OPTION("preempt-trace", TEXT, "FILE", struct values, trace,
                "starts and kills workers as the trace says"),
    CULM_OPTION("time-scale", REAL, "X", struct values, time_scale,
                "plays the trace X times as fast"),
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
    if (t->values.json) {
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

static int run(struct train *t) {
    const struct culm_cli_job run = {.command = "gnn train",
                                     .dir = t->out_dir,
                                     .json = t->values.json,
                                     .faults = &t->values.faults,
                                     .job = t->training,
                                     .go = go,
                                     .stop = stop,
                                     .abort = end_now,
                                     .fired = fired,
                                     .summary = summary};
    return culm_cli_launch(&run, &t->sink);
}

static enum culm_status open_sink(struct train *t, struct culm_error *error) {
    const struct culm_terminal_options terminal = culm_terminal_options_of(
        STDOUT_FILENO, culm_terminal_gnn, culm_gnn_training_epochs(t->training));
    bool json = t->values.json;
    enum culm_status status = culm_cli_open_sink(json, &terminal, &t->sink, error);
    culm_gnn_training_watch(t->training, json ? t->sink : NULL, json ? NULL : t->sink);
    return status;
}

static enum culm_status prepare(struct train *t, const char *config_path,
                                struct culm_error *error) {
    const struct values *v = &t->values;
    if (v->time_scale > 0 && !v->trace) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "--time-scale means nothing without --preempt-trace FILE");
    }
    enum culm_status status = v->out ? culm_path_format(t->out_dir, error, "%s", v->out)
                                     : culm_cli_default_out(config_path, t->out_dir, error);
    if (status == CULM_OK) {
        status = culm_config_open(config_path, &t->config, error);
    }
    for (size_t i = 0; i < v->sets.count && status == CULM_OK; i++) {
        status = culm_config_add(t->config, v->sets.items[i], error);
    }
    const struct culm_gnn_training_options options = {
        .size = sizeof options,
        .dir = t->out_dir,
        .resume = v->resume,
        .accept_inputs = v->accept_inputs,
        .from_start = v->from_start,
        .insecure = v->insecure,
        .program = "/proc/self/exe",
        .plan = v->plan,
        .partition = v->partition,
        .listen = v->listen,
        .advertise = v->advertise,
        .token_file = v->token_file,
        .warning = warn,
    };
    const struct culm_launch_extras extras = {
        .faults = v->faults.items,
        .fault_count = v->faults.count,
        .trace_path = v->trace,
        .time_scale = v->time_scale,
        .dry = v->dry_run,
    };
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
        *ret_code = t->values.dry_run ? dry_run(t) : run(t);
    }
    culm_gnn_training_free(t->training);
    culm_config_free(t->config);
    culm_sink_free(t->sink);
    return status;
}

int culm_cli_gnn_train(int argc, char **argv) {
    struct train t = {0};
    return culm_cli_run(&culm_usage_gnn_train, argc, argv, &t, body);
}
