/* What all models of pictures have in common. See model.h. */
#include "vision/model.h"

#include "base/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_BYTES_MAX (1u << 22)

const char *const culm_answer_names[] = {"boxes", "classes", "points", NULL};

bool culm_vision_same_bytes(const struct culm_vision_input *a, const struct culm_vision_input *b) {
    return a->width == b->width && a->height == b->height && a->channels == b->channels &&
           a->letterbox == b->letterbox && a->around == b->around;
}

bool culm_vision_same_input(const struct culm_vision_input *a, const struct culm_vision_input *b) {
    return culm_vision_same_bytes(a, b) && a->bgr == b->bgr &&
           memcmp(a->mean, b->mean, sizeof a->mean) == 0 &&
           memcmp(a->deviation, b->deviation, sizeof a->deviation) == 0;
}

struct culm_vision_place culm_vision_place_of(const struct culm_vision_input *input,
                                              int32_t frame_width, int32_t frame_height) {
    struct culm_vision_place place = {0, 0, input->width, input->height};
    if (input->letterbox && frame_width > 0 && frame_height > 0) {
        const double by =
            fmin((double)input->width / frame_width, (double)input->height / frame_height);
        const double width = rint(frame_width * by), height = rint(frame_height * by);
        place.width = width < 1 ? 1 : (int32_t)width;
        place.height = height < 1 ? 1 : (int32_t)height;
        place.x = (input->width - place.width) / 2;
        place.y = (input->height - place.height) / 2;
    }
    return place;
}

int32_t culm_vision_outputs(const struct culm_vision_model *model) {
    return model->head_count ? model->head_count : model->table.rows ? model->table.count : 1;
}

enum culm_status culm_vision_model_graph(struct culm_vision_model *model, int64_t batch,
                                         enum culm_vision_purpose purpose,
                                         struct culm_graph **ret_graph, struct culm_error *error) {
    struct culm_graph *graph = NULL;
    enum culm_status status = model->ops->graph(model, batch, &graph, error);
    if (status != CULM_OK) {
        return status;
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        if (graph->node[i].op == &culm_op_batchnorm) {
            graph->node[i].attributes.inference = purpose == CULM_VISION_INFER;
        }
    }
    *ret_graph = graph;
    return CULM_OK;
}

void culm_vision_gate(const struct culm_vision_model *model, struct culm_graph *fused) {
    for (int32_t i = 0; i < model->head_count; i++) {
        const struct culm_yolo_head *head = &model->head[i];
        const struct culm_shape *map = head->output < fused->output_count
                                           ? &fused->value[fused->output[head->output].value].shape
                                           : NULL;
        if (map && culm_last_dim(map) == (int64_t)head->anchors * (5 + head->classes)) {
            culm_graph_gate(fused, head->output, head->anchors, 4);
        }
    }
}

enum culm_status culm_vision_model_weights(struct culm_vision_model *model,
                                           const struct culm_param *param, float *ret_data,
                                           struct culm_error *error) {
    return model->ops->weights(model, param, ret_data, error);
}

void culm_vision_names_drop(struct culm_vision_model *model) {
    for (int32_t i = 0; model->class_name && i < model->classes; i++) {
        free(model->class_name[i]);
    }
    free(model->class_name);
    model->class_name = NULL;
}

void culm_vision_model_free(struct culm_vision_model *model) {
    if (model) {
        culm_vision_names_drop(model);
        free(model->counts);
        model->ops->free(model);
    }
}

/* --- names of classes --- */

const char *culm_vision_class_name(const struct culm_vision_model *model, int32_t index,
                                   char text[24]) {
    if (model->class_name && index >= 0 && index < model->classes && model->class_name[index]) {
        return model->class_name[index];
    }
    snprintf(text, 24, "class %d", (int)index);
    return text;
}

static bool is_blank(const char *from, const char *end) {
    while (from < end && (*from == '\n' || *from == '\r' || *from == ' ' || *from == '\t')) {
        from++;
    }
    return from >= end;
}

