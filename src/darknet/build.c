/*
 * From sections to a graph. See net.h. A block begins at every convolution. Mish, which no kernel
 * has, is built from other operators: x tanh(log(1 + e^x)).
 */
#include "darknet/net.h"

#include "model/layers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EPS 1e-5
#define MOMENTUM 0.1
#define LEAKY_SLOPE 0.1

struct builder {
    const struct culm_darknet_net *net;
    struct culm_graph *graph;
    int32_t *made; /* the value of each section */
    int32_t image;
};

static int32_t apply(struct builder *b, const char *op, int32_t x,
                     const struct culm_attributes *attributes) {
    return culm_layer_apply(b->graph, op, &x, 1, attributes);
}

static int32_t mish(struct builder *b, int32_t x) {
    const struct culm_attributes plus = {.scale = 1, .shift = 1};
    const struct culm_attributes times = {.function = CULM_FUNCTION_MUL};
    int32_t y = culm_layer_activation(b->graph, x, CULM_FUNCTION_EXP);
    y = apply(b, "affine", y, &plus);
    y = culm_layer_activation(b->graph, y, CULM_FUNCTION_LOG);
    y = culm_layer_activation(b->graph, y, CULM_FUNCTION_TANH);
    const int32_t both[] = {x, y};
    return culm_layer_apply(b->graph, "binary", both, 2, &times);
}

static int32_t activate(struct builder *b, int32_t x, enum culm_darknet_function function) {
    static const enum culm_function known[] = {
        [CULM_DARKNET_RELU] = CULM_FUNCTION_RELU,   [CULM_DARKNET_LEAKY] = CULM_FUNCTION_LEAKY_RELU,
        [CULM_DARKNET_RELU6] = CULM_FUNCTION_RELU6, [CULM_DARKNET_LOGISTIC] = CULM_FUNCTION_SIGMOID,
        [CULM_DARKNET_SWISH] = CULM_FUNCTION_SILU,  [CULM_DARKNET_TANH] = CULM_FUNCTION_TANH,
    };
    if (function == CULM_DARKNET_LINEAR) {
        return x;
    }
    if (function == CULM_DARKNET_MISH) {
        return mish(b, x);
    }
    const struct culm_attributes how = {.function = known[function], .alpha = LEAKY_SLOPE};
    return apply(b, "activation", x, &how);
}

/* --- convolutions --- */

static int32_t param(struct builder *b, const struct culm_darknet_section *s, const char *what,
                     enum culm_init_kind init) {
    char name[64];
    const struct culm_shape shape = {1, {s->c}};
    snprintf(name, sizeof name, "conv%d.%s", (int)s->conv, what);
    bool statistic = strcmp(what, "mean") == 0 || strcmp(what, "variance") == 0;
    return statistic ? culm_graph_statistic(b->graph, name, &shape, init)
                     : culm_graph_param(b->graph, name, &shape, init, 0, false);
}

/* Includes the activation if the batch norm kernel has it. */
static int32_t batch_norm(struct builder *b, const struct culm_darknet_section *s, int32_t x) {
    bool relu = s->function == CULM_DARKNET_RELU, relu6 = s->function == CULM_DARKNET_RELU6;
    bool leaky = s->function == CULM_DARKNET_LEAKY;
    const struct culm_attributes how = {.eps = EPS,
                                        .momentum = MOMENTUM,
                                        .function = relu    ? CULM_FUNCTION_RELU
                                                    : relu6 ? CULM_FUNCTION_RELU6
                                                    : leaky ? CULM_FUNCTION_LEAKY_RELU
                                                            : CULM_FUNCTION_NONE,
                                        .alpha = leaky ? LEAKY_SLOPE : 0,
                                        .inference = true};
    const int32_t inputs[] = {x,
                              param(b, s, "scale", CULM_INIT_ONES),
                              param(b, s, "bias", CULM_INIT_ZEROS),
                              param(b, s, "mean", CULM_INIT_ZEROS),
                              param(b, s, "variance", CULM_INIT_ONES),
                              -1};
    x = culm_layer_apply(b->graph, "batchnorm", inputs, 6, &how);
    return relu || relu6 || leaky ? x : activate(b, x, s->function);
}

static int32_t conv(struct builder *b, const struct culm_darknet_section *s, int64_t in,
                    int32_t x) {
    char name[64];
    const struct culm_shape shape = {4, {s->c, in / s->groups, s->size, s->size}};
    const struct culm_attributes how = {.kernel = {s->size, s->size},
                                        .stride = {s->stride, s->stride},
                                        .dilation = {s->dilation, s->dilation},
                                        .pad = {s->pad, s->pad, s->pad_end, s->pad_end},
                                        .groups = s->groups};
    double deviation = sqrt(2.0 / (double)(in / s->groups * s->size * s->size));
    snprintf(name, sizeof name, "conv%d.weight", (int)s->conv);
    int32_t w = culm_graph_param(b->graph, name, &shape, CULM_INIT_NORMAL, deviation, true);
    const int32_t inputs[] = {x, w, s->batch_norm ? -1 : param(b, s, "bias", CULM_INIT_ZEROS)};
    x = culm_layer_apply(b->graph, "conv", inputs, 3, &how);
    return s->batch_norm ? batch_norm(b, s, x) : activate(b, x, s->function);
}

