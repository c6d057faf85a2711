/*
 * Writes a data graph; also makes edges simple and adds splits, which imported and generated graphs
 * need. Thread: any; one writer per path.
 */
#ifndef CULM_DATA_GRAPH_WRITE_H
#define CULM_DATA_GRAPH_WRITE_H

#include "data/graph_data.h"

#include "base/file.h"

/* Writes the folder `path`, which must not exist (CULM_ERR_EXISTS), completely or not at all: a
 * folder `path.tmp-PID` is renamed once everything in it is synced. A process that is killed leaves
 * that folder behind. All parts of the graph must be in memory. A name that is not UTF-8, or more of
 * them than graph.json may have, is an error before anything is written. `fs` NULL: POSIX. */
enum culm_status culm_graph_data_write(struct culm_fs *fs, const struct culm_graph_data *graph,
                                       const char *path, struct culm_error *error);
/* CULM_ERR_EXISTS if something exists at `path`. To be called before long work. */
enum culm_status culm_graph_data_can_write(const char *path, struct culm_error *error);

/* The name of the graph that is written to `path`: the last part of it. CULM_ERR_ARGUMENT: it has
 * none. */
enum culm_status culm_graph_name_of(const char *path, char ret_name[CULM_GRAPH_NAME_SIZE],
                                    struct culm_error *error);

/* Sorts *edges pairs, and drops loops and duplicates, which lowers *edges. Undirected: the smaller
 * vertex comes first, and each edge remains once. Ids must be below `vertices`. Takes O(vertices +
 * edges) time, and memory for a second copy. */
enum culm_status culm_graph_simplify(uint32_t *edge, int64_t *edges, int64_t vertices,
                                     bool directed, struct culm_error *error);

/* Replaces the splits of a graph whose name and labels are set by `count` new ones, with the numbers
 * first, first + 1, ... In each, labelled vertices are taken in the order of SHA-256("NAME NUMBER
 * VERTEX"): the first train_percent train, the next valid_percent validate, the rest test.
 * CULM_ERR_MEMORY: the machine has less than they take. */
enum culm_status culm_graph_splits_make(struct culm_graph_data *graph, int64_t first, int64_t count,
                                        int train_percent, int valid_percent,
                                        struct culm_error *error);

#endif
