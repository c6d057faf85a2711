/*
 * The protocol of graph networks in all small worlds: faults are not drawn from a seed, but walked.
 *
 *     gnn_small_worlds [--more]
 *
 * A world has four nodes at most: servers, parameter servers and workers, and a pace. A *placement* is a fault of one kind that
 * befalls whoever of a role is in a phase for the first time, the second, or one of the next. In each world each kill is played
 * alone; with --more each placement of any kind, and each two kills in worlds of four nodes of which servers or parameter
 * servers are two. The oracle of gnn_history.h judges all of it, and a single fault rolls nothing back.
 */
#include "gnn_history.h"

#include <stdio.h>
#include <string.h>

#define PLACEMENTS_MAX 1024
#define TIMES 6 /* that a phase is passed; */
#define TIMES_OF_TWO 4
#define INTERVALS 3
#define STAGES 2

struct world {
    int32_t count[CULM_GNN_ROLES];
    enum { IN_STEP, SYNC, AHEAD, STALE, PACES } pace;
    uint64_t seed; /* of the graph and the network, and which options servers have */
};

static const uint64_t seeds[] = {12, 17};
static const char *const pace_name[PACES] = {"in step", "sync", "ahead", "stale by 1"};

/* Which phases a role has. */
static const uint32_t phases_of[CULM_GNN_ROLES] = {
    [CULM_GNN_SERVER] = 1u << CULM_GNN_PHASE_LOAD | 1u << CULM_GNN_PHASE_GATHER |
                        1u << CULM_GNN_PHASE_SCATTER | 1u << CULM_GNN_PHASE_EDGE |
                        1u << CULM_GNN_PHASE_APPLY | 1u << CULM_GNN_PHASE_PUSH_GRADIENT |
                        1u << CULM_GNN_PHASE_COMMIT,
    [CULM_GNN_PARAMETER] = 1u << CULM_GNN_PHASE_LOAD | 1u << CULM_GNN_PHASE_UPDATE |
                           1u << CULM_GNN_PHASE_COMMIT | 1u << CULM_GNN_PHASE_CHECKPOINT,
    [CULM_GNN_WORKER] = 1u << CULM_GNN_PHASE_APPLY | 1u << CULM_GNN_PHASE_PUSH_GRADIENT |
                        1u << CULM_GNN_PHASE_PUSH_ROWS,
};

static int64_t played, failed, fired, lost, rollbacks;
static bool met[CULM_GNN_ROLES][CULM_GNN_PHASE_COUNT];

static int32_t placements(const struct world *world, bool kills_only, int32_t times,
                          struct gnn_fault *ret_list) {
    int32_t count = 0;
    for (int kind = 0; kind < GNN_FAULT_KINDS; kind++) {
        const bool link = kind == GNN_CUT || kind == GNN_DROP;
        for (uint32_t role = 0; role < CULM_GNN_ROLES && (kind == GNN_KILL || !kills_only);
             role++) {
            for (uint32_t phase = 0; phase < CULM_GNN_PHASE_COUNT; phase++) {
                for (int32_t how = 0; how < times * (link ? 2 : 1); how++) {
                    if (world->count[role] == 0 || !(phases_of[role] >> phase & 1)) {
                        continue;
                    }
                    /* At the other end of a link: the leader, or the first of another role. */
                    int32_t other = role == CULM_GNN_SERVER ? world->count[CULM_GNN_SERVER] : 0;
                    ret_list[count++] =
                        (struct gnn_fault){.kind = (enum gnn_fault_kind)kind,
                                           .at_phase = true,
                                           .role = role,
                                           .phase = phase,
                                           .after = how % times,
                                           .other = how < times ? CULM_LEADER : other};
                }
            }
        }
    }
    return count;
}

