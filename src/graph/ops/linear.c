/* linear: (x [..,I], w [I,O], b [O] or nothing) -> [..,O]: x w + b. With attribute `transposed` w
 * is [O,I]. */
#include "graph/ops/operands.h"

struct widths {
    int64_t in, out;
};

static struct widths widths_of(const struct culm_shape *w, bool transposed) {
    return (struct widths){w->dim[transposed ? 1 : 0], w->dim[transposed ? 0 : 1]};
}

static enum culm_status infer(struct culm_graph *graph, struct culm_node_desc *node,
                              struct culm_error *error) {
    if (node->input[0] < 0 || !input_is_param(graph, node, 1)) {
        return input_error(node, "needs an activation and a weight that is a parameter", error);
    }
    const struct culm_shape *x = culm_input_shape(graph, node, 0);
    const struct culm_shape *w = culm_input_shape(graph, node, 1);
    struct widths width = {0};
    if (w->rank == 2) {
        width = widths_of(w, node->attributes.transposed);
    }
    if (w->rank != 2 || x->rank < 1 || culm_last_dim(x) != width.in) {
        return culm_shape_error(graph, node, 0, 1, "the inner dimensions differ", error);
    }
    if (node->input[2] >= 0 &&
        (!input_is_param(graph, node, 2) ||
         !input_has_shape(graph, node, 2, (struct culm_shape){1, {width.out}}))) {
        return culm_shape_error(graph, node, 1, 2, "the bias has another width", error);
    }
    struct culm_shape out = *x;
    out.dim[out.rank - 1] = width.out;
    culm_output_set(graph, node, 0, typed_dtype(graph, node, 0), &out);
    return CULM_OK;
}

static void gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t x = node->input[0], w = node->input[1];
    int32_t dy = culm_gradient_of(g, node->output[0]);
    if (dy < 0) {
        return;
    }
    const int32_t for_weight[] = {x, dy};
    const int32_t uses[] = {node->param_use[1], node->input[2] >= 0 ? node->param_use[2] : -1};
    culm_gradient_node(g, &culm_op_linear_grad_weight, for_weight, 2, NULL, 0, uses,
                       uses[1] >= 0 ? 2 : 1);
    if (culm_gradient_wanted(g, x)) {
        const int32_t for_input[] = {dy, w};
        int32_t dx =
            culm_gradient_node(g, &culm_op_linear_grad_input, for_input, 2, &x, 1, NULL, 0);
        culm_gradient_add(g, x, dx);
    }
}

static void execute(const struct culm_operands *o) {
    bool transposed = o->node->attributes.transposed;
    struct widths width = widths_of(operand_shape(o, 1), transposed);
    CULM_RUN(o->device, linear_forward, .y = typed_output(o, 0), .x = typed_input(o, 0),
             .w = o->input[1], .b = o->node->input[2] < 0 ? NULL : o->input[2],
             .n = culm_row_count(operand_shape(o, 0)), .in = width.in, .out = width.out,
             .transposed = transposed);
}

static double flops(const struct culm_graph *graph, const struct culm_node_desc *node) {
    const struct culm_shape *x = culm_input_shape(graph, node, 0);
    return 2.0 * (double)culm_row_count(x) *
           (double)culm_elements(culm_input_shape(graph, node, 1));
}

const struct culm_op culm_op_linear = {.name = "linear",
                                       .precision = CULM_OP_PRODUCT,
                                       .inputs = 3,
                                       .outputs = 1,
                                       .infer = infer,
                                       .gradient = gradient,
                                       .execute = execute,
                                       .flops = flops};

/* (dy [..,O], w) -> dx [..,I] */
static void execute_input(const struct culm_operands *o) {
    bool transposed = o->node->attributes.transposed;
    struct widths width = widths_of(operand_shape(o, 1), transposed);
    CULM_RUN(o->device, linear_backward_input, .dx = typed_output(o, 0), .dy = typed_input(o, 0),
             .w = o->input[1], .n = culm_row_count(operand_shape(o, 0)), .in = width.in,
             .out = width.out, .transposed = transposed);
}

const struct culm_op culm_op_linear_grad_input = {.name = "linear_grad_input",
                                                  .inputs = 2,
                                                  .outputs = 1,
                                                  .execute = execute_input,
                                                  .flops = flops};

/* (x [..,I], dy [..,O]) accumulates into w, and b if there is one */
static void execute_weight(const struct culm_operands *o) {
    const struct culm_shape *x = operand_shape(o, 0), *dy = operand_shape(o, 1);
    CULM_RUN(o->device, linear_backward_weight, .dw = o->use[0],
             .db = o->node->use[1] < 0 ? NULL : o->use[1], .x = typed_input(o, 0),
             .dy = typed_input(o, 1), .n = culm_row_count(x), .in = culm_last_dim(x),
             .out = culm_last_dim(dy), .transposed = o->node->attributes.transposed,
             .first = o->first);
}

static double weight_flops(const struct culm_graph *graph, const struct culm_node_desc *node) {
    const struct culm_shape *x = culm_input_shape(graph, node, 0);
    return 2.0 * (double)culm_elements(x) * (double)culm_last_dim(culm_input_shape(graph, node, 1));
}

const struct culm_op culm_op_linear_grad_weight = {.name = "linear_grad_weight",
                                                   .inputs = 2,
                                                   .outputs = 0,
                                                   .execute = execute_weight,
                                                   .flops = weight_flops};
