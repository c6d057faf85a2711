/*
 * Shared by the files that tie layers: which layers could have one tensor, which of those are worth
 * a try (search_ties_find.c), and fitting and training the models concerned (search_ties_train.c).
 *
 * Private to search_ties.h.
 */
#ifndef CULM_MERGE_SEARCH_TIES_PARTS_H
#define CULM_MERGE_SEARCH_TIES_PARTS_H

#include "merge/search_parts.h"

struct search_ties {
    struct culm_search *s;
    struct search_state *shipped;
    bool **idle;   /* [models][layers]: whether the layer is idle (idle.h) */
    int32_t *kin;  /* [models]: the lowest index among models it shares with, directly or not */
    int32_t whose; /* the `kin` of the models at hand */
};

struct search_tie_candidate {
    struct culm_member layer, from;
    int64_t bytes;
    double harm;
};

void search_ties_release(struct search_ties *t); /* fine if only `s` is set */

/* Whether a model may be merged and is in the group. */
bool search_ties_own(const struct search_ties *t, int32_t model);
/* Fills in `idle`. */
enum culm_status search_ties_find_idle(struct search_ties *t, struct culm_error *error);
const struct culm_vision_layer *search_ties_layer(const struct search_ties *t,
                                                  struct culm_member m);
bool search_ties_same(struct culm_member a, struct culm_member b);
/* Whether two layers could have one tensor but do not. */
bool search_ties_could(const struct search_ties *t, struct culm_member a, struct culm_member b);
#define SEARCH_TIES_NOWHERE ((struct culm_member){-1, -1})
/* Iterates over the layers of the group that hold a tensor: those that are first of all that share
 * it. *at starts as SEARCH_TIES_NOWHERE. False: there are no more. */
bool search_ties_next(const struct search_ties *t, struct culm_member *at);
/* Ties two layers. `layer` and all that share with it take the weights of `from`. */
void search_ties_tie(const struct search_ties *t, struct culm_member layer,
                     struct culm_member from);

/* The candidates of the models at hand, best first: candidate[layers of all models] has to be large
 * enough. */
enum culm_status search_ties_find(const struct search_ties *t,
                                  struct search_tie_candidate *candidate, int32_t *ret_count,
                                  struct culm_error *error);

/* Fits the batch norms of a model to what they put out before. `before`: the model's values then,
 * from culm_merge_model_save. */
enum culm_status search_ties_fit_norms(const struct search_ties *t, int32_t model,
                                       const float *before, struct culm_error *error);
/* Checks the models with hit[models]. *ret_met: whether all have something to spare. *ret_least:
 * the smallest ratio. */
enum culm_status search_ties_check(const struct search_ties *t, const bool *hit, bool *ret_met,
                                   double *ret_least, struct culm_error *error);
/* Trains the models with hit[models] until all have something to spare; gives up early if it would
 * not get there. `before`: *ret_least of the check before. */
enum culm_status search_ties_train(const struct search_ties *t, const bool *hit, double before,
                                   bool *ret_met, struct culm_error *error);

#endif
