/*
 * The layers of a network as a compute graph on vertices, with a border between blocks where rows are
 * gathered. For model.c alone, which says what is computed. Thread: as the graph.
 */
#ifndef CULM_GNN_NETWORK_H
#define CULM_GNN_NETWORK_H

#include "gnn/model.h"

/* Adds everything to an empty graph. ret_border[stages], the last of them behind the logits. */
enum culm_status culm_gnn_network_build(const struct culm_gnn_config *config,
                                        const struct culm_gnn_plan *plan, bool training,
                                        struct culm_graph *graph,
                                        struct culm_gnn_border *ret_border,
                                        struct culm_error *error);
/* Is it a matrix that the first layer's features are multiplied by? */
bool culm_gnn_network_reads_features(const char *name);

#endif
