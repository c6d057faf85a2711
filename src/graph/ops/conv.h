/* What others may ask about nodes of the operators `conv` and `conv_infer`. Thread: any. */
#ifndef CULM_GRAPH_OPS_CONV_H
#define CULM_GRAPH_OPS_CONV_H

#include "graph/graph.h"
#include "graph/ops.h"
#include "tensor/conv.h"

struct culm_conv culm_conv_of(const struct culm_graph *graph, const struct culm_node_desc *node);
/* Of any node: the floating-point operations that it really does, which are those of its
 * operator's `flops` but for convolutions by Winograd's algorithm. */
double culm_node_flops_done(const struct culm_graph *graph, const struct culm_node_desc *node);

/* --- conv_infer --- */

#define CULM_CONV_CHAIN_MAX 12
/* Whether both are conv_infer and `node` reads, as its image, what `before` makes, so that the two may be
 * done together if nobody else reads that, and what they are allows it (device/infer.h). */
bool culm_conv_infer_follows(const struct culm_node_desc *node,
                             const struct culm_node_desc *before);
/* Whether what this conv_infer makes can have a gate (device/infer.h). */
bool culm_conv_infer_gate_possible(const struct culm_graph *graph,
                                   const struct culm_node_desc *node);
/* Whether it is conv_infer with so many weights that it pays to fetch them (input 1) before. */
bool culm_conv_infer_reads_much(const struct culm_node_desc *node);
/* So many nodes in one, at most CULM_CONV_CHAIN_MAX, of which each follows the one before it. */
void culm_conv_infer_chain(const struct culm_operands *operands, int32_t count);

#endif
