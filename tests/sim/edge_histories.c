/*
 * Runs seeded histories of the edge scheduler in virtual time.
 *
 *     edge_histories [--first SEED] [--count N] [--events MASK] [--marks MOST] [--log]
 *
 * Every second one has faults. Of every workload that is small enough, the order and the batches of its
 * plan are compared with all others, and what the plan loads with what it would load if the least
 * recently used tensor went. A seed that fails is printed with the line that replays it; those that
 * failed once run always. A fault that fires in too few histories fails the test.
 */
#include "base/rng.h"
#include "edge/batches.h"
#include "edge/order.h"
#include "edge/planner.h"
#include "edge_history.h"
#include "expect_mark.h"
#include "shrink.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLOORS_FROM 300 /* workloads */
#define SHRUNK_MAX 3 /* seeds that fail are made small; the rest likely fails for the same reason */

static int failed(uint64_t seed, const char *why) {
    printf("not ok - seed %llu: %s\n    replay: edge_histories --first %llu --count 1 --log\n",
           (unsigned long long)seed, why, (unsigned long long)seed);
    return 1;
}

/* --- orders --- */

/* Of what is at `at` and behind: an order is a circle, so it may begin with any query. */

static int64_t least_of_all(const struct culm_edge_layout *layout, const size_t *activations,
                            size_t frames, int32_t *order, int32_t at, int32_t count) {
    if (at == count) {
        return culm_edge_cycle_bytes(layout, order, count, activations, frames, CULM_EDGE_BELADY,
                                     NULL);
    }
    int64_t least = -1;
    for (int32_t i = at; i < count; i++) {
        int32_t swap = order[at];
        order[at] = order[i], order[i] = swap;
        int64_t bytes = least_of_all(layout, activations, frames, order, at + 1, count);
        least = least < 0 || bytes < least ? bytes : least;
        swap = order[at];
        order[at] = order[i], order[i] = swap;
    }
    return least;
}

/* What an order loads in a round if the least recently used tensor goes, tensor by tensor: kept apart
 * from the room's own code. */
static int64_t least_recently_used(const struct culm_edge_layout *layout, const size_t *activations,
                                   size_t frames, const int32_t *order, int32_t count) {
    int64_t used[CULM_EDGE_HISTORY_TENSORS] = {0}, total = 0; /* 0: not there */
    size_t bytes = 0;
    for (int32_t time = 1; time <= 8 * count; time++) {
        const struct culm_edge_query *query = &layout->query[order[(time - 1) % count]];
        size_t most = layout->limit_bytes - frames - activations[order[(time - 1) % count]];
        for (int32_t i = 0; i < query->tensor_count; i++) {
            size_t own = layout->tensor_bytes[query->tensor[i]];
            bytes += used[query->tensor[i]] ? 0 : own;
            total += !used[query->tensor[i]] && time > 4 * count ? (int64_t)own : 0;
            used[query->tensor[i]] = time;
        }
        while (bytes > most) {
            int32_t oldest = -1;
            for (int32_t t = 0; t < layout->tensor_count; t++) {
                oldest = used[t] && (oldest < 0 || used[t] < used[oldest]) ? t : oldest;
            }
            used[oldest] = 0;
            bytes -= layout->tensor_bytes[oldest];
        }
    }
    return total / 4;
}

struct order_totals {
    int64_t exact, planned, lru, better;
};

static int check_order(uint64_t seed, struct order_totals *totals) {
    static struct culm_edge_workload workload;
    size_t activations[CULM_EDGE_QUERIES_MAX];
    int32_t order[CULM_EDGE_QUERIES_MAX], given[CULM_EDGE_QUERIES_MAX];
    culm_edge_workload_from_seed(seed, 0, &workload);
    const struct culm_edge_layout *layout = &workload.layout;
    size_t frames = culm_edge_frames_bytes(layout, CULM_EDGE_SLOTS_MIN);
    for (int32_t q = 0; q < layout->query_count; q++) {
        activations[q] = layout->query[q].activation_bytes[0];
    }
    int32_t count =
        culm_edge_order_find(layout, activations, frames, CULM_EDGE_ORDER_WORK, order, NULL);
    int64_t bytes =
        culm_edge_cycle_bytes(layout, order, count, activations, frames, CULM_EDGE_BELADY, NULL);
    if (count <= 5) {
        culm_edge_order_given(layout, given);
        totals->exact++;
        if (least_of_all(layout, activations, frames, given, 1, count) != bytes) {
            return failed(seed, "there is a better order");
        }
    }
    struct culm_edge_plan plan;
    struct culm_error error;
    const struct culm_edge_plan_options options = {.quick = true, .visit = 1};
    if (culm_edge_plan_make(layout, &options, &plan, &error) != CULM_OK) {
        return failed(seed, error.text);
    }
    int64_t lru = least_recently_used(layout, activations, frames, plan.order, count);
    totals->planned += plan.round_bytes;
    totals->lru += lru;
    totals->better += plan.round_bytes < lru;
    /* Which pins nothing. */
    return plan.round_bytes > lru && !culm_edge_pins(layout)
               ? failed(seed, "the least recently used is the better choice")
               : 0;
}

