/* What attempts of any kind need: states to go back to, checks, what ships; and training. Inside of
 * search.h; not for others. */
#ifndef CULM_MERGE_SEARCH_PARTS_H
#define CULM_MERGE_SEARCH_PARTS_H

#include "merge/search.h"

/* All numbers and what was shared; zeroed: none. */
struct search_state {
    float **saved; /* [models] */
    char *share;
    int64_t bytes; /* that it saves */
    double least;  /* as search_check has it; of what shipped */
};

enum culm_status search_no_memory(struct culm_error *error);
void search_state_release(struct search_state *state, int32_t count);
enum culm_status search_save(const struct culm_search *s, struct search_state *state,
                             struct culm_error *error);
void search_restore(const struct culm_search *s, const struct search_state *state);

/* Whether a model shares a layer. */
bool search_shares(const struct culm_search *s, int32_t model);
/* Models that share nothing get their own numbers back. */
void search_revert_alone(const struct culm_search *s);
bool search_stopped(const struct culm_search *s);
enum culm_status search_stop(struct culm_error *error);

/* The least of a model's queries: accuracy over the least that it may be; at least 1 is enough.
 * HUGE_VAL: it has none. */
double search_ratio(const struct culm_search *s, int32_t model);
/* The accuracy with which a query has something to spare. */
double search_enough(const struct culm_search_query *query);
/* Checks every query whose model shares something. ret_least: the least ratio of them. `culm`: detectors
 * become as sure of their boxes as is best for that. */
enum culm_status search_check(struct culm_search *s, double *ret_least, struct culm_error *error);
/* Ships everything as it is. */
enum culm_status search_ship(struct culm_search *s, struct search_state *shipped,
                             struct culm_error *error);
/* After a check: ships what meets its targets, without the models that do not, if that saves more than
 * what shipped last, or as much and with more to spare. The state stays as it is. */
enum culm_status search_offer(struct culm_search *s, struct search_state *shipped,
                              struct culm_error *error);

/* Trains what is shared now (search_train.c), `steps` at most. `harm` by instance, as culm_fit says it; it ends
 * early where that would not get near. ret_taken: steps, always set. */
enum culm_status search_train(struct culm_search *s, const double *harm, int64_t steps,
                              struct search_state *shipped, int64_t *ret_taken,
                              struct culm_error *error);

#endif
