/* Values, names and attributes, for the reader and the passes. See graph.h. */
#include "onnx/graph.h"

#include "base/grow.h"
#include "onnx/read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const struct {
    const char *name;
    size_t bytes;
} types[] = {
    [CULM_ONNX_UNKNOWN] = {"no type", 0},   [CULM_ONNX_FLOAT] = {"float32", 4},
    [CULM_ONNX_UINT8] = {"uint8", 1},       [CULM_ONNX_INT8] = {"int8", 1},
    [CULM_ONNX_UINT16] = {"uint16", 2},     [CULM_ONNX_INT16] = {"int16", 2},
    [CULM_ONNX_INT32] = {"int32", 4},       [CULM_ONNX_INT64] = {"int64", 8},
    [CULM_ONNX_STRING] = {"string", 0},     [CULM_ONNX_BOOL] = {"bool", 1},
    [CULM_ONNX_FLOAT16] = {"float16", 2},   [CULM_ONNX_DOUBLE] = {"float64", 8},
    [CULM_ONNX_UINT32] = {"uint32", 4},     [CULM_ONNX_UINT64] = {"uint64", 8},
    [CULM_ONNX_BFLOAT16] = {"bfloat16", 2},
};

const char *culm_onnx_type_name(int type) {
    bool known = type >= 0 && type < (int)(sizeof types / sizeof *types) && types[type].name;
    return known ? types[type].name : "an unknown type";
}

size_t culm_onnx_type_bytes(int type) {
    return type >= 0 && type < (int)(sizeof types / sizeof *types) ? types[type].bytes : 0;
}

static uint32_t hash(const char *text, size_t len) {
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < len; i++) {
        h = (h ^ (uint8_t)text[i]) * 16777619u;
    }
    return h ^ h >> 15;
}

/* The slot of a name in the hash table: its own, or the free one where it belongs. */
static uint32_t place(const struct culm_onnx_graph *graph, const char *text, size_t len) {
    uint32_t mask = graph->names_size - 1, at = hash(text, len) & mask;
    while (graph->names[at] >= 0) {
        const char *name = graph->value[graph->names[at]].name;
        if (strlen(name) == len && memcmp(name, text, len) == 0) {
            break;
        }
        at = (at + 1) & mask;
    }
    return at;
}

static bool names_grow(struct culm_onnx_graph *graph) {
    uint32_t size = graph->names_size ? 2 * graph->names_size : 1024;
    int32_t *names = malloc(size * sizeof *names);
    if (!names) {
        return false;
    }
    memset(names, -1, size * sizeof *names);
    free(graph->names);
    graph->names = names;
    graph->names_size = size;
    for (int32_t i = 0; i < graph->value_count; i++) {
        const char *name = graph->value[i].name;
        names[place(graph, name, strlen(name))] = i;
    }
    return true;
}

int32_t culm_onnx_find(const struct culm_onnx_graph *graph, const char *name) {
    return graph->names_size ? graph->names[place(graph, name, strlen(name))] : -1;
}

int32_t culm_onnx_value_new(struct culm_onnx_graph *graph, const char *name) {
    if (graph->value_count >= INT32_MAX / 4 ||
        !CULM_GROW(graph->value, graph->value_capacity, graph->value_count + 1)) {
        return -1;
    }
    if ((uint32_t)graph->value_count >= graph->names_size / 2 && !names_grow(graph)) {
        return -1;
    }
    graph->value[graph->value_count] =
        (struct culm_onnx_value){.name = name, .rank = -1, .node = -1, .same_as = -1};
    uint32_t at = place(graph, name, strlen(name));
    if (graph->names[at] < 0) { /* of equal names the first one is found */
        graph->names[at] = graph->value_count;
    }
    return graph->value_count++;
}

int32_t culm_onnx_at(const struct culm_onnx_graph *graph, int32_t value) {
    while (value >= 0 && graph->value[value].same_as >= 0) {
        value = graph->value[value].same_as;
    }
    return value;
}

