/*
 * Views of all small worlds: not drawn from a seed, but walked, each of them once.
 *
 *     small_worlds [EVENTS]
 *
 * A world is the slots, what every node holds, and the view before; there are four nodes at most. It
 * begins undisturbed, and every move leads to another: a node is lost or joins (an event; three of
 * them at most, or EVENTS), a copy is done, a node that stands by is given a slot, a step is
 * committed. That is more than the leader does, which copies and seats in a certain order. Every
 * view that comes of a move has to keep what pipeline/view.h says, with a promise about memory or
 * without one.
 */
#include "pipeline/memory.h"
#include "pipeline/message.h"
#include "stage_masks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NODES 4
#define STANDBY (-1)

/* A world as few bytes, so that two can be compared. Nodes are numbered by their age: what follows does not
 * depend on their ids. */
struct world {
    int8_t events, count;
    int8_t pipeline[NODES], stage[NODES];
    uint8_t holds[NODES];
    int8_t owner[NODES], shadow[NODES]; /* by slot; -1: none */
    int8_t lane[NODES];                 /* pipelines; -1: it waits */
    int8_t frc;
};

static struct world *found;
static int32_t found_count, found_capacity, *place, places; /* place: index + 1, by hash; 0: free */

static int32_t most_events = 3;
static struct culm_run_shape shape;
static const struct culm_memory *promise; /* NULL: nobody minds */

static struct culm_stage_desc stages[NODES];
static struct culm_grad_desc grads[2 * NODES * NODES]; /* small ones, 2 * NODES a stage */
static const struct culm_layout layout = {
    .stages = NODES, .grad_count = 2 * NODES * NODES, .stage = stages, .grad = grads};

/* --- worlds that have been seen --- */

static uint32_t place_of(const struct world *world) {
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < sizeof *world; i++) {
        hash = (hash ^ ((const uint8_t *)world)[i]) * 16777619u;
    }
    return hash & (uint32_t)(places - 1);
}

static void find_room(void) {
    found_capacity = found_capacity ? 2 * found_capacity : 1024;
    places = 4 * found_capacity;
    found = realloc(found, (size_t)found_capacity * sizeof *found);
    free(place);
    place = calloc((size_t)places, sizeof *place);
    assert_true(found && place);
    for (int32_t i = 0; i < found_count; i++) {
        uint32_t at = place_of(&found[i]);
        while (place[at]) {
            at = (at + 1) & (uint32_t)(places - 1);
        }
        place[at] = i + 1;
    }
}

/* Keeps it if it is a new one. */
static void keep(const struct world *world) {
    if (found_count == found_capacity) {
        find_room();
    }
    uint32_t at = place_of(world);
    while (place[at]) {
        if (memcmp(&found[place[at] - 1], world, sizeof *world) == 0) {
            return;
        }
        at = (at + 1) & (uint32_t)(places - 1);
    }
    found[found_count++] = *world;
    place[at] = found_count;
}

/* --- worlds and views --- */

static void view_from(const struct world *world, struct culm_view *ret_view) {
    if (ret_view->pipelines != shape.pipelines || ret_view->stages != shape.stages ||
        ret_view->lanes != shape.lanes) {
        culm_view_release(ret_view);
        assert_true(culm_view_init(ret_view, &shape) && culm_view_reserve(ret_view, NODES + 1));
    }
    culm_view_clear(ret_view);
    ret_view->number = 1;
    ret_view->phase = CULM_VIEW_RUN;
    ret_view->iteration = 1;
    ret_view->node_count = world->count;
    for (int32_t i = 0; i < world->count; i++) {
        ret_view->node[i] = (struct culm_view_node){i, world->pipeline[i], world->stage[i],
                                                    stages_of(world->holds[i])};
    }
    for (int32_t p = 0; p < shape.pipelines; p++) {
        for (int32_t s = 0; s < shape.stages; s++) {
            int32_t slot = p * shape.stages + s;
            ret_view->role[p][s] = (struct culm_role){world->owner[slot], world->shadow[slot]};
        }
    }
    for (int32_t l = 0; l < shape.lanes; l++) {
        ret_view->lane_pipeline[l] = world->lane[l];
    }
    ret_view->frc = world->frc;
    culm_view_seat(ret_view);
}

