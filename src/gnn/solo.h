/*
 * A run in one process, without the protocol: does the tasks of all intervals in order. Evaluation
 * and benchmarks use it, and it is the reference for the protocol, whose results must be the same
 * bit for bit.
 *
 * Thread: any, one call at a time.
 */
#ifndef CULM_GNN_SOLO_H
#define CULM_GNN_SOLO_H

#include "gnn/numeric.h"
#include "gnn/setup.h"

struct culm_gnn_solo;

struct culm_gnn_solo_epoch {
    double loss;                      /* mean over training vertices, before the epoch's update */
    int64_t correct[CULM_GNN_SPLITS]; /* with `evaluate`: after the update */
    int64_t gathered_floats;          /* read by gathers, evaluations not counted */
};

/* Begins with the initial weights, version 0. `setup` must have a graph; it is borrowed. `run_dir`:
 * where checkpoints are; NULL: none. */
enum culm_status culm_gnn_solo_new(const struct culm_gnn_setup *setup, int threads,
                                   const char *run_dir, struct culm_gnn_solo **ret_solo,
                                   struct culm_error *error);
void culm_gnn_solo_free(struct culm_gnn_solo *solo); /* NULL is fine */

/* Loads the state of a checkpoint, which must be of this version; "": the initial weights. */
enum culm_status culm_gnn_solo_load(struct culm_gnn_solo *solo, const char *checkpoint,
                                    int64_t version, struct culm_error *error);
/* Trains one epoch: version `epoch` from version `epoch` - 1. `evaluate`: then evaluates it. */
enum culm_status culm_gnn_solo_train(struct culm_gnn_solo *solo, int64_t epoch, bool evaluate,
                                     struct culm_gnn_solo_epoch *ret_epoch,
                                     struct culm_error *error);
/* Counts the correct predictions of the current weights in each part. ret_logits[V,classes], by
 * original number, receives the logits; NULL: not wanted. */
enum culm_status culm_gnn_solo_evaluate(struct culm_gnn_solo *solo,
                                        int64_t ret_correct[CULM_GNN_SPLITS], float *ret_logits,
                                        struct culm_error *error);
/* SHA-256 of the weights, as in checkpoints. */
enum culm_status culm_gnn_solo_hash(struct culm_gnn_solo *solo, char ret_weights[65],
                                    struct culm_error *error);
/* The gradient of the model's parameter `index` in the last epoch trained, in the layout of the
 * weights. Valid until the next call. */
const float *culm_gnn_solo_gradient(const struct culm_gnn_solo *solo, int32_t index);

#endif
