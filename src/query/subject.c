/* Opening what is named as a model. See subject.h. */
#include "query/subject.h"

#include "base/json.h"
#include "store/best.h"

#include "store/checkpoint.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *const culm_subject_alone[CULM_SUBJECT_ALONE_COUNT] = {"pipelines=1", "stages=1",
                                                                  "batch.lanes=1"};

/* --- configurations --- */

static enum culm_source_kind kind_of(enum culm_arch arch) {
    switch (arch) {
    case CULM_ARCH_GPT2: return CULM_SOURCE_TEXT;
    case CULM_ARCH_BERT: return CULM_SOURCE_MASKED;
    case CULM_ARCH_GNMT: return CULM_SOURCE_PAIRS;
    default: return CULM_SOURCE_IMAGES;
    }
}

/* A configuration that only names a model: sets `key` of `model` to `value`. */
static enum culm_status config_of(const char *key, const char *value, enum culm_source_kind kind,
                                  struct culm_train_config *ret_config, struct culm_error *error) {
    struct culm_buf text;
    culm_buf_init(&text, 4 * CULM_PATH_MAX);
    culm_buf_printf(&text, "model: {%s: '", key);
    for (const char *c = value; *c; c++) {
        culm_buf_printf(&text, *c == '\'' ? "''" : "%c", *c);
    }
    culm_buf_printf(&text,
                    "'}\ndata: {kind: %s, path: none}\nsteps: 1\npipelines: 1\n"
                    "stages: 1\nbatch: {global: 1, micro: 1, lanes: 1}\n",
                    culm_source_kind_names[kind]);
    enum culm_status status =
        text.failed ? culm_error_set(error, CULM_ERR_MEMORY, "'%s': out of memory", value)
                    : culm_train_config_parse((const char *)text.data, text.len, value, NULL, 0,
                                              ret_config, error);
    culm_buf_release(&text);
    return status;
}

/* --- runs --- */

static bool ends_with(const char *text, const char *end) {
    size_t len = strlen(text), tail = strlen(end);
    return len >= tail && strcmp(text + len - tail, end) == 0;
}

/* What a run has for its model: `model.safetensors`, which it writes when it ends. */
static enum culm_status find_weights(const char *dir, struct culm_subject *subject,
                                     struct culm_error *error) {
    struct culm_weights_place place;
    enum culm_status status =
        culm_path_format(subject->weights, error, "%s/model.safetensors", dir);
    if (status != CULM_OK || culm_file_is_regular(subject->weights)) {
        return status;
    }
    status = culm_weights_locate(dir, NULL, &place, NULL);
    return status == CULM_OK && place.kind == CULM_WEIGHTS_CHECKPOINT
               ? culm_error_set(error, CULM_ERR_NOT_FOUND,
                                "'%.100s' has no model.safetensors: the run has not ended; finish "
                                "it with 'culm train %.80s/config.yaml --resume --out %.80s', or "
                                "name its newest checkpoint, '%.140s', in its place",
                                dir, dir, dir, place.path)
               : culm_error_set(error, CULM_ERR_NOT_FOUND,
                                "'%.100s' has no model.safetensors and no checkpoint: the run has "
                                "not ended; finish it with 'culm train %.80s/config.yaml --resume "
                                "--out %.80s'",
                                dir, dir, dir);
}

/* Takes the configuration from the checkpoint `path`, and the files that the run had read. */
static enum culm_status open_checkpoint(const char *dir, const char *path,
                                        const struct culm_subject_options *options,
                                        struct culm_subject *subject, struct culm_error *error) {
    struct culm_checkpoint *checkpoint = NULL;
    enum culm_status status = culm_path_format(subject->plan_path, error, "%s/plan.json", dir);
    if (status == CULM_OK) {
        status = culm_path_format(subject->weights, error, "%s", path);
    }
    if (status == CULM_OK) {
        status = culm_checkpoint_open(path, false, &checkpoint, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    const struct culm_checkpoint_info *info = culm_checkpoint_info_of(checkpoint);
    if (!options->other_data && info->inputs) {
        status = culm_inputs_read(info->inputs, &subject->inputs, error);
    }
    if (status == CULM_OK) {
        status = culm_train_config_parse(info->config, strlen(info->config), path, options->sets,
                                         options->set_count, &subject->config, error);
    }
    if (status == CULM_OK) {
        status = culm_inputs_read_classes(info->inputs, &subject->classes, error);
    }
    culm_checkpoint_close(checkpoint);
    if (status == CULM_OK && subject->inputs.pins) {
        culm_inputs_ask_plan(&subject->inputs, subject->plan_path);
        subject->config.pins = subject->inputs.pins;
    }
    return status;
}

/* RUN/checkpoints/step-N named as the subject: its run is two folders above. */
static enum culm_status open_named_checkpoint(const char *path,
                                              const struct culm_subject_options *options,
                                              struct culm_subject *subject,
                                              struct culm_error *error) {
    char run[CULM_PATH_MAX];
    if (options->weights) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "'%.200s' is a checkpoint, which has weights of its own; name the "
                              "run, to give it others",
                              path);
    }
    enum culm_status status = culm_path_format(run, error, "%s/../..", path);
    return status == CULM_OK ? open_checkpoint(run, path, options, subject, error) : status;
}

