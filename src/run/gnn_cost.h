/*
 * What a run on a graph has cost, by its events. Thread: the caller's.
 */
#ifndef CULM_RUN_GNN_COST_H
#define CULM_RUN_GNN_COST_H

#include "gnn/bill.h"
#include "gnn/prices.h"

/* Reads the events of the run in `dir` again; all that it has done until now, resumed or not, as an
 * earlier part of what follows: `before_usd`, `before_s`, and `role_usd`, `node_s` and `starts` of all.
 * A run that has no events yet has cost nothing. */
enum culm_status culm_gnn_cost_read(const char *dir, const struct culm_gnn_prices *prices,
                                    struct culm_gnn_bill *ret_bill, struct culm_error *error);

#endif
