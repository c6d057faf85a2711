/* ONNX files as models of pictures. See open_onnx.h. */
#include "query/open_onnx.h"

#include "base/file.h"
#include "model/layers.h"
#include "onnx/graph.h"
#include "onnx/onnx.h"
#include "query/describe.h"
#include "query/open_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_BYTES_MAX (1u << 22)

struct onnx_model {
    struct culm_vision_model model; /* first */
    struct culm_onnx_graph *file;
    struct culm_onnx_model *numbers; /* for the graph that was built last */
    int32_t width, height;           /* where the file leaves them open; 0: not known */
    int32_t named;                   /* how many classes have names; 0: none */
};

static enum culm_status import(struct onnx_model *own, int64_t batch, bool tables,
                               struct culm_graph **ret_graph, struct culm_error *error) {
    struct culm_onnx_model *numbers = NULL;
    const struct culm_onnx_options options = {.batch = batch,
                                              .width = own->width,
                                              .height = own->height,
                                              .inference = true,
                                              .tables = tables,
                                              .every_row = tables,
                                              .classes = own->named};
    enum culm_status status =
        culm_onnx_import_graph(own->file, &options, &numbers, ret_graph, error);
    if (status == CULM_OK) {
        culm_onnx_model_free(own->numbers);
        own->numbers = numbers;
    }
    return status;
}

static enum culm_status onnx_graph(struct culm_vision_model *model, int64_t batch,
                                   struct culm_graph **ret_graph, struct culm_error *error) {
    struct onnx_model *own = (struct onnx_model *)model;
    enum culm_status status = import(own, batch, model->table.rows > 0, ret_graph, error);
    if (status != CULM_OK) {
        return status;
    }
    if (model->kind == CULM_ANSWER_POINTS) { /* they are read as they are */
        culm_layer_ends(*ret_graph);
    }
    return culm_graph_check(*ret_graph, error);
}

static enum culm_status onnx_weights(struct culm_vision_model *model,
                                     const struct culm_param *param, float *ret_data,
                                     struct culm_error *error) {
    struct onnx_model *own = (struct onnx_model *)model;
    enum culm_status status = culm_onnx_weights_read(own->numbers, param->name, param->written.rank,
                                                     param->written.dim, ret_data, error);
    return status == CULM_ERR_NOT_FOUND
               ? culm_error_set(error, CULM_ERR_CONFIG,
                                "'%s': the file lacks the numbers of '%s'; export it with its "
                                "weights",
                                model->name, param->name)
               : status;
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
    for (int32_t i = 0; i < file->output_count && file->output_count > 1 && !model->head_count &&
                        !model->table.rows;
         i++) {
        const size_t room = sizeof model->unread - len;
        const int more = snprintf(model->unread + len, room, "%s'%.40s'", i ? ", " : "",
                                  file->value[file->output[i]].name);
        len = (size_t)more < room ? len + (size_t)more : sizeof model->unread - 1;
    }
}

/* The size of an input that the file leaves open: what was asked for, else what its metadata say. */
static enum culm_status choose_size(struct onnx_model *own,
                                    const struct culm_query_reading *reading,
                                    struct culm_error *error) {
    bool open = false;
    for (int32_t k = 0; k < own->file->input_count; k++) {
        const struct culm_onnx_value *v = &own->file->value[own->file->input[k]];
        for (int i = 1; i < v->rank && v->rank == 4; i++) {
            open |= v->dim[i] < 0;
        }
    }
    if (!open) {
        return CULM_OK;
    }
    if (reading && reading->width > 0) {
        own->width = reading->width;
        own->height = reading->height;
    } else if (!culm_onnx_graph_image_size(own->file, &own->width, &own->height)) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "'%s': the file leaves the size of its input open; say which, "
                              "--size WIDTHxHEIGHT (in a workload, the query's 'size')",
                              own->model.name);
    }
    return CULM_OK;
}

/* How many lines a file of names has that are not empty ones at its end; 0: it cannot be read, which is
 * told later. */