/* Of a view whose ids are those of the world before, without node `lost` (-1: nobody). */
static struct world world_from(const struct culm_view *view, int32_t events) {
    struct world world;
    int8_t age[NODES + 1];
    memset(&world, 0, sizeof world);
    memset(age, -1, sizeof age);
    world.events = (int8_t)events;
    world.count = (int8_t)view->node_count;
    for (int32_t i = 0; i < view->node_count; i++) {
        const struct culm_view_node *node = &view->node[i];
        age[node->id] = (int8_t)i;
        world.pipeline[i] = (int8_t)node->pipeline;
        world.stage[i] = (int8_t)node->stage;
        world.holds[i] = (uint8_t)mask_of(node->holds);
    }
    for (int32_t p = 0; p < shape.pipelines; p++) {
        for (int32_t s = 0; s < shape.stages; s++) {
            const struct culm_role *role = &view->role[p][s];
            int32_t slot = p * shape.stages + s;
            world.owner[slot] = role->owner < 0 ? (int8_t)-1 : age[role->owner];
            world.shadow[slot] = role->shadow < 0 ? (int8_t)-1 : age[role->shadow];
        }
    }
    for (int32_t l = 0; l < shape.lanes; l++) {
        world.lane[l] = (int8_t)view->lane_pipeline[l];
    }
    world.frc = view->frc;
    return world;
}

static uint64_t desired(const struct culm_view *view, int32_t id) {
    return mask_of(promise ? culm_memory_desired(promise, &shape, view, id)
                           : culm_view_desired(view, &shape, id));
}

/* --- what has to hold --- */

static int32_t lanes_of(const struct culm_view *view, int32_t pipeline) {
    int32_t lanes = 0;
    for (int32_t l = 0; l < view->lanes; l++) {
        lanes += view->lane_pipeline[l] == pipeline;
    }
    return lanes;
}

/* Do the nodes that sit in this pipeline hold all stages among them? */
static bool could_be_whole(const struct culm_view *view, int32_t pipeline) {
    uint64_t held = 0;
    for (int32_t i = 0; i < view->node_count; i++) {
        held |= view->node[i].pipeline == pipeline ? mask_of(view->node[i].holds) : 0;
    }
    return held == (1ull << view->stages) - 1;
}

static bool could_hold(const struct culm_view *view, int32_t id, int32_t pipeline, int32_t stage) {
    const struct culm_view_node *node = culm_view_find(view, id);
    return node && node->pipeline == pipeline && culm_stage_set_has(&node->holds, stage);
}

/* How far back around the ring from this stage it sits. */
static int32_t back_to(const struct culm_view *view, int32_t id, int32_t stage) {
    return (stage - culm_view_find(view, id)->stage + view->stages) % view->stages;
}

/* Had all lanes of the pipeline gone to others, which work on? */
static bool had_stopped(const struct culm_view *before, int32_t pipeline) {
    bool waits = false, works = false;
    for (int32_t l = 0; l < before->lanes; l++) {
        waits |= before->lane_pipeline[l] < 0;
        works |= before->lane_pipeline[l] >= 0;
    }
    return !culm_view_whole(before, pipeline) && !(waits && works);
}

/* Can the pipeline go on with the iteration, with whoever takes over? */
static bool goes_on(const struct culm_view *view, const struct culm_view *before,
                    int32_t pipeline) {
    bool all = true;
    for (int32_t s = 0; s < view->stages; s++) {
        int32_t owner = before->role[pipeline][s].owner;
        bool someone = owner >= 0 && culm_view_find(view, owner);
        for (int32_t i = 0; i < view->node_count && !had_stopped(before, pipeline); i++) {
            someone |= could_hold(view, view->node[i].id, pipeline, s);
        }
        all &= someone;
    }
    return all;
}

