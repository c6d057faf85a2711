/*
 * Where a graph may be cut. See build.h.
 *
 * Values cross a border if they are made before it and used behind it. Borders of blocks are where
 * only one value crosses, with work (FLOPs) between any two of them. Among the candidates between
 * two pieces of work, the one with the fewest bytes crossing is taken; of equal ones the last.
 */
#include "onnx/build.h"

#include "graph/ops.h"

#include <stdlib.h>

struct crossing {
    int32_t values;
    double bytes;
};

/* crossing[i]: what crosses in front of node i. */
static bool count(const struct culm_graph *graph, struct crossing *crossing) {
    int32_t *last = malloc(((size_t)graph->value_count + 1) * sizeof *last);
    if (!last) {
        return false;
    }
    for (int32_t i = 0; i < graph->value_count; i++) {
        last[i] = -1;
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        for (int32_t k = 0; k < CULM_NODE_INPUTS_MAX; k++) {
            if (graph->node[i].input[k] >= 0) {
                last[graph->node[i].input[k]] = i;
            }
        }
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        for (int32_t k = 0; k < CULM_NODE_OUTPUTS_MAX; k++) {
            int32_t value = graph->node[i].output[k];
            for (int32_t at = i + 1; value >= 0 && at <= last[value]; at++) {
                crossing[at].values++;
                crossing[at].bytes += (double)culm_elements(&graph->value[value].shape);
            }
        }
    }
    free(last);
    return true;
}

enum culm_status culm_onnx_blocks(struct culm_graph *graph, struct culm_error *error) {
    struct crossing *crossing = calloc((size_t)graph->node_count + 1, sizeof *crossing);
    if (!crossing || !count(graph, crossing)) {
        free(crossing);
        return culm_error_set(error, CULM_ERR_MEMORY, "graph: out of memory");
    }
    int32_t best = -1, block = 0;
    bool work = false; /* since the last border */
    int32_t left = 0;  /* nodes with work from here on */
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct culm_node_desc *node = &graph->node[i];
        left += node->op->flops && node->op->flops(graph, node) > 0;
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        struct culm_node_desc *node = &graph->node[i];
        bool works = node->op->flops && node->op->flops(graph, node) > 0;
        if (work && left > 0 && crossing[i].values == 1 &&
            (best < 0 || crossing[i].bytes <= crossing[best].bytes)) {
            best = i;
        }
        if (works && best >= 0) { /* puts a border in front of this piece of work */
            block++;
            for (int32_t k = best; k < i; k++) {
                graph->node[k].block = block;
            }
            best = -1;
            work = false;
        }
        node->block = block;
        work |= works;
        left -= works;
    }
    graph->block = block;
    graph->blocks = block + 1;
    free(crossing);
    return CULM_OK;
}
