/*
 * A training run on a graph as an object: culm_gnn_training_* of culm/gnn.h, and of launches.h what only
 * the command adds. Everything that can be wrong is found by culm_gnn_training_new, or before anything
 * is written.
 */
#include "launch/resume.h"
#include "launch/rundir.h"
#include "query/config.h"
#include "run/archive.h"
#include "run/cluster_create.h"
#include "run/gnn_launch.h"
#include "run/launches.h"
#include "run/program.h"
#include "run/public.h"
#include "store/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct culm_gnn_training {
    struct culm_gnn_config config;
    bool configured, ran;
    bool shared; /* it may be led anywhere; only its keys are made here */
    char dir[CULM_PATH_MAX], program[CULM_PATH_MAX], plan[CULM_PATH_MAX], partition[CULM_PATH_MAX];
    struct culm_gnn_fault_spec *faults;
    struct culm_gnn_launch_options launch;
    struct culm_function_sink function;
    char *plan_json;
    struct culm_launcher_result result;
};

/* What a run is made of, during culm_gnn_training_make. */
struct request {
    const struct culm_config *config;
    const struct culm_gnn_training_options *options;
    const struct culm_launch_extras *extras;
};

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a training run");
}

static enum culm_status parse(const struct culm_config *config, struct culm_gnn_config *ret_config,
                              struct culm_error *error) {
    return culm_gnn_config_parse(config->text, config->len, config->name,
                                 (const char *const *)config->set, config->set_count, ret_config,
                                 error);
}

static enum culm_status load_config(struct culm_gnn_training *t, const struct culm_config *config,
                                    struct culm_error *error) {
    enum culm_status status = parse(config, &t->config, error);
    if (status != CULM_OK) {
        return status;
    }
    t->configured = true;
    t->launch.config = &t->config;
    t->launch.config_text = culm_gnn_config_dump(&t->config);
    if (!t->launch.config_text) {
        return no_memory(error);
    }
    return culm_sha256_of(t->launch.config_text, strlen(t->launch.config_text),
                          t->launch.config_sha256);
}

/* What was given, and settings that the run was given when it was resumed before. */
static enum culm_status load_with(struct culm_gnn_training *t, const struct culm_config *config,
                                  const struct culm_resume_sets *kept, struct culm_error *error) {
    struct culm_config *own = culm_config_copy(config);
    enum culm_status status = own ? CULM_OK : no_memory(error);
    for (size_t i = 0; i < kept->count && status == CULM_OK; i++) {
        status = culm_config_add(own, kept->set[i], error);
    }
    if (status == CULM_OK) {
        status = load_config(t, own, error);
    }
    culm_config_free(own);
    return status;
}

/* The settings of `before`, which the run in the directory had last, go on; see resume.h. */
static enum culm_status keep_settings(const struct culm_gnn_training *t, const struct request *r,
                                      const struct culm_lineage *lineage,
                                      const struct culm_gnn_config *before,
                                      struct culm_resume_sets *ret_kept, struct culm_error *error) {
    struct culm_gnn_config now;
    enum culm_status status = parse(r->config, &now, error);
    if (status != CULM_OK) {
        return status;
    }
    status = culm_resume_settings(&culm_gnn_config_table, lineage, before, &now,
                                  (const char *const *)r->config->set, r->config->set_count,
                                  "epochs", ret_kept, error);
    culm_gnn_config_release(&now);
    if (status == CULM_OK && ret_kept->count > 0 && r->options->warning) {
        char text[CULM_ERROR_MAX];
        culm_resume_sets_warning(ret_kept, t->dir, r->config->name, text);
        r->options->warning(r->options->context, text);
    }
    return status;
}

/* The run directory must hold a run that this configuration may continue. Compares with config.yaml
 * only as long as there is no checkpoint; later, gnn_launch.c compares with the checkpoint, which
 * nobody edits. */
static enum culm_status load_resumed(struct culm_gnn_training *t, const struct request *r,
                                     struct culm_error *error) {
    const unsigned known = CULM_CONFIG_SETTING | CULM_CONFIG_INPUT;
    struct culm_lineage lineage = {0};
    char path[CULM_PATH_MAX];
    struct culm_gnn_config before;
    struct culm_resume_sets kept = {0};
    enum culm_status status;
    if ((status = culm_rundir_check(t->dir, true, error)) ||
        (status = culm_path_format(path, error, "%s/config.yaml", t->dir)) ||
        (status = culm_gnn_config_load(path, NULL, 0, &before, error))) {
        return status;
    }
    if (!(status = culm_resume_lineage(t->dir, NULL, &lineage, error)) &&
        !(status = keep_settings(t, r, &lineage, &before, &kept, error)) &&
        !(status = load_with(t, r->config, &kept, error))) {
        status = culm_resume_compare(&culm_gnn_config_table, &lineage, &before, &t->config,
                                     r->options->accept_inputs, error);
        status = status ? status : culm_gnn_config_resumable(&before, &t->config, known, error);
        if (status != CULM_OK) {
            status =
                culm_resume_way_out(&culm_gnn_config_table, &before, &t->config, t->dir, error);
        }
    }
    culm_resume_sets_release(&kept);
    culm_lineage_release(&lineage);
    culm_gnn_config_release(&before);
    return status;
}

