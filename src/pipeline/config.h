/*
 * What a configuration says of the protocol: the section `batch`. Whoever builds actors makes struct
 * culm_run_shape of it.
 *
 * Thread: constant after loading.
 */
#ifndef CULM_PIPELINE_CONFIG_H
#define CULM_PIPELINE_CONFIG_H

#include "base/config.h"

/* What messages of a bounded size can take. */
#define CULM_PIPELINE_MAX_MICROS 4096

struct culm_batch_config {
    int64_t global, micro, lanes; /* in samples; lanes a count */
};
extern const struct culm_config_table culm_batch_config_table;

#endif
