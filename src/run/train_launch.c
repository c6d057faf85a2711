/* Training's part of a launch, in the order of launcher.h. See train_launch.h. */
#include "run/train_launch.h"

#include "launch/inputs.h"
#include "launch/resume.h"
#include "pipeline/leader.h"
#include "report/training.h"
#include "run/data_check.h"
#include "run/eval_watch.h"
#include "run/train_launch_choices.h"
#include "run/worker.h"
#include "store/checkpoint_room.h"
#include "train/brief.h"
#include "train/estimate.h"
#include "train/numeric.h"
#include "train/spans.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLASSES_MAX 65536 /* of more, names are not kept */

struct launch {
    const struct culm_train_launch_options *o;
    struct culm_launcher *launcher;
    struct culm_plan *plan;
    struct culm_inputs inputs; /* pinned as they are opened here; the pins are the caller's */
    struct culm_order_left_out *left_out; /* of the samples */
    struct culm_launch_inputs_thread digests;
    char signature[CULM_SIGNATURE_SIZE];
    struct culm_resume start;
    struct culm_train_spans spans;
    struct culm_train_config spanned; /* the caller's, with the spans; borrows */
    struct culm_agent_fault *faults;
    struct culm_exec *exec;
    struct culm_pipeline_leader *leader;
    struct culm_eval_watch eval;
};

/* --- before anything is written --- */

static enum culm_status make_plan(struct launch *l, struct culm_error *error) {
    struct culm_choices choices = {0};
    enum culm_status status = culm_train_launch_choices(l->o, l->launcher, &choices, error);
    if (status == CULM_OK) {
        status = culm_plan_new(l->o->network, &choices, &l->plan, error);
    }
    culm_choices_release(&choices);
    return status;
}

/* What the classes of the samples are called stays with the run. */
static enum culm_status take_classes(struct launch *l, const struct culm_source *source,
                                     struct culm_error *error) {
    const char *name;
    culm_names_release(&l->inputs.classes);
    bool many = culm_source_class_name(source, CLASSES_MAX);
    for (size_t i = 0; !many && (name = culm_source_class_name(source, i)); i++) {
        if (!culm_inputs_add_class(&l->inputs, name)) {
            return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
        }
    }
    return CULM_OK;
}