static void check_role(const struct culm_view *view, const struct culm_view *before, int32_t p,
                       int32_t s, bool started_over) {
    const struct culm_role *role = &view->role[p][s];
    assert_true(role->owner == -1 || could_hold(view, role->owner, p, s));
    assert_true(role->shadow == -1 || could_hold(view, role->shadow, p, s));
    assert_true(role->shadow == -1 || (role->owner != -1 && role->shadow != role->owner));
    assert_true(role->shadow == -1 || shape.redundancy != CULM_REDUNDANCY_NONE);
    if (promise) {
        return; /* some roles may have been taken away */
    }
    int32_t was = before && !started_over ? before->role[p][s].owner : -1;
    if (was >= 0 && culm_view_find(view, was)) {
        assert_int_equal(role->owner, was); /* inside of an iteration it stays */
    } else if (before && !started_over && had_stopped(before, p)) {
        assert_int_equal(role->owner, -1);
    } else {
        was = -1; /* the first of all who could */
    }
    for (int32_t i = 0; i < view->node_count; i++) {
        int32_t id = view->node[i].id;
        if (!could_hold(view, id, p, s) || id == role->owner) {
            continue;
        }
        bool stopped = before && !started_over && had_stopped(before, p);
        if (was < 0 && !stopped) {
            assert_true(role->owner >= 0 && back_to(view, role->owner, s) < back_to(view, id, s));
        }
        if (role->owner >= 0 && shape.redundancy != CULM_REDUNDANCY_NONE) {
            int32_t from = culm_view_find(view, role->owner)->stage;
            assert_true(
                role->shadow == id ||
                (role->shadow >= 0 && back_to(view, role->shadow, from) < back_to(view, id, from)));
        }
    }
}

static void check_lanes(const struct culm_view *view, const struct culm_view *before, bool any) {
    bool moved = false;
    int32_t got[NODES] = {0};
    for (int32_t l = 0; l < view->lanes; l++) {
        int32_t p = view->lane_pipeline[l], was = before ? before->lane_pipeline[l] : -1;
        assert_true(p == -1 || culm_view_whole(view, p));
        assert_true(p >= 0 || !any || promise);
        assert_true(promise || was < 0 || !any || !culm_view_whole(view, was) || p == was);
        if (p >= 0 && p != was) {
            moved = true;
            got[p]++;
        }
    }
    for (int32_t l = 1; l < view->lanes && !before && !promise; l++) { /* dealt in runs */
        assert_true(view->lane_pipeline[l - 1] <= view->lane_pipeline[l]);
    }
    for (int32_t p = 0; p < view->pipelines && !promise; p++) {
        for (int32_t q = 0; q < view->pipelines; q++) {
            bool both = culm_view_whole(view, p) && culm_view_whole(view, q);
            /* They are dealt evenly, and those that move go to whoever has fewest. */
            assert_true(!both || !got[p] || lanes_of(view, p) <= lanes_of(view, q) + 1);
        }
    }
    bool eager = shape.redundancy == CULM_REDUNDANCY_EAGER;
    assert_true(!view->frc || eager);
    if (!promise && before && any) {
        assert_int_equal(view->frc, eager && before->frc && !moved);
    } else if (!promise) {
        assert_int_equal(view->frc, eager);
    }
}

static void check_reducers(const struct culm_view *view, bool any) {
    int32_t whole = 0;
    for (int32_t p = 0; p < view->pipelines; p++) {
        whole += culm_view_whole(view, p);
    }
    for (int32_t s = 0; s < view->stages; s++) {
        int32_t reduces[NODES] = {0};
        for (int32_t i = 0; i < whole; i++) {
            const int32_t grad = layout.stage[s].first_grad + i;
            int32_t reducer = culm_view_reducer(view, &layout, grad);
            assert_int_equal(reducer, culm_view_reducer(view, &layout, grad + whole));
            for (int32_t p = 0; p < view->pipelines; p++) {
                reduces[p] += culm_view_whole(view, p) && view->role[p][s].owner == reducer;
            }
        }
        for (int32_t p = 0; p < view->pipelines; p++) { /* each in turn */
            assert_int_equal(reduces[p], culm_view_whole(view, p));
        }
        assert_true(any || culm_view_reducer(view, &layout, layout.stage[s].first_grad) == -1);
    }
}

