/* Views: who owns, who shadows, which pipeline runs which lane. */
#include "pipeline/view.h"

#include "base/grow.h"
#include "base/mark.h"

#include <stdlib.h>

/* Rows of `columns` items of `bytes` each, one after the other. */
static void *rows_new(int32_t rows, int32_t columns, size_t bytes) {
    const size_t heads = (size_t)rows * sizeof(void *);
    char **row = calloc(1, heads + (size_t)rows * (size_t)columns * bytes);
    for (int32_t r = 0; row && r < rows; r++) {
        row[r] = (char *)row + heads + (size_t)r * (size_t)columns * bytes;
    }
    return row;
}

bool culm_view_init(struct culm_view *view, const struct culm_run_shape *shape) {
    *view = (struct culm_view){
        .pipelines = shape->pipelines, .stages = shape->stages, .lanes = shape->lanes};
    view->role = rows_new(shape->pipelines, shape->stages, sizeof **view->role);
    view->seat = rows_new(shape->pipelines, shape->stages, sizeof **view->seat);
    view->lane_pipeline = calloc((size_t)shape->lanes, sizeof *view->lane_pipeline);
    view->load = calloc((size_t)shape->pipelines, sizeof *view->load);
    if (!view->role || !view->seat || !view->lane_pipeline || !view->load) {
        culm_view_release(view);
        return false;
    }
    culm_view_clear(view);
    return true;
}

void culm_view_release(struct culm_view *view) {
    free(view->role);
    free(view->seat);
    free(view->lane_pipeline);
    free(view->load);
    free(view->node);
    free(view->refused);
    free(view->transfer);
    *view = (struct culm_view){0};
}

void culm_view_clear(struct culm_view *view) {
    view->number = 0;
    view->phase = CULM_VIEW_LOAD;
    view->iteration = 0;
    view->attempt = 0;
    view->node_count = view->transfer_count = 0;
    view->frc = false;
    view->reason[0] = view->source[0] = '\0';
    for (int32_t p = 0; p < view->pipelines; p++) {
        for (int32_t s = 0; s < view->stages; s++) {
            view->role[p][s] = (struct culm_role){-1, -1};
        }
    }
    for (int32_t l = 0; l < view->lanes; l++) {
        view->lane_pipeline[l] = -1;
    }
    culm_view_seat(view);
}

bool culm_view_reserve(struct culm_view *view, int32_t nodes) {
    if (nodes <= view->node_capacity) {
        return true;
    }
    int32_t capacity = 0; /* of a new array, which nobody has to copy */
    struct culm_stage_set *refused = NULL;
    if (!CULM_GROW(refused, capacity, nodes) ||
        !CULM_GROW(view->node, view->node_capacity, capacity)) {
        free(refused);
        return false;
    }
    free(view->refused);
    view->refused = refused;
    return true;
}

bool culm_view_add_node(struct culm_view *view, const struct culm_view_node *node) {
    if (!culm_view_reserve(view, view->node_count + 1)) {
        return false;
    }
    view->node[view->node_count++] = *node;
    return true;
}

bool culm_view_add_transfer(struct culm_view *view, const struct culm_transfer *transfer) {
    if (!CULM_GROW(view->transfer, view->transfer_capacity, view->transfer_count + 1)) {
        return false;
    }
    view->transfer[view->transfer_count++] = *transfer;
    return true;
}

const struct culm_view_node *culm_view_find(const struct culm_view *view, int32_t node) {
    int32_t low = 0, high = view->node_count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (view->node[middle].id < node) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < view->node_count && view->node[low].id == node ? &view->node[low] : NULL;
}

bool culm_view_lanes_wait(const struct culm_view *view) {
    for (int32_t l = 0; l < view->lanes; l++) {
        if (view->lane_pipeline[l] < 0) {
            return true;
        }
    }
    return false;
}

bool culm_view_whole(const struct culm_view *view, int32_t pipeline) {
    for (int32_t s = 0; s < view->stages; s++) {
        if (view->role[pipeline][s].owner < 0) {
            return false;
        }
    }
    return true;
}