static enum culm_status take_left_out(struct launch *l, const struct culm_source *source,
                                      struct culm_error *error) {
    const struct culm_order_left_out *left_out = culm_source_left_out(source);
    culm_order_left_out_free(l->left_out);
    l->left_out = culm_order_left_out_copy(left_out);
    if (!left_out) {
        return CULM_OK;
    }
    culm_launcher_warn(l->launcher, "%zu of %lld samples are left out, as data.skip says",
                       culm_order_left_out_count(left_out), (long long)culm_source_samples(source));
    return l->left_out ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

/* A sample that cannot be used is better found now than where it is read. */
static enum culm_status look_through(struct launch *l, const struct culm_source *source,
                                     struct culm_error *error) {
    char note[CULM_ERROR_MAX];
    enum culm_status status =
        culm_data_check_before(source, l->o->config->data.check_s, note, error);
    if (note[0]) {
        culm_launcher_warn(l->launcher, "%s", note);
    }
    return status;
}

/* The samples, those held out too if they are wanted, and the weights to start from. */
static enum culm_status check_data(struct launch *l, const struct culm_train_config *config,
                                   struct culm_error *error) {
    enum culm_status status = culm_network_check_trainable(l->plan->graph, error);
    for (int held_out = 0; held_out < 1 + (config->eval.every > 0) && status == CULM_OK;
         held_out++) {
        struct culm_source_options options;
        struct culm_source *source = NULL;
        culm_train_config_source(config, held_out, &options);
        status = culm_source_open(&options, &source, error);
        if (status == CULM_OK) {
            status = culm_network_check_source(l->plan->graph, source, error);
            if (!held_out) {
                if (culm_source_note(source)[0]) {
                    culm_launcher_warn(l->launcher, "%s", culm_source_note(source));
                }
                l->inputs.samples = culm_source_samples(source);
                status = status ? status : take_classes(l, source, error);
                status = status ? status : take_left_out(l, source, error);
                culm_plan_hold(l->plan, culm_source_resident_bytes(source),
                               culm_source_opening_bytes(source));
            }
            bool seen = l->o->run.resume && !l->o->run.accept_inputs;
            status = status || seen ? status : look_through(l, source, error);
        }
        culm_source_free(source);
    }
    char note[CULM_NETWORK_NOTE_SIZE] = "";
    if (status == CULM_OK) {
        status = culm_network_check_weights(l->o->network, l->plan->graph, note, error);
    }
    if (status == CULM_OK && note[0]) {
        culm_launcher_warn(l->launcher, "%s", note);
    }
    return status == CULM_OK && (config->model.init || config->model.file)
               ? culm_network_try_weights(l->o->network, l->plan->graph, error)
               : status;
}

static enum culm_status check(struct launch *l, struct culm_error *error) {
    const struct culm_train_config *config = l->o->config;
    enum culm_status status;
    struct culm_device *device = NULL;
    if ((status = make_plan(l, error)) || (status = check_data(l, config, error)) ||
        (l->o->plan_path && (status = culm_plan_check(l->plan, l->o->plan_path, error))) ||
        (status = culm_launcher_check(l->launcher, error)) ||
        (!l->o->run.stand && (status = culm_doors_try(&l->o->doors, error))) ||
        (status = culm_device_new(1, &device, error))) {
        return status;
    }
    culm_signature(device, config, l->signature);
    culm_device_free(device);
    return CULM_OK;
}

/* Tasks that take longer than their limit cost a worker or two before the limit has grown. */
static void warn_of_slow_tasks(struct launch *l) {
    char text[CULM_ESTIMATE_WARNING_SIZE];
    culm_estimate_warning(l->plan, l->o->config, text);
    if (text[0]) {
        culm_launcher_warn(l->launcher, "%s", text);
    }
}

/* Where the run is to be, before the first checkpoint finds out. */
static void warn_of_little_room(struct launch *l) {
    char note[CULM_ERROR_MAX];
    culm_checkpoint_room_note(
        l->o->run.dir, culm_plan_checkpoint_bytes(l->plan, l->o->config_text, false),
        culm_plan_checkpoint_bytes(l->plan, l->o->config_text, true),
        l->o->config->checkpoint.every ? l->o->config->checkpoint.keep : 0, note);
    if (note[0]) {
        culm_launcher_warn(l->launcher, "%s", note);
    }
}

static json_t *plan_event(const struct launch *l) {
    return culm_launcher_plan_event(culm_plan_json(l->plan));
}

/* --- the run directory --- */

/* The plan's choices came from the newest checkpoint; the newest whole one may be another. */
static enum culm_status check_choices(const struct launch *l, struct culm_error *error) {
    struct culm_choices recorded = {0};
    enum culm_status status = culm_train_launch_choices_recorded(l->start.path, &recorded, error);
    if (status == CULM_OK && !culm_choices_same_algorithms(&l->plan->choices, &recorded)) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "'%s' was made with other algorithms of convolutions than the "
                                "checkpoint after it; remove that one",
                                l->start.path);
    }
    culm_choices_release(&recorded);
    return status == CULM_ERR_NOT_FOUND ? CULM_OK : status;
}

/* config.yaml, which the command has compared, may have been edited since; this one counts. */
static enum culm_status check_config(const struct launch *l, const char *before_text,
                                     struct culm_error *error) {
    struct culm_train_config before;
    enum culm_status status = culm_train_config_parse(before_text, strlen(before_text),
                                                      "its configuration", NULL, 0, &before, error);
    if (status == CULM_OK) {
        status = culm_resume_compare(&culm_train_config_table, &l->start.lineage, &before,
                                     l->o->config, l->o->run.accept_inputs, error);
        culm_train_config_release(&before);
    }
    return status == CULM_OK ? CULM_OK : culm_error_prefix(error, "'%s'", l->start.path);
}

