/*
 * Cutting: dynamic programming over blocks.
 *
 * The cost of a block is what its operators take, forward and backward: floating-point operations,
 * and bytes moved, which is all that normalisation or pooling costs. Measured costs may stand in
 * for that. What crosses a border costs both neighbours.
 */
#include "graph/stage_internal.h"

#include <float.h>
#include <stdlib.h>

/* A core does about so many floating-point operations in the time that a byte takes to move. */
#define FLOPS_PER_BYTE 10.0
#define FLOPS_PER_CROSSING_BYTE 20.0

/* Per block, and in `crossing` per border: [b] is before block b. */
struct costs {
    double *block, *crossing;
    size_t *params, *activations; /* bytes */
};

static void release(struct costs *costs) {
    free(costs->block);
    free(costs->crossing);
    free(costs->params);
    free(costs->activations);
}

static double node_cost(const struct culm_graph *graph, const struct culm_node_desc *node) {
    double bytes = 0;
    for (int32_t k = 0; k < CULM_NODE_INPUTS_MAX; k++) {
        bytes += node->input[k] >= 0 ? (double)stage_value_bytes(graph, node->input[k]) : 0;
    }
    for (int32_t k = 0; k < CULM_NODE_OUTPUTS_MAX; k++) {
        bytes += node->output[k] >= 0 ? (double)stage_value_bytes(graph, node->output[k]) : 0;
    }
    return (node->op->flops ? node->op->flops(graph, node) : 0) + FLOPS_PER_BYTE * bytes;
}

/* A value crosses the borders behind its maker up to its last user. */
static enum culm_status count_crossings(const struct culm_graph *graph, struct costs *costs) {
    int32_t *made = malloc(((size_t)graph->value_count + 1) * sizeof *made);
    int32_t *used = malloc(((size_t)graph->value_count + 1) * sizeof *used);
    if (!made || !used) {
        free(made);
        free(used);
        return CULM_ERR_MEMORY;
    }
    stage_value_spans(graph, made, used);
    for (int32_t v = 0; v < graph->value_count; v++) {
        for (int32_t b = made[v] + 1; made[v] >= 0 && b <= used[v]; b++) {
            costs->crossing[b] += FLOPS_PER_CROSSING_BYTE * (double)stage_value_bytes(graph, v);
        }
    }
    free(made);
    free(used);
    return CULM_OK;
}

/* The whole graph as one stage tells what each block costs. */
static enum culm_status count_blocks(const struct culm_graph *graph, struct costs *costs,
                                     struct culm_error *error) {
    const struct culm_stage_options options = {.forward_only = !culm_graph_has_loss(graph)};
    struct culm_stage *whole = calloc(1, sizeof *whole);
    if (!whole) {
        return CULM_ERR_MEMORY;
    }
    whole->info = (struct culm_stage_info){.stages = 1, .last_block = graph->blocks - 1};
    enum culm_status status = stage_build(whole, graph, NULL, &options, error);
    if (status == CULM_OK) {
        status = stage_place(whole, error);
    }
    const struct culm_graph *program = whole->graph;
    for (int32_t i = 0; i < program->node_count && status == CULM_OK; i++) {
        const struct culm_node_desc *node = &program->node[i];
        costs->block[node->block] += node_cost(program, node);
        for (int32_t k = 0; k < CULM_NODE_OUTPUTS_MAX && i < whole->info.forward_ops; k++) {
            int32_t v = node->output[k];
            if (v >= 0 && whole->place[v].region == ACTIVATIONS && program->value[v].same_as < 0) {
                costs->activations[node->block] += stage_value_bytes(program, v);
            }
        }
    }
    for (int32_t u = 0; u < graph->use_count && status == CULM_OK; u++) {
        const struct culm_shape *shape = &graph->param[graph->use[u].param].shape;
        costs->params[graph->node[graph->use[u].node].block] +=
            (size_t)culm_elements(shape) * sizeof(float);
    }
    culm_stage_free(whole);
    return status;
}

