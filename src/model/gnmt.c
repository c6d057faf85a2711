/*
 * GNMT: Google's translation system (Wu et al. 2016) as NVIDIA's GNMT v2 modules build it.
 *
 * Encoder: an embedding, a bidirectional LSTM layer, then layers in one direction, residual from
 * the third. Decoder: an embedding and a first LSTM layer that asks a normalised Bahdanau attention
 * over the encoder's output; the context it answers is put beside the input of every further layer;
 * residual from the third; a classifier of its own. Dropout acts on the input of every LSTM.
 *
 * Padding behind a source sentence is hidden by its length; behind a target sentence, by negative
 * targets, and nothing real comes after it.
 *
 * Presets. `gnmt` is the published depth, 8 LSTM layers each side (the bidirectional one counts
 * once), with the one shared table and vocabulary (32317) of NVIDIA's recipe. `gnmt-16` is the
 * GNMT-16 that PipeDream introduced and Bamboo measured: 16 LSTM layers in all, hence 8 each side
 * as well, with a table for each language and the vocabulary padded to 32320 (PipeDream's
 * gnmt_large, which has no other difference).
 *
 * Blocks, the cut units: one per LSTM layer, the embeddings and the attention with the layer that
 * reads or feeds them, and the classifier, which is as dear as two layers. In the decoder two
 * values cross a cut: the layer's output and the context.
 */
#include "model/layers.h"

#include <math.h>
#include <stdio.h>

#define START 0.1
#define LAYERS_MAX 64

static const struct culm_start uniform = {CULM_INIT_UNIFORM, START};

struct builder {
    struct culm_graph *graph;
    const struct culm_model_options *o;
    double dropout;
    int64_t width;
    int32_t length;
};

static int32_t field(struct builder *b, const char *name, int64_t length) {
    const struct culm_shape shape = {2, {b->o->batch, length}};
    return culm_graph_field(b->graph, name, CULM_I32, &shape);
}

static int32_t look_up(struct builder *b, int32_t ids, int32_t table) {
    const int32_t inputs[] = {ids, table};
    return culm_layer_apply(b->graph, "lookup", inputs, 2, NULL);
}

static int32_t beside(struct builder *b, int32_t left, int32_t right) {
    const int32_t inputs[] = {left, right};
    const struct culm_attributes attributes = {.axis = 2};
    return culm_layer_apply(b->graph, "concat", inputs, 2, &attributes);
}

/* One direction of a layer; length -1: all positions. */
static int32_t lstm(struct builder *b, const char *name, int32_t x, int32_t length, bool reverse) {
    const int64_t gates = 4 * b->width;
    struct culm_shape in = culm_layer_shape(b->graph, x);
    char what[4][32];
    static const char *const base[] = {"weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"};
    for (int i = 0; i < 4; i++) {
        snprintf(what[i], sizeof what[i], "%s%s", base[i], reverse ? "_reverse" : "");
    }
    const struct culm_shape from_input = {2, {gates, culm_last_dim(&in)}};
    const struct culm_shape from_state = {2, {gates, b->width}}, bias = {1, {gates}};
    const int32_t inputs[] = {
        x,
        culm_layer_param(b->graph, name, what[0], uniform, from_input),
        culm_layer_param(b->graph, name, what[1], uniform, from_state),
        culm_layer_param(b->graph, name, what[2], uniform, bias),
        culm_layer_param(b->graph, name, what[3], CULM_START_ZEROS, bias),
        -1,
        -1,
        length,
    };
    const struct culm_attributes attributes = {.reverse = reverse};
    return culm_layer_apply(b->graph, "lstm", inputs, 8, &attributes);
}

static int32_t encoder(struct builder *b, int32_t table) {
    int32_t x = look_up(b, field(b, "source", b->o->source ? b->o->source : b->o->context), table);
    x = culm_layer_dropout(b->graph, x, b->dropout);
    int32_t ahead = lstm(b, "encoder.rnn_layers.0", x, b->length, false);
    int32_t back = lstm(b, "encoder.rnn_layers.0", x, b->length, true);
    x = beside(b, ahead, back);
    for (int64_t i = 1; i < b->o->layers; i++) {
        char name[64];
        snprintf(name, sizeof name, "encoder.rnn_layers.%lld", (long long)i);
        b->graph->block++;
        int32_t h = culm_layer_dropout(b->graph, x, b->dropout);
        const int32_t both[] = {x, lstm(b, name, h, -1, false)};
        x = i > 1 ? culm_layer_apply(b->graph, "add", both, 2, NULL) : both[1];
    }
    return x;
}

