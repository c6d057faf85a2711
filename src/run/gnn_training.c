/* A training run on a graph as an object. See gnn_training.h. */
#include "run/gnn_training.h"

#include "net/address.h"
#include "run/gearman_worker.h"
#include "run/gnn_function.h"
#include "run/gnn_launch.h"
#include "run/gnn_node.h"
#include "run/program.h"
#include "run/resume.h"
#include "run/rundir.h"
#include "store/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct culm_gnn_training {
    struct culm_gnn_config config;
    bool configured, ran;
    char dir[CULM_PATH_MAX], program[CULM_PATH_MAX], listen[CULM_ADDRESS_SIZE],
        advertise[CULM_ADDRESS_SIZE];
    struct culm_gnn_fault_spec *faults;
    struct culm_gnn_launch_options launch;
    struct culm_launcher_result result;
};

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a training run");
}

static enum culm_status load_config(struct culm_gnn_training *t, const char *path,
                                    const char *const *sets, size_t set_count,
                                    struct culm_error *error) {
    enum culm_status status = culm_gnn_config_load(path, sets, set_count, &t->config, error);
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
static enum culm_status load_with(struct culm_gnn_training *t,
                                  const struct culm_gnn_training_options *options,
                                  const struct culm_resume_sets *kept, struct culm_error *error) {
    const char **sets = calloc(options->set_count + kept->count + 1, sizeof *sets);
    if (!sets) {
        return no_memory(error);
    }
    for (size_t i = 0; i < options->set_count + kept->count; i++) {
        sets[i] = i < options->set_count ? options->sets[i] : kept->set[i - options->set_count];
    }
    enum culm_status status =
        load_config(t, options->config_path, sets, options->set_count + kept->count, error);
    free(sets);
    return status;
}

/* The settings of `before`, which the run in the directory had last, go on; see resume.h. */
static enum culm_status keep_settings(const struct culm_gnn_training *t,
                                      const struct culm_gnn_training_options *options,
                                      const struct culm_lineage *lineage,
                                      const struct culm_gnn_config *before,
                                      struct culm_resume_sets *ret_kept, struct culm_error *error) {
    struct culm_gnn_config now;
    enum culm_status status =
        culm_gnn_config_load(options->config_path, options->sets, options->set_count, &now, error);
    if (status != CULM_OK) {
        return status;
    }
    status = culm_resume_settings(&culm_gnn_config_table, lineage, before, &now, options->sets,
                                  options->set_count, "epochs", ret_kept, error);
    culm_gnn_config_release(&now);
    if (status == CULM_OK && ret_kept->count > 0 && options->warning) {
        char text[CULM_ERROR_MAX];
        culm_resume_sets_warning(ret_kept, t->dir, options->config_path, text);
        options->warning(options->context, text);
    }
    return status;
}

/* The run directory must hold a run that this configuration may continue. Compares with config.yaml
 * only as long as there is no checkpoint; later, gnn_launch.c compares with the checkpoint, which
 * nobody edits. */
static enum culm_status load_resumed(struct culm_gnn_training *t,
                                     const struct culm_gnn_training_options *options,
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
        !(status = keep_settings(t, options, &lineage, &before, &kept, error)) &&
        !(status = load_with(t, options, &kept, error))) {
        status = culm_resume_compare(&culm_gnn_config_table, &lineage, &before, &t->config,
                                     options->accept_inputs, error);
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

/* The configuration; and the run directory must be free, or hold its run. */
static enum culm_status load(struct culm_gnn_training *t,
                             const struct culm_gnn_training_options *options,
                             struct culm_error *error) {
    if (options->resume) {
        return load_resumed(t, options, error);
    }
    if (options->accept_inputs || options->from_start) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "--%s means nothing without --resume",
                              options->from_start ? "from-start" : "accept-inputs");
    }
    enum culm_status status =
        load_config(t, options->config_path, options->sets, options->set_count, error);
    return status == CULM_OK && !options->dry ? culm_rundir_check(t->dir, false, error) : status;
}

