/*
 * Training, as people see it: what its events show on a terminal and add to a summary, and the lines
 * of the summary. What shows and adds (terminal.c, summary.c) knows none of it; another job has
 * tables of its own.
 */
#ifndef CULM_REPORT_TRAINING_H
#define CULM_REPORT_TRAINING_H

#include "report/summary.h"
#include "report/terminal.h"

extern const struct culm_terminal_row *const culm_terminal_training;
extern const struct culm_summary_job culm_summary_training;

#endif
