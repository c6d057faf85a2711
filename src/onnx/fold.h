/*
 * The first pass: every value gets its shape, and what can be computed beforehand is.
 *
 * Exporters spell out shape arithmetic and masks; with the dimensions of the inputs fixed almost
 * all of it is constant and folds away. Whole-number initializers and single floats are constants;
 * floats with a dimension are parameters, which training changes, so nothing is folded through
 * them.
 *
 * What does not fold because it depends on an input (an attention mask) can be asked: probing
 * computes it for numbers of the caller's choice, so its meaning shows whatever way it was written.
 *
 * Errors: one line. Thread: one.
 */
#ifndef CULM_ONNX_FOLD_H
#define CULM_ONNX_FOLD_H

#include "onnx/graph.h"

struct culm_onnx_sizes {
    /* Free dimensions of inputs: the first of each; the second of whole-number inputs; the last two
     * of images. 0: not given, and an error if needed. */
    int64_t batch, context, height, width;
    uint64_t live_bytes_max;  /* of folded numbers at a time; 0: 4 GiB */
    uint64_t total_bytes_max; /* of all that were ever computed; 0: 256 GiB */
};

enum culm_status culm_onnx_fold(struct culm_onnx_graph *graph, const struct culm_onnx_sizes *sizes,
                                struct culm_error *error);

/* An input of the graph and the numbers that it is to have. */
struct culm_onnx_guess {
    int32_t value;
    const struct culm_onnx_tensor *data;
};
/* Computes `value`, all of whose inputs must be guessed or constant. *ret_data is one piece of
 * memory, the caller's to free. CULM_ERR_UNSUPPORTED when that is not so. */
enum culm_status culm_onnx_probe(const struct culm_onnx_graph *graph, int32_t value,
                                 const struct culm_onnx_guess *guesses, int32_t count,
                                 struct culm_onnx_tensor **ret_data, struct culm_error *error);
/* Inputs of the graph that `value` depends on: fills ret_inputs, at most `max`; how many there are,
 * or -1 when it also depends on a parameter. */
int32_t culm_onnx_sources(const struct culm_onnx_graph *graph, int32_t value, int32_t *ret_inputs,
                          int32_t max);

#endif