static enum culm_status load_faults(struct culm_gnn_training *t,
                                    const struct culm_gnn_training_options *options,
                                    struct culm_error *error) {
    t->faults = calloc(options->fault_count + 1, sizeof *t->faults);
    enum culm_status status = t->faults ? CULM_OK : no_memory(error);
    for (size_t i = 0; i < options->fault_count && status == CULM_OK; i++) {
        const char *text = options->faults[i];
        status = culm_gnn_fault_parse(text, &t->faults[i], error);
        if (status == CULM_OK) {
            status = culm_gnn_fault_check(&t->faults[i], text, &t->config, error);
        }
    }
    return status;
}

/* Takes "HOST:PORT" for a TCP address. */
static enum culm_status full_address(const char *text, char ret_text[CULM_ADDRESS_SIZE],
                                     struct culm_error *error) {
    bool whole = strncmp(text, "tcp:", 4) == 0 || strncmp(text, "unix:", 5) == 0;
    int len = snprintf(ret_text, CULM_ADDRESS_SIZE, "%s%s", whole ? "" : "tcp:", text);
    return len >= 0 && len < CULM_ADDRESS_SIZE
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_ARGUMENT, "the address '%.60s...' is too long",
                                text);
}

static enum culm_status read_address(const char *option, const char *text,
                                     char ret_text[CULM_ADDRESS_SIZE],
                                     struct culm_address *ret_address, struct culm_error *error) {
    enum culm_status status = full_address(text, ret_text, error);
    if (status == CULM_OK) {
        status = culm_address_parse(ret_text, ret_address, error);
    }
    if (status != CULM_OK) {
        culm_error_prefix(error, "%s", option);
        status = CULM_ERR_ARGUMENT;
        if (error) {
            error->status = status;
        }
    }
    return status;
}

/* Traffic is not encrypted, so an address that others can reach needs --insecure. */
static enum culm_status read_listen(const char *text, bool insecure,
                                    char ret_text[CULM_ADDRESS_SIZE],
                                    struct culm_address *ret_address, struct culm_error *error) {
    enum culm_status status = read_address("--listen", text, ret_text, ret_address, error);
    if (status == CULM_OK && !culm_address_is_loopback(ret_address) && !insecure) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "--listen %s can be reached from other machines, and traffic is "
                                "not encrypted; give --insecure if your network is private",
                                text);
    }
    return status;
}

static enum culm_status read_advertise(const char *text, char ret_text[CULM_ADDRESS_SIZE],
                                       struct culm_error *error) {
    struct culm_address address;
    enum culm_status status = read_address("--advertise", text, ret_text, &address, error);
    if (status == CULM_OK && culm_address_is_any(&address)) {
        status = culm_error_set(
            error, CULM_ERR_CONFIG,
            "--advertise %s is not an address to connect to; name one address of this machine",
            text);
    }
    return status;
}

static enum culm_status take_listen(struct culm_gnn_training *t,
                                    const struct culm_gnn_training_options *options,
                                    struct culm_error *error) {
    struct culm_address address;
    if (!options->listen) {
        return options->advertise ? culm_error_set(error, CULM_ERR_ARGUMENT,
                                                   "--advertise needs --listen ADDR:PORT")
                                  : CULM_OK;
    }
    enum culm_status status =
        read_listen(options->listen, options->insecure, t->listen, &address, error);
    if (status == CULM_OK && options->advertise) {
        status = read_advertise(options->advertise, t->advertise, error);
        t->launch.advertise = t->advertise;
    } else if (status == CULM_OK && culm_address_is_any(&address)) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "--listen %s is every address of this machine; name the one that "
                                "others are to connect to with --advertise ADDR:PORT",
                                options->listen);
    }
    t->launch.listen = t->listen;
    return status;
}

