/* Opening models of pictures of any kind. See open.h. */
#include "query/open.h"

#include "base/file.h"
#include "darknet/darknet.h"
#include "model/layers.h"
#include "onnx/graph.h"
#include "onnx/onnx.h"
#include "query/open_package.h"
#include "query/subject.h"
#include "store/weights.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const float imagenet_mean[] = {0.485F, 0.456F, 0.406F};
static const float imagenet_deviation[] = {0.229F, 0.224F, 0.225F};

enum culm_status culm_query_normalize_parse(const char *text,
                                            struct culm_query_normalize *ret_normalize,
                                            struct culm_error *error) {
    struct culm_query_normalize n = {.deviation = {1, 1, 1}};
    if (strcmp(text, "imagenet") == 0) {
        memcpy(n.mean, imagenet_mean, sizeof n.mean);
        memcpy(n.deviation, imagenet_deviation, sizeof n.deviation);
    } else if (strcmp(text, "none") != 0) {
        float value[6];
        const char *at = text;
        bool right = true;
        for (int i = 0; i < 6 && right; i++) {
            char *end;
            value[i] = strtof(at, &end);
            right = end != at && *end == (i < 5 ? ',' : '\0') && isfinite(value[i]) &&
                    (i < 3 || value[i] > 0);
            at = end + 1;
        }
        if (!right) {
            return culm_error_set(
                error, CULM_ERR_CONFIG,
                "normalize '%.60s': write none, imagenet, or three means and three "
                "deviations above 0 with commas between them",
                text);
        }
        memcpy(n.mean, value, sizeof n.mean);
        memcpy(n.deviation, value + 3, sizeof n.deviation);
    }
    *ret_normalize = n;
    return CULM_OK;
}

/* --- models of configurations, runs and ONNX files --- */

struct network_model {
    struct culm_vision_model model; /* first */
    struct culm_subject subject;
    struct culm_weights *weights; /* the subject's, opened on first use; NULL: the network's */
    bool ready;                   /* weights were looked at */
    bool structure;
};

static struct network_model *of(struct culm_vision_model *model) {
    return (struct network_model *)model;
}

static enum culm_status graph(struct culm_vision_model *model, int64_t batch,
                              struct culm_graph **ret_graph, struct culm_error *error) {
    enum culm_purpose purpose =
        model->kind == CULM_ANSWER_POINTS ? CULM_FOR_ANSWER : CULM_FOR_OUTPUT;
    return culm_network_graph(of(model)->subject.network, batch, purpose, ret_graph, error);
}

/* Opens the weights, or those that the network starts from, and compares them with the model. */
static enum culm_status open_weights(struct network_model *own, struct culm_error *error) {
    struct culm_graph *made = NULL;
    if (own->ready) {
        return CULM_OK;
    }
    enum culm_status status = graph(&own->model, 1, &made, error);
    if (status == CULM_OK) {
        status =
            own->subject.weights[0]
                ? culm_subject_weights(&own->subject, made, &own->weights, own->model.note, error)
                : culm_network_check_weights(own->subject.network, made, own->model.note, error);
    }
    culm_graph_free(made);
    own->ready = status == CULM_OK;
    return status;
}

static struct culm_param_info param_info(const struct culm_param *param) {
    struct culm_param_info info = {.name = param->name,
                                   .rank = param->written.rank,
                                   .count = culm_elements(&param->written),
                                   .decay = param->decay,
                                   .statistic = param->statistic,
                                   .init = param->init,
                                   .std = param->std};
    memcpy(info.shape, param->written.dim, sizeof info.shape);
    return info;
}

static enum culm_status weights(struct culm_vision_model *model, const struct culm_param *param,
                                float *ret_data, struct culm_error *error) {
    struct network_model *own = of(model);
    if (own->structure) {
        return culm_error_set(error, CULM_ERR_CONFIG, "'%s': opened without weights", model->name);
    }
    const struct culm_shape *shape = &param->written;
    enum culm_status status = open_weights(own, error);
    if (status != CULM_OK) {
        return status;
    }
    if (own->weights) {
        return culm_weights_read(own->weights, param->name, shape->rank, shape->dim, ret_data,
                                 error);
    }
    const struct culm_param_info info = param_info(param);
    return culm_network_weights(own->subject.network, &info, ret_data, error);
}

static void free_model(struct culm_vision_model *model) {
    struct network_model *own = of(model);
    culm_weights_close(own->weights);
    culm_subject_close(&own->subject);
    free(own);
}

static const struct culm_vision_model_ops ops = {
    .size = sizeof ops, .graph = graph, .weights = weights, .free = free_model};

