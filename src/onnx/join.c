/*
 * Shortens growing concatenations. A network like DenseNet concatenates a, b, then a, b, c, then a,
 * b, c, d; here each Concat takes the previous one and what is new. The values are the same, but
 * fewer of them cross any place of the graph, and the gradient of a comes in one piece instead of
 * from all of them.
 */
#include "onnx/pass.h"

#define BACK 8 /* Concats to look back at: the one to continue is near */

static int64_t axis_of(const struct culm_onnx_graph *graph, const struct culm_onnx_node *node) {
    int64_t axis = culm_onnx_int(node, "axis", 0);
    return axis < 0 ? axis + graph->value[node->output[0]].rank : axis;
}

/* Whether the inputs of `node` begin with all those of `first`. */
static bool continues(const struct culm_onnx_graph *graph, const struct culm_onnx_node *node,
                      const struct culm_onnx_node *first) {
    if (first->inputs < 2 || first->inputs >= node->inputs ||
        axis_of(graph, first) != axis_of(graph, node)) {
        return false;
    }
    for (int32_t i = 0; i < first->inputs; i++) {
        if (culm_onnx_input(graph, first, i) != culm_onnx_input(graph, node, i)) {
            return false;
        }
    }
    return true;
}

/* The last ones first, so that earlier ones still list all their inputs. */
void culm_onnx_shorten_joins(struct culm_onnx_graph *graph) {
    for (int32_t i = graph->node_count - 1; i >= 0; i--) {
        struct culm_onnx_node *node = &graph->node[i];
        if (node->dead || !culm_onnx_is(node, "Concat") || !culm_onnx_shaped(graph, node) ||
            node->output[0] < 0 || graph->value[node->output[0]].rank < 1) {
            continue;
        }
        const struct culm_onnx_node *longest = NULL;
        for (int32_t k = i - 1, seen = 0; k >= 0 && seen < BACK; k--) {
            const struct culm_onnx_node *first = &graph->node[k];
            if (first->dead || !culm_onnx_is(first, "Concat") || first->output[0] < 0) {
                continue;
            }
            seen++;
            if ((!longest || first->inputs > longest->inputs) && continues(graph, node, first)) {
                longest = first;
            }
        }
        if (longest) {
            int32_t joined = longest->inputs - 1;
            node->input[0] = longest->output[0];
            for (int32_t k = 1; k + joined < node->inputs; k++) {
                node->input[k] = node->input[k + joined];
            }
            node->inputs -= joined;
        }
    }
    culm_onnx_count_uses(graph);
}