int32_t culm_view_reducer(const struct culm_view *view, const struct culm_layout *layout,
                          int32_t grad) {
    const int32_t stage = layout->grad[grad].stage;
    int32_t count = 0;
    for (int32_t p = 0; p < view->pipelines; p++) {
        count += culm_view_whole(view, p);
    }
    const int32_t index = grad - layout->stage[stage].first_grad;
    const int32_t turn = count ? index % culm_layout_reducers(layout, stage, count) : 0;
    for (int32_t p = 0, at = 0; p < view->pipelines && count; p++) {
        if (culm_view_whole(view, p) && at++ == turn) {
            return view->role[p][stage].owner;
        }
    }
    return -1;
}

int32_t culm_view_copies(const struct culm_view *view, int32_t stage) {
    int32_t copies = 0;
    for (int32_t i = 0; i < view->node_count; i++) {
        copies += culm_stage_set_has(&view->node[i].holds, stage);
    }
    return copies;
}

void culm_view_seat(struct culm_view *view) {
    for (int32_t p = 0; p < view->pipelines; p++) {
        for (int32_t s = 0; s < view->stages; s++) {
            view->seat[p][s] = -1;
        }
    }
    for (int32_t i = 0; i < view->node_count; i++) {
        if (view->node[i].pipeline >= 0) {
            view->seat[view->node[i].pipeline][view->node[i].stage] = i;
        }
    }
}

/* Goes back around the ring of `pipeline` from slot `from` (itself included) to the first sitter
 * that holds the stage (-1: whatever it holds) and is not `except`. */
static const struct culm_view_node *back_from(const struct culm_view *view, int32_t pipeline,
                                              int32_t from, int32_t holds, int32_t except) {
    for (int32_t i = 0; i < view->stages; i++) {
        int32_t at = (from - i + view->stages) % view->stages;
        int32_t seat = view->seat[pipeline][at];
        const struct culm_view_node *node = seat >= 0 ? &view->node[seat] : NULL;
        if (node && node->id != except && (holds < 0 || culm_stage_set_has(&node->holds, holds))) {
            return node;
        }
    }
    return NULL;
}

struct culm_stage_set culm_view_desired(const struct culm_view *view,
                                        const struct culm_run_shape *shape, int32_t id) {
    const struct culm_view_node *self = culm_view_find(view, id);
    struct culm_stage_set desired = {{0}};
    if (!self || self->pipeline < 0) {
        return desired;
    }
    for (int32_t s = 0; s < view->stages; s++) {
        const struct culm_view_node *owner = back_from(view, self->pipeline, s, -1, -1);
        if (owner == self) {
            culm_stage_set_add(&desired, s);
        }
        if (owner && shape->redundancy != CULM_REDUNDANCY_NONE &&
            back_from(view, self->pipeline, owner->stage, -1, owner->id) == self) {
            culm_stage_set_add(&desired, s);
        }
    }
    return desired;
}

/* Some pipeline works while lanes wait for another one. */
static bool lanes_wait(const struct culm_view *view) {
    bool wait = false, work = false;
    for (int32_t l = 0; l < view->lanes; l++) {
        wait |= view->lane_pipeline[l] < 0;
        work |= view->lane_pipeline[l] >= 0;
    }
    return wait && work;
}