int32_t culm_onnx_input(const struct culm_onnx_graph *graph, const struct culm_onnx_node *node,
                        int32_t i) {
    return i < node->inputs ? culm_onnx_at(graph, node->input[i]) : -1;
}

struct culm_onnx_node *culm_onnx_maker(const struct culm_onnx_graph *graph, int32_t value) {
    value = culm_onnx_at(graph, value);
    if (value < 0 || graph->value[value].node < 0 || graph->value[value].data) {
        return NULL;
    }
    struct culm_onnx_node *node = &graph->node[graph->value[value].node];
    return node->dead ? NULL : node;
}

const struct culm_onnx_attribute *culm_onnx_attribute_of(const struct culm_onnx_node *node,
                                                         const char *name) {
    for (int32_t i = 0; i < node->attributes; i++) {
        if (strcmp(node->attribute[i].name, name) == 0) {
            return &node->attribute[i];
        }
    }
    return NULL;
}

const struct culm_onnx_attribute *culm_onnx_list(const struct culm_onnx_node *node,
                                                 const char *name) {
    const struct culm_onnx_attribute *attribute = culm_onnx_attribute_of(node, name);
    return attribute && attribute->kind == CULM_ONNX_ATTRIBUTE_INTS ? attribute : NULL;
}

int64_t culm_onnx_int(const struct culm_onnx_node *node, const char *name, int64_t otherwise) {
    const struct culm_onnx_attribute *attribute = culm_onnx_attribute_of(node, name);
    return attribute && attribute->kind == CULM_ONNX_ATTRIBUTE_INT ? attribute->i : otherwise;
}

double culm_onnx_float(const struct culm_onnx_node *node, const char *name, double otherwise) {
    const struct culm_onnx_attribute *attribute = culm_onnx_attribute_of(node, name);
    return attribute && attribute->kind == CULM_ONNX_ATTRIBUTE_FLOAT ? attribute->f : otherwise;
}

const char *culm_onnx_string(const struct culm_onnx_node *node, const char *name,
                             const char *otherwise) {
    const struct culm_onnx_attribute *attribute = culm_onnx_attribute_of(node, name);
    return attribute && attribute->kind == CULM_ONNX_ATTRIBUTE_STRING ? attribute->s : otherwise;
}

enum culm_status culm_onnx_node_error(const struct culm_onnx_graph *graph,
                                      const struct culm_onnx_node *node, enum culm_status status,
                                      struct culm_error *error, const char *format, ...) {
    char text[320];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return culm_error_set(error, status, "onnx '%s': node '%s', operator '%s%s%s', opset %lld: %s",
                          graph->path, node->name, node->domain, node->domain[0] ? "." : "",
                          node->op, (long long)graph->opset, text);
}

const char *culm_onnx_shape_text(const struct culm_onnx_value *value, char *text, size_t size) {
    size_t at = 0;
    if (value->rank < 0) {
        snprintf(text, size, "[?..]");
        return text;
    }
    snprintf(text, size, "[]");
    for (int i = 0; i < value->rank && at < size; i++) {
        char number[24] = "?";
        if (value->dim[i] >= 0) {
            snprintf(number, sizeof number, "%lld", (long long)value->dim[i]);
        }
        at += (size_t)snprintf(text + at, size - at, "%c%s%s", i ? ',' : '[', number,
                               i + 1 == value->rank ? "]" : "");
    }
    return text;
}

void culm_onnx_graph_close(struct culm_onnx_graph *graph) {
    if (!graph) {
        return;
    }
    for (int32_t i = 0; i < CULM_ONNX_SIDE_FILES_MAX + 1; i++) {
        if (graph->map[i].mapped) {
            munmap((void *)(uintptr_t)graph->map[i].data, graph->map[i].len);
        }
    }
    for (int32_t i = 0; i < graph->value_count; i++) {
        if (graph->value[i].owned) {
            free((void *)(uintptr_t)graph->value[i].data);
        }
    }
    culm_onnx_arena_release(&graph->arena);
    free(graph->value);
    free(graph->node);
    free(graph->input);
    free(graph->output);
    free(graph->names);
    free(graph->path);
    free(graph);
}

