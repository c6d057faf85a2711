/* What a data graph has, as culm/gnn.h tells it. Thread: any. */
#ifndef CULM_RUN_GNN_GRAPH_H
#define CULM_RUN_GNN_GRAPH_H

#include "data/graph_data.h"

#include <culm/gnn.h>

/* All but the size. The edges and splits of the graph are in memory. */
enum culm_status culm_gnn_graph_about(const struct culm_graph_data *graph, int64_t split,
                                      struct culm_gnn_graph_info *ret_info,
                                      struct culm_error *error);

#endif
