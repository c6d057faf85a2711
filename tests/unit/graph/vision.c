/*
 * Operators on images and the general ones, each in a small graph: gradients, the same bits when
 * the graph is cut behind the operator or its values are made again, and what shape rules refuse.
 *
 * The image is the embedding's output [2,4,6] seen as [2,2,2,6]; whatever comes out of the operator
 * goes through a linear layer back to that shape.
 */
#include "check.h"

#include "tensor/conv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define BATCH 2
#define CONTEXT 4
#define WIDTH 6

static int32_t reshape(struct net *net, int32_t x, int rank, const int64_t *dim) {
    struct culm_attributes attributes = {0};
    memcpy(attributes.dims, dim, (size_t)rank * sizeof *dim);
    return culm_graph_apply(net->graph, "reshape", &x, 1, &attributes);
}

static int32_t image(struct net *net) {
    int32_t x = net_begin(net, BATCH, CONTEXT, WIDTH, 7);
    const int64_t dim[] = {BATCH, 2, 2, WIDTH};
    return reshape(net, x, 4, dim);
}

static int32_t apply(struct net *net, const char *op, int32_t x,
                     const struct culm_attributes *attributes) {
    return culm_graph_apply(net->graph, op, &x, 1, attributes);
}

static int32_t param(struct net *net, const struct culm_shape *shape) {
    char name[32];
    snprintf(name, sizeof name, "p%d", net->graph->param_count);
    return culm_graph_param(net->graph, name, shape, CULM_INIT_ZEROS, 0, false);
}

/* --- one row a graph --- */

static int32_t function(struct net *net, int32_t x, enum culm_function function) {
    return apply(net, "activation", x,
                 &(struct culm_attributes){.function = function, .alpha = 0.3});
}
static int32_t positive(struct net *net, int32_t x) {
    return apply(net, "affine", function(net, x, CULM_FUNCTION_SIGMOID),
                 &(struct culm_attributes){.scale = 2, .shift = 0.5});
}
#define FUNCTION(name)                                                                             \
    static int32_t build_##name(struct net *net, int32_t x) {                                      \
        return function(net, x, CULM_FUNCTION_##name);                                             \
    }
FUNCTION(NONE)
FUNCTION(RELU)
FUNCTION(LEAKY_RELU)
FUNCTION(RELU6)
FUNCTION(GELU_TANH)
FUNCTION(GELU_ERF)
FUNCTION(TANH)
FUNCTION(SIGMOID)
FUNCTION(SILU)
FUNCTION(ELU)
FUNCTION(EXP)
static int32_t build_LOG(struct net *net, int32_t x) {
    return function(net, positive(net, x), CULM_FUNCTION_LOG);
}
static int32_t build_SQRT(struct net *net, int32_t x) {
    return function(net, positive(net, x), CULM_FUNCTION_SQRT);
}
static int32_t build_RECIPROCAL(struct net *net, int32_t x) {
    return function(net, positive(net, x), CULM_FUNCTION_RECIPROCAL);
}

/* b is a parameter of every shape that spreads; a too. */
static int32_t binary(struct net *net, int32_t a, int32_t b, enum culm_function function) {
    const int32_t inputs[] = {a, b};
    return culm_graph_apply(net->graph, "binary", inputs, 2,
                            &(struct culm_attributes){.function = function});
}
static int32_t build_binary(struct net *net, int32_t x) {
    x = binary(net, x, param(net, &(struct culm_shape){1, {WIDTH}}), CULM_FUNCTION_ADD);
    x = binary(net, x, param(net, &(struct culm_shape){4, {1, 2, 1, WIDTH}}), CULM_FUNCTION_MUL);
    x = binary(net, x, param(net, &(struct culm_shape){3, {2, 2, 1}}), CULM_FUNCTION_SUB);
    int32_t b = positive(net, param(net, &(struct culm_shape){2, {1, 1}}));
    return binary(net, x, b, CULM_FUNCTION_DIV);
}
static int32_t build_binary_of_equals(struct net *net, int32_t x) {
    x = binary(net, x, x, CULM_FUNCTION_MUL);
    x = binary(net, x, function(net, x, CULM_FUNCTION_TANH), CULM_FUNCTION_ADD);
    int32_t y = param(net, &(struct culm_shape){4, {BATCH, 2, 2, WIDTH}});
    return binary(net, binary(net, y, x, CULM_FUNCTION_SUB), positive(net, x), CULM_FUNCTION_DIV);
}

