/*
 * Layer norm, written out as exporters did before opset 17, and batch norm with what follows it:
 *
 *     d = x - mean(x);  y = d / sqrt(mean(d^2) + eps) * gamma + beta
 *     relu(batchnorm(x) + residual), relu6 likewise
 *
 * Batch norm uses the statistics of the batch in training, whatever the file says: the newer of
 * PyTorch's exporters leaves the training mode out.
 */
#include "onnx/pass.h"

#include <math.h>

/* Of a commutative node: the input that is computed by `op`, and the other one. */
static const struct culm_onnx_node *one_of(const struct culm_onnx_graph *graph,
                                           const struct culm_onnx_node *node, const char *op,
                                           int32_t *ret_other) {
    for (int i = 0; i < 2; i++) {
        const struct culm_onnx_node *maker =
            culm_onnx_maker(graph, culm_onnx_input(graph, node, i));
        if (culm_onnx_is(maker, op)) {
            *ret_other = culm_onnx_input(graph, node, 1 - i);
            return maker;
        }
    }
    return NULL;
}

/* A mean over the last dimension only. */
static bool is_mean(const struct culm_onnx_graph *graph, const struct culm_onnx_node *node) {
    int32_t x = culm_onnx_is(node, "ReduceMean") ? culm_onnx_input(graph, node, 0) : -1;
    int32_t y = x >= 0 ? node->output[0] : -1;
    if (y < 0 || graph->value[y].rank != graph->value[x].rank || graph->value[y].rank < 1) {
        return false;
    }
    for (int i = 0; i + 1 < graph->value[x].rank; i++) {
        if (graph->value[x].dim[i] != graph->value[y].dim[i]) {
            return false;
        }
    }
    return graph->value[y].dim[graph->value[y].rank - 1] == 1;
}

/* d^2, as Pow or Mul. */
static bool is_square(const struct culm_onnx_graph *graph, int32_t value, int32_t d) {
    const struct culm_onnx_node *node = culm_onnx_maker(graph, value);
    if (culm_onnx_is(node, "Pow")) {
        return culm_onnx_input(graph, node, 0) == d &&
               culm_onnx_scalar_is(graph, culm_onnx_input(graph, node, 1), 2);
    }
    return culm_onnx_is(node, "Mul") && culm_onnx_input(graph, node, 0) == d &&
           culm_onnx_input(graph, node, 1) == d;
}

/* The x and eps of a normalized x; -1: it is something else. */
static int32_t normalised(const struct culm_onnx_graph *graph, int32_t value, double *ret_eps) {
    const struct culm_onnx_node *div = culm_onnx_maker(graph, value);
    int32_t d = div ? culm_onnx_input(graph, div, 0) : -1, below = -1;
    if (culm_onnx_is(div, "Div")) {
        below = culm_onnx_input(graph, div, 1);
    } else if (culm_onnx_is(div, "Mul")) {
        const struct culm_onnx_node *inverse = one_of(graph, div, "Reciprocal", &d);
        below = inverse ? culm_onnx_input(graph, inverse, 0) : -1;
    }
    const struct culm_onnx_node *root = culm_onnx_maker(graph, below);
    const struct culm_onnx_node *minus = culm_onnx_maker(graph, d), *sum = NULL, *mean = NULL;
    int32_t eps = -1;
    if (culm_onnx_is(root, "Sqrt")) {
        sum = culm_onnx_maker(graph, culm_onnx_input(graph, root, 0));
    }
    if (culm_onnx_is(sum, "Add")) {
        mean = one_of(graph, sum, "ReduceMean", &eps);
    }
    if (!culm_onnx_is(minus, "Sub") || !mean || !is_mean(graph, mean) ||
        !culm_onnx_scalar(graph, eps, ret_eps) ||
        !is_square(graph, culm_onnx_input(graph, mean, 0), d)) {
        return -1;
    }
    int32_t x = culm_onnx_input(graph, minus, 0);
    const struct culm_onnx_node *centre = culm_onnx_maker(graph, culm_onnx_input(graph, minus, 1));
    return is_mean(graph, centre) && culm_onnx_input(graph, centre, 0) == x ? x : -1;
}

static bool is_row(const struct culm_onnx_graph *graph, int32_t value, int32_t x) {
    return culm_onnx_is_weight(graph, value) && graph->value[value].rank == 1 &&
           graph->value[x].rank > 0 &&
           graph->value[value].dim[0] == graph->value[x].dim[graph->value[x].rank - 1];
}

static bool spelled_layernorm(struct culm_onnx_graph *graph, int32_t index) {
    const struct culm_onnx_node *add = &graph->node[index];
    for (int i = 0; i < 2; i++) {
        int32_t beta = culm_onnx_input(graph, add, i);
        const struct culm_onnx_node *mul =
            culm_onnx_maker(graph, culm_onnx_input(graph, add, 1 - i));
        for (int k = 0; k < 2 && culm_onnx_is(mul, "Mul"); k++) {
            int32_t gamma = culm_onnx_input(graph, mul, k);
            double eps;
            int32_t x = normalised(graph, culm_onnx_input(graph, mul, 1 - k), &eps);
            if (x >= 0 && is_row(graph, gamma, x) && is_row(graph, beta, x)) {
                const int32_t inputs[] = {x, gamma, beta};
                if (!culm_onnx_become(graph, index, "layernorm", inputs, 3)) {
                    return false;
                }
                graph->node[index].culm.eps = eps;
                return true;
            }
        }
    }
    return true;
}

