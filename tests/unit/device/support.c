/*
 * The support matrix: every operator, by its reference, on the device `reference`, on the CPU in f32
 * and on the CPU in bf16, forward and backward. Each cell is run:
 *
 *     reference   the operator in a small graph with a loss; forward gives numbers, and backward's
 *                 gradient is the slope of the loss along a random direction
 *     device      the same graph by the kernels of the device `reference`; each value the operator
 *                 makes, and each gradient its backward makes, near the reference's
 *     cpu f32     likewise, by the CPU's kernels
 *     cpu bf16    likewise, with everything that the operator reads, makes and passes back in bf16
 *
 * Nets are built with tests/unit/graph's builders. A row of the table of operators without a net, a
 * kernel without a reference or a cell that fails is a hole, and the test fails.
 */
#include "support.h"

#include "../graph/build.h"

#include "base/rng.h"
#include "device/reference/reference.h"
#include "graph/autodiff.h"
#include "graph/sparse.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SEED 7
#define BATCH 2
#define CONTEXT 4
#define WIDTH 6
#define TYPED CULM_VALUE_TEMPORARY

/* --- nets: one operator each, of x [2,4,6] or of the image [2,2,2,6] that it is --- */

static const int32_t ids[] = {1, 0, 2, 1, 2, 2, 0, 1}, lengths[] = {3, 4};

static _Alignas(64) const float weights[] = {1, 0.5F, 2, 0, 1.5F, 1, 0.25F, 1, 1, 3, 0.5F, 2};
static const float *wanted_numbers(void) {
    static _Alignas(64) float wanted[BATCH * CONTEXT * WIDTH];
    for (int i = 0; i < BATCH * CONTEXT * WIDTH; i++) {
        wanted[i] = (float)(i % 7) / 4 - 0.5F;
    }
    return wanted;
}

static int32_t apply(struct net *net, const char *op, const int32_t *inputs, int32_t count,
                     const struct culm_attributes *attributes) {
    return culm_graph_apply(net->graph, op, inputs, count, attributes);
}
static int32_t one(struct net *net, const char *op, int32_t x,
                   const struct culm_attributes *attributes) {
    return apply(net, op, &x, 1, attributes);
}
static int32_t param(struct net *net, struct culm_shape shape) {
    char name[32];
    snprintf(name, sizeof name, "p%d", net->graph->param_count);
    return culm_graph_param(net->graph, name, &shape, CULM_INIT_ZEROS, 0, false);
}
static int32_t field(struct net *net, const char *name, int64_t length) {
    const struct culm_shape shape = {2, {BATCH, length}};
    return culm_graph_field(net->graph, name, CULM_I32, &shape);
}
static int32_t image(struct net *net, int32_t x) {
    return one(net, "reshape", x, &(struct culm_attributes){.dims = {BATCH, 2, 2, WIDTH}});
}
static int32_t smooth(struct net *net, int32_t x) {
    return one(net, "activation", x, &(struct culm_attributes){.function = CULM_FUNCTION_TANH});
}

