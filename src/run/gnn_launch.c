/* Launches training on a graph, in the order of steps in launcher.h. See gnn_launch.h. */
#include "run/gnn_launch.h"

#include "base/json.h"

#include "gnn/numeric.h"
#include "gnn/spans.h"
#include "interval/phase.h"
#include "launch/inputs.h"
#include "launch/resume.h"
#include "net/socket.h"
#include "report/gnn.h"
#include "run/eval_watch.h"
#include "run/gnn_cost.h"
#include "run/gnn_engine.h"
#include "run/gnn_launch_cut.h"
#include "run/gnn_node.h"
#include "store/checkpoint_room.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TUNE_SAMPLES 3         /* epochs by which a number of workers is judged */
#define TUNE_S 0.5             /* or more epochs, until they take that long; see tune.h */
#define CUT_TOLD_MAX (1 << 24) /* vertices of the largest cut that is sent in a brief */

/* What may differ when a run is resumed, beside what always may. */
#define KNOWN (CULM_CONFIG_SETTING | CULM_CONFIG_INPUT)

struct launch {
    const struct culm_gnn_launch_options *o;
    struct culm_launcher *launcher;
    struct culm_gnn_setup *setup;
    struct culm_gnn_brief brief; /* its config_text is borrowed from the options */
    struct culm_inputs inputs;   /* files of the graph and the first weights, pinned as they are
                                  * opened here */
    struct culm_launch_inputs_thread digests;
    int32_t *home; /* [intervals] */
    int64_t rows[CULM_GNN_SPLITS];
    int64_t memory_bytes; /* of all servers together, about */
    char signature[CULM_SIGNATURE_SIZE];
    struct culm_resume start;
    struct culm_eval_watch eval;
    struct culm_gnn_verdict start_verdict;
    uint32_t start_branch;
    struct culm_agent_fault *faults;
    struct culm_gnn_prices prices;
    struct culm_gnn_rates rates;
    struct culm_gnn_bill spent; /* by earlier parts of a resumed run */
    struct culm_gnn_exec *exec;
    struct culm_gnn_leader *leader;
    struct culm_engine *engine; /* starts workers; NULL: they are child processes */
};

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

/* --- before anything is written --- */

/* Fills in the home server of each interval. */
static enum culm_status share_out(struct launch *l, struct culm_error *error) {
    l->home = calloc((size_t)l->setup->structure->intervals, sizeof *l->home);
    if (!l->home) {
        return no_memory(error);
    }
    for (int32_t s = 0; s < l->o->config->servers; s++) {
        for (int64_t i = l->setup->owned[s]; i < l->setup->owned[s + 1]; i++) {
            l->home[i] = s;
        }
    }
    return CULM_OK;
}

/* Pins model.init, so that all holders load the same weights, at any time. */
static enum culm_status pin_init(struct launch *l, struct culm_error *error) {
    char note[CULM_WEIGHTS_NOTE_SIZE] = "";
    struct culm_weights *weights = NULL;
    if (!l->o->config->model.init) {
        return CULM_OK;
    }
    enum culm_status status =
        culm_gnn_init_open(l->o->config, l->setup->model, l->inputs.pins, &weights, note, error);
    if (status == CULM_OK) {
        status = culm_weights_check_finite(weights, error);
        if (status != CULM_OK) {
            culm_error_prefix(error, "model.init");
        }
    }
    if (status == CULM_OK && note[0]) {
        culm_launcher_warn(l->launcher, "%s", note);
    }
    culm_weights_close(weights);
    return status;
}

/* Counts the vertices that train, validate and test. */
static enum culm_status count_rows(struct launch *l, struct culm_error *error) {
    const struct culm_gnn_config *config = l->o->config;
    const struct culm_graph_data *graph = l->setup->graph;
    const uint8_t *split = graph->split + config->graph.split * graph->vertices;
    for (int64_t v = 0; v < graph->vertices; v++) {
        if (split[v] >= 1 && split[v] <= CULM_GNN_SPLITS && graph->label[v] >= 0) {
            l->rows[split[v] - 1]++;
        }
    }
    if (l->rows[CULM_GNN_VALID] == 0 && config->checkpoint.best != CULM_BEST_NONE) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "checkpoint.best: split %lld of '%s' has no vertices for validation, "
                              "so nothing tells which is best; leave it out",
                              (long long)config->graph.split, config->graph.path);
    }
    if (l->rows[CULM_GNN_VALID] == 0 && (config->stop.accuracy > 0 || config->stop.patience > 0)) {
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "stop.accuracy, stop.patience: split %lld of '%s' has no vertices for "
            "validation, so nothing tells when to stop; leave them out",
            (long long)config->graph.split, config->graph.path);
    }
    return CULM_OK;
}