/* What of `memory`, the encoder's output, each position of x asks for. */
static int32_t attend(struct builder *b, int32_t x, int32_t memory) {
    const char *name = "decoder.att_rnn.attn";
    const struct culm_shape vector = {1, {b->width}}, one = {1, {1}};
    const struct culm_start scale = {CULM_INIT_CONSTANT, 1 / sqrt((double)b->width)};
    char query[64], key[64];
    snprintf(query, sizeof query, "%s.linear_q", name);
    snprintf(key, sizeof key, "%s.linear_k", name);
    const int32_t inputs[] = {
        culm_layer_linear(b->graph, query, x, b->width, uniform, NULL),
        culm_layer_linear(b->graph, key, memory, b->width, uniform, NULL),
        memory,
        b->length,
        culm_layer_param(b->graph, name, "linear_att", uniform, vector),
        culm_layer_param(b->graph, name, "normalize_scalar", scale, one),
        culm_layer_param(b->graph, name, "normalize_bias", CULM_START_ZEROS, vector),
    };
    return culm_layer_apply(b->graph, "bahdanau", inputs, 7, NULL);
}

static int32_t decoder(struct builder *b, int32_t table, int32_t memory) {
    b->graph->block++;
    int32_t x = look_up(b, field(b, "tokens", b->o->context), table);
    x = culm_layer_dropout(b->graph, x, b->dropout);
    x = lstm(b, "decoder.att_rnn.rnn", x, -1, false);
    int32_t context = attend(b, x, memory);
    for (int64_t i = 0; i + 1 < b->o->layers; i++) {
        char name[64];
        snprintf(name, sizeof name, "decoder.rnn_layers.%lld", (long long)i);
        b->graph->block++;
        int32_t h = culm_layer_dropout(b->graph, beside(b, x, context), b->dropout);
        const int32_t both[] = {x, lstm(b, name, h, -1, false)};
        x = i > 0 ? culm_layer_apply(b->graph, "add", both, 2, NULL) : both[1];
    }
    return x;
}

static int32_t table(struct builder *b, const char *name) {
    const struct culm_shape shape = {2, {b->o->vocab, b->width}};
    return culm_layer_param(b->graph, name, "weight", uniform, shape);
}

enum culm_status culm_model_gnmt(const struct culm_model_options *options,
                                 struct culm_graph *graph) {
    const struct culm_model_options *o = options;
    int64_t source = o->source ? o->source : o->context;
    const struct culm_device_limits *most = &graph->device->limits;
    if (o->layers < 2 || o->layers > LAYERS_MAX || o->width < 1 || 4 * o->width > most->width ||
        o->vocab < 2 || o->batch < 1 || o->context < 1 || source < 1 ||
        o->context > most->context || source > most->context ||
        o->batch > most->rows / o->context) {
        return culm_error_set(
            &graph->error, CULM_ERR_CONFIG,
            "%lld layers, width %lld, context %lld, source %lld, batch %lld are "
            "not possible; 2 to %d layers, width up to %lld, sentences up to %lld, "
            "batch * context up to %lld",
            (long long)o->layers, (long long)o->width, (long long)o->context, (long long)source,
            (long long)o->batch, LAYERS_MAX, (long long)(most->width / 4), (long long)most->context,
            (long long)most->rows);
    }
    struct builder b = {.graph = graph,
                        .o = o,
                        .dropout = culm_layer_frozen(o) ? 0 : o->dropout,
                        .width = o->width};
    int32_t of_source = table(&b, "encoder.embedder");
    b.length = field(&b, "length", 1);
    int32_t memory = encoder(&b, of_source);
    int32_t of_target = o->share_embedding ? of_source : table(&b, "decoder.embedder");
    int32_t x = decoder(&b, of_target, memory);
    graph->block++;
    x = culm_layer_linear(graph, "decoder.classifier.classifier", x, o->vocab, uniform, &uniform);
    culm_layer_loss(graph, o, x, o->inference ? -1 : field(&b, "targets", o->context));
    return graph->error.status;
}
