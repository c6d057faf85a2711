/*
 * What an attention mask means, found out by trying.
 *
 * A mask is either a constant or computed from one whole-number input by operators that exporters
 * write in ever new ways. So it is computed for inputs of all ones and for some with zeros, and
 * what comes out is compared with the two rules there are: a key whose input is 0 is hidden, and
 * (causal) a key behind the query is hidden. Anything else is refused.
 */
#ifndef CULM_ONNX_MASK_H
#define CULM_ONNX_MASK_H

#include "onnx/graph.h"

struct culm_onnx_mask {
    bool causal;
    int32_t input; /* [B,Tk] of the graph: 0 hides; -1: none */
};

enum culm_onnx_mask_kind {
    CULM_ONNX_MASK_ADDED, /* 0 shows, what is very negative hides */
    CULM_ONNX_MASK_SHOWS, /* true shows */
    CULM_ONNX_MASK_HIDES, /* true hides */
};

/* `value` is spread over [batch, heads, queries, keys]. False: it is no such mask. */
bool culm_onnx_mask_of(const struct culm_onnx_graph *graph, int32_t value,
                       enum culm_onnx_mask_kind kind, int64_t batch, int64_t queries, int64_t keys,
                       struct culm_onnx_mask *ret_mask);

#endif
