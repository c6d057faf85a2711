/* How fast a model of pictures answers. See vision_commands.h. */
#include "base/clock.h"
#include "base/grow.h"
#include "base/rng.h"
#include "run/vision_commands.h"
#include "run/vision_open.h"
#include "vision/runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define WARM_UP 3
#define BATCH_MAX 4096 /* frames */

static enum culm_status measure(struct culm_vision_runner *runner, int64_t iters,
                                struct culm_infer_bench *bench, struct culm_error *error) {
    const struct culm_stage_info *info = culm_stage_info(runner->stage);
    double *took = calloc((size_t)iters, sizeof *took);
    uint64_t random = 1;
    if (!took) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    int64_t count = culm_elements(&runner->graph->field[0].shape);
    for (int64_t i = 0; i < count; i++) {
        runner->image[i] = culm_rng_unit((uint32_t)culm_rng_next(&random));
    }
    for (int64_t i = -WARM_UP; i < iters; i++) {
        uint64_t start = culm_clock_ns();
        culm_vision_runner_run(runner);
        if (i >= 0) {
            took[i] = (double)(culm_clock_ns() - start) / 1e9 / (double)runner->batch;
        }
    }
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    bench->median_s = culm_median(took, (size_t)iters); /* and sorts them */
    bench->least_s = took[0];
    bench->flops = info->forward_flops / (double)runner->batch;
    bench->parameter_bytes = info->param_floats * 4;
    bench->activation_bytes = runner->memory_bytes - bench->parameter_bytes;
    bench->peak_memory_bytes = (int64_t)used.ru_maxrss * 1024;
    free(took);
    return CULM_OK;
}

/* --- layer by layer --- */

static void shape_of(const struct culm_shape *shape, int64_t ret_dim[4]) {
    for (int i = 0; i < 4; i++) {
        int from = i - 4 + shape->rank;
        ret_dim[i] = from >= 0 && from < shape->rank ? shape->dim[from] : 1;
    }
}

static double bytes_of(const struct culm_graph *graph, int32_t value) {
    return value < 0 ? 0
                     : (double)culm_elements(&graph->value[value].shape) *
                           (double)culm_dtype_bytes(graph->value[value].dtype);
}

static void describe(const struct culm_graph *graph, const struct culm_node_desc *node,
                     struct culm_infer_layer *layer) {
    const struct culm_attributes *a = &node->attributes;
    int32_t weights = node->input[1];
    shape_of(culm_input_shape(graph, node, 0), layer->in);
    shape_of(&graph->value[node->output[0]].shape, layer->out);
    layer->flops = node->op->flops ? node->op->flops(graph, node) : 0;
    for (int i = 0; i < CULM_NODE_INPUTS_MAX; i++) {
        layer->bytes += bytes_of(graph, node->input[i]);
    }
    for (int i = 0; i < CULM_NODE_OUTPUTS_MAX; i++) {
        layer->bytes += bytes_of(graph, node->output[i]);
    }
    if (weights >= 0 && graph->value[weights].kind == CULM_VALUE_PARAM) {
        snprintf(layer->name, sizeof layer->name, "%s",
                 graph->param[graph->value[weights].param].name);
    }
    if (node->op == &culm_op_conv_infer) {
        const int64_t *w = graph->value[weights].shape.dim;
        char stride[24] = "";
        if (a->stride[0] > 1) {
            snprintf(stride, sizeof stride, "/%lld", (long long)a->stride[0]);
        }
        snprintf(layer->kind, sizeof layer->kind, "%s %lldx%lld%s",
                 a->groups > 1 ? "depthwise" : "conv", (long long)w[0], (long long)w[1], stride);
    } else {
        snprintf(layer->kind, sizeof layer->kind, "%s", node->op->name);
    }
}

/* All layers once, each one's time into its row of `took`. */
static void run_layers(const struct culm_vision_runner *r, int32_t layers, int64_t iters,
                       int64_t iter, double *took) {
    const void *fields[] = {r->image};
    struct culm_stage_run run = {.params = r->params,
                                 .fields = fields,
                                 .output = r->output,
                                 .loss_scale = 1,
                                 .activations = r->activations,
                                 .scratch = r->scratch,
                                 .first = true};
    for (int32_t i = 0; i < layers; i++) {
        uint64_t start = culm_clock_ns();
        culm_stage_execute(r->stage, r->device, &run, i);
        took[i * iters + iter] = (double)(culm_clock_ns() - start) / 1e9;
    }
}

static enum culm_status measure_layers(const struct culm_vision_runner *runner, int64_t iters,
                                       struct culm_infer_bench *bench, struct culm_error *error) {
    const struct culm_graph *program = culm_stage_program(runner->stage);
    int32_t layers = culm_stage_info(runner->stage)->forward_ops;
    double *took = calloc((size_t)(layers * iters) + 1, sizeof *took);
    bench->layer = calloc((size_t)layers + 1, sizeof *bench->layer);
    if (!took || !bench->layer) {
        free(took);
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    bench->layer_count = layers;
    for (int64_t i = 0; i < iters; i++) {
        run_layers(runner, layers, iters, i, took);
    }
    for (int32_t i = 0; i < layers; i++) {
        describe(program, &program->node[i], &bench->layer[i]);
        bench->layer[i].seconds = culm_median(took + i * iters, (size_t)iters);
    }
    free(took);
    return CULM_OK;
}

void culm_infer_bench_release(struct culm_infer_bench *bench) {
    free(bench->layer);
    bench->layer = NULL;
    bench->layer_count = 0;
}

enum culm_status culm_bench_infer(const char *what, const struct culm_infer_options *options,
                                  struct culm_infer_bench *ret_bench, struct culm_error *error) {
    const struct culm_vision_open_options how = {.weights = options->weights};
    struct culm_vision_model *model = NULL;
    struct culm_device *device = NULL;
    struct culm_vision_runner runner = {0};
    int64_t batch = options->batch ? options->batch : 1;
    *ret_bench = (struct culm_infer_bench){.batch = batch, .threads = options->threads};
    enum culm_status status;
    if (batch > BATCH_MAX) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "--batch %lld: at most %d is possible",
                              (long long)batch, BATCH_MAX);
    }
    if (!(status = culm_vision_open(what, &how, &model, error)) &&
        !(status = culm_device_new(options->threads, &device, error)) &&
        !(status = culm_vision_runner_init(&runner, model, batch, device, error))) {
        snprintf(ret_bench->name, sizeof ret_bench->name, "%s", model->name);
        status = measure(&runner, options->iters, ret_bench, error);
        if (status == CULM_OK && options->layers) {
            status = measure_layers(&runner, options->iters, ret_bench, error);
        }
    }
    culm_vision_runner_release(&runner);
    culm_device_free(device);
    culm_vision_model_free(model);
    return status;
}
