/*
 * lstm: (x [B,T,I], w_ih [4H,I], w_hh [4H,H], b_ih?, b_hh? [4H], h0?, c0? [B,H], length? i32 [B,1])
 * -> y [B,T,H], gates [B,T,4H], cells [B,T,H], work. PyTorch's gates i f g o; `reverse` goes from
 * the last step to the first. Past a sample's length y is zero, and in reverse a sample starts at
 * its last step. Gates and cells are for backward; work is scratch of one pass.
 */
#include "graph/ops/operands.h"

enum { X, W_IH, W_HH, B_IH, B_HH, H0, C0, LENGTH, INPUTS };

static enum culm_status infer_weights(struct culm_graph *graph, struct culm_node_desc *node,
                                      struct culm_error *error) {
    if (!input_is(graph, node, X, CULM_F32, 3) || !input_is_param(graph, node, W_IH) ||
        !input_is(graph, node, W_IH, CULM_F32, 2) || !input_is_param(graph, node, W_HH) ||
        !input_is(graph, node, W_HH, CULM_F32, 2)) {
        return input_error(node, "needs x [B,T,I] and parameters w_ih [4H,I], w_hh [4H,H]", error);
    }
    const struct culm_shape *x = culm_input_shape(graph, node, X);
    const struct culm_shape *w_ih = culm_input_shape(graph, node, W_IH);
    const struct culm_shape *w_hh = culm_input_shape(graph, node, W_HH);
    if (w_ih->dim[1] != x->dim[2]) {
        return culm_shape_error(graph, node, X, W_IH, "the inner dimensions differ", error);
    }
    if (w_hh->dim[0] != 4 * w_hh->dim[1] || w_ih->dim[0] != w_hh->dim[0]) {
        return culm_shape_error(graph, node, W_IH, W_HH, "not the weights of four gates", error);
    }
    for (int32_t i = B_IH; i <= B_HH; i++) {
        if (node->input[i] >= 0 &&
            (!input_is_param(graph, node, i) ||
             !input_has_shape(graph, node, i, (struct culm_shape){1, {w_hh->dim[0]}}))) {
            return culm_shape_error(graph, node, W_HH, i, "a bias has another width", error);
        }
    }
    return CULM_OK;
}

static struct culm_lstm how_of(const struct culm_shape *x, const struct culm_shape *w_hh) {
    return (struct culm_lstm){.b = x->dim[0], .t = x->dim[1], .i = x->dim[2], .h = w_hh->dim[1]};
}

static enum culm_status infer(struct culm_graph *graph, struct culm_node_desc *node,
                              struct culm_error *error) {
    enum culm_status status = infer_weights(graph, node, error);
    if (status != CULM_OK) {
        return status;
    }
    struct culm_lstm how =
        how_of(culm_input_shape(graph, node, X), culm_input_shape(graph, node, W_HH));
    const struct culm_shape state = {2, {how.b, how.h}};
    if ((node->input[H0] < 0) != (node->input[C0] < 0)) {
        return input_error(node, "h0 and c0 come together", error);
    }
    for (int32_t i = H0; i <= C0; i++) {
        if (node->input[i] >= 0 &&
            (!input_is(graph, node, i, CULM_F32, 2) || !input_has_shape(graph, node, i, state))) {
            return culm_shape_error(graph, node, X, i, "the first state is not [B,H]", error);
        }
    }
    if (node->input[LENGTH] >= 0 &&
        (graph->value[node->input[LENGTH]].dtype != CULM_I32 ||
         culm_elements(culm_input_shape(graph, node, LENGTH)) != how.b)) {
        return culm_shape_error(graph, node, X, LENGTH, "one i32 length a sample is needed", error);
    }
    const struct culm_device_limits *most = &graph->device->limits;
    if (how.b > most->lstm_batch || how.h > most->width / 4 || how.i > most->width) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "operator 'lstm': %lld samples, %lld inputs and %lld units; at most "
                              "%lld, %lld and %lld are possible",
                              (long long)how.b, (long long)how.i, (long long)how.h,
                              (long long)most->lstm_batch, (long long)most->width,
                              (long long)(most->width / 4));
    }
    const struct culm_shape y = {3, {how.b, how.t, how.h}}, gates = {3, {how.b, how.t, 4 * how.h}};
    const struct culm_shape work = {1, {graph->device->lstm_forward_floats(&how)}};
    culm_output_set(graph, node, 0, typed_dtype(graph, node, X), &y);
    culm_output_set(graph, node, 1, CULM_F32, &gates);
    culm_output_set(graph, node, 2, CULM_F32, &y);
    culm_output_set(graph, node, 3, CULM_F32, &work);
    return CULM_OK;
}

