/*
 * How long the longest task of a plan may take on this machine: a guess from operations counted and
 * a rate measured, for a warning before the run. Thread: any.
 */
#ifndef CULM_TRAIN_ESTIMATE_H
#define CULM_TRAIN_ESTIMATE_H

#include "train/plan.h"

/* Single precision operations a second of a kernel on one thread; 0: cannot tell. Milliseconds. */
double culm_estimate_measure(void);
/* The longest task of one micro-batch, in seconds, by workers who share `processors` at `rate` a
 * thread. The stage that it belongs to in ret_stage, whether it is backward in ret_backward. */
double culm_estimate_longest_s(const struct culm_plan *plan, int64_t threads, int64_t processors,
                               double rate, int32_t *ret_stage, bool *ret_backward);
/* A sentence when that is longer than cluster.stuck_ms here; else "". */
#define CULM_ESTIMATE_WARNING_SIZE 320
void culm_estimate_warning(const struct culm_plan *plan, const struct culm_train_config *config,
                           char ret_text[CULM_ESTIMATE_WARNING_SIZE]);

#endif
