/*
 * The in-neighbours of each vertex, that is, the vertices that it gathers from, in ascending order.
 *
 * Made by counting sorts in O(vertices + edges). Thread: any; constant once made.
 */
#ifndef CULM_DATA_ADJACENCY_H
#define CULM_DATA_ADJACENCY_H

#include "data/graph_data.h"

struct culm_adjacency {
    int64_t vertices; /* V */
    uint64_t *start;  /* [V+1]: row v is column[start[v]] .. column[start[v+1]-1] */
    uint32_t *column; /* [start[V]], ascending within a row, without duplicates */
};

void culm_adjacency_release(struct culm_adjacency *adjacency); /* fine on a zeroed struct */

/* The in-neighbours in a graph whose edges have been read. Undirected: each edge counts in both
 * directions. `loops`: each vertex is also its own neighbour, in order. CULM_ERR_MEMORY. */
enum culm_status culm_adjacency_of(const struct culm_graph_data *graph, bool loops,
                                   struct culm_adjacency *ret_adjacency, struct culm_error *error);

/* The transpose: row u has all v whose rows contain u. For an undirected graph that is the same
 * again. new_of_old[V]: a permutation by which vertices are renumbered at the same time; NULL: they
 * keep their ids. */
enum culm_status culm_adjacency_transpose(const struct culm_adjacency *adjacency,
                                          const uint32_t *new_of_old,
                                          struct culm_adjacency *ret_transposed,
                                          struct culm_error *error);

#endif
