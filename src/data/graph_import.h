/*
 * Data graphs from what others publish: lists of edges, and archives of NumPy arrays. Nothing read
 * here is believed; what is refused is named with its file and line or array.
 * Thread: any.
 */
#ifndef CULM_DATA_GRAPH_IMPORT_H
#define CULM_DATA_GRAPH_IMPORT_H

#include "data/graph_data.h"

struct culm_graph_edge_files {
    const char *const *edges; /* text: two ids a line, with blanks, tabs or a comma between */
    size_t edge_count;
    const char *labels;   /* text: `id ... label`, or a label a line; NULL: none */
    const char *features; /* .npy [V, F]; .json {"id": [columns]}; NULL: none */
    int64_t vertices;     /* 0: one more than the largest id */
    bool directed;
};

/* Edges become simple. Labels may be whole numbers (-1: not known) or words, which are numbered in the
 * order of their letters and kept as names. A first line of an edge or label file that holds no id
 * is a heading; lines that begin with # or % are passed over. Has no splits. */
enum culm_status culm_graph_import_edges(const struct culm_graph_edge_files *files,
                                         const char *name, struct culm_graph_data **ret_graph,
                                         struct culm_error *error);

/* An archive with, under the names that published ones have:
 *
 *     adj_indices, adj_indptr, adj_shape       also adj_matrix.*; or edges [E, 2]
 *     attr_data, attr_indices, attr_indptr, attr_shape     also attr_matrix.*; or node_features [V, F]
 *     labels, also node_labels                 train_masks, val_masks, test_masks [S, V]
 *
 * Features and labels may be missing. Weights of edges are not looked at. */
enum culm_status culm_graph_import_npz(const char *path, bool directed, const char *name,
                                       struct culm_graph_data **ret_graph,
                                       struct culm_error *error);

#endif
