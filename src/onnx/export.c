/*
 * Writing ONNX: the nodes first, into memory; then the file, streaming the weights.
 *
 * A message starts with its length, so everything but the weights is made in advance. A message can
 * have 2 GB at most; with more, the weights go into a file of their own beside it, PATH.data.
 */
#include "onnx/rows.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_BYTES_MAX ((uint64_t)2000000000)

/* The ValueInfo of an input or output; dimension 0 is free. */
static void put_end(struct culm_buf *buf, uint32_t number, const char *name, int type,
                    const struct culm_shape *shape) {
    struct culm_buf dims, tensor, kind, end;
    culm_buf_init(&dims, 1 << 16);
    culm_buf_init(&tensor, 1 << 16);
    culm_buf_init(&kind, 1 << 16);
    culm_buf_init(&end, 1 << 16);
    for (int i = 0; i < shape->rank; i++) {
        struct culm_buf dim;
        culm_buf_init(&dim, 64);
        if (i == 0) {
            culm_wire_put_text(&dim, 2, "batch");
        } else {
            culm_wire_put_varint(&dim, 1, (uint64_t)shape->dim[i]);
        }
        culm_wire_put_bytes(&dims, 1, dim.data, dim.len);
        culm_buf_release(&dim);
    }
    culm_wire_put_varint(&tensor, 1, (uint64_t)type);
    culm_wire_put_bytes(&tensor, 2, dims.data, dims.len);
    culm_wire_put_bytes(&kind, 1, tensor.data, tensor.len);
    culm_wire_put_text(&end, 1, name);
    culm_wire_put_bytes(&end, 2, kind.data, kind.len);
    culm_wire_put_bytes(buf, number, end.data, end.len);
    buf->failed |= dims.failed || tensor.failed || kind.failed || end.failed;
    culm_buf_release(&dims);
    culm_buf_release(&tensor);
    culm_buf_release(&kind);
    culm_buf_release(&end);
}

/* Names parameters and fields; images among the fields are [N,C,H,W]. */
static void name_inputs(struct culm_onnx_exporter *e) {
    for (int32_t i = 0; i < e->graph->param_count; i++) {
        e->form[e->graph->param[i].value].plain = e->graph->param[i].name;
    }
    for (int32_t i = 0; i < e->graph->field_count; i++) {
        const struct culm_field *field = &e->graph->field[i];
        bool image = field->dtype == CULM_F32 && field->shape.rank == 4;
        struct culm_onnx_forms *form = &e->form[field->value];
        *(image ? &form->image : &form->plain) = field->name;
    }
}

/* What the model ends in, behind the logits. */
static const char *put_end_of(struct culm_onnx_exporter *e, const char *x, enum culm_function end) {
    const struct culm_onnx_given last = CULM_ONNX_I("axis", -1);
    return end == CULM_FUNCTION_SOFTMAX       ? culm_onnx_emit(e, "Softmax", &x, 1, &last, 1, 1)
           : end == CULM_FUNCTION_LOG_SOFTMAX ? culm_onnx_emit(e, "LogSoftmax", &x, 1, &last, 1, 1)
           : end == CULM_FUNCTION_SIGMOID     ? culm_onnx_emit_1(e, "Sigmoid", x)
                                              : x;
}

/* Names an output, with an Identity: logits and logits_2, or what the model ends in makes of them;
 * maps keep their name, `own`. Classes of one row a sample, such as BERT's next sentence [B,1,2],
 * become [B,classes]. */
