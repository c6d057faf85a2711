/*
 * A training run as an object: culm_training_* of culm/train.h, and of launches.h what only the command adds.
 * Everything that can be wrong is found by culm_training_new, or before anything is written.
 */
#include "base/json.h"
#include "launch/resume.h"
#include "launch/rundir.h"
#include "pipeline/layout.h"
#include "query/config.h"
#include "report/sink.h"
#include "run/archive.h"
#include "run/cluster_create.h"
#include "run/launches.h"
#include "run/program.h"
#include "run/public.h"
#include "run/train_launch.h"
#include "store/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct culm_training {
    struct culm_train_config config;
    struct culm_network *network;
    char *config_text;
    char dir[CULM_PATH_MAX], plan[CULM_PATH_MAX], program[CULM_PATH_MAX];
    char **program_arguments;
    struct culm_fault_spec *faults;
    struct culm_train_launch_options launch;
    struct culm_function_sink function;
    char *plan_json;
    struct culm_launcher_result result;
    bool ran;
    bool shared; /* it may be led anywhere; only its keys are made here */
};

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a training run");
}

/* --- making --- */

static enum culm_status load_config(struct culm_training *t, const struct culm_config *config,
                                    struct culm_error *error) {
    struct culm_pins *pins = culm_pins_new();
    if (!pins) {
        return no_memory(error);
    }
    enum culm_status status = culm_config_resolve(config, pins, &t->config, &t->network, error);
    if (status != CULM_OK) {
        culm_pins_free(pins);
        return status;
    }
    t->config_text = culm_train_config_dump(&t->config);
    if (!t->config_text) {
        return no_memory(error);
    }
    return culm_sha256_of(t->config_text, strlen(t->config_text), t->launch.config_sha256);
}

static enum culm_status load_faults(struct culm_training *t,
                                    const struct culm_launch_extras *extras,
                                    struct culm_error *error) {
    bool replaced = extras->trace_path || t->config.cluster.replace_ms >= 0;
    t->faults = calloc(extras->fault_count + 1, sizeof *t->faults);
    if (!t->faults) {
        return no_memory(error);
    }
    for (size_t i = 0; i < extras->fault_count; i++) {
        const char *text = extras->faults[i];
        enum culm_status status = culm_fault_parse(text, &t->faults[i], error);
        if (status == CULM_OK) {
            status = culm_fault_check(&t->faults[i], text, &t->config, replaced, error);
        }
        if (status != CULM_OK) {
            return status;
        }
    }
    return CULM_OK;
}

/* What the run there was begun with: its newest checkpoint says, which nobody edits; before there is
 * one, config.yaml. */
static enum culm_status load_before(const char *dir, struct culm_train_config *ret_before,
                                    char ret_checkpoint[CULM_PATH_MAX], struct culm_error *error) {
    char path[CULM_PATH_MAX], warning[CULM_ERROR_MAX];
    ret_checkpoint[0] = '\0';
    int64_t step;
    struct culm_checkpoint *checkpoint = NULL;
    enum culm_status status;
    if (culm_checkpoint_latest(dir, false, &step, path, warning, NULL) == CULM_OK &&
        culm_checkpoint_open(path, false, &checkpoint, NULL) == CULM_OK) {
        const char *text = culm_checkpoint_info_of(checkpoint)->config;
        status = culm_train_config_parse(text, strlen(text), path, NULL, 0, ret_before, error);
        culm_checkpoint_close(checkpoint);
        memcpy(ret_checkpoint, path, sizeof path);
        return status;
    }
    status = culm_path_format(path, error, "%s/config.yaml", dir);
    return status == CULM_OK ? culm_train_config_load(path, NULL, 0, ret_before, error) : status;
}

