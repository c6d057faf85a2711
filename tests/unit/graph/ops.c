/*
 * Operators through the graph: every gradient against central differences of the loss, and what
 * shape rules say of what does not fit.
 */
#include "check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SEED CHECK_SEED

static int32_t begin(struct net *net) { return net_begin(net, 2, 5, 6, 7); }

static void test_embedding_and_head(void **state) {
    (void)state;
    struct net net;
    int32_t x = begin(&net);
    net_end(&net, x, -1, SEED);
    check_gradients(&net);
}

static void test_tied_head(void **state) {
    (void)state;
    struct net net;
    int32_t x = begin(&net);
    net_end(&net, x, net.table, SEED);
    check_gradients(&net);
}

static void test_linear(void **state) {
    (void)state;
    struct net net;
    int32_t x = begin(&net);
    x = net_linear(&net, net_linear(&net, x, 9), 4);
    net_end(&net, x, -1, SEED);
    check_gradients(&net);
}

static void test_layernorm(void **state) {
    (void)state;
    struct net net;
    int32_t x = begin(&net);
    net_end(&net, net_layernorm(&net, x), -1, SEED);
    check_gradients(&net);
}

static void test_gelu(void **state) {
    (void)state;
    struct net net;
    int32_t x = begin(&net);
    net_end(&net, net_gelu(&net, x), -1, SEED);
    check_gradients(&net);
}

static void test_dropout(void **state) {
    (void)state;
    struct net net;
    int32_t x = begin(&net);
    x = net_unary(&net, "dropout", x, 0.3);
    net_end(&net, net_gelu(&net, x), -1, SEED);
    check_gradients(&net);
}

static void test_attention(void **state) {
    (void)state;
    for (int dropout = 0; dropout < 2; dropout++) {
        struct net net;
        int32_t x = begin(&net);
        x = net_attention(&net, net_linear(&net, x, 18), 3, dropout ? 0.3 : 0);
        net_end(&net, x, -1, SEED);
        check_gradients(&net);
    }
}

/* What flows back past a layer norm is added by its kernel. */
static void test_residual(void **state) {
    (void)state;
    for (int dropout = 0; dropout < 2; dropout++) {
        struct net net;
        int32_t x = begin(&net);
        int32_t h = net_linear(&net, net_layernorm(&net, x), 6);
        net_end(&net, net_binary(&net, "residual", x, h, dropout ? 0.3 : 0), -1, SEED);
        check_gradients(&net);
    }
}

/* One value with three readers: sums of the graph's own. */
static void test_add_and_fan_out(void **state) {
    (void)state;
    struct net net;
    int32_t x = begin(&net);
    int32_t a = net_gelu(&net, x), b = net_linear(&net, x, 6);
    x = net_binary(&net, "add", net_binary(&net, "add", a, x, 0), b, 0);
    x = net_binary(&net, "add", x, x, 0);
    net_end(&net, net_layernorm(&net, x), -1, SEED);
    check_gradients(&net);
}

/* A distance beside the loss at the end, of a value that others read too: with a weight a channel,
 * without, in two ranks; and what does not fit. */
static void test_squared_error(void **state) {
    (void)state;
    static _Alignas(64) float wanted[60], weight[12];
    for (int i = 0; i < 60; i++) {
        wanted[i] = (float)(i % 7) / 5 - 0.6F;
        weight[i % 12] = (float)(i % 5) / 2;
    }
    for (int weighted = 0; weighted < 2; weighted++) {
        struct net net;
        int32_t x = begin(&net), h = net_gelu(&net, net_linear(&net, x, 6));
        const struct culm_shape shape = {3, {2, 5, 6}}, channels = {3, {2, 1, 6}};
        int32_t in[] = {h, culm_graph_field(net.graph, "wanted", CULM_F32, &shape), -1};
        if (weighted) {
            in[2] = culm_graph_field(net.graph, "weight", CULM_F32, &channels);
        }
        culm_graph_apply(net.graph, "squared_error", in, 3, NULL);
        net_end(&net, net_binary(&net, "add", h, x, 0), -1, SEED);
        net.data.fields[2] = wanted;
        net.data.fields[3] = weight;
        check_gradients(&net);
    }
    for (int bad = 0; bad < 3; bad++) {
        struct net net;
        struct culm_error error;
        int32_t x = begin(&net);
        const struct culm_shape shape = {3, {2, 5, bad == 0 ? 7 : 6}}, channels = {3, {2, 1, 5}};
        int32_t in[] = {x, culm_graph_field(net.graph, "wanted", CULM_F32, &shape), -1};
        if (bad == 1) {
            in[2] = culm_graph_field(net.graph, "weight", CULM_F32, &channels);
        } else if (bad == 2) {
            in[2] = net_param(&net, 1, 6, 0);
        }
        assert_int_equal(culm_graph_apply(net.graph, "squared_error", in, 3, NULL), -1);
        assert_int_equal(culm_graph_check(net.graph, &error), CULM_ERR_CONFIG);
        assert_non_null(strstr(error.text, "squared_error"));
        net_release(&net);
    }
}