/* A model that was taken up changed (--accept-inputs) must still have a place for what was saved. */
static enum culm_status check_tensors(const struct launch *l,
                                      const struct culm_checkpoint *checkpoint,
                                      struct culm_error *error) {
    const struct culm_graph *graph = l->plan->graph;
    enum culm_status status = CULM_OK;
    for (int32_t i = 0; i < graph->param_count && status == CULM_OK; i++) {
        const struct culm_shape *shape = &graph->param[i].shape;
        status = culm_launch_inputs_check_tensor(&l->start, checkpoint, graph->param[i].name,
                                                 shape->rank, shape->dim, error);
    }
    return status;
}

/* What the run was begun with must be what it goes on with, apart from what it is given knowingly. */
static enum culm_status check_start(struct launch *l, struct culm_error *error) {
    struct culm_checkpoint *checkpoint = NULL;
    enum culm_status status = culm_checkpoint_open(l->start.path, false, &checkpoint, error);
    if (status != CULM_OK) {
        return status;
    }
    const char *text = culm_checkpoint_info_of(checkpoint)->config;
    if (!(status = culm_resume_compare_signature(l->launcher, &l->start, checkpoint, l->signature,
                                                 error)) &&
        !(status = check_config(l, text, error)) &&
        !(status = culm_resume_go_on(&culm_train_config_table, &l->start, text, l->o->config_text,
                                     error)) &&
        l->o->run.accept_inputs) {
        status = check_tensors(l, checkpoint, error);
    }
    culm_checkpoint_close(checkpoint);
    return status == CULM_OK ? check_choices(l, error) : status;
}

/* A run that begins anew has been given nothing that was not there from its first step on. */
static enum culm_status check_beginning(struct launch *l, struct culm_error *error) {
    return culm_resume_go_on(&culm_train_config_table, &l->start, l->o->config_text,
                             l->o->config_text, error);
}

/* Of one that is to lead for a time: settings and inputs stay as they were. Before it stands. */
static enum culm_status prepare_start(struct launch *l, struct culm_error *error) {
    struct culm_resume *start = &l->start;
    enum culm_status status;
    if ((status = culm_resume_lineage(l->o->run.dir, "", &start->lineage, error)) ||
        (status = culm_launch_inputs_resume(l->launcher, &l->o->run, &l->inputs, start, error)) ||
        (status = culm_train_spans_read(&start->lineage, &l->spans, error))) {
        return status;
    }
    start->steps = l->o->config->steps;
    l->spanned.spans = &l->spans;
    return CULM_OK;
}

static enum culm_status find_start(struct launch *l, struct culm_error *error) {
    const struct culm_resume_options options = {.dir = l->o->run.dir,
                                                .steps = l->o->config->steps,
                                                .unit = "step",
                                                .key = "steps",
                                                .from_start = l->o->run.from_start};
    enum culm_status status;
    if (!l->o->run.resume) {
        return CULM_OK;
    }
    if (l->o->run.stand) {
        l->start.step = culm_launcher_saved(l->launcher);
        return l->start.step > 0
                   ? culm_checkpoint_path(l->o->run.dir, l->start.step, l->start.path, error)
                   : CULM_OK;
    }
    if ((status = culm_resume_find(l->launcher, &options, &l->start, error)) ||
        (status = l->start.path[0] ? check_start(l, error) : check_beginning(l, error)) ||
        (status =
             culm_launch_inputs_resume(l->launcher, &l->o->run, &l->inputs, &l->start, error)) ||
        (status = culm_train_spans_read(&l->start.lineage, &l->spans, error))) {
        return status;
    }
    l->spanned.spans = &l->spans;
    return CULM_OK;
}

/* For people, for evaluations, for --resume, and for whoever leads next. */
static enum culm_status whole_plan(const struct launch *l, json_t **ret_json,
                                   struct culm_error *error) {
    json_t *json = culm_plan_json(l->plan), *lineage = NULL;
    enum culm_status status = culm_lineage_json(&l->start.lineage, &lineage, error);
    *ret_json = NULL;
    if (json) {
        json_object_set_new(json, "inputs", culm_inputs_json(&l->inputs));
    }
    if (json && lineage) {
        json_object_set(json, "lineage", lineage);
    }
    json_decref(lineage);
    if (status != CULM_OK) {
        json_decref(json);
        return status;
    }
    *ret_json = json;
    return CULM_OK;
}