/* Of settings that the run was given when it was resumed before, into the configuration. */
static enum culm_status add_settings(const struct culm_training *t, struct culm_config *config,
                                     const struct culm_lineage *lineage,
                                     const struct culm_train_config *before,
                                     const struct culm_training_options *options,
                                     struct culm_error *error) {
    struct culm_train_config now;
    struct culm_resume_sets sets = {0};
    const char *const *given = (const char *const *)config->set;
    enum culm_status status = culm_train_config_parse(config->text, config->len, config->name,
                                                      given, config->set_count, &now, error);
    if (status != CULM_OK) {
        return status;
    }
    status = culm_resume_settings(&culm_train_config_table, lineage, before, &now, given,
                                  config->set_count, "steps", &sets, error);
    culm_train_config_release(&now);
    if (status == CULM_OK && sets.count > 0 && options->warning) {
        char text[CULM_ERROR_MAX];
        culm_resume_sets_warning(&sets, t->dir, config->name, text);
        options->warning(options->context, text);
    }
    for (size_t i = 0; i < sets.count && status == CULM_OK; i++) {
        status = culm_config_add(config, sets.set[i], error);
    }
    culm_resume_sets_release(&sets);
    return status;
}

/* The run directory must hold a run that this configuration may go on with, for which it is loaded. */
static enum culm_status load_resumed(struct culm_training *t, const struct culm_config *config,
                                     const struct culm_training_options *options,
                                     struct culm_error *error) {
    char checkpoint[CULM_PATH_MAX];
    struct culm_lineage lineage = {0};
    struct culm_train_config before;
    enum culm_status status;
    if ((status = culm_rundir_check(t->dir, true, error)) ||
        (status = load_before(t->dir, &before, checkpoint, error))) {
        return status;
    }
    struct culm_config *own = culm_config_copy(config);
    if (!(status = own ? CULM_OK : no_memory(error)) &&
        !(status = culm_resume_lineage(t->dir, NULL, &lineage, error))) {
        status = add_settings(t, own, &lineage, &before, options, error);
    }
    if (status == CULM_ERR_CONFIG && checkpoint[0]) {
        culm_error_prefix(error, "'%s'", checkpoint);
    }
    if (status == CULM_OK && !(status = load_config(t, own, error))) {
        status = culm_resume_compare(&culm_train_config_table, &lineage, &before, &t->config,
                                     options->accept_inputs, error);
        if (status != CULM_OK) {
            status =
                culm_resume_way_out(&culm_train_config_table, &before, &t->config, t->dir, error);
        }
        if (status != CULM_OK && checkpoint[0]) {
            culm_error_prefix(error, "'%s'", checkpoint);
        }
    }
    culm_config_free(own);
    culm_lineage_release(&lineage);
    culm_train_config_release(&before);
    return status;
}

/* Before what is in the run directory is looked at. */
static enum culm_status bring(struct culm_training *t, const struct culm_config *config,
                              struct culm_error *error) {
    struct culm_train_config given;
    enum culm_status status =
        culm_train_config_parse(config->text, config->len, config->name,
                                (const char *const *)config->set, config->set_count, &given, error);
    if (status == CULM_OK) {
        status = culm_archive_begin(&given.checkpoint, &t->launch.run, error);
        culm_train_config_release(&given);
    }
    return status;
}

static enum culm_status load(struct culm_training *t, const struct culm_config *config,
                             const struct culm_training_options *options, bool dry,
                             struct culm_error *error) {
    if (options->resume) {
        enum culm_status brought = dry ? CULM_OK : bring(t, config, error);
        return brought == CULM_OK ? load_resumed(t, config, options, error) : brought;
    }
    if (options->accept_inputs || options->from_start) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "--%s means nothing without --resume",
                              options->from_start ? "from-start" : "accept-inputs");
    }
    enum culm_status status = load_config(t, config, error);
    if (status == CULM_OK && t->shared) {
        return culm_cluster_check_place(&t->config.checkpoint, error);
    }
    if (status == CULM_OK && !dry) {
        status = culm_rundir_check(t->dir, false, error);
    }
    return status == CULM_OK && !dry
               ? culm_archive_begin(&t->config.checkpoint, &t->launch.run, error)
               : status;
}

static enum culm_status check_program(const struct culm_training *t,
                                      const struct culm_training_options *options,
                                      struct culm_error *error) {
    return options->program_arguments && t->config.eval.every > 0
               ? culm_error_set(error, CULM_ERR_CONFIG,
                                "eval.every: evaluations are processes of the culm program, and "
                                "workers are to be of another; leave one of them out")
               : CULM_OK;
}

