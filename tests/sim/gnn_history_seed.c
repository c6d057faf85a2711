/* Histories of graph networks: what a seed draws. See gnn_history.h. */
#include "gnn_history.h"

#include "base/rng.h"
#include "shrink.h"

#include <stdio.h>
#include <string.h>

#define MS 1000000ull

bool gnn_history_befalls(const struct gnn_history *h, int event) { return h->events >> event & 1; }

/* --- conditions --- */

bool gnn_history_leaves(const struct gnn_history *h) {
    return h->seed % 3 == 0 && gnn_history_befalls(h, GNN_EVENT_WORKERS_LEAVE);
}

bool gnn_history_has_little_room(const struct gnn_history *h) {
    return h->seed % 5 == 0 && gnn_history_befalls(h, GNN_EVENT_LITTLE_ROOM);
}

bool gnn_history_is_cold(const struct gnn_history *h) {
    return h->seed % 7 < 4 && gnn_history_befalls(h, GNN_EVENT_COLD_STARTS);
}

/* --- what every seed draws --- */

static void shape_from(uint64_t *dice, const struct culm_gnn_layout *layout,
                       struct gnn_shape *shape) {
    *shape = (struct gnn_shape){
        .pace = {.epochs = 1 + (int64_t)culm_rng_below(dice, 6),
                 .eval_every = (int64_t)culm_rng_below(dice, 3),
                 .tail = (int64_t)culm_rng_below(dice, 3)},
        .checkpoint_every = (int64_t)culm_rng_below(dice, 4),
    };
    int32_t most = layout->intervals < 4 ? layout->intervals : 4;
    shape->count[CULM_GNN_SERVER] = 1 + (int32_t)culm_rng_below(dice, (uint64_t)most);
    shape->count[CULM_GNN_PARAMETER] = 1 + (int32_t)culm_rng_below(dice, 3);
    shape->count[CULM_GNN_WORKER] = (int32_t)culm_rng_below(dice, 5);
    shape->pace.in_step = culm_rng_below(dice, 8) == 0;
    shape->pace.ahead = !shape->pace.in_step && culm_rng_below(dice, 2);
    shape->pace.staleness = shape->pace.ahead ? (int32_t)culm_rng_below(dice, 4) : 0;
    shape->tunes = shape->count[CULM_GNN_WORKER] > 0 && culm_rng_below(dice, 3) == 0;
    shape->goal = (enum culm_gnn_tune)culm_rng_below(dice, 3);
    shape->pace.epochs += 8 * shape->tunes; /* it takes some */
}

static void faults_from(uint64_t *dice, struct gnn_history *h) {
    h->fault_count = (int32_t)culm_rng_below(dice, GNN_FAULTS + 1);
    int32_t nodes = h->shape.count[0] + h->shape.count[1] + h->shape.count[2];
    for (int32_t f = 0; f < h->fault_count; f++) {
        struct gnn_fault *fault = &h->fault[f];
        fault->kind = (enum gnn_fault_kind)culm_rng_below(dice, GNN_FAULT_KINDS);
        fault->at_phase = culm_rng_below(dice, 3) > 0;
        fault->role = (uint32_t)culm_rng_below(dice, CULM_GNN_ROLES);
        fault->phase = (uint32_t)culm_rng_below(dice, CULM_GNN_PHASE_COUNT);
        fault->after = (int32_t)culm_rng_below(dice, 12);
        fault->time_ns = 1000 * MS + culm_rng_below(dice, 300 * MS);
        fault->node = (int32_t)culm_rng_below(dice, (uint64_t)nodes);
        fault->other = (int32_t)culm_rng_below(dice, (uint64_t)nodes + 1) - 1;
        if ((fault->kind == GNN_CUT || fault->kind == GNN_DROP) && fault->node == fault->other) {
            fault->kind = GNN_KILL;
        }
        fault->backwards = culm_rng_below(dice, 2);
    }
}

/* In a quarter of the histories, and in all where nobody is replaced, with dice of their own: what else is
 * drawn is that of the seed without them. Workers nap more often; others then do what they were given. */
