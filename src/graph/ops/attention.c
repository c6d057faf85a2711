/*
 * attention: (q, k?, v?, mask?) -> out [B,T,C], lse [B,H,T]: softmax(q k^T / sqrt(C / heads)) v,
 * head by head, with dropout on the probabilities; `causal`: a query sees the keys up to its own
 * position. Without k and v, q is qkv [B,T,3C]; else q is [B,T,C], k and v are [B,Tk,C]. mask is
 * i32 [B,Tk]: 0 hides the key.
 */
#include "graph/autodiff.h"
#include "graph/ops/operands.h"

static enum culm_status infer_packed(struct culm_graph *graph, struct culm_node_desc *node,
                                     struct culm_error *error) {
    const struct culm_shape *qkv = culm_input_shape(graph, node, 0);
    int64_t heads = node->attributes.heads;
    if (qkv->rank != 3 || heads < 1 || qkv->dim[2] % (3 * heads) != 0) {
        return culm_shape_error(graph, node, 0, 0,
                                "the width is not a multiple of three times the heads", error);
    }
    return CULM_OK;
}

static enum culm_status infer_separate(struct culm_graph *graph, struct culm_node_desc *node,
                                       struct culm_error *error) {
    const struct culm_shape *q = culm_input_shape(graph, node, 0);
    const struct culm_shape *k = culm_input_shape(graph, node, 1);
    int64_t heads = node->attributes.heads;
    if (!input_is(graph, node, 0, CULM_F32, 3) || !input_is(graph, node, 1, CULM_F32, 3) ||
        !input_is(graph, node, 2, CULM_F32, 3) ||
        !culm_shape_equal(k, culm_input_shape(graph, node, 2)) || q->dim[0] != k->dim[0] ||
        q->dim[2] != k->dim[2]) {
        return culm_shape_error(graph, node, 0, 1, "needs q [B,T,C], and k and v [B,Tk,C]", error);
    }
    if (heads < 1 || q->dim[2] % heads != 0) {
        return culm_shape_error(graph, node, 0, 1, "the width is not a multiple of the heads",
                                error);
    }
    return CULM_OK;
}

static enum culm_status infer(struct culm_graph *graph, struct culm_node_desc *node,
                              struct culm_error *error) {
    bool packed = node->input[1] < 0;
    if (node->input[0] < 0 || (node->input[2] < 0) != packed) {
        return input_error(node, "needs qkv, or q, k and v", error);
    }
    enum culm_status status =
        packed ? infer_packed(graph, node, error) : infer_separate(graph, node, error);
    if (status != CULM_OK) {
        return status;
    }
    struct culm_shape out = *culm_input_shape(graph, node, 0);
    const struct culm_shape *k = culm_input_shape(graph, node, packed ? 0 : 1);
    out.dim[2] /= packed ? 3 : 1;
    if (node->input[3] >= 0 &&
        (!input_is(graph, node, 3, CULM_I32, 2) ||
         !input_has_shape(graph, node, 3, (struct culm_shape){2, {k->dim[0], k->dim[1]}}))) {
        return culm_shape_error(graph, node, packed ? 0 : 1, 3, "the mask is not i32 [B,Tk]",
                                error);
    }
    int64_t heads = node->attributes.heads;
    const struct culm_device_limits *most = &graph->device->limits;
    if (out.dim[2] / heads > most->head || out.dim[1] > most->context ||
        k->dim[1] > most->context) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "operator 'attention': heads of %lld features and %lld keys; at most "
                              "%lld and %lld are possible",
                              (long long)(out.dim[2] / heads), (long long)k->dim[1],
                              (long long)most->head, (long long)most->context);
    }
    const struct culm_shape lse = {3, {out.dim[0], heads, out.dim[1]}};
    culm_output_set(graph, node, 0, graph->value[node->input[0]].dtype, &out);
    culm_output_set(graph, node, 1, CULM_F32, &lse);
    return CULM_OK;
}

