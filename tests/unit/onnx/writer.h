/* Small ONNX files in memory, for tests: inputs, weights, constants, nodes, outputs. */
#ifndef CULM_TESTS_ONNX_WRITER_H
#define CULM_TESTS_ONNX_WRITER_H

#include "graph/ops.h"
#include "onnx/onnx.h"
#include "onnx/wire.h"

struct writer {
    struct culm_buf graph, file;
    int nodes;
};

void writer_start(struct writer *w);
void writer_release(struct writer *w);
/* dims: -1 is free. type: 1 float, 7 int64, 9 bool. */
void writer_input(struct writer *w, const char *name, int type, int rank, const int64_t *dims);
void writer_output(struct writer *w, const char *name);
/* Numbers by a formula, small ones. */
void writer_weight(struct writer *w, const char *name, int rank, const int64_t *dims);
void writer_float(struct writer *w, const char *name, float number); /* a Constant */
void writer_ints(struct writer *w, const char *name, int count, const int64_t *numbers);
/* inputs and outputs: names with spaces between; "-" is absent. attributes: "name=3 name=1,2
 * name=0.5 name=text"; a number with a point is a float. */
void writer_node(struct writer *w, const char *op, const char *inputs, const char *outputs,
                 const char *attributes);
/* The whole file; borrowed until release. */
const void *writer_finish(struct writer *w, int opset, size_t *ret_len);

/* Finishes, imports, fails the test when it is refused. */
struct culm_graph *writer_import(struct writer *w, int opset,
                                 const struct culm_onnx_options *options,
                                 struct culm_onnx_model **ret_model);
/* Finishes and imports; the message that it is refused with. */
const char *writer_refused(struct writer *w, int opset, const struct culm_onnx_options *options);
/* "lookup positions linear ..": the operators of a graph. */
const char *ops_of(const struct culm_graph *graph);

#endif
