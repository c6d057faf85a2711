/* What a model's input and outputs are, worked out from its graph. See describe.h. */
#include "query/describe.h"

#include "base/file.h"
#include "darknet/darknet.h"
#include "query/open_table.h"

#include <stdio.h>
#include <string.h>

/* The model's name: "cifar10-resnet20" for "../cifar10-resnet20.onnx". */
void culm_query_name_of(const char *what, char ret_name[64]) {
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

bool culm_query_input(struct culm_vision_model *model, const struct culm_graph *graph) {
    const struct culm_shape *in = graph->field_count == 1 ? &graph->field[0].shape : NULL;
    if (!in || in->rank != 4 || strcmp(graph->field[0].name, "image") != 0 || in->dim[0] != 1 ||
        (in->dim[3] != 1 && in->dim[3] != 3)) {
        return false;
    }
    model->input = (struct culm_vision_input){.width = (int32_t)in->dim[2],
                                              .height = (int32_t)in->dim[1],
                                              .channels = (int32_t)in->dim[3],
                                              .deviation = {1, 1, 1}};
    return true;
}

/* Fields and outputs, as far as there is room. */
static enum culm_status not_of_pictures(const struct culm_vision_model *model,
                                        const struct culm_graph *graph, struct culm_error *error) {
    char text[CULM_QUERY_OUTPUTS_TEXT], shape[64] = "nothing";
    if (graph->field_count > 0) {
        culm_shape_format(&graph->field[0].shape, shape, sizeof shape);
    }
    return culm_error_set(
        error, CULM_ERR_CONFIG,
        "'%s': not a model of pictures, which reads one image of 1 or 3 colours: it has %d inputs, "
        "the first '%.40s' %s, and answers with %s",
        model->name, (int)graph->field_count, graph->field_count ? graph->field[0].name : "", shape,
        culm_query_outputs_text(graph, text));
}

static enum culm_status not_understood(const struct culm_vision_model *model,
                                       const struct culm_graph *graph, const char *why,
                                       struct culm_error *error) {
    char text[CULM_QUERY_OUTPUTS_TEXT];
    return culm_error_set(error, CULM_ERR_CONFIG, "'%s': its outputs are %s: %s", model->name,
                          culm_query_outputs_text(graph, text), why);
}

enum culm_status culm_query_names(struct culm_vision_model *model,
                                  const struct culm_query_about *about, struct culm_error *error) {
    const struct culm_names *known = about->known;
    if (about->names) {
        return culm_vision_names_read(model, about->names, error);
    }
    return known->count > 0 && known->count <= (size_t)model->classes
               ? culm_vision_names_set(model, (const char *const *)known->name, known->count, error)
               : CULM_OK;
}

static enum culm_status describe_maps(struct culm_vision_model *model,
                                      const struct culm_query_about *about,
                                      const struct culm_graph *graph, struct culm_error *error) {
    if (about->decode == CULM_DECODE_CLASSES || about->decode == CULM_DECODE_POINTS) {
        return not_understood(model, graph, "maps, and not one row of numbers", error);
    }
    enum culm_status status = find_heads(model, about->what, about->names, error);
    if (status == CULM_OK) {
        status = check_maps(model, graph, error);
    }
    return status == CULM_OK && !heads_fit(model, graph)
               ? culm_error_set(error, CULM_ERR_CONFIG,
                                "'%s': its maps do not match the darknet configuration beside it",
                                model->name)
               : status;
}

/* One row of numbers. */
static enum culm_status describe_row(struct culm_vision_model *model,
                                     const struct culm_query_about *about,
                                     const struct culm_graph *graph, struct culm_error *error) {
    const int64_t count = culm_elements(&graph->value[graph->output[0].value].shape);
    const enum culm_function end = graph->output[0].end;
    const bool each = end == CULM_FUNCTION_SIGMOID;
    const int64_t classes = each && count == 1 ? 2 : count;
    const bool fit = about->known->count > 0 && (int64_t)about->known->count <= classes;
    bool points = !about->names && !fit && (count == 136 || count == 196) &&
                  (each || end == CULM_FUNCTION_NONE);
    points =
        about->decode == CULM_DECODE_POINTS || (points && about->decode != CULM_DECODE_CLASSES);
    if (points && count % 2) {
        return not_understood(model, graph, "points have an even number of coordinates", error);
    }
    model->kind = points ? CULM_ANSWER_POINTS : CULM_ANSWER_CLASSES;
    model->classes = (int32_t)(points ? count / 2 : classes);
    model->end = points ? CULM_FUNCTION_NONE : end;
    return points && !about->names ? CULM_OK : culm_query_names(model, about, error);
}

/* Whether at most one dimension behind the first has more than one number. */
static bool is_row(const struct culm_shape *shape) {
    int wide = 0;
    for (int i = 1; i < shape->rank; i++) {
        wide += shape->dim[i] != 1;
    }
    return wide <= 1;
}

enum culm_status culm_query_describe(struct culm_vision_model *model,
                                     const struct culm_query_about *about,
                                     struct culm_error *error) {
    struct culm_graph *made = NULL;
    enum culm_status status = model->ops->graph(model, 1, &made, error);
    if (status != CULM_OK) {
        return status;
    }
    const struct culm_shape *out =
        made->output_count > 0 ? &made->value[made->output[0].value].shape : NULL;
    if (!culm_query_input(model, made) || !out || out->rank < 1 ||
        made->value[made->output[0].value].dtype != CULM_F32) {
        status = not_of_pictures(model, made, error);
    } else if (out->rank == 4) {
        status = describe_maps(model, about, made, error);
    } else if (about->decode == CULM_DECODE_DARKNET) {
        status = not_understood(model, made, "'decode: darknet' reads maps", error);
    } else if (is_row(out) && culm_elements(out) <= CULM_VISION_CLASSES_MAX) {
        status = describe_row(model, about, made, error);
    } else {
        status =
            not_understood(model, made,
                           "classes are one row of numbers, [batch, classes]; if these are "
                           "boxes, say how they are to be read ('decode': yolov5, yolov8, ssd, "
                           "detr or boxes)",
                           error);
    }
    culm_graph_free(made);
    return status;
}
