/* Builds layers from operators on vertices. See network.h. */
#include "gnn/network.h"

#include "model/layers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct builder {
    const struct culm_gnn_config *config;
    const struct culm_gnn_plan *plan;
    struct culm_graph *graph;
    bool training;
    int32_t own;                    /* the own features; -1: the model has none */
    struct culm_gnn_border *border; /* [stages]; filled in as stages end */
};

bool culm_gnn_network_reads_features(const char *name) {
    return strncmp(name, "convs.0.lin", strlen("convs.0.lin")) == 0 &&
           strcmp(name + strlen(name) - strlen(".weight"), ".weight") == 0;
}

/* --- parts of a layer --- */

static int64_t in_of(const struct builder *b, int32_t layer) {
    return culm_gnn_plan_in(b->plan, b->config, layer);
}

static int64_t out_of(const struct builder *b, int32_t layer) {
    return culm_gnn_plan_out(b->plan, b->config, layer);
}

static struct culm_start glorot(int64_t in, int64_t out) {
    return (struct culm_start){CULM_INIT_UNIFORM, sqrt(6.0 / (double)(in + out))};
}

static int32_t param(struct builder *b, int32_t layer, const char *what, struct culm_shape shape,
                     struct culm_start start) {
    char name[96];
    bool decays = b->config->optimizer.decay_layers == CULM_GNN_DECAY_ALL || layer == 0;
    snprintf(name, sizeof name, "convs.%d.%s", layer, what);
    return culm_graph_param(b->graph, name, &shape, start.kind, start.size, decays);
}

static int32_t bias_of(struct builder *b, int32_t layer, const char *what, int64_t width,
                       struct culm_start start) {
    return param(b, layer, what, (struct culm_shape){1, {width}}, start);
}

/* x W, plus the bias of that name, unless it is NULL. For sparse rows the product itself applies
 * dropout, because they store no zeros. */
static int32_t multiply_and_add(struct builder *b, int32_t layer, const char *what, int32_t x,
                                struct culm_start start, const char *bias,
                                struct culm_start bias_start) {
    int64_t in = in_of(b, layer), out = out_of(b, layer);
    if (layer == 0 && b->plan->sparse) {
        /* W is stored as [in,out], because the product reads whole rows of it */
        int32_t w = param(b, layer, what, (struct culm_shape){2, {in, out}}, start);
        const int32_t inputs[] = {x, w};
        const struct culm_attributes attributes = {.dropout =
                                                       b->training ? b->config->model.dropout : 0};
        if (w >= 0) {
            culm_graph_param_written(b->graph, w, &(struct culm_shape){2, {out, in}});
        }
        return culm_layer_apply(b->graph, "sparse_linear", inputs, 2, &attributes);
    }
    /* parameters must be created in the order in which they are used */
    int32_t w = param(b, layer, what, (struct culm_shape){2, {out, in}}, start);
    const int32_t inputs[] = {x, w, bias ? bias_of(b, layer, bias, out, bias_start) : -1};
    const struct culm_attributes attributes = {.transposed = true};
    return culm_layer_apply(b->graph, "linear", inputs, 3, &attributes);
}

static int32_t multiply(struct builder *b, int32_t layer, const char *what, int32_t x,
                        struct culm_start start) {
    return multiply_and_add(b, layer, what, x, start, NULL, start);
}

static int32_t add_bias(struct builder *b, int32_t x, int32_t bias) {
    const int32_t inputs[] = {x, bias};
    const struct culm_attributes attributes = {.function = CULM_FUNCTION_ADD};
    return culm_layer_apply(b->graph, "binary", inputs, 2, &attributes);
}

/* The columns [start, start + length) of all rows. */
static int32_t columns(struct builder *b, int32_t x, int64_t start, int64_t length) {
    const struct culm_attributes attributes = {.axis = 1, .start = start, .length = length};
    return culm_layer_apply(b->graph, "slice", &x, 1, &attributes);
}

static int32_t beside(struct builder *b, const int32_t *parts, int32_t count) {
    const struct culm_attributes attributes = {.axis = 1};
    return culm_layer_apply(b->graph, "concat", parts, count, &attributes);
}

/* Gathers the rows of `x`: ends a stage and begins the next. A stage's output must be a value that
 * the stage computes, so a field is copied first. */
