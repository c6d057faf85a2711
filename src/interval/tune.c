/* Finds the number of workers. See tune.h. */
#include "interval/tune.h"

#include <string.h>

#define DECISIONS_MAX 6 /* of the queue's rule, before the search begins */
#define SETTLE 1        /* epochs to ignore after a change: they began with the old number */
#define PATIENCE 20     /* epochs to wait until the wanted number is there */
#define BETTER 0.995    /* a cost must be below this share of the best, else it is noise */
#define OTHER 1.3       /* factor by which a median must be off to count as odd */
#define ODD 3           /* odd medians in a row that start a new search, at first */
#define WORTH 3         /* a trial is made only if so many times its epochs are left */

double culm_gnn_tune_cost(const struct culm_gnn_tune_options *options, int32_t workers,
                          double seconds) {
    double usd = seconds * (options->usd_per_s + workers * options->worker_usd_per_s);
    switch (options->goal) {
    case CULM_GNN_TUNE_TIME: return seconds;
    case CULM_GNN_TUNE_DOLLARS: return usd;
    case CULM_GNN_TUNE_VALUE: return seconds * usd;
    }
    return seconds;
}

static double cost_of(const struct culm_gnn_tuner *tuner, int32_t workers) {
    return culm_gnn_tune_cost(&tuner->o, workers, tuner->measured[workers]);
}

void culm_gnn_tune_init(struct culm_gnn_tuner *tuner, const struct culm_gnn_tune_options *options) {
    memset(tuner, 0, sizeof *tuner);
    tuner->o = *options;
    tuner->workers = options->first;
    tuner->why = "as many as there may be, to begin with";
    tuner->odd_enough = ODD;
    tuner->queue = tuner->best = -1;
}

/* True: the number has changed. */
static bool change(struct culm_gnn_tuner *tuner, int32_t workers, const char *why) {
    if (workers == tuner->workers) {
        return false;
    }
    tuner->workers = workers;
    tuner->why = why;
    tuner->settling = SETTLE;
    tuner->waited = tuner->taken = 0;
    tuner->gathers = tuner->applies = 0;
    return true;
}

static double median(const double *value, int32_t count) {
    double sorted[CULM_GNN_TUNE_SAMPLES_MAX];
    for (int32_t i = 0; i < count; i++) {
        int32_t at = i;
        for (; at > 0 && sorted[at - 1] > value[i]; at--) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = value[i];
    }
    return (sorted[count / 2] + sorted[(count - 1) / 2]) / 2;
}

/* --- the search --- */

static bool keep(struct culm_gnn_tuner *tuner, const char *why) {
    tuner->stage = CULM_GNN_TUNE_KEEP;
    return change(tuner, tuner->best, why);
}

/* A number of workers one step from the best that has not been tried; -1: there is none. */
static int32_t untried(const struct culm_gnn_tuner *tuner) {
    for (int side = 0; side < 2; side++) {
        int32_t step = (side == 0) == tuner->more_first ? tuner->step : -tuner->step;
        int32_t next = tuner->best + step;
        next = next < 0 ? 0 : next > tuner->o.most ? tuner->o.most : next;
        if (next != tuner->best && tuner->measured[next] <= 0) {
            return next;
        }
    }
    return -1;
}

/* Chooses what to try next, or ends the search. True: the number has changed. */
static bool search(struct culm_gnn_tuner *tuner, int64_t left) {
    int32_t next;
    while ((next = untried(tuner)) < 0 && tuner->step > 1) {
        tuner->step /= 2;
    }
    if (next < 0) {
        return keep(tuner, "the best of those that were tried");
    }
    if (left < (int64_t)WORTH * (tuner->o.samples + SETTLE)) {
        return keep(tuner, "the best of those that were tried; too few epochs are left for more");
    }
    return change(tuner, next,
                  next < tuner->best ? "whether fewer are better" : "whether more are better");
}

static void begin_search(struct culm_gnn_tuner *tuner) {
    tuner->stage = CULM_GNN_TUNE_SEARCH;
    tuner->best = tuner->workers;
    for (int32_t n = 0; n <= tuner->o.most; n++) {
        if (tuner->measured[n] > 0 && cost_of(tuner, n) < cost_of(tuner, tuner->best)) {
            tuner->best = n;
        }
    }
    tuner->step = tuner->best / 2 > 1 ? tuner->best / 2 : 1;
}