/* Before what is in the run directory is looked at. */
static enum culm_status bring(struct culm_gnn_training *t, const struct request *r,
                              struct culm_error *error) {
    struct culm_gnn_config given;
    enum culm_status status = parse(r->config, &given, error);
    if (status == CULM_OK) {
        status = culm_archive_begin(&given.checkpoint, &t->launch.run, error);
        culm_gnn_config_release(&given);
    }
    return status;
}

/* What one machine alone knows, or does, is of no use to whoever leads next. */
static enum culm_status check_shared(const struct culm_gnn_training *t,
                                     const struct culm_gnn_training_options *options,
                                     struct culm_error *error) {
    if (options->partition || options->plan) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "--%s means nothing with --cluster, where each machine that may lead "
                              "cuts the graph itself; leave it out",
                              options->partition ? "partition" : "plan");
    }
    if (t->config.engine != CULM_GNN_LOCAL) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "engine: with --cluster, machines join by themselves ('culm node'); "
                              "set engine to local");
    }
    if (t->config.workers_auto) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "workers: auto: with --cluster, who leads starts no workers; set a "
                              "number, and bring them with 'culm node --role worker'");
    }
    return culm_cluster_check_place(&t->config.checkpoint, error);
}

/* The configuration; and the run directory must be free, or hold its run. */
static enum culm_status load(struct culm_gnn_training *t, const struct request *r,
                             struct culm_error *error) {
    if (r->options->resume) {
        enum culm_status brought = r->extras->dry ? CULM_OK : bring(t, r, error);
        return brought == CULM_OK ? load_resumed(t, r, error) : brought;
    }
    if (r->options->accept_inputs || r->options->from_start) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "--%s means nothing without --resume",
                              r->options->from_start ? "from-start" : "accept-inputs");
    }
    enum culm_status status = load_config(t, r->config, error);
    if (status == CULM_OK && t->shared) {
        return check_shared(t, r->options, error);
    }
    if (status == CULM_OK && !r->extras->dry) {
        status = culm_rundir_check(t->dir, false, error);
    }
    return status == CULM_OK && !r->extras->dry
               ? culm_archive_begin(&t->config.checkpoint, &t->launch.run, error)
               : status;
}

static enum culm_status load_faults(struct culm_gnn_training *t,
                                    const struct culm_launch_extras *extras,
                                    struct culm_error *error) {
    t->faults = calloc(extras->fault_count + 1, sizeof *t->faults);
    enum culm_status status = t->faults ? CULM_OK : no_memory(error);
    for (size_t i = 0; i < extras->fault_count && status == CULM_OK; i++) {
        const char *text = extras->faults[i];
        status = culm_gnn_fault_parse(text, &t->faults[i], error);
        if (status == CULM_OK) {
            status = culm_gnn_fault_check(&t->faults[i], text, &t->config, error);
        }
    }
    return status;
}

static enum culm_status take_doors(struct culm_gnn_training *t,
                                   const struct culm_gnn_training_options *options,
                                   struct culm_error *error) {
    const struct culm_doors_options doors = {.listen = options->listen,
                                             .advertise = options->advertise,
                                             .token_file = options->token_file,
                                             .insecure = options->insecure};
    enum culm_status status = culm_doors_read(&doors, &t->launch.doors, &t->launch.run, error);
    /* Workers that join call servers, which would be at the loopback address. Of a process that leads for a time all join. */
    if (status == CULM_OK && t->launch.doors.any && !options->advertise && !t->launch.run.stand) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "--listen %s is every address of this machine; name the one that "
                                "other machines are to connect to with --advertise ADDR:PORT",
                                options->listen);
    }
    return status;
}

static enum culm_status take_workers(struct culm_gnn_training *t,
                                     const struct culm_gnn_training_options *options,
                                     const struct culm_launch_extras *extras,
                                     struct culm_error *error) {
    const struct culm_doors_here here = {.listen = options->listen,
                                         .trace = extras->trace_path,
                                         .limited = options->limit_workers != 0,
                                         .workers = options->workers,
                                         .most = CULM_CREW_NODES_MAX};
    return culm_doors_here_most(&here, &t->launch.here_most, error);
}

