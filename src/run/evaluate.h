/*
 * Loss, accuracy and perplexity of a model on samples that it has not been trained on.
 *
 * Thread: the caller's.
 */
#ifndef CULM_RUN_EVALUATE_H
#define CULM_RUN_EVALUATE_H

#include "run/commands.h"
#include "run/subject.h"

struct culm_evaluate_options {
    const char *const *paths; /* all samples of these files instead of the held-out ones */
    size_t path_count;
    int64_t samples; /* at most so many; 0: all */
    int threads;
};

/* The configuration's batch.micro samples at a time, in the order of the data. CULM_ERR_CONFIG when
 * nothing is held out and no paths are given. */
enum culm_status culm_evaluate(struct culm_subject *subject,
                               const struct culm_evaluate_options *options,
                               struct culm_evaluation *ret_evaluation, struct culm_error *error);

#endif