static int32_t build_mean(struct net *net, int32_t x) {
    return apply(net, "reduce", x,
                 &(struct culm_attributes){.function = CULM_FUNCTION_MEAN, .axes = 6});
}
static int32_t build_sum(struct net *net, int32_t x) {
    return apply(net, "reduce", x,
                 &(struct culm_attributes){.function = CULM_FUNCTION_SUM, .axes = 8});
}
static int32_t build_max(struct net *net, int32_t x) {
    return apply(net, "reduce", x,
                 &(struct culm_attributes){.function = CULM_FUNCTION_MAX, .axes = 10});
}
static int32_t build_softmax(struct net *net, int32_t x) { return apply(net, "softmax", x, NULL); }

static int32_t matmul(struct net *net, int32_t a, int32_t b, bool trans_a, bool trans_b) {
    const int32_t inputs[] = {a, b};
    const struct culm_attributes attributes = {
        .trans_a = trans_a, .trans_b = trans_b, .scale = 0.5};
    return culm_graph_apply(net->graph, "matmul", inputs, 2, &attributes);
}
static int32_t build_matmul(struct net *net, int32_t x) {                          /* x [2,2,2,6] */
    int32_t y = matmul(net, x, function(net, x, CULM_FUNCTION_TANH), false, true); /* [..,2,2] */
    y = matmul(net, y, x, false, false);                                           /* [..,2,6] */
    y = matmul(net, y, x, true, false);                                            /* [..,6,6] */
    return matmul(net, y, x, true, true);                                          /* [..,6,2] */
}
static int32_t build_matmul_param(struct net *net, int32_t x) {
    x = matmul(net, x, param(net, &(struct culm_shape){2, {5, WIDTH}}), false, true);
    return matmul(net, x, param(net, &(struct culm_shape){4, {BATCH, 2, 5, 3}}), false, false);
}

static int32_t build_permute(struct net *net, int32_t x) {
    x = apply(net, "permute", x, &(struct culm_attributes){.dims = {0, 3, 1, 2}});
    return apply(net, "permute", x, &(struct culm_attributes){.dims = {2, 0, 3, 1}});
}
static int32_t build_concat(struct net *net, int32_t x) {
    int32_t p = param(net, &(struct culm_shape){4, {BATCH, 2, 1, WIDTH}});
    const int32_t inputs[] = {x, p, function(net, x, CULM_FUNCTION_TANH), -1, -1, -1, -1, -1};
    return culm_graph_apply(net->graph, "concat", inputs, 8, &(struct culm_attributes){.axis = 2});
}
static int32_t build_slice(struct net *net, int32_t x) { /* two pieces that overlap */
    const struct culm_attributes left = {.axis = 3, .start = 0, .length = 4};
    const struct culm_attributes right = {.axis = 3, .start = 2, .length = 4};
    return binary(net, apply(net, "slice", x, &left), apply(net, "slice", x, &right),
                  CULM_FUNCTION_MUL);
}
static int32_t build_slice_of_addends(struct net *net,
                                      int32_t x) { /* whose gradient is one value */
    const struct culm_attributes left = {.axis = 3, .start = 0, .length = 4};
    const struct culm_attributes right = {.axis = 3, .start = 2, .length = 4};
    int32_t a = function(net, x, CULM_FUNCTION_TANH), b = binary(net, x, x, CULM_FUNCTION_MUL);
    int32_t part = apply(net, "slice", a, &left);
    int32_t sum = apply(net, "slice", binary(net, a, b, CULM_FUNCTION_ADD), &right);
    return binary(net, part, sum, CULM_FUNCTION_MUL);
}
static int32_t build_pad(struct net *net, int32_t x) {
    return apply(net, "pad", x, &(struct culm_attributes){.pad = {1, 0, 2, 1}, .value = 0.3});
}
static int32_t build_nearest(struct net *net, int32_t x) {
    return apply(net, "resize", x, &(struct culm_attributes){.dims = {3, 5}});
}
static int32_t build_bilinear(struct net *net, int32_t x) {
    return apply(net, "resize", x,
                 &(struct culm_attributes){.dims = {5, 3}, .function = CULM_FUNCTION_MEAN});
}
static int32_t build_reshape(struct net *net, int32_t x) {
    const int64_t dim[] = {4, 12};
    int32_t p = param(net, &(struct culm_shape){2, {2, 24}});
    return binary(net, reshape(net, x, 2, dim), reshape(net, p, 2, dim), CULM_FUNCTION_MUL);
}

