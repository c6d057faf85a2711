/* See writer.h. */
#include "writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BYTES_MAX = 1 << 24 };

void writer_start(struct writer *w) {
    *w = (struct writer){0};
    culm_buf_init(&w->graph, BYTES_MAX);
    culm_buf_init(&w->file, BYTES_MAX);
}

void writer_release(struct writer *w) {
    culm_buf_release(&w->graph);
    culm_buf_release(&w->file);
}

static void put_buf(struct culm_buf *to, uint32_t number, struct culm_buf *inner) {
    culm_wire_put_bytes(to, number, inner->data, inner->len);
    culm_buf_release(inner);
}

static void put_end(struct writer *w, uint32_t number, const char *name, int type, int rank,
                    const int64_t *dims) {
    struct culm_buf end, kind, tensor, shape;
    culm_buf_init(&end, BYTES_MAX);
    culm_buf_init(&kind, BYTES_MAX);
    culm_buf_init(&tensor, BYTES_MAX);
    culm_buf_init(&shape, BYTES_MAX);
    for (int i = 0; i < rank; i++) {
        struct culm_buf dim;
        culm_buf_init(&dim, 64);
        if (dims[i] < 0) {
            culm_wire_put_text(&dim, 2, "free");
        } else {
            culm_wire_put_varint(&dim, 1, (uint64_t)dims[i]);
        }
        put_buf(&shape, 1, &dim);
    }
    culm_wire_put_varint(&tensor, 1, (uint64_t)type);
    put_buf(&tensor, 2, &shape);
    put_buf(&kind, 1, &tensor);
    culm_wire_put_text(&end, 1, name);
    put_buf(&end, 2, &kind);
    put_buf(&w->graph, number, &end);
}

void writer_input(struct writer *w, const char *name, int type, int rank, const int64_t *dims) {
    put_end(w, 11, name, type, rank, dims);
}

void writer_output(struct writer *w, const char *name) { put_end(w, 12, name, 1, 0, NULL); }

void writer_weight(struct writer *w, const char *name, int rank, const int64_t *dims) {
    struct culm_buf tensor;
    int64_t count = 1;
    culm_buf_init(&tensor, BYTES_MAX);
    for (int i = 0; i < rank; i++) {
        culm_wire_put_varint(&tensor, 1, (uint64_t)dims[i]);
        count *= dims[i];
    }
    culm_wire_put_varint(&tensor, 2, 1);
    culm_wire_put_text(&tensor, 8, name);
    culm_wire_put_head(&tensor, 9, (uint64_t)count * 4);
    for (int64_t i = 0; i < count; i++) {
        float number = (float)((i * 7919 + (int64_t)strlen(name)) % 97) / 97 - 0.5f;
        culm_buf_bytes(&tensor, &number, 4);
    }
    put_buf(&w->graph, 5, &tensor);
}

static void constant(struct writer *w, const char *name, int type, int rank, int64_t count,
                     const void *data, size_t bytes) {
    struct culm_buf tensor, attribute, node;
    culm_buf_init(&tensor, BYTES_MAX);
    culm_buf_init(&attribute, BYTES_MAX);
    culm_buf_init(&node, BYTES_MAX);
    if (rank) {
        culm_wire_put_varint(&tensor, 1, (uint64_t)count);
    }
    culm_wire_put_varint(&tensor, 2, (uint64_t)type);
    culm_wire_put_bytes(&tensor, 9, data, bytes);
    culm_wire_put_text(&attribute, 1, "value");
    put_buf(&attribute, 5, &tensor);
    culm_wire_put_varint(&attribute, 20, 4);
    culm_wire_put_text(&node, 2, name);
    culm_wire_put_text(&node, 4, "Constant");
    put_buf(&node, 5, &attribute);
    put_buf(&w->graph, 1, &node);
}

void writer_float(struct writer *w, const char *name, float number) {
    constant(w, name, 1, 0, 1, &number, 4);
}

void writer_ints(struct writer *w, const char *name, int count, const int64_t *numbers) {
    constant(w, name, 7, 1, count, numbers, (size_t)count * 8);
}