/* A folder that is no run: the line says what it has that can be named. */
static enum culm_status refuse_folder(const char *dir, struct culm_error *error) {
    struct culm_names names = {0};
    struct culm_weights_place place;
    const char *onnx = NULL;
    (void)culm_dir_list(dir, &names, NULL);
    for (size_t i = 0; i < names.count; i++) {
        onnx = ends_with(names.name[i], ".onnx") && names.name[i][0] != '.' ? names.name[i] : onnx;
    }
    if (onnx) {
        culm_error_set(error, CULM_ERR_CONFIG,
                       "'%.200s' is a folder, but not a run; name the model in it, '%.200s/%.80s'",
                       dir, dir, onnx);
    } else if (culm_weights_locate(dir, NULL, &place, NULL) == CULM_OK) {
        culm_error_set(error, CULM_ERR_CONFIG,
                       "'%.300s' is a folder of weights, not a run; name a model, and give the "
                       "folder as its weights",
                       dir);
    } else {
        culm_error_set(error, CULM_ERR_CONFIG,
                       "'%.300s' is a folder, and neither a run (it has no config.yaml) nor a "
                       "checkpoint",
                       dir);
    }
    culm_names_release(&names);
    return CULM_ERR_CONFIG;
}

/* Names of classes, as the run has recorded them. One without has numbers alone. */
static enum culm_status find_classes(const char *dir, struct culm_subject *subject,
                                     struct culm_error *error) {
    char path[CULM_PATH_MAX];
    enum culm_status status = culm_path_format(path, error, "%s/plan.json", dir);
    if (status == CULM_OK) {
        json_t *plan = culm_json_load(path, NULL);
        status =
            culm_inputs_read_classes(json_object_get(plan, "inputs"), &subject->classes, error);
        json_decref(plan);
    }
    return status;
}

static enum culm_status open_run(const char *dir, const struct culm_subject_options *options,
                                 struct culm_subject *subject, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    struct culm_weights_place place = {.kind = CULM_WEIGHTS_FILE};
    enum culm_status status = CULM_OK;
    bool best = options->weights && strcmp(options->weights, CULM_SUBJECT_BEST) == 0;
    if (culm_file_is_regular(dir)) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "'%.300s' is neither the folder of a run nor a checkpoint", dir);
    }
    if (options->weights && !best && culm_file_is_directory(options->weights)) {
        status = culm_weights_locate(options->weights, NULL, &place, error);
    }
    if (status == CULM_OK && !culm_weights_is_run(dir) && culm_file_is_directory(dir)) {
        return refuse_folder(dir, error);
    }
    if (status == CULM_OK && place.kind == CULM_WEIGHTS_CHECKPOINT) {
        return open_checkpoint(dir, place.path, options, subject, error);
    }
    if (status == CULM_OK) {
        status = culm_path_format(path, error, "%s/config.yaml", dir);
    }
    if (status == CULM_OK) {
        status = culm_train_config_load(path, options->sets, options->set_count, &subject->config,
                                        error);
    }
    if (status == CULM_OK) {
        status = find_classes(dir, subject, error);
    }
    if (status != CULM_OK || options->structure) {
        return status;
    }
    return best               ? culm_best_find(dir, subject->weights, error)
           : options->weights ? culm_path_format(subject->weights, error, "%s", options->weights)
                              : find_weights(dir, subject, error);
}

/* A folder whose name is also that of a published model is a run only if it has a config.yaml. */
static bool is_run(const char *what, const struct culm_subject_options *options, bool named) {
    char path[CULM_PATH_MAX];
    return (options->kinds & CULM_SUBJECT_RUN) && culm_file_is_directory(what) &&
           (!named || (culm_path_format(path, NULL, "%s/config.yaml", what) == CULM_OK &&
                       culm_file_is_regular(path)));
}

/* --- opening --- */

static enum culm_status find(const char *what, const struct culm_subject_options *options,
                             struct culm_subject *subject, struct culm_error *error) {
    const struct culm_model_preset *preset =
        options->kinds & CULM_SUBJECT_NAME ? culm_model_preset_find(what) : NULL;
    if ((options->kinds & CULM_SUBJECT_RUN) && culm_weights_is_checkpoint(what)) {
        return open_named_checkpoint(what, options, subject, error);
    }
    if (options->kinds == CULM_SUBJECT_RUN || is_run(what, options, preset != NULL)) {
        return open_run(what, options, subject, error);
    }
    if (preset) {
        subject->named = true;
        return config_of("name", what, kind_of(preset->arch), &subject->config, error);
    }
    if ((options->kinds & CULM_SUBJECT_ONNX) && ends_with(what, ".onnx")) {
        return config_of("file", what, CULM_SOURCE_IMAGES, &subject->config, error);
    }
    if ((options->kinds & CULM_SUBJECT_NAME) && access(what, F_OK) != 0) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "'%s' is neither a configuration file nor a known model; 'culm model "
                              "list' names them",
                              what);
    }
    if (ends_with(what, ".safetensors")) {
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "'%s' has weights but no model; name the model, and give this file as its weights",
            what);
    }
    return culm_train_config_load(what, options->sets, options->set_count, &subject->config, error);
}

