/*
 * The launcher: checks what is left to check, claims the run directory, and runs the coordinator
 * with its workers as child processes until the end. Events are handed to the sinks here, and
 * nowhere else. See launch.h.
 */
#include "run/launch.h"

#include "cluster/host.h"
#include "net/socket.h"
#include "pipeline/coordinator.h"
#include "report/training.h"
#include "run/eval_watch.h"
#include "run/launch_choices.h"
#include "run/launch_inputs.h"
#include "run/rundir.h"
#include "run/warnings.h"
#include "run/worker.h"
#include "store/checkpoint.h"
#include "train/brief.h"
#include "train/numeric.h"
#include "train/pace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct launch {
    const struct culm_launch_options *o;
    struct culm_plan *plan;
    struct culm_inputs inputs; /* pinned as they are opened here; the pins are the caller's */
    struct culm_launch_inputs_thread digests;
    struct culm_trace trace;
    char signature[CULM_SIGNATURE_SIZE];
    struct culm_rundir dir;
    bool claimed;
    int64_t start_step;
    char start_path[CULM_PATH_MAX];
    struct culm_warnings warnings;
    struct culm_summary *summary; /* the result's */
    struct culm_sink *sink;       /* events.jsonl and the summary */
    struct culm_blob_pool *pool;
    struct culm_agent_fault *faults;
    char logs[CULM_PATH_MAX];
    struct culm_host *host;
    struct culm_exec *exec;
    struct culm_coordinator *coordinator;
    bool sink_failed;
    json_t *done; /* the last event, until workers have ended */
    struct culm_eval_watch eval;
    int64_t fired;
};

/* --- before anything is written --- */

static enum culm_status make_plan(struct launch *l, struct culm_error *error) {
    struct culm_choices choices = {0};
    enum culm_status status = culm_launch_choices(l->o, &l->warnings, &choices, error);
    if (status == CULM_OK) {
        status = culm_plan_new(l->o->network, &choices, &l->plan, error);
    }
    culm_choices_release(&choices);
    return status;
}

/* The samples, those held out too if they are wanted, and the weights to start from. */
static enum culm_status check_data(struct launch *l, const struct culm_train_config *config,
                                   struct culm_error *error) {
    enum culm_status status = CULM_OK;
    for (int held_out = 0; held_out < 1 + (config->eval.every > 0) && status == CULM_OK;
         held_out++) {
        struct culm_source_options options;
        struct culm_source *source = NULL;
        culm_train_config_source(config, held_out, &options);
        status = culm_source_open(&options, &source, error);
        if (status == CULM_OK) {
            status = culm_network_check_source(l->plan->graph, source, error);
            if (!held_out) {
                l->inputs.samples = culm_source_samples(source);
                culm_plan_hold(l->plan, culm_source_resident_bytes(source),
                               culm_source_opening_bytes(source));
            }
        }
        culm_source_free(source);
    }
    char note[CULM_NETWORK_NOTE_SIZE] = "";
    if (status == CULM_OK) {
        status = culm_network_check_weights(l->o->network, l->plan->graph, note, error);
    }
    if (status == CULM_OK && note[0]) {
        culm_warnings_add(&l->warnings, "%s", note);
    }
    return status;
}

static enum culm_status check(struct launch *l, struct culm_error *error) {
    const struct culm_train_config *config = l->o->config;
    enum culm_status status;
    struct culm_device *device = NULL;
    if ((status = make_plan(l, error)) || (status = check_data(l, config, error)) ||
        (l->o->plan_path && (status = culm_plan_check(l->plan, l->o->plan_path, error))) ||
        (l->o->trace_path && (status = culm_trace_read(l->o->trace_path, &l->trace, error))) ||
        (status = culm_device_new(1, &device, error))) {
        return status;
    }
    culm_signature(device, config, l->signature);
    culm_device_free(device);
    return CULM_OK;
}

/* Tasks that take longer than their limit cost a worker or two before the limit has grown. */
static void warn_of_slow_tasks(struct launch *l) {
    char text[CULM_PACE_WARNING_SIZE];
    culm_pace_warning(l->plan, l->o->config, text);
    if (text[0]) {
        culm_warnings_add(&l->warnings, "%s", text);
    }
}

static json_t *plan_event(const struct launch *l) {
    json_t *event = json_pack("{s:s, s:f, s:i}", "event", "plan", "t_ms", 0.0, "view", 0);
    json_t *plan = culm_plan_json(l->plan);
    json_object_update_missing(event, plan);
    json_decref(plan);
    return event;
}

