/* What a model is trained on while searching: every frame as it is, and moved by a little, each second
 * time mirrored. Inside of search.h; not for others. */
#ifndef CULM_MERGE_SEARCH_SAMPLES_H
#define CULM_MERGE_SEARCH_SAMPLES_H

#include "merge/joint.h"
#include "merge/search.h"

struct search_samples {
    const struct culm_merge_frames *frames;
    int64_t h, w, c, variants;
    uint64_t seed;
};

struct search_samples search_samples_of(const struct culm_search *s, int32_t model);
/* How many of them a step takes. */
int64_t search_samples_each(const struct search_samples *samples);
struct culm_joint_samples search_samples_give(struct search_samples *samples); /* borrowed */

#define SEARCH_SAMPLES_FULL                                                                        \
    32 /* samples of a step at which the rate is whole; the root of that for fewer */

/* How models are trained towards what their originals say, `each` samples of every model in a step, at
 * most SEARCH_SAMPLES_FULL. The first rate is its optimizer.lr. */
struct culm_joint_config search_samples_config(int64_t each, uint64_t seed);

#endif