/* A trace starts and ends workers as processes on this machine, so it needs `engine: local`. */
static enum culm_status take_trace(struct culm_gnn_training *t,
                                   const struct culm_gnn_training_options *options,
                                   struct culm_error *error) {
    if (!options->trace) {
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
    t->launch.run.trace_path = options->trace;
    t->launch.run.time_scale = options->time_scale > 0 ? options->time_scale : 1;
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

static enum culm_status make(struct culm_gnn_training *t,
                             const struct culm_gnn_training_options *options,
                             struct culm_error *error) {
    enum culm_status status;
    if ((status = culm_launcher_options_init(&t->launch.run, error)) ||
        (status = culm_path_format(t->dir, error, "%s", options->dir)) ||
        (status = load(t, options, error)) || (status = load_faults(t, options, error)) ||
        (status = check_partition(options, error)) || (status = take_listen(t, options, error)) ||
        (status = take_trace(t, options, error)) ||
        (status = culm_program_find(options->program, t->program, error))) {
        return status;
    }
    t->launch.faults = t->faults;
    t->launch.plan_path = options->plan;
    t->launch.partition_path = options->partition;
    t->launch.run.dir = t->dir;
    t->launch.run.resume = options->resume;
    t->launch.run.accept_inputs = options->accept_inputs;
    t->launch.run.from_start = options->from_start;
    t->launch.run.program = t->program;
    t->launch.run.fault_texts = options->faults;
    t->launch.run.fault_count = options->fault_count;
    t->launch.run.warn = options->warning;
    t->launch.run.ctx = options->context;
    return CULM_OK;
}

enum culm_status culm_gnn_training_new(const struct culm_gnn_training_options *options,
                                       struct culm_gnn_training **ret_training,
                                       struct culm_error *error) {
    struct culm_gnn_training *training = calloc(1, sizeof *training);
    if (!training) {
        return no_memory(error);
    }
    enum culm_status status = make(training, options, error);
    if (status != CULM_OK) {
        culm_gnn_training_free(training);
        return status;
    }
    *ret_training = training;
    return CULM_OK;
}

void culm_gnn_training_free(struct culm_gnn_training *training) {
    if (!training) {
        return;
    }
    if (training->ran) {
        culm_launcher_result_release(&training->result);
    }
    culm_launcher_options_release(&training->launch.run);
    free(training->faults);
    free(training->launch.config_text);
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

enum culm_status culm_gnn_training_plan(const struct culm_gnn_training *training, json_t **ret_plan,
                                        struct culm_error *error) {
    return culm_gnn_launch_plan(&training->launch, ret_plan, error);
}

int culm_gnn_training_go(struct culm_gnn_training *training, struct culm_error *ret_error) {
    training->ran = true;
    return culm_gnn_launch_run(&training->launch, &training->result, ret_error);
}

void culm_gnn_training_stop(struct culm_gnn_training *training) {
    if (training) {
        culm_launcher_stop(&training->launch.run);
    }
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

char *culm_gnn_training_resumable_keys(void) { return culm_gnn_config_resumable_keys(); }

char *culm_gnn_training_setting_keys(void) { return culm_gnn_config_setting_keys(); }

char *culm_gnn_training_reference(bool markdown) { return culm_gnn_config_reference(markdown); }

int culm_gnn_join(const struct culm_gnn_join_options *options, struct culm_error *ret_error) {
    char token[CULM_PARTICIPANT_TOKEN_SIZE], join[CULM_ADDRESS_SIZE], listen[CULM_ADDRESS_SIZE],
        advertise[CULM_ADDRESS_SIZE];
    struct culm_address address;
    enum culm_status status = read_address("--join", options->address, join, &address, ret_error);
    uint32_t role = strcmp(options->role, "server") == 0 ? CULM_GNN_SERVER : CULM_GNN_WORKER;
    if (status == CULM_OK && options->listen) {
        status = read_listen(options->listen, options->insecure, listen, &address, ret_error);
    }
    if (status == CULM_OK && options->advertise) {
        status = read_advertise(options->advertise, advertise, ret_error);
    }
    if (status == CULM_OK) {
        status = culm_participant_read_token(options->token_file, token, ret_error);
    }
    if (status != CULM_OK) {
        return culm_status_exit_code(status);
    }
    const struct culm_participant_call call = {.address = join,
                                               .token = token,
                                               .role = role,
                                               .name = "newcomer",
                                               .listen = options->listen ? listen : NULL,
                                               .advertise = options->advertise ? advertise : NULL};
    return culm_run_gnn_newcomer(&call, NULL, ret_error);
}

enum culm_status culm_gnn_work_for(const char *server, struct culm_error *error) {
    return culm_gearman_work(server, error);
}

int culm_gnn_function_main(void) { return culm_gnn_function_run(); }

int culm_gnn_node_main(int argc, char **argv) {
    return culm_participant_main("node", argc, argv, culm_run_gnn_node);
}
