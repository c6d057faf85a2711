/* What parts take, and views that keep the promise. See memory.h. */
#include "pipeline/memory.h"

#include "base/mark.h"
#include "base/pages.h"

static size_t taken_by(size_t bytes) { return bytes ? culm_pages_size(bytes) : 0; }

static size_t greater(size_t a, size_t b) { return a > b ? a : b; }

static int32_t lesser(int32_t a, int32_t b) { return a < b ? a : b; }

/* Sums of gradients that are alive at once: along a path of the tree over the pipeline's lanes,
 * with the lane being filled and a fold's result. */
static size_t sums_of(int32_t lanes) {
    size_t sums = lanes > 1 ? 2 : 1;
    for (int32_t below = 1; below < lanes; below *= 2) {
        sums++;
    }
    return sums;
}

/* What a reducer gets from other pipelines: their roots, of its share of the tensors. */
static size_t slices_bytes(const struct culm_layout *layout, const struct culm_run_shape *shape,
                           int32_t s, int32_t lanes) {
    int32_t others = lanes < shape->lanes ? (shape->lanes - 1) / (lanes > 0 ? lanes : 1) : 0;
    int32_t reducers = culm_layout_reducers(layout, s, others + 1);
    return layout->stage[s].grad_bytes * (size_t)others / (size_t)reducers;
}

static size_t owned_bytes(const struct culm_memory *memory, const struct culm_run_shape *shape,
                          const struct culm_memory_load *load, int32_t s) {
    const struct culm_stage_desc *stage = &memory->layout->stage[s];
    int32_t in_flight = lesser(shape->stages - s, load->micros);
    int32_t activations =
        culm_stage_set_has(&load->ahead, s) ? 0 : in_flight; /* counted where it runs ahead */
    size_t boundaries = taken_by(stage->input_bytes) + taken_by(stage->output_bytes);
    size_t passing = (size_t)in_flight + 1; /* what came and is not yet used */
    int32_t lanes = load->micros / shape->micros_per_lane;
    return ((size_t)load->micros + passing) * boundaries +
           (size_t)activations * taken_by(stage->activation_bytes) +
           sums_of(lanes) * taken_by(stage->grad_bytes) +
           slices_bytes(memory->layout, shape, s, lanes) + taken_by(stage->state_bytes);
}

static size_t ahead_bytes(const struct culm_memory *memory, const struct culm_memory_load *load,
                          int32_t s) {
    const struct culm_stage_desc *stage = &memory->layout->stage[s];
    return (size_t)load->micros *
           (taken_by(stage->activation_bytes) + taken_by(stage->output_bytes));
}

size_t culm_memory_of(const struct culm_memory *memory, const struct culm_run_shape *shape,
                      const struct culm_memory_load *load) {
    size_t bytes = memory->base_bytes, scratch = 0, scratch_ahead = 0, samples = 0;
    for (int32_t s = 0; s < shape->stages; s++) {
        const struct culm_stage_desc *stage = &memory->layout->stage[s];
        bool owned = culm_stage_set_has(&load->owned, s),
             ahead = culm_stage_set_has(&load->ahead, s);
        if (owned || culm_stage_set_has(&load->held, s)) {
            bytes += taken_by(stage->state_bytes) + stage->grad_bytes;
        }
        bytes += owned ? owned_bytes(memory, shape, load, s) : 0;
        bytes += ahead ? ahead_bytes(memory, load, s) : 0;
        scratch = greater(scratch, owned ? stage->scratch_bytes : 0);
        scratch_ahead = greater(scratch_ahead, ahead ? stage->scratch_bytes : 0);
        samples = greater(samples, owned || ahead ? stage->sample_bytes : 0);
    }
    return greater(bytes + taken_by(scratch) + taken_by(scratch_ahead) + samples,
                   memory->start_bytes);
}

struct culm_memory_load culm_memory_undisturbed(const struct culm_run_shape *shape, int32_t stage) {
    int32_t lanes = (shape->lanes + shape->pipelines - 1) / shape->pipelines;
    struct culm_memory_load load = {.held = culm_stage_set_of(stage),
                                    .owned = culm_stage_set_of(stage),
                                    .micros = lanes * shape->micros_per_lane};
    if (shape->redundancy != CULM_REDUNDANCY_NONE && shape->stages > 1) {
        const int32_t shadowed = (stage + 1) % shape->stages;
        culm_stage_set_add(&load.held, shadowed);
        if (shape->redundancy == CULM_REDUNDANCY_EAGER) {
            culm_stage_set_add(&load.ahead, shadowed);
        }
    }
    return load;
}

