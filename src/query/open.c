/* Opening models of pictures of any kind. See open.h. */
#include "query/open.h"

#include "base/file.h"
#include "darknet/darknet.h"
#include "query/describe.h"
#include "query/open_onnx.h"
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
    } else if (strcmp(text, "bytes") == 0) {
        for (int i = 0; i < 3; i++) {
            n.deviation[i] = 1.0F / 255;
        }
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
                "normalize '%.60s': write none, imagenet, bytes, or three means and three "
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
    culm_query_name_of(what, own->model.name);
    const struct culm_subject_options subject = {
        .kinds = CULM_SUBJECT_NAME | CULM_SUBJECT_CONFIG | CULM_SUBJECT_ONNX | CULM_SUBJECT_RUN,
        .weights = options->structure ? NULL : options->weights,
        .sets = culm_subject_alone,
        .set_count = CULM_SUBJECT_ALONE_COUNT,
    };
    enum culm_status status = culm_subject_open(what, &subject, &own->subject, error);
    if (status == CULM_OK) {
        own->subject.config.precision = CULM_PRECISION_F32;
        const struct culm_query_about about = {.what = what,
                                               .names = options->names,
                                               .known = &own->subject.classes,
                                               .decode = options->reading ? options->reading->decode
                                                                          : CULM_DECODE_AUTO};
        status = culm_query_describe(&own->model, &about, error);
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

/* What of a reading is the same for all kinds. */
static enum culm_status apply(struct culm_vision_model *model,
                              const struct culm_query_reading *reading, struct culm_error *error) {
    struct culm_vision_input *input = &model->input;
    if (reading->width > 0 &&
        (reading->width != input->width || reading->height != input->height)) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "'%s': its input is %d x %d, which is not left open; leave the size "
                              "(%d x %d) out",
                              model->name, (int)input->width, (int)input->height,
                              (int)reading->width, (int)reading->height);
    }
    if (!input->letterbox && reading->fit == CULM_FIT_LETTERBOX) {
        input->around = model->head_count ? CULM_VISION_AROUND_DARKNET : CULM_VISION_AROUND;
    }
    input->letterbox |= reading->fit == CULM_FIT_LETTERBOX;
    input->letterbox &= reading->fit != CULM_FIT_STRETCH;
    input->around = input->letterbox ? input->around : 0;
    input->bgr = reading->colors == CULM_COLORS_BGR && input->channels == 3;
    return CULM_OK;
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
    const enum culm_query_decode decode =
        options->reading ? options->reading->decode : CULM_DECODE_AUTO;
    if (cfg && !package && decode != CULM_DECODE_AUTO && decode != CULM_DECODE_DARKNET) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "'%s': a darknet file says itself what it answers; leave 'decode: "
                              "%s' out",
                              what, culm_query_decode_names[decode]);
    }
    if (culm_query_is_package_alone(what)) {
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "'%s' is a package; name one of its queries, %s:QUERY, as 'culm merge "
            "show' lists them",
            what, what);
    }
    enum culm_status status = package ? culm_query_open_package(what, options, &model, error)
                              : cfg   ? culm_darknet_open(what, &darknet, &model, error)
                              : onnx  ? culm_query_open_onnx(what, options, &model, error)
                                      : open_network(what, options, &model, error);
    if (status != CULM_OK) {
        return status;
    }
    if (options->reading && !package) { /* a package has told it to the model inside */
        status = apply(model, options->reading, error);
    }
    if (status == CULM_OK && options->reading) {
        status = culm_vision_count_classes(model, options->reading->classes,
                                           options->reading->class_count, error);
    }
    if (status != CULM_OK) {
        culm_vision_model_free(model);
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
