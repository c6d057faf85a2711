/*
 * What the protocol is told of a run besides its shape: waits, limits, how redundant it is. Whoever
 * starts a run fills them from where its user wrote them; every value is used as it is.
 *
 * Thread: constant.
 */
#ifndef CULM_PIPELINE_SETTINGS_H
#define CULM_PIPELINE_SETTINGS_H

#include <stdint.h>

/* Whether a stage has a shadow: a second node that holds its state, and (eager) runs its forward
 * tasks ahead of a loss. */
enum culm_redundancy { CULM_REDUNDANCY_NONE, CULM_REDUNDANCY_LAZY, CULM_REDUNDANCY_EAGER };

extern const char *const culm_redundancy_names[];                  /* base/words.h */
const char *culm_redundancy_name(enum culm_redundancy redundancy); /* "none", "lazy", "eager" */

struct culm_pipeline_settings {
    int64_t heartbeat_ms;     /* between two signs of life of a node */
    int64_t suspect_ms;       /* of silence, after which a node is put out of the view */
    int64_t kill_suspect_ms;  /* from then until its process is killed */
    int64_t stuck_ms;         /* how long a task may take, until some have taken longer */
    int64_t replace_ms;       /* from a loss until a replacement is asked for; -1: never */
    int64_t join_ms;          /* that a commit waits for copies under way */
    int64_t wait_ms;          /* that a run without enough workers waits for more */
    int64_t max_nodes;        /* alive at once */
    int64_t checkpoint_every; /* steps; 0: only at the end */
};

#endif