/* --- what a view gives to whom --- */

static int32_t lanes_of(const struct culm_view *view, int32_t pipeline) {
    int32_t lanes = 0;
    for (int32_t l = 0; l < view->lanes; l++) {
        lanes += view->lane_pipeline[l] == pipeline;
    }
    return lanes;
}

/* What it owns that is not of its slot. */
static struct culm_stage_set foreign(const struct culm_view_node *node,
                                     const struct culm_stage_set *owned) {
    struct culm_stage_set others = *owned;
    if (node->stage >= 0) {
        culm_stage_set_remove(&others, node->stage);
    }
    return others;
}

/* A view that is being made, and the rules for it. */
struct draft {
    const struct culm_memory *memory;
    const struct culm_run_shape *shape;
    struct culm_view *view;
    const struct culm_view *before; /* NULL at a boundary */
};

/* Inside an iteration a stage taken over may have been run ahead as a whole. */
static struct culm_memory_load load_in(const struct draft *draft,
                                       const struct culm_view_node *node) {
    const struct culm_view *view = draft->view;
    struct culm_memory_load load = {.held = node->holds};
    if (node->pipeline < 0) {
        return load;
    }
    for (int32_t s = 0; s < view->stages; s++) {
        const struct culm_role *role = &view->role[node->pipeline][s];
        if (role->owner == node->id) {
            culm_stage_set_add(&load.owned, s);
        }
        if (role->shadow == node->id && view->frc) {
            culm_stage_set_add(&load.ahead, s);
        }
    }
    load.micros = lanes_of(view, node->pipeline) * draft->shape->micros_per_lane;
    if (draft->before && draft->before->frc) {
        const struct culm_stage_set others = foreign(node, &load.owned);
        load.ahead = culm_stage_set_any(&load.ahead, &others);
    }
    return load;
}

static size_t part_bytes(const struct draft *draft, const struct culm_view_node *node) {
    const struct culm_memory_load load = load_in(draft, node);
    return culm_memory_of(draft->memory, draft->shape, &load);
}

static bool over(const struct draft *draft, const struct culm_view_node *node) {
    size_t limit = draft->memory->node_bytes;
    return limit && part_bytes(draft, node) > limit;
}

static bool all_over(const struct draft *draft) {
    size_t bytes = 0, limit = draft->memory->total_bytes;
    for (int32_t i = 0; limit && i < draft->view->node_count; i++) {
        bytes += part_bytes(draft, &draft->view->node[i]);
    }
    return bytes > limit;
}

static bool pipeline_over(const struct draft *draft, int32_t pipeline) {
    for (int32_t i = 0; i < draft->view->node_count; i++) {
        const struct culm_view_node *node = &draft->view->node[i];
        if (node->pipeline == pipeline && over(draft, node)) {
            return true;
        }
    }
    return all_over(draft);
}

/* --- desired copies --- */

struct culm_stage_set culm_memory_desired(const struct culm_memory *memory,
                                          const struct culm_run_shape *shape,
                                          const struct culm_view *view, int32_t id) {
    const struct culm_stage_set desired = culm_view_desired(view, shape, id);
    const struct culm_view_node *node = culm_view_find(view, id);
    if (!memory->node_bytes || !node || node->stage < 0) {
        return desired;
    }
    struct culm_memory_load load = culm_memory_undisturbed(shape, node->stage);
    load.held = culm_stage_set_both(&load.held, &desired);
    load.ahead = culm_stage_set_both(&load.ahead, &desired);
    for (int32_t i = 2; i < shape->stages; i++) {
        const int32_t stage = (node->stage + i) % shape->stages;
        if (!culm_stage_set_has(&desired, stage)) {
            continue;
        }
        culm_stage_set_add(&load.held, stage);
        if (culm_memory_of(memory, shape, &load) > memory->node_bytes) {
            CULM_MARK(pipeline_memory_has_no_room_for_a_copy);
            culm_stage_set_remove(&load.held, stage);
        }
    }
    return load.held;
}

/* --- keeping the promise --- */

/* Gives one stage that is not of the node's slot to another holder of the pipeline that has room,
 * or to nobody. False: it has none. */
