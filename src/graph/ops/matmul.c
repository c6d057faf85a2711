/*
 * matmul: (a [..,M,K], b [..,K,N]) -> scale a b [..,M,N]; with trans_a a is [..,K,M], with trans_b
 * b is [..,N,K]. b may also be one matrix for all, unless a is transposed. A scale of 0 counts
 * as 1.
 */
#include "graph/ops/operands.h"

static struct culm_matmul how_of(const struct culm_shape *a, const struct culm_shape *b,
                                 const struct culm_attributes *attributes) {
    const int64_t *rows = &a->dim[a->rank - 2], *columns = &b->dim[b->rank - 2];
    struct culm_matmul how = {.batch = 1,
                              .m = rows[attributes->trans_a],
                              .k = rows[!attributes->trans_a],
                              .n = columns[!attributes->trans_b],
                              .trans_a = attributes->trans_a,
                              .trans_b = attributes->trans_b,
                              .scale = attributes->scale != 0 ? attributes->scale : 1};
    for (int i = 0; i + 2 < a->rank; i++) {
        how.batch *= a->dim[i];
    }
    if (b->rank == 2) { /* one product of all rows */
        how.m *= how.batch;
        how.batch = 1;
    }
    return how;
}

static enum culm_status infer(struct culm_graph *graph, struct culm_node_desc *node,
                              struct culm_error *error) {
    const struct culm_shape a = *culm_input_shape(graph, node, 0);
    const struct culm_shape b = *culm_input_shape(graph, node, 1);
    const struct culm_attributes *at = &node->attributes;
    if (a.rank < 2 || b.rank < 2 || typed_dtype(graph, node, 0) == CULM_I32 ||
        typed_dtype(graph, node, 1) == CULM_I32) {
        return culm_shape_error(graph, node, 0, 1, "matrices of numbers are needed", error);
    }
    bool shared = b.rank == 2 && !(at->trans_a && a.rank > 2), same = a.rank == b.rank;
    for (int i = 0; i + 2 < a.rank && same; i++) {
        same = a.dim[i] == b.dim[i];
    }
    if (!shared && !same) {
        return culm_shape_error(graph, node, 0, 1, "the batches differ", error);
    }
    if (a.dim[a.rank - 2 + !at->trans_a] != b.dim[b.rank - 2 + at->trans_b]) {
        return culm_shape_error(graph, node, 0, 1, "the inner dimensions differ", error);
    }
    struct culm_shape y = a;
    y.dim[y.rank - 2] = a.dim[a.rank - 2 + at->trans_a];
    y.dim[y.rank - 1] = b.dim[b.rank - 2 + !at->trans_b];
    culm_output_set(graph, node, 0, typed_dtype(graph, node, 0), &y);
    return CULM_OK;
}

static void gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t dy = culm_gradient_of(g, node->output[0]), a = node->input[0], b = node->input[1];
    if (dy < 0) {
        return;
    }
    if (typed_wanted(g, node, 1)) {
        const int32_t inputs[] = {dy, a};
        typed_give(g, node, 1,
                   culm_gradient_node(g, &culm_op_matmul_grad_b, inputs, 2, &b, 1, NULL, 0));
    }
    if (typed_wanted(g, node, 0)) {
        const int32_t inputs[] = {dy, b};
        typed_give(g, node, 0,
                   culm_gradient_node(g, &culm_op_matmul_grad_a, inputs, 2, &a, 1, NULL, 0));
    }
}

static void execute(const struct culm_operands *o) {
    const struct culm_matmul how = how_of(typed_shape(o, o->node->input[0]),
                                          typed_shape(o, o->node->input[1]), &o->node->attributes);
    CULM_RUN(o->device, matmul, .c = typed_output(o, 0), .a = typed_input(o, 0),
             .b = typed_input(o, 1), .how = &how);
}

static double flops_of(const struct culm_shape *a, const struct culm_shape *b,
                       const struct culm_attributes *attributes) {
    const struct culm_matmul how = how_of(a, b, attributes);
    return 2.0 * (double)(how.batch * how.m) * (double)how.n * (double)how.k;
}

static double flops(const struct culm_graph *graph, const struct culm_node_desc *node) {
    return flops_of(culm_input_shape(graph, node, 0), culm_input_shape(graph, node, 1),
                    &node->attributes);
}

const struct culm_op culm_op_matmul = {.name = "matmul",
                                       .precision = CULM_OP_PRODUCT,
                                       .inputs = 2,
                                       .outputs = 1,
                                       .infer = infer,
                                       .gradient = gradient,
                                       .execute = execute,
                                       .flops = flops};

/* (dy, b) -> da */
static void execute_a(const struct culm_operands *o) {
    const struct culm_matmul forward =
        how_of(typed_shape(o, o->node->output[0]), typed_shape(o, o->node->input[1]),
               &o->node->attributes);
    const struct culm_matmul how = culm_matmul_of_a(&forward);
    bool turned = forward.trans_a;
    CULM_RUN(o->device, matmul, .c = typed_output(o, 0), .a = typed_input(o, turned ? 1 : 0),
             .b = typed_input(o, turned ? 0 : 1), .how = &how);
}

static double flops_a(const struct culm_graph *graph, const struct culm_node_desc *node) {
    return flops_of(&graph->value[node->output[0]].shape, culm_input_shape(graph, node, 1),
                    &node->attributes);
}

const struct culm_op culm_op_matmul_grad_a = {
    .name = "matmul_grad_a", .inputs = 2, .outputs = 1, .execute = execute_a, .flops = flops_a};

/* (dy, a) -> db */
static void execute_b(const struct culm_operands *o) {
    const struct culm_matmul forward =
        how_of(typed_shape(o, o->node->input[1]), typed_shape(o, o->node->output[0]),
               &o->node->attributes);
    const struct culm_matmul how = culm_matmul_of_b(&forward);
    bool turned = forward.trans_b;
    CULM_RUN(o->device, matmul, .c = typed_output(o, 0), .a = typed_input(o, turned ? 0 : 1),
             .b = typed_input(o, turned ? 1 : 0), .how = &how);
}

static double flops_b(const struct culm_graph *graph, const struct culm_node_desc *node) {
    return flops_of(culm_input_shape(graph, node, 1), &graph->value[node->output[0]].shape,
                    &node->attributes);
}

const struct culm_op culm_op_matmul_grad_b = {
    .name = "matmul_grad_b", .inputs = 2, .outputs = 1, .execute = execute_b, .flops = flops_b};
