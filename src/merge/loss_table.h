/*
 * The part of culm_loss_original (loss.h) for tables of candidates. Private to src/merge. Thread: any.
 */
#ifndef CULM_MERGE_LOSS_TABLE_H
#define CULM_MERGE_LOSS_TABLE_H

#include "vision/model.h"

/* Of output `output` of a model with a table, for one sample. Stores the gradient of what is read
 * from that output; the rest is the caller's to clear. Returns the loss, not scaled; 0 where nothing
 * differs. */
double culm_loss_table(const struct culm_vision_model *model, int32_t output, const float *want,
                       const float *got, double scale, float *ret_gradient);

#endif
