/* The leader: who sits where. Where workers are on several machines, or in several zones, so that the loss of one costs no stage its
 * last copy (place.h). */
#include "pipeline/leader_internal.h"

#include "base/mark.h"
#include "pipeline/place.h"

#include <stdlib.h>
#include <string.h>

static bool taken(const struct culm_pipeline_leader *leader, int32_t pipeline, int32_t stage) {
    return culm_stage_set_has(&leader->taken[pipeline], stage);
}

bool leader_seats_taken(const struct culm_pipeline_leader *leader) {
    for (int32_t p = 0; p < leader->o.shape.pipelines; p++) {
        if (culm_stage_set_count(&leader->taken[p]) < leader->o.shape.stages) {
            return false;
        }
    }
    return true;
}

static void sit(struct culm_pipeline_leader *leader, struct worker *worker, int32_t pipeline,
                int32_t stage) {
    worker->pipeline = pipeline;
    worker->stage = stage;
    culm_stage_set_add(&leader->taken[pipeline], stage);
    leader->seats_changed = true;
}

void leader_stand_up(struct culm_pipeline_leader *leader, struct worker *worker) {
    if (worker->pipeline >= 0) {
        culm_stage_set_remove(&leader->taken[worker->pipeline], worker->stage);
    }
    worker->pipeline = worker->stage = -1;
}

/* --- what machines make of it --- */

/* Are workers that live on several machines, or in several zones? */
static bool are_apart(const struct culm_pipeline_leader *leader) {
    const struct worker *first = NULL;
    for (int32_t i = 0; i < leader->crew.mates.count; i++) {
        const struct worker *worker = worker_at(leader, i);
        if (!worker->mate.alive) {
            continue;
        }
        first = first ? first : worker;
        if (worker->mate.origin != first->mate.origin || worker->mate.zone != first->mate.zone) {
            return true;
        }
    }
    return false;
}

/* All that live, by their place among the mates, and where they sit. */
struct seating {
    struct culm_place place;
    struct culm_place_node *node; /* [count] */
    struct worker **worker;       /* [count] */
    int32_t count;
};

static void release(struct seating *seating) {
    free(seating->place.seat);
    free(seating->node);
    free(seating->worker);
}

/* False: out of memory, and seats are given in order. */
static bool look(const struct culm_pipeline_leader *leader, struct seating *ret_seating) {
    const struct culm_run_shape *shape = &leader->o.shape;
    const size_t slots = (size_t)shape->pipelines * (size_t)shape->stages;
    const size_t mates = (size_t)leader->crew.mates.count;
    struct seating s = {.place = {shape->pipelines, shape->stages,
                                  shape->redundancy != CULM_REDUNDANCY_NONE, NULL}};
    s.place.seat = malloc(slots * sizeof *s.place.seat);
    s.node = calloc(mates + 1, sizeof *s.node);
    s.worker = calloc(mates + 1, sizeof *s.worker);
    if (!s.place.seat || !s.node || !s.worker) {
        release(&s);
        return false;
    }
    memset(s.place.seat, -1, slots * sizeof *s.place.seat);
    for (size_t i = 0; i < mates; i++) {
        struct worker *worker = worker_at(leader, (int32_t)i);
        if (!worker->mate.alive || (worker->mate.asks && worker->pipeline < 0)) {
            continue;
        }
        if (worker->pipeline >= 0) {
            s.place.seat[worker->pipeline * shape->stages + worker->stage] = s.count;
        }
        s.node[s.count] = (struct culm_place_node){worker->mate.origin, worker->mate.zone};
        s.worker[s.count++] = worker;
    }
    *ret_seating = s;
    return true;
}

/* The vacancy of that pipeline, and who stands by (or `only`), that leave least exposed. */
static bool best_vacancy(const struct culm_pipeline_leader *leader, struct seating *s,
                         int32_t pipeline, const struct worker *only, int32_t *ret_worker,
                         int32_t *ret_stage) {
    int64_t least = INT64_MAX;
    for (int32_t i = 0; i < s->count; i++) {
        if (s->worker[i]->pipeline >= 0 || (only && s->worker[i] != only)) {
            continue;
        }
        for (int32_t stage = 0; stage < s->place.stages; stage++) {
            int32_t *seat = &s->place.seat[pipeline * s->place.stages + stage];
            if (taken(leader, pipeline, stage)) {
                continue;
            }
            const int64_t before = culm_place_exposed_at(&s->place, s->node, stage);
            *seat = i;
            const int64_t more = culm_place_exposed_at(&s->place, s->node, stage) - before;
            *seat = -1;
            if (more < least) {
                least = more;
                *ret_worker = i;
                *ret_stage = stage;
            }
        }
    }
    return least < INT64_MAX;
}

