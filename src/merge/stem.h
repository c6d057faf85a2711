/*
 * The beginning of a model: what it makes up to some operator, as a model of its own. Parameters are those of the whole,
 * by the same numbers. Thread: as that of the whole.
 */
#ifndef CULM_MERGE_STEM_H
#define CULM_MERGE_STEM_H

#include "vision/model.h"

struct culm_stem {
    struct culm_vision_model vision; /* its only output: what `node` makes */
    struct culm_vision_model *of;    /* borrowed */
    int32_t node;
};

/* Nothing is to be released. */
void culm_stem_init(struct culm_stem *stem, struct culm_vision_model *of, int32_t node);

#endif
