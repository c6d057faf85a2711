/*
 * `culm train`: everything that can be wrong is found here, before a file is written or a process
 * started; then culm_launch_run. What it says on the way is printed here.
 */
#include "cli/command.h"
#include "cli/options.h"
#include "report/terminal.h"
#include "run/launch.h"
#include "run/rundir.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

struct values {
    struct culm_option_list sets, faults;
    const char *out, *plan, *trace;
    double time_scale;
    bool resume, dry_run, json;
};

static const struct culm_option option_rows[] = {
    CULM_OPTION("set", LIST, "key.sub=value", struct values, sets,
                "changes a key of the configuration; repeatable"),
    CULM_OPTION("out", TEXT, "DIR", struct values, out,
                "the run directory (default: runs/<config name>)"),
    CULM_OPTION("resume", FLAG, NULL, struct values, resume, "goes on with the run in DIR"),
    CULM_OPTION("plan", TEXT, "FILE", struct values, plan,
                "uses the plan of another run (its plan.json)"),
    CULM_OPTION("dry-run", FLAG, NULL, struct values, dry_run,
                "prints the plan and ends; writes nothing"),
    CULM_OPTION("json", FLAG, NULL, struct values, json,
                "prints the events as JSON lines, and nothing else"),
    CULM_OPTION("fault", LIST, "SPEC", struct values, faults,
                "makes a worker fail; repeatable, see below"),
    CULM_OPTION("preempt-trace", TEXT, "FILE", struct values, trace,
                "starts and kills workers as the trace says"),
    CULM_OPTION("time-scale", REAL, "X", struct values, time_scale,
                "plays the trace X times as fast"),
};

static char *remark(void) {
    struct culm_buf out;
    char *keys = culm_train_config_resumable_keys();
    culm_buf_init(&out, 4096);
    culm_buf_printf(&out,
                    "--resume may change only\n  %s\nsettings: the result is the same bits.\n",
                    keys ? keys : "some");
    free(keys);
    return culm_buf_take_text(&out);
}

static const struct culm_usage usage = {
    .command = "train",
    .arguments = "CONFIG.yaml",
    .min_arguments = 1,
    .max_arguments = 1,
    .summary = "Trains a model in worker processes that may be killed at any time",
    .options = option_rows,
    .option_count = sizeof option_rows / sizeof *option_rows,
    .remark = remark,
    .details = "A fault is worker=K,step=S[,micro=M][,phase=P][,how=kill|stop|exit|flip]"
               "[,for_ms=N].\n"
               "Phases: load forward backward frc send reduce commit step transfer checkpoint.\n"
               "A trace has lines 'milliseconds,add|remove,nodeK'.\n"
               "\n"
               "Exit codes: 0 done, 1 failed, 2 usage, 3 configuration or input, 4 environment,\n"
               "75 stopped by a signal, resumable. 'culm help config' lists every key.\n",
};

struct train {
    struct values values; /* first: see `body` */
    struct culm_train_config config;
    char *config_text;
    char out_dir[CULM_PATH_MAX];
    struct culm_fault_spec *faults;
    struct culm_launch_options launch;
};

/* runs/<config name>: the file's name without its folder and its last extension. */
static enum culm_status default_out(const char *config_path, char *ret_path,
                                    struct culm_error *error) {
    const char *slash = strrchr(config_path, '/');
    const char *name = slash ? slash + 1 : config_path;
    const char *dot = strrchr(name, '.');
    size_t len = dot && dot != name ? (size_t)(dot - name) : strlen(name);
    return culm_path_format(ret_path, error, "runs/%.*s", (int)len, name);
}

static enum culm_status random_hex(char *text, size_t digits, struct culm_error *error) {
    unsigned char bytes[16];
    size_t count = digits / 2;
    if (getrandom(bytes, count, 0) != (ssize_t)count) {
        return culm_error_errno(error, errno, "random numbers");
    }
    for (size_t i = 0; i < count; i++) {
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    }
    return CULM_OK;
}