static void gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t dy = culm_gradient_of(g, node->output[0]);
    int32_t count = node->input[1] < 0 ? 1 : 3;
    const int32_t inputs[] = {dy,
                              node->input[0],
                              node->input[1],
                              node->input[2],
                              node->input[3],
                              node->output[0],
                              node->output[1]};
    if (dy < 0) {
        return;
    }
    int32_t first =
        culm_gradient_node(g, &culm_op_attention_grad, inputs, 7, node->input, count, NULL, 0);
    for (int32_t i = 0; i < count && first >= 0; i++) {
        if (culm_gradient_wanted(g, node->input[i])) {
            culm_gradient_add(g, node->input[i], first + i);
        }
    }
}

/* q, k, v and the mask are inputs `at`.. of the node. */
static struct culm_attention_rows rows_of(const struct culm_operands *o, int32_t at, int64_t c) {
    if (o->node->input[at + 1] < 0) {
        return culm_attention_packed(typed_input(o, at), c);
    }
    return (struct culm_attention_rows){
        typed_input(o, at), typed_input(o, at + 1), typed_input(o, at + 2), c, c, c};
}

static struct culm_attention how_of(const struct culm_operands *o, int32_t at,
                                    const struct culm_shape *out) {
    int32_t k = o->node->input[at + 1] < 0 ? at : at + 1;
    return (struct culm_attention){.b = out->dim[0],
                                   .tq = out->dim[1],
                                   .tk = operand_shape(o, k)->dim[1],
                                   .c = out->dim[2],
                                   .heads = o->node->attributes.heads,
                                   .causal = o->node->attributes.causal,
                                   .mask = o->input[at + 3],
                                   .dropout = &o->dropout};
}

static void execute(const struct culm_operands *o) {
    const struct culm_shape *out = &o->value[o->node->output[0]].shape;
    struct culm_attention how = how_of(o, 0, out);
    struct culm_attention_rows rows = rows_of(o, 0, out->dim[2]);
    CULM_RUN(o->device, attention_forward, .out = typed_output(o, 0), .lse = o->output[1],
             .in = &rows, .how = &how);
}

/* Scores and weighted values, as if not causal. */
static double products(const struct culm_graph *graph, const struct culm_node_desc *node,
                       int32_t at) {
    const struct culm_shape *q = culm_input_shape(graph, node, at);
    if (node->input[at + 1] < 0) {
        return (double)culm_elements(q) / 3.0 * (double)q->dim[1];
    }
    return (double)culm_elements(q) * (double)culm_input_shape(graph, node, at + 1)->dim[1];
}

static double flops(const struct culm_graph *graph, const struct culm_node_desc *node) {
    return 4.0 * products(graph, node, 0);
}

const struct culm_op culm_op_attention = {.name = "attention",
                                          .precision = CULM_OP_PRODUCT,
                                          .inputs = 4,
                                          .outputs = 2,
                                          .infer = infer,
                                          .gradient = gradient,
                                          .execute = execute,
                                          .flops = flops};

/* (dout, q, k?, v?, mask?, out, lse) -> dq, dk?, dv? */
static void execute_grad(const struct culm_operands *o) {
    const struct culm_shape *out = operand_shape(o, 5);
    int64_t c = out->dim[2];
    struct culm_attention how = how_of(o, 1, out);
    struct culm_attention_rows rows = rows_of(o, 1, c);
    struct culm_attention_grads grads = {
        typed_output(o, 0), typed_output(o, 1), typed_output(o, 2), c, c, c};
    if (o->node->input[2] < 0) {
        grads = culm_attention_packed_grads(typed_output(o, 0), c);
    }
    CULM_RUN(o->device, attention_backward, .grads = &grads, .dout = typed_input(o, 0), .in = &rows,
             .out = typed_input(o, 5), .lse = o->input[6], .how = &how);
}

static double flops_grad(const struct culm_graph *graph, const struct culm_node_desc *node) {
    return 10.0 * products(graph, node, 1);
}

const struct culm_op culm_op_attention_grad = {.name = "attention_grad",
                                               .inputs = 7,
                                               .outputs = 3,
                                               .execute = execute_grad,
                                               .flops = flops_grad};