static int32_t net_of_linear(struct net *net, int32_t x) { return net_linear(net, x, 5); }
static int32_t net_of_layernorm(struct net *net, int32_t x) { return net_layernorm(net, x); }
static int32_t net_of_embedding(struct net *net, int32_t x) {
    (void)net;
    return x;
}
static int32_t net_of_lookup(struct net *net, int32_t x) {
    const int32_t in[] = {field(net, "ids", CONTEXT),
                          param(net, (struct culm_shape){2, {3, WIDTH}})};
    return net_binary(net, "add", smooth(net, x), apply(net, "lookup", in, 2, NULL), 0);
}
static int32_t net_of_positions(struct net *net, int32_t x) {
    const int32_t in[] = {smooth(net, x), param(net, (struct culm_shape){2, {CONTEXT, WIDTH}})};
    return apply(net, "positions", in, 2, NULL);
}
static int32_t net_of_gather(struct net *net, int32_t x) {
    const int32_t in[] = {x, field(net, "ids", CONTEXT)};
    return apply(net, "gather_rows", in, 2, NULL);
}
static int32_t net_of_attention(struct net *net, int32_t x) {
    return net_attention(net, net_linear(net, x, 3 * WIDTH), 2, 0.25);
}
static int32_t net_of_bahdanau(struct net *net, int32_t x) {
    const int32_t in[] = {
        net_linear(net, x, 4),    net_linear(net, x, 4),   x,
        field(net, "lengths", 1), net_param(net, 1, 4, 0), net_param(net, 1, 1, 0),
        net_param(net, 1, 4, 0)};
    return apply(net, "bahdanau", in, 7, NULL);
}
static int32_t net_of_lstm(struct net *net, int32_t x) {
    const int32_t in[] = {x,
                          net_param(net, 2, 16, WIDTH),
                          net_param(net, 2, 16, 4),
                          net_param(net, 1, 16, 0),
                          net_param(net, 1, 16, 0),
                          net_param(net, 2, BATCH, 4),
                          net_param(net, 2, BATCH, 4),
                          field(net, "lengths", 1)};
    return apply(net, "lstm", in, 8, NULL);
}
/* x is beside it. The rows [2,5] are {0 1 -2 0 0.5} and {0 0 3 0 1}. */
static int32_t net_of_sparse_linear(struct net *net, int32_t x) {
    const int32_t in[] = {
        culm_graph_field(net->graph, "sparse", CULM_SPARSE, &(struct culm_shape){2, {BATCH, 5}}),
        param(net, (struct culm_shape){2, {CONTEXT * WIDTH, 5}})};
    int32_t y = apply(net, "sparse_linear", in, 2,
                      &(struct culm_attributes){.transposed = true, .dropout = 0.25});
    y = one(net, "reshape", y, &(struct culm_attributes){.dims = {BATCH, CONTEXT, WIDTH}});
    return net_binary(net, "add", smooth(net, x), y, 0);
}
static const struct culm_sparse_rows *sparse_rows(void) {
    static const uint64_t start[] = {0, 3, 5}, column_start[] = {0, 0, 1, 3, 3, 5};
    static const uint32_t entry[] = {0, 1, 3, 2, 4};
    static const uint32_t column[] = {1, 2, 4, 2, 4}, row[] = {0, 0, 1, 0, 1};
    static const float value[] = {1, -2, 0.5f, 3, 1}, column_value[] = {1, -2, 3, 0.5f, 1};
    static uint32_t kept[2];
    static const struct culm_sparse_rows rows = {.n = BATCH,
                                                 .columns = 5,
                                                 .start = start,
                                                 .column = column,
                                                 .value = value,
                                                 .column_start = column_start,
                                                 .row = row,
                                                 .entry = entry,
                                                 .column_value = column_value,
                                                 .kept = kept};
    return &rows;
}
static int32_t net_of_activation(struct net *net, int32_t x) {
    return one(net, "activation", x, &(struct culm_attributes){.function = CULM_FUNCTION_GELU_ERF});
}
static int32_t net_of_affine(struct net *net, int32_t x) {
    return one(net, "affine", x, &(struct culm_attributes){.scale = 1.5, .shift = 0.5});
}
static int32_t net_of_dropout(struct net *net, int32_t x) {
    return net_unary(net, "dropout", x, 0.25);
}
static int32_t net_of_residual(struct net *net, int32_t x) {
    return net_binary(net, "residual", x, smooth(net, x), 0.25);
}
static int32_t net_of_add(struct net *net, int32_t x) {
    return net_binary(net, "add", x, smooth(net, x), 0);
}
static int32_t net_of_binary(struct net *net, int32_t x) {
    const struct culm_attributes by = {.function = CULM_FUNCTION_MUL};
    const struct culm_attributes over = {.function = CULM_FUNCTION_DIV};
    const int32_t spread[] = {x, param(net, (struct culm_shape){1, {WIDTH}})};
    x = apply(net, "binary", spread, 2, &by);
    const int32_t equal[] = {
        x, one(net, "affine", smooth(net, x), &(struct culm_attributes){.scale = 1, .shift = 2})};
    return apply(net, "binary", equal, 2, &over);
}
static int32_t net_of_reduce(struct net *net, int32_t x) {
    return one(net, "reduce", x,
               &(struct culm_attributes){.function = CULM_FUNCTION_MEAN, .axes = 2});
}
static int32_t net_of_softmax(struct net *net, int32_t x) { return one(net, "softmax", x, NULL); }
static int32_t net_of_matmul(struct net *net, int32_t x) {
    const int32_t in[] = {x, smooth(net, x)};
    return apply(net, "matmul", in, 2, &(struct culm_attributes){.trans_b = true, .scale = 0.5});
}
static int32_t net_of_reshape(struct net *net, int32_t x) {
    return smooth(net, image(net, smooth(net, x)));
}
static int32_t net_of_permute(struct net *net, int32_t x) {
    return one(net, "permute", x, &(struct culm_attributes){.dims = {0, 2, 1}});
}
static int32_t net_of_concat(struct net *net, int32_t x) {
    const int32_t in[] = {x, smooth(net, x), -1, -1, -1, -1, -1, -1};
    return apply(net, "concat", in, 8, &(struct culm_attributes){.axis = 1});
}
static int32_t net_of_slice(struct net *net, int32_t x) {
    return one(net, "slice", x, &(struct culm_attributes){.axis = 2, .start = 1, .length = 4});
}
static int32_t net_of_pad(struct net *net, int32_t x) {
    return one(net, "pad", image(net, x),
               &(struct culm_attributes){.pad = {1, 0, 0, 2}, .value = 0.5});
}
static int32_t net_of_resize(struct net *net, int32_t x) {
    return one(net, "resize", image(net, x),
               &(struct culm_attributes){.dims = {3, 5}, .function = CULM_FUNCTION_MEAN});
}
static int32_t net_of_conv(struct net *net, int32_t x) {
    const int32_t in[] = {image(net, x), param(net, (struct culm_shape){4, {5, WIDTH, 3, 3}}),
                          net_param(net, 1, 5, 0)};
    const struct culm_attributes attributes = {
        .stride = {1, 1}, .dilation = {1, 1}, .pad = {1, 1, 1, 1}, .groups = 1};
    return apply(net, "conv", in, 3, &attributes);
}
static const struct culm_attributes window = {
    .kernel = {2, 2}, .stride = {1, 1}, .pad = {1, 0, 0, 0}, .dims = {1, 2}};
