/*
 * Stages: random networks give the same bits plainly and compiled, cut anywhere; where cuts fall;
 * what is refused.
 */
#include "build.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NETWORKS 40
#define BLOCKS 6

static uint64_t seed;

/* --- random networks --- */

/* One block: a few operators on values of the block, then everything that was left over is added
 * up, so that one value leaves and every parameter reaches the loss. */
static int32_t random_block(struct net *net, int32_t x, uint64_t *random) {
    int32_t value[16], readers[16] = {0}, count = 1;
    value[0] = x;
    int32_t steps = 1 + (int32_t)culm_rng_below(random, 5);
    for (int32_t i = 0; i < steps; i++) {
        int32_t a = (int32_t)culm_rng_below(random, (uint64_t)count);
        int32_t b = (int32_t)culm_rng_below(random, (uint64_t)count);
        double dropout = culm_rng_below(random, 2) ? 0.25 : 0;
        int32_t y;
        /* Parameters are few: a graph of these tests has at most 64 of them. */
        switch (culm_rng_below(random, net->graph->param_count > 48 ? 4 : 7)) {
        case 0: y = net_gelu(net, value[a]); break;
        case 1: y = net_unary(net, "dropout", value[a], 0.25); break;
        case 2:
            y = net_binary(net, "residual", value[a], value[b], dropout);
            readers[b]++;
            break;
        case 3:
            y = net_binary(net, "add", value[a], value[b], 0);
            readers[b]++;
            break;
        case 4: y = net_layernorm(net, value[a]); break;
        case 5: y = net_linear(net, value[a], net->width); break;
        default:
            y = net_attention(net, net_linear(net, value[a], 3 * net->width), 2, dropout);
            break;
        }
        readers[a]++;
        value[count++] = y;
    }
    int32_t sum = value[count - 1];
    for (int32_t i = count - 2; i >= 0; i--) {
        if (readers[i] == 0) {
            sum = net_binary(net, "add", sum, value[i], 0);
        }
    }
    /* Values grow when they are added up; the next block starts from a layer norm now and then. */
    return culm_rng_below(random, 3) || net->graph->param_count > 48 ? sum
                                                                     : net_layernorm(net, sum);
}

/* Now and then a value of an earlier block is added: it crosses every cut between. */
static void random_net(struct net *net, uint64_t *random) {
    int32_t x = net_begin(net, 2, 4, 8, 11), before[BLOCKS + 1] = {x};
    for (int32_t b = 0; b < BLOCKS; b++) {
        net->graph->block = b;
        x = random_block(net, x, random);
        if (culm_rng_below(random, 3) == 0) {
            int32_t from = (int32_t)culm_rng_below(random, (uint64_t)b + 1);
            x = net_binary(net, "residual", x, before[from], 0.25);
        }
        before[b + 1] = x;
    }
    int32_t table = culm_rng_below(random, 2) ? net->table : -1;
    net_end(net, net_layernorm(net, x), table, culm_rng_next(random));
}

/* Single parameters, or all of the first ones. */
static void random_choice(const struct net *net, uint64_t *random, bool *ret_frozen) {
    const int32_t count = net->graph->param_count;
    const int32_t first = (int32_t)culm_rng_below(random, (uint64_t)count + 1);
    const bool single = culm_rng_below(random, 2);
    for (int32_t p = 0; p < count; p++) {
        ret_frozen[p] = single ? culm_rng_below(random, 2) : p < first;
    }
}

/* Memory is full of NaN before each use and fenced; a value whose place another one takes too
 * early, or that is read before it is written, shows. */
static void test_plain_and_cut(void **state) {
    (void)state;
    uint64_t random = seed;
    int32_t several = 0;
    for (int n = 0; n < NETWORKS; n++) {
        struct net net;
        struct result plain, cut;
        random_net(&net, &random);
        run_plainly(net.graph, &net.data, &plain);
        assert_true(isfinite(plain.loss));
        for (int32_t stages = 1; stages <= BLOCKS; stages++) {
            char what[96];
            snprintf(what, sizeof what, "seed %llu, network %d, %d stages",
                     (unsigned long long)seed, n, stages);
            for (int recompute = 0; recompute < 2; recompute++) {
                run_stages_with(net.graph, stages, recompute, &net.data, &cut);
                result_expect_equal(&plain, &cut, net.graph, what);
                result_release(&cut);
                bool frozen[64] = {0};
                random_choice(&net, &random, frozen);
                run_stages_frozen(net.graph, stages, recompute, frozen, &net.data, &cut);
                result_expect_frozen(&plain, &cut, net.graph, frozen, what);
                result_release(&cut);
            }
            several += stages > 1;
        }
        result_release(&plain);
        net_release(&net);
    }
    assert_int_equal(several, NETWORKS * (BLOCKS - 1));
}

