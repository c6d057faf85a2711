/*
 * What convolutions for inference know of those behind them: which may be executed as one, since each is
 * all that reads what the one before it made, and which weights will be read next. See ops/conv.h.
 */
#include "graph/ops/conv.h"
#include "graph/stage_internal.h"

#include <stdlib.h>

/* How often each value is read, by whatever name, or leaves the stage. */
static void count_readers(const struct culm_stage *stage, int32_t *readers) {
    const struct culm_graph *graph = stage->graph;
    for (int32_t i = 0; i < graph->node_count; i++) {
        for (int32_t k = 0; k < CULM_NODE_INPUTS_MAX; k++) {
            if (graph->node[i].input[k] >= 0) {
                readers[stage_root(graph, graph->node[i].input[k])]++;
            }
        }
    }
    for (int32_t i = 0; i < stage->output.count; i++) {
        readers[stage_root(graph, stage->output.item[i].value)]++;
    }
}

enum culm_status stage_find_chains(struct culm_stage *stage, struct culm_error *error) {
    const struct culm_graph *graph = stage->graph;
    int32_t *readers = calloc((size_t)graph->value_count + 1, sizeof *readers);
    stage->chain = malloc(((size_t)stage->info.forward_ops + 1) * sizeof *stage->chain);
    stage->ahead = malloc(((size_t)stage->info.forward_ops + 1) * sizeof *stage->ahead);
    if (!readers || !stage->chain || !stage->ahead) {
        free(readers);
        return culm_error_set(error, CULM_ERR_MEMORY, "stage: out of memory");
    }
    count_readers(stage, readers);
    int32_t next = -1; /* weights of the next that has many */
    for (int32_t i = stage->info.forward_ops - 1; i >= 0; i--) {
        const struct culm_node_desc *node = &graph->node[i];
        bool goes_on = i + 1 < stage->info.forward_ops && culm_conv_infer_follows(node + 1, node) &&
                       readers[stage_root(graph, node->output[0])] == 1;
        stage->chain[i] = goes_on ? stage->chain[i + 1] + 1 : 1;
        bool much = culm_conv_infer_reads_much(node);
        stage->ahead[i] = much ? next : -1;
        next = much ? node->input[1] : next;
    }
    free(readers);
    return CULM_OK;
}
