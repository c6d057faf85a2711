/*
 * The structure of a graph that is cut into intervals: which rows each interval reads, and where
 * they stand.
 *
 * Vertices are renumbered by interval, and within an interval in the order of the graph's files. An
 * interval gathers from a *table*: the rows that it reads of interval 0, then those of interval 1,
 * and so on, each in ascending order. So the place of a row in the table depends neither on who
 * owns what nor on the machine, and neighbours are added up in the order of their new numbers.
 *
 * An interval usually reads only some rows of another. The rows of an interval that at least one of
 * several others reads are its *slice* for these readers. It is sent to the server that owns them,
 * without row numbers, because both ends can work these out.
 *
 * Everything here is a pure function of the graph and the cut, the same in every process.
 * Thread: constant once made.
 */
#ifndef CULM_GNN_STRUCTURE_H
#define CULM_GNN_STRUCTURE_H

#include "data/adjacency.h"
#include "interval/layout.h"

/* The rows that an interval reads of each interval j, itself included: row[start[j]] up to, but not
 * including, row[start[j+1]] are row numbers within j, ascending. Together they are the rows of
 * its table, in order. */
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
    /* [transposed] The neighbours that each vertex gathers from, as row numbers in the table of the
     * vertex's interval. [1] only for a directed graph. */
    struct culm_adjacency along[2];
    struct culm_gnn_need *need[2]; /* [transposed][intervals]; [1] only for a directed graph */
};

/* interval_of[V]: the interval of each vertex, below `intervals`; intervals may be empty. `loops`:
 * each vertex gathers from itself too. Takes ownership of the graph's edges, which are freed once
 * they have been read, even if it fails later. CULM_ERR_MEMORY; CULM_ERR_ARGUMENT if `interval_of`
 * has a number that is too large. */
enum culm_status culm_gnn_structure_new(struct culm_graph_data *graph, const uint32_t *interval_of,
                                        int32_t intervals, bool loops,
                                        struct culm_gnn_structure **ret_structure,
                                        struct culm_error *error);
void culm_gnn_structure_free(struct culm_gnn_structure *structure); /* NULL is fine */

/* `along` and `need` of a direction; an undirected graph has the same in both. */
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

/* Fills in first, reads, read_by and edges of a layout with the same number of intervals. CULM_ERR_MEMORY. */
enum culm_status culm_gnn_structure_layout(const struct culm_gnn_structure *structure,
                                           struct culm_gnn_layout *layout,
                                           struct culm_error *error);

/* The edges of an interval's gather in the form that kernels take: compressed rows, whose columns
 * are rows of the table. */
struct culm_gnn_rows {
    uint64_t *start;        /* [rows + 1], from 0 */
    const uint32_t *column; /* [start[rows]], ascending within a row; borrowed of the structure */
};
enum culm_status culm_gnn_rows_init(const struct culm_gnn_structure *structure, bool transposed,
                                    int32_t interval, struct culm_gnn_rows *ret_rows,
                                    struct culm_error *error);
void culm_gnn_rows_release(struct culm_gnn_rows *rows); /* fine on a zeroed one */

/* The rows of `interval` in its slice for `readers`, ascending. ret_row must have room for all rows
 * of the interval. Returns their number. */
int64_t culm_gnn_structure_slice(const struct culm_gnn_structure *structure, bool transposed,
                                 int32_t interval, const struct culm_set *readers,
                                 uint32_t *ret_row);
/* The places, in a slice of `interval` with the rows slice[count], of the rows that `reader` reads;
 * ret_at must have room for as many as it reads. `reader` must be one of the slice's readers. */
void culm_gnn_structure_in_slice(const struct culm_gnn_structure *structure, bool transposed,
                                 int32_t interval, int32_t reader, const uint32_t *slice,
                                 int64_t count, uint32_t *ret_at);

#endif
