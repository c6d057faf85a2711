/*
 * What passes look at nodes with, and change them by. See pass.h.
 *
 * Private to src/onnx. Thread: one.
 */
#ifndef CULM_ONNX_REWRITE_H
#define CULM_ONNX_REWRITE_H

#include "onnx/graph.h"

#define CULM_ONNX_NOTES_MAX 16
#define CULM_ONNX_NOTE_MAX 256

/* What users should know about their file. */
struct culm_onnx_notes {
    char text[CULM_ONNX_NOTES_MAX][CULM_ONNX_NOTE_MAX];
    int32_t count;
};
void culm_onnx_note(struct culm_onnx_notes *notes, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Whether a node is this operator of ONNX, or of ours. NULL is neither. */
bool culm_onnx_is(const struct culm_onnx_node *node, const char *op);
bool culm_onnx_is_ours(const struct culm_onnx_node *node, const char *op);
int32_t culm_onnx_index(const struct culm_onnx_graph *graph, const struct culm_onnx_node *node);
/* Whether a value is a single known number. */
bool culm_onnx_scalar(const struct culm_onnx_graph *graph, int32_t value, double *ret_number);
bool culm_onnx_scalar_is(const struct culm_onnx_graph *graph, int32_t value, double number);
/* Whether a value can be a parameter: floats with a dimension, stored in the file. */
bool culm_onnx_is_weight(const struct culm_onnx_graph *graph, int32_t value);
bool culm_onnx_same_shape(const struct culm_onnx_graph *graph, int32_t a, int32_t b);
/* Whether all inputs of a node have known shapes. */
bool culm_onnx_shaped(const struct culm_onnx_graph *graph, const struct culm_onnx_node *node);
/* The perm of a Transpose. False: not a Transpose, or more than 8 dimensions. */
bool culm_onnx_order(const struct culm_onnx_graph *graph, const struct culm_onnx_node *node,
                     int ret_perm[CULM_ONNX_RANK_MAX]);

/* Makes `value` an alias of `by`. */
void culm_onnx_alias(struct culm_onnx_graph *graph, int32_t value, int32_t by);
/* Turns node `index` into one of our operators with these inputs (-1: absent) and zero
 * attributes. */
bool culm_onnx_become(struct culm_onnx_graph *graph, int32_t index, const char *op,
                      const int32_t *inputs, int32_t count);
bool culm_onnx_become_transpose(struct culm_onnx_graph *graph, int32_t index, int32_t input,
                                int rank, const int *perm);
/* Inserts a node of ours, whose value has this shape, in front of node `before`; returns the value,
 * or -1 if out of memory. The node can be changed until the next insertion. */
int32_t culm_onnx_insert(struct culm_onnx_graph *graph, int32_t before, const char *op,
                         const int32_t *inputs, int32_t count,
                         const struct culm_attributes *attributes, int rank, const int64_t *dim);
/* Moves inserted nodes into place and recounts uses. */
bool culm_onnx_sort(struct culm_onnx_graph *graph);

/* A rule: what a pass does with nodes of an operator, by one of two functions; false: out of
 * memory. */
struct culm_onnx_rule {
    const char *op; /* ONNX's, or ours with "culm." in front; NULL: end of rules */
    bool (*apply)(struct culm_onnx_graph *graph, int32_t index);
    bool (*apply_with)(struct culm_onnx_graph *graph, int32_t index, void *context);
};
/* Applies the first rule that fits to every living node whose inputs and output have known shapes,
 * then sorts. Nodes inserted meanwhile are not visited. False: out of memory. */
bool culm_onnx_for_each(struct culm_onnx_graph *graph, const struct culm_onnx_rule *rules,
                        void *context);

#endif
