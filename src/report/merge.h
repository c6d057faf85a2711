/*
 * Merging, and running what was merged, as people see them: what events show on a terminal and add to a
 * summary, and the lines of the summary. See training.h, which is another job's.
 */
#ifndef CULM_REPORT_MERGE_H
#define CULM_REPORT_MERGE_H

#include "report/summary.h"
#include "report/terminal.h"

extern const struct culm_terminal_row *const culm_terminal_merge;
extern const struct culm_summary_job culm_summary_merge, culm_summary_edge;

#endif
