/*
 * Private to export: export.c writes the file, export_ops.c the operators, and export_net.c those
 * of images and attention, all with export_values.c: nodes, constants, values and their forms.
 *
 * A value of ours is an ONNX value under one of two names: as it is ("plain") or, for images, as
 * [N,C,H,W]. If the form that is asked for is not there yet, a Transpose makes it. The first
 * dimension is free in the file, so no node may state it as a number.
 */
#ifndef CULM_ONNX_EXPORT_H
#define CULM_ONNX_EXPORT_H

#include "graph/ops.h"
#include "onnx/graph.h"
#include "onnx/onnx.h"
#include "onnx/wire.h"

#define CULM_ONNX_OPSET 17
#define CULM_ONNX_NODES_BYTES_MAX ((size_t)1 << 30)

struct culm_onnx_forms {
    const char *plain, *image; /* NULL: not there */
};

struct culm_onnx_exporter {
    const struct culm_graph *graph;
    const char *path; /* for messages */
    struct culm_onnx_arena arena;
    struct culm_buf nodes, constants;
    struct culm_onnx_forms *form; /* of each value of the graph */
    bool *param, *field;          /* whether each is used */
    int32_t names;                /* counter for new names */
    const char *causal;           /* the causal mask, once there is one */
    int64_t causal_length;
    enum culm_status status;
    struct culm_error *error;
};

/* An attribute: integers if count is not 0, a string if there is a text, a float if `real` is
 * set. */
struct culm_onnx_given {
    const char *name;
    int64_t i;
    double f;
    bool real;
    const int64_t *ints;
    int32_t count;
    const char *text;
};
#define CULM_ONNX_I(name_, i_) ((struct culm_onnx_given){.name = (name_), .i = (i_)})
#define CULM_ONNX_F(name_, f_) ((struct culm_onnx_given){.name = (name_), .f = (f_), .real = true})
#define CULM_ONNX_INTS(name_, ints_, count_)                                                       \
    ((struct culm_onnx_given){.name = (name_), .ints = (ints_), .count = (count_)})

void culm_onnx_export_no_memory(struct culm_onnx_exporter *e);
/* Adds a node; returns the name of its first output, which is new, or "" after an error. inputs[i]
 * NULL: absent. */
const char *culm_onnx_emit(struct culm_onnx_exporter *e, const char *op, const char *const *inputs,
                           int32_t count, const struct culm_onnx_given *given, int32_t given_count,
                           int32_t outputs);
const char *culm_onnx_emit_1(struct culm_onnx_exporter *e, const char *op, const char *x);
const char *culm_onnx_emit_2(struct culm_onnx_exporter *e, const char *op, const char *x,
                             const char *y);
const char *culm_onnx_emit_3(struct culm_onnx_exporter *e, const char *op, const char *x,
                             const char *y, const char *z);
const char *culm_onnx_transpose(struct culm_onnx_exporter *e, const char *x, const int64_t *perm,
                                int32_t rank);
/* The name `by` names after another: a further output of the same node. */
const char *culm_onnx_next_name(struct culm_onnx_exporter *e, const char *name, int32_t by);
const char *culm_onnx_ints_constant(struct culm_onnx_exporter *e, const int64_t *ints,
                                    int64_t count);
const char *culm_onnx_real_constant(struct culm_onnx_exporter *e, double number);
const char *culm_onnx_reals_constant(struct culm_onnx_exporter *e, const float *reals,
                                     int64_t count);
const char *culm_onnx_true_constant(struct culm_onnx_exporter *e);
const char *culm_onnx_whole_constant(struct culm_onnx_exporter *e, int64_t number); /* a scalar */
/* A TensorProto up to its numbers; `bytes` of raw data follow. */
void culm_onnx_put_tensor_head(struct culm_buf *buf, const char *name, int type, int rank,
                               const int64_t *dim, uint64_t bytes);

/* Input i of a node in one of its forms; parameters and fields are always plain. */
const char *culm_onnx_in(struct culm_onnx_exporter *e, const struct culm_node_desc *node,
                         int32_t i);
const char *culm_onnx_in_image(struct culm_onnx_exporter *e, const struct culm_node_desc *node,
                               int32_t i);
/* In the form that exists, images first; *ret_image says which. */
const char *culm_onnx_in_either(struct culm_onnx_exporter *e, const struct culm_node_desc *node,
                                int32_t i, bool *ret_image);
void culm_onnx_out(struct culm_onnx_exporter *e, const struct culm_node_desc *node, bool image,
                   const char *name);
const struct culm_shape *culm_onnx_shape(const struct culm_onnx_exporter *e,
                                         const struct culm_node_desc *node, int32_t i);
void culm_onnx_cannot(struct culm_onnx_exporter *e, const struct culm_node_desc *node,
                      const char *what);

/* Applies an activation to x. */
const char *culm_onnx_function(struct culm_onnx_exporter *e, const struct culm_node_desc *node,
                               const char *x, enum culm_function function);

#endif