static void naps_from(struct gnn_history *h) {
    uint64_t dice = culm_rng_mix(h->seed, 300);
    const int32_t *count = h->shape.count;
    h->nap_count = h->seed % 4 == 2 || h->shape.replace_ms < 0
                       ? 1 + (int32_t)culm_rng_below(&dice, GNN_NAPS)
                       : 0;
    for (int32_t n = 0; n < h->nap_count; n++) {
        struct gnn_nap *nap = &h->nap[n];
        bool works = count[CULM_GNN_WORKER] > 0 && culm_rng_below(&dice, 4) > 0;
        int32_t before = works ? count[CULM_GNN_SERVER] + count[CULM_GNN_PARAMETER] : 0;
        int32_t of = works ? count[CULM_GNN_WORKER] : count[0] + count[1] + count[2];
        *nap = (struct gnn_nap){.node = before + (int32_t)culm_rng_below(&dice, (uint64_t)of),
                                .time_ns = 1030 * MS + culm_rng_below(&dice, 400 * MS),
                                .for_ns = 100 * MS + culm_rng_below(&dice, 700 * MS)};
        uint64_t longer = culm_rng_mix(h->seed, 310 + (uint64_t)n);
        if (culm_rng_below(&longer, 3) ==
            0) { /* put out, it wakes up before it is killed, or not */
            nap->for_ns += 600 * MS;
        }
    }
}

/* --- draws --- */

const char *const gnn_draw_names[GNN_DRAWS] = {[GNN_DRAW_STARTS] = "starts",
                                               [GNN_DRAW_STOPS] = "stops",
                                               [GNN_DRAW_NEWCOMERS] = "newcomers",
                                               [GNN_DRAW_ELSEWHERE] = "elsewhere",
                                               [GNN_DRAW_TASKS] = "tasks",
                                               [GNN_DRAW_LOADS] = "loads",
                                               [GNN_DRAW_MEMORY] = "memory",
                                               [GNN_DRAW_LEADER] = "leader",
                                               [GNN_DRAW_LARGE] = "large",
                                               [GNN_DRAW_LONG] = "long",
                                               [GNN_DRAW_DUE] = "due",
                                               [GNN_DRAW_COPIES] = "copies",
                                               [GNN_DRAW_SIZE] = "size",
                                               [GNN_DRAW_LEAVE] = "leave"};

/* Whether the seed's turn has come: in one history of so many. The dice are the draw's own. */
static bool draws(const struct gnn_history *h, enum gnn_draw draw, uint64_t one_of,
                  uint64_t *ret_dice) {
    *ret_dice = culm_rng_mix(h->seed, 400 + (uint64_t)draw);
    return h->draws >> draw & 1 && culm_rng_below(ret_dice, one_of) == 0;
}

/* Few, since they take as long as many others; none is large in all. */
static void large_from(struct gnn_history *h, int32_t *intervals) {
    uint64_t dice;
    if (!draws(h, GNN_DRAW_LARGE, 60, &dice)) {
        return;
    }
    uint64_t of = culm_rng_below(&dice, 3);
    *intervals = 11 + (int32_t)culm_rng_below(&dice, of == 0 ? 54 : 10);
    h->large = of == 1 ? GNN_MANY_NODES : of == 2 ? GNN_MANY_EPOCHS : GNN_MANY_INTERVALS;
}

/* Of one that is not large in another way. */
static void size_from(struct gnn_history *h, int32_t *intervals) {
    uint64_t dice;
    if (draws(h, GNN_DRAW_SIZE, 50, &dice)) {
        *intervals = 24 + (int32_t)culm_rng_below(&dice, 25);
        h->large = GNN_CROWD;
    }
}

static void size_shape(struct gnn_history *h) {
    uint64_t dice = culm_rng_mix(h->seed, 451);
    const bool crowd = h->large == GNN_CROWD;
    const int32_t intervals = h->cast.layout.intervals, most = intervals < 5 ? intervals : 5;
    int32_t *count = h->shape.count;
    if (!(h->draws >> GNN_DRAW_SIZE & 1) || (h->large != GNN_SMALL && !crowd)) {
        return;
    }
    count[CULM_GNN_SERVER] = (int32_t)(crowd ? 16 + culm_rng_below(&dice, 9)
                                             : 1 + culm_rng_below(&dice, (uint64_t)most));
    count[CULM_GNN_PARAMETER] =
        (int32_t)(crowd ? 4 + culm_rng_below(&dice, 5) : 1 + culm_rng_below(&dice, 4));
    if (count[CULM_GNN_WORKER] > 0 || crowd) {
        count[CULM_GNN_WORKER] =
            (int32_t)(crowd ? 13 + culm_rng_below(&dice, 12) : 1 + culm_rng_below(&dice, 7));
    }
}

