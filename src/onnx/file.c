/*
 * Reading ONNX: the model and its graph. See read.h.
 *
 * The fields of a message can come in any order, so the graph is gone over three times: for inputs
 * and initializers, for nodes, and for outputs.
 */
#include "onnx/read.h"

#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

enum {
    MODEL_IR_VERSION = 1,
    MODEL_PRODUCER = 2,
    MODEL_GRAPH = 7,
    MODEL_OPSET = 8,
    MODEL_META = 14
};
enum {
    GRAPH_NODE = 1,
    GRAPH_INITIALIZER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    GRAPH_SPARSE = 15
};

static const struct culm_onnx_form model_form = {"the model",
                                                 {[MODEL_IR_VERSION] = CULM_ONNX_VARINT,
                                                  [MODEL_PRODUCER] = CULM_ONNX_BYTES,
                                                  [MODEL_GRAPH] = CULM_ONNX_BYTES,
                                                  [MODEL_OPSET] = CULM_ONNX_BYTES,
                                                  [MODEL_META] = CULM_ONNX_BYTES}};
static const struct culm_onnx_form meta_form = {"the metadata",
                                                {[1] = CULM_ONNX_BYTES, [2] = CULM_ONNX_BYTES}};
static const struct culm_onnx_form opset_form = {"the operator set",
                                                 {[1] = CULM_ONNX_BYTES, [2] = CULM_ONNX_VARINT}};
static const struct culm_onnx_form graph_form = {"the graph",
                                                 {[GRAPH_NODE] = CULM_ONNX_BYTES,
                                                  [GRAPH_INITIALIZER] = CULM_ONNX_BYTES,
                                                  [GRAPH_INPUT] = CULM_ONNX_BYTES,
                                                  [GRAPH_OUTPUT] = CULM_ONNX_BYTES,
                                                  [GRAPH_SPARSE] = CULM_ONNX_BYTES}};
static const struct culm_onnx_form end_form = {"an input or output",
                                               {[1] = CULM_ONNX_BYTES, [2] = CULM_ONNX_BYTES}};
/* TypeProto {1: tensor {1: element type, 2: shape {1: dimension {1: value, 2: name}}}} */
static const struct culm_onnx_form type_form[] = {
    {"a type", {[1] = CULM_ONNX_BYTES}},
    {"a type", {[1] = CULM_ONNX_VARINT, [2] = CULM_ONNX_BYTES}},
    {"a shape", {[1] = CULM_ONNX_BYTES}},
    {"a dimension", {[1] = CULM_ONNX_VARINT, [2] = CULM_ONNX_BYTES}}};

#define ARENA_BYTES_MIN ((uint64_t)16 << 20)

static enum culm_status read_opset(struct culm_onnx_graph *graph,
                                   const struct culm_wire_field *message,
                                   struct culm_error *error) {
    struct culm_wire wire = culm_wire_inside(message);
    struct culm_wire_field field;
    enum culm_status status = CULM_OK;
    bool own = true;
    uint64_t version = 0;
    while (culm_onnx_next(graph, &opset_form, &wire, &field, &status, error)) {
        if (field.number == 1) {
            own = field.len == 0 || (field.len == 7 && memcmp(field.data, "ai.onnx", 7) == 0);
        } else if (field.number == 2) {
            version = field.value;
        }
    }
    if (status != CULM_OK) {
        return status;
    }
    if (own && version > 1000) {
        return culm_onnx_bad(graph, wire.at, error, "opset %llu does not exist",
                             (unsigned long long)version);
    }
    if (own) {
        graph->opset = (int64_t)version;
    }
    return CULM_OK;
}

static enum culm_status read_dim(struct culm_onnx_graph *graph,
                                 const struct culm_wire_field *message, int32_t value,
                                 struct culm_error *error) {
    struct culm_wire wire = culm_wire_inside(message);
    struct culm_wire_field field;
    int rank = graph->value[value].rank;
    int64_t dim = -1;
    const char *name = NULL;
    enum culm_status status = CULM_OK;
    if (rank == CULM_ONNX_RANK_MAX) {
        return culm_onnx_bad(graph, wire.at, error, "'%s' has more than %d dimensions",
                             graph->value[value].name, CULM_ONNX_RANK_MAX);
    }
    while (culm_onnx_next(graph, &type_form[3], &wire, &field, &status, error)) {
        if (field.number == 1) {
            dim = (int64_t)field.value;
            if (dim < -1) { /* -1: it is free, as some write it */
                return culm_onnx_bad(graph, wire.at, error, "'%s' has a negative dimension",
                                     graph->value[value].name);
            }
        } else if (field.number == 2) {
            status = culm_onnx_read_text(graph, &field, &name, error);
        }
    }
    struct culm_onnx_value *v = &graph->value[value];
    v->dim[rank] = dim > 0 ? dim : -1; /* old exporters write 0 for a free dimension */
    v->dim_name[rank] = dim > 0 ? NULL : name ? name : "";
    v->rank = rank + 1;
    return status;
}

