/* Drift, as a binomial test over the looks of a few checks. See drift.h. */
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

/* Likewise for a number of misses that is not whole. */
static double tail_between(int64_t count, double misses, double each) {
    double whole = floor(misses), part = misses - whole;
    double low = tail(count, (int64_t)whole, each);
    return part > 0 ? low + part * (tail(count, (int64_t)whole + 1, each) - low) : low;
}

double culm_edge_drift_chance(double count, double misses, double each) {
    double whole = floor(count), part = count - whole, share = count > 0 ? misses / count : 0;
    /* The share of misses is kept, since between two whole counts there are not all misses. */
    double low = tail_between((int64_t)whole, share * whole, each);
    double high = part > 0 ? tail_between((int64_t)whole + 1, share * (whole + 1), each) : low;
    return low + part * (high - low);
}

double culm_edge_drift_wrong(int32_t wanted, int32_t missed, int32_t added) {
    double all = (double)wanted + added;
    return all > 0 ? ((double)missed + added) / all : 0;
}

/* --- what is to be expected --- */

/* The share wrong in the check that begins at `first`. */
static double played(const double *wrong, int64_t count, int64_t frames, double stride,
                     int64_t first) {
    double sum = 0;
    for (int64_t i = 0; i < frames; i++) {
        sum += wrong[(first + (int64_t)((double)i * stride)) % count];
    }
    return sum / (double)frames;
}

struct culm_edge_drift_null culm_edge_drift_measure(const double *wrong, int64_t count,
                                                    int64_t frames, double stride) {
    struct culm_edge_drift_null null = {.wrong = -1, .looks = (double)frames / 4};
    double sum = 0, squares = 0, most = (double)frames / 2;
    frames = count > 0 && count < frames ? count : frames; /* those beyond would be the same ones */
    double room = (double)count / 2 / (double)frames; /* two checks fit into what was recorded */
    stride = stride < room ? stride : room;
    for (int64_t i = 0; i < count; i++) {
        double share = played(wrong, count, frames, stride, i);
        sum += share;
        squares += share * share;
    }
    if (count > 0) {
        double mean = sum / (double)count, variance = squares / (double)count - mean * mean;
        null.wrong = mean;
        if (mean > 0 && mean < 1) { /* else nothing is known of how such frames cluster */
            null.looks =
                mean * (1 - mean) < 2 * most * variance ? mean * (1 - mean) / variance / 2 : most;
        }
    }
    null.looks = null.looks > 2 ? null.looks : 2;
    return null;
}

/* --- checks --- */

void culm_edge_drift_forget(struct culm_edge_drift *drift) {
    *drift = (struct culm_edge_drift){.away = drift->away, .reverts = drift->reverts};
}

static int32_t needed(const struct culm_edge_drift *drift) {
    int32_t checks = CULM_EDGE_DRIFT_BACK;
    for (int32_t i = 1; i < drift->reverts && checks < CULM_EDGE_DRIFT_BACK_MAX; i++) {
        checks *= 2;
    }
    return checks;
}

/* Its merged weights have been looked at while it runs on its own. */
static enum culm_edge_drift_action look_back(struct culm_edge_drift *drift,
                                             const struct culm_edge_drift *now,
                                             const struct culm_edge_drift_seen *seen) {
    if (!seen->anything && seen->right >= seen->promised) {
        return CULM_EDGE_DRIFT_NONE; /* an empty scene speaks for nothing */
    }
    if (now->checks < needed(drift)) {
        *drift = *now;
        return CULM_EDGE_DRIFT_NONE;
    }
    bool back = now->misses <= now->allowed;
    culm_edge_drift_forget(drift);
    drift->away = !back;
    return back ? CULM_EDGE_DRIFT_RETURN : CULM_EDGE_DRIFT_NONE;
}

enum culm_edge_drift_action culm_edge_drift_check(struct culm_edge_drift *drift,
                                                  const struct culm_edge_drift_seen *seen,
                                                  double *ret_chance) {
    struct culm_edge_drift now = *drift;
    now.checks++;
    now.looks += seen->looks;
    now.misses += seen->looks * (1 - seen->right);
    now.allowed += seen->looks * (1 - seen->promised);
    double chance = culm_edge_drift_chance(now.looks, now.misses, now.allowed / now.looks);
    if (ret_chance) {
        *ret_chance = chance;
    }
    if (drift->away) {
        return look_back(drift, &now, seen);
    }
    if (chance >= CULM_EDGE_DRIFT_POOLED) {
        culm_edge_drift_forget(drift);
        return CULM_EDGE_DRIFT_NONE;
    }
    now.watched |= chance < CULM_EDGE_DRIFT_WATCHED;
    bool watched = drift->watched; /* before this check: until then no frames have been kept */
    *drift = now;
    if (!watched || chance >= CULM_EDGE_DRIFT_REVERTED || seen->right >= seen->promised) {
        return now.watched ? CULM_EDGE_DRIFT_WATCH : CULM_EDGE_DRIFT_NONE;
    }
    culm_edge_drift_forget(drift);
    drift->away = true;
    drift->reverts++;
    return CULM_EDGE_DRIFT_REVERT;
}

double culm_edge_drift_promise(double target, double original, double merged, double agreed) {
    if (original < 0 || merged < 0 || agreed < 0) {
        return target;
    }
    double spare = merged - target * original;
    double promise = agreed - (spare > 0 ? spare : 0);
    return promise > 0 ? promise : 0;
}
