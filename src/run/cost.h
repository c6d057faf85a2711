/* What training takes in one process; see models.h. Thread: any. */
#ifndef CULM_RUN_COST_H
#define CULM_RUN_COST_H

#include "graph/stage.h"
#include "run/models.h"

/* Parameters with their two moments, gradients, activations, scratch: of a whole model as a stage. */
size_t culm_cost_memory(const struct culm_stage_info *info);

#endif