static void assign_roles(struct culm_view *view, const struct culm_run_shape *shape,
                         const struct culm_view *before) {
    for (int32_t p = 0; p < view->pipelines; p++) {
        /* The lanes of a pipeline that stopped have gone for this iteration, if others had room. */
        bool stopped = before && !culm_view_whole(before, p) && !lanes_wait(before);
        for (int32_t s = 0; s < view->stages; s++) {
            const struct culm_view_node *owner = NULL;
            if (before) {
                owner = culm_view_find(view, before->role[p][s].owner);
            }
            if (!owner && !stopped) {
                owner = back_from(view, p, s, s, -1);
                if (before && owner) {
                    CULM_MARK(pipeline_view_has_another_owner);
                } else if (before) {
                    CULM_MARK(pipeline_view_has_no_owner);
                }
            } else if (!owner) {
                CULM_MARK(pipeline_view_leaves_a_stopped_pipeline);
            }
            const struct culm_view_node *shadow = NULL;
            if (owner && shape->redundancy != CULM_REDUNDANCY_NONE && owner->stage >= 0) {
                shadow = back_from(view, p, owner->stage, s, owner->id);
            }
            view->role[p][s] = (struct culm_role){owner ? owner->id : -1, shadow ? shadow->id : -1};
        }
    }
}

/* Lanes of each pipeline; of one that is not whole -1. */
static void count_loads(struct culm_view *view) {
    for (int32_t p = 0; p < view->pipelines; p++) {
        view->load[p] = culm_view_whole(view, p) ? 0 : -1;
    }
    for (int32_t l = 0; l < view->lanes; l++) {
        if (view->lane_pipeline[l] >= 0) {
            view->load[view->lane_pipeline[l]]++;
        }
    }
}

/* One of those that are whole. */
static int32_t least_loaded(const struct culm_view *view) {
    int32_t best = -1;
    for (int32_t p = 0; p < view->pipelines; p++) {
        if (view->load[p] >= 0 && (best < 0 || view->load[p] < view->load[best])) {
            best = p;
        }
    }
    return best;
}

/* At a boundary: whole pipelines get consecutive runs of lanes, as even as they come. */
static void assign_lanes_fresh(struct culm_view *view) {
    int32_t count = 0, lane = 0, at = 0;
    for (int32_t p = 0; p < view->pipelines; p++) {
        count += culm_view_whole(view, p);
    }
    for (int32_t p = 0; p < view->pipelines && count; p++) {
        if (!culm_view_whole(view, p)) {
            continue;
        }
        for (; lane < view->lanes && (int64_t)lane * count / view->lanes == at; lane++) {
            view->lane_pipeline[lane] = p;
        }
        at++;
    }
    for (; lane < view->lanes; lane++) {
        view->lane_pipeline[lane] = -1;
    }
}

static bool any_whole(const struct culm_view *view) {
    for (int32_t p = 0; p < view->pipelines; p++) {
        if (culm_view_whole(view, p)) {
            return true;
        }
    }
    return false;
}

void culm_view_deal(struct culm_view *view, const struct culm_run_shape *shape,
                    const struct culm_view *before) {
    bool moved = false;
    if (before && any_whole(view)) {
        for (int32_t l = 0; l < view->lanes; l++) {
            int32_t p = before->lane_pipeline[l];
            view->lane_pipeline[l] = p >= 0 && culm_view_whole(view, p) ? p : -1;
        }
        count_loads(view);
        for (int32_t l = 0; l < view->lanes; l++) {
            if (view->lane_pipeline[l] < 0) {
                CULM_MARK(pipeline_view_moves_a_lane);
                view->lane_pipeline[l] = least_loaded(view);
                view->load[view->lane_pipeline[l]]++;
                moved = true;
            }
        }
        moved |= !before->frc;
    } else {
        if (before) {
            CULM_MARK(pipeline_view_deals_anew_inside_an_iteration);
        }
        assign_lanes_fresh(view);
    }
    view->frc = shape->redundancy == CULM_REDUNDANCY_EAGER && !moved;
}

void culm_view_assign(struct culm_view *view, const struct culm_run_shape *shape,
                      const struct culm_view *before) {
    culm_view_seat(view);
    assign_roles(view, shape, before);
    if (before && !any_whole(view)) {
        CULM_MARK(pipeline_view_starts_over);
        /* No pipeline is left to take the lanes: the iteration starts over in whatever can be made
         * whole. */
        assign_roles(view, shape, NULL);
    }
    culm_view_deal(view, shape, before);
}
