/*
 * activation: x -> function(x); affine: x -> scale x + shift; accumulate: the gradient of a
 * parameter that an operator reads like any value.
 */
#include "graph/ops/operands.h"

static int64_t count(const struct culm_operands *o) {
    return culm_elements(typed_shape(o, o->node->input[0]));
}

static enum culm_status infer(struct culm_graph *graph, struct culm_node_desc *node,
                              struct culm_error *error) {
    const struct culm_shape shape = *culm_input_shape(graph, node, 0);
    enum culm_dtype dtype = typed_dtype(graph, node, 0);
    if (dtype == CULM_I32) {
        return culm_shape_error(graph, node, 0, 0, "this function does not take integers", error);
    }
    if (node->attributes.function > CULM_FUNCTION_RECIPROCAL) {
        return culm_error_set(error, CULM_ERR_CONFIG, "operator '%s': function %d takes %s",
                              node->op->name, node->attributes.function, "more than one value");
    }
    if (node->attributes.function == CULM_FUNCTION_ELU && !(node->attributes.alpha >= 0)) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "operator '%s': ELU's alpha is %g; it must be at least 0",
                              node->op->name, node->attributes.alpha);
    }
    culm_output_set(graph, node, 0, dtype, &shape);
    return CULM_OK;
}

/* --- activation --- */

static void activation_gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t dy = culm_gradient_of(g, node->output[0]), x = node->input[0];
    if (dy < 0 || !typed_wanted(g, node, 0)) {
        return;
    }
    bool keeps = culm_function_keeps_output(node->attributes.function, node->attributes.alpha);
    const int32_t inputs[] = {dy, keeps ? node->output[0] : x};
    typed_give(g, node, 0,
               culm_gradient_node(g, &culm_op_activation_grad, inputs, 2, &x, 1, NULL, 0));
}

static void activation(const struct culm_operands *o) {
    CULM_RUN(o->device, activation_forward, .y = typed_output(o, 0), .x = typed_input(o, 0),
             .count = count(o), .function = o->node->attributes.function,
             .alpha = o->node->attributes.alpha);
}

static void activation_grad(const struct culm_operands *o) {
    CULM_RUN(o->device, activation_backward, .dx = typed_output(o, 0), .dy = typed_input(o, 0),
             .kept = typed_input(o, 1), .count = count(o), .function = o->node->attributes.function,
             .alpha = o->node->attributes.alpha);
}

const struct culm_op culm_op_activation = {.name = "activation",
                                           .precision = CULM_OP_FOLLOWS,
                                           .inputs = 1,
                                           .outputs = 1,
                                           .infer = infer,
                                           .gradient = activation_gradient,
                                           .execute = activation};
/* (dy, y or x) -> dx */
const struct culm_op culm_op_activation_grad = {
    .name = "activation_grad", .inputs = 2, .outputs = 1, .execute = activation_grad};

/* --- affine --- */

static void affine_gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t dy = culm_gradient_of(g, node->output[0]), x = node->input[0];
    if (dy < 0 || !typed_wanted(g, node, 0)) {
        return;
    }
    if (node->attributes.scale != 1) {
        dy = culm_gradient_node(g, &culm_op_affine_grad, &dy, 1, &x, 1, NULL, 0);
    }
    typed_give(g, node, 0, dy);
}

static void affine(const struct culm_operands *o) {
    CULM_RUN(o->device, affine, .y = typed_output(o, 0), .x = typed_input(o, 0), .count = count(o),
             .scale = o->node->attributes.scale, .shift = o->node->attributes.shift);
}

static void affine_grad(const struct culm_operands *o) {
    CULM_RUN(o->device, affine, .y = typed_output(o, 0), .x = typed_input(o, 0), .count = count(o),
             .scale = o->node->attributes.scale, .shift = 0);
}

const struct culm_op culm_op_affine = {.name = "affine",
                                       .precision = CULM_OP_FOLLOWS,
                                       .inputs = 1,
                                       .outputs = 1,
                                       .infer = infer,
                                       .gradient = affine_gradient,
                                       .execute = affine};
const struct culm_op culm_op_affine_grad = {
    .name = "affine_grad", .inputs = 1, .outputs = 1, .execute = affine_grad};

/* --- accumulate: (gradient) -> nothing; stores into a use, or adds to it --- */

static void accumulate(const struct culm_operands *o) {
    int64_t n = count(o);
    if (o->first) {
        CULM_RUN(o->device, affine, .y = culm_out_f32(o->use[0]), .x = typed_input(o, 0),
                 .count = n, .scale = 1, .shift = 0);
    } else {
        CULM_RUN(o->device, accumulate, .sum = o->use[0], .x = typed_input(o, 0), .count = n);
    }
}

const struct culm_op culm_op_accumulate = {
    .name = "accumulate", .inputs = 1, .outputs = 0, .execute = accumulate};
