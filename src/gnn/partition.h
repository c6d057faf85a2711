/*
 * Divides the vertices of a graph into intervals, and intervals among servers.
 *
 * Intervals are numbered so that neighbouring numbers share many edges, and vertices are renumbered
 * in the order of (interval, old id). Both are independent of which server owns what, which is
 * decided afterwards; so the order of every sum over neighbours is the same for any number of
 * servers.
 *
 * METIS (Karypis and Kumar, "A fast and high quality multilevel scheme for partitioning irregular
 * graphs", 1998) balances vertices and edges, and takes some 90 bytes per edge. Streaming (linear
 * deterministic greedy: Stanton and Kliot, "Streaming graph partitioning for large distributed
 * graphs", 2012; in several passes) takes little memory, and usually cuts more edges. Each gives
 * the same result for the same graph and seed, whatever the machine and its threads.
 *
 * Thread: any, but METIS serves one caller at a time.
 */
#ifndef CULM_GNN_PARTITION_H
#define CULM_GNN_PARTITION_H

#include "base/stop.h"
#include "data/adjacency.h"

/* AUTO: METIS, unless it would take more than half of the machine's memory; then streaming. */
enum culm_partition_method {
    CULM_PARTITION_AUTO,
    CULM_PARTITION_METIS,
    CULM_PARTITION_STREAM,
    CULM_PARTITION_FILE
};

struct culm_partition_options {
    int64_t intervals; /* K */
    enum culm_partition_method method;
    /* FILE: a file with the interval, 0 .. K-1, of each vertex, as lines of text or as .npy. The
     * numbers of intervals are kept. */
    const char *path;
    const uint32_t *parts; /* FILE: [V] the same numbers in memory; NULL: read `path` */
    uint64_t seed;         /* METIS */
    bool directed;         /* the graph is directed; the cut ignores directions */
    /* METIS: asked some times a second, and ended then, with CULM_ERR_STOPPED. NULL: it goes on to the
     * end. */
    const struct culm_stop *stop;
};

/* V vertices in K intervals, none of them empty. */
struct culm_partition {
    int64_t vertices, intervals;
    uint32_t *interval;                /* [V] interval of each vertex, by old id */
    uint32_t *new_of_old;              /* [V] */
    int64_t *first;                    /* [K+1] new ids of interval k: first[k] .. first[k+1]-1 */
    enum culm_partition_method method; /* the one that was used: never AUTO */
};

/* Fills in method and path from the value of an option: "metis", "stream", NULL for AUTO, or else
 * the path of a file. `text` is borrowed. */
void culm_partition_method_of(const char *text, struct culm_partition_options *options);

/* `neighbours` as from culm_adjacency_of, with or without loops. CULM_ERR_CONFIG: more intervals
 * than vertices or than CULM_GNN_INTERVALS_MAX, or an interval of the file has no vertex.
 * CULM_ERR_FORMAT: the file or `parts` does not fit. CULM_ERR_UNSUPPORTED: too large for METIS. */
enum culm_status culm_partition_of(const struct culm_adjacency *neighbours,
                                   const struct culm_partition_options *options,
                                   struct culm_partition *ret_partition, struct culm_error *error);
void culm_partition_release(struct culm_partition *partition); /* fine on a zeroed struct */

/* Divides intervals among servers: server s owns ret_owned[s] .. ret_owned[s+1]-1, at least one.
 * Loads (vertices and edges) are about equal, and few edges run between servers. ret_owned has
 * servers + 1 elements. CULM_ERR_CONFIG: more servers than intervals. */
enum culm_status culm_partition_share(const struct culm_adjacency *neighbours,
                                      const struct culm_partition *partition, int64_t servers,
                                      int64_t *ret_owned, struct culm_error *error);

struct culm_partition_counts {
    int64_t cut_edges; /* edges between servers; an undirected edge counts once */
    int64_t ghosts;    /* rows that servers need from others for a gather, over all servers */
    double balance;    /* largest load of a server divided by the mean; 1: even */
    int64_t vertices_most, vertices_least, edges_most, edges_least; /* per server */
};
/* `owned` as from culm_partition_share; NULL: each interval is a server of its own. */
enum culm_status culm_partition_count(const struct culm_adjacency *neighbours, bool directed,
                                      const struct culm_partition *partition, int64_t servers,
                                      const int64_t *owned,
                                      struct culm_partition_counts *ret_counts,
                                      struct culm_error *error);

#endif
