/* What the files of partition.h share. Parts are written to ret_part[vertices]; they may be empty,
 * and their numbers mean nothing. `symmetric` holds no loops that count, and both directions. */
#ifndef CULM_GNN_PARTITION_INTERNAL_H
#define CULM_GNN_PARTITION_INTERNAL_H

#include "gnn/partition.h"

enum culm_status culm_partition_metis(const struct culm_adjacency *symmetric, int64_t parts,
                                      uint64_t seed, uint32_t *ret_part, struct culm_error *error);
enum culm_status culm_partition_stream(const struct culm_adjacency *symmetric, int64_t parts,
                                       uint32_t *ret_part, struct culm_error *error);
enum culm_status culm_partition_file(const char *path, int64_t vertices, int64_t parts,
                                     uint32_t *ret_part, struct culm_error *error);

/* Edges between intervals, counted at both ends: a symmetric table [K, K] with those inside on its
 * diagonal, and loads [K]; the caller frees both. NULL: out of memory. */
uint64_t *culm_partition_quotient(const struct culm_adjacency *neighbours, const uint32_t *interval,
                                  int64_t intervals, uint64_t **ret_load);
/* A line of the intervals in which neighbours share many edges: ret_place[k]. False: out of memory. */
bool culm_partition_arrange(const uint64_t *between, const uint64_t *load, int64_t intervals,
                            uint32_t *ret_place);

#endif
