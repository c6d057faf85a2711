/* The small history that tests with planned faults start from: a checkpoint every second step, and
 * times in which nothing that works is suspected. They change what they need. */
#ifndef CULM_TESTS_SIM_SMALL_H
#define CULM_TESTS_SIM_SMALL_H

#include "history.h"

static inline struct culm_history small_history(int32_t pipelines, int32_t stages,
                                                enum culm_redundancy redundancy, uint64_t seed) {
    return (struct culm_history){
        .seed = seed,
        .shape = {.pipelines = pipelines,
                  .stages = stages,
                  .lanes = 4,
                  .micros = 8,
                  .micros_per_lane = 2,
                  .global_samples = 16,
                  .micro_samples = 2,
                  .steps = 4,
                  .redundancy = redundancy,
                  .clip_norm = 1.0},
        .settings = {.crew = {.heartbeat_ms = 20,
                              .suspect_ms = 200,
                              .kill_suspect_ms = 400,
                              .replace_ms = 50,
                              .join_ms = 1000,
                              .wait_ms = 60000,
                              .stuck_ms = 30000,
                              .max_nodes = pipelines * stages + 2},
                     .checkpoint_every = 2},
        .checkpoint_keep = 2,
        .params_per_stage = 4,
        .latency_us = 100,
        .jitter_us = 300,
        .job_us = 1000,
        .must_fire = true,
    };
}

#endif
