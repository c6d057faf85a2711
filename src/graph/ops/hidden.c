/*
 * heads: t [n,C] -> y [n,C+2H] = dropout(t), <t, a> of each head, <t, b> of each head.
 * hidden: x [n,W] -> y [n,C] = dropout(function(x[:,:C] + bias)), C the attribute `length`.
 *
 * What a layer of a graph network does to a row on either side of a gather, each as one operator: every
 * pass over all rows that is saved counts there. What dropout keeps is an output too, a bit for each
 * element, so that backward need not draw it again.
 */
#include "graph/ops/operands.h"

static enum culm_status check_dropout(const struct culm_node_desc *node, struct culm_error *error) {
    double p = node->attributes.dropout;
    return p >= 0 && p < 1
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_CONFIG,
                                "operator '%s': dropout %g is not in [0, 1)", node->op->name, p);
}

/* Bits of [n,c], as output i. */
static void set_kept(struct culm_graph *graph, struct culm_node_desc *node, int32_t i, int64_t n,
                     int64_t c) {
    if (node->attributes.dropout > 0) {
        culm_output_set(graph, node, i, CULM_I32, &(struct culm_shape){2, {n, (c + 31) / 32}});
    }
}

static const struct culm_dropout *dropout_of(const struct culm_operands *o) {
    return o->dropout.p > 0 ? &o->dropout : NULL;
}

/* --- heads --- */

static enum culm_status heads_infer(struct culm_graph *graph, struct culm_node_desc *node,
                                    struct culm_error *error) {
    if (!input_is(graph, node, 0, CULM_F32, 2) || !input_is_param(graph, node, 1) ||
        !input_is_param(graph, node, 2) || !input_is(graph, node, 1, CULM_F32, 3) ||
        !culm_shape_equal(culm_input_shape(graph, node, 1), culm_input_shape(graph, node, 2))) {
        return input_error(node, "needs rows [n,C] and two parameters [1,H,C/H]", error);
    }
    const struct culm_shape t = *culm_input_shape(graph, node, 0);
    const struct culm_shape *a = culm_input_shape(graph, node, 1);
    if (a->dim[0] != 1 || a->dim[1] * a->dim[2] != t.dim[1]) {
        return culm_shape_error(graph, node, 0, 1, "heads do not share out the columns", error);
    }
    if (a->dim[1] > CULM_EDGE_HEADS_MAX) {
        return culm_shape_error(graph, node, 0, 1, "there are too many heads", error);
    }
    culm_output_set(graph, node, 0, typed_dtype(graph, node, 0),
                    &(struct culm_shape){2, {t.dim[0], t.dim[1] + 2 * a->dim[1]}});
    set_kept(graph, node, 1, t.dim[0], t.dim[1]);
    return check_dropout(node, error);
}

static void heads_gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t dy = culm_gradient_of(g, node->output[0]);
    const int32_t inputs[] = {node->input[0], node->input[1], node->input[2], dy, node->output[1]};
    const int32_t uses[] = {node->param_use[1], node->param_use[2]};
    if (dy >= 0) {
        typed_give(g, node, 0,
                   culm_gradient_node(g, &culm_op_heads_grad, inputs, 5, node->input, 1, uses, 2));
    }
}

static void heads(const struct culm_operands *o) {
    const struct culm_shape *t = operand_shape(o, 0);
    CULM_RUN(o->device, heads_forward, .y = typed_output(o, 0), .t = typed_input(o, 0),
             .a = o->input[1], .b = o->input[2], .n = t->dim[0], .c = t->dim[1],
             .heads = operand_shape(o, 1)->dim[1], .dropout = dropout_of(o), .kept = o->output[1]);
}

const struct culm_op culm_op_heads = {.name = "heads",
                                      .precision = CULM_OP_ONLY_F32,
                                      .inputs = 3,
                                      .outputs = 2,
                                      .infer = heads_infer,
                                      .gradient = heads_gradient,
                                      .execute = heads};

