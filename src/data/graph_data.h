/*
 * A data graph: vertices, edges, and what is known of the vertices. On disk it is a folder in the
 * format culm-graph-1: graph.json, and arrays as .npy files (docs/gnn.md has the table).
 *
 * (`struct culm_graph` of src/graph is another thing: the compute graph of a model.)
 *
 * A folder is believed in nothing. Every array has the type and shape that graph.json implies and
 * exactly the bytes that its header says; edges rise and have no loops and no repetitions; ids are
 * below the number of vertices, labels below the number of classes, columns below the number of
 * columns; values are finite. What was opened can be used without another check. Files are read,
 * not mapped: one that shrinks gives an error, not a SIGBUS.
 * Thread: any; constant after opening.
 */
#ifndef CULM_DATA_GRAPH_DATA_H
#define CULM_DATA_GRAPH_DATA_H

#include "base/pins.h"

struct culm_files;

#define CULM_GRAPH_FORMAT "culm-graph-1"
#define CULM_GRAPH_NAME_SIZE 128
#define CULM_GRAPH_VERTICES_MAX INT32_MAX
/* Of edges as they are stored; both directions and a loop of each vertex stay below 2^40. */
#define CULM_GRAPH_EDGES_MAX (INT64_C(1) << 38)

enum culm_graph_features { CULM_GRAPH_NONE, CULM_GRAPH_DENSE, CULM_GRAPH_SPARSE };
enum culm_graph_use { CULM_GRAPH_UNUSED, CULM_GRAPH_TRAIN, CULM_GRAPH_VALID, CULM_GRAPH_TEST };

/* Parts to be read; the counts of all are known in any case. */
enum {
    CULM_GRAPH_EDGES = 1,
    CULM_GRAPH_LABELS = 2,
    CULM_GRAPH_SPLITS = 4,
    CULM_GRAPH_FEATURES = 8,
    CULM_GRAPH_ALL = 15,
    /* with FEATURES: dense ones are looked at and stay in their file, to be read row by row */
    CULM_GRAPH_IN_FILE = 16
};

/* V vertices, E edges, F columns of features, S splits. Arrays of parts that were not asked for, or
 * that the graph does not have, are NULL. */
struct culm_graph_data {
    char name[CULM_GRAPH_NAME_SIZE];
    int64_t vertices;     /* V, at least 1 */
    int64_t edges;        /* E; each undirected one once, no loops */
    int64_t edges_listed; /* as the source lists them; -1: not said */
    int64_t classes;      /* 0: without labels */
    int64_t columns;      /* F; 0: no features */
    int64_t splits;       /* S */
    bool directed;        /* then a row (u, v) of `edge` is u -> v: v gathers from u */
    enum culm_graph_features feature_kind;
    bool ones;        /* sparse: all values are 1 */
    uint64_t entries; /* sparse: of all rows */

    uint32_t *edge;   /* [E, 2], rising; undirected: u < v */
    int32_t *label;   /* [V]: class, or -1: not known */
    uint8_t *split;   /* [S, V]: enum culm_graph_use; what is used has a label */
    float *dense;     /* [V, F] */
    uint64_t *start;  /* sparse [V+1]: row v is entries start[v] .. start[v+1]-1 */
    uint32_t *column; /* sparse [entries], rising in a row */
    float *value;     /* sparse [entries]; NULL: all are 1 */

    char **class_name; /* [classes], or NULL */

    struct culm_files *file; /* dense features that stay there; NULL: none do */
    uint64_t file_at;        /* where they begin */
};

/* Reads the folder `path`: `parts` of CULM_GRAPH_*. CULM_ERR_CONFIG when a file is missing,
 * CULM_ERR_FORMAT when it is not what it must be: one line with file, place and value.
 * `pins` (may be NULL) is borrowed during the call, with IN_FILE as long as the graph: every file that is
 * read is shown to it. */
enum culm_status culm_graph_data_open(const char *path, unsigned parts, struct culm_pins *pins,
                                      struct culm_graph_data **ret_graph, struct culm_error *error);
/* Columns first .. first + count - 1 of a row of dense features, wherever they are. Not for other
 * graphs. CULM_ERR_IO, CULM_ERR_CHANGED, and CULM_ERR_FORMAT when they are no longer finite. */
enum culm_status culm_graph_data_row(const struct culm_graph_data *graph, int64_t vertex,
                                     int64_t first, int64_t count, float *ret_row,
                                     struct culm_error *error);
void culm_graph_data_free(struct culm_graph_data *graph); /* NULL is fine */

/* How many vertices of split `split` are in each of enum culm_graph_use. The splits were read. */
void culm_graph_data_count(const struct culm_graph_data *graph, int64_t split,
                           int64_t ret_count[4]);

#endif
