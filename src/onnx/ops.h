/*
 * What ONNX operators do to shapes and, if they occur in shape arithmetic and masks, to numbers:
 * one row each.
 *
 * `infer` sets type and shape of the outputs from the inputs. If an output's shape depends on
 * numbers, such as a Reshape's target, they are used if known; otherwise the rank stays -1.
 * `evaluate` computes the outputs from known inputs; it is simple code, meant for thousands of
 * numbers. Its outputs are zeroed and have the inferred shapes.
 *
 * Thread: one a call.
 */
#ifndef CULM_ONNX_OPS_H
#define CULM_ONNX_OPS_H

#include "onnx/graph.h"

struct culm_onnx_operand {
    bool there;
    int type, rank; /* rank -1: unknown */
    int64_t dim[CULM_ONNX_RANK_MAX];
    const struct culm_onnx_tensor *data; /* NULL: unknown */
};

struct culm_onnx_call {
    const struct culm_onnx_graph *graph;
    const struct culm_onnx_node *node;
    const struct culm_onnx_operand *in;
    struct culm_onnx_operand *out;
    int32_t inputs, outputs;
    struct culm_error *error;
};

struct culm_onnx_op {
    const char *name;
    int32_t inputs_min;
    bool (*infer)(struct culm_onnx_call *call);    /* false: culm_onnx_refuse was called */
    void (*evaluate)(struct culm_onnx_call *call); /* NULL: cannot be evaluated */
};

const struct culm_onnx_op *culm_onnx_op_find(const char *name); /* NULL: none */
/* The tables; a row without a name ends each. */
extern const struct culm_onnx_op culm_onnx_ops_shape[], culm_onnx_ops_gather[];
extern const struct culm_onnx_op culm_onnx_ops_math[], culm_onnx_ops_net[];

bool culm_onnx_refuse(struct culm_onnx_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Sets type and shape of an output. False: it would be too large. */
bool culm_onnx_set(struct culm_onnx_call *call, int32_t output, int type, int rank,
                   const int64_t *dim);
int64_t culm_onnx_count(const struct culm_onnx_operand *operand);
/* Resolves an axis, of which -1 is the last. False, after culm_onnx_refuse: out of range. */
bool culm_onnx_axis(struct culm_onnx_call *call, int64_t axis, int rank, int *ret_axis);
/* The integers of a known input or, in older opsets, of an attribute. *ret_count -1: absent or
 * unknown. */
bool culm_onnx_ints(struct culm_onnx_call *call, int32_t input, const char *attribute,
                    int64_t ret_ints[CULM_ONNX_RANK_MAX], int *ret_count);
/* A set of axes as bits; 0 if none are given. *ret_known false: it depends on unknown numbers. */
bool culm_onnx_axes(struct culm_onnx_call *call, int32_t input, const char *attribute, int rank,
                    uint32_t *ret_axes, bool *ret_known);
/* Broadcasts a shape with that of another operand, in place. False, after culm_onnx_refuse: they do
 * not fit. */
bool culm_onnx_spread(struct culm_onnx_call *call, int *rank, int64_t *dim,
                      const struct culm_onnx_operand *other);
/* The strides, in elements, of an operand broadcast to `rank`: 0 where it is repeated. */
void culm_onnx_strides(const struct culm_onnx_operand *operand, int rank, int64_t *ret_stride);
/* Advances an index through a shape; false after the last one. */
bool culm_onnx_step(int rank, const int64_t *dim, int64_t *index);

/* Single elements, converted to and from the tensor's type. */
int64_t culm_onnx_get_int(const struct culm_onnx_tensor *tensor, int64_t i);
double culm_onnx_get_real(const struct culm_onnx_tensor *tensor, int64_t i);
void culm_onnx_put_int(const struct culm_onnx_tensor *tensor, int64_t i, int64_t value);
void culm_onnx_put_real(const struct culm_onnx_tensor *tensor, int64_t i, double value);
void culm_onnx_put_from(const struct culm_onnx_tensor *tensor, int64_t i,
                        const struct culm_onnx_tensor *from, int64_t k);
bool culm_onnx_is_real(int type);

#endif