static enum culm_status load_config(struct train *t, const char *path, struct culm_error *error) {
    enum culm_status status =
        culm_train_config_load(path, t->values.sets.items, t->values.sets.count, &t->config, error);
    if (status != CULM_OK) {
        return status;
    }
    t->config.pins = culm_pins_new();
    if (!t->config.pins) {
        return culm_error_set(error, CULM_ERR_MEMORY, "%s: out of memory", path);
    }
    if ((status = culm_launch_complete(&t->config, error)) != CULM_OK) {
        return status;
    }
    t->config_text = culm_train_config_dump(&t->config);
    if (!t->config_text) {
        return culm_error_set(error, CULM_ERR_MEMORY, "%s: out of memory", path);
    }
    return culm_sha256_of(t->config_text, strlen(t->config_text), t->launch.config_sha256);
}

static enum culm_status load_faults(struct train *t, struct culm_error *error) {
    const struct culm_option_list *texts = &t->values.faults;
    bool replaced = t->values.trace || t->config.cluster.replace_ms >= 0;
    t->faults = calloc(texts->count + 1, sizeof *t->faults);
    if (!t->faults) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    for (size_t i = 0; i < texts->count; i++) {
        enum culm_status status = culm_fault_parse(texts->items[i], &t->faults[i], error);
        if (status == CULM_OK) {
            status = culm_fault_check(&t->faults[i], texts->items[i], &t->config, replaced, error);
        }
        if (status != CULM_OK) {
            return status;
        }
    }
    return CULM_OK;
}

/* The run directory must be free, or hold a run that this configuration may go on with. */
static enum culm_status check_out(struct train *t, struct culm_error *error) {
    enum culm_status status = culm_rundir_check(t->out_dir, t->values.resume, error);
    if (status != CULM_OK || !t->values.resume) {
        return status;
    }
    char path[CULM_PATH_MAX];
    struct culm_train_config before;
    status = culm_path_format(path, error, "%s/config.yaml", t->out_dir);
    if (status == CULM_OK) {
        status = culm_train_config_load(path, NULL, 0, &before, error);
    }
    if (status == CULM_OK) {
        status = culm_train_config_resumable(&before, &t->config, error);
        culm_train_config_release(&before);
    }
    return status;
}

static enum culm_status prepare(struct train *t, const char *config_path,
                                struct culm_error *error) {
    const struct values *v = &t->values;
    if (v->time_scale > 0 && !v->trace) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "--time-scale means nothing without --preempt-trace FILE");
    }
    enum culm_status status = load_config(t, config_path, error);
    if (status == CULM_OK) {
        status = load_faults(t, error);
    }
    if (status == CULM_OK) {
        status = v->out ? culm_path_format(t->out_dir, error, "%s", v->out)
                        : default_out(config_path, t->out_dir, error);
    }
    if (status == CULM_OK && !(v->dry_run && !v->resume)) {
        status = check_out(t, error);
    }
    if (status == CULM_OK) {
        status = random_hex(t->launch.run, CULM_RUN_ID_SIZE - 1, error);
    }
    if (status == CULM_OK) {
        status = random_hex(t->launch.token, CULM_TOKEN_SIZE - 1, error);
    }
    return status;
}

/* --- what is printed --- */

static void warn(void *ctx, const char *text) {
    (void)ctx;
    fprintf(stderr, "culm train: warning: %s\n", text);
}

static void print_plan(const struct train *t, const json_t *plan) {
    const struct culm_train_config *config = &t->config;
    json_t *stages = json_object_get(plan, "stages"), *stage;
    size_t s;
    if (t->values.json) {
        culm_cli_print_json(json_incref((json_t *)plan));
        return;
    }
    printf("%s: %lld parameters, %lld pipelines of %lld stages, %lld lanes of %lld micro-batches, "
           "redundancy %s\n",
           culm_arch_names[config->model.arch], (long long)culm_event_int(plan, "parameters", 0),
           (long long)config->pipelines, (long long)config->stages, (long long)config->batch.lanes,
           (long long)(config->batch.global / config->batch.micro / config->batch.lanes),
           culm_redundancy_name(config->redundancy));
    json_array_foreach(stages, s, stage) {
        printf("stage %zu: blocks %lld to %lld, %lld parameters, %.1f MFLOP a micro-batch, %.1f MB "
               "a node\n",
               s, (long long)culm_event_int(stage, "first", 0),
               (long long)culm_event_int(stage, "last", 0),
               (long long)culm_event_int(stage, "params", 0),
               culm_event_real(stage, "flops", 0) / 1e6,
               (double)culm_event_int(stage, "memory_bytes", 0) / 1e6);
    }
    if (config->stages == 1 && config->redundancy != CULM_REDUNDANCY_NONE) {
        printf("with one stage there is no shadow: the copies are the other pipelines\n");
    }
}

