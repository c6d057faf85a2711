/*
 * Training on a graph, as people see it: what its events show on a terminal and add to a summary, and
 * the lines of the summary. See training.h, which is another job's.
 */
#ifndef CULM_REPORT_GNN_H
#define CULM_REPORT_GNN_H

#include "report/summary.h"
#include "report/terminal.h"

extern const struct culm_terminal_row *const culm_terminal_gnn;
extern const struct culm_summary_job culm_summary_gnn;

#endif
