/* Names of phases. See phase.h. */
#include "interval/phase.h"

static const char *const names[CULM_GNN_PHASE_COUNT] = {
    "load",          "gather",    "scatter", "apply",  "edge",
    "push-gradient", "push-rows", "update",  "commit", "checkpoint"};

const char *culm_gnn_phase_name(size_t phase) {
    return phase < CULM_GNN_PHASE_COUNT ? names[phase] : NULL;
}
