/*
 * When joint training looks at its models, which of them it looks at, and when it ends: decisions
 * alone, no numbers of models and no time.
 *
 * Models are trained together until each answers as well as its target asks. Looking costs a pass
 * over frames, so the next look comes when the model that is nearest to its target may be there; a
 * look begins with that model and ends as soon as it can no longer be the best. The first look comes
 * before any training. Models that would not be there in time are given up; a set of models that are
 * there, better than all before, is to be kept at once.
 *
 *     culm_pace_begin(&pace, &config);
 *     while (culm_pace_state(&pace) == CULM_PACE_GOING) {
 *         while ((model = culm_pace_next(&pace)) >= 0) {
 *             culm_pace_saw(&pace, model, accuracy of model);
 *         }
 *         if (culm_pace_looked(&pace)) { keep the weights of culm_pace_kept(&pace) }
 *         if (culm_pace_state(&pace) == CULM_PACE_GOING) {
 *             train culm_pace_batches(&pace) batches, each loss weighted by culm_pace_weight;
 *             culm_pace_trained(&pace, batches, whether the loss is a finite number);
 *         }
 *     }
 *
 * The rules are those of GEMEL (NSDI 2023). Sets are masks: bit i is model i. Plain data. Thread:
 * one.
 */
#ifndef CULM_MERGE_PACE_H
#define CULM_MERGE_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define CULM_PACE_MODELS_MAX 64
#define CULM_PACE_WEIGHT_MAX 10.0

struct culm_pace_config {
    int32_t models;
    double target[CULM_PACE_MODELS_MAX]; /* the least accuracy of each, above 0 */
    double epochs;                       /* at most; 0: a look and no training */
    int64_t epoch_batches;               /* at least 1 */
    /* What a set of models that are there is worth, more for a set than for its parts; 0: nothing.
     * NULL: how many models, 0 for one alone. */
    int64_t (*worth)(void *ctx, uint64_t set);
    void *ctx;
};

enum culm_pace_state {
    CULM_PACE_GOING,
    CULM_PACE_DONE,   /* all that were not given up are there */
    CULM_PACE_ENDED,  /* no more epochs, or every model that is not there was given up */
    CULM_PACE_BROKEN, /* the loss was not a number */
};

struct culm_pace_model {
    double accuracy; /* at its last look; -1: none yet */
    double seen_at;  /* epochs trained by then */
    double fraction; /* of an epoch that may close its gap */
    double weight;   /* of its loss */
    /* Of its latest looks, those in a row by which it would not get there: how many; and the epochs
     * trained at the look before the first of them, -1: there is none. */
    int32_t slow;
    double slow_from;
    bool met, given_up, looked_at;
};

struct culm_pace {
    struct culm_pace_config config;
    struct culm_pace_model model[CULM_PACE_MODELS_MAX];
    int64_t trained; /* batches */
    int64_t looks;
    enum culm_pace_state state;
    uint64_t kept; /* the best set so far; 0: none */
    int64_t kept_worth;
};

void culm_pace_begin(struct culm_pace *pace, const struct culm_pace_config *config);
/* The model to look at next; -1: this look is over, because all models were looked at but those given
 * up, or because it cannot become better than what is kept. */
int32_t culm_pace_next(const struct culm_pace *pace);
void culm_pace_saw(struct culm_pace *pace, int32_t model, double accuracy);
/* Ends a look: weights, fractions, who is given up, how it goes on. True when the set that is there
 * is the best so far, which culm_pace_kept then says. */
bool culm_pace_looked(struct culm_pace *pace);
enum culm_pace_state culm_pace_state(const struct culm_pace *pace);
uint64_t culm_pace_kept(const struct culm_pace *pace);
/* How many batches until the next look, at least 1. */
int64_t culm_pace_batches(const struct culm_pace *pace);
double culm_pace_weight(const struct culm_pace *pace, int32_t model);
void culm_pace_trained(struct culm_pace *pace, int64_t batches, bool finite);

#endif