/* --- the others --- */

static int32_t maxpool(struct builder *b, const struct culm_darknet_section *s, int32_t x) {
    const struct culm_attributes how = {.kernel = {s->size, s->size},
                                        .stride = {s->stride, s->stride},
                                        .dilation = {1, 1},
                                        .pad = {s->pad, s->pad, s->pad_end, s->pad_end}};
    return apply(b, "maxpool", x, &how);
}

static int32_t route(struct builder *b, const struct culm_darknet_section *s) {
    int32_t part[CULM_DARKNET_ROUTE_MAX];
    const struct culm_attributes join = {.axis = 3};
    for (int32_t i = 0; i < s->from_count; i++) {
        int64_t c = b->net->section[s->from[i]].c / s->groups;
        const struct culm_attributes take = {.axis = 3, .start = s->group * c, .length = c};
        part[i] = b->made[s->from[i]];
        part[i] = s->groups > 1 ? apply(b, "slice", part[i], &take) : part[i];
    }
    return s->from_count > 1 ? culm_layer_apply(b->graph, "concat", part, s->from_count, &join)
                             : part[0];
}

static int32_t shortcut(struct builder *b, const struct culm_darknet_section *s, int32_t x) {
    const int64_t has = b->net->section[s->from[0]].c;
    int32_t both[] = {x, b->made[s->from[0]]};
    if (has > s->c) { /* channels that only one of the two has are left alone */
        const struct culm_attributes first = {.axis = 3, .length = s->c};
        both[1] = apply(b, "slice", both[1], &first);
    } else if (has < s->c) {
        both[1] = culm_layer_widen(b->graph, both[1], 0, s->c - has, 0);
    }
    return activate(b, culm_layer_apply(b->graph, "add", both, 2, NULL), s->function);
}

static int32_t scale(struct builder *b, const struct culm_darknet_section *s, int32_t x) {
    const int32_t both[] = {b->made[s->from[0]], x};
    const struct culm_attributes times = {.function = CULM_FUNCTION_MUL};
    return activate(b, culm_layer_apply(b->graph, "binary", both, 2, &times), s->function);
}

static int32_t section(struct builder *b, int32_t i) {
    const struct culm_darknet_section *s = &b->net->section[i];
    const struct culm_attributes one = {.dims = {1, 1}}, size = {.dims = {s->h, s->w}};
    int32_t x = i > 0 ? b->made[i - 1] : b->image;
    char name[32];
    switch (s->kind) {
    case CULM_DARKNET_CONV:
        b->graph->block = b->graph->node_count ? b->graph->block + 1 : 0;
        return conv(b, s, culm_darknet_channels_before(b->net, i), x);
    case CULM_DARKNET_MAXPOOL: return maxpool(b, s, x);
    case CULM_DARKNET_AVGPOOL: return apply(b, "adaptive_avgpool", x, &one);
    case CULM_DARKNET_UPSAMPLE: return apply(b, "resize", x, &size);
    case CULM_DARKNET_ROUTE: return route(b, s);
    case CULM_DARKNET_SHORTCUT: return shortcut(b, s, x);
    case CULM_DARKNET_SCALE: return scale(b, s, x);
    case CULM_DARKNET_YOLO:
        snprintf(name, sizeof name, "head%d", (int)s->head.output);
        culm_graph_output(b->graph, name, x);
        return x;
    default: return x;
    }
}

enum culm_status culm_darknet_build(const struct culm_darknet_net *net, int64_t batch,
                                    struct culm_graph **ret_graph, struct culm_error *error) {
    const struct culm_shape shape = {4, {batch, net->height, net->width, net->channels}};
    struct builder b = {.net = net,
                        .graph = culm_graph_new(culm_device_default()),
                        .made = calloc((size_t)net->count + 1, sizeof *b.made)};
    if (!b.graph || !b.made) {
        culm_graph_free(b.graph);
        free(b.made);
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for the model");
    }
    b.image = culm_graph_field(b.graph, "image", CULM_F32, &shape);
    for (int32_t i = 0; i < net->count && b.graph->error.status == CULM_OK; i++) {
        b.made[i] = section(&b, i);
    }
    free(b.made);
    enum culm_status status = culm_graph_check(b.graph, error);
    if (status != CULM_OK) {
        culm_graph_free(b.graph);
        return status;
    }
    *ret_graph = b.graph;
    return CULM_OK;
}