/* The model's name: "cifar10-resnet20" for "../cifar10-resnet20.onnx". */
static void name_of(const char *what, char ret_name[64]) {
    const char *slash = strrchr(what, '/');
    const char *stem = slash && slash[1] ? slash + 1 : what;
    size_t len = strlen(stem);
    const char *dot = strrchr(stem, '.');
    len = dot && dot != stem ? (size_t)(dot - stem) : len;
    snprintf(ret_name, 64, "%.*s", (int)(len < 63 ? len : 63), stem);
}

/* The heads of a detector, which a file of another kind does not describe: takes them from the
 * darknet configuration of the same name beside it. */
static enum culm_status find_heads(struct culm_vision_model *model, const char *what,
                                   const char *names, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    size_t len = strlen(what);
    struct culm_vision_model *darknet = NULL;
    const struct culm_darknet_options options = {.names = names, .structure = true};
    enum culm_status status = culm_path_format(path, error, "%.*s.cfg", (int)len - 5, what);
    if (status == CULM_OK && !culm_file_is_regular(path)) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "'%s': its outputs are maps; put the darknet configuration that "
                              "describes them beside it, as '%s'",
                              what, path);
    }
    if (status == CULM_OK) {
        status = culm_darknet_open(path, &options, &darknet, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    model->kind = CULM_ANSWER_BOXES;
    model->classes = darknet->classes;
    model->class_name = darknet->class_name;
    darknet->class_name = NULL; /* now the model's */
    model->head_count = darknet->head_count;
    memcpy(model->head, darknet->head, sizeof model->head);
    culm_vision_model_free(darknet);
    return CULM_OK;
}

static enum culm_status not_of_pictures(const struct culm_vision_model *model,
                                        struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_CONFIG,
                          "'%s': not a model of pictures, which reads one image and answers with "
                          "one row of numbers or with maps",
                          model->name);
}

/* The heads are read through sigmoids of their own. */
static enum culm_status check_maps(const struct culm_vision_model *model,
                                   const struct culm_graph *graph, struct culm_error *error) {
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct culm_node_desc *node = &graph->node[i];
        bool end =
            node->op == &culm_op_softmax ||
            (node->op == &culm_op_activation && node->attributes.function == CULM_FUNCTION_SIGMOID);
        for (int32_t o = 0; o < graph->output_count && end; o++) {
            if (graph->output[o].value == node->output[0]) {
                return culm_error_set(
                    error, CULM_ERR_CONFIG,
                    "'%s': output '%s' ends in a %s, which is applied to maps again when their "
                    "boxes are read; export what enters it",
                    model->name, graph->output[o].name,
                    node->op == &culm_op_softmax ? "softmax" : "sigmoid");
            }
        }
    }
    return CULM_OK;
}

/* Whether every head has a map with as many channels as it needs. */
static bool heads_fit(const struct culm_vision_model *model, const struct culm_graph *graph) {
    bool fit = graph->output_count >= model->head_count;
    for (int32_t i = 0; i < model->head_count && fit; i++) {
        const struct culm_yolo_head *head = &model->head[i];
        const struct culm_shape *map = &graph->value[graph->output[head->output].value].shape;
        fit = map->rank == 4 && map->dim[3] == (int64_t)head->anchors * (5 + head->classes);
    }
    return fit;
}

/* Works out inputs and outputs from the graph. */
static enum culm_status describe(struct culm_vision_model *model, const char *what,
                                 const char *names, const struct culm_names *known,
                                 struct culm_error *error) {
    struct culm_graph *made = NULL;
    enum culm_status status = model->ops->graph(model, 1, &made, error);
    if (status != CULM_OK) {
        return status;
    }
    const struct culm_shape *in = made->field_count == 1 ? &made->field[0].shape : NULL;
    const struct culm_shape *out =
        made->output_count > 0 ? &made->value[made->output[0].value].shape : NULL;
    bool maps = out && out->rank == 4;
    if (!in || !out || in->rank != 4 || strcmp(made->field[0].name, "image") != 0 ||
        (in->dim[3] != 1 && in->dim[3] != 3) || in->dim[0] != 1 || out->rank < 1 ||
        made->value[made->output[0].value].dtype != CULM_F32 ||
        (!maps && culm_elements(out) > CULM_VISION_CLASSES_MAX)) {
        culm_graph_free(made);
        return not_of_pictures(model, error);
    }
    model->input = (struct culm_vision_input){.width = (int32_t)in->dim[2],
                                              .height = (int32_t)in->dim[1],
                                              .channels = (int32_t)in->dim[3],
                                              .deviation = {1, 1, 1}};
    if (maps) {
        status = find_heads(model, what, names, error);
        if (status == CULM_OK) {
            status = check_maps(model, made, error);
        }
        if (status == CULM_OK && !heads_fit(model, made)) {
            status = culm_error_set(
                error, CULM_ERR_CONFIG,
                "'%s': its maps do not match the darknet configuration beside it", model->name);
        }
    } else {
        int64_t count = culm_elements(out);
        enum culm_function end = made->output[0].end;
        bool each = end == CULM_FUNCTION_SIGMOID;
        int64_t classes = each && count == 1 ? 2 : count;
        bool fit = known->count > 0 && (int64_t)known->count <= classes;
        bool points =
            !names && !fit && (count == 136 || count == 196) && (each || end == CULM_FUNCTION_NONE);
        model->kind = points ? CULM_ANSWER_POINTS : CULM_ANSWER_CLASSES;
        model->classes = (int32_t)(points ? count / 2 : classes);
        model->end = points ? CULM_FUNCTION_NONE : end;
        status = names ? culm_vision_names_read(model, names, error)
                 : fit ? culm_vision_names_set(model, (const char *const *)known->name,
                                               known->count, error)
                       : CULM_OK;
    }
    culm_graph_free(made);
    return status;
}

