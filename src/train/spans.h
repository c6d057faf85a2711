/*
 * Settings that a resumed run may be given, by step: the optimizer, its schedule, and the number of
 * steps that the schedule counts on.
 *
 * A step's rate is a pure function of its number, so that whoever does it again does it as it was,
 * though the run has been given other settings since (store/lineage.h). Thread: constant after reading.
 */
#ifndef CULM_TRAIN_SPANS_H
#define CULM_TRAIN_SPANS_H

#include "store/lineage.h"
#include "train/config.h"

struct culm_train_span {
    int64_t after; /* the steps after this one, up to the next span's */
    int64_t steps;
    struct culm_optimizer_config optimizer;
    struct culm_schedule_config schedule;
};

struct culm_train_spans {
    struct culm_train_span *span; /* [count], ascending; of the first `after` is 0 */
    size_t count;
};

/* No span for a lineage without settings. CULM_ERR_CONFIG: a configuration in it is none;
 * CULM_ERR_MEMORY. */
enum culm_status culm_train_spans_read(const struct culm_lineage *lineage,
                                       struct culm_train_spans *ret_spans,
                                       struct culm_error *error);
void culm_train_spans_release(struct culm_train_spans *spans); /* fine on a zeroed one */

/* What the step (1, 2, ...) is done with: what config->spans says, else the configuration itself. */
struct culm_train_span culm_train_span_of(const struct culm_train_config *config, int64_t step);

/* Learning rate of a step by its schedule. */
double culm_train_span_lr(const struct culm_train_span *span, int64_t step);

/* Whether every step has been, or will be, done with the same settings: a longer run with a constant
 * rate, for instance. Settings that come after the last step count for nothing. If not, ret_why is what was changed: "steps", "optimizer" or
 * "schedule". */
bool culm_train_spans_exact(const struct culm_train_config *config, const char **ret_why);

#endif
