/*
 * Who gathers from whom: the in-neighbours of each vertex, rising.
 *
 * Everything is made by counting sorts in O(vertices + edges). Thread: any; constant once made.
 */
#ifndef CULM_DATA_ADJACENCY_H
#define CULM_DATA_ADJACENCY_H

#include "data/graph_data.h"

struct culm_adjacency {
    int64_t vertices; /* V */
    uint64_t *start;  /* [V+1]: the in-neighbours of v are column[start[v]] .. */
    uint32_t *column; /* [start[V]], rising in a row, without repetition */
};

void culm_adjacency_release(struct culm_adjacency *adjacency); /* fine on a zeroed struct */

/* Of a graph whose edges were read. Undirected: both directions of each edge. `loops`: each vertex
 * is its own neighbour too, at its place. CULM_ERR_MEMORY. */
enum culm_status culm_adjacency_of(const struct culm_graph_data *graph, bool loops,
                                   struct culm_adjacency *ret_adjacency, struct culm_error *error);

/* Reversed: the row of u holds those v in whose rows u stands. Of an undirected graph that is the
 * same again. `new_of_old`, a permutation: with other ids, by which rows rise; NULL: with the same. */
enum culm_status culm_adjacency_transpose(const struct culm_adjacency *adjacency,
                                          const uint32_t *new_of_old,
                                          struct culm_adjacency *ret_transposed,
                                          struct culm_error *error);

#endif
