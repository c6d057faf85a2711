/*
 * Reading ONNX: nodes, attributes, tensors. See read.h.
 *
 * The numbers of a tensor are raw bytes, packed fields or single fields. Raw bytes and packed
 * numbers of fixed size are borrowed; the others (varints) are decoded into the arena. In any case
 * there must be exactly as many as the shape says.
 */
#include "onnx/read.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { NODE_INPUT = 1, NODE_OUTPUT, NODE_NAME, NODE_OP, NODE_ATTRIBUTE, NODE_DOMAIN = 7 };
enum {
    TENSOR_DIMS = 1,
    TENSOR_TYPE = 2,
    TENSOR_SEGMENT = 3,
    TENSOR_FLOAT = 4,
    TENSOR_INT32 = 5,
    TENSOR_STRING = 6,
    TENSOR_INT64 = 7,
    TENSOR_NAME = 8,
    TENSOR_RAW = 9,
    TENSOR_DOUBLE = 10,
    TENSOR_UINT64 = 11,
    TENSOR_EXTERNAL = 13,
    TENSOR_LOCATION = 14
};
enum {
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_F = 2,
    ATTRIBUTE_I = 3,
    ATTRIBUTE_S = 4,
    ATTRIBUTE_T = 5,
    ATTRIBUTE_G = 6,
    ATTRIBUTE_FLOATS = 7,
    ATTRIBUTE_INTS = 8,
    ATTRIBUTE_TENSORS = 9,
    ATTRIBUTE_STRINGS = 10,
    ATTRIBUTE_GRAPHS = 11,
    ATTRIBUTE_KIND = 20
};

/* More inputs, outputs or attributes than any sensible node has. */
#define NODE_PARTS_MAX (1u << 20)

static const struct culm_onnx_form node_form = {"a node",
                                                {[NODE_INPUT] = CULM_ONNX_BYTES,
                                                 [NODE_OUTPUT] = CULM_ONNX_BYTES,
                                                 [NODE_NAME] = CULM_ONNX_BYTES,
                                                 [NODE_OP] = CULM_ONNX_BYTES,
                                                 [NODE_ATTRIBUTE] = CULM_ONNX_BYTES,
                                                 [NODE_DOMAIN] = CULM_ONNX_BYTES}};
static const struct culm_onnx_form attribute_form = {
    "an attribute",
    {[ATTRIBUTE_NAME] = CULM_ONNX_BYTES,
     [ATTRIBUTE_F] = CULM_ONNX_FIXED32,
     [ATTRIBUTE_I] = CULM_ONNX_VARINT,
     [ATTRIBUTE_S] = CULM_ONNX_BYTES,
     [ATTRIBUTE_T] = CULM_ONNX_BYTES,
     [ATTRIBUTE_G] = CULM_ONNX_BYTES,
     [ATTRIBUTE_FLOATS] = CULM_ONNX_FIXED32 | CULM_ONNX_BYTES,
     [ATTRIBUTE_INTS] = CULM_ONNX_VARINT | CULM_ONNX_BYTES,
     [ATTRIBUTE_TENSORS] = CULM_ONNX_BYTES,
     [ATTRIBUTE_STRINGS] = CULM_ONNX_BYTES,
     [ATTRIBUTE_GRAPHS] = CULM_ONNX_BYTES,
     [ATTRIBUTE_KIND] = CULM_ONNX_VARINT}};
static const struct culm_onnx_form tensor_form = {
    "a tensor",
    {[TENSOR_DIMS] = CULM_ONNX_VARINT | CULM_ONNX_BYTES,
     [TENSOR_TYPE] = CULM_ONNX_VARINT,
     [TENSOR_SEGMENT] = CULM_ONNX_BYTES,
     [TENSOR_FLOAT] = CULM_ONNX_FIXED32 | CULM_ONNX_BYTES,
     [TENSOR_INT32] = CULM_ONNX_VARINT | CULM_ONNX_BYTES,
     [TENSOR_STRING] = CULM_ONNX_BYTES,
     [TENSOR_INT64] = CULM_ONNX_VARINT | CULM_ONNX_BYTES,
     [TENSOR_NAME] = CULM_ONNX_BYTES,
     [TENSOR_RAW] = CULM_ONNX_BYTES,
     [TENSOR_DOUBLE] = CULM_ONNX_FIXED64 | CULM_ONNX_BYTES,
     [TENSOR_UINT64] = CULM_ONNX_VARINT | CULM_ONNX_BYTES,
     [TENSOR_EXTERNAL] = CULM_ONNX_BYTES,
     [TENSOR_LOCATION] = CULM_ONNX_VARINT}};
