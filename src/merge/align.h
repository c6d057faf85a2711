/*
 * Channels of models put into the order in which they are most alike.
 *
 * Which channel is which is arbitrary inside a network: if the channels of a value, and whatever reads
 * and makes them, change places together, the network answers as before. So before layers are shared, the
 * channels of each model are matched with those of the model that it is to share with, by what both make
 * of the same frames. Values whose channels add up, pass through a depthwise convolution or the like keep
 * one order; where channels are concatenated, those of each part have an order of their own, side by side, and
 * what reads them all follows. What is sliced, reshaped, read as an image or given as an output stays as it
 * is. Thread: the device's.
 */
#ifndef CULM_MERGE_ALIGN_H
#define CULM_MERGE_ALIGN_H

#include "merge/fit.h"

/* Fills in `aligned` of all models: their originals with channels in another order. Models are matched
 * where they have the same frames (at the same address) and share an instance of `share`, whether it is
 * shared now or not. ret_moved (may be NULL): how many channels have moved. */
enum culm_status culm_align(struct culm_merge_model *const *models, int32_t count,
                            const struct culm_share *share, const struct culm_fit_frames *frames,
                            struct culm_device *device, int64_t *ret_moved,
                            struct culm_error *error);

#endif
