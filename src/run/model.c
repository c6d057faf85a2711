/* Models on arrays: culm_model_* of culm.h. */
#include "model/model.h"
#include "base/buf.h"
#include "base/file.h"
#include "run/public.h"
#include "run/runner.h"
#include "run/subject.h"

#include <culm.h>
#include <stdlib.h>
#include <string.h>

struct culm_model {
    struct culm_subject subject;
    struct culm_runner runner;
};

/* --- opening --- */

static bool ends_with(const char *text, const char *end) {
    size_t len = strlen(text), tail = strlen(end);
    return len >= tail && strcmp(text + len - tail, end) == 0;
}

/* A configuration that only names the file. */
static enum culm_status onnx_subject(const char *path, struct culm_subject *ret_subject,
                                     struct culm_error *error) {
    struct culm_buf text;
    culm_buf_init(&text, 4 * CULM_PATH_MAX);
    culm_buf_printf(&text, "model: {file: '");
    for (const char *c = path; *c; c++) {
        culm_buf_printf(&text, *c == '\'' ? "''" : "%c", *c);
    }
    culm_buf_printf(&text, "'}\ndata: {kind: images, path: none}\nsteps: 1\npipelines: 1\n"
                           "stages: 1\nbatch: {global: 1, micro: 1, lanes: 1}\n");
    enum culm_status status =
        text.failed ? culm_error_set(error, CULM_ERR_MEMORY, "'%s': out of memory", path)
                    : culm_train_config_parse((const char *)text.data, text.len, path, NULL, 0,
                                              &ret_subject->config, error);
    culm_buf_release(&text);
    if (status == CULM_OK && (status = culm_network_complete(&ret_subject->config, error))) {
        culm_train_config_release(&ret_subject->config);
    }
    return status;
}

/* `ret_weights`: of a run, whether it is there or not; "": what the configuration starts from. */
static enum culm_status find(struct culm_model *model, const char *what,
                             char ret_weights[CULM_PATH_MAX], struct culm_error *error) {
    char path[CULM_PATH_MAX];
    enum culm_status status;
    ret_weights[0] = '\0';
    if (!culm_model_preset_find(what) && culm_file_is_directory(what)) {
        if ((status = culm_path_format(path, error, "%s/config.yaml", what)) ||
            (status = culm_path_format(ret_weights, error, "%s/model.safetensors", what))) {
            return status;
        }
        return culm_subject_find(path, true, &model->subject, error);
    }
    return ends_with(what, ".onnx") ? onnx_subject(what, &model->subject, error)
                                    : culm_subject_find(what, true, &model->subject, error);
}

static enum culm_status open_model(struct culm_model *model, const char *what,
                                   const struct culm_model_open_options *options,
                                   struct culm_error *error) {
    char weights[CULM_PATH_MAX], note[CULM_INITIAL_NOTE_SIZE];
    enum culm_status status = find(model, what, weights, error);
    if (status != CULM_OK) {
        return status;
    }
    const char *from = options->weights ? options->weights : weights;
    if (from == weights && from[0] && !culm_file_is_regular(from)) {
        return culm_error_set(error, CULM_ERR_NOT_FOUND,
                              "'%s' has no model.safetensors: the run has not ended; name a "
                              "checkpoint as weights, or finish it",
                              what);
    }
    int64_t batch = options->batch > 0 ? options->batch : 1;
    int threads = options->threads > 0 ? options->threads : 1;
    status = culm_runner_init(&model->runner, &model->subject.config, batch, CULM_FOR_OUTPUT,
                              threads, error);
    if (status != CULM_OK) {
        return status;
    }
    if (!model->runner.graph->has_output) {
        return culm_error_set(error, CULM_ERR_UNSUPPORTED, "'%s' has a loss and no output", what);
    }
    return from[0] ? culm_runner_load(&model->runner, from, error)
                   : culm_runner_begin(&model->runner, &model->subject.config, note, error);
}

enum culm_status culm_model_open(const char *what, const struct culm_model_open_options *options,
                                 struct culm_model **ret_model, struct culm_error *error) {
    struct culm_model_open_options own = {.size = sizeof own};
    if (!what || !ret_model) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_model_open: an argument is NULL");
    }
    enum culm_status status =
        options ? culm_public_take(&own, sizeof own, options, "culm_model_open_options", error)
                : CULM_OK;
    struct culm_model *model = status == CULM_OK ? calloc(1, sizeof *model) : NULL;
    if (status == CULM_OK && !model) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "'%s': out of memory", what);
    }
    if (status == CULM_OK) {
        status = open_model(model, what, &own, error);
    }
    if (status != CULM_OK) {
        culm_model_free(model);
        return status;
    }
    *ret_model = model;
    return CULM_OK;
}

