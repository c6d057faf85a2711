/* Models on arrays: culm_model_* of culm/infer.h. */
#include "model/model.h"

#include "query/subject.h"
#include "run/public.h"

#include <culm/infer.h>
#include <stdlib.h>
#include <string.h>

struct culm_model {
    struct culm_subject subject;
    struct culm_runner runner;
    /* Fewer samples than the runner was made for; both NULL: as many. */
    struct culm_graph *fewer;
    struct culm_stage_rows *rows;
};

/* The graph whose shapes the arrays have now. */
static const struct culm_graph *shown(const struct culm_model *model) {
    return model->fewer ? model->fewer : model->runner.graph;
}

/* --- opening --- */

static enum culm_status open_model(struct culm_model *model, const char *what,
                                   const struct culm_model_open_options *options,
                                   struct culm_error *error) {
    const struct culm_subject_options subject = {
        .kinds = CULM_SUBJECT_NAME | CULM_SUBJECT_CONFIG | CULM_SUBJECT_ONNX | CULM_SUBJECT_RUN,
        .weights = options->weights,
        .sets = culm_subject_alone,
        .set_count = CULM_SUBJECT_ALONE_COUNT,
    };
    const struct culm_runner_options runner = {
        .batch = options->batch > 0 ? options->batch : 1,
        .purpose = CULM_FOR_ANSWER,
        .threads = options->threads ? (int)options->threads : 1,
    };
    char note[CULM_NETWORK_NOTE_SIZE];
    enum culm_status status = culm_subject_open(what, &subject, &model->subject, error);
    if (status == CULM_OK) {
        status = culm_runner_init(&model->runner, model->subject.network, &runner, error);
    }
    if (status == CULM_OK && model->runner.graph->output_count == 0) {
        status = culm_error_set(error, CULM_ERR_UNSUPPORTED, "'%s' has a loss and no output", what);
    }
    return status == CULM_OK ? culm_subject_load(&model->subject, &model->runner, note, error)
                             : status;
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
    if (status == CULM_OK &&
        !(status = culm_public_check(own.batch, CULM_PUBLIC_BATCH_MAX,
                                     "culm_model_open_options: batch", error))) {
        status = culm_public_check(own.threads, CULM_PUBLIC_THREADS_MAX,
                                   "culm_model_open_options: threads", error);
    }
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

/* As many as the model was opened for. */
static void all_samples(struct culm_model *model) {
    culm_stage_rows_free(model->rows);
    culm_graph_free(model->fewer);
    model->rows = NULL;
    model->fewer = NULL;
}

void culm_model_free(struct culm_model *model) {
    if (model) {
        all_samples(model);
        culm_runner_release(&model->runner);
        culm_subject_close(&model->subject);
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

int32_t culm_model_output_count(const struct culm_model *model) {
    return model ? model->runner.graph->output_count : 0;
}

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
    const struct culm_field *field = &shown(model)->field[index];
    /* the name lives as long as the model */
    return describe(model->runner.graph->field[index].name, field->dtype, &field->shape, ret_info,
                    error);
}

enum culm_status culm_model_output(const struct culm_model *model, int32_t index,
                                   struct culm_array_info *ret_info, struct culm_error *error) {
    if (index < 0 || index >= culm_model_output_count(model)) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "culm_model_output: there is no output %d of %d", index,
                              culm_model_output_count(model));
    }
    const struct culm_output *output = &model->runner.graph->output[index];
    const struct culm_value *value = &shown(model)->value[output->value];
    return describe(output->name, value->dtype, &value->shape, ret_info, error);
}

/* --- running --- */

enum culm_status culm_model_set_batch(struct culm_model *model, int64_t batch,
                                      struct culm_error *error) {
    if (!model) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_model_set_batch: the model is NULL");
    }
    int64_t most = model->runner.batch;
    if (batch < 1 || batch > most) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "culm_model_set_batch: %lld samples; the model was opened for 1 to "
                              "%lld",
                              (long long)batch, (long long)most);
    }
    struct culm_graph *fewer = NULL;
    struct culm_stage_rows *rows = NULL;
    enum culm_status status = CULM_OK;
    if (batch < most) {
        status = culm_graph_for_samples(model->runner.graph, batch, &fewer, error);
        if (status == CULM_OK) {
            status =
                culm_stage_rows_new(model->runner.stage, model->runner.graph, batch, &rows, error);
        }
    }
    if (status != CULM_OK) {
        culm_graph_free(fewer);
        return status;
    }
    all_samples(model);
    model->fewer = fewer;
    model->rows = rows;
    return CULM_OK;
}

/* A number that chooses a row must be of one that is there. */
static enum culm_status check_numbers(const struct culm_model *model, int32_t index,
                                      struct culm_error *error) {
    const struct culm_graph *graph = shown(model);
    const struct culm_field *field = &graph->field[index];
    int64_t below = field->dtype == CULM_I32 ? culm_network_below(graph, field->name) : 0;
    const int32_t *number = model->runner.field[index];
    for (int64_t i = 0; below > 0 && i < culm_elements(&field->shape); i++) {
        if (number[i] < 0 || number[i] >= below) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "input '%s': element %lld is %d, and must be 0 to %lld",
                                  field->name, (long long)i, number[i], (long long)below - 1);
        }
    }
    return CULM_OK;
}

enum culm_status culm_model_run(struct culm_model *model, const void *const *inputs,
                                void *const *outputs, struct culm_error *error) {
    if (!model || !outputs || (!inputs && culm_model_input_count(model) > 0)) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_model_run: an argument is NULL");
    }
    const struct culm_graph *graph = shown(model);
    for (int32_t i = 0; i < graph->output_count; i++) {
        if (!outputs[i]) {
            return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_model_run: output '%s' is NULL",
                                  graph->output[i].name);
        }
    }
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
    run.rows = model->rows;
    (void)culm_stage_forward(model->runner.stage, model->runner.device, &run); /* it ends */
    for (int32_t i = 0; i < graph->output_count; i++) {
        const struct culm_value *value = &graph->value[graph->output[i].value];
        memcpy(outputs[i],
               (const char *)model->runner.output +
                   culm_stage_output_offset(model->runner.stage, i),
               (size_t)culm_elements(&value->shape) * culm_dtype_bytes(value->dtype));
    }
    return CULM_OK;
}