/* A trace starts and ends workers as processes on this machine, so it needs `engine: local`. */
static enum culm_status take_trace(struct culm_gnn_training *t,
                                   const struct culm_launch_extras *extras,
                                   struct culm_error *error) {
    if (!extras->trace_path) {
        return CULM_OK;
    }
    if (t->config.engine != CULM_GNN_LOCAL) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "--preempt-trace starts workers on this machine, but the configured "
                              "engine starts them elsewhere; leave it out, or set engine to local");
    }
    if (t->config.worker_count == 0 && !t->config.workers_auto) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "--preempt-trace starts workers, but with workers: 0 there are none; "
                              "set workers to 1 or more");
    }
    t->launch.run.trace_path = extras->trace_path;
    t->launch.run.time_scale = extras->time_scale > 0 ? extras->time_scale : 1;
    return CULM_OK;
}

/* A run has one cut, from its beginning on. */
static enum culm_status check_partition(const struct culm_gnn_training_options *options,
                                        struct culm_error *error) {
    if (options->partition && (options->resume || options->plan)) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              options->resume
                                  ? "--partition: the run has its cut, which --resume goes on "
                                    "with; leave --partition out"
                                  : "--partition, --plan: both say how to cut the graph; leave "
                                    "one of them out");
    }
    return CULM_OK;
}

static enum culm_status take_path(const char *path, char own[CULM_PATH_MAX], const char **ret_path,
                                  struct culm_error *error) {
    *ret_path = path ? own : NULL;
    return path ? culm_path_format(own, error, "%s", path) : CULM_OK;
}

static enum culm_status make(struct culm_gnn_training *t, const struct request *r,
                             struct culm_error *error) {
    const struct culm_gnn_training_options *options = r->options;
    enum culm_status status;
    if ((status = culm_launcher_options_init(&t->launch.run, error)) ||
        (status = culm_path_format(t->dir, error, "%s", options->dir))) {
        return status;
    }
    t->launch.run.warn = options->warning;
    t->launch.run.ctx = options->context;
    t->launch.run.dir = t->dir;
    t->launch.run.resume = options->resume;
    t->shared = r->extras->shared;
    if (r->extras->reigning) {
        t->launch.run.stand = r->extras->reigning->stand;
        t->launch.run.stand_ctx = r->extras->reigning->place;
        snprintf(t->launch.run.run, sizeof t->launch.run.run, "%s", r->extras->reigning->run);
    }
    if ((status = load(t, r, error)) || (status = load_faults(t, r->extras, error)) ||
        (status = check_partition(options, error)) || (status = take_doors(t, options, error)) ||
        (status = take_workers(t, options, r->extras, error)) ||
        (status = take_trace(t, r->extras, error)) ||
        (status = take_path(options->plan, t->plan, &t->launch.plan_path, error)) ||
        (status = take_path(options->partition, t->partition, &t->launch.partition_path, error)) ||
        (status = culm_program_find(options->program, t->program, error))) {
        return status;
    }
    culm_function_sink_init(&t->function, options->event, options->context);
    t->launch.faults = t->faults;
    t->launch.run.accept_inputs = options->accept_inputs;
    t->launch.run.from_start = options->from_start;
    t->launch.run.program = t->program;
    t->launch.run.fault_texts = r->extras->faults;
    t->launch.run.fault_count = r->extras->fault_count;
    t->launch.run.log = options->event ? &t->function.sink : NULL;
    return CULM_OK;
}

enum culm_status culm_gnn_training_make(const struct culm_config *config,
                                        const struct culm_gnn_training_options *options,
                                        const struct culm_launch_extras *extras,
                                        struct culm_gnn_training **ret_training,
                                        struct culm_error *error) {
    static const struct culm_launch_extras none = {0};
    struct culm_gnn_training_options own;
    if (!config || !ret_training) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "culm_gnn_training_new: an argument is NULL");
    }
    enum culm_status status =
        culm_public_take(&own, sizeof own, options, "culm_gnn_training_options", error);
    if (status != CULM_OK) {
        return status;
    }
    if (!own.dir || !own.dir[0]) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "struct culm_gnn_training_options: dir is not set");
    }
    struct culm_gnn_training *training = calloc(1, sizeof *training);
    if (!training) {
        return no_memory(error);
    }
    const struct request request = {config, &own, extras ? extras : &none};
    status = make(training, &request, error);
    if (status != CULM_OK) {
        culm_gnn_training_free(training);
        return status;
    }
    *ret_training = training;
    return CULM_OK;
}

enum culm_status culm_gnn_training_new(const struct culm_config *config,
                                       const struct culm_gnn_training_options *options,
                                       struct culm_gnn_training **ret_training,
                                       struct culm_error *error) {
    return culm_gnn_training_make(config, options, NULL, ret_training, error);
}

