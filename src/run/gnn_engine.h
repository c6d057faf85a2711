/*
 * Where the workers of a run on a graph are started: the configuration's `engine`, as a table of those
 * that there are. Each makes a struct culm_engine (cluster/engine.h), which the launcher's agent asks
 * for workers; `local` makes none, and workers are processes of the launcher.
 *
 * Whatever the engine, a worker is a newcomer of the role CULM_GNN_WORKER (gnn_node.h), and the bits
 * of a run are the same.
 */
#ifndef CULM_RUN_GNN_ENGINE_H
#define CULM_RUN_GNN_ENGINE_H

#include "cluster/engine.h"
#include "gnn/config.h"

/* The engine of the configuration; `listen`: where workers are to call, NULL: nowhere. Finds out all
 * that can be known to be wrong before something is written or started. *ret_engine may be NULL, and
 * borrows the configuration. CULM_ERR_CONFIG: one line. */
enum culm_status culm_gnn_engine_new(const struct culm_gnn_config *config, const char *listen,
                                     struct culm_engine **ret_engine, struct culm_error *error);

#endif