static int32_t gather(struct builder *b, int32_t x, struct culm_gnn_border border) {
    if (x >= 0 && b->graph->value[x].kind == CULM_VALUE_FIELD) {
        const struct culm_attributes same = {.scale = 1};
        x = culm_layer_apply(b->graph, "affine", &x, 1, &same);
    }
    b->border[b->graph->block++] = border;
    return x;
}

static struct culm_gnn_border all_of(int64_t width) {
    return (struct culm_gnn_border){width, width, width, width, 0, 0};
}

/* Ends a layer, on the first `width` columns of `x`: adds the bias, unless it is -1, and in all
 * layers but the last applies the activation and the next layer's dropout. The latter is one
 * operator; `passed` counts the operators it replaces, so that dropout draws the same numbers. */
static int32_t finish(struct builder *b, int32_t l, int32_t x, int64_t width, int32_t bias) {
    static const enum culm_function of[] = {
        [CULM_GNN_RELU] = CULM_FUNCTION_RELU,
        [CULM_GNN_TANH] = CULM_FUNCTION_TANH,
        [CULM_GNN_ELU] = CULM_FUNCTION_ELU,
    };
    const struct culm_shape shape = culm_layer_shape(b->graph, x);
    bool wider = shape.rank == 2 && shape.dim[1] > width;
    if (l + 1 == b->plan->layers) {
        x = wider ? columns(b, x, 0, width) : x;
        return bias >= 0 ? add_bias(b, x, bias) : x;
    }
    const int32_t inputs[] = {x, bias};
    const struct culm_attributes attributes = {.function = of[b->config->model.activation],
                                               .alpha = 1,
                                               .dropout =
                                                   b->training ? b->config->model.dropout : 0,
                                               .length = width,
                                               .inference = !b->training};
    b->graph->passed += wider + (bias >= 0) + 1;
    return culm_layer_apply(b->graph, "hidden", inputs, 2, &attributes);
}

/* --- layers: each begins after the dropout of its input and ends with the next one's --- */

static int32_t convolution(struct builder *b, int32_t l, int32_t x) {
    bool bias = b->config->model.bias;
    struct culm_start start = glorot(in_of(b, l), out_of(b, l));
    if (!b->plan->multiply_first[l]) {
        if (l > 0 || !b->plan->aggregated) {
            x = gather(b, x, all_of(in_of(b, l)));
        }
        if (l == 0 && b->training) { /* after the gather, whether ÂX is kept or not */
            x = culm_layer_dropout(b->graph, x, b->config->model.dropout);
        }
        x = multiply_and_add(b, l, "lin.weight", x, start, bias ? "bias" : NULL, CULM_START_ZEROS);
        return finish(b, l, x, out_of(b, l), -1);
    }
    x = gather(b, multiply(b, l, "lin.weight", x, start), all_of(out_of(b, l)));
    return finish(b, l, x, out_of(b, l),
                  bias ? bias_of(b, l, "bias", out_of(b, l), CULM_START_ZEROS) : -1);
}

static int32_t mean(struct builder *b, int32_t l, int32_t x) {
    int64_t out = out_of(b, l);
    struct culm_start start = culm_start_torch(in_of(b, l));
    int32_t parts[2];
    bool bias = b->config->model.bias;
    if (!b->plan->multiply_first[l]) {
        int64_t in = in_of(b, l);
        parts[0] = x;
        parts[1] = l == 0 ? b->own : x;
        if (l > 0) {
            x = gather(b, beside(b, parts, 2),
                       (struct culm_gnn_border){2 * in, in, 2 * in, in, 0, 0});
            parts[0] = columns(b, x, 0, in);
            parts[1] = columns(b, x, in, in);
        }
        for (int i = 0; i < 2 && l == 0 && b->training; i++) { /* after the gather */
            parts[i] = culm_layer_dropout(b->graph, parts[i], b->config->model.dropout);
        }
        parts[0] = multiply_and_add(b, l, "lin_l.weight", parts[0], start,
                                    bias ? "lin_l.bias" : NULL, start);
        parts[1] = multiply(b, l, "lin_r.weight", parts[1], start);
        return finish(b, l, culm_layer_apply(b->graph, "add", parts, 2, NULL), out, -1);
    }
    parts[0] = multiply(b, l, "lin_l.weight", x, start);
    parts[1] = multiply(b, l, "lin_r.weight", x, start);
    x = gather(b, beside(b, parts, 2), (struct culm_gnn_border){2 * out, out, 2 * out, out, 0, 0});
    parts[0] = columns(b, x, 0, out);
    parts[1] = columns(b, x, out, out);
    x = culm_layer_apply(b->graph, "add", parts, 2, NULL);
    return finish(b, l, x, out, bias ? bias_of(b, l, "lin_l.bias", out, start) : -1);
}

