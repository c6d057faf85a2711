/* Names of phases. See phase.h. */
#include "pipeline/phase.h"

static const char *const phase_name[CULM_PHASE_COUNT] = {
    [CULM_PHASE_LOAD] = "load",         [CULM_PHASE_FORWARD] = "forward",
    [CULM_PHASE_BACKWARD] = "backward", [CULM_PHASE_FRC] = "frc",
    [CULM_PHASE_SEND] = "send",         [CULM_PHASE_REDUCE] = "reduce",
    [CULM_PHASE_COMMIT] = "commit",     [CULM_PHASE_STEP] = "step",
    [CULM_PHASE_TRANSFER] = "transfer", [CULM_PHASE_CHECKPOINT] = "checkpoint",
};

const char *culm_phase_name(size_t phase) {
    return phase < CULM_PHASE_COUNT ? phase_name[phase] : NULL;
}

bool culm_phase_has_part(enum culm_phase phase) {
    return phase == CULM_PHASE_FORWARD || phase == CULM_PHASE_BACKWARD || phase == CULM_PHASE_FRC ||
           phase == CULM_PHASE_SEND;
}
