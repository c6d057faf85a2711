/*
 * Builds our graph from an ONNX graph, one operator after the other.
 *
 * A value [N,C,H,W] of the file can be present as it is ("plain"), as an image [N,H,W,C], or as
 * both. Each operator asks for the form it needs, so values are transposed only where image
 * operators meet others. If the file's batch differs from ours, the first dimension of everything
 * that depends on an input is scaled.
 *
 * Private to src/onnx. Thread: one.
 */
#ifndef CULM_ONNX_BUILD_H
#define CULM_ONNX_BUILD_H

#include "model/layers.h"
#include "onnx/onnx.h"
#include "onnx/pass.h"

/* What a value of the file has become. */
struct culm_onnx_made {
    int32_t plain, image; /* values of our graph; -1: not in this form */
    bool batched;         /* its first dimension counts samples */
    bool other_rows;      /* the second dimension differs, since only gathered rows are left */
};

struct culm_onnx_name {
    char name[96];
    int32_t value; /* in the file; -1: zeros */
};

struct culm_onnx_build {
    struct culm_onnx_graph *file;
    struct culm_graph *graph;
    const struct culm_onnx_options *options;
    struct culm_onnx_notes *notes;
    struct culm_error *error;
    enum culm_status status;     /* of the first error */
    struct culm_onnx_made *made; /* [values of the file] */
    int64_t file_batch;
    struct culm_onnx_name *name; /* names of parameters, in the order of our graph */
    int32_t name_count, name_capacity;
    int32_t *param; /* [values of the file]: the parameter's value in our graph; -1: none */
    bool merged;    /* an exporter has merged equal tensors */
    int32_t untied; /* number of equal tensors that were merged and are separate again */
};

/* Builds everything but the graph's blocks. */
enum culm_status culm_onnx_build_nodes(struct culm_onnx_build *build);
/* Creates the fields of samples for the inputs of the file. */
enum culm_status culm_onnx_build_inputs(struct culm_onnx_build *build);
/* A pass for models of masked words: in front of what predicts them, gathers only the rows that
 * count, `masked` a sample (0: 15 %). False: out of memory. */
bool culm_onnx_gather_rows(struct culm_onnx_graph *file, int64_t masked);
/* The first output of this rank that is computed from activations; -1: none. */
int32_t culm_onnx_output_of(const struct culm_onnx_graph *file, int rank);
/* Makes five dimensions four where that is possible (flatten.c). False: out of memory. */
bool culm_onnx_flatten(struct culm_onnx_graph *graph);
/* Before all passes: cuts off the choice among candidates for boxes (cut_choice.c). */
void culm_onnx_cut_choice(struct culm_onnx_graph *file, int32_t classes,
                          struct culm_onnx_notes *notes);
/* A pass, before the one above: cuts off what the outputs end in (cut_ends.c). False: out of memory. */
bool culm_onnx_cut_ends(struct culm_onnx_graph *file, struct culm_onnx_notes *notes);
/* Takes the masks of a language model for all ones: its samples are not padded. */
void culm_onnx_drop_masks(struct culm_onnx_graph *file, struct culm_onnx_notes *notes);
/* After a build has failed with this status: says what of the model is not supported, where that is
 * known, instead of at which node. Returns the status. */
enum culm_status culm_onnx_say_unsupported(const struct culm_onnx_graph *file,
                                           enum culm_status status, struct culm_error *error);
/* Adds the losses, or the outputs. */
enum culm_status culm_onnx_build_losses(struct culm_onnx_build *build);
/* Builds one of ONNX's own operators. */
enum culm_status culm_onnx_build_node(struct culm_onnx_build *build,
                                      const struct culm_onnx_node *node);
/* Sets the block of every node, with borders where few values cross. */
enum culm_status culm_onnx_blocks(struct culm_graph *graph, struct culm_error *error);

/* build_values.c. The first error of the graph, attributed to a node. */
enum culm_status culm_onnx_graph_error(struct culm_onnx_build *build,
                                       const struct culm_onnx_node *node);
/* What input i of a node has become; NULL: nothing. */
struct culm_onnx_made *culm_onnx_made_of(struct culm_onnx_build *build,
                                         const struct culm_onnx_node *node, int32_t i);
enum culm_status culm_onnx_unsupported(struct culm_onnx_build *build,
                                       const struct culm_onnx_node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Input i of a node in one of the two forms; -1 after an error. An image must have four
 * dimensions. */
int32_t culm_onnx_plain(struct culm_onnx_build *build, const struct culm_onnx_node *node,
                        int32_t i);
int32_t culm_onnx_image(struct culm_onnx_build *build, const struct culm_onnx_node *node,
                        int32_t i);
/* In the form that is present, images first; *ret_image says which. */
int32_t culm_onnx_either(struct culm_onnx_build *build, const struct culm_onnx_node *node,
                         int32_t i, bool *ret_image);
/* Input i as a parameter of the given shape, which must have as many elements. `statistic`: a
 * running mean or variance. */
int32_t culm_onnx_weight(struct culm_onnx_build *build, const struct culm_onnx_node *node,
                         int32_t i, const struct culm_shape *shape, bool statistic);
/* Applies one of our operators and keeps the result as output 0 of the node. */
enum culm_status culm_onnx_put(struct culm_onnx_build *build, const struct culm_onnx_node *node,
                               bool image, const char *op, const int32_t *inputs, int32_t count,
                               const struct culm_attributes *attributes);
/* Zeros for a parameter that the file lacks, named after input i; not trained. */
int32_t culm_onnx_zeros(struct culm_onnx_build *build, const struct culm_onnx_node *node, int32_t i,
                        const struct culm_shape *shape);
/* Whether input i is a constant rather than a weight: part of the graph, not trained. */
bool culm_onnx_is_fixed(const struct culm_onnx_build *build, const struct culm_onnx_node *node,
                        int32_t i);
/* Keeps an existing value as output 0 of the node. */
enum culm_status culm_onnx_keep(struct culm_onnx_build *build, const struct culm_onnx_node *node,
                                bool image, int32_t value);
/* The shape that a value of the file has in our graph. False: it has none of at most four
 * dimensions. */
bool culm_onnx_shape_here(const struct culm_onnx_build *build, int32_t value,
                          struct culm_shape *ret_shape);
int32_t culm_onnx_reshape_to(struct culm_onnx_build *build, int32_t value,
                             const struct culm_shape *shape);
int32_t culm_onnx_permute(struct culm_onnx_build *build, int32_t value, int64_t a, int64_t b,
                          int64_t c, int64_t d);
const struct culm_onnx_value *culm_onnx_value_of(const struct culm_onnx_build *build,
                                                 const struct culm_onnx_node *node, int32_t i);
/* Where axis `axis` of [N,C,H,W] is in [N,H,W,C]. */
int64_t culm_onnx_image_axis(int64_t axis);

#endif