static void large_shape(struct gnn_history *h) {
    uint64_t dice = culm_rng_mix(h->seed, 450);
    struct gnn_shape *shape = &h->shape;
    if (h->large == GNN_MANY_EPOCHS) {
        shape->pace.epochs += (int64_t)culm_rng_below(&dice, 190);
        shape->checkpoint_every *= 1 + (int64_t)culm_rng_below(&dice, 10);
    }
    if (h->large != GNN_MANY_NODES) {
        return;
    }
    shape->count[CULM_GNN_SERVER] = 1 + (int32_t)culm_rng_below(&dice, 12);
    if (shape->count[CULM_GNN_SERVER] > h->cast.layout.intervals) {
        shape->count[CULM_GNN_SERVER] = h->cast.layout.intervals;
    }
    shape->count[CULM_GNN_PARAMETER] = 1 + (int32_t)culm_rng_below(&dice, 6);
    if (shape->count[CULM_GNN_WORKER] > 0) {
        shape->count[CULM_GNN_WORKER] = 1 + (int32_t)culm_rng_below(&dice, 12);
    }
}

/* In half of these all servers die, so that several starts are tried while epochs are committed. */
static void starts_from(struct gnn_history *h) {
    uint64_t dice;
    if (!draws(h, GNN_DRAW_STARTS, 4, &dice)) {
        return;
    }
    h->start_fail_percent = 5 + (uint32_t)culm_rng_below(&dice, 50);
    h->start_fail_later = h->start_fail_percent;
    if (culm_rng_below(&dice, 2) && h->shape.replace_ms >= 0) {
        h->shape.pace.epochs += 8;
        h->all_in = 2 + (int64_t)culm_rng_below(&dice, 8);
        h->die = culm_rng_below(&dice, 4) > 0 ? GNN_SERVERS_DIE : GNN_ALL_DIE;
        h->start_fail_later = 20 + (uint32_t)culm_rng_below(&dice, 66);
    }
}

static void stop_from(struct gnn_history *h) {
    uint64_t dice, other;
    if (!draws(h, GNN_DRAW_STOPS, 4, &dice)) {
        return;
    }
    h->stop_ns = 1000 * MS + culm_rng_below(&dice, 1 + culm_rng_below(&dice, 1500 * MS));
    h->more_servers = (int32_t)culm_rng_below(&dice, 4);
    if (h->shape.replace_ms == 0 && draws(h, GNN_DRAW_LONG, 3, &other)) {
        h->shape.replace_ms = 40000;
    }
}

/* Half the time all local nodes die, or all servers, so that newcomers take their places. */
static void newcomers_from(struct gnn_history *h) {
    uint64_t dice, other;
    if (!draws(h, GNN_DRAW_NEWCOMERS, 4, &dice)) {
        return;
    }
    const bool poor = draws(h, GNN_DRAW_ELSEWHERE, 3, &other);
    h->newcomer_count = 1 + (int32_t)culm_rng_below(&dice, GNN_NEWCOMERS);
    for (int32_t n = 0; n < h->newcomer_count; n++) {
        h->newcomer[n] = (struct gnn_newcomer){
            .role = culm_rng_below(&dice, 3) ? CULM_GNN_SERVER : CULM_GNN_WORKER,
            .time_ns = 1000 * MS + culm_rng_below(&dice, 400 * MS),
            .pool_bytes = poor ? (size_t)(8 << culm_rng_below(&other, 8)) : 0};
    }
    if (culm_rng_below(&dice, 2) && h->shape.replace_ms >= 0) {
        h->shape.pace.epochs += 8;
        h->all_in = 2 + (int64_t)culm_rng_below(&dice, 8);
        h->die = culm_rng_below(&dice, 2) ? GNN_SERVERS_DIE : GNN_ALL_DIE;
    }
}

