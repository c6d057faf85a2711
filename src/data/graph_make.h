/*
 * Generates data graphs: random ones of any size, and nearest neighbours of images. The same
 * arguments give the same graph on every machine. The graphs have no splits yet. Thread: any.
 */
#ifndef CULM_DATA_GRAPH_MAKE_H
#define CULM_DATA_GRAPH_MAKE_H

#include "data/graph_data.h"

struct culm_graph_make_options {
    int64_t vertices, edges; /* without loops and duplicates, which are drawn again */
    int64_t columns;         /* of dense features; 0: no features */
    int64_t classes;         /* 0: no labels */
    uint64_t seed;
};

/* R-MAT (Chakrabarti, Zhan and Faloutsos, 2004) with the weights of Graph500, .57 .19 .19 .05: a
 * few vertices have most of the edges. Ids are permuted. Labels are drawn independently of edges.
 */
enum culm_status culm_graph_make_rmat(const struct culm_graph_make_options *options,
                                      const char *name, struct culm_graph_data **ret_graph,
                                      struct culm_error *error);
/* A degree-corrected stochastic block model (Karrer and Newman, 2011): four of five edges stay
 * within a class, and degrees are uneven. One label in twenty is drawn again, so that no model can
 * get all of them right. */
enum culm_status culm_graph_make_sbm(const struct culm_graph_make_options *options,
                                     const char *name, struct culm_graph_data **ret_graph,
                                     struct culm_error *error);

/* Joins images that are close in the distance of their pixels: there is an edge between two images
 * if one is among the `nearest` of the other; ties go to the earlier image. Features are pixels
 * scaled to 0 .. 1. `labels` may be NULL. Takes the first `vertices` images; 0: all. Uses all
 * processors. */
enum culm_status culm_graph_make_knn(const char *images, const char *labels, int64_t vertices,
                                     int64_t nearest, const char *name,
                                     struct culm_graph_data **ret_graph, struct culm_error *error);

#endif
