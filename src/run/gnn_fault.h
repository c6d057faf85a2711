/*
 * `--fault SPEC` of `culm gnn train`: a fault that a node injects into itself.
 *
 *     node=server:K|parameter:K|worker:K,epoch=E[,interval=I][,phase=P]
 *     [,how=kill|stop|exit|stuck][,for_ms=N]                              (in one line)
 *
 * K numbers the nodes of a role in the order in which they were started, replacements included. The
 * default of `phase` is `apply` for a server or a worker, and `update` for a parameter server; that
 * of `how` is `kill`; without `for_ms`, a stopped node is never continued. Thread: any.
 */
#ifndef CULM_RUN_GNN_FAULT_H
#define CULM_RUN_GNN_FAULT_H

#include "cluster/agent.h"
#include "cluster/fault.h"
#include "gnn/config.h"
#include "interval/leader.h"

struct culm_gnn_fault_spec {
    uint32_t role; /* enum culm_gnn_role */
    int32_t index;
    struct culm_fault_point point; /* part -1: any interval */
    enum culm_fault_how how;
    int64_t for_ms; /* 0: forever */
};

/* CULM_ERR_CONFIG, `--fault 'SPEC': what is wrong; what is allowed`. */
enum culm_status culm_gnn_fault_parse(const char *text, struct culm_gnn_fault_spec *ret_spec,
                                      struct culm_error *error);
/* CULM_ERR_CONFIG if the fault can never fire with this configuration. */
enum culm_status culm_gnn_fault_check(const struct culm_gnn_fault_spec *spec, const char *text,
                                      const struct culm_gnn_config *config,
                                      struct culm_error *error);

#endif
