/*
 * What the protocol is told of a run besides its shape: waits, limits, how redundant it is. Whoever
 * starts a run fills them from where its user wrote them; every value is used as it is.
 *
 * Thread: constant.
 */
#ifndef CULM_PIPELINE_SETTINGS_H
#define CULM_PIPELINE_SETTINGS_H

#include "crew/settings.h"

/* Whether a stage has a shadow: a second node that holds its state, and (eager) runs its forward
 * tasks ahead of a loss. */
enum culm_redundancy { CULM_REDUNDANCY_NONE, CULM_REDUNDANCY_LAZY, CULM_REDUNDANCY_EAGER };

extern const char *const culm_redundancy_names[];                  /* base/words.h */
const char *culm_redundancy_name(enum culm_redundancy redundancy); /* "none", "lazy", "eager" */

struct culm_pipeline_settings {
    struct culm_crew_settings crew;
    int64_t checkpoint_every; /* steps; 0: only at the end */
};

#endif
