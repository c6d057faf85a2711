/*
 * The symbolic executor of graph networks: rows are digests, so that a history shows whether every
 * number came from what it should have come from.
 *
 * A row is one word. What a step makes is a digest of all that it read, the version of the weights
 * among it; a sum is no sum but a digest of its tree, so its order shows. It refuses what the protocol
 * must never ask for: rows that are missing or too old, weights that are too old or too new, a step from
 * another version. A row says itself in which epoch it was made.
 *
 * Thread: as an executor.
 */
#ifndef CULM_SIM_GNN_SYMBOLIC_H
#define CULM_SIM_GNN_SYMBOLIC_H

#include "gnn/exec.h"
#include "gnn/pace.h"

/* A made-up graph and network: who reads whom follows from the seed. */
enum culm_status culm_gnn_symbolic_layout(uint64_t seed, int32_t intervals, int32_t stages,
                                          struct culm_gnn_layout *ret_layout,
                                          struct culm_error *error);
/* All are borrowed. NULL: out of memory. */
struct culm_gnn_exec *culm_gnn_symbolic_new(const struct culm_gnn_layout *layout,
                                            const struct culm_gnn_pace *pace, uint64_t seed,
                                            struct culm_blob_pool *pool);
void culm_gnn_symbolic_free(struct culm_gnn_exec *exec);
/* How many rows were read that were so many epochs old; [CULM_GNN_STALENESS_MAX + 1]. */
const int64_t *culm_gnn_symbolic_ages(const struct culm_gnn_exec *exec);
/* Damages one bit of the state, which its digest then shows. */
void culm_gnn_symbolic_flip(struct culm_gnn_exec *exec);

#endif
