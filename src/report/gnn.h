/*
 * How people see training on a graph: what each of its events shows on a terminal and adds to a
 * summary, and the lines of that summary. training.h has the same for another job.
 */
#ifndef CULM_REPORT_GNN_H
#define CULM_REPORT_GNN_H

#include "report/summary.h"
#include "report/terminal.h"

extern const struct culm_terminal_row *const culm_terminal_gnn;
extern const struct culm_summary_job culm_summary_gnn;

#endif
