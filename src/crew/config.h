/*
 * What a configuration says of a crew: the section `cluster`, whose keys mean the same in every job that has nodes.
 * How many nodes there may be is the job's: it fills in `max_nodes` and checks it.
 *
 * Thread: constant after loading.
 */
#ifndef CULM_CREW_CONFIG_H
#define CULM_CREW_CONFIG_H

#include "base/config.h"
#include "crew/settings.h"

/* No job allows more nodes. */
#define CULM_CREW_NODES_MAX 4096

struct culm_crew_config {
    int64_t heartbeat_ms, suspect_ms, kill_suspect_ms, replace_ms, join_ms, wait_ms, stuck_ms,
        orphan_ms, lease_ms, candidates, store_ms, slice_mb, copy_mb_per_s, max_nodes;
};
extern const struct culm_config_table culm_crew_config_table;

struct culm_crew_settings culm_crew_config_settings(const struct culm_crew_config *config);

/* What its processes are to do: how often the launcher shows that it lives, which is often enough for none of them
 * to take it for gone; how long a connection is tried, which is longer than it takes the leader to see that the
 * other end is frozen; and after what silence of the launcher they end. */
int64_t culm_crew_config_alive_ms(const struct culm_crew_config *config);
int64_t culm_crew_config_dial_ms(const struct culm_crew_config *config);
int64_t culm_crew_config_orphan_ms(const struct culm_crew_config *config);

#endif
