/*
 * Permutes the channels of models so that corresponding channels meet.
 *
 * The order of channels inside a network is arbitrary: permute the channels of a value together
 * with the weights that produce and read them, and the network computes the same. So before layers
 * are shared, the channels of each model are matched with those of an earlier model that it could
 * share with, by how strongly both correlate on the same frames.
 *
 * Values whose channels are added up, or pass through a depthwise convolution and the like, have to
 * keep one common order. In a concatenation each part keeps the order of the value it came from,
 * and whatever reads the whole follows. Channels that are sliced or reshaped, and those of inputs
 * and outputs, are never moved.
 *
 * Models that are `fixed` come first, and nothing of them moves.
 *
 * Thread: the device's.
 */
#ifndef CULM_MERGE_ALIGN_H
#define CULM_MERGE_ALIGN_H

#include "merge/fit.h"

/* Fills in `aligned` of all models that are not fixed: their originals with the channels permuted. Two models are
 * compared if they have the same frames (the same address) and a common instance in `share`,
 * whether or not it is shared now. *ret_moved (may be NULL): the number of channels that moved.
 * CULM_ERR_MEMORY. */
enum culm_status culm_align(struct culm_merge_model *const *models, int32_t count,
                            const struct culm_share *share, const struct culm_fit_frames *frames,
                            struct culm_device *device, int64_t *ret_moved,
                            struct culm_error *error);

#endif