static enum culm_status read_type(struct culm_onnx_graph *graph,
                                  const struct culm_wire_field *message, int level, int32_t value,
                                  struct culm_error *error) {
    struct culm_wire wire = culm_wire_inside(message);
    struct culm_wire_field field;
    enum culm_status status = CULM_OK;
    if (level == 2) {
        graph->value[value].rank = 0;
    }
    while (culm_onnx_next(graph, &type_form[level], &wire, &field, &status, error)) {
        if (level == 0 && field.number == 1) {
            status = read_type(graph, &field, 1, value, error);
        } else if (level == 1 && field.number == 1) {
            graph->value[value].type = field.value < 64 ? (int)field.value : CULM_ONNX_UNKNOWN;
        } else if (level == 1 && field.number == 2) {
            status = read_type(graph, &field, 2, value, error);
        } else if (level == 2 && field.number == 1) {
            status = read_dim(graph, &field, value, error);
        }
    }
    return status;
}

static bool push(int32_t **array, int32_t *count, int32_t value) {
    if (*count == 0 || ((*count & (*count - 1)) == 0 && *count >= 8)) {
        int32_t *grown = realloc(*array, (size_t)(*count ? 2 * *count : 8) * sizeof *grown);
        if (!grown) {
            return false;
        }
        *array = grown;
    }
    (*array)[(*count)++] = value;
    return true;
}

/* ValueInfo {1: name, 2: type} */
static enum culm_status read_end(struct culm_onnx_graph *graph,
                                 const struct culm_wire_field *message, bool input,
                                 struct culm_error *error) {
    struct culm_wire wire = culm_wire_inside(message);
    struct culm_wire_field field, type = {0};
    int32_t value = -1;
    enum culm_status status = CULM_OK;
    while (culm_onnx_next(graph, &end_form, &wire, &field, &status, error)) {
        if (field.number == 1) {
            status = culm_onnx_read_name(graph, &field, &value, error);
        } else if (field.number == 2) {
            type = field;
        }
    }
    if (status != CULM_OK) {
        return status;
    }
    if (value < 0) {
        return culm_onnx_bad(graph, message->data, error, "an %s has no name",
                             input ? "input" : "output");
    }
    struct culm_onnx_value *v = &graph->value[value];
    if (!input) {
        if (v->kind == CULM_ONNX_MADE && v->node < 0) {
            return culm_onnx_bad(graph, message->data, error, "nothing makes the output '%s'",
                                 v->name);
        }
        v->output = true;
        return push(&graph->output, &graph->output_count, value)
                   ? CULM_OK
                   : culm_onnx_no_memory(graph, error);
    }
    if (v->kind == CULM_ONNX_INITIALIZER) {
        return CULM_OK;
    }
    if (v->kind == CULM_ONNX_INPUT) {
        return culm_onnx_bad(graph, message->data, error, "input '%s' appears twice", v->name);
    }
    v->kind = CULM_ONNX_INPUT;
    if (!push(&graph->input, &graph->input_count, value)) {
        return culm_onnx_no_memory(graph, error);
    }
    return read_type(graph, &type, 0, value, error);
}

static enum culm_status read_initializer(struct culm_onnx_graph *graph,
                                         const struct culm_wire_field *message,
                                         struct culm_error *error) {
    struct culm_onnx_tensor *tensor = culm_onnx_alloc(&graph->arena, 1, sizeof *tensor);
    if (!tensor) {
        return culm_onnx_no_memory(graph, error);
    }
    enum culm_status status = culm_onnx_read_tensor(graph, message, tensor, error);
    if (status != CULM_OK) {
        return status;
    }
    if (!tensor->name[0]) {
        return culm_onnx_bad(graph, message->data, error, "an initializer has no name");
    }
    if (culm_onnx_find(graph, tensor->name) >= 0) {
        return culm_onnx_bad(graph, message->data, error, "initializer '%s' appears twice",
                             tensor->name);
    }
    int32_t value = culm_onnx_value_new(graph, tensor->name);
    if (value < 0) {
        return culm_onnx_no_memory(graph, error);
    }
    struct culm_onnx_value *v = &graph->value[value];
    v->kind = CULM_ONNX_INITIALIZER;
    v->type = tensor->type;
    v->rank = tensor->rank;
    memcpy(v->dim, tensor->dim, sizeof v->dim);
    v->data = tensor;
    return CULM_OK;
}

