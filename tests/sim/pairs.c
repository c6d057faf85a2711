/*
 * Ordered pairs of kill points in training: whoever is at the first one dies, and in what follows whoever is at the second.
 *
 *     sim_pairs [--all] [--one-in N] [--from A] [--to B] [--log]
 *
 * The points are the phases of a node, and those of whoever leads: before, between and after its frames of VIEW, COMMIT, SAVE and
 * TAKE_OVER, and before and after what it writes at the store (pairs.h). The world is small: two pipelines of two stages, whose
 * candidates stand at a store of keys; histories are judged as all are (history.h). Some points are reached only if something happens
 * beside the pair: each has what it needs. The second point is struck when a view has followed the first blow, or else at once. Pairs
 * that do not fire are listed: nothing follows what ends the run, for one.
 *
 *   --all         each pair with anything that may happen before and in between, after a view and at once, with each kind of redundancy
 *   --one-in      one pair of so many, such that each point is first in some, and second
 *   --from, --to  of these points alone, by number
 */
#include "small.h"

#include "pairs.h"
#include "pipeline/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS 6
#define NODES 4

static struct pairs_point points[PAIRS_POINTS_MAX];
static int32_t point_count;

/* What happens beside a pair, so that its points are reached. */
enum beside { NOTHING, WORKER, LEADER, STAGE, STOPPED, BESIDES };
static const struct {
    const char *name;
    struct culm_history_fault first, between;
} besides[BESIDES] = {
    [NOTHING] = {"nothing", {0}, {0}},
    [WORKER] = {"a worker dies",
                {.when = CULM_AT_PHASE,
                 .phase = CULM_PHASE_FORWARD,
                 .step = 1,
                 .target = CULM_TARGET_NODE,
                 .node = 3},
                {.when = CULM_AT_PHASE, .phase = CULM_PHASE_FORWARD, .step = -1}},
    [LEADER] = {"a leader dies",
                {.when = CULM_AFTER_EVENT, .event = "step", .target = CULM_TARGET_LEADER},
                {.when = CULM_AFTER_EVENT, .event = "step", .target = CULM_TARGET_LEADER}},
    [STAGE] = {"a stage is lost",
               {.when = CULM_AFTER_EVENT, .event = "checkpoint", .target = CULM_TARGET_STAGE},
               {.when = CULM_AFTER_EVENT, .event = "step", .target = CULM_TARGET_STAGE}},
    [STOPPED] = {"it is stopped",
                 {.when = CULM_AFTER_EVENT, .event = "step", .skip = 1, .kind = CULM_FAULT_STOP},
                 {.when = CULM_AFTER_EVENT, .event = "step", .kind = CULM_FAULT_STOP}},
};

/* One way to play a pair. */
struct setting {
    enum beside first,
        between; /* before the first point is struck; before the second one is, and after that */
    bool after_view; /* the second one is struck only when a view has followed */
    enum culm_redundancy redundancy;
};

static int64_t played, failed, fired_pairs, unfired, losses, rollbacks, leaders;

static void describe(const struct pairs_point *point, char *ret_text, size_t size) {
    if (!point->name) {
        snprintf(ret_text, size, "node, %s", culm_phase_name(point->phase));
    } else if (point->moment.does == CULM_SIM_SENT || point->moment.does == CULM_SIM_PROMISED ||
               point->moment.does == CULM_SIM_HEARS) {
        snprintf(ret_text, size, "leader, %s %s %d", point->name, pairs_where(point),
                 point->skip + 1);
    } else {
        snprintf(ret_text, size, "leader, %s %s", point->name, pairs_where(point));
    }
}

static struct culm_history_fault fault_at(const struct pairs_point *point) {
    struct culm_history_fault fault = {.step = -1, .micro = -1, .skip = point->skip};
    if (point->name) {
        fault.when = CULM_AT_MOMENT;
        fault.moment = point->moment;
        fault.target = CULM_TARGET_LEADER;
    } else {
        fault.when = CULM_AT_PHASE;
        fault.phase = (enum culm_phase)point->phase;
        fault.target = CULM_TARGET_ANY;
    }
    return fault;
}

static enum beside need_of(const struct pairs_point *point) {
    const bool of_deed = point->moment.does >= CULM_SIM_WRITES;
    if (!point->name) {
        return point->phase == CULM_PHASE_TRANSFER ? WORKER
               : point->phase == CULM_PHASE_LOAD   ? STAGE
                                                   : NOTHING;
    }
    return point->moment.does < CULM_SIM_SENDS && point->name     ? LEADER
           : of_deed && point->moment.what == CULM_DEED_ROLL_BACK ? STAGE
           : of_deed && point->moment.what == CULM_DEED_STOP      ? STOPPED
           : of_deed && point->moment.what == CULM_SIM_ADMITS     ? WORKER
                                                                  : NOTHING;
}

static int32_t add(struct culm_history *history, struct culm_history_fault fault, int32_t behind) {
    fault.micro = -1;
    fault.behind = behind;
    history->fault[history->fault_count++] = fault;
    return history->fault_count; /* its number, from 1 */
}

