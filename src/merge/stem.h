/*
 * The stem of a model: the part up to a given operator, as a model of its own. Its parameters have
 * the same indices as in the whole model.
 *
 * Thread: as for the whole model.
 */
#ifndef CULM_MERGE_STEM_H
#define CULM_MERGE_STEM_H

#include "vision/model.h"

struct culm_stem {
    struct culm_vision_model vision; /* its only output is that of `node` */
    struct culm_vision_model *of;    /* borrowed */
    int32_t node;
};

/* There is nothing to release. */
void culm_stem_init(struct culm_stem *stem, struct culm_vision_model *of, int32_t node);

#endif
