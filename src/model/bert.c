/*
 * BERT (Devlin et al. 2018) with its two pre-training heads, as transformers' BertForPreTraining
 * has it: post-norm blocks, erf GELU, layer norm eps 1e-12, a decoder tied to the word embeddings.
 *
 * Only `masked` positions of each sample are predicted: their rows are gathered before the decoder,
 * which would otherwise cost as much as several blocks. A sample with fewer has negative targets
 * behind them. The loss is the mean over those rows, padding included, plus the mean over the
 * next-sentence answers.
 *
 * Blocks, the cut units: one per transformer layer; the embeddings go with the first, pooler and
 * heads with the last.
 */
#include "model/layers.h"

#include <stdio.h>

#define EPS 1e-12
#define STD 0.02

struct builder {
    struct culm_graph *graph;
    const struct culm_model_options *o;
    double dropout;
    int64_t width, hidden, positions, types, masked;
    int64_t layer;
    int32_t mask;
};

static const struct culm_start normal = {CULM_INIT_NORMAL, STD};

static int32_t table(struct builder *b, const char *name, int64_t rows) {
    return culm_layer_param(b->graph, name, "weight", normal,
                            (struct culm_shape){2, {rows, b->width}});
}

static int32_t field(struct builder *b, const char *name, int64_t length) {
    const struct culm_shape shape = {2, {b->o->batch, length}};
    return culm_graph_field(b->graph, name, CULM_I32, &shape);
}

static int32_t linear(struct builder *b, const char *name, int32_t x, int64_t out) {
    return culm_layer_linear(b->graph, name, x, out, normal, &CULM_START_ZEROS);
}

/* A linear layer of the current block. */
static int32_t inner(struct builder *b, const char *name, int32_t x, int64_t out) {
    char full[96];
    snprintf(full, sizeof full, "bert.encoder.layer.%lld.%s", (long long)b->layer, name);
    return linear(b, full, x, out);
}

/* norm(x + dropout(h)) */
static int32_t join(struct builder *b, const char *name, int32_t x, int32_t h) {
    char full[96];
    const int32_t inputs[] = {x, h};
    const struct culm_attributes attributes = {.dropout = b->dropout};
    snprintf(full, sizeof full, "bert.encoder.layer.%lld.%s", (long long)b->layer, name);
    x = culm_layer_apply(b->graph, "residual", inputs, 2, &attributes);
    return culm_layer_layernorm(b->graph, full, x, EPS);
}

static int32_t block(struct builder *b, int32_t x) {
    const struct culm_attributes attributes = {.heads = b->o->heads, .dropout = b->dropout};
    const int32_t inputs[] = {inner(b, "attention.self.query", x, b->width),
                              inner(b, "attention.self.key", x, b->width),
                              inner(b, "attention.self.value", x, b->width), b->mask};
    int32_t h = culm_layer_apply(b->graph, "attention", inputs, 4, &attributes);
    h = inner(b, "attention.output.dense", h, b->width);
    x = join(b, "attention.output.LayerNorm", x, h);
    h = inner(b, "intermediate.dense", x, b->hidden);
    h = culm_layer_activation(b->graph, h, CULM_FUNCTION_GELU_ERF);
    h = inner(b, "output.dense", h, b->width);
    return join(b, "output.LayerNorm", x, h);
}

static int32_t embed(struct builder *b, int32_t words) {
    struct culm_graph *graph = b->graph;
    int32_t by_word[] = {field(b, "tokens", b->o->context), words};
    int32_t positions = table(b, "bert.embeddings.position_embeddings", b->positions);
    int32_t types = table(b, "bert.embeddings.token_type_embeddings", b->types);
    int32_t by_type[] = {field(b, "types", b->o->context), types};
    int32_t both[] = {culm_layer_apply(graph, "lookup", by_word, 2, NULL),
                      culm_layer_apply(graph, "lookup", by_type, 2, NULL)};
    int32_t placed[] = {culm_layer_apply(graph, "add", both, 2, NULL), positions};
    int32_t x = culm_layer_apply(graph, "positions", placed, 2, NULL);
    x = culm_layer_layernorm(graph, "bert.embeddings.LayerNorm", x, EPS);
    return culm_layer_dropout(graph, x, b->dropout);
}

/* The first token's row -> pooler -> is the second sentence the next one? */
static void next_sentence(struct builder *b, int32_t x) {
    const struct culm_attributes first = {.axis = 1, .start = 0, .length = 1};
    x = culm_layer_apply(b->graph, "slice", &x, 1, &first);
    x = linear(b, "bert.pooler.dense", x, b->width);
    x = culm_layer_activation(b->graph, x, CULM_FUNCTION_TANH);
    x = linear(b, "cls.seq_relationship", x, 2);
    culm_layer_loss(b->graph, b->o, x, field(b, "nsp", 1));
}

static void masked_words(struct builder *b, int32_t x, int32_t words) {
    const int32_t gather[] = {x, field(b, "positions", b->masked)};
    x = culm_layer_apply(b->graph, "gather_rows", gather, 2, NULL);
    x = linear(b, "cls.predictions.transform.dense", x, b->width);
    x = culm_layer_activation(b->graph, x, CULM_FUNCTION_GELU_ERF);
    x = culm_layer_layernorm(b->graph, "cls.predictions.transform.LayerNorm", x, EPS);
    const struct culm_attributes attributes = {.transposed = true};
    const int32_t decoder[] = {x, words,
                               culm_layer_param(b->graph, "cls.predictions", "bias",
                                                CULM_START_ZEROS,
                                                (struct culm_shape){1, {b->o->vocab}})};
    x = culm_layer_apply(b->graph, "linear", decoder, 3, &attributes);
    int32_t targets = b->o->inference ? -1 : field(b, "mlm_targets", b->masked);
    culm_layer_loss(b->graph, b->o, x, targets);
}

enum culm_status culm_model_bert(const struct culm_model_options *options,
                                 struct culm_graph *graph) {
    struct builder b = {.graph = graph,
                        .o = options,
                        .dropout = culm_layer_frozen(options) ? 0 : options->dropout,
                        .width = options->width,
                        .hidden = options->hidden ? options->hidden : 4 * options->width,
                        .positions = options->positions ? options->positions : options->context,
                        .types = options->types ? options->types : 2,
                        .masked =
                            options->masked ? options->masked : (15 * options->context + 99) / 100};
    if (culm_layer_check_text(graph, options, b.hidden) != CULM_OK) {
        return graph->error.status;
    }
    if (b.positions < options->context || b.types < 1 || b.masked < 1 ||
        b.masked > options->context) {
        return culm_error_set(&graph->error, CULM_ERR_CONFIG,
                              "%lld positions, %lld types, %lld masked are not possible; positions "
                              "at least the context, %lld, and masked 1 to that",
                              (long long)b.positions, (long long)b.types, (long long)b.masked,
                              (long long)options->context);
    }
    int32_t words = table(&b, "bert.embeddings.word_embeddings", options->vocab);
    int32_t x = embed(&b, words);
    b.mask = field(&b, "mask", options->context);
    for (b.layer = 0; b.layer < options->layers; b.layer++) {
        graph->block = (int32_t)b.layer;
        x = block(&b, x);
    }
    masked_words(&b, x, words);
    if (!options->inference) {
        next_sentence(&b, x);
    }
    return graph->error.status;
}
