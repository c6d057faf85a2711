/* The jobs whose runs can be reported on. A new job adds an entry here, and tables of its own. */
#include "report/gnn.h"
#include "report/merge.h"
#include "report/training.h"

const struct culm_summary_job *const culm_summary_jobs[] = {
    &culm_summary_training, &culm_summary_gnn, &culm_summary_merge, &culm_summary_edge, NULL};
