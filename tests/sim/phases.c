/*
 * Every worker x every phase x every fault, and ordered pairs of neighbours, on the symbolic
 * executor.
 *
 * Two pipelines of three stages. Each planned fault must fire; whatever it is, the run ends with
 * the bits of the undisturbed one, rolls back never, and a freeze too short to be suspected loses
 * nobody.
 */
#include "small.h"

#include <stdio.h>
#include <string.h>

#define STAGES 3
#define WORKERS 6

enum how { KILL, FREEZE_SHORT, FREEZE_LONG, FREEZE_FOR_GOOD, HOW_COUNT };

static const char *const how_name[] = {"kill", "freeze 60 ms", "freeze 300 ms", "freeze for good"};

static struct culm_history history_of(enum culm_redundancy redundancy, uint64_t seed) {
    return small_history(2, STAGES, redundancy, seed);
}

static struct culm_history_fault fault_of(enum culm_phase phase, int32_t node, enum how how) {
    static const uint64_t freeze_ms[] = {0, 60, 300, 0};
    return (struct culm_history_fault){
        .when = CULM_AT_PHASE,
        .phase = phase,
        .step = phase == CULM_PHASE_LOAD ? 1 : 2, /* the version loaded is that before step 1 */
        .micro = -1,
        .target = node < 0 ? CULM_TARGET_ANY : CULM_TARGET_NODE,
        .node = node,
        .kind = how == KILL ? CULM_FAULT_KILL : CULM_FAULT_FREEZE,
        .freeze_ms = freeze_ms[how],
    };
}

/* Does this worker pass this phase in an undisturbed run? */
static bool passes(enum culm_phase phase, int32_t node, enum culm_redundancy redundancy) {
    switch (phase) {
    case CULM_PHASE_FRC: return redundancy == CULM_REDUNDANCY_EAGER;
    case CULM_PHASE_CHECKPOINT: return node < STAGES; /* the first pipeline writes */
    case CULM_PHASE_TRANSFER: return false;           /* nobody joins */
    default: return true;
    }
}

static int run_one(struct culm_history *history, const char *what, int64_t losses) {
    struct culm_history_result result;
    culm_history_run(history, &result);
    if (result.ok && result.rollbacks == 0 && (losses < 0 || result.losses == losses)) {
        return 0;
    }
    printf("not ok - %s: %s (%lld losses, %lld roll-backs)\n", what, result.why,
           (long long)result.losses, (long long)result.rollbacks);
    return 1;
}

static int single(enum culm_redundancy redundancy, int *ret_count) {
    int failed = 0;
    char what[160];
    for (int32_t node = 0; node < WORKERS; node++) {
        for (int phase = 0; phase < CULM_PHASE_COUNT; phase++) {
            for (int how = 0; how < HOW_COUNT && passes((enum culm_phase)phase, node, redundancy);
                 how++) {
                struct culm_history history = history_of(redundancy, (uint64_t)*ret_count);
                history.fault[history.fault_count++] =
                    fault_of((enum culm_phase)phase, node, (enum how)how);
                snprintf(what, sizeof what, "%s, worker %d, %s, %s",
                         culm_redundancy_name(redundancy), node, culm_phase_name((size_t)phase),
                         how_name[how]);
                failed += run_one(&history, what, how == FREEZE_SHORT ? 0 : 1);
                ++*ret_count;
            }
        }
    }
    return failed;
}

/* The replacement of a worker gets its copies, and whoever takes part in that is killed or frozen. */
static int during_transfer(enum culm_redundancy redundancy, int *ret_count) {
    int failed = 0;
    char what[160];
    for (int32_t node = 0; node < WORKERS; node++) {
        for (int how = 0; how < HOW_COUNT; how++) {
            for (int32_t skip = 0; skip < 12; skip++) {
                struct culm_history history = history_of(redundancy, (uint64_t)*ret_count);
                history.shape.steps = 12; /* so that it joins before the end */
                history.fault[history.fault_count++] = fault_of(CULM_PHASE_FORWARD, node, KILL);
                struct culm_history_fault *second = &history.fault[history.fault_count++];
                *second = fault_of(CULM_PHASE_TRANSFER, -1, (enum how)how);
                second->step = -1;
                second->skip = skip;
                snprintf(what, sizeof what, "%s, worker %d lost, transfer %d, %s",
                         culm_redundancy_name(redundancy), node, skip, how_name[how]);
                failed += run_one(&history, what, how == FREEZE_SHORT ? 1 : 2);
                ++*ret_count;
            }
        }
    }
    return failed;
}

/* Both of two neighbours of the ring, in either order of phases. Whether the second passes its
 * phase in that very step may depend on the first: one that dies may take redundant forwards or
 * writing away from it. */
static int pairs(enum culm_redundancy redundancy, int *ret_count) {
    int failed = 0;
    char what[200];
    for (int32_t node = 0; node < WORKERS; node++) {
        int32_t next = node / STAGES * STAGES + (node + 1) % STAGES;
        for (int a = 0; a < CULM_PHASE_COUNT; a++) {
            for (int b = 0; b < CULM_PHASE_COUNT; b++) {
                if (!passes((enum culm_phase)a, node, redundancy) ||
                    !passes((enum culm_phase)b, next, redundancy)) {
                    continue;
                }
                struct culm_history history = history_of(redundancy, (uint64_t)*ret_count);
                enum how how = *ret_count % 5 == 0 ? FREEZE_LONG : KILL;
                history.fault[history.fault_count++] = fault_of((enum culm_phase)a, node, KILL);
                history.fault[history.fault_count++] = fault_of((enum culm_phase)b, next, how);
                history.must_fire = b != CULM_PHASE_FRC && a != CULM_PHASE_FRC;
                snprintf(what, sizeof what, "%s, worker %d, %s, then %d, %s, %s",
                         culm_redundancy_name(redundancy), node, culm_phase_name((size_t)a), next,
                         culm_phase_name((size_t)b), how_name[how]);
                failed += run_one(&history, what, -1);
                ++*ret_count;
            }
        }
    }
    return failed;
}

int main(void) {
    int count = 0, failed = 0;
    static const enum culm_redundancy redundancy[] = {CULM_REDUNDANCY_EAGER, CULM_REDUNDANCY_LAZY};
    for (int i = 0; i < 2; i++) {
        failed += single(redundancy[i], &count);
        failed += during_transfer(redundancy[i], &count);
        failed += pairs(redundancy[i], &count);
    }
    printf("%d planned faults, %d failed\n", count, failed);
    return failed ? 1 : 0;
}
