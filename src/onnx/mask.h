/*
 * Finds out what an attention mask means, by trying it.
 *
 * A mask is a constant, or computed from one integer input by operators that exporters arrange in
 * ever new ways. So it is computed for an input of all ones and for some with zeros, and the
 * results are compared with the two known rules: a key whose input is 0 is hidden; and, if causal,
 * a key behind the query is hidden. Anything else is refused.
 *
 * Thread: one.
 */
#ifndef CULM_ONNX_MASK_H
#define CULM_ONNX_MASK_H

#include "onnx/graph.h"

struct culm_onnx_mask {
    bool causal;
    int32_t input; /* an input of the graph, [B,Tk], in which 0 hides a key; -1: none */
};

enum culm_onnx_mask_kind {
    CULM_ONNX_MASK_ADDED, /* 0 shows, a very negative number hides */
    CULM_ONNX_MASK_SHOWS, /* true shows */
    CULM_ONNX_MASK_HIDES, /* true hides */
};

/* `value` broadcasts to [batch, heads, queries, keys]. False: it is not such a mask. */
bool culm_onnx_mask_of(const struct culm_onnx_graph *graph, int32_t value,
                       enum culm_onnx_mask_kind kind, int64_t batch, int64_t queries, int64_t keys,
                       struct culm_onnx_mask *ret_mask);

#endif