static int32_t net_of_maxpool(struct net *net, int32_t x) {
    return one(net, "maxpool", image(net, x), &window);
}
static int32_t net_of_avgpool(struct net *net, int32_t x) {
    return one(net, "avgpool", image(net, x), &window);
}
static int32_t net_of_adaptive(struct net *net, int32_t x) {
    return one(net, "adaptive_avgpool", image(net, x), &window);
}
static int32_t net_of_batchnorm(struct net *net, int32_t x) {
    const struct culm_shape c = {1, {WIDTH}};
    const int32_t in[] = {smooth(net, x),
                          param(net, c),
                          param(net, c),
                          culm_graph_statistic(net->graph, "mean", &c, CULM_INIT_ZEROS),
                          culm_graph_statistic(net->graph, "variance", &c, CULM_INIT_ONES),
                          x};
    return apply(net, "batchnorm", in, 6,
                 &(struct culm_attributes){.eps = 1e-2, .function = CULM_FUNCTION_RELU});
}

/* A loss beside that at the end: of each sample's rows, by a weight a channel. */
static int32_t net_of_squared_error(struct net *net, int32_t x) {
    const struct culm_shape wanted = {3, {BATCH, CONTEXT, WIDTH}}, weight = {3, {BATCH, 1, WIDTH}};
    const int32_t in[] = {x, culm_graph_field(net->graph, "wanted", CULM_F32, &wanted),
                          culm_graph_field(net->graph, "weight", CULM_F32, &weight)};
    return apply(net, "squared_error", in, 3, NULL) < 0 ? -1 : x;
}