static void troubles_from(struct gnn_history *h) {
    uint64_t dice;
    const bool elsewhere = h->draws >> GNN_DRAW_ELSEWHERE & 1 && h->newcomer_count > 0;
    const bool here = h->newcomer_count == 0 || elsewhere;
    if (!draws(h, GNN_DRAW_TASKS, 4, &dice)) {
        return;
    }
    h->trouble_count = 1 + (int32_t)culm_rng_below(&dice, GNN_TROUBLES);
    for (int32_t t = 0; t < h->trouble_count; t++) {
        struct gnn_trouble *trouble = &h->trouble[t];
        trouble->kind = (enum culm_gnn_task_kind)culm_rng_below(&dice, CULM_GNN_TASK_FINISH + 1);
        /* No two of one status, so that no more than two failures are alike by accident. */
        trouble->status = t > 0                               ? CULM_ERR_TIMEOUT
                          : culm_rng_below(&dice, 3) || !here ? CULM_ERR_IO
                                                              : CULM_ERR_CHANGED;
        trouble->after = (int32_t)culm_rng_below(&dice, 1 + culm_rng_below(&dice, 40));
        trouble->times = (int32_t)culm_rng_below(&dice, 3);
        uint64_t of = culm_rng_below(&dice, 4);
        if (of == 2 && elsewhere) {
            trouble->of = GNN_OF_NEWCOMERS;
        } else if (of == 3) {
            trouble->of = GNN_OF_WORKERS;
        }
        if (trouble->kind == CULM_GNN_TASK_SAVE || trouble->kind == CULM_GNN_TASK_FINISH) {
            trouble->status =
                CULM_ERR_IO; /* waited for, if it is of what comes last; for ever, if it lasts */
            trouble->times = 1 + trouble->times % 2;
        }
    }
}

static void loads_from(struct gnn_history *h) {
    uint64_t dice;
    if (!draws(h, GNN_DRAW_LOADS, 8, &dice) || h->shape.replace_ms < 0) {
        return;
    }
    h->damages = true;
    h->shape.checkpoint_every = 1 + (int64_t)culm_rng_below(&dice, 2);
    h->shape.pace.epochs += 6;
    h->all_in = 2 + (int64_t)culm_rng_below(&dice, 6);
    h->die = GNN_ALL_DIE;
}

/* All parameter servers die when a checkpoint is due, or just before. */
static void due_from(struct gnn_history *h) {
    uint64_t dice;
    if (!draws(h, GNN_DRAW_DUE, 5, &dice) || h->shape.replace_ms < 0) {
        return;
    }
    int64_t every = 1 + (int64_t)culm_rng_below(&dice, 9);
    h->shape.checkpoint_every = every;
    h->shape.pace.epochs += 3 * every;
    h->all_in = every * (1 + (int64_t)culm_rng_below(&dice, 2)) - (int64_t)culm_rng_below(&dice, 2);
    h->die = GNN_PARAMETERS_DIE;
}

static void memory_from(struct gnn_history *h, int32_t nodes) {
    uint64_t dice;
    if (!draws(h, GNN_DRAW_MEMORY, 4, &dice)) {
        return;
    }
    h->pinch_count = 1 + (int32_t)culm_rng_below(&dice, GNN_TROUBLES);
    for (int32_t p = 0; p < h->pinch_count; p++) {
        h->pinch[p] = (struct gnn_pinch){.node = (int32_t)culm_rng_below(&dice, (uint64_t)nodes),
                                         .time_ns = 1000 * MS + culm_rng_below(&dice, 300 * MS),
                                         .after = culm_rng_below(&dice, 40)};
    }
}

static void leader_from(struct gnn_history *h) {
    uint64_t dice;
    if (!draws(h, GNN_DRAW_LEADER, 5, &dice)) {
        return;
    }
    h->leader_nap_count = 1 + (int32_t)culm_rng_below(&dice, 2);
    for (int32_t n = 0; n < h->leader_nap_count; n++) {
        uint64_t most = culm_rng_below(&dice, 4) ? 3000 : 20000;
        h->leader_nap[n] = (struct gnn_nap){.node = CULM_LEADER,
                                            .time_ns = 1000 * MS + culm_rng_below(&dice, 500 * MS),
                                            .for_ns = (50 + culm_rng_below(&dice, most)) * MS};
    }
}

static void copies_from(struct gnn_history *h) {
    uint64_t dice;
    if (draws(h, GNN_DRAW_COPIES, 3, &dice)) {
        h->join_ms = 1 + (int64_t)culm_rng_below(&dice, 200);
        h->copy_ns = culm_rng_below(&dice, 120 * MS);
    }
}

