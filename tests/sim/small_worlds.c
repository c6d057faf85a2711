/*
 * The protocol of training in all small worlds: faults are not drawn from a seed, but walked.
 *
 *     small_worlds [--more]
 *
 * A world has four nodes at most: pipelines times stages, and a kind of redundancy. A *placement* is a fault of one kind that
 * befalls one node when it is in one phase, or whoever takes part in a copy. Each kill alone is played in every world, and of two
 * pipelines of two stages each placement and each two kills; with --more each placement in every world, each two of those that end
 * a node for good, and each three kills. The oracle of history.h judges all of it: what is asked of a run that loses a
 * node is asked wherever it happens.
 */
#include "small.h"

#include <stdio.h>
#include <string.h>

#define PLACEMENTS_MAX 512
#define STEPS 6       /* lost nodes are replaced before the end */
#define FAULTY_STEP 2 /* what comes of it shows in the one behind it, if not before */

struct placement {
    int32_t node; /* -1: whoever is in the phase */
    enum culm_phase phase;
    int32_t skip;
    enum culm_fault_kind kind;
    enum culm_far far;
    uint64_t freeze_ms;
};

struct world {
    int32_t pipelines, stages;
    enum culm_redundancy redundancy;
};

/* What befalls a node. The first ones end it, or have it put out; the others may pass. */
static const struct {
    enum culm_fault_kind kind;
    enum culm_far far;
    uint64_t freeze_ms; /* 0: for good */
} kinds[] = {
    {CULM_FAULT_KILL, CULM_FAR_NEXT, 0},    {CULM_FAULT_FREEZE, CULM_FAR_NEXT, 0},
    {CULM_FAULT_CUT, CULM_FAR_NEXT, 0},     {CULM_FAULT_DROP, CULM_FAR_LEADER, 0},
    {CULM_FAULT_FREEZE, CULM_FAR_NEXT, 60}, {CULM_FAULT_FREEZE, CULM_FAR_NEXT, 300},
    {CULM_FAULT_CUT, CULM_FAR_LEADER, 0},   {CULM_FAULT_DROP, CULM_FAR_NEXT, 0},
    {CULM_FAULT_DROP, CULM_FAR_LEADER, 60}, {CULM_FAULT_STICK, CULM_FAR_NEXT, 0},
    {CULM_FAULT_GARBLE, CULM_FAR_NEXT, 0},  {CULM_FAULT_GARBLE, CULM_FAR_LEADER, 0},
};
enum { KILLS = 1, ENDS = 4, ALL = sizeof kinds / sizeof *kinds };
static const char *const kinds_name[] = {[KILLS] = "kills", [ENDS] = "ends", [ALL] = "all kinds"};

static int64_t played, failed, fired, losses, rollbacks;

static int32_t placements(const struct world *world, int most_kinds, struct placement *ret_list) {
    int32_t count = 0, nodes = world->pipelines * world->stages;
    for (int k = 0; k < most_kinds; k++) {
        for (int phase = 0; phase < CULM_PHASE_COUNT; phase++) {
            bool copies = phase == CULM_PHASE_TRANSFER; /* whose it is, of the first ones */
            for (int32_t i = 0; i < nodes; i++) {
                ret_list[count++] = (struct placement){.node = copies ? -1 : i,
                                                       .phase = (enum culm_phase)phase,
                                                       .skip = copies ? i : 0,
                                                       .kind = kinds[k].kind,
                                                       .far = kinds[k].far,
                                                       .freeze_ms = kinds[k].freeze_ms};
            }
        }
    }
    return count;
}

static void put(struct culm_history *history, const struct placement *at) {
    history->fault[history->fault_count++] =
        (struct culm_history_fault){.when = CULM_AT_PHASE,
                                    .phase = at->phase,
                                    .step = at->node < 0                   ? -1
                                            : at->phase == CULM_PHASE_LOAD ? 1
                                                                           : FAULTY_STEP,
                                    .micro = -1,
                                    .skip = at->skip,
                                    .target = at->node < 0 ? CULM_TARGET_ANY : CULM_TARGET_NODE,
                                    .node = at->node,
                                    .kind = at->kind,
                                    .far = at->far,
                                    .freeze_ms = at->freeze_ms};
}