/* Of rows [2,24]. */
static int32_t rows(struct net *net, int32_t x) {
    return one(net, "reshape", smooth(net, x),
               &(struct culm_attributes){.dims = {BATCH, CONTEXT * WIDTH}});
}
static int32_t net_of_heads(struct net *net, int32_t x) {
    const struct culm_shape heads = {3, {1, 3, 8}};
    const int32_t in[] = {rows(net, x), param(net, heads), param(net, heads)};
    return apply(net, "heads", in, 3, &(struct culm_attributes){.dropout = 0.25});
}
static int32_t net_of_hidden(struct net *net, int32_t x) {
    const int32_t in[] = {rows(net, x), param(net, (struct culm_shape){1, {19}})};
    return apply(net, "hidden", in, 2,
                 &(struct culm_attributes){
                     .function = CULM_FUNCTION_ELU, .alpha = 1, .dropout = 0.25, .length = 19});
}

static const struct {
    const char *op;
    int32_t (*build)(struct net *net, int32_t x);
} nets[] = {
    {"linear", net_of_linear},
    {"sparse_linear", net_of_sparse_linear},
    {"embedding", net_of_embedding},
    {"lookup", net_of_lookup},
    {"positions", net_of_positions},
    {"layernorm", net_of_layernorm},
    {"attention", net_of_attention},
    {"bahdanau", net_of_bahdanau},
    {"lstm", net_of_lstm},
    {"activation", net_of_activation},
    {"affine", net_of_affine},
    {"dropout", net_of_dropout},
    {"residual", net_of_residual},
    {"add", net_of_add},
    {"binary", net_of_binary},
    {"reduce", net_of_reduce},
    {"softmax", net_of_softmax},
    {"matmul", net_of_matmul},
    {"reshape", net_of_reshape},
    {"permute", net_of_permute},
    {"concat", net_of_concat},
    {"slice", net_of_slice},
    {"gather_rows", net_of_gather},
    {"pad", net_of_pad},
    {"resize", net_of_resize},
    {"conv", net_of_conv},
    {"maxpool", net_of_maxpool},
    {"avgpool", net_of_avgpool},
    {"adaptive_avgpool", net_of_adaptive},
    {"batchnorm", net_of_batchnorm},
    {"cross_entropy", net_of_linear},
    {"squared_error", net_of_squared_error},
    {"heads", net_of_heads},
    {"hidden", net_of_hidden},
};

static bool build(struct net *net, const char *op) {
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
        if (strcmp(nets[i].op, op)) {
            continue;
        }
        int32_t y = nets[i].build(net, net_begin(net, BATCH, CONTEXT, WIDTH, 7));
        if (y < 0) {
            fail_msg("%s: %s", op, net->graph->error.text);
        }
        int64_t rest = culm_elements(&net->graph->value[y].shape) / BATCH;
        y = one(net, "reshape", y, &(struct culm_attributes){.dims = {BATCH, rest}});
        y = net_linear(net, y, CONTEXT * WIDTH);
        y = one(net, "reshape", y, &(struct culm_attributes){.dims = {BATCH, CONTEXT, WIDTH}});
        net_end(net, y, -1, SEED);
        for (int f = 2; f < net->graph->field_count; f++) {
            const char *name = net->graph->field[f].name;
            net->data.fields[f] = !strcmp(name, "lengths")  ? (const void *)lengths
                                  : !strcmp(name, "wanted") ? (const void *)wanted_numbers()
                                  : !strcmp(name, "weight") ? (const void *)weights
                                  : !strcmp(name, "sparse") ? (const void *)sparse_rows()
                                                            : ids;
        }
        return true;
    }
    return false;
}

/* --- running a graph, each value in memory of its own --- */

struct ran {
    struct culm_graph *graph; /* forward, then backward */
    int32_t forward;          /* nodes */
    void **memory;            /* [value_count] */
    float **use;
    double loss;
};

static void (*reference_of(const struct culm_op *op))(const struct culm_operands *) {
    for (int i = 0; support_references[i].op; i++) {
        if (support_references[i].op == op) {
            return support_references[i].execute;
        }
    }
    return NULL;
}

static struct culm_graph *copy_of(const struct culm_graph *graph) {
    struct culm_graph *copy = culm_graph_new(graph->device);
    assert_non_null(copy);
    copy->value = calloc((size_t)graph->value_count, sizeof *copy->value);
    copy->node = calloc((size_t)graph->node_count, sizeof *copy->node);
    memcpy(copy->value, graph->value, (size_t)graph->value_count * sizeof *copy->value);
    memcpy(copy->node, graph->node, (size_t)graph->node_count * sizeof *copy->node);
    copy->value_count = copy->value_capacity = graph->value_count;
    copy->node_count = copy->node_capacity = graph->node_count;
    return copy;
}

