/*
 * Rows of tables.
 *
 *     lookup       (ids i32 [..], table [V,C]) -> [..,C]; a negative id gives zeros
 *     positions    (x [B,T,C], wpe [P,C]) -> x + wpe[:T]
 *     gather_rows  (x [B,T,C], index i32 [B,K]) -> [B,K,C]
 */
#include "graph/autodiff.h"
#include "graph/ops/operands.h"

/* --- lookup --- */

static enum culm_status infer_lookup(struct culm_graph *graph, struct culm_node_desc *node,
                                     struct culm_error *error) {
    if (node->input[0] < 0 || graph->value[node->input[0]].dtype != CULM_I32 ||
        !input_is_param(graph, node, 1) || !input_is(graph, node, 1, CULM_F32, 2)) {
        return input_error(node, "needs i32 ids and a parameter [V,C]", error);
    }
    struct culm_shape out = *culm_input_shape(graph, node, 0);
    if (out.rank == CULM_MAX_RANK) {
        return culm_shape_error(graph, node, 0, 1, "ids of too many dimensions", error);
    }
    out.dim[out.rank++] = culm_input_shape(graph, node, 1)->dim[1];
    culm_output_set(graph, node, 0, CULM_F32, &out);
    return CULM_OK;
}

static void gradient_lookup(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t dy = culm_gradient_of(g, node->output[0]);
    const int32_t inputs[] = {node->input[0], dy, node->input[1]};
    if (dy >= 0) {
        culm_gradient_node(g, &culm_op_lookup_grad, inputs, 3, NULL, 0, &node->param_use[1], 1);
    }
}

static void execute_lookup(const struct culm_operands *o) {
    const struct culm_shape *table = operand_shape(o, 1);
    CULM_RUN(o->device, lookup_forward, .y = typed_output(o, 0), .ids = o->input[0],
             .table = typed_input(o, 1), .n = culm_elements(operand_shape(o, 0)),
             .c = table->dim[1], .v = table->dim[0]);
}

const struct culm_op culm_op_lookup = {.name = "lookup",
                                       .chooses = {.index = 0, .from = 1, .dimension = 0},
                                       .precision = CULM_OP_TO_F32,
                                       .inputs = 2,
                                       .outputs = 1,
                                       .infer = infer_lookup,
                                       .gradient = gradient_lookup,
                                       .execute = execute_lookup};

/* (ids, dy, table for its shape) accumulates into the table */
static void execute_lookup_grad(const struct culm_operands *o) {
    const struct culm_shape *table = operand_shape(o, 2);
    CULM_RUN(o->device, lookup_backward, .dtable = o->use[0], .dy = typed_input(o, 1),
             .ids = o->input[0], .n = culm_elements(operand_shape(o, 0)), .c = table->dim[1],
             .v = table->dim[0], .first = o->first);
}

const struct culm_op culm_op_lookup_grad = {
    .name = "lookup_grad", .inputs = 3, .outputs = 0, .execute = execute_lookup_grad};

/* --- positions --- */

static enum culm_status infer_positions(struct culm_graph *graph, struct culm_node_desc *node,
                                        struct culm_error *error) {
    if (!input_is(graph, node, 0, CULM_F32, 3) || !input_is_param(graph, node, 1) ||
        !input_is(graph, node, 1, CULM_F32, 2)) {
        return input_error(node, "needs x [B,T,C] and a parameter [P,C]", error);
    }
    const struct culm_shape x = *culm_input_shape(graph, node, 0);
    const struct culm_shape *wpe = culm_input_shape(graph, node, 1);
    if (x.dim[2] != wpe->dim[1]) {
        return culm_shape_error(graph, node, 0, 1, "the widths differ", error);
    }
    if (x.dim[1] > wpe->dim[0]) {
        return culm_shape_error(graph, node, 0, 1, "more positions than the table has", error);
    }
    culm_output_set(graph, node, 0, graph->value[node->input[0]].dtype, &x);
    return CULM_OK;
}

static void gradient_positions(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t dy = culm_gradient_of(g, node->output[0]);
    const int32_t inputs[] = {dy, node->input[1]};
    if (dy < 0) {
        return;
    }
    culm_gradient_node(g, &culm_op_positions_grad, inputs, 2, NULL, 0, &node->param_use[1], 1);
    if (culm_gradient_wanted(g, node->input[0])) {
        culm_gradient_add(g, node->input[0], dy);
    }
}