static void test_all_operators_were_checked(void **state) {
    (void)state;
    const char *missing = check_missing();
    if (missing) {
        fail_msg("no test looks at the gradient of '%s'", missing);
    }
}

/* `first` stores; without it the share of a second micro-batch is added. */
static void test_first_stores_then_adds(void **state) {
    (void)state;
    struct net net;
    struct culm_stage *stage;
    struct culm_error error;
    int32_t x = begin(&net);
    int32_t h = net_attention(&net, net_linear(&net, net_layernorm(&net, x), 18), 2, 0.2);
    net_end(&net, net_binary(&net, "residual", x, h, 0.2), net.table, SEED);
    assert_int_equal(culm_stages_compile(net.graph, 1, NULL, &stage, &error), CULM_OK);
    const struct culm_stage_info *info = culm_stage_info_of(stage);
    struct result once;
    run_stages(net.graph, 1, &net.data, &once);
    float *params = fence_new((size_t)info->param_floats * sizeof(float));
    for (int32_t i = 0; i < info->param_count; i++) {
        memcpy(params + info->params[i].offset, net.params[info->params[i].global_index],
               (size_t)info->params[i].count * sizeof(float));
    }
    struct culm_stage_run run = {.seed = net.data.seed,
                                 .iteration = net.data.iteration,
                                 .first_sample = net.data.first_sample,
                                 .params = params,
                                 .fields = net.data.fields,
                                 .loss_scale = 1,
                                 .activations = fence_new(info->activation_bytes),
                                 .scratch = fence_new(info->scratch_bytes),
                                 .grads = fence_new((size_t)info->grad_floats * sizeof(float))};
    assert_int_equal(culm_stage_forward(stage, run_cpu(), &run), CULM_OK);
    for (int repeat = 0; repeat < 3; repeat++) {
        run.first = repeat < 2; /* stored twice, then added */
        assert_int_equal(culm_stage_backward(stage, run_cpu(), &run), CULM_OK);
        for (int32_t g = 0; g < info->grad_count; g++) {
            const struct culm_grad_info *grad = &info->grads[g];
            const float *want = once.grad[grad->global_use], *have = run.grads + grad->offset;
            if (repeat < 2) {
                assert_memory_equal(have, want, (size_t)grad->count * sizeof(float));
                continue;
            }
            double largest = 0, difference = 0;
            for (int64_t i = 0; i < grad->count; i++) {
                largest = fmax(largest, fabs((double)want[i]));
                difference = fmax(difference, fabs((double)have[i] - 2 * (double)want[i]));
            }
            assert_true(difference <= 1e-5 * largest);
        }
    }
    fence_free(params);
    fence_free(run.activations);
    fence_free(run.scratch);
    fence_free(run.grads);
    result_release(&once);
    culm_stage_free(stage);
    net_release(&net);
}

/* --- what does not fit --- */

static int32_t bad_linear(struct net *net, int32_t x) {
    const int32_t in[] = {x, net_param(net, 2, 5, 3), net_param(net, 1, 3, 0)};
    return culm_graph_apply(net->graph, "linear", in, 3, NULL);
}
static int32_t bad_bias(struct net *net, int32_t x) {
    const int32_t in[] = {x, net_param(net, 2, 6, 3), net_param(net, 1, 4, 0)};
    return culm_graph_apply(net->graph, "linear", in, 3, NULL);
}
static int32_t bad_head(struct net *net, int32_t x) {
    return net_head(net, x, net_param(net, 2, 7, 8));
}
static int32_t bad_layernorm(struct net *net, int32_t x) {
    const int32_t in[] = {x, net_param(net, 1, 6, 0), net_param(net, 1, 5, 0)};
    return culm_graph_apply(net->graph, "layernorm", in, 3, NULL);
}
static int32_t bad_heads(struct net *net, int32_t x) { return net_attention(net, x, 4, 0); }
static int32_t bad_sum(struct net *net, int32_t x) {
    return net_binary(net, "add", x, net_linear(net, x, 5), 0);
}
static int32_t bad_residual(struct net *net, int32_t x) {
    return net_binary(net, "residual", x, net_linear(net, x, 7), 0.1);
}
static int32_t bad_targets(struct net *net, int32_t x) {
    const struct culm_shape other = {2, {2, 4}};
    int32_t targets = culm_graph_field(net->graph, "other", CULM_I32, &other);
    return net_binary(net, "cross_entropy", x, targets, 0);
}
static int32_t bad_positions(struct net *net, int32_t x) {
    (void)x;
    const int32_t in[] = {net->tokens, net->table, net_param(net, 2, 4, 6)};
    return culm_graph_apply(net->graph, "embedding", in, 3, NULL);
}
static int32_t bad_tables(struct net *net, int32_t x) {
    (void)x;
    const int32_t in[] = {net->tokens, net->table, net_param(net, 2, 5, 4)};
    return culm_graph_apply(net->graph, "embedding", in, 3, NULL);
}