static void check_desired(const struct culm_view *view) {
    for (int32_t p = 0; p < view->pipelines; p++) {
        int32_t sitters = 0, most = shape.redundancy == CULM_REDUNDANCY_NONE ? 1 : 2;
        for (int32_t i = 0; i < view->node_count; i++) {
            sitters += view->node[i].pipeline == p;
        }
        for (int32_t s = 0; s < view->stages; s++) {
            int32_t copies = 0;
            for (int32_t i = 0; i < view->node_count; i++) {
                const struct culm_view_node *node = &view->node[i];
                bool wants = mask_of(culm_view_desired(view, &shape, node->id)) >> s & 1;
                copies += node->pipeline == p && wants;
                assert_true(!wants || node->pipeline >= 0);
                assert_true(wants || node->pipeline != p || node->stage != s);
            }
            assert_int_equal(copies, sitters < most ? sitters : most);
        }
    }
    for (int32_t i = 0; i < view->node_count; i++) {
        int32_t id = view->node[i].id;
        assert_int_equal(desired(view, id) & ~mask_of(culm_view_desired(view, &shape, id)), 0);
        struct culm_memory_load load =
            culm_memory_undisturbed(&shape, view->node[i].stage >= 0 ? view->node[i].stage : 0);
        if (promise &&
            (desired(view, id) & ~mask_of(load.held))) { /* more than it would have undisturbed */
            load.held = stages_of(mask_of(load.held) | desired(view, id));
            assert_true(culm_memory_of(promise, &shape, &load) <= promise->node_bytes);
        }
    }
}

/* Nobody takes more than was promised, unless with its own stage and an undisturbed share. */
static void check_promise(const struct culm_view *view, const struct culm_view *before) {
    for (int32_t i = 0; i < view->node_count; i++) {
        const struct culm_view_node *node = &view->node[i];
        struct culm_memory_load load = {.held = node->holds};
        if (node->pipeline < 0) {
            continue;
        }
        for (int32_t s = 0; s < view->stages; s++) {
            const struct culm_role *role = &view->role[node->pipeline][s];
            bool own = role->owner == node->id;
            bool ahead = (role->shadow == node->id && view->frc) ||
                         (own && s != node->stage && before && before->frc);
            load.owned.word[0] |= (uint64_t)own << s;
            load.ahead.word[0] |= (uint64_t)ahead << s;
        }
        int32_t lanes = lanes_of(view, node->pipeline),
                share = (shape.lanes + shape.pipelines - 1) / shape.pipelines;
        load.micros = lanes * shape.micros_per_lane;
        bool disturbed = (mask_of(load.owned) & ~(1ull << node->stage)) || lanes > share;
        assert_true(!disturbed || culm_memory_of(promise, &shape, &load) <= promise->node_bytes);
    }
}

static void check_message(const struct culm_view *view) {
    static struct culm_view read;
    struct culm_buf buf, again;
    culm_buf_init(&buf, CULM_META_MAX);
    culm_buf_init(&again, CULM_META_MAX);
    culm_view_encode(view, NULL, &shape, &buf);
    assert_int_equal(culm_view_decode(buf.data, buf.len, NULL, &shape, &read), CULM_OK);
    culm_view_encode(&read, NULL, &shape, &again);
    assert_int_equal(buf.len, again.len);
    assert_memory_equal(buf.data, again.data, buf.len);
    culm_buf_release(&buf);
    culm_buf_release(&again);
}

/* Does every slot of the pipeline have a node that holds the slot's stage? */
static bool all_seated(const struct culm_view *view, int32_t pipeline) {
    int32_t seated = 0;
    for (int32_t i = 0; i < view->node_count; i++) {
        const struct culm_view_node *node = &view->node[i];
        seated += node->pipeline == pipeline && culm_stage_set_has(&node->holds, node->stage);
    }
    return seated == view->stages;
}

static void check(const struct culm_view *view, const struct culm_view *before) {
    bool any = false, could = false, stays = false;
    for (int32_t p = 0; p < view->pipelines; p++) {
        bool whole = culm_view_whole(view, p);
        any |= whole;
        could |= could_be_whole(view, p);
        stays |= before && goes_on(view, before, p);
        assert_true(!whole || could_be_whole(view, p));
        /* Where lanes have waited for it, whoever is all there again takes them inside of the
         * iteration. */
        assert_true(whole || !all_seated(view, p) || (before && had_stopped(before, p)));
        /* Whoever was whole and can be is. */
        assert_true(promise || whole || !could_be_whole(view, p) ||
                    (before && !culm_view_whole(before, p)));
    }
    assert_true(promise || any == could); /* as long as some pipeline can run, one does */
    for (int32_t p = 0; p < view->pipelines; p++) {
        for (int32_t s = 0; s < view->stages; s++) {
            check_role(view, before, p, s, !stays);
        }
    }
    check_lanes(view, before, any);
    check_reducers(view, any);
    check_desired(view);
    if (promise) {
        check_promise(view, before);
    }
    check_message(view);
}

