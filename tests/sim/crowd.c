/*
 * Training with a thousand real nodes, of which a part is lost at the same moment.
 *
 *     crowd [--stages N] [--log]
 *
 * Pipelines, as many as there may be, of N stages each; after the second step the owners of several of them are
 * killed. The oracle of history.h judges what comes of it.
 */
#include "small.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PIPELINES 64
#define LOST 6 /* pipelines, or fewer if one is chosen twice */

int main(int argc, char **argv) {
    int32_t stages = 16;
    bool log = false;
    for (int a = 1; a < argc; a++) {
        log = log || strcmp(argv[a], "--log") == 0;
        stages = strcmp(argv[a], "--stages") == 0 && a + 1 < argc ? atoi(argv[a + 1]) : stages;
    }
    struct culm_history history = small_history(PIPELINES, stages, CULM_REDUNDANCY_EAGER, 1);
    struct culm_history_result result;
    history.shape.lanes = history.shape.micros = PIPELINES;
    history.shape.micros_per_lane = history.shape.micro_samples = 1;
    history.shape.global_samples = PIPELINES;
    history.settings.crew.max_nodes = PIPELINES * stages;
    history.settings.checkpoint_every = 0;
    history.fabric.scratch_bytes = 2048;
    history.log = log;
    for (int f = 0; f < LOST; f++) {
        history.fault[history.fault_count++] =
            (struct culm_history_fault){.when = CULM_AFTER_EVENT,
                                        .event = "step",
                                        .skip = 1,
                                        .step = -1,
                                        .micro = -1,
                                        .target = CULM_TARGET_PIPELINE,
                                        .kind = CULM_FAULT_KILL};
    }
    culm_history_run(&history, &result);
    const bool good = result.ok && result.losses > stages && result.rollbacks == 0;
    printf("1..1\n%s 1 - %d pipelines of %d stages: %lld lost, %lld views, %lld recovered, %lld "
           "roll-backs%s%s; %.1f s\n",
           good ? "ok" : "not ok", PIPELINES, stages, (long long)result.losses,
           (long long)result.views, (long long)result.recovered, (long long)result.rollbacks,
           result.ok ? "" : ": ", result.why, (double)clock() / CLOCKS_PER_SEC);
    return !good;
}
