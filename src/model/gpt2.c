/* GPT-2 as a graph. Blocks are the cut units; the embedding goes with the first, the head with the
 * last. */
#include "model/model.h"

#include <math.h>
#include <stdio.h>

#define EPS 1e-5
#define STD 0.02

struct builder {
    struct culm_graph *graph;
    const struct culm_model_options *o;
    int64_t block;
};

/* A parameter of the current block, or of the model when `block` is false. */
static int32_t param(struct builder *b, bool block, const char *name, int rank, int64_t d0,
                     int64_t d1, enum culm_init_kind init, double std) {
    char full[96];
    if (block) {
        snprintf(full, sizeof full, "transformer.h.%lld.%s", (long long)b->block, name);
    } else {
        snprintf(full, sizeof full, "transformer.%s", name);
    }
    const struct culm_shape shape = {rank, {d0, d1}};
    return culm_graph_param(b->graph, full, &shape, init, std, rank == 2);
}

static int32_t linear(struct builder *b, const char *name, int32_t x, int64_t in, int64_t out,
                      double std) {
    char weight[64], bias[64];
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    const int32_t inputs[] = {x, param(b, true, weight, 2, in, out, CULM_INIT_NORMAL, std),
                              param(b, true, bias, 1, out, 0, CULM_INIT_ZEROS, 0)};
    return culm_graph_apply(b->graph, "linear", inputs, 3, NULL);
}

static int32_t layernorm(struct builder *b, bool block, const char *name, int32_t x) {
    char weight[64], bias[64];
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    const int32_t inputs[] = {x, param(b, block, weight, 1, b->o->width, 0, CULM_INIT_ONES, 0),
                              param(b, block, bias, 1, b->o->width, 0, CULM_INIT_ZEROS, 0)};
    const struct culm_attributes attributes = {.eps = EPS};
    return culm_graph_apply(b->graph, "layernorm", inputs, 3, &attributes);
}

static int32_t residual(struct builder *b, int32_t x, int32_t h) {
    const int32_t inputs[] = {x, h};
    const struct culm_attributes attributes = {.dropout = b->o->dropout};
    return culm_graph_apply(b->graph, "residual", inputs, 2, &attributes);
}

static int32_t block(struct builder *b, int32_t x) {
    int64_t c = b->o->width;
    double residual_std = STD / sqrt(2.0 * (double)b->o->layers);
    const struct culm_attributes attention = {
        .heads = b->o->heads, .causal = true, .dropout = b->o->dropout};
    int32_t h = layernorm(b, true, "ln_1", x);
    h = linear(b, "attn.c_attn", h, c, 3 * c, STD);
    const int32_t packed[] = {h, -1, -1, -1};
    h = culm_graph_apply(b->graph, "attention", packed, 4, &attention);
    h = linear(b, "attn.c_proj", h, c, c, residual_std);
    x = residual(b, x, h);
    h = layernorm(b, true, "ln_2", x);
    h = linear(b, "mlp.c_fc", h, c, 4 * c, STD);
    h = culm_graph_apply(b->graph, "gelu", &h, 1, NULL);
    h = linear(b, "mlp.c_proj", h, 4 * c, c, residual_std);
    return residual(b, x, h);
}

enum culm_status culm_model_gpt2(const struct culm_model_options *options,
                                 struct culm_graph *graph) {
    struct builder b = {.graph = graph, .o = options};
    if (options->width < 1 || options->heads < 1 || options->layers < 1 || options->context < 1 ||
        options->vocab < 2 || options->batch < 1 || options->width % options->heads ||
        options->width / options->heads > CULM_CPU_MAX_HEAD ||
        4 * options->width > CULM_CPU_MAX_WIDTH || options->context > CULM_CPU_MAX_CONTEXT ||
        options->batch * options->context > CULM_CPU_MAX_ROWS) {
        return culm_error_set(&graph->error, CULM_ERR_CONFIG,
                              "%lld layers, width %lld, %lld heads, context %lld, batch %lld are "
                              "not possible; heads of up to %d, width up to %d, context up to %d, "
                              "batch * context up to %ld",
                              (long long)options->layers, (long long)options->width,
                              (long long)options->heads, (long long)options->context,
                              (long long)options->batch, CULM_CPU_MAX_HEAD, CULM_CPU_MAX_WIDTH / 4,
                              CULM_CPU_MAX_CONTEXT, (long)CULM_CPU_MAX_ROWS);
    }
    const struct culm_shape tokens = {2, {options->batch, options->context}};
    int32_t input = culm_graph_field(graph, "tokens", CULM_I32, &tokens);
    int64_t c = options->width;
    int32_t wte = param(&b, false, "wte.weight", 2, options->vocab, c, CULM_INIT_NORMAL, STD);
    int32_t wpe = param(&b, false, "wpe.weight", 2, options->context, c, CULM_INIT_NORMAL, STD);
    const int32_t embedding[] = {input, wte, wpe};
    int32_t x = culm_graph_apply(graph, "embedding", embedding, 3, NULL);
    if (options->dropout > 0) {
        const struct culm_attributes attributes = {.dropout = options->dropout};
        x = culm_graph_apply(graph, "dropout", &x, 1, &attributes);
    }
    for (b.block = 0; b.block < options->layers; b.block++) {
        graph->block = (int32_t)b.block;
        x = block(&b, x);
    }
    x = layernorm(&b, false, "ln_f", x);
    const int32_t head[] = {x, wte};
    int32_t logits = culm_graph_apply(graph, "head", head, 2, NULL);
    if (options->inference) {
        graph->has_output = true;
        graph->output = logits;
        return graph->error.status;
    }
    const int32_t loss[] = {logits, culm_graph_field(graph, "targets", CULM_I32, &tokens)};
    culm_graph_apply(graph, "cross_entropy", loss, 2, NULL);
    return graph->error.status;
}
