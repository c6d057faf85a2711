/*
 * The phases of a node's work, which are its fault points (net/world.h): `step` is the iteration
 * and `part` the micro-batch, where the phase has one. Users name them in `--fault`.
 *
 * Thread: any.
 */
#ifndef CULM_PIPELINE_PHASE_H
#define CULM_PIPELINE_PHASE_H

#include <stdbool.h>
#include <stddef.h>

enum culm_phase {
    CULM_PHASE_LOAD,
    CULM_PHASE_FORWARD,
    CULM_PHASE_BACKWARD,
    CULM_PHASE_FRC,
    CULM_PHASE_SEND, /* a frame with a payload is given to send() next */
    CULM_PHASE_REDUCE,
    CULM_PHASE_COMMIT,
    CULM_PHASE_STEP,
    CULM_PHASE_TRANSFER,
    CULM_PHASE_CHECKPOINT,
    CULM_PHASE_COUNT,
};

const char *culm_phase_name(size_t phase);       /* "load", ...; NULL after the last */
bool culm_phase_has_part(enum culm_phase phase); /* its points tell the micro-batch */

#endif