static bool judge(struct culm_gnn_tuner *tuner, int64_t left) {
    if (cost_of(tuner, tuner->workers) < BETTER * cost_of(tuner, tuner->best)) {
        tuner->more_first = tuner->workers > tuner->best;
        tuner->best = tuner->workers;
    }
    return search(tuner, left);
}

/* --- the queue --- */

/* +1: there should be more workers; -1: fewer; 0: the queue is steady. */
static int32_t trend(const struct culm_gnn_tuner *tuner) {
    double now = tuner->gathers, before = tuner->queue, free = tuner->applies;
    if (before < 0) {
        return now > free + 0.5 ? -1 : free > now + 0.5 ? 1 : 0;
    }
    return now > 1.1 * before + 0.25 ? -1 : now < 0.75 * before - 0.25 ? 1 : 0;
}

static bool follow_queue(struct culm_gnn_tuner *tuner, int64_t left) {
    int32_t where = trend(tuner), now = tuner->workers;
    int32_t quarter = now / 4 > 1 ? now / 4 : 1, next = now + where * quarter;
    bool turns = tuner->direction != 0 && where != 0 && where != tuner->direction;
    next = next < 1 ? 1 : next > tuner->o.most ? tuner->o.most : next;
    tuner->queue = tuner->gathers;
    if (where == 0 || turns || next == now || ++tuner->decisions > DECISIONS_MAX) {
        begin_search(tuner);
        return search(tuner, left);
    }
    tuner->direction = where;
    return change(tuner, next,
                  where < 0 ? "servers cannot take what workers make: their queue grows"
                            : "servers' queue runs empty, and tasks wait for workers");
}

/* --- epochs --- */

/* Whether epochs have changed so much that the result no longer holds. If so, begins a new search
 * from the current number. */
static bool has_changed(struct culm_gnn_tuner *tuner, double seconds) {
    double known = tuner->measured[tuner->workers];
    bool other = seconds > OTHER * known || seconds * OTHER < known;
    tuner->odd = other ? tuner->odd + 1 : 0;
    if (tuner->odd < tuner->odd_enough) {
        return false;
    }
    tuner->odd = 0;
    tuner->odd_enough *= 2;
    memset(tuner->measured, 0, sizeof tuner->measured);
    tuner->measured[tuner->workers] = seconds;
    begin_search(tuner);
    tuner->step = tuner->best / 4 > 1 ? tuner->best / 4 : 1;
    return true;
}

static bool decide(struct culm_gnn_tuner *tuner, int64_t left) {
    double seconds = median(tuner->seconds, tuner->taken);
    tuner->gathers /= tuner->taken;
    tuner->applies /= tuner->taken;
    bool changed = false;
    if (tuner->stage == CULM_GNN_TUNE_KEEP) {
        changed = has_changed(tuner, seconds) && search(tuner, left);
    } else {
        tuner->measured[tuner->workers] = seconds;
        changed =
            tuner->stage == CULM_GNN_TUNE_QUEUE ? follow_queue(tuner, left) : judge(tuner, left);
    }
    tuner->taken = 0;
    tuner->gathers = tuner->applies = 0;
    return changed;
}

bool culm_gnn_tune_add(struct culm_gnn_tuner *tuner, const struct culm_gnn_tune_epoch *epoch) {
    if (epoch->workers != tuner->workers && tuner->waited < PATIENCE) {
        tuner->waited++; /* workers are still joining or leaving */
        tuner->taken = 0;
        tuner->gathers = tuner->applies = 0;
        tuner->settling = SETTLE;
        return false;
    }
    tuner->waited = epoch->workers == tuner->workers ? 0 : tuner->waited;
    if (tuner->settling > 0) {
        tuner->settling--;
        return false;
    }
    tuner->seconds[tuner->taken++] = epoch->seconds;
    tuner->gathers += epoch->gathers;
    tuner->applies += epoch->applies;
    double sum = 0;
    for (int32_t i = 0; i < tuner->taken; i++) {
        sum += tuner->seconds[i];
    }
    bool enough = (tuner->taken >= tuner->o.samples && sum >= tuner->o.least_s) ||
                  tuner->taken == CULM_GNN_TUNE_SAMPLES_MAX;
    return enough && decide(tuner, epoch->left);
}
