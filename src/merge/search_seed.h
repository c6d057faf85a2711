/*
 * Going on from what an earlier search has found: models that were settled then keep their weights,
 * and what they share; the others are searched as ever, and build on these.
 *
 * A kept model is taken as it is. The channels of the others are brought into its order (align.h),
 * and it is its own teacher where ties are trained. It has to meet its targets on the frames of
 * now; one that does not begins again with its original's weights. So does one that shares nothing
 * any more, because those that it shared with are gone.
 *
 * Thread: the device's.
 */
#ifndef CULM_MERGE_SEARCH_SEED_H
#define CULM_MERGE_SEARCH_SEED_H

#include "merge/search.h"

struct culm_search_seed {
    /* [models]: the parameters that a model had, as culm_merge_model_save has them; NULL: it was
     * not there, or is to begin again. */
    float **value;
    /* [models][layers], of those: layers with the same number, counted from 1, had one tensor; 0:
     * its own. */
    int32_t **tensor;
    const bool *tried; /* [models]: it could share nothing; it is not to be tried once more */
    bool ship;         /* what is kept is a round at once: the queries are others */
};

/* --- private to search.c --- */

struct search_groups;
struct search_state;

/* Joins up[models], a union-find, where kept models share a tensor. */
void search_seed_join(const struct culm_search *s, int32_t *up);
/* Checks the kept models on the frames of now, and forgets those that are to begin again. To call
 * before groups are found. CULM_ERR_STOPPED. */
enum culm_status search_seed_check(struct culm_search *s, struct culm_error *error);
/* Puts the kept models of a group in (-1: of all), and leaves the others out. */
void search_seed_put(const struct culm_search *s, const struct search_groups *groups,
                     int32_t group);
/* Ranks the kept models, those first on which others were built, and those that are not to be tried
 * again. rank[models] is 0 before. */
void search_seed_rank(const struct culm_search *s, const struct search_groups *groups,
                      int32_t *rank);
/* The bytes that models of the group which are not settled could take over. */
int64_t search_seed_open(const struct culm_search *s, const struct search_groups *groups,
                         int32_t group, const int32_t *rank);

#endif
