/* binary: (a, b) -> a (+ - * /) b, b spread over a; reduce; softmax. */
#include "graph/ops/operands.h"

#include <stdio.h>

static enum culm_status refuse(const struct culm_graph *graph, const struct culm_node_desc *node,
                               int32_t other, const char *what, struct culm_error *error) {
    return culm_shape_error(graph, node, 0, other, what, error);
}

/* --- binary --- */

static enum culm_status binary_infer(struct culm_graph *graph, struct culm_node_desc *node,
                                     struct culm_error *error) {
    const struct culm_shape a = *culm_input_shape(graph, node, 0);
    const struct culm_shape *b = culm_input_shape(graph, node, 1);
    enum culm_function function = node->attributes.function;
    if (function < CULM_FUNCTION_ADD || function > CULM_FUNCTION_DIV) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "operator 'binary': function %d is not one of + - * /", function);
    }
    if (typed_dtype(graph, node, 0) == CULM_I32 || typed_dtype(graph, node, 1) == CULM_I32) {
        return refuse(graph, node, 1, "it does not compute with integers", error);
    }
    bool fits = b->rank <= a.rank;
    for (int i = 0; i < b->rank && fits; i++) {
        fits = b->dim[i] == 1 || b->dim[i] == a.dim[a.rank - b->rank + i];
    }
    if (!fits) {
        return refuse(graph, node, 1, "the second cannot be spread over the first", error);
    }
    culm_output_set(graph, node, 0, typed_dtype(graph, node, 0), &a);
    return CULM_OK;
}

static void binary_gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t dy = culm_gradient_of(g, node->output[0]), a = node->input[0], b = node->input[1];
    enum culm_function function = node->attributes.function;
    bool scales = function == CULM_FUNCTION_MUL || function == CULM_FUNCTION_DIV;
    if (dy < 0) {
        return;
    }
    if (typed_wanted(g, node, 1)) {
        const struct culm_value *value = g->graph->value;
        bool same = function == CULM_FUNCTION_ADD &&
                    culm_shape_equal(&value[a].shape, &value[b].shape) &&
                    value[b].dtype == value[dy].dtype;
        const int32_t inputs[] = {
            dy, scales ? (function == CULM_FUNCTION_MUL ? a : node->output[0]) : -1,
            function == CULM_FUNCTION_DIV ? b : -1};
        typed_give(g, node, 1,
                   same ? dy
                        : culm_gradient_node(g, &culm_op_binary_grad_b, inputs, 3, &b, 1, NULL, 0));
    }
    if (typed_wanted(g, node, 0)) {
        const int32_t inputs[] = {dy, b};
        typed_give(g, node, 0,
                   scales ? culm_gradient_node(g, &culm_op_binary_grad_a, inputs, 2, &a, 1, NULL, 0)
                          : dy);
    }
}

static void binary(const struct culm_operands *o) {
    CULM_RUN(o->device, binary, .y = typed_output(o, 0), .a = typed_input(o, 0),
             .b = typed_input(o, 1), .a_shape = typed_shape(o, o->node->input[0]),
             .b_shape = typed_shape(o, o->node->input[1]),
             .function = o->node->attributes.function);
}

/* dy times or over b is what forward does with a. */
const struct culm_op culm_op_binary = {.name = "binary",
                                       .inputs = 2,
                                       .outputs = 1,
                                       .infer = binary_infer,
                                       .gradient = binary_gradient,
                                       .execute = binary};
const struct culm_op culm_op_binary_grad_a = {
    .name = "binary_grad_a", .inputs = 2, .outputs = 1, .execute = binary};

/* (dy, a of a product or y of a quotient, b of a quotient) -> db: d(a / b) = -y / b */
static void binary_grad_b(const struct culm_operands *o) {
    const struct culm_shape *a = typed_shape(o, o->node->input[0]);
    const struct culm_shape *b = typed_shape(o, o->node->output[0]);
    enum culm_function function = o->node->attributes.function;
    bool negative = function == CULM_FUNCTION_SUB || function == CULM_FUNCTION_DIV;
    int64_t axes = 0;
    for (int i = 0; i < a->rank; i++) {
        int at = i - (a->rank - b->rank);
        if (at < 0 || b->dim[at] == 1) {
            axes |= (int64_t)1 << i;
        }
    }
    struct culm_out db = typed_output(o, 0);
    CULM_RUN(o->device, reduce, .y = db, .x = typed_input(o, 0), .factor = typed_input(o, 1),
             .x_shape = a, .axes = axes, .function = CULM_FUNCTION_SUM, .scale = negative ? -1 : 1);
    if (function == CULM_FUNCTION_DIV) {
        CULM_RUN(o->device, binary, .y = db, .a = culm_in_of(db), .b = typed_input(o, 2),
                 .a_shape = b, .b_shape = b, .function = function);
    }
}

const struct culm_op culm_op_binary_grad_b = {
    .name = "binary_grad_b", .inputs = 3, .outputs = 1, .execute = binary_grad_b};

/* --- reduce --- */

