/* dropout, residual (y = x + dropout(h)), add. */
#include "graph/ops/operands.h"

static enum culm_status infer_same(struct culm_graph *graph, struct culm_node_desc *node,
                                   struct culm_error *error) {
    const struct culm_shape shape = *culm_input_shape(graph, node, 0);
    if (node->op->inputs == 2 && !culm_shape_equal(&shape, culm_input_shape(graph, node, 1))) {
        return culm_shape_error(graph, node, 0, 1, "the shapes differ", error);
    }
    culm_output_set(graph, node, 0, typed_dtype(graph, node, 0), &shape);
    return CULM_OK;
}

static int64_t count(const struct culm_operands *o) {
    return culm_elements(typed_shape(o, o->node->output[0]));
}

/* --- dropout and residual --- */

/* The gradient of what went through the mask; without dropout it is dy itself. */
static int32_t through_mask(struct culm_gradients *g, const struct culm_node_desc *node, int32_t dy,
                            int32_t like) {
    if (node->attributes.dropout <= 0) {
        return dy;
    }
    return culm_gradient_node(g, &culm_op_dropout_grad, &dy, 1, &like, 1, NULL, 0);
}

static void dropout_gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t dy = culm_gradient_of(g, node->output[0]);
    if (dy >= 0) {
        culm_gradient_add(g, node->input[0], through_mask(g, node, dy, node->input[0]));
    }
}

/* Forward and backward. */
static void dropout(const struct culm_operands *o) {
    CULM_RUN(o->device, dropout, .y = typed_output(o, 0), .x = typed_input(o, 0), .count = count(o),
             .dropout = &o->dropout);
}

static void residual_gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t dy = culm_gradient_of(g, node->output[0]);
    if (dy >= 0) {
        culm_gradient_add(g, node->input[1], through_mask(g, node, dy, node->input[1]));
        culm_gradient_add(g, node->input[0], dy);
    }
}

static void residual(const struct culm_operands *o) {
    CULM_RUN(o->device, residual_dropout_forward, .y = typed_output(o, 0), .x = typed_input(o, 0),
             .h = typed_input(o, 1), .count = count(o), .dropout = &o->dropout);
}

const struct culm_op culm_op_dropout = {.name = "dropout",
                                        .precision = CULM_OP_FOLLOWS,
                                        .inputs = 1,
                                        .outputs = 1,
                                        .infer = infer_same,
                                        .gradient = dropout_gradient,
                                        .execute = dropout};
const struct culm_op culm_op_dropout_grad = {
    .name = "dropout_grad", .inputs = 1, .outputs = 1, .execute = dropout};
const struct culm_op culm_op_residual = {.name = "residual",
                                         .precision = CULM_OP_TO_F32,
                                         .inputs = 2,
                                         .outputs = 1,
                                         .infer = infer_same,
                                         .gradient = residual_gradient,
                                         .execute = residual};

/* --- add --- */

static void add_gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t dy = culm_gradient_of(g, node->output[0]);
    for (int32_t i = 0; i < 2 && dy >= 0; i++) {
        culm_gradient_add(g, node->input[i], dy);
    }
}

static void add(const struct culm_operands *o) {
    CULM_RUN(o->device, add, .y = typed_output(o, 0), .a = typed_input(o, 0),
             .b = typed_input(o, 1), .count = count(o));
}

const struct culm_op culm_op_add = {.name = "add",
                                    .precision = CULM_OP_FOLLOWS,
                                    .inputs = 2,
                                    .outputs = 1,
                                    .infer = infer_same,
                                    .gradient = add_gradient,
                                    .execute = add};
