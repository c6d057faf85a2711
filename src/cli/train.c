/*
 * `culm train`: everything that can be wrong is found here, before a file is written or a process
 * started; then it is run. What it says on the way is printed here.
 */
#include "base/file.h"
#include "cli/command.h"
#include "cli/launching.h"
#include "report/sink.h"
#include "report/training.h"
#include "run/launches.h"
#include "run/node.h"
#include "run/references.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORKERS_FREE INT64_MIN

struct values {
    struct culm_option_list sets, faults;
    const char *out, *plan, *trace, *listen, *advertise, *token_file, *cluster, *name;
    double time_scale;
    int64_t workers; /* WORKERS_FREE: not given */
    bool resume, accept_inputs, from_start, dry_run, json, insecure, detach;
};

static const struct culm_option option_rows[] = {
    CULM_OPTION("set", LIST, "key.sub=value", struct values, sets,
                "changes a key of the configuration; repeatable"),
    CULM_OPTION("out", TEXT, "DIR", struct values, out,
                "run directory (default: runs/<config name>)"),
    CULM_OPTION("resume", FLAG, NULL, struct values, resume, "continues the run in DIR"),
    CULM_OPTION("accept-inputs", FLAG, NULL, struct values, accept_inputs,
                "with --resume: accepts data and model files that have changed"),
    CULM_OPTION("from-start", FLAG, NULL, struct values, from_start,
                "with --resume: begins anew if all checkpoints are gone"),
    CULM_OPTION("plan", TEXT, "FILE", struct values, plan,
                "uses the plan of another run (its plan.json)"),
    CULM_OPTION("dry-run", FLAG, NULL, struct values, dry_run,
                "prints the plan and ends; writes nothing"),
    CULM_OPTION("json", FLAG, NULL, struct values, json,
                "prints the events as JSON lines, and nothing else"),
    CULM_OPTION(
        "listen", TEXT, "ADDR:PORT", struct values, listen,
        "lets workers that have the token join at this address ('culm node'); :PORT: at all of "
        "this machine"),
    CULM_OPTION("advertise", TEXT, "ADDR:PORT", struct values, advertise,
                "the address that they connect to, if it is another one"),
    CULM_OPTION(
        "token-file", TEXT, "FILE", struct values, token_file,
        "the token that they have, of 'culm keys new' (default: one is drawn into DIR/token)"),
    CULM_OPTION("cluster", TEXT, "etcd://HOST:PORT", struct values, cluster,
                "creates a run that no machine has to stay for, at this store of keys "
                "(etcd://H1:P,H2:P,...), and follows it; 'culm node' joins it"),
    CULM_OPTION("name", TEXT, "RUN", struct values, name,
                "with --cluster: the run's name (default: the last part of DIR)"),
    CULM_OPTION("detach", FLAG, NULL, struct values, detach,
                "with --cluster: ends once somebody leads the run; what goes on here prints to "
                "DIR/agent.log"),
    CULM_OPTION("insecure", FLAG, NULL, struct values, insecure,
                "encrypts nothing between machines, for a network that is private"),
    CULM_OPTION("workers", COUNT, "N", struct values, workers,
                "with --listen: how many workers there are on this machine, at most (default: all "
                "that the configuration asks for; 0: none)"),
    CULM_OPTION("fault", LIST, "SPEC", struct values, faults,
                "makes a worker fail; repeatable, see below"),
    CULM_OPTION("preempt-trace", TEXT, "FILE", struct values, trace,
                "starts and kills workers as the trace says"),
    CULM_OPTION("time-scale", REAL, "X", struct values, time_scale,
                "plays the trace X times as fast"),
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
    int64_t steps; /* with --cluster, where the training is gone by then */
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
    if (t->values.json) {
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

static enum culm_status open_sink_of(const struct train *t, int64_t steps,
                                     struct culm_sink **ret_sink, struct culm_error *error) {
    const struct culm_terminal_options terminal =
        culm_terminal_options_of(STDOUT_FILENO, culm_terminal_training, steps);
    return culm_cli_open_sink(t->values.json, &terminal, ret_sink, error);
}

/* --- one of several that may lead --- */

static const char *name_of(const struct train *t) {
    const char *slash = strrchr(t->out_dir, '/');
    return t->values.name ? t->values.name : slash ? slash + 1 : t->out_dir;
}

static enum culm_status check_cluster(const struct train *t, struct culm_error *error) {
    const struct values *v = &t->values;
    const char *wrong = v->trace           ? "--preempt-trace"
                        : v->accept_inputs ? "--accept-inputs"
                        : v->from_start    ? "--from-start"
                                           : NULL;
    if (v->detach && !v->cluster) {
        return culm_error_set(
            error, CULM_ERR_ARGUMENT,
            "--detach needs --cluster etcd://HOST:PORT: a launcher that leads for "
            "good stays");
    }
    if (!v->cluster) {
        return v->name ? culm_error_set(error, CULM_ERR_ARGUMENT,
                                        "--name needs --cluster etcd://HOST:PORT: a run without it "
                                        "is called by its directory")
                       : CULM_OK;
    }
    if (wrong) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "%s means nothing with --cluster", wrong);
    }
    if (!v->token_file) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "--cluster needs --token-file FILE, which all nodes have; make one "
                              "with 'culm keys new FILE'");
    }
    if (v->faults.count > 1 || (v->faults.count && !culm_leader_fault_is(v->faults.items[0]))) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "--fault with --cluster: one of who leads here, as in leader,step=S");
    }
    if (v->faults.count && culm_leader_fault_check(v->faults.items[0], error) != CULM_OK) {
        return error->status;
    }
    return culm_cluster_check_name(name_of(t), error);
}

