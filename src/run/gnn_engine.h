/*
 * The engines that start workers of a run on a graph, by the configuration's key `engine`. Each
 * makes a struct culm_engine (cluster/engine.h), which the launcher's agent asks for workers. With
 * `local` there is none, and workers are child processes of the launcher.
 *
 * Workers of an engine are newcomers in the role CULM_GNN_WORKER (gnn_node.h). The engine does not
 * change a bit of the results. Thread: the caller's.
 */
#ifndef CULM_RUN_GNN_ENGINE_H
#define CULM_RUN_GNN_ENGINE_H

#include "cluster/engine.h"
#include "gnn/config.h"

/* Makes the configured engine; *ret_engine is NULL for `local`. `listen`: the address that workers
 * are to connect to; NULL: there is none. Makes all checks that can be made before anything is
 * written or started. `config` is borrowed during the call. CULM_ERR_CONFIG; otherwise as the
 * engine's own constructor. */
enum culm_status culm_gnn_engine_new(const struct culm_gnn_config *config, const char *listen,
                                     struct culm_engine **ret_engine, struct culm_error *error);

#endif