/* Uses `weights`, if given and not yet found. */
static enum culm_status finish(struct culm_subject *subject, const char *weights,
                               struct culm_error *error) {
    subject->batch = subject->config.batch.micro;
    if (!weights || subject->weights[0]) {
        return CULM_OK;
    }
    return strcmp(weights, CULM_SUBJECT_BEST) == 0
               ? culm_error_set(error, CULM_ERR_CONFIG,
                                "weights '" CULM_SUBJECT_BEST "' are those of a run; name its "
                                "folder in place of '%.200s'",
                                subject->name)
               : culm_path_format(subject->weights, error, "%s", weights);
}

enum culm_status culm_subject_open(const char *what, const struct culm_subject_options *options,
                                   struct culm_subject *subject, struct culm_error *error) {
    *subject = (struct culm_subject){.leave = options->leave,
                                     .config_too = options->kinds & CULM_SUBJECT_CONFIG};
    snprintf(subject->name, sizeof subject->name, "%s", what);
    enum culm_status status = find(what, options, subject, error);
    if (status == CULM_OK) {
        status = finish(subject, options->structure ? NULL : options->weights, error);
    }
    if (status == CULM_OK) {
        status = culm_network_open(&subject->config, &subject->network, error);
    }
    if (status != CULM_OK) {
        culm_subject_advise(subject, status, error);
        culm_subject_close(subject);
    }
    return status;
}

enum culm_status culm_subject_advise(const struct culm_subject *subject, enum culm_status status,
                                     struct culm_error *error) {
    char advice[CULM_ERROR_MAX] = "put it back";
    const char *slash = strrchr(subject->plan_path, '/');
    if (strstr(subject->weights,
               "/logs/evaluated/")) { /* by the run, which is told what it can do */
        return status;
    }
    if (status == CULM_ERR_CHANGED && subject->config_too && slash) {
        snprintf(advice, sizeof advice,
                 "put it back, or name '%.*s/config.yaml' with --weights '%.120s' for what is "
                 "there now",
                 (int)(slash - subject->plan_path > 120 ? 120 : slash - subject->plan_path),
                 subject->plan_path, subject->weights);
    }
    if (status == CULM_ERR_CHANGED) {
        culm_pins_advise(error, advice);
    }
    return status;
}

enum culm_status culm_subject_open_config(const struct culm_config *config, const char *weights,
                                          struct culm_subject *subject, struct culm_error *error) {
    *subject = (struct culm_subject){.name = "the configuration"};
    enum culm_status status =
        culm_config_resolve(config, NULL, &subject->config, &subject->network, error);
    if (status == CULM_OK) {
        status = finish(subject, weights, error);
    }
    if (status != CULM_OK) {
        culm_subject_close(subject);
    }
    return status;
}

void culm_subject_close(struct culm_subject *subject) {
    culm_weights_close(subject->opened);
    culm_network_close(subject->network);
    culm_train_config_release(&subject->config);
    culm_inputs_release(&subject->inputs);
    culm_names_release(&subject->classes);
    *subject = (struct culm_subject){0};
}

/* --- using --- */

enum culm_status culm_subject_weights(const struct culm_subject *subject,
                                      const struct culm_graph *graph,
                                      struct culm_weights **ret_weights,
                                      char ret_note[CULM_NETWORK_NOTE_SIZE],
                                      struct culm_error *error) {
    struct culm_weights *weights = NULL;
    enum culm_status status = culm_weights_open(subject->weights, NULL, &weights, error);
    if (status == CULM_OK) {
        status = culm_network_check_file(subject->network, graph, weights, subject->leave, ret_note,
                                         error);
    }
    if (status != CULM_OK) {
        culm_weights_close(weights);
        return status;
    }
    *ret_weights = weights;
    return CULM_OK;
}

enum culm_status culm_subject_load(struct culm_subject *subject, struct culm_runner *runner,
                                   char ret_note[CULM_NETWORK_NOTE_SIZE],
                                   struct culm_error *error) {
    enum culm_status status = CULM_OK;
    ret_note[0] = '\0';
    if (!subject->weights[0]) {
        status = culm_runner_begin(runner, subject->network, ret_note, error);
    } else if (!subject->opened) {
        status = culm_subject_weights(subject, runner->graph, &subject->opened, ret_note, error);
    }
    if (status == CULM_OK && subject->opened) {
        status = culm_runner_load(runner, subject->opened, error);
    }
    culm_network_let_go(subject->network);
    return status;
}