void culm_gnn_training_free(struct culm_gnn_training *training) {
    if (!training) {
        return;
    }
    if (training->ran) {
        culm_launcher_result_release(&training->result);
    }
    culm_launcher_options_release(&training->launch.run);
    culm_storage_free(training->launch.run.storage);
    free(training->faults);
    free(training->launch.config_text);
    free(training->plan_json);
    if (training->configured) {
        culm_gnn_config_release(&training->config);
    }
    free(training);
}

int64_t culm_gnn_training_epochs(const struct culm_gnn_training *training) {
    return training->config.epochs;
}

void culm_gnn_training_watch(struct culm_gnn_training *training, struct culm_sink *log,
                             struct culm_sink *screen) {
    training->launch.run.log = log;
    training->launch.run.screen = screen;
}

enum culm_status culm_gnn_training_plan(struct culm_gnn_training *training, const char **ret_json,
                                        struct culm_error *error) {
    json_t *plan = NULL;
    if (!training || !ret_json) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "culm_gnn_training_plan: an argument is NULL");
    }
    enum culm_status status = culm_gnn_launch_plan(&training->launch, &plan, error);
    if (status != CULM_OK) {
        return status;
    }
    free(training->plan_json);
    training->plan_json = json_dumps(plan, JSON_COMPACT);
    json_decref(plan);
    if (!training->plan_json) {
        return no_memory(error);
    }
    *ret_json = training->plan_json;
    return CULM_OK;
}

static enum culm_status plan_text(void *ctx, char **ret_plan,
                                  char ret_signature[CULM_SIGNATURE_SIZE],
                                  struct culm_error *error) {
    const struct culm_gnn_training *training = ctx;
    return culm_gnn_launch_text(&training->launch, ret_plan, ret_signature, error);
}

enum culm_status culm_gnn_training_create(struct culm_gnn_training *training, const char *store,
                                          const char *name, const char *token_file, bool resume,
                                          struct culm_error *error) {
    const struct culm_cluster_request request = {.job = CULM_CLUSTER_GNN,
                                                 .dir = training->dir,
                                                 .config_text = training->launch.config_text,
                                                 .store = store,
                                                 .name = name,
                                                 .token_file = token_file,
                                                 .resume = resume,
                                                 .start = &training->launch.run,
                                                 .checkpoint = &training->config.checkpoint,
                                                 .plan = plan_text,
                                                 .ctx = training};
    return culm_cluster_request(&request, error);
}

int32_t culm_gnn_training_roles(const struct culm_gnn_training *training, int64_t most,
                                uint32_t *ret_role, int32_t size) {
    const struct culm_gnn_config *config = &training->config;
    const int64_t wanted[CULM_GNN_ROLES] = {[CULM_GNN_SERVER] = config->servers,
                                            [CULM_GNN_PARAMETER] = config->parameter_servers,
                                            [CULM_GNN_WORKER] = config->worker_count};
    int32_t count = 0;
    for (uint32_t role = 0; role < CULM_GNN_ROLES; role++) {
        for (int64_t i = 0; i < wanted[role] && i < most && count < size; i++) {
            ret_role[count++] = role;
        }
    }
    return count;
}

int culm_gnn_training_go(struct culm_gnn_training *training, struct culm_error *ret_error) {
    training->ran = true;
    return culm_gnn_launch_run(&training->launch, &training->result, ret_error);
}

enum culm_status culm_gnn_training_run(struct culm_gnn_training *training,
                                       struct culm_error *error) {
    struct culm_error own = {0};
    if (!training || training->ran) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_gnn_training_run: %s",
                              training ? "this training was run before" : "NULL");
    }
    return culm_public_ended(culm_gnn_training_go(training, &own), &own, error);
}

void culm_gnn_training_stop(struct culm_gnn_training *training) {
    if (training) {
        culm_launcher_stop(&training->launch.run);
    }
}

void culm_gnn_training_resign(struct culm_gnn_training *training) {
    culm_launcher_resign(&training->launch.run);
}

void culm_gnn_training_abort(struct culm_gnn_training *training) {
    if (training) {
        culm_launcher_abort(&training->launch.run);
    }
}

const struct culm_summary *culm_gnn_training_summary(const struct culm_gnn_training *training) {
    return &training->result.summary;
}

bool culm_gnn_training_fired(const struct culm_gnn_training *training, size_t fault) {
    return !training->result.fired || training->result.fired[fault];
}

enum culm_status culm_gnn_config_text(const struct culm_config *config, char **ret_text,
                                      struct culm_error *error) {
    struct culm_gnn_config parsed;
    if (!config) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_gnn_config_text: config is NULL");
    }
    enum culm_status status = parse(config, &parsed, error);
    if (status != CULM_OK || !ret_text) {
        if (status == CULM_OK) {
            culm_gnn_config_release(&parsed);
        }
        return status;
    }
    char *text = culm_gnn_config_dump(&parsed);
    culm_gnn_config_release(&parsed);
    if (!text) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    *ret_text = text;
    return CULM_OK;
}
