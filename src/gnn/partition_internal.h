/* Shared by partition*.c only. Parts are written to ret_part[vertices]. Parts may be empty, and
 * their numbers have no order yet. `symmetric` has every edge in both directions; its loops are
 * ignored. */
#ifndef CULM_GNN_PARTITION_INTERNAL_H
#define CULM_GNN_PARTITION_INTERNAL_H

#include "gnn/partition.h"

enum culm_status partition_metis(const struct culm_adjacency *symmetric, int64_t parts,
                                 uint64_t seed, const struct culm_stop *stop, uint32_t *ret_part,
                                 struct culm_error *error);
enum culm_status partition_stream(const struct culm_adjacency *symmetric, int64_t parts,
                                  uint32_t *ret_part, struct culm_error *error);
enum culm_status partition_file(const char *path, int64_t vertices, int64_t parts,
                                uint32_t *ret_part, struct culm_error *error);

/* A symmetric table [K, K] of the numbers of edges between intervals, counted at both ends; edges
 * within intervals are on the diagonal. *ret_load: [K]. The caller frees both. NULL: out of
 * memory. */
uint64_t *partition_quotient(const struct culm_adjacency *neighbours, const uint32_t *interval,
                             int64_t intervals, uint64_t **ret_load);
/* Orders intervals so that neighbours share many edges: ret_place[k] is the place of interval k.
 * False: out of memory. */
bool partition_arrange(const uint64_t *between, const uint64_t *load, int64_t intervals,
                       uint32_t *ret_place);

#endif
