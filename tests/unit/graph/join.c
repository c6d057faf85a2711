/*
 * Several models in one graph: parameters that they share, a loss and an output for each; stages
 * that read parameters at addresses of their own.
 */
#include "build.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 3, CONTEXT = 4, WIDTH = 8, VOCAB = 11 };

/* Embedding, a block of `layers` linear layers, head and loss. */
static void model(struct net *net, int layers, uint64_t seed) {
    int32_t x = net_begin(net, BATCH, CONTEXT, WIDTH, VOCAB);
    for (int i = 0; i < layers; i++) {
        net->graph->block++;
        x = net_gelu(net, net_linear(net, x, WIDTH));
    }
    net->graph->block++;
    net_end(net, x, -1, seed);
}

/* The first `*ctx` parameters are shared; the others are the second model's own. */
static void rename_own(void *ctx, const char *name, char *ret_name, size_t size) {
    int shared = *(const int *)ctx, number;
    bool own = sscanf(name, "p%d", &number) == 1 && number >= shared;
    snprintf(ret_name, size, own ? "second.%s" : "%s", name);
}

struct joined {
    struct net a, b;
    struct culm_graph *graph;
    const float *params[128];
};

/* Both models with the first `shared` parameters in common; model b then has a's values of them. */
static void join(struct joined *j, int shared) {
    struct culm_error error;
    model(&j->a, 2, 7);
    model(&j->b, 2, 8);
    for (int p = 0; p < shared; p++) {
        memcpy(j->b.params[p], j->a.params[p],
               (size_t)culm_elements(&j->a.graph->param[p].shape) * sizeof(float));
    }
    j->graph = culm_graph_new(culm_device_default());
    assert_non_null(j->graph);
    if (culm_graph_include(j->graph, j->a.graph, NULL, NULL, NULL, &error) ||
        culm_graph_include(j->graph, j->b.graph, rename_own, &shared, NULL, &error)) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(j->graph->param_count,
                     j->a.graph->param_count + j->b.graph->param_count - shared);
    assert_int_equal(j->graph->use_count, j->a.graph->use_count + j->b.graph->use_count);
    assert_int_equal(j->graph->field_count, 2);
    assert_int_equal(j->graph->blocks, j->a.graph->blocks + j->b.graph->blocks);
    int32_t count = 0;
    for (int p = 0; p < j->a.graph->param_count; p++) {
        j->params[count++] = j->a.params[p];
    }
    for (int p = shared; p < j->b.graph->param_count; p++) {
        j->params[count++] = j->b.params[p];
    }
}

static void join_release(struct joined *j) {
    culm_graph_free(j->graph);
    net_release(&j->a);
    net_release(&j->b);
}

static int32_t total_losses(struct culm_stage *const *stage, int32_t stages) {
    int32_t losses = 0;
    for (int32_t s = 0; s < stages; s++) {
        losses += culm_stage_info_of(stage[s])->loss_count;
    }
    return losses;
}

/* Every use has the gradient that it has in the model alone, and every loss its own total. */
static void test_each_as_alone(void **state) {
    (void)state;
    static const int shared[] = {0, 2, 4};
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        struct joined j;
        join(&j, shared[i]);
        struct batch batch = j.a.data;
        batch.params = j.params;
        struct result both, a, b;
        run_plainly(j.a.graph, &batch, &a);
        struct batch other = batch;
        other.params = (const float *const *)j.b.params;
        run_plainly(j.b.graph, &other, &b);
        for (int32_t stages = 1; stages <= 2; stages++) {
            run_stages_with(j.graph, stages, stages == 2, &batch, &both);
            assert_int_equal(both.uses, a.uses + b.uses);
            for (int32_t u = 0; u < both.uses; u++) {
                const struct culm_param *param = &j.graph->param[j.graph->use[u].param];
                const float *alone = u < a.uses ? a.grad[u] : b.grad[u - a.uses];
                assert_memory_equal(both.grad[u], alone,
                                    (size_t)culm_elements(&param->shape) * sizeof(float));
            }
            result_release(&both);
        }
        struct culm_stage *stage;
        struct culm_error error;
        assert_int_equal(culm_stages_compile(j.graph, 1, NULL, &stage, &error), CULM_OK);
        assert_int_equal(total_losses(&stage, 1), 2);
        struct culm_loss_total losses[2];
        struct culm_loss_total all = run_losses(stage, &batch, losses);
        assert_true(losses[0].loss == a.loss && losses[1].loss == b.loss);
        assert_true(all.loss == a.loss + b.loss);
        assert_int_equal(all.rows, losses[0].rows + losses[1].rows);
        culm_stage_free(stage);
        result_release(&a);
        result_release(&b);
        join_release(&j);
    }
}