static void play(const struct world *world, const struct placement *const *at, int32_t count) {
    struct culm_history history =
        small_history(world->pipelines, world->stages, world->redundancy, (uint64_t)played);
    struct culm_history_result result;
    history.shape.steps = STEPS;
    history.settings.crew.replace_ms = 0;
    /* Messages take longer than work, and overtake one another on other links: copies are under way at commits. */
    history.jitter_us = 3000;
    history.job_us = 300;
    history.must_fire = false;
    for (int32_t i = 0; i < count; i++) {
        put(&history, at[i]);
    }
    culm_history_run(&history, &result);
    played++;
    failed += !result.ok;
    fired += result.faults_fired == count;
    losses += result.losses;
    rollbacks += result.rollbacks;
    if (!result.ok) {
        printf("not ok - %d x %d, %s:", world->pipelines, world->stages,
               culm_redundancy_name(world->redundancy));
        for (int32_t i = 0; i < count; i++) {
            printf(" node %d, %s, %s %llu (far %d);", at[i]->node,
                   culm_phase_name((size_t)at[i]->phase), culm_fault_kind_names[at[i]->kind],
                   (unsigned long long)at[i]->freeze_ms, (int)at[i]->far);
        }
        printf(" %s\n", result.why);
    }
}

struct choice {
    const struct placement *at[3];
    int32_t count, together;
};

/* Adds to the choice each of these placements in turn, until it has as many as are to come together. */
static void choose(const struct world *world, const struct placement *from,
                   const struct placement *end, struct choice *choice) {
    if (choice->count == choice->together) {
        play(world, choice->at, choice->count);
        return;
    }
    for (; from < end; from++) {
        choice->at[choice->count++] = from;
        choose(world, from + 1, end, choice);
        choice->count--;
    }
}

static void walk(const struct world *world, int most_kinds, int32_t together) {
    static struct placement list[PLACEMENTS_MAX];
    struct choice choice = {.together = together};
    int64_t before = played;
    choose(world, list, list + placements(world, most_kinds, list), &choice);
    printf("# %d x %d, %s: %lld times %d of %s\n", world->pipelines, world->stages,
           culm_redundancy_name(world->redundancy), (long long)(played - before), together,
           kinds_name[most_kinds]);
}

int main(int argc, char **argv) {
    const bool more = argc > 1 && strcmp(argv[1], "--more") == 0;
    static const enum culm_redundancy redundancy[] = {CULM_REDUNDANCY_EAGER, CULM_REDUNDANCY_LAZY,
                                                      CULM_REDUNDANCY_NONE};
    for (int r = 0; r < 3; r++) {
        for (int32_t pipelines = 1; pipelines <= 4; pipelines++) {
            for (int32_t stages = 1; pipelines * stages <= 4; stages++) {
                walk(&(struct world){pipelines, stages, redundancy[r]}, more ? ALL : KILLS, 1);
            }
        }
        if (more || redundancy[r] == CULM_REDUNDANCY_EAGER) {
            walk(&(struct world){2, 2, redundancy[r]},
                 more && redundancy[r] == CULM_REDUNDANCY_EAGER ? ENDS : KILLS, 2);
        }
    }
    const struct world square = {2, 2, CULM_REDUNDANCY_EAGER};
    walk(&square, more ? KILLS : ALL, more ? 3 : 1);
    bool enough = fired > played / 2;
    printf("1..1\n%s 1 - %lld histories, all faults fired in %lld, %lld losses, %lld roll-backs, "
           "%lld failed%s\n",
           failed || !enough ? "not ok" : "ok", (long long)played, (long long)fired,
           (long long)losses, (long long)rollbacks, (long long)failed,
           enough ? "" : ": too few fired");
    return failed || !enough;
}