static enum culm_status write_plan(const struct launch *l, struct culm_error *error) {
    json_t *json = NULL;
    const enum culm_status status = whole_plan(l, &json, error);
    return status ? status : culm_launcher_write_plan(l->launcher, json, error);
}

static void found_digest(void *ctx) { (void)write_plan(ctx, NULL); }

static enum culm_status claim(struct launch *l, struct culm_error *error) {
    enum culm_status status;
    if ((status = culm_launcher_claim(l->launcher, error)) || (status = find_start(l, error)) ||
        (status = culm_launcher_begin(l->launcher, l->o->config_text, error)) ||
        (status = culm_resume_settle(l->o->run.dir, &l->start, error))) {
        return status;
    }
    return write_plan(l, error);
}

/* --- events --- */

static void tell(void *launcher, json_t *event, const json_t *next) {
    culm_launcher_tell_at(launcher, event, next);
}

static void before_event(void *job, const json_t *next) {
    struct launch *l = job;
    culm_eval_watch_before(&l->eval, next, tell, l->launcher);
}

static const char *effective_redundancy(const struct launch *l) {
    if (l->plan->shape.stages == 1 || l->plan->shape.redundancy == CULM_REDUNDANCY_NONE) {
        return l->plan->shape.pipelines > 1 ? "none: copies in other pipelines" : "none";
    }
    return culm_redundancy_name(l->plan->shape.redundancy);
}

static void tell_start(const struct launch *l) {
    json_t *more = json_pack("{s:s}", "redundancy_effective", effective_redundancy(l));
    if (l->o->doors.open) {
        json_object_set_new(more, "address", json_string(culm_launcher_address(l->launcher)));
        json_object_set_new(more, "survives_its_host", json_boolean(l->o->run.stand != NULL));
    }
    json_t *plan = plan_event(l);
    culm_launcher_start(l->launcher, l->o->config_sha256, more);
    culm_launcher_tell(l->launcher, plan);
    json_decref(more);
    json_decref(plan);
    const char *why;
    if (l->o->run.resume && !l->o->run.stand) {
        culm_resume_tell(l->launcher, &l->start, "step");
        culm_launcher_send(l->launcher, l->start.path);
    }
    if (!culm_train_spans_exact(&l->spanned, &why)) {
        culm_launcher_inexact(l->launcher, why);
    }
}

/* --- workers and their leader --- */

static const char *const worker_words[] = {"worker", NULL};
static const struct culm_launcher_role roles[] = {[CULM_ROLE_WORKER] = {"worker", worker_words}};

static bool write_brief(void *job, uint32_t role, bool newcomer, struct culm_buf *out) {
    const struct launch *l = job;
    (void)role; /* there is one */
    (void)newcomer;
    return culm_brief_write(l->o->config_text, &l->plan->choices, &l->inputs, &l->start.lineage,
                            out);
}

static double learning_rate(void *ctx, int64_t step) {
    const struct launch *l = ctx;
    return culm_numeric_lr(&l->spanned, step);
}

static double clip_norm(void *ctx, int64_t step) {
    const struct launch *l = ctx;
    return culm_train_span_of(&l->spanned, step).optimizer.clip_norm;
}

/* Any number may come, where it is not said otherwise. */
static int64_t most_nodes(const struct launch *l) {
    const struct culm_train_config *config = l->o->config;
    return l->o->doors.open && config->any_nodes ? CULM_MAX_NODES : config->cluster.max_nodes;
}

static enum culm_status open_doors(struct launch *l, struct culm_error *error) {
    struct culm_launcher_doors doors = {
        .signature = l->signature,
        .brief = write_brief,
        .payload_max = culm_payload_max(l->plan),
        .alive_ms = culm_crew_config_alive_ms(&l->o->config->cluster),
        .max_nodes = (int32_t)most_nodes(l),
        .depot = l->o->doors.open,
    };
    culm_doors_hang(&l->o->doors, &doors);
    return culm_launcher_open(l->launcher, &doors, error);
}

