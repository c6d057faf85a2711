/* The lane tree and the run's constants. */
#include "pipeline/layout.h"

#include <stdlib.h>

static int32_t grow(struct culm_lane_tree *tree, int32_t lo, int32_t hi, int32_t parent) {
    int32_t at = tree->count++;
    tree->node[at] = (struct culm_lane_node){lo, hi, -1, -1, parent};
    if (hi - lo == 1) {
        tree->leaf[lo] = at;
        return at;
    }
    int32_t middle = lo + (hi - lo + 1) / 2;
    tree->node[at].left = grow(tree, lo, middle, at);
    tree->node[at].right = grow(tree, middle, hi, at);
    return at;
}

void culm_lane_tree_init(struct culm_lane_tree *tree, int32_t lanes) {
    *tree = (struct culm_lane_tree){.lanes = lanes};
    grow(tree, 0, lanes, -1);
}

bool culm_lane_tree_covers(const struct culm_lane_tree *tree, int32_t ancestor, int32_t node) {
    return tree->node[ancestor].lo <= tree->node[node].lo &&
           tree->node[node].hi <= tree->node[ancestor].hi;
}

uint64_t culm_run_shape_first_sample(const struct culm_run_shape *shape, int64_t iteration,
                                     int32_t micro) {
    return (uint64_t)(iteration - 1) * (uint64_t)shape->global_samples +
           (uint64_t)micro * (uint64_t)shape->micro_samples;
}

void culm_layout_release(struct culm_layout *layout) {
    for (int32_t s = 0; layout->stage && s < layout->stages; s++) {
        free((void *)layout->stage[s].params);
    }
    free(layout->stage);
    free(layout->grad);
    free(layout->param);
    *layout = (struct culm_layout){0};
}

const char *const culm_redundancy_names[] = {[CULM_REDUNDANCY_NONE] = "none",
                                             [CULM_REDUNDANCY_LAZY] = "lazy",
                                             [CULM_REDUNDANCY_EAGER] = "eager",
                                             NULL};

const char *culm_redundancy_name(enum culm_redundancy redundancy) {
    return culm_redundancy_names[redundancy];
}
