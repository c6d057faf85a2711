/*
 * VGG (Simonyan and Zisserman 2014) as torchvision has it: 3x3 convolutions in five groups that end
 * with a pooling, with or without batch norm, an adaptive pooling to 7x7, and a classifier of three
 * layers with dropout between them.
 *
 * Every layer with weights is a block, a cut unit, with what follows it up to the next.
 */
#include "model/layers.h"

#include <math.h>
#include <stdio.h>

#define GROUPS 5

static const struct {
    int64_t layers, convolutions[GROUPS];
} depths[] = {
    {11, {1, 1, 2, 2, 2}},
    {13, {2, 2, 2, 2, 2}},
    {16, {2, 2, 3, 3, 3}},
    {19, {2, 2, 4, 4, 4}},
};

struct builder {
    struct culm_graph *graph;
    const struct culm_model_options *o;
    int64_t index; /* in `features`, where norms, activations and poolings count too */
};

static int32_t convolution(struct builder *b, int32_t x, int64_t out) {
    const struct culm_start start = {CULM_INIT_NORMAL, sqrt(2.0 / (double)(out * 9))};
    char name[32], norm[32];
    snprintf(name, sizeof name, "features.%lld", (long long)b->index);
    snprintf(norm, sizeof norm, "features.%lld", (long long)b->index + 1);
    x = culm_layer_conv(b->graph, name, x, out, 3, 1, 1, start, &CULM_START_ZEROS);
    if (b->o->batch_norm) {
        b->index += 3;
        return culm_layer_batchnorm(b->graph, norm, x, -1, CULM_FUNCTION_RELU,
                                    culm_layer_frozen(b->o));
    }
    b->index += 2;
    return culm_layer_activation(b->graph, x, CULM_FUNCTION_RELU);
}

static int32_t classifier(struct builder *b, int index, int32_t x, int64_t out) {
    const struct culm_start start = {CULM_INIT_NORMAL, 0.01};
    char name[32];
    snprintf(name, sizeof name, "classifier.%d", index);
    return culm_layer_linear(b->graph, name, x, out, start, &CULM_START_ZEROS);
}

enum culm_status culm_model_vgg(const struct culm_model_options *options,
                                struct culm_graph *graph) {
    struct culm_image_sizes sizes;
    const int64_t *convolutions = NULL;
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
        convolutions = depths[i].layers == options->layers ? depths[i].convolutions : convolutions;
    }
    if (!convolutions) {
        return culm_error_set(&graph->error, CULM_ERR_CONFIG,
                              "%lld layers are not possible; known are 11, 13, 16 and 19",
                              (long long)options->layers);
    }
    if (culm_layer_image_sizes(graph, options, 8, 7, &sizes) != CULM_OK) {
        return graph->error.status;
    }
    struct builder b = {.graph = graph, .o = options};
    double dropout = culm_layer_frozen(options) ? 0 : options->dropout;
    int32_t x = culm_layer_image(graph, options);
    for (int g = 0; g < GROUPS; g++) {
        for (int64_t i = 0; i < convolutions[g]; i++) {
            graph->block = b.index ? graph->block + 1 : 0;
            x = convolution(&b, x, sizes.width << (g < 3 ? g : 3));
        }
        x = culm_layer_maxpool(graph, x, 2, 2, 0);
        b.index++;
    }
    x = culm_layer_pool(graph, x, sizes.pool);
    graph->block++;
    x = culm_layer_flatten(graph, x);
    x = classifier(&b, 0, x, sizes.hidden);
    x = culm_layer_activation(graph, x, CULM_FUNCTION_RELU);
    x = culm_layer_dropout(graph, x, dropout);
    graph->block++;
    x = classifier(&b, 3, x, sizes.hidden);
    x = culm_layer_activation(graph, x, CULM_FUNCTION_RELU);
    x = culm_layer_dropout(graph, x, dropout);
    graph->block++;
    x = classifier(&b, 6, x, sizes.classes);
    culm_layer_classify(graph, options, x);
    return graph->error.status;
}
