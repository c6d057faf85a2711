/* Cutting: dynamic programming over blocks. */
#include "graph/stage.h"

#include <float.h>
#include <stdlib.h>

/* Forward FLOPs of every block; backward is twice that for every operator that counts. */
static double *block_flops(const struct culm_graph *graph) {
    double *flops = calloc((size_t)graph->blocks, sizeof *flops);
    for (int32_t i = 0; flops && i < graph->node_count; i++) {
        const struct culm_node_desc *node = &graph->node[i];
        flops[node->block] += node->op->flops ? node->op->flops(graph, node) : 0;
    }
    return flops;
}

enum culm_status culm_graph_cut(const struct culm_graph *graph, int32_t stages,
                                int32_t *ret_first_block, struct culm_error *error) {
    int32_t blocks = graph->blocks;
    if (stages < 1 || stages > blocks) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "stages: %d is not possible with %d blocks; allowed is 1 to %d",
                              stages, blocks, blocks);
    }
    double *flops = block_flops(graph);
    /* best[s][b]: the smallest largest stage when blocks [0, b) are cut into s + 1 stages */
    size_t cells = (size_t)stages * (size_t)(blocks + 1);
    double *best = malloc(cells * sizeof *best);
    int32_t *from = malloc(cells * sizeof *from);
    if (!flops || !best || !from) {
        free(flops);
        free(best);
        free(from);
        return culm_error_set(error, CULM_ERR_MEMORY, "cut: out of memory");
    }
#define AT(s, b) ((size_t)(s) * (size_t)(blocks + 1) + (size_t)(b))
    for (int32_t s = 0; s < stages; s++) {
        for (int32_t b = 0; b <= blocks; b++) {
            best[AT(s, b)] = DBL_MAX;
            from[AT(s, b)] = 0;
            double sum = 0;
            for (int32_t f = b - 1; f >= s; f--) { /* the last stage is blocks [f, b) */
                sum += flops[f];
                double before = s > 0 ? best[AT(s - 1, f)] : f == 0 ? 0 : DBL_MAX;
                double largest = before > sum ? before : sum;
                if (largest < best[AT(s, b)] || (largest == best[AT(s, b)] && largest < DBL_MAX)) {
                    best[AT(s, b)] = largest;
                    from[AT(s, b)] = f;
                }
            }
        }
    }
    for (int32_t s = stages - 1, b = blocks; s >= 0; s--) {
        ret_first_block[s] = from[AT(s, b)];
        b = from[AT(s, b)];
    }
#undef AT
    free(flops);
    free(best);
    free(from);
    return CULM_OK;
}
