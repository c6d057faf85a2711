/*
 * A training run as an object: what is behind culm_training_* of culm.h, and what only the command
 * adds. Everything that can be wrong is found by culm_training_new, or before anything is written.
 */
#ifndef CULM_RUN_TRAINING_H
#define CULM_RUN_TRAINING_H

#include "run/config.h"
#include "run/launch.h"

#include <culm.h>

/* What `culm train` can ask for besides. All borrowed until culm_training_free. */
struct culm_training_extras {
    const char *const *faults; /* specifications (fault.h) */
    size_t fault_count;
    const char *trace_path; /* NULL: none */
    double time_scale;      /* 0: 1 */
    bool dry;               /* culm_training_plan alone: a run may be in `dir` */
};

/* culm_training_new with extras; NULL: none. */
enum culm_status culm_training_make(const struct culm_config *config,
                                    const struct culm_training_options *options,
                                    const struct culm_training_extras *extras,
                                    struct culm_training **ret_training, struct culm_error *error);
/* As given and completed; lives as long as the training. */
const struct culm_train_config *culm_training_config(const struct culm_training *training);
/* Sinks of launch.h, borrowed until it has run; they replace the function of the options. */
void culm_training_watch(struct culm_training *training, struct culm_sink *log,
                         struct culm_sink *screen);
/* culm_training_run, but the exit code of the command, and an error without a text where there is
 * nothing to say. */
int culm_training_go(struct culm_training *training, struct culm_error *ret_error);
/* Of what was run; NULL: nothing was. */
const struct culm_launch_result *culm_training_result(const struct culm_training *training);

#endif
