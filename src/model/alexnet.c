/*
 * AlexNet as torchvision has it: the one of "One weird trick for parallelizing convolutional neural
 * networks" (Krizhevsky 2014), without response normalisation and groups. Weights start as torch's
 * layers do by themselves.
 *
 * Every layer with weights is a block, a cut unit, with what follows it up to the next.
 */
#include "model/layers.h"

#include <stdio.h>

static const struct {
    int index; /* in `features` */
    int64_t width, kernel, stride, pad;
    bool pool;
} convolutions[] = {
    {0, 64, 11, 4, 2, true},  {3, 192, 5, 1, 2, true},  {6, 384, 3, 1, 1, false},
    {8, 256, 3, 1, 1, false}, {10, 256, 3, 1, 1, true},
};

static int32_t classifier(struct culm_graph *graph, int index, int32_t x, int64_t out) {
    struct culm_shape in = culm_layer_shape(graph, x);
    const struct culm_start start = culm_start_torch(culm_last_dim(&in));
    char name[32];
    snprintf(name, sizeof name, "classifier.%d", index);
    return culm_layer_linear(graph, name, x, out, start, &start);
}

enum culm_status culm_model_alexnet(const struct culm_model_options *options,
                                    struct culm_graph *graph) {
    struct culm_image_sizes sizes;
    if (culm_layer_image_sizes(graph, options, 6, 6, &sizes) != CULM_OK) {
        return graph->error.status;
    }
    double dropout = culm_layer_frozen(options) ? 0 : options->dropout;
    int32_t x = culm_layer_image(graph, options);
    for (size_t i = 0; i < sizeof convolutions / sizeof *convolutions; i++) {
        struct culm_shape in = culm_layer_shape(graph, x);
        int64_t kernel = convolutions[i].kernel;
        const struct culm_start start = culm_start_torch(culm_last_dim(&in) * kernel * kernel);
        char name[32];
        snprintf(name, sizeof name, "features.%d", convolutions[i].index);
        graph->block = (int32_t)i;
        x = culm_layer_conv(graph, name, x, sizes.width * convolutions[i].width / 64, kernel,
                            convolutions[i].stride, convolutions[i].pad, start, &start);
        x = culm_layer_activation(graph, x, CULM_FUNCTION_RELU);
        x = convolutions[i].pool ? culm_layer_maxpool(graph, x, 3, 2, 0) : x;
    }
    x = culm_layer_pool(graph, x, sizes.pool);
    graph->block++;
    x = culm_layer_flatten(graph, x);
    x = culm_layer_dropout(graph, x, dropout);
    x = classifier(graph, 1, x, sizes.hidden);
    x = culm_layer_activation(graph, x, CULM_FUNCTION_RELU);
    graph->block++;
    x = culm_layer_dropout(graph, x, dropout);
    x = classifier(graph, 4, x, sizes.hidden);
    x = culm_layer_activation(graph, x, CULM_FUNCTION_RELU);
    graph->block++;
    x = classifier(graph, 6, x, sizes.classes);
    culm_layer_classify(graph, options, x);
    return graph->error.status;
}