/* In half of them nothing else befalls anyone. Some have no time to leave. */
static void leaves_from(struct gnn_history *h, int32_t nodes) {
    uint64_t dice;
    if (!draws(h, GNN_DRAW_LEAVE, 4, &dice) || h->shape.replace_ms < 0) {
        return;
    }
    h->calm = culm_rng_below(&dice, 2);
    if (h->calm) {
        h->fault_count = h->nap_count = h->newcomer_count = h->trouble_count = h->pinch_count = 0;
        h->leader_nap_count = 0;
        h->start_fail_percent = 0;
        h->stop_ns = h->copy_ns = 0;
        h->all_in = h->join_ms = 0;
        h->damages = false;
    }
    h->leave_count = 1 + (int32_t)culm_rng_below(&dice, GNN_LEAVES);
    for (int32_t n = 0; n < h->leave_count; n++) {
        const bool enough = h->calm || culm_rng_below(&dice, 2);
        h->leave[n] = (struct gnn_nap){
            .node = (int32_t)culm_rng_below(&dice, (uint64_t)nodes + 2),
            .time_ns = 1000 * MS + culm_rng_below(&dice, 400 * MS),
            .for_ns = (enough ? GNN_GRACE_MS : 1 + culm_rng_below(&dice, 300)) * MS};
    }
}

/* --- what is to befall it --- */

/* Leaves of what was drawn only what is to befall it. */
static void drop_events(struct gnn_history *h) {
    int32_t left = 0;
    for (int32_t f = 0; f < h->fault_count; f++) {
        if (gnn_history_befalls(h, f)) {
            h->fault[left++] = h->fault[f];
        }
    }
    h->fault_count = left;
    left = 0;
    for (int32_t n = 0; n < h->nap_count; n++) {
        if (gnn_history_befalls(h, GNN_EVENT_NAP + n)) {
            h->nap[left++] = h->nap[n];
        }
    }
    h->nap_count = left;
    h->all_in = gnn_history_befalls(h, GNN_EVENT_ALL_DIE) ? h->all_in : 0;
    h->slow = gnn_history_befalls(h, GNN_EVENT_SLOW_NODE) ? h->slow : -1;
    if (!gnn_history_befalls(h, GNN_EVENT_SLOW_COPIES)) {
        h->join_ms = 0;
        h->copy_ns = 0;
    }
    h->start_fail_percent =
        gnn_history_befalls(h, GNN_EVENT_STARTS_FAIL) ? h->start_fail_percent : 0;
    h->stop_ns = gnn_history_befalls(h, GNN_EVENT_STOP) ? h->stop_ns : 0;
    h->damages = h->damages && gnn_history_befalls(h, GNN_EVENT_DAMAGE);
    left = 0;
    for (int32_t n = 0; n < h->newcomer_count; n++) {
        if (gnn_history_befalls(h, GNN_EVENT_NEWCOMER + n)) {
            h->newcomer[left++] = h->newcomer[n];
        }
    }
    h->newcomer_count = left;
    left = 0;
    for (int32_t t = 0; t < h->trouble_count; t++) {
        if (gnn_history_befalls(h, GNN_EVENT_TROUBLE + t)) {
            h->trouble[left++] = h->trouble[t];
        }
    }
    h->trouble_count = left;
    left = 0;
    for (int32_t p = 0; p < h->pinch_count; p++) {
        if (gnn_history_befalls(h, GNN_EVENT_PINCH + p)) {
            h->pinch[left++] = h->pinch[p];
        }
    }
    h->pinch_count = left;
    left = 0;
    for (int32_t n = 0; n < h->leader_nap_count; n++) {
        if (gnn_history_befalls(h, GNN_EVENT_LEADER_NAP + n)) {
            h->leader_nap[left++] = h->leader_nap[n];
        }
    }
    h->leader_nap_count = left;
    left = 0;
    for (int32_t n = 0; n < h->leave_count; n++) {
        if (gnn_history_befalls(h, GNN_EVENT_LEAVE + n)) {
            h->leave[left++] = h->leave[n];
        }
    }
    h->leave_count = left;
}

static uint32_t first_of(int32_t count, int event) { return ((1u << count) - 1) << event; }

