/*
 * The first pass: gives every value its shape, and computes what can be computed in advance.
 *
 * Exporters spell out shape arithmetic and masks. Once the dimensions of the inputs are fixed,
 * almost all of that is constant and folds away. Integer initializers and single floats are
 * constants; floats with a dimension are parameters that training changes, so nothing is folded
 * through them.
 *
 * What cannot be folded because it depends on an input, such as an attention mask, can be probed:
 * it is computed for numbers of the caller's choice, which shows what it means no matter how it was
 * written.
 *
 * Errors: one line. Thread: one.
 */
#ifndef CULM_ONNX_FOLD_H
#define CULM_ONNX_FOLD_H

#include "onnx/graph.h"

struct culm_onnx_sizes {
    /* Sizes for free dimensions of inputs: the first of each; the second of integer inputs; the
     * last two of images. 0: not given, which is an error if it is needed. */
    int64_t batch, context, height, width;
    uint64_t live_bytes_max;  /* limit on folded numbers at any time; 0: 4 GiB */
    uint64_t total_bytes_max; /* limit on all numbers ever computed; 0: 256 GiB */
};

enum culm_status culm_onnx_fold(struct culm_onnx_graph *graph, const struct culm_onnx_sizes *sizes,
                                struct culm_error *error);

/* An input of the graph, and the numbers to assume for it. */
struct culm_onnx_guess {
    int32_t value;
    const struct culm_onnx_tensor *data;
};
/* Computes `value` from guesses and constants. *ret_data is a single allocation, the caller's to
 * free. CULM_ERR_UNSUPPORTED: it depends on anything else. */
enum culm_status culm_onnx_probe(const struct culm_onnx_graph *graph, int32_t value,
                                 const struct culm_onnx_guess *guesses, int32_t count,
                                 struct culm_onnx_tensor **ret_data, struct culm_error *error);
/* The inputs of the graph that `value` depends on. Fills in ret_inputs, at most `max`; returns how
 * many there are, or -1 if it depends on a parameter as well. */
int32_t culm_onnx_sources(const struct culm_onnx_graph *graph, int32_t value, int32_t *ret_inputs,
                          int32_t max);

#endif