static void put_output(struct culm_onnx_exporter *e, struct culm_buf *ends,
                       const struct culm_node_desc *node, int32_t value, const char *own,
                       enum culm_function end, int32_t *count) {
    char name[32];
    struct culm_shape shape = e->graph->value[value].shape;
    bool map = own && shape.rank == 4;
    snprintf(name, sizeof name, *count ? "%s_%d" : "%s", culm_end_output(end), *count + 1);
    struct culm_node_desc asking = {.op = node->op, .operator_id = node->operator_id};
    asking.input[0] = value;
    const char *from = map ? culm_onnx_in_image(e, &asking, 0) : culm_onnx_in(e, &asking, 0);
    if (map) {
        snprintf(name, sizeof name, "%s", own);
        shape = (struct culm_shape){4, {shape.dim[0], shape.dim[3], shape.dim[1], shape.dim[2]}};
    }
    if (*count && shape.rank == 3 && shape.dim[1] == 1) {
        const int64_t middle = 1;
        from = culm_onnx_emit_2(e, "Squeeze", from, culm_onnx_ints_constant(e, &middle, 1));
        shape = (struct culm_shape){2, {shape.dim[0], shape.dim[2]}};
    }
    from = put_end_of(e, from, end);
    struct culm_buf one;
    culm_buf_init(&one, 4096);
    culm_wire_put_text(&one, 1, from);
    culm_wire_put_text(&one, 2, name);
    culm_wire_put_text(&one, 3, name);
    culm_wire_put_text(&one, 4, "Identity");
    culm_wire_put_bytes(&e->nodes, 1, one.data, one.len);
    culm_buf_release(&one);
    put_end(ends, 12, name, CULM_ONNX_FLOAT, &shape);
    ++*count;
}

static void write_node(struct culm_onnx_exporter *e, const struct culm_node_desc *node) {
    const struct culm_onnx_row *row = culm_onnx_row_of(node->op);
    if (row && row->write) {
        row->write(e, node);
    } else {
        culm_onnx_cannot(e, node, "culm does not export it");
    }
}

static void put_nodes(struct culm_onnx_exporter *e, struct culm_buf *ends) {
    int32_t outputs = 0;
    for (int32_t i = 0; i < e->graph->node_count && e->status == CULM_OK; i++) {
        const struct culm_node_desc *node = &e->graph->node[i];
        if (node->op->is_loss) {
            put_output(e, ends, node, node->input[0], NULL, node->attributes.function, &outputs);
        } else {
            write_node(e, node);
        }
    }
    for (int32_t i = 0; i < e->graph->output_count && e->status == CULM_OK; i++) {
        put_output(e, ends, &e->graph->node[e->graph->node_count - 1], e->graph->output[i].value,
                   e->graph->output[i].name, e->graph->output[i].end, &outputs);
    }
    if (e->status == CULM_OK && outputs == 0) {
        e->status = culm_error_set(e->error, CULM_ERR_UNSUPPORTED,
                                   "onnx '%s': the graph has neither loss nor output", e->path);
    }
    for (int32_t i = 0; i < e->graph->field_count; i++) {
        const struct culm_field *field = &e->graph->field[i];
        struct culm_shape shape = field->shape;
        bool real = field->dtype == CULM_F32;
        if (real && shape.rank == 4) {
            shape =
                (struct culm_shape){4, {shape.dim[0], shape.dim[3], shape.dim[1], shape.dim[2]}};
        }
        if (e->field[i]) {
            put_end(ends, 11, field->name, real ? CULM_ONNX_FLOAT : CULM_ONNX_INT64, &shape);
        }
    }
    if (ends->failed || e->nodes.failed || e->constants.failed) {
        culm_onnx_export_no_memory(e);
    }
}

/* The message of a weight up to its numbers; all of it if these are in another file. */
static void put_weight(struct culm_buf *buf, const struct culm_param *param, uint64_t bytes,
                       const char *location, uint64_t offset) {
    struct culm_buf one;
    culm_buf_init(&one, 1 << 16);
    if (!location) {
        culm_onnx_put_tensor_head(&one, param->name, CULM_ONNX_FLOAT, param->written.rank,
                                  param->written.dim, bytes);
        culm_wire_put_head(buf, 5, one.len + bytes);
        culm_buf_bytes(buf, one.data, one.len);
        culm_buf_release(&one);
        return;
    }
    for (int i = 0; i < param->written.rank; i++) {
        culm_wire_put_varint(&one, 1, (uint64_t)param->written.dim[i]);
    }
    culm_wire_put_varint(&one, 2, CULM_ONNX_FLOAT);
    culm_wire_put_text(&one, 8, param->name);
    for (int i = 0; i < 3; i++) {
        static const char *const keys[] = {"location", "offset", "length"};
        struct culm_buf entry;
        char number[24];
        snprintf(number, sizeof number, "%llu", (unsigned long long)(i == 1 ? offset : bytes));
        culm_buf_init(&entry, 1 << 14);
        culm_wire_put_text(&entry, 1, keys[i]);
        culm_wire_put_text(&entry, 2, i == 0 ? location : number);
        culm_wire_put_bytes(&one, 13, entry.data, entry.len);
        culm_buf_release(&entry);
    }
    culm_wire_put_varint(&one, 14, 1);
    culm_wire_put_bytes(buf, 5, one.data, one.len);
    culm_buf_release(&one);
}

