/*
 * Text from the model of a run, token by token.
 *
 * The model is compiled as one stage for one sample and run over the whole context for every token:
 * slow and simple. Before the context is full it is padded behind, which causal attention does not
 * see; afterwards the oldest half is let go.
 */
#include "base/finite.h"
#include "base/rng.h"
#include "data/tokenizer.h"
#include "graph/ops.h"
#include "query/subject.h"
#include "run/public.h"

#include <culm/infer.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TEMPERATURE 0.8

struct generator {
    struct culm_subject subject;
    struct culm_runner runner;
    struct culm_tokenizer *tokenizer; /* NULL: a byte is a token */
    struct culm_encoder encoder;
    struct culm_buf text;
    int32_t *tokens;
    const struct culm_generate_options *o;
    int64_t context, vocab, logits; /* tokens seen, ids that are possible, logits of a token */
};

/* Whether the graph says of every token what comes next, from what is before it. */
static bool continues_text(const struct culm_graph *graph) {
    bool causal = false;
    for (int32_t i = 0; i < graph->node_count; i++) {
        if (graph->node[i].op == &culm_op_attention) {
            causal = graph->node[i].attributes.causal;
            if (!causal) {
                return false;
            }
        }
    }
    const struct culm_shape *out = &graph->value[graph->output[0].value].shape;
    return causal && graph->output_count == 1 && graph->output[0].end != CULM_FUNCTION_SIGMOID &&
           graph->field_count == 1 && strcmp(graph->field[0].name, "tokens") == 0 &&
           out->rank == 3 && out->dim[1] == graph->field[0].shape.dim[1];
}

static enum culm_status prepare(struct generator *g, const char *dir, struct culm_error *error) {
    const struct culm_subject_options subject = {.kinds = CULM_SUBJECT_RUN,
                                                 .weights = g->o->weights};
    const struct culm_runner_options runner = {
        .batch = 1, .purpose = CULM_FOR_OUTPUT, .threads = (int)g->o->threads};
    enum culm_status status = culm_subject_open(dir, &subject, &g->subject, error);
    if (status != CULM_OK) {
        return status;
    }
    const struct culm_train_config *config = &g->subject.config;
    if (config->data.tokenizer_count > 0 &&
        (status = culm_tokenizer_open((const char *const *)config->data.tokenizer,
                                      config->data.tokenizer_count, &g->tokenizer, error))) {
        return status;
    }
    if ((status = culm_runner_init(&g->runner, g->subject.network, &runner, error))) {
        return status;
    }
    const struct culm_graph *graph = g->runner.graph;
    if (!continues_text(graph)) {
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "'%s' is a run of 'arch: %s' which does not continue text; give the run of "
            "a gpt2, or of an ONNX file that reads tokens alone, with causal "
            "attention and logits [batch, length, vocabulary]",
            dir, culm_arch_names[config->model.arch]);
    }
    const struct culm_shape *out = &graph->value[graph->output[0].value].shape;
    g->context = out->dim[1];
    g->logits = out->dim[2];
    g->vocab = config->model.options.vocab < g->logits ? config->model.options.vocab : g->logits;
    culm_buf_init(&g->text, 1u << 20);
    g->tokens = g->runner.field[0];
    char note[CULM_NETWORK_NOTE_SIZE];
    enum culm_status loaded = culm_subject_load(&g->subject, &g->runner, note, error);
    if (loaded == CULM_OK && note[0] && g->o->warning) {
        g->o->warning(g->o->context, note);
    }
    return loaded;
}

static int32_t choose(const float *logits, int64_t vocab, double temperature, uint64_t *random) {
    double largest = logits[0], sum = 0;
    for (int64_t v = 1; v < vocab; v++) {
        largest = logits[v] > largest ? logits[v] : largest;
    }
    for (int64_t v = 0; v < vocab; v++) {
        sum += exp((logits[v] - largest) / temperature);
    }
    double left = (double)(culm_rng_next(random) >> 11) * 0x1p-53 * sum;
    for (int64_t v = 0; v < vocab; v++) {
        left -= exp((logits[v] - largest) / temperature);
        if (left < 0) {
            return (int32_t)v;
        }
    }
    return (int32_t)vocab - 1;
}

