/* head: (x [..,C], wte [V,C]) -> logits [..,V]: x wte^T, the output layer tied to the embedding. */
#include "graph/autodiff.h"

static enum culm_status infer(struct culm_graph *graph, struct culm_node_desc *node,
                              struct culm_error *error) {
    const struct culm_shape *x = culm_input_shape(graph, node, 0);
    const struct culm_shape *wte = culm_input_shape(graph, node, 1);
    if (wte->rank != 2 || culm_last_dim(x) != wte->dim[1]) {
        return culm_shape_error(graph, node, 0, 1, "the inner dimensions differ", error);
    }
    struct culm_shape out = *x;
    out.dim[out.rank - 1] = wte->dim[0];
    culm_output_set(graph, node, 0, CULM_F32, &out);
    return CULM_OK;
}

static void gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t x = node->input[0], wte = node->input[1];
    int32_t dy = culm_gradient_of(g, node->output[0]);
    if (dy < 0) {
        return;
    }
    const int32_t for_weight[] = {x, dy};
    culm_gradient_node(g, &culm_op_head_grad_weight, for_weight, 2, NULL, 0, &node->param_use[1],
                       1);
    const int32_t for_input[] = {dy, wte};
    if (culm_gradient_wanted(g, x)) {
        culm_gradient_add(
            g, x, culm_gradient_node(g, &culm_op_head_grad_input, for_input, 2, &x, 1, NULL, 0));
    }
}

static void execute(const struct culm_operands *o) {
    const struct culm_shape *x = &o->value[o->node->input[0]].shape;
    const struct culm_shape *wte = &o->value[o->node->input[1]].shape;
    culm_cpu_head_forward(o->cpu, o->output[0], o->input[0], o->input[1], culm_row_count(x),
                          wte->dim[1], wte->dim[0]);
}

static double flops(const struct culm_graph *graph, const struct culm_node_desc *node) {
    const struct culm_shape *x = culm_input_shape(graph, node, 0);
    const struct culm_shape *wte = culm_input_shape(graph, node, 1);
    return 2.0 * (double)culm_row_count(x) * (double)wte->dim[0] * (double)wte->dim[1];
}

const struct culm_op culm_op_head = {.name = "head",
                                     .inputs = 2,
                                     .outputs = 1,
                                     .infer = infer,
                                     .gradient = gradient,
                                     .execute = execute,
                                     .flops = flops};

/* (dlogits [..,V], wte [V,C]) -> dx [..,C] */
static void execute_input(const struct culm_operands *o) {
    const struct culm_shape *dy = &o->value[o->node->input[0]].shape;
    const struct culm_shape *wte = &o->value[o->node->input[1]].shape;
    culm_cpu_head_backward_input(o->cpu, o->output[0], o->input[0], o->input[1], culm_row_count(dy),
                                 wte->dim[1], wte->dim[0]);
}

const struct culm_op culm_op_head_grad_input = {
    .name = "head_grad_input", .inputs = 2, .outputs = 1, .execute = execute_input, .flops = flops};

/* (x [..,C], dlogits [..,V]) accumulates into wte */
static void execute_weight(const struct culm_operands *o) {
    const struct culm_shape *x = &o->value[o->node->input[0]].shape;
    const struct culm_shape *dy = &o->value[o->node->input[1]].shape;
    culm_cpu_head_backward_weight(o->cpu, o->use[0], o->input[1], o->input[0], culm_row_count(x),
                                  culm_last_dim(x), culm_last_dim(dy), o->first);
}

static double weight_flops(const struct culm_graph *graph, const struct culm_node_desc *node) {
    const struct culm_shape *x = culm_input_shape(graph, node, 0);
    return 2.0 * (double)culm_elements(x) * (double)culm_last_dim(culm_input_shape(graph, node, 1));
}

const struct culm_op culm_op_head_grad_weight = {.name = "head_grad_weight",
                                                 .inputs = 2,
                                                 .outputs = 0,
                                                 .execute = execute_weight,
                                                 .flops = weight_flops};