static const struct culm_attributes window = {
    .kernel = {3, 2}, .stride = {2, 1}, .pad = {1, 1, 1, 0}, .count_pad = true};
static int32_t build_maxpool(struct net *net, int32_t x) {
    return apply(net, "maxpool", x, &window);
}
static int32_t build_avgpool(struct net *net, int32_t x) {
    return apply(net, "avgpool", x, &window);
}
static int32_t build_adaptive(struct net *net, int32_t x) {
    return apply(net, "adaptive_avgpool", x, &(struct culm_attributes){.dims = {1, 3}});
}

static int32_t batchnorm(struct net *net, int32_t x, int32_t residual, enum culm_function function,
                         bool inference) {
    const struct culm_shape c = {1, {WIDTH}};
    const int32_t gamma = param(net, &c), beta = param(net, &c);
    int32_t mean = culm_graph_statistic(net->graph, "mean", &c, CULM_INIT_ZEROS);
    int32_t variance = culm_graph_statistic(net->graph, "variance", &c, CULM_INIT_ONES);
    if (inference) { /* a variance is positive; these are random */
        variance = positive(net, variance);
    }
    const int32_t inputs[] = {x, gamma, beta, mean, variance, residual};
    const struct culm_attributes attributes = {
        .eps = 1e-2, .function = function, .alpha = 0.2, .inference = inference};
    return culm_graph_apply(net->graph, "batchnorm", inputs, 6, &attributes);
}
static int32_t build_batchnorm(struct net *net, int32_t x) {
    return batchnorm(net, x, -1, CULM_FUNCTION_NONE, false);
}
static int32_t build_batchnorm_relu(struct net *net, int32_t x) {
    return batchnorm(net, x, -1, CULM_FUNCTION_RELU, false);
}
static int32_t build_batchnorm_relu6(struct net *net, int32_t x) {
    return batchnorm(net, x, -1, CULM_FUNCTION_RELU6, false);
}
static int32_t build_batchnorm_residual(struct net *net, int32_t x) {
    return batchnorm(net, function(net, x, CULM_FUNCTION_TANH), x, CULM_FUNCTION_LEAKY_RELU, false);
}
static int32_t build_batchnorm_sum(struct net *net, int32_t x) {
    return batchnorm(net, function(net, x, CULM_FUNCTION_TANH), x, CULM_FUNCTION_NONE, false);
}

