/*
 * Merging, and running what was merged, as their summaries tell it: what events add, and the lines. See
 * training.h, which is another job's.
 */
#ifndef CULM_REPORT_MERGE_H
#define CULM_REPORT_MERGE_H

#include "report/summary.h"

extern const struct culm_summary_job culm_summary_merge, culm_summary_edge;

#endif
