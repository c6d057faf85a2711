/*
 * Planned histories of runs that must go on, or must end: tasks that take longer than
 * `cluster.stuck_ms` for everyone, checkpoints that turn out to be damaged. On the symbolic
 * executor; each ends with the bits of the undisturbed run, or with the line that is wanted.
 */
#include "pipeline/exec.h"
#include "small.h"

#include <stdio.h>
#include <string.h>

#define STUCK_MS 300

static struct culm_history history_of(int32_t pipelines, uint64_t seed) {
    struct culm_history history = small_history(pipelines, 3, CULM_REDUNDANCY_EAGER, seed);
    history.shape.steps = 3;
    history.settings.crew.stuck_ms = STUCK_MS;
    history.settings.crew.max_nodes += 2;
    history.params_per_stage = 2;
    return history;
}

static int run(struct culm_history *history, int number, const char *what) {
    struct culm_history_result result;
    culm_history_run(history, &result);
    printf("%sok %d - %s", result.ok ? "" : "not ", number, what);
    printf("%s%s (%lld losses, %lld roll-backs, %llu ms)\n", result.ok ? "" : ": ", result.why,
           (long long)result.losses, (long long)result.rollbacks,
           (unsigned long long)result.virtual_ms);
    return !result.ok;
}

/* What one kind of task takes, of everyone; `tries`: losses until the limit has grown past it. */
static int slow_tasks(int *ret_count) {
    static const struct {
        enum culm_task_kind kind;
        const char *name;
    } kinds[] = {{CULM_TASK_LOAD, "loading"},      {CULM_TASK_FORWARD, "forward"},
                 {CULM_TASK_BACKWARD, "backward"}, {CULM_TASK_FOLD, "sums"},
                 {CULM_TASK_STEP, "the step"},     {CULM_TASK_SNAPSHOT, "a snapshot"}};
    static const struct {
        uint64_t ms;
        int64_t losses_max;
    } slow[] = {{STUCK_MS + 30, 1}, {3 * STUCK_MS, 4}, {7 * STUCK_MS, 6}};
    int failed = 0;
    char what[160];
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (size_t i = 0; i < sizeof slow / sizeof *slow; i++) {
            for (int32_t pipelines = 1; pipelines <= 2; pipelines++) {
                struct culm_history history = history_of(pipelines, (uint64_t)*ret_count);
                history.slow_kind = (int32_t)kinds[k].kind;
                history.slow_stage = 1;
                history.slow_ms = slow[i].ms;
                history.losses_max = slow[i].losses_max;
                snprintf(what, sizeof what, "%d x 3, %s of stage 1 takes %llu ms", pipelines,
                         kinds[k].name, (unsigned long long)slow[i].ms);
                failed += run(&history, ++*ret_count, what);
            }
        }
    }
    return failed;
}

static int endless_tasks(int *ret_count) {
    static const struct {
        enum culm_task_kind kind;
        const char *says;
    } kinds[] = {{CULM_TASK_LOAD, "no worker finishes loading of stage 1"},
                 {CULM_TASK_FORWARD, "no worker finishes a forward task of stage 1"},
                 {CULM_TASK_BACKWARD, "no worker finishes a backward task of stage 1"}};
    int failed = 0;
    char what[160];
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct culm_history history = history_of(2, (uint64_t)*ret_count);
        history.slow_kind = (int32_t)kinds[k].kind;
        history.slow_stage = 1;
        history.slow_ms = 100000000;
        history.must_say = kinds[k].says;
        history.losses_max = 24;
        snprintf(what, sizeof what, "nobody finishes kind %d of stage 1", (int)kinds[k].kind);
        failed += run(&history, ++*ret_count, what);
    }
    return failed;
}

/* Some checkpoints are damaged after they were published, and then every worker is lost. */
static int damaged_checkpoints(int *ret_count) {
    int failed = 0;
    char what[160];
    for (int32_t damaged = 1; damaged <= 2; damaged++) {
        for (int32_t keep = 1; keep <= 3; keep++) {
            for (int32_t param = 0; param < 6; param++) {
                struct culm_history history = history_of(2, (uint64_t)*ret_count);
                history.shape.steps = 7;
                history.settings.checkpoint_every = 1;
                history.checkpoint_keep = keep;
                for (int32_t i = 0; i <= damaged; i++) {
                    history.fault[history.fault_count++] = (struct culm_history_fault){
                        .when = CULM_AFTER_EVENT,
                        .event = "checkpoint",
                        .skip = 3 - damaged + (i < damaged ? i : damaged - 1),
                        .delay = i < damaged ? 0 : 4,
                        .target = CULM_TARGET_ALL,
                        .node = param,
                        .kind = i < damaged ? CULM_FAULT_DAMAGE : CULM_FAULT_KILL};
                }
                snprintf(what, sizeof what, "%d checkpoints damaged, %d kept, parameter %d",
                         damaged, keep, param);
                failed += run(&history, ++*ret_count, what);
            }
        }
    }
    return failed;
}

