/*
 * Frames for walks through models (fit.h, align.h): evenly spaced, as many as memory holds of all models at
 * once, the same pictures once. And these walks. Inside of search.h; not for others.
 */
#ifndef CULM_MERGE_SEARCH_WALKS_H
#define CULM_MERGE_SEARCH_WALKS_H

#include "merge/search.h"

struct search_walks {
    struct culm_fit_frames *frames; /* [models] */
    bool *own;                      /* [models] */
};

/* Release them also after a failure. */
enum culm_status search_walks_take(const struct culm_search *s, struct search_walks *walks,
                                   struct culm_error *error);
void search_walks_release(const struct culm_search *s, struct search_walks *walks);

/* All models' channels (align.h). */
enum culm_status search_align(const struct culm_search *s, struct culm_error *error);
/* All models that share something, without training (fit.h); the others get their own numbers. */
enum culm_status search_fit(const struct culm_search *s, bool copy, double *ret_harm,
                            struct culm_error *error);
/* One model, but for what is held[parameters]. */
enum culm_status search_fit_alone(const struct culm_search *s, int32_t model, const bool *held,
                                  struct culm_error *error);
/* The same, in place of model number `model`, of one of its structure. */
enum culm_status search_fit_as(const struct culm_search *s, int32_t model,
                               struct culm_merge_model *as, const bool *held,
                               struct culm_error *error);

#endif
