/* How fast a model of pictures answers. See bench_infer.h. */
#include "run/bench_infer.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/machine.h"
#include "base/rng.h"
#include "data/feed.h"
#include "query/open.h"
#include "vision/boxes.h"
#include "vision/picture.h"
#include "vision/runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARM_UP 3
#define BATCH_MAX 4096 /* frames */
#define PICTURES_MAX 64
#define PICTURES_BYTES ((size_t)32 << 20) /* of all of them, unless one is larger */

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

/* --- what the model sees --- */

struct pictures {
    uint8_t *pixels; /* [count][each], at the size of the input */
    int64_t count;
    size_t each;
};

/* A picture of noise, or the first ones of a file: as many as `pixels` has room for. */
static enum culm_status read_pictures(const char *file, const struct culm_vision_input *input,
                                      int64_t most, struct pictures *pictures,
                                      struct culm_error *error) {
    const struct culm_feed_options options = {.file = file};
    struct culm_feed *feed = NULL;
    struct culm_feed_frame f;
    uint64_t random = 1;
    if (!file) {
        for (size_t i = 0; i < pictures->each; i++) {
            pictures->pixels[i] = (uint8_t)(culm_rng_next(&random) >> 56);
        }
        pictures->count = 1;
        return CULM_OK;
    }
    enum culm_status status = culm_feed_open(&options, &feed, error);
    while (status == CULM_OK && pictures->count < most &&
           (status = culm_feed_next(feed, -1, &f, error)) == CULM_OK) {
        const struct culm_frame frame = {f.data, f.stride, f.width, f.height, f.channels};
        culm_vision_stretch(input, &frame,
                            pictures->pixels + (size_t)pictures->count * pictures->each);
        pictures->count++;
    }
    culm_feed_close(feed);
    return status == CULM_ERR_CLOSED && pictures->count > 0 ? CULM_OK : status;
}

static enum culm_status find_pictures(const char *file, const struct culm_vision_input *input,
                                      struct pictures *pictures, struct culm_error *error) {
    *pictures = (struct pictures){.each = (size_t)input->width * (size_t)input->height *
                                          (size_t)input->channels};
    int64_t most = (int64_t)(PICTURES_BYTES / pictures->each);
    most = !file || most < 1 ? 1 : most < PICTURES_MAX ? most : PICTURES_MAX;
    pictures->pixels = malloc((size_t)most * pictures->each);
    return pictures->pixels ? read_pictures(file, input, most, pictures, error) : no_memory(error);
}

/* The next batch; counting begins at `iter` 0. */
static void show(const struct pictures *pictures, const struct culm_vision_model *model,
                 int64_t iter, struct culm_vision_runner *runner) {
    const struct culm_vision_input *input = &model->input;
    struct culm_frame frame = {.stride = (size_t)input->width * (size_t)input->channels,
                               .width = input->width,
                               .height = input->height,
                               .channels = input->channels};
    for (int64_t k = 0; k < runner->batch; k++) {
        size_t at = (size_t)((iter * runner->batch + k) % pictures->count);
        frame.data = pictures->pixels + at * pictures->each;
        culm_vision_fill(input, &frame, runner->image + (size_t)k * pictures->each);
    }
}

/* --- times --- */

static enum culm_status measure(const struct culm_vision_model *model,
                                struct culm_vision_runner *runner, const struct pictures *pictures,
                                int64_t iters, struct culm_infer_bench *bench,
                                struct culm_error *error) {
    const struct culm_stage_info *info = culm_stage_info_of(runner->stage);
    double *took = calloc((size_t)iters, sizeof *took);
    if (!took) {
        return no_memory(error);
    }
    for (int64_t i = -WARM_UP; i < iters; i++) {
        show(pictures, model, i + WARM_UP, runner);
        uint64_t start = culm_clock_ns();
        culm_vision_runner_run(runner);
        if (i >= 0) {
            took[i] = (double)(culm_clock_ns() - start) / 1e9 / (double)runner->batch;
        }
    }
    bench->median_s = culm_median(took, (size_t)iters); /* and sorts them */
    bench->least_s = took[0];
    bench->flops = info->forward_flops / (double)runner->batch;
    bench->parameter_bytes = info->param_floats * 4;
    bench->activation_bytes = runner->memory_bytes - bench->parameter_bytes;
    bench->peak_memory_bytes = (int64_t)culm_machine_peak();
    free(took);
    return CULM_OK;
}