static void test_refused(void **state) {
    (void)state;
    struct net a, wide;
    struct culm_error error = {0};
    model(&a, 1, 7);
    int32_t x = net_begin(&wide, BATCH, CONTEXT, 2 * WIDTH, VOCAB);
    net_end(&wide, x, -1, 7);
    struct culm_graph *graph = culm_graph_new(culm_device_default());
    assert_int_equal(culm_graph_include(graph, a.graph, NULL, NULL, NULL, &error), CULM_OK);
    assert_int_equal(culm_graph_include(graph, wide.graph, NULL, NULL, NULL, &error),
                     CULM_ERR_CONFIG);
    assert_non_null(
        strstr(error.text, "parameter 'p0' cannot be shared: it is [11,8] and [11,16]"));
    culm_graph_free(graph);

    struct net longer;
    x = net_begin(&longer, BATCH, CONTEXT + 1, WIDTH, VOCAB);
    net_end(&longer, x, -1, 7);
    graph = culm_graph_new(culm_device_default());
    assert_int_equal(culm_graph_include(graph, a.graph, NULL, NULL, NULL, &error), CULM_OK);
    assert_int_equal(culm_graph_include(graph, longer.graph, NULL, NULL, NULL, &error),
                     CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "field 'tokens' is both [3,4] and [3,5]"));
    culm_graph_free(graph);
    net_release(&a);
    net_release(&wide);
    net_release(&longer);
}

static void rename_alike(void *ctx, const char *name, char *ret_name, size_t size) {
    (void)ctx;
    snprintf(ret_name, size, "%s", name[0] == 'p' ? "all the same" : name);
}

static void rename_endlessly(void *ctx, const char *name, char *ret_name, size_t size) {
    (void)ctx;
    memset(ret_name, 'x', size - 1);
    ret_name[size - 1] = '\0';
    (void)name;
}

/* What must not be tied is not: names that become one, or that are cut. */
static void test_names_refused(void **state) {
    (void)state;
    struct net a;
    struct culm_error error = {0};
    model(&a, 1, 7);
    struct culm_graph *graph = culm_graph_new(culm_device_default());
    assert_int_equal(culm_graph_include(graph, a.graph, rename_alike, NULL, NULL, &error),
                     CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "two parameters of one model would be called"));
    culm_graph_free(graph);
    graph = culm_graph_new(culm_device_default());
    assert_int_equal(culm_graph_include(graph, a.graph, rename_endlessly, NULL, NULL, &error),
                     CULM_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.text, "is too long"));
    culm_graph_free(graph);
    net_release(&a);
}

/* --- outputs --- */

/* A loss that is trained writes over its logits; an output of something else may stand beside it,
 * and nobody gives a gradient of it. */
static void test_outputs_beside_a_loss(void **state) {
    (void)state;
    struct net net;
    struct culm_error error = {0};
    struct culm_stage *stage = NULL;
    model(&net, 1, 7);
    const struct culm_node_desc *loss = &net.graph->node[net.graph->node_count - 1];
    int32_t logits = loss->input[0];
    struct result alone, beside;
    run_stages(net.graph, 1, &net.data, &alone);
    culm_graph_output(net.graph, "hidden", net.graph->node[net.graph->node_count - 2].input[0]);
    assert_int_equal(culm_stages_compile(net.graph, 1, NULL, &stage, &error), CULM_OK);
    const struct culm_stage_info *info = culm_stage_info_of(stage);
    assert_int_equal(info->output_count, 1);
    culm_stage_free(stage);
    run_stages(net.graph, 1, &net.data, &beside);
    assert_true(alone.loss == beside.loss);
    result_expect_equal(&alone, &beside, net.graph, "an output beside the loss");
    result_release(&alone);
    result_release(&beside);
    culm_graph_output(net.graph, "logits", logits);
    assert_int_equal(culm_stages_compile(net.graph, 1, NULL, &stage, &error), CULM_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.text, "output 'logits' is what a loss is taken of"));
    net_release(&net);
}

/* A trunk with two heads; returns the stage compiled of it. */
static struct culm_stage *two_heads(struct net *net) {
    int32_t x = net_begin(net, BATCH, CONTEXT, WIDTH, VOCAB);
    int32_t trunk = net_gelu(net, net_linear(net, x, WIDTH));
    int32_t narrow = net_linear(net, trunk, 3), wide = net_linear(net, trunk, 5);
    culm_graph_output(net->graph, "wide", wide);
    culm_graph_output(net->graph, "narrow", narrow);
    struct culm_stage *stage;
    struct culm_error error;
    const struct culm_stage_options options = {.forward_only = true};
    if (culm_graph_check(net->graph, &error) ||
        culm_stages_compile(net->graph, 1, &options, &stage, &error)) {
        fail_msg("%s", error.text);
    }
    return stage;
}

