/*
 * How sure a detector's head is that there is anything: what least squares take from it, given back.
 * Thread: any.
 */
#ifndef CULM_MERGE_OBJECTNESS_H
#define CULM_MERGE_OBJECTNESS_H

#include <stdint.h>

/*
 * The logits to add to the objectness that `now` says, for as many boxes to be likely as `was` says: a
 * box is where its probability is at least a quarter. 0 where `was` says too few to judge by; never
 * more than 2 either way. Both are [boxes, each], the objectness the fifth number of each;
 * room[boxes] is overwritten.
 */
float culm_objectness_shift(const float *now, const float *was, int64_t boxes, int64_t each,
                            float *room);

#endif
