/*
 * sparse_linear: (x [n,I] of sparse rows, w) -> y [n,O] = dropout(x) w. w is [I,O], or [O,I] with
 * attribute `transposed`, as PyTorch has it.
 *
 * y is a sum of rows of w, so w [O,I] is turned round first, into a second output; its gradient
 * comes out as [I,O] and is turned back. x has no gradient. Dropout is keyed by element of x, as if
 * the row were dense, and drawn again in backward.
 */
#include "graph/ops/operands.h"
#include "graph/sparse.h"

#include <assert.h>

static enum culm_status infer(struct culm_graph *graph, struct culm_node_desc *node,
                              struct culm_error *error) {
    if (culm_input_shape(graph, node, 0)->rank != 2 || !input_is_param(graph, node, 1) ||
        !input_is(graph, node, 1, CULM_F32, 2)) {
        return input_error(node, "needs sparse rows [n,I] and a weight that is a parameter", error);
    }
    if (!(node->attributes.dropout >= 0 && node->attributes.dropout < 1)) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "operator 'sparse_linear': dropout %g is not in [0, 1)",
                              node->attributes.dropout);
    }
    const struct culm_shape x = *culm_input_shape(graph, node, 0);
    const struct culm_shape *w = culm_input_shape(graph, node, 1);
    bool transposed = node->attributes.transposed;
    int64_t in = w->dim[transposed ? 1 : 0], out = w->dim[transposed ? 0 : 1];
    if (x.dim[1] != in) {
        return culm_shape_error(graph, node, 0, 1, "the inner dimensions differ", error);
    }
    culm_output_set(graph, node, 0, CULM_F32, &(struct culm_shape){2, {x.dim[0], out}});
    if (transposed) {
        culm_output_set(graph, node, 1, CULM_F32, &(struct culm_shape){2, {in, out}});
    }
    return CULM_OK;
}

static void gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t dy = culm_gradient_of(g, node->output[0]);
    const int32_t inputs[] = {node->input[0], dy}, like[] = {node->output[1], node->input[1]};
    if (dy >= 0) {
        culm_gradient_node(g, &culm_op_sparse_linear_grad, inputs, 2, like,
                           node->attributes.transposed ? 2 : 0, &node->param_use[1], 1);
    }
}

static const struct culm_sparse_rows *rows_of(const struct culm_operands *o) {
    const struct culm_sparse_rows *x = o->input[0];
    assert(x->n == operand_shape(o, 0)->dim[0] && x->columns == operand_shape(o, 0)->dim[1]);
    return x;
}

/* Finds out which entries of x are left by dropout; false: all. */
static bool drop(const struct culm_operands *o, const struct culm_sparse_rows *x) {
    struct culm_dropout dropout = o->dropout;
    if (dropout.p <= 0) {
        return false;
    }
    assert(x->kept || x->there);
    if (x->holds && x->holds->there && x->holds->key == dropout.key) {
        return true;
    }
    dropout.samples = x->n;
    CULM_RUN(o->device, sparse_dropout, .kept = x->kept, .start = x->start, .column = x->column,
             .n = x->n, .dropout = &dropout, .there = x->there, .kept_words = x->kept_words,
             .turned_words = x->turned_words, .columns = x->columns);
    if (x->holds) {
        *x->holds = (struct culm_sparse_dropped){true, dropout.key};
    }
    return true;
}

static float scale_of(const struct culm_operands *o) { return (float)(1.0 / (1.0 - o->dropout.p)); }

/* to[columns,rows] = from[rows,columns] */
static void turn(const struct culm_operands *o, float *to, const float *from, int64_t rows,
                 int64_t columns) {
    static const int64_t order[] = {1, 0};
    const struct culm_shape shape = {2, {rows, columns}};
    CULM_RUN(o->device, permute, .y = culm_out_f32(to), .x = culm_in_f32(from), .x_shape = &shape,
             .order = order);
}

static void execute(const struct culm_operands *o) {
    const struct culm_sparse_rows *x = rows_of(o);
    int64_t out = typed_shape(o, o->node->output[0])->dim[1];
    const float *w = o->input[1];
    if (o->node->attributes.transposed) {
        turn(o, o->output[1], w, out, x->columns);
        w = o->output[1];
    }
    bool some = drop(o, x), words = some && x->there;
    CULM_RUN(o->device, spmm, .y = typed_output(o, 0), .x = culm_in_f32(w), .start = x->start,
             .column = x->column, .value = words ? NULL : x->value, .n = x->n, .f = out, .ldx = out,
             .ldy = out, .rows = x->columns, .kept = some && !words ? x->kept : NULL,
             .kept_scale = scale_of(o), .kept_words = words ? x->kept_words : NULL,
             .kept_weight = x->weight);
}

const struct culm_op culm_op_sparse_linear = {.name = "sparse_linear",
                                              .takes_sparse = true,
                                              .precision = CULM_OP_PRODUCT,
                                              .inputs = 2,
                                              .outputs = 2,
                                              .infer = infer,
                                              .gradient = gradient,
                                              .execute = execute};

/* (x, dy [n,O]) accumulates into w. With `transposed` it makes the gradient [I,O], and has room for
 * it as [O,I]. */
static void execute_grad(const struct culm_operands *o) {
    const struct culm_sparse_rows *x = rows_of(o);
    bool transposed = o->node->attributes.transposed;
    int64_t out = operand_shape(o, 1)->dim[1];
    float *dw = transposed ? o->output[0] : o->use[0];
    bool some = drop(o, x), words = some && x->there;
    CULM_RUN(o->device, spmm, .y = culm_out_f32(dw), .x = typed_input(o, 1),
             .start = x->column_start, .column = x->row, .value = words ? NULL : x->column_value,
             .n = x->columns, .f = out, .ldx = out, .ldy = out, .rows = x->n,
             .add = !transposed && !o->first, .kept = some && !words ? x->kept : NULL,
             .kept_at = x->entry, .kept_scale = scale_of(o),
             .kept_words = words ? x->turned_words : NULL, .kept_weight = x->weight,
             .weight_of_x = true);
    if (!transposed) {
        return;
    }
    turn(o, o->first ? o->use[0] : o->output[1], dw, x->columns, out);
    if (!o->first) {
        CULM_RUN(o->device, accumulate, .sum = o->use[0], .x = culm_in_f32(o->output[1]),
                 .count = x->columns * out);
    }
}

const struct culm_op culm_op_sparse_linear_grad = {
    .name = "sparse_linear_grad", .inputs = 2, .outputs = 2, .execute = execute_grad};
