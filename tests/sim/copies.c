/*
 * Histories in which a worker that replaces a lost one sits at the end of a slow link, or asks for little at a time, so that
 * its copies take many steps. On the symbolic executor.
 *
 * Nobody waits for it: no step takes longer than in the same history without a replacement. It gets its copies all the
 * same; and whoever is struck meanwhile (the source, the learner, a reducer, the leader), nothing is stuck and all bits
 * are right.
 */
#include "history.h"

#include <stdio.h>
#include <string.h>

#define PIPELINES 2
#define STAGES 2
#define STEPS 40
#define JOINER (PIPELINES * STAGES) /* the worker that replaces the first that is lost */

static struct culm_history history_of(enum culm_redundancy redundancy, uint64_t seed) {
    struct culm_history history = {
        .seed = seed,
        .shape = {.pipelines = PIPELINES,
                  .stages = STAGES,
                  .lanes = 4,
                  .micros = 8,
                  .micros_per_lane = 2,
                  .global_samples = 8,
                  .micro_samples = 1,
                  .steps = STEPS,
                  .redundancy = redundancy,
                  .clip_norm = 1.0},
        .settings = {.crew = {.heartbeat_ms = 200,
                              .suspect_ms = 2000,
                              .kill_suspect_ms = 4000,
                              .replace_ms = 0,
                              .join_ms = 5000,
                              .wait_ms = 60000,
                              .stuck_ms = 30000,
                              .max_nodes = JOINER + 4},
                     .checkpoint_every = 5},
        .checkpoint_keep = 2,
        .params_per_stage = 40,
        .latency_us = 100,
        .job_us = 2000,
        .slice_us = 20,
        .fabric = {.scratch_bytes = 1024, .exit_us = 2000, .later_bytes_per_ms = 200},
        .copy_window_bytes = 8,
        .copy_bytes_per_ms = 1,
    };
    history.fault[history.fault_count++] = (struct culm_history_fault){.when = CULM_AT_PHASE,
                                                                       .phase = CULM_PHASE_FORWARD,
                                                                       .step = 3,
                                                                       .micro = -1,
                                                                       .target = CULM_TARGET_NODE,
                                                                       .node = 1};
    return history;
}

static int number, failed;

static void told(bool ok, const char *what, const struct culm_history_result *result) {
    printf("%s %d - %s: %lld copies, %lld steps meanwhile, the longest %lld us%s%s\n",
           ok ? "ok" : "not ok", ++number, what, (long long)result->copies,
           (long long)result->copied_on, (long long)result->copying_us, result->ok ? "" : ": ",
           result->ok ? "" : result->why);
    fflush(stdout);
    failed += !ok;
}

/* Others take the lost one's work, or its lanes, so the steps after the loss are longer than those before, in both. */
static void pace(enum culm_redundancy redundancy, const char *what) {
    struct culm_history with = history_of(redundancy, 7), without = with;
    struct culm_history_result result, alone;
    without.settings.crew.replace_ms = -1;
    culm_history_run(&with, &result);
    culm_history_run(&without, &alone);
    told(result.ok && alone.ok && result.copies >= 1 && result.copied_on >= 5 &&
             result.copying_us <= alone.alone_us * 5 / 4,
         what, &result);
    printf("# without a replacement the longest takes %lld us\n", (long long)alone.alone_us);
}

/* Struck so many happenings after the replacement has joined; before that nothing is copied. */
static void strike(const char *what, struct culm_history_fault fault, bool leaders) {
    struct culm_history_result sum = {.ok = true};
    for (int32_t delay = 0; delay < 3000 && sum.ok; delay += 151) {
        struct culm_history history =
            history_of(delay % 2 ? CULM_REDUNDANCY_LAZY : CULM_REDUNDANCY_NONE, (uint64_t)delay);
        struct culm_history_result result;
        fault.when = CULM_AFTER_EVENT;
        fault.event = "joined";
        fault.skip = JOINER;
        fault.delay = delay;
        history.outlives = leaders;
        history.take_ms = 30;
        history.fault[history.fault_count++] = fault;
        history.must_fire = true;
        culm_history_run(&history, &result);
        sum.ok = result.ok;
        memcpy(sum.why, result.why, sizeof sum.why);
        sum.copies += result.copies;
        sum.copied_on += result.copied_on;
        sum.copying_us = result.copying_us > sum.copying_us ? result.copying_us : sum.copying_us;
    }
    told(sum.ok && sum.copies > 0 && sum.copied_on > 0, what, &sum);
}

