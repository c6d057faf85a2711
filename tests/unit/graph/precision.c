/* Types that lowering to bf16 gives to values, and that what is lowered computes nearly the same,
 * with the same bits however it is run. */
#include "build.h"

#include "graph/precision.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define SEED 5
#define NEAR 0.04 /* length of the difference over that of the f32 gradient */

static enum culm_dtype type_of(const struct net *net, int32_t value) {
    return net->graph->value[value].dtype;
}

static void lower(struct net *net) {
    assert_int_equal(culm_graph_lower_bf16(net->graph, NULL), CULM_OK);
}

struct block {
    int32_t ln, qkv, attention, projected, x;
};

/* The block of a transformer. */
static struct block block(struct net *net, int32_t x, double dropout) {
    struct block b = {.ln = net_layernorm(net, x)};
    b.qkv = net_linear(net, b.ln, 3 * net->width);
    b.attention = net_attention(net, b.qkv, 2, dropout);
    b.projected = net_linear(net, b.attention, net->width);
    b.x = net_binary(net, "residual", x, b.projected, dropout);
    return b;
}

static void test_types_of_a_transformer(void **state) {
    (void)state;
    struct net net;
    int32_t x = net_begin(&net, 2, 5, 8, 7);
    int32_t dropped = net_unary(&net, "dropout", x, 0.1);
    struct block b = block(&net, dropped, 0.1);
    int32_t wide = net_linear(&net, net_layernorm(&net, b.x), 16), gelu = net_gelu(&net, wide);
    int32_t y = net_binary(&net, "residual", b.x, net_linear(&net, gelu, 8), 0.1);
    int32_t last = net_layernorm(&net, y);
    net_end(&net, last, net.table, SEED);
    lower(&net);
    assert_int_equal(type_of(&net, x), CULM_F32);
    assert_int_equal(type_of(&net, dropped), CULM_F32);
    assert_int_equal(type_of(&net, b.ln), CULM_BF16);
    assert_int_equal(type_of(&net, b.ln + 1), CULM_F32); /* mean */
    assert_int_equal(type_of(&net, b.qkv), CULM_BF16);
    assert_int_equal(type_of(&net, b.attention), CULM_BF16);
    assert_int_equal(type_of(&net, b.attention + 1), CULM_F32); /* log of sums */
    assert_int_equal(type_of(&net, b.projected), CULM_BF16);
    assert_int_equal(type_of(&net, b.x), CULM_F32);
    assert_int_equal(type_of(&net, gelu), CULM_BF16);
    assert_int_equal(type_of(&net, y), CULM_F32);
    assert_int_equal(type_of(&net, last), CULM_BF16);
    const struct culm_node_desc *loss = &net.graph->node[net.graph->node_count - 1];
    assert_string_equal(loss->op->name, "cross_entropy");
    assert_int_equal(type_of(&net, loss->input[0]), CULM_BF16);
    assert_int_equal(type_of(&net, loss->output[0]), CULM_BF16); /* in place of the logits */
    for (int32_t p = 0; p < net.graph->param_count; p++) {
        assert_int_equal(type_of(&net, net.graph->param[p].value), CULM_F32);
    }
    net_release(&net);
}

/* A layer norm that is also the stream, and a sum of both types. */
static void test_types_of_a_stream(void **state) {
    (void)state;
    struct net net;
    int32_t x = net_begin(&net, 2, 5, 8, 7);
    int32_t stream = net_layernorm(&net, x), h = net_linear(&net, stream, 8);
    int32_t y = net_binary(&net, "residual", stream, h, 0);
    int32_t mixed = net_binary(&net, "add", y, h, 0), low = net_binary(&net, "add", h, h, 0);
    lower(&net);
    assert_int_equal(type_of(&net, stream), CULM_F32);
    assert_int_equal(type_of(&net, h), CULM_BF16);
    assert_int_equal(type_of(&net, mixed), CULM_F32);
    assert_int_equal(type_of(&net, low), CULM_BF16);
    culm_graph_free(net.graph);
}

/* What is given to the outside is f32, and so is what it is made of in place. */
static void test_output(void **state) {
    (void)state;
    struct net net;
    int32_t x = net_begin(&net, 2, 5, 8, 7);
    int32_t h = net_linear(&net, x, 8), y = net_gelu(&net, h);
    culm_graph_output(net.graph, "y", y);
    lower(&net);
    assert_int_equal(type_of(&net, h), CULM_F32);
    assert_int_equal(type_of(&net, y), CULM_F32);
    culm_graph_free(net.graph);
}

static void build(struct net *net, double dropout) {
    int32_t x = net_begin(net, 3, 40, 32, 50);
    x = block(net, net_unary(net, "dropout", x, dropout), dropout).x;
    net->graph->block = 1;
    int32_t h = net_gelu(net, net_linear(net, net_layernorm(net, x), 64));
    x = net_binary(net, "residual", x, net_linear(net, h, 32), dropout);
    net->graph->block = 2;
    x = net_linear(net, x, 24); /* a border of bf16 */
    net->graph->block = 3;
    net_end(net, net_layernorm(net, net_binary(net, "add", x, net_gelu(net, x), 0)), -1, SEED);
}

static void test_runs(void **state) {
    (void)state;
    for (int dropout = 0; dropout < 2; dropout++) {
        struct net net;
        struct result full, low, again;
        build(&net, dropout ? 0.2 : 0);
        run_stages(net.graph, 1, &net.data, &full);
        lower(&net);
        run_stages(net.graph, 1, &net.data, &low);
        run_plainly(net.graph, &net.data, &again);
        result_expect_equal(&low, &again, net.graph, "plainly");
        result_release(&again);
        for (int32_t stages = 2; stages <= 4; stages++) {
            run_stages(net.graph, stages, &net.data, &again);
            result_expect_equal(&low, &again, net.graph, "in stages");
            result_release(&again);
        }
        assert_true(full.loss != low.loss);
        assert_true(fabs(full.loss - low.loss) < 0.01 * fabs(full.loss));
        for (int32_t u = 0; u < full.uses; u++) {
            int64_t count = culm_elements(&net.graph->param[net.graph->use[u].param].shape);
            double difference = 0, size = 0;
            for (int64_t i = 0; i < count; i++) {
                double a = (double)full.grad[u][i], b = (double)low.grad[u][i];
                difference += (a - b) * (a - b);
                size += a * a;
            }
            if (!(sqrt(difference) <= NEAR * sqrt(size))) {
                fail_msg("seed %d, dropout %d: the gradient of use %d is off by %g of its length",
                         SEED, dropout, u, sqrt(difference / size));
            }
        }
        result_release(&full);
        result_release(&low);
        net_release(&net);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types_of_a_transformer),
        cmocka_unit_test(test_types_of_a_stream),
        cmocka_unit_test(test_output),
        cmocka_unit_test(test_runs),
    };
    return cmocka_run_group_tests_name("graph/precision", tests, NULL, NULL);
}
