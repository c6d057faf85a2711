/*
 * Reading ONNX: nodes, attributes, tensors.
 *
 * A tensor's numbers are raw bytes, packed fields or single fields; raw and packed ones of fixed
 * size are borrowed, the rest (varints) is decoded into the arena. In either case there are exactly
 * as many as the shape says.
 */
#include "onnx/read.h"

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
    ATTRIBUTE_GRAPHS = 11
};

/* How the numbers of a tensor lie in its message. */
struct numbers {
    struct culm_wire_field raw, external[8];
    bool has_raw, outside;
    int externals;
    uint32_t field;  /* the number of the typed fields seen; 0: none */
    uint64_t single; /* how many of them stand alone */
    uint64_t runs;   /* and how many are packed runs */
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
            __builtin_mul_overflow(tensor->elements, dim ? dim : 1, &tensor->elements)) {
            return bad_tensor(graph, packed ? field->data : at, tensor, error,
                              "has no shape that can be");
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
        while (status == CULM_OK && culm_wire_next(&wire, &field)) {
            if (field.kind == CULM_WIRE_BYTES && (field.number == 1 || field.number == 2)) {
                status = culm_onnx_text(graph, &field, field.number == 1 ? &key : &value, error);
            }
        }
        if (status != CULM_OK || wire.failed) {
            return status != CULM_OK
                       ? status
                       : bad_tensor(graph, wire.at, tensor, error, "has damaged external data");
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
    memcpy(to, &value, culm_onnx_type_bytes(type)); /* the low bytes come first */
}

/* Typed fields: gone over again, now that type and shape are known. */
static enum culm_status decode(struct culm_onnx_graph *graph, struct culm_onnx_tensor *tensor,
                               const struct culm_wire_field *message, uint32_t number,
                               struct culm_error *error) {
    struct culm_wire wire = culm_wire_inside(message);
    struct culm_wire_field field;
    size_t size = culm_onnx_type_bytes(tensor->type);
    size_t fixed = number == TENSOR_FLOAT ? 4 : number == TENSOR_DOUBLE ? 8 : 0;
    int64_t count = 0;
    if ((uint64_t)tensor->elements > message->len) { /* each takes a byte at least */
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

/* The typed field in which numbers of a type stand. */
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
        return CULM_OK; /* a string or a type of eight bits: refused where it is used */
    }
    if (__builtin_mul_overflow((uint64_t)tensor->elements, size, &tensor->bytes) ||
        tensor->bytes > INT64_MAX) {
        return bad_tensor(graph, message->data, tensor, error, "is too large");
    }
    if (tensor->elements == 0) {
        tensor->data = ""; /* any place that is none */
        return CULM_OK;
    }
    if (numbers->outside) {
        return outside(graph, tensor, numbers, tensor->bytes, error);
    }
    uint32_t wanted = field_of(tensor->type);
    if (!numbers->has_raw) {
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
    while (status == CULM_OK && culm_wire_next(&wire, &field)) { /* first, for messages */
        if (field.number == TENSOR_NAME) {
            status = culm_onnx_text(graph, &field, &tensor.name, error);
        }
    }
    wire = culm_wire_inside(message);
    while (status == CULM_OK && culm_wire_next(&wire, &field)) {
        switch (field.number) {
        case TENSOR_DIMS: status = add_dims(graph, &tensor, &field, wire.at, error); break;
        case TENSOR_TYPE: tensor.type = field.value < 64 ? (int)field.value : 0; break;
        case TENSOR_RAW:
            numbers.raw = field;
            numbers.has_raw = field.kind == CULM_WIRE_BYTES;
            break;
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
    if (status == CULM_OK && wire.failed) {
        status = bad_tensor(graph, wire.at, &tensor, error, "is cut off or damaged");
    }
    if (status == CULM_OK) {
        status = place_numbers(graph, &tensor, message, &numbers, error);
    }
    if (status == CULM_OK) {
        *ret_tensor = tensor;
    }
    return status;
}

/* Appends numbers of a repeated field; the array was made for as many as can be. */
static enum culm_status add_numbers(struct culm_onnx_graph *graph,
                                    const struct culm_wire_field *field, bool real,
                                    struct culm_onnx_attribute *attribute, int64_t *ints,
                                    float *floats, struct culm_error *error) {
    struct culm_wire run = culm_wire_inside(field);
    bool packed = field->kind == CULM_WIRE_BYTES;
    while (!packed || run.at < run.end) {
        uint64_t value = field->value;
        if (packed && real) {
            uint32_t bits;
            if (run.end - run.at < 4) {
                return culm_onnx_bad(graph, run.at, error, "an attribute ends within a number");
            }
            memcpy(&bits, run.at, 4);
            value = bits;
            run.at += 4;
        } else if (packed) {
            value = culm_wire_varint(&run);
        }
        if (run.failed) {
            return culm_onnx_bad(graph, run.at, error, "an attribute ends within a number");
        }
        if (real) {
            floats[attribute->count++] = culm_wire_float(value);
        } else {
            ints[attribute->count++] = (int64_t)value;
        }
        if (!packed) {
            break;
        }
    }
    return CULM_OK;
}

static enum culm_status read_attribute(struct culm_onnx_graph *graph,
                                       const struct culm_wire_field *message,
                                       struct culm_onnx_attribute *ret_attribute,
                                       struct culm_error *error) {
    struct culm_wire wire = culm_wire_inside(message);
    struct culm_wire_field field;
    struct culm_onnx_attribute attribute = {.name = ""};
    int64_t *ints = NULL;
    float *floats = NULL;
    enum culm_status status = CULM_OK;
    while (status == CULM_OK && culm_wire_next(&wire, &field)) {
        struct culm_onnx_tensor *tensor = NULL;
        switch (field.number) {
        case ATTRIBUTE_NAME: status = culm_onnx_text(graph, &field, &attribute.name, error); break;
        case ATTRIBUTE_F:
            attribute.f = (double)culm_wire_float(field.value);
            attribute.kind = CULM_ONNX_ATTRIBUTE_FLOAT;
            break;
        case ATTRIBUTE_I:
            attribute.i = (int64_t)field.value;
            attribute.kind = CULM_ONNX_ATTRIBUTE_INT;
            break;
        case ATTRIBUTE_S:
            attribute.s = culm_onnx_copy_text(&graph->arena, field.data,
                                              field.kind == CULM_WIRE_BYTES ? field.len : 0);
            attribute.kind = CULM_ONNX_ATTRIBUTE_STRING;
            status = attribute.s ? CULM_OK : culm_onnx_no_memory(graph, error);
            break;
        case ATTRIBUTE_T:
            tensor = culm_onnx_alloc(&graph->arena, 1, sizeof *tensor);
            status = tensor ? culm_onnx_read_tensor(graph, &field, tensor, error)
                            : culm_onnx_no_memory(graph, error);
            attribute.t = tensor;
            attribute.kind = CULM_ONNX_ATTRIBUTE_TENSOR;
            break;
        case ATTRIBUTE_G:
        case ATTRIBUTE_GRAPHS: attribute.kind = CULM_ONNX_ATTRIBUTE_GRAPH; break;
        case ATTRIBUTE_FLOATS:
        case ATTRIBUTE_INTS: /* each takes a byte of the message at least */
            if (!ints) {
                ints = culm_onnx_alloc(&graph->arena, message->len, sizeof *ints);
                floats = culm_onnx_alloc(&graph->arena, message->len / 4 + 1, sizeof *floats);
                attribute.ints = ints;
                attribute.floats = floats;
                attribute.kind = field.number == ATTRIBUTE_INTS ? CULM_ONNX_ATTRIBUTE_INTS
                                                                : CULM_ONNX_ATTRIBUTE_FLOATS;
            }
            if (!ints || !floats) {
                status = culm_onnx_no_memory(graph, error);
            } else if ((field.number == ATTRIBUTE_INTS) ==
                       (attribute.kind == CULM_ONNX_ATTRIBUTE_INTS)) {
                status = add_numbers(graph, &field, field.number == ATTRIBUTE_FLOATS, &attribute,
                                     ints, floats, error);
            }
            break;
        case 20: /* the kind in words; the one way to tell an empty list */
            if (!attribute.kind && (field.value == CULM_ONNX_ATTRIBUTE_INTS ||
                                    field.value == CULM_ONNX_ATTRIBUTE_FLOATS)) {
                attribute.kind = (int)field.value;
            } else if (field.value == CULM_ONNX_ATTRIBUTE_STRING && !attribute.s) {
                attribute.s = "";
                attribute.kind = CULM_ONNX_ATTRIBUTE_STRING;
            }
            break;
        default: break;
        }
    }
    if (status == CULM_OK && wire.failed) {
        status = culm_onnx_bad(graph, wire.at, error, "an attribute is cut off or damaged");
    }
    *ret_attribute = attribute;
    return status;
}

enum culm_status culm_onnx_read_node(struct culm_onnx_graph *graph,
                                     const struct culm_wire_field *message,
                                     struct culm_onnx_node *ret_node, struct culm_error *error) {
    struct culm_wire wire = culm_wire_inside(message);
    struct culm_wire_field field;
    struct culm_onnx_node node = {.op = "", .name = "", .domain = ""};
    int32_t inputs = 0, outputs = 0, attributes = 0;
    while (culm_wire_next(&wire, &field)) {
        inputs += field.number == NODE_INPUT;
        outputs += field.number == NODE_OUTPUT;
        attributes += field.number == NODE_ATTRIBUTE;
    }
    if (wire.failed) {
        return culm_onnx_bad(graph, wire.at, error, "a node is cut off or damaged");
    }
    node.input = culm_onnx_alloc(&graph->arena, (uint64_t)inputs, sizeof *node.input);
    node.output = culm_onnx_alloc(&graph->arena, (uint64_t)outputs, sizeof *node.output);
    node.attribute = culm_onnx_alloc(&graph->arena, (uint64_t)attributes, sizeof *node.attribute);
    if (!node.input || !node.output || !node.attribute) {
        return culm_onnx_no_memory(graph, error);
    }
    enum culm_status status = CULM_OK;
    wire = culm_wire_inside(message);
    while (status == CULM_OK && culm_wire_next(&wire, &field)) {
        if (field.kind != CULM_WIRE_BYTES) {
            continue;
        }
        switch (field.number) {
        case NODE_INPUT:
            status = culm_onnx_name(graph, &field, &node.input[node.inputs++], error);
            break;
        case NODE_OUTPUT:
            status = culm_onnx_name(graph, &field, &node.output[node.outputs++], error);
            break;
        case NODE_NAME: status = culm_onnx_text(graph, &field, &node.name, error); break;
        case NODE_OP: status = culm_onnx_text(graph, &field, &node.op, error); break;
        case NODE_DOMAIN: status = culm_onnx_text(graph, &field, &node.domain, error); break;
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
    *ret_node = node;
    return status;
}
