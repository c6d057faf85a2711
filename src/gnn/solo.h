/*
 * A run in one process, without a protocol: the tasks of every interval in order. It is what
 * evaluation and benchmarks use, and what any other way of running them must equal, bit for bit.
 *
 * Thread: one at a time.
 */
#ifndef CULM_GNN_SOLO_H
#define CULM_GNN_SOLO_H

#include "gnn/numeric.h"
#include "gnn/setup.h"

struct culm_gnn_solo;

struct culm_gnn_solo_epoch {
    double loss; /* mean over the vertices that train, before the epoch's step */
    int64_t correct[CULM_GNN_SPLITS]; /* with evaluation: after the step */
    int64_t gathered_floats;          /* read by gathers, without those of an evaluation */
};

/* With the initial weights: version 0. The setup has a graph, and is borrowed. `run_dir`: where
 * checkpoints go; NULL: nowhere. */
enum culm_status culm_gnn_solo_new(const struct culm_gnn_setup *setup, int threads,
                                   const char *run_dir, struct culm_gnn_solo **ret_solo,
                                   struct culm_error *error);
void culm_gnn_solo_free(struct culm_gnn_solo *solo); /* NULL is fine */

/* The weights of a checkpoint instead, which is of this version. */
enum culm_status culm_gnn_solo_load(struct culm_gnn_solo *solo, const char *checkpoint,
                                    int64_t version, struct culm_error *error);
/* One epoch: version `epoch` from version `epoch` - 1. With `evaluate`, also counts what is right then. */
enum culm_status culm_gnn_solo_train(struct culm_gnn_solo *solo, int64_t epoch, bool evaluate,
                                     struct culm_gnn_solo_epoch *ret_epoch,
                                     struct culm_error *error);
/* How many vertices of each part are right with the weights as they are. ret_logits[V,classes] by
 * original number; NULL: not wanted. */
enum culm_status culm_gnn_solo_evaluate(struct culm_gnn_solo *solo,
                                        int64_t ret_correct[CULM_GNN_SPLITS], float *ret_logits,
                                        struct culm_error *error);
/* Of the weights, as checkpoints have it. */
enum culm_status culm_gnn_solo_hash(struct culm_gnn_solo *solo, char ret_weights[65],
                                    struct culm_error *error);
/* The gradient of the last epoch that was trained, of the model's parameter `index`, as it is in the
 * weights. Valid until the next call. */
const float *culm_gnn_solo_gradient(const struct culm_gnn_solo *solo, int32_t index);

#endif