static int32_t root_of(const struct culm_graph *graph, int32_t value) {
    while (graph->value[value].same_as >= 0) {
        value = graph->value[value].same_as;
    }
    return value;
}

/* Everything that nodes of the operator read and make that may be bf16 becomes bf16. */
static void narrow(struct culm_graph *graph, const char *op) {
    for (int32_t n = 0; n < graph->node_count; n++) {
        const struct culm_node_desc *node = &graph->node[n];
        for (int32_t i = 0; i <= CULM_NODE_INPUTS_MAX && !strcmp(node->op->name, op); i++) {
            int32_t v = i < CULM_NODE_INPUTS_MAX ? node->input[i] : node->output[0];
            if (v >= 0 && graph->value[root_of(graph, v)].kind == TYPED &&
                graph->value[v].dtype == CULM_F32) {
                graph->value[root_of(graph, v)].dtype = CULM_BF16;
            }
        }
    }
    for (int32_t v = 0; v < graph->value_count; v++) {
        graph->value[v].dtype = graph->value[root_of(graph, v)].dtype;
    }
}

static void *address(struct ran *ran, const struct net *net, int32_t v) {
    if (v < 0) {
        return NULL;
    }
    const struct culm_value *value = &ran->graph->value[v];
    if (value->kind == CULM_VALUE_PARAM) {
        return net->params[value->param];
    }
    if (value->kind == CULM_VALUE_FIELD) {
        return (void *)net->data.fields[value->field];
    }
    int32_t root = root_of(ran->graph, v);
    if (root != v) {
        return address(ran, net, root);
    }
    if (!ran->memory[v]) {
        ran->memory[v] = fence_new((size_t)culm_elements(&value->shape) * 4);
    }
    return ran->memory[v];
}

static int64_t use_floats(const struct net *net, int32_t use) {
    return culm_elements(&net->graph->param[net->graph->use[use].param].shape);
}

/* cpu NULL: by the references. bf16: the operator whose values are bf16; NULL: none. */
static void run(struct ran *ran, const struct net *net, struct culm_device *cpu, const char *bf16) {
    struct culm_error error;
    *ran = (struct ran){.graph = copy_of(net->graph), .forward = net->graph->node_count};
    if (bf16) {
        narrow(ran->graph, bf16);
    }
    if (culm_graph_differentiate(ran->graph, 0, ran->forward, NULL, NULL, 0, NULL, 0, NULL, NULL,
                                 &error)) {
        fail_msg("%s", error.text);
    }
    struct culm_loss_total total = {0};
    ran->memory = calloc((size_t)ran->graph->value_count, sizeof *ran->memory);
    ran->use = calloc((size_t)net->graph->use_count, sizeof *ran->use);
    for (int32_t u = 0; u < net->graph->use_count; u++) {
        ran->use[u] = calloc((size_t)use_floats(net, u), sizeof(float));
    }
    for (int32_t n = 0; n < ran->graph->node_count; n++) {
        const struct culm_node_desc *node = &ran->graph->node[n];
        struct culm_operands o = {.device = cpu,
                                  .node = node,
                                  .value = ran->graph->value,
                                  .first = true,
                                  .loss_scale = 1.0 / BATCH,
                                  .loss = &total,
                                  .dropout = {.p = node->attributes.dropout,
                                              .key = (uint64_t)node->operator_id + SEED,
                                              .first_sample = 3,
                                              .samples = BATCH}};
        for (int32_t i = 0; i < CULM_NODE_INPUTS_MAX; i++) {
            o.input[i] = address(ran, net, node->input[i]);
        }
        for (int32_t i = 0; i < CULM_NODE_OUTPUTS_MAX; i++) {
            o.output[i] = address(ran, net, node->output[i]);
        }
        for (int32_t i = 0; i < CULM_NODE_USES_MAX; i++) {
            o.use[i] = node->use[i] >= 0 ? ran->use[node->use[i]] : NULL;
        }
        void (*reference)(const struct culm_operands *) = reference_of(node->op);
        if (!reference) {
            fail_msg("operator '%s' has no reference", node->op->name);
        }
        cpu ? node->op->execute(&o) : reference(&o);
    }
    ran->loss = total.loss / BATCH;
}

