/*
 * A small classifier of pictures, for tests: its model, its numbers, and pictures with labels.
 * Thread: the test's.
 */
#ifndef TESTS_UNIT_MERGE_NET_H
#define TESTS_UNIT_MERGE_NET_H

#include "base/rng.h"
#include "vision/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SIZE 8
#define CLASSES 3
#ifndef SAMPLES
#define SAMPLES 12
#endif
#define PARAMS 32
#define MORE 4

/* A small network with a residual: two convolutions with batch norm, a third with a bias, a classifier. */
struct net {
    struct culm_vision_model model;
    int64_t last; /* channels of the third convolution */
    bool plain;   /* without the residual, which is the second convolution */
    int32_t more; /* residuals of the same kind behind it, at most MORE */
    bool wide;    /* the second convolution has dilation 2 */
    bool late;    /* the first of `more` has it */
    char name[PARAMS][96];
    float *value[PARAMS], *original[PARAMS];
    int32_t params;
    float *image; /* [SAMPLES][SIZE][SIZE][3] */
    int32_t label[SAMPLES];
};

static inline int32_t param(struct culm_graph *graph, const char *name, struct culm_shape shape) {
    return culm_graph_param(graph, name, &shape, CULM_INIT_NORMAL, 0.3, shape.rank > 1);
}

static inline int32_t conv_as(struct culm_graph *graph, const char *name, int32_t x, int64_t in,
                              int64_t out, int64_t dilation) {
    const struct culm_attributes how = {.kernel = {3, 3},
                                        .stride = {1, 1},
                                        .dilation = {dilation, dilation},
                                        .pad = {dilation, dilation, dilation, dilation},
                                        .groups = 1};
    int32_t inputs[] = {x, param(graph, name, (struct culm_shape){4, {out, in, 3, 3}}), -1};
    return culm_graph_apply(graph, "conv", inputs, 3, &how);
}

static inline int32_t conv(struct culm_graph *graph, const char *name, int32_t x, int64_t in,
                           int64_t out) {
    return conv_as(graph, name, x, in, out, 1);
}

static inline int32_t norm(struct culm_graph *graph, const char *name, int32_t x, int64_t c) {
    const struct culm_attributes how = {
        .eps = 1e-5, .momentum = 0.1, .function = CULM_FUNCTION_RELU, .inference = true};
    const struct culm_shape shape = {1, {c}};
    char text[4][32];
    for (int i = 0; i < 4; i++) {
        snprintf(text[i], sizeof text[i], "%s.%d", name, i);
    }
    int32_t inputs[] = {x,
                        param(graph, text[0], shape),
                        param(graph, text[1], shape),
                        culm_graph_statistic(graph, text[2], &shape, CULM_INIT_ZEROS),
                        culm_graph_statistic(graph, text[3], &shape, CULM_INIT_ONES),
                        -1};
    return culm_graph_apply(graph, "batchnorm", inputs, 6, &how);
}