static int dry_run(struct train *t) {
    struct culm_error error = {0};
    json_t *plan = NULL;
    enum culm_status status = culm_launch_plan(&t->launch, &plan, &error);
    if (plan) {
        print_plan(t, plan);
        json_decref(plan);
    }
    return status == CULM_OK ? 0 : culm_cli_fail("train", &error);
}

/* A fault that was asked for and never fired means that the test around it proved nothing. */
static int check_faults(const struct train *t, const struct culm_launch_result *result, int code) {
    for (size_t i = 0; i < t->launch.fault_count && result->fired; i++) {
        if (!result->fired[i]) {
            fprintf(stderr, "culm train: --fault '%s' never fired\n", t->launch.fault_texts[i]);
            code = code ? code : 1;
        }
    }
    return code;
}

static int stop_fd = -1; /* of the handler */

static void on_signal(int number) {
    int before = errno;
    (void)number;
    (void)eventfd_write(stop_fd, 1);
    errno = before;
}

/* From here on SIGINT and SIGTERM mean exit code 75. */
static enum culm_status hear_signals(struct culm_error *error) {
    const struct sigaction stop = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    stop_fd = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC);
    if (stop_fd < 0) {
        return culm_error_errno(error, errno, "make an eventfd");
    }
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of the sink */
    return CULM_OK;
}

static int run(struct train *t) {
    const struct culm_terminal_options terminal =
        culm_terminal_options_of(STDOUT_FILENO, t->config.steps);
    struct culm_sink *sink =
        t->values.json ? culm_sink_jsonl_fd(STDOUT_FILENO) : culm_sink_terminal_new(&terminal);
    struct culm_launch_result result;
    struct culm_error error = {0};
    if (!sink) {
        culm_error_set(&error, CULM_ERR_MEMORY, "out of memory");
        return culm_cli_fail("train", &error);
    }
    if (hear_signals(&error) != CULM_OK) {
        culm_sink_free(sink);
        return culm_cli_fail("train", &error);
    }
    t->launch.stop_fd = stop_fd;
    *(t->values.json ? &t->launch.log : &t->launch.screen) = sink;
    int code = culm_launch_run(&t->launch, &result, &error);
    culm_sink_free(sink); /* what it shows in place is left as it is */
    if (error.text[0]) {
        fprintf(stderr, "culm train: %s\n", error.text);
    }
    code = check_faults(t, &result, code);
    if (!t->values.json && code == 0) {
        culm_summary_print(&result.summary, t->out_dir, NULL, stdout);
    }
    culm_launch_result_release(&result);
    return code;
}

static int launch(struct train *t) {
    struct culm_launch_options *o = &t->launch;
    o->config = &t->config;
    o->config_text = t->config_text;
    o->out_dir = t->out_dir;
    o->resume = t->values.resume;
    o->plan_path = t->values.plan;
    o->faults = t->faults;
    o->fault_texts = t->values.faults.items;
    o->fault_count = t->values.faults.count;
    o->trace_path = t->values.trace;
    o->time_scale = t->values.time_scale > 0 ? t->values.time_scale : 1;
    o->warn = warn;
    return t->values.dry_run ? dry_run(t) : run(t);
}

static enum culm_status body(const struct culm_arguments *arguments, void *values, int *ret_code,
                             struct culm_error *error) {
    struct train *t = values; /* they are its first member */
    enum culm_status status = prepare(t, arguments->items[0], error);
    if (status == CULM_OK) {
        *ret_code = launch(t);
    }
    free(t->faults);
    free(t->config_text);
    culm_pins_free(t->config.pins);
    culm_train_config_release(&t->config);
    return status;
}

int culm_cli_train(int argc, char **argv) {
    struct train t = {0};
    return culm_cli_run(&usage, argc, argv, &t, body);
}
