/*
 * The operators of a model, as calls that build a graph. Shapes stand beside the arguments; [...]
 * is any number of leading dimensions. Each returns the value of its result, or CULM_NO_VALUE once
 * the graph has failed. Thread: that of the graph.
 */
#ifndef CULM_GRAPH_OPS_H
#define CULM_GRAPH_OPS_H

#include "graph/graph.h"

/* tokens i32 [B,T], wte [V,C], wpe [T,C] -> [B,T,C] */
int32_t culm_graph_embedding(struct culm_graph *graph, int32_t tokens, int32_t wte, int32_t wpe);
/* x [...,I], w [I,O], b [O] or CULM_NO_VALUE -> [...,O] */
int32_t culm_graph_linear(struct culm_graph *graph, int32_t x, int32_t w, int32_t b_or_none);
/* x [...,C], wte [V,C] -> logits [...,V] */
int32_t culm_graph_head(struct culm_graph *graph, int32_t x, int32_t wte);
/* x [...,C], gamma [C], beta [C] -> [...,C] */
int32_t culm_graph_layernorm(struct culm_graph *graph, int32_t x, int32_t gamma, int32_t beta,
                             double eps);
/* Causal. qkv [B,T,3C] -> [B,T,C]; p in [0, 1): dropout of the probabilities */
int32_t culm_graph_attention(struct culm_graph *graph, int32_t qkv, int64_t heads, double p);
/* tanh form */
int32_t culm_graph_gelu(struct culm_graph *graph, int32_t x);
/* The leading dimension counts samples. p = 0 gives x itself. */
int32_t culm_graph_dropout(struct culm_graph *graph, int32_t x, double p);
/* x + dropout(h), of equal shapes */
int32_t culm_graph_residual(struct culm_graph *graph, int32_t x, int32_t h, double p);
int32_t culm_graph_add(struct culm_graph *graph, int32_t a, int32_t b);
/* logits [...,V], targets i32 [...]: the loss is the sum over tokens of -log softmax. Overwrites
 * the logits with their gradient, so nothing else may read them. */
void culm_graph_cross_entropy(struct culm_graph *graph, int32_t logits, int32_t targets);

#endif
