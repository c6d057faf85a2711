/* Views: who owns, who shadows, which pipeline runs which lane. */
#include "pipeline/view.h"

const struct culm_view_node *culm_view_find(const struct culm_view *view, int32_t node) {
    for (int32_t i = 0; i < view->node_count; i++) {
        if (view->node[i].id == node) {
            return &view->node[i];
        }
    }
    return NULL;
}

bool culm_view_whole(const struct culm_view *view, int32_t pipeline) {
    for (int32_t s = 0; s < view->stages; s++) {
        if (view->role[pipeline][s].owner < 0) {
            return false;
        }
    }
    return true;
}

int32_t culm_view_reducer(const struct culm_view *view, int32_t stage, int32_t index_in_stage) {
    int32_t whole[CULM_MAX_PIPELINES], count = 0;
    for (int32_t p = 0; p < view->pipelines; p++) {
        if (culm_view_whole(view, p)) {
            whole[count++] = p;
        }
    }
    return count ? view->role[whole[index_in_stage % count]][stage].owner : -1;
}

int32_t culm_view_copies(const struct culm_view *view, int32_t stage) {
    int32_t copies = 0;
    for (int32_t i = 0; i < view->node_count; i++) {
        copies += view->node[i].holds >> stage & 1;
    }
    return copies;
}

/* The node that sits in slot (pipeline, stage), or NULL. */
static const struct culm_view_node *sitter(const struct culm_view *view, int32_t pipeline,
                                           int32_t stage) {
    for (int32_t i = 0; i < view->node_count; i++) {
        if (view->node[i].pipeline == pipeline && view->node[i].stage == stage) {
            return &view->node[i];
        }
    }
    return NULL;
}

/* Goes back around the ring of `pipeline` from slot `from` (itself included) to the first sitter
 * that holds every stage of `holds` and is not `except`. */
static const struct culm_view_node *back_from(const struct culm_view *view, int32_t pipeline,
                                              int32_t from, uint64_t holds, int32_t except) {
    for (int32_t i = 0; i < view->stages; i++) {
        int32_t at = (from - i + view->stages) % view->stages;
        const struct culm_view_node *node = sitter(view, pipeline, at);
        if (node && node->id != except && (node->holds & holds) == holds) {
            return node;
        }
    }
    return NULL;
}

uint64_t culm_view_desired(const struct culm_view *view, const struct culm_run_shape *shape,
                           int32_t id) {
    const struct culm_view_node *self = culm_view_find(view, id);
    if (!self || self->pipeline < 0) {
        return 0;
    }
    uint64_t desired = 0;
    for (int32_t s = 0; s < view->stages; s++) {
        const struct culm_view_node *owner = back_from(view, self->pipeline, s, 0, -1);
        if (owner == self) {
            desired |= 1ull << s;
        }
        if (owner && shape->redundancy != CULM_REDUNDANCY_NONE &&
            back_from(view, self->pipeline, owner->stage, 0, owner->id) == self) {
            desired |= 1ull << s;
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
                owner = back_from(view, p, s, 1ull << s, -1);
            }
            const struct culm_view_node *shadow = NULL;
            if (owner && shape->redundancy != CULM_REDUNDANCY_NONE && owner->stage >= 0) {
                shadow = back_from(view, p, owner->stage, 1ull << s, owner->id);
            }
            view->role[p][s] = (struct culm_role){owner ? owner->id : -1, shadow ? shadow->id : -1};
        }
    }
}

static int32_t least_loaded(const struct culm_view *view) {
    int32_t best = -1, best_lanes = 0;
    for (int32_t p = 0; p < view->pipelines; p++) {
        if (!culm_view_whole(view, p)) {
            continue;
        }
        int32_t lanes = 0;
        for (int32_t l = 0; l < view->lanes; l++) {
            lanes += view->lane_pipeline[l] == p;
        }
        if (best < 0 || lanes < best_lanes) {
            best = p;
            best_lanes = lanes;
        }
    }
    return best;
}

/* At a boundary: whole pipelines get consecutive runs of lanes, as even as they come. */
static void assign_lanes_fresh(struct culm_view *view) {
    int32_t whole[CULM_MAX_PIPELINES], count = 0;
    for (int32_t p = 0; p < view->pipelines; p++) {
        if (culm_view_whole(view, p)) {
            whole[count++] = p;
        }
    }
    for (int32_t l = 0; l < view->lanes; l++) {
        view->lane_pipeline[l] = count ? whole[(int64_t)l * count / view->lanes] : -1;
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
        for (int32_t l = 0; l < view->lanes; l++) {
            if (view->lane_pipeline[l] < 0) {
                view->lane_pipeline[l] = least_loaded(view);
                moved = true;
            }
        }
        moved |= !before->frc;
    } else {
        assign_lanes_fresh(view);
    }
    view->frc = shape->redundancy == CULM_REDUNDANCY_EAGER && !moved;
}

void culm_view_assign(struct culm_view *view, const struct culm_run_shape *shape,
                      const struct culm_view *before) {
    view->pipelines = shape->pipelines;
    view->stages = shape->stages;
    view->lanes = shape->lanes;
    assign_roles(view, shape, before);
    if (before && !any_whole(view)) {
        /* No pipeline is left to take the lanes: the iteration starts over in whatever can be made
         * whole. */
        assign_roles(view, shape, NULL);
    }
    culm_view_deal(view, shape, before);
}
