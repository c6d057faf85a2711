/* Writing ONNX: nodes, constants, and values in the forms that nodes need. See export.h. */
#include "onnx/export.h"

#include <stdio.h>
#include <stdlib.h>

#define CULM_ONNX_NODES_BYTES_MAX ((size_t)1 << 30)
void culm_onnx_cannot(struct culm_onnx_exporter *e, const struct culm_node_desc *node,
                      const char *what) {
    if (e->status == CULM_OK) {
        e->status =
            culm_error_set(e->error, CULM_ERR_UNSUPPORTED, "onnx '%s': operator '%s' (%d): %s",
                           e->path, node->op->name, node->operator_id, what);
    }
}

void culm_onnx_export_no_memory(struct culm_onnx_exporter *e) {
    if (e->status == CULM_OK) {
        e->status = culm_error_set(e->error, CULM_ERR_MEMORY, "onnx '%s': out of memory", e->path);
    }
}

static const char *new_name(struct culm_onnx_exporter *e, const char *prefix, int32_t number) {
    char text[48];
    int length = snprintf(text, sizeof text, "%s%d", prefix, number);
    const char *name = culm_onnx_copy_text(&e->arena, text, (size_t)length);
    if (!name) {
        culm_onnx_export_no_memory(e);
    }
    return name ? name : "";
}

const char *culm_onnx_next_name(struct culm_onnx_exporter *e, const char *name, int32_t by) {
    return new_name(e, "t", name[0] ? atoi(name + 1) + by : 0);
}

static void put_attribute(struct culm_onnx_exporter *e, const struct culm_onnx_given *given) {
    struct culm_buf one;
    culm_buf_init(&one, 1 << 20);
    culm_wire_put_text(&one, 1, given->name);
    int kind = given->count  ? CULM_ONNX_ATTRIBUTE_INTS
               : given->text ? CULM_ONNX_ATTRIBUTE_STRING
               : given->real ? CULM_ONNX_ATTRIBUTE_FLOAT
                             : CULM_ONNX_ATTRIBUTE_INT;
    if (kind == CULM_ONNX_ATTRIBUTE_FLOAT) {
        culm_wire_put_float(&one, 2, (float)given->f);
    } else if (kind == CULM_ONNX_ATTRIBUTE_INT) {
        culm_wire_put_varint(&one, 3, (uint64_t)given->i);
    } else if (kind == CULM_ONNX_ATTRIBUTE_STRING) {
        culm_wire_put_text(&one, 4, given->text);
    }
    for (int32_t i = 0; i < given->count; i++) {
        culm_wire_put_varint(&one, 8, (uint64_t)given->ints[i]);
    }
    culm_wire_put_varint(&one, 20, (uint64_t)kind);
    culm_wire_put_bytes(&e->nodes, 5, one.data, one.len);
    e->nodes.failed |= one.failed;
    culm_buf_release(&one);
}

const char *culm_onnx_emit(struct culm_onnx_exporter *e, const char *op, const char *const *inputs,
                           int32_t count, const struct culm_onnx_given *given, int32_t given_count,
                           int32_t outputs) {
    struct culm_buf all = e->nodes; /* the message of the node first, in a buffer of its own */
    culm_buf_init(&e->nodes, 1 << 20);
    const char *first = new_name(e, "t", e->names);
    for (int32_t i = 0; i < count; i++) {
        culm_wire_put_text(&e->nodes, 1, inputs[i] ? inputs[i] : "");
    }
    for (int32_t i = 0; i < outputs; i++) {
        culm_wire_put_text(&e->nodes, 2, new_name(e, "t", e->names + i));
    }
    culm_wire_put_text(&e->nodes, 3, new_name(e, "n", e->names));
    culm_wire_put_text(&e->nodes, 4, op);
    for (int32_t i = 0; i < given_count; i++) {
        put_attribute(e, &given[i]);
    }
    culm_wire_put_bytes(&all, 1, e->nodes.data, e->nodes.len);
    all.failed |= e->nodes.failed;
    culm_buf_release(&e->nodes);
    e->nodes = all;
    e->names += outputs;
    if (all.failed) {
        culm_onnx_export_no_memory(e);
    }
    return first;
}

const char *culm_onnx_emit_1(struct culm_onnx_exporter *e, const char *op, const char *x) {
    return culm_onnx_emit(e, op, &x, 1, NULL, 0, 1);
}

const char *culm_onnx_emit_2(struct culm_onnx_exporter *e, const char *op, const char *x,
                             const char *y) {
    const char *const inputs[] = {x, y};
    return culm_onnx_emit(e, op, inputs, 2, NULL, 0, 1);
}

const char *culm_onnx_emit_3(struct culm_onnx_exporter *e, const char *op, const char *x,
                             const char *y, const char *z) {
    const char *const inputs[] = {x, y, z};
    return culm_onnx_emit(e, op, inputs, 3, NULL, 0, 1);
}