/* --- moves --- */

/* The nodes of `view` are those of the new one; its roles follow. */
static void settle(struct culm_view *view, const struct culm_view *before, int32_t events) {
    culm_view_assign(view, &shape, before);
    if (promise) {
        culm_memory_fit(promise, &shape, view, before);
    }
    check(view, before);
    const struct world world = world_from(view, events);
    keep(&world);
}

/* At a boundary whoever has no use for a stage lets it go, as long as another has it (drop_unwanted of the
 * leader). */
static void drop_unwanted(struct culm_view *view, int32_t events) {
    for (int32_t i = 0; i < view->node_count; i++) {
        struct culm_view_node *node = &view->node[i];
        uint64_t wanted = desired(view, node->id);
        for (int32_t s = 0; s < view->stages && node->pipeline >= 0; s++) {
            const struct culm_role *role = &view->role[node->pipeline][s];
            bool keeps = (wanted >> s & 1) || role->owner == node->id || role->shadow == node->id;
            if (!keeps && culm_view_copies(view, s) > 1) {
                culm_stage_set_remove(&node->holds, s);
            }
        }
    }
    for (int32_t s = 0; s < view->stages; s++) {
        assert_true(culm_view_copies(view, s) > 0);
    }
    const struct world world = world_from(view, events);
    keep(&world);
}

static bool is_taken(const struct world *world, int32_t slot) {
    for (int32_t i = 0; i < world->count; i++) {
        if (world->pipeline[i] == slot / shape.stages && world->stage[i] == slot % shape.stages) {
            return true;
        }
    }
    return false;
}

static bool some_stage_is_gone(const struct culm_view *view) {
    for (int32_t s = 0; s < view->stages; s++) {
        if (culm_view_copies(view, s) == 0) {
            return true; /* the leader rolls back: no view follows from this one */
        }
    }
    return false;
}

static void move_all(const struct world *world) {
    static struct culm_view before, view;
    const int32_t slots = shape.pipelines * shape.stages;
    view_from(world, &before);
    for (int32_t i = 0; i < world->count && world->events < most_events; i++) { /* a loss */
        view_from(world, &view);
        memmove(&view.node[i], &view.node[i + 1],
                (size_t)(world->count - 1 - i) * sizeof *view.node);
        view.node_count--;
        if (!some_stage_is_gone(&view)) {
            settle(&view, &before, world->events + 1);
        }
    }
    for (int32_t slot = STANDBY;
         slot < slots && world->count < NODES && world->events < most_events; slot++) {
        if (slot == STANDBY || !is_taken(world, slot)) { /* one joins */
            view_from(world, &view);
            view.node[view.node_count++] =
                slot < 0 ? (struct culm_view_node){world->count, -1, -1, {{0}}}
                         : (struct culm_view_node){
                               world->count, slot / shape.stages, slot % shape.stages, {{0}}};
            settle(&view, &before, world->events + 1);
        }
    }
    for (int32_t i = 0; i < world->count; i++) {
        for (int32_t slot = 0; slot < slots && world->pipeline[i] < 0; slot++) {
            if (!is_taken(world, slot)) { /* one on standby is seated */
                view_from(world, &view);
                view.node[i].pipeline = slot / shape.stages;
                view.node[i].stage = slot % shape.stages;
                settle(&view, &before, world->events);
            }
        }
        uint64_t lacks = desired(&before, i) & ~(uint64_t)world->holds[i];
        for (int32_t s = 0; s < shape.stages; s++) {
            if (lacks >> s & 1) { /* a copy is done */
                view_from(world, &view);
                culm_stage_set_add(&view.node[i].holds, s);
                settle(&view, &before, world->events);
            }
        }
    }
    view_from(world, &view);
    settle(&view, NULL, world->events); /* a step is committed */
    drop_unwanted(&view, world->events);
}

#define LIMITS 4
static int limit;
static struct culm_memory memory;

