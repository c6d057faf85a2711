/*
 * Corrects the objectness of a detector's head after least squares, which make it less confident.
 *
 * Thread: any.
 */
#ifndef CULM_MERGE_OBJECTNESS_H
#define CULM_MERGE_OBJECTNESS_H

#include <stdint.h>

/*
 * What to add to the objectness logits of `now` for as many boxes to be likely (probability at
 * least 1/4) as in `was`. Returns 0 if too few are likely in `was` to tell, and never more than 2
 * either way. now, was: [boxes, each], the objectness at index 4 of each box. room[boxes] is
 * overwritten.
 */
float culm_objectness_shift(const float *now, const float *was, int64_t boxes, int64_t each,
                            float *room);

#endif