static int32_t count_names(const char *path) {
    struct culm_error ignored = {0};
    char *text = NULL;
    size_t len = 0;
    int32_t count = 0;
    if (culm_file_read(NULL, path, NAMES_BYTES_MAX, &text, &len, &ignored) != CULM_OK) {
        return 0;
    }
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r')) {
        len--;
    }
    for (size_t i = 0; i < len; i++) {
        count += text[i] == '\n';
    }
    free(text);
    return len > 0 ? count + 1 : 0;
}

/* Tries to read the outputs as a table. *ret_status and the error: why not. */
static bool open_table(struct onnx_model *own, const struct culm_query_about *about,
                       enum culm_query_decode decode, enum culm_status *ret_status,
                       struct culm_error *error) {
    struct culm_graph *made = NULL;
    const struct culm_table_hint hint = {
        .decode = decode,
        .classes = own->named,
        .task = own->file->task,
        .corners_yx = own->file->producer && strstr(own->file->producer, "tf2onnx"),
    };
    *ret_status = import(own, 1, true, &made, error);
    if (*ret_status == CULM_OK && !culm_query_input(&own->model, made)) {
        *ret_status =
            culm_error_set(error, CULM_ERR_CONFIG,
                           "'%s': not a model of pictures, which reads one image of 1 or 3 "
                           "colours",
                           own->model.name);
    }
    if (*ret_status == CULM_OK) {
        *ret_status = culm_query_table(&own->model, made, &hint, error);
    }
    if (*ret_status == CULM_OK) {
        *ret_status = culm_query_names(&own->model, about, error);
    }
    const bool yolo = *ret_status == CULM_OK && !own->model.table.fractions &&
                      own->model.table.corners == CULM_VISION_CENTRE && !own->model.table.chosen;
    own->model.input.letterbox = yolo; /* so they are trained */
    own->model.input.around = yolo ? CULM_VISION_AROUND : 0;
    culm_graph_free(made);
    return *ret_status == CULM_OK;
}

static enum culm_status describe(struct onnx_model *own, const struct culm_query_about *about,
                                 enum culm_query_decode decode, struct culm_error *error) {
    enum culm_status status = CULM_OK, tables = CULM_OK;
    struct culm_error why = {0};
    const bool table = decode != CULM_DECODE_AUTO && decode != CULM_DECODE_DARKNET &&
                       decode != CULM_DECODE_CLASSES && decode != CULM_DECODE_POINTS;
    if (table) {
        (void)open_table(own, about, decode, &status, error);
        return status;
    }
    status = culm_query_describe(&own->model, about, error);
    if (decode != CULM_DECODE_AUTO || (status == CULM_OK && own->file->output_count == 1)) {
        return status;
    }
    const struct culm_vision_model plain = own->model;
    own->model.class_name = NULL;
    if (open_table(own, about, decode, &tables, &why)) {
        const struct culm_vision_model found = own->model;
        own->model = plain;
        culm_vision_names_drop(&own->model);
        own->model = found;
        return CULM_OK;
    }
    if (own->model.class_name != plain.class_name) {
        culm_vision_names_drop(&own->model);
    }
    own->model = plain;
    if (status != CULM_OK && tables == CULM_ERR_CONFIG && error) {
        *error = why; /* what a table lacks says more */
        status = tables;
    }
    return status;
}

enum culm_status culm_query_open_onnx(const char *what,
                                      const struct culm_query_open_options *options,
                                      struct culm_vision_model **ret_model,
                                      struct culm_error *error) {
    struct onnx_model *own = calloc(1, sizeof *own);
    if (!own) {
        return culm_error_set(error, CULM_ERR_MEMORY, "'%s': out of memory", what);
    }
    struct culm_names known = {0};
    const enum culm_query_decode decode =
        options->reading ? options->reading->decode : CULM_DECODE_AUTO;
    own->model.ops = &onnx_ops;
    culm_query_name_of(what, own->model.name);
    enum culm_status status = culm_onnx_graph_open(what, &own->file, error);
    if (status == CULM_OK) {
        status = choose_size(own, options->reading, error);
    }
    if (status == CULM_OK) {
        (void)culm_onnx_graph_class_names(own->file, &known);
        own->named = options->names ? count_names(options->names) : (int32_t)known.count;
        const struct culm_query_about about = {
            .what = what, .names = options->names, .known = &known, .decode = decode};
        status = describe(own, &about, decode, error);
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
