/* ONNX files: what one is to training, and a model as one. See models.h. */
#include "run/cost.h"

#include "onnx/onnx.h"
#include "query/subject.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(CULM_EXPORT_NOTE_SIZE == CULM_NETWORK_NOTE_SIZE, "one buffer serves both");

/* --- import --- */

struct culm_import {
    struct culm_onnx_model *model;
    struct culm_graph *graph;
    struct culm_import_about about;
};

static enum culm_status look(struct culm_import *import, int64_t batch, struct culm_error *error) {
    const struct culm_stage_options plain = {0};
    struct culm_stage *stage = NULL;
    enum culm_status status = culm_stages_compile(import->graph, 1, &plain, &stage, error);
    if (status != CULM_OK) {
        return status;
    }
    const struct culm_stage_info *info = culm_stage_info_of(stage);
    import->about = (struct culm_import_about){
        .producer = culm_onnx_model_producer(import->model),
        .opset = culm_onnx_model_opset(import->model),
        .parameters = culm_model_parameters(import->graph),
        .tensors = import->graph->param_count,
        .operators = import->graph->node_count,
        .blocks = import->graph->blocks,
        .fields = import->graph->field_count,
        .ends_in = culm_end_name(culm_network_end(import->graph)),
        .flops = (info->forward_flops + info->backward_flops) / (double)batch,
        .memory_bytes = culm_cost_memory(info),
    };
    while (culm_onnx_model_note(import->model, import->about.notes)) {
        import->about.notes++;
    }
    culm_stage_free(stage);
    return CULM_OK;
}

enum culm_status culm_import_open(const char *path, const struct culm_import_options *options,
                                  struct culm_import **ret_import, struct culm_error *error) {
    const struct culm_onnx_options how = {.batch = options->batch ? options->batch : 1,
                                          .context = options->context,
                                          .height = options->image,
                                          .width = options->image};
    struct culm_import *import = calloc(1, sizeof *import);
    if (!import) {
        return culm_error_set(error, CULM_ERR_MEMORY, "'%s': out of memory", path);
    }
    enum culm_status status = culm_onnx_import(path, &how, &import->model, &import->graph, error);
    if (status == CULM_OK) {
        status = look(import, how.batch, error);
    }
    if (status != CULM_OK) {
        culm_import_free(import);
        return status;
    }
    *ret_import = import;
    return CULM_OK;
}

void culm_import_free(struct culm_import *import) {
    if (import) {
        culm_graph_free(import->graph);
        culm_onnx_model_free(import->model);
        free(import);
    }
}

struct culm_import_about culm_import_describe(const struct culm_import *import) {
    return import->about;
}

struct culm_import_field culm_import_field_of(const struct culm_import *import, int32_t index) {
    const struct culm_field *field = &import->graph->field[index];
    struct culm_import_field about = {
        .name = field->name, .dtype = culm_dtype_name(field->dtype), .rank = field->shape.rank};
    memcpy(about.shape, field->shape.dim, sizeof field->shape.dim);
    return about;
}

const char *culm_import_note(const struct culm_import *import, int32_t index) {
    return culm_onnx_model_note(import->model, index);
}

/* --- export --- */

static enum culm_status weight_of(void *arg, const struct culm_param *param, float *ret_data,
                                  struct culm_error *error) {
    const struct culm_runner *runner = arg;
    const struct culm_stage_info *info = culm_stage_info_of(runner->stage);
    for (int32_t i = 0; i < info->param_count; i++) {
        if (strcmp(info->params[i].name, param->name) == 0) {
            memcpy(ret_data, runner->params + info->params[i].offset,
                   (size_t)info->params[i].count * sizeof *ret_data);
            return CULM_OK;
        }
    }
    return culm_error_set(error, CULM_ERR_INTERNAL, "no parameter '%s'", param->name);
}

/* The graph of evaluation, since that has all heads; in f32, which the weights are. */
enum culm_status culm_export(const char *what, const char *weights, const char *path,
                             char ret_note[CULM_EXPORT_NOTE_SIZE], struct culm_error *error) {
    const struct culm_subject_options options = {
        .kinds = CULM_SUBJECT_NAME | CULM_SUBJECT_CONFIG | CULM_SUBJECT_RUN, .weights = weights};
    const struct culm_runner_options how = {.batch = 1, .purpose = CULM_FOR_LOSS, .threads = 1};
    struct culm_subject subject;
    struct culm_runner runner = {0};
    ret_note[0] = '\0';
    enum culm_status status = culm_subject_open(what, &options, &subject, error);
    if (status != CULM_OK) {
        return status;
    }
    subject.config.precision = CULM_PRECISION_F32;
    if ((status = culm_runner_init(&runner, subject.network, &how, error)) == CULM_OK &&
        (status = culm_subject_load(&subject, &runner, ret_note, error)) == CULM_OK) {
        status = culm_onnx_export(runner.graph, weight_of, &runner, &subject.classes, path, error);
    }
    culm_runner_release(&runner);
    culm_subject_close(&subject);
    return status;
}
