/*
 * Operators: one row of the table each, in files of their own under ops/.
 *
 * `infer` sets the shapes of the outputs from those of the inputs, or says what is wrong.
 * `gradient` appends nodes that turn the gradient of the outputs into those of the inputs, through
 * autodiff.h. `execute` calls the device's kernel on memory that the plan has placed. Gradient
 * operators have neither shape rule nor gradient: autodiff gives them the shapes.
 *
 * Images are [N,H,W,C] everywhere inside; convolution weights stay [O,C/groups,kh,kw], as in
 * PyTorch. A value is f32 or bf16; parameters and their gradients are f32. `?` marks an input
 * that may be absent (-1).
 *
 * operator          inputs -> outputs                             attributes
 * linear            x[..,I] w b?[O] -> y[..,O]                    transposed: w [O,I], else [I,O]
 * sparse_linear     x[n,I] sparse, w -> y[n,O], w^T or nothing   transposed dropout (of x)
 * embedding         tokens[B,T] wte[V,C] wpe[T,C] -> [B,T,C]
 * lookup            ids i32[..] table[V,C] -> [..,C]              (a negative id: zeros)
 * positions         x[B,T,C] wpe[P,C] -> x + wpe[:T]
 * layernorm         x[..,C] gamma[C] beta[C] -> y, mean, rstd     eps
 * attention         q k? v? mask? -> out[B,T,C], lse[B,H,T]       heads causal dropout
 *                   without k and v, q is qkv[B,T,3C]; mask i32[B,Tk]: 0 hides the key
 * bahdanau          query[B,T,A] key[B,S,A] value[B,S,C] length? i32[B,1] v[A] scale[1] bias[A]
 *                   -> context[B,T,C], probabilities[B,T,S]
 * lstm              x[B,T,I] w_ih[4H,I] w_hh[4H,H] b_ih? b_hh? h0?[B,H] c0?[B,H] length? i32[B,1]
 *                   -> y[B,T,H], what backward needs              reverse
 * activation        x -> y                                        function alpha
 * affine            x -> scale x + shift                          scale shift
 * dropout           x -> y                                        dropout
 * residual          x h -> x + dropout(h)                         dropout
 * add               a b -> a + b, of equal shape
 * binary            a b -> a (+ - * /) b, b spread over a         function
 * reduce            x -> y, reduced dimensions become 1           function axes
 * softmax           x[..,C] -> y over the last dimension
 * matmul            a[..,M,K] b[..,K,N] -> [..,M,N]               trans_a trans_b scale
 * reshape           x -> the same elements                        dims (a shape, ended by 0)
 * permute           x -> y; dimension i of y is dims[i] of x      dims
 * concat            a b .. (2 to 8) -> y                          axis
 * slice             x -> x[start : start + length]                axis start length
 * gather_rows       x[B,T,C] index i32[B,K] -> [B,K,C]
 * pad               x[N,H,W,C] -> y                               pad value
 * resize            x[N,H,W,C] -> [N,h,w,C]                       dims {h, w} align_corners
 *                                                                 function NONE nearest, MEAN bilinear
 * conv              x[N,H,W,C] w[O,C/groups,kh,kw] b?[O] -> y     kernel stride pad dilation groups
 * conv_infer        x w[kh,kw,C/groups,O] b? gamma? beta? mean? var? residual? coarse? -> y
 *                   y = function(norm(conv([coarse], x)) [+ residual])
 *                   made by culm_graph_fuse                       as conv, eps function alpha
 *                                                                 heads, start: parts and channel of a
 *                                                                 gate; made by culm_graph_gate
 * maxpool avgpool   x[N,H,W,C] -> y                               kernel stride pad dilation
 *                                                                 ceil_mode count_pad
 * adaptive_avgpool  x[N,H,W,C] -> [N,h,w,C]                       dims {h, w}
 * batchnorm         x[..,C] gamma beta running_mean running_var residual? -> y, mean, variance
 *                   y = function(norm(x) [+ residual])            eps momentum function inference
 * cross_entropy     logits[..,V] targets i32[..] -> dlogits       smoothing (of labels)
 *                   a negative target is ignored                  loss_only
 * squared_error     x[..,C] wanted[..,C] weight? -> dx            loss_only
 *                   the weight is spread over x
 * heads             t[n,C] a[1,H,C/H] b[1,H,C/H] -> y[n,C+2H] = dropout(t) | <t,a> | <t,b>, kept
 *                                                                 dropout
 * hidden            x[n,W] b?[C] -> y[n,C] = dropout(function(x + b)) of C columns, saved, kept
 *                                                                 function alpha dropout, length: C
 *                                                                 inference: without `saved`
 *
 * Thread: the table is constant.
 */
#ifndef CULM_GRAPH_OPS_H
#define CULM_GRAPH_OPS_H

#include "device/device.h"
#include "graph/graph.h"

struct culm_gradients;

/* What the losses of a model add up over one micro-batch. A model's loss is the sum, over its loss
 * operators, of the mean over their rows; so each adds the sum over its rows divided by the rows of
 * one sample. */
struct culm_loss_total {
    double loss;
    int64_t rows;    /* all */
    int64_t counted; /* without those whose target is negative */
    int64_t correct; /* of the counted: the largest logit is the target's */
};

