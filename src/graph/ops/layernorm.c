/* layernorm: (x [..,C], gamma [C], beta [C]) -> y [..,C], mean [rows], rstd [rows]. */
#include "graph/ops/operands.h"

static enum culm_status infer(struct culm_graph *graph, struct culm_node_desc *node,
                              struct culm_error *error) {
    const struct culm_shape x = *culm_input_shape(graph, node, 0);
    for (int32_t i = 1; i <= 2; i++) {
        const struct culm_shape *p = culm_input_shape(graph, node, i);
        if (p->rank != 1 || p->dim[0] != culm_last_dim(&x)) {
            return culm_shape_error(graph, node, 0, i, "the widths differ", error);
        }
    }
    const struct culm_shape rows = {1, {culm_row_count(&x)}};
    culm_output_set(graph, node, 0, typed_dtype(graph, node, 0), &x);
    culm_output_set(graph, node, 1, CULM_F32, &rows);
    culm_output_set(graph, node, 2, CULM_F32, &rows);
    return CULM_OK;
}

/* What has flowed back past the norm, on the residual path, is added by the same kernel. */
static void gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t x = node->input[0];
    int32_t dy = culm_gradient_of(g, node->output[0]);
    if (dy < 0) {
        return;
    }
    int32_t past = culm_gradient_take(g, x);
    const int32_t inputs[] = {dy, x, node->input[1], node->output[1], node->output[2], past};
    culm_gradient_add(
        g, x,
        culm_gradient_node(g, &culm_op_layernorm_grad, inputs, 6, &x, 1, &node->param_use[1], 2));
}

static void execute(const struct culm_operands *o) {
    const struct culm_shape *x = &o->value[o->node->input[0]].shape;
    CULM_RUN(o->device, layernorm_forward, .y = typed_output(o, 0), .mean = o->output[1],
             .rstd = o->output[2], .x = typed_input(o, 0), .gamma = o->input[1],
             .beta = o->input[2], .n = culm_row_count(x), .c = culm_last_dim(x),
             .eps = o->node->attributes.eps);
}

const struct culm_op culm_op_layernorm = {.name = "layernorm",
                                          .precision = CULM_OP_NORM,
                                          .inputs = 3,
                                          .outputs = 3,
                                          .infer = infer,
                                          .gradient = gradient,
                                          .execute = execute};

/* (dy, x, gamma, mean, rstd, past or nothing) -> dx; accumulates into gamma and beta */
static void execute_grad(const struct culm_operands *o) {
    const struct culm_shape *x = &o->value[o->node->input[1]].shape;
    CULM_RUN(o->device, layernorm_backward, .dx = typed_output(o, 0), .dgamma = o->use[0],
             .dbeta = o->use[1], .dy = typed_input(o, 0), .x = typed_input(o, 1),
             .gamma = o->input[2], .mean = o->input[3], .rstd = o->input[4],
             .add = typed_input(o, 5), .n = culm_row_count(x), .c = culm_last_dim(x),
             .first = o->first);
}

const struct culm_op culm_op_layernorm_grad = {
    .name = "layernorm_grad", .inputs = 6, .outputs = 1, .execute = execute_grad};