static enum culm_status take_program(struct culm_training *t,
                                     const struct culm_training_options *options,
                                     struct culm_error *error) {
    enum culm_status status = culm_program_find(options->program, t->program, error);
    size_t count = 0;
    while (options->program_arguments && options->program_arguments[count]) {
        count++;
    }
    t->program_arguments = calloc(count + 1, sizeof *t->program_arguments);
    for (size_t i = 0; i < count && t->program_arguments; i++) {
        t->program_arguments[i] = strdup(options->program_arguments[i]);
        if (!t->program_arguments[i]) {
            return no_memory(error);
        }
    }
    return status == CULM_OK && !t->program_arguments ? no_memory(error) : status;
}

static enum culm_status take_workers(struct culm_training *t,
                                     const struct culm_training_options *options,
                                     const struct culm_launch_extras *extras,
                                     struct culm_error *error) {
    const struct culm_doors_here here = {.listen = options->listen,
                                         .trace = extras->trace_path,
                                         .limited = options->limit_workers != 0,
                                         .workers = options->workers,
                                         .most = CULM_MAX_NODES};
    return culm_doors_here_most(&here, &t->launch.here_most, error);
}

static enum culm_status make(struct culm_training *t, const struct culm_config *config,
                             const struct culm_training_options *options,
                             const struct culm_launch_extras *extras, struct culm_error *error) {
    enum culm_status status;
    if ((status = culm_launcher_options_init(&t->launch.run, error)) ||
        (status = culm_path_format(t->dir, error, "%s", options->dir))) {
        return status;
    }
    t->launch.run.warn = options->warning;
    t->launch.run.ctx = options->context;
    t->launch.run.dir = t->dir;
    t->launch.run.resume = options->resume;
    t->shared = extras->shared;
    if (extras->reigning) {
        t->launch.leader_fault = extras->reigning->fault;
        t->launch.run.stand = extras->reigning->stand;
        t->launch.run.stand_ctx = extras->reigning->place;
        snprintf(t->launch.run.run, sizeof t->launch.run.run, "%s", extras->reigning->run);
    }
    if ((status = load(t, config, options, extras->dry, error)) ||
        (status = check_program(t, options, error)) || (status = load_faults(t, extras, error)) ||
        (options->plan && (status = culm_path_format(t->plan, error, "%s", options->plan))) ||
        (status = take_program(t, options, error))) {
        return status;
    }
    const struct culm_doors_options doors = {.listen = options->listen,
                                             .advertise = options->advertise,
                                             .token_file = options->token_file,
                                             .insecure = options->insecure != 0};
    if ((status = culm_doors_read(&doors, &t->launch.doors, &t->launch.run, error)) ||
        (status = take_workers(t, options, extras, error))) {
        return status;
    }
    culm_function_sink_init(&t->function, options->event, options->context);
    t->launch.run.log = options->event ? &t->function.sink : NULL;
    t->launch.config = &t->config;
    t->launch.network = t->network;
    t->launch.config_text = t->config_text;
    t->launch.run.accept_inputs = options->accept_inputs;
    t->launch.run.from_start = options->from_start;
    t->launch.run.program = t->program;
    t->launch.run.program_arguments = (const char *const *)t->program_arguments;
    t->launch.plan_path = options->plan ? t->plan : NULL;
    t->launch.faults = t->faults;
    t->launch.run.fault_texts = extras->faults;
    t->launch.run.fault_count = extras->fault_count;
    t->launch.run.trace_path = extras->trace_path;
    t->launch.run.time_scale = extras->time_scale > 0 ? extras->time_scale : 1;
    return CULM_OK;
}

enum culm_status culm_training_make(const struct culm_config *config,
                                    const struct culm_training_options *options,
                                    const struct culm_launch_extras *extras,
                                    struct culm_training **ret_training, struct culm_error *error) {
    static const struct culm_launch_extras none = {0};
    struct culm_training_options own;
    if (!config || !ret_training) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_training_new: an argument is NULL");
    }
    enum culm_status status =
        culm_public_take(&own, sizeof own, options, "culm_training_options", error);
    if (status != CULM_OK) {
        return status;
    }
    if (!own.dir || !own.dir[0]) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "struct culm_training_options: dir is not set");
    }
    struct culm_training *training = calloc(1, sizeof *training);
    if (!training) {
        return no_memory(error);
    }
    status = make(training, config, &own, extras ? extras : &none, error);
    if (status != CULM_OK) {
        culm_training_free(training);
        return status;
    }
    *ret_training = training;
    return CULM_OK;
}