/* --- batches --- */

static void best_of_all(const struct culm_edge_choices *choices, int32_t count, int32_t ticks,
                        int32_t *chosen, int32_t at, double *best, bool *found) {
    if (at < count) {
        for (chosen[at] = 0; chosen[at] < choices[at].count; chosen[at]++) {
            best_of_all(choices, count, ticks, chosen, at + 1, best, found);
        }
        return;
    }
    uint64_t tick = culm_edge_tick_ns(choices, count, ticks), sum = 0;
    double share[CULM_EDGE_QUERIES_MAX];
    for (int32_t q = 0; q < count; q++) {
        sum += (choices[q].choice[chosen[q]].cost_ns + tick - 1) / tick;
    }
    for (int32_t q = 0; q < count; q++) {
        share[q] = culm_edge_share(&choices[q], chosen[q], (double)sum * (double)tick);
    }
    if (!*found || culm_edge_shares_compare(share, best, count) > 0) {
        memcpy(best, share, sizeof share);
        *found = true;
    }
}

static int check_batches(uint64_t seed) {
    struct culm_edge_choices choices[5] = {0};
    uint64_t dice = culm_rng_mix(seed, 9);
    int32_t count = 1 + (int32_t)culm_rng_below(&dice, 4), ticks = 60, chosen[5], all[5];
    double share[CULM_EDGE_QUERIES_MAX], best[CULM_EDGE_QUERIES_MAX];
    bool found = false;
    for (int32_t q = 0; q < count; q++) {
        uint64_t fixed = 1 + culm_rng_below(&dice, 9000000), each = culm_rng_below(&dice, 9000000);
        choices[q].period_ns = 10000000 + culm_rng_below(&dice, 100000000);
        choices[q].count = 1 + (int32_t)culm_rng_below(&dice, 4);
        for (int32_t i = 0; i < choices[q].count; i++) {
            choices[q].choice[i] =
                (struct culm_edge_choice){.frames = 1 << i,
                                          .cost_ns = fixed + (each << i),
                                          .window_ns = culm_rng_below(&dice, 200000000)};
        }
    }
    if (culm_edge_batches(choices, count, ticks, chosen, NULL) != CULM_OK) {
        return failed(seed, "out of memory");
    }
    best_of_all(choices, count, ticks, all, 0, best, &found);
    uint64_t tick = culm_edge_tick_ns(choices, count, ticks), sum = 0;
    for (int32_t q = 0; q < count; q++) {
        sum += (choices[q].choice[chosen[q]].cost_ns + tick - 1) / tick;
    }
    for (int32_t q = 0; q < count; q++) {
        share[q] = culm_edge_share(&choices[q], chosen[q], (double)sum * (double)tick);
    }
    return culm_edge_shares_compare(share, best, count) != 0
               ? failed(seed, "there are better batches")
               : 0;
}

/* --- histories --- */

static uint32_t faults_of(uint64_t seed, uint32_t events) { return seed % 2 ? events : 0; }

static const char *play(void *context, uint32_t events) {
    static struct culm_edge_history_result result;
    culm_edge_history_run(*(const uint64_t *)context, events, false, &result);
    return result.ok ? NULL : result.why;
}

static void make_small(uint64_t seed, uint32_t all) {
    int tries;
    uint32_t left = shrink(all, play, &seed, &tries);
    shrink_print(seed, all, left, "", tries, "edge_histories");
}