static enum culm_status open_network(const char *what,
                                     const struct culm_query_open_options *options,
                                     struct culm_vision_model **ret_model,
                                     struct culm_error *error) {
    struct network_model *own = calloc(1, sizeof *own);
    if (!own) {
        return culm_error_set(error, CULM_ERR_MEMORY, "'%s': out of memory", what);
    }
    own->model.ops = &ops;
    own->structure = options->structure;
    name_of(what, own->model.name);
    const struct culm_subject_options subject = {
        .kinds = CULM_SUBJECT_NAME | CULM_SUBJECT_CONFIG | CULM_SUBJECT_ONNX | CULM_SUBJECT_RUN,
        .weights = options->structure ? NULL : options->weights,
        .sets = culm_subject_alone,
        .set_count = CULM_SUBJECT_ALONE_COUNT,
    };
    enum culm_status status = culm_subject_open(what, &subject, &own->subject, error);
    if (status == CULM_OK) {
        own->subject.config.precision = CULM_PRECISION_F32;
        status = describe(&own->model, what, options->names, &own->subject.classes, error);
    }
    if (status != CULM_OK) {
        culm_vision_model_free(&own->model);
        return status;
    }
    struct culm_source_options source = {0};
    culm_train_config_source(&own->subject.config, false, &source);
    for (int c = 0; c < 3 && source.std[c] > 0; c++) {
        own->model.input.mean[c] = (float)source.mean[c];
        own->model.input.deviation[c] = (float)source.std[c];
    }
    *ret_model = &own->model;
    return CULM_OK;
}

/* --- ONNX files --- */

struct onnx_model {
    struct culm_vision_model model; /* first */
    struct culm_onnx_graph *file;
    struct culm_onnx_model *numbers; /* for the graph that was built last */
};

static enum culm_status onnx_graph(struct culm_vision_model *model, int64_t batch,
                                   struct culm_graph **ret_graph, struct culm_error *error) {
    struct onnx_model *own = (struct onnx_model *)model;
    struct culm_onnx_model *numbers = NULL;
    const struct culm_onnx_options options = {.batch = batch, .inference = true};
    enum culm_status status =
        culm_onnx_import_graph(own->file, &options, &numbers, ret_graph, error);
    if (status != CULM_OK) {
        return status;
    }
    culm_onnx_model_free(own->numbers);
    own->numbers = numbers;
    if (model->kind == CULM_ANSWER_POINTS) { /* they are read as they are */
        culm_layer_ends(*ret_graph);
    }
    return culm_graph_check(*ret_graph, error);
}

/* A parameter that the file lacks is initialized as for training. */
static enum culm_status onnx_weights(struct culm_vision_model *model,
                                     const struct culm_param *param, float *ret_data,
                                     struct culm_error *error) {
    struct onnx_model *own = (struct onnx_model *)model;
    const struct culm_param_info info = param_info(param);
    enum culm_status status =
        culm_onnx_weights_read(own->numbers, param->name, info.rank, info.shape, ret_data, error);
    if (status == CULM_ERR_NOT_FOUND) {
        culm_model_init_param(&info, 0, ret_data);
        return CULM_OK;
    }
    return status;
}

static void free_onnx(struct culm_vision_model *model) {
    struct onnx_model *own = (struct onnx_model *)model;
    culm_onnx_model_free(own->numbers);
    culm_onnx_graph_close(own->file);
    free(own);
}

static const struct culm_vision_model_ops onnx_ops = {
    .size = sizeof onnx_ops, .graph = onnx_graph, .weights = onnx_weights, .free = free_onnx};

