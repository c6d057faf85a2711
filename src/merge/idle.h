/*
 * Idle layers: those that have no influence on what the model answers.
 *
 * Behind an idle layer is a batch norm whose scale is all zeros, such as the one that ends a
 * silenced residual branch, so the output of the layer is multiplied by zero. The layer may take
 * any weights at all.
 *
 * Thread: any.
 */
#ifndef CULM_MERGE_IDLE_H
#define CULM_MERGE_IDLE_H

#include "merge/model.h"

/* By the model's current values. ret_idle[layers]. CULM_ERR_MEMORY. */
enum culm_status culm_merge_idle(const struct culm_merge_model *model, bool *ret_idle,
                                 struct culm_error *error);

#endif
