/* What attempts of any kind need: states to go back to, checks, what ships; and training. Inside of
 * search.h; not for others. */
#ifndef CULM_MERGE_SEARCH_PARTS_H
#define CULM_MERGE_SEARCH_PARTS_H

#include "merge/search.h"

/* Numbers and what was shared; zeroed: none. Where models are searched group by group, each group has a
 * state of its own, with the numbers of its own models and in which the others share nothing, and what
 * ships is the whole. */
struct search_state {
    float **saved; /* [models]; NULL for those of other groups */
    char *share;
    int64_t bytes;              /* that it saves */
    double least;               /* as search_check has it; of what shipped */
    const bool *own;            /* [models] of the group; NULL: all */
    struct search_state *whole; /* of all groups, of what shipped; NULL: this one */
};

enum culm_status search_no_memory(struct culm_error *error);
void search_state_release(struct search_state *state, int32_t count);
/* In place of what the state was, also after a failure: then it is none. */
enum culm_status search_save(const struct culm_search *s, struct search_state *state,
                             struct culm_error *error);
/* Models of other groups stay as they are. */
void search_restore(const struct culm_search *s, const struct search_state *state);

/* Tells of an attempt, by its way: what is shared now. */
void search_attempt(struct culm_search *s, const char *way);
/* Whether a model shares a layer. */
bool search_shares(const struct culm_search *s, int32_t model);
/* Models that share nothing get their own numbers back. */
void search_revert_alone(const struct culm_search *s);
bool search_stopped(const struct culm_search *s);
enum culm_status search_stop(struct culm_error *error);

/* The least of a model's queries: accuracy over the least that it may be; at least 1 is enough. `culm` asks
 * for half a standard error more than the target, where the frames that are checked are few, and no more than
 * half of what may be lost. HUGE_VAL: it has none. */
double search_ratio(const struct culm_search *s, int32_t model);
/* The accuracy with which a query has something to spare. */
double search_enough(const struct culm_search_query *query);
/* Checks every query whose model shares something. ret_least: the least ratio of them. `culm`: detectors
 * become as sure of their boxes as is best for that. */
enum culm_status search_check(struct culm_search *s, double *ret_least, struct culm_error *error);
/* The same of one model's queries, whether it shares or not. */
enum culm_status search_check_model(struct culm_search *s, int32_t model, struct culm_error *error);
/* The share of the time after which nothing begins; whether that is over. */
double search_until(const struct culm_search *s);
bool search_late(const struct culm_search *s);
/* Ships everything as it is; of a group, the whole is left behind. */
enum culm_status search_ship(struct culm_search *s, struct search_state *shipped,
                             struct culm_error *error);
/* After a check: ships what meets its targets, without the models that do not, if that saves more than
 * what shipped last, or as much and with more to spare. The state stays as it is. */
enum culm_status search_offer(struct culm_search *s, struct search_state *shipped,
                              struct culm_error *error);

/* What can be shared by taking over another model's numbers (search_adopt.c), by the models of a group,
 * rank[models]: those that keep their numbers, in the order in which they came to that, from 1; 0: not yet. Called first
 * without training, then with it. */
enum culm_status search_adopt(struct culm_search *s, int32_t *rank, bool trains,
                              struct search_state *shipped, struct culm_error *error);
/* Those that have not come to that share among themselves, without those that keep their numbers for nobody. */
enum culm_status search_adopt_again(struct culm_search *s, int32_t *rank,
                                    struct search_state *shipped, struct culm_error *error);

/* Trains what is shared now (search_train.c), `steps` at most. `harm` by instance, as culm_fit says it; it ends
 * early where that would not get near. ret_taken: steps, always set. */
enum culm_status search_train(struct culm_search *s, const double *harm, int64_t steps,
                              struct search_state *shipped, int64_t *ret_taken,
                              struct culm_error *error);

#endif
