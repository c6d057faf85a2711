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
 *     culm_checks_begin(&checks, &config);
 *     while (culm_checks_state_of(&checks) == CULM_CHECKS_GOING) {
 *         while ((model = culm_checks_next(&checks)) >= 0) {
 *             culm_checks_saw(&checks, model, accuracy of model);
 *         }
 *         if (culm_checks_looked(&checks)) { keep the weights of culm_checks_kept(&checks) }
 *         if (culm_checks_state_of(&checks) == CULM_CHECKS_GOING) {
 *             train culm_checks_batches(&checks) batches, each loss weighted by culm_checks_weight;
 *             culm_checks_trained(&checks, batches, whether the loss is a finite number);
 *         }
 *     }
 *
 * The rules are GEMEL's (NSDI 2023). Sets of models are masks: bit i is model i. Plain data.
 * Thread: one.
 */
#ifndef CULM_MERGE_CHECKS_H
#define CULM_MERGE_CHECKS_H

#include <stdbool.h>
#include <stdint.h>

#define CULM_CHECKS_MODELS_MAX 64
#define CULM_CHECKS_WEIGHT_MAX 10.0

struct culm_checks_config {
    int32_t models;
    double target[CULM_CHECKS_MODELS_MAX]; /* the accuracy that each has to reach, above 0 */
    double epochs;                         /* limit; 0: one look and no training */
    int64_t epoch_batches;                 /* at least 1 */
    /* What a set of models that meet their targets is worth; a set has to be worth more than its
     * subsets; 0: nothing. NULL: the number of models, but 0 for a single one. */
    int64_t (*worth)(void *ctx, uint64_t set);
    void *ctx;
};

enum culm_checks_state {
    CULM_CHECKS_GOING,
    CULM_CHECKS_DONE,  /* every model that was not given up met its target */
    CULM_CHECKS_ENDED, /* no epochs left, or every model that has not met its target was given up */
    CULM_CHECKS_BROKEN, /* the loss was not finite */
};

struct culm_checks_model {
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

struct culm_checks {
    struct culm_checks_config config;
    struct culm_checks_model model[CULM_CHECKS_MODELS_MAX];
    int64_t trained; /* batches */
    int64_t looks;
    enum culm_checks_state state;
    uint64_t kept; /* the best set so far; 0: none */
    int64_t kept_worth;
};

void culm_checks_begin(struct culm_checks *checks, const struct culm_checks_config *config);
/* The model to look at next. -1: this look is over: every model that was not given up has been
 * looked at, or the look can no longer beat what is kept. */
int32_t culm_checks_next(const struct culm_checks *checks);
void culm_checks_saw(struct culm_checks *checks, int32_t model, double accuracy);
/* Ends a look: updates weights and fractions, decides who is given up and whether to go on. True if
 * the set that met its targets is the best so far; culm_checks_kept returns it. */
bool culm_checks_looked(struct culm_checks *checks);
enum culm_checks_state culm_checks_state_of(const struct culm_checks *checks);
uint64_t culm_checks_kept(const struct culm_checks *checks);
/* Batches to train until the next look, at least 1. */
int64_t culm_checks_batches(const struct culm_checks *checks);
double culm_checks_weight(const struct culm_checks *checks, int32_t model);
void culm_checks_trained(struct culm_checks *checks, int64_t batches, bool finite);

#endif