static const struct culm_onnx_form entry_form = {"an entry of external data",
                                                 {[1] = CULM_ONNX_BYTES, [2] = CULM_ONNX_BYTES}};

/* How the numbers of a tensor are stored in its message. */
struct numbers {
    struct culm_wire_field raw, external[8];
    bool outside;
    int externals;
    uint32_t field;  /* number of the typed field; 0: none */
    uint64_t single; /* single numbers in it */
    uint64_t runs;   /* packed runs in it */
    struct culm_wire_field run;
};

static enum culm_status bad_tensor(const struct culm_onnx_graph *graph, const uint8_t *at,
                                   const struct culm_onnx_tensor *tensor, struct culm_error *error,
                                   const char *what) {
    return culm_onnx_bad(graph, at, error, "tensor '%s' %s", tensor->name, what);
}

static enum culm_status add_dims(struct culm_onnx_graph *graph, struct culm_onnx_tensor *tensor,
                                 const struct culm_wire_field *field, const uint8_t *at,
                                 struct culm_error *error) {
    struct culm_wire run = culm_wire_inside(field);
    bool packed = field->kind == CULM_WIRE_BYTES;
    while (!packed || run.at < run.end) {
        int64_t dim = (int64_t)(packed ? culm_wire_varint(&run) : field->value);
        if (run.failed || dim < 0 || tensor->rank == CULM_ONNX_RANK_MAX ||
            __builtin_mul_overflow(tensor->elements, dim ? dim : 1, &tensor->elements) ||
            tensor->elements > (int64_t)1 << 48) {
            return bad_tensor(graph, packed ? field->data : at, tensor, error,
                              "has an impossible shape");
        }
        tensor->dim[tensor->rank++] = dim;
        if (!packed) {
            break;
        }
    }
    return CULM_OK;
}

/* Key and value of external_data: location, offset, length. */
static enum culm_status outside(struct culm_onnx_graph *graph, struct culm_onnx_tensor *tensor,
                                const struct numbers *numbers, uint64_t bytes,
                                struct culm_error *error) {
    const char *location = "";
    uint64_t offset = 0, length = bytes;
    enum culm_status status = CULM_OK;
    for (int i = 0; i < numbers->externals && status == CULM_OK; i++) {
        struct culm_wire wire = culm_wire_inside(&numbers->external[i]);
        struct culm_wire_field field;
        const char *key = "", *value = "";
        while (culm_onnx_next(graph, &entry_form, &wire, &field, &status, error)) {
            if (field.number == 1 || field.number == 2) {
                status =
                    culm_onnx_read_text(graph, &field, field.number == 1 ? &key : &value, error);
            }
        }
        if (status != CULM_OK) {
            return status;
        }
        if (strcmp(key, "location") == 0) {
            location = value;
        } else if (strcmp(key, "offset") == 0) {
            offset = strtoull(value, NULL, 10);
        } else if (strcmp(key, "length") == 0) {
            length = strtoull(value, NULL, 10);
        }
    }
    if (length != bytes) {
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "onnx '%s': tensor '%s' has %llu bytes in '%s', its shape needs %llu",
                              graph->path, tensor->name, (unsigned long long)length, location,
                              (unsigned long long)bytes);
    }
    return culm_onnx_side_file(graph, location, offset, bytes, tensor->name, &tensor->data, error);
}

static void store(uint8_t *to, int type, uint64_t value) {
    memcpy(to, &value, culm_onnx_type_bytes(type)); /* low bytes first */
}

