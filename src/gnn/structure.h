/*
 * The structure of a graph that is cut into intervals: who reads whose rows, and where a row stands.
 *
 * Vertices are numbered anew, by interval and then by their number in the graph's files. An interval
 * gathers from a *table*: the rows that it reads of interval 0, then those of interval 1, and so on,
 * in each by rising numbers. So a row of the table has a place that depends neither on who owns what
 * nor on the machine, and the neighbours of a vertex are added in the order of the new numbers.
 *
 * As a rule one interval reads some of another's rows. Those that at least one of several intervals
 * reads are a *slice* for these readers, which travels without numbers to the server that owns them.
 *
 * Everything here is a pure function of the graph and the cut, the same in every process.
 * Thread: constant once made.
 */
#ifndef CULM_GNN_STRUCTURE_H
#define CULM_GNN_STRUCTURE_H

#include "data/adjacency.h"
#include "gnn/layout.h"

/* The rows that an interval reads of each other one, and of itself: row[start[j]] .. row[start[j+1]]
 * are numbers within interval j, rising. They are the table's rows, in order. */
struct culm_gnn_need {
    uint32_t *start; /* [intervals + 1] */
    uint32_t *row;   /* [start[intervals]] */
};

struct culm_gnn_structure {
    int64_t vertices; /* V */
    int32_t intervals;
    bool directed;
    int64_t *first;       /* [intervals + 1] vertices */
    uint32_t *old_of_new; /* [V] */
    uint32_t *new_of_old; /* [V] */
    /* Who gathers from whom, as places in the table of the row's interval; transposed; [1] of a
     * directed graph. */
    struct culm_adjacency along[2];
    struct culm_gnn_need *need[2]; /* [transposed][intervals]; [1] of a directed graph */
};

/* `interval_of`[V] below `intervals`; an interval without vertices is fine. `loops`: each vertex
 * gathers from itself too. Takes the graph's edges: they are freed when they have been read, also
 * where it fails after that. CULM_ERR_MEMORY, and CULM_ERR_ARGUMENT when `interval_of` is not a cut. */
enum culm_status culm_gnn_structure_new(struct culm_graph_data *graph, const uint32_t *interval_of,
                                        int32_t intervals, bool loops,
                                        struct culm_gnn_structure **ret_structure,
                                        struct culm_error *error);
void culm_gnn_structure_free(struct culm_gnn_structure *structure); /* NULL is fine */

/* Over the edges as they are, or backwards: those of an undirected graph are the same. */
static inline const struct culm_adjacency *
culm_gnn_structure_along(const struct culm_gnn_structure *structure, bool transposed) {
    return &structure->along[transposed && structure->directed];
}
static inline const struct culm_gnn_need *
culm_gnn_structure_need(const struct culm_gnn_structure *structure, bool transposed,
                        int32_t interval) {
    return &structure->need[transposed && structure->directed][interval];
}
static inline int64_t culm_gnn_structure_rows(const struct culm_gnn_structure *structure,
                                              int32_t interval) {
    return structure->first[interval + 1] - structure->first[interval];
}

/* Vertices, and who reads whom. The layout was made for as many intervals. */
void culm_gnn_structure_layout(const struct culm_gnn_structure *structure,
                               struct culm_gnn_layout *layout);

/* The rows of an interval's gather as the sum kernels take them: neighbours are rows of its table. */
struct culm_gnn_rows {
    uint64_t *start;        /* [rows + 1], from 0 */
    const uint32_t *column; /* [start[rows]], rising in a row; the structure's */
};
enum culm_status culm_gnn_rows_init(const struct culm_gnn_structure *structure, bool transposed,
                                    int32_t interval, struct culm_gnn_rows *ret_rows,
                                    struct culm_error *error);
void culm_gnn_rows_release(struct culm_gnn_rows *rows); /* fine on a zeroed one */

/* Which of its rows the slice of `interval` for `readers` has: rising; ret_row has room for all of
 * them. Returns how many. */
int64_t culm_gnn_structure_slice(const struct culm_gnn_structure *structure, bool transposed,
                                 int32_t interval, const struct culm_gnn_set *readers,
                                 uint32_t *ret_row);
/* Where in a slice of `interval`, whose `count` rows are `slice`, the rows stand that `reader` reads:
 * as many as it reads, into ret_at. `reader` is one of those that the slice is for. */
void culm_gnn_structure_in_slice(const struct culm_gnn_structure *structure, bool transposed,
                                 int32_t interval, int32_t reader, const uint32_t *slice,
                                 int64_t count, uint32_t *ret_at);

#endif
