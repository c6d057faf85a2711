/* How many frames a visit takes. See batches.h. */
#include "edge/batches.h"

#include <stdlib.h>
#include <string.h>

double culm_edge_share(const struct culm_edge_choices *choices, int32_t chosen, double round_ns) {
    const struct culm_edge_choice *choice = &choices->choice[chosen];
    double taken = (double)choice->frames * (double)choices->period_ns;
    double in_time = (double)choice->window_ns;
    double most = taken < in_time ? taken : in_time;
    return most >= round_ns ? 1.0 : most / round_ns;
}

static int compare(const void *a, const void *b) {
    double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

static int compare_sorted(const double *one, const double *other, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        if (one[i] != other[i]) {
            return one[i] < other[i] ? -1 : 1;
        }
    }
    return 0;
}

int culm_edge_shares_compare(const double *one, const double *other, int32_t count) {
    double a[CULM_EDGE_QUERIES_MAX], b[CULM_EDGE_QUERIES_MAX];
    memcpy(a, one, (size_t)count * sizeof *a);
    memcpy(b, other, (size_t)count * sizeof *b);
    qsort(a, (size_t)count, sizeof *a, compare);
    qsort(b, (size_t)count, sizeof *b, compare);
    return compare_sorted(a, b, count);
}

uint64_t culm_edge_tick_ns(const struct culm_edge_choices *choices, int32_t count, int32_t ticks) {
    uint64_t longest = 0;
    for (int32_t q = 0; q < count; q++) {
        uint64_t cost = 0;
        for (int32_t i = 0; i < choices[q].count; i++) {
            cost = choices[q].choice[i].cost_ns > cost ? choices[q].choice[i].cost_ns : cost;
        }
        longest += cost;
    }
    return longest / (uint64_t)ticks + 1;
}

static int32_t ticks_of(uint64_t cost_ns, uint64_t tick_ns) {
    return (int32_t)((cost_ns + tick_ns - 1) / tick_ns);
}

/* The best sorted shares of the first few queries if together they take exactly so many ticks. */
struct cell {
    bool there;
    double share[CULM_EDGE_QUERIES_MAX];
    int8_t chosen[CULM_EDGE_QUERIES_MAX];
};

static void insert(double *shares, int32_t count, double share) {
    while (count > 0 && shares[count - 1] > share) {
        shares[count] = shares[count - 1];
        count--;
    }
    shares[count] = share;
}

/* The best choices for a round of `round` ticks: now[] at the index that is returned; -1: none. */
static int32_t try_round(const struct culm_edge_choices *choices, int32_t count, uint64_t tick_ns,
                         int32_t round, struct cell *now, struct cell *next) {
    for (int32_t c = 0; c <= round; c++) {
        now[c].there = c == 0;
    }
    for (int32_t q = 0; q < count; q++) {
        for (int32_t c = 0; c <= round; c++) {
            next[c].there = false;
        }
        for (int32_t i = 0; i < choices[q].count; i++) {
            int32_t cost = ticks_of(choices[q].choice[i].cost_ns, tick_ns);
            double share = culm_edge_share(&choices[q], i, (double)round * (double)tick_ns);
            for (int32_t c = 0; c + cost <= round; c++) {
                if (!now[c].there) {
                    continue;
                }
                double shares[CULM_EDGE_QUERIES_MAX];
                memcpy(shares, now[c].share, (size_t)q * sizeof *shares);
                insert(shares, q, share);
                struct cell *to = &next[c + cost];
                if (!to->there || compare_sorted(shares, to->share, q + 1) > 0) {
                    to->there = true;
                    memcpy(to->share, shares, (size_t)(q + 1) * sizeof *shares);
                    memcpy(to->chosen, now[c].chosen, (size_t)q);
                    to->chosen[q] = (int8_t)i;
                }
            }
        }
        for (int32_t c = 0; c <= round; c++) {
            now[c].there = next[c].there;
            if (next[c].there) {
                memcpy(now[c].share, next[c].share, (size_t)(q + 1) * sizeof(double));
                memcpy(now[c].chosen, next[c].chosen, (size_t)(q + 1));
            }
        }
    }
    int32_t best = -1;
    for (int32_t c = 0; c <= round; c++) {
        if (now[c].there &&
            (best < 0 || compare_sorted(now[c].share, now[best].share, count) > 0)) {
            best = c;
        }
    }
    return best;
}

#define WORK 2500000ll
#define TICKS_MAX 512

int64_t culm_edge_batches_work(int32_t count, int32_t ticks) {
    return (int64_t)count * count * ticks * ticks / 2;
}

int32_t culm_edge_ticks(int32_t count, int64_t most_work) {
    int32_t ticks = 2;
    while (ticks < TICKS_MAX && culm_edge_batches_work(count, ticks) < most_work) {
        ticks++;
    }
    return ticks < count ? count : ticks;
}

static int32_t quick_ticks(int32_t count) {
    int32_t ticks = culm_edge_ticks(count, WORK);
    return ticks < 2 * count ? 2 * count : ticks;
}

enum culm_status culm_edge_batches(const struct culm_edge_choices *choices, int32_t count,
                                   int32_t ticks, int32_t *ret_chosen, double *ret_least) {
    ticks = ticks > 0 ? ticks : quick_ticks(count);
    uint64_t tick_ns = culm_edge_tick_ns(choices, count, ticks);
    /* The longest round, with each cost rounded up once. */
    int32_t most = ticks + count + 1;
    struct cell *now = calloc((size_t)most + 1, sizeof *now),
                *next = calloc((size_t)most + 1, sizeof *next);
    double best[CULM_EDGE_QUERIES_MAX];
    bool found = false;
    if (!now || !next) {
        free(now);
        free(next);
        return CULM_ERR_MEMORY;
    }
    for (int32_t round = 1; round <= most; round++) {
        int32_t cell = try_round(choices, count, tick_ns, round, now, next);
        if (cell >= 0 && (!found || compare_sorted(now[cell].share, best, count) > 0)) {
            found = true;
            memcpy(best, now[cell].share, sizeof best);
            for (int32_t q = 0; q < count; q++) {
                ret_chosen[q] = now[cell].chosen[q];
            }
        }
    }
    if (ret_least) {
        *ret_least = count ? best[0] : 1;
    }
    free(now);
    free(next);
    return CULM_OK;
}
