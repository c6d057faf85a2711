/* Describes models of pictures, and exports them. See vision_about.h. */
#include "run/vision_about.h"
#include "graph/stage.h"
#include "model/model.h"
#include "onnx/onnx.h"
#include "query/open_package.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool culm_vision_is_file(const char *what) {
    const char *dot = strrchr(what, '.');
    return culm_query_is_package(what) ||
           (dot && (strcmp(dot, ".cfg") == 0 || strcmp(dot, ".onnx") == 0));
}

static enum culm_status read_all(struct culm_vision_model *model, const struct culm_graph *graph,
                                 struct culm_error *error) {
    enum culm_status status = CULM_OK;
    for (int32_t p = 0; p < graph->param_count && status == CULM_OK; p++) {
        float *data = malloc((size_t)culm_elements(&graph->param[p].shape) * sizeof *data);
        status = data ? culm_vision_model_weights(model, &graph->param[p], data, error)
                      : culm_error_set(error, CULM_ERR_MEMORY, "'%s': out of memory", model->name);
        free(data);
    }
    return status;
}

static enum culm_status tell_layers(const struct culm_graph *graph, struct culm_vision_about *about,
                                    struct culm_error *error) {
    struct culm_vision_layers layers = {0};
    enum culm_status status = culm_vision_layers_of(graph, &layers, error);
    if (status == CULM_OK) {
        about->layer = calloc((size_t)layers.count + 1, sizeof *about->layer);
        about->layers = about->layer ? layers.count : 0;
        status = about->layer ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    for (int32_t i = 0; i < about->layers; i++) {
        const struct culm_vision_layer *layer = &layers.layer[i];
        snprintf(about->layer[i].name, sizeof about->layer[i].name, "%s",
                 graph->param[layer->weight].name);
        culm_vision_signature_text(&layer->signature, about->layer[i].signature);
        about->layer[i].bytes = layer->bytes;
        about->layer_bytes += layer->bytes;
    }
    culm_vision_layers_release(&layers);
    return status;
}

static enum culm_status tell(struct culm_vision_model *model, const struct culm_graph *graph,
                             struct culm_vision_about *about, struct culm_error *error) {
    const struct culm_stage_options how = {.forward_only = true};
    struct culm_stage *stage = NULL;
    enum culm_status status = culm_stages_compile(graph, 1, &how, &stage, error);
    if (status != CULM_OK) {
        return status;
    }
    const struct culm_stage_info *info = culm_stage_info_of(stage);
    snprintf(about->name, sizeof about->name, "%s", model->name);
    about->answers = culm_answer_names[model->kind];
    about->classes = model->classes;
    about->ends_in = culm_end_name(model->end);
    about->width = model->input.width;
    about->height = model->input.height;
    about->channels = model->input.channels;
    about->heads = model->head_count;
    about->candidates = model->table.rows;
    about->parameters = culm_model_parameters(graph);
    about->tensors = graph->param_count;
    about->flops = info->forward_flops;
    about->memory_bytes = info->param_floats * 4 + (int64_t)info->activation_bytes +
                          (int64_t)info->scratch_bytes + (int64_t)info->output_bytes +
                          culm_elements(&graph->field[0].shape) * 4;
    culm_stage_free(stage);
    return tell_layers(graph, about, error);
}

/* The caller frees the model, also after an error. */
static enum culm_status open_which(const struct culm_vision_which *which, bool structure,
                                   struct culm_vision_model **ret_model, struct culm_error *error) {
    struct culm_query_reading reading;
    const struct culm_query_open_options how = {.weights = which->weights,
                                                .reading =
                                                    which->decode || which->size ? &reading : NULL,
                                                .structure = structure};
    enum culm_status status =
        culm_query_reading_from(which->decode, NULL, NULL, which->size, &reading, error);
    return status == CULM_OK ? culm_query_open(which->what, &how, ret_model, error) : status;
}

enum culm_status culm_vision_describe_file(const struct culm_vision_which *which, bool check,
                                           struct culm_vision_about *ret_about,
                                           struct culm_error *error) {
    struct culm_vision_model *model = NULL;
    struct culm_graph *graph = NULL;
    *ret_about = (struct culm_vision_about){0};
    enum culm_status status;
    if (!(status = open_which(which, !check, &model, error)) &&
        !(status = culm_vision_model_graph(model, 1, CULM_VISION_INFER, &graph, error)) &&
        (!check || !(status = read_all(model, graph, error)))) {
        status = tell(model, graph, ret_about, error);
    }
    culm_graph_free(graph);
    culm_vision_model_free(model);
    return status;
}

void culm_vision_about_release(struct culm_vision_about *about) {
    free(about->layer);
    *about = (struct culm_vision_about){0};
}

/* --- export --- */

static enum culm_status numbers_of(void *arg, const struct culm_param *param, float *ret_data,
                                   struct culm_error *error) {
    return culm_vision_model_weights(arg, param, ret_data, error);
}

enum culm_status culm_vision_export(const struct culm_vision_which *which, const char *path,
                                    struct culm_error *error) {
    struct culm_vision_model *model = NULL;
    struct culm_graph *graph = NULL;
    enum culm_status status;
    if (!(status = open_which(which, false, &model, error)) &&
        !(status = culm_vision_model_graph(model, 1, CULM_VISION_INFER, &graph, error))) {
        const struct culm_names names = {.name = model->class_name,
                                         .count = model->class_name &&
                                                          model->class_name[model->classes - 1]
                                                      ? (size_t)model->classes
                                                      : 0};
        status = culm_onnx_export(graph, numbers_of, model, &names, path, error);
    }
    culm_graph_free(graph);
    culm_vision_model_free(model);
    return status;
}
