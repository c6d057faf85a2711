/* Sparse rows through the graph, and samples with ids of their own. See check.h. */
#include "check.h"

#include "graph/sparse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define BATCH 4
#define CONTEXT 2
#define WIDTH 3
#define COLUMNS 6
#define OUT (CONTEXT * WIDTH)

/* Rows {0 1 -2 0 .5 0}, {}, {0 0 3 0 1 0}, {2 0 0 0 0 0}: columns 3 and 5 are empty. */
static const uint64_t start[] = {0, 3, 3, 5, 6}, column_start[] = {0, 1, 2, 4, 4, 6, 6};
static const uint32_t entry[] = {5, 0, 1, 3, 2, 4};
static const uint32_t column[] = {1, 2, 4, 2, 4, 0}, row[] = {3, 0, 0, 2, 0, 2};
static const float value[] = {1, -2, 0.5f, 3, 1, 2};
static const float column_value[] = {2, 1, -2, 3, 0.5f, 1};
static uint32_t kept[2];

static struct culm_sparse_rows rows_of(bool ones) {
    return (struct culm_sparse_rows){.n = BATCH,
                                     .columns = COLUMNS,
                                     .start = start,
                                     .column = column,
                                     .value = ones ? NULL : value,
                                     .column_start = column_start,
                                     .row = row,
                                     .entry = entry,
                                     .column_value = ones ? NULL : column_value,
                                     .kept = kept};
}

/* tanh(embedding) + x w, in one block or two. */
static void build(struct net *net, const struct culm_sparse_rows *rows, bool transposed,
                  double dropout, bool cut) {
    int32_t x = net_begin(net, BATCH, CONTEXT, WIDTH, 5);
    const struct culm_shape shape = {2, {BATCH, COLUMNS}};
    const int32_t in[] = {culm_graph_field(net->graph, "features", CULM_SPARSE, &shape),
                          transposed ? net_param(net, 2, OUT, COLUMNS)
                                     : net_param(net, 2, COLUMNS, OUT)};
    net->graph->block += cut;
    int32_t y =
        culm_graph_apply(net->graph, "sparse_linear", in, 2,
                         &(struct culm_attributes){.transposed = transposed, .dropout = dropout});
    y = culm_graph_apply(net->graph, "reshape", &y, 1,
                         &(struct culm_attributes){.dims = {BATCH, CONTEXT, WIDTH}});
    net->graph->block += cut;
    net_end(net, net_binary(net, "add", net_gelu(net, x), y, 0), -1, CHECK_SEED);
    net->data.fields[2] = rows;
}

void test_sparse_linear(void **state) {
    (void)state;
    for (int i = 0; i < 8; i++) {
        struct net net;
        const struct culm_sparse_rows rows = rows_of(i & 1);
        build(&net, &rows, i & 2, i & 4 ? 0.4 : 0, false);
        check_gradients(&net);
    }
}

/* However it is cut and placed; and of both layouts of w, one is the other turned round. */
void test_sparse_linear_bits(void **state) {
    (void)state;
    const struct culm_sparse_rows rows = rows_of(false);
    struct result plain[2];
    int32_t use[2] = {-1, -1};
    for (int t = 0; t < 2; t++) {
        struct net net;
        build(&net, &rows, t, 0.4, true);
        run_plainly(net.graph, &net.data, &plain[t]);
        for (int32_t stages = 1; stages <= 3; stages++) {
            for (int again = 0; again < 2; again++) {
                struct result cut;
                run_stages_with(net.graph, stages, again, &net.data, &cut);
                result_expect_equal(&plain[t], &cut, net.graph, "sparse_linear in stages");
                result_release(&cut);
            }
        }
        for (int32_t u = 0; u < net.graph->use_count; u++) {
            const struct culm_shape *shape = &net.graph->param[net.graph->use[u].param].shape;
            use[t] = shape->dim[t] == COLUMNS && shape->dim[1 - t] == OUT ? u : use[t];
        }
        assert_true(use[t] >= 0);
        const float *dw = plain[t].grad[use[t]];
        for (int i = 0; i < COLUMNS * OUT; i++) { /* column 3 is that of no entry */
            int c = t ? i % COLUMNS : i / OUT;
            assert_true(c != 3 || dw[i] == 0);
        }
        net_release(&net);
    }
    result_release(&plain[0]);
    result_release(&plain[1]);
}

/* Bits of elements are another way to say what dropout leaves, also of rows that have one value each. */
void test_sparse_linear_words(void **state) {
    static const uint64_t there[] = {1 << 1 | 1 << 2 | 1 << 4, 0, 1 << 2 | 1 << 4, 1 << 0};
    static const float even[] = {2, 2, 2, -3, -3, 0.5f}, weight[] = {2, 7, -3, 0.5f};
    static const float even_column[] = {0.5f, 2, 2, -3, 2, -3};
    uint64_t kept_words[BATCH], turned_words[COLUMNS];
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct net net;
        struct result want, got;
        struct culm_sparse_rows rows = rows_of(true);
        rows.value = i & 1 ? even : NULL;
        rows.column_value = i & 1 ? even_column : NULL;
        build(&net, &rows, i & 2, 0.4, false);
        run_plainly(net.graph, &net.data, &want);
        rows.kept = NULL;
        rows.there = there;
        rows.kept_words = kept_words;
        rows.turned_words = turned_words;
        rows.weight = i & 1 ? weight : NULL;
        run_plainly(net.graph, &net.data, &got);
        result_expect_equal(&want, &got, net.graph, "sparse_linear by words");
        result_release(&want);
        result_release(&got);
        net_release(&net);
    }
}