struct output {
    struct culm_file file;
    struct culm_error *error;
    enum culm_status status;
};

static void write_bytes(struct output *out, const void *data, size_t len) {
    if (out->status == CULM_OK && len) {
        out->status = culm_file_append(&out->file, data, len, out->error);
    }
}

static void write_buf(struct output *out, struct culm_buf *buf) {
    if (buf->failed && out->status == CULM_OK) {
        out->status = culm_error_set(out->error, CULM_ERR_MEMORY, "onnx: out of memory");
    }
    write_bytes(out, buf->data, buf->len);
    culm_buf_clear(buf);
}

static uint64_t weight_bytes(const struct culm_param *param) {
    return (uint64_t)culm_elements(&param->shape) * sizeof(float);
}

/* All weights in the graph's order: head and numbers, or numbers only (`heads` false). */
static void write_weights(struct culm_onnx_exporter *e, culm_onnx_source *source, void *arg,
                          struct output *out, bool heads) {
    struct culm_buf head;
    culm_buf_init(&head, 1 << 16);
    for (int32_t i = 0; i < e->graph->param_count && out->status == CULM_OK; i++) {
        const struct culm_param *param = &e->graph->param[i];
        if (!e->param[i]) {
            continue;
        }
        float *data = malloc(weight_bytes(param));
        out->status =
            data ? source(arg, param, data, e->error)
                 : culm_error_set(e->error, CULM_ERR_MEMORY, "onnx '%s': out of memory", e->path);
        if (heads) {
            put_weight(&head, param, weight_bytes(param), NULL, 0);
            write_buf(out, &head);
        }
        write_bytes(out, data, weight_bytes(param));
        free(data);
    }
    culm_buf_release(&head);
}

static enum culm_status finish(struct output *out, const char *path, struct culm_error *error) {
    if (out->status != CULM_OK) {
        culm_file_abandon(&out->file);
        return out->status;
    }
    char written[CULM_PATH_MAX];
    snprintf(written, sizeof written, "%s", out->file.path);
    enum culm_status status = culm_file_finish(&out->file, error);
    return status == CULM_OK ? culm_file_rename(NULL, written, path, error) : status;
}

static enum culm_status start(struct output *out, const char *path, struct culm_error *error) {
    out->error = error;
    out->status = culm_file_create_beside(NULL, path, &out->file, error);
    return out->status;
}

static void put_names(struct culm_onnx_exporter *e, const struct culm_names *names,
                      struct output *out) {
    struct culm_buf text, entry, meta;
    culm_buf_init(&text, CULM_ONNX_NODES_BYTES_MAX);
    culm_buf_init(&entry, CULM_ONNX_NODES_BYTES_MAX);
    culm_buf_init(&meta, CULM_ONNX_NODES_BYTES_MAX);
    culm_onnx_class_names_text(names, &text);
    culm_wire_put_text(&entry, 1, "names");
    culm_wire_put_bytes(&entry, 2, text.data, text.len);
    culm_wire_put_bytes(&meta, 14, entry.data, entry.len);
    if (text.failed || entry.failed) {
        culm_onnx_export_no_memory(e);
        out->status = out->status ? out->status : e->status;
    }
    write_buf(out, &meta);
    culm_buf_release(&text);
    culm_buf_release(&entry);
    culm_buf_release(&meta);
}