static int32_t conv(struct net *net, int32_t x, int64_t out, int64_t groups, int64_t size,
                    const struct culm_attributes *attributes) {
    const struct culm_shape w = {4, {out, WIDTH / groups, size, size}}, b = {1, {out}};
    const int32_t inputs[] = {x, param(net, &w), groups > 1 ? -1 : param(net, &b)};
    return culm_graph_apply(net->graph, "conv", inputs, 3, attributes);
}
static int32_t build_conv(struct net *net, int32_t x) {
    return conv(net, x, 5, 1, 3, &(struct culm_attributes){.pad = {1, 1, 1, 1}});
}
static int32_t build_conv_winograd(struct net *net, int32_t x) {
    return conv(net, x, 5, 1, 3,
                &(struct culm_attributes){
                    .pad = {1, 1, 1, 1},
                    .algorithm = {CULM_CONV_WINOGRAD, CULM_CONV_WINOGRAD, CULM_CONV_WINOGRAD}});
}
static int32_t build_conv_strided(struct net *net, int32_t x) {
    return conv(net, x, 4, 2, 2,
                &(struct culm_attributes){
                    .pad = {1, 1, 1, 1}, .stride = {2, 1}, .dilation = {1, 2}, .groups = 2});
}
static int32_t build_conv_depthwise(struct net *net, int32_t x) {
    return conv(net, x, WIDTH, WIDTH, 3,
                &(struct culm_attributes){.pad = {1, 1, 1, 1}, .groups = WIDTH});
}

static const struct {
    const char *name;
    int32_t (*build)(struct net *net, int32_t x);
} graphs[] = {
    {"none", build_NONE},
    {"relu", build_RELU},
    {"leaky relu", build_LEAKY_RELU},
    {"relu6", build_RELU6},
    {"gelu (tanh)", build_GELU_TANH},
    {"gelu (erf)", build_GELU_ERF},
    {"tanh", build_TANH},
    {"sigmoid", build_SIGMOID},
    {"silu", build_SILU},
    {"elu", build_ELU},
    {"exp", build_EXP},
    {"log", build_LOG},
    {"sqrt", build_SQRT},
    {"reciprocal", build_RECIPROCAL},
    {"binary", build_binary},
    {"binary of equals", build_binary_of_equals},
    {"mean", build_mean},
    {"sum", build_sum},
    {"max", build_max},
    {"softmax", build_softmax},
    {"matmul", build_matmul},
    {"matmul with parameters", build_matmul_param},
    {"reshape", build_reshape},
    {"permute", build_permute},
    {"concat", build_concat},
    {"slice", build_slice},
    {"slice of addends", build_slice_of_addends},
    {"pad", build_pad},
    {"nearest", build_nearest},
    {"bilinear", build_bilinear},
    {"maxpool", build_maxpool},
    {"avgpool", build_avgpool},
    {"adaptive_avgpool", build_adaptive},
    {"conv", build_conv},
    {"conv, Winograd", build_conv_winograd},
    {"conv, groups, stride, dilation", build_conv_strided},
    {"conv, each channel its own", build_conv_depthwise},
    {"batchnorm", build_batchnorm},
    {"batchnorm, relu", build_batchnorm_relu},
    {"batchnorm, relu6", build_batchnorm_relu6},
    {"batchnorm, residual", build_batchnorm_residual},
    {"batchnorm, sum", build_batchnorm_sum},
};

static void build(struct net *net, size_t i) {
    int32_t y = graphs[i].build(net, image(net));
    if (y < 0) {
        fail_msg("%s: %s", graphs[i].name, net->graph->error.text);
    }
    int64_t rest = culm_elements(&net->graph->value[y].shape) / BATCH;
    const int64_t flat[] = {BATCH, rest}, back[] = {BATCH, CONTEXT, WIDTH};
    net->graph->block = 1;
    y = net_linear(net, reshape(net, y, 2, flat), CONTEXT * WIDTH);
    net_end(net, reshape(net, y, 3, back), -1, CHECK_SEED);
}

void test_vision_gradients(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        struct net net;
        print_message("  %s\n", graphs[i].name);
        build(&net, i);
        check_gradients(&net);
    }
}

void test_vision_bits(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        struct net net;
        struct result plain, cut;
        build(&net, i);
        run_plainly(net.graph, &net.data, &plain);
        for (int how = 0; how < 4; how++) {
            run_stages_with(net.graph, 1 + how / 2, how % 2, &net.data, &cut);
            result_expect_equal(&plain, &cut, net.graph, graphs[i].name);
            result_release(&cut);
        }
        result_release(&plain);
        net_release(&net);
    }
}