static bool give_up_stage(struct draft *draft, const struct culm_view_node *node) {
    struct culm_view *view = draft->view;
    const struct culm_memory_load load = load_in(draft, node);
    const struct culm_stage_set others = foreign(node, &load.owned);
    const int32_t s = culm_stage_set_last(&others);
    if (s < 0) {
        return false;
    }
    struct culm_role *role = &view->role[node->pipeline][s];
    const struct culm_role had = *role;
    culm_stage_set_add(&view->refused[node - view->node], s);
    for (int32_t n = 0; n < view->node_count; n++) {
        const struct culm_view_node *other = &view->node[n];
        if (other->pipeline != node->pipeline || culm_stage_set_has(&view->refused[n], s) ||
            !culm_stage_set_has(&other->holds, s)) {
            continue;
        }
        *role = (struct culm_role){other->id, had.shadow == other->id ? -1 : had.shadow};
        if (!over(draft, other)) {
            CULM_MARK(pipeline_memory_gives_a_stage_to_another);
            return true;
        }
        culm_stage_set_add(&view->refused[n], s);
    }
    CULM_MARK(pipeline_memory_gives_a_stage_to_nobody);
    *role = (struct culm_role){-1, -1};
    culm_view_deal(view, draft->shape, draft->before);
    return true;
}

/* A lane that the pipeline has beyond an undisturbed share: one that was not its own if there is
 * any. -1: none. */
static int32_t surplus_lane(const struct draft *draft, int32_t pipeline) {
    const struct culm_view *view = draft->view;
    int32_t share = (draft->shape->lanes + draft->shape->pipelines - 1) / draft->shape->pipelines;
    if (lanes_of(view, pipeline) <= share) {
        return -1;
    }
    int32_t last = -1;
    for (int32_t l = 0; l < view->lanes; l++) {
        if (view->lane_pipeline[l] == pipeline) {
            last = l;
            if (draft->before && draft->before->lane_pipeline[l] != pipeline) {
                return l;
            }
        }
    }
    return last;
}

/* No more than the plan counts: its own stage, an undisturbed share of the lanes. */
static bool undisturbed(const struct draft *draft, const struct culm_view_node *node) {
    const struct culm_memory_load load = load_in(draft, node);
    const struct culm_stage_set others = foreign(node, &load.owned);
    return culm_stage_set_empty(&others) && surplus_lane(draft, node->pipeline) < 0;
}

/* Takes one thing from one node that breaks the promise. False: nobody does, or nothing helps. */
static bool take_one(struct draft *draft) {
    struct culm_view *view = draft->view;
    bool together = all_over(draft);
    for (int32_t i = 0; i < view->node_count; i++) {
        const struct culm_view_node *node = &view->node[i];
        if (node->pipeline < 0 || (!together && !over(draft, node))) {
            continue;
        }
        if (view->frc && !undisturbed(draft, node)) {
            CULM_MARK(pipeline_memory_ends_redundant_forwards);
            view->frc = false;
            return true;
        }
        if (give_up_stage(draft, node)) {
            return true;
        }
        int32_t lane = surplus_lane(draft, node->pipeline);
        if (lane >= 0) {
            CULM_MARK(pipeline_memory_lets_a_lane_wait);
            view->lane_pipeline[lane] = -1;
            return true;
        }
    }
    return false;
}

/* Lanes that wait go where there is room after all. */
static void place_lanes(struct draft *draft) {
    struct culm_view *view = draft->view;
    for (int32_t l = 0; l < view->lanes; l++) {
        for (int32_t p = 0; p < view->pipelines && view->lane_pipeline[l] < 0; p++) {
            if (culm_view_whole(view, p)) {
                view->lane_pipeline[l] = p;
                view->lane_pipeline[l] = pipeline_over(draft, p) ? -1 : p;
                if (view->lane_pipeline[l] >= 0) {
                    CULM_MARK(pipeline_memory_places_a_lane);
                }
            }
        }
    }
}

void culm_memory_fit(const struct culm_memory *memory, const struct culm_run_shape *shape,
                     struct culm_view *view, const struct culm_view *before) {
    struct draft draft = {.memory = memory, .shape = shape, .view = view, .before = before};
    bool taken = false;
    for (int32_t i = 0; i < view->node_count; i++) {
        view->refused[i] = (struct culm_stage_set){{0}};
    }
    while (take_one(&draft)) {
        taken = true;
    }
    if (taken) {
        place_lanes(&draft);
    }
}