static void ran_release(struct ran *ran, const struct net *net) {
    for (int32_t v = 0; v < ran->graph->value_count; v++) {
        fence_free(ran->memory[v]);
    }
    for (int32_t u = 0; u < net->graph->use_count; u++) {
        free(ran->use[u]);
    }
    free(ran->memory);
    free(ran->use);
    culm_graph_free(ran->graph);
}

/* --- cells --- */

static float element(const struct ran *ran, int32_t v, int64_t i) {
    const void *data = ran->memory[root_of(ran->graph, v)];
    if (ran->graph->value[v].dtype != CULM_BF16) {
        return ((const float *)data)[i];
    }
    uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

struct distance {
    double difference, size;
};

static void measure(struct distance *d, double want, double got) {
    d->difference += (want - got) * (want - got);
    d->size += want * want;
}

static bool near(const struct distance *d, double tolerance) {
    return d->difference <= tolerance * tolerance * (d->size + 1e-12);
}

/* Whether the node is one of the operator's, forward or (those that autodiff made of it). */
static bool belongs(const struct ran *ran, int32_t n, const char *op, bool backward) {
    const struct culm_node_desc *node = &ran->graph->node[n];
    if (!backward) {
        return n < ran->forward && !strcmp(node->op->name, op);
    }
    for (int32_t f = 0; f < ran->forward && n >= ran->forward; f++) {
        if (ran->graph->node[f].operator_id == node->operator_id) {
            return !strcmp(ran->graph->node[f].op->name, op);
        }
    }
    return false;
}

static bool agrees(const struct ran *want, const struct ran *got, const struct net *net,
                   const char *op, bool backward, double tolerance) {
    int32_t compared = 0;
    for (int32_t n = 0; n < want->graph->node_count; n++) {
        const struct culm_node_desc *node = &want->graph->node[n];
        if (!belongs(want, n, op, backward)) {
            continue;
        }
        assert_ptr_equal(node->op, got->graph->node[n].op);
        struct distance d = {0, 0};
        int32_t v = node->output[0];
        for (int64_t i = 0; v >= 0 && i < culm_elements(&want->graph->value[v].shape); i++) {
            measure(&d, (double)element(want, v, i), (double)element(got, v, i));
        }
        compared += v >= 0;
        for (int32_t k = 0; k < CULM_NODE_USES_MAX; k++) {
            for (int64_t i = 0; node->use[k] >= 0 && i < use_floats(net, node->use[k]); i++) {
                measure(&d, (double)want->use[node->use[k]][i], (double)got->use[node->use[k]][i]);
            }
            compared += node->use[k] >= 0;
        }
        if (!near(&d, tolerance)) {
            print_message("%s: node '%s' is off by %g\n", op, node->op->name,
                          sqrt(d.difference / (d.size + 1e-12)));
            return false;
        }
    }
    return compared > 0;
}

/* An operator whose gradient is that of its output, unchanged, has no node of its own. */
static bool passes_on(const char *op) {
    static const char *const names[] = {"add", "cross_entropy", "squared_error"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!strcmp(names[i], op)) {
            return true;
        }
    }
    return false;
}

/* All gradients, where the operator has no backward node. */
static bool gradients_agree(const struct ran *want, const struct ran *got, const struct net *net,
                            double tolerance) {
    struct distance d = {0, 0};
    for (int32_t u = 0; u < net->graph->use_count; u++) {
        for (int64_t i = 0; i < use_floats(net, u); i++) {
            measure(&d, (double)want->use[u][i], (double)got->use[u][i]);
        }
    }
    return near(&d, tolerance);
}

static bool finite_values(const struct ran *ran, const char *op) {
    for (int32_t n = 0; n < ran->forward; n++) {
        int32_t v = ran->graph->node[n].output[0];
        for (int64_t i = 0;
             belongs(ran, n, op, false) && i < culm_elements(&ran->graph->value[v].shape); i++) {
            if (!isfinite(element(ran, v, i))) {
                return false;
            }
        }
    }
    return isfinite(ran->loss);
}