/* What was drawn, of what is to befall it. */
static uint32_t events_of(const struct gnn_history *h) {
    return h->events &
           (first_of(h->fault_count, 0) | first_of(h->nap_count, GNN_EVENT_NAP) |
            first_of(h->all_in > 0, GNN_EVENT_ALL_DIE) |
            first_of(h->slow >= 0, GNN_EVENT_SLOW_NODE) |
            first_of(gnn_history_is_cold(h), GNN_EVENT_COLD_STARTS) |
            first_of(gnn_history_leaves(h), GNN_EVENT_WORKERS_LEAVE) |
            first_of(gnn_history_has_little_room(h), GNN_EVENT_LITTLE_ROOM) |
            first_of(1, GNN_EVENT_ROUGH_STREAMS) |
            first_of(h->start_fail_percent > 0, GNN_EVENT_STARTS_FAIL) |
            first_of(h->stop_ns > 0, GNN_EVENT_STOP) |
            first_of(h->newcomer_count, GNN_EVENT_NEWCOMER) |
            first_of(h->trouble_count, GNN_EVENT_TROUBLE) | first_of(h->damages, GNN_EVENT_DAMAGE) |
            first_of(h->pinch_count, GNN_EVENT_PINCH) |
            first_of(h->join_ms > 0, GNN_EVENT_SLOW_COPIES) |
            first_of(h->leader_nap_count, GNN_EVENT_LEADER_NAP) |
            first_of(h->leave_count, GNN_EVENT_LEAVE));
}

const char *const gnn_fault_kind_names[GNN_FAULT_KINDS] = {
    [GNN_KILL] = "kill", [GNN_FREEZE] = "freeze", [GNN_CUT] = "cut",  [GNN_FLIP] = "flip",
    [GNN_SLOW] = "slow", [GNN_STICK] = "stick",   [GNN_DROP] = "drop"};

void gnn_history_print_events(const struct gnn_history *h) {
    uint32_t events = h->all;
    for (int32_t f = 0; f < h->fault_count; f++) {
        const struct gnn_fault *fault = &h->fault[f];
        if (fault->at_phase) {
            printf("      %s a %s at phase %s, after %d", gnn_fault_kind_names[fault->kind],
                   culm_gnn_role_name(fault->role), culm_gnn_phase_name(fault->phase),
                   fault->after);
        } else {
            printf("      %s node %d at %llu ms", gnn_fault_kind_names[fault->kind], fault->node,
                   (unsigned long long)(fault->time_ns / MS));
        }
        printf(fault->kind == GNN_CUT || fault->kind == GNN_DROP ? ", node %d at the other end%s\n"
                                                                 : "\n",
               fault->other, fault->backwards ? ", backwards" : "");
    }
    for (int32_t n = 0; n < h->nap_count; n++) {
        printf("      node %d naps at %llu ms for %llu ms\n", h->nap[n].node,
               (unsigned long long)(h->nap[n].time_ns / MS),
               (unsigned long long)(h->nap[n].for_ns / MS));
    }
    for (int32_t n = 0; n < h->newcomer_count; n++) {
        printf("      a %s from elsewhere comes at %llu ms, with %zu bytes of memory (0: any)\n",
               culm_gnn_role_name(h->newcomer[n].role),
               (unsigned long long)(h->newcomer[n].time_ns / MS), h->newcomer[n].pool_bytes);
    }
    static const char *const of[] = {"anyone", "workers", "newcomers"};
    for (int32_t t = 0; t < h->trouble_count; t++) {
        const struct gnn_trouble *trouble = &h->trouble[t];
        printf("      tasks of kind %d of %s fail with %s, after %d, %d of them (0: all)\n",
               (int)trouble->kind, of[trouble->of], culm_status_name(trouble->status),
               trouble->after, trouble->times);
    }
    for (int32_t p = 0; p < h->pinch_count; p++) {
        printf("      node %d is refused memory at %llu ms, after %llu\n", h->pinch[p].node,
               (unsigned long long)(h->pinch[p].time_ns / MS),
               (unsigned long long)h->pinch[p].after);
    }
    for (int32_t n = 0; n < h->leader_nap_count; n++) {
        printf("      the leader naps at %llu ms for %llu ms\n",
               (unsigned long long)(h->leader_nap[n].time_ns / MS),
               (unsigned long long)(h->leader_nap[n].for_ns / MS));
    }
    for (int32_t n = 0; n < h->leave_count; n++) {
        printf("      node %d is told to end at %llu ms, within %llu ms\n", h->leave[n].node,
               (unsigned long long)(h->leave[n].time_ns / MS),
               (unsigned long long)(h->leave[n].for_ns / MS));
    }
    if (h->start_fail_percent > 0) {
        printf("      %u %% of the starts fail, and %u %% after the first epoch\n",
               h->start_fail_percent, h->start_fail_later);
    }
    if (h->join_ms > 0) {
        printf("      a copy takes %llu ms twice, and is waited for %lld ms\n",
               (unsigned long long)(h->copy_ns / MS), (long long)h->join_ms);
    }
    if (h->stop_ns > 0) {
        printf("      it is stopped at %llu ms\n", (unsigned long long)(h->stop_ns / MS));
    }
    static const struct {
        int event;
        const char *text;
    } conditions[] = {{GNN_EVENT_SLOW_NODE, "one node is slow"},
                      {GNN_EVENT_COLD_STARTS, "starts take long"},
                      {GNN_EVENT_WORKERS_LEAVE, "workers leave by themselves"},
                      {GNN_EVENT_LITTLE_ROOM, "workers have little room"},
                      {GNN_EVENT_ROUGH_STREAMS, "streams come in pieces"},
                      {GNN_EVENT_DAMAGE, "some checkpoints are damaged"}};
    for (size_t c = 0; c < sizeof conditions / sizeof *conditions; c++) {
        if (events >> conditions[c].event & 1) {
            printf("      %s\n", conditions[c].text);
        }
    }
    if (events >> GNN_EVENT_ALL_DIE & 1) {
        static const char *const who[] = {"servers and holders", "servers", "parameter servers"};
        printf("      all %s die after epoch %lld\n", who[h->die], (long long)h->all_in);
    }
}