static void test_outputs_and_addresses(void **state) {
    (void)state;
    struct net net;
    struct culm_stage *stage = two_heads(&net);
    const struct culm_stage_info *info = culm_stage_info_of(stage);
    assert_int_equal(info->output_count, 2);
    float *flat = fence_new((size_t)info->param_floats * sizeof(float));
    const float *param[16];
    for (int32_t i = 0; i < info->param_count; i++) {
        float *own = fence_new((size_t)info->params[i].count * sizeof(float));
        for (int64_t k = 0; k < info->params[i].count; k++) {
            own[k] = flat[info->params[i].offset + k] = sinf((float)(31 * i + k));
        }
        param[i] = own;
    }
    int32_t tokens[BATCH * CONTEXT];
    for (int i = 0; i < BATCH * CONTEXT; i++) {
        tokens[i] = (3 * i) % VOCAB;
    }
    void *output[2];
    for (int way = 0; way < 2; way++) {
        output[way] = fence_new(info->output_bytes);
        struct culm_stage_run run = {
            .params = way ? NULL : flat,
            .param = way ? param : NULL,
            .fields = (const void *const[]){tokens, NULL},
            .output = output[way],
            .activations = fence_new(info->activation_bytes),
            .scratch = fence_new(info->scratch_bytes),
        };
        assert_int_equal(culm_stage_forward(stage, run_cpu(), &run), CULM_OK);
        fence_free(run.activations);
        fence_free(run.scratch);
    }
    size_t wide = culm_stage_output_offset(stage, 0), narrow = culm_stage_output_offset(stage, 1);
    assert_true(wide != narrow);
    const size_t bytes[] = {BATCH * CONTEXT * 5 * sizeof(float),
                            BATCH * CONTEXT * 3 * sizeof(float)};
    assert_memory_equal((char *)output[0] + wide, (char *)output[1] + wide, bytes[0]);
    assert_memory_equal((char *)output[0] + narrow, (char *)output[1] + narrow, bytes[1]);
    for (size_t i = 0; i < BATCH * CONTEXT * 5; i++) {
        assert_true(isfinite(((float *)((char *)output[0] + wide))[i]));
    }
    for (size_t i = 0; i < BATCH * CONTEXT * 3; i++) {
        assert_true(isfinite(((float *)((char *)output[0] + narrow))[i]));
    }
    for (int32_t i = 0; i < info->param_count; i++) {
        fence_free((void *)param[i]);
    }
    fence_free(flat);
    fence_free(output[0]);
    fence_free(output[1]);
    culm_stage_free(stage);
    culm_graph_free(net.graph);
}

static void test_input_as_output(void **state) {
    (void)state;
    struct net net;
    struct culm_error error;
    net_begin(&net, BATCH, CONTEXT, WIDTH, VOCAB);
    culm_graph_output(net.graph, "tokens", net.tokens);
    assert_int_equal(culm_graph_check(net.graph, &error), CULM_ERR_UNSUPPORTED);
    culm_graph_free(net.graph);
}

/* --- another number of samples --- */

static void test_one_number_of_samples(void **state) {
    (void)state;
    struct net net;
    struct culm_error error = {0};
    int32_t x = net_begin(&net, BATCH, CONTEXT, WIDTH, VOCAB);
    const struct culm_attributes turned = {.dims = {CONTEXT, BATCH, WIDTH}};
    x = culm_graph_apply(net.graph, "reshape", &x, 1, &turned);
    const struct culm_attributes back = {.dims = {BATCH, CONTEXT, WIDTH}};
    x = culm_graph_apply(net.graph, "reshape", &x, 1, &back);
    net_end(&net, x, -1, 7);
    struct culm_graph *other = NULL;
    assert_int_equal(culm_graph_for_samples(net.graph, 2, &other, &error), CULM_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.text, "built for 3 samples, not for 2"));
    struct culm_stage *stage;
    struct culm_stage_rows *rows = NULL;
    assert_int_equal(culm_stages_compile(net.graph, 1, NULL, &stage, &error), CULM_OK);
    assert_int_equal(culm_stage_rows_new(stage, net.graph, 2, &rows, &error), CULM_ERR_UNSUPPORTED);
    culm_stage_free(stage);
    net_release(&net);

    model(&net, 1, 7);
    assert_int_equal(culm_stages_compile(net.graph, 1, NULL, &stage, &error), CULM_OK);
    assert_int_equal(culm_stage_rows_new(stage, net.graph, BATCH + 1, &rows, &error),
                     CULM_ERR_ARGUMENT);
    culm_stage_free(stage);
    net_release(&net);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_as_alone),         cmocka_unit_test(test_refused),
        cmocka_unit_test(test_names_refused),         cmocka_unit_test(test_outputs_beside_a_loss),
        cmocka_unit_test(test_outputs_and_addresses), cmocka_unit_test(test_input_as_output),
        cmocka_unit_test(test_one_number_of_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
