/*
 * Passes over an ONNX graph with known shapes. simplify.c removes what does nothing; the others put
 * one of our operators (domain "culm", named as in graph/ops.h) in the place of what exporters
 * spell out.
 *
 * A pass looks from a node to how its inputs are produced, and either turns the node into another
 * one with the same value, or makes its value an alias of another. Nodes that are no longer used
 * die by themselves. New nodes may be inserted; culm_onnx_sort moves them into place.
 *
 * Images still have the order [N,C,H,W] here; build.c transposes them.
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
 * Private to src/onnx. Thread: one.
 */
#ifndef CULM_ONNX_PASS_H
#define CULM_ONNX_PASS_H

#include "onnx/rewrite.h"

/* Runs all passes, in the right order. `inference`: drops dropout, and batch norm uses its running
 * statistics. */
enum culm_status culm_onnx_passes(struct culm_onnx_graph *graph, bool inference,
                                  struct culm_onnx_notes *notes, struct culm_error *error);

/* Single passes; false: out of memory. */
bool culm_onnx_simplify(struct culm_onnx_graph *graph, bool inference);
bool culm_onnx_fuse_linear(struct culm_onnx_graph *graph, struct culm_onnx_notes *notes);
bool culm_onnx_fuse_pointwise(struct culm_onnx_graph *graph, bool inference);
bool culm_onnx_fuse_activations(struct culm_onnx_graph *graph); /* last: relu and the like */
bool culm_onnx_fuse_norm(struct culm_onnx_graph *graph, bool inference);
bool culm_onnx_fuse_attention(struct culm_onnx_graph *graph);
bool culm_onnx_fuse_embedding(struct culm_onnx_graph *graph);
bool culm_onnx_fuse_shuffles(struct culm_onnx_graph *graph);
void culm_onnx_shorten_joins(struct culm_onnx_graph *graph);

#endif
