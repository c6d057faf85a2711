/* When joint training checks, and when it ends. See checks.h. */
#include "merge/checks.h"

#include "base/exact.h"

#include <math.h>
#include <string.h>

#define FIRST_LIFT 0.1  /* assumed gain, as a share of the target, at a model's first look */
#define SLOW_LOOKS 2    /* this many slow looks in a row, ... */
#define SLOW_EPOCHS 2.0 /* ... spanning this many epochs, and a model is given up */
#define WEIGHT_POWER 0.75
#define ROUNDING 1e-6 /* tolerance, in batches */

static uint64_t bit(int32_t model) { return (uint64_t)1 << model; }

static int64_t worth_of(const struct culm_checks *checks, uint64_t set) {
    if (checks->config.worth) {
        return checks->config.worth(checks->config.ctx, set);
    }
    int64_t count = __builtin_popcountll(set);
    return count > 1 ? count : 0;
}

void culm_checks_begin(struct culm_checks *checks, const struct culm_checks_config *config) {
    memset(checks, 0, sizeof *checks);
    checks->config = *config;
    for (int32_t i = 0; i < config->models; i++) {
        checks->model[i] =
            (struct culm_checks_model){.accuracy = -1, .fraction = 1, .weight = 1, .slow_from = -1};
    }
}

enum culm_checks_state culm_checks_state_of(const struct culm_checks *checks) {
    return checks->state;
}
uint64_t culm_checks_kept(const struct culm_checks *checks) { return checks->kept; }

double culm_checks_weight(const struct culm_checks *checks, int32_t model) {
    return checks->model[model].weight;
}

static double epochs_of(const struct culm_checks *checks) {
    return (double)checks->trained / (double)checks->config.epoch_batches;
}

/* --- a look --- */

/* The models that may still meet their targets in this look. */
static uint64_t not_short(const struct culm_checks *checks) {
    uint64_t set = 0;
    for (int32_t i = 0; i < checks->config.models; i++) {
        const struct culm_checks_model *model = &checks->model[i];
        set |= !model->given_up && (!model->looked_at || model->met) ? bit(i) : 0;
    }
    return set;
}

/* The model nearest to its target; the first of equals. */
int32_t culm_checks_next(const struct culm_checks *checks) {
    if (checks->kept && worth_of(checks, not_short(checks)) <= checks->kept_worth) {
        return -1;
    }
    int32_t best = -1;
    for (int32_t i = 0; i < checks->config.models; i++) {
        const struct culm_checks_model *model = &checks->model[i];
        if (!model->looked_at && !model->given_up &&
            (best < 0 || model->fraction < checks->model[best].fraction)) {
            best = i;
        }
    }
    return best;
}

static double gap_of(const struct culm_checks *checks, int32_t i, double accuracy) {
    double gap = 1 - accuracy / checks->config.target[i];
    return gap > 0 ? gap : 0;
}

/* Whether, at its rate since the last look, the model will miss its target when the epochs end. */
static bool too_slow(const struct culm_checks *checks, int32_t i, double accuracy) {
    const struct culm_checks_model *model = &checks->model[i];
    double now = epochs_of(checks), past = now - model->seen_at;
    if (model->accuracy < 0 || past <= 0) {
        return false;
    }
    double speed = (accuracy - model->accuracy) / past;
    return accuracy + speed * (checks->config.epochs - now) < checks->config.target[i];
}

void culm_checks_saw(struct culm_checks *checks, int32_t i, double accuracy) {
    struct culm_checks_model *model = &checks->model[i];
    const double target = checks->config.target[i];
    double gap = gap_of(checks, i, accuracy), lift = FIRST_LIFT;
    if (model->accuracy >= 0) {
        lift = (accuracy - model->accuracy) / target;
    }
    model->met = accuracy >= target;
    model->fraction = lift > 0 && gap < lift ? gap / lift : gap > 0 ? 1 : 0;
    if (!model->met && too_slow(checks, i, accuracy)) {
        model->slow_from = model->slow ? model->slow_from : model->seen_at;
        model->slow++;
    } else {
        model->slow = 0;
        model->slow_from = -1;
    }
    model->weight = CULM_CHECKS_WEIGHT_MAX;
    if (accuracy > 0) {
        model->weight =
            fmin(culm_exact_pow(target / accuracy, WEIGHT_POWER), CULM_CHECKS_WEIGHT_MAX);
    }
    model->accuracy = accuracy;
    model->seen_at = epochs_of(checks);
    model->looked_at = true;
}

bool culm_checks_looked(struct culm_checks *checks) {
    uint64_t there = 0;
    bool all = true, hope = false;
    for (int32_t i = 0; i < checks->config.models; i++) {
        struct culm_checks_model *model = &checks->model[i];
        there |= model->looked_at && model->met ? bit(i) : 0;
        if (!model->met && model->slow >= SLOW_LOOKS &&
            model->seen_at - model->slow_from >= SLOW_EPOCHS) {
            model->given_up = true;
        }
        bool ready = model->looked_at && model->met;
        all = all && (ready || model->given_up);
        hope = hope || (!ready && !model->given_up);
    }
    int64_t worth = worth_of(checks, there);
    bool better = worth > checks->kept_worth;
    if (better) {
        checks->kept = there;
        checks->kept_worth = worth;
    }
    for (int32_t i = 0; i < checks->config.models; i++) {
        checks->model[i].looked_at = false;
    }
    checks->looks++;
    if (all && there) {
        checks->state = CULM_CHECKS_DONE;
    } else if (!hope || epochs_of(checks) >= checks->config.epochs) {
        checks->state = CULM_CHECKS_ENDED;
    }
    return better;
}

/* --- training --- */

int64_t culm_checks_batches(const struct culm_checks *checks) {
    double fraction = 1;
    for (int32_t i = 0; i < checks->config.models; i++) {
        const struct culm_checks_model *model = &checks->model[i];
        if (!model->met && !model->given_up && model->fraction < fraction) {
            fraction = model->fraction;
        }
    }
    const double epoch = (double)checks->config.epoch_batches;
    int64_t batches = (int64_t)ceil(fraction * epoch - ROUNDING);
    int64_t left = (int64_t)ceil(checks->config.epochs * epoch - ROUNDING) - checks->trained;
    batches = batches < left ? batches : left;
    return batches > 1 ? batches : 1;
}

void culm_checks_trained(struct culm_checks *checks, int64_t batches, bool finite) {
    checks->trained += batches;
    if (!finite) {
        checks->state = CULM_CHECKS_BROKEN;
    }
}
