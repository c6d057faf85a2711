/*
 * `culm train`: everything that can be wrong is found here, before a file is written or a process
 * started; then it is run. What it says on the way is printed here.
 */
#include "cli/cluster.h"
#include "cli/command.h"
#include "report/sink.h"
#include "report/training.h"
#include "run/launches.h"
#include "run/references.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct values {
    struct culm_cli_launching l;
    const char *plan;
};

static const struct culm_option option_rows[] = {
    CULM_CLI_OPTIONS_OF_RUN(struct values, l),
    CULM_OPTION("accept-inputs", FLAG, NULL, struct values, l.accept_inputs,
                "with --resume: accepts data and model files that have changed"),
    CULM_OPTION("plan", TEXT, "FILE", struct values, plan,
                "uses the plan of another run (its plan.json)"),
    CULM_OPTION(
        "listen", TEXT, "ADDR:PORT", struct values, l.listen,
        "lets workers that have the token join at this address ('culm node'); :PORT: at all of "
        "this machine"),
    CULM_CLI_OPTIONS_OF_OTHERS(struct values, l),
    CULM_OPTION("workers", COUNT, "N", struct values, l.workers,
                "with --listen: how many workers there are on this machine, at most (default: all "
                "that the configuration asks for; 0: none); with --cluster: how many this machine "
                "brings (default: none)"),
    CULM_OPTION("fault", LIST, "SPEC", struct values, l.faults,
                "makes a worker fail; repeatable, see below"),
    CULM_CLI_OPTIONS_OF_TRACE(struct values, l),
};

static char *remark(void) {
    return culm_cli_resume_remark(culm_config_resumable_keys(), culm_config_setting_keys());
}

const struct culm_usage culm_usage_train = {
    .command = "train",
    .arguments = "CONFIG.yaml",
    .min_arguments = 1,
    .max_arguments = 1,
    .summary = "Trains a model in worker processes that may be killed at any time",
    .options = option_rows,
    .option_count = sizeof option_rows / sizeof *option_rows,
    .remark = remark,
    .details =
        "A fault is "
        "worker=K,step=S[,micro=M][,phase=P][,how=kill|stop|exit|stuck|flip][,for_ms=N].\n"
        "The phases are load, forward, backward, frc, send, reduce, commit, step, transfer and\n"
        "checkpoint. With --cluster it is leader,step=S[,phase=P][,how=kill|stop][,for_ms=N], of "
        "the "
        "first\n"
        "process here that leads; its phases are prepared, commit, view, take_over, save, publish "
        "and\n"
        "transaction. A trace has lines 'milliseconds,add|remove,nodeK'.\n\n"
        "The exit code is 0 for done, 1 for failed, 2 for wrong usage, 3 for a wrong configuration "
        "or\n"
        "input, 4 for a problem of the environment, and 75 for a run that was stopped by a signal "
        "and\n"
        "can be resumed. 'culm help config' lists every key.\n",
};

struct train {
    struct values values; /* first: see `body` */
    struct culm_config *config;
    char out_dir[CULM_PATH_MAX];
    struct culm_sink *sink;
    struct culm_training *training;
};

/* --- what is printed --- */

static void warn(void *ctx, const char *text) {
    (void)ctx;
    fprintf(stderr, "culm train: warning: %s\n", text);
}

static void print_plan(const struct train *t, const char *json) {
    const struct culm_training_shape shape = culm_training_shape_of(t->training);
    json_t *plan = json_loads(json, 0, NULL), *stages = json_object_get(plan, "stages"), *stage;
    size_t s;
    if (t->values.l.json) {
        puts(json);
        json_decref(plan);
        return;
    }
    printf(
        "%s: %lld parameters, %lld pipeline%s of %lld stage%s, %lld lane%s of %lld micro-batch%s, "
        "redundancy %s\n",
        shape.arch, (long long)culm_event_int(plan, "parameters", 0), (long long)shape.pipelines,
        shape.pipelines == 1 ? "" : "s", (long long)shape.stages, shape.stages == 1 ? "" : "s",
        (long long)shape.lanes, shape.lanes == 1 ? "" : "s", (long long)shape.micros_per_lane,
        shape.micros_per_lane == 1 ? "" : "es", shape.redundancy);
    const char *end = culm_event_text(plan, "ends_in", NULL);
    if (end) {
        printf("the model ends in a %s: the loss is computed from what enters it\n", end);
    }
    json_array_foreach(stages, s, stage) {
        printf("stage %zu: blocks %lld to %lld, %lld parameters, %.1f MFLOP a micro-batch, %.1f MB "
               "a node\n",
               s, (long long)culm_event_int(stage, "first", 0),
               (long long)culm_event_int(stage, "last", 0),
               (long long)culm_event_int(stage, "params", 0),
               culm_event_real(stage, "flops", 0) / 1e6,
               (double)culm_event_int(stage, "memory_bytes", 0) / 1e6);
    }
    if (shape.stages == 1 && shape.redundant) {
        printf("with one stage there are no shadows: the other pipelines have the copies\n");
    }
    json_decref(plan);
}