static enum culm_status reduce_infer(struct culm_graph *graph, struct culm_node_desc *node,
                                     struct culm_error *error) {
    struct culm_shape y = *culm_input_shape(graph, node, 0);
    enum culm_function function = node->attributes.function;
    int64_t axes = node->attributes.axes;
    if (function < CULM_FUNCTION_MEAN || function > CULM_FUNCTION_MAX) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "operator 'reduce': function %d is not the mean, sum or largest",
                              function);
    }
    if (axes <= 0 || axes >= (int64_t)1 << y.rank || typed_dtype(graph, node, 0) == CULM_I32) {
        return refuse(graph, node, 0, "there are no such axes to reduce", error);
    }
    for (int i = 0; i < y.rank; i++) {
        y.dim[i] = axes >> i & 1 ? 1 : y.dim[i];
    }
    culm_output_set(graph, node, 0, typed_dtype(graph, node, 0), &y);
    return CULM_OK;
}

/* The largest is found again in x. */
static void reduce_gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t dy = culm_gradient_of(g, node->output[0]), x = node->input[0];
    if (dy < 0 || !typed_wanted(g, node, 0)) {
        return;
    }
    const int32_t inputs[] = {dy, x, node->output[0]};
    int32_t count = node->attributes.function == CULM_FUNCTION_MAX ? 3 : 1;
    typed_give(g, node, 0,
               culm_gradient_node(g, &culm_op_reduce_grad, inputs, count, &x, 1, NULL, 0));
}

static double scale_of(const struct culm_operands *o, const struct culm_shape *x,
                       const struct culm_shape *y) {
    bool mean = o->node->attributes.function == CULM_FUNCTION_MEAN;
    return mean ? (double)culm_elements(y) / (double)culm_elements(x) : 1;
}

static void reduce(const struct culm_operands *o) {
    const struct culm_shape *x = typed_shape(o, o->node->input[0]);
    const struct culm_shape *y = typed_shape(o, o->node->output[0]);
    bool largest = o->node->attributes.function == CULM_FUNCTION_MAX;
    CULM_RUN(o->device, reduce, .y = typed_output(o, 0), .x = typed_input(o, 0), .x_shape = x,
             .axes = o->node->attributes.axes,
             .function = largest ? CULM_FUNCTION_MAX : CULM_FUNCTION_SUM,
             .scale = scale_of(o, x, y));
}

static void reduce_grad(const struct culm_operands *o) {
    const struct culm_shape *x = typed_shape(o, o->node->output[0]);
    const struct culm_shape *y = typed_shape(o, o->node->input[0]);
    if (o->node->attributes.function == CULM_FUNCTION_MAX) {
        CULM_RUN(o->device, reduce_max_backward, .dx = typed_output(o, 0), .dy = typed_input(o, 0),
                 .x = typed_input(o, 1), .y = typed_input(o, 2), .x_shape = x,
                 .axes = o->node->attributes.axes);
    } else {
        CULM_RUN(o->device, spread, .y = typed_output(o, 0), .b = typed_input(o, 0), .y_shape = x,
                 .b_shape = y, .scale = scale_of(o, x, y));
    }
}

const struct culm_op culm_op_reduce = {.name = "reduce",
                                       .inputs = 1,
                                       .outputs = 1,
                                       .infer = reduce_infer,
                                       .gradient = reduce_gradient,
                                       .execute = reduce};
/* (dy, x and y of the largest) -> dx */
const struct culm_op culm_op_reduce_grad = {
    .name = "reduce_grad", .inputs = 3, .outputs = 1, .execute = reduce_grad};

/* --- softmax --- */

static enum culm_status softmax_infer(struct culm_graph *graph, struct culm_node_desc *node,
                                      struct culm_error *error) {
    const struct culm_shape x = *culm_input_shape(graph, node, 0);
    int64_t most = graph->device->limits.softmax;
    if (x.rank < 1 || culm_last_dim(&x) > most || typed_dtype(graph, node, 0) == CULM_I32) {
        char what[64];
        snprintf(what, sizeof what, "rows of 1 to %lld numbers are needed", (long long)most);
        return refuse(graph, node, 0, what, error);
    }
    culm_output_set(graph, node, 0, typed_dtype(graph, node, 0), &x);
    return CULM_OK;
}

static void softmax_gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t dy = culm_gradient_of(g, node->output[0]), x = node->input[0];
    const int32_t inputs[] = {dy, node->output[0]};
    if (dy >= 0 && typed_wanted(g, node, 0)) {
        typed_give(g, node, 0,
                   culm_gradient_node(g, &culm_op_softmax_grad, inputs, 2, &x, 1, NULL, 0));
    }
}

static void softmax(const struct culm_operands *o) {
    const struct culm_shape *x = typed_shape(o, o->node->input[0]);
    CULM_RUN(o->device, softmax_forward, .y = typed_output(o, 0), .x = typed_input(o, 0),
             .n = culm_row_count(x), .c = culm_last_dim(x));
}

static void softmax_grad(const struct culm_operands *o) {
    const struct culm_shape *x = typed_shape(o, o->node->output[0]);
    CULM_RUN(o->device, softmax_backward, .dx = typed_output(o, 0), .dy = typed_input(o, 0),
             .y = typed_input(o, 1), .n = culm_row_count(x), .c = culm_last_dim(x));
}

const struct culm_op culm_op_softmax = {.name = "softmax",
                                        .inputs = 1,
                                        .outputs = 1,
                                        .infer = softmax_infer,
                                        .gradient = softmax_gradient,
                                        .execute = softmax};
const struct culm_op culm_op_softmax_grad = {
    .name = "softmax_grad", .inputs = 2, .outputs = 1, .execute = softmax_grad};
