/*
 * Passes over an ONNX graph with known shapes: simplify.c takes away what does nothing, the others
 * put one of our operators (domain "culm", named as in graph/ops.h) where exporters spell it out.
 *
 * A pass looks from a node to what its inputs are made of, and either turns the node into another
 * one that gives the same value, or makes its value a second name of another. What nobody uses any
 * more dies by itself. Nodes may be inserted; they take effect in order after culm_onnx_sort.
 *
 * Inside, images still have the order [N,C,H,W]: build.c turns them.
 *
 *     culm.lookup      ids, table             culm.reshape   x (to the shape of its output)
 *     culm.positions   x, table               culm.slice     x
 *     culm.row         x, table (its row 0)   culm.gather_rows x, ids?
 *     culm.linear      x, w, b?               culm.dropout   x
 *     culm.layernorm   x, gamma, beta?        culm.residual  x, h
 *     culm.attention   q, k?, v?, mask?       culm.activation x
 *     culm.batchnorm   x, gamma, beta, mean, var, residual?
 *     culm.drop_sample x (whole samples are dropped)
 *     culm.shuffle     x (its dimension `axis`, [groups, each], becomes [each, groups])
 *     culm.token       table (its row 0 for every sample), x (for the number of samples)
 *
 * Thread: one.
 */
#ifndef CULM_ONNX_PASS_H
#define CULM_ONNX_PASS_H

#include "onnx/graph.h"

#define CULM_ONNX_NOTES_MAX 16
#define CULM_ONNX_NOTE_MAX 256

/* What the user ought to know about his file. */
struct culm_onnx_notes {
    char text[CULM_ONNX_NOTES_MAX][CULM_ONNX_NOTE_MAX];
    int32_t count;
};
void culm_onnx_note(struct culm_onnx_notes *notes, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* All of them, in an order that works. `inference`: without dropout, batch norm by its running
 * statistics. */
enum culm_status culm_onnx_passes(struct culm_onnx_graph *graph, bool inference,
                                  struct culm_onnx_notes *notes, struct culm_error *error);

/* One each; false: out of memory. */
bool culm_onnx_simplify(struct culm_onnx_graph *graph, bool inference);
bool culm_onnx_fuse_linear(struct culm_onnx_graph *graph, struct culm_onnx_notes *notes);
bool culm_onnx_fuse_pointwise(struct culm_onnx_graph *graph, bool inference);
bool culm_onnx_fuse_activations(struct culm_onnx_graph *graph); /* last: relu and the like */
bool culm_onnx_fuse_norm(struct culm_onnx_graph *graph, bool inference);
bool culm_onnx_fuse_attention(struct culm_onnx_graph *graph);
bool culm_onnx_fuse_embedding(struct culm_onnx_graph *graph);
bool culm_onnx_fuse_shuffles(struct culm_onnx_graph *graph);
void culm_onnx_shorten_joins(struct culm_onnx_graph *graph);

/* An operator of ONNX; one of ours. A NULL node is none. */
bool culm_onnx_is(const struct culm_onnx_node *node, const char *op);
bool culm_onnx_is_ours(const struct culm_onnx_node *node, const char *op);
int32_t culm_onnx_index(const struct culm_onnx_graph *graph, const struct culm_onnx_node *node);
/* A known single number. */
bool culm_onnx_scalar(const struct culm_onnx_graph *graph, int32_t value, double *ret_number);
bool culm_onnx_scalar_is(const struct culm_onnx_graph *graph, int32_t value, double number);
/* Floats with a dimension that lie in the file: what a parameter can be. */
bool culm_onnx_is_weight(const struct culm_onnx_graph *graph, int32_t value);
bool culm_onnx_same_shape(const struct culm_onnx_graph *graph, int32_t a, int32_t b);
/* Whether all inputs of a node have known shapes. */
bool culm_onnx_shaped(const struct culm_onnx_graph *graph, const struct culm_onnx_node *node);
/* perm of a Transpose; false: not one, or of more than 8 dimensions. */
bool culm_onnx_order(const struct culm_onnx_graph *graph, const struct culm_onnx_node *node,
                     int ret_perm[CULM_ONNX_RANK_MAX]);

/* `value` is another name of `by` from here on. */
void culm_onnx_alias(struct culm_onnx_graph *graph, int32_t value, int32_t by);
/* Turns node `index` into one of ours with these inputs (-1: absent), its attributes zero. */
bool culm_onnx_become(struct culm_onnx_graph *graph, int32_t index, const char *op,
                      const int32_t *inputs, int32_t count);
bool culm_onnx_become_transpose(struct culm_onnx_graph *graph, int32_t index, int32_t input,
                                int rank, const int *perm);
/* A new node of ours just before node `before`, whose value has this shape; -1: out of memory. The
 * value's node can be changed until the next insertion. */
int32_t culm_onnx_insert(struct culm_onnx_graph *graph, int32_t before, const char *op,
                         const int32_t *inputs, int32_t count,
                         const struct culm_attributes *attributes, int rank, const int64_t *dim);
/* Puts inserted nodes into their places, and counts uses anew. */
bool culm_onnx_sort(struct culm_onnx_graph *graph);

/* What a pass makes of nodes with this operator, by one of two functions; false: out of memory. */
struct culm_onnx_rule {
    const char *op; /* of ONNX, or ours with "culm." before it; NULL: past the last rule */
    bool (*apply)(struct culm_onnx_graph *graph, int32_t index);
    bool (*apply_with)(struct culm_onnx_graph *graph, int32_t index, void *context);
};
/* Applies the first rule that fits to every living node whose inputs and output have known shapes, then
 * sorts. Nodes that are inserted meanwhile are not looked at. False: out of memory. */
bool culm_onnx_for_each(struct culm_onnx_graph *graph, const struct culm_onnx_rule *rules,
                        void *context);

#endif