/* In the process that leads. */
static enum culm_status hear(void *ctx, struct culm_sink **ret_sink, bool *ret_screen,
                             struct culm_error *error) {
    const struct train *t = ctx;
    *ret_screen = !t->values.json;
    return open_sink_of(t, t->steps, ret_sink, error);
}

static int detach(const struct train *t, const struct culm_run_node_options *node,
                  struct culm_error *error) {
    char log[CULM_PATH_MAX], address[CULM_PATH_MAX] = "";
    enum culm_status status = culm_path_format(log, error, "%s/agent.log", t->out_dir);
    status = status ? status : culm_dir_make(NULL, t->out_dir, error);
    status = status ? status : culm_run_node_detached(node, log, address, error);
    if (status == CULM_OK) {
        printf("'%s' is %s%s; culm status %s --cluster %s shows it, culm stop stops it\n",
               node->run, address[0] ? "led at " : "over", address, node->run, node->store);
    }
    return culm_status_exit_code(status);
}

/* Creates the run, or finds it, and is one of its nodes from then on. */
static int follow(struct train *t, struct culm_error *error) {
    const struct values *v = &t->values;
    const struct culm_run_node_options node = {
        .store = v->cluster,
        .run = name_of(t),
        .leads = true,
        .lead_dir = t->out_dir,
        .hear = hear,
        .hear_ctx = t,
        .fault = v->faults.count ? v->faults.items[0] : NULL,
        .stops_run = true,
        .token_file = v->token_file,
        .listen = v->listen,
        .advertise = v->advertise,
        .insecure = v->insecure,
        .workers = v->workers == WORKERS_FREE ? 0 : (int32_t)v->workers,
    };
    const enum culm_status status =
        culm_training_create(t->training, v->cluster, name_of(t), v->token_file, v->resume, error);
    if (status != CULM_OK) {
        return culm_status_exit_code(status);
    }
    t->steps = culm_training_shape_of(t->training).steps;
    culm_training_free(t->training);
    t->training = NULL;
    return v->detach ? detach(t, &node, error) : culm_run_node(&node, error);
}

static int run_cluster(struct train *t) {
    struct culm_error error = {0};
    const int code = follow(t, &error);
    if (error.text[0]) {
        fprintf(stderr, "culm train: %s\n", error.text);
    } else if (code == 0 && !t->values.json && !t->values.detach) { /* wherever it was led */
        printf("'%s' is done\n", name_of(t));
    }
    return code;
}

static int run(struct train *t) {
    if (t->values.cluster) {
        return run_cluster(t);
    }

    const struct culm_cli_job run = {.command = "train",
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

/* --- the command line --- */

static enum culm_status open_sink(struct train *t, struct culm_error *error) {
    const bool json = t->values.json;
    if (t->values.cluster) {
        return CULM_OK; /* whoever leads opens its own */
    }
    enum culm_status status =
        open_sink_of(t, culm_training_shape_of(t->training).steps, &t->sink, error);
    culm_training_watch(t->training, json ? t->sink : NULL, json ? NULL : t->sink);
    return status;
}

static enum culm_status prepare(struct train *t, const char *config_path,
                                struct culm_error *error) {
    const struct values *v = &t->values;
    enum culm_status status;
    if (v->time_scale > 0 && !v->trace) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "--time-scale means nothing without --preempt-trace FILE");
    }
    if ((status = culm_config_open(config_path, &t->config, error)) ||
        (status = v->out ? culm_path_format(t->out_dir, error, "%s", v->out)
                         : culm_cli_default_out(config_path, t->out_dir, error))) {
        return status;
    }
    status = check_cluster(t, error);
    for (size_t i = 0; i < v->sets.count && status == CULM_OK; i++) {
        status = culm_config_add(t->config, v->sets.items[i], error);
    }
    const struct culm_training_options options = {
        .size = sizeof options,
        .dir = t->out_dir,
        .resume = v->resume && !v->cluster, /* there the store says what there is */
        .program = "/proc/self/exe",
        .plan = v->plan,
        .warning = warn,
        .accept_inputs = v->accept_inputs,
        .from_start = v->from_start,
        .listen = v->cluster ? NULL : v->listen,
        .advertise = v->cluster ? NULL : v->advertise,
        .token_file = v->cluster ? NULL : v->token_file,
        .insecure = v->insecure,
        .limit_workers = v->workers != WORKERS_FREE && !v->cluster,
        .workers = v->workers,
    };
    const struct culm_launch_extras extras = {
        .faults = v->faults.items,
        .fault_count = v->cluster ? 0 : v->faults.count,
        .trace_path = v->trace,
        .time_scale = v->time_scale,
        .dry = v->dry_run,
        .shared = v->cluster != NULL,
    };
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
        *ret_code = t->values.dry_run ? dry_run(t) : run(t);
    }
    culm_training_free(t->training);
    culm_sink_free(t->sink);
    culm_config_free(t->config);
    return status;
}

int culm_cli_train(int argc, char **argv) {
    struct train t = {.values.workers = WORKERS_FREE};
    return culm_cli_run(&culm_usage_train, argc, argv, &t, body);
}
