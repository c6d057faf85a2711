/*
 * Layers that a model has and does without: whatever they make is gone before anything reads it.
 *
 * That is so where a batch norm behind them has only zeros as its scale, such as the one at the end of a silent residual
 * branch. The model answers the same whatever numbers such a layer has. Thread: any.
 */
#ifndef CULM_MERGE_IDLE_H
#define CULM_MERGE_IDLE_H

#include "merge/model.h"

/* By the numbers that the model has now, into ret_idle[layers]. */
enum culm_status culm_merge_idle(const struct culm_merge_model *model, bool *ret_idle,
                                 struct culm_error *error);

#endif
