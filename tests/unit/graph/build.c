/* See build.h. */
#include "build.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

int32_t net_param(struct net *net, int rank, int64_t d0, int64_t d1) {
    char name[32];
    snprintf(name, sizeof name, "p%d", net->graph->param_count);
    const struct culm_shape shape = {rank, {d0, d1}};
    return culm_graph_param(net->graph, name, &shape, CULM_INIT_ZEROS, 0, rank == 2);
}

int32_t net_begin(struct net *net, int64_t batch, int64_t context, int64_t width, int64_t vocab) {
    *net = (struct net){.graph = culm_graph_new(culm_device_default()),
                        .batch = batch,
                        .context = context,
                        .width = width,
                        .vocab = vocab};
    assert_non_null(net->graph);
    const struct culm_shape tokens = {2, {batch, context}};
    net->tokens = culm_graph_field(net->graph, "tokens", CULM_I32, &tokens);
    net->targets = culm_graph_field(net->graph, "targets", CULM_I32, &tokens);
    net->table = net_param(net, 2, vocab, width);
    const int32_t in[] = {net->tokens, net->table, net_param(net, 2, context, width)};
    return culm_graph_apply(net->graph, "embedding", in, 3, NULL);
}

static int64_t last_of(const struct net *net, int32_t value) {
    return value < 0 ? 1 : culm_last_dim(&net->graph->value[value].shape);
}

int32_t net_linear(struct net *net, int32_t x, int64_t out) {
    const int32_t in[] = {x, net_param(net, 2, last_of(net, x), out), net_param(net, 1, out, 0)};
    return culm_graph_apply(net->graph, "linear", in, 3, NULL);
}

int32_t net_head(struct net *net, int32_t x, int32_t table) {
    const struct culm_attributes attributes = {.transposed = true};
    const int32_t in[] = {x, table, -1};
    return culm_graph_apply(net->graph, "linear", in, 3, &attributes);
}

int32_t net_layernorm(struct net *net, int32_t x) {
    int64_t width = last_of(net, x);
    const struct culm_attributes attributes = {.eps = 1e-5};
    const int32_t in[] = {x, net_param(net, 1, width, 0), net_param(net, 1, width, 0)};
    return culm_graph_apply(net->graph, "layernorm", in, 3, &attributes);
}

int32_t net_attention(struct net *net, int32_t qkv, int64_t heads, double dropout) {
    const struct culm_attributes attributes = {.heads = heads, .causal = true, .dropout = dropout};
    const int32_t in[] = {qkv, -1, -1, -1};
    return culm_graph_apply(net->graph, "attention", in, 4, &attributes);
}

int32_t net_unary(struct net *net, const char *op, int32_t x, double dropout) {
    const struct culm_attributes attributes = {.dropout = dropout};
    return culm_graph_apply(net->graph, op, &x, 1, &attributes);
}

int32_t net_gelu(struct net *net, int32_t x) {
    const struct culm_attributes attributes = {.function = CULM_FUNCTION_GELU_TANH};
    return culm_graph_apply(net->graph, "activation", &x, 1, &attributes);
}

int32_t net_binary(struct net *net, const char *op, int32_t a, int32_t b, double dropout) {
    const struct culm_attributes attributes = {.dropout = dropout};
    const int32_t in[] = {a, b};
    return culm_graph_apply(net->graph, op, in, 2, &attributes);
}

/* In (-1, 1). */
static float random_weight(uint64_t *state) {
    return 2 * culm_rng_unit((uint32_t)culm_rng_next(state)) - 1;
}

void net_end(struct net *net, int32_t x, int32_t head_table, uint64_t seed) {
    if (head_table < 0) {
        head_table = net_param(net, 2, net->vocab, last_of(net, x));
    }
    int32_t logits = net_head(net, x, head_table);
    net_binary(net, "cross_entropy", logits, net->targets, 0);
    struct culm_error error;
    if (culm_graph_check(net->graph, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    assert_in_range(net->graph->param_count, 1, 64);
    uint64_t state = seed;
    for (int32_t p = 0; p < net->graph->param_count; p++) {
        int64_t count = culm_elements(&net->graph->param[p].shape);
        net->params[p] = malloc((size_t)count * sizeof(float));
        for (int64_t i = 0; i < count; i++) {
            net->params[p][i] = random_weight(&state);
        }
    }
    int64_t count = net->batch * net->context;
    int32_t *tokens = malloc((size_t)(2 * count) * sizeof *tokens);
    for (int64_t i = 0; i < 2 * count; i++) {
        tokens[i] = (int32_t)culm_rng_below(&state, (uint64_t)net->vocab);
    }
    net->data = (struct batch){.params = (const float *const *)net->params,
                               .tokens = tokens,
                               .targets = tokens + count,
                               .fields = {tokens, tokens + count},
                               .seed = seed,
                               .iteration = 3,
                               .first_sample = 11};
}

void net_release(struct net *net) {
    for (int32_t p = 0; p < net->graph->param_count; p++) {
        free(net->params[p]);
    }
    free((void *)net->data.tokens);
    culm_graph_free(net->graph);
}