static int check_history(uint64_t seed, uint32_t events, bool log,
                         struct culm_edge_history_result *sum) {
    static int shrunk;
    struct culm_edge_history_result result, again;
    culm_edge_history_run(seed, faults_of(seed, events), log, &result);
    if (!result.ok) {
        int wrong = failed(seed, result.why);
        if (!log && shrunk++ < SHRUNK_MAX) {
            make_small(seed, result.planned);
        }
        return wrong;
    }
    culm_edge_history_run(seed, faults_of(seed, events), false, &again);
    if (again.digest != result.digest || again.frames != result.frames) {
        return failed(seed, "a second run is another one");
    }
    sum->frames += result.frames;
    sum->processed += result.processed;
    sum->late += result.late;
    sum->loads += result.loads;
    sum->evictions += result.evictions;
    sum->rounds += result.rounds;
    sum->shared += result.shared;
    for (int i = 0; i < CULM_EDGE_FAULT_COUNT; i++) {
        sum->fired[i] += result.fired[i] > 0;
    }
    return 0;
}

int main(int argc, char **argv) {
    uint64_t first = 1, count = 2000;
    uint32_t events = EVERY_EVENT;
    int marks = -1;
    bool log = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--first") == 0 && i + 1 < argc) {
            first = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--count") == 0 && i + 1 < argc) {
            count = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--events") == 0 && i + 1 < argc) {
            events = (uint32_t)strtoul(argv[++i], NULL, 0);
        } else if (strcmp(argv[i], "--marks") == 0 && i + 1 < argc) {
            marks = atoi(argv[++i]);
        } else if (strcmp(argv[i], "--log") == 0) {
            log = true;
        } else {
            fprintf(stderr,
                    "usage: edge_histories [--first SEED] [--count N] [--events MASK] [--log]\n");
            return 2;
        }
    }
    static const struct kept_history regressions[] = {
        {76, EVERY_EVENT},    {187, EVERY_EVENT},  {473, EVERY_EVENT},  {704, EVERY_EVENT},
        {3243, EVERY_EVENT},  {7528, EVERY_EVENT}, {8227, EVERY_EVENT}, {14363, EVERY_EVENT},
        {14683, EVERY_EVENT}, {18803, EVERY_EVENT}};
    struct culm_edge_history_result sum = {0};
    struct order_totals orders = {0};
    int wrong = 0;
    for (size_t i = 0; i < sizeof regressions / sizeof *regressions && !log; i++) {
        wrong += check_history(regressions[i].seed, regressions[i].events, false, &sum);
        wrong += check_order(regressions[i].seed, &orders);
    }
    for (uint64_t seed = first; seed < first + count; seed++) {
        wrong += check_history(seed, events, log, &sum);
        wrong += check_order(seed, &orders);
        wrong += check_batches(seed);
    }
    if (count >= FLOORS_FROM && sum.shared < (int64_t)count) {
        printf("not ok - only %lld batches go on from what another one made\n",
               (long long)sum.shared);
        wrong++;
    }
    printf("%llu workloads, %d failed: %lld frames, %lld in time, %lld late by faults; %lld loads, "
           "%lld evictions, %lld new layouts, %lld batches that go on from another's prefix\n",
           (unsigned long long)count, wrong, (long long)sum.frames, (long long)sum.processed,
           (long long)sum.late, (long long)sum.loads, (long long)sum.evictions,
           (long long)sum.rounds, (long long)sum.shared);
    printf(
        "orders: %lld compared with all; loaded in a round %lld, by the least recently used %lld, "
        "fewer in %lld\n",
        (long long)orders.exact, (long long)orders.planned, (long long)orders.lru,
        (long long)orders.better);
    printf("faults, by histories:");
    for (int i = 0; i < CULM_EDGE_FAULT_COUNT; i++) {
        printf(" %s %lld,", culm_edge_fault_name[i], (long long)sum.fired[i]);
        if (count >= FLOORS_FROM && sum.fired[i] < (int64_t)(count / 50)) {
            printf("\nnot ok - too few of these\n");
            wrong++;
        }
    }
    printf("\n");
    if (marks >= 0 && mark_print_missed("edge_", 1) > marks) {
        printf("not ok - more than %d marks that no history hits\n", marks);
        wrong++;
    }
    return wrong > 0;
}