enum culm_status culm_training_new(struct culm_config *config,
                                   const struct culm_training_options *options,
                                   struct culm_training **ret_training, struct culm_error *error) {
    return culm_training_make(config, options, NULL, ret_training, error);
}

void culm_training_free(struct culm_training *training) {
    if (!training) {
        return;
    }
    if (training->ran) {
        culm_launcher_result_release(&training->result);
    }
    culm_launcher_options_release(&training->launch.run);
    culm_storage_free(training->launch.run.storage);
    for (char **argument = training->program_arguments; argument && *argument; argument++) {
        free(*argument);
    }
    free(training->program_arguments);
    free(training->faults);
    free(training->config_text);
    free(training->plan_json);
    culm_network_close(training->network);
    struct culm_pins *pins = training->config.pins;
    culm_train_config_release(&training->config);
    culm_pins_free(pins);
    free(training);
}

/* --- using --- */

struct culm_training_shape culm_training_shape_of(const struct culm_training *training) {
    const struct culm_train_config *config = &training->config;
    return (struct culm_training_shape){
        .arch = culm_arch_names[config->model.arch],
        .redundancy = culm_redundancy_name(config->redundancy),
        .redundant = config->redundancy != CULM_REDUNDANCY_NONE,
        .pipelines = config->pipelines,
        .stages = config->stages,
        .lanes = config->batch.lanes,
        .micros_per_lane = config->batch.global / config->batch.micro / config->batch.lanes,
        .steps = config->steps,
    };
}

const struct culm_summary *culm_training_summary(const struct culm_training *training) {
    return &training->result.summary;
}

bool culm_training_fired(const struct culm_training *training, size_t fault) {
    return !training->result.fired || training->result.fired[fault];
}

void culm_training_watch(struct culm_training *training, struct culm_sink *log,
                         struct culm_sink *screen) {
    training->launch.run.log = log;
    training->launch.run.screen = screen;
}

enum culm_status culm_training_plan(struct culm_training *training, const char **ret_json,
                                    struct culm_error *error) {
    json_t *plan = NULL;
    if (!training || !ret_json) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_training_plan: an argument is NULL");
    }
    enum culm_status status = culm_train_launch_plan(&training->launch, &plan, error);
    if (plan) {
        free(training->plan_json);
        training->plan_json = json_dumps(plan, JSON_COMPACT);
        json_decref(plan);
        if (!training->plan_json) {
            return no_memory(error);
        }
        *ret_json = training->plan_json;
    }
    return status;
}

static enum culm_status plan_text(void *ctx, char **ret_plan,
                                  char ret_signature[CULM_SIGNATURE_SIZE],
                                  struct culm_error *error) {
    const struct culm_training *training = ctx;
    return culm_train_launch_text(&training->launch, ret_plan, ret_signature, error);
}

enum culm_status culm_training_create(struct culm_training *training, const char *store,
                                      const char *name, const char *token_file, bool resume,
                                      struct culm_error *error) {
    const struct culm_cluster_request request = {.job = CULM_CLUSTER_TRAIN,
                                                 .dir = training->dir,
                                                 .config_text = training->config_text,
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

int culm_training_go(struct culm_training *training, struct culm_error *ret_error) {
    training->ran = true;
    return culm_train_launch_run(&training->launch, &training->result, ret_error);
}

enum culm_status culm_training_run(struct culm_training *training, struct culm_error *error) {
    struct culm_error own = {0};
    if (!training || training->ran) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_training_run: %s",
                              training ? "this training was run before" : "NULL");
    }
    return culm_public_ended(culm_training_go(training, &own), &own, error);
}

void culm_training_stop(struct culm_training *training) {
    if (training) {
        culm_launcher_stop(&training->launch.run);
    }
}

void culm_training_resign(struct culm_training *training) {
    culm_launcher_resign(&training->launch.run);
}

void culm_training_abort(struct culm_training *training) {
    if (training) {
        culm_launcher_abort(&training->launch.run);
    }
}
