/*
 * cross_entropy: (logits [B,T,V], targets [B,T]) -> dlogits [B,T,V], in place of the logits.
 *
 * The loss is a number of the run, not a value; its gradient is formed at once, scaled by 1/(tokens
 * of the global batch), so the walk backwards begins here and the logits need not be kept.
 */
#include "graph/autodiff.h"

static enum culm_status infer(struct culm_graph *graph, struct culm_node_desc *node,
                              struct culm_error *error) {
    const struct culm_shape logits = *culm_input_shape(graph, node, 0);
    const struct culm_shape *targets = culm_input_shape(graph, node, 1);
    if (culm_row_count(&logits) != culm_elements(targets)) {
        return culm_shape_error(graph, node, 0, 1, "one target a row is needed", error);
    }
    culm_output_set(graph, node, 0, CULM_F32, &logits);
    if (node->output[0] >= 0) {
        graph->value[node->output[0]].same_as = node->input[0];
    }
    return CULM_OK;
}

static void gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    culm_gradient_add(g, node->input[0], node->output[0]);
}

static void execute(const struct culm_operands *o) {
    const struct culm_shape *logits = &o->value[o->node->input[0]].shape;
    culm_cpu_cross_entropy(o->cpu, o->input[0], o->input[1], culm_row_count(logits),
                           culm_last_dim(logits), (double)o->loss_scale, true, o->loss);
}

const struct culm_op culm_op_cross_entropy = {.name = "cross_entropy",
                                              .inputs = 2,
                                              .outputs = 1,
                                              .infer = infer,
                                              .gradient = gradient,
                                              .execute = execute};
