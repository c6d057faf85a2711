/*
 * What attempts to tie layers share: which layers could have one tensor; which of them are worth trying
 * (search_ties_find.c); fitting and training the models that have one that was tied (search_ties_train.c). Inside of
 * search_ties.h; not for others.
 */
#ifndef CULM_MERGE_SEARCH_TIES_PARTS_H
#define CULM_MERGE_SEARCH_TIES_PARTS_H

#include "merge/search_parts.h"

struct search_ties {
    struct culm_search *s;
    struct search_state *shipped;
    bool **idle;   /* [models][layers] */
    int32_t *kin;  /* [models]: the first of those that share with it, at whatever distance */
    int32_t whose; /* kin of the models that are tied now */
};

struct search_tie_candidate {
    struct culm_member layer, from;
    int64_t bytes;
    double harm;
};

void search_ties_release(struct search_ties *t); /* fine on a zeroed struct but for `s` */

/* Whether it is a model of the group that may be merged. */
bool search_ties_own(const struct search_ties *t, int32_t model);
/* Which layers each model does without (idle.h). */
enum culm_status search_ties_find_idle(struct search_ties *t, struct culm_error *error);
const struct culm_vision_layer *search_ties_layer(const struct search_ties *t,
                                                  struct culm_member m);
bool search_ties_same(struct culm_member a, struct culm_member b);
/* Whether two layers could have one tensor, and have two. */
bool search_ties_could(const struct search_ties *t, struct culm_member a, struct culm_member b);
#define SEARCH_TIES_NOWHERE ((struct culm_member){-1, -1})
/* The next layer of the group's models that has a tensor of its own; *at begins as SEARCH_TIES_NOWHERE. False: there is none. */
bool search_ties_next(const struct search_ties *t, struct culm_member *at);
/* `layer`, and all that share with it, get the numbers of `from`. */
void search_ties_tie(const struct search_ties *t, struct culm_member layer,
                     struct culm_member from);

/* Of the models that are tied now, by what they are worth: candidate[layers of all models]. */
enum culm_status search_ties_find(const struct search_ties *t,
                                  struct search_tie_candidate *candidate, int32_t *ret_count,
                                  struct culm_error *error);

/* Batch norms make what they made before as well as they can: `before` are the model's numbers then. */
enum culm_status search_ties_fit_norms(const struct search_ties *t, int32_t model,
                                       const float *before, struct culm_error *error);
/* Checks the models hit[models]. ret_met: whether all have something to spare. */
enum culm_status search_ties_check(const struct search_ties *t, const bool *hit, bool *ret_met,
                                   double *ret_least, struct culm_error *error);
/* Trains them until that is so; it ends early where it would not get there. `before`: the least of the check before it. */
enum culm_status search_ties_train(const struct search_ties *t, const bool *hit, double before,
                                   bool *ret_met, struct culm_error *error);

#endif