/* The prompt's ids; at most `context` of them, the last ones. */
static enum culm_status begin(struct generator *g, int64_t *ret_length, struct culm_error *error) {
    const char *prompt = g->o->prompt;
    int64_t context = g->context, vocab = g->vocab;
    enum culm_status status = CULM_OK;
    if (g->tokenizer) {
        status = culm_tokenizer_encode(g->tokenizer, &g->encoder, prompt, strlen(prompt), error);
    }
    for (const char *c = prompt; *c && !g->tokenizer && status == CULM_OK; c++) {
        status = culm_encoder_append(&g->encoder, (unsigned char)*c, error);
    }
    int64_t count = (int64_t)g->encoder.count, skip = count > context ? count - context : 0;
    for (int64_t i = skip; i < count && status == CULM_OK; i++) {
        if (g->encoder.id[i] >= vocab) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "--prompt: token %d is not in the model's vocabulary of %lld",
                                  g->encoder.id[i], (long long)vocab);
        }
        g->tokens[i - skip] = g->encoder.id[i];
    }
    *ret_length = count - skip;
    return status;
}

static bool say_token(struct generator *g, int32_t token) {
    culm_buf_clear(&g->text);
    if (g->tokenizer) {
        culm_tokenizer_decode(g->tokenizer, &token, 1, &g->text);
    } else {
        culm_buf_u8(&g->text, token < 256 ? (uint8_t)token : '?');
    }
    return g->o->text(g->o->context, g->text.data, g->text.len);
}

static enum culm_status generate(struct generator *g, struct culm_error *error) {
    int64_t context = g->context;
    int64_t length = 0;
    enum culm_status status = begin(g, &length, error);
    if (status != CULM_OK) {
        return status;
    }
    bool wanted = g->o->text(g->o->context, g->o->prompt, strlen(g->o->prompt));
    uint64_t random = culm_rng_mix(g->o->seed, 0x7E87);
    for (int64_t i = 0; i < g->o->tokens && wanted; i++) {
        if (length == context) {
            length = context / 2;
            memmove(g->tokens, g->tokens + context - length, (size_t)length * sizeof *g->tokens);
        }
        struct culm_stage_run run = culm_runner_run(&g->runner);
        (void)culm_stage_forward(g->runner.stage, g->runner.device, &run); /* it ends */
        const float *logits = (const float *)g->runner.output + (length - 1) * g->logits;
        int64_t other = culm_finite_find_other(logits, g->vocab);
        if (other >= 0) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "the logits of token %lld are not finite (%s); the weights make "
                                  "numbers that are too large",
                                  (long long)i + 1, culm_finite_other_name(logits[other]));
        }
        int32_t token = choose(logits, g->vocab, g->o->temperature, &random);
        g->tokens[length++] = token;
        wanted = say_token(g, token);
    }
    return CULM_OK;
}

static enum culm_status check(const struct culm_generate_options *o, struct culm_error *error) {
    enum culm_status status =
        culm_public_check(o->tokens, INT64_MAX, "culm_generate_options: tokens", error);
    if (status == CULM_OK) {
        status = culm_public_check(o->threads, CULM_PUBLIC_THREADS_MAX,
                                   "culm_generate_options: threads", error);
    }
    if (status == CULM_OK && (!o->prompt || !o->prompt[0] || !o->text)) {
        status =
            culm_error_set(error, CULM_ERR_ARGUMENT, "struct culm_generate_options: %s is not set",
                           o->text ? "prompt" : "text");
    }
    if (status == CULM_OK && !(o->temperature >= 0 && isfinite(o->temperature))) {
        status = culm_error_set(error, CULM_ERR_ARGUMENT,
                                "culm_generate_options: temperature: %g is not a number above 0",
                                o->temperature);
    }
    return status;
}

enum culm_status culm_generate(const char *what, const struct culm_generate_options *options,
                               struct culm_error *error) {
    struct culm_generate_options own;
    struct generator g = {.o = &own};
    enum culm_status status;
    if ((status = culm_public_check_path(what, "culm_generate", error)) ||
        (status = culm_public_take(&own, sizeof own, options, "culm_generate_options", error)) ||
        (status = check(&own, error))) {
        return status;
    }
    own.threads = own.threads ? own.threads : 1;
    own.temperature = own.temperature > 0 ? own.temperature : TEMPERATURE;
    status = prepare(&g, what, error);
    if (status == CULM_OK) {
        status = generate(&g, error);
    }
    culm_runner_release(&g.runner);
    culm_encoder_release(&g.encoder);
    culm_tokenizer_free(g.tokenizer);
    culm_buf_release(&g.text);
    culm_subject_close(&g.subject);
    return status;
}