void culm_model_free(struct culm_model *model) {
    if (model) {
        culm_runner_release(&model->runner);
        culm_subject_release(&model->subject);
        free(model);
    }
}

/* --- looking --- */

int64_t culm_model_parameter_count(const struct culm_model *model) {
    return model ? culm_model_parameters(model->runner.graph) : 0;
}

int32_t culm_model_input_count(const struct culm_model *model) {
    return model ? model->runner.graph->field_count : 0;
}

int32_t culm_model_output_count(const struct culm_model *model) { return model ? 1 : 0; }

static enum culm_array_dtype public_dtype(enum culm_dtype dtype) {
    return dtype == CULM_F32    ? CULM_ARRAY_F32
           : dtype == CULM_I32  ? CULM_ARRAY_I32
           : dtype == CULM_BF16 ? CULM_ARRAY_BF16
                                : CULM_ARRAY_OTHER;
}

static enum culm_status describe(const char *name, enum culm_dtype dtype,
                                 const struct culm_shape *shape, struct culm_array_info *ret_info,
                                 struct culm_error *error) {
    struct culm_array_info info = {
        .name = name,
        .dtype = public_dtype(dtype),
        .rank = shape->rank,
        .bytes = (uint64_t)culm_elements(shape) * culm_dtype_bytes(dtype),
    };
    for (int32_t d = 0; d < shape->rank && d < CULM_RANK_MAX; d++) {
        info.shape[d] = shape->dim[d];
    }
    return culm_public_fill(ret_info, &info, sizeof info, "culm_array_info", error);
}

enum culm_status culm_model_input(const struct culm_model *model, int32_t index,
                                  struct culm_array_info *ret_info, struct culm_error *error) {
    if (index < 0 || index >= culm_model_input_count(model)) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "culm_model_input: there is no input %d of %d", index,
                              culm_model_input_count(model));
    }
    const struct culm_field *field = &model->runner.graph->field[index];
    return describe(field->name, field->dtype, &field->shape, ret_info, error);
}

enum culm_status culm_model_output(const struct culm_model *model, int32_t index,
                                   struct culm_array_info *ret_info, struct culm_error *error) {
    if (index < 0 || index >= culm_model_output_count(model)) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "culm_model_output: there is no output %d of %d", index,
                              culm_model_output_count(model));
    }
    const struct culm_graph *graph = model->runner.graph;
    const struct culm_value *value = &graph->value[graph->output];
    return describe("logits", value->dtype, &value->shape, ret_info, error);
}

/* --- running --- */

/* A number that chooses a row must be of one that is there. */
static enum culm_status check_numbers(const struct culm_model *model, int32_t index,
                                      struct culm_error *error) {
    const struct culm_graph *graph = model->runner.graph;
    const struct culm_field *field = &graph->field[index];
    int64_t below = field->dtype == CULM_I32 ? culm_network_below(graph, field->name) : 0;
    const int32_t *number = model->runner.field[index];
    for (int64_t i = 0; below > 0 && i < culm_elements(&field->shape); i++) {
        if (number[i] < 0 || number[i] >= below) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "input '%s': element %lld is %d, and must be below %lld",
                                  field->name, (long long)i, number[i], (long long)below);
        }
    }
    return CULM_OK;
}

enum culm_status culm_model_run(struct culm_model *model, const void *const *inputs,
                                void *const *outputs, struct culm_error *error) {
    if (!model || !outputs || !outputs[0] || (!inputs && culm_model_input_count(model) > 0)) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_model_run: an argument is NULL");
    }
    const struct culm_graph *graph = model->runner.graph;
    for (int32_t f = 0; f < graph->field_count; f++) {
        const struct culm_field *field = &graph->field[f];
        if (!inputs[f]) {
            return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_model_run: input '%s' is NULL",
                                  field->name);
        }
        memcpy(model->runner.field[f], inputs[f],
               (size_t)culm_elements(&field->shape) * culm_dtype_bytes(field->dtype));
        enum culm_status status = check_numbers(model, f, error);
        if (status != CULM_OK) {
            return status;
        }
    }
    struct culm_stage_run run = culm_runner_run(&model->runner);
    (void)culm_stage_forward(model->runner.stage, model->runner.device, &run); /* it ends */
    const struct culm_value *value = &graph->value[graph->output];
    memcpy(outputs[0], model->runner.output,
           (size_t)culm_elements(&value->shape) * culm_dtype_bytes(value->dtype));
    return CULM_OK;
}