static void put_names(struct culm_buf *node, uint32_t number, const char *names) {
    char copy[512], *rest = copy;
    snprintf(copy, sizeof copy, "%s", names);
    for (char *name; (name = strtok_r(rest, " ", &rest));) {
        culm_wire_put_text(node, number, strcmp(name, "-") == 0 ? "" : name);
    }
}

static void put_attributes(struct culm_buf *node, const char *attributes) {
    char copy[512], *rest = copy;
    snprintf(copy, sizeof copy, "%s", attributes);
    for (char *one; (one = strtok_r(rest, " ", &rest));) {
        struct culm_buf attribute;
        char *value = strchr(one, '=');
        culm_buf_init(&attribute, BYTES_MAX);
        *value++ = '\0';
        culm_wire_put_text(&attribute, 1, one);
        if (strchr(value, ',')) {
            for (char *number; (number = strtok_r(value, ",", &value));) {
                culm_wire_put_varint(&attribute, 8, (uint64_t)atoll(number));
            }
            culm_wire_put_varint(&attribute, 20, 7);
        } else if (strchr("-0123456789", *value) && strchr(value, '.')) {
            culm_wire_put_float(&attribute, 2, (float)atof(value));
            culm_wire_put_varint(&attribute, 20, 1);
        } else if (strchr("-0123456789", *value)) {
            culm_wire_put_varint(&attribute, 3, (uint64_t)atoll(value));
            culm_wire_put_varint(&attribute, 20, 2);
        } else {
            culm_wire_put_text(&attribute, 4, value);
            culm_wire_put_varint(&attribute, 20, 3);
        }
        put_buf(node, 5, &attribute);
    }
}

void writer_node(struct writer *w, const char *op, const char *inputs, const char *outputs,
                 const char *attributes) {
    struct culm_buf node;
    char name[32];
    culm_buf_init(&node, BYTES_MAX);
    put_names(&node, 1, inputs);
    put_names(&node, 2, outputs);
    snprintf(name, sizeof name, "node%d", w->nodes++);
    culm_wire_put_text(&node, 3, name);
    culm_wire_put_text(&node, 4, op);
    put_attributes(&node, attributes);
    put_buf(&w->graph, 1, &node);
}

const void *writer_finish(struct writer *w, int opset, size_t *ret_len) {
    struct culm_buf set;
    culm_buf_init(&set, 64);
    culm_wire_put_varint(&set, 2, (uint64_t)opset);
    culm_buf_clear(&w->file);
    culm_wire_put_varint(&w->file, 1, 8);
    culm_wire_put_text(&w->file, 2, "tests");
    culm_wire_put_bytes(&w->file, 7, w->graph.data, w->graph.len);
    put_buf(&w->file, 8, &set);
    assert_false(w->file.failed || w->graph.failed);
    *ret_len = w->file.len;
    return w->file.data;
}

struct culm_graph *writer_import(struct writer *w, int opset,
                                 const struct culm_onnx_options *options,
                                 struct culm_onnx_model **ret_model) {
    struct culm_error error = {0};
    struct culm_graph *graph = NULL;
    size_t len;
    const void *data = writer_finish(w, opset, &len);
    if (culm_onnx_import_bytes(data, len, "test", options, ret_model, &graph, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    return graph;
}

const char *writer_refused(struct writer *w, int opset, const struct culm_onnx_options *options) {
    static struct culm_error error;
    struct culm_onnx_model *model = NULL;
    struct culm_graph *graph = NULL;
    size_t len;
    const void *data = writer_finish(w, opset, &len);
    error = (struct culm_error){0};
    enum culm_status status =
        culm_onnx_import_bytes(data, len, "test", options, &model, &graph, &error);
    assert_int_not_equal(status, CULM_OK);
    assert_int_equal(status, error.status);
    assert_null(graph);
    assert_null(strchr(error.text, '\n'));
    return error.text;
}

const char *ops_of(const struct culm_graph *graph) {
    static char text[4096];
    size_t at = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < graph->node_count && at < sizeof text; i++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i ? " " : "",
                               graph->node[i].op->name);
    }
    return text;
}
