/*
 * A frame as it might have been: mirrored, moved, darker, noisier.
 *
 * What a model is fitted to is what its original says of a frame, so any frame will do, and a few
 * frames of a short clip become more. Each variant is fixed by its number and a seed.
 *
 * Thread: any.
 */
#ifndef CULM_MERGE_VARY_H
#define CULM_MERGE_VARY_H

#include "vision/model.h"

/* Writes variant number `variant` of the frame, both [h,w,c] as the input expects them. Every second
 * one is mirrored; all are moved, by at most a fourteenth of the width; most are darker, some
 * noisier. Pixels stay between 0 and 1 before they are normalized. */
void culm_merge_vary(const struct culm_vision_input *input, const float *frame, uint64_t variant,
                     uint64_t seed, float *ret_frame);

#endif
