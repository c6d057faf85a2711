/*
 * Ordered pairs of kill points in training: see pairs.h, also for the arguments.
 *
 * The points are the phases of a node, and those of whoever leads. Two pipelines of two stages, whose candidates stand at a store of keys;
 * histories are judged as all are (history.h).
 */
#include "pairs.h"

#include "pipeline/message.h"
#include "small.h"

#define STEPS 6
#define NODES 4

static const struct {
    struct culm_history_fault first, between;
} besides[PAIRS_BESIDES] = {
    [PAIRS_NODE] = {{.when = CULM_AT_PHASE,
                     .phase = CULM_PHASE_FORWARD,
                     .step = 1,
                     .target = CULM_TARGET_NODE,
                     .node = 3},
                    {.when = CULM_AT_PHASE, .phase = CULM_PHASE_FORWARD, .step = -1}},
    [PAIRS_LEADER] = {{.when = CULM_AFTER_EVENT, .event = "step", .target = CULM_TARGET_LEADER},
                      {.when = CULM_AFTER_EVENT, .event = "step", .target = CULM_TARGET_LEADER}},
    [PAIRS_COPIES] = {{.when = CULM_AFTER_EVENT,
                       .event = "checkpoint",
                       .target = CULM_TARGET_STAGE},
                      {.when = CULM_AFTER_EVENT, .event = "step", .target = CULM_TARGET_STAGE}},
    [PAIRS_STOPPED] =
        {{.when = CULM_AFTER_EVENT, .event = "step", .skip = 1, .kind = CULM_FAULT_STOP},
         {.when = CULM_AFTER_EVENT, .event = "step", .kind = CULM_FAULT_STOP}},
};

static void name_node(const struct pairs_point *point, char *ret_text, size_t size) {
    snprintf(ret_text, size, "node, %s", culm_phase_name(point->phase));
}

static struct culm_history_fault fault_at(const struct pairs_point *point) {
    struct culm_history_fault fault = {.step = -1, .skip = point->skip};
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

static int32_t add(struct culm_history *history, struct culm_history_fault fault, int32_t behind) {
    fault.micro = -1;
    fault.behind = behind;
    history->fault[history->fault_count++] = fault;
    return history->fault_count; /* its number, from 1 */
}

static void play(const struct pairs_point *a, const struct pairs_point *b, uint64_t seed,
                 const struct pairs_setting *how, bool log, struct pairs_result *ret_result) {
    static const enum culm_redundancy redundancy[] = {CULM_REDUNDANCY_EAGER, CULM_REDUNDANCY_LAZY,
                                                      CULM_REDUNDANCY_NONE};
    struct culm_history history = small_history(2, 2, redundancy[how->redundancy], seed);
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
    const int32_t first = add(&history, fault_at(a), behind);
    behind = how->between ? add(&history, besides[how->between].between, first) : first;
    struct culm_history_fault fault = fault_at(b);
    fault.after_view = how->after_view;
    const int32_t second = add(&history, fault, behind);
    culm_history_run(&history, &result);
    *ret_result = (struct pairs_result){.fired = history.fault[first - 1].fired &&
                                                 history.fault[second - 1].fired,
                                        .losses = result.losses,
                                        .takeovers = result.leaders,
                                        .rollbacks = result.rollbacks};
    snprintf(ret_result->wrong, sizeof ret_result->wrong, "%.255s", result.ok ? "" : result.why);
}

int main(int argc, char **argv) {
    static const struct pairs_frame frames[] = {{"VIEW", CULM_MSG_VIEW, NODES},
                                                {"COMMIT", CULM_MSG_COMMIT, NODES},
                                                {"SAVE", CULM_MSG_SAVE, 2},
                                                {NULL, 0, 0}};
    static struct pairs pairs = {
        .program = "sim_pairs", .redundancies = 3, .name_node = name_node, .play = play};
    for (uint32_t phase = 0; phase < CULM_PHASE_COUNT; phase++) {
        pairs.point[pairs.count++] =
            (struct pairs_point){.phase = phase,
                                 .need = phase == CULM_PHASE_TRANSFER ? PAIRS_NODE
                                         : phase == CULM_PHASE_LOAD   ? PAIRS_COPIES
                                                                      : PAIRS_NOTHING};
    }
    pairs.count += pairs_of_leader(frames, CULM_MSG_REPORT, NODES, pairs.point + pairs.count);
    return pairs_main(&pairs, argc, argv);
}
