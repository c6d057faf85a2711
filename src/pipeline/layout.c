/* A run's constants, and what follows from them alone. */
#include "pipeline/layout.h"

#include <stdlib.h>

uint64_t culm_run_shape_first_sample(const struct culm_run_shape *shape, int64_t iteration,
                                     int32_t micro) {
    return (uint64_t)(iteration - 1) * (uint64_t)shape->global_samples +
           (uint64_t)micro * (uint64_t)shape->micro_samples;
}

int32_t culm_layout_reducers(const struct culm_layout *layout, int32_t stage, int32_t pipelines) {
    const size_t bytes = layout->stage[stage].grad_bytes * (size_t)pipelines;
    const size_t shares = (bytes + CULM_REDUCER_BYTES - 1) / CULM_REDUCER_BYTES;
    const size_t reducers = shares > CULM_REDUCERS_MIN ? shares : CULM_REDUCERS_MIN;
    return reducers < (size_t)pipelines ? (int32_t)reducers : pipelines;
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
