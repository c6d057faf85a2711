/*
 * Runs seeded failure histories on the symbolic executor.
 *
 *     histories [--first SEED] [--count N] [--fault NUMBER] [--log]
 *
 * A seed that fails is printed with the one line that replays it. `regressions` seeds, which failed
 * once, run always. What befell the runs is counted, and from FLOORS_FROM histories on there are
 * floors: a simulator in which no fault fires any more must not pass. `--fault`: what befalls links,
 * memory and the coordinator is of that one kind (enum culm_fault_kind), to look for its failures alone.
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

static int only =
    -1; /* a kind of fault: what befalls links, memory and the coordinator is this alone */

static bool run(uint64_t seed, bool log, struct culm_history_result *totals) {
    struct culm_history history;
    struct culm_history_result result;
    char text[256];
    culm_history_from_seed(seed, &history);
    for (int32_t i = 0; i < history.fault_count && only >= 0; i++) {
        struct culm_history_fault *fault = &history.fault[i];
        if (fault->kind > CULM_FAULT_FLIP || fault->target == CULM_TARGET_COORDINATOR ||
            fault->kind == CULM_FAULT_CUT) {
            fault->kind = (enum culm_fault_kind)only;
            fault->target = only == CULM_FAULT_FREEZE ? CULM_TARGET_COORDINATOR : CULM_TARGET_ANY;
        }
    }
    history.log = log;
    culm_history_describe(&history, text, sizeof text);
    if (log) {
        printf("%s\n", text);
    }
    culm_history_run(&history, &result);
    culm_history_result_add(totals, &result);
    if (!result.ok) {
        printf("not ok - %s\n    %s\n    replay: histories --first %llu --count 1 --log\n", text,
               result.why, (unsigned long long)seed);
    }
    return result.ok;
}

#define FLOORS_FROM 1000

static const char *const kind_name[CULM_FAULT_COUNT] = {[CULM_FAULT_KILL] = "kill",
                                                        [CULM_FAULT_FREEZE] = "freeze",
                                                        [CULM_FAULT_STICK] = "stick",
                                                        [CULM_FAULT_CUT] = "cut",
                                                        [CULM_FAULT_STOP] = "stop",
                                                        [CULM_FAULT_DAMAGE] = "damage",
                                                        [CULM_FAULT_FLIP] = "flip",
                                                        [CULM_FAULT_DROP] = "drop",
                                                        [CULM_FAULT_SLOW] = "slow",
                                                        [CULM_FAULT_GARBLE] = "garble",
                                                        [CULM_FAULT_DESCRIPTORS] = "descriptors",
                                                        [CULM_FAULT_MEMORY] = "memory"};
/* False: there were fewer of these than one in `per` histories. */
static bool at_least(const char *what, int64_t number, uint64_t histories, uint64_t per) {
    printf(" %s %lld", what, (long long)number);
    if (histories >= FLOORS_FROM && number < (int64_t)(histories / per)) {
        printf("\nnot ok - fewer than %llu of these\n", (unsigned long long)(histories / per));
        return false;
    }
    return true;
}

static bool floors(const struct culm_history_result *t, uint64_t n) {
    bool ok = true;
    printf("histories:");
    ok &= at_least("losses", t->losses, n, 1);
    ok &= at_least("recoveries", t->recovered, n, 1);
    ok &= at_least("roll-backs", t->rollbacks, n, 6);
    ok &= at_least("views", t->views / 3, n, 1);
    ok &= at_least("resumes", t->resumes, n, 20);
    printf("\nfaults that did nothing %d; that fired %d:", t->faults_missed, t->faults_fired);
    for (int i = 0; i < CULM_FAULT_COUNT; i++) {
        ok &= at_least(kind_name[i], t->kind_fired[i], n,
                       i == CULM_FAULT_KILL     ? 1
                       : i == CULM_FAULT_DAMAGE ? UINT64_MAX
                                                : 100);
    }
    printf("\nat phases:");
    for (int i = 0; i < CULM_PHASE_COUNT; i++) {
        ok &= at_least(culm_phase_name((size_t)i), t->phase_fired[i], n, 100);
    }
    printf("\nworld:");
    ok &= at_least("streams", t->world.streams / 20, n, 1);
    ok &= at_least("KB", t->world.bytes / 1000, n, 1);
    ok &= at_least("torn", t->world.torn, n, 20);
    ok &= at_least("ends told before the stream's", t->world.exit_first, n, 20);
    ok &= at_least("bits garbled", t->world.flips, n, 100);
    ok &= at_least("requests for memory refused", t->world.memory, n, 100);
    ok &= at_least("connects that failed", t->world.connects_failed, n, 200);
    printf("\nmemory:");
    ok &= at_least("bits flipped", t->flips, n, 20);
    ok &= at_least("workers put out for it", t->noticed, n, 40);
    printf(" ends because it could not be told which copy is right %lld; workers lost before their "
           "damage was noticed %lld\n",
           (long long)t->undecided, (long long)t->blind);
    return ok;
}

int main(int argc, char **argv) {
    uint64_t first = 1, count = 2000;
    bool log = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--first") == 0 && i + 1 < argc) {
            first = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--count") == 0 && i + 1 < argc) {
            count = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--fault") == 0 && i + 1 < argc) {
            only = atoi(argv[++i]);
        } else if (strcmp(argv[i], "--log") == 0) {
            log = true;
        } else {
            fprintf(stderr, "usage: histories [--first SEED] [--count N] [--log]\n");
            return 2;
        }
    }
    static const uint64_t regressions[] = {0,    6,    14,    53,     55,     67,    104,
                                           105,  244,  521,   566,    1409,   1693,  2586,
                                           4598, 8846, 13787, 112796, 113213, 303517};
    struct culm_history_result totals = {0};
    uint64_t failed = 0, total = count;
    double start = seconds();
    for (uint64_t i = 0; i < count; i++) {
        failed += !run(first + i, log, &totals);
    }
    for (size_t i = 0; i < sizeof regressions / sizeof *regressions && !log; i++, total++) {
        failed += !run(regressions[i], log, &totals);
    }
    double took = seconds() - start;
    bool enough = floors(&totals, log || only >= 0 ? 0 : total);
    printf("%llu histories, %llu failed; %.0f histories/s\n", (unsigned long long)total,
           (unsigned long long)failed, (double)total / took);
    return failed || !enough ? 1 : 0;
}
