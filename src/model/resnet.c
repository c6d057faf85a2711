/*
 * ResNet (He et al. 2015) as torchvision has it: the stride of a bottleneck sits in its 3x3
 * convolution, batch norm after every convolution, no zero start of the last one.
 *
 * Blocks, the cut units: the stem, then one per residual block; the pooling and the classifier go
 * with the last. At a cut inside the network one value crosses. `small_stem` replaces the stem's
 * 7x7 of stride 2 and its pooling by one 3x3, as papers do for images of 32 pixels.
 */
#include "model/layers.h"

#include <math.h>
#include <stdio.h>

#define STAGES 4

const char *const culm_shortcut_names[] = {
    [CULM_SHORTCUT_CONV] = "conv", [CULM_SHORTCUT_PAD] = "pad", NULL};

struct depth {
    int64_t layers, blocks[STAGES];
    bool bottleneck;
};

static const struct depth depths[] = {
    {18, {2, 2, 2, 2}, false},  {34, {3, 4, 6, 3}, false},  {50, {3, 4, 6, 3}, true},
    {101, {3, 4, 23, 3}, true}, {152, {3, 8, 36, 3}, true},
};

/* Kaiming: normal, by what a filter sends out. */
static int32_t conv(struct culm_graph *graph, const char *name, int32_t x, int64_t out,
                    int64_t kernel, int64_t stride) {
    const struct culm_start start = {CULM_INIT_NORMAL, sqrt(2.0 / (double)(out * kernel * kernel))};
    return culm_layer_conv(graph, name, x, out, kernel, stride, kernel / 2, start, NULL);
}

struct residual_block {
    struct culm_graph *graph;
    const char *name; /* layer1.0 */
    bool frozen;
    enum culm_shortcut shortcut;
};

/* convI and bnI; I of the block, or `downsample`, whose parts have numbers. */
static int32_t conv_bn(const struct residual_block *b, int index, int32_t x, int64_t out,
                       int64_t kernel, int64_t stride, int32_t residual,
                       enum culm_function function) {
    char first[64], second[64];
    if (index > 0) {
        snprintf(first, sizeof first, "%s.conv%d", b->name, index);
        snprintf(second, sizeof second, "%s.bn%d", b->name, index);
    } else {
        snprintf(first, sizeof first, "%s.downsample.0", b->name);
        snprintf(second, sizeof second, "%s.downsample.1", b->name);
    }
    int32_t h = conv(b->graph, first, x, out, kernel, stride);
    return culm_layer_batchnorm(b->graph, second, h, residual, function, b->frozen);
}

static int32_t block(const struct residual_block *b, int32_t x, int64_t width, int64_t stride,
                     bool bottleneck) {
    struct culm_shape in = culm_layer_shape(b->graph, x);
    int64_t out = bottleneck ? 4 * width : width;
    int32_t past = x;
    if ((stride != 1 || culm_last_dim(&in) != out) && b->shortcut == CULM_SHORTCUT_PAD) {
        int64_t more = out - culm_last_dim(&in);
        past = culm_layer_every(b->graph, x, stride, stride);
        past = more ? culm_layer_widen(b->graph, past, more / 2, more - more / 2, 0) : past;
    } else if (stride != 1 || culm_last_dim(&in) != out) {
        past = conv_bn(b, 0, x, out, 1, stride, -1, CULM_FUNCTION_NONE);
    }
    int32_t h;
    if (bottleneck) {
        h = conv_bn(b, 1, x, width, 1, 1, -1, CULM_FUNCTION_RELU);
        h = conv_bn(b, 2, h, width, 3, stride, -1, CULM_FUNCTION_RELU);
        return conv_bn(b, 3, h, out, 1, 1, past, CULM_FUNCTION_RELU);
    }
    h = conv_bn(b, 1, x, width, 3, stride, -1, CULM_FUNCTION_RELU);
    return conv_bn(b, 2, h, width, 3, 1, past, CULM_FUNCTION_RELU);
}

static bool depth_of(const struct culm_model_options *o, struct depth *ret_depth) {
    *ret_depth = (struct depth){.bottleneck = o->bottleneck};
    for (int s = 0; s < STAGES && o->blocks[s]; s++) {
        if (o->blocks[s] < 1 || o->blocks[s] > 1024) {
            return false;
        }
        ret_depth->blocks[s] = o->blocks[s];
    }
    for (size_t i = 0; i < sizeof depths / sizeof *depths && !o->blocks[0]; i++) {
        if (depths[i].layers == o->layers) {
            *ret_depth = depths[i];
        }
    }
    return ret_depth->blocks[0] > 0;
}

enum culm_status culm_model_resnet(const struct culm_model_options *options,
                                   struct culm_graph *graph) {
    struct culm_image_sizes sizes;
    struct depth depth;
    if (!depth_of(options, &depth)) {
        return culm_error_set(&graph->error, CULM_ERR_CONFIG,
                              "%lld layers are not possible; known are 18, 34, 50, 101 and 152, "
                              "or give the blocks of each stage",
                              (long long)options->layers);
    }
    if (culm_layer_image_sizes(graph, options, depth.bottleneck ? 32 : 8, 1, &sizes) != CULM_OK) {
        return graph->error.status;
    }
    bool frozen = culm_layer_frozen(options);
    int32_t x = culm_layer_image(graph, options);
    x = conv(graph, "conv1", x, sizes.width, options->small_stem ? 3 : 7,
             options->small_stem ? 1 : 2);
    x = culm_layer_batchnorm(graph, "bn1", x, -1, CULM_FUNCTION_RELU, frozen);
    if (!options->small_stem) {
        x = culm_layer_maxpool(graph, x, 3, 2, 1);
    }
    for (int s = 0; s < STAGES && depth.blocks[s]; s++) {
        for (int64_t i = 0; i < depth.blocks[s]; i++) {
            char name[32];
            snprintf(name, sizeof name, "layer%d.%lld", s + 1, (long long)i);
            const struct residual_block b = {graph, name, frozen, options->shortcut};
            graph->block++;
            x = block(&b, x, sizes.width << s, s > 0 && i == 0 ? 2 : 1, depth.bottleneck);
        }
    }
    const struct culm_attributes one = {.dims = {1, 1}};
    x = culm_layer_apply(graph, "adaptive_avgpool", &x, 1, &one);
    x = culm_layer_flatten(graph, x);
    struct culm_shape features = culm_layer_shape(graph, x);
    const struct culm_start start = culm_start_torch(culm_last_dim(&features));
    x = culm_layer_linear(graph, "fc", x, sizes.classes, start, &start);
    culm_layer_classify(graph, options, x);
    return graph->error.status;
}