static void play(const struct world *world, const struct gnn_fault *const *fault, int32_t count) {
    static struct gnn_history h; /* large */
    char expected[80];
    h = (struct gnn_history){
        .seed = world->seed,
        .events = (1u << GNN_FAULTS) - 1,
        .slow = -1,
        .fault_count = count,
        .shape = {.pace = {.epochs = 3, .eval_every = 2, .tail = 1}, .checkpoint_every = 1},
    };
    memcpy(h.shape.count, world->count, sizeof h.shape.count);
    h.shape.pace.in_step = world->pace == IN_STEP;
    h.shape.pace.ahead = world->pace >= AHEAD;
    h.shape.pace.staleness = world->pace == STALE;
    for (int32_t i = 0; i < INTERVALS; i++) {
        h.home[i] = i * world->count[CULM_GNN_SERVER] / INTERVALS;
    }
    for (int32_t f = 0; f < count; f++) {
        h.fault[f] = *fault[f];
    }
    if (culm_gnn_symbolic_layout(h.seed, INTERVALS, STAGES, &h.cast.layout, NULL) != CULM_OK) {
        failed++;
        return;
    }
    gnn_history_play(&h, expected);
    int32_t of_these = 0;
    for (int32_t f = 0; f < count; f++) {
        of_these += h.fault[f].fired;
        met[h.fault[f].role][h.fault[f].phase] |= h.fault[f].fired;
    }
    played++;
    fired += of_these == count;
    lost += h.lost;
    rollbacks += h.rollbacks;
    if (!h.wrong[0] && count == 1 && h.rollbacks > 0) {
        snprintf(h.wrong, sizeof h.wrong, "one fault, and a roll-back");
    }
    if (h.wrong[0]) {
        failed++;
        printf("not ok - %d servers, %d parameter servers, %d workers, %s: %s\n", world->count[0],
               world->count[1], world->count[2], pace_name[world->pace], h.wrong);
        gnn_history_print_events(&h);
    }
}

static void walk(const struct world *world, bool kills_only, bool pairs) {
    static struct gnn_fault list[PLACEMENTS_MAX];
    int64_t before = played;
    int32_t count = placements(world, kills_only, pairs ? TIMES_OF_TWO : TIMES, list);
    for (int32_t a = 0; a < count; a++) {
        if (!pairs) {
            play(world, (const struct gnn_fault *[]){&list[a]}, 1);
        }
        for (int32_t b = a + 1; pairs && b < count; b++) {
            play(world, (const struct gnn_fault *[]){&list[a], &list[b]}, 2);
        }
    }
    printf("# %d+%d+%d, %s: %lld times %s of %s\n", world->count[0], world->count[1],
           world->count[2], pace_name[world->pace], (long long)(played - before),
           pairs ? "two" : "one", kills_only ? "kills" : "all kinds");
}

static void walk_world(bool more, int pace, int32_t servers, int32_t holders, int32_t workers) {
    struct world world = {.count = {[CULM_GNN_SERVER] = servers,
                                    [CULM_GNN_PARAMETER] = holders,
                                    [CULM_GNN_WORKER] = workers}};
    world.pace = pace;
    world.seed = seeds[(pace + servers + workers) % 2];
    walk(&world, !more, false);
    if (more && servers + holders > 2 && servers + holders + workers == 4) {
        walk(&world, true, true);
    }
    world.seed = seeds[(pace + servers + workers + 1) % 2];
    if (more) {
        walk(&world, true, false);
    }
}

/* False: in some phase nobody was ever met. */
static bool met_everywhere(void) {
    bool everywhere = true;
    for (uint32_t role = 0; role < CULM_GNN_ROLES; role++) {
        for (uint32_t phase = 0; phase < CULM_GNN_PHASE_COUNT; phase++) {
            if ((phases_of[role] >> phase & 1) && !met[role][phase]) {
                printf("# no %s was met at %s\n", culm_gnn_role_name(role),
                       culm_gnn_phase_name(phase));
                everywhere = false;
            }
        }
    }
    return everywhere;
}

int main(int argc, char **argv) {
    const bool more = argc > 1 && strcmp(argv[1], "--more") == 0;
    for (int pace = 0; pace < PACES; pace++) {
        for (int32_t servers = 1; servers <= 3; servers++) {
            for (int32_t holders = 1; servers + holders <= 4; holders++) {
                for (int32_t workers = 0; servers + holders + workers <= 4; workers++) {
                    walk_world(more, pace, servers, holders, workers);
                }
            }
        }
    }
    bool enough = met_everywhere() && fired > played / 2;
    printf("1..1\n%s 1 - %lld histories, all faults fired in %lld, %lld nodes lost, %lld "
           "roll-backs, %lld failed%s\n",
           failed || !enough ? "not ok" : "ok", (long long)played, (long long)fired,
           (long long)lost, (long long)rollbacks, (long long)failed,
           enough ? "" : ": too few fired");
    return failed || !enough;
}
