/*
 * Writing a data graph, and what is needed to make one from what others publish: simple edges, and
 * splits. Thread: any; one writer per path.
 */
#ifndef CULM_DATA_GRAPH_WRITE_H
#define CULM_DATA_GRAPH_WRITE_H

#include "data/graph_data.h"

#include "base/file.h"

/* Writes the folder `path`, which must not be there (CULM_ERR_EXISTS), whole or not at all: a folder
 * beside it, `path.tmp-PID`, gets its name when everything in it is synced. A process that is killed
 * leaves that folder. The graph holds all of its parts. `fs` NULL: POSIX. */
enum culm_status culm_graph_data_write(struct culm_fs *fs, const struct culm_graph_data *graph,
                                       const char *path, struct culm_error *error);
/* CULM_ERR_EXISTS when something is there: to be asked before long work. */
enum culm_status culm_graph_data_can_write(const char *path, struct culm_error *error);

/* Last part of the path: the name of the graph that is written there. CULM_ERR_ARGUMENT: none. */
enum culm_status culm_graph_name_of(const char *path, char ret_name[CULM_GRAPH_NAME_SIZE],
                                    struct culm_error *error);

/* Makes *edges pairs rise, without loops and repetitions; undirected: smaller vertex first, and each
 * edge once. All ids are below `vertices`. In O(vertices + edges), with as much memory again. */
enum culm_status culm_graph_simplify(uint32_t *edge, int64_t *edges, int64_t vertices,
                                     bool directed, struct culm_error *error);

/* A split of a graph whose name and labels are set, added behind those that it has. The labelled
 * vertices are taken in the order of SHA-256("NAME NUMBER VERTEX"): the first train_percent train,
 * the next valid_percent validate, the rest test. */
enum culm_status culm_graph_split_add(struct culm_graph_data *graph, int64_t number,
                                      int train_percent, int valid_percent,
                                      struct culm_error *error);

#endif
