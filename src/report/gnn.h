/*
 * How people see training on a graph: what each of its events shows on a terminal and adds to a
 * summary, and the lines of that summary. training.h has the same for another job.
 */
#ifndef CULM_REPORT_GNN_H
#define CULM_REPORT_GNN_H

#include "report/summary.h"
#include "report/terminal.h"

/* What its events tell beside what every summary has. Shares are NaN until it is done, and where there
 * are no such vertices. */
struct culm_gnn_figures {
    double valid, test, test_at_best_valid, usd;
    int64_t lost_servers, lost_parameter_servers, lost_workers;
};
struct culm_gnn_figures culm_gnn_figures_of(const struct culm_summary *summary);

extern const struct culm_terminal_row *const culm_terminal_gnn;
extern const struct culm_summary_job culm_summary_gnn;

#endif