static bool copy_ends(int32_t **items, size_t count, struct culm_onnx_arena *arena) {
    int32_t *copy = culm_onnx_alloc(arena, count, sizeof *copy);
    if (copy && count) {
        memcpy(copy, *items, count * sizeof *copy);
    }
    *items = copy;
    return copy != NULL;
}

/* Inputs and outputs of nodes change in place, so they are copied; attributes and tensors never
 * do. */
static bool copy_nodes(const struct culm_onnx_graph *graph, struct culm_onnx_graph *copy) {
    size_t count = (size_t)graph->node_count;
    copy->node = malloc((count + 1) * sizeof *copy->node);
    for (size_t i = 0; i < count && copy->node; i++) {
        struct culm_onnx_node *node = &copy->node[i];
        *node = graph->node[i];
        if (!copy_ends(&node->input, (size_t)node->inputs, &copy->arena) ||
            !copy_ends(&node->output, (size_t)node->outputs, &copy->arena)) {
            return false;
        }
    }
    copy->node_count = copy->node_capacity = graph->node_count;
    return copy->node != NULL;
}

static void *copy_array(const void *items, size_t count, size_t size) {
    void *copy = malloc((count + 1) * size);
    if (copy && count) {
        memcpy(copy, items, count * size);
    }
    return copy;
}

enum culm_status culm_onnx_graph_copy(const struct culm_onnx_graph *graph,
                                      struct culm_onnx_graph **ret_copy, struct culm_error *error) {
    struct culm_onnx_graph *copy = calloc(1, sizeof *copy);
    bool made = false;
    if (copy) {
        culm_onnx_arena_init(&copy->arena, graph->arena.bytes_max);
        copy->path = strdup(graph->path);
        copy->producer = graph->producer;
        copy->class_names = graph->class_names;
        copy->image_size = graph->image_size;
        copy->task = graph->task;
        copy->ir_version = graph->ir_version;
        copy->opset = graph->opset;
        copy->value = copy_array(graph->value, (size_t)graph->value_count, sizeof *copy->value);
        copy->input = copy_array(graph->input, (size_t)graph->input_count, sizeof *copy->input);
        copy->output = copy_array(graph->output, (size_t)graph->output_count, sizeof *copy->output);
        copy->names = copy_array(graph->names, graph->names_size, sizeof *copy->names);
        copy->input_count = graph->input_count;
        copy->output_count = graph->output_count;
        copy->names_size = copy->names ? graph->names_size : 0;
        made = copy_nodes(graph, copy) && copy->path && copy->value && copy->input &&
               copy->output && copy->names;
        copy->value_count = copy->value_capacity = made ? graph->value_count : 0;
    }
    if (!made) {
        culm_onnx_graph_close(copy);
        return culm_error_set(error, CULM_ERR_MEMORY, "onnx '%s': out of memory", graph->path);
    }
    *ret_copy = copy;
    return CULM_OK;
}

void culm_onnx_count_uses(struct culm_onnx_graph *graph) {
    for (int32_t i = 0; i < graph->value_count; i++) {
        graph->value[i].uses = 0;
    }
    for (int32_t i = 0; i < graph->output_count; i++) {
        graph->value[culm_onnx_at(graph, graph->output[i])].uses++;
    }
    for (int32_t i = graph->node_count - 1; i >= 0; i--) {
        struct culm_onnx_node *node = &graph->node[i];
        bool used = false;
        for (int32_t k = 0; k < node->outputs; k++) {
            used |= node->output[k] >= 0 && graph->value[node->output[k]].same_as < 0 &&
                    graph->value[node->output[k]].uses > 0 && !graph->value[node->output[k]].data;
        }
        node->dead |= !used;
        for (int32_t k = 0; k < node->inputs && !node->dead; k++) {
            int32_t input = culm_onnx_input(graph, node, k);
            if (input >= 0) {
                graph->value[input].uses++;
            }
        }
    }
}