/* Reads the typed field again, now that type, shape and layout are known. */
static enum culm_status decode(struct culm_onnx_graph *graph, struct culm_onnx_tensor *tensor,
                               const struct culm_wire_field *message, uint32_t number,
                               struct culm_error *error) {
    struct culm_wire wire = culm_wire_inside(message);
    struct culm_wire_field field;
    size_t size = culm_onnx_type_bytes(tensor->type);
    size_t fixed = number == TENSOR_FLOAT ? 4 : number == TENSOR_DOUBLE ? 8 : 0;
    int64_t count = 0;
    if ((uint64_t)tensor->elements > message->len) { /* each number takes at least one byte */
        return bad_tensor(graph, message->data, tensor, error, "has fewer numbers than its shape");
    }
    uint8_t *data = culm_onnx_alloc(&graph->arena, (uint64_t)tensor->elements, size);
    if (!data) {
        return culm_onnx_no_memory(graph, error);
    }
    while (culm_wire_next(&wire, &field)) {
        if (field.number != number) {
            continue;
        }
        struct culm_wire run = culm_wire_inside(&field);
        bool packed = field.kind == CULM_WIRE_BYTES;
        while (!packed || run.at < run.end) {
            uint64_t value = field.value;
            if (packed && fixed) {
                value = 0;
                if ((size_t)(run.end - run.at) < fixed) {
                    return bad_tensor(graph, run.at, tensor, error, "ends within a number");
                }
                memcpy(&value, run.at, fixed);
                run.at += fixed;
            } else if (packed) {
                value = culm_wire_varint(&run);
            }
            if (run.failed || count == tensor->elements) {
                return bad_tensor(graph, run.at, tensor, error,
                                  run.failed ? "ends within a number"
                                             : "has more numbers than its shape");
            }
            store(data + (size_t)count++ * size, tensor->type, value);
            if (!packed) {
                break;
            }
        }
    }
    if (count != tensor->elements) {
        return bad_tensor(graph, message->data, tensor, error, "has fewer numbers than its shape");
    }
    tensor->data = data;
    return CULM_OK;
}

/* The typed field for the numbers of a type. */
static uint32_t field_of(int type) {
    switch (type) {
    case CULM_ONNX_FLOAT: return TENSOR_FLOAT;
    case CULM_ONNX_DOUBLE: return TENSOR_DOUBLE;
    case CULM_ONNX_INT64: return TENSOR_INT64;
    case CULM_ONNX_UINT32:
    case CULM_ONNX_UINT64: return TENSOR_UINT64;
    default: return TENSOR_INT32;
    }
}

static enum culm_status place_numbers(struct culm_onnx_graph *graph,
                                      struct culm_onnx_tensor *tensor,
                                      const struct culm_wire_field *message,
                                      const struct numbers *numbers, struct culm_error *error) {
    size_t size = culm_onnx_type_bytes(tensor->type);
    for (int i = 0; i < tensor->rank; i++) {
        tensor->elements = tensor->dim[i] ? tensor->elements : 0;
    }
    if (size == 0) {
        return CULM_OK; /* strings or 8-bit types: refused where they are used */
    }
    if (__builtin_mul_overflow((uint64_t)tensor->elements, size, &tensor->bytes) ||
        tensor->bytes > INT64_MAX) {
        return bad_tensor(graph, message->data, tensor, error, "is too large");
    }
    if (tensor->elements == 0) {
        tensor->data = ""; /* any value that is not an attribute's */
        return CULM_OK;
    }
    if (numbers->outside) {
        return outside(graph, tensor, numbers, tensor->bytes, error);
    }
    uint32_t wanted = field_of(tensor->type);
    if (numbers->raw.kind != CULM_WIRE_BYTES) {
        bool one_run = numbers->runs == 1 && numbers->single == 0;
        if (numbers->field != wanted) {
            return bad_tensor(graph, message->data, tensor, error, "has no numbers of its type");
        }
        if (one_run && (wanted == TENSOR_FLOAT || wanted == TENSOR_DOUBLE) &&
            numbers->run.len == tensor->bytes) {
            tensor->data = numbers->run.data;
            return CULM_OK;
        }
        return decode(graph, tensor, message, wanted, error);
    }
    if (numbers->raw.len != tensor->bytes) {
        return culm_onnx_bad(graph, message->data, error,
                             "tensor '%s' has %zu bytes, its shape needs %llu", tensor->name,
                             numbers->raw.len, (unsigned long long)tensor->bytes);
    }
    tensor->data = numbers->raw.data;
    return CULM_OK;
}

