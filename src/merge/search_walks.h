/*
 * Walks models without training (fit.h, align.h), on as many evenly spaced frames as memory holds
 * for all models at once. Models that read the same pictures get the same frames, at the same
 * address.
 *
 * Private to search.h.
 */
#ifndef CULM_MERGE_SEARCH_WALKS_H
#define CULM_MERGE_SEARCH_WALKS_H

#include "merge/search.h"

struct search_walks {
    struct culm_fit_frames *frames; /* [models] */
    bool *own;                      /* [models]: whether its frames are a copy to free */
};

/* Release the walks even after a failure. */
enum culm_status search_walks_take(const struct culm_search *s, struct search_walks *walks,
                                   struct culm_error *error);
void search_walks_release(const struct culm_search *s, struct search_walks *walks);

/* Aligns the channels of all models (align.h). */
enum culm_status search_align(const struct culm_search *s, struct culm_error *error);
/* Fits all models that share something (culm_fit); all others get their original values. ret_harm
 * and `copy`: as in culm_fit. */
enum culm_status search_fit(const struct culm_search *s, bool copy, double *ret_harm,
                            struct culm_error *error);
/* Fits one model (culm_fit_alone). held[parameters]: those that keep their values. */
enum culm_status search_fit_alone(const struct culm_search *s, int32_t model, const bool *held,
                                  struct culm_error *error);
/* The same for `as`, which has the structure of model number `model`, on that model's frames. */
enum culm_status search_fit_as(const struct culm_search *s, int32_t model,
                               struct culm_merge_model *as, const bool *held,
                               struct culm_error *error);
/* Tries layers of one model with other weights, each alone (culm_fit_try). */
enum culm_status search_try_layers(const struct culm_search *s, int32_t model,
                                   struct culm_fit_trial *trials, int32_t count,
                                   struct culm_error *error);

#endif
