/* attention: (qkv [B,T,3C]) -> out [B,T,C], lse [B,H,T]: causal, with dropout on the probabilities.
 */
#include "graph/autodiff.h"

static enum culm_status infer(struct culm_graph *graph, struct culm_node_desc *node,
                              struct culm_error *error) {
    const struct culm_shape qkv = *culm_input_shape(graph, node, 0);
    int64_t heads = node->attributes.heads;
    if (qkv.rank != 3 || heads < 1 || qkv.dim[2] % (3 * heads) != 0) {
        return culm_shape_error(graph, node, 0, 0,
                                "the width is no multiple of three times the heads", error);
    }
    const struct culm_shape out = {3, {qkv.dim[0], qkv.dim[1], qkv.dim[2] / 3}};
    const struct culm_shape lse = {3, {qkv.dim[0], heads, qkv.dim[1]}};
    culm_output_set(graph, node, 0, CULM_F32, &out);
    culm_output_set(graph, node, 1, CULM_F32, &lse);
    return CULM_OK;
}

static void gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t qkv = node->input[0];
    int32_t dy = culm_gradient_of(g, node->output[0]);
    const int32_t inputs[] = {dy, qkv, node->output[0], node->output[1]};
    if (dy >= 0) {
        culm_gradient_add(
            g, qkv, culm_gradient_node(g, &culm_op_attention_grad, inputs, 4, &qkv, 1, NULL, 0));
    }
}

static void execute(const struct culm_operands *o) {
    const struct culm_shape *out = &o->value[o->node->output[0]].shape;
    culm_cpu_attention_forward(o->cpu, o->output[0], o->output[1], o->input[0], out->dim[0],
                               out->dim[1], out->dim[2], o->node->attributes.heads, &o->dropout);
}

/* Scores and weighted values, as if not causal. */
static double flops(const struct culm_graph *graph, const struct culm_node_desc *node) {
    const struct culm_shape *qkv = culm_input_shape(graph, node, 0);
    return 4.0 * (double)culm_elements(qkv) / 3.0 * (double)qkv->dim[1];
}

const struct culm_op culm_op_attention = {.name = "attention",
                                          .inputs = 1,
                                          .outputs = 2,
                                          .infer = infer,
                                          .gradient = gradient,
                                          .execute = execute,
                                          .flops = flops};

/* (dout, qkv, out, lse) -> dqkv */
static void execute_grad(const struct culm_operands *o) {
    const struct culm_shape *out = &o->value[o->node->input[2]].shape;
    culm_cpu_attention_backward(o->cpu, o->output[0], o->input[0], o->input[1], o->input[2],
                                o->input[3], out->dim[0], out->dim[1], out->dim[2],
                                o->node->attributes.heads, &o->dropout);
}

static double flops_grad(const struct culm_graph *graph, const struct culm_node_desc *node) {
    const struct culm_shape *qkv = culm_input_shape(graph, node, 1);
    return 10.0 * (double)culm_elements(qkv) / 3.0 * (double)qkv->dim[1];
}

const struct culm_op culm_op_attention_grad = {.name = "attention_grad",
                                               .inputs = 4,
                                               .outputs = 1,
                                               .execute = execute_grad,
                                               .flops = flops_grad};
