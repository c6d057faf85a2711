/* The network that a configuration names. See network.h. */
#include "train/network.h"

#include "graph/precision.h"
#include "onnx/onnx.h"
#include "store/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_onnx(const struct culm_train_config *config) {
    return config->model.arch == CULM_ARCH_ONNX;
}

#define ONNX_CONTEXT 128 /* where neither the file nor model.context says it */

static enum culm_status import(const struct culm_train_config *config, int64_t batch,
                               enum culm_purpose purpose, struct culm_onnx_model **ret_file,
                               struct culm_graph **ret_graph, struct culm_error *error) {
    const struct culm_model_options *model = &config->model.options;
    const struct culm_onnx_options options = {
        .batch = batch,
        .context = model->context ? model->context : ONNX_CONTEXT,
        .height = model->image,
        .width = model->image,
        .masked = model->masked,
        .label_smoothing = model->label_smoothing,
        .inference = purpose == CULM_FOR_OUTPUT,
        .evaluate = purpose == CULM_FOR_LOSS,
        .pins = config->pins,
    };
    return culm_onnx_import(config->model.file, &options, ret_file, ret_graph, error);
}

enum culm_status culm_network_build(const struct culm_train_config *config, int64_t batch,
                                    enum culm_purpose purpose, struct culm_graph **ret_graph,
                                    struct culm_error *error) {
    struct culm_model_options options = config->model.options;
    options.batch = batch;
    options.inference = purpose == CULM_FOR_OUTPUT;
    options.evaluate = purpose != CULM_FOR_TRAINING;
    if (purpose != CULM_FOR_TRAINING) {
        options.dropout = 0;
    }
    struct culm_graph *graph = NULL;
    struct culm_onnx_model *file = NULL;
    enum culm_status status = is_onnx(config)
                                  ? import(config, batch, purpose, &file, &graph, error)
                                  : culm_model_build(config->model.arch, &options, &graph, error);
    culm_onnx_model_free(file);
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

enum culm_status culm_network_complete(struct culm_train_config *config, struct culm_error *error) {
    struct culm_onnx_model *file = NULL;
    struct culm_graph *graph = NULL;
    struct culm_model_options of = {0}, *o = &config->model.options;
    enum culm_status status = is_onnx(config) ? import(config, config->batch.micro,
                                                       CULM_FOR_TRAINING, &file, &graph, error)
                                              : CULM_OK;
    if (!graph) {
        return status;
    }
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
    culm_graph_free(graph);
    culm_onnx_model_free(file);
    return CULM_OK;
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

/* --- the first weights --- */

#define NAME_MAX_BYTES (sizeof((struct culm_param *)0)->name + 32) /* with a prefix */

struct culm_initial {
    uint64_t seed;
    struct culm_safetensors *file; /* NULL: none */
    struct culm_onnx_model *onnx;  /* NULL: none; `file` comes first */
    char path[512];
};

enum culm_status culm_initial_open(const struct culm_train_config *config,
                                   struct culm_initial **ret_initial, struct culm_error *error) {
    struct culm_initial *initial = calloc(1, sizeof *initial);
    if (!initial) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    initial->seed = config->seed;
    if (config->model.init) {
        snprintf(initial->path, sizeof initial->path, "%s", config->model.init);
        enum culm_status status =
            culm_safetensors_open_pinned(config->model.init, config->pins, &initial->file, error);
        if (status != CULM_OK) {
            culm_error_prefix(error, "model.init");
            free(initial);
            return status == CULM_ERR_NOT_FOUND ? CULM_ERR_CONFIG : status;
        }
    }
    if (is_onnx(config)) {
        struct culm_graph *graph = NULL;
        enum culm_status status =
            import(config, config->batch.micro, CULM_FOR_TRAINING, &initial->onnx, &graph, error);
        culm_graph_free(graph);
        if (status != CULM_OK) {
            culm_initial_close(initial);
            return status;
        }
    }
    *ret_initial = initial;
    return CULM_OK;
}

void culm_initial_close(struct culm_initial *initial) {
    if (initial) {
        culm_safetensors_close(initial->file);
        culm_onnx_model_free(initial->onnx);
        free(initial);
    }
}

/* `name`, or, for a layer norm of the first BERTs, LayerNorm.weight as LayerNorm.gamma and .bias as
 * .beta. */
static const struct culm_safetensors_entry *find_spelled(const struct culm_safetensors *file,
                                                         const char *name) {
    static const char *const spelled[][2] = {{"LayerNorm.weight", "LayerNorm.gamma"},
                                             {"LayerNorm.bias", "LayerNorm.beta"}};
    const struct culm_safetensors_entry *entry = culm_safetensors_find(file, name);
    for (size_t i = 0; i < sizeof spelled / sizeof *spelled && !entry; i++) {
        size_t len = strlen(name), end = strlen(spelled[i][0]);
        if (len >= end && strcmp(name + len - end, spelled[i][0]) == 0) {
            char other[NAME_MAX_BYTES];
            snprintf(other, sizeof other, "%.*s%s", (int)(len - end), name, spelled[i][1]);
            entry = culm_safetensors_find(file, other);
        }
    }
    return entry;
}

/* Published files leave the first part of the names out, or put one in front. */
static const struct culm_safetensors_entry *find(const struct culm_safetensors *file,
                                                 const char *name) {
    static const char prefixes[][16] = {"transformer.", "bert."};
    const struct culm_safetensors_entry *entry = find_spelled(file, name);
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes && !entry; i++) {
        size_t len = strlen(prefixes[i]);
        char longer[NAME_MAX_BYTES];
        snprintf(longer, sizeof longer, "%s%s", prefixes[i], name);
        entry = find_spelled(file, strncmp(name, prefixes[i], len) == 0 ? name + len : longer);
    }
    return entry;
}

enum culm_status culm_initial_fill(const struct culm_initial *initial,
                                   const struct culm_param_info *param, float *data,
                                   struct culm_error *error) {
    const struct culm_safetensors_entry *entry =
        initial->file ? find(initial->file, param->name) : NULL;
    if (!entry && initial->onnx) {
        enum culm_status status = culm_onnx_weights_read(initial->onnx, param->name, param->rank,
                                                         param->shape, data, error);
        if (status != CULM_ERR_NOT_FOUND) {
            return status;
        }
    }
    if (!entry) {
        culm_model_init_param(param, initial->seed, data);
        return CULM_OK;
    }
    return culm_safetensors_read(initial->file, entry->name, param->rank, param->shape, data,
                                 error);
}

/* What is told of a file that does not have all; "" of one that does. */
static void tell(const struct culm_initial *initial, int32_t found, int32_t all,
                 const char *missing, char ret_note[CULM_INITIAL_NOTE_SIZE]) {
    ret_note[0] = '\0';
    if (found < all) {
        snprintf(ret_note, CULM_INITIAL_NOTE_SIZE,
                 "model.init has %d of %d parameters; those that it lacks, the first is '%s', "
                 "start from %s",
                 found, all, missing, initial->onnx ? "model.file" : "the seed");
    }
}

enum culm_status culm_initial_check(const struct culm_initial *initial,
                                    const struct culm_graph *graph,
                                    char ret_note[CULM_INITIAL_NOTE_SIZE],
                                    struct culm_error *error) {
    int32_t found = 0;
    const char *missing = "";
    for (int32_t p = 0; p < graph->param_count && initial->file; p++) {
        const struct culm_param *param = &graph->param[p];
        const struct culm_safetensors_entry *entry = find(initial->file, param->name);
        if (!entry) {
            missing = missing[0] ? missing : param->name;
            continue;
        }
        char have[CULM_SHAPE_TEXT_MAX], want[CULM_SHAPE_TEXT_MAX];
        culm_shape_text(entry->rank, entry->shape, have);
        culm_shape_text(param->written.rank, param->written.dim, want);
        if (!culm_safetensors_fits(entry, param->written.rank, param->written.dim)) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "model.init: '%s' has '%s' as %s %s, the model needs F32 %s; "
                                  "leave it out of the file, or change the model",
                                  initial->path, entry->name, entry->dtype, have, want);
        }
        found++;
    }
    if (initial->file && found == 0) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "model.init: '%s' has no parameter of this model (the first is "
                              "'%s'); is it of another architecture?",
                              initial->path, graph->param[0].name);
    }
    tell(initial, initial->file ? found : graph->param_count, graph->param_count, missing,
         ret_note);
    return CULM_OK;
}
