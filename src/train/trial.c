/*
 * Trials: the whole model runs forward and backward on one micro-batch, each operator is timed,
 * once with every algorithm of its convolutions; the fastest time of each counts. See choices.h.
 */
#include "train/choices.h"

#include "graph/ops/conv.h"

#include "base/clock.h"
#include "train/plan.h"
#include "train/runner.h"

#include <stdlib.h>

#define REPEATS 3
#define MARGIN 0.95 /* an algorithm must beat the default one by this much */

/* The least time of every node of the program. */
static void time_nodes(const struct culm_runner *runner, int32_t nodes, double *took) {
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        struct culm_stage_run run = culm_runner_run(runner);
        for (int32_t i = 0; i < nodes; i++) {
            uint64_t start = culm_clock_ns();
            culm_stage_execute(runner->stage, runner->device, &run, i);
            double now = (double)(culm_clock_ns() - start) / 1e9;
            took[i] = repeat == 0 || now < took[i] ? now : took[i];
        }
    }
}

static int pass_of(const struct culm_node_desc *node) {
    return node->op == &culm_op_conv               ? CULM_CONV_FORWARD
           : node->op == &culm_op_conv_grad_data   ? CULM_CONV_BACKWARD_DATA
           : node->op == &culm_op_conv_grad_weight ? CULM_CONV_BACKWARD_WEIGHT
                                                   : -1;
}

/* One algorithm wherever it is possible, the default elsewhere. */
static void set_algorithm(struct culm_graph *graph, int32_t algorithm) {
    for (int32_t i = 0; i < graph->node_count; i++) {
        struct culm_node_desc *node = &graph->node[i];
        for (int pass = 0; pass < 3 && node->op == &culm_op_conv; pass++) {
            struct culm_conv conv = culm_conv_of(graph, node);
            bool possible = culm_conv_algorithm_possible(&conv, (enum culm_conv_pass)pass,
                                                         (enum culm_conv_algorithm)algorithm);
            node->attributes.algorithm[pass] = possible ? algorithm : CULM_CONV_AUTO;
        }
    }
}

/* Weights need not be those of the run: any will do. */
static void fill(struct culm_runner *runner, const struct culm_train_config *config) {
    const struct culm_stage_info *info = culm_stage_info_of(runner->stage);
    for (int32_t i = 0; i < info->param_count; i++) {
        culm_model_init_param(&info->params[i], 1, runner->params + info->params[i].offset);
    }
    culm_runner_fill_random(runner, config);
}

/* Times the graph with an algorithm into best[operator][pass], and keeps it where it was faster. */
static enum culm_status try_algorithm(const struct culm_train_config *config,
                                      struct culm_graph *graph, int32_t algorithm,
                                      double (*best)[3], struct culm_algorithms *chosen,
                                      double *block_cost, struct culm_error *error) {
    const struct culm_runner_options options = {.batch = config->batch.micro,
                                                .threads = (int)config->threads};
    struct culm_runner runner;
    set_algorithm(graph, algorithm);
    enum culm_status status = culm_runner_take(&runner, graph, &options, error);
    int32_t nodes = status == CULM_OK ? culm_stage_program(runner.stage)->node_count : 0;
    double *took = calloc((size_t)nodes + 1, sizeof *took);
    if (status == CULM_OK && !took) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a trial");
    }
    if (status == CULM_OK) {
        fill(&runner, config);
        time_nodes(&runner, nodes, took);
    }
    for (int32_t i = 0; i < nodes && status == CULM_OK; i++) {
        const struct culm_node_desc *node = &culm_stage_program(runner.stage)->node[i];
        int pass = pass_of(node), id = node->operator_id;
        if (algorithm == CULM_CONV_AUTO) {
            block_cost[node->block] += took[i];
        }
        if (pass >= 0 && (algorithm == CULM_CONV_AUTO || took[i] < MARGIN * best[id][pass])) {
            best[id][pass] = took[i];
            chosen[id].algorithm[pass] = node->attributes.algorithm[pass];
        }
    }
    free(took);
    (void)culm_runner_detach(&runner); /* the graph is tried again */
    return status;
}

enum culm_status culm_choices_measure(struct culm_network *network,
                                      struct culm_choices *ret_choices, struct culm_error *error) {
    const struct culm_train_config *config = culm_network_config(network);
    bool kernels = config->kernels == CULM_KERNELS_TRIAL;
    bool cuts = config->cuts == CULM_CUTS_MEASURED;
    *ret_choices = (struct culm_choices){0};
    if (!kernels && !cuts) {
        return CULM_OK;
    }
    struct culm_choices choices = {0};
    struct culm_graph *graph = NULL;
    enum culm_status status =
        culm_network_graph(network, config->batch.micro, CULM_FOR_TRAINING, &graph, error);
    if (status != CULM_OK) {
        return status;
    }
    size_t nodes = (size_t)graph->node_count;
    double(*best)[3] = calloc(nodes, sizeof *best);
    struct culm_algorithms *chosen = calloc(nodes, sizeof *chosen);
    double *block_cost = calloc((size_t)graph->blocks, sizeof *block_cost);
    choices.convolution = calloc(nodes, sizeof *choices.convolution);
    if (!best || !chosen || !block_cost || !choices.convolution) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a trial");
    }
    int32_t most = kernels ? CULM_CONV_ALGORITHMS : CULM_CONV_AUTO + 1;
    for (int32_t a = CULM_CONV_AUTO; a < most && status == CULM_OK; a++) {
        status = try_algorithm(config, graph, a, best, chosen, block_cost, error);
    }
    for (int32_t i = 0; i < graph->node_count && kernels && status == CULM_OK; i++) {
        if (graph->node[i].op == &culm_op_conv) {
            chosen[i].operator_id = i;
            choices.convolution[choices.convolutions++] = chosen[i];
        }
    }
    if (status == CULM_OK && cuts) {
        choices.stages = (int32_t)config->stages;
        status = culm_plan_cut(config, graph, block_cost, choices.first_block, error);
    }
    free(best);
    free(chosen);
    free(block_cost);
    culm_graph_free(graph);
    if (status != CULM_OK) {
        culm_choices_release(&choices);
        return status;
    }
    *ret_choices = choices;
    return CULM_OK;
}
