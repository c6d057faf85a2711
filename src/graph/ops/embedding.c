/* embedding: (tokens [B,T], wte [V,C], wpe [T,C]) -> [B,T,C]: wte[token] + wpe[position]. */
#include "graph/ops/operands.h"

static enum culm_status infer(struct culm_graph *graph, struct culm_node_desc *node,
                              struct culm_error *error) {
    const struct culm_shape *tokens = culm_input_shape(graph, node, 0);
    const struct culm_shape *wte = culm_input_shape(graph, node, 1);
    const struct culm_shape *wpe = culm_input_shape(graph, node, 2);
    if (tokens->rank != 2 || wte->rank != 2 || wpe->rank != 2 || wte->dim[1] != wpe->dim[1]) {
        return culm_shape_error(graph, node, 1, 2, "tables of different width", error);
    }
    if (tokens->dim[1] != wpe->dim[0]) {
        return culm_shape_error(graph, node, 0, 2, "not as many positions as the table has", error);
    }
    const struct culm_shape out = {3, {tokens->dim[0], tokens->dim[1], wte->dim[1]}};
    culm_output_set(graph, node, 0, CULM_F32, &out);
    return CULM_OK;
}

static void gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t dy = culm_gradient_of(g, node->output[0]);
    const int32_t inputs[] = {node->input[0], dy, node->input[1]};
    if (dy >= 0) {
        culm_gradient_node(g, &culm_op_embedding_grad, inputs, 3, NULL, 0, &node->param_use[1], 2);
    }
}

static void execute(const struct culm_operands *o) {
    const struct culm_shape *out = &o->value[o->node->output[0]].shape;
    const struct culm_shape *wte = &o->value[o->node->input[1]].shape;
    CULM_RUN(o->device, embedding_forward, .y = typed_output(o, 0), .tokens = o->input[0],
             .wte = o->input[1], .wpe = o->input[2], .b = out->dim[0], .t = out->dim[1],
             .c = out->dim[2], .v = wte->dim[0]);
}

const struct culm_op culm_op_embedding = {.name = "embedding",
                                          .chooses = {.index = 0, .from = 1, .dimension = 0},
                                          .precision = CULM_OP_TO_F32,
                                          .inputs = 3,
                                          .outputs = 1,
                                          .infer = infer,
                                          .gradient = gradient,
                                          .execute = execute};

/* (tokens, dy, wte for its shape) accumulates into wte and wpe */
static void execute_grad(const struct culm_operands *o) {
    const struct culm_shape *dy = &o->value[o->node->input[1]].shape;
    CULM_RUN(o->device, embedding_backward, .dwte = o->use[0], .dwpe = o->use[1],
             .dy = typed_input(o, 1), .tokens = o->input[0], .b = dy->dim[0], .t = dy->dim[1],
             .c = dy->dim[2], .v = o->value[o->node->input[2]].shape.dim[0], .first = o->first);
}

const struct culm_op culm_op_embedding_grad = {
    .name = "embedding_grad", .inputs = 3, .outputs = 0, .execute = execute_grad};