static enum culm_status check(struct launch *l, struct culm_error *error) {
    struct culm_device *device = NULL;
    enum culm_status status;
    l->inputs.pins = culm_pins_new();
    if (!l->inputs.pins) {
        return no_memory(error);
    }
    if ((status = culm_gnn_prices_load(l->o->config->prices, &l->prices, error)) ||
        (status = culm_gnn_engine_new(l->o->config, l->o->doors.open ? l->o->doors.listen : NULL,
                                      &l->engine, error)) ||
        (status =
             culm_gnn_launch_open(l->o, l->inputs.pins, &l->setup, l->brief.cut_sha256, error)) ||
        (status = count_rows(l, error)) || (status = pin_init(l, error)) ||
        (status = share_out(l, error)) || (status = culm_launcher_check(l->launcher, error)) ||
        (!l->o->run.stand && (status = culm_doors_try(&l->o->doors, error))) ||
        (status = culm_device_new(1, &device, error))) {
        return status;
    }
    culm_gnn_signature(device, l->signature);
    culm_device_free(device);
    l->rates = culm_gnn_prices_rates(
        &l->prices, l->o->config->engine == CULM_GNN_LAMBDA ? l->o->config->lambda.memory_mb : 0,
        l->o->config->threads);
    l->brief.config_text = l->o->config_text;
    l->brief.plan = l->setup->model->plan;
    l->brief.payload_max = l->setup->layout.payload_max;
    l->inputs.samples = l->brief.plan.vertices;
    l->memory_bytes = culm_gnn_setup_memory(l->setup);
    return culm_gnn_launch_compare_plan(l->o->plan_path, &l->brief.plan, l->brief.cut_sha256,
                                        error);
}

/* --- the run directory --- */

static json_t *plan_json(const struct launch *l) {
    json_t *plan = culm_gnn_plan_json(&l->brief.plan);
    if (plan) {
        json_object_set_new(plan, "cut_sha256", json_string(l->brief.cut_sha256));
        json_object_set_new(plan, "cut_edges",
                            json_integer((json_int_t)l->setup->counts.cut_edges));
        json_object_set_new(plan, "ghosts", json_integer((json_int_t)l->setup->counts.ghosts));
        json_object_set_new(plan, "memory_bytes", json_integer((json_int_t)l->memory_bytes));
    }
    return plan;
}

/* Checks that the run in the directory was begun with what this one continues with, apart from what
 * it is given knowingly. */
static enum culm_status check_config(struct launch *l, const char *before_text,
                                     struct culm_error *error) {
    struct culm_gnn_config before;
    enum culm_status status = culm_gnn_config_parse(before_text, strlen(before_text),
                                                    "its configuration", NULL, 0, &before, error);
    if (status == CULM_OK) {
        status = culm_resume_compare(&culm_gnn_config_table, &l->start.lineage, &before,
                                     l->o->config, l->o->run.accept_inputs, error);
        status = status ? status : culm_gnn_config_resumable(&before, l->o->config, KNOWN, error);
        culm_gnn_config_release(&before);
    }
    return status;
}

/* A graph that was taken up changed (--accept-inputs) may have other features and classes. */
static enum culm_status check_tensors(const struct launch *l,
                                      const struct culm_checkpoint *checkpoint,
                                      struct culm_error *error) {
    const struct culm_gnn_model *model = l->setup->model;
    enum culm_status status = CULM_OK;
    for (int32_t i = 0; i < model->param_count && status == CULM_OK; i++) {
        const struct culm_param_info *info = model->param[i].info;
        status = culm_launch_inputs_check_tensor(&l->start, checkpoint, info->name, info->rank,
                                                 info->shape, error);
    }
    return status;
}