enum culm_status culm_onnx_read_tensor(struct culm_onnx_graph *graph,
                                       const struct culm_wire_field *message,
                                       struct culm_onnx_tensor *ret_tensor,
                                       struct culm_error *error) {
    struct culm_wire wire = culm_wire_inside(message);
    struct culm_wire_field field;
    struct numbers numbers = {0};
    struct culm_onnx_tensor tensor = {.name = "", .elements = 1};
    enum culm_status status = CULM_OK;
    while (culm_onnx_next(graph, &tensor_form, &wire, &field, &status, error)) { /* for messages */
        if (field.number == TENSOR_NAME) {
            status = culm_onnx_read_text(graph, &field, &tensor.name, error);
        }
    }
    wire = culm_wire_inside(message);
    while (culm_onnx_next(graph, &tensor_form, &wire, &field, &status, error)) {
        switch (field.number) {
        case TENSOR_DIMS: status = add_dims(graph, &tensor, &field, wire.at, error); break;
        case TENSOR_TYPE: tensor.type = field.value < 64 ? (int)field.value : 0; break;
        case TENSOR_RAW: numbers.raw = field; break;
        case TENSOR_SEGMENT:
            status = bad_tensor(graph, wire.at, &tensor, error, "is cut into segments");
            break;
        case TENSOR_LOCATION: numbers.outside = field.value == 1; break;
        case TENSOR_EXTERNAL:
            if (numbers.externals < 8) {
                numbers.external[numbers.externals++] = field;
            }
            break;
        case TENSOR_FLOAT:
        case TENSOR_INT32:
        case TENSOR_INT64:
        case TENSOR_DOUBLE:
        case TENSOR_UINT64:
            numbers.field = field.number;
            if (field.kind == CULM_WIRE_BYTES) {
                numbers.run = field;
                numbers.runs++;
            } else {
                numbers.single++;
            }
            break;
        default: break;
        }
    }
    if (status == CULM_OK) {
        status = place_numbers(graph, &tensor, message, &numbers, error);
    }
    if (status == CULM_OK) {
        *ret_tensor = tensor;
    }
    return status;
}

/* The numbers of a repeated field, of one kind. */
struct list {
    void *data; /* int64_t or float */
    uint64_t count, max;
    bool real;
};

static enum culm_status add_numbers(struct culm_onnx_graph *graph,
                                    const struct culm_wire_field *message,
                                    const struct culm_wire_field *field, struct list *list,
                                    struct culm_error *error) {
    struct culm_wire run = culm_wire_inside(field);
    bool packed = field->kind == CULM_WIRE_BYTES;
    if (!list->data) { /* a float takes four bytes of the message, an integer at least one */
        list->max = list->real ? message->len / 4 : message->len;
        list->data =
            culm_onnx_alloc(&graph->arena, list->max, list->real ? sizeof(float) : sizeof(int64_t));
    }
    if (!list->data) {
        return culm_onnx_no_memory(graph, error);
    }
    while (!packed || run.at < run.end) {
        uint64_t value = field->value;
        if (packed && list->real) {
            uint32_t bits = 0;
            run.failed = run.end - run.at < 4;
            memcpy(&bits, run.at, run.failed ? 0 : 4);
            value = bits;
            run.at += run.failed ? 0 : 4;
        } else if (packed) {
            value = culm_wire_varint(&run);
        }
        if (run.failed) {
            return culm_onnx_bad(graph, run.at, error, "an attribute ends within a number");
        }
        assert(list->count < list->max);
        if (list->real) {
            ((float *)list->data)[list->count++] = culm_wire_float(value);
        } else {
            ((int64_t *)list->data)[list->count++] = (int64_t)value;
        }
        if (!packed) {
            break;
        }
    }
    return list->count < INT32_MAX
               ? CULM_OK
               : culm_onnx_bad(graph, message->data, error, "an attribute is too long");
}