/* --- giving seats --- */

/* The pipeline that misses fewest; -1: none misses any. */
static int32_t pipeline_to_fill(const struct culm_pipeline_leader *leader) {
    const int32_t stages = leader->o.shape.stages;
    int32_t best = -1, best_vacant = stages + 1;
    for (int32_t p = 0; p < leader->o.shape.pipelines; p++) {
        const int32_t vacant = stages - culm_stage_set_count(&leader->taken[p]);
        if (vacant > 0 && vacant < best_vacant) {
            best = p;
            best_vacant = vacant;
        }
    }
    return best;
}

/* False: seats are given in order. */
static bool seat_apart(struct culm_pipeline_leader *leader, int32_t pipeline,
                       const struct worker *only) {
    struct seating s;
    int32_t at, stage;
    if (leader->first_start || !are_apart(leader) || !look(leader, &s)) {
        return false;
    }
    bool found = best_vacancy(leader, &s, pipeline, only, &at, &stage);
    if (found) {
        CULM_MARK(pipeline_seat_is_taken_apart);
        sit(leader, s.worker[at], pipeline, stage);
    }
    release(&s);
    return found;
}

/* Its own by number at the first start, else the first vacancy of the pipeline that misses fewest. */
void leader_seat(struct culm_pipeline_leader *leader, struct worker *worker) {
    const int32_t stages = leader->o.shape.stages;
    if (leader->first_start && worker->mate.id < leader->o.shape.pipelines * stages &&
        !taken(leader, worker->mate.id / stages, worker->mate.id % stages)) {
        sit(leader, worker, worker->mate.id / stages, worker->mate.id % stages);
        return;
    }
    const int32_t best = pipeline_to_fill(leader);
    if (best >= 0 && !seat_apart(leader, best, worker)) {
        CULM_MARK(pipeline_vacant_slot_is_taken);
        const struct culm_stage_set all = culm_stage_set_below(stages);
        const struct culm_stage_set vacant = culm_stage_set_minus(&all, &leader->taken[best]);
        sit(leader, worker, best, culm_stage_set_next(&vacant, 0));
    }
}

void leader_seat_all(struct culm_pipeline_leader *leader) {
    for (int32_t p = pipeline_to_fill(leader); p >= 0 && seat_apart(leader, p, NULL);) {
        p = pipeline_to_fill(leader);
    }
    const bool full = leader_seats_taken(leader);
    for (int32_t i = 0; i < leader->crew.mates.count && !full; i++) {
        struct worker *worker = worker_at(leader, i);
        if (worker->mate.alive && !worker->mate.asks && worker->pipeline < 0) {
            leader_seat(leader, worker);
        }
    }
}

bool leader_leavers_stand_up(struct culm_pipeline_leader *leader) {
    bool found = false;
    for (int32_t i = 0; i < leader->crew.mates.count; i++) {
        struct worker *worker = worker_at(leader, i);
        worker->gave_up = -1;
        if (worker->mate.alive && worker->mate.asks && worker->pipeline >= 0) {
            CULM_MARK(pipeline_leaver_gives_its_seat_up);
            worker->gave_up = worker->pipeline * leader->o.shape.stages + worker->stage;
            leader_stand_up(leader, worker);
            found = true;
        }
    }
    return found;
}

bool leader_leavers_sit_down(struct culm_pipeline_leader *leader) {
    const int32_t stages = leader->o.shape.stages;
    bool found = false;
    for (int32_t i = 0; i < leader->crew.mates.count; i++) {
        struct worker *worker = worker_at(leader, i);
        const int32_t slot = worker->gave_up;
        if (worker->mate.alive && worker->mate.asks && worker->pipeline < 0 && slot >= 0 &&
            !taken(leader, slot / stages, slot % stages)) {
            CULM_MARK(pipeline_leaver_keeps_its_seat);
            sit(leader, worker, slot / stages, slot % stages);
            found = true;
        }
    }
    return found;
}

