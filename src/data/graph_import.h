/*
 * Imports data graphs as others publish them: lists of edges, and archives of NumPy arrays. Nothing
 * that is read is trusted; messages name the file, and the line or array.
 *
 * Thread: any.
 */
#ifndef CULM_DATA_GRAPH_IMPORT_H
#define CULM_DATA_GRAPH_IMPORT_H

#include "data/graph_data.h"

struct culm_graph_edge_files {
    const char *const *edges; /* text: two ids per line, between them blanks, tabs, ',' or ';' */
    size_t edge_count;        /* of files; their edges are taken together */
    const char *labels;       /* text: per line `id ... label`, or just a label; NULL: none */
    const char *features;     /* .npy [V, F]; .json {"id": [columns]}; NULL: none */
    int64_t vertices;         /* 0: one more than the largest id */
    bool directed;
};

/* Loops and duplicate edges are dropped. Labels may be integers or words, which are numbered in
 * alphabetical order and kept as names; -1: not known. A first line without any number is a heading
 * (of labels alone: see graph_import_labels.h); lines that begin with # or % are skipped. The graph
 * has no splits. */
enum culm_status culm_graph_import_edges(const struct culm_graph_edge_files *files,
                                         const char *name, struct culm_graph_data **ret_graph,
                                         struct culm_error *error);

/* Imports a .npz archive with these arrays, under the names that are in use:
 *
 *     adj_indices, adj_indptr, adj_shape                  also adj_matrix.*; or edges [E, 2]
 *     attr_data, attr_indices, attr_indptr, attr_shape    also attr_matrix.*;
 *                                                         or node_features [V, F]
 *     labels                                              also node_labels
 *     train_masks, val_masks, test_masks [S, V]           also *_mask [V]
 *
 * Features and labels may be missing. Edge weights are ignored. */
enum culm_status culm_graph_import_npz(const char *path, bool directed, const char *name,
                                       struct culm_graph_data **ret_graph,
                                       struct culm_error *error);

#endif
