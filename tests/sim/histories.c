/*
 * Runs seeded failure histories on the symbolic executor.
 *
 *     histories [--first SEED] [--count N] [--draw NAME,...] [--events MASK] [--fault NUMBER] [--marks MOST] [--soak] [--log]
 *
 * A seed that fails is printed with the one line that replays it; the first few are made small (shrink.h), and what
 * is left goes into `regressions`, which run always. What befell the runs is counted, and from FLOORS_FROM histories
 * on there are floors: a simulator in which no fault fires any more must not pass.
 *
 *   --draw    besides its faults, of these draws alone (culm_history_draw_names), or `none`; by default of all
 *   --events  of what befalls a seed only this
 *   --fault   what befalls links, memory and the leader is of that one kind (enum culm_fault_kind), to look for its
 *             failures alone
 *   --soak    these seeds alone, without floors; prints what they add to many others (tally.h)
 *   --marks   prints the marks that no history has hit (base/mark.h), of which there may be so many
 */
#include "expect_mark.h"
#include "history.h"
#include "shrink.h"
#include "tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int only = -1; /* a kind of fault: what befalls links, memory and the leader is this alone */

static uint32_t draws = (1u << CULM_HISTORY_DRAWS) - 1; /* those that are played now */

#define SHRUNK_MAX 3 /* seeds; the rest likely fails for the same reason */

static void make(uint64_t seed, uint32_t events, struct culm_history *ret_history) {
    culm_history_from_seed(seed, ret_history);
    culm_history_draw(ret_history, draws);
    for (int32_t i = 0; i < ret_history->fault_count && only >= 0; i++) {
        struct culm_history_fault *fault = &ret_history->fault[i];
        if (fault->kind > CULM_FAULT_FLIP || fault->target == CULM_TARGET_LEADER ||
            fault->kind == CULM_FAULT_CUT) {
            fault->kind = (enum culm_fault_kind)only;
            fault->target = only == CULM_FAULT_FREEZE ? CULM_TARGET_LEADER : CULM_TARGET_ANY;
        }
    }
    culm_history_keep(ret_history, events);
}

static const char *play(void *context, uint32_t events) {
    static struct culm_history_result result;
    struct culm_history history;
    make(*(const uint64_t *)context, events, &history);
    culm_history_run(&history, &result);
    return result.ok ? NULL : result.why;
}

/* As `--draw` takes them; good until the next call. */
static const char *named(uint32_t of) {
    static char text[64];
    size_t at = 0;
    snprintf(text, sizeof text, "%s", of ? "" : "none");
    for (int d = 0; d < CULM_HISTORY_DRAWS; d++) {
        if (of >> d & 1) {
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", at ? "," : "",
                                   culm_history_draw_names[d]);
        }
    }
    return text;
}

static void make_small(uint64_t seed, uint32_t events) {
    struct culm_history history;
    char replay[96];
    int tries;
    make(seed, events, &history);
    uint32_t all = culm_history_events(&history) & events, left = shrink(all, play, &seed, &tries);
    snprintf(replay, sizeof replay, "histories --draw %s", named(draws));
    shrink_print(seed, all, left, "", tries, replay);
    make(seed, left, &history);
    culm_history_print_events(&history);
}

static struct tally tally;

static bool run(uint64_t seed, uint32_t events, bool log, struct culm_history_result *totals) {
    static int shrunk;
    struct culm_history history;
    struct culm_history_result result;
    char text[256];
    make(seed, events, &history);
    history.log = log;
    culm_history_describe(&history, text, sizeof text);
    if (log) {
        printf("%s\n", text);
        culm_history_print_events(&history);
    }
    culm_history_run(&history, &result);
    culm_history_result_add(totals, &result);
    tally_add(&tally, history.shape.pipelines * history.shape.stages, !result.ok);
    if (!result.ok) {
        printf(
            "not ok - %s\n    %s\n    replay: histories --first %llu --count 1 --draw %s --log\n",
            text, result.why, (unsigned long long)seed, named(draws));
        if (!log && shrunk++ < SHRUNK_MAX) {
            make_small(seed, events);
        }
    }
    return result.ok;
}

