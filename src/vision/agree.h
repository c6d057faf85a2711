/*
 * How far two answers to one frame agree, counted as whoever reads them would: what was to be said
 * and was not, and what was said and was not to be.
 *
 * Unlike average precision (vision/boxes.h), which hardly counts boxes that are too many, this says
 * something of an empty scene, too, and of a single frame.
 *
 * Thread: any.
 */
#ifndef CULM_VISION_AGREE_H
#define CULM_VISION_AGREE_H

#include "vision/boxes.h"

struct culm_agreement {
    int32_t wanted; /* boxes, points, or 1 for the best class */
    int32_t missed; /* of these */
    int32_t added;  /* boxes that were answered and not wanted */
    /* BOXES: how much those that are not missed overlap what was wanted, added up; 1 each if they are at
     * the same place. */
    double overlap;
};

/*
 * Counts one frame; `width` is its width in pixels.
 *
 * BOXES: those of `score` and more on either side. A box is right if it overlaps, by at least 0.5, a
 * wanted box of its class that no better box has taken. CLASSES: the best class, which is missed if
 * it is another one. POINTS: those that are not near their place (culm_points_near).
 */
struct culm_agreement culm_agreement_of(const struct culm_answer *said,
                                        const struct culm_answer *wanted, float score,
                                        int32_t width);
/* The same for a frame whose right class is given as a label. */
struct culm_agreement culm_agreement_with_label(const struct culm_answer *said, int32_t label);

#endif
