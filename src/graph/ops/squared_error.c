/*
 * squared_error: (x [..,C], wanted [..,C], weight or nothing) -> dx [..,C]: how far a value is from a given
 * one, the squared length of weight (x - wanted) in each row; the weight is spread over x, and given too.
 *
 * As for cross-entropy, the loss is a number of the run and its gradient is formed at once, but in
 * memory of its own: x stays, for whoever else reads it. Composed of the device's kernels. With
 * `loss_only` no gradient is formed, and backward must not run.
 */
#include "graph/ops/operands.h"

static enum culm_status infer(struct culm_graph *graph, struct culm_node_desc *node,
                              struct culm_error *error) {
    const struct culm_shape x = *culm_input_shape(graph, node, 0);
    if (!culm_shape_equal(&x, culm_input_shape(graph, node, 1))) {
        return culm_shape_error(graph, node, 0, 1, "the shapes differ", error);
    }
    const struct culm_shape *weight = node->input[2] < 0 ? &x : culm_input_shape(graph, node, 2);
    bool fits = weight->rank <= x.rank;
    for (int i = 0; i < weight->rank && fits; i++) {
        fits = weight->dim[i] == 1 || weight->dim[i] == x.dim[x.rank - weight->rank + i];
    }
    if (!fits) {
        return culm_shape_error(graph, node, 0, 2, "the weight cannot be spread over it", error);
    }
    if (input_is_param(graph, node, 1) || input_is_param(graph, node, 2)) {
        return input_error(node, "the target and its weight are given, not trained", error);
    }
    for (int32_t i = 0; i < 3; i++) {
        if (node->input[i] >= 0 && graph->value[node->input[i]].dtype == CULM_I32) {
            return input_error(node, "integers cannot be compared by distance", error);
        }
    }
    culm_output_set(graph, node, 0, typed_dtype(graph, node, 0), &x);
    return CULM_OK;
}

static void gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    typed_give(g, node, 0, node->output[0]);
}

static void weigh(const struct culm_operands *o, const struct culm_shape *shape) {
    if (o->node->input[2] >= 0) {
        CULM_RUN(o->device, binary, .y = typed_output(o, 0), .a = culm_in_of(typed_output(o, 0)),
                 .b = typed_input(o, 2), .a_shape = shape, .b_shape = operand_shape(o, 2),
                 .function = CULM_FUNCTION_MUL);
    }
}

static void execute(const struct culm_operands *o) {
    const struct culm_shape *shape = operand_shape(o, 0);
    const int64_t rows = culm_row_count(shape), count = culm_elements(shape);
    const double rows_per_sample = (double)(rows / shape->dim[0]);
    float sum[16] __attribute__((aligned(64)));
    CULM_RUN(o->device, binary, .y = typed_output(o, 0), .a = typed_input(o, 0),
             .b = typed_input(o, 1), .a_shape = shape, .b_shape = shape,
             .function = CULM_FUNCTION_SUB);
    weigh(o, shape);
    CULM_RUN(o->device, reduce, .y = culm_out_f32(sum), .x = culm_in_of(typed_output(o, 0)),
             .factor = culm_in_of(typed_output(o, 0)), .x_shape = shape,
             .axes = ((int64_t)1 << shape->rank) - 1, .function = CULM_FUNCTION_SUM, .scale = 1);
    o->loss->loss += (double)sum[0] / rows_per_sample;
    o->loss->rows += rows;
    o->loss->counted += rows;
    if (!o->node->attributes.loss_only) {
        weigh(o, shape);
        CULM_RUN(o->device, affine, .y = typed_output(o, 0), .x = culm_in_of(typed_output(o, 0)),
                 .count = count, .scale = 2 * o->loss_scale / rows_per_sample);
    }
}

const struct culm_op culm_op_squared_error = {.name = "squared_error",
                                              .is_loss = true,
                                              .precision = CULM_OP_ONLY_F32,
                                              .inputs = 3,
                                              .outputs = 1,
                                              .infer = infer,
                                              .gradient = gradient,
                                              .execute = execute};
