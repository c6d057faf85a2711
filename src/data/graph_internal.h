/* What the files of graph_data.h share. */
#ifndef CULM_DATA_GRAPH_INTERNAL_H
#define CULM_DATA_GRAPH_INTERNAL_H

#include "data/graph_data.h"

/* Reads the arrays of `parts` of a graph whose counts are those of graph.json; see graph_arrays.c. */
enum culm_status culm_graph_arrays_read(struct culm_graph_data *graph, const char *folder,
                                        unsigned parts, struct culm_pins *pins,
                                        struct culm_error *error);

#endif
