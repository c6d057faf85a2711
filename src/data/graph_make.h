/*
 * Data graphs that are made: to try things at any size, and to have one that needs nothing but
 * images. The same arguments give the same graph on every machine. No splits yet. Thread: any.
 */
#ifndef CULM_DATA_GRAPH_MAKE_H
#define CULM_DATA_GRAPH_MAKE_H

#include "data/graph_data.h"

struct culm_graph_make_options {
    int64_t vertices, edges; /* after loops and repetitions are gone */
    int64_t columns;         /* of dense features; 0: none */
    int64_t classes;         /* 0: no labels */
    uint64_t seed;
};

/* R-MAT (Chakrabarti, Zhan and Faloutsos, 2004) with the Graph500's weights .57 .19 .19 .05: few
 * vertices have most edges. Ids are strewn. Labels are drawn, whatever the edges. */
enum culm_status culm_graph_make_rmat(const struct culm_graph_make_options *options,
                                      const char *name, struct culm_graph_data **ret_graph,
                                      struct culm_error *error);
/* Blocks (Karrer and Newman's degree-corrected model, 2011): four of five edges stay in a class, and
 * degrees are uneven. One label in twenty is drawn anew, so that nobody can know them all. */
enum culm_status culm_graph_make_sbm(const struct culm_graph_make_options *options,
                                     const char *name, struct culm_graph_data **ret_graph,
                                     struct culm_error *error);

/* The nearest neighbours of images by the distance of their pixels: an edge between two of which one
 * is among the `nearest` of the other; of equally near ones the first count. Features are pixels
 * from 0 to 1. `labels` may be NULL. The first `vertices` images; 0: all. On all processors. */
enum culm_status culm_graph_make_knn(const char *images, const char *labels, int64_t vertices,
                                     int64_t nearest, const char *name,
                                     struct culm_graph_data **ret_graph, struct culm_error *error);

#endif
