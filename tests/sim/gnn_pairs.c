/*
 * Ordered pairs of kill points in graph networks: see pairs.h, also for the arguments.
 *
 * The points are the phases of each role, and those of whoever leads. Two servers, two parameter servers and a worker, whose candidates
 * stand at a store of keys; worlds are judged as gnn_reign.h says.
 */
#include "pairs.h"

#include "gnn_reign.h"
#include "interval/phase.h"

#define NODES 4 /* that can be called */

static struct gnn_reign calm;

static const struct {
    struct gnn_blow first, between;
} besides[PAIRS_BESIDES] = {
    [PAIRS_NODE] = {{.kind = BLOW_KILL,
                     .when = BLOW_AT_PHASE,
                     .role = CULM_GNN_SERVER,
                     .phase = CULM_GNN_PHASE_GATHER,
                     .skip = 3},
                    {.kind = BLOW_KILL,
                     .when = BLOW_AT_PHASE,
                     .role = CULM_GNN_SERVER,
                     .phase = CULM_GNN_PHASE_GATHER}},
    [PAIRS_LEADER] = {{.kind = BLOW_KILL_LEADER, .when = BLOW_AFTER_EVENT, .event = "epoch"},
                      {.kind = BLOW_KILL_LEADER, .when = BLOW_AFTER_EVENT, .event = "epoch"}},
    [PAIRS_COPIES] = {{.kind = BLOW_HOLDERS_DIE, .when = BLOW_AFTER_EVENT, .event = "checkpoint"},
                      {.kind = BLOW_HOLDERS_DIE, .when = BLOW_AFTER_EVENT, .event = "epoch"}},
    [PAIRS_STOPPED] = {{.kind = BLOW_STOP, .when = BLOW_AFTER_EVENT, .event = "epoch", .skip = 1},
                       {.kind = BLOW_STOP, .when = BLOW_AFTER_EVENT, .event = "epoch"}},
};

static void name_node(const struct pairs_point *point, char *ret_text, size_t size) {
    snprintf(ret_text, size, "%s, %s", culm_gnn_role_name(point->role),
             culm_gnn_phase_name(point->phase));
}

static void make(struct gnn_reign *w, uint64_t seed) {
    *w = (struct gnn_reign){
        .seed = seed,
        .count = {[CULM_GNN_SERVER] = 2, [CULM_GNN_PARAMETER] = 2, [CULM_GNN_WORKER] = 1},
        .home = {0, 0, 1, 1},
        .checkpoint_every = 2,
        .candidates = 2,
        .lease_ms = 300,
    };
    w->cast.pace = (struct culm_gnn_pace){.epochs = 8, .tail = 1, .eval_every = 2};
    if (culm_gnn_symbolic_layout(seed, 4, 2, &w->cast.layout, NULL) != CULM_OK) {
        abort();
    }
}

static struct gnn_blow blow_at(const struct pairs_point *point) {
    return (struct gnn_blow){.kind = point->name ? BLOW_KILL_LEADER : BLOW_KILL,
                             .when = point->name ? BLOW_AT_MOMENT : BLOW_AT_PHASE,
                             .role = point->role,
                             .phase = point->phase,
                             .moment = point->moment,
                             .skip = point->skip};
}

static int32_t add(struct gnn_reign *w, struct gnn_blow blow, int32_t behind, uint64_t seed) {
    blow.behind = behind;
    blow.refused = seed % 2; /* the others hear that it is dead, or not */
    w->fault[w->fault_count++] = blow;
    return w->fault_count; /* its number, from 1 */
}

static void play(const struct pairs_point *a, const struct pairs_point *b, uint64_t seed,
                 const struct pairs_setting *how, bool log, struct pairs_result *ret_result) {
    static struct gnn_reign w;
    make(&w, calm.seed);
    w.reference = &calm;
    w.log = log;
    int32_t behind = how->first ? add(&w, besides[how->first].first, 0, seed) : 0;
    const int32_t first = add(&w, blow_at(a), behind, seed);
    behind = how->between ? add(&w, besides[how->between].between, first, seed) : first;
    struct gnn_blow blow = blow_at(b);
    blow.after_view = how->after_view;
    const int32_t second = add(&w, blow, behind, seed / 2);
    gnn_reign_play(&w);
    *ret_result =
        (struct pairs_result){.fired = w.fault[first - 1].fired && w.fault[second - 1].fired,
                              .losses = w.lost,
                              .takeovers = w.takeovers,
                              .rollbacks = w.rollbacks};
    snprintf(ret_result->wrong, sizeof ret_result->wrong, "%s", w.wrong);
    gnn_reign_release(&w);
}

int main(int argc, char **argv) {
    static const struct pairs_frame frames[] = {{"VIEW", CULM_GNN_MSG_VIEW, NODES + 1},
                                                {"COMMIT", CULM_GNN_MSG_COMMIT, NODES},
                                                {"SAVE", CULM_GNN_MSG_SAVE, 1},
                                                {NULL, 0, 0}};
    static struct pairs pairs = {
        .program = "sim_gnn_pairs", .redundancies = 1, .name_node = name_node, .play = play};
    for (uint32_t role = 0; role < CULM_GNN_ROLES; role++) {
        for (uint32_t phase = 0; phase < CULM_GNN_PHASE_COUNT; phase++) {
            if (gnn_cast_has_phase(role, phase)) {
                pairs.point[pairs.count++] = (struct pairs_point){
                    .role = role,
                    .phase = phase,
                    .need = phase == CULM_GNN_PHASE_LOAD ? PAIRS_COPIES : PAIRS_NOTHING};
            }
        }
    }
    pairs.count += pairs_of_leader(frames, CULM_GNN_MSG_REPORT, NODES, pairs.point + pairs.count);
    make(&calm, 7);
    gnn_reign_calm(&calm);
    gnn_reign_play(&calm);
    if (calm.wrong[0]) {
        printf("1..1\nnot ok 1 - undisturbed: %s\n", calm.wrong);
        return 1;
    }
    const int code = pairs_main(&pairs, argc, argv);
    gnn_reign_release(&calm);
    return code;
}
