/* What a node of a run on a graph is there for. Thread: constant. */
#ifndef CULM_GNN_ROLE_H
#define CULM_GNN_ROLE_H

#include <stdint.h>

enum culm_gnn_role { CULM_GNN_SERVER, CULM_GNN_PARAMETER, CULM_GNN_WORKER, CULM_GNN_ROLES };

/* "server", "parameter", "worker"; NULL: there is no such role. */
const char *culm_gnn_role_name(uint32_t role);

#endif