/* --- the run directory --- */

/* The plan's choices came from the newest checkpoint; the newest whole one may be another. */
static enum culm_status check_choices(const struct launch *l, struct culm_error *error) {
    struct culm_choices recorded = {0};
    enum culm_status status = culm_launch_choices_recorded(l->start_path, &recorded, error);
    if (status == CULM_OK && !culm_choices_same_algorithms(&l->plan->choices, &recorded)) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "'%s' was made with other algorithms of convolutions than the "
                                "checkpoint after it; remove that one",
                                l->start_path);
    }
    culm_choices_release(&recorded);
    return status == CULM_ERR_NOT_FOUND ? CULM_OK : status;
}

static enum culm_status compare_inputs(struct launch *l, struct culm_error *error) {
    char note[CULM_ERROR_MAX];
    enum culm_status status =
        culm_launch_inputs_compare(l->o->out_dir, l->start_path, &l->inputs, note, error);
    if (note[0]) {
        culm_warnings_add(&l->warnings, "%s", note);
    }
    return status;
}

/* config.yaml, which the command has compared, may have been edited since; this one counts. */
static enum culm_status check_config(const struct launch *l, const char *before_text,
                                     struct culm_error *error) {
    struct culm_train_config before;
    enum culm_status status = culm_train_config_parse(before_text, strlen(before_text),
                                                      "its configuration", NULL, 0, &before, error);
    if (status == CULM_OK) {
        status = culm_train_config_resumable(&before, l->o->config, error);
        culm_train_config_release(&before);
    }
    return status == CULM_OK ? CULM_OK : culm_error_prefix(error, "'%s'", l->start_path);
}

static enum culm_status find_start(struct launch *l, struct culm_error *error) {
    if (!l->o->resume) {
        return CULM_OK;
    }
    char warning[CULM_ERROR_MAX] = "";
    enum culm_status status =
        culm_checkpoint_latest(l->o->out_dir, true, &l->start_step, l->start_path, warning, error);
    if (warning[0]) {
        culm_warnings_add(&l->warnings, "%s", warning);
    }
    if (status == CULM_ERR_NOT_FOUND) {
        l->start_step = 0; /* version 0 can be made again from the seed */
        l->start_path[0] = '\0';
        culm_error_clear(error);
        return compare_inputs(l, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    if (l->start_step > l->o->config->steps) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "'%s' is at step %lld already, and 'steps' is %lld", l->start_path,
                              (long long)l->start_step, (long long)l->o->config->steps);
    }
    struct culm_checkpoint *checkpoint = NULL;
    status = culm_checkpoint_open(l->start_path, false, &checkpoint, error);
    if (status == CULM_OK) {
        const char *before = culm_checkpoint_info(checkpoint)->signature;
        if (strcmp(before, l->signature) != 0) {
            culm_warnings_add(&l->warnings,
                              "'%s' was written by another build or machine (%s, here %s); the "
                              "bits may differ from here on",
                              l->start_path, before, l->signature);
        }
        status = check_config(l, culm_checkpoint_info(checkpoint)->config, error);
        culm_checkpoint_close(checkpoint);
    }
    status = status == CULM_OK ? check_choices(l, error) : status;
    return status == CULM_OK ? compare_inputs(l, error) : status;
}

static enum culm_status write_plan(const struct launch *l, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    json_t *json = culm_plan_json(l->plan);
    if (json) {
        json_object_set_new(json, "inputs", culm_inputs_json(&l->inputs));
    }
    char *text = json ? json_dumps(json, JSON_INDENT(2)) : NULL;
    json_decref(json);
    enum culm_status status = culm_path_format(path, error, "%s/plan.json", l->o->out_dir);
    if (status == CULM_OK && !text) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    if (status == CULM_OK) {
        status = culm_file_replace(NULL, path, text, strlen(text), error);
    }
    free(text);
    return status;
}

/* Workers that need the digest of a large file look there. */
static void write_plan_again(void *ctx) { (void)write_plan(ctx, NULL); }

