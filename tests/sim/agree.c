/*
 * Bits that flip in one worker's memory: every worker x every phase x what is hit, with four copies
 * of a stage, two and one, on the symbolic executor.
 *
 * A flip must come to pass and be noticed: the worker is put out (with two copies and a step that
 * erred: the run ends and is resumed), and the bits at the end are those of the undisturbed run.
 * What nobody can notice is left out: a gradient that changes at its only reader before its norm
 * was taken, and the only copy of a stage stepped wrongly. And readers of wrong samples.
 */
#include "small.h"

#include <stdio.h>

struct shape {
    int32_t pipelines, stages;
    enum culm_redundancy redundancy;
    int32_t copies;
};

static const char *const flip_name[] = {"state", "gradient", "gradient applied", "result"};

static struct culm_history history_of(const struct shape *shape, uint64_t seed) {
    return small_history(shape->pipelines, shape->stages, shape->redundancy, seed);
}

static bool passes(const struct shape *shape, enum culm_phase phase, enum culm_flip flip) {
    switch (phase) {
    case CULM_PHASE_FORWARD:
    case CULM_PHASE_BACKWARD:
    case CULM_PHASE_REDUCE: return true;
    case CULM_PHASE_FRC: return shape->redundancy == CULM_REDUNDANCY_EAGER;
    case CULM_PHASE_SEND: return shape->stages > 1;
    case CULM_PHASE_COMMIT:
    case CULM_PHASE_STEP: return flip == CULM_FLIP_STATE || flip == CULM_FLIP_APPLIED;
    default: return false;
    }
}

static bool run_one(const struct shape *shape, int32_t node, int64_t step, enum culm_phase phase,
                    enum culm_flip flip, uint64_t seed) {
    struct culm_history history = history_of(shape, seed);
    history.fault[history.fault_count++] = (struct culm_history_fault){.when = CULM_AT_PHASE,
                                                                       .phase = phase,
                                                                       .step = step,
                                                                       .micro = -1,
                                                                       .target = CULM_TARGET_NODE,
                                                                       .node = node,
                                                                       .kind = CULM_FAULT_FLIP,
                                                                       .flip = flip};
    struct culm_history_result result;
    culm_history_run(&history, &result);
    bool told = flip != CULM_FLIP_RESULT || shape->copies > 2;
    /* A tensor that the last step has already changed is saved as it was looked at, or by others.
     */
    bool over = step == history.shape.steps && phase == CULM_PHASE_STEP;
    bool noticed = told ? result.noticed == 1 && result.losses == 1 && result.resumes == 0
                        : result.undecided == 1 && result.resumes == 1;
    bool kept = shape->copies == 1 || result.rollbacks == 0;
    if (result.ok && kept && (over || (result.flips == 1 && noticed))) {
        return true;
    }
    printf("not ok - %d x %d %s, worker %d, step %lld, %s: %s: %s (%lld flips, %lld noticed, %lld "
           "undecided, %lld losses, %lld roll-backs)\n",
           shape->pipelines, shape->stages, culm_redundancy_name(shape->redundancy), node,
           (long long)step, culm_phase_name((size_t)phase), flip_name[flip], result.why,
           (long long)result.flips, (long long)result.noticed, (long long)result.undecided,
           (long long)result.losses, (long long)result.rollbacks);
    return false;
}

/* A worker that reads the samples of another step: whatever reads them says so, and the run ends
 * before they are counted. Resumed by workers that read the right ones it ends well. */
static bool misread_one(const struct shape *shape, int32_t node, int64_t step, uint64_t seed) {
    struct culm_history history = history_of(shape, seed);
    history.fault[history.fault_count++] = (struct culm_history_fault){.when = CULM_AT_PHASE,
                                                                       .phase = CULM_PHASE_FORWARD,
                                                                       .step = step,
                                                                       .micro = -1,
                                                                       .target = CULM_TARGET_NODE,
                                                                       .node = node,
                                                                       .kind = CULM_FAULT_FLIP,
                                                                       .flip = CULM_FLIP_READER};
    struct culm_history_result result;
    culm_history_run(&history, &result);
    int32_t stage = node % shape->stages;
    bool reads = stage == 0 || stage == shape->stages - 1;
    int64_t global = history.shape.global_samples;
    /* All of one pipeline's lanes are other samples: of the step before, or after the first. */
    bool whole = shape->pipelines == 1;
    bool right = !reads || (result.misread == 1 && result.resumes == 1 &&
                            (!whole || (result.samples_lost == global &&
                                        result.samples_repeated == (step > 1 ? global : 0))));
    if (result.ok && right) {
        return true;
    }
    printf("not ok - %d x %d, worker %d reads wrongly from step %lld: %s (%lld misread, %lld lost, "
           "%lld repeated)\n",
           shape->pipelines, shape->stages, node, (long long)step, result.why,
           (long long)result.misread, (long long)result.samples_lost,
           (long long)result.samples_repeated);
    return false;
}

int main(void) {
    static const struct shape shapes[] = {{2, 3, CULM_REDUNDANCY_EAGER, 4},
                                          {3, 2, CULM_REDUNDANCY_NONE, 3},
                                          {1, 3, CULM_REDUNDANCY_LAZY, 2},
                                          {2, 1, CULM_REDUNDANCY_NONE, 2},
                                          {1, 2, CULM_REDUNDANCY_NONE, 1}};
    int count = 0, failed = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const struct shape *shape = &shapes[i];
        for (int32_t node = 0; node < shape->pipelines * shape->stages; node++) {
            for (int flip = 0; flip < CULM_FLIP_READER; flip++) {
                bool alone = flip == CULM_FLIP_GRADIENT || flip == CULM_FLIP_RESULT;
                for (int phase = 0; phase < CULM_PHASE_COUNT; phase++) {
                    for (int64_t step = 1; step <= 4; step += step == 1 ? 2 : 1) {
                        if (passes(shape, (enum culm_phase)phase, (enum culm_flip)flip) &&
                            !(shape->copies == 1 && alone)) {
                            failed += !run_one(shape, node, step, (enum culm_phase)phase,
                                               (enum culm_flip)flip, (uint64_t)count++);
                        }
                    }
                }
            }
        }
    }
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int32_t node = 0; node < shapes[i].pipelines * shapes[i].stages; node++) {
            for (int64_t step = 1; step <= 4; step++) {
                failed += !misread_one(&shapes[i], node, step, (uint64_t)count++);
            }
        }
    }
    printf("%d flips, %d failed\n", count, failed);
    return failed ? 1 : 0;
}
