/* Models of packages. See open_package.h. */
#include "query/open_package.h"

#include "base/file.h"
#include "query/package.h"

#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 8 /* packages whose models are in packages */

struct package_model {
    struct culm_vision_model model; /* first */
    struct culm_vision_model *inner;
    struct culm_package_round round;
    int32_t query;
    bool structure;
    char dir[CULM_PATH_MAX];
};

static struct package_model *of(struct culm_vision_model *model) {
    return (struct package_model *)model;
}

static enum culm_status graph(struct culm_vision_model *model, int64_t batch,
                              struct culm_graph **ret_graph, struct culm_error *error) {
    return culm_vision_model_graph(of(model)->inner, batch, CULM_VISION_INFER, ret_graph, error);
}

static enum culm_status weights(struct culm_vision_model *model, const struct culm_param *param,
                                float *ret_data, struct culm_error *error) {
    struct package_model *own = of(model);
    const struct culm_package_query *query = &own->round.query[own->query];
    int32_t index = culm_package_param_find(query, param->name);
    if (own->structure) {
        return culm_error_set(error, CULM_ERR_CONFIG, "'%s': opened without weights", model->name);
    }
    const struct culm_package_tensor *tensor =
        index < 0 ? NULL : &own->round.tensor[query->param[index].tensor];
    if (!tensor || tensor->count != culm_elements(&param->shape)) {
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "package '%s': query '%s' has no '%s' of the size that '%s' needs; "
                              "the model's file is not the one that was merged",
                              own->dir, query->name, param->name, query->model);
    }
    return culm_package_read(own->dir, tensor, ret_data, error);
}

static void free_model(struct culm_vision_model *model) {
    struct package_model *own = of(model);
    culm_vision_model_free(own->inner);
    culm_package_round_release(&own->round);
    free(own);
}

static const struct culm_vision_model_ops ops = {
    .size = sizeof ops, .graph = graph, .weights = weights, .free = free_model};

/* Splits at the last ':'. False: there is no folder in front of it. */
static bool split(const char *what, char ret_dir[CULM_PATH_MAX], const char **ret_query) {
    const char *colon = strrchr(what, ':');
    if (!colon || culm_path_format(ret_dir, NULL, "%.*s", (int)(colon - what), what) != CULM_OK) {
        return false;
    }
    *ret_query = colon + 1;
    return culm_file_is_directory(ret_dir);
}

bool culm_query_is_package(const char *what) {
    char dir[CULM_PATH_MAX];
    const char *query;
    return split(what, dir, &query);
}

bool culm_query_is_package_alone(const char *what) {
    char path[CULM_PATH_MAX];
    return culm_path_format(path, NULL, "%s/tensors", what) == CULM_OK &&
           culm_file_is_directory(path) &&
           culm_path_format(path, NULL, "%s/rounds", what) == CULM_OK &&
           culm_file_is_directory(path);
}

/* What the user says of how it is read is put before what the package says. True: there is any. */
static bool take_given(const struct culm_query_reading *given, struct culm_query_reading *reading) {
    const bool size = given && given->width > 0;
    const bool other = given && (given->decode != CULM_DECODE_AUTO || given->fit != CULM_FIT_AUTO ||
                                 given->colors != CULM_COLORS_RGB || size);
    if (given) {
        reading->decode = given->decode != CULM_DECODE_AUTO ? given->decode : reading->decode;
        reading->fit = given->fit != CULM_FIT_AUTO ? given->fit : reading->fit;
        reading->colors = given->colors != CULM_COLORS_RGB ? given->colors : reading->colors;
        reading->width = size ? given->width : reading->width;
        reading->height = size ? given->height : reading->height;
        reading->classes = given->classes;
        reading->class_count = given->class_count;
    }
    return other;
}

static enum culm_status open_inner(struct package_model *own,
                                   const struct culm_query_open_options *options,
                                   struct culm_error *error) {
    const struct culm_package_query *query = &own->round.query[own->query];
    struct culm_query_normalize normalize;
    struct culm_query_reading reading = {0};
    bool other = options->normalize != NULL; /* it is to be another one, on purpose */
    struct culm_query_open_options how = {.names = options->names ? options->names : query->names,
                                          .normalize = options->normalize,
                                          .reading = &reading,
                                          .structure = true,
                                          .depth = options->depth + 1};
    if (!culm_query_reading_read(query->reading, &reading)) {
        return culm_error_set(
            error, CULM_ERR_FORMAT,
            "package '%s': query '%s' is read in a way that is not known, '%s'; a "
            "newer version may know it",
            own->dir, query->name, query->reading);
    }
    other |= take_given(options->reading, &reading);
    if (!how.normalize && query->normalized) {
        memcpy(normalize.mean, query->mean, sizeof normalize.mean);
        memcpy(normalize.deviation, query->deviation, sizeof normalize.deviation);
        how.normalize = &normalize;
    }
    char structure[CULM_VISION_STRUCTURE];
    enum culm_status status = culm_query_open(query->model, &how, &own->inner, error);
    if (status == CULM_OK && !other) {
        status = culm_vision_structure(own->inner, structure, error);
        if (status == CULM_OK && culm_vision_structure_differs(query->structure, structure)) {
            status = culm_error_set(error, CULM_ERR_CONFIG,
                                    "'%s' describes another model than the one that was merged; "
                                    "put it back, or merge again",
                                    query->model);
        }
    }
    return status == CULM_OK || options->depth > 0 /* only the outermost package is named */
               ? status
               : culm_error_prefix(error, "package '%s', query '%s'", own->dir, query->name);
}

enum culm_status culm_query_open_package(const char *what,
                                         const struct culm_query_open_options *options,
                                         struct culm_vision_model **ret_model,
                                         struct culm_error *error) {
    if (options->depth > DEPTH_MAX) {
        return culm_error_set(
            error, CULM_ERR_FORMAT,
            "'%s': a package whose model is in a package, and so on, more than %d deep", what,
            DEPTH_MAX);
    }
    struct package_model *own = calloc(1, sizeof *own);
    const char *name = NULL;
    if (!own || !split(what, own->dir, &name)) {
        free(own);
        return culm_error_set(error, own ? CULM_ERR_CONFIG : CULM_ERR_MEMORY,
                              "'%s': not a package, or out of memory", what);
    }
    own->model.ops = &ops;
    own->structure = options->structure;
    enum culm_status status = culm_package_open(own->dir, &own->round, error);
    if (status == CULM_OK && options->weights) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "'%s': the package has the weights; leave --weights out", what);
    }
    own->query = status == CULM_OK ? culm_package_query_find(&own->round, name) : -1;
    if (status == CULM_OK && own->query < 0) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "package '%s': it has no query '%.64s'; 'culm merge show' lists "
                                "them",
                                own->dir, name);
    }
    if (status == CULM_OK) {
        status = open_inner(own, options, error);
    }
    if (status != CULM_OK) {
        free_model(&own->model);
        return status;
    }
    const struct culm_vision_model_ops *mine = own->model.ops;
    own->model = *own->inner; /* takes over the names of classes */
    own->model.ops = mine;
    own->inner->class_name = NULL;
    *ret_model = &own->model;
    return CULM_OK;
}