static enum culm_status claim(struct launch *l, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    enum culm_status status = culm_rundir_claim(l->o->out_dir, l->o->resume, &l->dir, error);
    if (status != CULM_OK) {
        return status;
    }
    l->claimed = true;
    if ((status = find_start(l, error)) ||
        (status = culm_rundir_begin(&l->dir, l->o->config_text, error)) ||
        (status = culm_path_format(path, error, "%s/logs", l->o->out_dir)) ||
        (status = culm_dir_make(NULL, path, error)) ||
        (status = culm_checkpoint_clean(NULL, l->o->out_dir, error)) ||
        (status = write_plan(l, error))) {
        return status;
    }
    /* A crash may have left it under a temporary name, which has just been put right. */
    return l->start_path[0] && !culm_file_is_directory(l->start_path)
               ? culm_checkpoint_path(l->o->out_dir, l->start_step, l->start_path, error)
               : CULM_OK;
}

/* --- events --- */

static enum culm_status add_sink(struct launch *l, struct culm_sink *sink,
                                 struct culm_error *error) {
    if (!sink || culm_sink_tee_add(l->sink, sink) != CULM_OK) {
        culm_sink_free(sink);
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    return CULM_OK;
}

static enum culm_status open_sinks(struct launch *l, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    struct culm_sink *file = NULL;
    l->sink = culm_sink_tee_new();
    if (!l->sink) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    enum culm_status status = culm_path_format(path, error, "%s/events.jsonl", l->o->out_dir);
    if (status == CULM_OK) {
        status = culm_sink_jsonl_open(path, &file, error);
    }
    if (status == CULM_OK) {
        status = add_sink(l, file, error);
    }
    if (status == CULM_OK) {
        status = add_sink(l, culm_sink_summary_new(l->summary), error);
    }
    return status;
}

static void count_fired(struct launch *l) {
    l->fired = 0;
    for (size_t i = 0; i < l->o->fault_count && l->host; i++) {
        l->fired += culm_host_fired(l->host, i) > 0;
    }
}

/* To those of the sinks that there are, all of them even when one fails; the first failure. */
static enum culm_status hand_out(struct culm_sink *const *sinks, size_t count, const json_t *event,
                                 struct culm_error *error) {
    enum culm_status status = CULM_OK;
    for (size_t i = 0; i < count; i++) {
        enum culm_status own =
            sinks[i] ? culm_sink_event(sinks[i], event, status ? NULL : error) : CULM_OK;
        status = status ? status : own;
    }
    return status;
}

/* Those that were not told yet, at the time and view of `at`. */
static void publish_warnings(struct launch *l, const json_t *at) {
    json_t *event;
    while ((event = culm_warnings_event(&l->warnings))) {
        json_object_set(event, "t_ms", json_object_get(at, "t_ms"));
        json_object_set(event, "view", json_object_get(at, "view"));
        (void)hand_out((struct culm_sink *[]){l->sink, l->o->log}, 2, event, NULL);
        json_decref(event);
    }
}

static void publish(void *ctx, json_t *event);

/* An evaluation that has ended is told before the next event. The end waits for the one that runs
 * and the one that waits. */
static void publish_evaluation(struct launch *l, const json_t *next) {
    bool done = strcmp(culm_event_text(next, "event", ""), "done") == 0;
    json_t *event;
    while ((event = culm_eval_watch_result(&l->eval, done))) {
        json_object_set(event, "t_ms", json_object_get(next, "t_ms"));
        json_object_set(event, "view", json_object_get(next, "view"));
        publish(l, event);
        json_decref(event);
    }
    culm_eval_watch_event(&l->eval, next);
}

/* The host's sink. A sink that fails (a full disk, a closed pipe) is reported once; training goes
 * on. The last event waits for evaluations, so it is told when all workers have ended: they would
 * hear nothing of us meanwhile. */
static void publish(void *ctx, json_t *event) {
    struct launch *l = ctx;
    struct culm_error error = {0};
    bool done = strcmp(culm_event_text(event, "event", ""), "done") == 0;
    if (done && !l->done) {
        l->done = json_incref(event);
        return;
    }
    publish_evaluation(l, event);
    if (done) {
        count_fired(l);
        json_object_set_new(event, "faults_fired", json_integer(l->fired));
    }
    enum culm_status status =
        hand_out((struct culm_sink *[]){l->sink, l->o->log, l->o->screen}, 3, event, &error);
    if (status != CULM_OK && !l->sink_failed) {
        l->sink_failed = true; /* said once, and to whichever sink still works */
        culm_warnings_add(&l->warnings, "events: %s", error.text);
        publish_warnings(l, event);
    }
}

static const char *effective_redundancy(const struct launch *l) {
    if (l->plan->shape.stages == 1 || l->plan->shape.redundancy == CULM_REDUNDANCY_NONE) {
        return l->plan->shape.pipelines > 1 ? "none: copies in other pipelines" : "none";
    }
    return culm_redundancy_name(l->plan->shape.redundancy);
}

static void publish_start(struct launch *l) {
    json_t *start =
        json_pack("{s:s, s:f, s:i, s:s, s:s, s:s, s:s}", "event", "start", "t_ms", 0.0, "view", 0,
                  "run", l->o->run, "config_sha256", l->o->config_sha256, "signature", l->signature,
                  "redundancy_effective", effective_redundancy(l));
    json_t *plan = plan_event(l);
    publish(l, start);
    publish_warnings(l, start);
    publish(l, plan);
    json_decref(start);
    json_decref(plan);
}

/* --- workers --- */

static char *text_of(const char *format, long number) {
    char text[32];
    snprintf(text, sizeof text, format, number);
    return strdup(text);
}

static void worker_command(void *ctx, const struct culm_agent_start *start, char ***ret_argv) {
    struct launch *l = ctx;
    const char *const *more = l->o->program_arguments;
    size_t count = 0, given = 0;
    while (more && more[given]) {
        given++;
    }
    char **argv = calloc(8 + given + 2 * l->o->fault_count, sizeof(char *));
    if (argv) {
        argv[count++] = strdup(l->o->program);
        for (size_t i = 0; i < given; i++) {
            argv[count++] = strdup(more[i]);
        }
        argv[count++] = strdup("worker");
        argv[count++] = strdup(l->o->out_dir);
        argv[count++] = text_of("%ld", start->node);
        argv[count++] = strdup(start->address);
        argv[count++] = strdup(start->name);
        argv[count++] = text_of("%ld", start->fault_fd);
        for (size_t i = 0; i < l->o->fault_count; i++) {
            if (l->o->faults[i].worker == start->node) {
                argv[count++] = text_of("%ld", (long)i);
                argv[count++] = strdup(l->o->fault_texts[i]);
            }
        }
    }
    *ret_argv = argv;
}

static bool write_brief(void *ctx, uint32_t role, struct culm_buf *out) {
    const struct launch *l = ctx;
    (void)role; /* there is one */
    return culm_brief_write(l->o->config_text, &l->plan->choices, &l->inputs, out);
}

static double learning_rate(void *ctx, int64_t step) {
    const struct launch *l = ctx;
    return culm_numeric_lr(l->o->config, step);
}

/* Often enough that no worker, however short its patience, takes us for gone. */
static int64_t alive_ms(const struct culm_cluster_config *cluster) {
    return cluster->suspect_ms / 3 > 1 ? cluster->suspect_ms / 3 : 1;
}

static enum culm_status make_host(struct launch *l, struct culm_error *error) {
    enum culm_status status = culm_path_format(l->logs, error, "%s/logs", l->o->out_dir);
    if (status != CULM_OK) {
        return status;
    }
    l->pool = culm_blob_pool_new((size_t)256 << 20);
    l->faults = calloc(l->o->fault_count + 1, sizeof *l->faults);
    if (!l->pool || !l->faults) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    for (size_t i = 0; i < l->o->fault_count; i++) {
        const struct culm_fault_spec *spec = &l->o->faults[i];
        l->faults[i] = (struct culm_agent_fault){.node = spec->worker,
                                                 .phase = culm_phase_name(spec->point.phase),
                                                 .how = spec->how,
                                                 .for_ms = spec->for_ms};
    }
    const struct culm_host_options options = {
        .token = l->o->token,
        .signature = l->signature,
        .brief = write_brief,
        .max_nodes = (int32_t)l->o->config->cluster.max_nodes,
        .payload_max = culm_payload_max(l->plan),
        .pool = l->pool,
        .command = worker_command,
        .log_dir = l->logs,
        .publish = publish,
        .ctx = l,
        .trace = l->o->trace_path ? &l->trace : NULL,
        .time_scale = l->o->time_scale,
        .faults = l->faults,
        .fault_count = l->o->fault_count,
        .alive_ms = alive_ms(&l->o->config->cluster),
        .stop_fd = l->o->stop_fd,
    };
    culm_socket_raise_limit();
    return culm_host_new(&options, &l->host, error);
}

static enum culm_status make_coordinator(struct launch *l, struct culm_error *error) {
    const struct culm_train_config *config = l->o->config;
    struct culm_world *world = culm_host_world(l->host);
    const struct culm_numeric_options numeric = {
        .config = config,
        .config_text = l->o->config_text,
        .signature = l->signature,
        .run_dir = l->o->out_dir,
        .plan = l->plan,
        .pool = l->pool,
        .inputs = &l->inputs,
    };
    enum culm_status status = culm_numeric_new(&numeric, &l->exec, error);
    if (status != CULM_OK) {
        return status;
    }
    struct culm_coordinator_options options = {
        .world = world,
        .agent = culm_host_agent(l->host),
        .exec = l->exec,
        .layout = &l->plan->layout,
        .shape = l->plan->shape,
        .memory = &l->plan->memory,
        .settings = culm_plan_settings(config),
        .tokens_per_sample = l->plan->rows_per_sample,
        .start_step = l->start_step,
        .start_source = l->start_path,
        .traced = l->o->trace_path != NULL,
        .lr = learning_rate,
        .lr_context = l,
    };
    culm_order_init(&options.order, config->seed, l->inputs.samples);
    l->coordinator = culm_coordinator_new(&options);
    return l->coordinator ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

/* --- the end --- */

static void release(struct launch *l) {
    culm_eval_watch_stop(&l->eval);
    json_decref(l->done);
    culm_launch_inputs_stop(&l->digests);
    culm_coordinator_free(l->coordinator);
    culm_host_free(l->host);
    culm_numeric_free(l->exec);
    culm_sink_free(l->sink);
    culm_warnings_release(&l->warnings);
    if (l->claimed) {
        culm_rundir_release(&l->dir);
    }
    free(l->faults);
    culm_trace_release(&l->trace);
    culm_plan_free(l->plan);
    culm_blob_pool_free(l->pool);
}

static enum culm_status begin(struct launch *l, struct culm_error *error) {
    enum culm_status status;
    if ((status = claim(l, error)) || (status = open_sinks(l, error)) ||
        (status = make_host(l, error)) || (status = make_coordinator(l, error))) {
        return status;
    }
    return CULM_OK;
}

static void init(struct launch *l, const struct culm_launch_options *options) {
    *l = (struct launch){
        .o = options,
        .eval = {.config = options->config, .dir = options->out_dir, .program = options->program},
        .inputs.pins = options->config->pins,
        .warnings = {.say = options->warn, .ctx = options->ctx}};
}

enum culm_status culm_launch_plan(const struct culm_launch_options *options, json_t **ret_plan,
                                  struct culm_error *error) {
    struct launch l;
    init(&l, options);
    *ret_plan = NULL;
    enum culm_status status = check(&l, error);
    if (status == CULM_OK) {
        *ret_plan = plan_event(&l);
        status = culm_plan_check_memory(l.plan, error);
        warn_of_slow_tasks(&l);
    }
    release(&l);
    return status;
}

static void note_fired(const struct launch *l, struct culm_launch_result *result) {
    result->fired = calloc(l->o->fault_count + 1, sizeof *result->fired);
    for (size_t i = 0; i < l->o->fault_count && result->fired; i++) {
        result->fired[i] = culm_host_fired(l->host, i) > 0;
    }
}

int culm_launch_run(const struct culm_launch_options *options,
                    struct culm_launch_result *ret_result, struct culm_error *ret_error) {
    struct launch l;
    enum culm_status status;
    int code;
    init(&l, options);
    *ret_result = (struct culm_launch_result){0};
    culm_summary_init(&ret_result->summary, &culm_summary_training);
    l.summary = &ret_result->summary;
    if ((status = check(&l, ret_error)) || (status = culm_plan_check_memory(l.plan, ret_error)) ||
        (status = begin(&l, ret_error))) {
        code = culm_status_exit_code(status);
    } else {
        culm_network_let_go(options->network);
        warn_of_slow_tasks(&l);
        publish_start(&l);
        culm_launch_inputs_start(&l.digests, l.inputs.pins, write_plan_again, &l);
        code = culm_host_run(l.host, &culm_coordinator_actor, l.coordinator, ret_error);
        if (l.done) {
            publish(&l, l.done);
        }
        note_fired(&l, ret_result);
    }
    release(&l);
    return code;
}

void culm_launch_result_release(struct culm_launch_result *result) {
    culm_summary_release(&result->summary);
    free(result->fired);
    *result = (struct culm_launch_result){0};
}