/* The loss along a random direction of all parameters, against the gradient. */
static bool slope_agrees(struct net *net, const struct ran *ran) {
    uint64_t state = SEED;
    double want = 0, loss[2];
    float *direction[64], *before[64], step = 2e-3f;
    for (int32_t p = 0; p < net->graph->param_count; p++) {
        int64_t count = culm_elements(&net->graph->param[p].shape);
        direction[p] = calloc((size_t)count, sizeof(float));
        before[p] = net->params[p];
        for (int64_t i = 0; i < count && !net->graph->param[p].statistic; i++) {
            direction[p][i] = 2 * culm_rng_unit((uint32_t)culm_rng_next(&state)) - 1;
        }
        for (int32_t u = 0; u < net->graph->use_count; u++) {
            for (int64_t i = 0; i < count && net->graph->use[u].param == p; i++) {
                want += (double)ran->use[u][i] * (double)direction[p][i];
            }
        }
    }
    for (int side = 0; side < 2; side++) {
        struct ran moved;
        for (int32_t p = 0; p < net->graph->param_count; p++) {
            int64_t count = culm_elements(&net->graph->param[p].shape);
            net->params[p] = calloc((size_t)count, sizeof(float));
            for (int64_t i = 0; i < count; i++) {
                net->params[p][i] = before[p][i] + (side ? -step : step) * direction[p][i];
            }
        }
        run(&moved, net, NULL, NULL);
        loss[side] = moved.loss;
        ran_release(&moved, net);
        for (int32_t p = 0; p < net->graph->param_count; p++) {
            free(net->params[p]);
            net->params[p] = before[p];
        }
    }
    for (int32_t p = 0; p < net->graph->param_count; p++) {
        free(direction[p]);
    }
    double got = (loss[0] - loss[1]) / (2 * (double)step);
    return fabs(want - got) <= 0.01 * (fabs(want) + 0.1);
}

static void test_matrix(void **state) {
    (void)state;
    int holes = 0;
    struct culm_device *plain;
    assert_int_equal(culm_reference_device_ops.create(1, &plain, NULL), CULM_OK);
    printf("%-18s %-13s %-13s %-13s %-13s\n", "", "reference", "device", "cpu f32", "cpu bf16");
    printf("%-18s", "operator");
    for (int i = 0; i < 4; i++) {
        printf(" %-6s %-6s", "fwd", "bwd");
    }
    printf("\n");
    for (int i = 0; culm_ops()[i]; i++) {
        const char *op = culm_ops()[i]->name;
        struct net net;
        if (!culm_ops()[i]->infer) {
            continue;
        }
        printf("%-18s", op);
        if (!build(&net, op)) {
            printf(" no net\n");
            holes++;
            continue;
        }
        struct ran reference, device[3];
        run(&reference, &net, NULL, NULL);
        run(&device[0], &net, plain, NULL);
        run(&device[1], &net, run_cpu(), NULL);
        run(&device[2], &net, run_cpu(), op);
        bool cell[8] = {finite_values(&reference, op), slope_agrees(&net, &reference)};
        for (int type = 0; type < 3; type++) {
            double tolerance = type == 2 ? 0.03 : 1e-4;
            cell[2 + 2 * type] = agrees(&reference, &device[type], &net, op, false, tolerance);
            cell[3 + 2 * type] = passes_on(op)
                                     ? gradients_agree(&reference, &device[type], &net, tolerance)
                                     : agrees(&reference, &device[type], &net, op, true, tolerance);
        }
        for (int c = 0; c < 8; c++) {
            printf(" %-6s", cell[c] ? "yes" : "NO");
            holes += !cell[c];
        }
        printf("\n");
        ran_release(&reference, &net);
        for (int type = 0; type < 3; type++) {
            ran_release(&device[type], &net);
        }
        net_release(&net);
    }
    culm_device_free(plain);
    fflush(stdout);
    assert_int_equal(holes, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_matrix)};
    return cmocka_run_group_tests_name("device/support", tests, NULL, NULL);
}