static enum culm_status find_costs(const struct culm_graph *graph,
                                   const struct culm_cut_options *options, struct costs *costs,
                                   struct culm_error *error) {
    size_t blocks = (size_t)graph->blocks + 1;
    *costs = (struct costs){
        .block = calloc(blocks, sizeof(double)),
        .crossing = calloc(blocks, sizeof(double)),
        .params = calloc(blocks, sizeof(size_t)),
        .activations = calloc(blocks, sizeof(size_t)),
    };
    enum culm_status status = CULM_ERR_MEMORY;
    if (costs->block && costs->crossing && costs->params && costs->activations) {
        status = count_blocks(graph, costs, error);
    }
    if (status == CULM_OK) {
        status = count_crossings(graph, costs);
    }
    if (status == CULM_ERR_MEMORY) {
        return culm_error_set(error, status, "cut: out of memory");
    }
    for (int32_t b = 0; b < graph->blocks && options->block_cost; b++) {
        costs->block[b] = options->block_cost[b];
        costs->crossing[b] = 0;
    }
    return status;
}

/* Whether blocks that need this much may be stage `s`: state and gradients, and activations of as
 * many micro-batches as are under way there. */
static bool fits(const struct culm_cut_options *options, int32_t stages, int32_t s, size_t params,
                 size_t activations) {
    if (options->memory_bytes == 0) {
        return true;
    }
    size_t need = params * (size_t)options->vectors + activations * (size_t)(stages - s);
    return need <= options->memory_bytes;
}

/* The best cuts of the first blocks: the largest stage when blocks [0, b) are cut into s + 1 stages,
 * as small as it can be, and where the last of these begins. */
struct table {
    int32_t stages, blocks;
    double *best;  /* [stages][blocks + 1] */
    int32_t *from; /* [stages][blocks + 1] */
};

static size_t cell(const struct table *table, int32_t s, int32_t b) {
    return (size_t)s * (size_t)(table->blocks + 1) + (size_t)b;
}

static void fill(struct table *table, const struct culm_cut_options *options,
                 const struct costs *costs) {
    for (int32_t s = 0; s < table->stages; s++) {
        for (int32_t b = 0; b <= table->blocks; b++) {
            double *best = &table->best[cell(table, s, b)];
            int32_t *from = &table->from[cell(table, s, b)];
            *best = DBL_MAX;
            *from = 0;
            double sum = b < table->blocks ? costs->crossing[b] : 0;
            size_t params = 0, activations = 0;
            for (int32_t f = b - 1; f >= s; f--) { /* the last stage is blocks [f, b) */
                sum += costs->block[f];
                params += costs->params[f];
                activations += costs->activations[f];
                if (!fits(options, table->stages, s, params, activations)) {
                    break;
                }
                double own = sum + costs->crossing[f];
                double before = s > 0 ? table->best[cell(table, s - 1, f)] : f == 0 ? 0 : DBL_MAX;
                double largest = before > own ? before : own;
                if (largest < *best || (largest == *best && largest < DBL_MAX)) {
                    *best = largest;
                    *from = f;
                }
            }
        }
    }
}

enum culm_status culm_graph_cut(const struct culm_graph *graph, int32_t stages,
                                const struct culm_cut_options *options, int32_t *ret_first_block,
                                struct culm_error *error) {
    static const struct culm_cut_options plain = {0};
    options = options ? options : &plain;
    int32_t blocks = graph->blocks;
    if (stages < 1 || stages > blocks) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "stages: %d is not possible with %d blocks; allowed: 1 to %d", stages,
                              blocks, blocks);
    }
    if (stages == 1) {
        ret_first_block[0] = 0;
        return CULM_OK;
    }
    struct costs costs = {0};
    size_t cells = (size_t)stages * (size_t)(blocks + 1);
    struct table table = {.stages = stages,
                          .blocks = blocks,
                          .best = malloc(cells * sizeof *table.best),
                          .from = malloc(cells * sizeof *table.from)};
    enum culm_status status = find_costs(graph, options, &costs, error);
    if (status == CULM_OK && (!table.best || !table.from)) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "cut: out of memory");
    }
    if (status != CULM_OK) {
        goto out;
    }
    fill(&table, options, &costs);
    if (table.best[cell(&table, stages - 1, blocks)] >= DBL_MAX) {
        status = culm_error_set(error, CULM_ERR_MEMORY,
                                "memory_mb: %d stages do not fit %zu MB each, wherever they are "
                                "cut; allow more memory or more stages, or a smaller batch.micro",
                                stages, options->memory_bytes >> 20);
        goto out;
    }
    for (int32_t s = stages - 1, b = blocks; s >= 0; s--) {
        b = ret_first_block[s] = table.from[cell(&table, s, b)];
    }
out:
    release(&costs);
    free(table.best);
    free(table.from);
    return status;
}
