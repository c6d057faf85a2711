/* What others may ask about a node of the operator `conv`. Thread: any. */
#ifndef CULM_GRAPH_OPS_CONV_H
#define CULM_GRAPH_OPS_CONV_H

#include "graph/graph.h"
#include "tensor/conv.h"

struct culm_conv culm_conv_of(const struct culm_graph *graph, const struct culm_node_desc *node);
/* Of any node: the floating-point operations that it really does, which are those of its
 * operator's `flops` but for convolutions by Winograd's algorithm. */
double culm_node_flops_done(const struct culm_graph *graph, const struct culm_node_desc *node);

#endif