static void execute_positions(const struct culm_operands *o) {
    const struct culm_shape *x = operand_shape(o, 0);
    CULM_RUN(o->device, positions_forward, .y = typed_output(o, 0), .x = typed_input(o, 0),
             .wpe = typed_input(o, 1), .b = x->dim[0], .t = x->dim[1], .c = x->dim[2]);
}

const struct culm_op culm_op_positions = {.name = "positions",
                                          .precision = CULM_OP_TO_F32,
                                          .inputs = 2,
                                          .outputs = 1,
                                          .infer = infer_positions,
                                          .gradient = gradient_positions,
                                          .execute = execute_positions};

/* (dy, wpe for its shape) accumulates into wpe */
static void execute_positions_grad(const struct culm_operands *o) {
    const struct culm_shape *dy = operand_shape(o, 0);
    CULM_RUN(o->device, positions_backward, .dwpe = o->use[0], .dy = typed_input(o, 0),
             .b = dy->dim[0], .t = dy->dim[1], .c = dy->dim[2], .p = operand_shape(o, 1)->dim[0],
             .first = o->first);
}

const struct culm_op culm_op_positions_grad = {
    .name = "positions_grad", .inputs = 2, .outputs = 0, .execute = execute_positions_grad};

/* --- gather_rows --- */

static enum culm_status infer_gather(struct culm_graph *graph, struct culm_node_desc *node,
                                     struct culm_error *error) {
    if (!input_is(graph, node, 0, CULM_F32, 3) || !input_is(graph, node, 1, CULM_I32, 2)) {
        return input_error(node, "needs x [B,T,C] and an i32 index [B,K]", error);
    }
    struct culm_shape out = *culm_input_shape(graph, node, 0);
    const struct culm_shape *index = culm_input_shape(graph, node, 1);
    if (out.dim[0] != index->dim[0] || index->dim[1] > graph->device->limits.context) {
        return culm_shape_error(graph, node, 0, 1, "one row of indices a sample is needed", error);
    }
    out.dim[1] = index->dim[1];
    culm_output_set(graph, node, 0, graph->value[node->input[0]].dtype, &out);
    return CULM_OK;
}

static void gradient_gather(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t x = node->input[0];
    int32_t dy = culm_gradient_of(g, node->output[0]);
    const int32_t inputs[] = {dy, node->input[1]};
    if (dy >= 0 && culm_gradient_wanted(g, x)) {
        culm_gradient_add(
            g, x, culm_gradient_node(g, &culm_op_gather_rows_grad, inputs, 2, &x, 1, NULL, 0));
    }
}

static void execute_gather(const struct culm_operands *o) {
    const struct culm_shape *x = operand_shape(o, 0);
    CULM_RUN(o->device, gather_rows_forward, .y = typed_output(o, 0), .x = typed_input(o, 0),
             .index = o->input[1], .b = x->dim[0], .t = x->dim[1], .k = operand_shape(o, 1)->dim[1],
             .c = x->dim[2]);
}

const struct culm_op culm_op_gather_rows = {.name = "gather_rows",
                                            .chooses = {.index = 1, .from = 0, .dimension = 1},
                                            .precision = CULM_OP_FOLLOWS,
                                            .inputs = 2,
                                            .outputs = 1,
                                            .infer = infer_gather,
                                            .gradient = gradient_gather,
                                            .execute = execute_gather};

/* (dy, index) -> dx */
static void execute_gather_grad(const struct culm_operands *o) {
    const struct culm_shape *dx = &o->value[o->node->output[0]].shape;
    CULM_RUN(o->device, gather_rows_backward, .dx = typed_output(o, 0), .dy = typed_input(o, 0),
             .index = o->input[1], .b = dx->dim[0], .t = dx->dim[1],
             .k = operand_shape(o, 1)->dim[1], .c = dx->dim[2]);
}

const struct culm_op culm_op_gather_rows_grad = {
    .name = "gather_rows_grad", .inputs = 2, .outputs = 1, .execute = execute_gather_grad};
