/* The samples that models are trained on during a search: every frame as it is, and shifted by a
 * few pixels, every other time mirrored.
 *
 * Private to search.h. */
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
/* The number of samples a step takes of a model, by the size of its pictures. */
int64_t search_samples_each(const struct search_samples *samples);
struct culm_joint_samples search_samples_give(struct search_samples *samples); /* borrowed */

#define SEARCH_SAMPLES_FULL                                                                        \
    32 /* samples a step at the full rate; with fewer it falls with the square root */

/* The configuration for training towards the originals' outputs with `each` samples of every model
 * a step, at most SEARCH_SAMPLES_FULL. The initial learning rate is its optimizer.lr. */
struct culm_joint_config search_samples_config(int64_t each, uint64_t seed);

#endif
