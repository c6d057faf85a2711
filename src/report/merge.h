/*
 * How people see merging, and runs at the edge of what was merged: what each event shows on a
 * terminal (of merging alone) and adds to a summary, and the lines of that summary. training.h has
 * the same for another job.
 */
#ifndef CULM_REPORT_MERGE_H
#define CULM_REPORT_MERGE_H

#include "report/summary.h"
#include "report/terminal.h"

extern const struct culm_terminal_row *const culm_terminal_merge;
extern const struct culm_summary_job culm_summary_merge, culm_summary_edge;

#endif