/* A value that backward needs leaves the stage as well: attention's output, at the border. */
static void test_output_also_kept(void **state) {
    (void)state;
    struct net net;
    struct result plain, cut;
    int32_t x = net_begin(&net, 2, 4, 8, 11);
    x = net_attention(&net, net_linear(&net, x, 24), 2, 0.25);
    net.graph->block = 1;
    x = net_attention(&net, net_linear(&net, x, 24), 2, 0.25);
    net_end(&net, x, net.table, 3);
    run_plainly(net.graph, &net.data, &plain);
    run_stages(net.graph, 2, &net.data, &cut);
    result_expect_equal(&plain, &cut, net.graph, "attention at the border");
    result_release(&plain);
    result_release(&cut);
    net_release(&net);
}

/* Other seeds, iterations, samples and operators drop other elements. */
static void test_dropout_key(void **state) {
    (void)state;
    struct net net;
    struct result a, b;
    int32_t x = net_begin(&net, 2, 4, 8, 11);
    net_end(&net, net_unary(&net, "dropout", x, 0.5), -1, 3);
    run_stages(net.graph, 1, &net.data, &a);
    const struct batch before = net.data;
    for (int i = 0; i < 3; i++) {
        net.data = before;
        net.data.seed += i == 0;
        net.data.iteration += i == 1;
        net.data.first_sample += i == 2;
        run_stages(net.graph, 1, &net.data, &b);
        assert_memory_not_equal(&a.loss, &b.loss, sizeof a.loss);
        result_release(&b);
    }
    net.data = before;
    result_release(&a);
    net_release(&net);
}

/* --- where cuts fall --- */

/* A graph whose block b has cost[b] equal linear layers. */
static void net_of_costs(struct net *net, const int32_t *cost, int32_t blocks) {
    int32_t x = net_begin(net, 1, 2, 8, 2);
    for (int32_t b = 0; b < blocks; b++) {
        net->graph->block = b;
        for (int32_t i = 0; i < cost[b]; i++) {
            x = net_linear(net, x, 8);
        }
    }
    assert_int_equal(culm_graph_check(net->graph, NULL), CULM_OK);
}

static int32_t largest_of(const int32_t *cost, int32_t blocks, const int32_t *first,
                          int32_t stages) {
    int32_t largest = 0;
    for (int32_t s = 0; s < stages; s++) {
        int32_t sum = 0, end = s + 1 < stages ? first[s + 1] : blocks;
        for (int32_t b = first[s]; b < end; b++) {
            sum += cost[b];
        }
        largest = sum > largest ? sum : largest;
    }
    return largest;
}

/* The best there is, by trying every cut. */
static int32_t smallest_largest(const int32_t *cost, int32_t blocks, int32_t *first, int32_t s,
                                int32_t stages) {
    if (s == stages) {
        return largest_of(cost, blocks, first, stages);
    }
    int32_t best = INT32_MAX;
    for (int32_t b = first[s - 1] + 1; b <= blocks - (stages - s); b++) {
        first[s] = b;
        int32_t largest = smallest_largest(cost, blocks, first, s + 1, stages);
        best = largest < best ? largest : best;
    }
    return best;
}