/* Whether who sits there, and who has given a seat of it up, have all of that pipeline. */
static bool have_all(const struct culm_pipeline_leader *leader, int32_t pipeline) {
    const int32_t stages = leader->o.shape.stages;
    const struct culm_stage_set all = culm_stage_set_below(stages);
    struct culm_stage_set have = {{0}};
    bool some_leave = false;
    for (int32_t i = 0; i < leader->crew.mates.count; i++) {
        const struct worker *worker = worker_at(leader, i);
        const bool leaves = worker->gave_up >= 0 && worker->gave_up / stages == pipeline;
        if (worker->mate.alive && (leaves || worker->pipeline == pipeline)) {
            have = culm_stage_set_any(&have, &worker->holds);
            some_leave = some_leave || leaves;
        }
    }
    have = culm_stage_set_minus(&all, &have);
    return some_leave && culm_stage_set_empty(&have);
}

bool leader_leavers_take_back(struct culm_pipeline_leader *leader) {
    const int32_t stages = leader->o.shape.stages;
    int32_t pipeline = 0;
    while (pipeline < leader->o.shape.pipelines && !have_all(leader, pipeline)) {
        pipeline++;
    }
    if (pipeline == leader->o.shape.pipelines || leader->o.shape.pipelines == 1) {
        return false; /* of a single one those who come need the seats, or they have nothing to learn */
    }
    for (int32_t i = 0; i < leader->crew.mates.count; i++) {
        struct worker *worker = worker_at(leader, i);
        const int32_t slot = worker->gave_up;
        if (!worker->mate.alive || worker->pipeline >= 0 || slot / stages != pipeline || slot < 0) {
            continue;
        }
        for (int32_t j = 0; j < leader->crew.mates.count; j++) {
            struct worker *other = worker_at(leader, j);
            if (other->pipeline == pipeline && other->stage == slot % stages) {
                CULM_MARK(pipeline_leaver_takes_its_seat_back);
                leader_stand_up(leader, other);
            }
        }
        sit(leader, worker, pipeline, slot % stages);
    }
    return true;
}

void leader_seat_apart(struct culm_pipeline_leader *leader) {
    struct seating s;
    if (!are_apart(leader) || !look(leader, &s)) {
        return;
    }
    const int64_t before = culm_place_exposed(&s.place, s.node);
    if (before > 0) {
        culm_place_all(&s.place, s.node, s.count);
    }
    if (before > 0 && culm_place_exposed(&s.place, s.node) < before) {
        CULM_MARK(pipeline_all_are_seated_apart);
        for (int32_t i = 0; i < s.count; i++) {
            leader_stand_up(leader, s.worker[i]);
        }
        for (int32_t slot = 0; slot < s.place.pipelines * s.place.stages; slot++) {
            if (s.place.seat[slot] >= 0) {
                sit(leader, s.worker[s.place.seat[slot]], slot / s.place.stages,
                    slot % s.place.stages);
            }
        }
    }
    release(&s);
}

/* Whoever stands by, and the seat that leaves least exposed if it takes it. */
static bool best_move(struct seating *s, int32_t *ret_worker, int32_t *ret_slot) {
    int64_t best = 0;
    for (int32_t slot = 0; slot < s->place.pipelines * s->place.stages; slot++) {
        const int32_t stage = slot % s->place.stages, there = s->place.seat[slot];
        const int64_t before = culm_place_exposed_at(&s->place, s->node, stage);
        for (int32_t i = 0; i < s->count && before > 0; i++) {
            if (s->worker[i]->pipeline >= 0) {
                continue;
            }
            s->place.seat[slot] = i;
            const int64_t less = before - culm_place_exposed_at(&s->place, s->node, stage);
            s->place.seat[slot] = there;
            if (less > best) {
                best = less;
                *ret_worker = i;
                *ret_slot = slot;
            }
        }
    }
    return best > 0;
}

/* Each time something is less exposed, so that this ends. Who had the seat keeps its copy until the other one has come
 * (drop_unwanted). */
void leader_move_seat(struct culm_pipeline_leader *leader) {
    struct seating s;
    int32_t at, slot;
    if (!leader->seats_changed || leader->transfer_count > 0 || !leader_seats_taken(leader)) {
        return;
    }
    leader->seats_changed = false;
    if (!are_apart(leader) || !look(leader, &s)) {
        return;
    }
    if (best_move(&s, &at, &slot)) {
        CULM_MARK(pipeline_seat_is_given_to_one_elsewhere);
        leader_stand_up(leader, s.worker[s.place.seat[slot]]);
        sit(leader, s.worker[at], slot / s.place.stages, slot % s.place.stages);
        leader->seats_changed = true;
    }
    release(&s);
}