/* Memory of one node during a run. */
struct culm_operands {
    struct culm_device *device;
    const struct culm_node_desc *node;
    const struct culm_value *value; /* the stage's values, for shapes */
    void *input[CULM_NODE_INPUTS_MAX];
    void *output[CULM_NODE_OUTPUTS_MAX];
    float *use[CULM_NODE_USES_MAX]; /* accumulators */
    bool first;                     /* store into them instead of adding */
    struct culm_dropout dropout;    /* p = 0: none */
    double loss_scale;              /* 1 / (samples of the global batch) */
    struct culm_loss_total *loss;
    const float
        *ahead; /* what the operators behind it read, which may be fetched; NULL: not known */
    int64_t ahead_floats;
    const float *least; /* of a gate; NULL: gates are open */
};

/* What `precision: bf16` makes of an operator's first output; see precision.h. */
enum culm_op_precision {
    CULM_OP_ONLY_F32, /* reads and writes f32 */
    CULM_OP_TO_F32,   /* reads either, writes f32 */
    CULM_OP_FOLLOWS,  /* writes bf16 if all it reads, other than parameters, is bf16 */
    CULM_OP_NORM,     /* writes bf16 if only products read it */
    CULM_OP_PRODUCT,  /* writes bf16 */
};

struct culm_op {
    const char *name;
    int32_t inputs, outputs;
    enum culm_op_precision precision;
    bool is_loss;
    bool
        takes_sparse; /* input 0 is SPARSE; other inputs, and those of other operators, never are */
    /* The whole numbers of input `index` choose along a dimension of input `from` (-1: the last).
     * Both 0: it has no such input. */
    struct {
        int32_t index, from, dimension;
    } chooses;
    enum culm_status (*infer)(struct culm_graph *graph, struct culm_node_desc *node,
                              struct culm_error *error);
    void (*gradient)(struct culm_gradients *gradients, const struct culm_node_desc *node);
    void (*execute)(const struct culm_operands *operands);
    /* Floating-point operations of a node; NULL: too few to count. */
    double (*flops)(const struct culm_graph *graph, const struct culm_node_desc *node);
};

const struct culm_op *culm_op_find(const char *name); /* NULL: none */
const struct culm_op *const *culm_ops(void);          /* all rows, ended by NULL */

/* Shape of input i, and [rows.., last] of a shape. */
static inline const struct culm_shape *
culm_input_shape(const struct culm_graph *graph, const struct culm_node_desc *node, int32_t i) {
    return &graph->value[node->input[i]].shape;
}
static inline int64_t culm_last_dim(const struct culm_shape *shape) {
    return shape->dim[shape->rank - 1];
}
static inline int64_t culm_row_count(const struct culm_shape *shape) {
    int64_t rows = 1;
    for (int i = 0; i + 1 < shape->rank; i++) {
        rows *= shape->dim[i];
    }
    return rows;
}
static inline int64_t culm_elements(const struct culm_shape *shape) {
    return shape->rank ? culm_row_count(shape) * culm_last_dim(shape) : 1;
}
/* Makes output i a new value of this shape. */
void culm_output_set(struct culm_graph *graph, struct culm_node_desc *node, int32_t i,
                     enum culm_dtype dtype, const struct culm_shape *shape);
bool culm_graph_has_loss(const struct culm_graph *graph);
/* Gives each parameter among the inputs of the node that is appended next a use of its own. */
void culm_graph_number_uses(struct culm_graph *graph, struct culm_node_desc *node);
/* "operator 'OP': WHAT: [..] and [..]" with the shapes of inputs a and b. */
enum culm_status culm_shape_error(const struct culm_graph *graph, const struct culm_node_desc *node,
                                  int32_t a, int32_t b, const char *what, struct culm_error *error);

/* Every operator by name: NAME is the row culm_op_NAME of a file under ops/. */
/* clang-format off */
#define CULM_OPS(X)                                                                                \
    X(embedding) X(embedding_grad) X(linear) X(linear_grad_input) X(linear_grad_weight)            \
    X(layernorm) X(layernorm_grad) X(attention) X(attention_grad) X(dropout) X(dropout_grad)       \
    X(residual) X(cross_entropy) X(add) X(conv) X(conv_grad_data) X(conv_grad_weight)              \
    X(conv_infer)                                                                                  \
    X(lookup) X(lookup_grad) X(positions) X(positions_grad) X(gather_rows) X(gather_rows_grad)     \
    X(lstm) X(lstm_grad) X(bahdanau) X(bahdanau_grad) X(activation) X(activation_grad)             \
    X(affine) X(affine_grad) X(accumulate) X(batchnorm) X(batchnorm_grad)                          \
    X(maxpool) X(maxpool_grad) X(avgpool) X(avgpool_grad)                                          \
    X(adaptive_avgpool) X(adaptive_avgpool_grad) X(reshape) X(reshape_grad)                        \
    X(permute) X(permute_grad) X(slice) X(slice_grad) X(concat) X(concat_grad)                     \
    X(pad) X(pad_grad) X(resize) X(resize_grad) X(binary) X(binary_grad_a) X(binary_grad_b)        \
    X(reduce) X(reduce_grad) X(softmax) X(softmax_grad)                                            \
    X(matmul) X(matmul_grad_a) X(matmul_grad_b) X(sparse_linear) X(sparse_linear_grad)             \
    X(squared_error) X(heads) X(heads_grad) X(hidden) X(hidden_grad)
/* clang-format on */

#define CULM_OP_DECLARE(name) extern const struct culm_op culm_op_##name;
CULM_OPS(CULM_OP_DECLARE)
#undef CULM_OP_DECLARE

#endif