static inline enum culm_status net_graph(struct culm_vision_model *model, int64_t batch,
                                         struct culm_graph **ret_graph, struct culm_error *error) {
    const struct net *net = (const struct net *)model;
    struct culm_graph *graph = culm_graph_new(culm_device_default());
    const struct culm_shape image = {4, {batch, SIZE, SIZE, 3}};
    int32_t x = culm_graph_field(graph, "image", CULM_F32, &image);
    x = norm(graph, "n0", conv(graph, "c0", x, 3, 4), 4);
    graph->block++;
    if (!net->plain) {
        int32_t y = norm(graph, "n1", conv_as(graph, "c1", x, 4, 4, net->wide ? 2 : 1), 4);
        x = culm_graph_apply(graph, "add", (int32_t[]){x, y}, 2, NULL);
    }
    for (int32_t i = 0; i < net->more; i++) {
        char name[2][16];
        snprintf(name[0], sizeof name[0], "m%d", (int)i);
        snprintf(name[1], sizeof name[1], "nm%d", (int)i);
        graph->block++;
        int32_t y =
            norm(graph, name[1], conv_as(graph, name[0], x, 4, 4, net->late && i == 0 ? 2 : 1), 4);
        x = culm_graph_apply(graph, "add", (int32_t[]){x, y}, 2, NULL);
    }
    graph->block++;
    x = conv(graph, "c2", x, 4, net->last);
    graph->block++;
    x = culm_graph_apply(graph, "adaptive_avgpool", &x, 1,
                         &(struct culm_attributes){.dims = {1, 1}});
    x = culm_graph_apply(graph, "reshape", &x, 1,
                         &(struct culm_attributes){.dims = {batch, net->last}});
    int32_t head[] = {x, param(graph, "head", (struct culm_shape){2, {CLASSES, net->last}}), -1};
    x = culm_graph_apply(graph, "linear", head, 3, &(struct culm_attributes){.transposed = true});
    graph->blocks = graph->block + 1;
    culm_graph_output(graph, "logits", x);
    enum culm_status status = culm_graph_check(graph, error);
    if (status != CULM_OK) {
        culm_graph_free(graph);
        return status;
    }
    *ret_graph = graph;
    return CULM_OK;
}
static inline enum culm_status net_weights(struct culm_vision_model *model,
                                           const struct culm_param *p, float *ret_data,
                                           struct culm_error *error) {
    const struct net *net = (const struct net *)model;
    (void)error;
    for (int32_t i = 0; i < net->params; i++) {
        if (!strcmp(net->name[i], p->name)) {
            memcpy(ret_data, net->original[i], (size_t)culm_elements(&p->shape) * sizeof(float));
        }
    }
    return CULM_OK;
}
static inline void net_free(struct culm_vision_model *model) { (void)model; }
static const struct culm_vision_model_ops net_ops = {
    .size = sizeof net_ops, .graph = net_graph, .weights = net_weights, .free = net_free};

static inline void net_init_more(struct net *net, uint64_t seed, int64_t last, bool plain,
                                 int32_t more, bool wide, bool late) {
    *net = (struct net){.model = {.ops = &net_ops,
                                  .name = "net",
                                  .input = {.width = SIZE, .height = SIZE, .channels = 3},
                                  .kind = CULM_ANSWER_CLASSES,
                                  .classes = CLASSES},
                        .last = last,
                        .plain = plain,
                        .more = more,
                        .wide = wide,
                        .late = late};
    struct culm_graph *graph;
    assert_int_equal(culm_vision_model_graph(&net->model, 1, CULM_VISION_INFER, &graph, NULL), 0);
    net->params = graph->param_count;
    for (int32_t p = 0; p < graph->param_count; p++) {
        int64_t count = culm_elements(&graph->param[p].shape);
        snprintf(net->name[p], sizeof net->name[p], "%s", graph->param[p].name);
        net->value[p] = aligned_alloc(64, ((size_t)count * 4 + 63) & ~(size_t)63);
        net->original[p] = aligned_alloc(64, ((size_t)count * 4 + 63) & ~(size_t)63);
        for (int64_t i = 0; i < count; i++) {
            float unit = culm_rng_unit((uint32_t)culm_rng_next(&seed));
            bool one = graph->param[p].shape.rank == 1;
            net->value[p][i] = one ? 0.5f + unit : 0.6f * (unit - 0.5f);
        }
        memcpy(net->original[p], net->value[p], (size_t)count * 4);
    }
    culm_graph_free(graph);
    net->image = malloc(SAMPLES * SIZE * SIZE * 3 * sizeof *net->image);
    for (int64_t i = 0; i < SAMPLES * SIZE * SIZE * 3; i++) {
        net->image[i] = culm_rng_unit((uint32_t)culm_rng_next(&seed));
    }
    /* What stands for the classes: one colour is brighter. */
    for (int32_t s = 0; s < SAMPLES; s++) {
        net->label[s] = s % CLASSES;
        for (int64_t i = 0; i < SIZE * SIZE; i++) {
            net->image[(s * SIZE * SIZE + i) * 3 + net->label[s]] += 0.5f;
        }
    }
}

static inline void net_init_as(struct net *net, uint64_t seed, int64_t last, bool plain) {
    net_init_more(net, seed, last, plain, 0, false, false);
}

/* Numbers and pictures from `seed`; `last`: channels of the third convolution. */
static inline void net_init(struct net *net, uint64_t seed, int64_t last) {
    net_init_as(net, seed, last, false);
}

static inline void net_release(struct net *net) {
    for (int32_t p = 0; p < net->params; p++) {
        free(net->value[p]);
        free(net->original[p]);
    }
    free(net->image);
}

#endif
