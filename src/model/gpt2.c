/*
 * GPT-2 (Radford et al. 2019) as transformers' GPT2LMHeadModel has it: pre-norm blocks, tanh GELU,
 * layer norm eps 1e-5, learned positions, a head tied to the embedding; weights [in,out].
 *
 * Blocks, the cut units: one per transformer layer; the embedding goes with the first, the head
 * with the last.
 */
#include "model/layers.h"

#include <math.h>
#include <stdio.h>

#define EPS 1e-5
#define STD 0.02

struct builder {
    struct culm_graph *graph;
    const struct culm_model_options *o;
    double dropout;
    int64_t hidden, block;
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
    const struct culm_attributes attributes = {.dropout = b->dropout};
    return culm_graph_apply(b->graph, "residual", inputs, 2, &attributes);
}

static int32_t block(struct builder *b, int32_t x) {
    int64_t c = b->o->width;
    double residual_std = STD / sqrt(2.0 * (double)b->o->layers);
    const struct culm_attributes attention = {
        .heads = b->o->heads, .causal = true, .dropout = b->dropout};
    const struct culm_attributes gelu = {.function = CULM_FUNCTION_GELU_TANH};
    int32_t h = layernorm(b, true, "ln_1", x);
    h = linear(b, "attn.c_attn", h, c, 3 * c, STD);
    const int32_t packed[] = {h, -1, -1, -1};
    h = culm_graph_apply(b->graph, "attention", packed, 4, &attention);
    h = linear(b, "attn.c_proj", h, c, c, residual_std);
    x = residual(b, x, h);
    h = layernorm(b, true, "ln_2", x);
    h = linear(b, "mlp.c_fc", h, c, b->hidden, STD);
    h = culm_graph_apply(b->graph, "activation", &h, 1, &gelu);
    h = linear(b, "mlp.c_proj", h, b->hidden, c, residual_std);
    return residual(b, x, h);
}

/* A table with more positions than a sample has takes two operators. */
static int32_t embed(struct builder *b, int32_t wte) {
    struct culm_graph *graph = b->graph;
    int64_t context = b->o->context, positions = b->o->positions ? b->o->positions : context;
    const struct culm_shape shape = {2, {b->o->batch, context}};
    int32_t tokens = culm_graph_field(graph, "tokens", CULM_I32, &shape);
    int32_t wpe = param(b, false, "wpe.weight", 2, positions, b->o->width, CULM_INIT_NORMAL, STD);
    const int32_t inputs[] = {tokens, wte, wpe};
    if (positions == context) {
        return culm_graph_apply(graph, "embedding", inputs, 3, NULL);
    }
    const int32_t placed[] = {culm_graph_apply(graph, "lookup", inputs, 2, NULL), wpe};
    return culm_graph_apply(graph, "positions", placed, 2, NULL);
}

enum culm_status culm_model_gpt2(const struct culm_model_options *options,
                                 struct culm_graph *graph) {
    struct builder b = {.graph = graph,
                        .o = options,
                        .hidden = options->hidden ? options->hidden : 4 * options->width,
                        .dropout = culm_layer_frozen(options) ? 0 : options->dropout};
    if (culm_layer_check_text(graph, options, b.hidden) != CULM_OK) {
        return graph->error.status;
    }
    int32_t wte =
        param(&b, false, "wte.weight", 2, options->vocab, options->width, CULM_INIT_NORMAL, STD);
    int32_t x = culm_layer_dropout(graph, embed(&b, wte), b.dropout);
    for (b.block = 0; b.block < options->layers; b.block++) {
        graph->block = (int32_t)b.block;
        x = block(&b, x);
    }
    x = layernorm(&b, false, "ln_f", x);
    const int32_t head[] = {x, wte, -1};
    const struct culm_attributes tied = {.transposed = true};
    int32_t logits = culm_graph_apply(graph, "linear", head, 3, &tied);
    const struct culm_shape shape = {2, {options->batch, options->context}};
    int32_t targets =
        options->inference ? -1 : culm_graph_field(graph, "targets", CULM_I32, &shape);
    culm_layer_loss(graph, options, logits, targets);
    return graph->error.status;
}
