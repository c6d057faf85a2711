/*
 * Trials: the whole model runs forward and backward on one micro-batch, each operator is timed,
 * once with every algorithm of its convolutions; the fastest time of each counts. See choices.h.
 */
#include "train/choices.h"

#include "graph/ops/conv.h"

#include "base/clock.h"
#include "base/rng.h"
#include "train/network.h"
#include "train/plan.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REPEATS 3
#define MARGIN 0.95 /* an algorithm must beat the default one by this much */

struct trial {
    struct culm_device *device;
    struct culm_stage *stage;
    float *params, *grads;
    void *activations, *scratch, **field;
    int32_t fields;
};

static void give_back(const struct trial *t, void *memory) {
    if (t->device) {
        t->device->ops->release(t->device, memory);
    }
}

static void release(struct trial *t) {
    for (int32_t f = 0; t->field && f < t->fields; f++) {
        give_back(t, t->field[f]);
    }
    free(t->field);
    give_back(t, t->params);
    give_back(t, t->grads);
    give_back(t, t->activations);
    give_back(t, t->scratch);
    culm_stage_free(t->stage);
    culm_device_free(t->device);
    *t = (struct trial){0};
}

/* Images are random; whole numbers are zero, which every field may be. */
static bool fill(struct trial *t, const struct culm_graph *graph) {
    const struct culm_stage_info *info = culm_stage_info(t->stage);
    t->params = t->device->ops->alloc(t->device, (size_t)info->param_floats * sizeof(float));
    t->grads = t->device->ops->alloc(t->device, (size_t)info->grad_floats * sizeof(float));
    t->activations = t->device->ops->alloc(t->device, info->activation_bytes);
    t->scratch = t->device->ops->alloc(t->device, info->scratch_bytes);
    t->field = calloc((size_t)graph->field_count + 1, sizeof *t->field);
    if (!t->params || !t->grads || !t->activations || !t->scratch || !t->field) {
        return false;
    }
    for (int32_t i = 0; i < info->param_count; i++) {
        culm_model_init_param(&info->params[i], 1, t->params + info->params[i].offset);
    }
    uint64_t random = 1;
    t->fields = graph->field_count;
    for (int32_t f = 0; f < graph->field_count; f++) {
        const struct culm_field *field = &graph->field[f];
        int64_t count = culm_elements(&field->shape);
        t->field[f] =
            t->device->ops->alloc(t->device, (size_t)count * culm_dtype_bytes(field->dtype));
        for (int64_t i = 0; t->field[f] && i < count && field->dtype == CULM_F32; i++) {
            ((float *)t->field[f])[i] = culm_rng_unit((uint32_t)culm_rng_next(&random)) - 0.5f;
        }
        if (!t->field[f]) {
            return false;
        }
    }
    return true;
}

/* The least time of every node of the program. */
static void time_nodes(const struct trial *t, int32_t nodes, double *took) {
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        struct culm_stage_run run = {.params = t->params,
                                     .fields = (const void *const *)t->field,
                                     .loss_scale = 1,
                                     .activations = t->activations,
                                     .scratch = t->scratch,
                                     .grads = t->grads,
                                     .first = true};
        for (int32_t i = 0; i < nodes; i++) {
            uint64_t start = culm_clock_ns();
            culm_stage_execute(t->stage, t->device, &run, i);
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

/* Times the graph with one algorithm wherever it is possible (the default elsewhere) into
 * best[operator][pass], and keeps the algorithm that was faster. */
static enum culm_status try_algorithm(const struct culm_train_config *config,
                                      struct culm_graph *graph, int32_t algorithm,
                                      double (*best)[3], struct culm_algorithms *chosen,
                                      double *block_cost, struct culm_error *error) {
    for (int32_t i = 0; i < graph->node_count; i++) {
        struct culm_node_desc *node = &graph->node[i];
        for (int pass = 0; pass < 3 && node->op == &culm_op_conv; pass++) {
            struct culm_conv conv = culm_conv_of(graph, node);
            bool possible = culm_conv_algorithm_possible(&conv, (enum culm_conv_pass)pass,
                                                         (enum culm_conv_algorithm)algorithm);
            node->attributes.algorithm[pass] = possible ? algorithm : CULM_CONV_AUTO;
        }
    }
    struct trial t = {0};
    enum culm_status status = culm_device_new((int)config->threads, &t.device, error);
    if (status == CULM_OK) {
        status = culm_stages_compile(graph, 1, NULL, &t.stage, error);
    }
    int32_t nodes = 0;
    double *took = NULL;
    if (status == CULM_OK) {
        nodes = culm_stage_program(t.stage)->node_count;
        took = calloc((size_t)nodes, sizeof *took);
        status = took && fill(&t, graph)
                     ? CULM_OK
                     : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a trial");
    }
    if (status == CULM_OK) {
        time_nodes(&t, nodes, took);
    }
    for (int32_t i = 0; i < nodes && status == CULM_OK; i++) {
        const struct culm_node_desc *node = &culm_stage_program(t.stage)->node[i];
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
    release(&t);
    return status;
}

enum culm_status culm_choices_measure(const struct culm_train_config *config,
                                      struct culm_choices *ret_choices, struct culm_error *error) {
    bool kernels = config->kernels == CULM_KERNELS_TRIAL;
    bool cuts = config->cuts == CULM_CUTS_MEASURED;
    *ret_choices = (struct culm_choices){0};
    if (!kernels && !cuts) {
        return CULM_OK;
    }
    struct culm_choices choices = {0};
    struct culm_graph *graph = NULL;
    enum culm_status status =
        culm_network_build(config, config->batch.micro, CULM_FOR_TRAINING, &graph, error);
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
