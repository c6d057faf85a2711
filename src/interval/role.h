/* The roles of nodes in a run on a graph. Thread: any. */
#ifndef CULM_INTERVAL_ROLE_H
#define CULM_INTERVAL_ROLE_H

#include <stdint.h>

enum culm_gnn_role { CULM_GNN_SERVER, CULM_GNN_PARAMETER, CULM_GNN_WORKER, CULM_GNN_ROLES };

/* "server", "parameter" or "worker"; NULL if there is no such role. */
const char *culm_gnn_role_name(uint32_t role);

#endif
