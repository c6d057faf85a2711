/*
 * A layer's weights by least squares: what maps the inputs of all its owners, as they are now, to what
 * the originals made of theirs.
 *
 * Where a batch norm stands behind an owner's layer, scale and mean of each channel are free: what is
 * wanted there is the original's output with mean 0 and variance 1. Elsewhere the weights and the bias
 * make the output itself. Weights are drawn towards the mean of the owners' own (`ridge`), which decides
 * where the samples do not. Sums are in a fixed order: the same bits on any number of threads.
 * Thread: the device's.
 */
#ifndef CULM_MERGE_SOLVE_H
#define CULM_MERGE_SOLVE_H

#include "merge/steps.h"

struct culm_solve_owner {
    const struct culm_graph *graph;    /* of all frames */
    const struct culm_node_desc *node; /* conv or linear */
    const float *x;                    /* what the layer reads now */
    const float *y;                    /* what the original made */
    const float *weight, *bias;        /* the original's; bias NULL: none */
    bool norm;                         /* a batch norm alone reads what the layer makes */
    double importance;                 /* > 0 */
};

struct culm_solve_options {
    int64_t samples; /* places of the output that are looked at, of each owner, at most */
    double ridge;    /* share of the inputs' mean square that is added to it */
};

/* Fills in weights and bias (NULL: none) in the layout of the first owner. CULM_ERR_MEMORY. */
enum culm_status culm_solve(const struct culm_solve_owner *owners, int32_t count,
                            const struct culm_solve_options *options, struct culm_device *device,
                            float *ret_weight, float *ret_bias, struct culm_error *error);

#endif
