/*
 * A data graph: vertices, edges, and the labels, splits and features of vertices. On disk it is a
 * folder in the format culm-graph-1: graph.json, and arrays as .npy files (docs/gnn.md has the
 * table).
 *
 * (Not to be confused with `struct culm_graph` of src/graph, the compute graph of a model.)
 *
 * Nothing in the folder is trusted. It is checked that every array has the type and shape that
 * graph.json implies and exactly the bytes that its header implies; that edges are sorted, without
 * loops or duplicates; that ids, labels and columns are in range; and that values are finite. So an
 * opened graph can be used without further checks. Files are read, not mapped: one that shrinks
 * meanwhile leads to an error, not to SIGBUS.
 *
 * Thread: any; constant after opening.
 */
#ifndef CULM_DATA_GRAPH_DATA_H
#define CULM_DATA_GRAPH_DATA_H

#include "base/pins.h"

struct culm_files;

#define CULM_GRAPH_FORMAT "culm-graph-1"
#define CULM_GRAPH_NAME_SIZE 128
#define CULM_GRAPH_VERTICES_MAX INT32_MAX
/* Limit of stored edges: with both directions, and a loop at each vertex, they stay below 2^40. */
#define CULM_GRAPH_EDGES_MAX (INT64_C(1) << 38)
#define CULM_GRAPH_SPLITS_MAX 1000000

enum culm_graph_features { CULM_GRAPH_NONE, CULM_GRAPH_DENSE, CULM_GRAPH_SPARSE };
enum culm_graph_use { CULM_GRAPH_UNUSED, CULM_GRAPH_TRAIN, CULM_GRAPH_VALID, CULM_GRAPH_TEST };

/* Parts to be read. The counts in graph.json are known in any case. */
enum {
    CULM_GRAPH_EDGES = 1,
    CULM_GRAPH_LABELS = 2,
    CULM_GRAPH_SPLITS = 4,
    CULM_GRAPH_FEATURES = 8,
    CULM_GRAPH_ALL = 15,
    /* with FEATURES: dense ones are checked but not kept, and read from the file row by row */
    CULM_GRAPH_IN_FILE = 16
};

/* V vertices, E edges, F columns of features, S splits. Arrays are NULL if they were not asked for,
 * or if the graph does not have them. */
struct culm_graph_data {
    char name[CULM_GRAPH_NAME_SIZE];
    int64_t vertices;     /* V, at least 1 */
    int64_t edges;        /* E; an undirected edge counts once; no loops */
    int64_t edges_listed; /* edges as listed in the source; -1: not recorded */
    int64_t classes;      /* 0: no labels */
    int64_t columns;      /* F; 0: no features */
    int64_t splits;       /* S */
    bool directed;        /* a row (u, v) of `edge` is u -> v: v gathers from u */
    enum culm_graph_features feature_kind;
    bool ones;        /* sparse: all values are 1 */
    uint64_t entries; /* sparse: in all rows together */

    uint32_t *edge;   /* [E, 2], sorted; undirected: u < v */
    int32_t *label;   /* [V]: class, or -1: not known */
    uint8_t *split;   /* [S, V]: enum culm_graph_use; vertices in use have a label */
    float *dense;     /* [V, F] */
    uint64_t *start;  /* sparse [V+1]: row v is entries start[v] .. start[v+1]-1 */
    uint32_t *column; /* sparse [entries], ascending within a row */
    float *value;     /* sparse [entries]; NULL: all are 1 */

    char **class_name; /* [classes], or NULL */

    struct culm_files *file; /* IN_FILE: the file of dense features; else NULL */
    uint64_t file_at;        /* offset of the first of them */
};

/* Whether `path` is the folder of a graph, by the files in it. */
bool culm_graph_data_is(const char *path);
/* Reads `parts` (CULM_GRAPH_*) of the graph in folder `path`. CULM_ERR_CONFIG: a file is missing;
 * CULM_ERR_FORMAT: a file is invalid; the message has file, place and value in one line. `pins`
 * (may be NULL) pins or verifies every file that is read; it is borrowed during the call, and with
 * IN_FILE for the lifetime of the graph. */
enum culm_status culm_graph_data_open(const char *path, unsigned parts, struct culm_pins *pins,
                                      struct culm_graph_data **ret_graph, struct culm_error *error);
/* Columns first .. first + count - 1 of a vertex's dense features, from memory or from the file.
 * Only for graphs with dense features. CULM_ERR_IO, CULM_ERR_CHANGED; CULM_ERR_FORMAT if a value is
 * no longer finite. */
enum culm_status culm_graph_data_row(const struct culm_graph_data *graph, int64_t vertex,
                                     int64_t first, int64_t count, float *ret_row,
                                     struct culm_error *error);
void culm_graph_data_free(struct culm_graph_data *graph); /* NULL is fine */

/* Counts the vertices of split `split` by enum culm_graph_use. The splits must have been read. */
void culm_graph_data_count(const struct culm_graph_data *graph, int64_t split,
                           int64_t ret_count[4]);

#endif