/* A fifth of all elements; never where there is none, such as of dense rows. */
void test_sparse_worth_words(void **state) {
    (void)state;
    assert_true(culm_sparse_worth_words(5, 10, 10) && culm_sparse_worth_words(5, 10, 50));
    assert_false(culm_sparse_worth_words(5, 10, 9) || culm_sparse_worth_words(5, 10, 0));
    assert_false(culm_sparse_worth_words(5, 0, 0) || culm_sparse_worth_words(0, 10, 0));
}

/* The second share is added, in both layouts. */
void test_sparse_linear_adds(void **state) {
    (void)state;
    const struct culm_sparse_rows rows = rows_of(false);
    for (int t = 0; t < 2; t++) {
        struct net net;
        struct culm_stage *stage;
        struct result once;
        build(&net, &rows, t, 0, false);
        assert_int_equal(culm_stages_compile(net.graph, 1, NULL, &stage, NULL), CULM_OK);
        run_stages(net.graph, 1, &net.data, &once);
        const struct culm_stage_info *info = culm_stage_info_of(stage);
        struct culm_stage_run run = {.param = net.data.params,
                                     .seed = net.data.seed,
                                     .fields = net.data.fields,
                                     .loss_scale = 1,
                                     .first = true,
                                     .activations = fence_new(info->activation_bytes),
                                     .scratch = fence_new(info->scratch_bytes),
                                     .grads = fence_new((size_t)info->grad_floats * sizeof(float))};
        assert_int_equal(culm_stage_forward(stage, run_cpu(), &run), CULM_OK);
        for (int repeat = 0; repeat < 2; repeat++, run.first = false) {
            assert_int_equal(culm_stage_backward(stage, run_cpu(), &run), CULM_OK);
        }
        for (int32_t g = 0; g < info->grad_count; g++) {
            const float *want = once.grad[info->grads[g].global_use];
            for (int64_t i = 0; i < info->grads[g].count; i++) {
                float got = run.grads[info->grads[g].offset + i];
                assert_true(got >= 2 * want[i] - 1e-5f && got <= 2 * want[i] + 1e-5f);
            }
        }
        fence_free(run.activations);
        fence_free(run.scratch);
        fence_free(run.grads);
        result_release(&once);
        culm_stage_free(stage);
        net_release(&net);
    }
}

/* --- rows of a layer --- */

static int32_t param_of(struct net *net, const char *name, struct culm_shape shape) {
    return culm_graph_param(net->graph, name, &shape, CULM_INIT_NORMAL, 0.5, false);
}

/* Both operators, one behind the other: all columns but one of what heads make, and a bias. */
static void build_rows(struct net *net, enum culm_function function, bool bias, double dropout) {
    int32_t x = net_begin(net, BATCH, CONTEXT, WIDTH, 5);
    const struct culm_shape heads = {3, {1, 2, OUT / 2}};
    x = culm_graph_apply(net->graph, "reshape", &x, 1,
                         &(struct culm_attributes){.dims = {BATCH, OUT}});
    const int32_t in[] = {net_linear(net, x, OUT), param_of(net, "from", heads),
                          param_of(net, "to", heads)};
    x = culm_graph_apply(net->graph, "heads", in, 3, &(struct culm_attributes){.dropout = dropout});
    const int32_t behind[] = {x,
                              bias ? param_of(net, "bias", (struct culm_shape){1, {OUT + 3}}) : -1};
    x = culm_graph_apply(
        net->graph, "hidden", behind, 2,
        &(struct culm_attributes){
            .function = function, .alpha = 1, .dropout = dropout, .length = OUT + 3});
    x = net_linear(net, x, OUT);
    x = culm_graph_apply(net->graph, "reshape", &x, 1,
                         &(struct culm_attributes){.dims = {BATCH, CONTEXT, WIDTH}});
    net_end(net, x, -1, CHECK_SEED);
}

void test_rows_of_layers(void **state) {
    static const enum culm_function functions[] = {CULM_FUNCTION_ELU, CULM_FUNCTION_TANH,
                                                   CULM_FUNCTION_GELU_TANH};
    (void)state;
    for (int i = 0; i < 12; i++) {
        struct net net;
        build_rows(&net, functions[i % 3], i / 3 % 2, i / 6 ? 0.4 : 0);
        check_gradients(&net);
    }
}