static void test_cut_is_best(void **state) {
    (void)state;
    uint64_t random = seed;
    for (int n = 0; n < 60; n++) {
        int32_t cost[8], first[8], any[8] = {0};
        double measured[8];
        int32_t blocks = 1 + (int32_t)culm_rng_below(&random, 8);
        for (int32_t b = 0; b < blocks; b++) {
            cost[b] = 1 + (int32_t)culm_rng_below(&random, 5);
            measured[b] = cost[b];
        }
        struct net net;
        net_of_costs(&net, cost, blocks);
        for (int32_t stages = 1; stages <= blocks; stages++) {
            struct culm_error error;
            const struct culm_cut_options options = {.block_cost = measured};
            assert_int_equal(culm_graph_cut(net.graph, stages, &options, first, &error), CULM_OK);
            assert_int_equal(first[0], 0);
            for (int32_t s = 1; s < stages; s++) {
                assert_true(first[s] > first[s - 1] && first[s] < blocks);
            }
            int32_t best = smallest_largest(cost, blocks, any, 1, stages);
            int32_t have = largest_of(cost, blocks, first, stages);
            if (have != best) {
                fail_msg("seed %llu, network %d: %d stages of at most %d, %d is possible",
                         (unsigned long long)seed, n, stages, have, best);
            }
        }
        culm_graph_free(net.graph);
    }
}

static void test_equal_blocks_share_equally(void **state) {
    (void)state;
    const int32_t cost[6] = {3, 3, 3, 3, 3, 3};
    struct net net;
    int32_t first[6];
    net_of_costs(&net, cost, 6);
    for (int32_t stages = 1; stages <= 6; stages++) {
        if (6 % stages) {
            continue;
        }
        const double measured[6] = {3, 3, 3, 3, 3, 3};
        const struct culm_cut_options options = {.block_cost = measured};
        assert_int_equal(culm_graph_cut(net.graph, stages, &options, first, NULL), CULM_OK);
        for (int32_t s = 0; s < stages; s++) {
            assert_int_equal(first[s], s * (6 / stages));
        }
    }
    culm_graph_free(net.graph);
}

/* Memory moves the cut away from where work alone would put it, or says that nothing fits. */
static void test_memory_limit(void **state) {
    (void)state;
    const int32_t cost[4] = {1, 1, 1, 9};
    const double equal[4] = {9, 1, 1, 1};
    struct net net;
    int32_t first[2];
    struct culm_error error = {0};
    net_of_costs(&net, cost, 4);
    struct culm_cut_options options = {.block_cost = equal, .vectors = 4};
    assert_int_equal(culm_graph_cut(net.graph, 2, &options, first, NULL), CULM_OK);
    assert_int_equal(first[1], 1);
    options.memory_bytes = 4 * 9 * 72 * sizeof(float); /* the last block alone, and no more */
    assert_int_equal(culm_graph_cut(net.graph, 2, &options, first, NULL), CULM_OK);
    assert_int_equal(first[1], 3);
    options.memory_bytes -= 1;
    assert_int_equal(culm_graph_cut(net.graph, 2, &options, first, &error), CULM_ERR_MEMORY);
    assert_non_null(strstr(error.text, "memory_mb"));
    culm_graph_free(net.graph);
}

/* The least memory in which the activations of equal blocks, each a stage, find room. */
static size_t least_memory(int32_t stages) {
    const double equal[3] = {1, 1, 1};
    int32_t first[3];
    struct net net;
    int32_t x = net_begin(&net, 1, 2, 8, 2);
    for (int32_t b = 0; b < stages; b++) {
        net.graph->block = b;
        for (int i = 0; i < 4; i++) {
            x = net_linear(&net, x, 8);
        }
    }
    net_end(&net, x, -1, 1);
    size_t low = 0, high = (size_t)1 << 20; /* too little, and enough */
    while (high - low > 1) {
        const struct culm_cut_options options = {.block_cost = equal,
                                                 .memory_bytes = (low + high) / 2};
        bool fits = culm_graph_cut(net.graph, stages, &options, first, NULL) == CULM_OK;
        *(fits ? &high : &low) = options.memory_bytes;
    }
    net_release(&net);
    return high;
}

/* The first of so many stages keeps the activations of as many micro-batches. */
static void test_memory_of_activations(void **state) {
    (void)state;
    assert_true(least_memory(2) < (size_t)1 << 20);
    assert_int_equal(2 * least_memory(3), 3 * least_memory(2));
}

/* --- what is refused --- */

