/*
 * Computes what a run on a graph has cost from its events. Thread: any.
 */
#ifndef CULM_RUN_GNN_COST_H
#define CULM_RUN_GNN_COST_H

#include "gnn/prices.h"
#include "interval/bill.h"

/* Makes the bill of everything that the run in `dir` has done so far, with all its resumptions, as
 * earlier parts of a run: in before_usd, before_s and role_usd; node_s and starts are totals too. A
 * run without events has cost nothing. `skim`: lines that are no events are passed over. */
enum culm_status culm_gnn_cost_read(const char *dir, const struct culm_gnn_prices *prices,
                                    bool skim, struct culm_gnn_bill *ret_bill,
                                    struct culm_error *error);

#endif
