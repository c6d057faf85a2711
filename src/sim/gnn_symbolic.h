/*
 * The symbolic executor of graph networks, for the simulator: rows are digests, so that the final
 * state shows whether everything was computed from what it should have been computed from.
 *
 * A row is one word. The result of a step is a digest of everything that it has read, including the
 * version of the weights. A sum is a digest of its tree, so that its order matters. The executor
 * fails on requests that the protocol must never make: rows that are missing or too old, weights
 * that are too old or too new, an update from another version. A row contains the epoch in which it
 * was made.
 *
 * Thread: see interval/exec.h.
 */
#ifndef CULM_SIM_GNN_SYMBOLIC_H
#define CULM_SIM_GNN_SYMBOLIC_H

#include "interval/exec.h"
#include "interval/pace.h"
#include "sim/gnn_witness.h"

/* An imaginary graph and network; which intervals read which is drawn from the seed: of many, each reads a
 * few. */
enum culm_status culm_gnn_symbolic_layout(uint64_t seed, int32_t intervals, int32_t stages,
                                          struct culm_gnn_layout *ret_layout,
                                          struct culm_error *error);
/* All are borrowed. NULL: out of memory. */
struct culm_gnn_exec *culm_gnn_symbolic_new(const struct culm_gnn_layout *layout,
                                            const struct culm_gnn_pace *pace, uint64_t seed,
                                            struct culm_blob_pool *pool);
void culm_gnn_symbolic_free(struct culm_gnn_exec *exec);
/* Counts of the rows that were read, by their age in epochs; [CULM_GNN_STALENESS_MAX + 1]. */
const int64_t *culm_gnn_symbolic_ages(const struct culm_gnn_exec *exec);
/* From now on each task is asked about before it runs: what it returns but CULM_OK is what the task of
 * this node fails with. NULL: none fails. */
typedef enum culm_status culm_gnn_symbolic_refuse(void *context, int32_t node,
                                                  const struct culm_gnn_task *task);
void culm_gnn_symbolic_trouble(struct culm_gnn_exec *exec, culm_gnn_symbolic_refuse *refuse,
                               void *context, int32_t node);
/* It is seen by this one, and publishes to its disk, on which others' checkpoints lie too. */
void culm_gnn_symbolic_witness(struct culm_gnn_exec *exec, struct culm_gnn_witness *witness);
/* The digest of the state before the first epoch. */
uint64_t culm_gnn_symbolic_initial(uint64_t seed);
/* The leader's, without a witness: the checkpoint that it begins with was published by another, before. False: that is no
 * checkpoint. */
bool culm_gnn_symbolic_resume(struct culm_gnn_exec *exec, const char *path, uint32_t branch,
                              const struct culm_gnn_verdict *verdict);
/* Flips a bit of the state, so that its digest changes. */
void culm_gnn_symbolic_flip(struct culm_gnn_exec *exec);

#endif
