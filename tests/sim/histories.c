/*
 * Runs seeded failure histories on the symbolic executor.
 *
 *     histories [--first SEED] [--count N] [--log]
 *
 * A seed that fails is printed with the one line that replays it. `regressions` seeds, which failed
 * once, run always.
 */
#include "sim/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static bool run(uint64_t seed, bool log, struct culm_history_result *totals, int64_t *blind) {
    struct culm_history history;
    struct culm_history_result result;
    char text[256];
    culm_history_from_seed(seed, &history);
    history.log = log;
    culm_history_describe(&history, text, sizeof text);
    if (log) {
        printf("%s\n", text);
    }
    culm_history_run(&history, &result);
    totals->losses += result.losses;
    totals->rollbacks += result.rollbacks;
    totals->recovered += result.recovered;
    totals->views += result.views;
    totals->faults_fired += result.faults_fired;
    totals->flips += result.flips;
    totals->noticed += result.noticed;
    totals->undecided += result.undecided;
    *blind += result.blind;
    if (!result.ok) {
        printf("not ok - %s\n    %s\n    replay: histories --first %llu --count 1 --log\n", text,
               result.why, (unsigned long long)seed);
    }
    return result.ok;
}

int main(int argc, char **argv) {
    uint64_t first = 1, count = 2000;
    bool log = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--first") == 0 && i + 1 < argc) {
            first = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--count") == 0 && i + 1 < argc) {
            count = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--log") == 0) {
            log = true;
        } else {
            fprintf(stderr, "usage: histories [--first SEED] [--count N] [--log]\n");
            return 2;
        }
    }
    static const uint64_t regressions[] = {0,   6,   14,  53,   55,   67,   104,  105,
                                           244, 521, 566, 1409, 1693, 4598, 8846, 13787};
    struct culm_history_result totals = {0};
    int64_t blind = 0;
    uint64_t failed = 0, total = count;
    double start = seconds();
    for (uint64_t i = 0; i < count; i++) {
        failed += !run(first + i, log, &totals, &blind);
    }
    for (size_t i = 0; i < sizeof regressions / sizeof *regressions && !log; i++, total++) {
        failed += !run(regressions[i], log, &totals, &blind);
    }
    double took = seconds() - start;
    printf("%llu histories, %llu failed; %d faults fired, %lld losses, %lld recoveries, %lld "
           "roll-backs, %lld views; %.0f histories/s\n",
           (unsigned long long)total, (unsigned long long)failed, totals.faults_fired,
           (long long)totals.losses, (long long)totals.recovered, (long long)totals.rollbacks,
           (long long)totals.views, (double)total / took);
    printf(
        "%lld bits flipped, %lld workers put out for it; %lld ends because it could not be told "
        "which copy is right; in %lld histories a worker was lost before its damage was noticed\n",
        (long long)totals.flips, (long long)totals.noticed, (long long)totals.undecided,
        (long long)blind);
    if (count >= 1000 &&
        (totals.flips < (int64_t)count / 20 || 2 * totals.noticed < totals.flips)) {
        printf("not ok - too few bits were flipped, or noticed\n");
        failed++;
    }
    return failed ? 1 : 0;
}
