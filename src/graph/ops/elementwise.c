/* gelu, dropout, residual (y = x + dropout(h)), add. */
#include "graph/autodiff.h"

static enum culm_status infer_same(struct culm_graph *graph, struct culm_node_desc *node,
                                   struct culm_error *error) {
    const struct culm_shape shape = *culm_input_shape(graph, node, 0);
    if (node->op->inputs == 2 && !culm_shape_equal(&shape, culm_input_shape(graph, node, 1))) {
        return culm_shape_error(graph, node, 0, 1, "the shapes differ", error);
    }
    culm_output_set(graph, node, 0, CULM_F32, &shape);
    return CULM_OK;
}

static int64_t count(const struct culm_operands *o, int32_t value) {
    return culm_elements(&o->value[value].shape);
}

/* --- gelu (tanh) --- */

static void gelu_gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t x = node->input[0];
    const int32_t inputs[] = {culm_gradient_of(g, node->output[0]), x};
    if (inputs[0] >= 0) {
        culm_gradient_add(g, x,
                          culm_gradient_node(g, &culm_op_gelu_grad, inputs, 2, &x, 1, NULL, 0));
    }
}

static void gelu(const struct culm_operands *o) {
    culm_cpu_gelu_forward(o->cpu, o->output[0], o->input[0], count(o, o->node->output[0]));
}

static void gelu_grad(const struct culm_operands *o) {
    culm_cpu_gelu_backward(o->cpu, o->output[0], o->input[0], o->input[1],
                           count(o, o->node->output[0]));
}

const struct culm_op culm_op_gelu = {.name = "gelu",
                                     .inputs = 1,
                                     .outputs = 1,
                                     .infer = infer_same,
                                     .gradient = gelu_gradient,
                                     .execute = gelu};
const struct culm_op culm_op_gelu_grad = {
    .name = "gelu_grad", .inputs = 2, .outputs = 1, .execute = gelu_grad};

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

static void dropout(const struct culm_operands *o) {
    culm_cpu_dropout_forward(o->cpu, o->output[0], o->input[0], count(o, o->node->output[0]),
                             &o->dropout);
}

static void dropout_grad(const struct culm_operands *o) {
    culm_cpu_dropout_backward(o->cpu, o->output[0], o->input[0], count(o, o->node->output[0]),
                              &o->dropout);
}

static void residual_gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t dy = culm_gradient_of(g, node->output[0]);
    if (dy >= 0) {
        culm_gradient_add(g, node->input[1], through_mask(g, node, dy, node->input[1]));
        culm_gradient_add(g, node->input[0], dy);
    }
}

static void residual(const struct culm_operands *o) {
    culm_cpu_residual_dropout_forward(o->cpu, o->output[0], o->input[0], o->input[1],
                                      count(o, o->node->output[0]), &o->dropout);
}

const struct culm_op culm_op_dropout = {.name = "dropout",
                                        .inputs = 1,
                                        .outputs = 1,
                                        .infer = infer_same,
                                        .gradient = dropout_gradient,
                                        .execute = dropout};
const struct culm_op culm_op_dropout_grad = {
    .name = "dropout_grad", .inputs = 1, .outputs = 1, .execute = dropout_grad};
const struct culm_op culm_op_residual = {.name = "residual",
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
    culm_cpu_add(o->cpu, o->output[0], o->input[0], o->input[1], count(o, o->node->output[0]));
}

const struct culm_op culm_op_add = {.name = "add",
                                    .inputs = 2,
                                    .outputs = 1,
                                    .infer = infer_same,
                                    .gradient = add_gradient,
                                    .execute = add};
