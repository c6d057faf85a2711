/*
 * What a run in a directory is at, from its events alone, and stopping it. Nothing here prints. Thread: the caller's.
 */
#ifndef CULM_RUN_STATUS_H
#define CULM_RUN_STATUS_H

#include "base/file.h"

#include <jansson.h>

/* A run of `culm train` or `culm gnn train`:
 *
 *     {"run", "job", "state": "waiting|running|parked|stopping|done|stopped", "term", "view", "step", "steps", "loss",
 *      "pipelines", "stages", "store": "none", "stored", "copies": [per stage],
 *      "agents": [{"host", "pid", "zone", "leads", "stands"}],
 *      "nodes": [{"node", "role", "host", "zone", "pid", "state": "member|standby|leaving", "pipeline", "stage", "holds": [stages]}]}
 *
 * What a job does not have, or is not known, is null; nodes are those of a run at work. "term" counts launches, "stored" is the newest checkpoint that
 * `checkpoint.to` has. The caller's. CULM_ERR_NOT_FOUND: no run is there; CULM_ERR_CONFIG: it is of another job. */
enum culm_status culm_run_status(const char *dir, json_t **ret_status, struct culm_error *error);

/* Runs at a store of keys (run/cluster.h); both borrowed. */
struct culm_run_place {
    const char *store, *name;
};
/* The same of such a run: "term" is that of who leads, "store" "ok", and "agents" are all that may lead, by the address at which they
 * would: {"host", "pid": null, "zone": null, "leads", "stands"}. What only who leads knows is null where the token file is NULL, or
 * nobody leads. `scratch`: a file for its events, "" at first; the caller removes it. CULM_ERR_NOT_FOUND: there is no such run;
 * CULM_ERR_IO: the store does not answer. */
enum culm_status culm_run_status_at(const struct culm_run_place *place, const char *token_file,
                                    char scratch[CULM_PATH_MAX], json_t **ret_status,
                                    struct culm_error *error);
/* All runs of a store: [{"name", "run", "job", "state": "waiting|running|stopped|done", "term", "leader", "nodes"}], by name. The caller's. */
enum culm_status culm_run_list(const char *store, json_t **ret_runs, struct culm_error *error);
/* Asks whoever leads it to stop, and waits until it is over; *ret_done: it was done. CULM_ERR_NOT_FOUND: nobody is at work. */
enum culm_status culm_run_stop_at(const struct culm_run_place *place, bool *ret_done,
                                  struct culm_error *error);

/* Asks the launcher at work in `dir`, of whatever job, to stop, as SIGTERM does, and waits until it has ended.
 * CULM_ERR_NOT_FOUND: none is at work there. */
enum culm_status culm_run_stop(const char *dir, int64_t *ret_pid, struct culm_error *error);

#endif