/* The vectors [1,heads,width] whose products with T are the attention scores. */
static int32_t attends(struct builder *b, int32_t l, const char *what, int64_t heads,
                       int64_t width) {
    return param(b, l, what, (struct culm_shape){3, {1, heads, width}}, glorot(heads, width));
}

static int32_t attention(struct builder *b, int32_t l, int32_t x) {
    const struct culm_gnn_model_config *model = &b->config->model;
    bool last = l + 1 == b->plan->layers;
    int64_t heads = last ? model->out_heads : model->heads, all = out_of(b, l);
    int64_t width = all / heads, n = b->plan->rows_max;
    int32_t t = multiply(b, l, "lin.weight", x, glorot(in_of(b, l), all));
    int32_t source = attends(b, l, "att_src", heads, width);
    const int32_t inputs[] = {t, source, attends(b, l, "att_dst", heads, width)};
    /* Dropout applies to the rows that are gathered, but not to those that scores are computed
     * from, as in the authors' code. */
    const struct culm_attributes attributes = {.dropout = b->training ? model->dropout : 0};
    b->graph->passed += 8; /* "heads" replaces eight operators that would compute scores, */
    t = culm_layer_apply(b->graph, "heads", inputs, 3, &attributes);
    b->graph->passed += attributes.dropout > 0; /* and one that would join them to the dropped T */
    x = gather(b, t,
               (struct culm_gnn_border){.width = all + 2 * heads,
                                        .sent = all + heads,
                                        .d_width = all + 4 * heads,
                                        .d_sent = all + 3 * heads,
                                        .extra = all + 3 * heads,
                                        .heads = heads});
    if (last && heads > 1) {
        x = columns(b, x, 0, all);
        const struct culm_attributes over = {.function = CULM_FUNCTION_MEAN, .axes = 1 << 1};
        x = culm_layer_reshape(b->graph, x, (struct culm_shape){3, {n, heads, width}});
        x = culm_layer_apply(b->graph, "reduce", &x, 1, &over);
        x = culm_layer_reshape(b->graph, x, (struct culm_shape){2, {n, width}});
    }
    int64_t columns = last ? width : all;
    return finish(b, l, x, columns,
                  model->bias ? bias_of(b, l, "bias", columns, CULM_START_ZEROS) : -1);
}

enum culm_status culm_gnn_network_build(const struct culm_gnn_config *config,
                                        const struct culm_gnn_plan *plan, bool training,
                                        struct culm_graph *graph,
                                        struct culm_gnn_border *ret_border,
                                        struct culm_error *error) {
    static int32_t (*const layer[])(struct builder * b, int32_t l, int32_t x) = {
        [CULM_GNN_GCN] = convolution, [CULM_GNN_GAT] = attention, [CULM_GNN_SAGE] = mean};
    struct builder b = {config, plan, graph, training, -1, ret_border};
    const struct culm_shape features = {2, {plan->rows_max, plan->columns}};
    const struct culm_shape labels = {2, {plan->rows_max, 1}};
    int32_t x =
        culm_graph_field(graph, "features", plan->sparse ? CULM_SPARSE : CULM_F32, &features);
    if (culm_gnn_plan_own(plan, config)) {
        b.own = culm_graph_field(graph, "own_features", CULM_F32, &features);
    }
    int32_t label = training ? culm_graph_field(graph, "label", CULM_I32, &labels) : -1;
    for (int32_t l = 0; l < plan->layers; l++) {
        bool of_features = plan->sparse || !plan->multiply_first[0]; /* the layer applies it */
        if (training && l == 0 && !of_features) { /* finish() applies it for later layers */
            x = culm_layer_dropout(graph, x, config->model.dropout);
        }
        x = layer[config->model.arch](&b, l, x);
    }
    if (training) {
        const int32_t inputs[] = {x, label};
        culm_layer_apply(graph, "cross_entropy", inputs, 2, NULL);
    } else if (x >= 0) {
        culm_graph_output(graph, "logits", x);
    }
    ret_border[graph->block] = all_of(plan->classes);
    enum culm_status status = culm_graph_check(graph, error);
    if (status != CULM_OK) {
        culm_error_prefix(error, "model");
    }
    return status;
}