static enum culm_status check_start(struct launch *l, struct culm_error *error) {
    struct culm_checkpoint *checkpoint = NULL;
    enum culm_status status = culm_checkpoint_open(l->start.path, false, &checkpoint, error);
    if (status != CULM_OK) {
        return status;
    }
    const struct culm_checkpoint_info *info = culm_checkpoint_info_of(checkpoint);
    bool told = culm_gnn_verdict_read(info->progress, &l->start_verdict);
    l->start_branch = culm_gnn_branch_read(info->progress);
    if (!told && (l->o->config->stop.accuracy > 0 || l->o->config->stop.patience > 0)) {
        culm_launcher_warn(l->launcher,
                           "'%s' does not say what evaluations had come to, so `stop` begins anew",
                           l->start.path);
    }
    if (!(status = culm_resume_compare_signature(l->launcher, &l->start, checkpoint, l->signature,
                                                 error)) &&
        !(status = check_config(l, info->config, error)) &&
        !(status = culm_resume_go_on(&culm_gnn_config_table, &l->start, info->config,
                                     l->o->config_text, error)) &&
        !(status =
              culm_gnn_cut_recorded(info->choices, l->o->run.dir, l->brief.cut_sha256, error)) &&
        l->o->run.accept_inputs) {
        status = check_tensors(l, checkpoint, error);
    }
    culm_checkpoint_close(checkpoint);
    return status == CULM_OK ? CULM_OK : culm_error_prefix(error, "'%s'", l->start.path);
}