static int dry_run(struct train *t) {
    struct culm_error error = {0};
    const char *json = NULL;
    enum culm_status status = culm_training_plan(t->training, &json, &error);
    if (json) {
        print_plan(t, json);
    }
    return status == CULM_OK ? 0 : culm_cli_fail("train", &error);
}

/* --- running --- */

static int go(void *job, struct culm_error *ret_error) { return culm_training_go(job, ret_error); }

static void stop(void *job) { culm_training_stop(job); }

static void end_now(void *job) { culm_training_abort(job); }

static bool fired(void *job, size_t fault) { return culm_training_fired(job, fault); }

static const struct culm_summary *summary(void *job) { return culm_training_summary(job); }

static struct culm_terminal_options terminal_of(const struct train *t) {
    return culm_terminal_options_of(STDOUT_FILENO, culm_terminal_training,
                                    culm_training_shape_of(t->training).steps);
}

static enum culm_status create(void *job, const char *store, const char *name,
                               const char *token_file, bool resume, struct culm_error *error) {
    struct train *t = job;
    const enum culm_status status =
        culm_training_create(t->training, store, name, token_file, resume, error);
    culm_training_free(t->training);
    t->training = NULL;
    return status;
}

static int run(struct train *t) {
    const struct culm_cli_launching *v = &t->values.l;
    const struct culm_cli_cluster cluster = {
        .command = "train",
        .values = v,
        .dir = t->out_dir,
        .terminal = terminal_of(t),
        .workers = v->workers == CULM_CLI_WORKERS_FREE ? 0 : (int32_t)v->workers,
        .create = create,
        .job = t};
    if (v->cluster) {
        return culm_cli_cluster_run(&cluster);
    }
    const struct culm_cli_job run = {.command = "train",
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

/* --- the command line --- */

static enum culm_status open_sink(struct train *t, struct culm_error *error) {
    const struct culm_terminal_options terminal = terminal_of(t);
    const bool json = t->values.l.json;
    if (t->values.l.cluster) {
        return CULM_OK; /* whoever leads opens its own */
    }
    enum culm_status status = culm_cli_open_sink(json, &terminal, &t->sink, error);
    culm_training_watch(t->training, json ? t->sink : NULL, json ? NULL : t->sink);
    return status;
}

static enum culm_status prepare(struct train *t, const char *config_path,
                                struct culm_error *error) {
    const struct culm_cli_launching *v = &t->values.l;
    enum culm_status status =
        culm_cli_launching_open(v, config_path, t->out_dir, &t->config, error);
    if (status == CULM_OK) {
        status = culm_cli_cluster_check(v, t->out_dir, true, error);
    }
    const struct culm_training_options options = {
        .size = sizeof options,
        .dir = t->out_dir,
        .resume = v->resume && !v->cluster, /* there the store says what there is */
        .program = "/proc/self/exe",
        .plan = t->values.plan,
        .warning = warn,
        .accept_inputs = v->accept_inputs,
        .from_start = v->from_start,
        .listen = v->cluster ? NULL : v->listen,
        .advertise = v->cluster ? NULL : v->advertise,
        .token_file = v->cluster ? NULL : v->token_file,
        .insecure = v->insecure,
        .limit_workers = v->workers != CULM_CLI_WORKERS_FREE && !v->cluster,
        .workers = v->workers,
    };
    const struct culm_launch_extras extras = culm_cli_launching_extras(v);
    if (status == CULM_OK) {
        status = culm_training_make(t->config, &options, &extras, &t->training, error);
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
    culm_training_free(t->training);
    culm_sink_free(t->sink);
    culm_config_free(t->config);
    return status;
}

int culm_cli_train(int argc, char **argv) {
    struct train t = {.values.l.workers = CULM_CLI_WORKERS_FREE};
    return culm_cli_run(&culm_usage_train, argc, argv, &t, body);
}