/* A printable copy: other characters become '?', so that two operators cannot look the same. */
static char *copy_string(struct culm_onnx_graph *graph, const struct culm_wire_field *field) {
    char *text = culm_onnx_copy_text(&graph->arena, field->data, field->len);
    for (size_t i = 0; text && i < field->len; i++) {
        text[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i];
    }
    return text;
}

/* An attribute's kind, by the field that its value is in; -1: that field is not a value. */
static int kind_of(uint32_t field) {
    switch (field) {
    case ATTRIBUTE_F: return CULM_ONNX_ATTRIBUTE_FLOAT;
    case ATTRIBUTE_I: return CULM_ONNX_ATTRIBUTE_INT;
    case ATTRIBUTE_S: return CULM_ONNX_ATTRIBUTE_STRING;
    case ATTRIBUTE_T: return CULM_ONNX_ATTRIBUTE_TENSOR;
    case ATTRIBUTE_G:
    case ATTRIBUTE_GRAPHS: return CULM_ONNX_ATTRIBUTE_GRAPH;
    case ATTRIBUTE_FLOATS: return CULM_ONNX_ATTRIBUTE_FLOATS;
    case ATTRIBUTE_INTS: return CULM_ONNX_ATTRIBUTE_INTS;
    case ATTRIBUTE_TENSORS:
    case ATTRIBUTE_STRINGS: return CULM_ONNX_ATTRIBUTE_OTHER;
    default: return -1;
    }
}

/* An attribute with a kind but no value: the empty list, the empty text or zero, which some writers
 * omit. */
static void stand_in(struct culm_onnx_attribute *attribute, int said) {
    switch (said) {
    case CULM_ONNX_ATTRIBUTE_STRING: attribute->s = ""; /* fall through */
    case CULM_ONNX_ATTRIBUTE_FLOAT:
    case CULM_ONNX_ATTRIBUTE_INT:
    case CULM_ONNX_ATTRIBUTE_FLOATS:
    case CULM_ONNX_ATTRIBUTE_INTS: attribute->kind = said; break;
    default: attribute->kind = CULM_ONNX_ATTRIBUTE_OTHER; break;
    }
}

static enum culm_status read_attribute(struct culm_onnx_graph *graph,
                                       const struct culm_wire_field *message,
                                       struct culm_onnx_attribute *ret_attribute,
                                       struct culm_error *error) {
    struct culm_wire wire = culm_wire_inside(message);
    struct culm_wire_field field;
    struct culm_onnx_attribute attribute = {.name = "", .kind = -1};
    struct culm_onnx_tensor *tensor;
    struct list list = {0};
    int said = CULM_ONNX_ATTRIBUTE_OTHER;
    enum culm_status status = CULM_OK;
    while (culm_onnx_next(graph, &attribute_form, &wire, &field, &status, error)) {
        int kind = kind_of(field.number);
        if (kind >= 0 && attribute.kind >= 0 && kind != attribute.kind) {
            return culm_onnx_bad(graph, message->data, error,
                                 "attribute '%s' has values of two kinds", attribute.name);
        }
        attribute.kind = kind >= 0 ? kind : attribute.kind;
        switch (field.number) {
        case ATTRIBUTE_NAME:
            status = culm_onnx_read_text(graph, &field, &attribute.name, error);
            break;
        case ATTRIBUTE_F: attribute.f = (double)culm_wire_float(field.value); break;
        case ATTRIBUTE_I: attribute.i = (int64_t)field.value; break;
        case ATTRIBUTE_S:
            attribute.s = copy_string(graph, &field);
            status = attribute.s ? CULM_OK : culm_onnx_no_memory(graph, error);
            break;
        case ATTRIBUTE_T:
            tensor = culm_onnx_alloc(&graph->arena, 1, sizeof *tensor);
            status = tensor ? culm_onnx_read_tensor(graph, &field, tensor, error)
                            : culm_onnx_no_memory(graph, error);
            attribute.t = tensor;
            break;
        case ATTRIBUTE_FLOATS:
        case ATTRIBUTE_INTS:
            list.real = field.number == ATTRIBUTE_FLOATS;
            status = add_numbers(graph, message, &field, &list, error);
            break;
        case ATTRIBUTE_KIND: said = field.value < 64 ? (int)field.value : 0; break;
        default: break;
        }
    }
    if (attribute.kind < 0) {
        stand_in(&attribute, said);
    }
    attribute.ints = list.real ? NULL : list.data;
    attribute.floats = list.real ? list.data : NULL;
    attribute.count = (int32_t)list.count;
    *ret_attribute = attribute;
    return status;
}