/* (t, a, b, dy, kept or nothing) -> dt; accumulates into a and b */
static void heads_grad(const struct culm_operands *o) {
    const struct culm_shape *t = operand_shape(o, 0);
    CULM_RUN(o->device, heads_backward, .dt = typed_output(o, 0), .da = o->use[0], .db = o->use[1],
             .dy = typed_input(o, 3), .t = typed_input(o, 0), .a = o->input[1], .b = o->input[2],
             .kept = o->input[4], .n = t->dim[0], .c = t->dim[1],
             .heads = operand_shape(o, 1)->dim[1], .p = o->dropout.p, .first = o->first);
}

const struct culm_op culm_op_heads_grad = {
    .name = "heads_grad", .inputs = 5, .outputs = 1, .execute = heads_grad};

/* --- hidden --- */

static enum culm_status hidden_infer(struct culm_graph *graph, struct culm_node_desc *node,
                                     struct culm_error *error) {
    const struct culm_attributes *a = &node->attributes;
    bool biased = node->input[1] >= 0;
    if (!input_is(graph, node, 0, CULM_F32, 2) || (biased && !input_is_param(graph, node, 1))) {
        return input_error(node, "needs rows [n,W], and a bias that is a parameter", error);
    }
    const struct culm_shape x = *culm_input_shape(graph, node, 0);
    if (a->length < 1 || a->length > x.dim[1]) {
        return input_error(node, "there are not that many columns", error);
    }
    if (biased && !input_has_shape(graph, node, 1, (struct culm_shape){1, {a->length}})) {
        return culm_shape_error(graph, node, 0, 1, "the bias has another length", error);
    }
    if (a->function > CULM_FUNCTION_RECIPROCAL) {
        return input_error(node, "the function takes more than one value", error);
    }
    const struct culm_shape y = {2, {x.dim[0], a->length}};
    culm_output_set(graph, node, 0, typed_dtype(graph, node, 0), &y);
    if (!a->inference) {
        culm_output_set(graph, node, 1, typed_dtype(graph, node, 0), &y);
    }
    set_kept(graph, node, 2, x.dim[0], a->length);
    return check_dropout(node, error);
}

static void hidden_gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t dy = culm_gradient_of(g, node->output[0]);
    const int32_t inputs[] = {dy, node->output[1], node->output[2]};
    if (dy >= 0) {
        typed_give(g, node, 0,
                   culm_gradient_node(g, &culm_op_hidden_grad, inputs, 3, node->input, 1,
                                      &node->param_use[1], node->input[1] >= 0));
    }
}

static void hidden(const struct culm_operands *o) {
    const struct culm_shape *x = operand_shape(o, 0);
    CULM_RUN(o->device, hidden_forward, .y = typed_output(o, 0), .saved = typed_output(o, 1),
             .x = typed_input(o, 0), .bias = o->input[1], .n = x->dim[0],
             .c = o->node->attributes.length, .ldx = x->dim[1],
             .function = o->node->attributes.function, .alpha = o->node->attributes.alpha,
             .dropout = dropout_of(o), .kept = o->output[2]);
}

const struct culm_op culm_op_hidden = {.name = "hidden",
                                       .precision = CULM_OP_ONLY_F32,
                                       .inputs = 2,
                                       .outputs = 3,
                                       .infer = hidden_infer,
                                       .gradient = hidden_gradient,
                                       .execute = hidden};

/* (dy, what was saved, kept or nothing) -> dx; accumulates into the bias */
static void hidden_grad(const struct culm_operands *o) {
    const struct culm_shape *x = typed_shape(o, o->node->output[0]);
    CULM_RUN(o->device, hidden_backward, .dx = typed_output(o, 0), .dbias = o->use[0],
             .dy = typed_input(o, 0), .saved = typed_input(o, 1), .kept = o->input[2],
             .n = x->dim[0], .c = o->node->attributes.length, .ldx = x->dim[1],
             .function = o->node->attributes.function, .alpha = o->node->attributes.alpha,
             .p = o->dropout.p, .first = o->first);
}

const struct culm_op culm_op_hidden_grad = {
    .name = "hidden_grad", .inputs = 3, .outputs = 1, .execute = hidden_grad};