static void test_too_many_stages(void **state) {
    (void)state;
    const int32_t cost[3] = {1, 1, 1}, bad[] = {4, 100, 0, -1};
    struct net net;
    net_of_costs(&net, cost, 3);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct culm_stage *stage[128] = {NULL};
        struct culm_error error = {0};
        char number[16];
        snprintf(number, sizeof number, "%d", bad[i]);
        assert_int_equal(culm_stages_compile(net.graph, bad[i], NULL, stage, &error),
                         CULM_ERR_CONFIG);
        assert_non_null(strstr(error.text, number));
        assert_non_null(strstr(error.text, "1 to 3"));
        assert_null(strchr(error.text, '\n'));
        assert_null(stage[0]);
    }
    culm_graph_free(net.graph);
}

static void test_two_values_cross(void **state) {
    (void)state;
    struct net net;
    struct culm_stage *stage[2] = {NULL, NULL};
    struct culm_error error = {0};
    int32_t x = net_begin(&net, 2, 4, 8, 11);
    int32_t y = net_gelu(&net, x);
    net.graph->block = 1;
    net_end(&net, net_binary(&net, "add", x, y, 0), -1, 3);
    assert_int_equal(culm_stages_compile(net.graph, 2, NULL, stage, &error), CULM_OK);
    assert_int_equal(culm_stage_info_of(stage[0])->output_count, 2);
    assert_int_equal(culm_stage_info_of(stage[1])->input_count, 2);
    assert_int_equal(culm_stage_info_of(stage[1])->input_bytes, 2 * (2 * 4 * 8 * 4));
    culm_stage_free(stage[0]);
    culm_stage_free(stage[1]);
    net_release(&net);
}

/* --- what is frozen --- */

static int32_t count_backward(const struct culm_stage *stage, const char *op) {
    const struct culm_stage_info *info = culm_stage_info_of(stage);
    int32_t count = 0;
    for (int32_t i = 0; i < info->backward_ops; i++) {
        count += !strcmp(culm_stage_program(stage)->node[info->forward_ops + i].op->name, op);
    }
    return count;
}

