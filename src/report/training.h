/*
 * How people see training: what each of its events shows on a terminal and adds to a summary, and
 * the lines of that summary. terminal.c and summary.c know nothing of training but these tables;
 * every other job has tables of its own.
 */
#ifndef CULM_REPORT_TRAINING_H
#define CULM_REPORT_TRAINING_H

#include "report/summary.h"
#include "report/terminal.h"

extern const struct culm_terminal_row *const culm_terminal_training;
extern const struct culm_summary_job culm_summary_training;

#endif
