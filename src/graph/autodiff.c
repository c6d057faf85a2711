/* Reverse-mode differentiation. See autodiff.h. */
#include "graph/autodiff.h"

#include <stdlib.h>
#include <string.h>

int32_t culm_gradient_of(struct culm_gradients *gradients, int32_t value) {
    return gradients->of[value];
}

int32_t culm_gradient_take(struct culm_gradients *gradients, int32_t value) {
    int32_t gradient = gradients->of[value];
    gradients->of[value] = -1;
    return gradient;
}

bool culm_gradient_wanted(const struct culm_gradients *gradients, int32_t value) {
    enum culm_value_kind kind = gradients->graph->value[value].kind;
    return (kind == CULM_VALUE_TEMPORARY || kind == CULM_VALUE_BOUNDARY) &&
           gradients->graph->value[value].dtype != CULM_I32 &&
           (!gradients->learned || gradients->learned[value]);
}

int32_t culm_gradient_node(struct culm_gradients *gradients, const struct culm_op *op,
                           const int32_t *inputs, int32_t count, const int32_t *like,
                           int32_t like_count, const int32_t *uses, int32_t use_count) {
    struct culm_graph *graph = gradients->graph;
    struct culm_node_desc node = {.op = op,
                                  .attributes = gradients->source->attributes,
                                  .operator_id = gradients->source->operator_id,
                                  .block = gradients->source->block};
    memset(node.input, -1, sizeof node.input);
    memset(node.output, -1, sizeof node.output);
    memset(node.use, -1, sizeof node.use);
    memset(node.param_use, -1, sizeof node.param_use);
    memcpy(node.input, inputs, (size_t)count * sizeof *inputs);
    if (use_count) {
        memcpy(node.use, uses, (size_t)use_count * sizeof *uses);
    }
    for (int32_t i = 0; i < like_count; i++) {
        struct culm_shape shape = graph->value[like[i]].shape;
        node.output[i] =
            culm_graph_value(graph, CULM_VALUE_TEMPORARY, graph->value[like[i]].dtype, &shape);
        if (node.output[i] >= 0) {
            graph->value[node.output[i]].like = like[i];
        }
    }
    return culm_graph_append(graph, &node) ? node.output[0] : -1;
}

void culm_gradient_add(struct culm_gradients *gradients, int32_t value, int32_t gradient) {
    int32_t before = gradients->of[value];
    if (before >= 0) {
        const int32_t inputs[] = {before, gradient};
        gradient = culm_gradient_node(gradients, &culm_op_add, inputs, 2, &value, 1, NULL, 0);
    }
    gradients->of[value] = gradient;
}

enum culm_status culm_graph_differentiate(struct culm_graph *graph, int32_t first, int32_t last,
                                          const int32_t *seed_value, const int32_t *seed_gradient,
                                          int32_t seeds, const int32_t *input, int32_t inputs,
                                          const bool *learned, int32_t *ret_input_gradient,
                                          struct culm_error *error) {
    int32_t values = graph->value_count;
    struct culm_gradients gradients = {.graph = graph, .learned = learned};
    gradients.of = malloc((size_t)values * sizeof *gradients.of);
    if (!gradients.of) {
        return culm_error_set(error, CULM_ERR_MEMORY, "autodiff: out of memory");
    }
    memset(gradients.of, -1, (size_t)values * sizeof *gradients.of);
    for (int32_t i = 0; i < seeds; i++) {
        gradients.of[seed_value[i]] = seed_gradient[i];
    }
    for (int32_t i = last - 1; i >= first; i--) {
        const struct culm_node_desc node = graph->node[i]; /* a copy: rules append */
        gradients.source = &node;
        if (node.op->gradient) {
            node.op->gradient(&gradients, &node);
        }
    }
    for (int32_t i = 0; i < inputs; i++) {
        ret_input_gradient[i] = gradients.of[input[i]];
    }
    free(gradients.of);
    return culm_graph_check(graph, error);
}
