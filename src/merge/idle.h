/*
 * Layers that a model has and does without: whatever they make, it is gone before anybody reads it.
 *
 * That is so where a batch norm behind them has nothing but zeros as scale, as one at the end of a silent residual
 * branch. Such a layer answers the same with any numbers. Thread: any.
 */
#ifndef CULM_MERGE_IDLE_H
#define CULM_MERGE_IDLE_H

#include "merge/model.h"

/* By the numbers that the model has now, into ret_idle[layers]. */
enum culm_status culm_merge_idle(const struct culm_merge_model *model, bool *ret_idle,
                                 struct culm_error *error);

#endif