/* Of one that is to lead for a time: settings and inputs stay as they were. Before it stands. */
static enum culm_status prepare_start(struct launch *l, struct culm_error *error) {
    struct culm_resume *start = &l->start;
    enum culm_status status = culm_resume_lineage(l->o->run.dir, "", &start->lineage, error);
    if (status == CULM_OK) {
        status = culm_launch_inputs_resume(l->launcher, &l->o->run, &l->inputs, start, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    start->steps = l->o->config->epochs;
    return culm_gnn_launch_check_cut(l->o, l->brief.cut_sha256, error);
}

static enum culm_status find_start(struct launch *l, struct culm_error *error) {
    const struct culm_resume_options options = {.dir = l->o->run.dir,
                                                .steps = l->o->config->epochs,
                                                .unit = "epoch",
                                                .key = "epochs",
                                                .from_start = l->o->run.from_start};
    const char *text = l->o->config_text;
    enum culm_status status;
    if (!l->o->run.resume) {
        return CULM_OK;
    }
    if (l->o->run.stand) { /* what prepare_start has compared */
        l->start.step = culm_launcher_saved(l->launcher);
        return l->start.step > 0
                   ? culm_checkpoint_path(l->o->run.dir, l->start.step, l->start.path, error)
                   : CULM_OK;
    }
    if ((status = culm_resume_find(l->launcher, &options, &l->start, error)) ||
        (status = l->start.path[0]
                      ? check_start(l, error)
                      : culm_resume_go_on(&culm_gnn_config_table, &l->start, text, text, error)) ||
        (status = culm_gnn_cost_read(l->o->run.dir, &l->prices, true, &l->spent, error)) ||
        (status = culm_gnn_cut_compare(l->o->run.dir, l->brief.cut_sha256, error))) {
        return status;
    }
    return culm_launch_inputs_resume(l->launcher, &l->o->run, &l->inputs, &l->start, error);
}

/* For people, for --resume, and for whoever leads next. */
static enum culm_status whole_plan(const struct launch *l, json_t **ret_plan,
                                   struct culm_error *error) {
    json_t *plan = plan_json(l), *lineage = NULL;
    enum culm_status status = culm_lineage_json(&l->start.lineage, &lineage, error);
    if (plan) {
        json_object_set_new(plan, "inputs", culm_inputs_json(&l->inputs));
    }
    if (plan && lineage) {
        json_object_set(plan, "lineage", lineage);
    }
    json_decref(lineage);
    if (status != CULM_OK) {
        json_decref(plan);
        plan = NULL;
    }
    *ret_plan = plan;
    return status;
}

static enum culm_status write_plan(const struct launch *l, struct culm_error *error) {
    json_t *plan = NULL;
    const enum culm_status status = whole_plan(l, &plan, error);
    return status ? status : culm_launcher_write_plan(l->launcher, plan, error);
}

static void found_digest(void *ctx) { (void)write_plan(ctx, NULL); }

static enum culm_status claim(struct launch *l, struct culm_error *error) {
    enum culm_status status;
    if ((status = culm_launcher_claim(l->launcher, error)) || (status = find_start(l, error)) ||
        (status = culm_launcher_begin(l->launcher, l->o->config_text, error)) ||
        (status = culm_resume_settle(l->o->run.dir, &l->start, error)) ||
        (!l->o->run.stand && (status = culm_gnn_launch_write_cut(&l->o->run, l->setup, error)))) {
        return status;
    }
    return write_plan(l, error);
}

/* --- nodes and their leader --- */

static const char *const server_words[] = {"gnn-node", "server", NULL};
static const char *const parameter_words[] = {"gnn-node", "parameter", NULL};
static const char *const worker_words[] = {"gnn-node", "worker", NULL};
static const struct culm_launcher_role roles[CULM_GNN_ROLES] = {
    [CULM_GNN_SERVER] = {"server", server_words},
    [CULM_GNN_PARAMETER] = {"parameter", parameter_words},
    [CULM_GNN_WORKER] = {"worker", worker_words},
};

/* The inputs for a brief, and for whoever steps what the run has gone on with. A worker
 * reads no files, but what it keeps for another run (gnn_node.h) is made of these: its brief is the
 * same only if they are. It says nothing that becomes known later, such as the whole digest of a
 * large file. */
static json_t *inputs_for(const struct launch *l, uint32_t role) {
    json_t *inputs = culm_inputs_json(&l->inputs), *file;
    size_t index;
    json_array_foreach(role == CULM_GNN_WORKER ? json_object_get(inputs, "files") : NULL, index,
                       file) {
        if (json_object_get(file, "part_sha256")) {
            json_object_del(file, "sha256");
        }
    }
    json_t *lineage = NULL;
    if (inputs && role != CULM_GNN_WORKER &&
        (culm_lineage_json(&l->start.lineage, &lineage, NULL) ||
         (lineage && json_object_set(inputs, "lineage", lineage)))) {
        json_decref(inputs);
        inputs = NULL;
    }
    json_decref(lineage);
    return inputs;
}

/* Writes the brief of nodes in this role. Servers that join from elsewhere are sent the cut, unless
 * it is too large; then they have to cut the graph themselves. Others read cut.npy. */
static bool write_brief(void *job, uint32_t role, bool newcomer, struct culm_buf *out) {
    struct launch *l = job;
    json_t *inputs = inputs_for(l, role);
    bool told = role == CULM_GNN_SERVER && newcomer && l->brief.plan.vertices <= CUT_TOLD_MAX;
    l->brief.cut = told ? l->setup->interval_of : NULL;
    l->brief.inputs = inputs ? json_dumps(inputs, JSON_COMPACT) : NULL;
    json_decref(inputs);
    bool written = l->brief.inputs && culm_gnn_brief_write(&l->brief, out);
    free(l->brief.inputs);
    l->brief.inputs = NULL;
    return written;
}

/* How many workers there may be beside the others. */
static int64_t room_for_workers(const struct culm_gnn_config *config) {
    return config->cluster.max_nodes - config->servers - config->parameter_servers;
}

static enum culm_status open_doors(struct launch *l, struct culm_error *error) {
    const struct culm_gnn_config *config = l->o->config;
    struct culm_launcher_doors doors = {
        .signature = l->signature,
        .brief = write_brief,
        .payload_max = l->setup->layout.payload_max,
        .alive_ms = culm_crew_config_alive_ms(&config->cluster),
        .max_nodes = (int32_t)config->cluster.max_nodes,
        .trace_max = (int32_t)room_for_workers(config),
        .engine = l->engine,
        .engine_role = CULM_GNN_WORKER,
        .depot = l->o->doors.open,
    };
    culm_doors_hang(&l->o->doors, &doors);
    return culm_launcher_open(l->launcher, &doors, error);
}

/* What the events there have cost. On the thread of the leader's own tasks. */
static void read_spent(void *launch, const char *dir, double *ret_usd, double *ret_seconds) {
    struct launch *l = launch;
    struct culm_gnn_bill bill = {0};
    struct culm_error ignored = {0};
    if (culm_gnn_cost_read(dir, &l->prices, true, &bill, &ignored) == CULM_OK) {
        *ret_usd = bill.before_usd;
        *ret_seconds = bill.before_s;
    }
}

/* Where several may lead: by the events that lie with the newest checkpoint. */
static void read_spent_before(struct launch *l, double *ret_usd, double *ret_seconds) {
    struct culm_apart *apart = culm_launcher_apart(l->launcher);
    char dir[CULM_PATH_MAX];
    struct culm_error ignored = {0};
    if (apart && apart->ops->before(apart, dir, &ignored) == CULM_OK) {
        read_spent(l, dir, ret_usd, ret_seconds);
    }
}

static enum culm_status make_exec(struct launch *l, struct culm_error *error) {
    const struct culm_gnn_numeric_options numeric = {
        .config = l->o->config,
        .config_text = l->o->config_text,
        .signature = l->signature,
        .run_dir = l->o->run.dir,
        .model = l->setup->model,
        .layout = &l->setup->layout,
        .pool = culm_launcher_pool(l->launcher),
        .lineage = &l->start.lineage,
        .inputs = &l->inputs,
        .cut_sha256 = l->brief.cut_sha256,
        .apart = culm_launcher_apart(l->launcher),
        .spent = read_spent,
        .spent_ctx = l,
    };
    return culm_gnn_numeric_new(&numeric, &l->exec, error);
}

/* Options for finding the number of workers. */
static struct culm_gnn_tune_options tuning_of(const struct launch *l) {
    const struct culm_gnn_config *config = l->o->config;
    int64_t most = config->max_workers > 0 ? config->max_workers : config->intervals;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (config->max_workers == 0 && config->engine == CULM_GNN_LOCAL && processors > 0) {
        most = most < processors ? most : processors;
    }
    most = most < room_for_workers(config) ? most : room_for_workers(config);
    const double *hour = l->rates.usd_per_hour;
    return (struct culm_gnn_tune_options){
        .goal = config->tune,
        .first = (int32_t)(config->worker_count < most ? config->worker_count : most),
        .most = (int32_t)most,
        .samples = TUNE_SAMPLES,
        .least_s = TUNE_S,
        .usd_per_s = ((double)config->servers * hour[CULM_GNN_SERVER] +
                      (double)config->parameter_servers * hour[CULM_GNN_PARAMETER]) /
                     3600,
        .worker_usd_per_s = hour[CULM_GNN_WORKER] / 3600};
}

static enum culm_status make_leader(struct launch *l, struct culm_error *error) {
    const struct culm_gnn_config *config = l->o->config;
    struct culm_gnn_leader_options options = {
        .world = culm_launcher_world(l->launcher),
        .agent = culm_launcher_agent(l->launcher),
        .exec = l->exec,
        .layout = &l->setup->layout,
        .settings = {.count = {(int32_t)config->servers, (int32_t)config->parameter_servers,
                               (int32_t)config->worker_count},
                     .pace = culm_gnn_pace_of(config),
                     .checkpoint_every = config->checkpoint.every,
                     .crew = culm_crew_config_settings(&config->cluster),
                     .newcomers = l->o->doors.open,
                     .stop = {config->stop.accuracy, config->stop.patience},
                     .tunes = config->workers_auto && !l->o->run.trace_path,
                     .tune = tuning_of(l)},
        .home = l->home,
        .record = culm_launcher_record(l->launcher),
        .start_version = l->start.step,
        .start_path = l->start.path,
        .start_verdict = l->start_verdict,
        .start_branch = l->start_branch,
        .committed = culm_launcher_committed(l->launcher),
        .rates = l->rates,
        .spent_usd = l->spent.before_usd,
        .spent_s = l->spent.before_s,
        .orphan_ms = culm_crew_config_orphan_ms(&config->cluster),
        .depot = l->o->doors.open,
        .here_most = l->o->here_most,
    };
    options.term = culm_launcher_term(l->launcher, &options.known, &options.known_count);
    if (options.term <=
        1) { /* nobody is left who knows; else that is found out when they have reported */
        read_spent_before(l, &options.spent_usd, &options.spent_s);
    }
    memcpy(options.rows, l->rows, sizeof options.rows);
    l->leader = culm_gnn_leader_new(&options);
    return l->leader ? CULM_OK : no_memory(error);
}

/* --- from beginning to end --- */

static void warn_of_little_room(struct launch *l) {
    char note[CULM_ERROR_MAX];
    culm_checkpoint_room_note(l->o->run.dir, culm_gnn_numeric_checkpoint_bytes(l->exec, false),
                              culm_gnn_numeric_checkpoint_bytes(l->exec, true),
                              l->o->config->checkpoint.every ? l->o->config->checkpoint.keep : 0,
                              note);
    if (note[0]) {
        culm_launcher_warn(l->launcher, "%s", note);
    }
}

static void tell_start(const struct launch *l) {
    json_t *plan = culm_launcher_plan_event(plan_json(l));
    const struct culm_gnn_config *config = l->o->config;
    /* The event `start` also says what is billed. */
    json_t *more = json_pack("{s:I, s:I, s:I}", "servers", (json_int_t)config->servers,
                             "parameter_servers", (json_int_t)config->parameter_servers,
                             "worker_mb", (json_int_t)(l->rates.worker_gb * 1024 + 0.5));
    if (l->o->doors.open) {
        json_object_set_new(more, "address", json_string(culm_launcher_address(l->launcher)));
        json_object_set_new(more, "survives_its_host", json_boolean(l->o->run.stand != NULL));
    }
    culm_launcher_start(l->launcher, l->o->config_sha256, more);
    json_decref(more);
    culm_launcher_tell(l->launcher, plan);
    json_decref(plan);
    if (l->o->run.resume && !l->o->run.stand) {
        culm_resume_tell(l->launcher, &l->start, "epoch");
        culm_launcher_send(l->launcher, l->start.path);
    }
    struct culm_gnn_spans spans;
    if (culm_gnn_spans_read(&l->start.lineage, config, &spans, NULL) == CULM_OK) {
        if (!culm_gnn_spans_exact(&spans, config->epochs)) {
            culm_launcher_inexact(l->launcher, "optimizer");
        }
        culm_gnn_spans_release(&spans);
    }
}

static void release(struct launch *l) {
    culm_eval_watch_stop(&l->eval);
    culm_launch_inputs_stop(&l->digests);
    culm_gnn_leader_free(l->leader);
    culm_gnn_numeric_free(l->exec);
    culm_launcher_free(l->launcher);
    culm_engine_free(l->engine);
    culm_gnn_setup_close(l->setup);
    free(l->home);
    culm_gnn_prices_release(&l->prices);
    culm_resume_release(&l->start);
    culm_pins_free(l->inputs.pins);
    free(l->faults);
}

static enum culm_status take_faults(struct launch *l, struct culm_error *error) {
    l->faults = calloc(l->o->run.fault_count + 1, sizeof *l->faults);
    if (!l->faults) {
        return no_memory(error);
    }
    for (size_t i = 0; i < l->o->run.fault_count; i++) {
        const struct culm_gnn_fault_spec *spec = &l->o->faults[i];
        l->faults[i] = (struct culm_agent_fault){.node = -1,
                                                 .phase = culm_gnn_phase_name(spec->point.phase),
                                                 .how = spec->how,
                                                 .for_ms = spec->for_ms,
                                                 .role = spec->role,
                                                 .index = spec->index};
    }
    return CULM_OK;
}

static void tell(void *launcher, json_t *event, const json_t *next) {
    culm_launcher_tell_at(launcher, event, next);
}

static void before_event(void *job, const json_t *next) {
    struct launch *l = job;
    culm_eval_watch_before(&l->eval, next, tell, l->launcher);
}

/* The launch is to be released even after a failure. */
static enum culm_status init(struct launch *l, const struct culm_gnn_launch_options *options,
                             struct culm_launcher_result *result, struct culm_error *error) {
    *l = (struct launch){.o = options,
                         .eval = {.graph = true,
                                  .every = options->config->checkpoint.best != CULM_BEST_NONE,
                                  .best = options->config->checkpoint.best,
                                  .dir = options->run.dir,
                                  .program = options->run.program}};
    enum culm_status status = take_faults(l, error);
    if (status != CULM_OK) {
        return status;
    }
    const struct culm_launcher_job job = {
        .role = roles,
        .role_count = CULM_GNN_ROLES,
        .trace_role = CULM_GNN_WORKER,
        .faults = l->faults,
        .result = result,
        .before = before_event,
        .job = l,
    };
    return culm_launcher_new(&options->run, &job, &l->launcher, error);
}

enum culm_status culm_gnn_launch_plan(const struct culm_gnn_launch_options *options,
                                      json_t **ret_plan, struct culm_error *error) {
    struct launch l;
    enum culm_status status = init(&l, options, NULL, error);
    if (status == CULM_OK) {
        status = check(&l, error);
    }
    if (status == CULM_OK) {
        status = find_start(&l, error);
    }
    if (status == CULM_OK) {
        const struct culm_gnn_config *config = options->config;
        json_t *plan = plan_json(&l);
        json_object_set_new(plan, "parameters",
                            json_integer((json_int_t)culm_gnn_model_parameters(l.setup->model)));
        json_object_set_new(plan, "intervals", json_integer((json_int_t)config->intervals));
        json_object_set_new(plan, "servers", json_integer((json_int_t)config->servers));
        json_object_set_new(plan, "parameter_servers",
                            json_integer((json_int_t)config->parameter_servers));
        json_object_set_new(plan, "workers", json_integer((json_int_t)config->worker_count));
        *ret_plan = plan;
        status = plan ? CULM_OK : no_memory(error);
    }
    release(&l);
    return status;
}

enum culm_status culm_gnn_launch_text(const struct culm_gnn_launch_options *options,
                                      char **ret_plan, char ret_signature[CULM_SIGNATURE_SIZE],
                                      struct culm_error *error) {
    struct launch l;
    json_t *plan = NULL;
    enum culm_status status = init(&l, options, NULL, error);
    if (status == CULM_OK) {
        status = check(&l, error);
    }
    if (status == CULM_OK) {
        status = culm_launch_inputs_complete(l.launcher, l.inputs.pins, error);
    }
    if (status == CULM_OK) {
        status = whole_plan(&l, &plan, error);
    }
    char *text = plan ? json_dumps(plan, JSON_INDENT(2)) : NULL;
    json_decref(plan);
    if (status == CULM_OK && !text) {
        status = no_memory(error);
    }
    if (status == CULM_OK) {
        memcpy(ret_signature, l.signature, sizeof l.signature);
        *ret_plan = text;
    }
    release(&l);
    return status;
}

static void forget_graph(struct launch *l) {
    culm_gnn_setup_forget_graph(l->setup); /* nodes read it themselves */
    (void)malloc_trim(0);
}

/* Where several may lead, waits until this process does; the cut is written before, so that meanwhile no graph is in memory. Then nodes
 * that took part go on. */
static enum culm_status stand(struct launch *l, struct culm_error *error) {
    enum culm_status status = prepare_start(l, error);
    if (status == CULM_OK) {
        status = culm_gnn_launch_write_cut(&l->o->run, l->setup, error);
    }
    if (status == CULM_OK) {
        forget_graph(l);
        status = culm_launcher_stand(l->launcher, l->o->config_text, l->signature, error);
    }
    if (status == CULM_OK) {
        status = claim(l, error);
    }
    return status == CULM_OK ? culm_launcher_recall(l->launcher, true, error) : status;
}

static enum culm_status begin(struct launch *l, struct culm_error *error) {
    enum culm_status status = l->o->run.stand ? stand(l, error) : claim(l, error);
    if (status || (status = open_doors(l, error)) || (status = make_exec(l, error)) ||
        (status = make_leader(l, error))) {
        return status;
    }
    forget_graph(l);
    return CULM_OK;
}

int culm_gnn_launch_run(const struct culm_gnn_launch_options *options,
                        struct culm_launcher_result *ret_result, struct culm_error *ret_error) {
    struct launch l;
    enum culm_status status;
    int code;
    culm_launcher_result_init(ret_result, &culm_summary_gnn);
    if ((status = init(&l, options, ret_result, ret_error)) || (status = check(&l, ret_error)) ||
        (status = begin(&l, ret_error))) {
        code = culm_status_exit_code(status);
    } else {
        warn_of_little_room(&l);
        tell_start(&l);
        culm_launch_inputs_start(&l.digests, l.inputs.pins, l.launcher, found_digest, &l);
        code = culm_launcher_run(l.launcher, &culm_gnn_leader_actor, l.leader, ret_error);
    }
    release(&l);
    return code;
}