/* From some moment on nothing passes from one process to another, and nobody is told. */
static int swallowing_links(int *ret_count) {
    int failed = 0;
    char what[160];
    for (int32_t pipelines = 1; pipelines <= 2; pipelines++) {
        int32_t workers = pipelines * 3;
        for (int32_t from = -1; from < workers; from++) {
            for (int32_t to = -1; to < workers; to++) {
                for (int32_t skip = 0; skip < 3 && from != to; skip++) {
                    struct culm_history history = history_of(pipelines, (uint64_t)*ret_count);
                    history.shape.steps = 6;
                    history.losses_max = 3;
                    history.fault[history.fault_count++] =
                        (struct culm_history_fault){.when = CULM_AFTER_EVENT,
                                                    .event = skip ? "step" : "view",
                                                    .skip = skip ? skip - 1 : 1,
                                                    .delay = 7 * skip,
                                                    .kind = CULM_FAULT_DROP,
                                                    .target = CULM_TARGET_NODE,
                                                    .node = from < 0 ? to : from,
                                                    .far = CULM_FAR_NODE,
                                                    .far_node = from < 0 ? from : to,
                                                    .inward = from < 0};
                    snprintf(what, sizeof what, "%d x 3, from %d to %d, moment %d", pipelines, from,
                             to, skip);
                    failed += run(&history, ++*ret_count, what);
                }
            }
        }
    }
    return failed;
}

/* What befalls a run while it holds a step that it cannot save. */
static struct culm_history_fault while_held(enum culm_fault_kind kind, enum culm_target target,
                                            int32_t delay) {
    return (struct culm_history_fault){.when = CULM_AFTER_EVENT,
                                       .event = "held",
                                       .delay = delay,
                                       .kind = kind,
                                       .target = target,
                                       .freeze_ms = 300};
}

/* A disk on which half of all writes fail, or all of them: the run is done when it has saved, or says that
 * it could not, and is then resumed on one that has room. */
static int full_disk(int *ret_count) {
    static const struct {
        const char *name;
        enum culm_fault_kind kind;
        enum culm_target target;
    } faults[] = {{"nothing else", CULM_FAULT_COUNT, CULM_TARGET_ANY},
                  {"a worker is killed", CULM_FAULT_KILL, CULM_TARGET_ANY},
                  {"a pipeline is killed", CULM_FAULT_KILL, CULM_TARGET_PIPELINE},
                  {"all are killed", CULM_FAULT_KILL, CULM_TARGET_ALL},
                  {"a worker freezes", CULM_FAULT_FREEZE, CULM_TARGET_ANY},
                  {"it is stopped", CULM_FAULT_STOP, CULM_TARGET_ANY}};
    int failed = 0;
    char what[160];
    for (size_t k = 0; k < sizeof faults / sizeof *faults; k++) {
        for (uint32_t percent = 50; percent <= 100; percent += 50) {
            for (int32_t variant = 0; variant < 8; variant++) {
                struct culm_history history = history_of(1 + variant % 2, (uint64_t)*ret_count);
                history.settings.checkpoint_every = variant % 4 < 2 ? 0 : 1;
                history.settings.crew.stuck_ms = 10000;
                history.checkpoint_keep = 2;
                history.save_fail_percent = percent;
                history.must_fire = percent == 100; /* else it may be saved at once */
                if (variant >= 4) { /* stopped before it is done, which finds no room either */
                    history.fault[history.fault_count++] =
                        (struct culm_history_fault){.when = CULM_AFTER_EVENT,
                                                    .event = "step",
                                                    .delay = variant,
                                                    .kind = CULM_FAULT_STOP};
                }
                if (faults[k].kind < CULM_FAULT_COUNT) {
                    history.fault[history.fault_count++] =
                        while_held(faults[k].kind, faults[k].target, variant);
                }
                snprintf(what, sizeof what, "%d x 3, %u %% of writes fail, %s%s, variant %d",
                         1 + variant % 2, percent, variant >= 4 ? "stopped, " : "", faults[k].name,
                         variant);
                failed += run(&history, ++*ret_count, what);
            }
        }
    }
    return failed;
}

int main(void) {
    int count = 0, failed = 0;
    failed += full_disk(&count);
    failed += slow_tasks(&count);
    failed += endless_tasks(&count);
    failed += damaged_checkpoints(&count);
    failed += swallowing_links(&count);
    printf("1..%d\n", count);
    return failed ? 1 : 0;
}
