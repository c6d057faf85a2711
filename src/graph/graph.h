/*
 * The graph: what a model computes, as values and the operators between them.
 *
 * A graph is built once, forward first, by applying operators (ops.h) to inputs and parameters;
 * culm_graph_differentiate then appends the operators of the backward pass. Nodes stand in an order
 * in which they can run. Every forward node belongs to a *unit*, a block of the model: pieces are
 * cut between units only (cut.h). A gradient node belongs to the unit of the node it differentiates,
 * and carries its id: ids are those of the uncut graph, so dropout does not depend on the cut.
 *
 * Building is a straight line: the first mistake is kept, every later call does nothing and yields
 * CULM_NO_VALUE, and culm_graph_status tells at the end.
 *
 * A parameter has one accumulator per *use* (per node input that reads it): the embedding and the
 * head of a tied model are two uses of one parameter, each summed by itself.
 *
 * Ownership: the graph owns all it holds; names are copied. Thread: one at a time while building,
 * any afterwards.
 */
#ifndef CULM_GRAPH_GRAPH_H
#define CULM_GRAPH_GRAPH_H

#include "tensor/tensor.h"

#define CULM_NO_VALUE (-1)
#define CULM_OP_MAX_INPUTS 6
#define CULM_OP_MAX_OUTPUTS 3

struct culm_op;

struct culm_type {
    enum culm_dtype dtype;
    struct culm_shape shape;
};

enum culm_value_kind {
    CULM_VALUE_INPUT,       /* given with every micro-batch: samples or targets */
    CULM_VALUE_PARAM,       /* a parameter */
    CULM_VALUE_ACCUMULATOR, /* the gradient of one use of a parameter: stored or added to */
    CULM_VALUE_COMPUTED,    /* an operator's output */
};

enum culm_role { CULM_ROLE_SAMPLES, CULM_ROLE_TARGETS };

struct culm_value {
    enum culm_value_kind kind;
    struct culm_type type;
    int64_t count;    /* elements */
    char *name;       /* PARAM, else NULL */
    int32_t producer; /* node; -1 for inputs and parameters */
    int32_t param;    /* PARAM, ACCUMULATOR: index in order of creation */
    int32_t use;      /* ACCUMULATOR: index over all uses, in forward order */
    enum culm_role role; /* INPUT */
};

/* What operators may be told; each reads its own and the rest is zero. */
struct culm_attrs {
    double p;      /* dropout */
    double eps;    /* layer norm */
    int64_t heads; /* attention */
};

struct culm_node {
    const struct culm_op *op;
    struct culm_attrs attrs;
    int32_t id;   /* operator id in the uncut graph */
    int32_t unit; /* 0, 1, ... */
    bool backward;
    int32_t in[CULM_OP_MAX_INPUTS]; /* CULM_NO_VALUE: an optional input that is not there */
    int32_t out[CULM_OP_MAX_OUTPUTS];
};

struct culm_graph {
    struct culm_value *values;
    struct culm_node *nodes;
    int32_t *gradients; /* [value_count] after differentiation: its gradient, or CULM_NO_VALUE */
    int32_t value_count, value_capacity, node_count, node_capacity;
    int32_t forward_count; /* nodes of the forward pass; they come first */
    int32_t param_count, use_count, unit_count;
    int32_t output; /* what the last stage hands out, or CULM_NO_VALUE */
    bool differentiated;
    enum culm_status status;
    struct culm_error error;
};

struct culm_graph *culm_graph_new(void); /* NULL: out of memory */
void culm_graph_free(struct culm_graph *graph); /* NULL is fine */

/* Nodes applied from now on belong to `unit`: the same one as before, or the next. */
void culm_graph_unit(struct culm_graph *graph, int32_t unit);

int32_t culm_graph_input(struct culm_graph *graph, enum culm_role role, enum culm_dtype dtype,
                         int rank, const int64_t *dim);
/* float32. `name` must be new. */
int32_t culm_graph_param(struct culm_graph *graph, const char *name, int rank, const int64_t *dim);
/* Reads `inputs` values, `CULM_NO_VALUE` for an optional one that is left out, checks them by the
 * operator's shape rule, and makes the outputs. Errors: CULM_ERR_CONFIG, such as "operator 7
 * (linear): ...". */
void culm_graph_apply(struct culm_graph *graph, const struct culm_op *op,
                      const struct culm_attrs *attrs, const int32_t *in,
                      int32_t ret_out[CULM_OP_MAX_OUTPUTS]);
/* The same for nodes of the backward pass: at an output where given_out names a value (an
 * accumulator) the node writes there instead of to a new one. `id`, `unit`: of the differentiated
 * node. */
void culm_graph_apply_backward(struct culm_graph *graph, const struct culm_op *op,
                               const struct culm_attrs *attrs, int32_t id, int32_t unit,
                               const int32_t *in, const int32_t *given_out,
                               int32_t ret_out[CULM_OP_MAX_OUTPUTS]);
/* Adds a value of kind ACCUMULATOR for the next use of `param` (a PARAM value). */
int32_t culm_graph_accumulator(struct culm_graph *graph, int32_t param);
/* The last stage's result, where there is no loss: an inference graph's logits. */
void culm_graph_output(struct culm_graph *graph, int32_t value);

/* Keeps the first mistake. */
void culm_graph_fail(struct culm_graph *graph, enum culm_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
enum culm_status culm_graph_status(const struct culm_graph *graph, struct culm_error *error);

/* Appends the backward pass: for every use of a parameter the operators that form its gradient,
 * starting from the one operator that computes the loss. Sums where a value is read more than once
 * are operators of their own, or fused by a gradient rule, always in the same order: the
 * contribution of the later reader first. CULM_ERR_CONFIG when there is not exactly one loss, or a
 * parameter does not reach it. Call it once. */
enum culm_status culm_graph_differentiate(struct culm_graph *graph, struct culm_error *error);

/* Floating-point operations of one micro-batch, full (not causal) attention. */
double culm_graph_flops(const struct culm_graph *graph, int32_t first_unit, int32_t last_unit,
                        bool backward);

#endif