static struct culm_history_fault at_node(enum culm_fault_kind kind, int32_t node,
                                         uint64_t freeze_ms) {
    return (struct culm_history_fault){
        .target = CULM_TARGET_NODE, .node = node, .kind = kind, .freeze_ms = freeze_ms};
}

/* All leave at once, and others come: those of one pipeline train on while they learn. */
static void hand_over(enum culm_redundancy redundancy, const char *what) {
    struct culm_history_result sum = {.ok = true};
    const int32_t seeds = 40;
    for (int32_t seed = 0; seed < seeds && sum.ok; seed++) {
        struct culm_history history = history_of(redundancy, (uint64_t)seed);
        struct culm_history_result result;
        history.shape.stages = 3;
        history.settings.crew.max_nodes = 2 * PIPELINES * 3;
        history.jitter_us = 4000 * (uint64_t)(seed % 20);
        history.job_us = 200;
        history.fabric.later_bytes_per_ms = 100000;
        history.copy_bytes_per_ms = 0;
        history.copy_window_bytes = seed % 3 ? 8 : 0;
        history.fault[0] = (struct culm_history_fault){.when = CULM_AT_TIME,
                                                       .at_ms = 300 + (uint64_t)(7 * seed % 100),
                                                       .target = CULM_TARGET_ALL,
                                                       .kind = CULM_FAULT_LEAVE,
                                                       .freeze_ms = CULM_HISTORY_GRACE_MS};
        culm_history_run(&history, &result);
        sum.ok = result.ok && result.losses == 0;
        memcpy(sum.why, result.why, sizeof sum.why);
        sum.copies += result.copies;
        sum.left += result.left;
        sum.copied_on += result.copied_on;
        sum.copying_us = result.copying_us > sum.copying_us ? result.copying_us : sum.copying_us;
    }
    told(sum.ok && sum.copies > 0 && sum.left > 4 * seeds && sum.copied_on > 4 * seeds, what, &sum);
}

int main(void) {
    pace(CULM_REDUNDANCY_NONE, "nobody waits for a copy over a slow link");
    pace(CULM_REDUNDANCY_LAZY, "the same with shadows, which are copied, too");
    for (int32_t node = 0; node <= JOINER; node++) {
        char what[64];
        if (node != 1) {
            snprintf(what, sizeof what, "worker %d is killed meanwhile", node);
            strike(what, at_node(CULM_FAULT_KILL, node, 0), false);
            snprintf(what, sizeof what, "worker %d is frozen for a while", node);
            strike(what, at_node(CULM_FAULT_FREEZE, node, 900), false);
        }
    }
    strike("every holder of a stage is lost meanwhile",
           (struct culm_history_fault){.target = CULM_TARGET_STAGE, .node = 1}, false);
    strike("who leads is killed meanwhile",
           (struct culm_history_fault){.target = CULM_TARGET_LEADER}, true);
    strike("who leads freezes meanwhile, and another one takes over",
           (struct culm_history_fault){
               .target = CULM_TARGET_LEADER, .kind = CULM_FAULT_FREEZE, .freeze_ms = 500},
           true);
    hand_over(CULM_REDUNDANCY_NONE, "all leave at once, and others take over");
    hand_over(CULM_REDUNDANCY_LAZY, "the same with shadows");
    printf("1..%d\n", number);
    return failed ? 1 : 0;
}
