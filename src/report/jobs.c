/* The jobs whose runs can be looked at again. A new one is a row, and a table of its own beside. */
#include "report/gnn.h"
#include "report/merge.h"
#include "report/training.h"

const struct culm_summary_job *const culm_summary_jobs[] = {
    &culm_summary_training, &culm_summary_gnn, &culm_summary_merge, &culm_summary_edge, NULL};