static enum culm_status make_leader(struct launch *l, struct culm_error *error) {
    const struct culm_train_config *config = l->o->config;
    if (l->o->leader_fault) {
        culm_leader_fault_arm(l->o->leader_fault, config->pipelines * config->stages,
                              config->stages);
    }
    const struct culm_numeric_options numeric = {
        .config = config,
        .config_text = l->o->config_text,
        .signature = l->signature,
        .run_dir = l->o->run.dir,
        .plan = l->plan,
        .pool = culm_launcher_pool(l->launcher),
        .inputs = &l->inputs,
        .lineage = &l->start.lineage,
        .apart = culm_leader_fault_apart(culm_launcher_apart(l->launcher)),
    };
    enum culm_status status = culm_numeric_new(&numeric, &l->exec, error);
    if (status != CULM_OK) {
        return status;
    }
    struct culm_pipeline_leader_options options = {
        .world = culm_leader_fault_world(culm_launcher_world(l->launcher)),
        .agent = culm_launcher_agent(l->launcher),
        .record = culm_launcher_record(l->launcher),
        .exec = l->exec,
        .layout = &l->plan->layout,
        .shape = l->plan->shape,
        .memory = &l->plan->memory,
        .settings = culm_plan_settings(config),
        .tokens_per_sample = l->plan->rows_per_sample,
        .start_step = l->start.step,
        .start_source = l->start.path,
        .orphan_ms = culm_crew_config_orphan_ms(&config->cluster),
        .traced = l->o->run.trace_path != NULL,
        .open = l->o->doors.open,
        .here_most = l->o->here_most,
        .lr = learning_rate,
        .clip_norm = clip_norm,
        .lr_context = l,
    };
    options.settings.crew.max_nodes = most_nodes(l);
    options.term = culm_launcher_term(l->launcher, &options.known, &options.known_count);
    culm_order_init(&options.order, config->seed, l->inputs.samples);
    options.order.left_out = l->left_out;
    l->leader = culm_pipeline_leader_new(&options);
    return l->leader ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

/* --- from beginning to end --- */

static void release(struct launch *l) {
    culm_eval_watch_stop(&l->eval);
    culm_launch_inputs_stop(&l->digests);
    culm_pipeline_leader_free(l->leader);
    culm_order_left_out_free(l->left_out);
    culm_numeric_free(l->exec);
    culm_names_release(&l->inputs.classes);
    culm_launcher_free(l->launcher);
    culm_plan_free(l->plan);
    culm_resume_release(&l->start);
    culm_train_spans_release(&l->spans);
    free(l->faults);
}

/* Nodes that outlived the launcher before go on, if the run is still what they know. */
static enum culm_status recall(struct launch *l, struct culm_error *error) {
    const int32_t left = culm_launcher_left(l->launcher);
    const bool same = !l->start.settings && !l->start.inputs;
    if (l->o->run.stand) {
        return culm_launcher_recall(l->launcher, true, error);
    }
    if (left > 0 && !l->o->doors.open) {
        culm_launcher_warn(
            l->launcher,
            "%d workers from elsewhere may still be at work for this run; they are left to end by "
            "themselves, since --listen is not given",
            left);
    } else if (left > 0 && !same) {
        culm_launcher_warn(
            l->launcher,
            "%d workers from elsewhere may still be at work for this run; they are left to end by "
            "themselves, since it is resumed with other settings",
            left);
    }
    return l->o->doors.open || left > 0
               ? culm_launcher_recall(l->launcher, l->o->doors.open && same, error)
               : CULM_OK;
}

/* Where several may lead: until this process does. */
static enum culm_status stand(struct launch *l, struct culm_error *error) {
    if (!l->o->run.stand) {
        return CULM_OK;
    }
    const enum culm_status status = prepare_start(l, error);
    return status ? status
                  : culm_launcher_stand(l->launcher, l->o->config_text, l->signature, error);
}

static enum culm_status begin(struct launch *l, struct culm_error *error) {
    enum culm_status status;
    if ((status = stand(l, error)) || (status = claim(l, error)) || (status = recall(l, error)) ||
        (status = open_doors(l, error)) || (status = make_leader(l, error))) {
        return status;
    }
    return CULM_OK;
}

static enum culm_status take_faults(struct launch *l, struct culm_error *error) {
    l->faults = calloc(l->o->run.fault_count + 1, sizeof *l->faults);
    if (!l->faults) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    for (size_t i = 0; i < l->o->run.fault_count; i++) {
        const struct culm_fault_spec *spec = &l->o->faults[i];
        l->faults[i] = (struct culm_agent_fault){.node = spec->worker,
                                                 .phase = culm_phase_name(spec->point.phase),
                                                 .how = spec->how,
                                                 .for_ms = spec->for_ms};
    }
    return CULM_OK;
}

/* Also after a failure to be released. */
static enum culm_status init(struct launch *l, const struct culm_train_launch_options *options,
                             struct culm_launcher_result *result, struct culm_error *error) {
    *l = (struct launch){.o = options,
                         .spanned = *options->config,
                         .eval = {.every = options->config->eval.every,
                                  .last = options->config->steps,
                                  .samples = options->config->eval.samples,
                                  .best = options->config->checkpoint.best,
                                  .dir = options->run.dir,
                                  .program = options->run.program},
                         .inputs.pins = options->config->pins};
    enum culm_status status = take_faults(l, error);
    if (status != CULM_OK) {
        return status;
    }
    const struct culm_launcher_job job = {
        .role = roles,
        .role_count = sizeof roles / sizeof *roles,
        .trace_role = CULM_ROLE_WORKER,
        .faults = l->faults,
        .result = result,
        .before = before_event,
        .job = l,
    };
    return culm_launcher_new(&options->run, &job, &l->launcher, error);
}

enum culm_status culm_train_launch_plan(const struct culm_train_launch_options *options,
                                        json_t **ret_plan, struct culm_error *error) {
    struct launch l;
    enum culm_status status;
    *ret_plan = NULL;
    if ((status = init(&l, options, NULL, error)) == CULM_OK &&
        (status = check(&l, error)) == CULM_OK) {
        *ret_plan = plan_event(&l);
        status = *ret_plan ? culm_plan_check_memory(l.plan, error)
                           : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a plan");
        warn_of_slow_tasks(&l);
        warn_of_little_room(&l);
    }
    release(&l);
    return status;
}

enum culm_status culm_train_launch_text(const struct culm_train_launch_options *options,
                                        char **ret_plan, char ret_signature[CULM_SIGNATURE_SIZE],
                                        struct culm_error *error) {
    struct launch l;
    json_t *plan = NULL;
    enum culm_status status = init(&l, options, NULL, error);
    *ret_plan = NULL;
    if (status || (status = check(&l, error)) || (status = culm_plan_check_memory(l.plan, error)) ||
        (status = culm_launch_inputs_complete(l.launcher, l.inputs.pins, error)) ||
        (status = whole_plan(&l, &plan, error))) {
        release(&l);
        return status;
    }
    warn_of_slow_tasks(&l);
    *ret_plan = json_dumps(plan, JSON_INDENT(2));
    memcpy(ret_signature, l.signature, sizeof l.signature);
    json_decref(plan);
    release(&l);
    return *ret_plan ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

int culm_train_launch_run(const struct culm_train_launch_options *options,
                          struct culm_launcher_result *ret_result, struct culm_error *ret_error) {
    struct launch l;
    enum culm_status status;
    int code;
    culm_launcher_result_init(ret_result, &culm_summary_training);
    if ((status = init(&l, options, ret_result, ret_error)) || (status = check(&l, ret_error)) ||
        (status = culm_plan_check_memory(l.plan, ret_error)) || (status = begin(&l, ret_error))) {
        code = culm_status_exit_code(status);
    } else {
        culm_network_let_go(options->network);
        warn_of_slow_tasks(&l);
        warn_of_little_room(&l);
        tell_start(&l);
        culm_launch_inputs_start(&l.digests, l.inputs.pins, l.launcher, found_digest, &l);
        code = culm_launcher_run(l.launcher, culm_leader_fault_actor(&culm_pipeline_leader_actor),
                                 l.leader, ret_error);
    }
    release(&l);
    return code;
}
