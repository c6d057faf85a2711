/*
 * From the ONNX graph to ours: one operator after the other.
 *
 * A value [N,C,H,W] of the file may be kept as it is, or as an image [N,H,W,C], or as both; each
 * operator asks for what it needs, so an image is turned only where something other than a network
 * of images sees it. Where the file's batch differs from ours, the first dimension of whatever
 * depends on an input is scaled.
 *
 * Thread: one.
 */
#ifndef CULM_ONNX_BUILD_H
#define CULM_ONNX_BUILD_H

#include "model/layers.h"
#include "onnx/onnx.h"
#include "onnx/pass.h"

/* What stands for a value of the file. */
struct culm_onnx_made {
    int32_t plain, image; /* values of the graph; -1: not in this form */
    bool batched;         /* its first dimension counts samples */
    bool other_rows;      /* only gathered rows are left: the second dimension differs */
};

struct culm_onnx_name {
    char name[96];
    int32_t value; /* of the file; -1: zeros */
};

struct culm_onnx_build {
    struct culm_onnx_graph *file;
    struct culm_graph *graph;
    const struct culm_onnx_options *options;
    struct culm_onnx_notes *notes;
    struct culm_error *error;
    enum culm_status status;     /* of the first thing that is not possible */
    struct culm_onnx_made *made; /* one for each value of the file */
    int64_t file_batch;
    struct culm_onnx_name *name; /* of parameters, in the graph's order */
    int32_t name_count, name_capacity;
    int32_t *param; /* of each value of the file: a parameter's value in the graph, or -1 */
    bool merged;    /* the exporter's optimizer has been at work: equal tensors are one */
    int32_t untied; /* equal constants that were one tensor */
};

/* Builds all; the graph's blocks are not set yet. */
enum culm_status culm_onnx_build(struct culm_onnx_build *build);
/* Fields of the samples that stand for inputs of the file. */
enum culm_status culm_onnx_build_inputs(struct culm_onnx_build *build);
/* A pass for models of masked words: before what predicts them, only the rows that count are
 * gathered, `masked` of them (0: 15 %). False: out of memory. */
bool culm_onnx_gather_rows(struct culm_onnx_graph *file, int64_t masked);
/* Losses, or the output. */
enum culm_status culm_onnx_build_losses(struct culm_onnx_build *build);
/* One operator of ONNX that is none of ours. */
enum culm_status culm_onnx_build_node(struct culm_onnx_build *build,
                                      const struct culm_onnx_node *node);
/* Sets the block of every node: where few values cross. */
enum culm_status culm_onnx_blocks(struct culm_graph *graph, struct culm_error *error);

enum culm_status culm_onnx_unsupported(struct culm_onnx_build *build,
                                       const struct culm_onnx_node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Input i in one of the two forms; -1 after an error. Images have four dimensions. */
int32_t culm_onnx_plain(struct culm_onnx_build *build, const struct culm_onnx_node *node,
                        int32_t i);
int32_t culm_onnx_image(struct culm_onnx_build *build, const struct culm_onnx_node *node,
                        int32_t i);
/* In whatever form there is; *ret_image says which. */
int32_t culm_onnx_either(struct culm_onnx_build *build, const struct culm_onnx_node *node,
                         int32_t i, bool *ret_image);
/* Input i as a parameter, of this shape (with as many elements); statistic: a running mean. */
int32_t culm_onnx_weight(struct culm_onnx_build *build, const struct culm_onnx_node *node,
                         int32_t i, const struct culm_shape *shape, bool statistic);
/* Applies an operator of ours and keeps its value as output 0 of the node. */
enum culm_status culm_onnx_put(struct culm_onnx_build *build, const struct culm_onnx_node *node,
                               bool image, const char *op, const int32_t *inputs, int32_t count,
                               const struct culm_attributes *attributes);
/* Zeros in the place of a parameter that the file lacks, beside that of input i; not trained. */
int32_t culm_onnx_zeros(struct culm_onnx_build *build, const struct culm_onnx_node *node, int32_t i,
                        const struct culm_shape *shape);
/* Whether input i is a constant of the file, not a weight: written into the graph, not trained. */
bool culm_onnx_is_fixed(const struct culm_onnx_build *build, const struct culm_onnx_node *node,
                        int32_t i);
/* The same for a value that is there already. */
enum culm_status culm_onnx_keep(struct culm_onnx_build *build, const struct culm_onnx_node *node,
                                bool image, int32_t value);
/* The shape that a value of the file has here, of at most four dimensions. */
bool culm_onnx_shape_here(const struct culm_onnx_build *build, int32_t value,
                          struct culm_shape *ret_shape);
int32_t culm_onnx_reshape_to(struct culm_onnx_build *build, int32_t value,
                             const struct culm_shape *shape);
int32_t culm_onnx_permute(struct culm_onnx_build *build, int32_t value, int64_t a, int64_t b,
                          int64_t c, int64_t d);
const struct culm_onnx_value *culm_onnx_value_of(const struct culm_onnx_build *build,
                                                 const struct culm_onnx_node *node, int32_t i);
/* An axis of [N,C,H,W] in [N,H,W,C]. */
int64_t culm_onnx_image_axis(int64_t axis);

#endif
