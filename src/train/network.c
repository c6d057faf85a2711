/* The network that a configuration names. See network.h. */
#include "train/network_internal.h"

#include "graph/precision.h"
#include "model/layers.h"
#include "onnx/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_onnx(const struct culm_train_config *config) {
    return config->model.arch == CULM_ARCH_ONNX;
}

static bool gives_output(enum culm_purpose purpose) {
    return purpose == CULM_FOR_OUTPUT || purpose == CULM_FOR_ANSWER;
}

/* --- ONNX files --- */

#define ONNX_CONTEXT 128 /* where neither the file nor model.context says it */

static struct network_request request_of(const struct culm_train_config *config, int64_t batch,
                                         enum culm_purpose purpose) {
    const struct culm_model_options *model = &config->model.options;
    return (struct network_request){.batch = batch,
                                    .context = model->context ? model->context : ONNX_CONTEXT,
                                    .image = model->image,
                                    .masked = model->masked,
                                    .label_smoothing = model->label_smoothing,
                                    .purpose = purpose};
}

static bool same_request(const struct network_request *a, const struct network_request *b) {
    return a->batch == b->batch && a->context == b->context && a->image == b->image &&
           a->masked == b->masked && a->label_smoothing == b->label_smoothing &&
           a->purpose == b->purpose;
}

static enum culm_status import(struct culm_network *network, const struct network_request *request,
                               struct culm_onnx_model **ret_model, struct culm_graph **ret_graph,
                               struct culm_error *error) {
    const struct culm_onnx_options options = {
        .batch = request->batch,
        .context = request->context,
        .height = request->image,
        .width = request->image,
        .masked = request->masked,
        .label_smoothing = request->label_smoothing,
        .inference = gives_output(request->purpose),
        .keep_masks = request->purpose == CULM_FOR_ANSWER,
        .evaluate = request->purpose == CULM_FOR_LOSS,
    };
    const struct culm_train_config *config = network->config;
    enum culm_status status =
        network->file
            ? CULM_OK
            : culm_onnx_graph_open_pinned(config->model.file, config->pins, &network->file, error);
    return status == CULM_OK
               ? culm_onnx_import_graph(network->file, &options, ret_model, ret_graph, error)
               : status;
}

enum culm_status network_import(struct culm_network *network, struct culm_error *error) {
    if (!is_onnx(network->config) || network->model) {
        return CULM_OK;
    }
    network->request = request_of(network->config, network->config->batch.micro, CULM_FOR_TRAINING);
    return import(network, &network->request, &network->model, &network->graph, error);
}

/* The graph that is there if it is such a one, else a new one. */
static enum culm_status onnx_graph(struct culm_network *network, int64_t batch,
                                   enum culm_purpose purpose, struct culm_graph **ret_graph,
                                   struct culm_error *error) {
    const struct network_request request = request_of(network->config, batch, purpose);
    if (network->graph && same_request(&request, &network->request)) {
        *ret_graph = network->graph;
        network->graph = NULL;
        return CULM_OK;
    }
    struct culm_onnx_model *model = NULL;
    enum culm_status status = import(network, &request, &model, ret_graph, error);
    culm_onnx_model_free(model);
    return status;
}

/* --- graphs --- */

enum culm_status culm_network_graph(struct culm_network *network, int64_t batch,
                                    enum culm_purpose purpose, struct culm_graph **ret_graph,
                                    struct culm_error *error) {
    const struct culm_train_config *config = network->config;
    struct culm_model_options options = config->model.options;
    options.batch = batch;
    options.inference = gives_output(purpose);
    options.evaluate = purpose != CULM_FOR_TRAINING;
    if (purpose != CULM_FOR_TRAINING) {
        options.dropout = 0;
    }
    struct culm_graph *graph = NULL;
    enum culm_status status = is_onnx(config)
                                  ? onnx_graph(network, batch, purpose, &graph, error)
                                  : culm_model_build(config->model.arch, &options, &graph, error);
    if (status == CULM_OK && purpose == CULM_FOR_ANSWER) {
        culm_layer_ends(graph);
        status = culm_graph_check(graph, error);
    }
    if (status == CULM_OK && config->precision == CULM_PRECISION_BF16) {
        status = culm_graph_lower_bf16(graph, error);
    }
    if (status != CULM_OK) {
        culm_graph_free(graph);
        return status;
    }
    *ret_graph = graph;
    return CULM_OK;
}

/* "image f32[28,28,1]" */
static const char *describe(const char *name, enum culm_dtype dtype, const struct culm_shape *shape,
                            char text[128]) {
    char dims[64];
    snprintf(text, 128, "%s %s%s", name, culm_dtype_name(dtype),
             culm_shape_format(shape, dims, sizeof dims));
    return text;
}

