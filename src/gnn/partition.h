/*
 * Cutting the vertices of a graph into intervals, and giving intervals to servers.
 *
 * The pieces are numbered so that neighbouring numbers share many edges, and vertices get new ids
 * that rise by (interval, old id). Who owns which interval comes afterwards, and changes neither:
 * so the order of every sum over neighbours is the same for any number of servers.
 *
 * METIS (Karypis and Kumar, "A fast and high quality multilevel scheme for partitioning irregular
 * graphs", 1998) balances vertices and edges, and takes some 90 bytes an edge. Streaming (linear
 * deterministic greedy: Stanton and Kliot, "Streaming graph partitioning for large distributed graphs",
 * 2012; a few passes) takes hardly any memory and cuts more edges. Both give the same result for the
 * same graph and seed, whatever the machine and its threads.
 *
 * Thread: any, but METIS serves one caller at a time.
 */
#ifndef CULM_GNN_PARTITION_H
#define CULM_GNN_PARTITION_H

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
    const char
        *path; /* FILE: a number 0 .. K-1 per vertex, as lines of text or as .npy; the numbers
                         are kept */
    const uint32_t
        *parts;    /* FILE: [V] the same numbers, of somebody else; NULL: they are in the file */
    uint64_t seed; /* METIS */
    bool directed; /* the graph is; its edges count in both directions */
};

/* V vertices in K intervals, none of them empty. */
struct culm_partition {
    int64_t vertices, intervals;
    uint32_t *interval;                /* [V] of each vertex by its old id */
    uint32_t *new_of_old;              /* [V] */
    int64_t *first;                    /* [K+1] new ids of interval k: first[k] .. first[k+1]-1 */
    enum culm_partition_method method; /* what was done: never AUTO */
};

/* "metis" and "stream" by name, NULL for AUTO, else FILE: fills method and path, which it borrows. */
void culm_partition_method_of(const char *text, struct culm_partition_options *options);

/* `neighbours` as culm_adjacency_of makes them, loops or not. CULM_ERR_CONFIG: more intervals than
 * vertices, or than CULM_GNN_INTERVALS_MAX; a file that does not fit (one line says where).
 * CULM_ERR_UNSUPPORTED: too large for METIS. */
enum culm_status culm_partition_of(const struct culm_adjacency *neighbours,
                                   const struct culm_partition_options *options,
                                   struct culm_partition *ret_partition, struct culm_error *error);
void culm_partition_release(struct culm_partition *partition); /* fine on a zeroed struct */

/* Which intervals each of N servers owns: s those of ret_owned[s] .. ret_owned[s+1]-1, at least one.
 * Loads (vertices and edges) are about equal, and few edges run between servers. ret_owned has
 * servers + 1 places. CULM_ERR_CONFIG: more servers than intervals. */
enum culm_status culm_partition_share(const struct culm_adjacency *neighbours,
                                      const struct culm_partition *partition, int64_t servers,
                                      int64_t *ret_owned, struct culm_error *error);

struct culm_partition_counts {
    int64_t cut_edges; /* edges between servers; undirected: each once */
    int64_t ghosts;    /* rows of others that servers need for a gather, over all servers */
    double balance;    /* load of the largest over the mean; 1: even */
    int64_t vertices_most, vertices_least, edges_most, edges_least; /* of servers */
};
/* `owned` as from culm_partition_share; NULL: each interval is a server of its own. */
enum culm_status culm_partition_count(const struct culm_adjacency *neighbours, bool directed,
                                      const struct culm_partition *partition, int64_t servers,
                                      const int64_t *owned,
                                      struct culm_partition_counts *ret_counts,
                                      struct culm_error *error);

#endif