/* What a seed draws, of these events. False: out of memory. */
bool gnn_history_from_seed(uint64_t seed, int64_t replace_ms, uint32_t events, uint32_t draw_mask,
                           struct gnn_history *h) {
    uint64_t dice = culm_rng_mix(seed, 3);
    *h = (struct gnn_history){.seed = seed, .events = events, .draws = draw_mask};
    int32_t intervals = 1 + (int32_t)culm_rng_below(&dice, 10);
    int32_t stages = 1 + (int32_t)culm_rng_below(&dice, 4);
    size_from(h, &intervals);
    large_from(h, &intervals);
    if (culm_gnn_symbolic_layout(seed, intervals, stages, &h->cast.layout, NULL) != CULM_OK) {
        return false;
    }
    shape_from(&dice, &h->cast.layout, &h->shape);
    large_shape(h);
    size_shape(h);
    h->shape.replace_ms = replace_ms;
    if (seed % 5 == 3 && h->shape.pace.staleness == 0 && h->shape.pace.eval_every > 0) {
        h->shape.stop.patience = 1 + (int64_t)(seed / 5 % 3); /* evaluations end it */
        h->shape.pace.epochs += 20;
        h->all_in = seed % 2 && replace_ms >= 0 ? 2 + (int64_t)(seed / 7 % 6) : 0;
    }
    h->shape.pace.epochs += replace_ms < 0 ? 40 : 0; /* for what comes of losses and naps */
    for (int32_t i = 0; i < intervals; i++) {
        h->home[i] = i * h->shape.count[CULM_GNN_SERVER] / intervals;
    }
    faults_from(&dice, h);
    naps_from(h);
    h->slow = (int32_t)culm_rng_below(&dice, 2) * (1 + h->shape.count[CULM_GNN_SERVER]) - 1;
    h->slow = h->slow >= 0 ? (int32_t)culm_rng_below(&dice, (uint64_t)h->slow) : -1;
    starts_from(h);
    stop_from(h);
    newcomers_from(h);
    troubles_from(h);
    loads_from(h);
    due_from(h);
    memory_from(h, h->shape.count[0] + h->shape.count[1] + h->shape.count[2]);
    leader_from(h);
    copies_from(h);
    leaves_from(h, h->shape.count[0] + h->shape.count[1] + h->shape.count[2]);
    h->all = events_of(h);
    drop_events(h);
    return true;
}
