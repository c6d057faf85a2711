/*
 * `--fault SPEC` of `culm gnn train`: what a node does to itself, and where.
 *
 *     node=server:K|parameter:K|worker:K,epoch=E[,interval=I][,phase=P][,how=kill|stop|exit|stuck][,for_ms=N]
 *
 * K counts the nodes of a role in the order in which they were started, replacements included.
 * Without `phase` it is `apply` of a server or a worker and `update` of a parameter server; without
 * `how` `kill`; without `for_ms` a stop is for good.
 */
#ifndef CULM_RUN_GNN_FAULT_H
#define CULM_RUN_GNN_FAULT_H

#include "cluster/agent.h"
#include "cluster/fault.h"
#include "gnn/config.h"
#include "gnn/leader.h"

struct culm_gnn_fault_spec {
    uint32_t role; /* enum culm_gnn_role */
    int32_t index;
    struct culm_fault_point point; /* part -1: any interval */
    enum culm_fault_how how;
    int64_t for_ms; /* 0: for good */
};

/* CULM_ERR_CONFIG, `--fault 'SPEC': what is wrong; what is allowed`. */
enum culm_status culm_gnn_fault_parse(const char *text, struct culm_gnn_fault_spec *ret_spec,
                                      struct culm_error *error);
/* CULM_ERR_CONFIG when it can never fire under `config`. */
enum culm_status culm_gnn_fault_check(const struct culm_gnn_fault_spec *spec, const char *text,
                                      const struct culm_gnn_config *config,
                                      struct culm_error *error);

#endif
