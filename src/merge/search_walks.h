/*
 * Walks through models (fit.h, align.h), and the frames for them: evenly spaced, as many as memory holds for all models
 * at once. Models that read the same pictures have the same frames. Inside of search.h; not for others.
 */
#ifndef CULM_MERGE_SEARCH_WALKS_H
#define CULM_MERGE_SEARCH_WALKS_H

#include "merge/search.h"

struct search_walks {
    struct culm_fit_frames *frames; /* [models] */
    bool *own;                      /* [models]: its frames were copied */
};

/* Release them also after a failure. */
enum culm_status search_walks_take(const struct culm_search *s, struct search_walks *walks,
                                   struct culm_error *error);
void search_walks_release(const struct culm_search *s, struct search_walks *walks);

/* Aligns the channels of all models (align.h). */
enum culm_status search_align(const struct culm_search *s, struct culm_error *error);
/* Fits all models that share something, without training (fit.h); the others get their own numbers. */
enum culm_status search_fit(const struct culm_search *s, bool copy, double *ret_harm,
                            struct culm_error *error);
/* Fits one model, except for held[parameters], which stay. */
enum culm_status search_fit_alone(const struct culm_search *s, int32_t model, const bool *held,
                                  struct culm_error *error);
/* The same of `as`, a model of the same structure, in place of model number `model`. */
enum culm_status search_fit_as(const struct culm_search *s, int32_t model,
                               struct culm_merge_model *as, const bool *held,
                               struct culm_error *error);

#endif