static const struct {
    int32_t (*build)(struct net *net, int32_t x);
    const char *op, *shape, *other;
} wrong[] = {
    {bad_linear, "'linear'", "[2,5,6]", "[5,3]"},
    {bad_bias, "'linear'", "[6,3]", "[4]"},
    {bad_head, "'linear'", "[2,5,6]", "[7,8]"},
    {bad_layernorm, "'layernorm'", "[2,5,6]", "[5]"},
    {bad_heads, "'attention'", "[2,5,6]", "heads"},
    {bad_sum, "'add'", "[2,5,6]", "[2,5,5]"},
    {bad_residual, "'residual'", "[2,5,6]", "[2,5,7]"},
    {bad_targets, "'cross_entropy'", "[2,5,6]", "[2,4]"},
    {bad_positions, "'embedding'", "[2,5]", "[4,6]"},
    {bad_tables, "'embedding'", "[7,6]", "[5,4]"},
};

static void test_shape_errors(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct net net;
        struct culm_error error = {0};
        int32_t x = begin(&net);
        assert_int_equal(wrong[i].build(&net, x), -1);
        assert_int_equal(culm_graph_check(net.graph, &error), CULM_ERR_CONFIG);
        if (!strstr(error.text, wrong[i].op) || !strstr(error.text, wrong[i].shape) ||
            !strstr(error.text, wrong[i].other)) {
            fail_msg("'%s' does not name %s, %s and %s", error.text, wrong[i].op, wrong[i].shape,
                     wrong[i].other);
        }
        /* The first error stays, and building goes no further. */
        int32_t nodes = net.graph->node_count;
        assert_int_equal(net_gelu(&net, x), -1);
        assert_int_equal(net_param(&net, 1, 3, 0), -1);
        assert_int_equal(net.graph->node_count, nodes);
        struct culm_error again = {0};
        culm_graph_check(net.graph, &again);
        assert_string_equal(again.text, error.text);
        culm_graph_free(net.graph);
    }
}

static void test_unknown_operator(void **state) {
    (void)state;
    struct net net;
    int32_t x = begin(&net);
    assert_int_equal(net_unary(&net, "relux", x, 0), -1);
    assert_int_equal(culm_graph_check(net.graph, NULL), CULM_ERR_INTERNAL);
    culm_graph_free(net.graph);
    x = begin(&net);
    assert_int_equal(net_binary(&net, "dropout", x, x, 0), -1); /* one input too many */
    assert_int_equal(culm_graph_check(net.graph, NULL), CULM_ERR_INTERNAL);
    culm_graph_free(net.graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embedding_and_head),
        cmocka_unit_test(test_tied_head),
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_layernorm),
        cmocka_unit_test(test_gelu),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_residual),
        cmocka_unit_test(test_add_and_fan_out),
        cmocka_unit_test(test_lookup),
        cmocka_unit_test(test_positions),
        cmocka_unit_test(test_gather_rows),
        cmocka_unit_test(test_separate_attention),
        cmocka_unit_test(test_lstm),
        cmocka_unit_test(test_bahdanau),
        cmocka_unit_test(test_ignored_targets),
        cmocka_unit_test(test_sequence_shape_errors),
        cmocka_unit_test(test_sparse_linear),
        cmocka_unit_test(test_sparse_linear_bits),
        cmocka_unit_test(test_sparse_linear_words),
        cmocka_unit_test(test_sparse_linear_adds),
        cmocka_unit_test(test_rows_of_layers),
        cmocka_unit_test(test_sparse_worth_words),
        cmocka_unit_test(test_sparse_refusals),
        cmocka_unit_test(test_row_refusals),
        cmocka_unit_test(test_sample_ids),
        cmocka_unit_test(test_vision_gradients),
        cmocka_unit_test(test_vision_bits),
        cmocka_unit_test(test_batchnorm_statistics),
        cmocka_unit_test(test_vision_refusals),
        cmocka_unit_test(test_convolution_limits),
        cmocka_unit_test(test_squared_error),
        cmocka_unit_test(test_all_operators_were_checked),
        cmocka_unit_test(test_first_stores_then_adds),
        cmocka_unit_test(test_shape_errors),
        cmocka_unit_test(test_unknown_operator),
    };
    return cmocka_run_group_tests_name("graph/ops", tests, NULL, NULL);
}
