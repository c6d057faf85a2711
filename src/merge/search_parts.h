/* What all kinds of attempts need: states to go back to, checks, shipping, and training.
 *
 * Private to search.h. */
#ifndef CULM_MERGE_SEARCH_PARTS_H
#define CULM_MERGE_SEARCH_PARTS_H

#include "merge/search.h"

/* A snapshot of values and of what was shared; zeroed: none. Each group of models has a state of
 * its own, which holds the values of its own models and in which the others share nothing; `whole`
 * is the state of all groups together, which is what ships. */
struct search_state {
    float **saved; /* [models]; NULL for models of other groups */
    char *share;
    double *now;                /* [queries]: accuracy at their last checks */
    int64_t bytes;              /* what it saves */
    double least;               /* the smallest ratio (search_ratio) when it shipped */
    const bool *own;            /* [models]: those of the group; NULL: all */
    struct search_state *whole; /* as shipped, over all groups; NULL: this is the whole */
};

enum culm_status search_no_memory(struct culm_error *error);
void search_state_release(struct search_state *state, int32_t count);
/* Replaces the state by a snapshot of what is now. On failure the state is none. */
enum culm_status search_save(const struct culm_search *s, struct search_state *state,
                             struct culm_error *error);
/* Goes back to the snapshot. Values of other groups' models stay as they are. */
void search_restore(const struct culm_search *s, const struct search_state *state);

/* Reports an attempt with what is shared now. `way`: how, see docs/merge.md. */
void search_attempt(struct culm_search *s, const char *way);
/* Whether a model shares any layer. */
bool search_shares(const struct culm_search *s, int32_t model);
/* Gives models that share nothing their original values. */
void search_revert_alone(const struct culm_search *s);
bool search_stopped(const struct culm_search *s);
enum culm_status search_stop(struct culm_error *error);

/* The smallest, over a model's queries, of accuracy divided by the least accuracy allowed: at least
 * 1 is enough. For `culm` the least allowed is the target plus a margin of half a standard error,
 * since checks have few frames, but at most half of what may be lost. HUGE_VAL: the model has no
 * queries. */
double search_ratio(const struct culm_search *s, int32_t model);
/* The accuracy from which on a query has something to spare: half of what it may lose. */
double search_enough(const struct culm_search_query *query);
/* Checks all queries whose models share something. *ret_least: the smallest ratio. With `culm` this
 * first adjusts the objectness of detectors, which changes the bias of their heads. */
enum culm_status search_check(struct culm_search *s, double *ret_least, struct culm_error *error);
/* The same for all queries of one model, whether or not it shares anything. */
enum culm_status search_check_model(struct culm_search *s, int32_t model, struct culm_error *error);
/* Whether all answers of a model to its queries' checked frames are its original's: nothing is
 * missed, and nothing is added. To call after a check. */
enum culm_status search_equals(const struct culm_search *s, int32_t model, bool *ret_equal,
                               struct culm_error *error);
/* The share of the time after which nothing more begins; and whether that point has been
 * reached. */
double search_until(const struct culm_search *s);
bool search_late(const struct culm_search *s);
/* Ships everything as it is now, and stores it in *shipped. For the state of a group, the other
 * groups are put in as they shipped, and models and share are the whole afterwards. */
enum culm_status search_ship(struct culm_search *s, struct search_state *shipped,
                             struct culm_error *error);
/* To call after a check. Ships the models that meet their targets, without those that do not, if
 * that saves more than what shipped last, or as much with more to spare. Models and share are as
 * before afterwards, except after a failure. */
enum culm_status search_offer(struct culm_search *s, struct search_state *shipped,
                              struct culm_error *error);

/* Tries what can be shared by building on another model's layers (search_adopt.c), in one group. To
 * be called without training first, and then with it. rank[models], 0 at first: models that keep
 * their weights from now on, numbered from 1 in the order in which they were settled; 0: not
 * settled. */
enum culm_status search_adopt(struct culm_search *s, int32_t *rank, bool trains,
                              struct search_state *shipped, struct culm_error *error);
/* Lets the models that are not settled share among themselves; models that keep their weights but
 * share with none take no part. */
enum culm_status search_adopt_again(struct culm_search *s, int32_t *rank,
                                    struct search_state *shipped, struct culm_error *error);

/* Trains what is shared now (search_train.c), for `steps` at most; gives up early if that would not
 * come close. harm[instances]: from culm_fit. *ret_taken: steps trained, set even on failure. */
enum culm_status search_train(struct culm_search *s, const double *harm, int64_t steps,
                              struct search_state *shipped, int64_t *ret_taken,
                              struct culm_error *error);

#endif