static enum culm_status add_node(struct culm_onnx_graph *graph,
                                 const struct culm_wire_field *message, struct culm_error *error) {
    if (!CULM_GROW(graph->node, graph->node_capacity, graph->node_count + 1)) {
        return culm_onnx_no_memory(graph, error);
    }
    struct culm_onnx_node *node = &graph->node[graph->node_count];
    enum culm_status status = culm_onnx_read_node(graph, message, node, error);
    if (status != CULM_OK) {
        return status;
    }
    for (int32_t i = 0; i < node->inputs; i++) {
        const struct culm_onnx_value *v = node->input[i] < 0 ? NULL : &graph->value[node->input[i]];
        if (v && v->kind == CULM_ONNX_MADE && v->node < 0) {
            return culm_onnx_bad(graph, message->data, error,
                                 "node '%s' uses '%s' before anything makes it", node->name,
                                 v->name);
        }
    }
    for (int32_t i = 0; i < node->outputs; i++) {
        struct culm_onnx_value *v = node->output[i] < 0 ? NULL : &graph->value[node->output[i]];
        if (v && (v->kind != CULM_ONNX_MADE || v->node >= 0)) {
            return culm_onnx_bad(graph, message->data, error, "node '%s' makes '%s' again",
                                 node->name, v->name);
        }
        if (v) {
            v->node = graph->node_count;
            v->slot = i;
        }
    }
    graph->node_count++;
    return CULM_OK;
}

static enum culm_status read_graph(struct culm_onnx_graph *graph,
                                   const struct culm_wire_field *message,
                                   struct culm_error *error) {
    enum culm_status status = CULM_OK;
    for (int pass = 0; pass < 4 && status == CULM_OK; pass++) {
        struct culm_wire wire = culm_wire_inside(message);
        struct culm_wire_field field;
        while (culm_onnx_next(graph, &graph_form, &wire, &field, &status, error)) {
            if (pass == 0 && field.number == GRAPH_INITIALIZER) {
                status = read_initializer(graph, &field, error);
            } else if (pass == 0 && field.number == GRAPH_SPARSE) {
                status = culm_onnx_bad(graph, field.data, error, "sparse tensors are not read");
            } else if (pass == 1 && field.number == GRAPH_INPUT) {
                status = read_end(graph, &field, true, error);
            } else if (pass == 2 && field.number == GRAPH_NODE) {
                status = add_node(graph, &field, error);
            } else if (pass == 3 && field.number == GRAPH_OUTPUT) {
                status = read_end(graph, &field, false, error);
            }
        }
    }
    return status;
}

/* Of the metadata, the names of classes; what is written there is looked at when it is asked for. */
static enum culm_status read_meta(struct culm_onnx_graph *graph,
                                  const struct culm_wire_field *message, struct culm_error *error) {
    struct culm_wire wire = culm_wire_inside(message);
    struct culm_wire_field field, key = {0}, value = {0};
    enum culm_status status = CULM_OK;
    while (culm_onnx_next(graph, &meta_form, &wire, &field, &status, error)) {
        *(field.number == 1 ? &key : &value) = field;
    }
    const struct {
        const char *key;
        const char **text;
    } known[] = {
        {"names", &graph->class_names}, {"imgsz", &graph->image_size}, {"task", &graph->task}};
    for (size_t i = 0; i < sizeof known / sizeof *known && status == CULM_OK; i++) {
        if (value.data && key.len == strlen(known[i].key) &&
            memcmp(key.data, known[i].key, key.len) == 0) {
            *known[i].text =
                culm_onnx_copy_text(&graph->arena, (const char *)value.data, value.len);
            status = *known[i].text ? CULM_OK : culm_onnx_no_memory(graph, error);
        }
    }
    return status;
}

