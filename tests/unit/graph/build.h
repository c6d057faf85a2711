/*
 * Small graphs for tests: a table of rows, and calls that add one operator with fresh parameters.
 * Thread: the test's.
 */
#ifndef TESTS_UNIT_GRAPH_BUILD_H
#define TESTS_UNIT_GRAPH_BUILD_H

#include "run.h"

struct net {
    struct culm_graph *graph;
    int64_t batch, context, width, vocab;
    int32_t tokens, targets, table; /* table: [vocab, width], of the embedding */
    struct batch data;
    float *params[64];
};

/* A graph with its inputs; returns embedding's output. */
int32_t net_begin(struct net *net, int64_t batch, int64_t context, int64_t width, int64_t vocab);
int32_t net_linear(struct net *net, int32_t x, int64_t out);
int32_t net_head(struct net *net, int32_t x, int32_t table); /* x table^T */
int32_t net_layernorm(struct net *net, int32_t x);
int32_t net_attention(struct net *net, int32_t qkv, int64_t heads, double dropout);
int32_t net_unary(struct net *net, const char *op, int32_t x, double dropout);
int32_t net_gelu(struct net *net, int32_t x);
int32_t net_binary(struct net *net, const char *op, int32_t a, int32_t b, double dropout);
int32_t net_param(struct net *net, int rank, int64_t d0, int64_t d1);
/* Head and loss; head_table -1: one of its own, else a table to tie to. Then fills parameters and
 * data from `seed`. */
void net_end(struct net *net, int32_t x, int32_t head_table, uint64_t seed);
void net_release(struct net *net);

#endif
