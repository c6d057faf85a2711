/*
 * batchnorm: (x [..,C], gamma, beta, running_mean, running_var, residual or nothing) -> y, mean
 * [C], variance [C].
 *
 * In training, the running statistics are not read: backward leaves the batch's in their uses, and
 * the step blends them in. With `inference` they are what x is normalised with.
 */
#include "graph/ops/operands.h"

#include <stdio.h>

static struct culm_batchnorm how_of(const struct culm_shape *x,
                                    const struct culm_attributes *attributes) {
    return (struct culm_batchnorm){.n = culm_row_count(x),
                                   .c = culm_last_dim(x),
                                   .eps = attributes->eps,
                                   .function = attributes->function,
                                   .alpha = attributes->alpha,
                                   .inference = attributes->inference};
}

static enum culm_status infer(struct culm_graph *graph, struct culm_node_desc *node,
                              struct culm_error *error) {
    const struct culm_shape x = *culm_input_shape(graph, node, 0);
    const struct culm_attributes *a = &node->attributes;
    int64_t most = graph->device->limits.width;
    if (x.rank < 2 || culm_last_dim(&x) > most) {
        char what[64];
        snprintf(what, sizeof what, "one to %lld channels, last, are needed", (long long)most);
        return culm_shape_error(graph, node, 0, 1, what, error);
    }
    for (int32_t i = 1; i <= 4; i++) {
        const struct culm_shape *p = culm_input_shape(graph, node, i);
        if (p->rank != 1 || p->dim[0] != culm_last_dim(&x)) {
            return culm_shape_error(graph, node, 0, i, "the widths differ", error);
        }
    }
    if (node->input[5] >= 0 && !culm_shape_equal(&x, culm_input_shape(graph, node, 5))) {
        return culm_shape_error(graph, node, 0, 5, "the residual has another shape", error);
    }
    bool known = a->function == CULM_FUNCTION_NONE || a->function == CULM_FUNCTION_RELU ||
                 a->function == CULM_FUNCTION_RELU6 ||
                 (a->function == CULM_FUNCTION_LEAKY_RELU && a->alpha >= 0);
    if (!known) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "operator 'batchnorm': function %d is not one of the ReLU family; "
                              "apply it on its own",
                              a->function);
    }
    const struct culm_shape columns = {1, {culm_last_dim(&x)}};
    culm_output_set(graph, node, 0, typed_dtype(graph, node, 0), &x);
    culm_output_set(graph, node, 1, CULM_F32, &columns);
    culm_output_set(graph, node, 2, CULM_F32, &columns);
    return CULM_OK;
}

/* y is kept only where there was a residual and a function: without, the kernel finds again what
 * the function saw. */
static void gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t dy = culm_gradient_of(g, node->output[0]), residual = node->input[5];
    if (dy < 0) {
        return;
    }
    bool function = node->attributes.function != CULM_FUNCTION_NONE;
    bool dresidual = typed_wanted(g, node, 5);
    const int32_t inputs[] = {dy,
                              node->input[0],
                              residual >= 0 && function ? node->output[0] : -1,
                              node->input[1],
                              node->input[2],
                              node->attributes.inference ? node->input[3] : node->output[1],
                              node->attributes.inference ? node->input[4] : node->output[2]};
    /* Without a function the residual's gradient is dy itself. */
    bool own = dresidual && function, wanted = typed_wanted(g, node, 0);
    const int32_t like[] = {node->input[0], residual};
    int32_t first = g->graph->value_count;
    culm_gradient_node(g, &culm_op_batchnorm_grad, inputs, 7, like, own ? 2 : 1,
                       &node->param_use[1], 4);
    if (wanted) {
        typed_give(g, node, 0, first);
    }
    if (dresidual) {
        typed_give(g, node, 5, own ? first + 1 : dy);
    }
}

static void execute(const struct culm_operands *o) {
    const struct culm_batchnorm how =
        how_of(typed_shape(o, o->node->input[0]), &o->node->attributes);
    float *mean = how.inference ? o->input[3] : o->output[1];
    float *variance = how.inference ? o->input[4] : o->output[2];
    CULM_RUN(o->device, batchnorm_forward, .y = typed_output(o, 0), .mean = mean,
             .variance = variance, .x = typed_input(o, 0), .gamma = o->input[1],
             .beta = o->input[2], .residual = typed_input(o, 5), .how = &how);
}

const struct culm_op culm_op_batchnorm = {.name = "batchnorm",
                                          .precision = CULM_OP_FOLLOWS,
                                          .inputs = 6,
                                          .outputs = 3,
                                          .infer = infer,
                                          .gradient = gradient,
                                          .execute = execute};

/* (dy, x, y or nothing, gamma, beta, mean, variance) -> dx, gradient of the residual or nothing;
 * accumulates into gamma, beta, running mean and running variance */
static void execute_grad(const struct culm_operands *o) {
    const struct culm_batchnorm how =
        how_of(typed_shape(o, o->node->input[1]), &o->node->attributes);
    CULM_RUN(o->device, batchnorm_backward, .dx = typed_output(o, 0),
             .dresidual = typed_output(o, 1), .dgamma = o->use[0], .dbeta = o->use[1],
             .sum_mean = o->use[2], .sum_variance = o->use[3], .dy = typed_input(o, 0),
             .x = typed_input(o, 1), .y = typed_input(o, 2), .gamma = o->input[3],
             .beta = o->input[4], .mean = o->input[5], .variance = o->input[6], .how = &how,
             .first = o->first);
}

const struct culm_op culm_op_batchnorm_grad = {
    .name = "batchnorm_grad", .inputs = 7, .outputs = 2, .execute = execute_grad};
