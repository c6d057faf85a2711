/*
 * Operators: one row each, made of a shape rule, a gradient rule and the call of a kernel.
 *
 * A forward operator and those of its gradient stand in one file under ops/, and every row in the
 * table of ops/table.c. Operators are pure: outputs are a function of inputs, attributes and (for
 * dropout) the position of the samples. An operator whose output is a parameter's gradient stores
 * it or adds to it, as `first` says.
 *
 * Thread: rows are constant; execute runs on the thread that has the device.
 */
#ifndef CULM_GRAPH_OP_H
#define CULM_GRAPH_OP_H

#include "graph/graph.h"
#include "tensor/hyper.h"

struct culm_cpu;
struct culm_autodiff;

/* What a shape rule sees. */
struct culm_op_site {
    const struct culm_attrs *attrs;
    const struct culm_value *in[CULM_OP_MAX_INPUTS]; /* NULL: an optional input that is not there */
};

/* What a kernel call gets. */
struct culm_op_call {
    const struct culm_attrs *attrs;
    const struct culm_shape *in_shape[CULM_OP_MAX_INPUTS], *out_shape[CULM_OP_MAX_OUTPUTS];
    const void *in[CULM_OP_MAX_INPUTS]; /* NULL: not there */
    void *out[CULM_OP_MAX_OUTPUTS];
    struct culm_dropout dropout; /* p is attrs->p */
    bool first;
    float loss_scale;
    double *loss; /* the loss operator's: the sum over tokens */
};

struct culm_op {
    const char *name;
    int inputs, outputs;
    uint8_t optional;                      /* mask of inputs that may be left out */
    uint8_t params;                        /* mask of inputs that must be parameters */
    uint8_t in_place[CULM_OP_MAX_OUTPUTS]; /* mask of inputs whose memory the output may take */
    bool overwrites;                       /* output 0 takes the memory of input 0, always */
    bool loss;                             /* output 0 is the gradient of input 0 */

    /* Fills one type per output. Errors say what does not fit, with shapes. */
    enum culm_status (*infer)(const struct culm_op_site *site, struct culm_type *ret_out,
                              struct culm_error *error);
    /* Appends the operators that turn the outputs' gradients into those of the inputs; NULL where
     * there is none to take (the operators of a gradient themselves). */
    void (*gradient)(struct culm_autodiff *autodiff, const struct culm_node *node);
    /* CULM_ERR_CONFIG for a token outside the vocabulary. */
    enum culm_status (*execute)(const struct culm_op_call *call, struct culm_cpu *cpu);
    /* NULL: none worth counting. */
    double (*flops)(const struct culm_op_site *site);
};

/* Every operator there is, NULL at the end. */
extern const struct culm_op *const culm_op_table[];

/* --- for gradient rules --- */

/* The gradient of an output of the node, or CULM_NO_VALUE where the loss does not depend on it. */
int32_t culm_autodiff_grad(const struct culm_autodiff *autodiff, int output);
/* Whether the gradient of this input is asked for. */
bool culm_autodiff_wants(const struct culm_autodiff *autodiff, int input);
/* The accumulator of this use of a parameter; the rule must write it. */
int32_t culm_autodiff_accumulator(struct culm_autodiff *autodiff, int input);
/* Takes over what later readers of this input gave so far, to be added by the operator that the
 * rule appends (which then gives the sum), or CULM_NO_VALUE. */
int32_t culm_autodiff_take(struct culm_autodiff *autodiff, int input);
/* Appends an operator; given_out as in culm_graph_apply_backward, NULL for all new. */
void culm_autodiff_apply(struct culm_autodiff *autodiff, const struct culm_op *op,
                         const struct culm_attrs *attrs, const int32_t *in,
                         const int32_t *given_out, int32_t ret_out[CULM_OP_MAX_OUTPUTS]);
/* Adds a contribution to the gradient of an input. */
void culm_autodiff_give(struct culm_autodiff *autodiff, int input, int32_t gradient);

/* --- for shape rules --- */

/* Elements of all dimensions but the last. */
int64_t culm_shape_rows(const struct culm_shape *shape);
int64_t culm_shape_last(const struct culm_shape *shape); /* 1 for a scalar */
/* CULM_ERR_CONFIG unless the input is float32 of this shape: "weight is [3,5], not [4,5]". */
enum culm_status culm_op_expect(const struct culm_value *value, const char *what,
                                const struct culm_shape *shape, struct culm_error *error);
#define CULM_SHAPE(...)                                                                            \
    culm_shape_of((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                       \
                  (const int64_t[]){__VA_ARGS__})

extern const struct culm_op culm_op_embedding, culm_op_embedding_backward;
extern const struct culm_op culm_op_linear, culm_op_linear_backward_input,
    culm_op_linear_backward_weight;
extern const struct culm_op culm_op_head, culm_op_head_backward_input,
    culm_op_head_backward_weight;
extern const struct culm_op culm_op_layernorm, culm_op_layernorm_backward;
extern const struct culm_op culm_op_attention, culm_op_attention_backward;
extern const struct culm_op culm_op_gelu, culm_op_gelu_backward;
extern const struct culm_op culm_op_dropout, culm_op_dropout_backward;
extern const struct culm_op culm_op_residual;
extern const struct culm_op culm_op_add, culm_op_accumulate;
extern const struct culm_op culm_op_cross_entropy;

#endif
