/*
 * When joint training checks its models, which ones, and when it ends. Decisions only: it sees no
 * weights and no clock.
 *
 * Models are trained together until each meets its target accuracy. A check costs a pass over
 * frames, so the next look comes when the model nearest to its target may have reached it. A look
 * starts with that model and stops as soon as it can no longer beat the best so far. The first look
 * comes before any training. Models that will not make it in time are given up. A set of models
 * that meet their targets and is better than all before should be kept at once.
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
 * The rules are GEMEL's (NSDI 2023). Sets of models are masks: bit i is model i. Plain data.
 * Thread: one.
 */
#ifndef CULM_MERGE_PACE_H
#define CULM_MERGE_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define CULM_PACE_MODELS_MAX 64
#define CULM_PACE_WEIGHT_MAX 10.0

struct culm_pace_config {
    int32_t models;
    double target[CULM_PACE_MODELS_MAX]; /* the accuracy that each has to reach, above 0 */
    double epochs;                       /* limit; 0: one look and no training */
    int64_t epoch_batches;               /* at least 1 */
    /* What a set of models that meet their targets is worth; a set has to be worth more than its
     * subsets; 0: nothing. NULL: the number of models, but 0 for a single one. */
    int64_t (*worth)(void *ctx, uint64_t set);
    void *ctx;
};

enum culm_pace_state {
    CULM_PACE_GOING,
    CULM_PACE_DONE,   /* every model that was not given up met its target */
    CULM_PACE_ENDED,  /* no epochs left, or every model that has not met its target was given up */
    CULM_PACE_BROKEN, /* the loss was not finite */
};

struct culm_pace_model {
    double accuracy; /* at the last look; -1: not looked at yet */
    double seen_at;  /* epochs trained before the last look */
    double fraction; /* of an epoch, that may suffice to close the gap */
    double weight;   /* of the model's loss */
    /* How many of its latest looks in a row said that it will not make it; and the epochs trained
     * at the look before the first of these, -1 if there is none. */
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
/* The model to look at next. -1: this look is over: every model that was not given up has been
 * looked at, or the look can no longer beat what is kept. */
int32_t culm_pace_next(const struct culm_pace *pace);
void culm_pace_saw(struct culm_pace *pace, int32_t model, double accuracy);
/* Ends a look: updates weights and fractions, decides who is given up and whether to go on. True if
 * the set that met its targets is the best so far; culm_pace_kept returns it. */
bool culm_pace_looked(struct culm_pace *pace);
enum culm_pace_state culm_pace_state(const struct culm_pace *pace);
uint64_t culm_pace_kept(const struct culm_pace *pace);
/* Batches to train until the next look, at least 1. */
int64_t culm_pace_batches(const struct culm_pace *pace);
double culm_pace_weight(const struct culm_pace *pace, int32_t model);
void culm_pace_trained(struct culm_pace *pace, int64_t batches, bool finite);

#endif