/* True: both fired, in that order. */
static bool play(int32_t a, int32_t b, const struct setting *how, bool log) {
    struct culm_history history = small_history(2, 2, how->redundancy, (uint64_t)(a * 100 + b));
    struct culm_history_result result;
    history.shape.steps = STEPS;
    history.settings.crew.replace_ms = 0;
    history.jitter_us = 3000;
    history.job_us = 300;
    history.must_fire = false;
    history.outlives = true;
    history.candidates = 2;
    history.lease_ms = 300;
    history.log = log;
    int32_t behind = how->first ? add(&history, besides[how->first].first, 0) : 0;
    const int32_t first = add(&history, fault_at(&points[a]), behind);
    behind = how->between ? add(&history, besides[how->between].between, first) : first;
    struct culm_history_fault fault = fault_at(&points[b]);
    fault.after_view = how->after_view;
    const int32_t second = add(&history, fault, behind);
    culm_history_run(&history, &result);
    played++;
    failed += !result.ok;
    losses += result.losses;
    rollbacks += result.rollbacks;
    leaders += result.leaders;
    const bool fired = history.fault[first - 1].fired && history.fault[second - 1].fired;
    if (!result.ok || log) {
        char of_a[80], of_b[80];
        describe(&points[a], of_a, sizeof of_a);
        describe(&points[b], of_b, sizeof of_b);
        printf("%s - %s; then %s%s (first: %s; in between: %s; %s)%s: %s\n    replay: sim_pairs "
               "--all --from %d --to %d --log\n",
               result.ok ? "ok" : "not ok", of_a, of_b, how->after_view ? ", after a view" : "",
               besides[how->first].name, besides[how->between].name,
               culm_redundancy_name(how->redundancy), fired ? "" : ", not both fired", result.why,
               a, b);
    }
    return fired;
}

/* What the points need, until both fire. */
static bool play_pair(int32_t a, int32_t b, bool log) {
    const enum beside need = need_of(&points[b]);
    /* The version that a run begins with is loaded, and who takes part is written, without anything happening. */
    enum beside first = need_of(&points[a]);
    first = first == STAGE && !points[a].name ? NOTHING : first;
    bool fired = false;
    for (int between = 0; between <= (need != NOTHING) && !fired; between++) {
        for (int after_view = 1; after_view >= 0 && !fired; after_view--) {
            const struct setting how = {first, between ? need : NOTHING, after_view,
                                        CULM_REDUNDANCY_EAGER};
            fired = play(a, b, &how, log);
        }
    }
    return fired;
}

static bool play_in_all(int32_t a, int32_t b, bool log) {
    static const enum culm_redundancy redundancy[] = {CULM_REDUNDANCY_EAGER, CULM_REDUNDANCY_LAZY,
                                                      CULM_REDUNDANCY_NONE};
    bool fired = false;
    for (int s = 0; s < 3 * BESIDES * BESIDES * 2; s++) {
        const struct setting how = {(enum beside)(s / 6 % BESIDES), (enum beside)(s / 6 / BESIDES),
                                    s / 3 % 2, redundancy[s % 3]};
        fired |= play(a, b, &how, log);
    }
    return fired;
}

int main(int argc, char **argv) {
    static const struct pairs_frame frames[] = {{"VIEW", CULM_MSG_VIEW, NODES},
                                                {"COMMIT", CULM_MSG_COMMIT, NODES},
                                                {"SAVE", CULM_MSG_SAVE, 2},
                                                {NULL, 0, 0}};
    bool all = false, log = false;
    int32_t from = -1, to = -1, one_in = 1;
    for (int i = 1; i < argc; i++) {
        all = all || strcmp(argv[i], "--all") == 0;
        log = log || strcmp(argv[i], "--log") == 0;
        one_in = strcmp(argv[i], "--one-in") == 0 && i + 1 < argc ? atoi(argv[i + 1]) : one_in;
        from = strcmp(argv[i], "--from") == 0 && i + 1 < argc ? atoi(argv[i + 1]) : from;
        to = strcmp(argv[i], "--to") == 0 && i + 1 < argc ? atoi(argv[i + 1]) : to;
    }
    for (int phase = 0; phase < CULM_PHASE_COUNT; phase++) {
        points[point_count++] = (struct pairs_point){.phase = (uint32_t)phase};
    }
    point_count += pairs_of_leader(frames, CULM_MSG_REPORT, NODES, points + point_count);
    for (int32_t a = 0; a < point_count; a++) {
        for (int32_t b = 0; b < point_count; b++) {
            if ((from >= 0 && a != from) || (to >= 0 && b != to) || (a + b) % one_in != 0) {
                continue;
            }
            if (all ? play_in_all(a, b, log) : play_pair(a, b, log)) {
                fired_pairs++;
            } else {
                char of_a[80], of_b[80];
                describe(&points[a], of_a, sizeof of_a);
                describe(&points[b], of_b, sizeof of_b);
                printf("# does not fire: %s; then %s\n", of_a, of_b);
                unfired++;
            }
        }
    }
    const bool enough = all || from >= 0 || to >= 0 || fired_pairs > 9 * unfired;
    printf("1..1\n%s 1 - %d points, %lld pairs that fired, %lld that did not; %lld histories, %lld "
           "losses, %lld leaders that took over, %lld roll-backs, %lld failed\n",
           failed || !enough ? "not ok" : "ok", point_count, (long long)fired_pairs,
           (long long)unfired, (long long)played, (long long)losses, (long long)leaders,
           (long long)rollbacks, (long long)failed);
    return failed || !enough;
}