/* What backward leaves in the uses of the running statistics, and what it does with given ones. */
void test_batchnorm_statistics(void **state) {
    (void)state;
    for (int inference = 0; inference < 2; inference++) {
        struct net net;
        struct result result;
        int32_t x = image(&net);
        const struct culm_shape c = {1, {WIDTH}};
        const int32_t inputs[] = {x,
                                  param(&net, &c),
                                  param(&net, &c),
                                  culm_graph_statistic(net.graph, "mean", &c, CULM_INIT_ZEROS),
                                  culm_graph_statistic(net.graph, "variance", &c, CULM_INIT_ONES),
                                  -1};
        const struct culm_attributes attributes = {.eps = 1e-5, .inference = inference};
        int32_t y = culm_graph_apply(net.graph, "batchnorm", inputs, 6, &attributes);
        const int64_t back[] = {BATCH, CONTEXT, WIDTH};
        net_end(&net, reshape(&net, y, 3, back), -1, CHECK_SEED);
        for (int i = 0; i < WIDTH; i++) {
            net.params[5][i] = 0.5f + 0.1f * (float)i;
        }
        run_stages(net.graph, 1, &net.data, &result);
        for (int i = 0; i < WIDTH; i++) {
            double sum = 0, square = 0, n = BATCH * CONTEXT;
            for (int r = 0; r < BATCH * CONTEXT; r++) {
                double v = (double)net.params[0][net.data.tokens[r] * WIDTH + i] +
                           (double)net.params[1][r % CONTEXT * WIDTH + i];
                sum += v;
                square += v * v;
            }
            double mean = sum / n, variance = (square - n * mean * mean) / (n - 1);
            if (inference) {
                mean = (double)net.params[4][i];
                variance = (double)net.params[5][i];
            }
            assert_float_equal(result.grad[4][i], mean, 1e-5);
            assert_float_equal(result.grad[5][i], variance, 1e-5);
        }
        result_release(&result);
        net_release(&net);
    }
}

/* --- what is refused --- */

static const struct {
    const char *op;
    struct culm_attributes attributes;
} wrong[] = {
    {"activation", {.function = CULM_FUNCTION_ADD}},
    {"reshape", {.dims = {5, 5}}},
    {"reshape", {.dims = {-1, 48}}},
    {"reshape", {.dims = {(int64_t)1 << 40, (int64_t)1 << 40}}},
    {"permute", {.dims = {0, 1, 2, 2}}},
    {"permute", {.dims = {0, 1, 2, 4}}},
    {"slice", {.axis = 4, .length = 1}},
    {"slice", {.axis = 1, .start = 1, .length = 2}},
    {"slice", {.axis = 1, .start = INT64_MAX, .length = 2}},
    {"slice", {.axis = 1, .start = 0, .length = 0}},
    {"pad", {.pad = {-1, 0, 0, 0}}},
    {"pad", {.pad = {INT64_MAX, 0, INT64_MAX, 0}}},
    {"resize", {.dims = {0, 3}}},
    {"resize", {.dims = {3, 3}, .function = CULM_FUNCTION_MAX}},
    {"resize", {.dims = {3, 1 << 20}}},
    {"maxpool", {.kernel = {0, 1}, .stride = {1, 1}}},
    {"maxpool", {.kernel = {2, 2}, .stride = {0, 1}}},
    {"maxpool", {.kernel = {2, 2}, .stride = {1, 1}, .pad = {2, 0, 0, 0}}},
    {"maxpool", {.kernel = {9, 2}, .stride = {1, 1}}},
    {"maxpool", {.kernel = {INT64_MAX, 2}, .stride = {1, 1}, .dilation = {INT64_MAX, 1}}},
    {"avgpool", {.kernel = {2, 2}, .stride = {1, 1}, .dilation = {2, 1}, .pad = {1, 0, 1, 0}}},
    {"adaptive_avgpool", {.dims = {0, 1}}},
    {"reduce", {.function = CULM_FUNCTION_MEAN}},
    {"reduce", {.function = CULM_FUNCTION_MEAN, .axes = 16}},
    {"reduce", {.function = CULM_FUNCTION_ADD, .axes = 1}},
};

