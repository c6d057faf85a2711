/* See place.h. Seats are taken in order, machines in turn; then seats of exposed stages are exchanged as long as that helps. */
#include "pipeline/place.h"

#include <string.h>

#define MACHINE (INT64_C(1) << 20)
#define TRIES 200000 /* exchanges that are looked at */

static int32_t seat_of(const struct culm_place *place, int32_t pipeline, int32_t stage) {
    return place->seat[pipeline * place->stages + stage];
}

/* One more copy of a stage: whether it is elsewhere than the first. */
static void look(const struct culm_place_node *node, int32_t seat, int32_t *first, bool *machines,
                 bool *zones) {
    if (seat < 0) {
        return;
    }
    *first = *first < 0 ? seat : *first;
    *machines |= node[seat].machine != node[*first].machine;
    *zones |= node[seat].zone != node[*first].zone;
}

static int64_t exposed_stage(const struct culm_place *place, const struct culm_place_node *node,
                             int32_t stage) {
    const int32_t before = (stage + place->stages - 1) % place->stages;
    int32_t first = -1;
    bool machines = false, zones = false;
    for (int32_t p = 0; p < place->pipelines && !(machines && zones); p++) {
        look(node, seat_of(place, p, stage), &first, &machines, &zones);
        if (place->redundant) {
            look(node, seat_of(place, p, before), &first, &machines, &zones);
        }
    }
    return (machines ? 0 : MACHINE) + (zones ? 0 : 1);
}

int64_t culm_place_exposed(const struct culm_place *place, const struct culm_place_node *node) {
    int64_t sum = 0;
    for (int32_t s = 0; s < place->stages; s++) {
        sum += exposed_stage(place, node, s);
    }
    return sum;
}

int64_t culm_place_exposed_at(const struct culm_place *place, const struct culm_place_node *node,
                              int32_t stage) {
    const int32_t after = (stage + 1) % place->stages;
    return exposed_stage(place, node, stage) +
           (place->redundant && after != stage ? exposed_stage(place, node, after) : 0);
}

/* Of both slots' stages; one that is of both counts twice, before and after alike. */
static int64_t exposed_at_both(const struct culm_place *place, const struct culm_place_node *node,
                               int32_t a, int32_t b) {
    return culm_place_exposed_at(place, node, a % place->stages) +
           culm_place_exposed_at(place, node, b % place->stages);
}

static void exchange(struct culm_place *place, int32_t a, int32_t b) {
    const int32_t seat = place->seat[a];
    place->seat[a] = place->seat[b];
    place->seat[b] = seat;
}

/* The first exchange of that slot that makes it less exposed. False: there is none. */
static bool improve(struct culm_place *place, const struct culm_place_node *node, int32_t slot,
                    int32_t *tries) {
    const int32_t slots = place->pipelines * place->stages;
    for (int32_t other = 0; other<slots && * tries> 0; other++, (*tries)--) {
        if (other == slot || place->seat[other] < 0 || place->seat[slot] < 0) {
            continue;
        }
        const int64_t before = exposed_at_both(place, node, slot, other);
        exchange(place, slot, other);
        if (exposed_at_both(place, node, slot, other) < before) {
            return true;
        }
        exchange(place, slot, other);
    }
    return false;
}

/* Those that have no seat yet, by machine. */
struct waiting {
    bool seated[CULM_PLACE_MOST];
    int32_t machine[CULM_PLACE_MOST]; /* the first node of the same one */
    int32_t left[CULM_PLACE_MOST];    /* of the machine whose first node that is */
};

static void count_machines(struct waiting *w, const struct culm_place_node *node, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        int32_t first = 0;
        while (node[first].machine != node[i].machine) {
            first++;
        }
        w->machine[i] = first;
        w->left[first]++;
    }
}

/* The first of the machine with the most left, but not of that of the slot before, if there is another. */
static int32_t next_of(const struct waiting *w, int32_t count, int32_t before) {
    int32_t best = -1;
    for (int32_t i = 0; i < count; i++) {
        const bool near = before >= 0 && w->machine[i] == w->machine[before];
        const bool best_near = best >= 0 && before >= 0 && w->machine[best] == w->machine[before];
        if (!w->seated[i] &&
            (best < 0 || (best_near && !near) ||
             (best_near == near && w->left[w->machine[i]] > w->left[w->machine[best]]))) {
            best = i;
        }
    }
    return best;
}

static void seat_in_turn(struct culm_place *place, const struct culm_place_node *node,
                         int32_t count) {
    const int32_t slots = place->pipelines * place->stages;
    struct waiting w;
    memset(&w, 0, sizeof w);
    count_machines(&w, node, count);
    for (int32_t slot = 0, before = -1; slot < slots && slot < count; slot++) {
        before = next_of(&w, count, before);
        place->seat[slot] = before;
        w.seated[before] = true;
        w.left[w.machine[before]]--;
    }
}

static void exchange_seats(struct culm_place *place, const struct culm_place_node *node) {
    const int32_t slots = place->pipelines * place->stages;
    int32_t tries = TRIES;
    for (bool better = true; better && tries > 0;) {
        better = false;
        for (int32_t slot = 0; slot < slots && tries > 0; slot++) {
            if (culm_place_exposed_at(place, node, slot % place->stages) > 0) {
                better |= improve(place, node, slot, &tries);
            }
        }
    }
}

void culm_place_all(struct culm_place *place, const struct culm_place_node *node, int32_t count) {
    const int32_t slots = place->pipelines * place->stages;
    for (int32_t slot = 0; slot < slots; slot++) {
        place->seat[slot] = slot < count ? slot : -1;
    }
    const int64_t in_order = culm_place_exposed(place, node);
    if (in_order == 0 || count > CULM_PLACE_MOST) {
        return;
    }
    seat_in_turn(place, node, count);
    exchange_seats(place, node);
    if (culm_place_exposed(place, node) >= in_order) {
        for (int32_t slot = 0; slot < slots; slot++) {
            place->seat[slot] = slot < count ? slot : -1;
        }
    }
}
