/* Drift, as a binomial test over a few checks. See drift.h. */
#include "edge/drift.h"

#include <math.h>
#include <stddef.h>

/* The probability of at least `least` of `count`. Terms of the distribution are computed relative
 * to the largest one, from there upwards and downwards, so that nothing underflows and the result
 * does not depend on functions of the C library. */
static double tail(int64_t count, int64_t least, double each) {
    double all = 1, upper, term = 1;
    if (least <= 0 || each >= 1) {
        return least <= count ? 1 : 0;
    }
    if (each <= 0) {
        return 0;
    }
    const double odds = each / (1 - each);
    const int64_t middle = (int64_t)((double)(count + 1) * each) < count
                               ? (int64_t)((double)(count + 1) * each)
                               : count;
    upper = middle >= least;
    for (int64_t k = middle; k < count; k++) {
        term *= (double)(count - k) / (double)(k + 1) * odds;
        all += term;
        upper += k + 1 >= least ? term : 0;
    }
    term = 1;
    for (int64_t k = middle; k > 0; k--) {
        term *= (double)k / (double)(count - k + 1) / odds;
        all += term;
        upper += k - 1 >= least ? term : 0;
    }
    return upper / all;
}

double culm_edge_drift_chance(int64_t count, double misses, double each) {
    double whole = floor(misses), part = misses - whole;
    double low = tail(count, (int64_t)whole, each);
    return part > 0 ? low + part * (tail(count, (int64_t)whole + 1, each) - low) : low;
}

enum culm_edge_drift_action culm_edge_drift_check(struct culm_edge_drift *drift, int64_t frames,
                                                  double right, double promised,
                                                  double *ret_chance) {
    struct culm_edge_drift now = *drift;
    now.checks++;
    now.frames += frames;
    now.misses += (double)frames * (1 - right);
    now.allowed += (double)frames * (1 - promised);
    double chance =
        culm_edge_drift_chance(now.frames, now.misses, now.allowed / (double)now.frames);
    enum culm_edge_drift_action action = chance >= CULM_EDGE_DRIFT_WATCHED ? CULM_EDGE_DRIFT_NONE
                                         : now.checks > 1 && chance < CULM_EDGE_DRIFT_REVERTED
                                             ? CULM_EDGE_DRIFT_REVERT
                                             : CULM_EDGE_DRIFT_WATCH;
    *drift = action == CULM_EDGE_DRIFT_WATCH ? now : (struct culm_edge_drift){0};
    if (ret_chance) {
        *ret_chance = chance;
    }
    return action;
}

double culm_edge_drift_promise(double target, double original, double merged, double agreed) {
    if (original < 0 || merged < 0 || agreed < 0) {
        return target;
    }
    double spare = merged - target * original;
    double promise = agreed - (spare > 0 ? spare : 0);
    return promise > 0 ? promise : 0;
}