const char *culm_onnx_transpose(struct culm_onnx_exporter *e, const char *x, const int64_t *perm,
                                int32_t rank) {
    const struct culm_onnx_given given = CULM_ONNX_INTS("perm", perm, rank);
    return culm_onnx_emit(e, "Transpose", &x, 1, &given, 1, 1);
}

void culm_onnx_put_tensor_head(struct culm_buf *buf, const char *name, int type, int rank,
                               const int64_t *dim, uint64_t bytes) {
    for (int i = 0; i < rank; i++) {
        culm_wire_put_varint(buf, 1, (uint64_t)dim[i]);
    }
    culm_wire_put_varint(buf, 2, (uint64_t)type);
    culm_wire_put_text(buf, 8, name);
    culm_wire_put_head(buf, 9, bytes);
}

static const char *put_constant(struct culm_onnx_exporter *e, int type, int rank, int64_t count,
                                const void *data, size_t bytes) {
    struct culm_buf one;
    const char *name = new_name(e, "t", e->names++);
    culm_buf_init(&one, CULM_ONNX_NODES_BYTES_MAX);
    culm_onnx_put_tensor_head(&one, name, type, rank, &count, bytes);
    culm_buf_bytes(&one, data, bytes);
    culm_wire_put_bytes(&e->constants, 5, one.data, one.len);
    if (one.failed || e->constants.failed) {
        culm_onnx_export_no_memory(e);
    }
    culm_buf_release(&one);
    return name;
}

const char *culm_onnx_ints_constant(struct culm_onnx_exporter *e, const int64_t *ints,
                                    int64_t count) {
    return put_constant(e, CULM_ONNX_INT64, 1, count, ints, (size_t)count * sizeof *ints);
}

const char *culm_onnx_real_constant(struct culm_onnx_exporter *e, double number) {
    float f = (float)number;
    return put_constant(e, CULM_ONNX_FLOAT, 0, 0, &f, sizeof f);
}

const char *culm_onnx_reals_constant(struct culm_onnx_exporter *e, const float *reals,
                                     int64_t count) {
    return put_constant(e, CULM_ONNX_FLOAT, 1, count, reals, (size_t)count * sizeof *reals);
}

const char *culm_onnx_whole_constant(struct culm_onnx_exporter *e, int64_t number) {
    return put_constant(e, CULM_ONNX_INT64, 0, 0, &number, sizeof number);
}

const char *culm_onnx_true_constant(struct culm_onnx_exporter *e) {
    const uint8_t yes = 1;
    return put_constant(e, CULM_ONNX_BOOL, 0, 0, &yes, 1);
}

const struct culm_shape *culm_onnx_shape(const struct culm_onnx_exporter *e,
                                         const struct culm_node_desc *node, int32_t i) {
    return &e->graph->value[node->input[i]].shape;
}

static struct culm_onnx_forms *form_of(struct culm_onnx_exporter *e,
                                       const struct culm_node_desc *node, int32_t i) {
    int32_t value = node->input[i];
    if (value < 0) {
        culm_onnx_cannot(e, node, "an input is missing");
        return NULL;
    }
    const struct culm_value *v = &e->graph->value[value];
    if (v->kind == CULM_VALUE_PARAM) {
        e->param[v->param] = true;
    } else if (v->kind == CULM_VALUE_FIELD) {
        e->field[v->field] = true;
    }
    if (!e->form[value].plain && !e->form[value].image) {
        culm_onnx_cannot(e, node, "an input is not in the file");
        return NULL;
    }
    return &e->form[value];
}

const char *culm_onnx_in(struct culm_onnx_exporter *e, const struct culm_node_desc *node,
                         int32_t i) {
    static const int64_t perm[4] = {0, 2, 3, 1};
    struct culm_onnx_forms *form = form_of(e, node, i);
    if (form && !form->plain) {
        form->plain = culm_onnx_transpose(e, form->image, perm, 4);
    }
    return form ? form->plain : "";
}

const char *culm_onnx_in_image(struct culm_onnx_exporter *e, const struct culm_node_desc *node,
                               int32_t i) {
    static const int64_t perm[4] = {0, 3, 1, 2};
    struct culm_onnx_forms *form = form_of(e, node, i);
    if (form && !form->image) {
        form->image = culm_onnx_transpose(e, form->plain, perm, 4);
    }
    return form ? form->image : "";
}

const char *culm_onnx_in_either(struct culm_onnx_exporter *e, const struct culm_node_desc *node,
                                int32_t i, bool *ret_image) {
    struct culm_onnx_forms *form = form_of(e, node, i);
    *ret_image = form && form->image;
    return !form ? "" : form->image ? form->image : form->plain;
}

void culm_onnx_out(struct culm_onnx_exporter *e, const struct culm_node_desc *node, bool image,
                   const char *name) {
    struct culm_onnx_forms *form = &e->form[node->output[0]];
    *(image ? &form->image : &form->plain) = name;
}