/* Graphs have maps, or one other output. */
static void tell_unread(const struct culm_onnx_graph *file, struct culm_vision_model *model) {
    size_t len = 0;
    for (int32_t i = 0; i < file->output_count && file->output_count > 1 && !model->head_count;
         i++) {
        const size_t room = sizeof model->unread - len;
        const int more = snprintf(model->unread + len, room, "%s'%.40s'", i ? ", " : "",
                                  file->value[file->output[i]].name);
        len = (size_t)more < room ? len + (size_t)more : sizeof model->unread - 1;
    }
}

static enum culm_status open_onnx(const char *what, const struct culm_query_open_options *options,
                                  struct culm_vision_model **ret_model, struct culm_error *error) {
    struct onnx_model *own = calloc(1, sizeof *own);
    if (!own) {
        return culm_error_set(error, CULM_ERR_MEMORY, "'%s': out of memory", what);
    }
    struct culm_names known = {0};
    own->model.ops = &onnx_ops;
    name_of(what, own->model.name);
    enum culm_status status = culm_onnx_graph_open(what, &own->file, error);
    if (status == CULM_OK) {
        (void)culm_onnx_graph_class_names(own->file, &known);
        status = describe(&own->model, what, options->names, &known, error);
        culm_names_release(&known);
        tell_unread(own->file, &own->model);
    }
    if (status != CULM_OK) {
        culm_vision_model_free(&own->model);
        return status == CULM_ERR_NOT_FOUND ? CULM_ERR_CONFIG : status;
    }
    *ret_model = &own->model;
    return CULM_OK;
}

/* --- all of them --- */

/* The real path, as far as it exists; for PACKAGE:QUERY that of the package, and the query. */
static void real_place(const char *what, char ret_path[PATH_MAX]) {
    const char *colon = strrchr(what, ':');
    char folder[PATH_MAX], place[PATH_MAX];
    if (realpath(what, place)) {
        snprintf(ret_path, PATH_MAX, "%s", place);
        return;
    }
    snprintf(folder, sizeof folder, "%.*s", colon ? (int)(colon - what) : 0, what);
    if (colon && realpath(folder, place) && strlen(place) + strlen(colon) < PATH_MAX) {
        memcpy(ret_path, place, strlen(place) + 1);
        memcpy(ret_path + strlen(place), colon, strlen(colon) + 1);
    } else {
        snprintf(ret_path, PATH_MAX, "%s", what);
    }
}

void culm_query_files(const char *what, const char *weights, char ret_text[CULM_QUERY_FILES_TEXT]) {
    char model[PATH_MAX], beside[PATH_MAX], numbers[PATH_MAX] = "";
    size_t len = strlen(what);
    if (!weights && len > 4 && strcmp(what + len - 4, ".cfg") == 0) {
        snprintf(beside, sizeof beside, "%.*s.weights", (int)(len - 4), what);
        weights = beside; /* beside the name that was given, not beside what a link leads to */
    }
    real_place(what, model);
    if (weights) {
        real_place(weights, numbers);
    }
    snprintf(ret_text, CULM_QUERY_FILES_TEXT, "%s\n%s", model, numbers);
}

enum culm_status culm_query_open(const char *what, const struct culm_query_open_options *options,
                                 struct culm_vision_model **ret_model, struct culm_error *error) {
    const struct culm_query_open_options none = {0};
    size_t len = strlen(what);
    struct culm_vision_model *model = NULL;
    options = options ? options : &none;
    const struct culm_darknet_options darknet = {
        .weights = options->weights, .names = options->names, .structure = options->structure};
    bool cfg = len > 4 && strcmp(what + len - 4, ".cfg") == 0;
    bool onnx = len > 5 && strcmp(what + len - 5, ".onnx") == 0 && !options->weights;
    bool package = culm_query_is_package(what);
    if (culm_query_is_package_alone(what)) {
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "'%s' is a package; name one of its queries, %s:QUERY, as 'culm merge "
            "show' lists them",
            what, what);
    }
    enum culm_status status = package ? culm_query_open_package(what, options, &model, error)
                              : cfg   ? culm_darknet_open(what, &darknet, &model, error)
                              : onnx  ? open_onnx(what, options, &model, error)
                                      : open_network(what, options, &model, error);
    if (status != CULM_OK) {
        return status;
    }
    if (options->normalize) {
        memcpy(model->input.mean, options->normalize->mean, sizeof model->input.mean);
        memcpy(model->input.deviation, options->normalize->deviation,
               sizeof model->input.deviation);
    }
    *ret_model = model;
    return CULM_OK;
}
