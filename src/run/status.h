/*
 * What a run in a directory is at, from its events alone, and stopping it. Nothing here prints. Thread: the caller's.
 */
#ifndef CULM_RUN_STATUS_H
#define CULM_RUN_STATUS_H

#include "base/status.h"

#include <jansson.h>

/* A run of `culm train` or `culm gnn train`:
 *
 *     {"run", "job", "state": "waiting|running|parked|stopping|done|stopped", "term", "view", "step", "steps", "loss",
 *      "pipelines", "stages", "store": "none", "stored", "copies": [per stage],
 *      "agents": [{"host", "pid", "zone", "leads", "stands"}],
 *      "nodes": [{"node", "role", "host", "zone", "pid", "state": "member|standby", "pipeline", "stage", "holds": [stages]}]}
 *
 * What a job does not have, or is not known, is null; nodes are those of a run at work. "term" counts launches, "stored" is the newest checkpoint that
 * `checkpoint.to` has. The caller's. CULM_ERR_NOT_FOUND: no run is there; CULM_ERR_CONFIG: it is of another job. */
enum culm_status culm_run_status(const char *dir, json_t **ret_status, struct culm_error *error);

/* Asks the launcher at work in `dir`, of whatever job, to stop, as SIGTERM does, and waits until it has ended.
 * CULM_ERR_NOT_FOUND: none is at work there. */
enum culm_status culm_run_stop(const char *dir, int64_t *ret_pid, struct culm_error *error);

#endif