static enum culm_status take_names(char *text, size_t len, const char *path, int32_t classes,
                                   char **ret_name, struct culm_error *error) {
    char *end = text + len;
    int32_t count = 0;
    for (char *line = text; line < end;) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        stop = stop ? stop : end;
        size_t bytes = (size_t)(stop - line);
        bytes -= bytes > 0 && line[bytes - 1] == '\r';
        if (bytes == 0 && is_blank(stop, end)) {
            break;
        }
        if (count < classes && !(ret_name[count] = strndup(line, bytes))) {
            return culm_error_set(error, CULM_ERR_MEMORY, "'%s': out of memory", path);
        }
        count++;
        line = stop + 1;
    }
    return count == classes ? CULM_OK
                            : culm_error_set(error, CULM_ERR_CONFIG,
                                             "names '%s': %d lines for a model of %d classes; give "
                                             "the file that belongs to the model",
                                             path, count, classes);
}

enum culm_status culm_vision_names_set(struct culm_vision_model *model, const char *const *names,
                                       size_t count, struct culm_error *error) {
    if (model->kind == CULM_ANSWER_POINTS || count > (size_t)model->classes) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "'%s': names of %zu classes for a model of %d", model->name, count,
                              model->kind == CULM_ANSWER_POINTS ? 0 : (int)model->classes);
    }
    char **copy = calloc((size_t)model->classes + 1, sizeof *copy);
    bool good = copy;
    for (size_t i = 0; good && i < count; i++) {
        copy[i] = strdup(names[i]);
        good = copy[i];
    }
    if (!good) {
        for (size_t i = 0; copy && i < count; i++) {
            free(copy[i]);
        }
        free(copy);
        return culm_error_set(error, CULM_ERR_MEMORY, "'%s': out of memory", model->name);
    }
    culm_vision_names_drop(model);
    model->class_name = copy;
    return CULM_OK;
}

enum culm_status culm_vision_names_read(struct culm_vision_model *model, const char *path,
                                        struct culm_error *error) {
    char *text = NULL;
    size_t len = 0;
    if (model->kind == CULM_ANSWER_POINTS) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "names '%s': the model answers with points and has no classes", path);
    }
    enum culm_status status = culm_file_read(NULL, path, NAMES_BYTES_MAX, &text, &len, error);
    if (status != CULM_OK) {
        culm_error_prefix(error, "names");
        return status == CULM_ERR_NOT_FOUND ? CULM_ERR_CONFIG : status;
    }
    char **name = calloc((size_t)model->classes + 1, sizeof *name);
    status = name ? take_names(text, len, path, model->classes, name, error)
                  : culm_error_set(error, CULM_ERR_MEMORY, "'%s': out of memory", path);
    free(text);
    if (status != CULM_OK) {
        for (int32_t i = 0; name && i < model->classes; i++) {
            free(name[i]);
        }
        free(name);
        return status;
    }
    culm_vision_names_drop(model);
    model->class_name = name;
    return CULM_OK;
}

/* --- classes that count --- */

/* -1: it is none of the model's. */
static int32_t class_of(const struct culm_vision_model *model, const char *text) {
    char *end, own[24];
    const long number = strtol(text, &end, 10);
    if (end != text && !*end) {
        return number >= 0 && number < model->classes ? (int32_t)number : -1;
    }
    for (int32_t c = 0; c < model->classes; c++) {
        if (strcmp(culm_vision_class_name(model, c, own), text) == 0) {
            return c;
        }
    }
    return -1;
}

enum culm_status culm_vision_count_classes(struct culm_vision_model *model,
                                           const char *const *classes, size_t count,
                                           struct culm_error *error) {
    if (count == 0) {
        return CULM_OK;
    }
    if (model->kind != CULM_ANSWER_BOXES) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "'%s' answers with %s, and 'classes' says which boxes count",
                              model->name, culm_answer_names[model->kind]);
    }
    free(model->counts);
    model->counts = calloc((size_t)model->classes, sizeof *model->counts);
    if (!model->counts) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for classes");
    }
    for (size_t i = 0; i < count; i++) {
        const int32_t c = class_of(model, classes[i]);
        char first[24], last[24];
        if (c < 0) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "'%s' has no class '%.40s'; it has %d, from 0, '%.40s', to %d, "
                                  "'%.40s'",
                                  model->name, classes[i], (int)model->classes,
                                  culm_vision_class_name(model, 0, first), (int)model->classes - 1,
                                  culm_vision_class_name(model, model->classes - 1, last));
        }
        model->counts[c] = true;
    }
    return CULM_OK;
}
