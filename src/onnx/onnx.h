/*
 * ONNX files as models: import and export.
 *
 * Import reads the file, gives every value its shape, folds what is constant, recognizes our
 * operators in what exporters spell out, and builds a graph that trains: inputs become fields of
 * the samples, weights become parameters under their own names, a loss is added, and block borders
 * are set. Images are [N,H,W,C] inside.
 *
 *     input of the file                       field of the samples
 *     float [B,C,H,W], or [B,H,W,C] that is   image    f32 [B,H,W,C]
 *         turned into that
 *     ids of the first table                  tokens   i32 [B,T]
 *     ids of a second table                   types    i32 [B,T]
 *     hides keys of attention                 mask     i32 [B,T]; none if attention is causal
 *     any other                               its own name
 *
 *     output of the file                      loss: cross-entropy with the field
 *     [B,classes]                             label    i32 [B,1]; nsp beside masked words
 *     [B,T,V], attention is causal or none    targets  i32 [B,T]
 *     [B,T,V], attention sees both sides      mlm_targets i32 [B,K] of the rows positions i32 [B,K]
 *
 * A softmax, log-softmax or sigmoid that the file ends in is no part of the graph: the loss, and with
 * `inference` the output, are of what enters it (struct culm_output, end).
 *
 * The first of the free dimensions is `batch`; a file of fixed size is built for `batch`, too.
 * Batch norm and dropout work as in training unless `inference` or `evaluate` is set.
 *
 * Errors are one line: `onnx 'PATH': ...`. Thread: a model is constant after import; any number of
 * threads may read its weights.
 */
#ifndef CULM_ONNX_ONNX_H
#define CULM_ONNX_ONNX_H

#include "base/buf.h"
#include "base/file.h"
#include "base/pins.h"
#include "graph/graph.h"

struct culm_onnx_options {
    int64_t batch;                  /* samples in a micro-batch */
    int64_t context, height, width; /* for free dimensions; 0: not given, an error if needed */
    int64_t masked;                 /* rows of masked words a sample; 0: 15 % of the context */
    double label_smoothing;
    bool inference;  /* no loss; the logits are the output of the graph */
    bool evaluate;   /* a loss, but no dropout; batch norm by its running statistics */
    bool keep_masks; /* a causal language model's mask is an input, not all ones */
    bool
        tables; /* with `inference`: every output as it is, whatever it is; of a detector that chooses
                  * the best boxes itself, what it chooses from (cut_choice.c) */
    int32_t classes;           /* with `tables`: how many classes the file knows; 0: not known */
    bool every_row;            /* masked words: all rows, with targets i32 [B,T] and no positions */
    struct culm_pins *pins;    /* what the file and its side files must hold; NULL: anything */
    uint64_t memory_bytes_max; /* limit for folding; 0: 4 GiB at a time, 256 GiB in all */
};

struct culm_onnx_model;
struct culm_onnx_graph; /* a file in memory: onnx/graph.h */

/* The caller frees both results: culm_onnx_model_free, culm_graph_free. */
enum culm_status culm_onnx_import(const char *path, const struct culm_onnx_options *options,
                                  struct culm_onnx_model **ret_model, struct culm_graph **ret_graph,
                                  struct culm_error *error);
/* The same from memory, which is borrowed until the model is freed. */
enum culm_status culm_onnx_import_bytes(const void *data, size_t len, const char *name,
                                        const struct culm_onnx_options *options,
                                        struct culm_onnx_model **ret_model,
                                        struct culm_graph **ret_graph, struct culm_error *error);
/* The same from an open file, which is not changed, so that any number of imports can start from
 * it. Close it after freeing the models. The options' pins are ignored. */
enum culm_status culm_onnx_import_graph(const struct culm_onnx_graph *file,
                                        const struct culm_onnx_options *options,
                                        struct culm_onnx_model **ret_model,
                                        struct culm_graph **ret_graph, struct culm_error *error);
void culm_onnx_model_free(struct culm_onnx_model *model); /* NULL is fine */

/* Reads a parameter of the graph, converted to floats. CULM_ERR_NOT_FOUND: there is none of this
 * name; CULM_ERR_ARGUMENT: it has another size; CULM_ERR_CONFIG: a number is not finite. */
enum culm_status culm_onnx_weights_read(const struct culm_onnx_model *model, const char *name,
                                        int rank, const int64_t *shape, float *ret_data,
                                        struct culm_error *error);

/* Notes for the user about the file, such as merged weights. NULL: past the last one. */
const char *culm_onnx_model_note(const struct culm_onnx_model *model, int32_t index);
const char *culm_onnx_model_producer(const struct culm_onnx_model *model); /* "pytorch", "" */
int64_t culm_onnx_model_opset(const struct culm_onnx_model *model);

/* Supplies a parameter: fills ret_data[elements]. */
typedef enum culm_status culm_onnx_source(void *arg, const struct culm_param *param,
                                          float *ret_data, struct culm_error *error);

/* Writes a graph with its parameters. Losses are left out; their logits become the outputs logits,
 * logits_2, ..., and those that a model ends otherwise with probabilities or log_probabilities. The
 * graph of a training run has dropout and batch norm in training mode; for a file to run elsewhere,
 * build it with `inference` or `evaluate`. Images are [N,C,H,W] in the file. CULM_ERR_UNSUPPORTED:
 * an operator that cannot be exported. Names of classes stand in the metadata, under "names"; NULL or
 * none: without. */
enum culm_status culm_onnx_export(const struct culm_graph *graph, culm_onnx_source *source,
                                  void *arg, const struct culm_names *names, const char *path,
                                  struct culm_error *error);

/* Names of classes as a text, as they stand in the metadata, and back; the caller releases them.
 * False: it is no such text, or out of memory. */
void culm_onnx_class_names_text(const struct culm_names *names, struct culm_buf *out);
bool culm_onnx_class_names_read(const char *text, struct culm_names *ret_names);
/* The size of its input that the metadata of a file say, as Ultralytics writes it; false: none. */
bool culm_onnx_graph_image_size(const struct culm_onnx_graph *file, int32_t *ret_width,
                                int32_t *ret_height);
/* Those of a file; false: it has none that can be read. */
bool culm_onnx_graph_class_names(const struct culm_onnx_graph *file, struct culm_names *ret_names);

#endif