static void refuse(struct net *net, const char *op, const int32_t *in, int32_t count,
                   const char *what) {
    struct culm_error error;
    assert_int_equal(culm_graph_apply(net->graph, op, in, count, NULL), -1);
    assert_int_equal(culm_graph_check(net->graph, &error), CULM_ERR_CONFIG);
    if (!strstr(error.text, op) || !strstr(error.text, what)) {
        fail_msg("'%s' does not name %s and '%s'", error.text, op, what);
    }
    culm_graph_free(net->graph);
}

void test_sparse_refusals(void **state) {
    (void)state;
    const struct culm_shape shape = {2, {BATCH, COLUMNS}};
    for (int i = 0; i < 4; i++) {
        struct net net;
        int32_t x = net_begin(&net, BATCH, CONTEXT, WIDTH, 5);
        int32_t sparse = culm_graph_field(net.graph, "features", CULM_SPARSE, &shape);
        const int32_t linear[] = {sparse, net_param(&net, 2, COLUMNS, 3), -1};
        const int32_t dense[] = {x, net_param(&net, 2, WIDTH, 3)};
        const int32_t narrow[] = {sparse, net_param(&net, 2, COLUMNS - 1, 3)};
        const int32_t both[] = {sparse, sparse};
        switch (i) {
        case 0: refuse(&net, "linear", linear, 3, "takes no sparse rows as input 1"); break;
        case 1: refuse(&net, "sparse_linear", dense, 2, "needs sparse rows as input 1"); break;
        case 2: refuse(&net, "sparse_linear", narrow, 2, "[4,6] and [5,3]"); break;
        default: refuse(&net, "add", both, 2, "takes no sparse rows"); break;
        }
    }
}

void test_row_refusals(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct net net;
        int32_t x = net_begin(&net, BATCH, CONTEXT, WIDTH, 5);
        int32_t flat = culm_graph_apply(net.graph, "reshape", &x, 1,
                                        &(struct culm_attributes){.dims = {BATCH, OUT}});
        const struct culm_shape three = {3, {1, 2, 3}}, four = {3, {1, 2, 2}};
        int32_t a = param_of(&net, "a", three), b = param_of(&net, "b", four);
        const int32_t plain[] = {flat, flat, flat}, unlike[] = {flat, b, b};
        const int32_t wide[] = {flat, -1}, biased[] = {flat, net_param(&net, 1, OUT, 0)};
        (void)a;
        switch (i) {
        case 0: refuse(&net, "heads", plain, 3, "two parameters [1,H,C/H]"); break;
        case 1: refuse(&net, "heads", unlike, 3, "heads do not share out the columns"); break;
        case 2: refuse(&net, "hidden", wide, 2, "there are not that many columns"); break;
        default:
            assert_int_equal(culm_graph_apply(net.graph, "hidden", biased, 2,
                                              &(struct culm_attributes){.length = OUT - 1}),
                             -1);
            refuse(&net, "hidden", biased, 2, "the bias has another length");
        }
    }
}

/* Ids that are the positions give the bits of none; other ids give other masks, and the loss then
 * follows the ids. */
void test_sample_ids(void **state) {
    (void)state;
    static const uint32_t same[] = {11, 12, 13, 14}, other[] = {14, 4000000000u, 11, 12};
    const struct culm_sparse_rows rows = rows_of(false);
    struct net net;
    int32_t x = net_begin(&net, BATCH, CONTEXT, WIDTH, 5);
    const struct culm_shape shape = {2, {BATCH, COLUMNS}};
    const int32_t in[] = {culm_graph_field(net.graph, "features", CULM_SPARSE, &shape),
                          net_param(&net, 2, COLUMNS, OUT)};
    int32_t y = culm_graph_apply(net.graph, "sparse_linear", in, 2,
                                 &(struct culm_attributes){.dropout = 0.5});
    y = culm_graph_apply(net.graph, "reshape", &y, 1,
                         &(struct culm_attributes){.dims = {BATCH, CONTEXT, WIDTH}});
    x = net_binary(&net, "residual", x, net_linear(&net, y, WIDTH), 0.5);
    x = net_attention(&net, net_linear(&net, net_unary(&net, "dropout", x, 0.5), 3 * WIDTH), 1,
                      0.5);
    net_end(&net, x, -1, CHECK_SEED);
    net.data.fields[2] = &rows;
    struct result none, equal, differ;
    run_stages(net.graph, 1, &net.data, &none);
    net.data.first_sample = 123; /* does not count then */
    net.data.sample_id = same;
    run_stages(net.graph, 1, &net.data, &equal);
    result_expect_equal(&none, &equal, net.graph, "ids that are positions");
    run_plainly(net.graph, &net.data, &differ);
    result_expect_equal(&none, &differ, net.graph, "ids, plainly");
    result_release(&differ);
    net.data.sample_id = other;
    run_stages(net.graph, 1, &net.data, &differ);
    assert_true(differ.loss != none.loss);
    result_release(&none);
    result_release(&equal);
    result_release(&differ);
    net_release(&net);
}
