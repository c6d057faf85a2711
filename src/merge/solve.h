/*
 * Solves for one layer's weights by least squares: those that map what all its owners read now to
 * what their originals put out.
 *
 * If a batch norm follows an owner's layer, the scale and mean of each channel are free, so the
 * target is the original's output normalized to mean 0 and variance 1. Otherwise it is the output
 * itself, and the bias is solved for as well. `ridge` pulls the weights towards the mean of the
 * owners' own, which decides where the samples do not.
 *
 * Sums have a fixed order: the same bits on any number of threads. Thread: the device's.
 */
#ifndef CULM_MERGE_SOLVE_H
#define CULM_MERGE_SOLVE_H

#include "merge/steps.h"

struct culm_solve_owner {
    const struct culm_graph *graph;    /* for all frames at once */
    const struct culm_node_desc *node; /* conv or linear */
    const float *x;                    /* what the layer reads now, the node's input */
    const float *y;                    /* what the original's layer put out */
    const float *weight, *bias;        /* the original's; bias NULL: none */
    bool norm;                         /* a batch norm is the only reader of the layer's output */
    double importance;                 /* > 0 */
};

struct culm_solve_options {
    int64_t samples; /* output positions to sample of each owner, at most */
    double ridge;    /* added to the diagonal, as a share of the mean square of the inputs */
};

/* Writes weights and bias (NULL: none) in the layout of the first owner's. CULM_ERR_MEMORY. */
enum culm_status culm_solve(const struct culm_solve_owner *owners, int32_t count,
                            const struct culm_solve_options *options, struct culm_device *device,
                            float *ret_weight, float *ret_bias, struct culm_error *error);

#endif