/* What a worker may take, which is never less than it takes undisturbed: the plan refuses that. */
static void give_promise(void) {
    const uint64_t both = shape.stages > 1 ? 3 : 1;
    const struct culm_memory_load more[LIMITS] = {
        {.micros = 0},
        {.held = stages_of(both | 1ull << (shape.stages - 1)),
         .owned = stages_of(1),
         .micros = 2 * shape.lanes},
        {.held = stages_of(both), .owned = stages_of(both), .micros = 2 * shape.lanes},
        {.held = culm_stage_set_below(shape.stages),
         .owned = culm_stage_set_below(shape.stages),
         .micros = 2 * shape.lanes}};
    memory = (struct culm_memory){.layout = &layout, .base_bytes = 1000};
    memory.node_bytes = culm_memory_of(&memory, &shape, &more[limit]);
    for (int32_t s = 0; s < shape.stages; s++) {
        const struct culm_memory_load load = culm_memory_undisturbed(&shape, s);
        size_t bytes = culm_memory_of(&memory, &shape, &load);
        memory.node_bytes = bytes > memory.node_bytes ? bytes : memory.node_bytes;
    }
}

static void walk(int32_t pipelines, int32_t stage_count, int32_t lanes,
                 enum culm_redundancy redundancy) {
    static struct culm_view view;
    shape = (struct culm_run_shape){.pipelines = pipelines,
                                    .stages = stage_count,
                                    .lanes = lanes,
                                    .micros = 2 * lanes,
                                    .micros_per_lane = 2,
                                    .redundancy = redundancy};
    if (promise) {
        give_promise();
    }
    found_count = 0;
    if (place) {
        memset(place, 0, (size_t)places * sizeof *place);
    }
    struct world first;
    memset(&first, 0, sizeof first);
    first.count = (int8_t)(pipelines * stage_count);
    for (int32_t i = 0; i < first.count; i++) {
        first.pipeline[i] = (int8_t)(i / stage_count);
        first.stage[i] = (int8_t)(i % stage_count);
    }
    view_from(&first, &view);
    for (int32_t i = 0; i < view.node_count; i++) {
        view.node[i].holds = stages_of(desired(&view, i));
    }
    settle(&view, NULL, 0);
    for (int32_t i = 0; i < found_count; i++) {
        const struct world world = found[i];
        move_all(&world);
    }
}

/* Shapes of up to four slots, every number of lanes, every redundancy. Returns the number of worlds. */
static int64_t walk_all(void) {
    int64_t worlds = 0;
    for (int32_t pipelines = 1; pipelines <= NODES; pipelines++) {
        for (int32_t stage_count = 1; pipelines * stage_count <= NODES; stage_count++) {
            for (int32_t lanes = pipelines; lanes <= NODES; lanes++) {
                for (int r = CULM_REDUNDANCY_NONE; r <= CULM_REDUNDANCY_EAGER; r++) {
                    walk(pipelines, stage_count, lanes, (enum culm_redundancy)r);
                    worlds += found_count;
                }
            }
        }
    }
    return worlds;
}

static void test_views(void **state) {
    (void)state;
    promise = NULL;
    int64_t worlds = walk_all();
    print_message("# %lld worlds\n", (long long)worlds);
    assert_true(worlds > 10000);
}

/* A worker may take what an undisturbed run needs, then a copy more, then two stages, then all. */
static void test_promises(void **state) {
    (void)state;
    for (limit = 0; limit < LIMITS; limit++) {
        promise = &memory;
        int64_t worlds = walk_all();
        print_message("# %lld worlds with promise %d\n", (long long)worlds, limit);
        assert_true(worlds > 3000);
    }
    promise = NULL;
}

static int make_stages(void **state) {
    (void)state;
    for (int32_t s = 0; s < NODES; s++) {
        stages[s] = (struct culm_stage_desc){.input_bytes = 6400,
                                             .output_bytes = 6400,
                                             .activation_bytes = 64000,
                                             .grad_bytes = 640000,
                                             .state_bytes = 1920000,
                                             .scratch_bytes = 6400,
                                             .sample_bytes = 100,
                                             .first_grad = 2 * NODES * s,
                                             .grad_count = 2 * NODES};
        for (int32_t g = 0; g < 2 * NODES; g++) {
            grads[stages[s].first_grad + g].stage = s;
        }
    }
    return 0;
}

static int let_go(void **state) {
    (void)state;
    free(found);
    free(place);
    return 0;
}

int main(int argc, char **argv) {
    most_events = argc > 1 ? atoi(argv[1]) : most_events;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_views),
                                       cmocka_unit_test(test_promises)};
    return cmocka_run_group_tests_name("pipeline/small_worlds", tests, make_stages, let_go);
}