static struct culm_stage *compile_frozen(const struct net *net, const bool *frozen) {
    struct culm_stage *stage;
    struct culm_error error;
    const struct culm_stage_options options = {.frozen = frozen};
    if (culm_stages_compile(net->graph, 1, &options, &stage, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    return stage;
}

/* A chain of four linear layers [8,8] behind an embedding, each with a GELU. */
static void test_frozen_costs_nothing(void **state) {
    (void)state;
    struct net net;
    int32_t weight[4], x = net_begin(&net, 2, 4, 8, 11);
    for (int32_t l = 0; l < 4; l++) {
        weight[l] = net.graph->param_count;
        x = net_gelu(&net, net_linear(&net, x, 8));
    }
    net_end(&net, x, -1, 3);
    const int32_t head = net.graph->param_count - 1, value_bytes = 2 * 4 * 8 * 4;
    bool frozen[64] = {0};
    struct culm_stage *all = compile_frozen(&net, frozen);
    assert_int_equal(count_backward(all, "linear_grad_weight"), 5);
    assert_int_equal(count_backward(all, "linear_grad_input"), 5);
    assert_int_equal(count_backward(all, "embedding_grad"), 1);

    /* In the middle: what lies before it still needs gradients of values. What the layer read is no
     * longer kept, and there is no room for its gradients. */
    frozen[weight[2]] = frozen[weight[2] + 1] = true;
    struct culm_stage *middle = compile_frozen(&net, frozen);
    assert_int_equal(count_backward(middle, "linear_grad_weight"), 4);
    assert_int_equal(count_backward(middle, "linear_grad_input"), 5);
    assert_int_equal(culm_stage_info_of(middle)->grad_count,
                     culm_stage_info_of(all)->grad_count - 2);
    assert_int_equal(culm_stage_info_of(middle)->grad_floats,
                     culm_stage_info_of(all)->grad_floats - (64 + 16));
    assert_int_equal(culm_stage_info_of(middle)->activation_bytes,
                     culm_stage_info_of(all)->activation_bytes - (size_t)value_bytes);
    assert_int_equal(culm_stage_info_of(middle)->param_count, culm_stage_info_of(all)->param_count);

    /* The weight but not the bias: one operator makes both, and what nobody wants has a place. */
    frozen[weight[2] + 1] = false;
    struct culm_stage *bias = compile_frozen(&net, frozen);
    assert_int_equal(count_backward(bias, "linear_grad_weight"), 5);
    assert_int_equal(culm_stage_info_of(bias)->grad_count, culm_stage_info_of(all)->grad_count - 1);
    assert_int_equal(culm_stage_info_of(bias)->grad_floats, culm_stage_info_of(all)->grad_floats);

    /* All but the last layer and the head: backward ends at the layer. */
    for (int32_t p = 0; p < weight[3]; p++) {
        frozen[p] = true;
    }
    struct culm_stage *last = compile_frozen(&net, frozen);
    assert_int_equal(count_backward(last, "linear_grad_weight"), 2);
    assert_int_equal(count_backward(last, "linear_grad_input"), 1);
    assert_int_equal(count_backward(last, "activation_grad"), 1);
    assert_int_equal(culm_stage_info_of(last)->backward_ops, 4);
    assert_int_equal(culm_stage_info_of(last)->grad_count, 3);

    /* Everything. */
    frozen[weight[3]] = frozen[weight[3] + 1] = frozen[head] = true;
    struct culm_stage *none = compile_frozen(&net, frozen);
    assert_int_equal(culm_stage_info_of(none)->backward_ops, 0);
    assert_int_equal(culm_stage_info_of(none)->grad_floats, 0);
    assert_int_equal(culm_stage_info_of(none)->activation_bytes, 0);
    culm_stage_free(all);
    culm_stage_free(middle);
    culm_stage_free(bias);
    culm_stage_free(last);
    culm_stage_free(none);
    net_release(&net);
}

/* --- what a stage says of itself --- */

static void test_info(void **state) {
    (void)state;
    struct net net;
    struct culm_stage *one, *stage[3];
    int32_t x = net_begin(&net, 2, 4, 8, 11);
    for (int32_t b = 0; b < 6; b++) {
        net.graph->block = b;
        x = net_binary(&net, "residual", x, net_linear(&net, net_layernorm(&net, x), 8), 0.1);
    }
    net_end(&net, x, net.table, 3);
    assert_int_equal(culm_stages_compile(net.graph, 3, NULL, stage, NULL), CULM_OK);
    assert_int_equal(culm_stages_compile(net.graph, 1, NULL, &one, NULL), CULM_OK);
    const struct culm_stage_info *whole = culm_stage_info_of(one);
    double flops = 0;
    int32_t ops = 0, next_block = 0, params = 0, uses[64] = {0};
    for (int32_t s = 0; s < 3; s++) {
        const struct culm_stage_info *info = culm_stage_info_of(stage[s]);
        assert_int_equal(info->index, s);
        assert_int_equal(info->stages, 3);
        assert_int_equal(info->first_block, next_block);
        next_block = info->last_block + 1;
        assert_int_equal(info->input_bytes, s == 0 ? 0 : 2 * 4 * 8 * 4);
        assert_int_equal(info->output_bytes, s == 2 ? 0 : 2 * 4 * 8 * 4);
        assert_int_equal(info->param_floats % 16, 0);
        assert_int_equal(info->grad_floats % 16, 0);
        int64_t end = 0;
        for (int32_t i = 0; i < info->param_count; i++) {
            const struct culm_param_info *param = &info->params[i];
            assert_int_equal(param->offset % 16, 0);
            assert_true(param->offset >= end);
            end = param->offset + param->count;
            assert_string_equal(param->name, net.graph->param[param->global_index].name);
            assert_true(i == 0 || param->global_index > info->params[i - 1].global_index);
        }
        assert_true(end <= info->param_floats);
        for (int32_t g = 0; g < info->grad_count; g++) {
            const struct culm_grad_info *grad = &info->grads[g];
            assert_int_equal(grad->offset % 16, 0);
            assert_int_equal(grad->count, info->params[grad->param].count);
            assert_int_equal(net.graph->use[grad->global_use].param,
                             info->params[grad->param].global_index);
            uses[grad->global_use]++;
        }
        params += info->param_count;
        flops += info->forward_flops + info->backward_flops;
        ops += info->forward_ops;
        assert_true(info->activation_bytes > 0 && info->scratch_bytes > 0);
    }
    assert_int_equal(next_block, 6);
    assert_int_equal(params, net.graph->param_count + 1); /* the tied table twice */
    assert_int_equal(whole->param_count, net.graph->param_count);
    assert_int_equal(whole->grad_count, net.graph->param_count + 1);
    assert_int_equal(ops, whole->forward_ops);
    assert_true(flops == whole->forward_flops + whole->backward_flops);
    for (int32_t u = 0; u < net.graph->use_count; u++) {
        assert_int_equal(uses[u], 1);
    }
    /* The table's uses are the first and the last of all. */
    assert_int_equal(net.graph->use[0].param, net.graph->use[net.graph->use_count - 1].param);
    for (int32_t s = 0; s < 3; s++) {
        culm_stage_free(stage[s]);
    }
    culm_stage_free(one);
    net_release(&net);
}

/* One value with three uses, made in this order, whose results are always added up in the same one: the loss, and
 * the gradient of the weights that made it. */
static void three_uses(const int order[3], double *ret_loss, float ret_gradient[8 * 8]) {
    static const enum culm_function functions[3] = {CULM_FUNCTION_TANH, CULM_FUNCTION_SIGMOID,
                                                    CULM_FUNCTION_GELU_ERF};
    struct net net;
    struct result result;
    int32_t x = net_begin(&net, 2, 4, 8, 11), use[3];
    x = net_linear(&net, x, 8);
    int32_t weights = net.graph->use_count - 2; /* a bias came after them */
    assert_int_equal(culm_elements(&net.graph->param[weights].shape), 8 * 8);
    for (int i = 0; i < 3; i++) {
        const struct culm_attributes how = {.function = functions[order[i]]};
        use[order[i]] = culm_graph_apply(net.graph, "activation", &x, 1, &how);
    }
    int32_t sum = net_binary(&net, "add", use[0], use[1], 0);
    net_end(&net, net_binary(&net, "add", sum, use[2], 0), -1, seed);
    run_plainly(net.graph, &net.data, &result);
    *ret_loss = result.loss;
    memcpy(ret_gradient, result.grad[weights], 8 * 8 * sizeof *ret_gradient);
    result_release(&result);
    net_release(&net);
}

/* The negative control of all comparisons here: if gradients of uses are met in another order, it shows. */
static void test_another_order_of_uses_shows(void **state) {
    (void)state;
    static const int order[4][3] = {{0, 1, 2}, {1, 0, 2}, {2, 0, 1}, {0, 1, 2}};
    double loss[4];
    float gradient[4][8 * 8];
    for (int i = 0; i < 4; i++) {
        three_uses(order[i], &loss[i], gradient[i]);
        assert_true(loss[i] == loss[0]);
        for (int k = 0; k < 8 * 8; k++) {
            assert_true(fabsf(gradient[i][k] - gradient[0][k]) < 1e-6f);
        }
    }
    assert_memory_equal(gradient[0], gradient[3], sizeof gradient[0]);
    /* of three, whichever is added last makes a difference: the first that was made */
    assert_memory_not_equal(gradient[0], gradient[1], sizeof gradient[0]);
    assert_memory_not_equal(gradient[0], gradient[2], sizeof gradient[0]);
    assert_memory_not_equal(gradient[1], gradient[2], sizeof gradient[0]);
}

int main(int argc, char **argv) {
    seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 20240608;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_and_cut),
        cmocka_unit_test(test_another_order_of_uses_shows),
        cmocka_unit_test(test_output_also_kept),
        cmocka_unit_test(test_dropout_key),
        cmocka_unit_test(test_cut_is_best),
        cmocka_unit_test(test_equal_blocks_share_equally),
        cmocka_unit_test(test_memory_limit),
        cmocka_unit_test(test_memory_of_activations),
        cmocka_unit_test(test_too_many_stages),
        cmocka_unit_test(test_two_values_cross),
        cmocka_unit_test(test_frozen_costs_nothing),
        cmocka_unit_test(test_info),
    };
    return cmocka_run_group_tests_name("graph/stage", tests, NULL, NULL);
}
