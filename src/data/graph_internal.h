/* Shared by graph_data.c, graph_arrays.c and graph_write.c only. */
#ifndef CULM_DATA_GRAPH_INTERNAL_H
#define CULM_DATA_GRAPH_INTERNAL_H

#include "data/graph_data.h"

#define CULM_GRAPH_HEAD_MAX ((size_t)16 << 20) /* bytes of graph.json */

/* Reads the arrays of `parts`. The counts of the graph must have been set from graph.json. */
enum culm_status graph_arrays_read(struct culm_graph_data *graph, const char *folder,
                                   unsigned parts, struct culm_pins *pins,
                                   struct culm_error *error);

#endif
