/*
 * Builds the layers of a network as a compute graph on vertices, with a border between blocks
 * wherever rows are gathered. Used by model.c only; model.h has the formulas. Thread: any, one at a
 * time per graph.
 */
#ifndef CULM_GNN_NETWORK_H
#define CULM_GNN_NETWORK_H

#include "gnn/model.h"

/* Builds the whole network in `graph`, which must be empty. ret_border[CULM_GNN_STAGES_MAX]
 * receives the border after each stage; the last is that of the logits. */
enum culm_status culm_gnn_network_build(const struct culm_gnn_config *config,
                                        const struct culm_gnn_plan *plan, bool training,
                                        struct culm_graph *graph,
                                        struct culm_gnn_border *ret_border,
                                        struct culm_error *error);
/* Whether `name` is a weight matrix that the features of the graph are multiplied by. */
bool culm_gnn_network_reads_features(const char *name);

#endif
