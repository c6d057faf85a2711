/*
 * ONNX files as models: import and export.
 *
 * Import reads the file, gives every value its shape, folds what is constant, puts our operators in
 * the place of what exporters spell out, and builds a graph that trains: with fields of the samples
 * as inputs, the file's weights as parameters under their own names, a loss, and the places where
 * it may be cut. Images are [N,H,W,C] inside.
 *
 *     input of the file                       field of the samples
 *     float [B,C,H,W]                         image    f32 [B,H,W,C]
 *     ids of the first table                  tokens   i32 [B,T]
 *     ids of a second table                   types    i32 [B,T]
 *     hides keys of attention                 mask     i32 [B,T]
 *     other                                   its own name
 *
 *     output of the file                      loss: cross-entropy with the field
 *     [B,classes]                             label    i32 [B,1]; nsp beside masked words
 *     [B,T,V], attention is causal or none    targets  i32 [B,T]
 *     [B,T,V], attention sees both sides      mlm_targets i32 [B,K] of the rows positions i32 [B,K]
 *
 * Of free dimensions the first is `batch`; a file of fixed size is built for `batch` all the same.
 * Batch norm and dropout work as in training unless `inference` is set.
 *
 * Errors are one line: `onnx 'PATH': ...`. Thread: a model is constant after import; any number of
 * threads may read weights.
 */
#ifndef CULM_ONNX_ONNX_H
#define CULM_ONNX_ONNX_H

#include "base/pins.h"
#include "graph/graph.h"

struct culm_onnx_options {
    int64_t batch;                  /* samples in a micro-batch */
    int64_t context, height, width; /* for free dimensions; 0: an error if one is needed */
    int64_t masked;                 /* rows of masked words a sample; 0: 15 % of the context */
    double label_smoothing;
    bool inference;         /* no loss: the logits are the graph's output */
    bool evaluate;          /* a loss, but no dropout, and batch norm by its running statistics */
    bool every_row;         /* of masked words: all rows, targets i32 [B,T], without positions */
    struct culm_pins *pins; /* what the file and its side files must hold; NULL: whatever they do */
    uint64_t memory_bytes_max; /* for folding; 0: 4 GiB at a time, 256 GiB in all */
};

struct culm_onnx_model;
struct culm_onnx_graph; /* a file in memory: onnx/graph.h */

/* Both results are the caller's: culm_onnx_model_free, culm_graph_free. */
enum culm_status culm_onnx_import(const char *path, const struct culm_onnx_options *options,
                                  struct culm_onnx_model **ret_model, struct culm_graph **ret_graph,
                                  struct culm_error *error);
/* From memory, borrowed until the model is freed. */
enum culm_status culm_onnx_import_bytes(const void *data, size_t len, const char *name,
                                        const struct culm_onnx_options *options,
                                        struct culm_onnx_model **ret_model,
                                        struct culm_graph **ret_graph, struct culm_error *error);
/* From a file that is open already, and stays as it is: any number of imports may start from it.
 * It is closed after the model. The options' pins do not count. */
enum culm_status culm_onnx_import_graph(const struct culm_onnx_graph *file,
                                        const struct culm_onnx_options *options,
                                        struct culm_onnx_model **ret_model,
                                        struct culm_graph **ret_graph, struct culm_error *error);
void culm_onnx_model_free(struct culm_onnx_model *model); /* NULL is fine */

/* The file's numbers for a parameter of the graph, as floats. CULM_ERR_NOT_FOUND: no such one;
 * CULM_ERR_ARGUMENT: of another size. */
enum culm_status culm_onnx_weights_read(const struct culm_onnx_model *model, const char *name,
                                        int rank, const int64_t *shape, float *ret_data,
                                        struct culm_error *error);

/* What the user ought to know about the file, such as weights that its exporter merged. NULL: past
 * the last. */
const char *culm_onnx_model_note(const struct culm_onnx_model *model, int32_t index);
const char *culm_onnx_model_producer(const struct culm_onnx_model *model); /* "pytorch", "" */
int64_t culm_onnx_model_opset(const struct culm_onnx_model *model);

/* The numbers of a parameter; CULM_OK when ret_data[elements] is filled. */
typedef enum culm_status culm_onnx_source(void *arg, const struct culm_param *param,
                                          float *ret_data, struct culm_error *error);

/* Writes a graph with its parameters. Losses are left out, what they are taken of are the outputs:
 * logits, logits_2, .. With the graph of a training run dropout and batch norm are in training
 * mode; build the graph with `inference` or `evaluate` for a file to run elsewhere. Images are
 * [N,C,H,W] in the file. CULM_ERR_UNSUPPORTED for an operator that export does not know. */
enum culm_status culm_onnx_export(const struct culm_graph *graph, culm_onnx_source *source,
                                  void *arg, const char *path, struct culm_error *error);

#endif
