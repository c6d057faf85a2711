/*
 * Histories of large runs: many stages, lanes, pipelines, nodes or parameters, at and beyond the size
 * of a word of bits; workers lost in each. On the symbolic executor.
 */
#include "history.h"

#include <stdio.h>

static const struct edge {
    const char *what;
    int32_t pipelines, stages, lanes, micros_per_lane, params;
    enum culm_redundancy redundancy;
} edges[] = {
    {"64 stages", 1, 64, 2, 1, 1, CULM_REDUNDANCY_EAGER},
    {"150 stages", 1, 150, 2, 1, 1, CULM_REDUNDANCY_EAGER},
    {"2 x 64 nodes", 2, 64, 2, 1, 1, CULM_REDUNDANCY_LAZY},
    {"64 lanes", 4, 2, 64, 1, 2, CULM_REDUNDANCY_EAGER},
    {"64 lanes of 4", 2, 2, 64, 4, 2, CULM_REDUNDANCY_NONE},
    {"26 x 5 nodes", 26, 5, 64, 1, 1, CULM_REDUNDANCY_NONE},
    {"64 pipelines", 64, 2, 64, 1, 1, CULM_REDUNDANCY_EAGER},
    {"100 pipelines", 100, 2, 130, 1, 1, CULM_REDUNDANCY_EAGER},
    {"200 pipelines of one", 200, 1, 200, 2, 2, CULM_REDUNDANCY_LAZY},
    {"300 lanes", 3, 2, 300, 1, 2, CULM_REDUNDANCY_NONE},
    {"many parameters", 2, 2, 4, 1, 12, CULM_REDUNDANCY_EAGER},
};

static struct culm_history history_of(const struct edge *edge, uint64_t seed) {
    int32_t micros = edge->lanes * edge->micros_per_lane;
    struct culm_history history = {
        .seed = seed,
        .shape = {.pipelines = edge->pipelines,
                  .stages = edge->stages,
                  .lanes = edge->lanes,
                  .micros = micros,
                  .micros_per_lane = edge->micros_per_lane,
                  .global_samples = micros,
                  .micro_samples = 1,
                  .steps = 2,
                  .redundancy = edge->redundancy,
                  .clip_norm = 1.0},
        .settings = {.crew = {.heartbeat_ms = 100,
                              .suspect_ms = 2000,
                              .kill_suspect_ms = 4000,
                              .replace_ms = 50,
                              .join_ms = 5000,
                              .wait_ms = 60000,
                              .stuck_ms = 30000,
                              .max_nodes = edge->pipelines * edge->stages + 2},
                     .checkpoint_every = 1},
        .checkpoint_keep = 2,
        .params_per_stage = edge->params,
        .latency_us = 100,
        .jitter_us = 300,
        .job_us = 300,
        .fabric = {.scratch_bytes = 1024, .exit_us = 2000},
        .must_fire = true,
    };
    for (int32_t i = 0; i < 2; i++) {
        history.fault[history.fault_count++] = (struct culm_history_fault){
            .when = CULM_AT_PHASE,
            .phase = i ? CULM_PHASE_COMMIT : CULM_PHASE_BACKWARD,
            .step = 1 + i,
            .micro = -1,
            .skip = i,
            .target = CULM_TARGET_ANY,
        };
    }
    return history;
}

int main(void) {
    int failed = 0;
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        struct culm_history history = history_of(&edges[i], i);
        struct culm_history_result result;
        culm_history_run(&history, &result);
        bool ok = result.ok && result.losses >= 2;
        printf("%s %zu - %s: %lld losses, %lld streams%s%s\n", ok ? "ok" : "not ok", i + 1,
               edges[i].what, (long long)result.losses, (long long)result.world.streams,
               ok ? "" : ": ", ok ? "" : result.why);
        fflush(stdout);
        failed += !ok;
    }
    printf("1..%zu\n", sizeof edges / sizeof *edges);
    return failed ? 1 : 0;
}