/* Reads what a batch says. *ret_answers: the boxes, classes and points in all. */
static enum culm_status read_batch(const struct culm_vision_model *model,
                                   const struct culm_vision_runner *runner, float score,
                                   struct culm_answer *answer, int64_t *ret_answers,
                                   struct culm_error *error) {
    enum culm_status status = CULM_OK;
    *ret_answers = 0;
    for (int64_t k = 0; k < runner->batch && status == CULM_OK; k++) {
        status = culm_vision_runner_answer(runner, model, k, model->input.width,
                                           model->input.height, score, answer, error);
        *ret_answers += answer->box_count + answer->class_count + answer->point_count;
    }
    return status;
}

static enum culm_status measure_answers(const struct culm_vision_model *model,
                                        struct culm_vision_runner *runner,
                                        const struct pictures *pictures, float score, int64_t iters,
                                        struct culm_infer_bench *bench, struct culm_error *error) {
    double *took = calloc((size_t)iters, sizeof *took);
    struct culm_answer answer = {0};
    enum culm_status status = took ? CULM_OK : no_memory(error);
    int64_t answers, all = 0;
    for (int64_t i = -WARM_UP; i < iters && status == CULM_OK; i++) {
        show(pictures, model, i + WARM_UP, runner);
        uint64_t start = culm_clock_ns();
        culm_vision_runner_run(runner);
        status = read_batch(model, runner, score, &answer, &answers, error);
        if (i >= 0) {
            took[i] = (double)(culm_clock_ns() - start) / 1e9 / (double)runner->batch;
            all += answers;
        }
    }
    if (status == CULM_OK) {
        bench->answer_median_s = culm_median(took, (size_t)iters); /* and sorts them */
        bench->answer_least_s = took[0];
        bench->answers = (double)all / (double)iters / (double)runner->batch;
    }
    culm_answer_release(&answer);
    free(took);
    return status;
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
    int32_t layers = culm_stage_info_of(runner->stage)->forward_ops;
    double *took = calloc((size_t)(layers * iters) + 1, sizeof *took);
    bench->layer = calloc((size_t)layers + 1, sizeof *bench->layer);
    if (!took || !bench->layer) {
        free(took);
        return no_memory(error);
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

static enum culm_status run(struct culm_vision_model *model, struct culm_device *device,
                            const struct culm_infer_options *options, struct pictures *pictures,
                            struct culm_infer_bench *bench, struct culm_error *error) {
    struct culm_vision_runner whole = {0}, answering = {0};
    enum culm_status status = find_pictures(options->feed, &model->input, pictures, error);
    if (status == CULM_OK &&
        !(status = culm_vision_runner_init(&whole, model, bench->batch, 0, device, error))) {
        status = measure(model, &whole, pictures, options->iters, bench, error);
        if (status == CULM_OK && options->layers) {
            status = measure_layers(&whole, options->iters, bench, error);
        }
    }
    culm_vision_runner_release(&whole);
    if (status == CULM_OK &&
        !(status = culm_vision_runner_init(&answering, model, bench->batch, (float)options->score,
                                           device, error))) {
        status = measure_answers(model, &answering, pictures, (float)options->score, options->iters,
                                 bench, error);
    }
    culm_vision_runner_release(&answering);
    return status;
}

enum culm_status culm_bench_infer(const char *what, const struct culm_infer_options *options,
                                  struct culm_infer_bench *ret_bench, struct culm_error *error) {
    const struct culm_query_open_options how = {.weights = options->weights};
    struct culm_vision_model *model = NULL;
    struct culm_device *device = NULL;
    struct pictures pictures = {0};
    int64_t batch = options->batch ? options->batch : 1;
    *ret_bench = (struct culm_infer_bench){.batch = batch, .threads = options->threads};
    enum culm_status status;
    if (batch > BATCH_MAX) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "--batch %lld: at most %d is possible",
                              (long long)batch, BATCH_MAX);
    }
    if (!(status = culm_query_open(what, &how, &model, error)) &&
        !(status = culm_device_new(options->threads, &device, error))) {
        snprintf(ret_bench->name, sizeof ret_bench->name, "%s", model->name);
        status = run(model, device, options, &pictures, ret_bench, error);
        memcpy(ret_bench->note, model->note, sizeof ret_bench->note);
    }
    free(pictures.pixels);
    culm_device_free(device);
    culm_vision_model_free(model);
    return status;
}