static void list_fields(const struct culm_source *source, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < culm_source_field_count(source) && used < size; i++) {
        const struct culm_source_field *field = &culm_source_fields(source)[i];
        char one[128];
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "",
                                 describe(field->name, field->dtype, &field->shape, one));
    }
}

/* --- numbers of the samples that choose a row or a class --- */

struct choice {
    const struct culm_field *field;
    int64_t rows;      /* of the table, or how many classes */
    const char *table; /* its name; NULL: classes */
};

/* The field that a value is, maybe in another form; NULL: it is made of something else. */
static const struct culm_field *field_of(const struct culm_graph *graph, int32_t value) {
    for (int32_t i = graph->node_count - 1; i >= 0; i--) { /* backwards: makers come before users */
        if (graph->node[i].output[0] == value && graph->node[i].op->outputs > 0) {
            value = graph->node[i].input[0];
        }
    }
    bool field = value >= 0 && graph->value[value].kind == CULM_VALUE_FIELD &&
                 graph->value[value].dtype == CULM_I32;
    return field ? &graph->field[graph->value[value].field] : NULL;
}

/* What a node chooses by a field; false: nothing. */
static bool choice_of(const struct culm_graph *graph, const struct culm_node_desc *node,
                      struct choice *ret_choice) {
    int32_t index = node->op->chooses.index, from = node->op->chooses.from;
    int32_t dimension = node->op->chooses.dimension;
    if (index == from) {
        return false;
    }
    const struct culm_value *value = &graph->value[node->input[from]];
    *ret_choice = (struct choice){
        .field = field_of(graph, node->input[index]),
        .rows = value->shape.dim[dimension < 0 ? value->shape.rank + dimension : dimension],
        .table = node->op->is_loss   ? NULL
                 : value->param >= 0 ? graph->param[value->param].name
                                     : "the sample",
    };
    return ret_choice->field != NULL;
}

/* The key of a field's numbers; NULL: none. */
static const char *key_of(const char *field) {
    static const char *const keys[][2] = {
        {"tokens", "model.vocab"},      {"targets", "model.vocab"}, {"mlm_targets", "model.vocab"},
        {"source", "model.vocab"},      {"label", "model.classes"}, {"types", "model.types"},
        {"positions", "model.context"},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strcmp(keys[i][0], field) == 0) {
            return keys[i][1];
        }
    }
    return NULL;
}

static enum culm_status check_numbers(const struct culm_graph *graph,
                                      const struct culm_source *source, struct culm_error *error) {
    for (int32_t i = 0; i < graph->node_count; i++) {
        struct choice choice;
        int32_t at = choice_of(graph, &graph->node[i], &choice)
                         ? culm_source_find(source, choice.field->name)
                         : -1;
        int64_t below = at >= 0 ? culm_source_fields(source)[at].below : 0;
        if (below <= choice.rows || at < 0) {
            continue;
        }
        const char *key = key_of(choice.field->name);
        char what[128] = "classes";
        if (choice.table) {
            snprintf(what, sizeof what, "rows in '%s'", choice.table);
        }
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "%s: '%s' of the samples goes up to %lld, and the model has %lld %s; "
                              "choose the model and the data that go together",
                              key ? key : "data.kind", choice.field->name, (long long)below - 1,
                              (long long)choice.rows, what);
    }
    return CULM_OK;
}

int64_t culm_network_below(const struct culm_graph *graph, const char *field) {
    int64_t below = 0;
    for (int32_t i = 0; i < graph->node_count; i++) {
        struct choice choice;
        if (choice_of(graph, &graph->node[i], &choice) && strcmp(choice.field->name, field) == 0 &&
            (below == 0 || choice.rows < below)) {
            below = choice.rows;
        }
    }
    return below;
}

/* --- opening --- */

/* What nobody gave, as the graph of the file has it. */
static void complete(struct culm_model_options *o, const struct culm_graph *graph) {
    struct culm_model_options of = {0};
    for (int32_t i = 0; i < graph->field_count; i++) {
        const struct culm_shape *shape = &graph->field[i].shape;
        if (strcmp(graph->field[i].name, "tokens") == 0) {
            of.context = shape->dim[1];
        } else if (strcmp(graph->field[i].name, "positions") == 0) {
            of.masked = shape->dim[1];
        } else if (strcmp(graph->field[i].name, "image") == 0) {
            of.image = shape->dim[1];
            of.channels = shape->dim[3];
        }
        const char *key = key_of(graph->field[i].name);
        int64_t below = key ? culm_network_below(graph, graph->field[i].name) : 0;
        if (below && strcmp(key, "model.vocab") == 0) { /* what all tables and logits have */
            of.vocab = of.vocab && of.vocab < below ? of.vocab : below;
        } else if (below && strcmp(key, "model.classes") == 0) {
            of.classes = below;
        }
    }
    o->context = o->context ? o->context : of.context;
    o->vocab = o->vocab ? o->vocab : of.vocab;
    o->classes = o->classes ? o->classes : of.classes;
    o->masked = o->masked ? o->masked : of.masked;
    o->image = o->image ? o->image : of.image;
    o->channels = o->channels ? o->channels : of.channels;
}

