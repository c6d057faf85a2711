/* A darknet model. See darknet.h. */
#include "darknet/darknet.h"

#include "base/file.h"
#include "darknet/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct darknet_model {
    struct culm_vision_model model; /* first */
    struct culm_darknet_net net;
    struct culm_darknet_weights weights; /* fd -1: structure only */
    char path[CULM_PATH_MAX];
};

static struct darknet_model *of(struct culm_vision_model *model) {
    return (struct darknet_model *)model;
}

static enum culm_status graph(struct culm_vision_model *model, int64_t batch,
                              struct culm_graph **ret_graph, struct culm_error *error) {
    enum culm_status status = culm_darknet_build(&of(model)->net, batch, ret_graph, error);
    if (status != CULM_OK) {
        culm_error_prefix(error, "darknet '%s'", of(model)->path);
    }
    return status;
}

static enum culm_status weights(struct culm_vision_model *model, const struct culm_param *param,
                                float *ret_data, struct culm_error *error) {
    const struct darknet_model *own = of(model);
    if (own->weights.fd < 0) {
        return culm_error_set(error, CULM_ERR_CONFIG, "darknet '%s': opened without weights",
                              own->path);
    }
    return culm_darknet_weights_read(&own->weights, &own->net, param->name,
                                     culm_elements(&param->shape), ret_data, error);
}

static void free_model(struct culm_vision_model *model) {
    culm_darknet_weights_close(&of(model)->weights);
    culm_darknet_net_release(&of(model)->net);
    free(model);
}

static const struct culm_vision_model_ops ops = {
    .size = sizeof ops, .graph = graph, .weights = weights, .free = free_model};

/* --- names --- */

/* The file name of a path, and its length without ".cfg". */
static const char *stem_of(const char *path, size_t *ret_len) {
    const char *slash = strrchr(path, '/'), *stem = slash ? slash + 1 : path;
    size_t len = strlen(stem);
    *ret_len = len > 4 && strcmp(stem + len - 4, ".cfg") == 0 ? len - 4 : len;
    return stem;
}

/* Looks for names beside the configuration. It is fine if there are none; if they are for another
 * number of classes, the model's note says so. */
static enum culm_status find_names(struct culm_vision_model *model, const char *path,
                                   struct culm_error *error) {
    size_t len;
    const char *stem = stem_of(path, &len), *end = stem + len;
    for (const char *part = stem; part;) {
        char file[CULM_PATH_MAX];
        enum culm_status status = culm_path_format(
            file, error, "%.*s%.*s.names", (int)(stem - path), path, (int)(end - part), part);
        if (status != CULM_OK) {
            return status;
        }
        if (culm_file_is_regular(file)) {
            struct culm_error why = {0};
            status = culm_vision_names_read(model, file, &why);
            if (status == CULM_ERR_CONFIG) {
                snprintf(model->note, sizeof model->note, "%.460s", why.text);
                return CULM_OK;
            }
            return status == CULM_OK ? status : culm_error_set(error, status, "%s", why.text);
        }
        if (part == stem) { /* then the parts between dashes, last one first */
            part = end;
        } else {
            end = part - 1;
            part = end;
        }
        while (part > stem && part[-1] != '-') {
            part--;
        }
        part = part > stem ? part : NULL;
    }
    return CULM_OK;
}

/* --- opening --- */

static void fill(struct darknet_model *own) {
    struct culm_vision_model *model = &own->model;
    size_t len;
    const char *stem = stem_of(own->path, &len);
    snprintf(model->name, sizeof model->name, "%.*s", (int)len, stem);
    model->ops = &ops;
    model->kind = CULM_ANSWER_BOXES;
    model->input = (struct culm_vision_input){.width = (int32_t)own->net.width,
                                              .height = (int32_t)own->net.height,
                                              .channels = (int32_t)own->net.channels,
                                              .deviation = {1, 1, 1}};
    model->head_count = own->net.heads;
    for (int32_t i = 0; i < own->net.count; i++) {
        const struct culm_darknet_section *s = &own->net.section[i];
        if (s->kind == CULM_DARKNET_YOLO) {
            model->head[s->head.output] = s->head;
            model->classes = s->head.classes;
        }
    }
}

static enum culm_status read_cfg(struct darknet_model *own, struct culm_error *error) {
    char *text = NULL;
    size_t text_len = 0;
    enum culm_status status =
        culm_file_read(NULL, own->path, CULM_DARKNET_TEXT_MAX, &text, &text_len, error);
    if (status == CULM_ERR_NOT_FOUND) {
        status = CULM_ERR_CONFIG;
        if (error) {
            error->status = status;
        }
    }
    if (status == CULM_OK) {
        status = culm_darknet_parse(text, text_len, own->path, &own->net, error);
    }
    free(text);
    return status;
}

static enum culm_status open_weights(struct darknet_model *own, const char *given,
                                     struct culm_error *error) {
    char path[CULM_PATH_MAX];
    size_t len;
    const char *stem = stem_of(own->path, &len);
    enum culm_status status = given
                                  ? CULM_OK
                                  : culm_path_format(path, error, "%.*s.weights",
                                                     (int)(stem - own->path + (int)len), own->path);
    return status == CULM_OK
               ? culm_darknet_weights_open(given ? given : path, &own->net, &own->weights, error)
               : status;
}

enum culm_status culm_darknet_open(const char *path, const struct culm_darknet_options *options,
                                   struct culm_vision_model **ret_model, struct culm_error *error) {
    const struct culm_darknet_options none = {0};
    struct darknet_model *own = calloc(1, sizeof *own);
    options = options ? options : &none;
    if (!own) {
        return culm_error_set(error, CULM_ERR_MEMORY, "darknet '%s': out of memory", path);
    }
    own->weights.fd = -1;
    own->model.ops = &ops;
    enum culm_status status;
    if ((status = culm_path_format(own->path, error, "%s", path)) ||
        (status = read_cfg(own, error)) ||
        (!options->structure && (status = open_weights(own, options->weights, error)))) {
        culm_vision_model_free(&own->model);
        return status;
    }
    fill(own);
    status = options->names ? culm_vision_names_read(&own->model, options->names, error)
                            : find_names(&own->model, own->path, error);
    if (status != CULM_OK) {
        culm_vision_model_free(&own->model);
        return status;
    }
    *ret_model = &own->model;
    return CULM_OK;
}