#define FLOORS_FROM 200

/* False: there were fewer of these than one in `per` histories. */
static bool at_least(const char *what, int64_t number, uint64_t histories, uint64_t per) {
    printf(" %s %lld", what, (long long)number);
    if (histories >= FLOORS_FROM && number < (int64_t)(histories / per)) {
        printf("\nnot ok - fewer than %llu of these\n", (unsigned long long)(histories / per));
        return false;
    }
    return true;
}

static bool floors(const struct culm_history_result *t, uint32_t drawn, uint64_t n) {
    bool ok = true;
    printf("histories:");
    ok &= at_least("losses", t->losses, n, 1);
    ok &= at_least("recoveries", t->recovered, n, 1);
    ok &= at_least("roll-backs", t->rollbacks, n, 6);
    ok &= at_least("views", t->views / 3, n, 1);
    ok &= at_least("resumes", t->resumes, n, 20);
    printf("\nfaults that did nothing %d; that fired %d:", t->faults_missed, t->faults_fired);
    for (int i = 0; i < CULM_FAULT_COUNT; i++) {
        ok &= at_least(culm_fault_kind_names[i], t->kind_fired[i], n,
                       i == CULM_FAULT_KILL ? 1
                       : i == CULM_FAULT_DAMAGE || i == CULM_FAULT_AWAY || i == CULM_FAULT_LEAVE
                           ? UINT64_MAX
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
    printf("drawn:");
    ok &= at_least("stops", t->stops, n, 20);
    ok &= at_least("checkpoints due", t->due, n, 1);
    if (drawn >> CULM_HISTORY_DRAW_STARTS & 1) {
        ok &= at_least("starts that failed", t->unstarted, n, 5);
    }
    if (drawn >> CULM_HISTORY_DRAW_TASKS & 1) {
        ok &= at_least("tasks that failed", t->refused, n, 10);
    }
    if (drawn >> CULM_HISTORY_DRAW_LOADS & 1) {
        ok &= at_least("checkpoints damaged", t->kind_fired[CULM_FAULT_DAMAGE], n, 20);
    }
    if (drawn >> CULM_HISTORY_DRAW_OPEN & 1) {
        ok &= at_least("newcomers", t->came, n, 2);
    }
    if (drawn >> CULM_HISTORY_DRAW_LEADERS & 1) {
        ok &= at_least("leaders that took over", t->leaders, n, 4);
    }
    if (drawn >> CULM_HISTORY_DRAW_STORE & 1) {
        ok &= at_least("runs with a store", t->stores, n, 5);
        ok &= at_least("times that it was away", t->kind_fired[CULM_FAULT_AWAY], n, 10);
        ok &= at_least("steps committed while it was away", t->away_commits, n, 10);
        ok &= at_least("ends that it alone knew of", t->overs, n, UINT64_MAX);
    }
    if (drawn >> CULM_HISTORY_DRAW_LEAVE & 1) {
        ok &= at_least("nodes that left as they asked", t->left, n, 5);
        ok &= at_least("runs in which nothing else happened", t->calm, n, 25);
    }
    if (drawn >> CULM_HISTORY_DRAW_COPIES & 1) {
        ok &= at_least("copies", t->copies, n, 1);
        ok &= at_least("steps committed while copies were under way", t->copied_on, n, 6);
    }
    printf(" the longest stop %llu ms\n", (unsigned long long)t->stop_ms);
    return ok;
}

static uint32_t draws_of(const char *list) {
    uint32_t found = 0;
    while (*list) {
        size_t len = strcspn(list, ",");
        bool known = len == 4 && memcmp(list, "none", 4) == 0;
        for (int d = 0; d < CULM_HISTORY_DRAWS; d++) {
            const char *name = culm_history_draw_names[d];
            if (strlen(name) == len && memcmp(list, name, len) == 0) {
                found |= 1u << d;
                known = true;
            }
        }
        if (!known) {
            fprintf(stderr, "histories: there is no draw '%.*s'\n", (int)len, list);
            exit(2);
        }
        list += len + (list[len] == ',');
    }
    return found;
}

int main(int argc, char **argv) {
    uint64_t first = 1, count = 2000;
    uint32_t events = EVERY_EVENT;
    int marks = -1;
    bool log = false, soak = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--first") == 0 && i + 1 < argc) {
            first = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--count") == 0 && i + 1 < argc) {
            count = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--events") == 0 && i + 1 < argc) {
            events = (uint32_t)strtoul(argv[++i], NULL, 0);
        } else if (strcmp(argv[i], "--draw") == 0 && i + 1 < argc) {
            draws = draws_of(argv[++i]);
        } else if (strcmp(argv[i], "--fault") == 0 && i + 1 < argc) {
            only = atoi(argv[++i]);
        } else if (strcmp(argv[i], "--marks") == 0 && i + 1 < argc) {
            marks = atoi(argv[++i]);
        } else if (strcmp(argv[i], "--soak") == 0) {
            soak = true;
        } else if (strcmp(argv[i], "--log") == 0) {
            log = true;
        } else {
            fprintf(
                stderr,
                "usage: histories [--first SEED] [--count N] [--events MASK] [--soak] [--log]\n");
            return 2;
        }
    }
    static const struct kept_history regressions[] = {
        {0, EVERY_EVENT},     {6, EVERY_EVENT},      {14, EVERY_EVENT},     {53, EVERY_EVENT},
        {55, EVERY_EVENT},    {67, EVERY_EVENT},     {104, EVERY_EVENT},    {105, EVERY_EVENT},
        {244, EVERY_EVENT},   {521, EVERY_EVENT},    {566, EVERY_EVENT},    {1409, EVERY_EVENT},
        {1693, EVERY_EVENT},  {2586, EVERY_EVENT},   {4598, EVERY_EVENT},   {8846, EVERY_EVENT},
        {13787, EVERY_EVENT}, {112796, EVERY_EVENT}, {113213, EVERY_EVENT}, {303517, EVERY_EVENT}};
    struct culm_history_result totals = {0};
    uint64_t failed = 0, total = count;
    double start = seconds();
    for (uint64_t i = 0; i < count; i++) {
        failed += !run(first + i, events, log, &totals);
    }
    if (soak) {
        tally.takeovers = totals.leaders;
        tally.outages = totals.kind_fired[CULM_FAULT_AWAY];
        tally.rollbacks = totals.rollbacks;
        tally_print(&tally);
        return failed > 0;
    }
    const uint32_t drawn = draws;
    draws = 0; /* those below were found without */
    for (size_t i = 0; i < sizeof regressions / sizeof *regressions && !log; i++, total++) {
        failed += !run(regressions[i].seed, regressions[i].events, log, &totals);
    }
    /* Nobody trained, and ten starts in a row failed, which ended a run that had trained. */
    static const struct kept_history starts[] = {{314, 0x20008}, {409, 0x20002}};
    draws = 1u << CULM_HISTORY_DRAW_STARTS;
    for (size_t i = 0; i < sizeof starts / sizeof *starts && !log; i++, total++) {
        failed += !run(starts[i].seed, starts[i].events, log, &totals);
    }
    /* A trace brought nobody for the end of a broken link that had stayed, when a task of it failed; a stop waited
     * for a worker that the order to save did not reach; a stop in which saving fails as drawn was no honest end; the last
     * copy but one was let go before the next one had come; a leader that had slept blamed the living end of a link
     * to one that was frozen; four that had a gradient from one that was lost put out the fifth; what a flipped state had
     * sent before it was loaded over counted in the same step; one was frozen while others found a checkpoint damaged;
     * six that hold a stage were stuck at the same task. */
    static const struct kept_history all[] = {
        {801963, 0x100002},  {604107, 0x100010}, {606860, 0x3800c0}, {603413, 0xc000b},
        {603072, 0x200001},  {701783, 0xc001f},  {1001621, 0xd},     {6006186, 0x100688},
        {7023642, 0x140011}, {7038157, 0x16},    {7029273, 0x25}};
    draws = (1u << CULM_HISTORY_DRAW_OPEN) - 1; /* before newcomers were drawn */
    for (size_t i = 0; i < sizeof all / sizeof *all && !log; i++, total++) {
        failed += !run(all[i].seed, all[i].events, log, &totals);
    }
    /* A step through which the leader slept was the measure of how long nothing may move. */
    static const struct kept_history slept[] = {{13013887, 0xd}};
    draws = (1u << CULM_HISTORY_DRAW_LEADERS) - 1;
    for (size_t i = 0; i < sizeof slept / sizeof *slept && !log; i++, total++) {
        failed += !run(slept[i].seed, slept[i].events, log, &totals);
    }
    /* Nobody had seen a view who was lost, and was taken for new; one that was asked for view and curve froze; a roll-back before the
     * only record of the ledger; what a damaged node had handed on was used by those who had heard nothing of the damage;
     * checkpoints of one that leads no more; one that had told a leader of its damage, who died, and was damaged once more; a newcomer
     * that no view named was; nobody came for one at a link that broke, because it was not to break once more; a roll-back of which
     * nobody had heard; one that was silent, and had nothing of the stage that was gone. */
    static const struct kept_history leaders[] = {
        {3006776, EVERY_EVENT}, {127210, 0x200101},    {102579, 0xc1f00},   {100362, 0x58},
        {101074, 0xc00a4},      {100642, 0xc07c5},     {103670, 0xc0027},   {115898, 0x500},
        {5006170, 0x8000e},     {116817, 0xe0085},     {70011226, 0x363},   {60008618, 0x8005b},
        {50002205, 0x1c0003},   {110001764, 0x1d003f}, {110003988, 0x8011d}};
    draws = (1u << CULM_HISTORY_DRAW_STORE) - 1; /* before there was a store */
    for (size_t i = 0; i < sizeof leaders / sizeof *leaders && !log; i++, total++) {
        failed += !run(leaders[i].seed, leaders[i].events, log, &totals);
    }
    /* A deed was in doubt, and one that had found its memory damaged was ended before the next leader could be told. */
    static const struct kept_history stores[] = {{100210, 0x8026c}};
    draws = (1u << CULM_HISTORY_DRAW_SIZE) - 1; /* before there were shapes of many sizes */
    for (size_t i = 0; i < sizeof stores / sizeof *stores && !log; i++, total++) {
        failed += !run(stores[i].seed, stores[i].events, log, &totals);
    }
    /* Its process left as if another one led, and it led later; the last word on who has recovered was not spoken, as the store alone
     * knew that the run was done. */
    static const struct kept_history candidates[] = {{1934, 0x400050}, {14524, 0x4100e1}};
    draws = 1u << CULM_HISTORY_DRAW_STORE;
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates && !log; i++, total++) {
        failed += !run(candidates[i].seed, candidates[i].events, log, &totals);
    }
    /* Of links that had broken only the leader before had been told. */
    static const struct kept_history sizes[] = {{202611292011009977, 0x1d4}};
    draws = (1u << CULM_HISTORY_DRAW_LEAVE) - 1; /* before nodes were told to end */
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !log; i++, total++) {
        failed += !run(sizes[i].seed, sizes[i].events, log, &totals);
    }
    /* One that stood by had been let go by a leader that was then gone itself, before others knew. */
    static const struct kept_history leaving[] = {{50000535, 0x3}};
    draws = (1u << CULM_HISTORY_DRAWS) - 1;
    for (size_t i = 0; i < sizeof leaving / sizeof *leaving && !log; i++, total++) {
        failed += !run(leaving[i].seed, leaving[i].events, log, &totals);
    }
    double took = seconds() - start;
    bool enough = floors(&totals, drawn, log || only >= 0 || events != EVERY_EVENT ? 0 : total);
    printf("%llu histories, %llu failed; %.0f histories/s\n", (unsigned long long)total,
           (unsigned long long)failed, (double)total / took);
    if (marks >= 0 &&
        mark_print_missed("pipeline_", 1) + mark_print_missed("cluster_", 1) > marks) {
        printf("not ok - more than %d marks that no history hits\n", marks);
        enough = false;
    }
    return failed || !enough ? 1 : 0;
}