static enum culm_status read_model(struct culm_onnx_graph *graph, struct culm_error *error) {
    struct culm_wire wire = culm_wire_of(graph->map[0].data, graph->map[0].len);
    struct culm_wire_field field, message = {0};
    enum culm_status status = CULM_OK;
    if (graph->map[0].len == 0) {
        return culm_error_set(error, CULM_ERR_FORMAT, "onnx '%s': the file is empty", graph->path);
    }
    graph->producer = "";
    while (culm_onnx_next(graph, &model_form, &wire, &field, &status, error)) {
        if (field.number == MODEL_IR_VERSION) {
            graph->ir_version = field.value < 1000 ? (int64_t)field.value : 0;
        } else if (field.number == MODEL_OPSET) {
            status = read_opset(graph, &field, error);
        } else if (field.number == MODEL_PRODUCER) {
            status = culm_onnx_read_text(graph, &field, &graph->producer, error);
        } else if (field.number == MODEL_META) {
            status = read_meta(graph, &field, error);
        } else if (field.number == MODEL_GRAPH) {
            message = field;
        }
    }
    if (graph->ir_version == 0) { /* even if something else is wrong */
        return culm_onnx_bad(graph, wire.at, error, "this is not an ONNX model");
    }
    if (status != CULM_OK) {
        return status;
    }
    if (!message.data || graph->opset == 0) {
        return culm_onnx_bad(graph, graph->map[0].data, error, "has no %s",
                             message.data ? "operator set" : "graph");
    }
    if (graph->opset < 7) {
        return culm_error_set(error, CULM_ERR_UNSUPPORTED,
                              "onnx '%s': opset %lld is too old; export with opset 13 or newer",
                              graph->path, (long long)graph->opset);
    }
    status = read_graph(graph, &message, error);
    if (status == CULM_OK && (graph->output_count == 0 || graph->input_count == 0)) {
        status = culm_onnx_bad(graph, message.data, error, "the graph has no %s",
                               graph->output_count ? "input" : "output");
    }
    return status;
}

static int64_t reads; /* atomic */

int64_t culm_onnx_graph_reads(void) { return __atomic_load_n(&reads, __ATOMIC_RELAXED); }

static enum culm_status read_all(struct culm_onnx_graph *graph, const char *name,
                                 struct culm_onnx_graph **ret_graph, struct culm_error *error) {
    uint64_t len = graph->map[0].len;
    __atomic_add_fetch(&reads, 1, __ATOMIC_RELAXED);
    culm_onnx_arena_init(&graph->arena, ARENA_BYTES_MIN + 64 * len);
    graph->maps = 1;
    graph->path = strdup(name);
    enum culm_status status =
        graph->path ? read_model(graph, error)
                    : culm_error_set(error, CULM_ERR_MEMORY, "onnx '%s': out of memory", name);
    if (status != CULM_OK) {
        culm_onnx_graph_close(graph);
        return status;
    }
    *ret_graph = graph;
    return CULM_OK;
}

enum culm_status culm_onnx_graph_parse(const void *data, size_t len, const char *name,
                                       struct culm_onnx_graph **ret_graph,
                                       struct culm_error *error) {
    struct culm_onnx_graph *graph = calloc(1, sizeof *graph);
    if (!graph) {
        return culm_error_set(error, CULM_ERR_MEMORY, "onnx '%s': out of memory", name);
    }
    graph->map[0] = (struct culm_onnx_map){.data = data, .len = len};
    return read_all(graph, name, ret_graph, error);
}

enum culm_status culm_onnx_graph_open(const char *path, struct culm_onnx_graph **ret_graph,
                                      struct culm_error *error) {
    return culm_onnx_graph_open_pinned(path, NULL, ret_graph, error);
}

enum culm_status culm_onnx_graph_open_pinned(const char *path, struct culm_pins *pins,
                                             struct culm_onnx_graph **ret_graph,
                                             struct culm_error *error) {
    struct culm_onnx_graph *graph = calloc(1, sizeof *graph);
    if (!graph) {
        return culm_error_set(error, CULM_ERR_MEMORY, "onnx '%s': out of memory", path);
    }
    graph->pins = pins;
    enum culm_status status = culm_onnx_load(path, pins, &graph->map[0], error);
    if (status != CULM_OK) {
        culm_onnx_graph_close(graph);
        return status;
    }
    return read_all(graph, path, ret_graph, error);
}
