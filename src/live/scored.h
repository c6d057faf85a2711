/*
 * The accuracy of all answers of a run, in bounded memory: average precision needs every box, so it
 * is taken of stretches of CULM_LIVE_SCORED frames, and their mean is what is told, each weighed by
 * how much was wanted in it. The accuracy of classes and points comes out as of all frames at once.
 *
 * Thread: one.
 */
#ifndef CULM_LIVE_SCORED_H
#define CULM_LIVE_SCORED_H

#include "vision/boxes.h"

#define CULM_LIVE_SCORED 1000

struct culm_live_scored {      /* zero it first */
    struct culm_accuracy *now; /* NULL: no frame has been added */
    double right, wanted;      /* of the stretches before it */
};

/* Add a frame, as those of vision/boxes.h do. Out of memory: it is left out. */
void culm_live_scored_add(struct culm_live_scored *scored, const struct culm_answer *answer,
                          const struct culm_answer *wanted, int32_t width);
void culm_live_scored_add_label(struct culm_live_scored *scored, const struct culm_answer *answer,
                                int32_t label);
/* Negative: no frame was added. */
double culm_live_scored_value(const struct culm_live_scored *scored);
void culm_live_scored_release(struct culm_live_scored *scored); /* fine on a zeroed one */

#endif