/* (dy, y, gates, cells, then the inputs) -> dx, work, dh0?, dc0? */
enum { DY = INPUTS, Y, GATES, CELLS, GRAD_INPUTS };

static void gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t dy = culm_gradient_of(g, node->output[0]);
    if (dy < 0) {
        return;
    }
    struct culm_lstm how =
        how_of(&g->graph->value[node->input[X]].shape, &g->graph->value[node->input[W_HH]].shape);
    const struct culm_shape floats = {1, {g->graph->device->lstm_backward_floats(&how)}};
    int32_t work = culm_graph_value(g->graph, CULM_VALUE_TEMPORARY, CULM_F32, &floats);
    int32_t inputs[GRAD_INPUTS];
    for (int32_t i = 0; i < INPUTS; i++) {
        inputs[i] = node->input[i];
    }
    inputs[DY] = dy;
    inputs[Y] = node->output[0];
    inputs[GATES] = node->output[1];
    inputs[CELLS] = node->output[2];
    const int32_t like[] = {node->input[X], work, node->input[H0], node->input[C0]};
    if (work < 0) {
        return;
    }
    int32_t dx = culm_gradient_node(g, &culm_op_lstm_grad, inputs, GRAD_INPUTS, like,
                                    node->input[H0] < 0 ? 2 : 4, &node->param_use[W_IH], 4);
    if (dx < 0) {
        return;
    }
    const int32_t to[] = {X, H0, C0}, from[] = {dx, dx + 2, dx + 3};
    for (int32_t i = 0; i < (node->input[H0] < 0 ? 1 : 3); i++) {
        if (typed_wanted(g, node, to[i])) {
            typed_give(g, node, to[i], from[i]);
        }
    }
}

static struct culm_lstm how_of_operands(const struct culm_operands *o) {
    struct culm_lstm how = how_of(operand_shape(o, X), operand_shape(o, W_HH));
    how.reverse = o->node->attributes.reverse;
    how.length = o->input[LENGTH];
    return how;
}

static struct culm_lstm_params params_of(const struct culm_operands *o) {
    return (struct culm_lstm_params){.w_ih = o->input[W_IH],
                                     .w_hh = o->input[W_HH],
                                     .b_ih = o->input[B_IH],
                                     .b_hh = o->input[B_HH],
                                     .h0 = typed_input(o, H0),
                                     .c0 = typed_input(o, C0)};
}

static void execute(const struct culm_operands *o) {
    struct culm_lstm how = how_of_operands(o);
    struct culm_lstm_params params = params_of(o);
    CULM_RUN(o->device, lstm_forward, .y = typed_output(o, 0), .gates = o->output[1],
             .cells = o->output[2], .work = o->output[3], .x = typed_input(o, X), .params = &params,
             .how = &how);
}

static double products(const struct culm_graph *graph, const struct culm_node_desc *node) {
    const struct culm_shape *x = culm_input_shape(graph, node, X);
    return 2.0 * (double)x->dim[0] * (double)x->dim[1] *
           (double)(culm_elements(culm_input_shape(graph, node, W_IH)) +
                    culm_elements(culm_input_shape(graph, node, W_HH)));
}

const struct culm_op culm_op_lstm = {.name = "lstm",
                                     .precision = CULM_OP_PRODUCT,
                                     .inputs = INPUTS,
                                     .outputs = 4,
                                     .infer = infer,
                                     .gradient = gradient,
                                     .execute = execute,
                                     .flops = products};

static void execute_grad(const struct culm_operands *o) {
    struct culm_lstm how = how_of_operands(o);
    struct culm_lstm_params params = params_of(o);
    const struct culm_lstm_grads grads = {.dw_ih = o->use[0],
                                          .dw_hh = o->use[1],
                                          .db_ih = o->use[2],
                                          .db_hh = o->use[3],
                                          .dx = typed_output(o, 0),
                                          .dh0 = typed_output(o, 2),
                                          .dc0 = typed_output(o, 3)};
    CULM_RUN(o->device, lstm_backward, .grads = &grads, .work = o->output[1],
             .dy = typed_input(o, DY), .x = typed_input(o, X), .y = typed_input(o, Y),
             .gates = o->input[GATES], .cells = o->input[CELLS], .params = &params, .how = &how,
             .first = o->first);
}

static double products_grad(const struct culm_graph *graph, const struct culm_node_desc *node) {
    return 2 * products(graph, node);
}

const struct culm_op culm_op_lstm_grad = {.name = "lstm_grad",
                                          .inputs = GRAD_INPUTS,
                                          .outputs = 4,
                                          .execute = execute_grad,
                                          .flops = products_grad};