/* Allocates as many inputs, outputs and attributes as the message has. */
static enum culm_status make_room(struct culm_onnx_graph *graph,
                                  const struct culm_wire_field *message,
                                  struct culm_onnx_node *node, struct culm_error *error) {
    struct culm_wire wire = culm_wire_inside(message);
    struct culm_wire_field field;
    uint64_t inputs = 0, outputs = 0, attributes = 0;
    enum culm_status status = CULM_OK;
    while (culm_onnx_next(graph, &node_form, &wire, &field, &status, error)) {
        inputs += field.number == NODE_INPUT;
        outputs += field.number == NODE_OUTPUT;
        attributes += field.number == NODE_ATTRIBUTE;
    }
    if (status != CULM_OK) {
        return status;
    }
    if (inputs > NODE_PARTS_MAX || outputs > NODE_PARTS_MAX || attributes > NODE_PARTS_MAX) {
        return culm_onnx_bad(graph, message->data, error,
                             "a node has more than %u inputs, outputs or attributes",
                             NODE_PARTS_MAX);
    }
    node->input = culm_onnx_alloc(&graph->arena, inputs, sizeof *node->input);
    node->output = culm_onnx_alloc(&graph->arena, outputs, sizeof *node->output);
    node->attribute = culm_onnx_alloc(&graph->arena, attributes, sizeof *node->attribute);
    return node->input && node->output && node->attribute ? CULM_OK
                                                          : culm_onnx_no_memory(graph, error);
}

enum culm_status culm_onnx_read_node(struct culm_onnx_graph *graph,
                                     const struct culm_wire_field *message,
                                     struct culm_onnx_node *ret_node, struct culm_error *error) {
    struct culm_wire wire = culm_wire_inside(message);
    struct culm_wire_field field;
    struct culm_onnx_node node = {.op = "", .name = "", .domain = ""};
    enum culm_status status = make_room(graph, message, &node, error);
    if (status != CULM_OK) {
        return status;
    }
    while (culm_onnx_next(graph, &node_form, &wire, &field, &status, error)) {
        switch (field.number) {
        case NODE_INPUT:
            status = culm_onnx_read_name(graph, &field, &node.input[node.inputs++], error);
            break;
        case NODE_OUTPUT:
            status = culm_onnx_read_name(graph, &field, &node.output[node.outputs++], error);
            break;
        case NODE_NAME: status = culm_onnx_read_text(graph, &field, &node.name, error); break;
        case NODE_OP: status = culm_onnx_read_text(graph, &field, &node.op, error); break;
        case NODE_DOMAIN: status = culm_onnx_read_text(graph, &field, &node.domain, error); break;
        case NODE_ATTRIBUTE:
            status = read_attribute(graph, &field, &node.attribute[node.attributes++], error);
            break;
        default: break;
        }
    }
    if (status == CULM_OK && (!node.op[0] || node.outputs == 0)) {
        status = culm_onnx_bad(graph, message->data, error, "node '%s' has no %s", node.name,
                               node.op[0] ? "output" : "operator");
    }
    if (strcmp(node.domain, "ai.onnx") == 0) {
        node.domain = "";
    }
    if (!node.name[0] && node.outputs && node.output[0] >= 0) {
        node.name = graph->value[node.output[0]].name;
    }
    if (status == CULM_OK && strcmp(node.domain, CULM_ONNX_OURS) == 0) {
        /* nodes of ours are trusted to have their inputs, and weights of the right shape */
        status = culm_onnx_node_error(graph, &node, CULM_ERR_FORMAT, error,
                                      "this domain is of import itself and not for files");
    }
    *ret_node = node;
    return status;
}
