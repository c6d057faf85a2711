/*
 * cross_entropy: (logits [..,V], targets [..]) -> dlogits [..,V], in place of the logits, with
 * `smoothing` of labels; rows with a negative target do not count.
 *
 * The loss is a number of the run, not a value; its gradient is formed at once, scaled by 1/(rows
 * of the global batch), so the walk backwards begins here and the logits need not be kept.
 * With `loss_only` the logits stay, no gradient is formed, and backward must not run. `function` is
 * what the model makes of the logits elsewhere (struct culm_output, end); the loss does not need it.
 */
#include "graph/autodiff.h"

static enum culm_status infer(struct culm_graph *graph, struct culm_node_desc *node,
                              struct culm_error *error) {
    const struct culm_shape logits = *culm_input_shape(graph, node, 0);
    const struct culm_shape *targets = culm_input_shape(graph, node, 1);
    if (culm_row_count(&logits) != culm_elements(targets)) {
        return culm_shape_error(graph, node, 0, 1, "one target a row is needed", error);
    }
    if (!(node->attributes.smoothing >= 0 && node->attributes.smoothing < 1)) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "operator 'cross_entropy': label smoothing %g is not in [0, 1)",
                              node->attributes.smoothing);
    }
    culm_output_set(graph, node, 0, graph->value[node->input[0]].dtype, &logits);
    if (node->output[0] >= 0) {
        graph->value[node->output[0]].same_as = node->input[0];
    }
    return CULM_OK;
}

static void gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    culm_gradient_add(g, node->input[0], node->output[0]);
}

static void execute(const struct culm_operands *o) {
    const struct culm_value *logits = &o->value[o->node->input[0]];
    struct culm_loss loss;
    int64_t rows = culm_row_count(&logits->shape);
    double rows_per_sample = (double)(rows / logits->shape.dim[0]);
    CULM_RUN(o->device, cross_entropy, .logits = (struct culm_out){o->input[0], logits->dtype},
             .targets = o->input[1], .n = rows, .v = culm_last_dim(&logits->shape),
             .scale = o->loss_scale / rows_per_sample, .smoothing = o->node->attributes.smoothing,
             .want_gradient = !o->node->attributes.loss_only, .ret_loss = &loss);
    o->loss->loss += loss.loss / rows_per_sample;
    o->loss->rows += rows;
    o->loss->counted += loss.counted;
    o->loss->correct += loss.correct;
}

const struct culm_op culm_op_cross_entropy = {.name = "cross_entropy",
                                              .is_loss = true,
                                              .chooses = {.index = 1, .from = 0, .dimension = -1},
                                              .precision = CULM_OP_FOLLOWS,
                                              .inputs = 2,
                                              .outputs = 1,
                                              .infer = infer,
                                              .gradient = gradient,
                                              .execute = execute};