void test_vision_refusals(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct net net;
        struct culm_error error = {0};
        int32_t x = image(&net);
        if (apply(&net, wrong[i].op, x, &wrong[i].attributes) >= 0) {
            fail_msg("row %zu of '%s' is not refused", i, wrong[i].op);
        }
        assert_int_not_equal(culm_graph_check(net.graph, &error), CULM_OK);
        assert_null(strchr(error.text, '\n'));
        culm_graph_free(net.graph);
    }
    static const struct {
        const char *op;
        struct culm_shape b;
        struct culm_attributes attributes;
        int32_t count;
    } pairs[] = {
        {"binary", {1, {5}}, {.function = CULM_FUNCTION_ADD}, 2},
        {"binary", {1, {6}}, {.function = CULM_FUNCTION_MEAN}, 2},
        {"matmul", {2, {5, 6}}, {0}, 2},
        {"matmul", {4, {1, 2, 6, 6}}, {0}, 2},
        {"matmul", {2, {2, 6}}, {.trans_a = true}, 2},
        {"concat", {4, {2, 2, 2, 5}}, {.axis = 2}, 8},
        {"concat", {3, {2, 2, 6}}, {.axis = 3}, 8},
        {"concat", {4, {2, 2, 2, 6}}, {.axis = 4}, 8},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct net net;
        int32_t inputs[8] = {image(&net), -1, -1, -1, -1, -1, -1, -1};
        inputs[1] = param(&net, &pairs[i].b);
        if (culm_graph_apply(net.graph, pairs[i].op, inputs, pairs[i].count,
                             &pairs[i].attributes) >= 0) {
            fail_msg("row %zu of '%s' is not refused", i, pairs[i].op);
        }
        culm_graph_free(net.graph);
    }
}

/* What bounds a convolution is what kernels can do: terms of scattered pixels, taps, widths. */
void test_convolution_limits(void **state) {
    (void)state;
    static const struct {
        struct culm_shape x, w;
        int64_t stride, dilation;
        bool possible;
    } convs[] = {
        {{4, {1, 32, 32, 3}}, {4, {1280, 3, 16, 16}}, 16, 1, true}, /* a ViT's patches */
        {{4, {1, 9, 9, 512}}, {4, {4096, 512, 7, 7}}, 1, 1, true},
        {{4, {1, 64, 64, 1}}, {4, {8, 1, 32, 32}}, 1, 1, true},
        {{4, {1, 64, 64, 1}}, {4, {8, 1, 33, 32}}, 1, 1, false},
        {{4, {1, 9, 9, 1}}, {4, {16384, 1, 4, 4}}, 2, 1, true},
        {{4, {1, 9, 9, 1}}, {4, {16384, 1, 5, 4}}, 2, 1, false},
        {{4, {1, 9, 9, 1}}, {4, {16384, 1, 4, 4}}, 2, 2, false},
        {{4, {1, 1, 1, 1}}, {4, {65537, 1, 1, 1}}, 1, 1, false},
    };
    for (size_t i = 0; i < sizeof convs / sizeof *convs; i++) {
        struct culm_graph *graph = culm_graph_new(culm_device_default());
        const int32_t inputs[] = {
            culm_graph_field(graph, "image", CULM_F32, &convs[i].x),
            culm_graph_param(graph, "w", &convs[i].w, CULM_INIT_ZEROS, 0, true), -1};
        const struct culm_attributes how = {.stride = {convs[i].stride, convs[i].stride},
                                            .dilation = {convs[i].dilation, convs[i].dilation}};
        bool possible = culm_graph_apply(graph, "conv", inputs, 3, &how) >= 0;
        if (possible != convs[i].possible) {
            fail_msg("row %zu: %s", i, possible ? "is not refused" : graph->error.text);
        }
        culm_graph_free(graph);
    }
}
