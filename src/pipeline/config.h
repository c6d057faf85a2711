/*
 * What a configuration says of the protocol: the sections `batch` and `cluster`. Whoever builds actors
 * makes struct culm_pipeline_settings and struct culm_run_shape of them.
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

struct culm_cluster_config {
    int64_t heartbeat_ms, suspect_ms, kill_suspect_ms, replace_ms, join_ms, wait_ms, stuck_ms,
        orphan_ms, max_nodes;
};
extern const struct culm_config_table culm_cluster_config_table;

#endif