static enum culm_status write_file(struct culm_onnx_exporter *e, struct culm_buf *ends,
                                   culm_onnx_source *source, void *arg,
                                   const struct culm_names *names) {
    char side[CULM_PATH_MAX];
    const char *slash = strrchr(e->path, '/'), *location = NULL;
    struct culm_buf head, weights;
    struct output out;
    uint64_t total = 0, offset = 0, heads = 0;
    for (int32_t i = 0; i < e->graph->param_count; i++) {
        total += e->param[i] ? weight_bytes(&e->graph->param[i]) : 0;
    }
    enum culm_status status = culm_path_format(side, e->error, "%s.data", e->path);
    if (status == CULM_OK && total + e->nodes.len + e->constants.len > MESSAGE_BYTES_MAX) {
        location = slash ? side + (slash - e->path) + 1 : side;
        status = start(&out, side, e->error);
        if (status == CULM_OK) {
            write_weights(e, source, arg, &out, false);
            status = finish(&out, side, e->error);
        }
    }
    if (status == CULM_OK) {
        status = start(&out, e->path, e->error);
    }
    if (status != CULM_OK) {
        return status;
    }
    culm_buf_init(&head, 1 << 16);
    culm_buf_init(&weights, CULM_ONNX_NODES_BYTES_MAX);
    for (int32_t i = 0; i < e->graph->param_count; i++) {
        if (e->param[i]) {
            uint64_t bytes = weight_bytes(&e->graph->param[i]);
            put_weight(&weights, &e->graph->param[i], bytes, location, offset);
            offset += bytes;
        }
    }
    heads = weights.len;
    culm_wire_put_varint(&head, 1, 8); /* IR version */
    culm_wire_put_text(&head, 2, "culm");
    culm_wire_put_head(
        &head, 7, e->nodes.len + 6 + e->constants.len + heads + (location ? 0 : total) + ends->len);
    write_buf(&out, &head);
    write_buf(&out, &e->nodes);
    culm_wire_put_text(&head, 2, "culm"); /* the name of the graph: 6 bytes */
    write_buf(&out, &head);
    write_buf(&out, &e->constants);
    if (location) {
        write_buf(&out, &weights);
    } else {
        write_weights(e, source, arg, &out, true);
    }
    write_buf(&out, ends);
    struct culm_buf opset;
    culm_buf_init(&opset, 64);
    culm_wire_put_text(&opset, 1, "");
    culm_wire_put_varint(&opset, 2, CULM_ONNX_OPSET);
    culm_wire_put_bytes(&head, 8, opset.data, opset.len);
    write_buf(&out, &head);
    if (names && names->count) {
        put_names(e, names, &out);
    }
    culm_buf_release(&opset);
    culm_buf_release(&head);
    culm_buf_release(&weights);
    return finish(&out, e->path, e->error);
}

enum culm_status culm_onnx_export(const struct culm_graph *graph, culm_onnx_source *source,
                                  void *arg, const struct culm_names *names, const char *path,
                                  struct culm_error *error) {
    struct culm_onnx_exporter e = {.graph = graph, .path = path, .error = error};
    struct culm_buf ends;
    culm_onnx_arena_init(&e.arena, CULM_ONNX_NODES_BYTES_MAX);
    culm_buf_init(&e.nodes, CULM_ONNX_NODES_BYTES_MAX);
    culm_buf_init(&e.constants, CULM_ONNX_NODES_BYTES_MAX);
    culm_buf_init(&ends, 1 << 20);
    e.form = calloc((size_t)graph->value_count + 1, sizeof *e.form);
    e.param = calloc((size_t)graph->param_count + 1, sizeof *e.param);
    e.field = calloc((size_t)graph->field_count + 1, sizeof *e.field);
    if (!e.form || !e.param || !e.field) {
        culm_onnx_export_no_memory(&e);
    } else {
        name_inputs(&e);
        put_nodes(&e, &ends);
    }
    if (e.status == CULM_OK) {
        e.status = write_file(&e, &ends, source, arg, names);
    }
    free(e.form);
    free(e.param);
    free(e.field);
    culm_buf_release(&ends);
    culm_buf_release(&e.nodes);
    culm_buf_release(&e.constants);
    culm_onnx_arena_release(&e.arena);
    return e.status;
}