static bool layernorm(struct culm_onnx_graph *graph, int32_t index) {
    const struct culm_onnx_node *node = &graph->node[index];
    int32_t x = culm_onnx_input(graph, node, 0);
    const int32_t inputs[] = {x, culm_onnx_input(graph, node, 1), culm_onnx_input(graph, node, 2)};
    int64_t axis = culm_onnx_int(node, "axis", -1);
    double eps = culm_onnx_float(node, "epsilon", 1e-5);
    if ((axis != -1 && axis != graph->value[x].rank - 1) || !is_row(graph, inputs[1], x) ||
        (inputs[2] >= 0 && !is_row(graph, inputs[2], x))) {
        return true;
    }
    for (int32_t k = 1; k < node->outputs; k++) {
        if (node->output[k] >= 0 && graph->value[node->output[k]].uses > 0) {
            return true;
        }
    }
    if (!culm_onnx_become(graph, index, "layernorm", inputs, 3)) {
        return false;
    }
    graph->node[index].culm.eps = eps;
    graph->node[index].outputs = 1;
    return true;
}

static bool batchnorm(struct culm_onnx_graph *graph, int32_t index, void *context) {
    bool inference = *(const bool *)context;
    const struct culm_onnx_node *node = &graph->node[index];
    int32_t inputs[6] = {0, 0, 0, 0, 0, -1};
    const struct culm_attributes attributes = {.eps = culm_onnx_float(node, "epsilon", 1e-5),
                                               .momentum =
                                                   1 - culm_onnx_float(node, "momentum", 0.9),
                                               .inference = inference};
    for (int i = 0; i < 5; i++) {
        inputs[i] = culm_onnx_input(graph, node, i);
        if (i > 0 && !culm_onnx_is_weight(graph, inputs[i])) {
            return true;
        }
    }
    if (!culm_onnx_become(graph, index, "batchnorm", inputs, 6)) {
        return false;
    }
    graph->node[index].culm = attributes;
    graph->node[index].outputs = 1;
    return true;
}

static bool is_relu6(const struct culm_onnx_node *node) {
    return culm_onnx_is_ours(node, "activation") && node->culm.function == CULM_FUNCTION_RELU6;
}

/* batchnorm(x) + residual, then relu or relu6: fused if nobody else uses the parts. */
static bool onto_batchnorm(struct culm_onnx_graph *graph, int32_t index) {
    const struct culm_onnx_node *node = &graph->node[index];
    bool add = culm_onnx_is(node, "Add");
    enum culm_function function = add              ? CULM_FUNCTION_NONE
                                  : is_relu6(node) ? CULM_FUNCTION_RELU6
                                                   : CULM_FUNCTION_RELU;
    for (int i = 0; i < (add ? 2 : 1); i++) {
        int32_t y = culm_onnx_input(graph, node, i);
        const struct culm_onnx_node *norm = culm_onnx_maker(graph, y);
        if (!culm_onnx_is_ours(norm, "batchnorm") || graph->value[y].uses != 1 ||
            norm->culm.function != CULM_FUNCTION_NONE) {
            continue;
        }
        int32_t other = add ? culm_onnx_input(graph, node, 1 - i) : -1, inputs[6];
        struct culm_attributes attributes = norm->culm;
        for (int k = 0; k < 6; k++) {
            inputs[k] = culm_onnx_input(graph, norm, k);
        }
        if (add && (inputs[5] >= 0 || other == y || culm_onnx_is_weight(graph, other) ||
                    !culm_onnx_same_shape(graph, y, other))) {
            continue;
        }
        inputs[5] = add ? other : inputs[5];
        attributes.function = function;
        if (!culm_onnx_become(graph, index, "batchnorm", inputs, 6)) {
            return false;
        }
        graph->node[index].culm = attributes;
        return true;
    }
    return true;
}

static bool norm_or_sum(struct culm_onnx_graph *graph, int32_t index) {
    return spelled_layernorm(graph, index) && onto_batchnorm(graph, index);
}

static bool onto_activation(struct culm_onnx_graph *graph, int32_t index) {
    return !is_relu6(&graph->node[index]) || onto_batchnorm(graph, index);
}

bool culm_onnx_fuse_norm(struct culm_onnx_graph *graph, bool inference) {
    static const struct culm_onnx_rule rules[] = {
        {"LayerNormalization", .apply = layernorm},
        {"BatchNormalization", .apply_with = batchnorm},
        {"Add", .apply = norm_or_sum},
        {"Relu", .apply = onto_batchnorm},
        {"culm.activation", .apply = onto_activation},
        {0},
    };
    return culm_onnx_for_each(graph, rules, &inference);
}