enum culm_status culm_network_open(struct culm_train_config *config,
                                   struct culm_network **ret_network, struct culm_error *error) {
    struct culm_network *network = calloc(1, sizeof *network);
    if (!network) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for the model");
    }
    network->config = config;
    enum culm_status status = network_import(network, error);
    if (status != CULM_OK) {
        culm_network_close(network);
        return status;
    }
    if (network->graph) {
        complete(&config->model.options, network->graph);
        /* Asked for with the sizes that it has, it is the same graph. */
        network->request = request_of(config, config->batch.micro, CULM_FOR_TRAINING);
    }
    *ret_network = network;
    return CULM_OK;
}

void culm_network_let_go(struct culm_network *network) {
    culm_graph_free(network->graph);
    culm_onnx_model_free(network->model);
    culm_onnx_graph_close(network->file);
    culm_weights_close(network->init);
    network->graph = NULL;
    network->model = NULL;
    network->file = NULL;
    network->init = NULL;
}

void culm_network_close(struct culm_network *network) {
    if (network) {
        culm_network_let_go(network);
        free(network);
    }
}

const struct culm_train_config *culm_network_config(const struct culm_network *network) {
    return network->config;
}

/* --- samples --- */

enum culm_function culm_network_end(const struct culm_graph *graph) {
    for (int32_t i = 0; i < graph->node_count; i++) {
        if (graph->node[i].op == &culm_op_cross_entropy &&
            graph->node[i].attributes.function != CULM_FUNCTION_NONE) {
            return graph->node[i].attributes.function;
        }
    }
    return CULM_FUNCTION_NONE;
}

/* The loss is of one class among many, as a softmax is; a sigmoid says of each by itself. */
enum culm_status culm_network_check_trainable(const struct culm_graph *graph,
                                              struct culm_error *error) {
    int64_t table = culm_network_below(graph, "tokens");
    int64_t words = culm_network_below(graph, "mlm_targets");
    words = words ? words : culm_network_below(graph, "targets");
    if (table && culm_network_below(graph, "label")) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "model.file: the model classifies whole texts, and there is no "
                              "data.kind of texts with labels; export it with its head for masked "
                              "words ('data.kind: masked') or for the next token ('text')");
    }
    if (words && table / 2 > words) { /* a padded table has only some more */
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "model.file: the model sorts %lld kinds of tokens into %lld classes, and there is no "
            "data.kind of tokens with labels; export it with its head for masked words "
            "('data.kind: masked') or for the next token ('text')",
            (long long)table, (long long)words);
    }
    return culm_network_end(graph) != CULM_FUNCTION_SIGMOID
               ? CULM_OK
               : culm_error_set(
                     error, CULM_ERR_CONFIG,
                     "model.file: the model ends in a sigmoid, each class by itself, and "
                     "the loss, cross-entropy, is of one class among at least two; "
                     "export it with an output a class and without the sigmoid");
}

enum culm_status culm_network_check_source(const struct culm_graph *graph,
                                           const struct culm_source *source,
                                           struct culm_error *error) {
    for (int32_t f = 0; f < graph->field_count; f++) {
        const struct culm_field *field = &graph->field[f];
        struct culm_shape one = {.rank = field->shape.rank - 1};
        memcpy(one.dim, field->shape.dim + 1, sizeof one.dim - sizeof *one.dim);
        int32_t at = culm_source_find(source, field->name);
        const struct culm_source_field *have = at >= 0 ? &culm_source_fields(source)[at] : NULL;
        if (!have || have->dtype != field->dtype ||
            culm_elements(&have->shape) != culm_elements(&one)) {
            char wanted[128], offered[512];
            list_fields(source, offered, sizeof offered);
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "data.kind: the model reads '%s', the data has: %s; choose the "
                                  "data.kind and the sizes under model that go together",
                                  describe(field->name, field->dtype, &one, wanted), offered);
        }
    }
    return check_numbers(graph, source, error);
}
